//! Demand that is known, in simulations.

use super::{
    Estimate,
    level::{Level, Report, least_noise},
};

impl Estimate {
    /// Replaces what is known by the true demand of each slot.
    pub(crate) fn inform(&mut self, demands: impl Iterator<Item = f64>, capacities: &[f64], now: f64) {
        for (slot, demand) in self.slots.iter_mut().zip(demands) {
            (slot.demand, slot.variance, slot.is_known) = (demand, 0.0, true);
        }
        self.is_begun = true;
        for (cluster, capacity) in capacities.iter().enumerate() {
            let (load, noise) = (self.load_at(cluster, now), least_noise(*capacity));
            let reported = Report { load, arrived: now };
            self.levels[cluster] = Some(Level { load, variance: 0.0, noise, at: now, surprise: 0.0, reported });
        }
    }
}
