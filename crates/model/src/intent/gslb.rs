//! How the name of an intent is steered: what the seed's bodies leave to the load balancer.

use std::time::Duration;

use crate::{AnswerMode, ClusterName, DownAnswer, Policy, Tier, Ttl, Weight};

/// How a name is steered. What is not said has the default of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gslb {
    /// TTL of its answers.
    pub ttl: Option<Ttl>,
    /// What is answered: addresses or an alias.
    pub mode: Option<AnswerMode>,
    /// How a member is chosen.
    pub policy: Option<Policy>,
    /// What is answered when no member can be.
    pub down: Option<DownAnswer>,
    /// How members are probed.
    pub probe: ProbeHint,
    /// The members; empty: the clusters that run the service.
    pub members: Vec<GslbMember>,
}

/// What is said about probes; the rest follows from protocol and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeHint {
    /// What a probe does.
    pub kind: Option<ProbeKind>,
    /// Path of the request; begins with `/`.
    pub path: Option<String>,
    /// Port to connect to.
    pub port: Option<u16>,
    /// Time from probe to probe.
    pub period: Option<Duration>,
    /// A probe that takes longer fails.
    pub timeout: Option<Duration>,
    /// Passes in a row that turn a target up.
    pub rise: Option<u8>,
    /// Failures in a row that turn it down.
    pub fall: Option<u8>,
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Asks `grpc.health.v1`.
    Grpc,
    /// Sends an HTTP/1.1 request in clear.
    Http,
    /// Sends an HTTP/1.1 request over TLS.
    Https,
    /// Opens a connection.
    Tcp,
}

/// A cluster that takes part, by name instead of by the services it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GslbMember {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its share beside its neighbours'.
    pub weight: Weight,
    /// When it is used.
    pub tier: Tier,
}
