//! Objects that intents belong to (apps, groups, sets), and objects of the orchestrator itself.

use std::collections::BTreeMap;

use super::IntentName;
use crate::Secret;

/// One version of a composite app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeApp {
    /// The version, the last segment of its path.
    pub version: IntentName,
}

/// A deployment-intent-group. Fairway stores its fields and does not use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentGroup {
    /// The profile of its composite app.
    pub composite_profile: String,
    /// Its own version.
    pub version: String,
    /// The logical cloud it is deployed to.
    pub logical_cloud: String,
}

/// A list of intents (ONAP's `traffic-intent-set`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSet {
    /// The intents, in order. A member of a set must exist and cannot be deleted, unless it was declared in advance.
    pub set: Vec<SetEntry>,
}

/// The name of an intent of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetEntry {
    /// A compound intent.
    Compound(IntentName),
    /// An inbound intent.
    Inbound(IntentName),
    /// An outbound intent.
    Outbound(IntentName),
}

/// A provider to which the records of a project are published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsUpdateRecord {
    /// The provider: `powerdns`, `etcd`, `rfc2136`, …, or one that ExternalDNS knows.
    pub provider: String,
    /// The provider's parameters, as ExternalDNS names its flags, without dashes.
    pub parameters: BTreeMap<String, ProviderParameter>,
    /// Its bindings: `cluster` or `logicalCloud`, each with a name.
    pub bind: Vec<(String, String)>,
}

/// A parameter of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderParameter {
    /// A parameter that is shown.
    Plain(String),
    /// A key, password or token, which is never shown.
    Secret(Secret),
}

impl ProviderParameter {
    /// Returns the value, secret or not.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(value) => value,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// A controller of the orchestrator (EMCO's `dtc-controllers`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its type; EMCO has `action` and `placement`.
    pub kind: String,
    /// Its priority, 1 to 1,000,000; the highest number is called first.
    pub priority: u32,
}
