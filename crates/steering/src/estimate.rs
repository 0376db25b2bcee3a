//! Demand of slots, from load reports and from where the slots were sent.
//!
//! A Kalman filter with a part of the covariances. Its state is the level of each cluster (its load now) and the demand of each slot. Of
//! the covariances it keeps those of a cluster's level with the slots that moved to it or away from it lately: these say whether a level
//! that differs from what was expected is the fault of a slot that moved or of the cluster. What a report says of slots that did not move
//! is only their sum; the difference is divided among them by their variances.
//!
//! A report is older than its arrival by an unknown time, up to a TTL. How old is learnt from the reports after moves: the load changes when
//! the clients of a slot send their next query, and a report shows it that much later. With a wrong age, what one slot does is taken for the
//! fault of another (docs/decisions/0008-load-control.md).

mod age;
mod belief;
mod informed;
mod level;
mod trend;

use self::{
    age::ReportAge,
    level::{Level, Report, least_noise},
    trend::Trends,
};
pub use crate::slot::SlotState;
use crate::{
    controller::SLOTS,
    slot::{MOVE_TTLS, Moved, SPREAD, Slot},
};

/// A slot that moved lately, and the covariance of its demand with the level of the cluster that it left and of that it went to.
#[derive(Clone, Debug)]
struct Mover {
    slot: usize,
    covariances: [f64; 2],
}

/// All slots and clusters of a group.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) slots: Vec<Slot>,
    /// `None` until the first report.
    pub(crate) levels: Vec<Option<Level>>,
    movers: Vec<Mover>,
    age: ReportAge,
    trends: Trends,
    /// Region of each class: classes with the same nearest cluster are one.
    regions: Vec<usize>,
    /// Time from what the last reports are about until a move shows, in seconds.
    horizon: f64,
    ttl: f64,
    /// Start of the present count of queries: the first query.
    counted_from: Option<f64>,
    /// Number of whole counts.
    counts: u32,
    /// True once first reports were compared.
    is_begun: bool,
    /// True if it began with the state of an earlier process.
    is_restored: bool,
    /// Weight of each slot beside its own, for clients that nothing is known of.
    unknown: f64,
    /// Time of the last move.
    last_move: f64,
}

impl Estimate {
    /// Starts with a table, and with the nearest cluster of each class.
    pub(crate) fn new(
        table: impl IntoIterator<Item = usize>,
        nearest: impl IntoIterator<Item = usize>,
        clusters: usize,
        ttl: f64,
    ) -> Self {
        let mut known: Vec<usize> = Vec::new();
        let region = |cluster: usize| {
            known.iter().position(|known| *known == cluster).unwrap_or_else(|| {
                known.push(cluster);
                known.len() - 1
            })
        };
        let regions = nearest.into_iter().map(region).collect();
        Self {
            slots: table.into_iter().map(Slot::new).collect(),
            levels: vec![None; clusters],
            movers: Vec::new(),
            age: ReportAge::default(),
            trends: Trends::new(known.len(), clusters),
            regions,
            horizon: ttl,
            ttl,
            counted_from: None,
            counts: 0,
            is_begun: false,
            is_restored: false,
            unknown: 0.0,
            last_move: 0.0,
        }
    }

    /// Takes over what an earlier process knew of a slot.
    pub(crate) fn restore(&mut self, slot: usize, cluster: usize, state: SlotState) {
        let finite = |value: f32| if value.is_finite() { f64::from(value.max(0.0)) } else { 0.0 };
        let slot = &mut self.slots[slot];
        (slot.cluster, slot.demand, slot.variance) = (cluster, finite(state.demand), finite(state.variance));
        (slot.weight, slot.caches, slot.is_known) = (finite(state.weight), finite(state.weight), slot.demand > 0.0);
        slot.prior = slot.weight + self.unknown;
        // A process that ended before it knew any demand leaves a table only.
        if slot.is_known {
            (self.counts, self.is_restored) = (2, true);
        }
    }

    /// Returns what is known of a slot.
    pub(crate) fn state(&self, slot: usize) -> SlotState {
        let Slot { demand, variance, weight, .. } = &self.slots[slot];
        SlotState { demand: *demand as f32, variance: *variance as f32, weight: *weight as f32 }
    }

    /// Sets the weight that each slot has beside its own, for clients that nothing is known of.
    pub(crate) fn set_unknown(&mut self, weight: f64) {
        if self.unknown != weight {
            self.unknown = weight;
            self.set_priors();
        }
    }

