//! Steering settings of an intent, which extend the bodies of ONAP and EMCO.

use std::time::Duration;

use crate::{AnswerMode, ClusterName, DownAnswer, Policy, Tier, Ttl, Weight};

/// Steering settings of a name. `None` means the default of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gslb {
    /// TTL of its answers.
    pub ttl: Option<Ttl>,
    /// The kind of answer: addresses or a CNAME.
    pub mode: Option<AnswerMode>,
    /// The steering policy.
    pub policy: Option<Policy>,
    /// The answer if no member is eligible.
    pub down: Option<DownAnswer>,
    /// The factor of the members' weights besides the declared ones.
    pub weight_by: Option<WeightBy>,
    /// Requests in flight that one ready endpoint can take; `None`: the load of the clusters counts.
    pub capacity_per_pod: Option<u64>,
    /// Settings of probes.
    pub probe: ProbeHint,
    /// The members; empty means the clusters that run the service.
    pub members: Vec<GslbMember>,
}

/// A factor of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightBy {
    /// The number of ready endpoints in the cluster.
    Pods,
}

/// Settings of probes. What is `None` follows from protocol and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeHint {
    /// The kind of probe.
    pub kind: Option<ProbeKind>,
    /// Path of the request, beginning with `/`.
    pub path: Option<String>,
    /// Port to connect to.
    pub port: Option<u16>,
    /// Time between two probes.
    pub period: Option<Duration>,
    /// Time after which a probe fails.
    pub timeout: Option<Duration>,
    /// Consecutive passes that change a target to up.
    pub rise: Option<u8>,
    /// Consecutive failures that change a target to down.
    pub fall: Option<u8>,
}

/// The kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A call of grpc.health.v1 `Check`.
    Grpc,
    /// An HTTP/1.1 request without TLS.
    Http,
    /// An HTTP/1.1 request over TLS.
    Https,
    /// A TCP connection.
    Tcp,
}

/// A member that is named, instead of found by the services that clusters run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GslbMember {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its weight among the members.
    pub weight: Weight,
    /// Its tier.
    pub tier: Tier,
}
