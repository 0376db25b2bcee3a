//! A named group of clusters and how it chooses among them.

use std::net::IpAddr;

use crate::{
    Bias, ClientPrefix, ClusterName, LocationRules, MonitorName, Name, Network, Permille, Policy, PoolName,
    ProbeAddress, Schedule, Tier, Ttl, TtlBounds, Weight,
};

/// A named group of members that serve the same thing, and how one is chosen for a client.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Pool {
    /// Its name, unique among pools.
    pub name: PoolName,
    /// How it chooses.
    pub policy: Policy,
    /// What it answers with.
    pub mode: AnswerMode,
    /// TTL of its answers.
    pub ttl: Ttl,
    /// Bounds within which the TTL goes by risk; none keeps it as it is. A name's own TTL is never changed.
    pub ttl_bounds: Option<TtlBounds>,
    /// How many clusters an answer names, 1 to 8; all addresses of each go together.
    pub answers: u8,
    /// What is answered when no member can be.
    pub down: DownAnswer,
    /// Whether a client keeps its member or each query draws.
    pub spread: Spread,
    /// What counts as one client.
    pub client_prefix: ClientPrefix,
    /// When less than this part of the weight is up, health is ignored and all members share by weight (0 = never).
    /// Administrative down and drain still hold.
    pub panic_threshold: Permille,
    /// When less than this part of a tier's weight is up, the next tier helps; 0 = only when none of it is up.
    pub min_healthy: Permille,
    /// What it says of clients' places.
    pub place: LocationRules,
    /// Monitor of members that name none.
    pub monitor: Option<MonitorName>,
    /// The members, in declared order; at most [`Pool::MEMBERS_MAX`].
    pub members: Vec<Member>,
}

impl Pool {
    /// Most members a pool may have.
    pub const MEMBERS_MAX: usize = 255;
    /// Most clusters one answer may name.
    pub const ANSWERS_MAX: u8 = 8;
    /// Most fallback addresses: as many as a cluster has.
    pub const FALLBACK_MAX: usize = 16;
    /// Most networks of clients that its members name together: each may split the address space in 128 blocks.
    pub const NETWORKS_MAX: usize = 4096;

    /// The largest TTL that it answers with.
    pub fn ttl_max(&self) -> Ttl {
        self.ttl_bounds.map_or(self.ttl, |bounds| bounds.long)
    }

    /// A pool with every default and no member.
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
            place: LocationRules::default(),
            monitor: None,
            members: Vec::new(),
        }
    }
}

/// One cluster in a pool.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Member {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its share.
    pub weight: Weight,
    /// When it is used.
    pub tier: Tier,
    /// What traffic costs there, in any unit: the lowest goes first where the policy ranks by cost. Default 0.
    pub cost: u16,
    /// How far beyond its own surroundings it draws clients, in place of its cluster's.
    pub bias: Option<Bias>,
    /// The networks whose clients may get it (a view); empty: everybody. To all others it is not there.
    pub networks: Vec<Network>,
    /// Whether it is kept from zones of [`crate::Visibility::Public`]. Default no.
    pub internal: bool,
    /// When it takes part, where the policy heeds that; none: always.
    pub open: Option<Schedule>,
    /// Its own monitor, before its pool's and its zone's.
    pub monitor: Option<MonitorName>,
    /// Where it is probed instead of at each of its addresses.
    pub probe: Option<ProbeAddress>,
}

impl Member {
    /// A member with every default.
    pub fn new(cluster: ClusterName) -> Self {
        Self {
            cluster,
            weight: Weight::default(),
            tier: Tier::default(),
            cost: 0,
            bias: None,
            networks: Vec::new(),
            internal: false,
            open: None,
            monitor: None,
            probe: None,
        }
    }
}

/// What a steered name answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AnswerMode {
    /// The chosen cluster's addresses at the name itself (needed at a zone apex).
    #[default]
    Address,
    /// A CNAME to the chosen cluster's own DNS name, its addresses in the same answer where we serve them.
    Cname,
}

/// Whether a client keeps its member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spread {
    /// A client network always gets the same member while that member's share lasts.
    #[default]
    Client,
    /// Each query draws; ECS scope 0.
    Query,
}

/// What a pool answers when no member can be: never NXDOMAIN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum DownAnswer {
    /// Every member (alias ALL_RECORDS): the observer may be the one who is wrong.
    #[default]
    All,
    /// These addresses (alias FALLBACK_IP).
    FallbackAddresses(Vec<IpAddr>),
    /// A CNAME to this name; refused at a zone apex.
    FallbackCname(Name),
    /// The name without addresses: NODATA (alias EMPTY).
    Empty,
    /// SERVFAIL, so that a resolver asks another server (aliases REFUSE, NONE); REFUSED would read as lame.
    Refuse,
    /// The members that were the last to be up.
    LastGood,
}
