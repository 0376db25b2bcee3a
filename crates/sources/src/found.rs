//! Findings in the clusters: names with their rows and ready endpoints, and addresses of ingress gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use fairway_access::Tenant;
use fairway_contributions::{OwnedRow, ReadRow};
use fairway_model::{
    Check, ClusterLoadSource, ClusterName, ContributionProblem, DesiredState, ExposedServices, HttpCheck, LoadEndpoint,
    LoadQuery, LoadSource, LoadSourceName, Monitor, MonitorName, Name, Permille, ProbeAddress, SharedMap, Timestamp,
};

use crate::{objects::ObjectKey, splits::Split};

/// Findings in each cluster; a cluster about which nothing is known yet is missing.
pub type Found = BTreeMap<ClusterName, Arc<FoundCluster>>;

/// Findings in one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundCluster {
    /// Addresses of its ingress gateway.
    pub addresses: Vec<IpAddr>,
    /// Host names that stand for further addresses of it.
    pub hosts: Vec<Name>,
    /// True if the gateway answers at port 15021 whether it is ready, as Istio's do.
    pub has_status_port: bool,
    /// Addresses of its ready pods; empty if they are not known.
    pub pods: Vec<IpAddr>,
    /// The services that objects with names lead to.
    pub services: ExposedServices,
    /// The names that its objects expose, by their text in lower case without final dot.
    pub names: SharedMap<Arc<str>, Arc<FoundName>>,
    /// Held names of each owner: their objects are gone, and that looks like a mistake.
    pub held: Arc<BTreeMap<Arc<str>, HeldNames>>,
}

/// Held names of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldNames {
    /// Number of names.
    pub names: usize,
    /// The first one.
    pub first: Arc<str>,
    /// Time of the first withdrawal, in seconds since 1970.
    pub since: u64,
}

/// A name that a cluster exposes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundName {
    /// Rows that its objects declare.
    pub rows: Box<[FoundRow]>,
}

/// A row that an object declares.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRow {
    /// Owner, `kubernetes:CLUSTER/NAMESPACE`.
    pub owner: Arc<str>,
    /// Tenant that must be granted the name: the namespace.
    pub tenant: Arc<Tenant>,
    /// The object.
    pub object: ObjectKey,
    /// The row.
    pub row: Arc<ReadRow>,
    /// Number of ready endpoints that it leads to, in any cluster; `None` if that is not known.
    pub ready: Option<u32>,
    /// Its backends, if some may stand for another cluster.
    pub split: Option<Arc<Split>>,
    /// Services that the object leads to, as `NAMESPACE/NAME`.
    pub services: Arc<[Arc<str>]>,
}

impl HeldNames {
    /// Returns the message for people.
    pub(crate) fn message(&self, owner: &str) -> String {
        format!("since {}: {}", Timestamp::from_secs(self.since), self.note(owner))
    }

    /// Returns the message without the time, which may differ by a second between servers.
    pub(crate) fn note(&self, owner: &str) -> String {
        let Self { names, first, .. } = self;
        format!(
            "names whose objects were deleted are held ({names}, among them {first}), because their targets and endpoints are healthy; \
             `fairway contributions confirm {owner}` removes them"
        )
    }
}

impl FoundCluster {
    /// Returns the objects that a problem of a contribution is about.
    pub fn objects_of<'a>(&'a self, problem: &'a ContributionProblem) -> impl Iterator<Item = &'a ObjectKey> {
        let name = self.names.get(&*fairway_providers::plain_name(&problem.name));
        let is_it =
            |row: &&FoundRow| row.owner == problem.owner && *row.row.row.endpoint.set_identifier == *problem.set;
        name.into_iter().flat_map(|name| &name.rows).filter(is_it).map(|row| &row.object)
    }
}

impl FoundRow {
    /// Returns true if its object is gone, and it stays since that looks like a mistake.
    pub(crate) fn is_held(&self) -> bool {
        self.row.row.held.is_some()
    }

    /// Returns the row with its owner.
    fn owned(&self) -> OwnedRow<'_> {
        let (owner, tenant) = (Arc::clone(&self.owner), Arc::clone(&self.tenant));
        OwnedRow { owner, tenant, lease_weight: Permille::WHOLE, row: &self.row }
    }
}

