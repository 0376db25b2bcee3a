//! Rules per location class: live clusters after the loss of a failure domain, members that no client gets, and TTLs.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{ClusterName, DesiredState, Permille, Pool, PoolName, Ttl};
use fairway_zones::steer::{Basis, ClientNet, SteerPool};

use super::{
    Finding, PoolImpact, Rule, Severity,
    query::{live, reachable},
};
use crate::Offline;

/// A failure domain: one cluster, or all of a region.
struct Domain<'a> {
    label: String,
    rule: Rule,
    clusters: Vec<&'a ClusterName>,
}

/// Location classes that have no live cluster after the loss of a domain.
#[derive(Default)]
struct Affected {
    classes: usize,
    /// Part of the IPv4 addresses plus part of the IPv6 addresses, 0 to 2.
    addresses: f64,
    example: Option<ClientNet>,
    /// True if health is ignored for some of them, since the panic threshold is reached.
    panics: bool,
}

/// Assesses every pool that answers names. A pool that is compiled twice, for public and for internal zones, counts as one.
pub(super) fn assess(side: &Offline, budget: Option<u32>) -> (BTreeMap<PoolName, PoolImpact>, Vec<Finding>) {
    let mut pools = BTreeMap::<PoolName, PoolImpact>::new();
    let mut findings = Vec::new();
    let mut reached = BTreeMap::<PoolName, BTreeSet<ClusterName>>::new();
    let snapshot = &side.view.snapshot;
    for (steer, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter()) {
        let Some(declared) = side.desired.pools.get(&info.name) else { continue };
        let impact = pools.entry(info.name.clone()).or_insert_with(|| PoolImpact::new(info.name.as_str()));
        impact.names += info.names.len() as u64;
        let classes = steer.location_classes();
        impact.location_classes = impact.location_classes.max(classes.len());
        let reached = reached.entry(info.name.clone()).or_default();
        for (client, _) in &classes {
            let clusters = reachable(side, steer, *client, None);
            impact.add_class(clusters.len(), regions(&side.desired, &clusters));
            reached.extend(clusters);
        }
        for domain in domains(&side.desired, steer) {
            let affected = lose(side, steer, &domain, &classes);
            findings.extend(finding(declared, &domain, &affected, classes.len()));
        }
    }
    for (name, reached) in &reached {
        let pool = side.desired.pools.get(name);
        findings.extend(pool.into_iter().flat_map(|pool| unreachable(pool, reached)));
    }
    for (name, impact) in &mut pools {
        impact.ttl_seconds = ttl(&side.desired, name);
        findings.extend(budget.and_then(|budget| too_long(name, impact.ttl_seconds, budget)));
    }
    (pools, findings)
}

/// Returns the number of regions of clusters.
fn regions(desired: &DesiredState, clusters: &BTreeSet<ClusterName>) -> usize {
    clusters.iter().filter_map(|name| region(desired, name)).collect::<BTreeSet<_>>().len()
}

fn region<'a>(desired: &'a DesiredState, cluster: &ClusterName) -> Option<&'a str> {
    desired.clusters.get(cluster)?.location.as_ref()?.region.as_deref()
}

/// Returns the failure domains of a pool: each cluster, and each region if there are several.
fn domains<'a>(desired: &'a DesiredState, pool: &'a SteerPool) -> Vec<Domain<'a>> {
    let mut regions = BTreeMap::<&str, Vec<&ClusterName>>::new();
    for name in pool.clusters() {
        if let Some(region) = region(desired, name) {
            regions.entry(region).or_default().push(name);
        }
    }
    let one = |name: &'a ClusterName| Domain { label: name.to_string(), rule: Rule::Clusters, clusters: vec![name] };
    let mut domains: Vec<_> = pool.clusters().map(one).collect();
    if regions.len() > 1 {
        // A region with one cluster is the same domain as that cluster.
        let several = regions.into_iter().filter(|(_, clusters)| clusters.len() > 1);
        let whole = |(region, clusters)| Domain { label: format!("region {region}"), rule: Rule::Regions, clusters };
        domains.extend(several.map(whole));
    }
    domains
}

