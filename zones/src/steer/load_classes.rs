//! Location classes of load control: how the clients of all pools rank the clusters.
//!
//! Clusters that share a pool are one group, whose load is controlled together. Each location class of each pool ranks the clusters of its
//! group; a cluster that the pool does not have is missing. Equal rankings with equal weights are one class whatever pool they are of, and
//! the most similar ones are merged until a group has few. All of it follows from the snapshot, so servers with one configuration have the
//! same classes.

use std::collections::BTreeMap;

use fairway_model::{ClusterCost, ClusterName};
use fairway_steering::classes::{Classes, Ranking};

use super::{pool::SteerPool, targets::TargetTable};
use crate::{chunks::Chunks, shares::UNBALANCED};

/// The location classes of load control.
#[derive(Debug)]
pub struct LoadClasses {
    groups: Vec<LoadGroup>,
    /// For each location class of each pool, from [`SteerPool::load_begin`] on: its number here, or [`LoadClasses::NONE`].
    of: Box<[u32]>,
    count: usize,
}

/// Clusters whose load is controlled together.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadGroup {
    /// The clusters, sorted by name.
    pub clusters: Vec<ClusterName>,
    /// Cost and weight of each cluster, by class. `None` if the class never gets it.
    pub costs: Vec<Vec<Option<ClusterCost>>>,
    /// Number of its first class.
    pub first: usize,
}

impl LoadGroup {
    /// Returns the cost of each cluster for a class.
    pub fn costs_of(&self, class: usize) -> impl ExactSizeIterator<Item = (&ClusterName, Option<ClusterCost>)> {
        self.clusters.iter().zip(self.costs[class].iter().copied())
    }
}

/// Ranking of clusters, by their numbers: the rank of each, and its part of their weights in thousandths.
type Ranks = BTreeMap<u16, (u8, u16)>;

/// Clients with one ranking.
#[derive(Default)]
struct Clients {
    /// Number of blocks of client addresses.
    blocks: u64,
    /// Places in [`LoadClasses::of`].
    places: Vec<usize>,
}

impl LoadClasses {
    /// No class: load control has nothing to decide.
    const NONE: u32 = u32::MAX;

    pub(crate) fn new(pools: &Chunks<SteerPool>, targets: &TargetTable) -> Self {
        let mut names: Vec<Option<&ClusterName>> = vec![None; targets.balanced.len()];
        targets.balanced.iter().for_each(|(name, number)| names[usize::from(*number)] = Some(name));
        let mut joined = Joined::new(names.len());
        let mut rankings: BTreeMap<Ranks, Clients> = BTreeMap::new();
        for pool in pools.iter().filter(|pool| pool.load) {
            for (class, blocks) in (0u16..).zip(pool.blocks_by_class()) {
                let ranks = pool.ranks(class);
                let Some(first) = ranks.keys().next().copied() else { continue };
                ranks.keys().for_each(|cluster| joined.join(first, *cluster));
                let clients = rankings.entry(ranks).or_default();
                clients.blocks += u64::from(blocks);
                clients.places.push(pool.load_begin as usize + usize::from(class));
            }
        }
        let mut by_group: BTreeMap<u16, Vec<(Ranks, Clients)>> = BTreeMap::new();
        for (ranks, clients) in rankings {
            let Some(first) = ranks.keys().next().copied() else { continue };
            by_group.entry(joined.group(first)).or_default().push((ranks, clients));
        }
        let mut classes = Self { groups: Vec::new(), of: vec![Self::NONE; targets.load_classes()].into(), count: 0 };
        by_group.into_values().for_each(|rankings| classes.add_group(&rankings, &names));
        classes
    }

