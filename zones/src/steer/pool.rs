//! A pool compiled for choosing: one flat list of members in the order they are tried, and the numbers of its answers.
//!
//! What only people ask for (names, addresses) stands apart, behind one pointer that the answer path never follows.

use std::{net::IpAddr, ops::Range, sync::Arc};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Monitor, MonitorName, Network, Policy, Pool, PoolName,
    ProbeAddress, Selection, Spread, ZoneSpec, mix,
};

use super::{
    Family, Kind,
    client_net::ClientNet,
    order::{Orders, Ranking},
    proof::ClientPlace,
    quick::Quick,
    sets::Plan,
    targets::TargetTable,
    territory::{Placement, Territory},
    variant::Variant,
    views::{MemberSet, Refined, Seen},
};
use crate::{RuntimeState, ScheduleTurn, TargetIndex, balanced::UNBALANCED, hash};

/// A pool compiled for choosing. Copies share what is large.
#[derive(Clone, Debug)]
pub struct SteerPool {
    /// Members in the order of the first row: weight 1 and more by rank, then standby by rank, else as declared.
    pub(super) members: Box<[Member]>,
    /// In which order they are tried, by the row of the client's place.
    pub(super) orders: Orders,
    /// Where clients are told apart by place and by what they may see; none where everybody is in one row.
    territory: Option<Box<Territory>>,
    /// Stable hash of the pool's name, and of what makes another pool of it in some zones.
    pub(super) key: u64,
    /// Targets of members with several addresses in a family, one an address.
    pub(super) targets: Box<[TargetIndex]>,
    /// How [`SteerPool::choose_quickly`] answers, IPv4 first.
    pub(super) quick: [Quick; 2],
    /// How the answers of each family are numbered, IPv4 first.
    pub(super) plans: [Plan; 2],
    pub(super) chooses: Selection,
    /// Whether members take only what their share says.
    pub(super) load: bool,
    pub(super) mode: AnswerMode,
    pub(super) spread: Spread,
    pub(super) down: Down,
    /// Bits of a client's address that are hashed, IPv4 first; both 0 where none is.
    scopes: [u8; 2],
    /// Thousandths of the weight; 0 = never.
    pub(super) panic_threshold: u16,
    /// Thousandths of a tier's weight; 0 = only when none of it is live.
    pub(super) min_healthy: u16,
    /// Where the pool's words stand in the memory of who was the last to be up; only for [`Down::LastGood`].
    pub(super) memory_begin: u32,
    /// Where the pool's words stand among those of closed members, and how many they are: 0 where it heeds no schedules.
    closed_begin: u32,
    closed_count: u8,
    /// What only people ask for.
    cold: Arc<Cold>,
}

/// [`DownAnswer`] without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    All,
    Empty,
    FallbackAddresses,
    FallbackCname,
    LastGood,
    Refuse,
}

/// A member as the deciding loop reads it: half a cache line.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Stable hash of the pool's and the cluster's name.
    pub(super) key: u64,
    /// Its addresses of each family, IPv4 first.
    pub(super) spots: [Spot; 2],
    /// Its share; 1 for standby members and where all weights are 0: they share equally.
    pub(super) weight: u16,
    /// Its place in declared order.
    pub(super) number: u8,
    /// Its tier as declared.
    pub(super) tier: u8,
    /// Its cluster's number among those that are balanced.
    pub(super) cluster: u16,
    /// Weight 0 while others have more.
    pub(super) standby: bool,
}

/// The addresses of a member in one family.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    /// The target, where one speaks for all addresses; else where their targets begin in [`SteerPool::targets`].
    pub(super) at: u32,
    /// Number of the first answer with only some of the addresses.
    pub(super) parts: u16,
    /// Its place in declared order among the members that have the family.
    pub(super) rank: u8,
    /// How many addresses it has, 0 to 8, and [`Spot::ONE_TARGET`].
    count: u8,
}

impl Spot {
    /// Flag of a count: one target speaks for all addresses.
    const ONE_TARGET: u8 = 0x80;

    /// How many addresses the member has in this family.
    pub(super) const fn addresses(&self) -> u32 {
        (self.count & !Self::ONE_TARGET) as u32
    }

    /// Whether [`Spot::at`] is the target itself.
    pub(super) const fn has_one_target(&self) -> bool {
        self.count & Self::ONE_TARGET != 0
    }

