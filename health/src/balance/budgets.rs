//! What each cluster may get: its soft target, less while it comes back, faded to the declared split while nobody knows
//! its load, and more for all where that is not enough for everyone.

use super::{Settings, evidence::Evidence};

/// Periods for which the last report holds.
pub(super) const HOLD_PERIODS: f64 = 3.0;
/// TTLs over which a cluster that does not report fades to the declared split.
const FADE_TTLS: f64 = 10.0;
/// TTLs over which a cluster that is back, or new, gets its full budget.
const RAMP_TTLS: f64 = 5.0;
/// More than the demand itself that the budgets together have at least, so that they can be met.
const ROOM: f64 = 1.03;

/// What budgets follow from.
pub(super) struct Means<'a> {
    pub(super) settings: &'a Settings,
    pub(super) evidence: &'a [Evidence],
    /// Whether each cluster can be answered.
    pub(super) available: &'a [bool],
    /// Since when it can again.
    pub(super) since: &'a [f64],
    /// How late reports are.
    pub(super) lag: f64,
    pub(super) now: f64,
}

/// Budgets in the unit of the capacities.
#[derive(Debug)]
pub(super) struct Budgets {
    /// What clusters may get.
    pub(super) now: Vec<f64>,
    /// What they might get if all reported.
    pub(super) unfaded: Vec<f64>,
}

/// What each cluster may get of this demand.
pub(super) fn budgets(means: &Means<'_>, demand: f64) -> Budgets {
    let mut budgets: Vec<f64> = (0..means.available.len()).map(|place| means.own(place)).collect();
    means.stretch(&mut budgets, demand);
    let unfaded = budgets.clone();
    let split: f64 = means.declared().filter(|(place, _)| means.available[*place]).map(|(_, part)| part).sum();
    for (place, part) in means.declared().filter(|(place, _)| means.available[*place]) {
        let fade = means.fade(place);
        budgets[place] += fade * (demand * part / split.max(f64::MIN_POSITIVE) - budgets[place]);
    }
    Budgets { now: budgets, unfaded }
}

impl Means<'_> {
    fn declared(&self) -> impl Iterator<Item = (usize, f64)> {
        self.settings.clusters.iter().map(|declared| declared.split as f64).enumerate()
    }

    /// The soft target, or the part of it that is reached after a return.
    fn own(&self, place: usize) -> f64 {
        if !self.available[place] {
            return 0.0;
        }
        let declared = &self.settings.clusters[place];
        let ttl = self.settings.ttl.as_secs_f64();
        let ramp = ((self.now - self.since[place]) / (RAMP_TTLS * ttl)).clamp(0.0, 1.0);
        declared.capacity.max(1) as f64 * f64::from(declared.soft.thousandths()) / 1000.0 * ramp
    }

    /// Where all soft targets together are too little, every cluster gets more, up to its hard limit first.
    fn stretch(&self, budgets: &mut [f64], demand: f64) {
        let sum: f64 = budgets.iter().sum();
        if sum <= 0.0 || demand * ROOM <= sum {
            return;
        }
        let more = demand * ROOM / sum;
        let hard = |place: usize| {
            let declared = &self.settings.clusters[place];
            declared.capacity.max(1) as f64 * f64::from(declared.hard.thousandths()) / 1000.0
        };
        let held: Vec<f64> = budgets.iter().enumerate().map(|(place, b)| (b * more).min(hard(place).max(*b))).collect();
        let short = demand * ROOM - held.iter().sum::<f64>();
        let free: f64 = held.iter().enumerate().filter(|(_, b)| **b > 0.0).map(|(p, b)| (hard(p) - b).max(0.0)).sum();
        for (place, budget) in budgets.iter_mut().enumerate().filter(|(_, b)| **b > 0.0) {
            *budget = if short <= 0.0 {
                held[place]
            } else if free >= short {
                held[place] + short / free * (hard(place) - held[place]).max(0.0)
            } else {
                // Even the hard limits are too little: everyone is over by the same part.
                *budget * more
            };
        }
    }

    /// How far a cluster that does not report has faded, 0 to 1.
    fn fade(&self, place: usize) -> f64 {
        let hold = HOLD_PERIODS * self.settings.period.as_secs_f64() + self.lag;
        let silent = self.now - self.evidence[place].heard().max(self.since[place]) - hold;
        (silent / (FADE_TTLS * self.settings.ttl.as_secs_f64())).clamp(0.0, 1.0)
    }
}