    /// Sets the priors of the slots. Clients that send no query have no demand, unless nobody sends any.
    fn set_priors(&mut self) {
        let is_queried = |slot: &Slot| slot.caches + slot.elsewhere >= QUERIED;
        let has_queries = self.slots.iter().any(is_queried);
        for slot in &mut self.slots {
            slot.prior = slot.evidence() + if has_queries && !is_queried(slot) { 0.0 } else { self.unknown };
        }
    }

    /// Takes over the evidence of all slots that other servers have.
    pub(crate) fn set_elsewhere(&mut self, weights: impl Iterator<Item = f64>) {
        self.slots.iter_mut().zip(weights).for_each(|(slot, weight)| slot.elsewhere = weight);
        self.set_priors();
    }

    /// Counts a query of a slot, with its weight as evidence of demand.
    pub(crate) fn count_query(&mut self, slot: usize, weight: f64, at: f64) {
        if at >= *self.counted_from.get_or_insert(at) + self.ttl {
            self.end_count(at);
        }
        let slot = &mut self.slots[slot];
        slot.queries += 1;
        slot.counted += weight;
        if let Some(moved) = &mut slot.moved {
            moved.first_query.get_or_insert(at);
        }
    }

    fn end_count(&mut self, at: f64) {
        // How much of the weight of a source its first networks have is known once it has sent queries for all.
        let part = if self.counts < 2 { 1.0 } else { COUNT_PART };
        for slot in &mut self.slots {
            slot.caches += part * (f64::from(std::mem::take(&mut slot.queries)) - slot.caches);
            slot.weight += part * (std::mem::take(&mut slot.counted) - slot.weight);
        }
        (self.counted_from, self.counts) = (Some(at), self.counts + 1);
        self.set_priors();
        for cluster in 0..self.levels.len() {
            self.divide_by_weight(cluster);
        }
    }

    /// Divides the demand of the slots that never moved to or from a cluster by their weight: reports show only the sum.
    fn divide_by_weight(&mut self, cluster: usize) {
        let is_still = |slot: &Slot| slot.cluster == cluster && slot.moved.is_none() && slot.is_known;
        let add = |sum: (f64, f64), slot: &Slot| (sum.0 + slot.demand, sum.1 + slot.prior);
        let (demand, weight) = self.slots.iter().filter(|slot| is_still(slot)).fold((0.0, 0.0), add);
        if demand > 0.0 && weight > 0.0 {
            let typical = demand / weight;
            let still = self.slots.iter_mut().filter(|slot| is_still(slot));
            still.for_each(|slot| slot.set_typical(typical));
        }
    }

    /// Sends a slot to another cluster from now on.
    pub(crate) fn send(&mut self, slot: usize, cluster: usize, now: f64) {
        let state = &mut self.slots[slot];
        state.moved = Some(Moved { from: state.cluster, at: now, first_query: None });
        self.last_move = now;
        state.cluster = cluster;
        self.movers.retain(|mover| mover.slot != slot);
        self.movers.push(Mover { slot, covariances: [0.0; 2] });
    }

    /// Adds a report of a cluster that arrived at a time: its load, in the unit of the capacities.
    pub(crate) fn add_report(&mut self, cluster: usize, load: f64, capacity: f64, arrived: f64) {
        let at = arrived - self.age();
        // Before that, not every cache has sent a query, so most of the load is where nobody knows.
        if at < MOVE_TTLS * self.ttl && !self.is_restored || self.counts == 0 && self.unknown <= 0.0 {
            return;
        }
        match self.levels[cluster].take() {
            Some(level) => {
                self.update(cluster, level, load, capacity, arrived);
            }
            None => {
                self.levels[cluster] = Some(Level {
                    load,
                    variance: (0.1 * load).powi(2),
                    noise: (0.03 * load).powi(2).max(least_noise(capacity)),
                    at,
                    surprise: 0.0,
                    reported: Report { load, arrived },
                });
                self.set_typical_at(cluster, load);
            }
        }
        self.divide_rest(cluster, at);
    }

    /// Divides the load of a cluster among its slots that nothing is known of, by their caches.
    fn set_typical_at(&mut self, cluster: usize, load: f64) {
        let is_new = |slot: &Slot| slot.cluster == cluster && !slot.is_known;
        let weight: f64 = self.slots.iter().filter(|slot| is_new(slot)).map(|slot| slot.prior).sum();
        if weight > 0.0 {
            let typical = load / weight;
            let new = self.slots.iter_mut().filter(|slot| is_new(slot));
            new.for_each(|slot| slot.set_typical(typical));
        }
    }

