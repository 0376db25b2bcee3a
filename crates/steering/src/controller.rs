//! Load control: a table that says which cluster answers each slot of each location class, and how it follows the demand.
//!
//! ```text
//! queries, reports ──► estimate ──► best division (transport) ──► moves of slots, a bounded part of the demand per step
//! ```
//!
//! From every state the best division is the same: as long as it is better by more than the dead band, slots move there, if the clusters
//! have room for them. Below it, only those of clusters that are over their budgets do. Large slots may wait for each other to make room.

mod declared;
mod empty;
mod flow;
mod loads;
mod plan;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fairway_model::Demand;

pub use self::plan::{Obstacle, Plan};
use self::{
    declared::{Homes, declared, declared_among, homes, score},
    flow::{Bundle, Flow, follow_relief},
    loads::{Loads, rooms},
};

pub use crate::estimate::SlotState;
use crate::{
    estimate::Estimate,
    transport::{Room, Source, solve_within},
};

/// Slots of a location class. A table of 64 classes has 16,384 then; with 1,024 slots each, nearness was 0.04 lower
/// (docs/decisions/0008-load-control.md).
pub const SLOTS: usize = Demand::SLOTS;

/// A cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Load that it can carry, in any unit; over 0.
    pub capacity: f64,
    /// Load that it is kept below while all demand fits below the targets; at most the capacity.
    pub target: f64,
}

/// A group of clusters whose load is controlled together.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The clusters. Elsewhere they are given by their index.
    pub clusters: Vec<Cluster>,
    /// By location class, the cost of a unit of its demand at each cluster: the rank by distance, from 0. Infinite for a cluster that the
    /// class is never answered with.
    pub costs: Vec<Vec<f64>>,
    /// By location class, the part of the declared split that each cluster has, relative to the others'. 0 for a cluster that the class is
    /// never answered with.
    pub weights: Vec<Vec<f64>>,
    /// Time between two reports of a cluster.
    pub period: Duration,
    /// TTL of the answers.
    pub ttl: Duration,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    /// Time that seconds are counted from.
    start: Instant,
    estimate: Estimate,
    /// For each cluster since when it can be answered; `None` if it cannot.
    available: Vec<Option<f64>>,
    /// By slot. Empty if they have to be found anew.
    homes: Vec<Homes>,
    /// A cluster became unavailable, and no step has followed.
    is_urgent: bool,
    /// A cluster was over its budget at the last step.
    is_over: bool,
    /// Demand that may move now. What a step leaves is saved, up to the largest slot that is no source of its own.
    credit: f64,
    /// Demand that each cluster may gain now.
    gains: Vec<f64>,
    /// Results of the last step, by location class.
    plans: Vec<Plan>,
}

impl Controller {
    /// Starts with the declared split.
    pub fn new(settings: Settings, start: Instant) -> Self {
        let count = settings.clusters.len();
        let slots = (0..settings.costs.len() * SLOTS).map(|slot| declared(&settings, slot));
        let nearest = |costs: &Vec<f64>| (0..count).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or_default();
        let regions = settings.costs.iter().map(nearest);
        let estimate = Estimate::new(slots, regions, count, settings.ttl.as_secs_f64());
        let available = vec![Some(f64::NEG_INFINITY); count];
        Self {
            estimate,
            available,
            homes: Vec::new(),
            is_urgent: false,
            is_over: false,
            credit: 0.0,
            gains: vec![0.0; count],
            plans: vec![Plan::default(); settings.costs.len()],
            start,
            settings,
        }
    }

    /// Returns the cluster that a slot of a class is answered with.
    pub fn cluster(&self, class: usize, slot: usize) -> usize {
        self.estimate.slots[class * SLOTS + slot].cluster
    }

    /// Takes over what an earlier process knew of a slot, and the cluster that it was answered with.
    pub fn restore(&mut self, class: usize, slot: usize, cluster: usize, state: SlotState) {
        if self.settings.costs[class][cluster].is_finite() {
            self.estimate.restore(class * SLOTS + slot, cluster, state);
        }
    }

    /// Returns what is known of a slot.
    pub fn state(&self, class: usize, slot: usize) -> SlotState {
        self.estimate.state(class * SLOTS + slot)
    }

    /// Sets the weight that each slot has beside its own evidence, for clients that nothing is known of.
    pub fn set_unknown(&mut self, weight: f64) {
        self.estimate.set_unknown(weight);
    }

    /// Takes over the evidence of each slot of each class that other servers have.
    pub fn set_elsewhere(&mut self, weights: &[Vec<f64>]) {
        self.estimate.set_elsewhere(weights.iter().flatten().copied());
    }

