//! Intents: exposed services, their clients, and the providers of their records, as declared over the API.
//!
//! The objects of ONAP's traffic controller and of EMCO's DTC in one form. Steering uses [`Gslb`], weights and the networks
//! of clients. The other fields are stored for the service mesh.

mod groups;
mod gslb;
mod inbound;
mod others;

pub use groups::{CompositeApp, Controller, DeploymentGroup, DnsUpdateRecord, ProviderParameter, SetEntry, TrafficSet};
pub use gslb::{Gslb, GslbMember, ProbeHint, ProbeKind, WeightBy};
pub use inbound::{
    AccessRule, BalancingMode, Certificates, Inbound, Protocol, ServiceAccount, ServiceMesh, TlsMode, Traffic,
};
pub use others::{
    AccessAction, AccessPoint, Client, ClientSecurity, Compound, DnsResolution, Outbound, OutboundServer, UserAccess,
};

use crate::Secret;
pub use crate::id::IntentName;

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
pub struct Intent {
    /// Name and description.
    pub metadata: Metadata,
    /// The fields of its kind.
    pub spec: IntentSpec,
}

/// The fields of an object of the intent API, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a request holds only one at a time")]
pub enum IntentSpec {
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
    /// A project, which has no fields of its own.
    Project,
    /// A traffic group: the intents of one deployment. It has no fields of its own.
    TrafficGroup,
    /// A list of intents.
    TrafficSet(TrafficSet),
}

impl Intent {
    /// Returns its private key, if it has one.
    pub fn private_key(&self) -> Option<&Secret> {
        match &self.spec {
            IntentSpec::Inbound(inbound) => inbound.certificates.private_key.as_ref(),
            IntentSpec::OutboundServer(server) => server.certificates.private_key.as_ref(),
            _ => None,
        }
    }
}
