//! From what the gateways of a cluster showed to one number, by the best signal that all of them have. Pure.
//!
//! ```text
//! requests in flight ─ better than ─ open connections ─ better than ─ requests a second ─ better than ─ none
//! ```
//! Numbers of different signals are never added up: one gateway without requests in flight puts its whole cluster on
//! connections. A counter that was reset tells no rate until it was seen twice again.

use std::time::Duration;

use fairway_model::{LoadSignal, LoadUnit};
use tokio::time::Instant;

use super::gateway::{AMOUNT_MAX, GatewayMetrics};

/// What a gateway tells by each signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Readings {
    declared: Option<f64>,
    in_flight: Option<f64>,
    connections: Option<f64>,
    rate: Option<f64>,
    /// A counter was seen that has to be seen once more.
    waits: bool,
}

/// A number of a cluster, and the signal it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rung {
    /// The signal.
    pub signal: LoadSignal,
    /// The number, in the unit of the source; rounded up.
    pub amount: u64,
}

/// The signals from best to worst.
const LADDER: [LoadSignal; 4] =
    [LoadSignal::Declared, LoadSignal::InFlight, LoadSignal::Connections, LoadSignal::RequestRate];

impl Readings {
    /// What a look tells beside the one before it, each with its time.
    ///
    /// `is_rate` says that the declared metric is a counter.
    pub(super) fn new(
        now: (&GatewayMetrics, Instant),
        before: Option<(&GatewayMetrics, Instant)>,
        is_rate: bool,
    ) -> Self {
        let rate = |of: fn(&GatewayMetrics) -> Option<f64>| {
            let (before, then) = before?;
            if is_restarted(before, now.0, now.1.saturating_duration_since(then)) {
                return None;
            }
            rate(of(before)?, of(now.0)?, now.1.saturating_duration_since(then))
        };
        let declared = if is_rate { rate(|shown| shown.declared) } else { now.0.declared };
        let requests = rate(|shown| shown.requests);
        Self {
            declared,
            in_flight: now.0.in_flight,
            connections: now.0.connections,
            rate: requests,
            waits: (now.0.declared.is_some() && declared.is_none()) || (now.0.requests.is_some() && requests.is_none()),
        }
    }

    /// Returns true if there is a counter that tells nothing until it is seen once more.
    pub(super) const fn waits(&self) -> bool {
        self.waits
    }

    const fn by(&self, signal: LoadSignal) -> Option<f64> {
        match signal {
            LoadSignal::Declared => self.declared,
            LoadSignal::InFlight => self.in_flight,
            LoadSignal::Connections => self.connections,
            LoadSignal::RequestRate => self.rate,
        }
    }
}

/// Returns the best rung that all gateways reach, or the `wanted` one; none if there is none, or no gateway.
pub(super) fn rung(gateways: &[Readings], wanted: Option<LoadSignal>, unit: LoadUnit) -> Option<Rung> {
    let reached = |signal: LoadSignal| {
        let amounts = gateways.iter().map(|gateway| gateway.by(signal));
        let sum = amounts.sum::<Option<f64>>().filter(|_| !gateways.is_empty())?;
        let amount = match unit {
            LoadUnit::Capacity => sum,
            LoadUnit::Permille => sum / gateways.len() as f64,
        };
        // Amounts are checked to be finite and not negative; a float casts to the nearest number there is.
        Some(Rung { signal, amount: amount.ceil().min(AMOUNT_MAX) as u64 })
    };
    LADDER.into_iter().filter(|signal| wanted.is_none_or(|wanted| wanted == *signal)).find_map(reached)
}

/// Growth a second; none if the counter fell, or if there was no time to grow.
///
/// Where a restart goes unseen, the counter's new value is what was counted since: the growth found is too small, and
/// neither negative nor huge.
fn rate(before: f64, now: f64, elapsed: Duration) -> Option<f64> {
    (now >= before && elapsed >= ELAPSED_MIN).then(|| (now - before) / elapsed.as_secs_f64())
}

/// Returns true if the gateway's process is another one than before.
fn is_restarted(before: &GatewayMetrics, now: &GatewayMetrics, elapsed: Duration) -> bool {
    let (Some(then), Some(uptime)) = (before.uptime, now.uptime) else { return false };
    uptime < then || uptime + UPTIME_STEP < elapsed.as_secs_f64()
}

/// Two looks that are closer than this tell no rate.
const ELAPSED_MIN: Duration = Duration::from_millis(10);
/// Envoy writes its uptime down once in a flush of its statistics, which are 5 s apart, in whole seconds.
const UPTIME_STEP: f64 = 6.0;
