//! Pools: named groups of clusters, with the policy that chooses among them.

use std::{net::IpAddr, num::NonZeroU64, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Backend, Bias, ClientPrefix, ClusterName, Load, LocationRules, MonitorName, Name, Network, Permille, Policy,
    PoolName, ProbeAddress, Schedule, ServiceReport, Tier, Ttl, TtlBounds, Weight,
};

/// A named group of members that serve the same content, with the policy that chooses one for a client.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// Its name, unique among pools.
    pub name: PoolName,
    /// The steering policy.
    pub policy: Policy,
    /// The kind of answer.
    pub mode: AnswerMode,
    /// TTL of its answers.
    pub ttl: Ttl,
    /// Range of the adaptive TTL; `None` keeps `ttl`. The TTL of a steered name is never adapted.
    pub ttl_bounds: Option<TtlBounds>,
    /// Number of clusters in an answer, 1 to 8, default 1; all addresses of each are included.
    pub answers: u8,
    /// The answer if no member is eligible.
    pub down: DownAnswer,
    /// Distribution of queries: by client network, or per query.
    pub spread: Spread,
    /// The prefix lengths that make one client network.
    pub client_prefix: ClientPrefix,
    /// If less than this fraction of the weight is up, health is ignored and all members share by weight; 0 = never, the
    /// default. Overrides (down, drain) still apply.
    pub panic_threshold: Permille,
    /// If less than this fraction of a tier's weight is up, the next tier helps; 0 = only if none of it is up, the default.
    pub min_healthy: Permille,
    /// Settings of rankings by location.
    pub location: LocationRules,
    /// Monitor of members without their own.
    pub monitor: Option<MonitorName>,
    /// Monitor of members for which nobody names one: that of the service, as its intent describes it.
    pub fallback_monitor: Option<MonitorName>,
    /// True if weights are multiplied by the numbers of ready endpoints that Kubernetes has in each cluster; default false.
    pub weight_by_pods: bool,
    /// Requests in flight that one ready endpoint carries. Where Kubernetes is read, the pool is then balanced by the load of its
    /// service; `None`: by that of its clusters.
    pub capacity_per_pod: Option<u64>,
    /// Handling of members from elsewhere. `None`: they are added unless there are access rules.
    pub contributions: Option<Contributions>,
    /// The members, in declared order; at most [`Pool::MEMBERS_MAX`].
    pub members: Vec<Member>,
}

/// Handling of members that other sources contribute to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Contributions {
    /// They are added.
    Allow,
    /// They are rejected.
    Refuse,
}

impl Pool {
    /// Largest number of members.
    pub const MEMBERS_MAX: usize = 255;
    /// Largest number of clusters in an answer.
    pub const ANSWERS_MAX: u8 = 8;
    /// Largest number of fallback addresses: as many as a cluster has of both families.
    pub const FALLBACK_MAX: usize = 16;
    /// Largest number of client networks of all members together: each may split the address space into 128 blocks.
    pub const NETWORKS_MAX: usize = 4096;

    /// Returns the largest TTL of its answers.
    pub fn ttl_max(&self) -> Ttl {
        self.ttl_bounds.map_or(self.ttl, |bounds| bounds.long)
    }

    /// True if the capacity of its service is known in all clusters, so that it is balanced by the load of the service.
    pub fn is_by_service(&self) -> bool {
        self.policy.load && self.members.iter().all(|member| member.service.is_some())
    }

    /// Returns the destination of its demand in a cluster, for load control.
    pub fn backend(&self, cluster: &ClusterName) -> Backend {
        Backend { cluster: cluster.clone(), pool: self.is_by_service().then(|| self.name.clone()) }
    }

