//! Results of a step for each location class: its best division, and the reason why the table differs from it.

use super::{Bundle, Controller, Flow, SLOTS};

/// Result of the last step for a location class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Demand of the class at each cluster by the table, in the unit of the capacities. Empty before the first reports.
    pub present: Vec<f64>,
    /// The same in the best division.
    pub best: Vec<f64>,
    /// Demand of slots that moved, and that does not move again before their clients have followed.
    pub moving: f64,
    /// Reason why the table differs from the best division; `None` if it does by less than a hundredth of the demand.
    pub obstacle: Option<Obstacle>,
}

/// Reason why a table differs from the best division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// All classes together would gain too little to change answers.
    DeadBand,
    /// As much demand moved as may move at a time.
    Rate,
    /// The better clusters have no room yet: others must leave them first, or the demand that would go there is not known well enough.
    Room,
}

impl Controller {
    /// Returns the result of the last step for a location class.
    pub fn plan(&self, class: usize) -> &Plan {
        &self.plans[class]
    }

    /// Notes the best division, as the flows lead to it, before any slot moves.
    pub(super) fn plan_flows(&mut self, bundles: &[Bundle], flows: &[Flow]) {
        for (class, plan) in self.plans.iter_mut().enumerate() {
            plan.best = vec![0.0; self.available.len()];
            let slots = &self.estimate.slots[class * SLOTS..(class + 1) * SLOTS];
            slots.iter().for_each(|slot| plan.best[slot.cluster] += slot.demand);
        }
        for flow in flows {
            let bundle = &bundles[flow.bundle];
            let best = &mut self.plans[bundle.class].best;
            best[flow.to] += flow.demand;
            best[bundle.cluster] = (best[bundle.cluster] - flow.demand).max(0.0);
        }
    }

    /// Notes where the slots are after a step, and what the flows that are left wait for.
    pub(super) fn plan_rest(&mut self, bundles: &[Bundle], flows: &[Flow], now: f64) {
        let ttl = self.settings.ttl.as_secs_f64();
        for (class, plan) in self.plans.iter_mut().enumerate() {
            (plan.present, plan.moving) = (vec![0.0; self.available.len()], 0.0);
            for slot in &self.estimate.slots[class * SLOTS..(class + 1) * SLOTS] {
                plan.present[slot.cluster] += slot.demand;
                plan.moving += if slot.is_moving(now, ttl) { slot.demand } else { 0.0 };
            }
            let left = || flows.iter().filter(|flow| bundles[flow.bundle].class == class);
            let rest: f64 = left().map(|flow| flow.demand.max(0.0)).sum();
            let largest = left().max_by(|a, b| a.demand.total_cmp(&b.demand));
            let obstacle = |flow: &Flow| match self.credit <= 0.0 || self.gains[flow.to] <= 0.0 {
                _ if !flow.is_followed => Obstacle::DeadBand,
                true => Obstacle::Rate,
                false => Obstacle::Room,
            };
            plan.obstacle = largest.filter(|_| rest > REST * plan.present.iter().sum::<f64>()).map(obstacle);
        }
    }
}

/// Part of the demand of a class that counts as none.
const REST: f64 = 0.01;
