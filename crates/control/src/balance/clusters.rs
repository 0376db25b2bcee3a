//! The balanced clusters and services: their groups, availability and reports.

use std::{collections::BTreeMap, time::Duration};

use fairway_health::load::LoadUpdate;
use fairway_model::{Backend, DesiredState, LoadReport, LoadSignal, MemberService, Pool};
use fairway_steering::balancer::{Declared, Group};
use fairway_zones::{BalancedPools, RuntimeState, Snapshot, steer::LoadGroup};

/// The balanced clusters, and services in clusters.
#[derive(Debug)]
pub(super) struct Clusters {
    /// True if it is available.
    clusters: BTreeMap<Backend, bool>,
}

impl Clusters {
    /// Returns the clusters, all of them available until the first update.
    pub(super) fn new(groups: &[Group]) -> Self {
        let names = groups.iter().flat_map(|group| &group.clusters).map(|declared| declared.name.clone());
        Self { clusters: names.map(|name| (name, true)).collect() }
    }

    /// Updates the availability of all clusters. Returns those that changed.
    pub(super) fn update(&mut self, pools: &BalancedPools, runtime: &RuntimeState) -> Vec<(Backend, bool)> {
        let mut changed = Vec::new();
        for (name, was_available) in &mut self.clusters {
            let is_available = pools.is_up(name, runtime).unwrap_or(*was_available);
            if std::mem::replace(was_available, is_available) != is_available {
                changed.push((name.clone(), is_available));
            }
        }
        changed
    }
}

/// Returns the groups of clusters whose load is controlled together. Clusters without a capacity cannot be compared, so they are in none.
pub(super) fn groups(desired: &DesiredState, snapshot: &Snapshot, pools: &BalancedPools) -> Vec<Group> {
    snapshot.load_classes().groups().iter().map(|group| declared(group, desired, pools)).collect()
}

fn declared(group: &LoadGroup, desired: &DesiredState, pools: &BalancedPools) -> Group {
    let declared = |name: &Backend| {
        let bounds = desired.load_bounds.get(&name.cluster).copied().unwrap_or_default();
        let (pool, service) = service(name, desired).unzip();
        let of_cluster = || desired.clusters.get(&name.cluster).and_then(|cluster| cluster.capacity);
        Declared {
            name: name.clone(),
            capacity: service.map(|service| service.capacity).or_else(of_cluster).unwrap_or(1),
            target: bounds.target(),
            limit: bounds.limit(),
            is_weighed: pool.is_some_and(|pool| pool.weight_by_pods),
        }
    };
    let sources = group.clusters.iter().filter_map(|name| desired.cluster_load_sources.get(&name.cluster));
    let periods = sources.filter_map(|of| desired.load_sources.get(&of.source)).map(|source| source.period);
    Group {
        clusters: group.clusters.iter().map(declared).collect(),
        costs: group.costs.clone(),
        period: periods.max().unwrap_or(PUSH_PERIOD),
        ttl: group.clusters.iter().filter_map(|name| pools.ttl(name)).max().unwrap_or_default().max(TTL_MIN),
    }
}

/// Returns the pool of a backend that is a service, and that service.
fn service<'a>(backend: &Backend, desired: &'a DesiredState) -> Option<(&'a Pool, &'a MemberService)> {
    let pool = desired.pools.get(backend.pool.as_ref()?)?;
    let member = pool.members.iter().find(|member| member.cluster == backend.cluster)?;
    Some((pool, member.service.as_ref()?))
}

