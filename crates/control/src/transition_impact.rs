//! The impact of a health transition: pools whose answers differ because of it, and the part of their clients.
//!
//! It is computed afterwards, outside of the control task: the code that answers is called twice for sampled clients, with the target
//! before and after the transition. Later balancing because of the transition is not included.

use std::collections::HashMap;

use fairway_model::{ClusterName, Name, PoolName};
use fairway_zones::{Draw, PoolInfo, RuntimeState, ServingState, steer::SteerPool};

use super::{AppliedTransition, Control, Published, samples::samples};

/// The impact of a health transition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitionImpact {
    /// Pools with moved clients, at most 8, the one with the largest part first.
    pub pools: Vec<PoolImpact>,
    /// Number of pools with moved clients; `None` if there were too many to sample.
    pub pools_moved: Option<usize>,
    /// Number of names of these pools.
    pub names_moved: usize,
}

/// The impact of a health transition on one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolImpact {
    /// The pool.
    pub pool: PoolName,
    /// Number of its names.
    pub names: usize,
    /// The first few of them.
    pub some: Vec<Name>,
    /// Part of its clients with another answer, 0 to 1.
    pub moved: f64,
    /// Shares of its clusters, at most 12, the one with the largest change first.
    pub shares: Vec<ShareChange>,
}

/// A cluster's part of the clients of a pool, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareChange {
    /// The cluster.
    pub cluster: ClusterName,
    /// Part before the transition.
    pub before: f64,
    /// Part after the transition.
    pub after: f64,
}

impl Control {
    /// Returns the impact of each health transition, in their order. This takes some milliseconds on a separate thread.
    pub async fn impacts(&self, transitions: &[AppliedTransition]) -> Vec<TransitionImpact> {
        let current = self.shared.serving.load();
        let (count, transitions) = (transitions.len(), transitions.to_vec());
        let impacts = tokio::task::spawn_blocking(move || impacts(&current, &current.published, &transitions)).await;
        impacts.unwrap_or_else(|_| vec![TransitionImpact::default(); count])
    }
}

fn impacts(state: &ServingState, published: &Published, transitions: &[AppliedTransition]) -> Vec<TransitionImpact> {
    let pools: usize = transitions.iter().map(|applied| applied.pools.len()).sum();
    let samples = (SAMPLES_ALL / pools.max(1)).min(SAMPLES_MAX);
    if samples < SAMPLES_MIN {
        return vec![TransitionImpact::default(); transitions.len()];
    }
    let mut numbers: HashMap<&PoolName, Vec<usize>> = HashMap::new();
    for (number, info) in state.snapshot.pool_infos().iter().enumerate() {
        numbers.entry(&info.name).or_default().push(number);
    }
    let impact = |AppliedTransition { transition, pools, .. }: &AppliedTransition| {
        let Some(number) = published.configured.uses.number_of(&transition.target) else {
            return TransitionImpact::default();
        };
        let health = state.runtime.health(number).with_status(transition.from);
        let before = state.runtime.with(&state.snapshot, &[(number, health)]);
        let moved = pools.keys().filter_map(|pool| pool_impact(state, &before, numbers.get(pool)?, samples));
        let mut pools: Vec<_> = moved.collect();
        pools.sort_by(|a, b| b.moved.total_cmp(&a.moved).then_with(|| a.pool.cmp(&b.pool)));
        let (pools_moved, names_moved) = (Some(pools.len()), pools.iter().map(|pool| pool.names).sum());
        pools.truncate(POOLS_MAX);
        TransitionImpact { pools, pools_moved, names_moved }
    };
    transitions.iter().map(impact).collect()
}

/// Returns the impact on the pool with these numbers (one per zone if zones have their own monitors), or `None` if no client moved.
fn pool_impact(state: &ServingState, before: &RuntimeState, numbers: &[usize], samples: usize) -> Option<PoolImpact> {
    let (pools, infos) = (state.snapshot.steer_pools(), state.snapshot.pool_infos());
    let (moved, shares) = numbers
        .iter()
        .filter_map(|number| pools.get(*number))
        .map(|pool| shares(pool, before, &state.runtime, samples))
        .find(|(moved, _)| *moved > 0.0)?;
    let infos: Vec<&PoolInfo> = numbers.iter().filter_map(|number| infos.get(*number)).collect();
    Some(PoolImpact {
        pool: infos.first()?.name.clone(),
        names: infos.iter().map(|info| info.names.len()).sum(),
        some: infos.iter().flat_map(|info| &info.names).take(NAMES_MAX).cloned().collect(),
        moved,
        shares,
    })
}

/// Returns the part of the clients with another answer, and the shares of clusters.
fn shares(pool: &SteerPool, before: &RuntimeState, after: &RuntimeState, count: usize) -> (f64, Vec<ShareChange>) {
    let kind = pool.answerable_kind();
    let first = |runtime: &RuntimeState, client, draw: Draw| {
        pool.choose(kind, runtime, client, draw, &mut ()).members.as_slice().first().copied()
    };
    let mut counts = vec![(0_u32, 0_u32); pool.clusters().len()];
    let mut moved = 0_u32;
    for (address, draw) in samples(count) {
        let client = pool.client_net(address.into());
        let (was, is) = (first(before, client, draw), first(after, client, draw));
        moved += u32::from(was != is);
        if let Some(member) = was {
            counts[usize::from(member)].0 += 1;
        }
        if let Some(member) = is {
            counts[usize::from(member)].1 += 1;
        }
    }
    let part = |counted: u32| f64::from(counted) / count as f64;
    let mut shares: Vec<ShareChange> = pool
        .clusters()
        .zip(&counts)
        .filter(|(_, (was, is))| was + is > 0)
        .map(|(cluster, (was, is))| ShareChange { cluster: cluster.clone(), before: part(*was), after: part(*is) })
        .collect();
    let change = |share: &ShareChange| (share.before - share.after).abs();
    shares.sort_by(|a, b| change(b).total_cmp(&change(a)));
    shares.truncate(SHARES_MAX);
    (part(moved), shares)
}

/// Number of sampled clients of a batch of transitions. With two choices for each, a batch takes some 20 ms.
const SAMPLES_ALL: usize = 32_768;
/// Maximum number of sampled clients of one pool: 3 × √(0.25 / 1,024) = 0.047, so shares are within 5 percentage points in 99.7 % of the
/// cases.
const SAMPLES_MAX: usize = 1_024;
/// With fewer samples, a pool with moved clients may look unaffected.
const SAMPLES_MIN: usize = 16;
/// Maximum number of pools of one impact.
const POOLS_MAX: usize = 8;
/// Maximum number of listed names of a pool.
const NAMES_MAX: usize = 5;
/// Maximum number of clusters of a pool.
const SHARES_MAX: usize = 12;
