//! The yardstick of load control: the best assignment of each network to one cluster, by somebody who knows all demand.
//!
//! It has the goals of load control: least cost, where the cost of demand is the rank of its cluster by distance, with every cluster below
//! its target. First the demand is divided without regard to networks (the *bound*: no assignment of whole networks costs less). Then
//! each network goes to one cluster, and networks move and change places as long as that lowers the cost.

use fairway_steering::transport::{Room, Source, solve};

use super::{Traffic, scenario::Scenario};

/// Best figures that are possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimum {
    /// Part of the demand at the nearest cluster of its clients.
    pub near: f64,
    /// The same if networks could be divided.
    pub bound: f64,
    /// Load of the fullest cluster; 1 is its capacity.
    pub peak: f64,
}

impl Optimum {
    /// Returns the optimum for the present demand. Load from elsewhere stays where it is; clusters that are not usable get no demand.
    pub(super) fn of(traffic: &Traffic, scenario: &Scenario, is_usable: impl Fn(usize) -> bool) -> Self {
        let population = traffic.population();
        let mut clusters: Vec<usize> = (0..scenario.clusters.len()).filter(|cluster| is_usable(*cluster)).collect();
        if clusters.is_empty() {
            clusters = (0..scenario.clusters.len()).collect();
        }
        let demands = population.networks.iter().filter(|network| network.demand > 0.0);
        let mut items: Vec<Item> = demands
            .map(|network| Item { demand: network.demand, order: usize::from(network.order), cluster: 0 })
            .collect();
        items.sort_by(|a, b| b.demand.total_cmp(&a.demand));
        let capacity = |cluster: usize| scenario.clusters[cluster].capacity as f64;
        let left = |cluster: &usize, part: f64| {
            let capacity = capacity(*cluster);
            (part * capacity - traffic.elsewhere()[*cluster]).max(LEAST_BUDGET * capacity)
        };
        let target = |cluster: &usize| f64::from(scenario.clusters[*cluster].soft.thousandths()) / 1000.0;
        let targets: Vec<f64> = clusters.iter().map(|cluster| left(cluster, target(cluster))).collect();
        let capacities: Vec<f64> = clusters.iter().map(|cluster| left(cluster, 1.0)).collect();
        let demand = population.demand();
        let budgets = budgets(&targets, &capacities, demand);
        let ranks = ranks(&population.orders, &clusters);
        let mut assignment = Assignment { ranks, load: vec![0.0; budgets.len()], budgets, items };
        let divided = assignment.divide();
        let at_nearest = |ranks: &Vec<usize>, divided: &Vec<f64>| -> f64 {
            ranks.iter().zip(divided).filter(|(rank, _)| **rank == 0).map(|(_, divided)| divided).sum()
        };
        let bound: f64 = assignment.ranks.iter().zip(&divided).map(|(ranks, divided)| at_nearest(ranks, divided)).sum();
        assignment.round(divided);
        assignment.improve();
        let near: f64 = assignment
            .items
            .iter()
            .filter(|item| assignment.ranks[item.order][item.cluster] == 0)
            .map(|item| item.demand)
            .sum();
        let loads = clusters.iter().zip(&assignment.load);
        let peak = loads.map(|(cluster, load)| (load + traffic.elsewhere()[*cluster]) / capacity(*cluster));
        Self { near: near / demand, bound: bound / demand, peak: peak.fold(0.0, f64::max) }
    }
}

/// Returns what each cluster may carry: its target, if all demand fits below the targets; else the same part of the way from the target to
/// the capacity, or of the capacity, for all.
fn budgets(targets: &[f64], capacities: &[f64], demand: f64) -> Vec<f64> {
    let (target, capacity) = (targets.iter().sum::<f64>(), capacities.iter().sum::<f64>());
    let part = ((demand - target) / (capacity - target).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let factor = (demand / capacity).max(1.0);
    targets.iter().zip(capacities).map(|(target, capacity)| (target + part * (capacity - target)) * factor).collect()
}

/// Returns, for each order, the rank of each of these clusters in the whole order.
fn ranks(orders: &[Vec<usize>], clusters: &[usize]) -> Vec<Vec<usize>> {
    let ranks = |order: &Vec<usize>| {
        let mut ranks = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank, cluster)| ranks[*cluster] = rank);
        clusters.iter().map(|cluster| ranks[*cluster]).collect()
    };
    orders.iter().map(ranks).collect()
}

/// A network.
struct Item {
    demand: f64,
    order: usize,
    cluster: usize,
}

/// Networks, those with the largest demand first, and their clusters.
struct Assignment {
    items: Vec<Item>,
    /// By order and cluster.
    ranks: Vec<Vec<usize>>,
    load: Vec<f64>,
    budgets: Vec<f64>,
}

impl Assignment {
    fn cost(&self, item: usize, cluster: usize) -> f64 {
        self.items[item].demand * self.ranks[self.items[item].order][cluster] as f64
    }

