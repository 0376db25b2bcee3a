//! When a provider is asked next: soon after a change, again after a failure, and now and then without a reason.

use std::time::Duration;

/// How often and how fast a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Longest time between two syncs, by which drift is found; default 600 s.
    pub resync: Duration,
    /// Shortest time between two calls; default 100 ms.
    pub call_gap: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { resync: Duration::from_secs(600), call_gap: Duration::from_millis(100) }
    }
}

impl Pacing {
    /// How long to wait after a sync that failed so many times in a row, in a way that time may mend: 1 s, doubled up to a minute, and
    /// after ten times only as often as a resync. `chance` in 0..1000 makes it up to a quarter less, so that servers do not come together.
    pub fn after_failure(&self, failures: u32, chance: u16) -> Duration {
        let whole = if failures > FAST_MAX {
            self.resync
        } else {
            Duration::from_secs(1 << failures.clamp(1, 7) >> 1).min(SLOWEST_FAST)
        };
        let whole = whole.min(self.resync);
        whole - whole * u32::from(chance.min(999)) / 4_000
    }
}

/// Failures in a row after which there is no hurry any more.
const FAST_MAX: u32 = 10;
/// Longest pause of the fast tries.
const SLOWEST_FAST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_get_rarer_up_to_a_minute_and_then_to_a_resync() {
        let pacing = Pacing::default();
        let secs: Vec<_> = (1..=12).map(|failures| pacing.after_failure(failures, 0).as_secs()).collect();
        assert_eq!(secs, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 600, 600]);
    }

    #[test]
    fn chance_takes_a_quarter_at_most() {
        let pacing = Pacing::default();
        assert!(pacing.after_failure(8, 999) >= Duration::from_secs(45));
        assert!(pacing.after_failure(8, u16::MAX) < Duration::from_secs(46));
    }
}
