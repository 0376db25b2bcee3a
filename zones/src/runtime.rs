//! Runtime state: everything measured about a snapshot, replaced as a whole.
//!
//! It holds one health byte per target, the shares from balancing, the adaptive TTLs, the members that their schedules
//! close (`schedules.rs`), and the last-good members of pools with the down answer `last-good`. Answers depend on all
//! of it, so all of it is part of the id.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{Health, Shares, Timestamp, mix, stable_hash};

use crate::{
    adaptive_ttl::AdaptiveTtls, schedules::ScheduleStates, shares::CompiledShares, snapshot::Snapshot,
    steer::SteerPool, target::TargetIndex,
};

/// Measured state of the targets and pools of one snapshot.
#[derive(Clone, Debug)]
pub struct RuntimeState {
    /// Health of all targets, by index.
    pub(crate) health: Box<[Health]>,
    /// One bit per member, by its number, in whole words per pool. Only pools with the down answer `last-good` have
    /// words.
    last_good: Arc<[u64]>,
    /// `None` without load control.
    pub(crate) balanced: Option<Arc<CompiledShares>>,
    /// `None` if the time is not known or no member has a schedule. Then all members are open.
    pub(crate) schedule_states: Option<Arc<ScheduleStates>>,
    pub(crate) adaptive_ttls: AdaptiveTtls,
    /// Wrapping sum over targets, last-good members, shares, closed members and adaptive TTLs.
    pub(crate) id: u64,
    pub(crate) fixed: Arc<Fixed>,
}

/// Data that is constant while the snapshot is.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// Hash of each target, equal on every server.
    pub(crate) hashes: Box<[u64]>,
    /// Pools with the down answer `last-good` by target, sorted. A pool is given by its index.
    watchers: Box<[(TargetIndex, u32)]>,
}

impl RuntimeState {
    /// Returns the runtime state of a snapshot, with all members open. Calls `health` once per target, in order.
    pub fn new(snapshot: &Snapshot, health: impl FnMut(TargetIndex) -> Health) -> Self {
        Self::with_schedules(snapshot, None, health)
    }

    /// Returns the runtime state of a snapshot at a time.
    pub fn new_at(snapshot: &Snapshot, now: Timestamp, health: impl FnMut(TargetIndex) -> Health) -> Self {
        let schedule_states =
            (!snapshot.targets.schedules.is_empty()).then(|| ScheduleStates::new(snapshot, now, None));
        Self::with_schedules(snapshot, schedule_states, health)
    }

    fn with_schedules(
        snapshot: &Snapshot,
        schedule_states: Option<ScheduleStates>,
        health: impl FnMut(TargetIndex) -> Health,
    ) -> Self {
        let health: Box<[Health]> = (0..snapshot.targets().len() as u32).map(TargetIndex).map(health).collect();
        let hashes: Box<[u64]> = snapshot.targets().iter().map(stable_hash).collect();
        let watchers = snapshot
            .remembering_pools()
            .flat_map(|(place, pool)| pool.all_targets().map(move |target| (target, place)));
        let mut watchers: Vec<(TargetIndex, u32)> = watchers.collect();
        watchers.sort_unstable();
        watchers.dedup();
        let [memory_words, _] = snapshot.targets.words();
        let of_times = schedule_states.as_ref().map_or(0, |schedule_states| schedule_states.id);
        let id =
            hashes.iter().zip(&health).fold(of_times, |sum, (hash, health)| sum.wrapping_add(part(*hash, *health)));
        let mut runtime = Self {
            health,
            last_good: vec![0; memory_words].into(),
            balanced: None,
            schedule_states: schedule_states.map(Arc::new),
            adaptive_ttls: AdaptiveTtls::default(),
            id,
            fixed: Arc::new(Fixed { hashes, watchers: watchers.into() }),
        };
        for (_, pool) in snapshot.remembering_pools() {
            runtime.id = runtime.id.wrapping_add(pool.memory_hash(runtime.last_good(pool)));
            runtime.remember(pool);
        }
        runtime
    }

    /// Returns the runtime state of a snapshot that replaces another one.
    ///
    /// Last-good members are kept by the names of pool and cluster, and shares by the name of the cluster.
    pub fn after(
        snapshot: &Snapshot,
        previous: (&Snapshot, &Self),
        now: Timestamp,
        health: impl FnMut(TargetIndex) -> Health,
    ) -> Self {
        let mut next = Self::new_at(snapshot, now, health);
        next.carry(snapshot, previous);
        match &previous.1.balanced {
            Some(balanced) => next.with_shares(snapshot, &balanced.shares),
            None => next,
        }
    }

