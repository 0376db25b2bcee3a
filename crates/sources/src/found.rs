//! Findings in the clusters: names with their rows and ready endpoints, and addresses of ingress gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use fairway_access::Tenant;
use fairway_contributions::{OwnedRow, ReadRow};
use fairway_model::{
    Check, ClusterLoadSource, ClusterName, DesiredState, ExposedServices, HttpCheck, LoadEndpoint, LoadQuery,
    LoadSource, LoadSourceName, MemberService, Monitor, MonitorName, Name, Permille, PoolName, ProbeAddress, Rtype,
    SharedMap, Weight,
};

use crate::objects::ObjectKey;

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
    /// Number of ready endpoints that it leads to; `None` if that is not known.
    pub ready: Option<u32>,
    /// Services that the object leads to, as `NAMESPACE/NAME`.
    pub services: Arc<[Arc<str>]>,
}

impl FoundName {
    /// Returns the number of ready endpoints; `None` if it is not known.
    pub(crate) fn ready(&self) -> Option<u32> {
        match Ready::of(self.rows.iter()) {
            Ready::Endpoints(count) => Some(count),
            Ready::NotExposed | Ready::Unknown => None,
        }
    }
}

impl FoundCluster {
    /// Returns the number of ready endpoints of names; the largest, as for the members of a pool. `None` if it is not known.
    pub fn ready<'a>(&self, names: impl Iterator<Item = &'a Name>) -> Option<u32> {
        names.take(NAMES_MAX).filter_map(|name| self.names.get(&*text_of(name))?.ready()).max()
    }
}

impl FoundRow {
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

/// Takes out the members of pools whose clusters have no ready endpoint of the pools' names, and gives pools that weigh by pods their
/// numbers. `names` returns the names of a pool, and `is_granted` whether a tenant may claim a name with a type: what others declare, and
/// what is no member, says nothing about the name.
///
/// A member that is taken out keeps its place: it is down until its cluster has an endpoint again. A cluster that does not expose a name
/// has none, unless no cluster of the pool exposes it: then what is read says nothing about it.
pub fn weigh_members<'a>(
    desired: &mut DesiredState,
    found: &Found,
    pools: impl IntoIterator<Item = PoolName>,
    names: impl Fn(&PoolName) -> Vec<&'a Name>,
    is_granted: impl Fn(&Tenant, &Name, Rtype) -> bool,
) {
    if found.is_empty() {
        return;
    }
    let monitor = Monitor { rise: 1, fall: 1, ..Monitor::new(Check::Never) };
    let no_endpoint = MonitorName::new(NO_ENDPOINT).expect("a valid name");
    desired.monitors.insert(no_endpoint.clone(), Arc::new(monitor));
    for pool in pools {
        let Some(before) = desired.pools.get(&pool) else { continue };
        if !before.members.iter().any(|member| found.contains_key(&member.cluster)) {
            continue;
        }
        let names: Vec<(String, &Name)> =
            names(&pool).into_iter().take(NAMES_MAX + 1).map(|name| (text_of(name), name)).collect();
        if names.is_empty() || names.len() > NAMES_MAX {
            continue;
        }
        let rows_of = |cluster: &ClusterName, (text, name): &(String, &'a Name)| {
            let rows = found.get(cluster).and_then(|found| found.names.get(&**text)).into_iter();
            let (name, is_granted) = (*name, &is_granted);
            rows.flat_map(|found| &found.rows).filter(move |row| {
                let rtype = row.row.rtype().filter(|_| row.row.is_member());
                rtype.is_some_and(|rtype| is_granted(&row.tenant, name, rtype))
            })
        };
        let ready = |cluster: &ClusterName| -> Option<Ready> {
            found.get(cluster)?;
            names.iter().map(|name| Ready::of(rows_of(cluster, name))).max()
        };
        let of_members: Vec<Option<Ready>> = before.members.iter().map(|member| ready(&member.cluster)).collect();
        if of_members.iter().flatten().all(|ready| *ready == Ready::NotExposed) {
            continue;
        }
        let is_out = |ready: &Option<Ready>| ready.is_some_and(|ready| ready <= Ready::Endpoints(0));
        let (by_pods, per_pod) = (before.weight_by_pods, before.capacity_per_pod.filter(|_| before.policy.load));
        if !by_pods && per_pod.is_none() && !of_members.iter().any(is_out) {
            continue;
        }
        let Some(pool) = desired.pools.get_mut(&pool) else { continue };
        if let Some(per_pod) = per_pod {
            add_services(pool, per_pod, &pods(&of_members), |cluster| {
                let mut services = BTreeSet::new();
                for name in &names {
                    services.extend(rows_of(cluster, name).flat_map(|row| row.services.iter().cloned()));
                }
                services.into_iter().collect()
            });
        }
        for (member, ready) in pool.members.iter_mut().zip(&of_members) {
            if is_out(ready) {
                member.monitor = Some(no_endpoint.clone());
            }
        }
        if by_pods {
            weigh_by_pods(pool, &pods(&of_members));
        }
    }
}

