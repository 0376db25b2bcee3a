//! Tests of the choice of a signal, and of rates.

use std::time::Duration;

use fairway_model::{LoadSignal, LoadUnit};
use tokio::time::Instant;

use crate::load::{
    gateway::GatewayMetrics,
    signals::{GatewaySignals, best_signal},
};

fn now(metrics: &GatewayMetrics) -> GatewaySignals {
    GatewaySignals::new((metrics, Instant::now()), None, false)
}

fn best(gateways: &[GatewaySignals]) -> Option<(LoadSignal, u64)> {
    best_signal(gateways, None, LoadUnit::Capacity)
}

/// Returns the best signal of two readings this many seconds apart, each with a count of requests and an uptime.
fn rate(before: (f64, Option<u64>), after: (f64, Option<u64>), secs: u64) -> Option<(LoadSignal, u64)> {
    let metrics = |(requests, uptime): (f64, Option<u64>)| GatewayMetrics {
        requests: Some(requests),
        uptime: uptime.map(Duration::from_secs),
        ..GatewayMetrics::default()
    };
    let (before, after, then) = (metrics(before), metrics(after), Instant::now());
    best(&[GatewaySignals::new((&after, then + Duration::from_secs(secs)), Some((&before, then)), false)])
}

#[test]
fn in_flight_precedes_connections_and_rate() {
    let mut metrics = GatewayMetrics {
        in_flight: Some(5.0),
        connections: Some(9.0),
        requests: Some(1.0),
        ..GatewayMetrics::default()
    };
    assert_eq!(best(&[now(&metrics)]), Some((LoadSignal::InFlight, 5)));
    metrics.in_flight = None;
    assert_eq!(best(&[now(&metrics)]), Some((LoadSignal::Connections, 9)));
    metrics.connections = None;
    assert_eq!(best(&[now(&metrics)]), None, "a counter that was read once gives no rate");
    assert_eq!(rate((1.0, None), (100.0, None), 10), Some((LoadSignal::RequestRate, 10)));
}

#[test]
fn best_signal_of_all_gateways_is_added() {
    let both = now(&GatewayMetrics { in_flight: Some(5.0), connections: Some(9.0), ..GatewayMetrics::default() });
    let one = now(&GatewayMetrics { connections: Some(3.0), ..GatewayMetrics::default() });
    assert_eq!(best(&[both, both]), Some((LoadSignal::InFlight, 10)));
    assert_eq!(best(&[both, one]), Some((LoadSignal::Connections, 12)));
    assert_eq!(best(&[]), None);
    assert_eq!(best_signal(&[both, one], None, LoadUnit::Permille), Some((LoadSignal::Connections, 6)));
}

#[test]
fn required_signal_is_the_only_one_used() {
    let both = now(&GatewayMetrics { in_flight: Some(5.0), connections: Some(9.0), ..GatewayMetrics::default() });
    let amount = |signal| best_signal(&[both], Some(signal), LoadUnit::Capacity).map(|(_, amount)| amount);
    assert_eq!([LoadSignal::Connections, LoadSignal::RequestRate].map(amount), [Some(9), None]);
}

#[test]
fn reset_counter_gives_no_rate() {
    assert_eq!(rate((1_000.0, Some(500)), (40.0, Some(4)), 10), None, "the counter fell");
    assert_eq!(rate((10.0, Some(500)), (40.0, Some(4)), 10), None, "the uptime fell");
    assert_eq!(
        rate((10.0, Some(2)), (4_000.0, Some(3)), 10),
        None,
        "the uptime is shorter than the time between the readings"
    );
    assert_eq!(rate((10.0, Some(500)), (40.0, Some(505)), 10), Some((LoadSignal::RequestRate, 3)));
    assert_eq!(rate((10.0, Some(500)), (40.0, Some(500)), 0), None, "no time passed");
}

#[test]
fn small_amount_is_rounded_up_to_one() {
    let little = now(&GatewayMetrics { connections: Some(0.2), ..GatewayMetrics::default() });
    assert_eq!(best(&[little]), Some((LoadSignal::Connections, 1)));
}
