//! Adaptive TTLs: the part of the runtime state that selects between the declared, the long and the short TTL of a
//! pool.

use std::sync::Arc;

use fairway_model::{AdaptiveTtl, mix, stable_hash};

use crate::{
    runtime::RuntimeState,
    snapshot::{PoolInfo, Snapshot, Steered},
};

/// TTL state of each pool, by its index. `None` if every pool answers with its declared TTL.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdaptiveTtls {
    pub(crate) by_pool: Option<Arc<[AdaptiveTtl]>>,
    /// Part of the TTL states in the id of the runtime state.
    pub(crate) id: u64,
}

impl RuntimeState {
    /// Returns the runtime state with the TTL states that `adaptive_ttl` returns for the index of a pool in
    /// [`Snapshot::pool_infos`].
    ///
    /// It is called for pools with TTL bounds. All others keep their declared TTL.
    pub fn with_adaptive_ttls(&self, snapshot: &Snapshot, mut adaptive_ttl: impl FnMut(usize) -> AdaptiveTtl) -> Self {
        let infos = || snapshot.pool_infos().iter();
        let adaptive_ttls: Arc<[AdaptiveTtl]> = infos()
            .enumerate()
            .map(|(place, info)| info.bounds.map_or(AdaptiveTtl::Declared, |_| adaptive_ttl(place)))
            .collect();
        let part = |(info, adaptive_ttl): (&PoolInfo, &AdaptiveTtl)| match column(*adaptive_ttl) {
            0 => 0,
            column => mix(stable_hash(&info.name) ^ (1 + column as u64)),
        };
        let id = infos().zip(&*adaptive_ttls).map(part).fold(0u64, u64::wrapping_add);
        let is_any = adaptive_ttls.iter().any(|adaptive_ttl| *adaptive_ttl != AdaptiveTtl::Declared);
        let by_pool = is_any.then_some(adaptive_ttls);
        let mut next = self.clone();
        next.id = self.id.wrapping_sub(self.adaptive_ttls.id).wrapping_add(id);
        next.adaptive_ttls = AdaptiveTtls { by_pool, id };
        next
    }

    /// Returns the TTL state of a pool, by its index.
    pub fn adaptive_ttl(&self, pool: usize) -> AdaptiveTtl {
        let by_pool = self.adaptive_ttls.by_pool.as_ref();
        by_pool.and_then(|by_pool| by_pool.get(pool)).copied().unwrap_or_default()
    }
}

impl Snapshot {
    /// Returns the record sets of a steered name with the TTL of its pool's state.
    #[inline(never)]
    pub(crate) fn steered_with_ttl(&self, number: u32, runtime: &RuntimeState) -> &Steered {
        let base = &self.steered[number as usize];
        if !base.is_adaptive {
            return base;
        }
        &self.steered[number as usize + column(runtime.adaptive_ttl(base.pool as usize))]
    }
}

/// Offset of the record sets with this TTL from those with the declared one: see `Pools::steered`.
const fn column(adaptive_ttl: AdaptiveTtl) -> usize {
    match adaptive_ttl {
        AdaptiveTtl::Declared => 0,
        AdaptiveTtl::Calm => 1,
        AdaptiveTtl::Risky(_) => 2,
    }
}
