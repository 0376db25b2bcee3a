//! Configuration files and their findings.

use std::{fs, sync::Arc};

use super::*;
use crate::of_files;
use fairway_config::{Environment, Source};
use fairway_model::{Diagnostic, HealthStatus};

/// Reads a configuration. Every target counts as up, and every schedule as open, so that the result does not depend on the time.
fn read(source: &Source, environment: &Environment) -> Result<Offline, Vec<Diagnostic>> {
    of_files(source, environment, |_| HealthStatus::Up).map(Offline::at_any_time)
}

/// Returns a configuration with clusters (name, region, capacity or 0 for none) and a rest.
fn offline(clusters: &[(&str, &str, u32)], rest: &str) -> Offline {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairway.yaml");
    let clusters: String = (1..)
        .zip(clusters)
        .map(|(n, (name, region, capacity))| {
            let capacity = if *capacity > 0 { format!("capacity: {capacity}, ") } else { String::new() };
            let location = format!("{{ latitude: {n}, longitude: {n}, region: {region} }}");
            format!("  - {{ name: {name}, addresses: [192.0.2.{n}], {capacity}location: {location} }}\n")
        })
        .collect();
    let text =
        format!("version: 1\nzones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nclusters:\n{clusters}{rest}");
    fs::write(&path, text).unwrap();
    let environment: Environment = Arc::new(|_: &str| None);
    read(&Source::Path(path), &environment).unwrap_or_else(|errors| panic!("{errors:?}"))
}

const THREE: &[(&str, &str, u32)] = &[("eu1", "eu", 100), ("eu2", "eu", 100), ("us1", "us", 100)];

/// Returns a pool `shop` with these keys, for one name.
fn pool(inside: &str) -> String {
    format!("pools:\n  - {{ name: shop, {inside} }}\nnames: [{{ name: shop.gslb.example, pool: shop }}]\n")
}

fn members(list: &str) -> String {
    pool(&format!("policy: weighted, members: [{list}]"))
}

const ALL: &str = "{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1 }";

fn report_of(side: &Offline) -> Report {
    assess(None, side, Terms::default())
}

fn findings(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.what.as_str()).collect()
}

#[test]
fn pool_over_two_regions_breaks_no_rule() {
    let report = report_of(&offline(THREE, &members(ALL)));
    assert_eq!(findings(&report), [""; 0]);
    let pool = &report.pools[0];
    assert_eq!((pool.location_classes, pool.clusters_least, pool.regions_least, pool.ttl_seconds), (1, 3, 2, 30));
    assert_eq!((pool.moved_percent, report.compared), (None, false));
}

#[test]
fn single_cluster_leaves_no_live_cluster_when_down() {
    let report = report_of(&offline(THREE, &members("{ cluster: us1 }")));
    assert_eq!(findings(&report), ["with us1 down, no live cluster is left for any client"]);
    assert_eq!(report.findings[0].severity, Severity::Error);
}

#[test]
fn closed_schedule_counts_as_open() {
    let closed = "{ cluster: eu1, open: [{ before: \"2020-01-01T00:00:00Z\" }] }, { cluster: us1 }";
    let report = report_of(&offline(THREE, &pool(&format!("policy: [schedule, weighted], members: [{closed}]"))));
    assert_eq!((findings(&report), report.pools[0].clusters_least), (vec![], 2));
}

#[test]
fn ttl_max_of_an_adaptive_ttl_counts() {
    let adaptive = pool(&format!("policy: weighted, ttl: 30s, ttlMax: 120s, members: [{ALL}]"));
    assert_eq!(report_of(&offline(THREE, &adaptive)).pools[0].ttl_seconds, 120);
}

#[test]
fn clusters_with_the_same_address_fail_together() {
    let shared = "version: 1
zones: [{ name: gslb.example, ns: [ns1.example.net] }]
clusters: [{ name: a, addresses: [192.0.2.1] }, { name: b, addresses: [192.0.2.1] }]
pools: [{ name: shop, policy: weighted, members: [{ cluster: a }, { cluster: b }] }]
names: [{ name: shop.gslb.example, pool: shop }]
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairway.yaml");
    fs::write(&path, shared).unwrap();
    let environment: Environment = Arc::new(|_: &str| None);
    let side = read(&Source::Path(path), &environment).unwrap();
    assert!(findings(&report_of(&side)).contains(&"with a down, no live cluster is left for any client"));
}

#[test]
fn view_with_one_cluster_is_found_with_an_example_client() {
    let list = "{ cluster: eu1, networks: [10.0.0.0/8] }, { cluster: eu2, networks: [10.0.0.0/8, 172.16.0.0/12] }, \
                { cluster: us1, networks: [10.0.0.0/8] }";
    let report = report_of(&offline(THREE, &members(list)));
    let found = findings(&report);
    assert!(
        found
            .contains(&"with eu2 down, no live cluster is left for clients of 0.0.0.0/5 and of 1 other location class"),
        "{found:?}"
    );
}

