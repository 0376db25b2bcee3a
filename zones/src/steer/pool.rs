//! A pool compiled for choosing: one flat list of members in the order they are tried, and the numbers of its answers.
//!
//! What only people ask for (names, addresses) stands apart, behind one pointer that the answer path never follows.

mod build;
mod member;

use std::{net::IpAddr, ops::Range, sync::Arc};

use fairway_model::{AnswerMode, ClusterName, DownAnswer, Network, Policy, PoolName, Selection, Spread, mix};

use super::{
    answer::{Family, Kind},
    client_net::ClientNet,
    order::MemberOrders,
    partition::ClientPartition,
    sets::Plan,
    views::MemberSet,
};
use crate::{hash, shares::UNBALANCED, steer::partition::LocationClass, target::TargetIndex};

pub(super) use member::{AddressSet, Member};

/// A pool compiled for choosing. Copies share what is large.
#[derive(Clone, Debug)]
pub struct SteerPool {
    /// Members in the order of the first row: weight 1 and more by rank, then standby by rank, else as declared.
    pub(super) members: Box<[Member]>,
    /// In which order they are tried, by the row of the client's place.
    pub(super) orders: MemberOrders,
    /// Where clients are told apart by place and by what they may see; none where everybody is in one row.
    partition: Option<Box<ClientPartition>>,
    /// Stable hash of the pool's name, and of what makes another pool of it in some zones.
    pub(super) key: u64,
    /// Targets of members with several addresses in a family, one an address.
    pub(super) targets: Box<[TargetIndex]>,
    /// How [`SteerPool::choose_fast`] answers, IPv4 first.
    pub(super) fast_path: [FastPath; 2],
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
    details: Arc<Details>,
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

/// How a pool's choices can be made quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastPath {
    /// Not at all.
    None,
    /// The first live member in the one order there is.
    First,
    /// Among all live members, by weight.
    Weighted,
    /// Group by group in the order of the client's row.
    Groups,
}

#[derive(Debug)]
struct Details {
    name: PoolName,
    policy: Policy,
    /// In declared order.
    members: Box<[DeclaredMember]>,
    /// Members that have a schedule, by number, and the schedule's number.
    schedules: Box<[(u8, u32)]>,
    fallback: Box<[IpAddr]>,
    /// Members that the zone hides from everybody, by number.
    internal: MemberSet,
    /// The address of a client for each set of members that are seen together.
    sample_clients: Box<[IpAddr]>,
    ignores_location: bool,
}

/// A member as people see it.
#[derive(Debug)]
struct DeclaredMember {
    cluster: ClusterName,
    weight: u16,
    addresses: Arc<[IpAddr]>,
}

impl SteerPool {
    /// The pool's name.
    pub fn name(&self) -> &PoolName {
        &self.details.name
    }

    /// What it answers with: names of clusters' own, or addresses.
    pub fn mode(&self) -> AnswerMode {
        self.mode
    }

    /// The members' clusters, in declared order: the place is the member's number.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &ClusterName> {
        self.details.members.iter().map(|member| &member.cluster)
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
    pub fn answerable_kind(&self) -> Kind {
        match self.mode {
            AnswerMode::Cname => Kind::Cname,
            AnswerMode::Address if self.plans[0].members > 0 => Kind::V4,
            AnswerMode::Address => Kind::V6,
        }
    }

    /// How it chooses, as declared.
    pub fn policy(&self) -> &Policy {
        &self.details.policy
    }

    /// The block of addresses that this client is one of, as the pool tells clients apart: its length is how many leading
    /// bits of the address the answer depends on, the ECS scope (RFC 7871 section 7.2.1). 0 where every client gets the
    /// same (failover), or each query draws.
    #[inline(always)]
    pub fn client_net(&self, address: IpAddr) -> ClientNet {
        let address = address.to_canonical();
        let (class, length) = match &self.partition {
            None => (0, 0),
            Some(partition) => partition.lookup(address),
        };
        ClientNet::new(address, length.max(self.scopes[usize::from(!address.is_ipv4())]), class)
    }

    /// Whether the answer depends on the client.
    pub fn tells_clients_apart(&self) -> bool {
        self.partition.is_some() || self.scopes != [0, 0]
    }

    /// Whether any member has an address of the family.
    pub(crate) fn has(&self, family: Family) -> bool {
        self.plans[family as usize].members > 0
    }

