//! What is measured: one health byte a target, versioned, swapped as a whole.
//!
//! Beside that stands what balancing decided, which pools that heed load go by, and which members are closed by their schedules
//! (`schedule_states.rs`). Pools whose down answer is `last-good` also keep here which of their members were the last to be up: that memory is
//! part of what answers depend on, and so part of the id.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{Health, Shares, Target, Timestamp, mix};

use crate::{
    adaptive_ttl::AdaptiveTtls,
    chunks::Chunks,
    schedules::ScheduleStates,
    shares::{ClusterNumbers, CompiledShares},
    snapshot::Snapshot,
    steer::SteerPool,
    target::{TargetIndex, target_hash},
};

/// What is measured, for one snapshot's targets.
#[derive(Clone, Debug)]
pub struct RuntimeState {
    health: Box<[Health]>,
    /// One bit a member, by its number, in whole words a pool; only pools that answer `last-good` have some.
    last_good: Arc<[u64]>,
    /// Where everybody takes everything there is none.
    balanced: Option<Arc<CompiledShares>>,
    /// Where nobody said what time it is, or nobody has a schedule, there is none, and everybody is open.
    schedule_states: Option<Arc<ScheduleStates>>,
    pub(crate) adaptive_ttls: AdaptiveTtls,
    /// The sum over targets, remembering pools, shares, closed members and paces, wrapping.
    pub(crate) id: u64,
    fixed: Arc<Fixed>,
}

/// What stays while the snapshot does.
#[derive(Debug)]
struct Fixed {
    /// What identifies each target.
    hashes: Box<[u64]>,
    /// Which pool remembers by which target, sorted; the pool by its place.
    watchers: Box<[(TargetIndex, u32)]>,
}

impl RuntimeState {
    /// Runtime state of a snapshot: `health` is asked once a target, in order. Schedules are not looked at: every member is
    /// open.
    pub fn new(snapshot: &Snapshot, health: impl FnMut(TargetIndex) -> Health) -> Self {
        Self::of(snapshot.targets(), snapshot.remembering_pools(), None, health)
    }

    /// Runtime state of a snapshot at a moment.
    pub fn new_at(snapshot: &Snapshot, now: Timestamp, health: impl FnMut(TargetIndex) -> Health) -> Self {
        let pools = snapshot.steer_pools();
        let schedule_states =
            (!snapshot.schedules().is_empty()).then(|| ScheduleStates::new(snapshot.schedules(), pools, now, None));
        Self::of(snapshot.targets(), snapshot.remembering_pools(), schedule_states, health)
    }

    /// Runtime state of a snapshot that replaces another, at a moment: pools that answer `last-good` remember over the change, by the
    /// names of pool and cluster, and shares stay with the clusters of the same name.
    pub fn after(
        snapshot: &Snapshot,
        previous: (&Snapshot, &Self),
        now: Timestamp,
        health: impl FnMut(TargetIndex) -> Health,
    ) -> Self {
        let mut next = Self::new_at(snapshot, now, health);
        if let (Some(pools), Some(old_pools)) = (snapshot.remembering_pools(), previous.0.remembering_pools()) {
            next.carry(pools, old_pools, previous.1);
        }
        match &previous.1.balanced {
            Some(balanced) => next.balanced_by(snapshot.balanced_clusters(), &balanced.shares),
            None => next,
        }
    }

    /// The same runtime state with some targets changed: a copy of a few kilobytes, never a rebuild.
    ///
    /// Targets that the snapshot does not have are passed over: a verdict may come for one that a reload has dropped.
    pub fn with(&self, snapshot: &Snapshot, changes: &[(TargetIndex, Health)]) -> Self {
        self.changed(snapshot.steer_pools(), changes)
    }

    /// The same runtime state under what balancing decided anew: what it said before is gone.
    ///
    /// Clusters and pins of clusters that no pool of the snapshot balances are kept for the next snapshot, and change no
    /// answer; of more pins than [`Shares::PINS_MAX`] the first ones hold.
    pub fn with_shares(&self, snapshot: &Snapshot, shares: &Arc<Shares>) -> Self {
        self.balanced_by(snapshot.balanced_clusters(), shares)
    }