#[test]
fn loss_of_the_only_region_of_some_clients_is_a_warning() {
    let list = "{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1, networks: [10.0.0.0/8] }";
    let report = report_of(&offline(THREE, &members(list)));
    let warnings: Vec<_> = report.findings.iter().filter(|finding| finding.rule == Rule::Regions).collect();
    assert_eq!((warnings.len(), warnings[0].severity), (1, Severity::Warning));
    assert_eq!(warnings[0].subject, "region eu");
}

#[test]
fn tier_behind_the_panic_threshold_is_unreachable() {
    let inside = "policy: failover, panicThreshold: 50%, members: [{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1, tier: 2 }]";
    let report = report_of(&offline(THREE, &pool(inside)));
    let unreachable: Vec<_> = report.findings.iter().filter(|finding| finding.rule == Rule::Unreachable).collect();
    assert_eq!(unreachable.len(), 1);
    assert!(
        unreachable[0].what.starts_with("no client ever gets us1, nor any other member of tier 2"),
        "{unreachable:?}"
    );
    let lower = inside.replace("50%", "20%");
    assert_eq!(findings(&report_of(&offline(THREE, &pool(&lower)))), [""; 0]);
}

#[test]
fn standby_and_later_tiers_are_reachable() {
    let list = "{ cluster: eu1, weight: 65535 }, { cluster: eu2, tier: 9 }, { cluster: us1, weight: 0 }";
    assert_eq!(findings(&report_of(&offline(THREE, &members(list)))), [""; 0]);
}

#[test]
fn internal_member_of_public_names_is_unreachable() {
    let report =
        report_of(&offline(THREE, &members("{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1, internal: true }")));
    assert!(findings(&report)[1].starts_with("no client ever gets us1, whatever is down; it is internal"));
}

#[test]
fn clients_of_a_failed_cluster_load_the_next_one() {
    // All of eu1's clients go to eu2, half its size; us1 gets none of them.
    let clusters = &[("eu1", "eu", 100), ("eu2", "eu", 50), ("us1", "us", 1000)];
    let ordered = "policy: failover, members: [{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1 }]";
    let side = offline(clusters, &pool(ordered));
    let report = assess(None, &side, Terms { offered: Some(60.0), ..Terms::default() });
    assert_eq!(findings(&report), ["with eu1 down, eu2 would carry 120 % of its capacity"]);
    assert_eq!(report.capacity.holds_up_to, Some(50.0));
    assert_eq!(
        (report.capacity.worst_down.as_deref(), report.capacity.worst_full.as_deref()),
        (Some("eu1"), Some("eu2"))
    );
    assert_eq!(findings(&assess(None, &side, Terms { offered: Some(50.0), ..Terms::default() })), [""; 0]);
}

#[test]
fn pool_with_load_spreads_clients_by_capacity() {
    let clusters = &[("eu1", "eu", 100), ("eu2", "eu", 50), ("us1", "us", 250)];
    let inside = format!("policy: [load, failover], members: [{ALL}]");
    // Without eu1 300 of 400 are left, without us1 150.
    let report = report_of(&offline(clusters, &pool(&inside)));
    assert_eq!(report.capacity.holds_up_to, Some(37.5));
    assert_eq!(report.capacity.worst_down.as_deref(), Some("us1"));
}

#[test]
fn missing_capacity_is_listed_and_is_a_finding_only_with_offered() {
    let side = offline(&[("eu1", "eu", 0), ("us1", "us", 1)], &members("{ cluster: eu1 }, { cluster: us1 }"));
    assert_eq!((report_of(&side).capacity.undeclared, report_of(&side).findings.len()), (vec!["eu1".to_owned()], 0));
    let report = assess(None, &side, Terms { offered: Some(1.0), ..Terms::default() });
    assert_eq!(findings(&report), ["capacity is not declared for eu1, so the effect of a failure is unknown"]);
}

#[test]
fn longest_ttl_of_a_pool_must_fit_the_drain_budget() {
    let names = "names: [{ name: shop.gslb.example, pool: shop }, { name: slow.gslb.example, pool: shop, ttl: 90s }]\n";
    let text = members(ALL);
    let (before, _) = text.split_once("names:").unwrap();
    let side = offline(THREE, &format!("{before}{names}"));
    let report = |budget| assess(None, &side, Terms { drain_budget: Some(budget), ..Terms::default() });
    assert_eq!(findings(&report(89)), ["caches keep answers for 90 s, but a drain may take only 89 s"]);
    assert_eq!(findings(&report(90)), [""; 0]);
}