    /// Returns the runtime state with the health of some targets changed. Copies a few kilobytes and rebuilds nothing.
    ///
    /// Ignores targets that the snapshot does not have, since a reload may have dropped a target while its probe ran.
    pub fn with(&self, snapshot: &Snapshot, changes: &[(TargetIndex, Health)]) -> Self {
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
                if let Some(pool) = snapshot.pools.get(*place as usize) {
                    next.remember(pool);
                }
            }
        }
        next
    }

    /// Returns the runtime state with the latest shares from balancing in place of the previous ones.
    ///
    /// Tables of classes that the snapshot does not have change no answer and are kept for the next snapshot.
    pub fn with_shares(&self, snapshot: &Snapshot, shares: &Arc<Shares>) -> Self {
        let balanced = CompiledShares::new(&snapshot.targets.balanced, snapshot.load_classes(), Arc::clone(shares));
        let before = self.balanced.as_ref().map_or(0, |balanced| balanced.id);
        let id = self.id.wrapping_sub(before).wrapping_add(balanced.id);
        Self { balanced: Some(Arc::new(balanced)), id, ..self.clone() }
    }

    /// Returns the runtime state at a time, or `None` if nothing changes.
    ///
    /// Costs two comparisons until the next member opens or closes, so it can be called every second. A member that
    /// opens may become last-good.
    pub fn at(&self, snapshot: &Snapshot, now: Timestamp) -> Option<Self> {
        let before = self.schedule_states.as_deref();
        if snapshot.targets.schedules.is_empty() || before.is_some_and(|states| states.holds(now)) {
            return None;
        }
        let states = ScheduleStates::new(snapshot, now, before);
        let id = self.id.wrapping_sub(before.map_or(0, |states| states.id)).wrapping_add(states.id);
        let mut next = Self { schedule_states: Some(Arc::new(states)), id, ..self.clone() };
        for (_, pool) in snapshot.remembering_pools().filter(|(_, pool)| pool.uses_schedules()) {
            next.remember(pool);
        }
        Some(next)
    }

    /// Returns the shares that [`RuntimeState::with_shares`] was called with last.
    pub fn shares(&self) -> Option<&Arc<Shares>> {
        self.balanced.as_ref().map(|balanced| &balanced.shares)
    }

    /// Returns the health of a target. An unknown target is pending.
    pub fn health(&self, target: TargetIndex) -> Health {
        self.health.get(target.0 as usize).copied().unwrap_or(Health::PENDING)
    }

    /// Returns the id. Equal ids of snapshot and runtime state give equal answers on every server.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the last-good members of a pool, one bit per number. Empty if the pool does not keep them.
    pub(crate) fn last_good(&self, pool: &SteerPool) -> &[u64] {
        self.last_good.get(pool.memory()).unwrap_or_default()
    }

    /// Returns the members of a pool that are closed, one bit per number. Empty if the pool uses no schedules.
    #[inline]
    pub(crate) fn closed(&self, pool: &SteerPool) -> &[u64] {
        if pool.closed_words().is_empty() {
            &[]
        } else {
            self.schedule_states.as_deref().map_or(&[], |schedule_states| schedule_states.closed(pool))
        }
    }

    /// Takes over the last-good members of the pools of the same name, for pools without a live member.
    fn carry(&mut self, snapshot: &Snapshot, (old_snapshot, old): (&Snapshot, &Self)) {
        let mut by_name: HashMap<_, Vec<&SteerPool>> = HashMap::new();
        for (_, pool) in old_snapshot.remembering_pools() {
            by_name.entry(pool.name()).or_default().push(pool);
        }
        for (_, pool) in snapshot.remembering_pools() {
            // Of several pools of one name the one with the same key, else the one with the least key, so that their
            // order does not matter.
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

    /// Stores the live members of a pool as its last-good ones, if there are any.
    fn remember(&mut self, pool: &SteerPool) {
        let live = pool.live(self);
        if live.iter().any(|word| *word != 0) && !live.starts_with(self.last_good(pool)) {
            self.set_last_good(pool, |words| words.copy_from_slice(&live[..words.len()]));
        }
    }

    pub(crate) fn set_last_good(&mut self, pool: &SteerPool, set: impl FnOnce(&mut [u64])) {
        let before = pool.memory_hash(self.last_good(pool));
        if self.last_good.get(pool.memory()).is_some() {
            // Copied only if it changes. Until then all versions share one allocation.
            set(&mut Arc::make_mut(&mut self.last_good)[pool.memory()]);
        }
        self.id = self.id.wrapping_sub(before).wrapping_add(pool.memory_hash(self.last_good(pool)));
    }
}

/// Returns the part of a target in the id.
fn part(hash: u64, health: Health) -> u64 {
    mix(hash ^ u64::from(health.bits()))
}
