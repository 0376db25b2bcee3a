//! Location classes of load control: how the clients of all pools rank the clusters.
//!
//! Clusters that share a pool are one group, whose load is controlled together. Each location class of each pool ranks the clusters of its
//! group; a cluster that the pool does not have is missing. Equal rankings with equal weights are one class whatever pool they are of, and
//! the most similar ones are merged until a group has few. All of it follows from the snapshot, so servers with one configuration have the
//! same classes.
//!
//! Many pools have few rankings: each is numbered when a pool with it is compiled, and its uses are counted. So a changed pool costs what it
//! changes, however many others there are.

use std::{collections::BTreeMap, sync::Arc};

use fairway_model::{Backend, ClusterCost, Latency};
use fairway_steering::classes::{Classes, Joined, Ranking};

use super::{
    order::MemberLatencies,
    pool::SteerPool,
    targets::{RankingUses, Ranks, TargetTable},
};
use crate::shares::UNBALANCED;

/// The location classes of load control.
#[derive(Debug)]
pub struct LoadClasses {
    groups: Vec<LoadGroup>,
    /// For each location class of each pool, from [`SteerPool::load_begin`] on: the number of its ranking.
    rankings: Arc<Vec<u32>>,
    /// For each ranking: its class, or [`LoadClasses::NONE`].
    of: Box<[u32]>,
    count: usize,
}

/// Clusters whose load is controlled together.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadGroup {
    /// The clusters, or the services in them, sorted.
    pub clusters: Vec<Backend>,
    /// Cost and weight of each cluster, by class. `None` if the class never gets it.
    pub costs: Vec<Vec<Option<ClusterCost>>>,
    /// Number of its first class.
    pub first: usize,
}

impl LoadGroup {
    /// Returns the cost of each cluster for a class.
    pub fn costs_of(&self, class: usize) -> impl ExactSizeIterator<Item = (&Backend, Option<ClusterCost>)> {
        self.clusters.iter().zip(self.costs[class].iter().copied())
    }
}

/// A ranking that pools have.
struct Used<'a> {
    number: usize,
    ranks: &'a Ranks,
    /// Number of blocks of client addresses with it.
    blocks: u64,
}

impl LoadClasses {
    /// No class: load control has nothing to decide.
    const NONE: u32 = u32::MAX;
    /// Maximum number of services that are balanced by themselves; of further ones, the load counts for nothing.
    pub const SERVICES_MAX: usize = 256;

    pub(crate) fn new(targets: &TargetTable, uses: &[RankingUses]) -> Self {
        let mut names: Vec<Option<&Backend>> = vec![None; targets.balanced.len()];
        targets.balanced.iter().for_each(|(name, number)| names[usize::from(*number)] = Some(name));
        let mut joined = Joined::new(names.len());
        let used = targets.rankings.iter().zip(uses).enumerate().filter(|(_, (_, uses))| uses.classes > 0);
        let used: Vec<Used<'_>> =
            used.map(|(number, (ranks, uses))| Used { number, ranks, blocks: uses.blocks }).collect();
        let first = |used: &Used<'_>| used.ranks.keys().next().copied();
        for ranking in &used {
            let Some(first) = first(ranking) else { continue };
            ranking.ranks.keys().for_each(|cluster| joined.join(first, *cluster));
        }
        let mut by_group: BTreeMap<u16, Vec<Used<'_>>> = BTreeMap::new();
        for ranking in used {
            let Some(first) = first(&ranking) else { continue };
            by_group.entry(joined.group(first)).or_default().push(ranking);
        }
        let of = vec![Self::NONE; targets.rankings.len()].into();
        let mut classes = Self { groups: Vec::new(), rankings: Arc::clone(&targets.class_rankings), of, count: 0 };
        let mut groups: Vec<Vec<Used<'_>>> = by_group.into_values().collect();
        // Clusters first, then services in order of their names: numbers depend on earlier configurations.
        let order = |of: &Vec<Used<'_>>| names[usize::from(first(&of[0])?)]?.service_order();
        groups.sort_by_key(order);
        let of_clusters = groups.iter().take_while(|of| order(of).is_none()).count();
        groups.iter().take(of_clusters + Self::SERVICES_MAX).for_each(|rankings| classes.add_group(rankings, &names));
        classes
    }