#[test]
fn finding_is_new_worse_as_before_or_fixed() {
    let side =
        |ttl: u32, list: &str| offline(THREE, &pool(&format!("policy: weighted, ttl: {ttl}s, members: [{list}]")));
    let terms = Terms { drain_budget: Some(60), ..Terms::default() };
    let since = |before: &Offline, after: &Offline| {
        let report = assess(Some(before), after, terms);
        let findings: Vec<_> = report.findings.iter().map(|finding| (finding.rule, finding.since.unwrap())).collect();
        (findings, report.fixed.len())
    };
    let (fine, slow, slower) = (side(60, ALL), side(61, ALL), side(62, ALL));
    assert_eq!(since(&fine, &slow), (vec![(Rule::Ttl, Since::New)], 0));
    assert_eq!(since(&slow, &slower), (vec![(Rule::Ttl, Since::Worse)], 0));
    assert_eq!(since(&slower, &slow), (vec![(Rule::Ttl, Since::Before)], 0));
    assert_eq!(since(&slow, &fine), (vec![], 1));
    assert_eq!(since(&fine, &side(60, "{ cluster: eu1 }")), (vec![(Rule::Clusters, Since::New)], 0));
}

#[test]
fn change_is_counted_in_networks_location_classes_names_and_pools() {
    let weights = |eu1| members(&format!("{{ cluster: eu1, weight: {eu1} }}, {{ cluster: us1, weight: 50 }}"));
    let more = "names: [{ name: shop.gslb.example, pool: shop }, { name: new.gslb.example, pool: shop }]\n";
    let (before, after) = (weights(50), weights(150));
    let (after, _) = after.split_once("names:").unwrap();
    let old = "  - { name: old, policy: weighted, members: [{ cluster: eu1 }, { cluster: us1 }] }\n";
    let before = before.replace("names: [", &format!("{old}names: [{{ name: old.gslb.example, pool: old }}, "));
    let report = assess(Some(&offline(THREE, &before)), &offline(THREE, &format!("{after}{more}")), Terms::default());
    let pool = &report.pools[0];
    assert!((pool.moved_percent.unwrap() - 25.0).abs() < 2.0, "{:?}", pool.moved_percent);
    assert_eq!(pool.location_classes_moved, Some(1));
    assert!((pool.shares[0].before - 50.0).abs() < 2.0 && (pool.shares[0].after - 75.0).abs() < 2.0);
    assert_eq!(
        (report.names.added, report.names.removed),
        (vec!["new.gslb.example.".into()], vec!["old.gslb.example.".into()])
    );
    assert_eq!(report.pools_removed, ["old"]);
}

#[test]
fn block_without_a_sample_is_seen_to_change() {
    let view = |network: &str| {
        members(&format!(
            "{{ cluster: eu1 }}, {{ cluster: us1, weight: 0 }}, {{ cluster: eu2, networks: [{network}], weight: 65535 }}"
        ))
    };
    let sides = ["203.0.113.7/32", "203.0.113.8/32"].map(|network| offline(THREE, &view(network)));
    let report = assess(Some(&sides[0]), &sides[1], Terms::default());
    assert_eq!((report.pools[0].moved_percent, report.pools[0].location_classes_moved), (Some(0.0), Some(2)));
}

#[test]
fn equal_configurations_move_nothing() {
    let side = || offline(THREE, &pool(&format!("policy: weighted, spread: query, members: [{ALL}]")));
    let report = assess(Some(&side()), &side(), Terms::default());
    assert_eq!((report.pools[0].moved_percent, report.pools[0].location_classes_moved), (Some(0.0), Some(0)));
}

#[test]
fn preference_for_only_one_region_leaves_no_other_cluster() {
    let of = |only: bool| {
        let maps = "maps: [{ name: world, networks: [{ network: 10.0.0.0/8, region: eu }] }]\n";
        let geo = format!("geo: {{ prefer: [{{ where: {{ region: eu }}, regions: [eu], only: {only} }}] }}");
        let list = "{ cluster: eu1 }, { cluster: us1 }";
        offline(THREE, &(pool(&format!("policy: [geo, failover], {geo}, members: [{list}]")) + maps))
    };
    assert_eq!(findings(&report_of(&of(false))), [""; 0]);
    assert_eq!(findings(&report_of(&of(true))), ["with eu1 down, no live cluster is left for clients of 10.0.0.0/8"]);
    let report = assess(Some(&of(false)), &of(true), Terms::default());
    assert_eq!((report.findings[0].since, report.pools[0].moved_percent), (Some(Since::New), Some(0.0)));
}
