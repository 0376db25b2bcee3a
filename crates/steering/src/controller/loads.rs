//! Present and permitted load of the clusters during a step.

use super::{Controller, SLOTS};
use crate::{estimate::FADE_TTLS, transport::Room};

/// Present and permitted load of the clusters, during a step.
pub(super) struct Loads {
    /// Once all caches follow the table.
    pub(super) expected: Vec<f64>,
    pub(super) budgets: Vec<f64>,
    /// By the declared split.
    pub(super) declared: Vec<f64>,
    /// Budget and what the estimate may be wrong by: two deviations.
    pub(super) bounds: Vec<f64>,
    /// True while the budget of a silent cluster changes.
    pub(super) is_fading: bool,
    /// Estimated present load; 0 where the last report says nothing of now.
    pub(super) reported: Vec<f64>,
    /// True if the estimated present load is over the bound.
    pub(super) is_over: Vec<bool>,
    /// Variances of what is on the way to each cluster.
    pub(super) arriving: Vec<f64>,
    /// Load of slots that were sent elsewhere, and are not gone yet.
    pub(super) leaving: Vec<f64>,
    /// Demand that the best division has elsewhere, and that was not sent yet.
    pub(super) outflows: Vec<f64>,
    /// Measured load, and what is on the way there.
    pub(super) measured: Vec<f64>,
}

impl Loads {
    /// Returns true if a cluster is over its budget: by the last reports and two deviations, or by the estimate and one deviation. Waiting for
    /// more would leave small clusters between budget and bound, since they gain too little for a move.
    pub(super) fn is_to_be_relieved(&self, cluster: usize) -> bool {
        self.is_over[cluster] || self.expected[cluster] > 0.5 * (self.budgets[cluster] + self.bounds[cluster])
    }
}

impl Controller {
    /// Returns what the clusters carry and may carry.
    pub(super) fn loads(&self, demand: f64, now: f64) -> Loads {
        let (budgets, declared) = self.budgets(demand, now);
        let mut expected = vec![0.0; budgets.len()];
        let slots = self.estimate.slots.iter().enumerate();
        slots.for_each(|(number, slot)| expected[slot.cluster] += self.estimate.outlook(number));
        let level = |cluster: usize| self.estimate.levels[cluster].as_ref();
        let error = |cluster: usize| level(cluster).map_or(0.0, |level| 2.0 * level.variance.sqrt());
        let clusters = 0..budgets.len();
        let bounds: Vec<f64> = clusters.clone().map(|cluster| budgets[cluster] + error(cluster)).collect();
        let period = self.settings.period.as_secs_f64();
        // The last report of a cluster that is silent for long says nothing of now.
        let level = |cluster: usize| level(cluster).filter(|_| self.estimate.silence(cluster, now, period) < 1.0);
        let is_fading = |cluster: usize| {
            let silence = self.estimate.silence(cluster, now, period);
            self.available[cluster].is_some() && silence > 0.0 && silence < 1.0
        };
        let reported: Vec<f64> =
            clusters.clone().map(|cluster| level(cluster).map_or(0.0, |level| level.load)).collect();
        let is_over = |cluster: usize| reported[cluster] > bounds[cluster];
        let mut measured = self.estimate.arriving(now);
        measured.iter_mut().zip(&reported).for_each(|(sum, reported)| *sum += reported);
        let is_over = clusters.map(is_over).collect();
        Loads {
            expected,
            budgets,
            declared,
            is_fading: (0..self.available.len()).any(is_fading),
            is_over,
            reported,
            bounds,
            arriving: self.estimate.arriving_variances(),
            leaving: self.estimate.leaving(now),
            outflows: vec![0.0; self.available.len()],
            measured,
        }
    }