    /// Returns a pool with every default and no member.
    pub fn new(name: PoolName, policy: Policy) -> Self {
        Self {
            name,
            policy,
            mode: AnswerMode::Address,
            ttl: Ttl::STEERED,
            ttl_bounds: None,
            answers: 1,
            down: DownAnswer::All,
            spread: Spread::Client,
            client_prefix: ClientPrefix::default(),
            panic_threshold: Permille::default(),
            min_healthy: Permille::default(),
            location: LocationRules::default(),
            monitor: None,
            fallback_monitor: None,
            weight_by_pods: false,
            capacity_per_pod: None,
            contributions: None,
            members: Vec::new(),
        }
    }

    /// Returns true if members from elsewhere are rejected. `has_rules` is true if there are access rules.
    pub fn is_closed(&self, has_rules: bool) -> bool {
        match self.contributions {
            Some(contributions) => contributions == Contributions::Refuse,
            None => has_rules,
        }
    }
}

/// One cluster in a pool.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its weight.
    pub weight: Weight,
    /// Its tier.
    pub tier: Tier,
    /// Cost of traffic there, in any unit: if the policy ranks by cost, the lowest is first. Default 0.
    pub cost: u16,
    /// Bias of distances, which replaces its cluster's.
    pub bias: Option<Bias>,
    /// Networks whose clients may get it (a view); empty: all. For other clients it does not exist.
    pub networks: Vec<Network>,
    /// True if it is never answered in zones of [`crate::Visibility::Public`]; default false.
    pub internal: bool,
    /// Times at which it takes part, if the policy includes `schedule`; `None`: always.
    pub schedule: Option<Schedule>,
    /// Its monitor; takes precedence over its pool's and its zone's.
    pub monitor: Option<MonitorName>,
    /// Address to probe instead of each of its addresses.
    pub probe: Option<ProbeAddress>,
    /// The service behind it, if its capacity is known; never declared.
    pub service: Option<MemberService>,
}

/// The service behind a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberService {
    /// Requests in flight that its ready endpoints carry together; at least 1.
    pub capacity: u64,
    /// Kubernetes Services, as `NAMESPACE/NAME`, in order.
    pub services: Arc<[Arc<str>]>,
}

impl MemberService {
    /// Returns its load: requests in flight, by its capacity. `None` if the gateways have no statistics of it.
    pub fn load(&self, report: &ServiceReport) -> Option<Load> {
        let active = self.services.iter().filter_map(|key| report.counts.get(key)?.active);
        Some(Load::of(active.reduce(u64::saturating_add)?, NonZeroU64::new(self.capacity)?))
    }
}

impl Member {
    /// Returns a member with every default.
    pub fn new(cluster: ClusterName) -> Self {
        Self {
            cluster,
            weight: Weight::default(),
            tier: Tier::default(),
            cost: 0,
            bias: None,
            networks: Vec::new(),
            internal: false,
            schedule: None,
            monitor: None,
            probe: None,
            service: None,
        }
    }
}

/// The kind of answer of a steered name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnswerMode {
    /// The chosen cluster's addresses at the name itself (needed at a zone apex).
    #[default]
    Address,
    /// A CNAME to the chosen cluster's DNS name, with its addresses in the same answer if this server has them.
    Cname,
}

/// Distribution of queries among members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Spread {
    /// By client network: it keeps its member as long as that member's share lasts.
    #[default]
    Client,
    /// Each query at random, with ECS scope 0.
    Query,
}

/// The answer of a pool without an eligible member: never NXDOMAIN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DownAnswer {
    /// All members (alias ALL_RECORDS), because the probe host itself may have failed.
    #[default]
    All,
    /// These addresses (alias FALLBACK_IP).
    FallbackAddresses(Vec<IpAddr>),
    /// A CNAME to this name; rejected at a zone apex.
    FallbackCname(Name),
    /// No addresses: NODATA (alias EMPTY).
    Empty,
    /// SERVFAIL, so that a resolver asks another server (aliases REFUSE, NONE). Resolvers take REFUSED for a lame delegation.
    Refuse,
    /// The members that were the last to be up.
    LastGood,
}
