//! Counts what two configurations answer to the same queries.

use std::collections::{BTreeMap, HashMap};

use fairway_model::{ClusterName, DesiredState, Network, PoolName, SplitMix};
use fairway_zones::{Draw, PlayedQuery, Player, ServingState};

use fairway_control::Offline;

use super::report_wire::{ClusterShare, PoolReport, Report};

/// The configuration that is to come, and the one before it.
#[derive(Debug)]
pub struct Sides {
    /// What it is compared with; none to look at the new one alone.
    pub before: Option<Offline>,
    /// What is to come.
    pub after: Offline,
}

/// What was counted so far.
pub struct Comparison<'a> {
    sides: &'a Sides,
    player: Player,
    pools: BTreeMap<PoolName, Counted>,
    /// Queries played.
    played: u64,
    /// Of those, queries that no pool answered.
    unsteered: u64,
    /// Client networks told apart so far, over all pools.
    networks: usize,
}

/// What was counted of one pool.
#[derive(Default)]
struct Counted {
    queries: u64,
    moved: u64,
    before: BTreeMap<Given, u64>,
    after: BTreeMap<Given, u64>,
    /// Client networks, and whether their answer changes.
    clients: HashMap<Network, bool>,
}

/// What a pool gave: the first cluster of its answer, or none where it was not a choice among members.
type Given = Option<ClusterName>;

/// The last pool that chose, for whom, and what it gave.
struct Chosen {
    pool: PoolName,
    client: Network,
    given: Given,
}

impl<'a> Comparison<'a> {
    /// Starts with nothing counted.
    pub fn new(sides: &'a Sides) -> Self {
        let (pools, player) = (BTreeMap::new(), Player::default());
        Self { sides, player, pools, played: 0, unsteered: 0, networks: 0 }
    }

    /// Plays one query on both sides.
    pub fn play(&mut self, query: &PlayedQuery) {
        self.played += 1;
        // The same draw on both sides: what moves, moves because of the configuration.
        let draw = Draw(SplitMix::new(self.played).bits());
        let after = chosen(&mut self.player, &self.sides.after.view, query, draw);
        let before = self.sides.before.as_ref().map(|side| chosen(&mut self.player, &side.view, query, draw));
        let Some(Chosen { pool, client, given }) = after else {
            self.unsteered += 1;
            return;
        };
        let counted = self.pools.entry(pool).or_default();
        let given_before = before.map(|chosen| chosen.and_then(|chosen| chosen.given));
        let moves = given_before.as_ref().is_some_and(|before| *before != given);
        counted.queries += 1;
        counted.moved += u64::from(moves);
        if let Some(before) = given_before {
            *counted.before.entry(before).or_default() += 1;
        }
        *counted.after.entry(given).or_default() += 1;
        if let Some(known) = counted.clients.get_mut(&client) {
            *known |= moves;
        } else if self.networks < NETWORKS_MAX {
            self.networks += 1;
            counted.clients.insert(client, moves);
        }
    }

    /// What it comes to. `offered` is how much of all capacity is asked for, in percent.
    pub fn report(self, offered: Option<f64>) -> Report {
        let compared = self.sides.before.is_some();
        let mut totals: [BTreeMap<Given, u64>; 2] = Default::default();
        for counted in self.pools.values() {
            for (total, side) in totals.iter_mut().zip([&counted.before, &counted.after]) {
                side.iter().for_each(|(given, count)| *total.entry(given.clone()).or_default() += count);
            }
        }
        let capacities = capacities(&self.sides.after.desired, self.pools.keys());
        let [before, after] = totals;
        let mut clusters = shares(&before, &after, compared);
        for share in &mut clusters {
            share.weigh(capacities.get(&share.cluster).copied(), offered);
        }
        let complete = self.networks < NETWORKS_MAX;
        Report {
            played: self.played,
            unsteered: self.unsteered,
            compared,
            clusters,
            pools: self.pools.into_iter().map(|(name, counted)| counted.report(&name, compared, complete)).collect(),
            ..Report::default()
        }
    }
}

impl Counted {
    fn report(self, name: &PoolName, compared: bool, complete: bool) -> PoolReport {
        PoolReport {
            pool: name.to_string(),
            queries: self.queries,
            moved: compared.then_some(self.moved),
            networks: self.clients.len() as u64,
            networks_moved: compared.then(|| self.clients.values().filter(|moves| **moves).count() as u64),
            networks_complete: complete,
            clusters: shares(&self.before, &self.after, compared),
        }
    }
}

/// What the last pool of the chain chose for a query; none where no pool did.
fn chosen(player: &mut Player, view: &ServingState, query: &PlayedQuery, draw: Draw) -> Option<Chosen> {
    let mut last = None;
    player.play(view, query, draw, |heard| {
        let first = heard.members.first().and_then(|number| heard.pool.clusters().nth(usize::from(*number)));
        let (pool, client) = (heard.pool.name().clone(), heard.client.network());
        last = Some(Chosen { pool, client, given: first.cloned() });
    });
    last
}

/// The shares of what was given, by name, what is no cluster last.
fn shares(before: &BTreeMap<Given, u64>, after: &BTreeMap<Given, u64>, compared: bool) -> Vec<ClusterShare> {
    let sum = |side: &BTreeMap<Given, u64>| side.values().sum::<u64>().max(1) as f64;
    let part = |side: &BTreeMap<Given, u64>, given: &Given| {
        100.0 * side.get(given).copied().unwrap_or_default() as f64 / sum(side)
    };
    let mut given: Vec<&Given> = before.keys().chain(after.keys()).collect();
    given.sort_by_key(|given| (given.is_none(), *given));
    given.dedup();
    let share = |given: &Given| ClusterShare {
        cluster: given.as_ref().map_or_else(|| ClusterShare::NO_CLUSTER.to_owned(), ToString::to_string),
        before: compared.then(|| part(before, given)),
        after: part(after, given),
        ..ClusterShare::default()
    };
    given.into_iter().map(share).collect()
}

/// Each cluster's part of the capacity of all members of these pools, if every one declares its capacity.
fn capacities<'a>(desired: &DesiredState, pools: impl Iterator<Item = &'a PoolName>) -> BTreeMap<String, f64> {
    let members = pools.filter_map(|pool| desired.pools.get(pool)).flat_map(|pool| &pool.members);
    let capacity = |cluster: &ClusterName| desired.clusters.get(cluster).and_then(|cluster| cluster.capacity);
    let known = members.map(|member| Some((&member.cluster, capacity(&member.cluster)?)));
    let Some(known) = known.collect::<Option<BTreeMap<_, _>>>() else { return BTreeMap::new() };
    let sum: f64 = known.values().map(|capacity| *capacity as f64).sum();
    known.into_iter().map(|(name, capacity)| (name.to_string(), capacity as f64 / sum)).collect()
}

/// Most client networks that are told apart, over all pools: about 100 MB.
const NETWORKS_MAX: usize = 1_000_000;
