//! How much older what reports show is than they say.
//!
//! A gateway's statistic may be an average, be flushed now and then, or pass through a collector: what a report shows was true a
//! while before it was asked for, and nobody says how long. Held against the demands of another moment, a step in the load is laid to
//! those that moved after it. So several ages are tried on every report: that which explains the steps best is the age.
//!
//! A large demand that is not known yet is explained by no age, and it is not known as long as the age is wrong. So that the two do
//! not wait for each other, errors count by their root: many small ones say more than a large one.

use super::demands::Demands;

/// Ages that are tried, in parts of the TTL.
const TRIED: [f64; 7] = [0.0, 0.1, 0.2, 0.333, 0.5, 0.75, 1.0];
/// Part of each new error that goes into the mean.
const NEW: f64 = 0.2;
/// By how much another age must explain steps better to take the place of the one that holds.
const BETTER: f64 = 0.9;

/// What was learnt of one cluster's reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Age {
    /// The report before: of when, as it says, and its load.
    last: Option<(f64, f64)>,
    /// Mean of the root of what each age leaves unexplained of a step.
    errors: [f64; TRIED.len()],
    holds: usize,
    secs: f64,
}

impl Age {
    /// The age that holds, in seconds.
    pub(super) const fn secs(&self) -> f64 {
        self.secs
    }

    /// Learns from a report on a cluster, of when it says it is and its load; the age that holds from now on, in seconds.
    pub(super) fn learn(&mut self, (cluster, at, load): (usize, f64, f64), demands: &Demands) -> f64 {
        let ttl = demands.ttl;
        if let Some((before, load_before)) = self.last.replace((at, load)) {
            let step = |age: f64| {
                let (before, now) = (before - age, at - age);
                demands.iter().map(|(_, it)| it.step(cluster, before, now, ttl) * it.load).sum::<f64>()
            };
            let steps = TRIED.map(|part| step(part * ttl));
            // Where nothing moved, every age is as good.
            if steps.iter().any(|step| *step != 0.0) {
                let moved = load - load_before;
                for (error, step) in self.errors.iter_mut().zip(steps) {
                    *error += NEW * ((moved - step).abs().sqrt() - *error);
                }
                let best = (0..TRIED.len()).min_by(|a, b| self.errors[*a].total_cmp(&self.errors[*b])).unwrap_or(0);
                if self.errors[best] < BETTER * self.errors[self.holds] {
                    self.holds = best;
                }
            }
        }
        self.secs = TRIED[self.holds] * ttl;
        self.secs
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::Demand;

    use super::*;

    const TTL: f64 = 30.0;

    /// Demands of 1 that come to cluster 0 one after another, one in `each` seconds, and reports each 10 s of what was there `late`
    /// seconds before; the age that is learnt after so many of them.
    fn learnt(late: f64, reports: u32, gaps: &[f64]) -> f64 {
        let mut demands = Demands::new(TTL);
        let mut arrivals = Vec::new();
        let mut at = 0.0;
        for (number, gap) in (0..4_000u64).zip(gaps.iter().cycle()) {
            at += gap;
            // Known at cluster 1 before, so that what comes is a move.
            demands.restore(Demand(number), 1.0, 0.1, 1);
            arrivals.push((number, at));
        }
        let (mut age, mut learnt, mut asked) = (Age::default(), 0.0, 0);
        for report in 1..=reports {
            let now = f64::from(report) * 10.0;
            while let Some((number, at)) = arrivals.get(asked).filter(|(_, at)| *at <= now) {
                demands.asked(Demand(*number), 0, *at);
                asked += 1;
            }
            let load = arrivals.iter().filter(|(_, at)| *at <= now - late).count() as f64;
            learnt = age.learn((0, now, load), &demands);
        }
        learnt
    }

    /// Bursts that no period explains.
    const BURSTS: [f64; 11] = [0.1, 0.1, 0.2, 31.0, 0.1, 0.3, 17.0, 0.1, 0.1, 0.2, 43.0];

    #[test]
    fn an_age_that_nobody_tells_is_learnt_from_what_moves() {
        for late in [0.0, 6.0, 10.0, 15.0, 30.0] {
            let found = learnt(late, 60, &BURSTS);
            assert!((found - late).abs() <= 2.5, "{late} s late, learnt {found}");
        }
    }

    #[test]
    fn where_nothing_moves_nothing_is_learnt() {
        let mut age = Age::default();
        let mut demands = Demands::new(TTL);
        demands.restore(Demand(1), 1.0, 0.1, 0);
        for report in 1..50 {
            assert_eq!(age.learn((0, f64::from(report) * 10.0, f64::from(report % 7)), &demands), 0.0);
        }
    }
}
