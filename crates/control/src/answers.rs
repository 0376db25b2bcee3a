//! Answers of the last minute, by pool and cluster.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use fairway_zones::{Slot, Snapshot};

/// Answers of the last minute, by pool and cluster. In load-balanced pools the demand behind them; only shares of the sum have a meaning.
pub type Answered = HashMap<Slot, f64>;

/// Readings of the answer counters during the last minute.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounts {
    readings: VecDeque<(Instant, Vec<u64>)>,
}

impl AnswerCounts {
    /// Returns true if the counters are to be read again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.readings.back().is_none_or(|(at, _)| now.duration_since(*at) >= READING_PERIOD)
    }

    /// Adds a reading of the counters. Returns the answers since the oldest reading that is kept.
    pub(crate) fn add(&mut self, counters: Vec<u64>, snapshot: &Snapshot, now: Instant) -> Answered {
        let oldest = self.readings.front().map(|(_, counters)| counters.as_slice()).unwrap_or_default();
        // Counter 0 is shared by all members without a counter of their own.
        let slots = snapshot.slots().iter().zip(counters.iter().skip(1)).enumerate();
        let since = |at: usize, count: u64| count.saturating_sub(oldest.get(at + 1).copied().unwrap_or_default());
        let answered = slots.map(|(at, (slot, count))| (slot.clone(), since(at, *count) as f64)).collect();
        self.readings.push_back((now, counters));
        if self.readings.len() > READINGS_KEPT {
            self.readings.pop_front();
        }
        answered
    }
}

/// Period of reading the counters.
const READING_PERIOD: Duration = Duration::from_secs(10);
/// Number of readings that are kept: with one every 10 s, the oldest is a minute old.
const READINGS_KEPT: usize = 6;
