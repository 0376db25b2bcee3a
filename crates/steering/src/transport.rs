//! Divides the demand of sources among clusters at least cost: a transport problem with convex penalties for load.
//!
//! Method: successive shortest paths. Sources are placed one after the other. Each takes the cheapest way to a cluster with room, which
//! may lead over other clusters: demand of an earlier source moves on from there to make room. A flow that only grows along shortest paths
//! stays the cheapest flow of its amount (Ahuja, Magnanti, Orlin: Network Flows, section 9.7), so the result is an optimum, and which
//! state the clusters are in does not matter.

use std::collections::VecDeque;

/// Demand that may be divided among clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Demand, in the unit of the capacities; at least 0.
    pub demand: f64,
    /// Cost of a unit of demand at each cluster; infinite where it cannot be answered.
    pub costs: Vec<f64>,
}

/// A part of a cluster's room, after the parts before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Load that it takes; infinite for the last part of a cluster that must take everything.
    pub load: f64,
    /// Penalty of a unit of load in it, in addition to the cost; not lower than in the part before it.
    pub penalty: f64,
}

/// Returns the demand of each source at each cluster, at the least sum of costs and penalties. Demand of a source that finds no room stays
/// unplaced.
pub fn solve(sources: &[Source], rooms: &[Vec<Room>]) -> Vec<Vec<f64>> {
    solve_within(u64::MAX, sources, rooms).unwrap_or_default()
}

/// Does the same, with at most so many comparisons of two ways. Returns `None` if that is not enough, or for more than [`CLUSTERS_MAX`]
/// clusters.
pub(crate) fn solve_within(most: u64, sources: &[Source], rooms: &[Vec<Room>]) -> Option<Vec<Vec<f64>>> {
    if rooms.len() > CLUSTERS_MAX {
        return None;
    }
    let mut placement = Placement::new(sources, rooms);
    for source in 0..sources.len() {
        placement.place(source, most);
    }
    (placement.compared <= most).then_some(placement.placed)
}

/// Demand that is placed so far.
struct Placement<'a> {
    sources: &'a [Source],
    rooms: &'a [Vec<Room>],
    /// By source and cluster.
    placed: Vec<Vec<f64>>,
    /// Sources with demand at each cluster.
    present: Vec<Vec<usize>>,
    /// By two clusters, the least cost of moving a unit on from the first to the second, and the source that has it. Each cluster may have many
    /// sources: with this, a division takes a quarter of the comparisons.
    onward: Vec<Vec<(f64, usize)>>,
    load: Vec<f64>,
    /// Demand that counts as none: rounding errors.
    nothing: f64,
    /// Ways that were compared so far.
    compared: u64,
}

/// Cheapest ways from a source to each cluster.
struct Ways {
    costs: Vec<f64>,
    /// The cluster before on the way, and the source whose demand moves on from there. `None` at the first cluster.
    before: Vec<Option<(usize, usize)>>,
}

impl<'a> Placement<'a> {
    fn new(sources: &'a [Source], rooms: &'a [Vec<Room>]) -> Self {
        let demand: f64 = sources.iter().map(|source| source.demand).sum();
        Self {
            sources,
            rooms,
            placed: vec![vec![0.0; rooms.len()]; sources.len()],
            present: vec![Vec::new(); rooms.len()],
            onward: vec![vec![(f64::INFINITY, 0); rooms.len()]; rooms.len()],
            load: vec![0.0; rooms.len()],
            nothing: 1e-9 * demand,
            compared: 0,
        }
    }