    /// Divides the demand of each order among the clusters.
    fn divide(&self) -> Vec<Vec<f64>> {
        let mut sources: Vec<Source> = self
            .ranks
            .iter()
            .map(|ranks| Source { demand: 0.0, costs: ranks.iter().map(|rank| *rank as f64).collect() })
            .collect();
        self.items.iter().for_each(|item| sources[item.order].demand += item.demand);
        let over = 10.0 * (1 + self.ranks.iter().flatten().max().copied().unwrap_or_default()) as f64;
        let rooms =
            |budget: &f64| vec![Room { load: *budget, penalty: 0.0 }, Room { load: f64::INFINITY, penalty: over }];
        solve(&sources, &self.budgets.iter().map(rooms).collect::<Vec<_>>())
    }

    /// Assigns each network to the cluster where most of the divided demand of its order is left, the nearest one that has enough for it.
    fn round(&mut self, mut divided: Vec<Vec<f64>>) {
        for item in &mut self.items {
            let (left, ranks) = (&mut divided[item.order], &self.ranks[item.order]);
            let fits =
                (0..left.len()).filter(|cluster| left[*cluster] >= item.demand).min_by_key(|cluster| ranks[*cluster]);
            let most = || (0..left.len()).max_by(|a, b| left[*a].total_cmp(&left[*b]));
            item.cluster = fits.or_else(most).unwrap_or_default();
            left[item.cluster] -= item.demand;
            self.load[item.cluster] += item.demand;
        }
    }

    /// Moves networks, and lets two change their places, as long as that lowers the excess over budgets, or the cost without more excess.
    fn improve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut is_better = false;
            for item in 0..self.items.len() {
                is_better |= self.improve_one(item);
            }
            if !is_better {
                return;
            }
        }
    }

    /// Excess over the budget of a cluster with changed load, relative to the budget.
    fn excess(&self, cluster: usize, change: f64) -> f64 {
        ((self.load[cluster] + change) / self.budgets[cluster] - 1.0 - ROUNDING).max(0.0)
    }

    /// Returns the change of the excess if demand goes from one cluster to another.
    fn excess_change(&self, from: usize, to: usize, demand: f64) -> f64 {
        let after = self.excess(from, -demand) + self.excess(to, demand);
        after - self.excess(from, 0.0) - self.excess(to, 0.0)
    }

    fn improve_one(&mut self, item: usize) -> bool {
        let (from, demand) = (self.items[item].cluster, self.items[item].demand);
        let mut best: Option<(f64, f64, usize, Option<usize>)> = None;
        let mut consider = |excess: f64, cost: f64, to: usize, other: Option<usize>| {
            let is_better = excess < -ROUNDING || excess < ROUNDING && cost < -1e-9 * demand;
            if is_better && best.is_none_or(|(e, c, ..)| excess < e - ROUNDING || excess < e + ROUNDING && cost < c) {
                best = Some((excess, cost, to, other));
            }
        };
        for to in (0..self.load.len()).filter(|to| *to != from) {
            let cost = self.cost(item, to) - self.cost(item, from);
            consider(self.excess_change(from, to, demand), cost, to, None);
        }
        // Places are changed with the networks that have about the same demand, which leave about the same room.
        let near_in_size = item.saturating_sub(PARTNERS)..(item + PARTNERS).min(self.items.len());
        for other in near_in_size.filter(|other| self.items[*other].cluster != from) {
            let to = self.items[other].cluster;
            let cost = self.cost(item, to) - self.cost(item, from) + self.cost(other, from) - self.cost(other, to);
            consider(self.excess_change(from, to, demand - self.items[other].demand), cost, to, Some(other));
        }
        let Some((_, _, to, other)) = best else { return false };
        self.assign(item, to);
        if let Some(other) = other {
            self.assign(other, from);
        }
        true
    }

    fn assign(&mut self, item: usize, cluster: usize) {
        let Item { demand, cluster: before, .. } = self.items[item];
        self.load[before] -= demand;
        self.load[cluster] += demand;
        self.items[item].cluster = cluster;
    }
}

