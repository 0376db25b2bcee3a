//! Compiles a declared pool.

use std::sync::Arc;

use fairway_model::{Cluster, DesiredState, DownAnswer, LocationRankings, Pool, Spread, ZoneSpec};

use super::{DeclaredMember, Details, Down, Member, SteerPool, member::TargetSource};
use crate::{
    hash,
    steer::{
        answer::Family,
        order::{MemberOrders, OrderKeys},
        pool::FastPath,
        sets::Plan,
        subnet::PrivateRanges,
        targets::{TargetTable, reserve},
        variant::Variant,
        views::{ClassMembers, RefinedPartition, VisibleMembers},
    },
    target::TargetIndex,
};

impl SteerPool {
    /// Compiles a pool for the names of a zone. `location` has its rankings by location.
    ///
    /// Members without a monitor use the zone's, and a public zone hides internal members. Members with an undeclared
    /// cluster are omitted, since [`DesiredState::violations`] reports them.
    pub fn build(
        desired: &DesiredState,
        pool: &Pool,
        zone: Option<&ZoneSpec>,
        location: &LocationRankings,
        targets: &mut TargetTable,
    ) -> Self {
        let declared = pool.members.iter().enumerate();
        let declared = declared.filter_map(|(index, member)| Some((index, desired.clusters.get(&member.cluster)?)));
        let declared: Vec<(usize, &Cluster)> = declared.take(Pool::MEMBERS_MAX).collect();
        let pool_key = hash::text(hash::seed::POOL, pool.name.as_str());
        let (mut members, spread_targets) = members(desired, pool, zone, &declared, targets);
        let seen = VisibleMembers::new(pool, zone, location, &declared);
        let VisibleMembers { refined: RefinedPartition { partition, classes }, .. } = &seen;
        let plans = Family::BOTH.map(|family| Plan::new(pool, &mut members, classes, family));
        let denied = Family::BOTH.map(|family| is_denied(pool, &members, classes, family));
        let declared_at: Vec<usize> = declared.iter().map(|(index, _)| *index).collect();
        let ranking = OrderKeys { pool, location, declared: &declared_at };
        members.sort_by_cached_key(|member| ranking.key(0, member));
        let [v4, v6] = plans;
        let plans = [v4.with_ring(&members, Family::V4), v6.with_ring(&members, Family::V6)];
        let down = Down::of(&pool.down);
        let schedules = schedules(pool, &declared, targets);
        let closed_count = if schedules.is_empty() { 0 } else { members.len().div_ceil(64) };
        let words = members.len().div_ceil(64);
        let mut built = Self {
            fast_path: [FastPath::None; 2],
            orders: MemberOrders::new(&members, &ranking, classes),
            private: match partition.is_everywhere() {
                true => PrivateRanges::default(),
                false => PrivateRanges::unnamed_by(desired, pool),
            },
            partition: (!partition.is_everywhere()).then(|| Box::new(partition.clone())),
            key: Variant::of(pool, zone).key(pool_key),
            plans,
            targets: spread_targets.into(),
            chooses: pool.policy.selection,
            load: pool.policy.load,
            mode: pool.mode,
            spread: pool.spread,
            down,
            // If nobody may get a member, every client gets the same answer.
            scopes: if classes.iter().any(|class| class.visible.len() > 0) { hashed_bits(pool) } else { [0, 0] },
            denied,
            panic_threshold: pool.panic_threshold.thousandths(),
            min_healthy: pool.min_healthy.thousandths(),
            memory_begin: if down == Down::LastGood { reserve(&mut targets.memory_words, words) } else { 0 },
            closed_begin: reserve(&mut targets.closed_words, closed_count),
            closed_count: closed_count as u8,
            load_begin: 0,
            details: Arc::new(Details { schedules, ..Details::new(pool, &declared, &seen, targets) }),
            members: members.into(),
        };
        built.load_begin = targets.rank(&built, &ranking.latencies(classes));
        // The slow path looks up the adaptive TTL, so that other pools need no test for it.
        if pool.ttl_bounds.is_none() {
            built.fast_path = Family::BOTH.map(|family| built.fast_path_of(family));
        }
        built
    }
}