/// Returns the reports that follow from an update: that of the cluster, and one for each service there. The load of a service is at least that
/// of its cluster, whose gateways serve it.
pub(super) fn reports(update: &LoadUpdate, snapshot: &Snapshot, desired: &DesiredState) -> Vec<LoadReport> {
    let mut reports: Vec<LoadReport> = update.report.iter().cloned().collect();
    let groups = snapshot.load_classes().groups().iter();
    let backends = groups.flat_map(|group| &group.clusters).filter(|backend| backend.cluster == update.cluster);
    for backend in backends {
        let Some((_, service)) = service(backend, desired) else { continue };
        let own = update.services.as_ref().and_then(|services| service.load(services));
        let Some(load) = own.max(update.report.as_ref().map(|report| report.load)) else { continue };
        let times = update.services.iter().map(|services| services.at).chain(update.report.iter().map(|of| of.at));
        let Some(at) = times.max() else { continue };
        let (backend, sequence) = (backend.clone(), update.sequence);
        reports.push(LoadReport { backend, load, signal: LoadSignal::InFlight, sequence, at });
    }
    reports
}

/// Least TTL that load control reckons with: answers of TTL 0 are kept for a while, too.
const TTL_MIN: Duration = Duration::from_secs(1);
/// Report period of clusters whose load is only pushed: the default period of load sources.
const PUSH_PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc, time::Instant};

    use fairway_model::{Load, ServiceCounts, ServiceReport};

    use super::*;
    use crate::tests::Scene;

    /// Returns the loads of clusters and services, in permille, as an update of cluster eu1 reports them.
    async fn reported(cluster: Option<u32>, active: Option<u64>) -> String {
        let config = "version: 1
listen: { dns: [\"127.0.0.1:0\"], http: \"off\" }
zones: [ { name: gslb.example, ns: [ { name: ns1.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example } ]
clusters: [ { name: eu1, addresses: [192.0.2.1] }, { name: us1, addresses: [192.0.2.2] } ]
pools: [ { name: shop, policy: [load, weighted], members: [ { cluster: eu1 }, { cluster: us1 } ] } ]
names: [ { name: shop.gslb.example, pool: shop } ]
";
        let (control, _) = Scene::new(config).actor().await;
        let state = control.shared().serving.load();
        let mut desired = (*state.published.configured.merged.desired).clone();
        let mut pool = desired.pools.values().next().expect("it is declared").clone();
        let service = MemberService { capacity: 200, services: ["shop/web".into(), "shop/api".into()].into() };
        pool.members.iter_mut().for_each(|member| member.service = Some(service.clone()));
        desired.pools.insert(pool.name.clone(), pool);
        let options = fairway_zones::ServerOptions::default();
        let (snapshot, _) = fairway_zones::recompile(&desired, &options, &state.snapshot).expect("it compiles");
        let at = Instant::now();
        let report = |load| LoadReport {
            backend: "eu1".parse().expect("a name"),
            load: Load(load),
            signal: LoadSignal::InFlight,
            sequence: 7,
            at,
        };
        let counts = ServiceCounts { active, ..ServiceCounts::default() };
        let counts = [("shop/web".into(), counts), ("shop/other".into(), counts)].into();
        let update = LoadUpdate {
            cluster: "eu1".parse::<Backend>().expect("a name").cluster,
            report: cluster.map(report),
            sequence: 7,
            services: Some(Arc::new(ServiceReport { counts, without_endpoint: BTreeSet::new(), at })),
            is_exhausted: Some(false),
            period: Duration::from_secs(10),
        };
        let reports = reports(&update, &snapshot, &desired);
        assert!(reports.iter().all(|report| report.sequence == 7 && report.at == at));
        let texts = reports.iter().map(|report| format!("{} {}", report.backend, report.load.0));
        texts.collect::<Vec<_>>().join(", ")
    }

    #[tokio::test]
    async fn service_has_its_own_load_and_at_least_that_of_its_cluster() {
        for (cluster, active, expected) in [
            (None, Some(150), "shop@eu1 750"),
            (Some(300), Some(150), "eu1 300, shop@eu1 750"),
            (Some(900), Some(150), "eu1 900, shop@eu1 900"),
            (Some(300), None, "eu1 300, shop@eu1 300"),
            (None, None, ""),
        ] {
            assert_eq!(reported(cluster, active).await, expected);
        }
    }
}