    /// All addresses, as a mask.
    pub(super) const fn all(&self) -> u32 {
        (1 << self.addresses()) - 1
    }
}

#[derive(Debug)]
struct Cold {
    name: PoolName,
    policy: Policy,
    /// In declared order.
    sites: Box<[Site]>,
    /// Members that have a schedule, by number, and the schedule's number.
    schedules: Box<[(u8, u32)]>,
    fallback: Box<[IpAddr]>,
    /// Members that the zone hides from everybody, by number.
    internal: MemberSet,
    /// The address of a client for each set of members that are seen together.
    viewers: Box<[IpAddr]>,
    lost_place: bool,
}

/// A member as people see it.
#[derive(Debug)]
struct Site {
    cluster: ClusterName,
    weight: u16,
    addresses: Arc<[IpAddr]>,
}

impl SteerPool {
    /// Compiles a pool. `zone` is that of the name it answers for, whose monitor members without another one take, and
    /// which hides internal members if it is public; `placement` is what places say of its members.
    ///
    /// Members whose cluster is not declared are left out; [`DesiredState::violations`] has named them.
    pub fn build(
        desired: &DesiredState,
        pool: &Pool,
        zone: Option<&ZoneSpec>,
        placement: &Placement,
        targets: &mut TargetTable,
    ) -> Self {
        let declared: Vec<(usize, &Cluster)> = pool
            .members
            .iter()
            .enumerate()
            .filter_map(|(place, m)| Some((place, desired.clusters.get(&m.cluster)?)))
            .take(Pool::MEMBERS_MAX)
            .collect();
        let mut spread_targets = Vec::new();
        let pool_key = hash::text(hash::seed::POOL, pool.name.as_str());
        let monitor = desired.monitor_of_pool(pool, zone);
        let mut members: Vec<Member> = (0..=u8::MAX)
            .zip(&declared)
            .map(|(number, (place, cluster))| {
                let mut member = Member::new(pool, pool_key, *place, number, cluster);
                if pool.policy.load {
                    member.cluster = targets.balanced_cluster(&cluster.name);
                }
                let declared = &pool.members[*place];
                let judges =
                    Judges { probe: declared.probe.as_ref(), monitor: desired.monitor_of(declared, monitor), targets };
                member.judge_by(judges, cluster, &mut spread_targets);
                member
            })
            .collect();
        let seen = Seen::new(pool, zone, placement, &declared);
        let Seen { refined: Refined { territory, rows }, .. } = &seen;
        let plans = Family::BOTH.map(|family| Plan::new(pool, &mut members, rows, family));
        let declared_at: Vec<usize> = declared.iter().map(|(place, _)| *place).collect();
        let ranking = Ranking { pool, placement, declared: &declared_at };
        members.sort_by_cached_key(|member| ranking.key(0, member));
        let [v4, v6] = plans;
        let plans = [v4.with_ring(&members, Family::V4), v6.with_ring(&members, Family::V6)];
        let down = Down::of(&pool.down);
        let schedules = schedules(pool, &declared, targets);
        let closed_count = if schedules.is_empty() { 0 } else { members.len().div_ceil(64) };
        let mut built = Self {
            quick: [Quick::No; 2],
            orders: Orders::new(&members, &ranking, rows),
            territory: (!territory.is_everywhere()).then(|| Box::new(territory.clone())),
            key: Variant::of(pool, zone).key(pool_key),
            plans,
            targets: spread_targets.into(),
            chooses: pool.policy.choose,
            load: pool.policy.load,
            mode: pool.mode,
            spread: pool.spread,
            down,
            scopes: hashed_bits(pool),
            panic_threshold: pool.panic_threshold.thousandths(),
            min_healthy: pool.min_healthy.thousandths(),
            memory_begin: if down == Down::LastGood { targets.reserve_memory(members.len().div_ceil(64)) } else { 0 },
            closed_begin: targets.reserve_closed(closed_count),
            closed_count: closed_count as u8,
            cold: Arc::new(Cold { schedules, ..Cold::new(pool, &declared, &seen, targets) }),
            members: members.into(),
        };
        // Which TTL holds is looked up on the long way, so that pools without bounds need not look.
        if pool.ttl_bounds.is_none() {
            built.quick = Family::BOTH.map(|family| built.quick_way(family));
        }
        built
    }

