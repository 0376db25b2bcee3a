//! Durations of finished work, counted for a histogram.

use std::time::Duration;

/// Counts of durations by their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Durations by length: each counts at the first of [`Durations::BOUNDS`] that it does not exceed.
    pub between: [u64; Self::BOUNDS.len()],
    /// Number of durations, including those over the last bound.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
}

impl Durations {
    /// Upper bounds of [`Durations::between`], from a round trip within a data centre to a usual timeout.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2_500),
        Duration::from_secs(5),
    ];

    /// Adds one duration.
    pub fn note(&mut self, took: Duration) {
        self.count += 1;
        self.sum += took;
        if let Some(place) = Self::BOUNDS.iter().position(|bound| took <= *bound) {
            self.between[place] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_falls_into_one_bound() {
        let mut durations = Durations::default();
        [1_000, 1_001, 60_000_000].into_iter().for_each(|micros| durations.note(Duration::from_micros(micros)));
        assert_eq!((durations.between[0], durations.between[1], durations.between.iter().sum::<u64>()), (1, 1, 2));
        assert_eq!((durations.count, durations.sum), (3, Duration::from_micros(60_002_001)));
    }
}
