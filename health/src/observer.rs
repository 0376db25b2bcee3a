//! The state of the probe host, which is suspected before a target is. Pure.
//!
//! Two questions: was this process stalled while a probe ran ([`LagMeter`]), and does this host reach anything at all
//! ([`ReachedTargets`]). False health transitions cause the largest load spikes, so a probe with an unclear result does not count.
//! Only monotonic time is used, so a step of the wall clock has no effect.

use std::time::Duration;

use tokio::time::Instant;

/// Measures for how long the process was stalled: starved of CPU, stopped, or its runtime blocked.
///
/// A task calls [`tick`](Self::tick) every [`TICK`](Self::TICK); the time by which it is late was lost to probes, too.
#[derive(Debug)]
pub(crate) struct LagMeter {
    start: Instant,
    /// Time at which the next tick is expected.
    expected: Instant,
    /// Total lateness.
    stalled_for: Duration,
    /// Number of late ticks.
    stalls: u64,
}

impl LagMeter {
    /// Time between two ticks: short enough to see a stall within the shortest period (50 ms), and 50 wake-ups per second.
    pub(crate) const TICK: Duration = Duration::from_millis(20);
    /// Lateness below this is normal for timers and schedulers and does not count: tokio's timers round up to 1 ms, and a
    /// time slice of Linux is some 4 ms.
    const NOISE: Duration = Duration::from_millis(5);

    /// Returns a meter that starts now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, expected: now + Self::TICK, stalled_for: Duration::ZERO, stalls: 0 }
    }

    /// Records that the task is awake; returns its lateness, if that counts.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Duration> {
        let late = self.late(now);
        self.expected = now + Self::TICK;
        self.stalled_for += late;
        self.stalls += u64::from(!late.is_zero());
        (!late.is_zero()).then_some(late)
    }

    /// Returns the time lost up to `now`, including the lateness that the next tick will record.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.stalled_for + self.late(now)
    }

    /// Returns the number of late ticks.
    pub(crate) const fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Returns the time that passed while the process was not stalled. Evidence ages by it, so that a stop of an hour does
    /// not make every status unknown.
    pub(crate) fn awake(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start).saturating_sub(self.stalled_for(now))
    }

    fn late(&self, now: Instant) -> Duration {
        let late = now.saturating_duration_since(self.expected);
        if late < Self::NOISE { Duration::ZERO } else { late }
    }
}

/// Returns the stall that a probe tolerates: if this process lost more time while it ran, a failure is inconclusive. A
/// quarter of the timeout, at least 10 ms and at most 1 s.
pub(crate) fn tolerance(timeout: Duration) -> Duration {
    (timeout / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// The targets that answered last, by address family: evidence that this host has a network.
///
/// A host without a route gets "network unreachable" for every target. So it counts as a failure only if another target of
/// the family was reached after it first occurred. Loopback is not evidence of a network.
#[derive(Debug)]
pub(crate) struct ReachedTargets<K> {
    /// For IPv4 and IPv6: the last target reached, and the last one other than that.
    last: [[Option<(K, Instant)>; 2]; 2],
}

impl<K: Copy + PartialEq> ReachedTargets<K> {
    /// Returns the state in which no target was reached.
    pub(crate) const fn new() -> Self {
        Self { last: [[None; 2]; 2] }
    }

    /// Records that a target answered in any way, a refusal included.
    pub(crate) fn note(&mut self, family: Family, key: K, now: Instant) {
        let [newest, other] = &mut self.last[family as usize];
        if newest.is_some_and(|(last, _)| last != key) {
            *other = *newest;
        }
        *newest = Some((key, now));
    }

    /// Returns true if another target of the family was reached after `since`.
    pub(crate) fn other_since(&self, family: Family, key: K, since: Instant) -> bool {
        self.last[family as usize].iter().flatten().any(|(other, at)| *other != key && *at > since)
    }
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub(crate) enum Family {
    /// IPv4.
    #[strum(to_string = "IPv4")]
    V4,
    /// IPv6.
    #[strum(to_string = "IPv6")]
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub(crate) const fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

#[cfg(test)]
mod tests;
