//! What a flip moved: which pools answer otherwise than they would without it, for which part of their clients.
//!
//! Told after the fact, beside the control task: the answering code itself is asked twice for sampled clients, with the
//! target as it is and as it was. Balancing that comes later on account of the flip is no part of it.

use std::collections::HashMap;

use fairway_health::HealthTransition;
use fairway_model::{ClusterName, Health, Name, PoolName, SharedSet};
use fairway_zones::{Draw, PoolInfo, RuntimeState, ServingState, steer::SteerPool};

use super::samples::samples;
use super::{AppliedTransition, Control, Published};

/// What a flip moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// The pools whose clients it moved, who moved most first; at most `POOLS_TOLD`.
    pub pools: Vec<PoolMoved>,
    /// How many pools it moved clients of; none where there were too many to ask.
    pub pools_moved: Option<usize>,
    /// How many names these answer.
    pub names_moved: usize,
}

/// What a flip moved in one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolMoved {
    /// The pool.
    pub pool: PoolName,
    /// How many names it answers.
    pub names: usize,
    /// The first few of them.
    pub some: Vec<Name>,
    /// The part of its clients that is answered otherwise, 0 to 1.
    pub moved: f64,
    /// Each cluster's part of the clients, before and after; those that have one at either time, most changed first.
    pub shares: Parts,
}

/// Clusters, each with its part of the clients before and after, 0 to 1.
pub(crate) type Parts = Vec<(ClusterName, f64, f64)>;

impl Control {
    /// What each of these flips moved, in their order. It takes some milliseconds, on a thread of its own.
    pub async fn stories(&self, transitions: &[AppliedTransition]) -> Vec<Story> {
        let view = self.shared.serving.load();
        let wanted = transitions.iter().map(|told| (told.transition.clone(), told.pools.clone())).collect::<Vec<_>>();
        let count = wanted.len();
        let told = tokio::task::spawn_blocking(move || stories(&view, &view.published, &wanted)).await;
        told.unwrap_or_else(|_| vec![Story::default(); count])
    }
}

fn stories(
    view: &ServingState,
    published: &Published,
    transitions: &[(HealthTransition, SharedSet<PoolName>)],
) -> Vec<Story> {
    let asked: usize = transitions.iter().map(|(_, pools)| pools.len()).sum();
    let each = (SAMPLES_ALL / asked.max(1)).min(SAMPLES_MOST);
    if each < SAMPLES_LEAST {
        return vec![Story::default(); transitions.len()];
    }
    let mut places: HashMap<&PoolName, Vec<usize>> = HashMap::new();
    for (place, info) in view.snapshot.pool_infos().iter().enumerate() {
        places.entry(&info.name).or_default().push(place);
    }
    let story = |(transition, pools): &(HealthTransition, SharedSet<PoolName>)| {
        let Some(number) = published.configured.uses.number_of(&transition.target) else { return Story::default() };
        let forced = view.runtime.health(number).override_action();
        let before = view.runtime.with(&view.snapshot, &[(number, Health::new(transition.from, forced))]);
        let moved = pools.keys().filter_map(|pool| pool_moved(view, &before, places.get(pool)?, each));
        let mut pools: Vec<_> = moved.collect();
        pools.sort_by(|a, b| b.moved.total_cmp(&a.moved).then_with(|| a.pool.cmp(&b.pool)));
        let (pools_moved, names_moved) = (Some(pools.len()), pools.iter().map(|pool| pool.names).sum());
        pools.truncate(POOLS_TOLD);
        Story { pools, pools_moved, names_moved }
    };
    transitions.iter().map(story).collect()
}

/// What moved in the pool at these places (one a zone where zones have monitors of their own); none where nothing did.
fn pool_moved(view: &ServingState, before: &RuntimeState, places: &[usize], samples: usize) -> Option<PoolMoved> {
    let (pools, infos) = (view.snapshot.steer_pools(), view.snapshot.pool_infos());
    let (moved, shares) = places
        .iter()
        .filter_map(|place| pools.get(*place))
        .map(|pool| shares(pool, before, &view.runtime, samples))
        .find(|(moved, _)| *moved > 0.0)?;
    let infos: Vec<&PoolInfo> = places.iter().filter_map(|place| infos.get(*place)).collect();
    Some(PoolMoved {
        pool: infos.first()?.name.clone(),
        names: infos.iter().map(|info| info.names.len()).sum(),
        some: infos.iter().flat_map(|info| &info.names).take(NAMES_TOLD).cloned().collect(),
        moved,
        shares,
    })
}

/// The part of the clients that is answered otherwise, and each cluster's part of them before and after.
fn shares(pool: &SteerPool, before: &RuntimeState, after: &RuntimeState, count: usize) -> (f64, Parts) {
    let kind = pool.usual_kind();
    let first = |runtime: &RuntimeState, client, draw: Draw| {
        pool.choose(kind, runtime, client, draw, &mut ()).members.as_slice().first().copied()
    };
    let mut counts = vec![(0_u32, 0_u32); pool.clusters().len()];
    let mut moved = 0_u32;
    for (address, draw) in samples(count) {
        let client = pool.client_net(address.into());
        let (was, is) = (first(before, client, draw), first(after, client, draw));
        moved += u32::from(was != is);
        was.into_iter().for_each(|member| counts[usize::from(member)].0 += 1);
        is.into_iter().for_each(|member| counts[usize::from(member)].1 += 1);
    }
    let part = |counted: u32| f64::from(counted) / count as f64;
    let mut shares: Parts = pool
        .clusters()
        .zip(&counts)
        .filter(|(_, (was, is))| was + is > 0)
        .map(|(cluster, (was, is))| (cluster.clone(), part(*was), part(*is)))
        .collect();
    shares.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs()));
    shares.truncate(SHARES_TOLD);
    (part(moved), shares)
}

/// Clients asked for in all of a batch of flips: two choices each, so that a batch takes some 20 ms.
const SAMPLES_ALL: usize = 32_768;
/// Most clients asked for in one pool: shares are within 5 percentage points in 99.7 % of the cases.
const SAMPLES_MOST: usize = 1_024;
/// With fewer, a pool that moved clients may look as if it did not.
const SAMPLES_LEAST: usize = 16;
/// Pools that one story tells of.
pub(crate) const POOLS_TOLD: usize = 8;
/// Names of a pool that it tells.
const NAMES_TOLD: usize = 5;
/// Clusters of a pool that it tells.
const SHARES_TOLD: usize = 12;
