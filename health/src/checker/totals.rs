//! Results of all probes since the checker started, including those of removed targets.

use std::time::Duration;

use fairway_model::Observation;

/// Finished probes by outcome, with the durations of conclusive ones. Monitors of type `always` send no probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTotals {
    /// Probes that passed.
    pub passes: u64,
    /// Probes that failed.
    pub failures: u64,
    /// Inconclusive probes.
    pub inconclusive: u64,
    /// Conclusive probes by duration: each counts at the first of [`ProbeTotals::BOUNDS`] that it does not exceed.
    pub took: [u64; Self::BOUNDS.len()],
    /// Total duration of conclusive probes, including those over the last bound.
    pub time: Duration,
}

impl ProbeTotals {
    /// Upper bounds of [`ProbeTotals::took`], from a round trip within a data centre to a usual timeout.
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

    /// Adds one probe.
    pub(super) fn note(&mut self, outcome: &Observation, took: Duration) {
        match outcome {
            Observation::Pass => self.passes += 1,
            Observation::Fail(_) => self.failures += 1,
            Observation::Inconclusive(_) => {
                self.inconclusive += 1;
                return;
            }
        }
        self.time += took;
        if let Some(place) = Self::BOUNDS.iter().position(|bound| took <= *bound) {
            self.took[place] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::Cause;

    use super::*;

    #[test]
    fn only_conclusive_probes_are_timed_and_each_falls_into_one_bound() {
        let mut totals = ProbeTotals::default();
        totals.note(&Observation::Pass, Duration::from_millis(1));
        totals.note(&Observation::Fail(Cause::new("status 503")), Duration::from_micros(1_001));
        totals.note(&Observation::Fail(Cause::new("no answer")), Duration::from_secs(60));
        totals.note(&Observation::Inconclusive(Cause::new("held up")), Duration::from_millis(1));
        assert_eq!((totals.passes, totals.failures, totals.inconclusive), (1, 2, 1));
        assert_eq!((totals.took[0], totals.took[1], totals.took.iter().sum::<u64>()), (1, 1, 2));
        assert_eq!(totals.time, Duration::from_micros(60_002_001));
    }
}