/// Finds the location classes that lose every live cluster with a domain. `classes` has the part of the addresses of each family.
fn lose(side: &Offline, pool: &SteerPool, domain: &Domain<'_>, classes: &[(ClientNet, [f64; 2])]) -> Affected {
    let runtime = side.without(domain.clusters.iter().copied());
    let mut affected = Affected::default();
    for (client, part) in classes {
        let live = live(pool, &runtime, *client);
        if !live.members.is_empty() {
            continue;
        }
        affected.classes += 1;
        affected.addresses += part.iter().sum::<f64>();
        affected.example.get_or_insert(*client);
        affected.panics |= live.basis == Basis::Panic;
    }
    affected
}

fn finding(pool: &Pool, domain: &Domain<'_>, affected: &Affected, classes: usize) -> Option<Finding> {
    let example = affected.example?;
    let clients = match affected.classes {
        all if all == classes => "any client".to_owned(),
        1 => format!("clients of {example}"),
        2 => format!("clients of {example} and of 1 other location class"),
        more => format!("clients of {example} and of {} other location classes", more - 1),
    };
    let label = &domain.label;
    let what = if affected.panics {
        format!("with {label} down, health is ignored for {clients}, {}", panic_reason(pool.panic_threshold))
    } else {
        format!("with {label} down, no live cluster is left for {clients}")
    };
    Some(Finding {
        rule: domain.rule,
        severity: if domain.rule == Rule::Regions { Severity::Warning } else { Severity::Error },
        since: None,
        pool: Some(pool.name.to_string()),
        subject: label.clone(),
        measure: affected.addresses,
        what,
    })
}

fn panic_reason(threshold: Permille) -> String {
    format!("since less than panicThreshold ({} %) is up", f64::from(threshold.thousandths()) / 10.0)
}

/// Returns the members that no client gets, whatever else is down.
fn unreachable<'a>(pool: &'a Pool, reached: &'a BTreeSet<ClusterName>) -> impl Iterator<Item = Finding> + 'a {
    let tier_of = |tier| pool.members.iter().filter(move |member| member.tier == tier);
    pool.members.iter().filter(|member| !reached.contains(&member.cluster)).map(move |member| {
        let whole = tier_of(member.tier).all(|member| !reached.contains(&member.cluster));
        let tier = if whole { format!(", nor any other member of tier {}", member.tier.number()) } else { String::new() };
        let reason = if member.internal {
            "it is internal, and the zones are public"
        } else if pool.panic_threshold.thousandths() > 0 {
            "the panic threshold is reached before its tier, or a view, preference or override excludes it for all clients"
        } else {
            "a view, preference or override excludes it for all clients"
        };
        Finding {
            rule: Rule::Unreachable,
            severity: Severity::Error,
            since: None,
            pool: Some(pool.name.to_string()),
            subject: member.cluster.to_string(),
            measure: 0.0,
            what: format!("no client ever gets {}{tier}, whatever is down; {reason}", member.cluster),
        }
    })
}

/// Returns the longest TTL in seconds of the names that a pool answers.
fn ttl(desired: &DesiredState, pool: &PoolName) -> u32 {
    let names = desired.names.values().filter(|name| name.pool == *pool);
    names.filter_map(|name| desired.ttl_max(name)).max().map_or(0, Ttl::secs)
}

fn too_long(pool: &PoolName, ttl: u32, budget: u32) -> Option<Finding> {
    (ttl > budget).then(|| Finding {
        rule: Rule::Ttl,
        severity: Severity::Error,
        since: None,
        pool: Some(pool.to_string()),
        subject: "ttl".to_owned(),
        measure: ttl.into(),
        what: format!("caches keep answers for {ttl} s, but a drain may take only {budget} s"),
    })
}
