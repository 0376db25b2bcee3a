//! Load control of all groups of clusters: queries and load reports go in, tables of slots come out.

mod elsewhere;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use fairway_model::{Backend, ClusterCost, ClusterName, Demand, LoadReport, Permille, Shares, SlotTable};

use crate::{
    controller::{self, Controller, SlotState},
    evidence::{Evidence, Query},
    residence::Residence,
};

pub use self::elsewhere::{ClassEvidence, DemandEvidence};
pub use crate::controller::{Obstacle, Plan};

/// A cluster as declared, or a service in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Its name, with the pool of a service.
    pub name: Backend,
    /// Load that it can carry, in the unit of its load reports; 0 counts as 1.
    pub capacity: u64,
    /// Load that it is kept below while all others can be, too. Default: 800.
    pub target: Permille,
    /// Load that it gets at most while there is room elsewhere. Default: 1000.
    pub limit: Permille,
    /// True if the weights of the location classes are by capacity already; else they are multiplied by it.
    pub is_weighed: bool,
}

/// Clusters whose load is controlled together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The clusters, sorted by name.
    pub clusters: Vec<Declared>,
    /// Cost and weight of each cluster, by location class. `None` if the class never gets it.
    pub costs: Vec<Vec<Option<ClusterCost>>>,
    /// Time between two reports of a cluster.
    pub period: Duration,
    /// TTL of the answers; where pools differ, the largest.
    pub ttl: Duration,
}

/// A query, and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// Number of the location class, over all groups.
    pub class: usize,
    /// Source of the query, its proof, and the demand of the client network on the pool.
    pub query: Query,
    /// First cluster of the answer.
    pub cluster: &'a Backend,
    /// Time of the answer.
    pub at: Instant,
}

/// Progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drain {
    /// Time at which the last client should have left: that of its last answer and the TTL, or the time for which it kept answers before.
    pub over: Instant,
    /// Part of the known client networks that are still there; without any, part of the demand.
    pub left: f64,
}

/// Risk that the next minutes need changed answers. The server chooses a TTL from it, within declared bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskLevel {
    /// Nothing moved for ten TTLs: answers may be kept for long.
    Calm,
    /// As declared.
    Ordinary,
    /// A cluster cannot be answered or is over its budget, or reports are missing: answers should not be kept for long.
    Short,
}

/// Result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its load is known from now on.
    Accepted,
    /// It is far below the load that is known to be there.
    Rejected,
    /// It is not newer than the last one, or of another cluster.
    Ignored,
}

/// State that survives a restart: the tables, and what is known of each slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// The location classes.
    pub classes: Vec<SavedClass>,
}

/// State of a location class.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedClass {
    /// Its table.
    pub table: SlotTable,
    /// Knowledge of each slot.
    pub slots: Vec<SlotState>,
}

/// Load control of all groups.
#[derive(Debug)]
pub struct Balancer {
    groups: Vec<Controlled>,
    /// Number of the group of each cluster, and its index there. A cluster is in one group.
    places: HashMap<Backend, (usize, usize)>,
    evidence: Evidence,
    shares: Shares,
    /// Time of the start, from which the controllers count.
    start: Instant,
    failures: u64,
    /// Client networks that other servers have evidence of.
    networks_elsewhere: usize,
}

#[derive(Debug)]
struct Controlled {
    group: Group,
    /// Number of its first class.
    first: usize,
    controller: Controller,
    residence: Residence,
    /// Number and time of the last report of each cluster.
    reports: Vec<Option<(u64, Instant)>>,
    /// Time of the last step.
    stepped: Option<Instant>,
}

impl Balancer {
    /// Starts with the declared split, or with an earlier state. A class takes the state of the one with the most similar ranking.
    pub fn new(groups: Vec<Group>, now: Instant, saved: Option<&Saved>) -> Self {
        let (mut first, evidence) = (0, Evidence::new(largest_ttl(&groups), now));
        let controlled = |group: Group| {
            let mut controlled = Controlled::new(group, first, now);
            first += controlled.group.costs.len();
            if let Some(saved) = saved {
                controlled.restore(saved);
            }
            controlled
        };
        let groups: Vec<Controlled> = groups.into_iter().map(controlled).collect();
        let places = groups.iter().enumerate().flat_map(|(number, of)| {
            let clusters = of.group.clusters.iter().enumerate();
            clusters.map(move |(place, declared)| (declared.name.clone(), (number, place)))
        });
        let (places, shares) = (places.collect(), Shares::default());
        let mut balancer = Self { groups, places, evidence, shares, start: now, failures: 0, networks_elsewhere: 0 };
        balancer.update_shares();
        balancer
    }