/// Returns the rows of all names, or of those with these texts.
pub fn owned_rows<'a>(found: &'a Found, texts: Option<&BTreeSet<String>>) -> Vec<OwnedRow<'a>> {
    let names = found.values().flat_map(|cluster| match texts {
        None => cluster.names.values().collect::<Vec<_>>(),
        Some(texts) => texts.iter().filter_map(|text| cluster.names.get(&**text)).collect(),
    });
    names.flat_map(|name| &name.rows).map(FoundRow::owned).collect()
}

/// Returns the texts of the names that differ, or `None` if clusters or their addresses do.
pub fn changed_names<'a>(now: &'a Found, before: &'a Found) -> Option<BTreeSet<&'a Arc<str>>> {
    if !now.keys().eq(before.keys()) {
        return None;
    }
    let mut changed = BTreeSet::new();
    for (now, before) in now.values().zip(before.values()).filter(|(now, before)| !Arc::ptr_eq(now, before)) {
        let gateway = |of: &'a FoundCluster| (&of.addresses, &of.hosts, of.has_status_port, &of.pods);
        if gateway(now) != gateway(before) {
            return None;
        }
        changed.extend(now.names.differences(&before.names, Arc::ptr_eq).into_iter().map(|(text, ..)| text));
    }
    Some(changed)
}

/// Gives clusters without declared addresses those of their ingress gateways, and the monitor that these have. Gives all clusters whose
/// gateways' pods are known a load source that reads them, and a capacity.
pub fn add_addresses(desired: &mut DesiredState, found: &Found) {
    let status_port = MonitorName::new(STATUS_PORT_MONITOR).expect("a valid name");
    if found.values().any(|found| found.has_status_port) {
        desired.monitors.insert(status_port.clone(), Arc::new(ready_at_status_port()));
    }
    for (name, found) in found {
        let is_open = |cluster: &&mut fairway_model::Cluster| cluster.addresses.is_empty() && cluster.hosts.is_empty();
        if !desired.clusters.contains_key(name) {
            continue;
        }
        add_pods(desired, name, found);
        if let Some(cluster) = desired.clusters.get_mut(name).filter(is_open) {
            cluster.addresses.clone_from(&found.addresses);
            let host = |name: &Name| fairway_model::ClusterHost { name: name.clone(), addresses: Arc::default() };
            cluster.hosts = found.hosts.iter().map(host).collect();
            if cluster.dns_name.is_none() && cluster.hosts.len() == 1 {
                cluster.dns_name = cluster.hosts.first().map(|host| host.name.clone());
            }
            cluster.fallback_monitor = found.has_status_port.then(|| status_port.clone());
        }
    }
}

/// Has the load of a cluster read from the pods of its gateway, unless others are named, and gives it a capacity by their number.
fn add_pods(desired: &mut DesiredState, name: &ClusterName, found: &FoundCluster) {
    let Some(cluster) = desired.clusters.get_mut(name) else { return };
    let per_pod = cluster.kubernetes.as_ref().and_then(|api| api.capacity_per_pod);
    if let Some(per_pod) = per_pod.filter(|_| cluster.capacity.is_none()) {
        // A gateway without a ready pod is down by its probes; without a capacity it would be without load control afterwards.
        cluster.capacity = Some(per_pod.saturating_mul(found.pods.len().max(1) as u64));
    }
    if found.pods.is_empty() {
        return;
    }
    let gateways = || found.pods.iter().take(PODS_MAX).map(|pod| ProbeAddress::Address(*pod)).collect();
    let status_port = found.has_status_port.then_some(STATUS_PORT);
    match desired.cluster_load_sources.get_mut(name) {
        Some(declared) => {
            let source = desired.load_sources.get(&declared.source);
            if declared.gateways.is_empty() && source.is_some_and(|source| source.is_per_gateway()) {
                *declared = ClusterLoadSource { gateways: gateways(), is_found: true, status_port, ..declared.clone() };
            }
        }
        // Istio's gateways have statistics at a known port.
        None if found.has_status_port => {
            let source = LoadSourceName::new(GATEWAYS).expect("a valid name");
            desired.load_sources.entry(source.clone()).or_insert_with(|| Arc::new(statistics_of_gateways()));
            let load = ClusterLoadSource { source, gateways: gateways(), is_found: true, status_port };
            desired.cluster_load_sources.insert(name.clone(), load);
        }
        None => {}
    }
}

