//! Intents: exposed services, their clients, and the providers of their records, as declared over the API.
//!
//! The objects of ONAP's traffic controller and of EMCO's DTC in one form. Steering uses [`Gslb`], weights and the networks
//! of clients. The other fields are stored for the service mesh.

mod groups;
mod gslb;
mod inbound;
mod others;

use std::fmt;

pub use groups::{
    CompositeApp, Controller, DeploymentGroup, DnsUpdateRecord, Project, SetEntry, TrafficGroup, TrafficSet,
};
pub use gslb::{Gslb, GslbMember, ProbeHint, ProbeKind};
pub use inbound::{
    AccessRule, Certificates, HashKey, Inbound, LoadBalancing, Protocol, ServiceAccount, ServiceMesh, SimpleBalancing,
    TlsMode, Traffic,
};
pub use others::{
    AccessAction, AccessPoint, Client, ClientSecurity, Compound, DnsResolution, Outbound, OutboundServer, UserAccess,
};

/// The name of an object of the intent API.
///
/// 1 to 128 letters, digits, `-`, `_`, `.`; the first and last a letter or digit (EMCO's rule).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentName(String);

impl IntentName {
    /// Largest number of characters.
    pub const LENGTH_MAX: usize = 128;

    /// Parses a name.
    pub fn new(text: &str) -> Result<Self, IntentNameError> {
        let bytes = text.as_bytes();
        let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        match (bytes.first(), bytes.last()) {
            _ if bytes.len() > Self::LENGTH_MAX => Err(IntentNameError::Long(bytes.len())),
            (Some(first), Some(last))
                if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner) =>
            {
                Ok(Self(text.to_owned()))
            }
            (None, _) => Err(IntentNameError::Empty),
            _ => Err(IntentNameError::Character(text.to_owned())),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IntentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IntentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Error of parsing a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentNameError {
    /// Empty.
    #[error("the name is empty; give 1 to 128 letters, digits, '-', '_', '.'")]
    Empty,
    /// Too many characters.
    #[error("the name has {0} characters, over the limit of 128")]
    Long(usize),
    /// A character that is not allowed, or not allowed at an end.
    #[error(
        "the name {0:?} has a character that is not allowed; use letters, digits, '-', '_', '.', with a letter or digit at both ends"
    )]
    Character(String),
}

/// Name and description of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its name, unique among its siblings.
    pub name: IntentName,
    /// Its purpose; at most 1,024 characters.
    pub description: String,
    /// Free text; at most 512 characters.
    pub user_data1: String,
    /// Free text; at most 512 characters.
    pub user_data2: String,
}

impl Metadata {
    /// Returns the metadata of an object with only a name.
    pub fn new(name: IntentName) -> Self {
        Self { name, description: String::new(), user_data1: String::new(), user_data2: String::new() }
    }
}

/// An object of the intent API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a request holds only one at a time")]
pub enum Intent {
    /// A permission of clients of an inbound intent.
    AccessPoint(AccessPoint),
    /// A client of an inbound intent.
    Client(Client),
    /// A version of a composite app.
    CompositeApp(CompositeApp),
    /// Several inbound intents that share a name.
    Compound(Compound),
    /// A controller of the orchestrator.
    Controller(Controller),
    /// A deployment-intent-group.
    DeploymentGroup(DeploymentGroup),
    /// A provider to which records are published.
    DnsUpdateRecord(DnsUpdateRecord),
    /// A service that is exposed, alone or as part of a compound.
    Inbound(Inbound),
    /// A use of an external service.
    Outbound(Outbound),
    /// The server of an outbound intent.
    OutboundServer(OutboundServer),
    /// A project.
    Project(Project),
    /// A traffic group.
    TrafficGroup(TrafficGroup),
    /// A list of intents.
    TrafficSet(TrafficSet),
}

impl Intent {
    /// Returns its name and description.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::AccessPoint(intent) => &intent.metadata,
            Self::Client(intent) => &intent.metadata,
            Self::CompositeApp(intent) => &intent.metadata,
            Self::Compound(intent) => &intent.metadata,
            Self::Controller(intent) => &intent.metadata,
            Self::DeploymentGroup(intent) => &intent.metadata,
            Self::DnsUpdateRecord(intent) => &intent.metadata,
            Self::Inbound(intent) => &intent.metadata,
            Self::Outbound(intent) => &intent.metadata,
            Self::OutboundServer(intent) => &intent.metadata,
            Self::Project(intent) => &intent.metadata,
            Self::TrafficGroup(intent) => &intent.metadata,
            Self::TrafficSet(intent) => &intent.metadata,
        }
    }

    /// Returns its private key, if it has one.
    pub fn private_key(&self) -> Option<&crate::Secret> {
        match self {
            Self::Inbound(intent) => intent.certificates.private_key.as_ref(),
            Self::OutboundServer(intent) => intent.certificates.private_key.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_name_is_rejected_with_its_reason() {
        assert_eq!(IntentName::new("blue-app_1.0").unwrap().as_str(), "blue-app_1.0");
        assert!(IntentName::new(&"a".repeat(128)).is_ok());
        assert_eq!(IntentName::new(&"a".repeat(129)), Err(IntentNameError::Long(129)));
        assert_eq!(IntentName::new(""), Err(IntentNameError::Empty));
        for odd in ["<>", "-a", "a.", "a b", "a+b", "é"] {
            assert!(matches!(IntentName::new(odd), Err(IntentNameError::Character(_))), "{odd}");
        }
    }
}