    /// Compares a report with what the level and the movers let expect, and corrects both.
    fn update(&mut self, cluster: usize, mut level: Level, load: f64, capacity: f64, arrived: f64) {
        let at = arrived - self.age();
        self.suspect_movers(cluster, &level, load, at);
        let (moved, variance) = self.moved(cluster, level.at, at);
        let drift = (DRIFT * level.load).powi(2) * ((at - level.at) / self.ttl).clamp(0.0, 1.0);
        let demands = self.demands_at(cluster, at);
        let (grown, growth_variance) = self.trends.predict(cluster, &demands, (at - level.at).max(0.0));
        let error = load - level.load - moved - grown;
        // A sum of covariances that were not all kept may be too small.
        let mut before = (level.variance + variance + growth_variance).max(0.5 * level.variance) + drift;
        let is_surprise = error * error > STEP_DEVIATIONS.powi(2) * (before + level.noise);
        let (is_step, is_first) = (level.is_step(error), is_surprise && level.surprise == 0.0);
        level.surprise = if is_surprise && !is_step { error } else { 0.0 };
        if is_step {
            before += error * error;
        } else if !is_first {
            let excess = (error * error - before).clamp(0.0, STEP_DEVIATIONS.powi(2) * (level.noise + before));
            level.noise = (level.noise + NOISE_PART * (excess - level.noise)).max(least_noise(capacity));
        }
        let report = Report { load, arrived };
        self.learn_age(cluster, level.reported, report, before + level.noise);
        let gain = 1.0 / (before + level.noise);
        self.correct_movers(cluster, error, before, gain);
        self.trends.correct(cluster, error, before, gain);
        level.load = (level.load + moved + grown + before * gain * error).max(0.0);
        level.variance = before * (1.0 - before * gain);
        (level.at, level.reported) = (at, report);
        self.levels[cluster] = Some(level);
    }

    /// Returns the demand of each region at a cluster.
    fn demands_at(&self, cluster: usize, at: f64) -> Vec<f64> {
        let mut demands = vec![0.0; self.trends.regions()];
        for (number, slot) in self.slots.iter().enumerate() {
            demands[self.regions[number / SLOTS]] += slot.part_at(cluster, at, self.ttl) * slot.demand;
        }
        demands
    }

    /// Returns the demand of a slot once a move shows. The estimate is as old as the reports.
    pub(crate) fn outlook(&self, slot: usize) -> f64 {
        self.slots[slot].demand * self.trends.growth(self.regions[slot / SLOTS], self.horizon)
    }

    /// Compares the difference of two reports with what the movers changed between them.
    fn learn_age(&mut self, cluster: usize, before: Report, report: Report, variance: f64) {
        let (ttl, slots, movers) = (self.ttl, &self.slots, &self.movers);
        let moved = |age: f64| -> f64 {
            let part = |slot: &Slot| {
                slot.part_at(cluster, report.arrived - age, ttl) - slot.part_at(cluster, before.arrived - age, ttl)
            };
            movers.iter().map(|mover| &slots[mover.slot]).map(|slot| part(slot) * slot.demand).sum()
        };
        self.age.learn(report.load - before.load, |age| moved(age * ttl), variance);
    }

    /// Returns the likely age of a report when it arrives, in seconds.
    pub(crate) fn age(&self) -> f64 {
        self.age.mean() * self.ttl
    }

    /// Widens the variances of the slots that moved since the last report, if that is surprising: it is more likely that one of them is of
    /// another size than that the report is wrong.
    fn suspect_movers(&mut self, cluster: usize, level: &Level, load: f64, at: f64) {
        let ttl = self.ttl;
        let part = |slot: &Slot| slot.part_at(cluster, at, ttl) - slot.part_at(cluster, level.at, ttl);
        let slots = &mut self.slots;
        let changes = self.movers.iter().map(|mover| (part(&slots[mover.slot]), &slots[mover.slot]));
        let add = |sum: (f64, f64), (part, slot): (f64, &Slot)| {
            (sum.0 + part * slot.demand, sum.1 + part * part * slot.variance)
        };
        let (moved, variance) = changes.fold((0.0, 0.0), add);
        let square = (load - level.load - moved).powi(2);
        if variance <= 0.0 || square < SURPRISE_DEVIATIONS.powi(2) * (level.variance + level.noise + variance) {
            return;
        }
        let factor = (square / variance).max(1.0);
        for mover in &self.movers {
            let slot = &mut slots[mover.slot];
            if part(slot) != 0.0 {
                // None of them can be wrong by more than the surprise.
                slot.variance = (slot.variance * factor).min(square.max(slot.variance));
            }
        }
    }

