//! What clients of each place keep when a failure domain is lost, members that nobody is ever given, and TTLs.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{ClusterName, DesiredState, Permille, Pool, PoolName, Ttl};
use fairway_zones::steer::{Basis, ClientNet, SteerPool};

use super::{
    Breach, PoolImpact, Rule, Severity,
    ask::{live, reach},
};
use fairway_control::Offline;

/// Clusters that fail together: one, or all of a region.
struct Domain<'a> {
    label: String,
    rule: Rule,
    clusters: Vec<&'a ClusterName>,
}

/// Places of clients to which a lost domain leaves nobody.
#[derive(Default)]
struct Left {
    places: usize,
    /// Of the addresses of both families, 0 to 2.
    part: f64,
    example: Option<ClientNet>,
    panics: bool,
}

/// Judges every pool that answers names. One that is compiled twice, for zones that hide and zones that do not, is one.
pub(super) fn walk(side: &Offline, budget: Option<u32>) -> (BTreeMap<PoolName, PoolImpact>, Vec<Breach>) {
    let (mut pools, mut breaches) = (BTreeMap::<PoolName, PoolImpact>::new(), Vec::new());
    let mut reached = BTreeMap::<PoolName, BTreeSet<ClusterName>>::new();
    let snapshot = &side.view.snapshot;
    for (steer, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos()) {
        let Some(declared) = side.desired.pools.get(&info.name) else { continue };
        let found = pools.entry(info.name.clone()).or_insert_with(|| PoolImpact::new(info.name.as_str()));
        found.names += info.names.len() as u64;
        let places = steer.places();
        found.places = found.places.max(places.len());
        let reached = reached.entry(info.name.clone()).or_default();
        for (client, _) in &places {
            let kept = reach(side, steer, *client, None);
            found.keep(kept.len(), regions(&side.desired, &kept));
            reached.extend(kept);
        }
        for domain in domains(&side.desired, steer) {
            let left = lose(side, steer, &domain, &places);
            breaches.extend(breach(declared, &domain, &left, places.len()));
        }
    }
    for (name, reached) in &reached {
        let pool = side.desired.pools.get(name);
        breaches.extend(pool.into_iter().flat_map(|pool| unreachable(pool, reached)));
    }
    for (name, found) in &mut pools {
        found.ttl_seconds = ttl(&side.desired, name);
        breaches.extend(budget.and_then(|budget| too_long(name, found.ttl_seconds, budget)));
    }
    (pools, breaches)
}

fn regions(desired: &DesiredState, clusters: &BTreeSet<ClusterName>) -> usize {
    clusters.iter().filter_map(|name| region(desired, name)).collect::<BTreeSet<_>>().len()
}

fn region<'a>(desired: &'a DesiredState, cluster: &ClusterName) -> Option<&'a str> {
    desired.clusters.get(cluster)?.location.as_ref()?.region.as_deref()
}

/// Every cluster of a pool, and every region where it has several.
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
        // One of a single cluster is that cluster.
        let several = regions.into_iter().filter(|(_, clusters)| clusters.len() > 1);
        let whole = |(region, clusters)| Domain { label: format!("region {region}"), rule: Rule::Regions, clusters };
        domains.extend(several.map(whole));
    }
    domains
}

/// Takes a domain away from every place.
fn lose(side: &Offline, pool: &SteerPool, domain: &Domain<'_>, places: &[(ClientNet, [f64; 2])]) -> Left {
    let runtime = side.without(domain.clusters.iter().copied());
    let mut left = Left::default();
    for (client, part) in places {
        let live = live(pool, &runtime, *client);
        if !live.members.is_empty() {
            continue;
        }
        left.places += 1;
        left.part += part.iter().sum::<f64>();
        left.example.get_or_insert(*client);
        left.panics |= live.basis == Basis::Panic;
    }
    left
}

fn breach(pool: &Pool, domain: &Domain<'_>, left: &Left, places: usize) -> Option<Breach> {
    let example = left.example?;
    let whom = match left.places {
        all if all == places => "any client".to_owned(),
        1 => format!("clients of {example}"),
        2 => format!("clients of {example} and 1 other place"),
        more => format!("clients of {example} and {} other places", more - 1),
    };
    let what = match left.panics {
        false => format!("with {} down no live cluster is left for {whom}", domain.label),
        true => format!("with {} down verdicts are ignored for {whom}, {}", domain.label, panics(pool.panic_threshold)),
    };
    let (severity, rule) = match domain.rule {
        Rule::Regions => (Severity::Warning, Rule::Regions),
        rule => (Severity::Error, rule),
    };
    let (pool, subject) = (Some(pool.name.clone()), domain.label.clone());
    Some(Breach { rule, severity, pool, subject, measure: left.part, what })
}

fn panics(threshold: Permille) -> String {
    format!("since less than panicThreshold ({} %) is up", f64::from(threshold.thousandths()) / 10.0)
}

/// Members that no client is ever given, whatever else is down.
fn unreachable<'a>(pool: &'a Pool, reached: &'a BTreeSet<ClusterName>) -> impl Iterator<Item = Breach> + 'a {
    let tier_of = |tier| pool.members.iter().filter(move |member| member.tier == tier);
    pool.members.iter().filter(|member| !reached.contains(&member.cluster)).map(move |member| {
        let whole = tier_of(member.tier).all(|member| !reached.contains(&member.cluster));
        let tier = if whole { format!(", nor anyone else of tier {}", member.tier.number()) } else { String::new() };
        let why = match () {
            () if member.internal => "; it is internal, and the zones are public",
            () if pool.panic_threshold.thousandths() > 0 => {
                "; panicThreshold comes before it, or a view, a preference or an override keeps it from everybody"
            }
            () => "; a view, a preference or an override keeps it from everybody",
        };
        Breach {
            rule: Rule::Unreachable,
            severity: Severity::Error,
            pool: Some(pool.name.clone()),
            subject: member.cluster.to_string(),
            measure: 0.0,
            what: format!("no client is ever given {}{tier}, whatever is down{why}", member.cluster),
        }
    })
}

/// The longest TTL of the names that a pool answers, in seconds.
fn ttl(desired: &DesiredState, pool: &PoolName) -> u32 {
    let names = desired.names.values().filter(|name| name.pool == *pool);
    names.filter_map(|name| desired.ttl_max(name)).max().map_or(0, Ttl::secs)
}

fn too_long(pool: &PoolName, ttl: u32, budget: u32) -> Option<Breach> {
    (ttl > budget).then(|| Breach {
        rule: Rule::Ttl,
        severity: Severity::Error,
        pool: Some(pool.clone()),
        subject: "ttl".to_owned(),
        measure: ttl.into(),
        what: format!("caches keep answers {ttl} s, and a drain may take {budget} s"),
    })
}
