//! Clusters that are taken out on purpose: until when clients are still sent there by answers that were given before.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use fairway_model::{ClusterName, Desired, Forced, SteeredName, Timestamp, Ttl};
use fairway_zones::TargetIndex;

use super::{balance::Balance, uses::Uses};

/// What is known of clusters that are being drained.
pub(crate) type Drains = BTreeMap<ClusterName, Draining>;

/// A cluster that is being drained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Draining {
    /// Since when it is not answered any more.
    pub(crate) since: Timestamp,
    /// When the last client should have left.
    pub(crate) over: Timestamp,
    /// How much of its demand is still there, 0 to 1; none where that is not known.
    pub(crate) left: Option<f64>,
}

/// Follows clusters from the moment they are taken out.
#[derive(Debug, Default)]
pub(super) struct DrainWatch {
    begun: HashMap<ClusterName, Begun>,
}

/// How a drain began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    clock: Timestamp,
    /// For how long answers that were given before may be kept.
    kept: Duration,
    /// The demand that was there when that was first known.
    load: Option<f64>,
}

impl DrainWatch {
    /// Notes which clusters are out now: those that it knows go on, others begin or are over.
    pub(super) fn follow(&mut self, out: &[ClusterName], desired: &Desired, (now, clock): (Instant, Timestamp)) {
        self.begun.retain(|cluster, _| out.contains(cluster));
        for cluster in out.iter().filter(|cluster| desired.clusters.contains_key(*cluster)) {
            let kept = || Duration::from_secs(largest_ttl(desired, cluster).secs().into());
            self.begun.entry(cluster.clone()).or_insert_with(|| Begun { at: now, clock, kept: kept(), load: None });
        }
    }

    /// How far each is; what is balanced tells whose answers are kept for longer than they should be, and what is left.
    pub(super) fn look(&mut self, balance: &Balance, now: Instant) -> Drains {
        let look = |(cluster, begun): (&ClusterName, &mut Begun)| {
            let by_ttl = begun.kept + slack(begun.kept);
            let known = balance.drain(cluster, now);
            let load = known.as_ref().map(|drain| *begun.load.get_or_insert(drain.left));
            let left = known.as_ref().zip(load).map(|(drain, load)| if load > 0.0 { drain.left / load } else { 0.0 });
            let seen =
                known.filter(|drain| drain.left > 0.0).map(|drain| drain.over.saturating_duration_since(begun.at));
            let span = seen.map_or(by_ttl, |seen| by_ttl.max(seen + slack(begun.kept)));
            let over = begun.clock.plus(span);
            (cluster.clone(), Draining { since: begun.clock, over, left: left.map(|left| left.min(1.0)) })
        };
        self.begun.iter_mut().map(look).collect()
    }
}

/// Clusters all of whose addresses are forced out of the answers.
pub(super) fn forced_out(forced: &[Option<Forced>], uses: &Uses) -> Vec<ClusterName> {
    let mut all_out: BTreeMap<&ClusterName, bool> = BTreeMap::new();
    if forced.iter().all(Option::is_none) {
        return vec![];
    }
    for (number, forced) in (0..).map(TargetIndex).zip(forced) {
        let is_out = matches!(forced, Some(Forced::Down | Forced::Drain));
        for (cluster, _) in uses.sites(number) {
            *all_out.entry(cluster).or_insert(true) &= is_out;
        }
    }
    all_out.into_iter().filter(|(_, out)| *out).map(|(cluster, _)| cluster.clone()).collect()
}

/// The largest TTL that an answer with the cluster is given with.
fn largest_ttl(desired: &Desired, cluster: &ClusterName) -> Ttl {
    let has = |name: &&SteeredName| {
        desired.pools.get(&name.pool).is_some_and(|pool| pool.members.iter().any(|member| member.cluster == *cluster))
    };
    let ttls = desired.names.values().filter(has).filter_map(|name| desired.ttl_max(name));
    ttls.max().unwrap_or(Ttl::STEERED)
}

/// For answers that are under way, and clocks of caches that count in whole seconds.
fn slack(ttl: Duration) -> Duration {
    ttl / 20
}
