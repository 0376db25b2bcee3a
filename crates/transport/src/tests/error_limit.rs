//! The limit of error responses, alone and in a worker.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    thread,
};

use fairway_zones::Now;

use super::{ComputeGuard, Echo, client, echo_on, id, packet, run_in_child_process, until};
use crate::{
    error_limit::{ERRORS_PER_SECOND, ErrorLimit},
    rates::LateRates,
    sockets::Shared,
    stats::{LateTally, UdpCounters},
    stop::{Phase, Stop},
    udp::Worker,
};

/// Returns a random number and prints it, so that a failure can be repeated.
fn seed() -> u64 {
    let seed = RandomState::new().hash_one(());
    println!("seed {seed:#x}");
    seed
}

#[test]
fn address_gets_five_errors_in_each_second() {
    let mut limit = ErrorLimit::new(seed());
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    // The clock is set back between the last two.
    for second in [0, 1, 7, u64::from(u32::MAX) + 1, 1_700_000_000, 1_600_000_000] {
        let sent = (0..1_000).filter(|_| limit.admits(address, Now(second))).count();
        assert_eq!(sent, 5, "in second {second}");
    }
}

#[test]
fn flood_of_addresses_is_bounded_and_most_other_addresses_are_unharmed() {
    let mut limit = ErrorLimit::new(seed());
    let one: IpAddr = "2001:db8::1".parse().unwrap();
    let loud = (0..1_000).filter(|_| limit.admits(one, Now(9))).count();
    assert_eq!(loud, ERRORS_PER_SECOND as usize);
    let others = (0..=255).map(|last| IpAddr::from(Ipv4Addr::new(198, 51, 100, last)));
    // Each shares a slot with the loud address with a probability of 1 to 1,024: 256 give 0.25 on average, never 8.
    let served = others.filter(|other| limit.admits(*other, Now(9))).count();
    assert!(served >= 248, "{served} of 256");
    let flood = (0..100_000u128).map(|number| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | number)));
    let sent = flood.filter(|address| limit.admits(*address, Now(10))).count();
    assert!(sent <= 5 * 1024, "{sent} of 100,000");
}

#[test]
fn worker_limits_errors_per_address_and_nothing_else() {
    let (server, to) = echo_on("127.0.0.1:0", 1);
    let (loud, quiet) = (client("127.0.0.2:0"), client("127.0.0.3:0"));
    let mut buffer = [0; 512];
    // At most two seconds begin while this runs, unless the machine stands still; then it has got more time than it needs.
    for number in 0..200 {
        loud.send_to(&packet(number, "ERROR"), to).unwrap();
    }
    // Answered after all errors that were sent: same socket, same worker.
    loud.send_to(&packet(1_000, "ask"), to).unwrap();
    let mut seen = HashSet::new();
    loop {
        let length = loud.recv(&mut buffer).unwrap();
        match id(&buffer[..length]) {
            1_000 => break,
            number => assert!(seen.insert(number)),
        }
    }
    assert!((5..=50).contains(&seen.len()), "{} errors of 200", seen.len());
    quiet.send_to(&packet(7, "ERROR"), to).unwrap();
    let length = quiet.recv(&mut buffer).unwrap();
    assert_eq!(id(&buffer[..length]), 7);
    until("all counted", || server.counters().stats().udp.received == 202);
    let udp = server.counters().stats().udp;
    assert_eq!(udp.limited, 200 - seen.len() as u64);
    assert_eq!(udp.received, udp.answered + udp.dropped + udp.send_errors);
}

#[test]
fn spare_worker_keeps_its_counts_between_rounds() {
    // Spare workers of the whole process run, and would answer for other tests in another order.
    if std::env::var_os("FAIRWAY_TEST_SPARE").is_none() {
        return run_in_child_process(
            "tests::error_limit::spare_worker_keeps_its_counts_between_rounds",
            "FAIRWAY_TEST_SPARE",
        );
    }
    let (socket, loud) = (client("127.0.0.1:0"), client("127.0.0.2:0"));
    let to = socket.local_addr().unwrap();
    let (rates, tally, counters) = (LateRates::new(1, Arc::default()), LateTally::default(), UdpCounters::default());
    let (shared, (ending, stop)) = (Shared::new(false), Stop::new());
    // Five full batches. A spare worker begins a new round after each.
    for number in 0..160 {
        loud.send_to(&packet(number, "ERROR"), to).unwrap();
    }
    let computing = ComputeGuard::begin();
    thread::scope(|scope| {
        let worker =
            Worker { socket: &socket, shared: &shared, rates: &rates, tally: &tally, counters: &counters, stop: &stop };
        scope.spawn(move || worker.run_spare(|| Echo));
        until("all are counted", || counters.received.get() == 160);
        ending.send_replace(Phase::End);
        drop(computing);
    });
    let sent = 160 - counters.limited.get();
    // At most two seconds begin meanwhile; each round of its own would have sent five.
    assert!((5..=10).contains(&sent), "{sent} errors");
}
