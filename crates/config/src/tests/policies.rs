//! Steps of a policy: conversion and contradictions.

use std::time::Duration;

use fairway_model::{Policy, Rank, Selection};

use super::*;

fn config(policy: &str, more: &str) -> String {
    format!(
        "version: 1\nclusters: [{{name: c, addresses: [192.0.2.1], location: {{latitude: 1, longitude: 2, region: r}}}}]\n\
        maps: [{{name: m, networks: [{{network: 10.0.0.0/8, region: r}}]}}]\nlatencies: [{{name: t, file: t.csv}}]\n\
        pools: [{{name: p, policy: {policy}, members: [{{cluster: c, cost: 3}}], geo: {{default: [r]}}{more}}}]\n"
    )
}

/// Returns a folder with a configuration and a latency table.
fn folder(policy: &str, more: &str) -> Folder {
    Folder::new(&[("f.yaml", &config(policy, more)), ("t.csv", "network,c\n10.0.0.0/8,1\n")])
}

fn policy(text: &str) -> Policy {
    let loaded = folder(text, ", latency: {tolerance: 20ms}").load("f.yaml").unwrap();
    loaded.desired.pools.values().next().unwrap().policy.clone()
}

#[test]
fn policy_is_a_word_or_a_list_of_steps() {
    let latency = Rank::Latency { tolerance: Duration::from_millis(20) };
    for (text, ranks, load, choose) in [
        ("weighted", vec![], false, Selection::Weighted),
        ("failover", vec![], false, Selection::First),
        ("sticky", vec![], false, Selection::Weighted),
        ("nearest", vec![Rank::Nearest], false, Selection::Weighted),
        ("load", vec![], true, Selection::Weighted),
        ("[latency]", vec![latency], false, Selection::Weighted),
        ("[geo, nearest, load, weighted]", vec![Rank::Geo, Rank::Nearest], true, Selection::Weighted),
        ("[geo, tier, cost, sticky]", vec![Rank::Geo, Rank::Tier, Rank::Cost], false, Selection::Weighted),
        ("[cost, failover]", vec![Rank::Cost], false, Selection::First),
        ("[geo, failover, weighted]", vec![Rank::Geo, Rank::Tier], false, Selection::Weighted),
        ("[tier, load, failover]", vec![Rank::Tier], true, Selection::First),
    ] {
        assert_eq!(policy(text), Policy { ranks, load, selection: choose, ..Policy::WEIGHTED }, "{text}");
    }
}

#[test]
fn contradicting_steps_are_rejected() {
    let errors = |policy: &str, more: &str| {
        let errors = folder(policy, more).load("f.yaml").unwrap_err();
        errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
    };
    for (policy, more, error) in [
        ("[geo, geo]", "", "pools[0].policy[1]: geo is repeated; remove the second one"),
        ("[failover, tier, weighted]", "", "pools[0].policy[1]: tier is repeated"),
        (
            "[weighted, geo]",
            "",
            "pools[0].policy[1]: no step can follow weighted, which chooses among equals; put it last",
        ),
        ("[weighted, failover]", "", "pools[0].policy[1]: no step can follow weighted"),
        ("[load, geo]", "", "pools[0].policy[1]: geo is a ranking, and load must come after all rankings"),
        ("sticky", ", spread: query", "pools[0].spread: a sticky policy keeps each client's member"),
        ("[]", "", "pools[0].policy: the list is empty"),
        ("[geo, neerest]", "", "pools[0].policy[1]: \"neerest\" is not known here; did you mean nearest?"),
        ("load", ", minHealthy: 50%", "pool p has minHealthy, but its policy uses load"),
        ("[load, failover]", ", answers: 2", "pool p has answers 2, but failover with load answers one cluster"),
        (
            "latency",
            ", latency: {tolerance: 2m}",
            "pools[0].latency.tolerance: 2m is not between 0s and 1m; the default is 10ms",
        ),
    ] {
        let shown = errors(policy, more);
        assert!(shown.contains(error), "{policy}: {shown}");
    }
}
