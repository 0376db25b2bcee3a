//! Adaptive TTLs: within their bounds, shown by explain, and without effect on other pools.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
use std::sync::Arc;

use fairway_model::{
    AdaptiveTtl, AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, Member, Name,
    Policy, Pool, PoolName, Risk, Rtype, SteeredName, Ttl, TtlBounds, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{Explained, RuntimeState, ServerOptions, ServingState, compile, explain};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn secs(secs: u32) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

const BOUNDS: (u32, u32, u32) = (15, 30, 120);
const TTL_STATES: [AdaptiveTtl; 5] = [
    AdaptiveTtl::Declared,
    AdaptiveTtl::Calm,
    AdaptiveTtl::Risky(Risk::Drain),
    AdaptiveTtl::Risky(Risk::ScheduleTransition),
    AdaptiveTtl::Risky(Risk::Recent),
];

/// Pools with bounds that answer with addresses, with CNAMEs and with a fallback, and one pool without bounds.
fn serving(status: HealthStatus, adaptive_ttl: AdaptiveTtl) -> ServingState {
    let zone = name("example.test");
    let mut desired =
        DesiredState { zones: [(zone.clone(), ZoneSpec::new(zone.clone()))].into(), ..DesiredState::default() };
    for (cluster, address) in [("eu1", "203.0.113.1"), ("us1", "203.0.113.2")] {
        let name = ClusterName::new(cluster).unwrap();
        let dns_name = Some(format!("{cluster}.example.test").parse().unwrap());
        let addresses = vec![address.parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let reuse = Cluster { dns_name, ..Cluster::new(name.clone(), addresses) };
        desired.clusters.insert(name, reuse);
    }
    let mut add = |pool: &str, adjust: &dyn Fn(&mut Pool)| {
        let mut pool = Pool::new(PoolName::new(pool).unwrap(), Policy::WEIGHTED);
        pool.members = ["eu1", "us1"].map(|name| Member::new(ClusterName::new(name).unwrap())).into();
        let (short, own, long) = BOUNDS;
        (pool.ttl, pool.ttl_bounds) = (secs(own), Some(TtlBounds { short: secs(short), long: secs(long) }));
        adjust(&mut pool);
        let steered = name(&format!("{}.example.test", pool.name));
        desired.names.insert(steered.clone(), SteeredName { name: steered, pool: pool.name.clone(), ttl: None });
        desired.pools.insert(pool.name.clone(), pool);
    };
    add("is_adaptive", &|_| {});
    add("alias", &|pool| pool.mode = AnswerMode::Cname);
    add("back", &|pool| pool.down = DownAnswer::FallbackCname(name("elsewhere.test")));
    add("empty", &|pool| pool.down = DownAnswer::Empty);
    add("fixed", &|pool| pool.ttl_bounds = None);
    let (own, pool) = (name("own.example.test"), PoolName::new("is_adaptive").unwrap());
    desired.names.insert(own.clone(), SteeredName { name: own, pool, ttl: Some(secs(30)) });
    let text = "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 60\n@ IN NS ns\nns IN A 192.0.2.53\n";
    let (zone, _) = read_zone(&zone, "zone", text.as_bytes(), &mut |_| Err("none".into()));
    let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).unwrap();
    let runtime =
        RuntimeState::new(&snapshot, |_| Health::new(status, None)).with_adaptive_ttls(&snapshot, |_| adaptive_ttl);
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

fn ask(serving: &ServingState, pool: &str, rtype: Rtype) -> Explained {
    explain(serving, &name(&format!("{pool}.example.test")), rtype, None)
}

#[test]
fn adaptive_pool_answers_with_ttl_of_its_state_and_reason() {
    let (short, own, long) = BOUNDS;
    for status in [HealthStatus::Up, HealthStatus::Down] {
        for adaptive_ttl in TTL_STATES {
            let serving = serving(status, adaptive_ttl);
            let due = match adaptive_ttl {
                AdaptiveTtl::Declared => own,
                AdaptiveTtl::Calm => long,
                AdaptiveTtl::Risky(_) => short,
            };
            for (pool, rtype) in
                [("is_adaptive", Rtype::A), ("is_adaptive", Rtype::AAAA), ("alias", Rtype::A), ("back", Rtype::A)]
            {
                let explained = ask(&serving, pool, rtype);
                assert_eq!(explained.message.answer[0].ttl, secs(due), "{pool} {rtype} {adaptive_ttl:?} {status:?}");
                let reason = format!("{due} s: {}: of pool {pool}", adaptive_ttl.reason());
                assert_eq!(explained.ttl_reason, reason);
            }
        }
    }
}

#[test]
fn negative_answer_has_at_most_ttl_of_its_pools_state() {
    let (short, own, long) = BOUNDS;
    assert!(long > 60, "MINIMUM of the zone");
    for (adaptive_ttl, due) in TTL_STATES.into_iter().zip([own, 60, short, short, short]) {
        let explained = ask(&serving(HealthStatus::Down, adaptive_ttl), "empty", Rtype::A);
        assert_eq!(explained.message.authority[0].ttl, secs(due), "{adaptive_ttl:?}");
        let reason = "the smaller of the SOA's TTL and MINIMUM (RFC 2308 section 5), at most the TTL of pool empty";
        assert_eq!(explained.ttl_reason, format!("{due} s: {reason}"));
    }
}

#[test]
fn pool_without_bounds_and_name_with_ttl_keep_declared_ttl() {
    for adaptive_ttl in TTL_STATES {
        let serving = serving(HealthStatus::Up, adaptive_ttl);
        assert_eq!(ask(&serving, "fixed", Rtype::A).message.answer[0].ttl, secs(30));
        assert_eq!(ask(&serving, "own", Rtype::A).message.answer[0].ttl, secs(30));
    }
}

#[test]
fn adaptive_ttl_changes_only_ttl_and_id() {
    let bare = serving(HealthStatus::Up, AdaptiveTtl::Declared);
    let ids: Vec<u64> =
        TTL_STATES.iter().map(|adaptive_ttl| serving(HealthStatus::Up, *adaptive_ttl).runtime.id()).collect();
    let same: Vec<bool> = ids.iter().map(|id| *id == bare.runtime.id()).collect();
    assert_eq!(same, [true, false, false, false, false]);
    assert_eq!((ids[2], ids[2]), (ids[3], ids[4]), "why it is short changes no answer");
    let risky = serving(HealthStatus::Up, TTL_STATES[2]);
    let data = |serving: &ServingState| {
        ask(serving, "is_adaptive", Rtype::A).message.answer.iter().map(|r| r.rdata.clone()).collect::<Vec<_>>()
    };
    assert_eq!(data(&bare), data(&risky));
    let back = risky.runtime.with_adaptive_ttls(&risky.snapshot, |_| AdaptiveTtl::Declared);
    assert_eq!(back.id(), bare.runtime.id());
}