    /// The pool's name.
    pub fn name(&self) -> &PoolName {
        &self.cold.name
    }

    /// What it answers with: names of clusters' own, or addresses.
    pub fn mode(&self) -> AnswerMode {
        self.mode
    }

    /// The members' clusters, in declared order: the place is the member's number.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &ClusterName> {
        self.cold.sites.iter().map(|site| &site.cluster)
    }

    /// What stands for it in what is noted of queries, and in demand: a stable hash of its name, and of what makes another
    /// pool of it in some zones.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether it heeds load, and a client's demand goes to one place: then it is noted who asks.
    #[inline]
    pub fn is_balanced(&self) -> bool {
        self.load && self.spread == Spread::Client
    }

    /// A question that the pool has an answer to, where it has one to any.
    pub fn usual_kind(&self) -> Kind {
        match self.mode {
            AnswerMode::Cname => Kind::Cname,
            AnswerMode::Address if self.plans[0].members > 0 => Kind::V4,
            AnswerMode::Address => Kind::V6,
        }
    }

    /// How it chooses, as declared.
    pub fn policy(&self) -> &Policy {
        &self.cold.policy
    }

    /// The block of addresses that this client is one of, as the pool tells clients apart: its length is how many leading
    /// bits of the address the answer depends on, the ECS scope (RFC 7871 section 7.2.1). 0 where every client gets the
    /// same (failover), or each query draws.
    #[inline(always)]
    pub fn client_net(&self, address: IpAddr) -> ClientNet {
        let address = address.to_canonical();
        let (row, length) = match &self.territory {
            None => (0, 0),
            Some(territory) => territory.lookup(address),
        };
        ClientNet::new(address, length.max(self.scopes[usize::from(!address.is_ipv4())]), row)
    }

    /// Whether the answer depends on the client.
    pub fn tells_clients_apart(&self) -> bool {
        self.territory.is_some() || self.scopes != [0, 0]
    }

    /// Whether any member has an address of the family.
    pub(crate) fn has(&self, family: Family) -> bool {
        self.plans[family as usize].members > 0
    }

    /// Where a client is, and what of its address told that.
    pub(crate) fn place(&self, client: ClientNet) -> ClientPlace {
        let address = client.network().address();
        let prefix = self.scopes[usize::from(!address.is_ipv4())];
        let Some(territory) = &self.territory else { return ClientPlace { block: None, row: 0, rows: 1, prefix } };
        let (row, length) = territory.lookup(address);
        ClientPlace { block: Some(Network::of(address, length)), row, rows: territory.rows(), prefix }
    }

    /// A client of each set of members that are seen together: whoever asks whether something holds for the pool, and not
    /// for one client, has to ask for each of these.
    pub fn viewers(&self) -> impl Iterator<Item = ClientNet> {
        self.cold.viewers.iter().map(|address| self.client_net(*address))
    }

    /// A block of clients of each row, and which part of the addresses of its family the row has, IPv4 first: whoever is in
    /// one row is answered with the same members, as the same ones of them are up.
    pub fn places(&self) -> Vec<(ClientNet, [f64; 2])> {
        let Some(territory) = &self.territory else { return vec![(self.client_net([0; 4].into()), [1.0; 2])] };
        let mut rows: Vec<Option<(ClientNet, [f64; 2])>> = vec![None; usize::from(territory.rows())];
        for (network, row) in territory.blocks() {
            let (_, parts) = rows[usize::from(row)]
                .get_or_insert_with(|| (ClientNet::new(network.address(), network.length(), row), [0.0; 2]));
            parts[usize::from(!network.address().is_ipv4())] += 0.5f64.powi(network.length().into());
        }
        rows.into_iter().flatten().collect()
    }

    /// Whether views and places together made more rows than there may be, so that the client's place does not count.
    pub(crate) fn lost_its_place(&self) -> bool {
        self.cold.lost_place
    }

    /// The sets of members whose addresses are numbered together, IPv4 first.
    pub(crate) fn answered_together(&self) -> [&[MemberSet]; 2] {
        self.plans.each_ref().map(|plan| plan.everyone.as_ref().map_or(&[][..], |everyone| &everyone.sets))
    }

    /// Members that the pool's zone hides from everybody.
    pub(super) fn internal(&self) -> &MemberSet {
        &self.cold.internal
    }

    /// The cluster of a member, by its number.
    pub(crate) fn cluster(&self, number: u8) -> &ClusterName {
        &self.cold.sites[usize::from(number)].cluster
    }

    /// The weight of a member as declared, by its number.
    pub(super) fn declared_weight(&self, number: u8) -> u16 {
        self.cold.sites[usize::from(number)].weight
    }

    /// The addresses of a member in one family, in declared order, by the member's number.
    pub(super) fn addresses(&self, number: u8, family: Family) -> impl Iterator<Item = IpAddr> {
        self.cold.sites[usize::from(number)].addresses.iter().copied().filter(move |a| family.holds(a))
    }

    /// The fallback addresses of one family.
    pub(super) fn fallback(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.cold.fallback.iter().copied().filter(move |a| family.holds(a))
    }

    /// The target of one address of a member.
    pub(super) fn target_of(&self, spot: &Spot, address: usize) -> TargetIndex {
        if spot.has_one_target() { TargetIndex(spot.at) } else { self.targets[spot.at as usize + address] }
    }

    /// Members that have a schedule, by number, and the schedule's number.
    pub(crate) fn schedules(&self) -> &[(u8, u32)] {
        &self.cold.schedules
    }

    /// The words of the pool among those of closed members, one bit a member by its number; empty where it heeds no
    /// schedules.
    #[inline]
    pub(crate) fn closed_words(&self) -> Range<usize> {
        let begin = self.closed_begin as usize;
        begin..begin + usize::from(self.closed_count)
    }

    /// What its closed members add to the id of runtime state: nothing where there are none.
    pub(crate) fn closed_hash(&self, words: &[u64]) -> u64 {
        let is_open = words.iter().all(|word| *word == 0);
        let hash = |hash: u64, word: &u64| mix(hash ^ word);
        if is_open { 0 } else { words.iter().fold(self.key ^ hash::seed::CLOSED, hash) }
    }

    /// How the schedule of a member stands, by the member's number.
    pub(crate) fn turn<'a>(&self, number: u8, runtime: &'a RuntimeState) -> Option<&'a Arc<ScheduleTurn>> {
        let (_, schedule) = self.schedules().iter().find(|(member, _)| *member == number)?;
        runtime.times()?.turn(*schedule)
    }

    /// Whether it keeps in mind who was the last to be up.
    pub(super) fn remembers(&self) -> bool {
        self.down == Down::LastGood
    }

    /// The targets that each member is judged by, with its number and cluster; some more than once. A cluster can be answered,
    /// or a part of its addresses, where one of them is up or unknown.
    pub fn member_targets(&self) -> impl Iterator<Item = (u8, &ClusterName, TargetIndex)> {
        self.members.iter().flat_map(move |member| {
            let held = member.spots.into_iter().filter(|spot| spot.addresses() > 0);
            let cluster = self.cluster(member.number);
            held.flat_map(move |spot| {
                let looked_at = if spot.has_one_target() { 1 } else { spot.addresses() as usize };
                (0..looked_at).map(move |address| (member.number, cluster, self.target_of(&spot, address)))
            })
        })
    }

    /// Whether the schedule of a member keeps it out under this runtime state.
    pub fn is_closed(&self, number: u8, runtime: &RuntimeState) -> bool {
        self.turn(number, runtime).is_some_and(|turn| !turn.turn.open)
    }

    /// Whether a schedule may keep any member out.
    pub fn heeds_schedules(&self) -> bool {
        self.closed_count > 0
    }

    /// The numbers of its members' clusters among those that are balanced, where it heeds load.
    pub(super) fn balanced_numbers(&self) -> impl Iterator<Item = u16> {
        self.members.iter().map(|member| member.cluster).filter(|cluster| *cluster != UNBALANCED)
    }

    /// Every target that the pool looks at, some more than once.
    pub(crate) fn all_targets(&self) -> impl Iterator<Item = TargetIndex> {
        self.member_targets().map(|(.., target)| target)
    }
}

