//! The schedule of probes. Pure: time and the seed of the jitter are arguments.
//!
//! Every target has at most one due time; all are in one heap. The time between two due times is the period ±10 %, so that
//! targets that started together drift apart. A late probe does not delay later ones, and after a long stall every target
//! keeps its phase, so probes stay spread. The number of concurrent probes is not limited here.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use fairway_model::SplitMix;
use tokio::time::Instant;

/// Due times of many targets, which `K` identifies.
#[derive(Debug)]
pub(crate) struct ProbeSchedule<K> {
    /// Earliest first.
    due: BinaryHeap<Reverse<(Instant, K)>>,
    jitter: SplitMix,
}

impl<K: Copy + Ord> ProbeSchedule<K> {
    /// Returns an empty schedule whose jitter follows from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { due: BinaryHeap::new(), jitter: SplitMix::new(seed) }
    }

    /// Makes `key` due at a given time. The caller must not add a key that is in the schedule already.
    pub(crate) fn at(&mut self, key: K, at: Instant) {
        self.due.push(Reverse((at, key)));
    }

    /// Makes `key` due at a uniformly random time within `over` after `from`.
    pub(crate) fn spread(&mut self, key: K, from: Instant, over: Duration) {
        let at = from + self.jitter.within(over);
        self.at(key, at);
    }

    /// Makes `key` due a period ±10 % after its last due time, but not before `now`.
    pub(crate) fn regular(&mut self, key: K, last: Instant, now: Instant, period: Duration) {
        let at = last + period * 9 / 10 + self.jitter.within(period / 5);
        let at = missed(at, now, period).unwrap_or_else(|| at.max(now));
        self.at(key, at);
    }

    /// Returns the earliest due time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns one key that is due, with its due time.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, K)> {
        self.next().filter(|at| *at <= now)?;
        self.due.pop().map(|Reverse(entry)| entry)
    }

    /// Removes the keys for which `keep` returns false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.due.retain(|Reverse((_, key))| keep(*key));
    }
}

/// Returns the next time in step with `due`, if `now` is later than a whole period after it.
///
/// So a process that was stopped for an hour does not send all probes at once when it continues.
pub(crate) fn missed(due: Instant, now: Instant, period: Duration) -> Option<Instant> {
    let late = now.saturating_duration_since(due);
    let nanos = period.as_nanos().max(1);
    // The remainder is below the period and so fits whatever a Duration holds.
    let into_step = Duration::from_nanos(u64::try_from(late.as_nanos() % nanos).unwrap_or(0));
    (late > period).then(|| now + (period - into_step.min(period)))
}

/// Returns when the probe that confirms a first failure starts: a tenth of the period, at most 200 ms, after the start of the
/// failed one. A short disturbance is over by then, and a probe that timed out is confirmed without a pause.
pub(crate) fn confirmation(started: Instant, now: Instant, period: Duration) -> Instant {
    (started + (period / 10).min(CONFIRMATION_MAX)).max(now)
}

/// Returns when an inconclusive probe is repeated: like a confirmation, with a pause that doubles with each of `inconclusive` repetitions up to the period, so that
/// a host without free sockets does not spend its time on retries.
pub(crate) fn retry(started: Instant, now: Instant, period: Duration, inconclusive: u8) -> Instant {
    let first = (period / 10).min(CONFIRMATION_MAX);
    let pause = first.saturating_mul(1 << u32::from(inconclusive.saturating_sub(1).min(16))).min(period);
    (started + pause).max(now)
}

/// Returns the time over which the first probes of `count` new targets are spread: 5,000 per second, at most a period.
pub(crate) fn first_spread(count: usize, period: Duration) -> Duration {
    FIRST_STEP.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)).min(period)
}

/// Longest time between the starts of a probe and of its confirmation. Longer than a retransmission of a lost packet
/// within a data centre, and short against the default period of 10 s.
const CONFIRMATION_MAX: Duration = Duration::from_millis(200);
/// Time between two first probes. 10,000 new targets take 2 s, which is within the default `health.firstRound` of 5 s.
const FIRST_STEP: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests;
