//! An edge cluster: where traffic can be sent.

use std::net::IpAddr;

use crate::{Bias, ClusterName, Coordinates, Name};

/// One edge cluster: the ingress addresses clients are sent to, its location and its capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name, unique among clusters.
    pub name: ClusterName,
    /// Ingress addresses, IPv4 and IPv6, in the order of answers; at most 8 per family, all in the same answer.
    pub addresses: Vec<IpAddr>,
    /// The cluster's own DNS name, which pools of mode `cname` answer with. Inside a served zone its addresses follow
    /// in the same answer; outside, only the CNAME is given.
    pub dns_name: Option<Name>,
    /// Its location; distances to it are unknown without one.
    pub location: Option<ClusterLocation>,
    /// The load it can carry, in the unit of its load reports; unknown if not declared.
    pub capacity: Option<u64>,
    /// Services it runs, by the names that inbound intents use; `*` means all.
    pub services: Vec<String>,
}

impl Cluster {
    /// Maximum number of addresses of one family that a cluster may have: they all go into one answer.
    pub const ADDRESSES_MAX: usize = 8;
}

/// The location of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterLocation {
    /// The point on earth. `None` if only the region is known; distances are then unknown.
    pub coordinates: Option<Coordinates>,
    /// The region, a free name that preference lists refer to.
    pub region: Option<String>,
    /// Bias of distances to it, for the ranking `nearest`; default 0.
    pub bias: Bias,
}
