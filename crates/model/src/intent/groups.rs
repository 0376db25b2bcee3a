//! What intents belong to (projects, apps, groups, sets), and the orchestrator's own objects.

use std::collections::BTreeMap;

use super::{IntentName, Metadata};
use crate::Secret;

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// What people say about it.
    pub metadata: Metadata,
}

/// A composite app in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeApp {
    /// What people say about it.
    pub metadata: Metadata,
    /// The version: the last name of its path.
    pub version: IntentName,
}

/// A deployment-intent-group; what it says is the orchestrator's affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentGroup {
    /// What people say about it.
    pub metadata: Metadata,
    /// The profile of its composite app.
    pub composite_profile: String,
    /// Its own version.
    pub version: String,
    /// The logical cloud it is deployed to.
    pub logical_cloud: String,
}

/// A traffic group: intents of one deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficGroup {
    /// What people say about it.
    pub metadata: Metadata,
}

/// Intents that belong together (ONAP's `traffic-intent-set`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficSet {
    /// What people say about it.
    pub metadata: Metadata,
    /// The intents, in order; each is there and cannot be deleted, unless it was declared ahead.
    pub set: Vec<SetEntry>,
}

/// One intent of a set, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetEntry {
    /// A compound intent.
    Compound(IntentName),
    /// An inbound intent.
    Inbound(IntentName),
    /// An outbound intent.
    Outbound(IntentName),
}

/// Where the records of a project are to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsUpdateRecord {
    /// What people say about it.
    pub metadata: Metadata,
    /// The provider: `powerdns`, `etcd`, `rfc2136`, …, or one that ExternalDNS knows.
    pub provider: String,
    /// The provider's parameters, as ExternalDNS names its flags, without dashes.
    pub parameters: BTreeMap<String, String>,
    /// Those of them that nobody is shown again: keys, passwords, tokens.
    pub secrets: BTreeMap<String, Secret>,
    /// What it is bound to, as pairs: `cluster` or `logicalCloud`, and a name.
    pub bind: Vec<(String, String)>,
}

/// A controller of the orchestrator (EMCO's `dtc-controllers`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// What people say about it.
    pub metadata: Metadata,
    /// Where it listens.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it does; EMCO: `action` or `placement`.
    pub kind: String,
    /// 1 to 1,000,000; the highest number goes first.
    pub priority: u32,
}
