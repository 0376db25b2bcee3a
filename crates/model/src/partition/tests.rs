use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn partition(networks: &[(&str, u32)]) -> Partition {
    Partition::of_networks(networks.iter().map(|(network, value)| (network.parse().unwrap(), *value)), 0)
}

fn find(partition: &Partition, address: &str) -> (u32, u8) {
    let found = partition.find(address.parse().unwrap());
    (found.value, found.length)
}

#[test]
fn partition_without_networks_has_one_block_per_family() {
    let all = Partition::uniform(7);
    assert_eq!((find(&all, "0.0.0.0"), find(&all, "255.255.255.255")), ((7, 0), (7, 0)));
    assert_eq!((find(&all, "::"), find(&all, "ffff::1"), all.starts().count()), ((7, 0), (7, 0), 2));
}

#[test]
fn network_within_another_splits_it() {
    let nested = partition(&[("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.0.0/24", 3), ("11.0.0.0/8", 1)]);
    assert_eq!(find(&nested, "10.1.0.255"), (3, 24));
    assert_eq!(find(&nested, "10.1.1.0"), (2, 24));
    assert_eq!(find(&nested, "10.1.255.255"), (2, 17));
    assert_eq!(find(&nested, "10.2.0.0"), (1, 15));
    assert_eq!(find(&nested, "11.255.255.255"), (1, 8));
    assert_eq!(find(&nested, "12.0.0.0"), (0, 6));
}

#[test]
fn ends_of_the_address_space_can_be_networks() {
    let ends = partition(&[("0.0.0.0/32", 1), ("255.255.255.255/32", 2), ("::/128", 3), ("ffff::/16", 4)]);
    assert_eq!((find(&ends, "0.0.0.0"), find(&ends, "0.0.0.1")), ((1, 32), (0, 32)));
    assert_eq!((find(&ends, "255.255.255.255"), find(&ends, "255.255.255.254")), ((2, 32), (0, 32)));
    assert_eq!((find(&ends, "::"), find(&ends, "ffff:ffff::1"), find(&ends, "8000::")), ((3, 128), (4, 16), (0, 2)));
    assert_eq!(ends.starts().count(), 6);
}

#[test]
fn first_addresses_are_found_if_the_index_ends_past_the_last_one() {
    let odd = (0..128u8).map(|n| 2 * n + 1).map(|n| (Network::of([255, 255, 255, n].into(), 32), u32::from(n)));
    let odd: Vec<_> = odd.collect();
    for most in [3, 5, 128] {
        let top = Partition::of_networks(odd.iter().rev().take(most).copied(), 0);
        assert_eq!((find(&top, "0.0.0.0"), find(&top, "0.0.0.255"), find(&top, "254.0.0.0")), ((0, 1), (0, 1), (0, 8)));
        assert_eq!((find(&top, "255.255.255.255"), find(&top, "255.255.255.254")), ((255, 32), (0, 32)));
    }
}

#[test]
fn equal_halves_are_one_block_and_blocks_fill_the_space() {
    let halves = partition(&[("192.0.2.0/25", 1), ("192.0.2.128/25", 1), ("0.0.0.0/0", 2), ("::/0", 2)]);
    assert_eq!(find(&halves, "192.0.2.77"), (1, 24));
    let blocks: Vec<_> = halves.blocks().collect();
    assert_eq!(blocks.len(), 1 + 24 + 1);
    let addresses: u64 =
        blocks.iter().filter(|(b, _)| b.address().is_ipv4()).map(|(b, _)| 1 << (32 - b.length())).sum();
    assert_eq!(addresses, 1 << 32);
}

#[test]
fn network_out_of_order_has_no_effect() {
    let mut builder = PartitionBuilder::new(0);
    for (network, value) in [("10.0.0.0/8", 1), ("10.0.0.0/16", 2), ("10.0.0.0/8", 3), ("9.0.0.0/8", 4)] {
        builder.add(network.parse().unwrap(), value);
    }
    assert_eq!(builder.finish(), partition(&[("10.0.0.0/8", 1), ("10.0.0.0/16", 2)]));
}