    /// Where a client is, and what of its address told that.
    pub(crate) fn place(&self, client: ClientNet) -> LocationClass {
        let address = client.network().address();
        let prefix = self.scopes[usize::from(!address.is_ipv4())];
        let Some(partition) = &self.partition else {
            return LocationClass { block: None, class: 0, classes: 1, prefix };
        };
        let (class, length) = partition.lookup(address);
        LocationClass { block: Some(Network::of(address, length)), class, classes: partition.classes(), prefix }
    }

    /// A client of each set of members that are seen together: whoever asks whether something holds for the pool, and not
    /// for one client, has to ask for each of these.
    pub fn sample_clients(&self) -> impl Iterator<Item = ClientNet> {
        self.details.sample_clients.iter().map(|address| self.client_net(*address))
    }

    /// A block of clients of each row, and which part of the addresses of its family the row has, IPv4 first: whoever is in
    /// one row is answered with the same members, as the same ones of them are up.
    pub fn places(&self) -> Vec<(ClientNet, [f64; 2])> {
        let Some(partition) = &self.partition else { return vec![(self.client_net([0; 4].into()), [1.0; 2])] };
        let mut classes: Vec<Option<(ClientNet, [f64; 2])>> = vec![None; usize::from(partition.classes())];
        for (network, class) in partition.blocks() {
            let (_, parts) = classes[usize::from(class)]
                .get_or_insert_with(|| (ClientNet::new(network.address(), network.length(), class), [0.0; 2]));
            parts[usize::from(!network.address().is_ipv4())] += 0.5f64.powi(network.length().into());
        }
        classes.into_iter().flatten().collect()
    }

    /// Whether views and places together made more rows than there may be, so that the client's place does not count.
    pub(crate) fn ignores_location(&self) -> bool {
        self.details.ignores_location
    }

    /// The sets of members whose addresses are numbered together, IPv4 first.
    pub(crate) fn answered_together(&self) -> [&[MemberSet]; 2] {
        self.plans.each_ref().map(|plan| plan.everyone.as_ref().map_or(&[][..], |everyone| &everyone.sets))
    }

    /// Members that the pool's zone hides from everybody.
    pub(super) fn internal(&self) -> &MemberSet {
        &self.details.internal
    }

    /// The cluster of a member, by its number.
    pub(crate) fn cluster(&self, number: u8) -> &ClusterName {
        &self.details.members[usize::from(number)].cluster
    }

    /// The weight of a member as declared, by its number.
    pub(super) fn declared_weight(&self, number: u8) -> u16 {
        self.details.members[usize::from(number)].weight
    }

    /// The addresses of a member in one family, in declared order, by the member's number.
    pub(super) fn addresses(&self, number: u8, family: Family) -> impl Iterator<Item = IpAddr> {
        self.details.members[usize::from(number)].addresses.iter().copied().filter(move |a| family.holds(a))
    }

    /// The fallback addresses of one family.
    pub(super) fn fallback(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.details.fallback.iter().copied().filter(move |a| family.holds(a))
    }

    /// The target of one address of a member.
    pub(super) fn target_of(&self, set: &AddressSet, address: usize) -> TargetIndex {
        if set.has_one_target() { TargetIndex(set.at) } else { self.targets[set.at as usize + address] }
    }

    /// Members that have a schedule, by number, and the schedule's number.
    pub(crate) fn schedules(&self) -> &[(u8, u32)] {
        &self.details.schedules
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

    /// Whether it keeps in mind who was the last to be up.
    pub(super) fn remembers(&self) -> bool {
        self.down == Down::LastGood
    }

    /// The targets that each member is judged by, with its number and cluster; some more than once. A cluster can be answered,
    /// or a part of its addresses, where one of them is up or unknown.
    pub fn member_targets(&self) -> impl Iterator<Item = (u8, &ClusterName, TargetIndex)> {
        self.members.iter().flat_map(move |member| {
            let held = member.address_sets.into_iter().filter(|set| set.addresses() > 0);
            let cluster = self.cluster(member.number);
            held.flat_map(move |set| {
                let looked_at = if set.has_one_target() { 1 } else { set.addresses() as usize };
                (0..looked_at).map(move |address| (member.number, cluster, self.target_of(&set, address)))
            })
        })
    }

    /// Whether a schedule may keep any member out.
    pub fn uses_schedules(&self) -> bool {
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
