//! An edge cluster: where traffic can be sent.

use std::net::IpAddr;

use crate::{Bias, ClusterName, Coordinates, Name};

/// One edge cluster: the ingress addresses clients are sent to, its place and its size.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name, unique among clusters.
    pub name: ClusterName,
    /// Ingress addresses, IPv4 and IPv6, in the order they are answered; at most 8 a family, all of one answer.
    pub addresses: Vec<IpAddr>,
    /// The cluster's own DNS name, which pools of mode `cname` answer with. Inside a served zone its addresses follow
    /// in the same answer; outside, only the CNAME is given.
    pub dns_name: Option<Name>,
    /// Where it stands.
    pub location: Option<ClusterLocation>,
    /// How much it can carry, in the unit of its load reports; unknown if not declared.
    pub capacity: Option<u64>,
    /// Services it runs, as inbound intents name them; `*` stands for all.
    pub services: Vec<String>,
}

impl Cluster {
    /// Most addresses of one family that a cluster may have: they all go into one answer.
    pub const ADDRESSES_MAX: usize = 8;
}

/// A place on earth.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterLocation {
    /// The point; none where only its region is known: then no distance to it is.
    pub at: Option<Coordinates>,
    /// Free name of the region, for preference lists.
    pub region: Option<String>,
    /// How far beyond its own surroundings it draws clients, in the ranking by distance; default 0.
    pub bias: Bias,
}