impl Down {
    fn of(answer: &DownAnswer) -> Self {
        match answer {
            DownAnswer::All => Self::All,
            DownAnswer::Empty => Self::Empty,
            DownAnswer::FallbackAddresses(_) => Self::FallbackAddresses,
            DownAnswer::FallbackCname(_) => Self::FallbackCname,
            DownAnswer::LastGood => Self::LastGood,
            DownAnswer::Refuse => Self::Refuse,
        }
    }
}

impl Cold {
    fn new(pool: &Pool, declared: &[(usize, &Cluster)], seen: &Seen, targets: &mut TargetTable) -> Self {
        let site = |(place, cluster): &(usize, &Cluster)| Site {
            cluster: cluster.name.clone(),
            weight: pool.members[*place].weight.0,
            addresses: targets.addresses(cluster),
        };
        let fallback = match &pool.down {
            DownAnswer::FallbackAddresses(addresses) => addresses.as_slice().into(),
            _ => Box::default(),
        };
        Self {
            name: pool.name.clone(),
            policy: pool.policy.clone(),
            sites: declared.iter().map(site).collect(),
            schedules: Box::default(),
            fallback,
            internal: seen.internal,
            viewers: seen.viewers(),
            lost_place: seen.lost_place,
        }
    }
}

/// What the targets of a member come from.
struct Judges<'a> {
    /// What is probed in place of its addresses.
    probe: Option<&'a ProbeAddress>,
    monitor: (&'a MonitorName, &'a Arc<Monitor>),
    targets: &'a mut TargetTable,
}

