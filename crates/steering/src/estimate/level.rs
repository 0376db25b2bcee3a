//! The load of a cluster, and its reports.

/// Load of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    /// Estimate, in the unit of the capacities.
    pub(crate) load: f64,
    /// Variance of the estimate.
    pub(crate) variance: f64,
    /// Variance of the reports.
    pub(super) noise: f64,
    /// Time that the last report is about, in seconds.
    pub(super) at: f64,
    /// Difference of the last report from the expected load, if it was a surprise; else 0.
    pub(super) surprise: f64,
    /// The last report.
    pub(super) reported: Report,
}

impl Level {
    /// Returns true if a difference confirms that the load changed at once: the last one was a surprise, and this one is like it.
    pub(super) fn is_step(&self, error: f64) -> bool {
        self.surprise * error > 0.0 && error.abs() > 0.5 * self.surprise.abs()
    }
}

/// A report: a load, and the time at which it arrived, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub(super) load: f64,
    pub(super) arrived: f64,
}

/// Least variance of reports: two thousandths of the capacity, as reports are in thousandths.
pub(super) fn least_noise(capacity: f64) -> f64 {
    (0.002 * capacity).powi(2)
}
