//! Inputs of location rankings. Pools with equal inputs share one compilation.

use std::{ptr, sync::Arc};

use crate::{Bias, ClientMap, Coordinates, DesiredState, Geo, LatencyTable, Member, Pool, Rank};

/// Inputs of location rankings.
#[derive(Clone, Debug)]
pub struct RankingInputs {
    /// Rankings by location, in the order of the policy.
    pub ranks: Vec<Rank>,
    /// Members, in declared order.
    pub members: Vec<MemberLocation>,
    /// Preferences for the ranking `geo`; else the default.
    pub geo: Geo,
    /// Tolerance of the ranking `nearest` in metres; else 0.
    pub tolerance: u32,
    /// Map for `geo` and `nearest`.
    pub map: Option<Arc<ClientMap>>,
    /// Table for the ranking `latency`.
    pub latencies: Option<Arc<LatencyTable>>,
    /// True if load control compares the members by their mean latencies: the policy has `load`, and ranks by tier and then by
    /// `latency`.
    pub costs_by_latency: bool,
}

/// Inputs of one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberLocation {
    /// Coordinates of its cluster.
    pub coordinates: Option<Coordinates>,
    /// Region of its cluster.
    pub region: Option<Arc<str>>,
    /// Change of its distance.
    pub bias: Bias,
    /// Index of its cluster in the latency table.
    pub column: Option<usize>,
}

impl MemberLocation {
    /// True if its cluster is in this region.
    pub fn is_in(&self, region: &str) -> bool {
        self.region.as_deref() == Some(region)
    }
}

impl RankingInputs {
    /// Returns the inputs for a pool, or `None` if its policy does not rank by location.
    ///
    /// An undeclared map or table counts as absent, since [`DesiredState::violations`] reports it.
    pub fn of(desired: &DesiredState, pool: &Pool) -> Option<Self> {
        let ranks: Vec<Rank> = pool.policy.location_rankings().collect();
        let (mut geo, mut nearest, mut latency) = (false, false, false);
        for rank in &ranks {
            match rank {
                Rank::Geo => geo = true,
                Rank::Nearest => nearest = true,
                Rank::Latency { .. } => latency = true,
                Rank::Tier | Rank::Cost => {}
            }
        }
        let map = desired.map_of(pool).filter(|_| geo || nearest).cloned();
        let latencies = desired.latencies_of(pool).filter(|_| latency).cloned();
        let member = |member: &Member| {
            // A member with an undeclared cluster keeps its index, since ranks are by declared members.
            let cluster = desired.clusters.get(&member.cluster);
            let location = cluster.and_then(|cluster| cluster.location.as_ref());
            let own_bias = || location.map(|location| location.bias).unwrap_or_default();
            let region = location.filter(|_| map.is_some()).and_then(|location| location.region.as_deref());
            let column_in = |table: &LatencyTable| table.clusters().iter().position(|name| *name == member.cluster);
            MemberLocation {
                coordinates: location.filter(|_| nearest).and_then(|location| location.coordinates),
                region: region.map(Arc::from),
                bias: if nearest { member.bias.unwrap_or_else(own_bias) } else { Bias::default() },
                column: latencies.as_deref().and_then(column_in),
            }
        };
        let members = pool.members.iter().take(Pool::MEMBERS_MAX).map(member).collect();
        let mut rankings = pool.policy.rankings();
        let is_by_latency =
            rankings.next() == Some(Rank::Tier) && matches!(rankings.next(), Some(Rank::Latency { .. }));
        (!ranks.is_empty()).then(|| Self {
            members,
            geo: if geo { pool.location.geo.clone() } else { Geo::default() },
            tolerance: if nearest { pool.location.tolerance_metres } else { 0 },
            costs_by_latency: pool.policy.load && is_by_latency,
            ranks,
            map,
            latencies,
        })
    }

    /// Returns the other parts to compare. Maps and tables are compared by address, since large ones would take long.
    fn parts(&self) -> (&[Rank], &[MemberLocation], &Geo, u32, *const ClientMap, *const LatencyTable) {
        let map = self.map.as_ref().map_or(ptr::null(), Arc::as_ptr);
        let latencies = self.latencies.as_ref().map_or(ptr::null(), Arc::as_ptr);
        (&self.ranks, &self.members, &self.geo, self.tolerance, map, latencies)
    }
}

impl PartialEq for RankingInputs {
    fn eq(&self, other: &Self) -> bool {
        (self.costs_by_latency, self.parts()) == (other.costs_by_latency, other.parts())
    }
}

impl Eq for RankingInputs {}

impl std::hash::Hash for RankingInputs {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.costs_by_latency, self.parts()).hash(state);
    }
}
