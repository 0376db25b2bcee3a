//! A compiled pool: its members in the order in which they are tried, and the numbers of its answers.
//!
//! Names and addresses, which only people ask for, are behind a pointer that the answer path never follows.

mod build;
mod member;

use std::{net::IpAddr, ops::Range, sync::Arc};

use fairway_model::{
    AnswerMode, Backend, ClientPartition, ClusterName, DownAnswer, Network, Policy, PoolName, Selection, Spread, mix,
};

use super::{
    answer::{Family, Kind},
    client_net::{ClientNet, LocationClass},
    order::MemberOrders,
    sets::Plan,
    subnet::PrivateRanges,
    views::MemberSet,
};
use crate::{hash, shares::UNBALANCED, target::TargetIndex};

pub(super) use member::{AddressSet, Member};

/// A compiled pool. Copies share the large parts.
#[derive(Clone, Debug)]
pub struct SteerPool {
    /// Members in the order of the first location class: weight 1 and more by rank, then standby by rank, else as
    /// declared.
    pub(super) members: Box<[Member]>,
    /// Order of the members in each location class.
    pub(super) orders: MemberOrders,
    /// Client partition by location and views. `None` if there is one class.
    partition: Option<Box<ClientPartition>>,
    /// Stable hash of the pool's name and variant.
    pub(super) key: u64,
    /// Targets of members with several addresses in a family, one per address.
    pub(super) targets: Box<[TargetIndex]>,
    /// Fast path of each family, IPv4 first.
    pub(super) fast_path: [FastPath; 2],
    /// Numbering of the answers of each family, IPv4 first.
    pub(super) plans: [Plan; 2],
    pub(super) chooses: Selection,
    /// True if the pool balances by load.
    pub(super) load: bool,
    pub(super) mode: AnswerMode,
    pub(super) spread: Spread,
    pub(super) down: Down,
    /// Bits of a client's address that are hashed, IPv4 first. 0 if none is.
    scopes: [u8; 2],
    /// Private ranges whose client subnets are not used. Empty if the pool has no location classes.
    pub(super) private: PrivateRanges,
    /// True if no client ever gets an address of the family, IPv4 first.
    denied: [bool; 2],
    /// Thousandths of the weight; 0 for never.
    pub(super) panic_threshold: u16,
    /// Thousandths of a group's weight; 0 if one live member is enough.
    pub(super) min_healthy: u16,
    /// Start of the pool's words for last-good members. Used with [`Down::LastGood`] only.
    pub(super) memory_begin: u32,
    /// Start and number of the pool's words for closed members. 0 words if it uses no schedules.
    closed_begin: u32,
    closed_count: u8,
    /// Number of its first location class among those of all pools that balance by load.
    pub(super) load_begin: u32,
    /// Data that only people ask for.
    pub(crate) details: Arc<Details>,
}

/// [`DownAnswer`] without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    All,
    Empty,
    FallbackAddresses,
    FallbackCname,
    LastGood,
    Refuse,
}

/// Fast path of the decision for one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastPath {
    /// No fast path.
    None,
    /// First live member of the only order.
    First,
    /// Weighted choice among all live members.
    Weighted,
    /// Group by group, in the order of the client's location class.
    Groups,
}

/// Data that only people ask for.
#[derive(Debug)]
pub(crate) struct Details {
    name: PoolName,
    policy: Policy,
    /// Members in declared order.
    pub(super) members: Box<[DeclaredMember]>,
    /// Numbers of the members with a schedule, and of their schedules.
    pub(crate) schedules: Box<[(u8, u32)]>,
    fallback: Box<[IpAddr]>,
    /// Members that the zone hides from all clients.
    pub(super) internal: MemberSet,
    /// Address of one client for each different set of visible members.
    sample_clients: Box<[IpAddr]>,
    /// True if views and locations make too many classes together, so that locations are ignored.
    pub(crate) ignores_location: bool,
    /// True if it is balanced by the load of its service, not by that of its clusters.
    by_service: bool,
}

