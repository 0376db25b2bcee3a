//! Compound and outbound intents, clients and what they may do.

use super::{Certificates, Gslb, Metadata, Protocol};
use crate::Network;

/// Several inbound intents under one name, by their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compound {
    /// What people say about it.
    pub metadata: Metadata,
    /// The name it is answered at.
    pub external_name: String,
    /// How that name is steered.
    pub gslb: Gslb,
}

/// Who may use an inbound intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// What people say about it.
    pub metadata: Metadata,
    /// The app it belongs to.
    pub app: String,
    /// `key=value` label of its workload.
    pub app_label: String,
    /// Its service.
    pub service_name: String,
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// Its networks. Where clients of an inbound intent have any, the name is answered with its members in these alone.
    pub cidrs: Vec<Network>,
    /// Who its users are; the old form of the seed's "Authentication Policy".
    pub security: ClientSecurity,
}

/// Who the users of a client are; kept for the mesh part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSecurity {
    /// Who issues their tokens.
    pub issuer: String,
    /// Where the keys of those tokens are.
    pub jwks_uri: String,
    /// What users may do.
    pub user_access: Vec<UserAccess>,
}

/// What a user may do at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccess {
    /// The user.
    pub user: String,
    /// The path.
    pub path: String,
    /// HTTP methods.
    pub methods: Vec<String>,
}

/// What a client may do; kept for the mesh part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPoint {
    /// What people say about it.
    pub metadata: Metadata,
    /// True if it may.
    pub action: AccessAction,
    /// Paths; each may end in `*`.
    pub url: Vec<String>,
    /// HTTP methods.
    pub access: Vec<String>,
}

/// Whether something may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessAction {
    /// It may.
    #[default]
    Allow,
    /// It may not.
    Deny,
}

/// A service that is used: who uses it. Kept for the mesh part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// What people say about it.
    pub metadata: Metadata,
    /// The app that uses it.
    pub app: String,
    /// Its service.
    pub service_name: String,
    /// `key=value` label of its workload.
    pub app_label: String,
}

/// The server of an outbound intent. Kept for the mesh part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundServer {
    /// What people say about it.
    pub metadata: Metadata,
    /// The server's name.
    pub external_service_name: String,
    /// Its port.
    pub port: Option<u16>,
    /// What it speaks.
    pub protocol: Option<Protocol>,
    /// How its address is found.
    pub dns_resolution: DnsResolution,
    /// Its address, or the name whose addresses are meant.
    pub endpoint_address: String,
    /// What clients show to it.
    pub certificates: Certificates,
}

/// How the address of a server outside the mesh is found (Istio's `resolution`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsResolution {
    /// By DNS.
    #[default]
    Dns,
    /// The client knows it.
    None,
    /// It is declared.
    Static,
}
