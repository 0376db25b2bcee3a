//! Balances of networks: rate, window, kinds, prefixes, workers, and networks that share a slot.

use super::*;

const SECOND: u64 = 1_700_000_000;
/// The subject of all responses of a test that has no other.
const NAME: u32 = 7;

fn table(workers: u32) -> RateTable {
    RateTable::new(Arc::default(), workers)
}

fn limits(per_second: u32) -> RateLimits {
    RateLimits { per_second: [per_second, 0, 0, per_second, 0, 0, 0], ..RateLimits::default() }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns how many of `count` responses of a kind stay within the limits.
fn sent(table: &RateTable, limits: &RateLimits, to: &str, kind: ResponseKind, count: usize, now: u64) -> usize {
    let (to, now) = (address(to), Now(now));
    (0..count).filter(|_| table.count(limits, to, (kind, NAME), now).is_ok()).count()
}

#[test]
fn network_gets_its_rate_in_each_second() {
    let (table, limits) = (table(1), limits(5));
    for second in 0..4 {
        assert_eq!(sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 5, SECOND + second), 5);
    }
    assert_eq!(sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 9, SECOND + 4), 5);
}

#[test]
fn flood_gets_nothing_after_its_first_second_and_pays_for_the_window() {
    let (table, limits) = (table(1), RateLimits { window: 15, ..limits(5) });
    let flood = |second| sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 1_000, SECOND + second);
    assert_eq!([0, 1, 2, 3, 100].map(flood), [5, 0, 0, 0, 5]);
    // The debt is 15 s of the rate; one more response makes it no larger.
    let quiet = |second| sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 1, SECOND + second);
    assert_eq!([114, 117].map(quiet), [0, 1]);
}

#[test]
fn clock_that_was_set_back_limits_nobody() {
    let (table, limits) = (table(1), limits(5));
    for now in [SECOND, SECOND - 100_000, u64::from(u32::MAX), u64::from(u32::MAX) + 100] {
        assert_eq!(sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 50, now), 5, "at {now}");
    }
}