    /// Returns by how much the movers changed the load of a cluster between two times, and what that adds to the variance of its level.
    /// Adds to their covariances with it.
    fn moved(&mut self, cluster: usize, before: f64, now: f64) -> (f64, f64) {
        let (mut sum, mut variance) = (0.0, 0.0);
        for mover in &mut self.movers {
            let slot = &self.slots[mover.slot];
            let Some(side) = side(slot, cluster) else { continue };
            let part = slot.part_at(cluster, now, self.ttl) - slot.part_at(cluster, before, self.ttl);
            let covariance = &mut mover.covariances[side];
            sum += part * slot.demand;
            variance += part * part * slot.variance + 2.0 * part * *covariance;
            *covariance += part * slot.variance;
        }
        (sum, variance)
    }

    fn correct_movers(&mut self, cluster: usize, error: f64, level_variance: f64, gain: f64) {
        for mover in &mut self.movers {
            let slot = &mut self.slots[mover.slot];
            let Some(side) = side(slot, cluster) else { continue };
            let most = (level_variance * slot.variance).sqrt();
            let covariance = mover.covariances[side].clamp(-most, most);
            slot.demand = (slot.demand + covariance * gain * error).max(0.0);
            slot.variance = (slot.variance - covariance * covariance * gain).max(0.0);
            mover.covariances[side] = covariance * (1.0 - level_variance * gain);
        }
    }

    /// Divides what the slots at a cluster lack of its level among them, by their variances.
    fn divide_rest(&mut self, cluster: usize, at: f64) {
        let Some(level) = &self.levels[cluster] else { return };
        let ttl = self.ttl;
        let add = |sum: (f64, f64), slot: &Slot| {
            let part = slot.part_at(cluster, at, ttl);
            (sum.0 + part * slot.demand, sum.1 + part * part * slot.variance)
        };
        let (sum, variance) = self.slots.iter().fold((0.0, 0.0), add);
        if variance <= 0.0 {
            return;
        }
        let factor = REST_PART * (level.load - sum) / variance;
        for slot in &mut self.slots {
            let part = slot.part_at(cluster, at, ttl);
            slot.demand = (slot.demand + factor * part * slot.variance).max(LEAST_PART * slot.demand);
        }
    }

    /// Lets the variances grow by a period, and takes slots that nothing is known of for typical ones. Returns all demand once a move shows;
    /// `None` while reports of a cluster may still come for the first time, or if none does.
    pub(crate) fn advance(&mut self, now: f64, period: f64) -> Option<f64> {
        let ttl = self.ttl;
        let is_recent = |slot: &Slot| slot.moved.is_some_and(|moved| now < moved.at + MOVER_TTLS * ttl);
        let slots = &self.slots;
        self.movers.retain(|mover| is_recent(&slots[mover.slot]));
        let (has_all, has_any) = (self.levels.iter().all(Option::is_some), self.levels.iter().any(Option::is_some));
        if !has_all && (!has_any || now < FIRST_TTLS * ttl + HOLD_PERIODS * period) {
            return None;
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            self.reject_first(now);
        }
        let known = self.slots.iter().filter(|slot| slot.is_known);
        let (demand, weight) = known.fold((0.0, 0.0), |sum, slot| (sum.0 + slot.demand, sum.1 + slot.prior));
        let typical = demand / weight.max(f64::MIN_POSITIVE);
        // Reports cover all load of their clusters: what comes later is little, or they would have shown it.
        let levels = &self.levels;
        let is_new = |slot: &Slot| !slot.is_known && levels[slot.cluster].is_some();
        let new: f64 = self.slots.iter().filter(|slot| is_new(slot)).map(|slot| slot.prior).sum();
        self.fade_unlike(now, period);
        self.horizon = self.age() + ttl;
        self.trends.advance(period);
        // Without reports nothing would stop a rate that is wrong.
        if (0..self.levels.len()).any(|cluster| self.silence(cluster, now, period) <= 0.0) {
            for (number, slot) in self.slots.iter_mut().enumerate() {
                slot.demand *= self.trends.growth(self.regions[number / SLOTS], period);
            }
        }
        let levels = &self.levels;
        let typical_new = typical.min(NEW_PART * demand / new.max(f64::MIN_POSITIVE));
        for slot in &mut self.slots {
            if slot.is_known {
                let size = slot.demand.max(typical * slot.prior);
                slot.variance += (DRIFT * size).powi(2) * period / ttl;
                // Of the others, reports will say nothing more. A wide variance would keep them where they are.
                if !is_recent(slot) {
                    slot.bound_variance(typical);
                }
            } else if slot.prior > 0.0 && weight > 0.0 {
                let typical = if levels[slot.cluster].is_some() { typical_new } else { typical };
                slot.set_typical(typical);
            }
        }
        Some((0..self.slots.len()).map(|slot| self.outlook(slot)).sum())
    }

