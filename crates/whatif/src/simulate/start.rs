//! The states that load control starts with in a scenario: saved states of somebody else, with a table and wrong knowledge of the demand.

use fairway_model::{ClusterCost, Demand, SlotTable};
use fairway_steering::{
    balancer::{Group, Saved, SavedClass},
    controller::SlotState,
    transport::{Room, Source, solve},
};

use super::{clients::Population, rng::Rng, scenario::Start, steering::Steering};

/// Returns the saved state of a start; `None` for a cold one.
pub(super) fn saved(
    start: Start,
    groups: &[Group],
    steering: &Steering,
    population: &Population,
    rng: &mut Rng,
) -> Option<Saved> {
    let places = match start {
        Start::Cold => return None,
        Start::One => one(groups, rng),
        Start::Mirror => mirror(groups, &demands(groups, steering, population)),
    };
    let costs = groups.iter().flat_map(|group| group.costs.iter().map(move |costs| (group, costs)));
    let class = |((group, costs), places): ((&Group, &Vec<Option<ClusterCost>>), Vec<usize>)| {
        let clusters = group.clusters.iter().map(|declared| declared.name.clone());
        let own: Vec<_> = clusters.zip(costs).filter_map(|(name, cost)| Some((name, (*cost)?))).collect();
        // Number of the cluster among those of the class.
        let number = |place: usize| match costs[place] {
            Some(_) => costs[..place].iter().flatten().count() as u16,
            None => SlotTable::NONE,
        };
        let slots = places.into_iter().map(number).collect();
        let states = (0..Demand::SLOTS).map(|_| stranger(group, rng)).collect();
        SavedClass { table: SlotTable { costs: own, slots }, slots: states }
    };
    Some(Saved { classes: costs.zip(places).map(class).collect() })
}

/// Draws what a state of somebody else says of a slot. The demand of all slots together is half of the capacity, and has nothing to do with
/// that of the clients; the deviation is as large as the demand.
fn stranger(group: &Group, rng: &mut Rng) -> SlotState {
    let capacity: f64 = group.clusters.iter().map(|declared| declared.capacity as f64).sum();
    let demand = rng.exponential(0.5 * capacity / (group.costs.len() * Demand::SLOTS) as f64) as f32;
    SlotState { demand, variance: demand * demand, weight: 1.0 }
}

/// Returns one cluster of the group for all slots of all its classes, by class and slot.
fn one(groups: &[Group], rng: &mut Rng) -> Vec<Vec<usize>> {
    let mut places = Vec::new();
    for group in groups {
        let place = rng.below(group.clusters.len());
        places.extend(group.costs.iter().map(|_| vec![place; Demand::SLOTS]));
    }
    places
}

/// Returns the demand of each slot, by class and slot.
fn demands(groups: &[Group], steering: &Steering, population: &Population) -> Vec<Vec<f64>> {
    let classes = groups.iter().map(|group| group.costs.len()).sum();
    let mut demands = vec![vec![0.0; Demand::SLOTS]; classes];
    for (number, network) in (0..).zip(&population.networks) {
        if let Some(class) = steering.load_class(number) {
            demands[class][steering.demand(number).slot()] += network.demand;
        }
    }
    demands
}

/// Returns the clusters of all slots for the highest cost with every cluster below its target, by class and slot.
fn mirror(groups: &[Group], demands: &[Vec<f64>]) -> Vec<Vec<usize>> {
    let mut places = Vec::new();
    for group in groups {
        let demands = &demands[places.len()..][..group.costs.len()];
        let highest = group.costs.iter().flatten().flatten().map(|of| of.cost).max().unwrap_or_default();
        let reversed = |of: &Option<ClusterCost>| of.map_or(f64::INFINITY, |of| f64::from(highest - of.cost));
        let source = |(costs, demands): (&Vec<Option<ClusterCost>>, &Vec<f64>)| Source {
            demand: demands.iter().sum(),
            costs: costs.iter().map(reversed).collect(),
        };
        let sources: Vec<Source> = group.costs.iter().zip(demands).map(source).collect();
        // More than the costs of a way over all clusters differ.
        let over = f64::from(highest + 1) * group.clusters.len() as f64;
        let room = |declared: &fairway_steering::balancer::Declared| {
            let target = declared.capacity as f64 * f64::from(declared.target.thousandths()) / 1000.0;
            vec![Room { load: target, penalty: 0.0 }, Room { load: f64::INFINITY, penalty: over }]
        };
        let divided = solve(&sources, &group.clusters.iter().map(room).collect::<Vec<_>>());
        places.extend(divided.into_iter().zip(demands).map(|(left, demands)| place_slots(left, demands)));
    }
    places
}

/// Returns a cluster for each slot of a class, so that each cluster gets about its part of the demand: the largest slots first, each to the
/// cluster with the most demand left.
fn place_slots(mut left: Vec<f64>, demands: &[f64]) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..demands.len()).collect();
    slots.sort_by(|a, b| demands[*b].total_cmp(&demands[*a]));
    let mut places = vec![0; demands.len()];
    for slot in slots {
        let most = (0..left.len()).max_by(|a, b| left[*a].total_cmp(&left[*b])).unwrap_or_default();
        places[slot] = most;
        left[most] -= demands[slot];
    }
    places
}