    /// Counts a query that was answered for a slot of a class, with its weight as evidence of demand: 1 for a client network, less if its
    /// source has several, 0 if it was counted in this TTL.
    pub fn count_query(&mut self, class: usize, slot: usize, weight: f64, at: Instant) {
        let at = self.secs(at);
        self.estimate.count_query(class * SLOTS + slot, weight, at);
    }

    /// Adds a report of a cluster that arrived now: its load, in the unit of the capacities. Returns false if it is rejected, since it is far
    /// below the load that is known to be there. The cluster then counts as silent.
    pub fn add_report(&mut self, cluster: usize, load: f64, now: Instant) -> bool {
        let (capacity, now) = (self.settings.clusters[cluster].capacity, self.secs(now));
        let is_believable = self.estimate.is_believable(cluster, load, now);
        if is_believable {
            self.estimate.add_report(cluster, load, capacity, now);
        }
        is_believable
    }

    /// Takes over what another controller knows of a cluster's load and availability.
    pub fn adopt(&mut self, cluster: usize, other: &Self, from: usize) {
        self.estimate.levels[cluster].clone_from(&other.estimate.levels[from]);
        self.available[cluster] = other.available[from];
        self.homes.clear();
    }

    /// Returns true if a cluster became unavailable since the last step.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns the demand that the table has at a cluster.
    pub fn demand_at(&self, cluster: usize) -> f64 {
        self.estimate.slots.iter().filter(|slot| slot.cluster == cluster).map(|slot| slot.demand).sum()
    }

    /// Returns true if a cluster is over its budget, cannot be answered, or is silent.
    pub fn is_strained(&self, now: Instant) -> bool {
        let (now, period) = (self.secs(now), self.settings.period.as_secs_f64());
        let is_silent = |cluster: usize| self.estimate.silence(cluster, now, period) > 0.0;
        self.is_over || (0..self.available.len()).any(|cluster| self.available[cluster].is_none() || is_silent(cluster))
    }

    /// Returns true if no slot moved for a number of TTLs.
    pub fn is_calm(&self, ttls: f64, now: Instant) -> bool {
        self.secs(now) - self.estimate.last_move() > ttls * self.settings.ttl.as_secs_f64()
    }

    /// Notes that a cluster can be answered, or cannot. A step should follow before the transition is served.
    pub fn set_available(&mut self, cluster: usize, is_available: bool, at: Instant) {
        if self.available[cluster].is_some() != is_available {
            self.available[cluster] = is_available.then(|| self.secs(at));
            self.homes.clear();
            self.is_urgent |= !is_available;
        }
    }

    /// Returns true if a cluster can be answered.
    pub fn is_available(&self, cluster: usize) -> bool {
        self.available[cluster].is_some()
    }

    /// Returns the load of clients that still have a cluster's answer from before it was taken out of the table.
    pub fn load_left(&self, cluster: usize, now: Instant) -> f64 {
        self.estimate.load_at(cluster, self.secs(now))
    }

    /// Replaces what is known by the true demand of each slot of each class.
    pub fn inform(&mut self, demands: &[Vec<f64>], now: Instant) {
        let capacities: Vec<f64> = self.settings.clusters.iter().map(|cluster| cluster.capacity).collect();
        self.estimate.inform(demands.iter().flatten().copied(), &capacities, self.secs(now));
    }

