//! Clusters that are being drained: how long clients are still sent there by earlier answers.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use fairway_model::{ClusterName, DesiredState, OverrideAction, SteeredName, Timestamp, Ttl};
use fairway_steering::balancer::Drain;

use super::{fence::DeniedTargets, lifecycle::Moment, uses::TargetUses};

/// Clusters that are being drained, and their progress.
pub type Drains = BTreeMap<ClusterName, DrainProgress>;

/// The progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrainProgress {
    /// Start of the drain: no later answer names the cluster.
    pub since: Timestamp,
    /// Time when the last client should have left.
    pub over: Timestamp,
    /// Part of the demand that is still there, 0 to 1; `None` if it is not known.
    pub left: Option<f64>,
}

/// Follows clusters from the start of their drain.
#[derive(Debug, Default)]
pub(crate) struct DrainWatch {
    drains: HashMap<ClusterName, DrainStart>,
}

/// The start of a drain.
#[derive(Clone, Copy, Debug)]
struct DrainStart {
    at: Moment,
    /// Longest time that caches may keep earlier answers.
    ttl: Duration,
    /// The highest demand since then.
    demand: f64,
}

impl DrainWatch {
    /// Sets the clusters that are drained now. Known ones go on; the others begin or end.
    pub(crate) fn follow(&mut self, drained: &[ClusterName], desired: &DesiredState, now: Moment) {
        self.drains.retain(|cluster, _| drained.contains(cluster));
        for cluster in drained.iter().filter(|cluster| desired.clusters.contains_key(*cluster)) {
            let ttl = || Duration::from_secs(largest_ttl(desired, cluster).secs().into());
            self.drains.entry(cluster.clone()).or_insert_with(|| DrainStart { at: now, ttl: ttl(), demand: 0.0 });
        }
    }

    /// Returns the progress of each drain. `observed` returns the observed demand of a cluster that is balanced.
    pub(crate) fn progress(&mut self, observed: impl Fn(&ClusterName) -> Option<Drain>) -> Drains {
        let drains = self.drains.iter_mut();
        drains.map(|(cluster, start)| (cluster.clone(), start.progress(observed(cluster)))).collect()
    }
}

impl DrainStart {
    fn progress(&mut self, observed: Option<Drain>) -> DrainProgress {
        // The slack is for answers in flight, and for caches that count in whole seconds.
        let by_ttl = self.ttl + self.ttl / 20;
        let left = observed.map(|drain| {
            // Clients that asked shortly before the start may become known later.
            self.demand = self.demand.max(drain.left);
            if drain.left > 0.0 { drain.left / self.demand } else { 0.0 }
        });
        let remaining = observed.filter(|drain| drain.left > 0.0);
        let by_clients = remaining.map(|drain| drain.over.saturating_duration_since(self.at.monotonic));
        let span = by_clients.map_or(by_ttl, |span| by_ttl.max(span));
        DrainProgress { since: self.at.wall, over: self.at.wall.plus(span), left }
    }
}

/// Returns the clusters whose addresses are all overridden as down or drained. `overrides` has the action of each target by its index.
pub(crate) fn fully_overridden(
    overrides: &[Option<OverrideAction>],
    denied: &DeniedTargets,
    uses: &TargetUses,
) -> Vec<ClusterName> {
    let mut clusters: BTreeMap<&ClusterName, bool> = BTreeMap::new();
    if overrides.iter().all(Option::is_none) {
        return vec![];
    }
    for (target, action) in uses.targets_all().zip(overrides) {
        let is_out =
            matches!(action, Some(OverrideAction::Down | OverrideAction::Drain)) && denied.reason(target).is_none();
        for (cluster, _) in uses.addresses(target) {
            *clusters.entry(cluster).or_insert(true) &= is_out;
        }
    }
    clusters.into_iter().filter(|(_, is_out)| *is_out).map(|(cluster, _)| cluster.clone()).collect()
}

/// Returns the largest TTL of answers that name the cluster.
fn largest_ttl(desired: &DesiredState, cluster: &ClusterName) -> Ttl {
    let has = |name: &&SteeredName| {
        desired.pools.get(&name.pool).is_some_and(|pool| pool.members.iter().any(|member| member.cluster == *cluster))
    };
    let ttls = desired.names.values().filter(has).filter_map(|name| desired.ttl_max(name));
    ttls.max().unwrap_or(Ttl::STEERED)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TTL: Duration = Duration::from_secs(20);

    fn start() -> DrainStart {
        let at = Moment { monotonic: Instant::now(), wall: Timestamp::from_secs(1_000) };
        DrainStart { at, ttl: TTL, demand: 0.0 }
    }

    /// Returns the remaining part, and the whole duration of the drain in milliseconds.
    fn progress(start: &mut DrainStart, observed: Option<(u64, f64)>) -> (Option<f64>, u128) {
        let observed =
            observed.map(|(over, left)| Drain { over: start.at.monotonic + Duration::from_secs(over), left });
        let DrainProgress { since, over, left } = start.progress(observed);
        (left, over.since(since).as_millis())
    }

    #[test]
    fn drain_of_unknown_demand_ends_a_twentieth_after_the_ttl() {
        assert_eq!(progress(&mut start(), None), (None, 21_000));
    }

    #[test]
    fn clients_that_keep_answers_longer_delay_the_end_while_they_are_there() {
        let mut start = start();
        assert_eq!(progress(&mut start, Some((60, 8.0))), (Some(1.0), 60_000));
        assert_eq!(progress(&mut start, Some((60, 2.0))), (Some(0.25), 60_000));
        assert_eq!(progress(&mut start, Some((60, 0.0))), (Some(0.0), 21_000));
        let before_ttl = progress(&mut start, Some((5, 2.0)));
        assert_eq!(before_ttl, (Some(0.25), 21_000), "the drain never ends before the TTL");
    }

    #[test]
    fn remaining_demand_is_a_part_of_the_highest_demand() {
        let mut start = start();
        let left = [-0.0, 3.0, 4.0, 1.0, -1e-12].map(|left| progress(&mut start, Some((5, left))).0);
        assert_eq!(left, [0.0, 1.0, 1.0, 0.25, 0.0].map(Some));
        assert!(left[0].is_some_and(f64::is_sign_positive), "no demand is 0, not -0");
    }
}