    /// Returns the load that each cluster may get: its target. If the demand leaves less than 3 % of free capacity, the budgets grow in
    /// proportion, first to the capacities, then beyond. A cluster that is back gets its whole budget over five TTLs. One that does not report
    /// gets at most its part of the declared split, which is returned, too.
    fn budgets(&self, demand: f64, now: f64) -> (Vec<f64>, Vec<f64>) {
        let (ttl, period) = (self.settings.ttl.as_secs_f64(), self.settings.period.as_secs_f64());
        let needed = demand / FREE_PART;
        let part =
            |since: &Option<f64>| since.map_or(0.0, |since| ((now - since) / (RETURN_TTLS * ttl)).clamp(0.0, 1.0));
        let parts: Vec<f64> = self.available.iter().map(part).collect();
        let clusters = &self.settings.clusters;
        let declared = self.declared_loads(&parts);
        // Target and capacity.
        let permitted = |(number, part): (usize, &f64)| {
            let cluster = &clusters[number];
            let silence = self.estimate.silence(number, now, period);
            let permitted = |load: f64| part * (load + silence * (load.min(declared[number]) - load));
            (permitted(cluster.target), permitted(cluster.capacity))
        };
        let permitted: Vec<(f64, f64)> = parts.iter().enumerate().map(permitted).collect();
        let (target, capacity) = permitted.iter().fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        let way = ((needed - target) / (capacity - target).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let factor = (demand / capacity.max(f64::MIN_POSITIVE)).max(1.0);
        let budget = |(target, capacity): &(f64, f64)| factor * (target + way * (capacity - target));
        (permitted.iter().map(budget).collect(), declared)
    }

    /// Returns the load of each cluster if the demand of each class is divided as declared among clusters that have parts of their budgets.
    fn declared_loads(&self, parts: &[f64]) -> Vec<f64> {
        let mut declared = vec![0.0; parts.len()];
        for (class, weights) in self.settings.weights.iter().enumerate() {
            let slots = class * SLOTS..(class + 1) * SLOTS;
            let demand: f64 = slots.map(|number| self.estimate.outlook(number)).sum();
            let sum: f64 = weights.iter().zip(parts).map(|(weight, part)| weight * part).sum();
            let own = weights.iter().map(|weight| demand * weight / sum.max(f64::MIN_POSITIVE));
            declared.iter_mut().zip(own).for_each(|(declared, own)| *declared += own);
        }
        declared
    }

    /// Lets the demand that may move now, and that each cluster may gain, grow by a period.
    pub(super) fn grow_credit(&mut self, demand: f64, loads: &Loads) {
        let over = |cluster: usize| loads.bounds[cluster] + OVERLOAD * loads.budgets[cluster];
        let is_overload = (0..loads.budgets.len())
            .any(|cluster| loads.reported[cluster].max(loads.expected[cluster]) > over(cluster));
        let rate = match is_overload {
            _ if loads.is_fading => GAIN / FADE_TTLS,
            true => RATES.1,
            false => RATES.0,
        };
        let (period, ttl) = (self.settings.period.as_secs_f64(), self.settings.ttl.as_secs_f64());
        let part = rate * period / (ttl + self.estimate.age());
        let (large, is_urgent) = (self.large(), self.is_urgent);
        let grown = |credit: f64, share: f64| {
            if is_urgent { f64::INFINITY } else { (credit + share).min(share.max(2.0 * large)) }
        };
        self.credit = grown(self.credit, part * demand);
        for (gain, cluster) in self.gains.iter_mut().zip(&self.settings.clusters) {
            *gain = grown(*gain, part * GAIN * cluster.capacity);
        }
    }

    /// Returns the load that a cluster should not exceed even if slots are larger than estimated.
    pub(super) fn most(&self, loads: &Loads, cluster: usize) -> f64 {
        loads.budgets[cluster].max(self.settings.clusters[cluster].capacity)
    }
}

/// Returns what a cluster has room for, beside the demand that moves there: its declared part, its budget, then overload at rising penalties,
/// each of which is more than any costs differ.
pub(super) fn rooms((declared, budget): (f64, f64), moving: f64, costs_max: f64) -> Vec<Room> {
    let penalty = 4.0 * costs_max;
    let overloads = (1..).zip(OVERLOADS).map(|(number, part)| (budget * part, penalty * f64::from(number)));
    let ends = [(declared.min(budget), 0.0), (budget, EVEN_COST)].into_iter().chain(overloads);
    let mut from = moving;
    let mut last = 0.0;
    let room = |(end, penalty): (f64, f64)| {
        let load = (end - from).max(0.0);
        from = from.max(end);
        last = penalty;
        Room { load, penalty }
    };
    let mut rooms: Vec<Room> = ends.map(room).collect();
    rooms.push(Room { load: f64::INFINITY, penalty: last + penalty });
    rooms
}

/// Part of the budgets that the demand may take: the rest is for what estimates are wrong by.
const FREE_PART: f64 = 0.97;
/// TTLs over which a cluster that is back gets its budget.
const RETURN_TTLS: f64 = 5.0;
/// Loads relative to the budget at which the penalty rises, so that overload is spread evenly.
const OVERLOADS: [f64; 7] = [1.05, 1.1, 1.2, 1.4, 1.8, 2.6, 4.2];
/// Penalty in ranks of load over the declared part, which keeps clusters from their budgets where others are hardly farther: more than a move
/// costs.
const EVEN_COST: f64 = 0.1;
/// Part of the demand that may move per TTL + lag: normally, and while a cluster is over its budget by [`OVERLOAD`]. What moved shows in
/// the reports only after that time. With half of it nearness was 0.03 lower (docs/decisions/0008-load-control.md).
const RATES: (f64, f64) = (0.25, 1.0);
/// Capacity that a cluster may gain while all demand might move. At a quarter of that it is 0.2 of the capacity: as much as the default target
/// leaves free, so that it may turn out to be twice as much as was estimated.
const GAIN: f64 = 0.8;
/// Part of its budget that a cluster must be over its bound for the higher rate.
const OVERLOAD: f64 = 0.1;