/// A member as declared.
#[derive(Debug)]
pub(super) struct DeclaredMember {
    cluster: ClusterName,
    pub(super) weight: u16,
    addresses: Arc<[IpAddr]>,
}

impl SteerPool {
    /// Returns the pool's name.
    pub fn name(&self) -> &PoolName {
        &self.details.name
    }

    /// Returns the mode: addresses, or names of clusters.
    pub fn mode(&self) -> AnswerMode {
        self.mode
    }

    /// Returns the members' clusters in declared order. The index is the member's number.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &ClusterName> {
        self.details.members.iter().map(|member| &member.cluster)
    }

    /// Returns the destination of its demand in a cluster, for load control.
    pub fn backend(&self, cluster: &ClusterName) -> Backend {
        Backend { cluster: cluster.clone(), pool: self.details.by_service.then(|| self.name().clone()) }
    }

    /// Returns a stable hash of the pool's name and variant, which identifies it in samples and demand.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// True if the pool balances by load and a client's demand has one destination. Then demand is sampled.
    #[inline]
    pub fn is_balanced(&self) -> bool {
        self.load && self.spread == Spread::Client
    }

    /// Returns the kinds of questions that the pool answers.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.mode {
            AnswerMode::Address => &[Kind::V4, Kind::V6],
            AnswerMode::Cname => &[Kind::Cname],
        }
    }

    /// Returns a question that the pool can answer, if it can answer any.
    pub fn answerable_kind(&self) -> Kind {
        match self.mode {
            AnswerMode::Cname => Kind::Cname,
            AnswerMode::Address if self.plans[0].members > 0 => Kind::V4,
            AnswerMode::Address => Kind::V6,
        }
    }

    /// Returns the declared policy.
    pub fn policy(&self) -> &Policy {
        &self.details.policy
    }

    /// Returns the block that a client belongs to. Its length is the ECS scope (RFC 7871 section 7.2.1).
    ///
    /// The length is 0 if every client gets the same answer (failover) or every query is drawn.
    #[inline(always)]
    pub fn client_net(&self, address: IpAddr) -> ClientNet {
        let address = address.to_canonical();
        let (class, length) = match &self.partition {
            None => (0, 0),
            Some(partition) => partition.lookup(address),
        };
        ClientNet::new(address, length.max(self.scopes[usize::from(!address.is_ipv4())]), class)
    }

    /// True if the answer depends on the client.
    pub fn tells_clients_apart(&self) -> bool {
        self.partition.is_some() || self.scopes != [0, 0]
    }

    /// True if no client ever gets an address of this kind, whatever the health.
    pub(crate) fn is_denied_to_all(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Addresses(family) if self.denied[family as usize])
    }

    /// True if clients differ in more than the choice among the same members: by location or views.
    pub(crate) fn has_classes(&self) -> bool {
        self.partition.is_some()
    }

    /// True if a member has an address of the family.
    pub(crate) fn has(&self, family: Family) -> bool {
        self.plans[family as usize].members > 0
    }

    /// Returns the location class of a client.
    pub(crate) fn location_class(&self, client: ClientNet) -> LocationClass {
        let address = client.network().address();
        let prefix = self.scopes[usize::from(!address.is_ipv4())];
        let Some(partition) = &self.partition else {
            return LocationClass { block: None, class: 0, classes: 1, prefix };
        };
        let (class, length) = partition.lookup(address);
        LocationClass { block: Some(Network::of(address, length)), class, classes: partition.classes(), prefix }
    }

    /// Returns one client for each different set of visible members. Conditions of a whole pool are tested for each of
    /// them.
    pub fn sample_clients(&self) -> impl Iterator<Item = ClientNet> {
        self.details.sample_clients.iter().map(|address| self.client_net(*address))
    }

    /// Returns one client of each location class, and the part of all addresses in that class, IPv4 first.
    ///
    /// Clients of a class get the same members if the same members are up.
    pub fn location_classes(&self) -> Vec<(ClientNet, [f64; 2])> {
        let Some(partition) = &self.partition else { return vec![(self.client_net([0; 4].into()), [1.0; 2])] };
        let mut classes: Vec<Option<(ClientNet, [f64; 2])>> = vec![None; usize::from(partition.classes())];
        for (network, class) in partition.blocks() {
            let (_, parts) = classes[usize::from(class)]
                .get_or_insert_with(|| (ClientNet::new(network.address(), network.length(), class), [0.0; 2]));
            parts[usize::from(!network.address().is_ipv4())] += 0.5f64.powi(network.length().into());
        }
        classes.into_iter().flatten().collect()
    }

    /// Returns the sets of members whose addresses are numbered together, IPv4 first.
    pub(crate) fn answered_together(&self) -> [&[MemberSet]; 2] {
        self.plans.each_ref().map(|plan| plan.everyone.as_ref().map_or(&[][..], |everyone| &everyone.sets))
    }

    /// Returns the cluster of a member.
    pub(crate) fn cluster(&self, number: u8) -> &ClusterName {
        &self.details.members[usize::from(number)].cluster
    }

    /// Returns the addresses of a member in one family, in declared order.
    pub(super) fn addresses(&self, number: u8, family: Family) -> impl Iterator<Item = IpAddr> {
        self.details.members[usize::from(number)].addresses.iter().copied().filter(move |a| family.holds(a))
    }

    /// Returns the fallback addresses of one family.
    pub(super) fn fallback(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.details.fallback.iter().copied().filter(move |a| family.holds(a))
    }

    /// Returns the target of one address of a member.
    pub(super) fn target_of(&self, set: &AddressSet, address: usize) -> TargetIndex {
        if set.has_one_target() { TargetIndex(set.at) } else { self.targets[set.at as usize + address] }
    }

    /// Returns the range of the pool's words for closed members, one bit per member. Empty if it uses no schedules.
    #[inline]
    pub(crate) fn closed_words(&self) -> Range<usize> {
        let begin = self.closed_begin as usize;
        begin..begin + usize::from(self.closed_count)
    }

    /// Returns the part of the closed members in the id of the runtime state; 0 if all are open.
    pub(crate) fn closed_hash(&self, words: &[u64]) -> u64 {
        let is_open = words.iter().all(|word| *word == 0);
        let hash = |hash: u64, word: &u64| mix(hash ^ word);
        if is_open { 0 } else { words.iter().fold(self.key ^ hash::seed::CLOSED, hash) }
    }

    /// Returns the targets of each member with its number and cluster. Targets may repeat.
    ///
    /// A cluster can be answered, at least with some of its addresses, if one of its targets is up or unknown.
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

    /// Returns the addresses of all members, each with its cluster and target.
    pub fn address_targets(&self) -> impl Iterator<Item = (&ClusterName, IpAddr, TargetIndex)> {
        self.members.iter().flat_map(move |member| {
            let sets = Family::BOTH.into_iter().zip(&member.address_sets);
            sets.flat_map(move |(family, set)| {
                let addresses = self.addresses(member.number, family).take(set.addresses() as usize).enumerate();
                addresses.map(move |(at, address)| (self.cluster(member.number), address, self.target_of(set, at)))
            })
        })
    }

    /// Returns the number of blocks of client addresses in each location class.
    pub(super) fn blocks_by_class(&self) -> Vec<u32> {
        let Some(partition) = &self.partition else { return vec![1] };
        let mut counts = vec![0; usize::from(partition.classes())];
        partition.blocks().for_each(|(_, class)| counts[usize::from(class)] += 1);
        counts
    }

    /// True if a member has a schedule that counts.
    pub fn uses_schedules(&self) -> bool {
        self.closed_count > 0
    }

    /// Returns the numbers of the balanced clusters among its members.
    pub(super) fn balanced_numbers(&self) -> impl Iterator<Item = u16> {
        self.members.iter().map(|member| member.cluster).filter(|cluster| *cluster != UNBALANCED)
    }

    /// Returns every target of the pool. Targets may repeat.
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