    fn place(&mut self, source: usize, most: u64) {
        let mut left = self.sources[source].demand;
        while left > self.nothing && self.compared <= most {
            let ways = self.ways(source);
            let ends = (0..self.rooms.len()).filter_map(|cluster| {
                let (penalty, free) = self.room(cluster)?;
                Some((ways.costs[cluster] + penalty, cluster, free))
            });
            let cheapest = ends.filter(|(cost, ..)| cost.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, end, free)) = cheapest else { return };
            left -= self.send(source, &ways, end, left.min(free));
        }
    }

    /// Returns penalty and free load of the part that a cluster fills next; `None` if all are full.
    fn room(&self, cluster: usize) -> Option<(f64, f64)> {
        let mut free = -self.load[cluster];
        let part = self.rooms[cluster].iter().find(|room| {
            free += room.load;
            free > self.nothing
        })?;
        Some((part.penalty, free))
    }

    /// Finds the cheapest ways, by the method of Bellman and Ford. Moving demand on may lower the cost, but no round trip does.
    fn ways(&mut self, source: usize) -> Ways {
        let costs = self.sources[source].costs.clone();
        let mut waiting: VecDeque<usize> = (0..costs.len()).filter(|cluster| costs[*cluster].is_finite()).collect();
        let mut is_waiting: Vec<bool> = costs.iter().map(|cost| cost.is_finite()).collect();
        let mut ways = Ways { before: vec![None; costs.len()], costs };
        while let Some(cluster) = waiting.pop_front() {
            is_waiting[cluster] = false;
            self.compared += self.rooms.len() as u64;
            let so_far = ways.costs[cluster];
            for (next, &(cost, moved)) in self.onward[cluster].iter().enumerate() {
                if so_far + cost < ways.costs[next] - COST_ERROR {
                    ways.costs[next] = so_far + cost;
                    ways.before[next] = Some((cluster, moved));
                    if !std::mem::replace(&mut is_waiting[next], true) {
                        waiting.push_back(next);
                    }
                }
            }
        }
        ways
    }

    /// Sends at most `demand` on the way to a cluster. Returns the amount, which the least demand that moves on bounds.
    fn send(&mut self, source: usize, ways: &Ways, end: usize, demand: f64) -> f64 {
        let moves: Vec<_> = std::iter::successors(ways.before[end], |(cluster, _)| ways.before[*cluster]).collect();
        let amount = moves.iter().map(|(cluster, moved)| self.placed[*moved][*cluster]).fold(demand, f64::min);
        let mut next = end;
        for (cluster, moved) in moves {
            self.add(moved, cluster, -amount);
            self.add(moved, next, amount);
            next = cluster;
        }
        self.add(source, next, amount);
        self.load[end] += amount;
        amount
    }

    fn add(&mut self, source: usize, cluster: usize, demand: f64) {
        let placed = &mut self.placed[source][cluster];
        let was_present = *placed > 0.0;
        *placed += demand;
        if *placed <= self.nothing {
            *placed = 0.0;
        }
        match (was_present, *placed > 0.0) {
            (false, true) => {
                self.present[cluster].push(source);
                for (to, least) in self.onward[cluster].iter_mut().enumerate() {
                    let cost = self.sources[source].costs[to] - self.sources[source].costs[cluster];
                    if cost < least.0 {
                        *least = (cost, source);
                    }
                }
            }
            (true, false) => {
                self.present[cluster].retain(|present| *present != source);
                for (to, least) in self.onward[cluster].iter_mut().enumerate().filter(|(_, least)| least.1 == source) {
                    let cost = |number: &usize| self.sources[*number].costs[to] - self.sources[*number].costs[cluster];
                    let costs = self.present[cluster].iter().map(|number| (cost(number), *number));
                    *least = costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0));
                }
            }
            _ => {}
        }
    }
}

/// Maximum number of clusters: the table of all pairs then has 64 MB. A division among as many takes far longer than a report period.
const CLUSTERS_MAX: usize = 2_000;
/// Differences of costs that count as none. Costs are ranks, or milliseconds.
const COST_ERROR: f64 = 1e-9;

