use std::time::Duration;

use super::*;
use crate::{AnswerMode, ClusterHost, DownAnswer, LoadEndpoint, LoadQuery, LoadUnit, Policy, Severity, Tier, Weight};

fn desired() -> DesiredState {
    let cluster = Cluster::new(ClusterName::new("eu1").unwrap(), vec!["192.0.2.1".parse().unwrap()]);
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
    pool.members = vec![Member::new(cluster.name.clone())];
    let zone: Name = "gslb.example".parse().unwrap();
    let name: Name = "shop.gslb.example".parse().unwrap();
    DesiredState {
        zones: [(zone.clone(), ZoneSpec::new(zone))].into(),
        clusters: [(cluster.name.clone(), cluster)].into(),
        names: [(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None })].into(),
        pools: [(pool.name.clone(), pool)].into(),
        ..DesiredState::default()
    }
}

fn texts(desired: &DesiredState) -> Vec<String> {
    desired.violations().into_iter().map(|p| format!("{}; {}", p.fact, p.hint)).collect()
}

fn with_pool(change: impl FnOnce(&mut Pool)) -> DesiredState {
    let mut state = desired();
    change(state.pools.values_mut().next().unwrap());
    state
}

#[test]
fn valid_state_has_no_violation() {
    assert_eq!(texts(&desired()), Vec::<String>::new());
}

#[test]
fn undeclared_cluster_is_reported_with_nearest_known_one() {
    let state = with_pool(|pool| pool.members[0].cluster = ClusterName::new("eu2").unwrap());
    assert_eq!(texts(&state), ["cluster eu2 is not declared; did you mean eu1?"]);
}

#[test]
fn all_violations_are_reported_at_once() {
    let mut state = with_pool(|pool| {
        pool.members[0].tier = Tier::new(2).unwrap();
        pool.members[0].weight = Weight(0);
        pool.monitor = Some(MonitorName::new("gw").unwrap());
        pool.down = DownAnswer::FallbackAddresses(vec![[192, 0, 2, 1].into(); Pool::FALLBACK_MAX + 1]);
    });
    state.zones.clear();
    assert_eq!(
        texts(&state),
        [
            "monitor gw is not declared; declare it; none is declared yet",
            "pool shop has 17 fallback addresses, over the limit of 16; give fewer",
            "pool shop: no member is in tier 1; give at least one member tier 1",
            "every member of pool shop has weight 0, so all have equal shares; set weights of 1 or more; to remove a \
             member, drain it",
            "shop.gslb.example. is in no declared zone; declare its zone, or fix the name",
        ]
    );
}

#[test]
fn pool_over_a_size_limit_is_rejected() {
    let state = with_pool(|pool| pool.members.clear());
    assert_eq!(texts(&state), ["pool shop has no member; add at least one cluster"]);
    let state = with_pool(|pool| pool.members = vec![pool.members[0].clone(); 256]);
    assert!(texts(&state).contains(&"pool shop has 256 members, over the limit of 255; split the pool".to_owned()));
    assert!(
        texts(&state)
            .contains(&"pool shop lists cluster eu1 twice; keep one member, with the sum of both weights".to_owned())
    );
}

#[test]
fn pool_with_load_needs_a_capacity_and_no_min_healthy() {
    let state = with_pool(|pool| {
        pool.policy.load = true;
        pool.policy.selection = crate::Selection::First;
        pool.answers = 2;
        pool.min_healthy = crate::Permille::WHOLE;
    });
    assert_eq!(
        texts(&state),
        [
            "pool shop has answers 2, but failover with load answers one cluster; remove answers, or use weighted",
            "pool shop has minHealthy, but its policy uses load to decide when the next tier helps; remove minHealthy, \
             or load from the policy",
            "pool shop balances by load, but cluster eu1 has no capacity; set its capacity; until then the cluster takes \
             its full share",
        ]
    );
}

#[test]
fn cluster_without_or_with_too_many_addresses_is_rejected() {
    let mut state = desired();
    let name = ClusterName::new("eu1").unwrap();
    state.clusters.get_mut(&name).unwrap().addresses.clear();
    assert_eq!(
        texts(&state),
        ["cluster eu1 has no address; give at least one ingress address, or kubernetes, whose gateway has one"]
    );
    state.clusters.get_mut(&name).unwrap().addresses = vec![[192, 0, 2, 1].into(), [192, 0, 2, 1].into()];
    assert_eq!(texts(&state), ["cluster eu1 lists address 192.0.2.1 twice; keep one"]);
    state.clusters.get_mut(&name).unwrap().addresses = (0..9).map(|last| [192, 0, 2, last].into()).collect();
    assert_eq!(
        texts(&state),
        ["cluster eu1 has 9 IPv4 addresses, over the limit of 8 in one answer; declare two clusters"]
    );
}