/// Rounds of improvement. Each is one pass over all networks; few are needed, since the divided demand is an optimum already.
const ROUNDS_MAX: usize = 20;
/// Neighbours in the order by demand with which a network may change places, on both sides.
const PARTNERS: usize = 24;
/// Part of the capacity that a cluster may carry at least, so that it is not 0 where load from elsewhere fills the cluster.
const LEAST_BUDGET: f64 = 1e-3;
/// Relative errors of sums that count as none.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an assignment of networks with demand and order of clusters, before anything is assigned.
    fn assignment(orders: &[Vec<usize>], networks: &[(f64, usize)], budgets: &[f64]) -> Assignment {
        let mut items: Vec<Item> =
            networks.iter().map(|(demand, order)| Item { demand: *demand, order: *order, cluster: 0 }).collect();
        items.sort_by(|a, b| b.demand.total_cmp(&a.demand));
        let clusters: Vec<usize> = (0..budgets.len()).collect();
        Assignment { items, ranks: ranks(orders, &clusters), load: vec![0.0; budgets.len()], budgets: budgets.to_vec() }
    }

    fn solved(assignment: &mut Assignment) -> f64 {
        let divided = assignment.divide();
        assignment.round(divided);
        assignment.improve();
        (0..assignment.items.len()).map(|item| assignment.cost(item, assignment.items[item].cluster)).sum()
    }

    /// Returns the least cost without excess over budgets, by trying every assignment; infinite if there is none.
    fn least_cost(assignment: &mut Assignment, from: usize) -> f64 {
        if from == assignment.items.len() {
            let fits = (0..assignment.load.len()).all(|cluster| assignment.excess(cluster, 0.0) == 0.0);
            let cost = |item: usize| assignment.cost(item, assignment.items[item].cluster);
            return if fits { (0..assignment.items.len()).map(cost).sum() } else { f64::INFINITY };
        }
        let mut least = f64::INFINITY;
        for cluster in 0..assignment.load.len() {
            assignment.assign(from, cluster);
            least = least.min(least_cost(assignment, from + 1));
        }
        least
    }

    #[test]
    fn whole_networks_get_close_to_the_best_of_all_assignments() {
        let mut rng = super::super::Rng::new(7);
        let orders = [vec![0, 1, 2], vec![0, 2, 1], vec![1, 0, 2], vec![2, 1, 0]];
        let (mut found, mut least, mut misfits) = (0.0, 0.0, 0);
        for _ in 0..60 {
            let networks: Vec<(f64, usize)> = (0..8).map(|_| (1.0 + rng.below(9) as f64, rng.below(4))).collect();
            let demand: f64 = networks.iter().map(|(demand, _)| demand).sum();
            let budgets = [0.5, 0.4, 0.4].map(|part| part * demand);
            let mut all = assignment(&orders, &networks, &budgets);
            all.load[0] = demand;
            let best = least_cost(&mut all, 0);
            let mut assignment = assignment(&orders, &networks, &budgets);
            let cost = solved(&mut assignment);
            if (0..3).any(|cluster| assignment.excess(cluster, 0.0) > 0.0) {
                misfits += 1;
            } else {
                assert!(cost > best - 1e-6, "cost {cost} is below the least possible {best}");
                (found, least) = (found + cost, least + best);
            }
        }
        assert!(misfits <= 3, "{misfits} of 60 assignments exceed a budget; some fits in all");
        assert!(found <= 1.15 * least, "cost {found}; possible {least}");
    }

    #[test]
    fn many_networks_get_closer_to_the_bound() {
        let mut rng = super::super::Rng::new(8);
        let orders = [vec![0, 1, 2], vec![0, 2, 1], vec![1, 0, 2], vec![2, 1, 0]];
        for _ in 0..20 {
            let networks: Vec<(f64, usize)> = (1..=200).map(|n| (f64::from(n).powf(-0.7), rng.below(4))).collect();
            let demand: f64 = networks.iter().map(|(demand, _)| demand).sum();
            let mut assignment = assignment(&orders, &networks, &[0.4, 0.4, 0.3].map(|part| part * demand));
            let divided = assignment.divide();
            let costs = |ranks: &Vec<usize>, divided: &Vec<f64>| -> f64 {
                ranks.iter().zip(divided).map(|(rank, divided)| *rank as f64 * divided).sum()
            };
            let bound: f64 = assignment.ranks.iter().zip(&divided).map(|(ranks, divided)| costs(ranks, divided)).sum();
            let cost = solved(&mut assignment);
            assert!(cost >= bound - 1e-6, "cost {cost} is below the bound {bound}");
            assert!(cost <= bound + 0.01 * demand, "cost {cost}, bound {bound} of {demand}");
            assert!((0..3).all(|cluster| assignment.excess(cluster, 0.0) == 0.0), "{:?}", assignment.load);
        }
    }

    #[test]
    fn network_that_fits_nowhere_goes_where_it_exceeds_least() {
        let mut assignment = assignment(&[vec![0, 1]], &[(10.0, 0), (1.0, 0)], &[1.0, 8.0]);
        solved(&mut assignment);
        assert_eq!(assignment.items[0].cluster, 1, "10 of demand with budgets of 1 and 8");
        assert_eq!(assignment.items[1].cluster, 0);
    }

    #[test]
    fn budgets_grow_from_targets_to_capacities_and_beyond() {
        let budgets = |demand| budgets(&[80.0, 40.0], &[100.0, 100.0], demand);
        assert_eq!(budgets(100.0), [80.0, 40.0]);
        assert_eq!(budgets(160.0), [90.0, 70.0]);
        assert_eq!(budgets(300.0), [150.0, 150.0]);
    }
}
