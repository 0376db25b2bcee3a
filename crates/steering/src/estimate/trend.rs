//! Rates at which the demand near each cluster grows or shrinks.

/// Rates of growth, per second and relative to the demand, with their covariances. A region is what has the same nearest cluster.
#[derive(Clone, Debug)]
pub(super) struct Trends {
    rates: Vec<f64>,
    /// By two regions.
    covariances: Vec<Vec<f64>>,
    /// Of the level of each cluster with each rate.
    cross: Vec<Vec<f64>>,
}

impl Trends {
    pub(super) fn new(regions: usize, clusters: usize) -> Self {
        let row = |region: usize| (0..regions).map(|other| if other == region { VARIANCE } else { 0.0 }).collect();
        Self {
            rates: vec![0.0; regions],
            covariances: (0..regions).map(row).collect(),
            cross: vec![vec![0.0; regions]; clusters],
        }
    }

    /// Returns the number of regions.
    pub(super) fn regions(&self) -> usize {
        self.rates.len()
    }

    /// Lets time pass: rates return to none, and become less certain.
    pub(super) fn advance(&mut self, seconds: f64) {
        let kept = (-seconds / LASTS).exp();
        self.rates.iter_mut().for_each(|rate| *rate *= kept);
        for (region, row) in self.covariances.iter_mut().enumerate() {
            row.iter_mut().for_each(|covariance| *covariance *= kept * kept);
            row[region] += VARIANCE * (1.0 - kept * kept);
        }
        self.cross.iter_mut().flatten().for_each(|covariance| *covariance *= kept);
    }

    /// Returns by how much the rates change the load of a cluster in a time, by the demand of each region there, and what that adds to the
    /// variance of its level.
    pub(super) fn predict(&mut self, cluster: usize, demands: &[f64], seconds: f64) -> (f64, f64) {
        let growth: f64 = demands.iter().zip(&self.rates).map(|(demand, rate)| demand * rate).sum();
        let cross = &mut self.cross[cluster];
        let product =
            |row: &Vec<f64>| -> f64 { row.iter().zip(demands).map(|(covariance, demand)| covariance * demand).sum() };
        let products: Vec<f64> = self.covariances.iter().map(product).collect();
        let own: f64 = cross.iter().zip(demands).map(|(covariance, demand)| covariance * demand).sum();
        let square: f64 = products.iter().zip(demands).map(|(product, demand)| product * demand).sum();
        cross.iter_mut().zip(&products).for_each(|(covariance, product)| *covariance += seconds * product);
        (seconds * growth, 2.0 * seconds * own + seconds * seconds * square)
    }

    /// Corrects the rates by the error of a level.
    pub(super) fn correct(&mut self, cluster: usize, error: f64, level_variance: f64, gain: f64) {
        let cross = self.cross[cluster].clone();
        for ((rate, row), own) in self.rates.iter_mut().zip(&mut self.covariances).zip(&cross) {
            *rate += own * gain * error;
            row.iter_mut().zip(&cross).for_each(|(covariance, other)| *covariance -= own * other * gain);
        }
        self.cross[cluster].iter_mut().for_each(|covariance| *covariance *= 1.0 - level_variance * gain);
    }

    /// Returns the demand of a region after a time, relative to the present one.
    pub(super) fn growth(&self, region: usize, seconds: f64) -> f64 {
        1.0 + (self.rates[region] * seconds).clamp(-GROWTH_MAX, GROWTH_MAX)
    }
}

/// Time for which a rate lasts, in seconds: an hour divided by 2π, as in a demand that follows a sine in an hour.
const LASTS: f64 = 573.0;
/// Variance of the rates: those of a sine of 40 % in an hour.
const VARIANCE: f64 = 2.4e-7;
/// Part by which a demand is expected to change at most until a move shows: the steepest rate of such a sine, for seven minutes.
const GROWTH_MAX: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets two clusters report every 30 s, whose regions change at rates, with alternating errors. Each region is at both clusters.
    fn learn(rates: [f64; 2], error: f64) -> Trends {
        let mut trends = Trends::new(2, 2);
        let mut levels = [1_000.0; 2];
        let variance = (error * 1_000.0_f64).powi(2);
        for report in 0..40 {
            trends.advance(30.0);
            for (cluster, level) in levels.iter_mut().enumerate() {
                let demands = if cluster == 0 { [700.0, 300.0] } else { [200.0, 800.0] };
                let growth: f64 = demands.iter().zip(rates).map(|(demand, rate)| 30.0 * demand * rate).sum();
                let (expected, uncertain) = trends.predict(cluster, &demands, 30.0);
                let before = 0.5 * variance + uncertain;
                let gain = 1.0 / (before + variance);
                let sign = if (report + cluster) % 2 == 0 { 1.0 } else { -1.0 };
                let difference = growth + sign * error * 1_000.0 - expected + (1_000.0 - *level);
                *level += expected + before * gain * difference - growth;
                trends.correct(cluster, difference, before, gain);
            }
        }
        trends
    }

    #[test]
    fn rates_of_regions_are_found_from_clusters_that_have_them_in_other_parts() {
        let trends = learn([4e-4, -3e-4], 0.02);
        let [first, second] = [0, 1].map(|region| trends.growth(region, 100.0) - 1.0);
        assert!(
            (0.02..0.05).contains(&first) && (-0.04..-0.015).contains(&second),
            "expected 0.04, -0.03: {first}, {second}"
        );
    }

    #[test]
    fn steady_demand_has_no_rate_however_wrong_reports_are() {
        for error in [0.0, 0.05, 0.2] {
            let trends = learn([0.0; 2], error);
            let growth = [0, 1].map(|region| (trends.growth(region, 100.0) - 1.0).abs());
            assert!(growth.iter().all(|growth| *growth < 0.01), "errors of {error}: {growth:?}");
        }
    }

    #[test]
    fn rate_fades_without_reports() {
        let mut trends = learn([4e-4, 4e-4], 0.02);
        let before = trends.growth(0, 100.0) - 1.0;
        trends.advance(2.0 * LASTS);
        assert!((trends.growth(0, 100.0) - 1.0) < 0.2 * before);
    }
}