    fn secs(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.start).as_secs_f64()
    }

    /// Sends a slot of a class to the cluster that another server has decided on.
    pub fn send(&mut self, class: usize, slot: usize, cluster: usize, now: Instant) {
        if self.cluster(class, slot) != cluster && self.settings.costs[class][cluster].is_finite() {
            self.estimate.send(class * SLOTS + slot, cluster, self.secs(now));
        }
    }

    /// Follows what reports and queries show, and moves nothing: once per report period while another server decides.
    pub fn learn(&mut self, now: Instant) {
        self.estimate.advance(self.secs(now), self.settings.period.as_secs_f64());
        self.plans.fill(Plan::default());
        self.is_urgent = false;
    }

    /// Decides anew: once per report period, and at every transition. Returns false if no solution was found in time, so that the table stays.
    pub fn step(&mut self, now: Instant) -> bool {
        let (now, period) = (self.secs(now), self.settings.period.as_secs_f64());
        let demand = self.estimate.advance(now, period);
        let Some(demand) = demand.filter(|demand| *demand > 0.0) else {
            self.leave_unavailable(now);
            self.is_urgent = false;
            return true;
        };
        if self.homes.is_empty() {
            self.homes = homes(&self.settings, &self.available);
        }
        let mut loads = self.loads(demand, now);
        let (mut bundles, moving) = self.bundles(now);
        let Some((mut flows, parts)) = self.flows(&bundles, &moving, &loads) else {
            self.plans.fill(Plan::default());
            self.leave_unavailable(now);
            self.is_urgent = false;
            return false;
        };
        self.place_empty(&parts, demand);
        self.plan_flows(&bundles, &flows);
        let gain: f64 = flows.iter().map(|flow| flow.gain * flow.demand).sum();
        let is_relief = (0..loads.budgets.len()).any(|cluster| loads.is_to_be_relieved(cluster));
        self.is_over = is_relief;
        let is_gain = self.is_urgent || gain >= DEAD_BAND * demand;
        if !is_gain {
            follow_relief(&mut flows, &bundles, &loads);
        }
        for flow in flows.iter().filter(|flow| flow.is_followed) {
            loads.outflows[bundles[flow.bundle].cluster] += flow.demand;
        }
        if is_gain || is_relief {
            self.grow_credit(demand, &loads);
            flows.sort_by(|a, b| {
                let key = |flow: &Flow| loads.is_to_be_relieved(bundles[flow.bundle].cluster);
                key(b).cmp(&key(a)).then(b.gain.total_cmp(&a.gain))
            });
            // What leaves a cluster makes room for other flows.
            let mut has_moved = true;
            while std::mem::take(&mut has_moved) {
                let followed = flows.iter_mut().filter(|flow| flow.is_followed);
                followed.for_each(|flow| has_moved |= self.follow(flow, &mut bundles, &mut loads, now));
            }
        } else {
            self.credit = 0.0;
            self.gains.fill(0.0);
        }
        self.leave_unavailable(now);
        self.is_urgent = false;
        self.plan_rest(&bundles, &flows, now);
        true
    }

    /// Returns the bundles, and the demand that moves to each cluster: it is where the table says and does not move again.
    fn bundles(&self, now: f64) -> (Vec<Bundle>, Vec<f64>) {
        let (ttl, count) = (self.settings.ttl.as_secs_f64(), self.settings.clusters.len());
        let mut moving = vec![0.0; count];
        let mut large: Vec<Bundle> = Vec::new();
        let mut common: BTreeMap<(usize, usize, &Homes), Bundle> = BTreeMap::new();
        let bundle = |number: usize, cluster: usize| Bundle {
            class: number / SLOTS,
            cluster,
            homes: self.homes[number].clone(),
            is_whole: false,
            slots: Vec::new(),
            demand: 0.0,
        };
        let key = |number: usize, cluster: usize| (number / SLOTS, cluster, &self.homes[number]);
        for (number, slot) in self.estimate.slots.iter().enumerate().filter(|(_, slot)| slot.demand > 0.0) {
            let cluster = slot.cluster;
            let demand = self.estimate.outlook(number);
            if slot.is_moving(now, ttl) && self.available[cluster].is_some() {
                moving[cluster] += demand;
            } else if demand > self.large() {
                large.push(Bundle { is_whole: true, slots: vec![number], demand, ..bundle(number, cluster) });
            } else {
                let bundle = common.entry(key(number, cluster)).or_insert_with(|| bundle(number, cluster));
                bundle.slots.push(number);
                bundle.demand += demand;
            }
        }
        large.sort_by(|a, b| b.demand.total_cmp(&a.demand));
        for rest in large.drain(large.len().min(LARGE_MAX)..) {
            let number = rest.slots[0];
            let bundle = common.entry(key(number, rest.cluster)).or_insert_with(|| bundle(number, rest.cluster));
            bundle.slots.push(number);
            bundle.demand += rest.demand;
        }
        large.extend(common.into_values());
        (large, moving)
    }

    /// Demand from which on a slot is a source of its own.
    fn large(&self) -> f64 {
        let capacities = self.settings.clusters.iter().map(|cluster| cluster.capacity);
        LARGE * capacities.fold(f64::INFINITY, f64::min)
    }

    /// Returns the demand that the best division has elsewhere, and that division; `None` if it takes too long to find.
    fn flows(&self, bundles: &[Bundle], moving: &[f64], loads: &Loads) -> Option<(Vec<Flow>, Vec<Vec<f64>>)> {
        let budgets = &loads.budgets;
        let mut sources: Vec<Source> = bundles.iter().map(|bundle| self.source(bundle)).collect();
        let costs = self.settings.costs.iter().flatten().copied().filter(|cost| cost.is_finite());
        let costs_max = costs.fold(budgets.len() as f64, f64::max);
        let rooms: Vec<Vec<Room>> = (0..budgets.len())
            .map(|cluster| rooms((loads.declared[cluster], budgets[cluster]), moving[cluster], costs_max))
            .collect();
        let mut best = solve_within(COMPARED_MAX, &sources, &rooms)?;
        if bundles.iter().any(|bundle| bundle.is_whole) {
            self.make_whole(bundles, &mut sources, &best, moving, loads);
            best = solve_within(COMPARED_MAX, &sources, &rooms)?;
        }
        let mut flows = Vec::new();
        let mut parts = vec![vec![0.0; budgets.len()]; self.settings.costs.len()];
        for (number, (bundle, best)) in bundles.iter().zip(&best).enumerate() {
            let costs = &self.settings.costs[bundle.class];
            parts[bundle.class].iter_mut().zip(best).for_each(|(part, demand)| *part += demand);
            for (to, demand) in best.iter().enumerate().filter(|(to, demand)| *to != bundle.cluster && **demand > 0.0) {
                let gain = costs[bundle.cluster] - costs[to];
                // To a home, or away from it since it is full, which need not wait until it is certainly overloaded.
                let gain = if gain == 0.0 { AWAY_COST } else { gain };
                flows.push(Flow { bundle: number, to, demand: *demand, gain, is_followed: true });
            }
        }
        Some((flows, parts))
    }

    fn source(&self, bundle: &Bundle) -> Source {
        let cost = |cluster: usize| match self.available[cluster] {
            None => f64::INFINITY,
            Some(_) if cluster == bundle.cluster => self.cost(bundle, cluster),
            Some(_) => self.cost(bundle, cluster) + MOVE_COST,
        };
        Source { demand: bundle.demand, costs: (0..self.available.len()).map(cost).collect() }
    }

    /// Returns the cost of a unit of a bundle at a cluster.
    fn cost(&self, bundle: &Bundle, cluster: usize) -> f64 {
        let costs = &self.settings.costs[bundle.class];
        let is_away = bundle.homes.iter().any(|home| *home != cluster && costs[*home] == costs[cluster]);
        if is_away { costs[cluster] + AWAY_COST } else { costs[cluster] }
    }

    /// Lets large slots go to one cluster each, the largest first: where it is, or most of it would be, if it fits there; else to the cheapest
    /// cluster that it fits into, or the one that it exceeds least.
    fn make_whole(&self, bundles: &[Bundle], sources: &mut [Source], best: &[Vec<f64>], moving: &[f64], loads: &Loads) {
        let budgets = &loads.budgets;
        let mut load = moving.to_vec();
        for (number, bundle) in bundles.iter().enumerate().filter(|(_, bundle)| bundle.is_whole) {
            let costs = sources[number].costs.clone();
            let after = |cluster: usize| load[cluster] + bundle.demand;
            // One that is hardly known moves only where its deviation fits, too. Others that could go there must not wait for it.
            let variance = self.estimate.slots[bundle.slots[0]].variance;
            let may_go = |cluster: usize| {
                let likely_most = loads.expected[cluster] + bundle.demand + (loads.arriving[cluster] + variance).sqrt();
                cluster == bundle.cluster
                    || variance < bundle.demand.powi(2)
                    || likely_most <= self.most(loads, cluster)
            };
            let possible = || (0..costs.len()).filter(|cluster| costs[*cluster].is_finite());
            // All clusters that the best division gives a part of it are equally good: it stays where it is if that is one of them.
            let part = |cluster: usize| if cluster == bundle.cluster { f64::INFINITY } else { best[number][cluster] };
            let parts = possible().filter(|cluster| best[number][*cluster] > 0.0);
            let most = parts.max_by(|a, b| part(*a).total_cmp(&part(*b)));
            let most = most.filter(|cluster| after(*cluster) <= 1.03 * budgets[*cluster] && may_go(*cluster));
            let cheapest = || {
                let fits = possible().filter(|cluster| after(*cluster) <= budgets[*cluster] && may_go(*cluster));
                fits.min_by(|a, b| costs[*a].total_cmp(&costs[*b]))
            };
            let excess = |cluster: usize| after(cluster) / budgets[cluster].max(f64::MIN_POSITIVE);
            let least = || possible().min_by(|a, b| excess(*a).total_cmp(&excess(*b)));
            let Some(mut chosen) = most.or_else(cheapest).or_else(least) else { continue };
            let is_relief = chosen != bundle.cluster && loads.is_to_be_relieved(bundle.cluster);
            let fits = |cluster: usize| self.fits(loads, bundle.slots[0], bundle.cluster, cluster);
            if is_relief && !fits(chosen) {
                // An overloaded cluster does not wait until others have left the best one.
                let others = possible().filter(|cluster| *cluster != bundle.cluster && fits(*cluster));
                chosen = others.min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(chosen);
            }
            load[chosen] += bundle.demand;
            let others = sources[number].costs.iter_mut().enumerate().filter(|(cluster, _)| *cluster != chosen);
            others.for_each(|(_, cost)| *cost = f64::INFINITY);
        }
    }

    /// Returns true if a cluster has room for a slot of another one: also for what the slot may have beside its likely demand, and while
    /// slots that leave the cluster are still there, unless it is less full than the other one.
    fn fits(&self, loads: &Loads, slot: usize, from: usize, to: usize) -> bool {
        let (demand, variance) = (self.estimate.outlook(slot), self.estimate.slots[slot].variance);
        let after = loads.expected[to] + demand;
        let likely_most = after + (loads.arriving[to] + variance).sqrt();
        let most = self.most(loads, to);
        let share = |load: f64, cluster: usize| load / self.settings.clusters[cluster].capacity;
        let present = (after + loads.leaving[to]).max(loads.measured[to] + demand);
        let at_once =
            present > 0.5 * (loads.budgets[to] + most) && share(present, to) > share(loads.expected[from], from);
        after - loads.outflows[to] <= loads.bounds[to] && !at_once && likely_most <= most
    }

    /// Moves slots of a flow, as many as the credit and the room at their new cluster allow. Returns true if any moved.
    fn follow(&mut self, flow: &mut Flow, bundles: &mut [Bundle], loads: &mut Loads, now: f64) -> bool {
        let bundle = &mut bundles[flow.bundle];
        let (from, to) = (bundle.cluster, flow.to);
        let mut has_moved = false;
        let mut kept = Vec::new();
        while self.credit > 0.0
            && self.gains[to] > 0.0
            && let Some(number) = bundle.slots.pop()
        {
            let (demand, variance) = (self.estimate.outlook(number), self.estimate.slots[number].variance);
            if demand > 1.5 * flow.demand {
                kept.push(number);
                continue;
            }
            if !self.is_urgent && !self.fits(loads, number, from, to) {
                // Others may fit: they are smaller, or known better.
                kept.push(number);
                continue;
            }
            loads.outflows[from] -= demand.min(flow.demand.max(0.0));
            flow.demand -= demand;
            self.credit -= demand;
            self.gains[to] -= demand;
            loads.expected[from] -= demand;
            loads.leaving[from] += demand;
            loads.measured[to] += demand;
            loads.expected[to] += demand;
            loads.arriving[to] += variance;
            self.estimate.send(number, to, now);
            has_moved = true;
        }
        kept.reverse();
        bundle.slots.extend(kept);
        has_moved
    }

    /// Sends the slots that are still at clusters that cannot be answered to others, by the declared split: slots without known demand, and all
    /// slots before the first reports.
    fn leave_unavailable(&mut self, now: f64) {
        for number in 0..self.estimate.slots.len() {
            if self.available[self.estimate.slots[number].cluster].is_some() {
                continue;
            }
            let costs = &self.settings.costs[number / SLOTS];
            let possible =
                (0..costs.len()).filter(|cluster| self.available[*cluster].is_some() && costs[*cluster].is_finite());
            if let Some(cluster) = declared_among(&self.settings, number, possible) {
                self.estimate.send(number, cluster, now);
            }
        }
    }
}

/// Gain in cost, in ranks of the whole demand, below which nothing moves except from clusters that are over their budgets: changed answers
/// are a cost, too.
const DEAD_BAND: f64 = 0.01;
/// Cost of a move in ranks, which keeps divisions of equal cost apart.
const MOVE_COST: f64 = 0.05;
/// Cost in ranks of a slot that is not at its home, so that clusters of equal cost are divided as declared: less than that of the next rank.
const AWAY_COST: f64 = 0.5;
/// Part of the smallest capacity from which on a slot is a source of its own: divided, it would be at one of two clusters at random.
const LARGE: f64 = 0.05;
/// Maximum number of such slots.
const LARGE_MAX: usize = 256;
/// Maximum number of comparisons in a search for the best division, about half a second. With 64 classes, 200 clusters and demand in all 16,384
/// slots there are up to 113 million (`cargo bench -p fairway-bench --features steering --bench balance`).
const COMPARED_MAX: u64 = 500_000_000;

#[cfg(test)]
mod tests;
