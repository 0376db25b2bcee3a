//! What each cluster may get: its soft target, less while it comes back, faded to the declared split while nobody knows
//! its load, and more for all where that is not enough for everyone.

use super::{Settings, evidence::Evidence};

/// Periods for which the last report holds.
pub(super) const HOLD_PERIODS: f64 = 3.0;
/// TTLs over which a cluster that does not report fades to the declared split.
const FADE_TTLS: f64 = 10.0;
/// By what factor a cluster may carry more, or less, than as many clients of those that report, and be believed after it fell
/// silent.
const ALIKE: f64 = 2.0;
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
    /// What each cluster was thought to carry when it began to fade; none where its load was never known.
    pub(super) held: &'a [Option<f64>],
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

/// What each cluster may get of this demand. One that fades goes from what it has to its part of the declared split, and
/// not by way of its soft target: what it gained that way it would have to give back.
pub(super) fn budgets(means: &Means<'_>, demand: f64) -> Budgets {
    let mut unfaded: Vec<f64> = (0..means.available.len()).map(|place| means.own(place)).collect();
    means.stretch(&mut unfaded, demand * ROOM);
    let mut now = unfaded.clone();
    let split: f64 = means.declared().filter(|(place, _)| means.available[*place]).map(|(_, part)| part).sum();
    for (place, part) in means.declared().filter(|(place, _)| means.available[*place]) {
        let fade = means.fade(place);
        let goal = demand * part / split.max(f64::MIN_POSITIVE);
        if fade > 0.0 {
            now[place] = means.held[place].map_or(goal, |held| held + fade * (goal - held));
        }
    }
    means.stretch(&mut now, demand);
    Budgets { now, unfaded }
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

    /// Where all budgets together are less than is needed, every cluster gets more, up to its hard limit first.
    fn stretch(&self, budgets: &mut [f64], need: f64) {
        let sum: f64 = budgets.iter().sum();
        if sum <= 0.0 || need <= sum {
            return;
        }
        let more = need / sum;
        let hard = |place: usize| {
            let declared = &self.settings.clusters[place];
            declared.capacity.max(1) as f64 * f64::from(declared.hard.thousandths()) / 1000.0
        };
        let held: Vec<f64> = budgets.iter().enumerate().map(|(place, b)| (b * more).min(hard(place).max(*b))).collect();
        let short = need - held.iter().sum::<f64>();
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

    /// What holds of each cluster.
    pub(super) fn all(&self, what: impl Fn(&Self, usize) -> f64) -> Vec<f64> {
        (0..self.available.len()).map(|place| what(self, place)).collect()
    }

    /// How far a cluster that does not report has faded, 0 to 1.
    pub(super) fn fade(&self, place: usize) -> f64 {
        if self.available[place] { (self.silent(place) / FADE_TTLS).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// How far it is forgotten what its clients carry, 0 to 1: all the more the longer it is silent, if its last word does not
    /// fit the number of its clients. Then it carries what none of them asked for, or its gateway's statistics stood still.
    /// While no other reports, nothing says so.
    pub(super) fn forgotten(&self, place: usize) -> f64 {
        let telling = (0..self.available.len()).filter(|other| self.silent(*other) <= 0.0);
        let told = telling.filter_map(|other| self.evidence[other].told());
        let all = told.fold((0.0, 0.0), |all, (load, caches)| (all.0 + load, all.1 + caches));
        let Some((load, caches)) = self.evidence[place].told().filter(|_| all.1 > 0.0) else { return 0.0 };
        let alike = all.0 / all.1 * caches;
        if load > alike * ALIKE || load * ALIKE < alike { self.fade(place) } else { 0.0 }
    }

    /// For how many TTLs a cluster has been silent beyond the time for which its last word holds.
    fn silent(&self, place: usize) -> f64 {
        let hold = HOLD_PERIODS * self.settings.period.as_secs_f64() + self.lag;
        let silent = self.now - self.evidence[place].heard().max(self.since[place]) - hold;
        silent / self.settings.ttl.as_secs_f64()
    }
}
