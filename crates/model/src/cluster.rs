//! An edge cluster: where traffic can be sent.

use std::{net::IpAddr, sync::Arc};

use crate::{Bias, ClusterName, Coordinates, Name, ProbeAddress, SharedMap};

/// One edge cluster: the ingress addresses clients are sent to, its location and its capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name, unique among clusters.
    pub name: ClusterName,
    /// Ingress addresses, IPv4 and IPv6, in the order of answers; at most 8 per family, all in the same answer. Declared ones come first,
    /// then those of its host names.
    pub addresses: Vec<IpAddr>,
    /// Host names whose addresses it has as well.
    pub hosts: Vec<ClusterHost>,
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

/// A host name that stands for addresses of a cluster, as the load balancers of some clouds have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterHost {
    /// The host name.
    pub name: Name,
    /// Addresses that it was resolved to; empty before.
    pub addresses: Arc<[IpAddr]>,
}

/// The addresses that host names were resolved to. Names without any are not in it.
pub type HostAddresses = SharedMap<Name, Arc<[IpAddr]>>;

impl Cluster {
    /// Maximum number of addresses of one family that a cluster may have: they all go into one answer.
    pub const ADDRESSES_MAX: usize = 8;

    /// Returns a cluster with these addresses, and nothing else known of it.
    pub const fn new(name: ClusterName, addresses: Vec<IpAddr>) -> Self {
        Self { name, addresses, hosts: vec![], dns_name: None, location: None, capacity: None, services: vec![] }
    }

    /// Returns the destination of probes of one of its addresses. A host name goes with its addresses, as Host header and server name.
    pub fn probe_address(&self, address: IpAddr) -> ProbeAddress {
        let mut hosts = self.hosts.iter();
        match hosts.find(|host| host.addresses.contains(&address)) {
            Some(host) => ProbeAddress::OfHost(address, host.name.clone()),
            None => ProbeAddress::Address(address),
        }
    }

    /// Replaces the addresses of its host names. Declared addresses stay, and what is more than an answer can have is left out.
    pub fn resolve(&mut self, resolved: &HostAddresses) {
        self.addresses.retain(|address| !self.hosts.iter().any(|host| host.addresses.contains(address)));
        let mut counts = [true, false].map(|is_v4| self.addresses.iter().filter(|of| of.is_ipv4() == is_v4).count());
        for host in &mut self.hosts {
            let found = resolved.get(&host.name).map_or(&[][..], |found| found).iter();
            let fits = |address: &&IpAddr| {
                let count = &mut counts[usize::from(address.is_ipv6())];
                let fits = *count < Self::ADDRESSES_MAX && !self.addresses.contains(address);
                *count += usize::from(fits);
                fits
            };
            host.addresses = found.filter(fits).copied().collect();
            self.addresses.extend(&*host.addresses);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_follow_declared_ones_and_leave_when_they_change() {
        let declared: IpAddr = [192, 0, 2, 1].into();
        let hosts =
            ["a.test", "b.test"].map(|name| ClusterHost { name: name.parse().unwrap(), addresses: Arc::default() });
        let mut cluster = Cluster::new(ClusterName::new("eu").unwrap(), vec![declared]);
        cluster.hosts = hosts.to_vec();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let mut resolved = HostAddresses::new();
        resolved.insert("a.test".parse().unwrap(), [1, 2, 3].map(address).into());
        resolved.insert("b.test".parse().unwrap(), (3..20).map(address).collect());
        cluster.resolve(&resolved);
        assert_eq!(cluster.addresses, [1, 2, 3, 4, 5, 6, 7, 8].map(address));
        assert_eq!(cluster.probe_address(declared), ProbeAddress::Address(declared));
        assert_eq!(cluster.probe_address(address(2)).to_string(), "192.0.2.2 (a.test.)");
        assert_eq!(cluster.probe_address(address(4)).to_string(), "192.0.2.4 (b.test.)");
        resolved.remove(&"b.test".parse().unwrap());
        cluster.resolve(&resolved);
        assert_eq!(cluster.addresses, [1, 2, 3].map(address));
    }
}