/// Returns the number of ready endpoints of each member, at least 1: a member without one is out by its monitor. One whose number is not
/// known counts as the average of the others. Empty if none is known.
fn pods(of_members: &[Option<Ready>]) -> Vec<u64> {
    let count = |ready: &Option<Ready>| match ready {
        Some(Ready::Endpoints(count)) => Some(u64::from(*count)),
        _ => None,
    };
    let known: Vec<u64> = of_members.iter().filter_map(count).filter(|count| *count > 0).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let average = (known.iter().sum::<u64>() / known.len() as u64).max(1);
    of_members.iter().map(|ready| count(ready).unwrap_or(average).max(1)).collect()
}

/// Gives members the capacity of their services: `per_pod` requests in flight for each ready endpoint.
fn add_services(
    pool: &mut fairway_model::Pool,
    per_pod: u64,
    pods: &[u64],
    services: impl Fn(&ClusterName) -> Arc<[Arc<str>]>,
) {
    for (member, pods) in pool.members.iter_mut().zip(pods) {
        let services = services(&member.cluster);
        member.service = Some(MemberService { capacity: per_pod.saturating_mul(*pods), services });
    }
}

/// Multiplies weights by numbers of ready endpoints.
fn weigh_by_pods(pool: &mut fairway_model::Pool, pods: &[u64]) {
    let weights: Vec<u64> =
        pool.members.iter().zip(pods).map(|(member, pods)| u64::from(member.weight.0) * pods).collect();
    let largest = weights.iter().copied().max().unwrap_or(1).max(1);
    for (member, weight) in pool.members.iter_mut().zip(weights) {
        let scaled = if largest > u64::from(u16::MAX) { weight * u64::from(u16::MAX) / largest } else { weight };
        member.weight = Weight(u16::try_from(scaled.max(u64::from(weight > 0))).unwrap_or(u16::MAX));
    }
}

/// Endpoints of a name in a cluster, in ascending order of what they are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ready {
    /// No object exposes the name.
    NotExposed,
    /// The number of ready endpoints.
    Endpoints(u32),
    /// It is exposed, and its endpoints cannot be counted.
    Unknown,
}

impl Ready {
    /// Returns the endpoints of rows of one name. They often lead to the same service, whose endpoints count once.
    fn of<'a>(rows: impl Iterator<Item = &'a FoundRow>) -> Self {
        let of_rows = rows.map(|row| row.ready.map_or(Self::Unknown, Self::Endpoints));
        of_rows.reduce(Self::better).unwrap_or(Self::NotExposed)
    }

    /// Returns the one that says more: the larger number, and what cannot be counted only in place of none.
    fn better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Endpoints(1..), Self::Unknown) => self,
            (Self::Unknown, Self::Endpoints(1..)) => other,
            _ => self.max(other),
        }
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

/// Returns the text of a name: lower case, no final dot.
fn text_of(name: &Name) -> String {
    fairway_providers::plain_name(&name.to_string())
}

