//! What the observer knows of itself, so that it doubts itself before it doubts a target. Pure.
//!
//! Two questions: was this process held up while a probe ran ([`LagMeter`]), and does this machine reach anything at
//! all ([`Reach`]). False deaths make the largest load spikes of all: where the answer is unclear, the probe does not
//! count. Only monotonic time is read, so a stepped wall clock changes nothing.

use std::time::Duration;

use tokio::time::Instant;

/// How long the process was held up: starved of CPU, stopped, or its runtime blocked.
///
/// A task wakes every [`TICK`](Self::TICK) and says so; what it is late by was lost to probes too.
#[derive(Debug)]
pub(crate) struct LagMeter {
    start: Instant,
    /// When the next tick is expected.
    expected: Instant,
    /// All lateness so far.
    stalled_for: Duration,
    /// How often it was late.
    stalls: u64,
}

impl LagMeter {
    /// From one tick to the next.
    pub(crate) const TICK: Duration = Duration::from_millis(20);
    /// Lateness below this is how timers and schedulers are, and is not counted.
    const NOISE: Duration = Duration::from_millis(5);

    /// Starts to measure.
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, expected: now + Self::TICK, stalled_for: Duration::ZERO, stalls: 0 }
    }

    /// Tells that the task is awake; returns what it was late by, if that counts.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Duration> {
        let late = self.late(now);
        self.expected = now + Self::TICK;
        self.stalled_for += late;
        self.stalls += u64::from(!late.is_zero());
        (!late.is_zero()).then_some(late)
    }

    /// Time lost up to `now`, with what the next tick will find.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.stalled_for + self.late(now)
    }

    /// How often a tick was late.
    pub(crate) const fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Time that passed while the process could look: what ages evidence. A stop of an hour does not make every verdict
    /// unknown; the next probes will tell.
    pub(crate) fn awake(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start).saturating_sub(self.stalled_for(now))
    }

    fn late(&self, now: Instant) -> Duration {
        let late = now.saturating_duration_since(self.expected);
        if late < Self::NOISE { Duration::ZERO } else { late }
    }
}

/// How much of a probe's time the observer may have lost before a failure tells nothing: a quarter of the timeout, at
/// least 10 ms and at most 1 s.
pub(crate) fn tolerance(timeout: Duration) -> Duration {
    (timeout / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// Which targets answered last, an address family at a time: evidence that this machine has a network.
///
/// "Network unreachable" is what a machine without a route says of every target. It is held against a target only when
/// another one of the family has been reached after it was first seen. Loopback is no network.
#[derive(Debug)]
pub(crate) struct Reach<K> {
    /// For IPv4 and IPv6: the last target reached, and the last one other than that.
    last: [[Option<(K, Instant)>; 2]; 2],
}

impl<K: Copy + PartialEq> Reach<K> {
    /// Nothing was reached yet.
    pub(crate) const fn new() -> Self {
        Self { last: [[None; 2]; 2] }
    }

    /// Notes that a target answered: passed, refused, or said anything at all.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub(crate) const fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

#[cfg(test)]
mod tests;