    /// Goes on with other groups. Clusters keep their loads, and classes the state of the one with the most similar ranking.
    #[must_use]
    pub fn with_groups(self, groups: Vec<Group>) -> Self {
        let ttl = largest_ttl(&groups);
        let mut balancer = Self::new(groups, self.start, Some(&self.save()));
        balancer.evidence = self.evidence.with_ttl(ttl);
        balancer.shares.epoch = self.shares.epoch.wrapping_add(1);
        balancer.failures = self.failures;
        for group in &mut balancer.groups {
            for (place, declared) in group.group.clusters.iter().enumerate() {
                if let Some((before, from)) = self.places.get(&declared.name).copied() {
                    let before = &self.groups[before];
                    group.reports[place] = before.reports[from];
                    group.controller.adopt(place, &before.controller, from);
                }
            }
        }
        balancer
    }

    /// Returns the groups that it began with.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|controlled| &controlled.group)
    }

    /// Returns what the last step found for each location class, over all groups.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let of_group = |group: &'_ Controlled| 0..group.group.costs.len();
        self.groups.iter().flat_map(move |group| of_group(group).map(|class| group.controller.plan(class)))
    }

    /// Returns the number of steps of a group that failed, or found no solution in time, so that its tables stayed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns which queries are evidence.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Returns the decision in force.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Counts a query, if it is evidence of demand: once per TTL of its client network.
    pub fn count_query(&mut self, query: &Counted<'_>) {
        let &Counted { class, query: Query { demand, .. }, cluster, at } = query;
        let Some(weight) = self.evidence.weight(&query.query, at) else { return };
        let number = self.groups.partition_point(|group| group.first <= class).wrapping_sub(1);
        let Some(group) = self.groups.get_mut(number) else { return };
        let Some(place) = group.place(cluster) else { return };
        let counts = group.residence.note(demand, place, at, group.group.ttl);
        let weight = if counts { weight } else { 0.0 };
        if class - group.first < group.group.costs.len() {
            group.controller.count_query(class - group.first, demand.slot(), weight, at);
        }
    }

    /// Adds a report that arrived now: of a cluster, or of a service there.
    pub fn add_report(&mut self, report: &LoadReport, now: Instant) -> Outcome {
        let Some((number, place)) = self.places.get(&report.backend).copied() else { return Outcome::Ignored };
        let group = &mut self.groups[number];
        if group.reports[place].is_some_and(|(sequence, at)| report.at <= at || report.sequence == sequence) {
            return Outcome::Ignored;
        }
        group.reports[place] = Some((report.sequence, report.at));
        let load = f64::from(report.load.0) / 1_000.0 * group.group.clusters[place].capacity.max(1) as f64;
        if group.controller.add_report(place, load, now) { Outcome::Accepted } else { Outcome::Rejected }
    }

    /// Replaces what is known by the true demand of each slot, by class over all groups. For simulations of what load control could reach if it
    /// knew all demand of clients; reports should not be added then, and load from elsewhere is not known.
    pub fn inform(&mut self, demands: &[Vec<f64>], now: Instant) {
        for group in &mut self.groups {
            let classes = group.first..group.first + group.group.costs.len();
            group.controller.inform(&demands[classes], now);
        }
    }

    /// Notes that a cluster can be answered, or cannot. A step should follow before the transition is served.
    pub fn set_available(&mut self, cluster: &Backend, is_available: bool, at: Instant) {
        if let Some((number, place)) = self.places.get(cluster).copied() {
            self.groups[number].controller.set_available(place, is_available, at);
        }
    }

    /// Decides anew: once per report period, and at every transition. A group whose step panics learns anew, with the tables in force.
    pub fn step(&mut self, now: Instant) {
        self.advance(now, true);
    }

    /// Follows the decision of another server, and what reports and queries show: once per report period, in place of a step.
    pub fn learn(&mut self, leader: &Shares, now: Instant) {
        self.take_tables(leader, now);
        self.advance(now, false);
    }

    /// Takes over the tables of another server, as soon as they are in force: what reports show is then compared with where clients really
    /// are, and a server that becomes the leader goes on from there. A class takes those of the most similar one.
    pub fn take_tables(&mut self, leader: &Shares, now: Instant) {
        if leader.tables == self.shares.tables {
            return;
        }
        for group in &mut self.groups {
            group.take_tables(&leader.tables, now);
        }
        self.update_shares();
    }

    fn advance(&mut self, now: Instant, decides: bool) {
        self.evidence.expire(now);
        let networks = self.evidence.networks() + self.networks_elsewhere;
        for group in &mut self.groups {
            // Where few networks are proven, each slot counts for some of which nothing is known.
            let missing = 1.0 - networks as f64 / (NETWORKS_PER_CLUSTER * group.group.clusters.len() as f64);
            group.controller.set_unknown(missing.max(0.0));
            match catch_unwind(AssertUnwindSafe(|| group.advance(now, decides))) {
                Ok(is_found) => self.failures += u64::from(!is_found),
                Err(_) => {
                    group.start_over(&self.shares.tables, now);
                    self.failures += 1;
                }
            }
        }
        self.update_shares();
    }

    fn update_shares(&mut self) {
        let tables: Vec<SlotTable> = self.groups.iter().flat_map(Controlled::tables).collect();
        if tables != self.shares.tables {
            let parts = self.groups.iter().flat_map(Controlled::parts).collect();
            self.shares = Shares { epoch: self.shares.epoch.wrapping_add(1), tables, parts };
        }
    }

    /// Returns the progress of a cluster's drain, with that of the slowest service there. `None` if the cluster is not known.
    pub fn drain(&self, cluster: &ClusterName, now: Instant) -> Option<Drain> {
        let drains = self.groups.iter().flat_map(|group| {
            let places = (0..).zip(&group.group.clusters).filter(|(_, declared)| declared.name.cluster == *cluster);
            places.map(|(place, _)| group.drain(place, now))
        });
        drains.reduce(|a, b| Drain { over: a.over.max(b.over), left: a.left.max(b.left) })
    }

    /// Returns the expected load of each cluster, in the unit of the capacities, once all clients follow the tables.
    pub fn expected_loads(&self) -> impl Iterator<Item = (&Backend, f64)> {
        self.groups.iter().flat_map(|group| {
            let clusters = group.group.clusters.iter().enumerate();
            clusters.map(|(place, declared)| (&declared.name, group.controller.demand_at(place)))
        })
    }

    /// Returns the risk that the next minutes need changed answers.
    pub fn risk_level(&self, now: Instant) -> RiskLevel {
        let controllers = || self.groups.iter().map(|group| &group.controller);
        if controllers().any(|controller| controller.is_strained(now)) {
            RiskLevel::Short
        } else if controllers().all(|controller| controller.is_calm(CALM_TTLS, now)) {
            RiskLevel::Calm
        } else {
            RiskLevel::Ordinary
        }
    }

    /// Returns the state that a restart should find.
    pub fn save(&self) -> Saved {
        let class = |group: &Controlled, class: usize, table: SlotTable| SavedClass {
            table,
            slots: (0..Demand::SLOTS).map(|slot| group.controller.state(class, slot)).collect(),
        };
        let classes = self
            .groups
            .iter()
            .flat_map(|group| group.tables().enumerate().map(move |(number, table)| class(group, number, table)));
        Saved { classes: classes.collect() }
    }
}