impl Details {
    fn new(pool: &Pool, declared: &[(usize, &Cluster)], seen: &VisibleMembers, targets: &mut TargetTable) -> Self {
        let member = |(index, cluster): &(usize, &Cluster)| DeclaredMember {
            cluster: cluster.name.clone(),
            weight: pool.members[*index].weight.0,
            addresses: targets.addresses(cluster),
        };
        let fallback = match &pool.down {
            DownAnswer::FallbackAddresses(addresses) => addresses.as_slice().into(),
            _ => Box::default(),
        };
        Self {
            name: pool.name.clone(),
            policy: pool.policy.clone(),
            members: declared.iter().map(member).collect(),
            schedules: Box::default(),
            by_service: pool.is_by_service(),
            fallback,
            internal: seen.internal,
            sample_clients: seen.sample_clients(),
            ignores_location: seen.ignores_location,
        }
    }
}

/// Returns the members in declared order, and the targets of those with several addresses in a family.
fn members(
    desired: &DesiredState,
    pool: &Pool,
    zone: Option<&ZoneSpec>,
    declared: &[(usize, &Cluster)],
    targets: &mut TargetTable,
) -> (Vec<Member>, Vec<TargetIndex>) {
    let mut spread = Vec::new();
    let (pool_key, by_service) = (hash::text(hash::seed::POOL, pool.name.as_str()), pool.is_by_service());
    let members = (0..=u8::MAX).zip(declared).map(|(number, (index, cluster))| {
        let mut member = Member::new(pool, pool_key, *index, number, cluster);
        // A backend without a capacity cannot be compared with others. It takes all its clients.
        if pool.policy.load && (by_service || cluster.capacity.is_some()) {
            member.cluster = targets.backend(pool.backend(&cluster.name));
        }
        let declared = &pool.members[*index];
        let monitor = desired.monitor_of(declared, pool, cluster, zone);
        member.set_targets(TargetSource { probe: declared.probe.as_ref(), monitor, targets }, cluster, &mut spread);
        member
    });
    (members.collect(), spread)
}

/// Returns the numbers of members with a schedule and of their schedules. Empty if the policy ignores schedules.
fn schedules(pool: &Pool, declared: &[(usize, &Cluster)], targets: &mut TargetTable) -> Box<[(u8, u32)]> {
    let members = (0..=u8::MAX).zip(declared).filter(|_| pool.policy.schedule);
    let numbered = members.filter_map(|(number, (index, _))| {
        pool.members[*index].schedule.as_ref().map(|schedule| (number, targets.schedule(schedule)))
    });
    numbered.collect()
}

/// True if no client ever gets an address of the family: from a member that it may see, or as fallback.
fn is_denied(pool: &Pool, members: &[Member], classes: &[ClassMembers], family: Family) -> bool {
    let has_fallback = match &pool.down {
        DownAnswer::FallbackAddresses(addresses) => addresses.iter().any(|address| family.holds(address)),
        DownAnswer::FallbackCname(_) => true,
        DownAnswer::All | DownAnswer::Empty | DownAnswer::LastGood | DownAnswer::Refuse => false,
    };
    let mut held = members.iter().filter(|member| member.address_sets[family as usize].addresses() > 0);
    !has_fallback && !held.any(|member| classes.iter().any(|class| class.visible.contains(member.number)))
}

/// Returns how many leading bits of a client's address are hashed, IPv4 first.
fn hashed_bits(pool: &Pool) -> [u8; 2] {
    let hashes = pool.policy.selection.is_by_client() || pool.policy.load;
    if hashes && pool.spread == Spread::Client {
        [pool.client_prefix.v4.min(32), pool.client_prefix.v6.min(128)]
    } else {
        [0, 0]
    }
}
