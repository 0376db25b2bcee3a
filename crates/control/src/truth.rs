//! The truth check: what was declared of each member's share, what was answered, and what arrived.
//!
//! *Declared* are weights. *Answered* is counted: answers of the last minute; in pools that heed load each client counts as
//! much as its demand was found to be, since a resolver asks once a TTL whatever stands behind it. *Arrived* is what the
//! pool's clusters report as their load, in the unit of their capacity. Where these differ for long, something is not as
//! it seems: clients that keep answers too long, traffic that comes by another way, a capacity that is not what it says.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use fairway_health::load::{ClusterLoad, LoadStatus};
use fairway_model::{ClusterName, DesiredState, Pool, PoolName};
use fairway_zones::{Slot, Snapshot};

use fairway_api_types::state_wire::{PoolState, ShareState};

/// What was answered lately, by pool and cluster: shares of it count, not the unit.
pub type Answered = HashMap<Slot, f64>;

/// Counters of answers as they stood, to tell what came since.
#[derive(Debug, Default)]
pub struct Minute {
    seen: VecDeque<(Instant, Vec<u64>)>,
}

impl Minute {
    /// Whether it is time to look at the counters again.
    pub fn is_due(&self, now: Instant) -> bool {
        self.seen.back().is_none_or(|(at, _)| now.duration_since(*at) >= EVERY)
    }

    /// Takes the counters as they stand now; what was answered since the oldest ones that are kept.
    pub fn look(&mut self, counters: Vec<u64>, snapshot: &Snapshot, now: Instant) -> Answered {
        let before = self.seen.front().map(|(_, before)| before.as_slice()).unwrap_or_default();
        // The first counter is that of all members that have none of their own.
        let slots = snapshot.slots().iter().zip(counters.iter().skip(1)).enumerate();
        let since = |place: usize, count: u64| count.saturating_sub(before.get(place + 1).copied().unwrap_or_default());
        let answered = slots.map(|(place, (slot, count))| (slot.clone(), since(place, *count) as f64)).collect();
        self.seen.push_back((now, counters));
        if self.seen.len() > KEPT {
            self.seen.pop_front();
        }
        answered
    }
}

/// Adds to pools in order of name what is known of their members' shares.
pub fn add(pools: &mut [PoolState], desired: &DesiredState, answered: &Answered, loads: &[ClusterLoad]) {
    let carried = carried(desired, loads);
    for (state, pool) in pools.iter_mut().zip(desired.pools.values()) {
        for (member, shares) in state.members.iter_mut().zip(shares(pool, answered, &carried)) {
            member.share = shares;
        }
    }
}

/// The shares of a pool's members, in declared order.
pub fn shares(pool: &Pool, answered: &Answered, carried: &HashMap<ClusterName, f64>) -> Vec<ShareState> {
    let weights: Vec<f64> = pool.members.iter().map(|member| f64::from(member.weight.0)).collect();
    let given: Vec<f64> = pool
        .members
        .iter()
        .map(|member| answered.get(&slot(&pool.name, &member.cluster)).copied().unwrap_or_default())
        .collect();
    // One cluster that says nothing, and the parts of the others are parts of something else.
    let arrived: Option<Vec<f64>> = pool.members.iter().map(|member| carried.get(&member.cluster).copied()).collect();
    let arrived = arrived.and_then(|arrived| parts(&arrived));
    let (weights, given) = (parts(&weights), parts(&given));
    let percent = |parts: &Option<Vec<f64>>, at: usize| parts.as_ref().map(|parts| (1000.0 * parts[at]).round() / 10.0);
    let share = |at| ShareState {
        declared: percent(&weights, at),
        answered: percent(&given, at),
        arrived: percent(&arrived, at),
    };
    (0..pool.members.len()).map(share).collect()
}

/// What each cluster carries, as the word that counts says it; nothing of those whose load is unknown.
pub fn carried(desired: &DesiredState, loads: &[ClusterLoad]) -> HashMap<ClusterName, f64> {
    let carries = |load: &ClusterLoad| {
        let word = load.sources.iter().find(|word| word.status == LoadStatus::Used)?;
        let (permille, _) = word.load?;
        let capacity = desired.clusters.get(&load.cluster)?.capacity?;
        Some((load.cluster.clone(), f64::from(permille.0) / 1000.0 * capacity as f64))
    };
    loads.iter().filter_map(carries).collect()
}

/// The counter of a cluster in a pool.
pub fn slot(pool: &PoolName, cluster: &ClusterName) -> Slot {
    Slot { pool: pool.clone(), cluster: cluster.clone() }
}

/// Each one's part of the whole; none where there is nothing.
fn parts(amounts: &[f64]) -> Option<Vec<f64>> {
    let whole: f64 = amounts.iter().sum();
    (whole > 0.0).then(|| amounts.iter().map(|amount| amount / whole).collect())
}

/// How often counters are looked at.
const EVERY: Duration = Duration::from_secs(10);
/// How many looks are kept: what is told of is a minute old at most.
const KEPT: usize = 6;

#[cfg(test)]
mod tests {
    use fairway_model::{Member, Policy};

    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn pool() -> Pool {
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.members = ["eu1", "us1"].map(|name| Member::new(cluster(name))).into();
        pool.members[0].weight.0 = 60;
        pool.members[1].weight.0 = 40;
        pool
    }

    fn answered(counts: [(&str, f64); 2]) -> Answered {
        counts.map(|(name, count)| (slot(&pool().name, &cluster(name)), count)).into()
    }

    #[test]
    fn declared_answered_and_arrived_stand_side_by_side() {
        let carried = [(cluster("eu1"), 71.0), (cluster("us1"), 29.0), (cluster("other"), 400.0)].into();
        let shares = shares(&pool(), &answered([("eu1", 580.0), ("us1", 420.0)]), &carried);
        let share = |declared, answered, arrived| ShareState {
            declared: Some(declared),
            answered: Some(answered),
            arrived: Some(arrived),
        };
        assert_eq!(shares, [share(60.0, 58.0, 71.0), share(40.0, 42.0, 29.0)]);
    }

    #[test]
    fn nothing_is_said_of_what_nobody_knows() {
        let carried = [(cluster("eu1"), 71.0)].into();
        let shares = shares(&pool(), &Answered::new(), &carried);
        assert!(shares.iter().all(|share| share.answered.is_none() && share.arrived.is_none()), "{shares:?}");
    }
}