    /// Returns how far what a cluster reported is out of date, 0 to 1: 0 for [`HOLD_PERIODS`] periods after a report, 1 after [`FADE_TTLS`]
    /// TTLs more, or if it never reported.
    pub(crate) fn silence(&self, cluster: usize, now: f64, period: f64) -> f64 {
        let Some(level) = &self.levels[cluster] else { return 1.0 };
        let silent = now - level.reported.arrived - HOLD_PERIODS * period;
        (silent / (FADE_TTLS * self.ttl)).clamp(0.0, 1.0)
    }

    /// Returns the time of the last move, in seconds.
    pub(crate) fn last_move(&self) -> f64 {
        self.last_move
    }

    /// Returns the load at a cluster at a time, by the demand of the slots that are there.
    pub(crate) fn load_at(&self, cluster: usize, at: f64) -> f64 {
        self.slots.iter().map(|slot| slot.part_at(cluster, at, self.ttl) * slot.demand).sum()
    }

    /// Returns a demand that few new caches exceed.
    pub(crate) fn largest_new(&self, demand: f64) -> f64 {
        let weight: f64 = self.slots.iter().map(Slot::evidence).sum();
        demand / weight.max(1.0) * (1.0 + 2.0 * SPREAD.sqrt())
    }

    /// Returns the demand of slots that were sent to each cluster, and that is not there yet.
    pub(crate) fn arriving(&self, now: f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.levels.len()];
        for slot in &self.slots {
            sums[slot.cluster] += slot.demand * (1.0 - slot.part_at(slot.cluster, now, self.ttl));
        }
        sums
    }

    /// Returns the demand of slots at each cluster that were sent elsewhere.
    pub(crate) fn leaving(&self, now: f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.levels.len()];
        for slot in &self.slots {
            if let Some(moved) = slot.moved
                && moved.from != slot.cluster
            {
                sums[moved.from] += slot.demand * slot.part_at(moved.from, now, self.ttl);
            }
        }
        sums
    }

    /// Returns the variance of the caches that moved to each cluster and that its last report does not show. What it shows is known together,
    /// even if not of which slot it is: a surprise widens the variances of all of them.
    pub(crate) fn arriving_variances(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.levels.len()];
        for mover in &self.movers {
            let slot = &self.slots[mover.slot];
            let seen =
                self.levels[slot.cluster].as_ref().map_or(0.0, |level| slot.part_at(slot.cluster, level.at, self.ttl));
            sums[slot.cluster] += (1.0 - seen) * slot.variance;
        }
        sums
    }
}

/// Returns the place of a cluster in the covariances of a slot that moved: 0 if the slot left it, 1 if it went there.
fn side(slot: &Slot, cluster: usize) -> Option<usize> {
    let left = slot.moved.is_some_and(|moved| moved.from == cluster);
    if left { Some(0) } else { (slot.cluster == cluster).then_some(1) }
}

/// TTLs within which each cluster reports for the first time, if it does: every cache has sent a query, and reports are a TTL old at most.
const FIRST_TTLS: f64 = MOVE_TTLS + 1.5;
/// Periods for which a report holds.
const HOLD_PERIODS: f64 = 3.0;
/// TTLs over which the budget of a silent cluster becomes its part of the declared split.
pub(crate) const FADE_TTLS: f64 = 10.0;
/// TTLs for which a slot counts as moved lately: three, and the half that a report is old.
const MOVER_TTLS: f64 = 3.5;
/// Relative change of demand in a TTL that is not surprising, beside that of its region. With 0.05, peaks of random geometries were up to
/// 0.02 higher (docs/decisions/0008-load-control.md).
const DRIFT: f64 = 0.035;
/// Part of the known demand that slots may have together in a step that nothing was known of before.
const NEW_PART: f64 = 0.1;
/// Weight of a report in the mean of the noise: the mean of the last ten.
const NOISE_PART: f64 = 0.1;
/// Weight of a count of queries in the mean.
const COUNT_PART: f64 = 0.3;
/// Deviations that two reports in a row must exceed on the same side to count as a step of demand.
const STEP_DEVIATIONS: f64 = 3.0;
/// Deviations that a report must exceed for slots that moved to be suspected.
const SURPRISE_DEVIATIONS: f64 = 5.0;
/// Part of a difference that is divided at once, so that one report does not change all slots by its error.
const REST_PART: f64 = 0.5;
/// Queries per TTL below which a slot has no clients.
const QUERIED: f64 = 0.1;
/// Part of its demand that a slot keeps at least in one report.
const LEAST_PART: f64 = 0.05;