impl Member {
    fn new(pool: &Pool, pool_key: u64, place: usize, number: u8, cluster: &Cluster) -> Self {
        let declared = &pool.members[place];
        let all_standby = pool.members.iter().all(|m| m.weight.0 == 0);
        let cluster_key = hash::text(hash::seed::CLUSTER, cluster.name.as_str());
        Self {
            key: mix(pool_key ^ cluster_key),
            spots: Family::BOTH.map(|family| Spot::new(cluster, family)),
            weight: declared.weight.0.max(1),
            number,
            tier: declared.tier.number(),
            cluster: UNBALANCED,
            standby: declared.weight.0 == 0 && !all_standby,
        }
    }

    /// Gives each address its target: that of the member's own probe, else one an address.
    fn judge_by(&mut self, judges: Judges<'_>, cluster: &Cluster, spread: &mut Vec<TargetIndex>) {
        let Judges { probe, monitor: (label, monitor), targets } = judges;
        let mut intern = |address| targets.intern(address, label, monitor);
        for (family, spot) in Family::BOTH.into_iter().zip(&mut self.spots) {
            let mut addresses = cluster.addresses.iter().filter(|a| family.holds(a)).take(Cluster::ADDRESSES_MAX);
            match (spot.addresses(), probe) {
                (0, _) => {}
                (_, Some(probe)) => spot.at = intern(probe.clone()).0,
                (1, None) => spot.at = addresses.next().map_or(0, |a| intern(ProbeAddress::Address(*a)).0),
                (_, None) => {
                    spot.at = u32::try_from(spread.len()).expect("at most 255 members of 16 addresses");
                    spread.extend(addresses.map(|a| intern(ProbeAddress::Address(*a))));
                    continue;
                }
            }
            if spot.addresses() > 0 {
                spot.count |= Spot::ONE_TARGET;
            }
        }
    }
}

impl Spot {
    fn new(cluster: &Cluster, family: Family) -> Self {
        let count = cluster.addresses.iter().filter(|a| family.holds(a)).take(Cluster::ADDRESSES_MAX).count();
        Self { count: u8::try_from(count).expect("at most 8 were taken"), ..Self::default() }
    }
}

/// Members that have a schedule, where the policy heeds that: their numbers, and the schedules'.
fn schedules(pool: &Pool, declared: &[(usize, &Cluster)], targets: &mut TargetTable) -> Box<[(u8, u32)]> {
    let members = (0..=u8::MAX).zip(declared).filter(|_| pool.policy.schedule);
    let numbered = members.filter_map(|(number, (place, _))| {
        pool.members[*place].open.as_ref().map(|schedule| (number, targets.schedule(schedule)))
    });
    numbered.collect()
}

/// How many leading bits of a client's address the choice hashes, IPv4 first.
fn hashed_bits(pool: &Pool) -> [u8; 2] {
    let hashes = pool.policy.choose == Selection::Weighted || pool.policy.load;
    if hashes && pool.spread == Spread::Client {
        [pool.client_prefix.v4.min(32), pool.client_prefix.v6.min(128)]
    } else {
        [0, 0]
    }
}