/// Returns the sum of the costs, without penalties.
#[cfg(test)]
pub(crate) fn cost(sources: &[Source], placed: &[Vec<f64>]) -> f64 {
    let of_one = |(source, placed): (&Source, &Vec<f64>)| -> f64 {
        // An infinite cost times nothing is no number.
        let present = source.costs.iter().zip(placed).filter(|(_, placed)| **placed > 0.0);
        present.map(|(cost, placed)| cost * placed).sum()
    };
    sources.iter().zip(placed).map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the sum of costs and penalties.
    fn whole_cost(sources: &[Source], rooms: &[Vec<Room>], placed: &[Vec<f64>]) -> f64 {
        let penalty = |cluster: usize| {
            let mut load: f64 = placed.iter().map(|placed| placed[cluster]).sum();
            let mut sum = 0.0;
            for room in &rooms[cluster] {
                sum += load.min(room.load).max(0.0) * room.penalty;
                load -= room.load;
            }
            sum
        };
        cost(sources, placed) + (0..rooms.len()).map(penalty).sum::<f64>()
    }

    /// Returns the least cost of whole units of demand, by trying every placement.
    fn least_cost(sources: &[Source], rooms: &[Vec<Room>]) -> f64 {
        fn try_from(units: &[usize], sources: &[Source], rooms: &[Vec<Room>], placed: &mut Vec<Vec<f64>>) -> f64 {
            let Some((source, rest)) = units.split_first() else { return whole_cost(sources, rooms, placed) };
            let mut least = f64::INFINITY;
            for cluster in (0..rooms.len()).filter(|cluster| sources[*source].costs[*cluster].is_finite()) {
                placed[*source][cluster] += 1.0;
                least = least.min(try_from(rest, sources, rooms, placed));
                placed[*source][cluster] -= 1.0;
            }
            least
        }
        let units: Vec<usize> = (0..sources.len())
            .flat_map(|source| std::iter::repeat_n(source, sources[source].demand as usize))
            .collect();
        try_from(&units, sources, rooms, &mut vec![vec![0.0; rooms.len()]; sources.len()])
    }

    /// Returns sources of 0 to 2 units, and clusters with whole units of room, of which the last part takes everything. With whole units,
    /// an optimum in whole units is one of all.
    fn problems() -> impl Strategy<Value = (Vec<Source>, Vec<Vec<Room>>)> {
        (1usize..4, 1usize..5).prop_flat_map(|(clusters, sources)| {
            let cost = prop_oneof![4 => (0u8..5).prop_map(f64::from), 1 => Just(f64::INFINITY)];
            let costs = proptest::collection::vec(cost, clusters).prop_map(|mut costs| {
                costs[0] = if costs[0].is_finite() { costs[0] } else { 1.0 };
                costs
            });
            let source = (0u8..3, costs).prop_map(|(demand, costs)| Source { demand: f64::from(demand), costs });
            let rooms = (0u8..4, 0u8..3, 0u8..4).prop_map(|(first, second, step)| {
                let room = |load, penalty| Room { load, penalty };
                let step = f64::from(step);
                vec![room(first.into(), 0.0), room(second.into(), step), room(f64::INFINITY, 2.0 * step)]
            });
            (proptest::collection::vec(source, sources), proptest::collection::vec(rooms, clusters))
        })
    }

    proptest! {
        #[test]
        fn placement_has_the_least_cost_and_places_all_demand((sources, rooms) in problems()) {
            let placed = solve(&sources, &rooms);
            for (source, placed) in sources.iter().zip(&placed) {
                prop_assert!((placed.iter().sum::<f64>() - source.demand).abs() < 1e-6, "{placed:?} of {source:?}");
                prop_assert!(placed.iter().zip(&source.costs).all(|(placed, cost)| *placed == 0.0 || cost.is_finite()));
            }
            let (found, least) = (whole_cost(&sources, &rooms, &placed), least_cost(&sources, &rooms));
            prop_assert!((found - least).abs() < 1e-6, "cost {found}, possible {least}: {placed:?}");
        }
    }

    #[test]
    fn demand_moves_on_to_make_room() {
        let costs = |costs: [f64; 3]| Source { demand: 1.0, costs: costs.to_vec() };
        // The second source can only be at the first cluster, and the third only at the first two: each moves the one before it on.
        let never = f64::INFINITY;
        let sources = [costs([0.0, 1.0, 2.0]), costs([0.0, never, never]), costs([0.5, 0.0, never])];
        let one = vec![Room { load: 1.0, penalty: 0.0 }];
        assert_eq!(
            solve(&sources, &[one.clone(), one.clone(), one.clone()]),
            [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        );
        assert_eq!(
            solve_within(5, &sources, &[one.clone(), one.clone(), one]),
            None,
            "moving on takes more comparisons"
        );
    }

    #[test]
    fn more_clusters_than_a_table_of_pairs_may_have_are_refused() {
        let problem = |clusters: usize| {
            let source = Source { demand: 1.0, costs: vec![0.0; clusters] };
            let room = vec![Room { load: 1.0, penalty: 0.0 }];
            solve_within(u64::MAX, &[source], &vec![room; clusters]).is_some()
        };
        assert_eq!([CLUSTERS_MAX, CLUSTERS_MAX + 1].map(problem), [true, false]);
    }

    #[test]
    fn demand_without_room_stays_unplaced() {
        let source = Source { demand: 3.0, costs: vec![0.0, f64::INFINITY] };
        let room = |load| vec![Room { load, penalty: 0.0 }];
        assert_eq!(solve(&[source], &[room(2.0), room(5.0)]), [[2.0, 0.0]]);
    }
}
