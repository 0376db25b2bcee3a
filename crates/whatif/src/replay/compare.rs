//! Answers the same queries under two configurations, and counts the answers.

use std::collections::{BTreeMap, HashMap};

use fairway_model::{ClusterName, DesiredState, Network, PoolName, SplitMix};
use fairway_zones::{Draw, PlayedQuery, Player, ServingState};

use crate::Offline;

use super::report_wire::{ClusterShare, PoolReport, Report};

/// The new configuration, and the one before it.
#[derive(Debug)]
pub struct Sides {
    /// Configuration to compare with; `None` to count the new one alone.
    pub before: Option<Offline>,
    /// The new configuration.
    pub after: Offline,
}

/// Counts so far.
pub struct Comparison<'a> {
    sides: &'a Sides,
    player: Player,
    pools: BTreeMap<PoolName, PoolCounts>,
    /// Number of queries.
    queries: u64,
    /// Number of queries that no pool answered.
    unsteered: u64,
    /// Number of client networks that are counted one by one, over all pools.
    networks: usize,
}

/// Counts of one pool.
#[derive(Default)]
struct PoolCounts {
    queries: u64,
    moved: u64,
    before: BTreeMap<Choice, u64>,
    after: BTreeMap<Choice, u64>,
    /// Client networks; true if an answer to them changes.
    clients: HashMap<Network, bool>,
}

/// First cluster of an answer; `None` if the answer is not a choice among members.
type Choice = Option<ClusterName>;

/// Choice of the last pool in the chain of aliases.
struct PoolAnswer {
    pool: PoolName,
    client: Network,
    choice: Choice,
}

impl<'a> Comparison<'a> {
    /// Returns a comparison without queries.
    pub fn new(sides: &'a Sides) -> Self {
        Self { sides, player: Player::default(), pools: BTreeMap::new(), queries: 0, unsteered: 0, networks: 0 }
    }

    /// Answers a query under both configurations, and counts the answers.
    pub fn add(&mut self, query: &PlayedQuery) {
        self.queries += 1;
        // The same draw under both, so that a difference comes from the configuration.
        let draw = Draw(SplitMix::new(self.queries).bits());
        let after = answer(&mut self.player, &self.sides.after.view, query, draw);
        let before = self.sides.before.as_ref().map(|side| answer(&mut self.player, &side.view, query, draw));
        let Some(PoolAnswer { pool, client, choice }) = after else {
            self.unsteered += 1;
            return;
        };
        let counts = self.pools.entry(pool).or_default();
        let choice_before = before.map(|answer| answer.and_then(|answer| answer.choice));
        let moves = choice_before.as_ref().is_some_and(|before| *before != choice);
        counts.queries += 1;
        counts.moved += u64::from(moves);
        if let Some(before) = choice_before {
            *counts.before.entry(before).or_default() += 1;
        }
        *counts.after.entry(choice).or_default() += 1;
        if let Some(known) = counts.clients.get_mut(&client) {
            *known |= moves;
        } else if self.networks < NETWORKS_MAX {
            self.networks += 1;
            counts.clients.insert(client, moves);
        }
    }

    /// Returns the report. `offered` is the demand in percent of all capacity.
    pub fn report(self, offered: Option<f64>) -> Report {
        let compared = self.sides.before.is_some();
        let mut totals: [BTreeMap<Choice, u64>; 2] = Default::default();
        for counts in self.pools.values() {
            for (total, side) in totals.iter_mut().zip([&counts.before, &counts.after]) {
                for (choice, count) in side {
                    *total.entry(choice.clone()).or_default() += count;
                }
            }
        }
        let capacities = capacities(&self.sides.after.desired, self.pools.keys());
        let [before, after] = totals;
        let mut clusters = shares(&before, &after, compared);
        for share in &mut clusters {
            share.set_load(capacities.get(&share.cluster).copied(), offered);
        }
        let complete = self.networks < NETWORKS_MAX;
        Report {
            queries: self.queries,
            unsteered: self.unsteered,
            compared,
            clusters,
            pools: self.pools.into_iter().map(|(name, counts)| counts.report(&name, compared, complete)).collect(),
            ..Report::default()
        }
    }
}

impl PoolCounts {
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

/// Answers a query. Returns the choice of the last pool in the chain of aliases; `None` if no pool answered.
fn answer(player: &mut Player, state: &ServingState, query: &PlayedQuery, draw: Draw) -> Option<PoolAnswer> {
    let mut last = None;
    player.play(state, query, draw, |heard| {
        let first = heard.members.first().and_then(|number| heard.pool.clusters().nth(usize::from(*number)));
        let (pool, client) = (heard.pool.name().clone(), heard.client.network());
        last = Some(PoolAnswer { pool, client, choice: first.cloned() });
    });
    last
}

/// Returns the shares by name; the share of answers without a cluster is last.
fn shares(before: &BTreeMap<Choice, u64>, after: &BTreeMap<Choice, u64>, compared: bool) -> Vec<ClusterShare> {
    let sum = |side: &BTreeMap<Choice, u64>| side.values().sum::<u64>().max(1) as f64;
    let part = |side: &BTreeMap<Choice, u64>, choice: &Choice| {
        100.0 * side.get(choice).copied().unwrap_or_default() as f64 / sum(side)
    };
    let mut choices: Vec<&Choice> = before.keys().chain(after.keys()).collect();
    choices.sort_by_key(|choice| (choice.is_none(), *choice));
    choices.dedup();
    let share = |choice: &Choice| ClusterShare {
        cluster: choice.as_ref().map_or_else(|| ClusterShare::NO_CLUSTER.to_owned(), ToString::to_string),
        before: compared.then(|| part(before, choice)),
        after: part(after, choice),
        ..ClusterShare::default()
    };
    choices.into_iter().map(share).collect()
}

/// Returns each cluster's part of the capacity of all members of pools; empty unless each of them declares its capacity.
fn capacities<'a>(desired: &DesiredState, pools: impl Iterator<Item = &'a PoolName>) -> BTreeMap<String, f64> {
    let members = pools.filter_map(|pool| desired.pools.get(pool)).flat_map(|pool| &pool.members);
    let capacity = |cluster: &ClusterName| desired.clusters.get(cluster).and_then(|cluster| cluster.capacity);
    let known = members.map(|member| Some((&member.cluster, capacity(&member.cluster)?)));
    let Some(known) = known.collect::<Option<BTreeMap<_, _>>>() else { return BTreeMap::new() };
    let sum: f64 = known.values().map(|capacity| *capacity as f64).sum();
    known.into_iter().map(|(name, capacity)| (name.to_string(), capacity as f64 / sum)).collect()
}

/// Largest number of client networks that are counted one by one, over all pools. They take about 100 MB.
const NETWORKS_MAX: usize = 1_000_000;
