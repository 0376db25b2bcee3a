//! Times of syncs: soon after a change, after a failure with back-off, and periodically.

use std::time::Duration;

/// Time in which changes of the wanted state are gathered: a failing cluster changes many names at once.
pub(super) const SETTLE: Duration = Duration::from_millis(200);

/// Pause after a sync with rejected sets or deletions.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Rate of syncs and calls.
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
    /// Returns the pause after a number of failures in a row: 1 s, doubled up to a minute, and after ten failures the resync period. `chance`
    /// in 0..1000 shortens it by up to a quarter, so that servers do not call at the same time.
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

/// Failures in a row after which the pause is the resync period.
const FAST_MAX: u32 = 10;
/// Longest pause of the back-off.
const SLOWEST_FAST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_a_minute_and_then_is_the_resync_period() {
        let pacing = Pacing::default();
        let secs: Vec<_> = (1..=12).map(|failures| pacing.after_failure(failures, 0).as_secs()).collect();
        assert_eq!(secs, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 600, 600]);
    }

    #[test]
    fn chance_shortens_the_pause_by_at_most_a_quarter() {
        let pacing = Pacing::default();
        assert!(pacing.after_failure(8, 999) >= Duration::from_secs(45));
        assert!(pacing.after_failure(8, u16::MAX) < Duration::from_secs(46));
    }
}
