//! Who is due. Pure: time and the seed of chance come in as arguments.
//!
//! Every target has at most one due time, all in one heap; nothing here is a timer. From one due time to the next pass
//! a period ±10 %, so that targets that started together drift apart. A late probe does not move its successors, and
//! after a long absence of the observer every target keeps its phase: what was spread stays spread.
//! How many probes run at once is not decided here.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use tokio::time::Instant;

/// Due times of many targets, named by `K`.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    /// Earliest first.
    due: BinaryHeap<Reverse<(Instant, K)>>,
    chance: Chance,
}

impl<K: Copy + Ord> Schedule<K> {
    /// Returns an empty schedule whose jitter follows from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { due: BinaryHeap::new(), chance: Chance(seed) }
    }

    /// Makes `key` due at a given time. The caller sees to it that a key is in the schedule once.
    pub(crate) fn at(&mut self, key: K, at: Instant) {
        self.due.push(Reverse((at, key)));
    }

    /// Makes `key` due at an even chance anywhere within `over` from `from` on.
    pub(crate) fn spread(&mut self, key: K, from: Instant, over: Duration) {
        let at = from + self.chance.within(over);
        self.at(key, at);
    }

    /// Makes `key` due a period ±10 % after its last due time, but not before `now`.
    pub(crate) fn regular(&mut self, key: K, last: Instant, now: Instant, period: Duration) {
        let at = last + period * 9 / 10 + self.chance.within(period / 5);
        let at = missed(at, now, period).unwrap_or_else(|| at.max(now));
        self.at(key, at);
    }

    /// Returns the earliest due time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one key that is due, with the time at which it was.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, K)> {
        self.next().filter(|at| *at <= now)?;
        self.due.pop().map(|Reverse(entry)| entry)
    }

    /// Forgets the keys that `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.due.retain(|Reverse((_, key))| keep(*key));
    }
}

/// Returns the next time in step with `due`, if `now` is later than a whole period after it.
///
/// So an observer that was away for an hour does not probe everything at once when it is back, and goes on with the
/// spread it had.
pub(crate) fn missed(due: Instant, now: Instant, period: Duration) -> Option<Instant> {
    let late = now.saturating_duration_since(due);
    let nanos = period.as_nanos().max(1);
    // The remainder is below the period and so fits whatever a Duration holds.
    let into_step = Duration::from_nanos(u64::try_from(late.as_nanos() % nanos).unwrap_or(0));
    (late > period).then(|| now + (period - into_step.min(period)))
}

/// When the probe that confirms a first evidence starts: a tenth of the period, at most 200 ms, after the probe that
/// gave it started. A blip has passed by then, and a probe that ran into its timeout is confirmed without any pause.
pub(crate) fn confirmation(started: Instant, now: Instant, period: Duration) -> Instant {
    (started + (period / 10).min(CONFIRMATION_MAX)).max(now)
}

/// When a probe that told nothing is repeated: like a confirmation, doubling with each further one up to a period, so
/// that an observer without sockets does not spend itself on trying.
pub(crate) fn retry(started: Instant, now: Instant, period: Duration, doubts: u8) -> Instant {
    let first = (period / 10).min(CONFIRMATION_MAX);
    let pause = first.saturating_mul(1 << u32::from(doubts.saturating_sub(1).min(16))).min(period);
    (started + pause).max(now)
}

/// Over how long the first probes of `count` new targets are spread: 5,000 a second, at most a period.
pub(crate) fn first_spread(count: usize, period: Duration) -> Duration {
    FIRST_STEP.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)).min(period)
}

/// Most time between the starts of a probe and of its confirmation.
const CONFIRMATION_MAX: Duration = Duration::from_millis(200);
/// Between two first probes: 10,000 new targets are probed once within 2 s.
const FIRST_STEP: Duration = Duration::from_micros(200);

/// Chance from a seed: SplitMix64 (Steele, Lea, Flood 2014), small and even enough to spread timers.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    /// Evenly within `0..span`.
    fn within(&mut self, span: Duration) -> Duration {
        let part = (u128::from(self.draw()) * span.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Returns the next 64 bits.
    const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
