//! Runtime state in a form that does not depend on the numbers of its snapshot, for the change log.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{AdaptiveTtl, DesiredState, Diagnostic, Health, Shares, Timestamp};

use crate::{compile::recompile, runtime::RuntimeState, schedules::ScheduleStates, snapshot::Snapshot};

/// A runtime state apart from health and shares. Pools are given by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedRuntime {
    /// Time at which schedules were evaluated; `None` if nothing has a schedule.
    pub evaluated_at: Option<Timestamp>,
    /// Last-good members of pools, one bit for each number.
    pub last_good: Vec<(u64, Vec<u64>)>,
    /// Adaptive TTLs other than the declared one.
    pub ttls: Vec<(u64, AdaptiveTtl)>,
}

impl RuntimeState {
    /// Returns the hash of each target, in the order of [`Snapshot::targets`].
    pub fn target_hashes(&self) -> &[u64] {
        &self.fixed.hashes
    }

    /// Returns health by target, in the order of [`Snapshot::targets`].
    pub fn all_health(&self) -> &[Health] {
        &self.health
    }

    /// Returns the rest in a form that another snapshot of the same configuration takes.
    pub fn saved(&self, snapshot: &Snapshot) -> SavedRuntime {
        let last_good = snapshot.remembering_pools().map(|(_, pool)| (pool.key(), self.last_good(pool).to_vec()));
        let ttls = self.adaptive_ttls.by_pool.iter().flat_map(|of| snapshot.pools.iter().zip(&**of));
        let ttls = ttls.filter(|(_, ttl)| **ttl != AdaptiveTtl::Declared).map(|(pool, ttl)| (pool.key(), *ttl));
        SavedRuntime {
            evaluated_at: self.schedule_states.as_deref().map(ScheduleStates::evaluated_at),
            last_good: last_good.collect(),
            ttls: ttls.collect(),
        }
    }

    /// Returns the runtime state of a snapshot from its saved form. `health` returns that of a target by its hash.
    pub fn restored(
        snapshot: &Snapshot,
        saved: &SavedRuntime,
        shares: Option<&Arc<Shares>>,
        health: impl Fn(u64) -> Health,
    ) -> Self {
        let pending = Self::new(snapshot, |_| Health::PENDING);
        let by_index = |target: crate::TargetIndex| health(pending.fixed.hashes[target.0 as usize]);
        let mut next = match saved.evaluated_at {
            Some(at) => Self::new_at(snapshot, at, by_index),
            None => Self::new(snapshot, by_index),
        };
        let last_good: HashMap<u64, &[u64]> = saved.last_good.iter().map(|(key, words)| (*key, &words[..])).collect();
        for (_, pool) in snapshot.remembering_pools() {
            let words = last_good.get(&pool.key()).copied().unwrap_or_default();
            next.set_last_good(pool, |kept| {
                if kept.len() == words.len() {
                    kept.copy_from_slice(words);
                }
            });
        }
        if let Some(shares) = shares {
            next = next.with_shares(snapshot, shares);
        }
        if saved.ttls.is_empty() {
            return next;
        }
        let ttls: HashMap<u64, AdaptiveTtl> = saved.ttls.iter().copied().collect();
        next.with_adaptive_ttls(snapshot, |place| ttls.get(&snapshot.pools[place].key()).copied().unwrap_or_default())
    }
}

impl Snapshot {
    /// Returns the part of the id that is from zone files.
    pub fn text_id(&self) -> u64 {
        self.text.id
    }

    /// Compiles another desired state with the zone files and options of this snapshot.
    pub fn recompiled(&self, desired: &DesiredState) -> Result<Self, Vec<Diagnostic>> {
        recompile(desired, &self.options, self).map(|(snapshot, _)| snapshot)
    }
}