impl Controlled {
    fn new(group: Group, first: usize, now: Instant) -> Self {
        let count = group.clusters.len();
        let controller = Controller::new(group.settings(), now);
        Self { group, first, controller, residence: Residence::default(), reports: vec![None; count], stepped: None }
    }

    fn place(&self, cluster: &Backend) -> Option<usize> {
        self.group.clusters.binary_search_by_key(&cluster, |declared| &declared.name).ok()
    }

    /// Decides anew, or only learns, if a report period is over; decides also if a cluster became unavailable. Returns false if no solution
    /// was found in time.
    fn advance(&mut self, now: Instant, decides: bool) -> bool {
        let is_early = |last: Instant| now.saturating_duration_since(last) < self.group.period.mul_f64(PERIOD_PART);
        if !(decides && self.controller.is_urgent()) && self.stepped.is_some_and(is_early) {
            return true;
        }
        self.stepped = Some(now);
        if decides {
            return self.controller.step(now);
        }
        self.controller.learn(now);
        true
    }

    fn drain(&self, place: usize, now: Instant) -> Drain {
        let (over, left) = self.residence.left(place, self.group.ttl, now).unwrap_or_else(|| {
            let demand: f64 = (0..self.group.clusters.len()).map(|place| self.controller.demand_at(place)).sum();
            (now, self.controller.load_left(place, now) / demand.max(f64::MIN_POSITIVE))
        });
        Drain { over, left }
    }

    fn take_tables(&mut self, tables: &[SlotTable], now: Instant) {
        for class in 0..self.group.costs.len() {
            let Some(table) = tables.iter().min_by_key(|table| table.distance(self.costs(class))) else { return };
            let places: Vec<Option<usize>> = table.costs.iter().map(|(cluster, _)| self.place(cluster)).collect();
            for (slot, place) in table.slots.iter().enumerate().take(Demand::SLOTS) {
                if let Some(place) = places.get(usize::from(*place)).copied().flatten() {
                    self.controller.send(class, slot, place, now);
                }
            }
        }
    }

    /// Returns the costs of a class by cluster.
    fn costs(&self, class: usize) -> impl ExactSizeIterator<Item = (&Backend, Option<ClusterCost>)> {
        self.group.clusters.iter().map(|declared| &declared.name).zip(self.group.costs[class].iter().copied())
    }