#[test]
fn kinds_names_and_networks_are_counted_apart() {
    let limits = limits(5);
    let counts = || {
        let table = table(1);
        let sent = |to, kind| sent(&table, &limits, to, kind, 50, SECOND);
        let other_name = (ResponseKind::Answer, NAME + 1);
        [
            ("network", sent("192.0.2.1", ResponseKind::Answer), 5),
            ("the same /24", sent("192.0.2.255", ResponseKind::Answer), 0),
            ("another /24", sent("192.0.3.1", ResponseKind::Answer), 5),
            ("another kind", sent("192.0.2.1", ResponseKind::NxDomain), 5),
            ("a kind without limit", sent("192.0.2.1", ResponseKind::Referral), 50),
            (
                "another name",
                usize::from(table.count(&limits, address("192.0.2.1"), other_name, Now(SECOND)).is_ok()),
                1,
            ),
            ("IPv6 network", sent("2001:db8:0:1::1", ResponseKind::Answer), 5),
            ("the same /56", sent("2001:db8:0:ff::1", ResponseKind::Answer), 0),
            ("another /56", sent("2001:db8:0:100::1", ResponseKind::Answer), 5),
        ]
        .into_iter()
        .filter(|(_, count, expected)| count != expected)
        .collect::<Vec<_>>()
    };
    // With one in some 4,000 keys, two of them share a slot.
    let wrong = (0..3).map(|_| counts()).min_by_key(Vec::len).unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn many_names_share_the_limit_of_all_responses() {
    let limits = RateLimits { per_second: [50, 50, 50, 50, 50, 100, 0], slip: 0, ..RateLimits::default() };
    let over = || -> Vec<_> {
        let table = table(1);
        let count = |name| table.count(&limits, address("192.0.2.1"), (ResponseKind::Answer, name), Now(SECOND)).err();
        (0..200).filter_map(count).collect()
    };
    // With some keys, a name shares the slot of all responses.
    let over = (0..3).map(|_| over()).find(|over| over.len() == 100).expect("100 of 200 are over the limit");
    assert!(over.iter().all(|over| over.kind == ResponseKind::All));
    assert_eq!(limits.network_of(over[0].network).to_string(), "192.0.2.0/24");
}

#[test]
fn workers_share_a_limit_and_get_one_at_least() {
    for (workers, expected) in [(1, 50), (2, 25), (8, 7), (200, 1)] {
        assert_eq!(sent(&table(workers), &limits(50), "192.0.2.1", ResponseKind::Answer, 1_000, SECOND), expected);
    }
}

#[test]
fn flood_to_one_network_harms_few_others_and_nobody_can_choose_them() {
    let (one, two) = (table(1), table(1));
    let limits = limits(5);
    let others = || (0..=255).flat_map(|b| (0..16).map(move |c| IpAddr::from([10, b, c, 1])));
    let harmed = |table: &RateTable| {
        sent(table, &limits, "192.0.2.1", ResponseKind::Answer, 10_000, SECOND);
        let count = |other: &IpAddr| table.count(&limits, *other, (ResponseKind::Answer, NAME), Now(SECOND));
        others().filter(|other| count(other).is_err()).collect::<Vec<_>>()
    };
    // Each of the 4,096 shares the slot with a probability of 1 to 65,536: 0.06 on average, never 4.
    let (first, second) = (harmed(&one), harmed(&two));
    assert!(first.len() < 4 && second.len() < 4, "{first:?} {second:?}");
    // Other servers and other starts have other slots.
    let slots = |table: &RateTable| others().map(|a| table.proven.hash(limits.network(a))).collect::<Vec<_>>();
    assert_ne!(slots(&one), slots(&two));
}

#[test]
fn largest_settings_do_not_overflow() {
    let limits = RateLimits { window: u32::MAX, per_second: [u32::MAX; 7], ..RateLimits::default() };
    let table = table(1);
    assert_eq!(sent(&table, &limits, "192.0.2.1", ResponseKind::Answer, 1_000, u64::MAX), 1_000);
    let zero = RateLimits { ipv4_prefix: 0, ipv6_prefix: 0, window: 0, ..limits };
    assert_eq!(sent(&table, &zero, "192.0.2.1", ResponseKind::Answer, 1_000, 1), 1_000);
}

#[test]
fn excess_of_all_networks_is_bounded_per_second_and_shared_by_workers() {
    let limits = RateLimits { per_second: [0, 0, 0, 0, 0, 0, 5_000], ..RateLimits::default() };
    // With two workers each has 2,500: three responses overdraw by 500 bytes, which the next second pays.
    for (workers, expected) in [(1, [5, 5, 5]), (2, [3, 2, 3])] {
        let table = table(workers);
        let mut sent = |second| {
            let now = Now(SECOND + second);
            (0..50)
                .filter(|_| table.excess(&limits, now).is_none())
                .inspect(|_| table.count_excess(&limits, 1_000, now))
                .count()
        };
        // A long pause saves no more than a second.
        assert_eq!([0, 1, 100].map(&mut sent), expected, "{workers} workers");
    }
    let unlimited = RateLimits { per_second: [0; 7], ..limits };
    let table = table(1);
    table.count_excess(&unlimited, 1 << 30, Now(SECOND));
    assert_eq!(table.excess(&unlimited, Now(SECOND)), None);
}

#[test]
fn proven_network_is_known_for_a_day() {
    let limits = RateLimits::default();
    let proven = ProvenNetworks::default();
    let knows = |to: &str, now| proven.contains(proven.hash(limits.network(address(to))), Now(now));
    assert!(!knows("192.0.2.1", SECOND));
    proven.insert(&limits, address("192.0.2.1"), Now(SECOND));
    assert_eq!([0, 86_399, 86_400].map(|passed| knows("192.0.2.255", SECOND + passed)), [true, true, false]);
    // A clock that was set back forgets it.
    assert!(!knows("192.0.2.1", SECOND - 1));
    let others = (0..=255u8).flat_map(|b| (0..=255u8).map(move |c| format!("10.{b}.{c}.1")));
    assert_eq!(others.filter(|other| knows(other.as_str(), SECOND)).count(), 0);
}
