//! Clusters that are taken out on purpose: until when clients are still sent there by answers that were given before.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use fairway_health::balance::Drain;
use fairway_model::{ClusterName, DesiredState, OverrideAction, SteeredName, Timestamp, Ttl};
use fairway_zones::TargetIndex;

use super::uses::Uses;

/// What is known of clusters that are being drained.
pub(crate) type Drains = BTreeMap<ClusterName, Draining>;

/// A cluster that is being drained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draining {
    /// Since when it is not answered any more.
    pub since: Timestamp,
    /// When the last client should have left.
    pub over: Timestamp,
    /// How much of its demand is still there, 0 to 1; none where that is not known.
    pub left: Option<f64>,
}

/// Follows clusters from the moment they are taken out.
#[derive(Debug, Default)]
pub struct DrainWatch {
    begun: HashMap<ClusterName, Begun>,
}

/// How a drain began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    clock: Timestamp,
    /// For how long answers that were given before may be kept.
    kept: Duration,
    /// The most demand that was there since.
    load: f64,
}

impl DrainWatch {
    /// Notes which clusters are out now: those that it knows go on, others begin or are over.
    pub fn follow(&mut self, out: &[ClusterName], desired: &DesiredState, (now, clock): (Instant, Timestamp)) {
        self.begun.retain(|cluster, _| out.contains(cluster));
        for cluster in out.iter().filter(|cluster| desired.clusters.contains_key(*cluster)) {
            let kept = || Duration::from_secs(largest_ttl(desired, cluster).secs().into());
            self.begun.entry(cluster.clone()).or_insert_with(|| Begun { at: now, clock, kept: kept(), load: 0.0 });
        }
    }

    /// How far each is. `balanced` tells whose answers are kept for longer than they should be, and what is left, where that is known.
    pub fn look(&mut self, balanced: impl Fn(&ClusterName) -> Option<Drain>) -> Drains {
        self.begun.iter_mut().map(|(cluster, begun)| (cluster.clone(), begun.look(balanced(cluster)))).collect()
    }
}

impl Begun {
    fn look(&mut self, known: Option<Drain>) -> Draining {
        let by_ttl = self.kept + slack(self.kept);
        let left = known.map(|drain| {
            // Who asked shortly before may be known later.
            self.load = self.load.max(drain.left);
            if drain.left > 0.0 { drain.left / self.load } else { 0.0 }
        });
        let seen = known.filter(|drain| drain.left > 0.0).map(|drain| drain.over.saturating_duration_since(self.at));
        let span = seen.map_or(by_ttl, |seen| by_ttl.max(seen + slack(self.kept)));
        Draining { since: self.clock, over: self.clock.plus(span), left }
    }
}

/// Clusters all of whose addresses are forced out of the answers.
pub(crate) fn forced_out(forced: &[Option<OverrideAction>], uses: &Uses) -> Vec<ClusterName> {
    let mut all_out: BTreeMap<&ClusterName, bool> = BTreeMap::new();
    if forced.iter().all(Option::is_none) {
        return vec![];
    }
    for (number, forced) in (0..).map(TargetIndex).zip(forced) {
        let is_out = matches!(forced, Some(OverrideAction::Down | OverrideAction::Drain));
        for (cluster, _) in uses.sites(number) {
            *all_out.entry(cluster).or_insert(true) &= is_out;
        }
    }
    all_out.into_iter().filter(|(_, out)| *out).map(|(cluster, _)| cluster.clone()).collect()
}

/// The largest TTL that an answer with the cluster is given with.
fn largest_ttl(desired: &DesiredState, cluster: &ClusterName) -> Ttl {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(20);

    fn begun() -> Begun {
        Begun { at: Instant::now(), clock: Timestamp::from_secs(1_000), kept: TTL, load: 0.0 }
    }

    /// What is left, and how long the drain takes as a whole, in milliseconds.
    fn told(begun: &mut Begun, known: Option<(u64, f64)>) -> (Option<f64>, u128) {
        let known = known.map(|(over, left)| Drain { over: begun.at + Duration::from_secs(over), left });
        let Draining { since, over, left } = begun.look(known);
        (left, over.since(since).as_millis())
    }

    #[test]
    fn where_clients_are_not_known_it_ends_a_twentieth_after_the_ttl() {
        assert_eq!(told(&mut begun(), None), (None, 21_000));
    }

    #[test]
    fn clients_that_keep_answers_for_longer_put_the_end_off_as_long_as_they_are_there() {
        let mut begun = begun();
        assert_eq!(told(&mut begun, Some((60, 8.0))), (Some(1.0), 61_000));
        assert_eq!(told(&mut begun, Some((60, 2.0))), (Some(0.25), 61_000));
        assert_eq!(told(&mut begun, Some((60, 0.0))), (Some(0.0), 21_000));
        assert_eq!(told(&mut begun, Some((5, 2.0))), (Some(0.25), 21_000), "never before the TTL has run out");
    }

    #[test]
    fn what_is_left_is_a_part_of_the_most_that_was_there() {
        let mut begun = begun();
        let left = [-0.0, 3.0, 4.0, 1.0, -1e-12].map(|left| told(&mut begun, Some((5, left))).0);
        assert_eq!(left, [0.0, 1.0, 1.0, 0.25, 0.0].map(Some));
        assert!(left[0].is_some_and(f64::is_sign_positive), "nothing is no negative number");
    }
}
