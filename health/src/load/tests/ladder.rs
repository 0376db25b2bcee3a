//! Which signal of several gateways counts, and what a counter tells.

use std::time::Duration;

use fairway_model::{LoadSignal, LoadUnit};
use tokio::time::Instant;

use crate::load::{
    gateway::GatewayMetrics,
    ladder::{Readings, Rung, rung},
};

fn now(shown: &GatewayMetrics) -> Readings {
    Readings::new((shown, Instant::now()), None, false)
}

fn best(gateways: &[Readings]) -> Option<(LoadSignal, u64)> {
    rung(gateways, None, LoadUnit::Capacity).map(|Rung { signal, amount }| (signal, amount))
}

/// What two looks tell that are so many seconds apart, each a count of requests and an uptime.
fn rate(before: (f64, Option<f64>), after: (f64, Option<f64>), secs: u64) -> Option<(LoadSignal, u64)> {
    let look = |(requests, uptime)| GatewayMetrics { requests: Some(requests), uptime, ..GatewayMetrics::default() };
    let (before, after, then) = (look(before), look(after), Instant::now());
    best(&[Readings::new((&after, then + Duration::from_secs(secs)), Some((&before, then)), false)])
}

#[test]
fn requests_in_flight_come_before_connections_and_those_before_a_rate() {
    let mut shown = GatewayMetrics {
        in_flight: Some(5.0),
        connections: Some(9.0),
        requests: Some(1.0),
        ..GatewayMetrics::default()
    };
    assert_eq!(best(&[now(&shown)]), Some((LoadSignal::InFlight, 5)));
    shown.in_flight = None;
    assert_eq!(best(&[now(&shown)]), Some((LoadSignal::Connections, 9)));
    shown.connections = None;
    assert_eq!(best(&[now(&shown)]), None, "a counter seen once tells no rate");
    assert_eq!(rate((1.0, None), (100.0, None), 10), Some((LoadSignal::RequestRate, 10)));
}

#[test]
fn gateways_add_up_by_the_best_signal_that_all_of_them_have() {
    let both = now(&GatewayMetrics { in_flight: Some(5.0), connections: Some(9.0), ..GatewayMetrics::default() });
    let one = now(&GatewayMetrics { connections: Some(3.0), ..GatewayMetrics::default() });
    assert_eq!(best(&[both, both]), Some((LoadSignal::InFlight, 10)));
    assert_eq!(best(&[both, one]), Some((LoadSignal::Connections, 12)));
    assert_eq!(best(&[]), None);
    let permille = rung(&[both, one], None, LoadUnit::Permille).unwrap();
    assert_eq!(permille.amount, 6);
}

#[test]
fn a_wanted_signal_is_the_only_one_that_counts() {
    let both = now(&GatewayMetrics { in_flight: Some(5.0), connections: Some(9.0), ..GatewayMetrics::default() });
    let wanted = |signal| rung(&[both], Some(signal), LoadUnit::Capacity).map(|rung| rung.amount);
    assert_eq!([LoadSignal::Connections, LoadSignal::RequestRate].map(wanted), [Some(9), None]);
}

#[test]
fn a_reset_counter_tells_no_rate_and_never_a_negative_or_huge_one() {
    assert_eq!(rate((1_000.0, Some(500.0)), (40.0, Some(4.0)), 10), None, "it fell");
    assert_eq!(rate((10.0, Some(500.0)), (40.0, Some(4.0)), 10), None, "the uptime fell");
    assert_eq!(rate((10.0, Some(2.0)), (4_000.0, Some(3.0)), 10), None, "it is up for less than the time between");
    assert_eq!(rate((10.0, Some(500.0)), (40.0, Some(505.0)), 10), Some((LoadSignal::RequestRate, 3)));
    assert_eq!(rate((10.0, Some(500.0)), (40.0, Some(500.0)), 0), None, "no time passed");
}

#[test]
fn a_little_is_never_nothing() {
    let little = now(&GatewayMetrics { connections: Some(0.2), ..GatewayMetrics::default() });
    assert_eq!(best(&[little]), Some((LoadSignal::Connections, 1)));
}
