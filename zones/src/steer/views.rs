//! Views: the members that clients of some networks may see, as part of the pool's client partition.
//!
//! A member with networks is visible to clients of these networks only. Together they split the address space into
//! views, as few as distinguish the visible members, and the views split the location classes. For other clients the
//! member does not exist, also in down answers. Members that a location excludes (`geo` with `only`) are hidden
//! likewise.

use std::{collections::BTreeSet, net::IpAddr};

use fairway_model::{ClientPartition, Cluster, LocationRankings, Network, Partition, Pool, Visibility, ZoneSpec};
use indexmap::IndexSet;

/// A set of members, one bit per number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemberSet([u64; 4]);

impl MemberSet {
    /// Returns the set with a member added.
    pub(super) fn with(mut self, number: u8) -> Self {
        self.0[usize::from(number / 64)] |= 1 << (number % 64);
        self
    }

    /// True if the set has a member.
    #[inline]
    pub(super) fn contains(&self, number: u8) -> bool {
        self.0[usize::from(number / 64)] >> (number % 64) & 1 == 1
    }

    /// Returns the intersection.
    pub(super) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the number of members.
    pub(super) fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl FromIterator<u8> for MemberSet {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::default(), Self::with)
    }
}

/// Visible members of a pool for each client, in one zone.
#[derive(Debug)]
pub(super) struct VisibleMembers {
    /// Client partition by location and views.
    pub(super) refined: RefinedPartition,
    /// Members that the zone hides from all clients.
    pub(super) internal: MemberSet,
    /// True if locations were dropped, since views and locations made too many classes.
    pub(super) ignores_location: bool,
}

impl VisibleMembers {
    /// `declared` are the compiled members with their indices in the pool. Without a zone, the pool is public.
    pub(super) fn new(
        pool: &Pool,
        zone: Option<&ZoneSpec>,
        location: &LocationRankings,
        declared: &[(usize, &Cluster)],
    ) -> Self {
        let is_public = zone.is_none_or(|zone| zone.visibility == Visibility::Public);
        let members = || declared.iter().map(|(index, _)| &pool.members[*index]);
        let networks = members().map(|member| match &*member.networks {
            _ if member.internal && is_public => Some(&[][..]),
            [] => None,
            networks => Some(networks),
        });
        let networks: Vec<_> = networks.collect();
        let internal = (0..=u8::MAX).zip(members()).filter(|(_, member)| member.internal && is_public);
        let internal = internal.map(|(number, _)| number).collect();
        let admitted = |class: u16| -> MemberSet {
            let members = (0..=u8::MAX).zip(declared).filter(|(_, (index, _))| location.admits(class, *index));
            members.map(|(number, _)| number).collect()
        };
        let admitted: Vec<_> = (0..location.partition.classes()).map(admitted).collect();
        match refine(&location.partition, &networks) {
            Some(mut refined) => {
                for class in &mut refined.classes {
                    class.visible = class.visible.and(admitted[usize::from(class.base)]);
                }
                Self { refined, internal, ignores_location: false }
            }
            // Visibility is kept in favour of ranks.
            None => {
                let refined = refine_without_ranks(&location.partition, &admitted, &networks);
                Self { refined, internal, ignores_location: true }
            }
        }
    }

    /// Returns the address of one client for each different set of visible members.
    pub(super) fn sample_clients(&self) -> Box<[IpAddr]> {
        let RefinedPartition { partition, classes } = &self.refined;
        let mut unmet: BTreeSet<MemberSet> = classes.iter().map(|class| class.visible).collect();
        if unmet.len() == 1 {
            return [IpAddr::from([0; 4])].into();
        }
        let first = partition.blocks().filter(|(_, class)| unmet.remove(&classes[usize::from(*class)].visible));
        first.map(|(network, _)| network.address()).collect()
    }
}

/// A client partition split by views.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefinedPartition {
    /// Location class of each client.
    pub(super) partition: ClientPartition,
    /// Visible members of each class.
    pub(super) classes: Vec<ClassMembers>,
}

/// Returns the partition without ranks: classes by the members that they admit only, each with the first class that
/// admits these. If even these are too many, one class with the members that every client may get.
fn refine_without_ranks(
    partition: &ClientPartition,
    admitted: &[MemberSet],
    members: &[Option<&[Network]>],
) -> RefinedPartition {
    let (mut sets, mut firsts) = (IndexSet::new(), Vec::new());
    let numbers = (0..).zip(admitted).map(|(class, set)| {
        let (number, is_new) = sets.insert_full(*set);
        if is_new {
            firsts.push(class);
        }
        number as u32 // at most one for each class
    });
    let numbers: Vec<u32> = numbers.collect();
    let coarse = partition.partition().map(|class| numbers[class as usize]);
    let refined = ClientPartition::new(coarse).and_then(|coarse| refine(&coarse, members));
    let Some(mut refined) = refined else {
        let visible = admitted.iter().fold(open(members), |all, set| all.and(*set));
        let classes = vec![ClassMembers { base: 0, visible }];
        return RefinedPartition { partition: ClientPartition::everywhere(), classes };
    };
    for class in &mut refined.classes {
        class.visible = class.visible.and(sets[usize::from(class.base)]);
        class.base = firsts[usize::from(class.base)];
    }
    refined
}