    fn add_group(&mut self, rankings: &[(Ranks, Clients)], names: &[Option<&ClusterName>]) {
        let mut numbers: Vec<u16> = rankings.iter().flat_map(|(ranks, _)| ranks.keys().copied()).collect();
        numbers.sort_by_key(|number| names[usize::from(*number)]);
        numbers.dedup();
        // More than two differ by where both have a cluster.
        let missing = 2.0 * numbers.len() as f64;
        let ranking = |(ranks, clients): &(Ranks, Clients)| {
            let cost = |number: &u16| ranks.get(number).map_or(missing, |(rank, _)| f64::from(*rank));
            let weight = |number: &u16| ranks.get(number).map_or(0.0, |(_, weight)| f64::from(*weight) / 1_000.0);
            let (costs, weights) = numbers.iter().map(|number| (cost(number), weight(number))).unzip();
            Ranking { costs, weights, demand: clients.blocks as f64 }
        };
        let mut all: Vec<(Ranking, &Clients)> = rankings.iter().map(|own| (ranking(own), &own.1)).collect();
        // The numbers of clusters depend on earlier configurations, and which classes are merged on the order.
        let thousandths = |value: &f64| (value * 1_000.0).round() as u32;
        let key = |ranking: &Ranking| ranking.costs.iter().chain(&ranking.weights).map(thousandths).collect::<Vec<_>>();
        all.sort_by_cached_key(|(ranking, _)| key(ranking));
        let (ordered, clients): (Vec<Ranking>, Vec<&Clients>) = all.into_iter().unzip();
        let classes = Classes::of(&ordered);
        for (clients, class) in clients.iter().zip(&classes.of) {
            clients.places.iter().for_each(|place| self.of[*place] = (self.count + class) as u32);
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
        self.of.get(begin as usize + usize::from(class)).map_or(usize::MAX, |number| *number as usize)
    }

    /// Returns the index of the group that the clusters of a pool belong to.
    pub fn group(&self, pool: &SteerPool) -> Option<usize> {
        let class = (0..pool.orders.count()).find_map(|class| self.class(pool, class))?;
        Some(self.place(class).0)
    }

    /// Returns the index of the group that a class belongs to, and its number there.
    pub fn place(&self, class: usize) -> (usize, usize) {
        let group = self.groups.partition_point(|group| group.first <= class).saturating_sub(1);
        (group, class - self.groups.get(group).map_or(0, |group| group.first))
    }
}

impl SteerPool {
    /// Returns the ranks of clusters in a location class, and their parts of the weights. A group with a cluster that takes all its clients,
    /// and what is farther, gets none by load. Neither do standby members.
    fn ranks(&self, class: u16) -> Ranks {
        let mut ranks = Ranks::new();
        let groups = self.orders.class(class).chunk_by(|step, _| !step.ends_group());
        for group in groups {
            let members = || group.iter().map(|step| &self.members[usize::from(step.index)]);
            if members().any(|member| member.standby || member.cluster == UNBALANCED) {
                break;
            }
            members().for_each(|member| _ = ranks.entry(member.cluster).or_insert((group[0].group, member.weight)));
        }
        let sum: u64 = ranks.values().map(|(_, weight)| u64::from(*weight)).sum();
        for (_, weight) in ranks.values_mut() {
            *weight = (u64::from(*weight) * 1_000).div_ceil(sum.max(1)) as u16;
        }
        ranks
    }
}

/// Clusters that are joined to groups.
struct Joined(Vec<u16>);

impl Joined {
    fn new(count: usize) -> Self {
        Self((0..=u16::MAX).take(count).collect())
    }

    /// Returns the first cluster of the group.
    fn group(&mut self, cluster: u16) -> u16 {
        let mut at = cluster;
        while self.0[usize::from(at)] != at {
            let above = self.0[usize::from(self.0[usize::from(at)])];
            self.0[usize::from(at)] = above;
            at = above;
        }
        at
    }

    fn join(&mut self, a: u16, b: u16) {
        let (a, b) = (self.group(a), self.group(b));
        self.0[usize::from(a.max(b))] = a.min(b);
    }
}
