//! The age of load reports when they arrive.

/// Knowledge of the age of reports. Ages are in TTLs.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportAge {
    /// By age, how badly the changes of reported loads fit to it: squares of deviations.
    misfits: [f64; AGES],
}

impl ReportAge {
    /// Compares how much a reported load changed since the report before with how much the slots that moved changed it, if reports are of
    /// an age.
    pub(super) fn learn(&mut self, change: f64, moved: impl Fn(f64) -> f64, variance: f64) {
        for (misfit, age) in self.misfits.iter_mut().zip(ages()) {
            *misfit = KEPT * *misfit + (change - moved(age)).powi(2) / variance;
        }
    }

    /// Returns the mean: half a TTL while nothing is known.
    pub(super) fn mean(&self) -> f64 {
        self.likelihoods().zip(ages()).map(|(likelihood, age)| likelihood * age).sum()
    }

    fn likelihoods(&self) -> impl Iterator<Item = f64> {
        let least = self.misfits.iter().copied().fold(f64::INFINITY, f64::min);
        let likelihoods = self.misfits.map(|misfit| (0.5 * (least - misfit)).exp());
        let sum: f64 = likelihoods.iter().sum();
        likelihoods.into_iter().map(move |likelihood| likelihood / sum)
    }
}

/// Returns the ages that are tried, evenly from none to a TTL.
fn ages() -> impl Iterator<Item = f64> {
    (0..AGES).map(|number| number as f64 / (AGES - 1) as f64)
}

/// Number of ages that are tried: steps of an eighth of a TTL.
const AGES: usize = 9;
/// Part of a misfit that is kept with each report: the last hundred count.
const KEPT: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_found_from_loads_that_follow_moves() {
        let mut known = ReportAge::default();
        assert!((known.mean() - 0.5).abs() < 1e-9, "{}", known.mean());
        // A slot of 10 units moves at time 0, and its clients follow within a TTL. Reports come four times per TTL, a quarter of a TTL late.
        let arrived = |time: f64| 10.0 * time.clamp(0.0, 1.0);
        for report in 1..8 {
            let (before, now) = (f64::from(report - 1) / 4.0, f64::from(report) / 4.0);
            let change = |age: f64| arrived(now - age) - arrived(before - age);
            known.learn(change(0.25), change, 0.5);
        }
        assert!((known.mean() - 0.25).abs() < 0.05, "{}", known.mean());
    }

    #[test]
    fn reports_without_moves_say_nothing() {
        let mut known = ReportAge::default();
        (0..1_000).for_each(|number| known.learn(f64::from(number % 7) - 3.0, |_| 0.0, 1.0));
        assert!((known.mean() - 0.5).abs() < 1e-9, "{}", known.mean());
    }
}