    fn add_group(&mut self, rankings: &[Used<'_>], names: &[Option<&Backend>]) {
        let mut numbers: Vec<u16> = rankings.iter().flat_map(|of| of.ranks.keys().copied()).collect();
        numbers.sort_by_key(|number| names[usize::from(*number)]);
        numbers.dedup();
        // More than two differ by where both have a cluster.
        let highest = rankings.iter().flat_map(|of| of.ranks.values()).map(|(cost, _)| cost / 1_000).max();
        let missing = 2.0 * f64::from(highest.unwrap_or_default().max(numbers.len() as u32));
        let ranking = |Used { ranks, blocks, .. }: &Used<'_>| {
            let cost = |number: &u16| ranks.get(number).map_or(missing, |(cost, _)| f64::from(*cost) / 1_000.0);
            let weight = |number: &u16| ranks.get(number).map_or(0.0, |(_, weight)| f64::from(*weight) / 1_000.0);
            let (costs, weights) = numbers.iter().map(|number| (cost(number), weight(number))).unzip();
            Ranking { costs, weights, demand: *blocks as f64 }
        };
        let mut all: Vec<(Ranking, usize)> = rankings.iter().map(|own| (ranking(own), own.number)).collect();
        // The numbers of clusters depend on earlier configurations, and which classes are merged on the order.
        let thousandths = |value: &f64| (value * 1_000.0).round() as u32;
        let key = |ranking: &Ranking| ranking.costs.iter().chain(&ranking.weights).map(thousandths).collect::<Vec<_>>();
        all.sort_by_cached_key(|(ranking, _)| key(ranking));
        let (ordered, places): (Vec<Ranking>, Vec<usize>) = all.into_iter().unzip();
        let classes = Classes::of(&ordered);
        for (place, class) in places.iter().zip(&classes.of) {
            self.of[*place] = (self.count + class) as u32;
        }
        let cost = |(cost, weight): (&f64, &f64)| {
            (*cost < missing).then(|| ClusterCost { cost: thousandths(cost), weight: thousandths(weight) })
        };
        let costs = |of: &Ranking| of.costs.iter().zip(&of.weights).map(cost).collect();
        self.groups.push(LoadGroup {
            clusters: numbers.iter().filter_map(|number| names[usize::from(*number)].cloned()).collect(),
            costs: classes.rankings.iter().map(costs).collect(),
            first: self.count,
        });
        self.count += classes.rankings.len();
    }

    /// Returns the groups.
    pub fn groups(&self) -> &[LoadGroup] {
        &self.groups
    }

    /// Returns the number of classes of all groups.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of the class that a location class of a pool belongs to.
    pub fn class(&self, pool: &SteerPool, class: u16) -> Option<usize> {
        let number = self.number(pool.load_begin, class);
        (pool.load && number < self.count).then_some(number)
    }

    /// Returns the number of the class that a location class belongs to, of a pool whose first one has the number `begin`. A number that no
    /// class has if there is none.
    #[inline]
    pub(crate) fn number(&self, begin: u32, class: u16) -> usize {
        let ranking = self.rankings.get(begin as usize + usize::from(class));
        ranking.and_then(|ranking| self.of.get(*ranking as usize)).map_or(usize::MAX, |number| *number as usize)
    }

    /// Returns the index of the group that a class belongs to, and its number there.
    pub fn place(&self, class: usize) -> (usize, usize) {
        let group = self.groups.partition_point(|group| group.first <= class).saturating_sub(1);
        (group, class - self.groups.get(group).map_or(0, |group| group.first))
    }
}

impl TargetTable {
    /// Numbers the rankings of the location classes of a pool, if it balances by load. Returns the index of the first.
    pub(super) fn rank(&mut self, pool: &SteerPool, latencies: &MemberLatencies<'_>) -> u32 {
        let begin = u32::try_from(self.class_rankings.len()).expect("memory ends before 2^32 classes");
        let classes = if pool.load { pool.orders.count() } else { 0 };
        for class in 0..classes {
            let ranks = pool.ranks(class, latencies);
            let known = self.rankings.get_index_of(&ranks);
            let number = known.unwrap_or_else(|| Arc::make_mut(&mut self.rankings).insert_full(ranks).0);
            Arc::make_mut(&mut self.class_rankings).push(number as u32); // at most one per class
        }
        begin
    }
}

impl SteerPool {
    /// Returns the costs of clusters in a location class, and their parts of the weights. A group with a cluster that takes all its clients,
    /// and what is farther, gets none by load. Neither do standby members.
    fn ranks(&self, class: u16, latencies: &MemberLatencies<'_>) -> Ranks {
        let mut ranks = Ranks::new();
        let groups = self.orders.class(class).chunk_by(|step, _| !step.ends_group());
        let (mut cost, mut before) = (0, None);
        for group in groups {
            let members = || group.iter().map(|step| &self.members[usize::from(step.index)]);
            if members().any(|member| member.standby || member.cluster == UNBALANCED) {
                break;
            }
            let own = members()
                .next()
                .map(|first| (first.tier, members().filter_map(|member| latencies(class, member.number)).min()));
            cost += before.zip(own).map_or(0, |(before, own)| step_cost(before, own));
            before = own;
            members().for_each(|member| _ = ranks.entry(member.cluster).or_insert((cost, member.weight)));
        }
        let sum: u64 = ranks.values().map(|(_, weight)| u64::from(*weight)).sum();
        for (_, weight) in ranks.values_mut() {
            *weight = (u64::from(*weight) * 1_000).div_ceil(sum.max(1)) as u16;
        }
        ranks
    }
}

/// Returns the cost of a group of members in addition to that of the group before it, in thousandths of a rank, from the tier and the least
/// latency of each.
fn step_cost((tier, latency): (u8, Option<Latency>), (next_tier, next): (u8, Option<Latency>)) -> u32 {
    match (latency, next) {
        (Some(Latency(before)), Some(Latency(next))) if tier == next_tier => {
            (next.saturating_sub(before) / 1_000).max(1) * 1_000 / MILLISECONDS_OF_RANK
        }
        _ => 1_000,
    }
}

/// Milliseconds of latency that cost as much as a rank: neighbouring regions of a continent are 10 to 30 ms apart
/// (docs/internals/load-control.md).
const MILLISECONDS_OF_RANK: u32 = 25;
