//! Compound and outbound intents, clients and their permissions.

use super::{Certificates, Gslb, Protocol};
use crate::Network;

/// Several inbound intents that share a name by their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compound {
    /// The public name.
    pub external_name: String,
    /// Steering settings of the name.
    pub gslb: Gslb,
}

/// A client that may use an inbound intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The app it belongs to.
    pub app: String,
    /// `key=value` label of its workload.
    pub app_label: String,
    /// Its service.
    pub service_name: String,
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// Its networks. If any client of an inbound intent has networks, only clients in these networks get its members.
    pub cidrs: Vec<Network>,
    /// Authentication of its users (the older form of EMCO's "Authentication Policy").
    pub security: ClientSecurity,
}

/// Authentication of the users of a client; stored for the service mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSecurity {
    /// Issuer of their tokens.
    pub issuer: String,
    /// URL of the issuer's keys.
    pub jwks_uri: String,
    /// Permissions of users.
    pub user_access: Vec<UserAccess>,
}

/// Permission of a user at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAccess {
    /// The user.
    pub user: String,
    /// The path.
    pub path: String,
    /// The HTTP methods.
    pub methods: Vec<String>,
}

/// A permission of a client; stored for the service mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPoint {
    /// Allow or deny.
    pub action: AccessAction,
    /// The paths; each may end in `*`.
    pub url: Vec<String>,
    /// The HTTP methods.
    pub access: Vec<String>,
}

/// The effect of a permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessAction {
    /// The request is allowed.
    #[default]
    Allow,
    /// The request is denied.
    Deny,
}

/// A use of an external service by an app; stored for the service mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// The app that uses it.
    pub app: String,
    /// Its service.
    pub service_name: String,
    /// `key=value` label of its workload.
    pub app_label: String,
}

/// The server of an outbound intent; stored for the service mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundServer {
    /// The server's name.
    pub external_service_name: String,
    /// Its port.
    pub port: Option<u16>,
    /// Its application protocol.
    pub protocol: Option<Protocol>,
    /// Resolution of its address.
    pub dns_resolution: DnsResolution,
    /// Its address, or a name that is resolved.
    pub endpoint_address: String,
    /// Certificates of its clients.
    pub certificates: Certificates,
}

/// Resolution of the address of a server outside the mesh (Istio's `resolution`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsResolution {
    /// By DNS.
    #[default]
    Dns,
    /// The address that the client connects to.
    None,
    /// The declared address.
    Static,
}
