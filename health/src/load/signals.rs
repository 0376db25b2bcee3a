//! Combines the metrics of a cluster's gateways to one number, by the best signal that all of them have. Pure.
//!
//! ```text
//! requests in flight ─ better than ─ open connections ─ better than ─ requests per second ─ better than ─ none
//! ```
//! Numbers of different signals are never added: if one gateway lacks requests in flight, connections are used for the whole
//! cluster. A counter that was reset gives no rate until it was read twice again.

use std::time::Duration;

use fairway_model::{LoadSignal, LoadUnit};
use tokio::time::Instant;

use super::gateway::{AMOUNT_MAX, GatewayMetrics};

/// The signals of one gateway; `None` for those it does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GatewaySignals {
    declared: Option<f64>,
    in_flight: Option<f64>,
    connections: Option<f64>,
    /// Requests per second.
    rate: Option<f64>,
    /// True if a counter was read that gives a rate only at the next reading.
    has_new_counter: bool,
}

/// The signals, best first.
const BEST_FIRST: [LoadSignal; 4] =
    [LoadSignal::Declared, LoadSignal::InFlight, LoadSignal::Connections, LoadSignal::RequestRate];

impl GatewaySignals {
    /// Returns the signals in the metrics of a reading and of the one before it, each with its time. `is_rate` is true if
    /// the declared metric is a counter.
    pub(super) fn new(
        now: (&GatewayMetrics, Instant),
        before: Option<(&GatewayMetrics, Instant)>,
        is_rate: bool,
    ) -> Self {
        let rate = |of: fn(&GatewayMetrics) -> Option<f64>| {
            let (before, then) = before?;
            let elapsed = now.1.saturating_duration_since(then);
            if is_restarted(before, now.0, elapsed) {
                return None;
            }
            rate(of(before)?, of(now.0)?, elapsed)
        };
        let declared = if is_rate { rate(|metrics| metrics.declared) } else { now.0.declared };
        let requests = rate(|metrics| metrics.requests);
        Self {
            declared,
            in_flight: now.0.in_flight,
            connections: now.0.connections,
            rate: requests,
            has_new_counter: (now.0.declared.is_some() && declared.is_none())
                || (now.0.requests.is_some() && requests.is_none()),
        }
    }

    /// Returns true if a counter was read that gives a rate only at the next reading.
    pub(super) const fn has_new_counter(&self) -> bool {
        self.has_new_counter
    }

    const fn value(&self, signal: LoadSignal) -> Option<f64> {
        match signal {
            LoadSignal::Declared => self.declared,
            LoadSignal::InFlight => self.in_flight,
            LoadSignal::Connections => self.connections,
            LoadSignal::RequestRate => self.rate,
        }
    }
}

/// Returns the best signal that all gateways have, or the required one, with the amount of the cluster in the unit of the
/// source, rounded up. `None` if no signal is available from all gateways, or without a gateway.
pub(super) fn best_signal(
    gateways: &[GatewaySignals],
    required: Option<LoadSignal>,
    unit: LoadUnit,
) -> Option<(LoadSignal, u64)> {
    if gateways.is_empty() {
        return None;
    }
    let amount = |signal: LoadSignal| {
        let sum = gateways.iter().map(|gateway| gateway.value(signal)).sum::<Option<f64>>()?;
        let amount = match unit {
            LoadUnit::Capacity => sum,
            LoadUnit::Permille => sum / gateways.len() as f64,
        };
        // Amounts are finite and not negative, as `GatewayCollector` checks, and the cast saturates.
        Some((signal, amount.ceil().min(AMOUNT_MAX) as u64))
    };
    BEST_FIRST.into_iter().filter(|signal| required.is_none_or(|required| required == *signal)).find_map(amount)
}

/// Returns the growth of a counter per second; `None` if the counter fell or too little time passed.
///
/// After an unnoticed restart the counter begins at 0, so the growth found is too small, but not negative or huge.
fn rate(before: f64, now: f64, elapsed: Duration) -> Option<f64> {
    (now >= before && elapsed >= ELAPSED_MIN).then(|| (now - before) / elapsed.as_secs_f64())
}

/// Returns true if the process of the gateway was restarted between two readings.
fn is_restarted(before: &GatewayMetrics, now: &GatewayMetrics, elapsed: Duration) -> bool {
    let (Some(then), Some(uptime)) = (before.uptime, now.uptime) else { return false };
    uptime < then || uptime + UPTIME_RESOLUTION < elapsed
}

/// Shortest time between two readings for a rate. A fifth of the shortest period, below which one request more or less
/// would change the rate by 100 per second.
const ELAPSED_MIN: Duration = Duration::from_millis(10);
/// Envoy updates its uptime when it flushes its statistics, every 5 s, in whole seconds: 5 + 1.
const UPTIME_RESOLUTION: Duration = Duration::from_secs(6);
