//! All that a placement follows from: pools of one shape share one.

use std::{ptr, sync::Arc};

use fairway_model::{Bias, ClientMap, Coordinates, DesiredState, Geo, LatencyTable, Member, Pool, Rank};

/// What a placement is made of, and what tells it from others.
#[derive(Clone, Debug)]
pub(super) struct RankingInputs {
    /// The rankings by place, in the order of the policy.
    pub(super) ranks: Vec<Rank>,
    /// The members, in declared order.
    pub(super) members: Vec<MemberLocation>,
    /// Where `geo` is among the rankings.
    pub(super) geo: Geo,
    /// Where `nearest` is among the rankings: metres.
    pub(super) tolerance: u32,
    /// Where one of the two is.
    pub(super) map: Option<Arc<ClientMap>>,
    /// Where `latency` is among the rankings.
    pub(super) latencies: Option<Arc<LatencyTable>>,
}

/// A member as rankings by place see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemberLocation {
    /// Where its cluster stands.
    pub(super) coordinates: Option<Coordinates>,
    pub(super) region: Option<Arc<str>>,
    pub(super) bias: Bias,
    /// Its cluster's place among those of the table of latencies.
    pub(super) column: Option<usize>,
}

impl MemberLocation {
    /// Whether its cluster stands in a region of this name.
    pub(super) fn is_in(&self, region: &str) -> bool {
        self.region.as_deref() == Some(region)
    }
}

impl RankingInputs {
    /// That of a pool; none if its policy does not go by place. A map or table that is not declared says nothing;
    /// [`DesiredState::violations`] has named it.
    pub(super) fn of(desired: &DesiredState, pool: &Pool) -> Option<Self> {
        let ranks: Vec<Rank> = pool.policy.location_rankings().collect();
        let uses = |rank: &dyn Fn(&Rank) -> bool| ranks.iter().any(rank);
        let (geo, nearest) = (uses(&|rank| *rank == Rank::Geo), uses(&|rank| *rank == Rank::Nearest));
        let latency = uses(&|rank| matches!(rank, Rank::Latency { .. }));
        let map = desired.map_of(pool).filter(|_| geo || nearest).cloned();
        let latencies = desired.latencies_of(pool).filter(|_| latency).cloned();
        let member = |member: &Member| {
            // One that is not declared has its place all the same: rankings are by the members as declared.
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
        (!ranks.is_empty()).then(|| Self {
            members,
            geo: if geo { pool.location.geo.clone() } else { Geo::default() },
            tolerance: if nearest { pool.location.tolerance_metres } else { 0 },
            ranks,
            map,
            latencies,
        })
    }

    /// The parts that are compared; maps and tables are the same only if they are one in memory.
    fn parts(&self) -> (&[Rank], &[MemberLocation], &Geo, u32, *const ClientMap, *const LatencyTable) {
        let map = self.map.as_ref().map_or(ptr::null(), Arc::as_ptr);
        let latencies = self.latencies.as_ref().map_or(ptr::null(), Arc::as_ptr);
        (&self.ranks, &self.members, &self.geo, self.tolerance, map, latencies)
    }
}

impl PartialEq for RankingInputs {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for RankingInputs {}

impl std::hash::Hash for RankingInputs {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}
