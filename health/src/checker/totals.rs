//! Results of all probes since the checker started, including those of removed targets.

use std::time::Duration;

use fairway_model::{Durations, Observation};

/// Finished probes by outcome, with the durations of conclusive ones. Monitors of type `always` send no probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTotals {
    /// Probes that passed.
    pub passes: u64,
    /// Probes that failed.
    pub failures: u64,
    /// Inconclusive probes.
    pub inconclusive: u64,
    /// Durations of conclusive probes.
    pub took: Durations,
}

impl ProbeTotals {
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
        self.took.note(took);
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::Cause;

    use super::*;

    #[test]
    fn only_conclusive_probes_are_timed() {
        let mut totals = ProbeTotals::default();
        totals.note(&Observation::Pass, Duration::from_millis(1));
        totals.note(&Observation::Fail(Cause::new("no answer")), Duration::from_secs(60));
        totals.note(&Observation::Inconclusive(Cause::new("held up")), Duration::from_millis(1));
        assert_eq!((totals.passes, totals.failures, totals.inconclusive), (1, 1, 1));
        assert_eq!((totals.took.count, totals.took.sum), (2, Duration::from_millis(60_001)));
    }
}