/// Addresses close together at both ends and in the middle of each family, so that networks nest and touch.
fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = (prop::sample::select(vec![0u32, 0x0a00_0000, 0xffff_ff00]), any::<u8>())
        .prop_map(|(base, low)| IpAddr::V4(Ipv4Addr::from_bits(base | u32::from(low))));
    let v6 = (prop::sample::select(vec![0u128, 0x2001_0db8 << 96, u128::MAX << 16]), any::<u16>())
        .prop_map(|(base, low)| IpAddr::V6(Ipv6Addr::from_bits(base | u128::from(low))));
    prop_oneof![v4, v6]
}

fn network() -> impl Strategy<Value = Network> {
    (address(), 0u8..=16).prop_map(|(address, free)| {
        let width = if address.is_ipv4() { 32 } else { 128 };
        // Mostly long prefixes, and some /1.
        Network::of(address, if free == 16 { 1 } else { width - free })
    })
}

fn networks() -> impl Strategy<Value = Vec<(Network, u32)>> {
    prop::collection::vec((network(), 0u32..4), 0..60)
}

/// Returns the value of the longest network around an address, of equals the last.
fn reference(networks: &[(Network, u32)], address: IpAddr) -> u32 {
    let around = networks.iter().filter(|(network, _)| network.contains(address));
    around.max_by_key(|(network, _)| network.length()).map_or(0, |(_, value)| *value)
}

proptest! {
    #[test]
    fn look_up_finds_the_longest_match(networks in networks(), addresses in prop::collection::vec(address(), 50)) {
        let partition = Partition::of_networks(networks.clone(), 0);
        for address in addresses {
            prop_assert_eq!(partition.find(address).value, reference(&networks, address), "{}", address);
        }
    }

    #[test]
    fn addresses_of_one_block_have_one_value_and_length(
        networks in networks(), addresses in prop::collection::vec(address(), 30)
    ) {
        let partition = Partition::of_networks(networks, 0);
        for a in &addresses {
            let found = partition.find(*a);
            for b in addresses.iter().filter(|b| Network::of(*a, found.length).contains(**b)) {
                prop_assert_eq!(partition.find(*b), found);
            }
        }
    }

    #[test]
    fn blocks_agree_with_look_ups_and_siblings_differ(networks in networks()) {
        let partition = Partition::of_networks(networks, 0);
        let blocks: Vec<_> = partition.blocks().collect();
        for (block, value) in &blocks {
            prop_assert_eq!(partition.find(block.address()), PartitionMatch { value: *value, length: block.length() });
        }
        for pair in blocks.windows(2) {
            let [(a, of_a), (b, of_b)] = pair else { unreachable!() };
            let siblings = a.length() == b.length() && a.length() > 0
                && Network::of(a.address(), a.length() - 1) == Network::of(b.address(), b.length() - 1);
            prop_assert!(!(siblings && of_a == of_b), "{} {}", a, b);
        }
        prop_assert_eq!(Partition::of_networks(blocks, 0), partition);
    }

    #[test]
    fn overlay_has_the_values_of_both(a in networks(), b in networks(), addresses in prop::collection::vec(address(), 30)) {
        let (a, b) = (Partition::of_networks(a, 0), Partition::of_networks(b, 0));
        let both = a.overlay(&b, |a, b| a * 2 + (b & 1));
        for address in addresses {
            let value = a.find(address).value * 2 + (b.find(address).value & 1);
            prop_assert_eq!(both.find(address).value, value);
        }
    }
}

#[test]
fn index_size_grows_with_runs_up_to_its_bound() {
    assert!(partition(&[("10.0.0.0/8", 1)]).size_in_bytes() < 200);
    let mut builder = PartitionBuilder::new(0);
    for number in 0..1u32 << 20 {
        builder.add(Network::of(Ipv4Addr::from_bits(number << 12).into(), 20), number % 3);
    }
    let many = builder.finish();
    assert_eq!(many.starts().count(), (1 << 20) + 1);
    assert!(many.size_in_bytes() < (1 << 23) + (1 << 19), "{}", many.size_in_bytes());
    assert_eq!(find(&many, "255.255.255.255"), (((1 << 20) - 1) % 3, 20));
}