/// Returns the monitor of Istio's gateways: they answer at their status port whether they are ready.
fn ready_at_status_port() -> Monitor {
    Monitor::new(Check::Http(HttpCheck::get(STATUS_PORT, "/healthz/ready")))
}

/// Returns the load source of Istio's gateways: statistics of Envoy at their own port.
fn statistics_of_gateways() -> LoadSource {
    let endpoint = LoadEndpoint::Gateways { port: 15_090, path: "/stats/prometheus".to_owned() };
    LoadSource::new(LoadQuery::Prometheus { endpoint, signal: None, metric: None, overload_at: OVERLOAD_AT })
}

/// Name of the monitor of gateways with a status port.
const STATUS_PORT_MONITOR: &str = "kubernetes+status-port";
/// Port at which Istio's gateways answer whether they are ready.
const STATUS_PORT: u16 = 15_021;
/// Name of the load source of clusters that declare none.
const GATEWAYS: &str = "kubernetes+gateways";
/// Pressure of an overload monitor, in per cent, from which on a gateway counts as exhausted: the default of load sources.
const OVERLOAD_AT: u8 = 95;
/// Maximum number of pods of a gateway that are read. More have about the load of these.
const PODS_MAX: usize = 256;
#[cfg(test)]
mod tests {
    use fairway_model::Cluster;

    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    #[test]
    fn load_is_read_from_the_pods_of_a_gateway_unless_others_are_named() {
        let source = |name: &str| LoadSourceName::new(name).unwrap();
        let load = |name: &str, gateways: &[&str]| {
            let gateways = gateways.iter().map(|gateway| gateway.parse().unwrap()).collect();
            ClusterLoadSource { source: source(name), gateways, is_found: false, status_port: None }
        };
        let read = |declared: Option<ClusterLoadSource>, pods: u8, has_status_port: bool, capacity: Option<u64>| {
            let mut desired = DesiredState::default();
            desired.clusters.insert(cluster("a"), Cluster::new(cluster("a"), vec![]));
            let api = fairway_model::KubernetesApi { capacity_per_pod: Some(50), ..Default::default() };
            let of = desired.clusters.get_mut(&cluster("a")).unwrap();
            (of.kubernetes, of.capacity) = (Some(Arc::new(api)), capacity);
            let mut url = statistics_of_gateways();
            let address = "prometheus:9090".parse().unwrap();
            let endpoint = LoadEndpoint::Url(fairway_model::LoadUrl { https: false, address, path: "/".to_owned() });
            url.query = LoadQuery::Json { endpoint, pointer: String::new() };
            desired.load_sources.insert(source("url"), Arc::new(url));
            desired.load_sources.insert(source("own"), Arc::new(statistics_of_gateways()));
            desired.cluster_load_sources.extend(declared.map(|declared| (cluster("a"), declared)));
            let pods = (0..pods).map(|pod| IpAddr::from([10, 0, 0, pod])).collect();
            let found = FoundCluster { pods, has_status_port, ..FoundCluster::default() };
            add_addresses(&mut desired, &[(cluster("a"), Arc::new(found))].into());
            let load = desired.cluster_load_sources.get(&cluster("a")).map(|load| {
                assert!(desired.load_sources.contains_key(&load.source));
                format!("{} {} {} {:?}", load.source, load.gateways.len(), load.is_found, load.status_port)
            });
            (load.unwrap_or_default(), desired.clusters.get(&cluster("a")).unwrap().capacity)
        };
        for (declared, pods, has_status_port, capacity, expected) in [
            (None, 3, true, None, ("kubernetes+gateways 3 true Some(15021)", Some(150))),
            (None, 3, true, Some(7), ("kubernetes+gateways 3 true Some(15021)", Some(7))),
            (None, 3, false, None, ("", Some(150))),
            (None, 0, true, None, ("", Some(50))),
            (Some(load("own", &[])), 2, false, None, ("own 2 true None", Some(100))),
            (Some(load("own", &["gw:1"])), 2, true, None, ("own 1 false None", Some(100))),
            (Some(load("url", &[])), 2, true, None, ("url 0 false None", Some(100))),
        ] {
            let (load, capacity) = read(declared, pods, has_status_port, capacity);
            assert_eq!((&*load, capacity), expected);
        }
    }
}