/// Name of the monitor of members whose cluster has no ready endpoint.
const NO_ENDPOINT: &str = "kubernetes+no-endpoint";
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
/// Maximum number of names of a pool whose endpoints are looked at. A pool of more names is one of gateways, not of a service.
const NAMES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use fairway_contributions::Row;
    use fairway_model::{Cluster, Member, Policy, Pool, SteeredName};
    use fairway_providers::Endpoint;

    use super::*;
    use crate::objects::Kind;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    /// A pool `shop` with members `a` to `d` of weight 10.
    fn state(by_pods: bool) -> DesiredState {
        let mut desired = DesiredState::default();
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.weight_by_pods = by_pods;
        for name in ["a", "b", "c", "d"] {
            desired.clusters.insert(cluster(name), Cluster::new(cluster(name), vec![]));
            pool.members.push(Member { weight: Weight(10), ..Member::new(cluster(name)) });
        }
        let steered = SteeredName { name: "shop.test".parse().unwrap(), pool: pool.name.clone(), ttl: None };
        desired.names.insert(steered.name.clone(), steered);
        desired.pools.insert(pool.name.clone(), pool);
        desired
    }

    /// Returns what an object of a namespace declares: an address, a text, or nothing that can be served.
    fn endpoint(namespace: &str) -> Endpoint {
        let (record_type, target) = match namespace {
            "text" => ("TXT", "a text"),
            "wrong" => ("A", "no address"),
            _ => ("A", "192.0.2.1"),
        };
        Endpoint {
            dns_name: "shop.test".to_owned(),
            record_type: record_type.to_owned(),
            targets: vec![target.to_owned()],
            ..Endpoint::default()
        }
    }

    /// `ready` of each cluster: `-` not exposed, `?` unknown, else a number, of several rows with `+`; `evil` before it for a namespace
    /// without a grant, and for two with one that declare no member. Clusters after the list are not read.
    fn found(ready: &[&str]) -> Found {
        let of = |(name, ready): (&str, &&str)| {
            let mut found = FoundCluster::default();
            let row = |ready: &str, namespace: &str| FoundRow {
                owner: format!("kubernetes:{name}/{namespace}").into(),
                tenant: Arc::new(Tenant::Namespace { cluster: name.to_owned(), namespace: namespace.to_owned() }),
                object: ObjectKey::new(Kind::Service, namespace, "web"),
                row: Arc::new(ReadRow::new(Row { since: 1, endpoint: endpoint(namespace), held: None })),
                ready: ready.parse().ok(),
                services: Arc::default(),
            };
            let rows: Vec<_> = match ready.strip_prefix("evil") {
                Some(ready) => vec![row(ready, "evil"), row(ready, "text"), row(ready, "wrong")],
                None => ready.split('+').filter(|ready| *ready != "-").map(|ready| row(ready, "shop")).collect(),
            };
            if !rows.is_empty() {
                found.names.insert("shop.test".into(), Arc::new(FoundName { rows: rows.into() }));
            }
            (cluster(name), Arc::new(found))
        };
        ["a", "b", "c", "d"].into_iter().zip(ready).map(of).collect()
    }

    /// Returns each member's weight, with `!` if it is taken out.
    fn weighed(by_pods: bool, ready: &[&str]) -> String {
        let mut desired = state(by_pods);
        let name: Name = "shop.test".parse().unwrap();
        let pool = PoolName::new("shop").unwrap();
        let evil = |tenant: &Tenant| matches!(tenant, Tenant::Namespace { namespace, .. } if namespace == "evil");
        let is_granted = |tenant: &Tenant, _: &Name, _| !evil(tenant);
        weigh_members(&mut desired, &found(ready), [pool.clone()], |_| vec![&name], is_granted);
        let members = desired.pools.get(&pool).unwrap().members.iter();
        let shown = members.map(|of| format!("{}{}", of.weight.0, if of.monitor.is_some() { "!" } else { "" }));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn member_without_a_ready_endpoint_is_taken_out() {
        for (ready, expected) in [
            (&["1", "0"][..], "10 10! 10 10"),
            (&["3", "-", "?"], "10 10! 10 10"),
            (&["0", "0", "0", "0"], "10! 10! 10! 10!"),
            (&["-", "-"], "10 10 10 10"),
            (&["?", "-"], "10 10! 10 10"),
            (&["0+?", "0+2"], "10 10 10 10"),
            (&["-", "evil3"], "10 10 10 10"),
            (&["0", "evil3"], "10! 10! 10 10"),
            (&[], "10 10 10 10"),
        ] {
            assert_eq!(weighed(false, ready), expected, "{ready:?}");
        }
    }

    #[test]
    fn load_is_read_from_the_pods_of_a_gateway_unless_others_are_named() {
        let source = |name: &str| LoadSourceName::new(name).unwrap();
        let load = |name: &str, gateways: &[&str]| {
            let gateways = gateways.iter().map(|gateway| gateway.parse().unwrap()).collect();
            ClusterLoadSource { source: source(name), gateways, is_found: false, status_port: None }
        };
        let read = |declared: Option<ClusterLoadSource>, pods: u8, has_status_port: bool, capacity: Option<u64>| {
            let mut desired = state(false);
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

    #[test]
    fn services_have_a_capacity_by_ready_pods() {
        let capacities = |policy: Policy, ready: &[&str]| {
            let mut desired = state(false);
            let pool = desired.pools.get_mut(&PoolName::new("shop").unwrap()).unwrap();
            (pool.policy, pool.capacity_per_pod) = (policy, Some(10));
            let (name, shop) = ("shop.test".parse().unwrap(), PoolName::new("shop").unwrap());
            weigh_members(&mut desired, &found(ready), [shop.clone()], |_| vec![&name], |_, _, _| true);
            let members = desired.pools.get(&shop).unwrap().members.iter();
            members.map(|member| member.service.as_ref().map_or(0, |of| of.capacity)).collect::<Vec<_>>()
        };
        let load = || Policy { load: true, ..Policy::WEIGHTED };
        assert_eq!(capacities(load(), &["3", "0", "?", "1"]), [30, 10, 20, 10]);
        assert_eq!(capacities(load(), &["?", "-"]), [0; 4], "no number is known");
        assert_eq!(capacities(Policy::WEIGHTED, &["3", "1"]), [0; 4], "the policy has no load");
    }

    #[test]
    fn weights_are_multiplied_by_ready_pods() {
        for (ready, expected) in [
            (&["3", "1"][..], "30 10 20 20"),
            (&["3+2", "1+?", "evil9"], "30 10 20! 20"),
            (&["3", "1", "2", "0"], "30 10 20 10!"),
            (&["?", "4"], "40 40 40 40"),
            (&["0", "0"], "10! 10! 10 10"),
            (&["9000", "1", "1", "1"], "65535 7 7 7"),
        ] {
            assert_eq!(weighed(true, ready), expected, "{ready:?}");
        }
    }
}