    /// Starts over with its part of the tables in force, and without what was learnt.
    fn start_over(&mut self, tables: &[SlotTable], now: Instant) {
        let slots = vec![SlotState::default(); Demand::SLOTS];
        let own = tables.iter().skip(self.first).take(self.group.costs.len());
        let classes = own.map(|table| SavedClass { table: table.clone(), slots: slots.clone() }).collect();
        let mut anew = Self::new(self.group.clone(), self.first, now);
        anew.restore(&Saved { classes });
        for place in 0..self.group.clusters.len() {
            anew.controller.set_available(place, self.controller.is_available(place), now);
        }
        *self = anew;
    }

    fn restore(&mut self, saved: &Saved) {
        let is_own = |class: &&SavedClass| class.table.costs.iter().any(|(cluster, _)| self.place(cluster).is_some());
        let known: Vec<&SavedClass> = saved.classes.iter().filter(is_own).collect();
        for class in 0..self.group.costs.len() {
            let Some(nearest) = known.iter().min_by_key(|known| known.table.distance(self.costs(class))) else {
                return;
            };
            for (slot, (state, place)) in nearest.slots.iter().zip(&nearest.table.slots).take(Demand::SLOTS).enumerate()
            {
                let cluster = nearest.table.costs.get(usize::from(*place));
                if let Some(place) = cluster.and_then(|(cluster, _)| self.place(cluster)) {
                    self.controller.restore(class, slot, place, *state);
                }
            }
        }
    }

    /// Returns the table of each class.
    fn tables(&self) -> impl Iterator<Item = SlotTable> {
        let classes = self.group.costs.iter().enumerate();
        classes.map(|(class, costs)| {
            let mut places = vec![SlotTable::NONE; costs.len()];
            let mut own = Vec::new();
            for ((place, declared), cost) in places.iter_mut().zip(&self.group.clusters).zip(costs) {
                if let Some(cost) = cost {
                    *place = own.len() as u16; // at most 65,535 clusters have a number
                    own.push((declared.name.clone(), *cost));
                }
            }
            let slots = (0..Demand::SLOTS).map(|slot| places[self.controller.cluster(class, slot)]).collect();
            SlotTable { costs: own, slots }
        })
    }

    /// Returns the part of the demand of each cluster, in 65535ths; of the slots while no demand is known.
    fn parts(&self) -> Vec<(Backend, u16)> {
        let count = self.group.clusters.len();
        let mut loads: Vec<f64> = (0..count).map(|place| self.controller.demand_at(place)).collect();
        if loads.iter().sum::<f64>() <= 0.0 {
            let slots = (0..self.group.costs.len()).flat_map(|class| (0..Demand::SLOTS).map(move |slot| (class, slot)));
            slots.for_each(|(class, slot)| loads[self.controller.cluster(class, slot)] += 1.0);
        }
        let all = loads.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let part = |load: f64| (load / all * f64::from(u16::MAX)).round() as u16;
        self.group.clusters.iter().zip(loads).map(|(declared, load)| (declared.name.clone(), part(load))).collect()
    }
}

impl Group {
    fn settings(&self) -> controller::Settings {
        let cluster = |declared: &Declared| {
            let capacity = declared.capacity.max(1) as f64;
            let part = |bound: Permille| capacity * f64::from(bound.thousandths()) / 1_000.0;
            controller::Cluster { capacity: part(declared.limit), target: part(declared.target) }
        };
        let cost = |of: &Option<ClusterCost>| of.map_or(f64::INFINITY, |of| f64::from(of.cost) / 1_000.0);
        let weight = |(of, declared): (&Option<ClusterCost>, &Declared)| {
            let capacity = if declared.is_weighed { 1 } else { declared.capacity.max(1) };
            of.map_or(0.0, |of| (f64::from(of.weight) * capacity as f64).max(f64::MIN_POSITIVE))
        };
        controller::Settings {
            clusters: self.clusters.iter().map(cluster).collect(),
            costs: self.costs.iter().map(|costs| costs.iter().map(cost).collect()).collect(),
            weights: self.costs.iter().map(|costs| costs.iter().zip(&self.clusters).map(weight).collect()).collect(),
            period: self.period,
            ttl: self.ttl,
        }
    }
}

/// Returns the largest TTL of all groups.
fn largest_ttl(groups: &[Group]) -> Duration {
    groups.iter().map(|group| group.ttl).max().unwrap_or_default()
}

/// Proven client networks per cluster from which on unproven ones count for nothing.
const NETWORKS_PER_CLUSTER: f64 = 64.0;
/// Part of the report period that is over when the next step is due: timers are a little early or late.
const PERIOD_PART: f64 = 0.9;
/// TTLs without a move after which answers may be kept for long.
const CALM_TTLS: f64 = 10.0;

#[cfg(test)]
mod tests;