    /// What balancing decided, as [`RuntimeState::with_shares`] was given it.
    pub fn shares(&self) -> Option<&Arc<Shares>> {
        self.balanced.as_ref().map(|balanced| &balanced.shares)
    }

    /// The health of one target; one that is not known was never judged.
    pub fn health(&self, target: TargetIndex) -> Health {
        self.health.get(target.0 as usize).copied().unwrap_or(Health::PENDING)
    }

    /// Equal ids of snapshot and runtime state give equal answers on every server.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The health of all targets, by their index.
    #[inline]
    pub(crate) fn all(&self) -> &[Health] {
        &self.health
    }

    /// What members take; none where everybody takes everything.
    #[inline]
    pub(crate) fn balanced(&self) -> Option<&CompiledShares> {
        self.balanced.as_deref()
    }

    /// The members of a pool that were the last to be up, by number, one bit each; empty where that is not remembered.
    pub(crate) fn last_good(&self, pool: &SteerPool) -> &[u64] {
        self.last_good.get(pool.memory()).unwrap_or_default()
    }

    /// How schedules stand.
    pub(crate) fn schedule_states(&self) -> Option<&ScheduleStates> {
        self.schedule_states.as_deref()
    }

    /// The members of a pool that are closed, by number, one bit each; empty where the pool heeds no schedules.
    #[inline]
    pub(crate) fn closed(&self, pool: &SteerPool) -> &[u64] {
        if pool.closed_words().is_empty() {
            &[]
        } else {
            self.schedule_states().map_or(&[], |schedule_states| schedule_states.closed(pool))
        }
    }

    /// [`RuntimeState::new`] from the pieces; of the pools only those count that remember who was the last to be up.
    pub(crate) fn of(
        targets: &[Target],
        pools: Option<&Chunks<SteerPool>>,
        schedule_states: Option<ScheduleStates>,
        health: impl FnMut(TargetIndex) -> Health,
    ) -> Self {
        let indices = (0..).map(TargetIndex).zip(targets);
        let health: Box<[Health]> = indices.map(|(index, _)| index).map(health).collect();
        let hashes: Box<[u64]> = targets.iter().map(target_hash).collect();
        let pools = || pools.into_iter().flatten();
        let remembering = || (0..).zip(pools()).filter(|(_, pool)| !pool.memory().is_empty());
        let mut watchers: Vec<(TargetIndex, u32)> =
            remembering().flat_map(|(place, pool)| pool.all_targets().map(move |target| (target, place))).collect();
        watchers.sort_unstable();
        watchers.dedup();
        let words = remembering().map(|(_, pool)| pool.memory().end).max().unwrap_or_default();
        let of_times = schedule_states.as_ref().map_or(0, |schedule_states| schedule_states.id);
        let id =
            hashes.iter().zip(&health).fold(of_times, |sum, (hash, health)| sum.wrapping_add(part(*hash, *health)));
        let fixed = Arc::new(Fixed { hashes, watchers: watchers.into() });
        let (last_good, schedule_states) = (vec![0; words].into(), schedule_states.map(Arc::new));
        let mut runtime = Self {
            health,
            last_good,
            balanced: None,
            schedule_states,
            adaptive_ttls: AdaptiveTtls::default(),
            id,
            fixed,
        };
        for (_, pool) in remembering() {
            runtime.id = runtime.id.wrapping_add(pool.memory_hash(runtime.last_good(pool)));
            runtime.remember(pool);
        }
        runtime
    }

