//! Intents: what is exposed, by whom it may be used, and where records go, as declared over the API.
//!
//! The nouns of ONAP's traffic controller and of EMCO's DTC, in one form. Some fields steer answers ([`Gslb`], weights, clients'
//! networks); the others are kept for the mesh part, which renders them.

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
    /// Most characters.
    pub const LENGTH_MAX: usize = 128;

    /// Takes the text if it is a valid name.
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

/// Why a text is no name of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntentNameError {
    /// No character at all.
    #[error("the name is empty; give 1 to 128 letters, digits, '-', '_', '.'")]
    Empty,
    /// Too many characters.
    #[error("the name has {0} characters; 128 is the most")]
    Long(usize),
    /// A character that is not allowed, or not allowed at an end.
    #[error("the name {0:?} is not letters, digits, '-', '_', '.' with a letter or digit at both ends")]
    Character(String),
}

/// What people say about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its name, unique beside its siblings.
    pub name: IntentName,
    /// What it is for; at most 1,024 characters.
    pub description: String,
    /// Free text; at most 512 characters.
    pub user_data1: String,
    /// Free text; at most 512 characters.
    pub user_data2: String,
}

impl Metadata {
    /// Returns a name, and nothing said about it.
    pub fn new(name: IntentName) -> Self {
        Self { name, description: String::new(), user_data1: String::new(), user_data2: String::new() }
    }
}

/// One object of the intent API, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one is held at a time, by the request that carries it")]
pub enum Intent {
    /// What clients of an inbound intent may do.
    AccessPoint(AccessPoint),
    /// Who may use an inbound intent.
    Client(Client),
    /// A composite app in a version.
    CompositeApp(CompositeApp),
    /// Several inbound intents under one name.
    Compound(Compound),
    /// A controller of the orchestrator.
    Controller(Controller),
    /// A deployment-intent-group.
    DeploymentGroup(DeploymentGroup),
    /// Where records are to be published.
    DnsUpdateRecord(DnsUpdateRecord),
    /// A service that is exposed, by itself or as a part of a compound.
    Inbound(Inbound),
    /// A service that is used.
    Outbound(Outbound),
    /// The server of an outbound intent.
    OutboundServer(OutboundServer),
    /// A project.
    Project(Project),
    /// A traffic group.
    TrafficGroup(TrafficGroup),
    /// Intents that belong together.
    TrafficSet(TrafficSet),
}

impl Intent {
    /// What people say about it; its name above all.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::AccessPoint(of) => &of.metadata,
            Self::Client(of) => &of.metadata,
            Self::CompositeApp(of) => &of.metadata,
            Self::Compound(of) => &of.metadata,
            Self::Controller(of) => &of.metadata,
            Self::DeploymentGroup(of) => &of.metadata,
            Self::DnsUpdateRecord(of) => &of.metadata,
            Self::Inbound(of) => &of.metadata,
            Self::Outbound(of) => &of.metadata,
            Self::OutboundServer(of) => &of.metadata,
            Self::Project(of) => &of.metadata,
            Self::TrafficGroup(of) => &of.metadata,
            Self::TrafficSet(of) => &of.metadata,
        }
    }

    /// Returns the private key it holds, if it does.
    pub fn private_key(&self) -> Option<&crate::Secret> {
        match self {
            Self::Inbound(of) => of.certificates.private_key.as_ref(),
            Self::OutboundServer(of) => of.certificates.private_key.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_and_digits_at_its_ends() {
        assert_eq!(IntentName::new("blue-app_1.0").unwrap().as_str(), "blue-app_1.0");
        assert!(IntentName::new(&"a".repeat(128)).is_ok());
        assert_eq!(IntentName::new(&"a".repeat(129)), Err(IntentNameError::Long(129)));
        assert_eq!(IntentName::new(""), Err(IntentNameError::Empty));
        for odd in ["<>", "-a", "a.", "a b", "a+b", "é"] {
            assert!(matches!(IntentName::new(odd), Err(IntentNameError::Character(_))), "{odd}");
        }
    }
}
