//! Which TTL pools with bounds answer with: a part of what is measured, for one snapshot's pools.

use std::sync::Arc;

use fairway_model::{AdaptiveTtl, mix, stable_hash};

use crate::{RuntimeState, Snapshot, snapshot::Steered};

/// Paces by the place of the pool; where everybody goes by the declared TTL there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces {
    by_pool: Option<Arc<[AdaptiveTtl]>>,
    /// What they add to the id of runtime state.
    pub(crate) id: u64,
}

impl RuntimeState {
    /// The same runtime state with every pool at the pace that `pace` says of its place in [`Snapshot::pool_infos`]. It is
    /// asked of pools that declare bounds; all others keep their TTL.
    pub fn with_paces(&self, snapshot: &Snapshot, mut pace: impl FnMut(usize) -> AdaptiveTtl) -> Self {
        let infos = snapshot.pool_infos().iter().enumerate();
        let paces: Arc<[AdaptiveTtl]> =
            infos.map(|(place, info)| info.bounds.map_or(AdaptiveTtl::Declared, |_| pace(place))).collect();
        let moves = |(_, pace): &(usize, &AdaptiveTtl)| **pace != AdaptiveTtl::Declared;
        let part = |(place, pace): (usize, &AdaptiveTtl)| {
            mix(stable_hash(&snapshot.pool_infos()[place].name) ^ (1 + column(*pace) as u64))
        };
        let id = paces.iter().enumerate().filter(moves).map(part).fold(0u64, u64::wrapping_add);
        let by_pool = paces.iter().enumerate().any(|each| moves(&each)).then_some(paces);
        let mut next = self.clone();
        next.id = self.id.wrapping_sub(self.paces.id).wrapping_add(id);
        next.paces = Paces { by_pool, id };
        next
    }

    /// The pace of a pool, by its place.
    pub fn pace(&self, pool: usize) -> AdaptiveTtl {
        self.paces.by_pool.as_ref().and_then(|paces| paces.get(pool).copied()).unwrap_or_default()
    }
}

impl Snapshot {
    /// The record sets of a steered name at the pace of its pool.
    #[inline(never)]
    pub(crate) fn paced(&self, number: u32, runtime: &RuntimeState) -> &Steered {
        let base = &self.steered[number as usize];
        if !base.paced {
            return base;
        }
        &self.steered[number as usize + column(runtime.pace(base.pool as usize))]
    }
}

/// Where the sets of a pace stand beside the declared ones: see `Pools::steered`.
const fn column(pace: AdaptiveTtl) -> usize {
    match pace {
        AdaptiveTtl::Declared => 0,
        AdaptiveTtl::Calm => 1,
        AdaptiveTtl::Risky(_) => 2,
    }
}