#[test]
fn address_or_host_name_of_two_clusters_is_a_warning() {
    let mut state = desired();
    let mut second = state.clusters.values().next().unwrap().clone();
    second.name = ClusterName::new("us1").unwrap();
    second.addresses = vec!["192.0.2.1".parse().unwrap(), "192.0.2.77".parse().unwrap()];
    for cluster in [state.clusters.values_mut().next().unwrap(), &mut second] {
        cluster.hosts = vec![ClusterHost { name: "lb.example".parse().unwrap(), addresses: [].into() }];
    }
    state.clusters.insert(second.name.clone(), second);
    let found = state.violations();
    let facts: Vec<_> = found.iter().map(|violation| violation.fact.as_str()).collect();
    let expected = ["192.0.2.1", "lb.example."]
        .map(|what| format!("clusters eu1 and us1 both have {what}, so a drain of one does not remove it"));
    assert_eq!(facts, expected);
    let of = |violation: &Violation| (violation.severity, violation.subject.clone(), violation.field);
    let us1 = Subject::Cluster(ClusterName::new("us1").unwrap());
    assert!(found.iter().all(|violation| of(violation) == (Severity::Warning, us1.clone(), "/addresses")));
}

#[test]
fn load_source_must_be_declared_and_have_a_capacity_to_count_in() {
    let mut state = desired();
    let (eu1, gw) = (ClusterName::new("eu1").unwrap(), LoadSourceName::new("gw").unwrap());
    state.cluster_load_sources.insert(
        eu1.clone(),
        ClusterLoadSource { source: gw.clone(), gateways: vec![], is_found: false, status_port: None },
    );
    state.load_bounds.insert(eu1.clone(), LoadBounds::DEFAULT);
    assert_eq!(
        texts(&state),
        [
            "load source gw is not declared; declare it; none is declared yet",
            "cluster eu1 has a load target or limit but no capacity; set its capacity; until then target and limit have \
             no effect",
        ]
    );
    let at = LoadEndpoint::Gateways { port: 15090, path: "/stats/prometheus".into() };
    let source = LoadSource::new(LoadQuery::Prometheus { endpoint: at, signal: None, metric: None, overload_at: 95 });
    state.load_sources.insert(gw.clone(), Arc::new(source.clone()));
    assert_eq!(
        texts(&state)[0],
        "cluster eu1 uses load source gw but has no capacity; set its capacity in the unit of the load, or the unit of \
         the load source to permille"
    );
    state.clusters.get_mut(&eu1).unwrap().capacity = Some(800);
    assert_eq!(texts(&state), Vec::<String>::new());
    let slow = LoadSource { timeout: Duration::from_secs(11), unit: LoadUnit::Permille, ..source };
    state.load_sources.insert(gw, Arc::new(slow));
    assert_eq!(
        texts(&state),
        ["load source gw: timeout 11s is not between 0 and the period 10s; give a timeout of at most the period"]
    );
}

#[test]
fn monitor_times_out_of_range_are_rejected() {
    let mut state = desired();
    let (period, timeout) = (Duration::from_millis(10), Duration::ZERO);
    let monitor = Monitor { period, timeout, rise: 0, ..Monitor::default() };
    state.monitors.insert(MonitorName::new("gw").unwrap(), Arc::new(monitor));
    assert_eq!(
        texts(&state),
        [
            "monitor gw: period 10ms is under 50ms; give a longer period",
            "monitor gw: rise and fall count from 1; give 1 to change the status at the first probe",
            "monitor gw: timeout 0ns is not between 0 and the period 10ms; give a timeout of at most the period",
        ]
    );
}

#[test]
fn cname_at_a_zone_apex_is_rejected() {
    let mut state = with_pool(|pool| pool.mode = AnswerMode::Cname);
    assert_eq!(
        texts(&state),
        [
            "pool shop has mode cname, but cluster eu1 has no dnsName; set dnsName of the cluster, or mode of the pool to \
          address"
        ]
    );
    state.clusters.values_mut().next().unwrap().dns_name = Some("eu1.gslb.example".parse().unwrap());
    let apex: Name = "gslb.example".parse().unwrap();
    let pool = PoolName::new("shop").unwrap();
    state.names = [(apex.clone(), SteeredName { name: apex, pool, ttl: None })].into();
    assert_eq!(
        texts(&state),
        ["gslb.example. is a zone apex, which cannot have a CNAME (RFC 1912 section 2.4); set mode of the pool to \
          address"]
    );
}

#[test]
fn name_belongs_to_the_closest_of_nested_zones() {
    let mut state = desired();
    let inner: Name = "eu.gslb.example".parse().unwrap();
    state.zones.insert(inner.clone(), ZoneSpec::new(inner.clone()));
    assert_eq!(state.zone_of(&"a.eu.gslb.example".parse().unwrap()).unwrap().name, inner);
}