/// Returns the members without networks.
fn open(members: &[Option<&[Network]>]) -> MemberSet {
    let open = (0..=u8::MAX).zip(members).filter(|(_, networks)| networks.is_none());
    open.map(|(number, _)| number).collect()
}

/// A class of a split partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassMembers {
    /// Class before the split.
    pub(super) base: u16,
    /// Members that its clients may get.
    pub(super) visible: MemberSet,
}

/// Splits a partition along the networks of members. A member without a list is visible to all, one with an empty list
/// to none.
///
/// Returns `None` for more classes than 16 bits can count.
pub(super) fn refine(partition: &ClientPartition, members: &[Option<&[Network]>]) -> Option<RefinedPartition> {
    let open = open(members);
    if members.iter().all(|networks| networks.is_none_or(<[_]>::is_empty)) {
        // No view distinguishes clients, so the partition stays as it is.
        let classes = (0..partition.classes()).map(|base| ClassMembers { base, visible: open }).collect();
        return Some(RefinedPartition { partition: partition.clone(), classes });
    }
    let mut sets = IndexSet::from([open]);
    let mut views = Partition::uniform(0);
    for (number, networks) in (0..=u8::MAX).zip(members) {
        let Some(networks) = networks.filter(|networks| !networks.is_empty()) else { continue };
        let inside = Partition::of_networks(networks.iter().map(|network| (*network, 1)), 0);
        views = views.overlay(&inside, |seen, is_inside| match is_inside {
            0 => seen,
            _ => sets.insert_full(sets[seen as usize].with(number)).0 as u32, // at most one for each run of a partition
        });
    }
    let mut classes = IndexSet::new();
    let partition = partition.partition().overlay(&views, |base, seen| {
        let visible = sets[seen as usize];
        // A partition counts its classes in 16 bits.
        classes.insert_full(ClassMembers { base: base as u16, visible }).0 as u32
    });
    Some(RefinedPartition { partition: ClientPartition::new(partition)?, classes: classes.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_blocks(blocks: impl Iterator<Item = (Network, u16)>) -> ClientPartition {
        ClientPartition::new(Partition::of_networks(blocks.map(|(network, class)| (network, class.into())), 0)).unwrap()
    }

    fn networks(list: &[&str]) -> Vec<Network> {
        list.iter().map(|network| network.parse().unwrap()).collect()
    }

    fn partition(blocks: &[(&str, u16)]) -> ClientPartition {
        of_blocks(blocks.iter().map(|(network, class)| (network.parse().unwrap(), *class)))
    }

    /// Returns the class before the split, the visible members, and the length of the block.
    fn look(refined: &RefinedPartition, address: &str) -> (u16, Vec<u8>, u8) {
        let (class, length) = refined.partition.lookup(address.parse().unwrap());
        let class = refined.classes[usize::from(class)];
        (class.base, (0..8).filter(|number| class.visible.contains(*number)).collect(), length)
    }

    #[test]
    fn member_is_visible_from_its_networks_in_maximal_blocks() {
        let (inside, branch) = (networks(&["10.0.0.0/8", "2001:db8::/32"]), networks(&["10.1.0.0/16"]));
        let members = [None, Some(&inside[..]), Some(&branch[..])];
        let refined = refine(&ClientPartition::everywhere(), &members).unwrap();
        assert_eq!(look(&refined, "10.200.0.1"), (0, vec![0, 1], 9));
        assert_eq!(look(&refined, "10.1.2.3"), (0, vec![0, 1, 2], 16));
        assert_eq!(look(&refined, "10.0.2.3"), (0, vec![0, 1], 16));
        assert_eq!(look(&refined, "192.0.2.1"), (0, vec![0], 1));
        assert_eq!(look(&refined, "2001:db8::1"), (0, vec![0, 1], 32));
        assert_eq!(look(&refined, "2001:db9::1"), (0, vec![0], 32));
        assert_eq!(refined.classes.len(), 3);
    }

    #[test]
    fn member_with_empty_networks_is_visible_to_nobody() {
        let refined = refine(&ClientPartition::everywhere(), &[None, Some(&[])]).unwrap();
        assert!(refined.partition.is_everywhere());
        assert_eq!(look(&refined, "192.0.2.1"), (0, vec![0], 0));
    }

    #[test]
    fn nested_networks_do_not_split() {
        let nested = networks(&["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/9", "10.128.0.0/9"]);
        let halves = networks(&["0.0.0.0/1", "128.0.0.0/1", "::/0"]);
        let refined = refine(&ClientPartition::everywhere(), &[Some(&nested[..]), Some(&halves[..])]).unwrap();
        assert_eq!(look(&refined, "10.1.2.3"), (0, vec![0, 1], 8));
        let refined = refine(&ClientPartition::everywhere(), &[Some(&halves[..])]).unwrap();
        assert!(refined.partition.is_everywhere());
        assert_eq!(look(&refined, "10.1.2.3"), (0, vec![0], 0));
    }

    #[test]
    fn networks_split_classes_they_cross() {
        let partition = partition(&[("0.0.0.0/1", 0), ("128.0.0.0/1", 1)]);
        let (wide, narrow) = (networks(&["0.0.0.0/0"]), networks(&["192.0.2.0/24"]));
        let refined = refine(&partition, &[Some(&wide[..]), Some(&narrow[..])]).unwrap();
        assert_eq!(look(&refined, "10.0.0.1"), (0, vec![0], 1));
        assert_eq!(look(&refined, "192.0.2.1"), (1, vec![0, 1], 24));
        assert_eq!(look(&refined, "129.0.0.1"), (1, vec![0], 2));
        assert_eq!(look(&refined, "2001:db8::1"), (0, vec![], 0));
    }

    #[test]
    fn single_address_can_be_a_network() {
        let ends = networks(&["0.0.0.0/32", "255.255.255.255/32", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"]);
        let refined = refine(&ClientPartition::everywhere(), &[Some(&ends[..])]).unwrap();
        assert_eq!(look(&refined, "255.255.255.255"), (0, vec![0], 32));
        assert_eq!(look(&refined, "0.0.0.1"), (0, vec![], 32));
        assert_eq!(look(&refined, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), (0, vec![0], 128));
    }

    #[test]
    fn refine_with_too_many_classes_returns_none() {
        let halves = (0..=u16::MAX - 1)
            .map(|class| (Network::of(std::net::Ipv4Addr::from(u32::from(class) << 16).into(), 16), class));
        let rest = (Network::of([255, 255, 0, 0].into(), 16), 0);
        let partition = of_blocks(halves.chain([rest]));
        let network = networks(&["1.2.3.0/24"]);
        assert!(refine(&partition, &[Some(&[])]).is_some());
        assert!(refine(&partition, &[Some(&network[..])]).is_none());
    }

    /// Networks close to each other, so that they nest and touch.
    fn close() -> impl Strategy<Value = Vec<Network>> {
        let v4 = (any::<u8>(), 0u8..=8).prop_map(|(top, length)| Network::of([top, 0, 0, 0].into(), length));
        let v6 =
            (any::<u16>(), 0u8..=16).prop_map(|(top, length)| Network::of([top, 0, 0, 0, 0, 0, 0, 0].into(), length));
        prop::collection::vec(prop_oneof![v4, v6], 0..5)
    }

    proptest! {
        #[test]
        fn visibility_depends_on_networks_only(
            members in prop::collection::vec(prop::option::of(close()), 1..6), address in any::<u8>(), top in any::<u16>(),
            bases in prop::option::of(0u8..8),
        ) {
            let blocks = |length: u8| (0..1u16 << length).map(move |class| {
                (Network::of([(class << (8 - length)) as u8, 0, 0, 0].into(), length), class)
            });
            let partition = bases.map_or_else(ClientPartition::everywhere, |length| of_blocks(blocks(length)));
            let given: Vec<_> = members.iter().map(|networks| networks.as_deref()).collect();
            let refined = refine(&partition, &given).unwrap();
            for address in [IpAddr::from([address, 1, 2, 3]), IpAddr::from([top, 0, 0, 0, 0, 0, 0, 9])] {
                let (number, length) = refined.partition.lookup(address);
                let class = refined.classes[usize::from(number)];
                prop_assert_eq!(class.base, partition.lookup(address).0);
                for (number, networks) in (0u8..).zip(&members) {
                    let seen = networks.as_ref().is_none_or(|networks| networks.iter().any(|n| n.contains(address)));
                    prop_assert_eq!(class.visible.contains(number), seen);
                }
                // The sibling block is in another class, so the block could not be larger.
                if length > 0 {
                    let other = refined.partition.blocks().find(|(network, _)| *network == sibling(address, length));
                    prop_assert!(other.is_none_or(|(_, class)| class != number));
                }
            }
        }
    }

    fn sibling(address: IpAddr, length: u8) -> Network {
        let other = match address {
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() ^ 1 << (32 - length)).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() ^ 1 << (128 - length)).into()),
        };
        Network::of(other, length)
    }
}