    /// [`RuntimeState::with`] from the pieces.
    pub(crate) fn changed(&self, pools: &Chunks<SteerPool>, changes: &[(TargetIndex, Health)]) -> Self {
        let mut next = self.clone();
        for (target, health) in changes {
            let at = target.0 as usize;
            let (Some(slot), Some(hash)) = (next.health.get_mut(at), next.fixed.hashes.get(at)) else { continue };
            next.id = next.id.wrapping_sub(part(*hash, *slot)).wrapping_add(part(*hash, *health));
            *slot = *health;
        }
        for (target, _) in changes {
            let begin = self.fixed.watchers.partition_point(|(watched, _)| watched < target);
            for (_, place) in self.fixed.watchers[begin..].iter().take_while(|(watched, _)| watched == target) {
                if let Some(pool) = pools.get(*place as usize) {
                    next.remember(pool);
                }
            }
        }
        next
    }

    /// [`RuntimeState::at`] from the pieces. Who is open now may be the last that was up.
    pub(crate) fn timed(&self, pools: &Chunks<SteerPool>, schedule_states: ScheduleStates) -> Self {
        let before = self.schedule_states().map_or(0, |schedule_states| schedule_states.id);
        let id = self.id.wrapping_sub(before).wrapping_add(schedule_states.id);
        let mut next = Self { schedule_states: Some(Arc::new(schedule_states)), id, ..self.clone() };
        for pool in pools.iter().filter(|pool| !pool.memory().is_empty() && !pool.closed_words().is_empty()) {
            next.remember(pool);
        }
        next
    }

    /// [`RuntimeState::with_shares`] from the pieces.
    pub(crate) fn balanced_by(&self, clusters: &ClusterNumbers, shares: &Arc<Shares>) -> Self {
        let balanced = CompiledShares::new(clusters, Arc::clone(shares));
        let before = self.balanced.as_ref().map_or(0, |balanced| balanced.id);
        let id = self.id.wrapping_sub(before).wrapping_add(balanced.id);
        Self { balanced: Some(Arc::new(balanced)), id, ..self.clone() }
    }

    /// Takes over what pools of the same name remembered, where nothing of them is live now.
    pub(crate) fn carry(&mut self, pools: &Chunks<SteerPool>, old_pools: &Chunks<SteerPool>, old: &Self) {
        let remembering = |pool: &&SteerPool| !pool.memory().is_empty();
        let mut by_name: HashMap<_, Vec<&SteerPool>> = HashMap::new();
        old_pools.iter().filter(remembering).for_each(|pool| by_name.entry(pool.name()).or_default().push(pool));
        for pool in pools.iter().filter(remembering) {
            // Of a pool that is several the same one, else one that is chosen whatever order they stand in.
            let of_name = by_name.get(pool.name()).into_iter().flatten();
            let Some(before) = of_name.min_by_key(|old| (old.key() != pool.key(), old.key())) else { continue };
            if self.last_good(pool).iter().any(|word| *word != 0) {
                continue;
            }
            let was_good: Vec<_> = before.clusters_among(old.last_good(before)).collect();
            let members = pool.clusters().enumerate().filter(|(_, cluster)| was_good.contains(cluster));
            let numbers: Vec<_> = members.map(|(number, _)| number).collect();
            self.set_last_good(pool, |words| {
                numbers.iter().for_each(|number| words[number / 64] |= 1 << (number % 64))
            });
        }
    }

    /// Notes who is live in a pool, if anyone is.
    fn remember(&mut self, pool: &SteerPool) {
        let live = pool.live(self);
        if live.iter().any(|word| *word != 0) && !live.starts_with(self.last_good(pool)) {
            self.set_last_good(pool, |words| words.copy_from_slice(&live[..words.len()]));
        }
    }

    fn set_last_good(&mut self, pool: &SteerPool, set: impl FnOnce(&mut [u64])) {
        let before = pool.memory_hash(self.last_good(pool));
        if self.last_good.get(pool.memory()).is_some() {
            // Copied only now that it changes: until then all versions share one.
            set(&mut Arc::make_mut(&mut self.last_good)[pool.memory()]);
        }
        self.id = self.id.wrapping_sub(before).wrapping_add(pool.memory_hash(self.last_good(pool)));
    }
}

/// What a target adds to the id.
fn part(hash: u64, health: Health) -> u64 {
    mix(hash ^ u64::from(health.bits()))
}
