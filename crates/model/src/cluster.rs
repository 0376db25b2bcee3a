//! An edge cluster: where traffic can be sent.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Bias, ClusterName, Coordinates, MonitorName, Name, ProbeAddress, SharedMap};

/// One edge cluster: the ingress addresses clients are sent to, its location and its capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Monitor of its addresses in pools that name none.
    pub monitor: Option<MonitorName>,
    /// Monitor of its addresses if nobody names one: that of its gateway, as it was found.
    pub fallback_monitor: Option<MonitorName>,
    /// Its Kubernetes API, which is read for names, addresses and ready endpoints; `None`: it is not read.
    pub kubernetes: Option<Arc<KubernetesApi>>,
}

/// The Kubernetes API of a cluster: the place of its credentials, and what is its ingress gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KubernetesApi {
    /// The kubeconfig; `None`: that of the environment (`KUBECONFIG`, else `.kube/config` of the user).
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None`: its current one.
    pub context: Option<String>,
    /// True if the server runs in this cluster and uses the credentials of its Pod. There is no kubeconfig then.
    pub in_cluster: bool,
    /// The Secret with the kubeconfig of the cluster; the API that the other fields lead to has it.
    pub secret: Option<SecretKey>,
    /// The ingress gateway, as `NAMESPACE/NAME` of a Service or a Gateway. Its addresses are those of the cluster, if none are declared.
    /// `None`: the Service with the label `istio: ingressgateway`, else the only gateway.
    pub gateway: Option<(String, String)>,
    /// The load that each ready pod of the gateway can carry. It gives the cluster its capacity, if none is declared.
    pub capacity_per_pod: Option<u64>,
    /// True if refused claims of its objects are written to it as Events.
    pub events: bool,
}

/// One key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SecretKey {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key; default `kubeconfig`.
    pub key: String,
}

/// A host name that stands for addresses of a cluster, as the load balancers of some clouds have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        Self {
            name,
            addresses,
            hosts: vec![],
            dns_name: None,
            location: None,
            capacity: None,
            services: vec![],
            monitor: None,
            fallback_monitor: None,
            kubernetes: None,
        }
    }

    /// Returns true if its capacity is declared, or that of each pod of its gateway.
    pub fn has_capacity(&self) -> bool {
        self.capacity.is_some() || self.kubernetes.as_ref().is_some_and(|api| api.capacity_per_pod.is_some())
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
