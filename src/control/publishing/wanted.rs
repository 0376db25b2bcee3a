//! What is wanted at a provider: steered names with the addresses of the members that can take traffic, aliases, record sets,
//! delegations.

use std::{collections::BTreeSet, net::IpAddr};

use fairway_model::{
    Desired, Member, Mode, Name, Pool, ProviderSet, Rank, RecordSet, Rtype, Standing, SteeredName, Ttl,
};
use fairway_providers::publish::Wanted;
use fairway_zones::View;

use crate::{
    config::{AliasForm, PublishTo, address_sets},
    control::configured::Configured,
};

/// What is wanted there now. Names of which no member can take traffic are held: what stands there stays.
pub(super) fn wanted(to: &PublishTo, configured: &Configured, view: &View) -> Wanted {
    let desired = &configured.desired;
    let mut wanted = Wanted { sets: to.fixed.clone(), held: BTreeSet::new() };
    let is_within = |name: &Name| to.rules.zones.iter().any(|zone| name.is_within(zone));
    if to.steered {
        for steered in desired.names.values().filter(|steered| is_within(&steered.name)) {
            add_addresses(&mut wanted, &steered.name, steered, (configured, view));
        }
    }
    for alias in &to.aliases {
        match (desired.names.get(&alias.of), alias.form) {
            (Some(steered), AliasForm::Addresses) => {
                add_addresses(&mut wanted, &alias.name, steered, (configured, view))
            }
            (Some(steered), AliasForm::Cname) => {
                let ttl = ttl_of(steered, desired);
                let set = RecordSet::new(alias.name.clone(), Rtype::CNAME, ttl, [Box::from(alias.of.as_wire())]);
                wanted.sets.push(ProviderSet::plain(set));
            }
            // A name that is gone may come back; what leads to it is left to who wrote the alias.
            (None, _) => drop(wanted.held.insert(alias.name.clone())),
        }
    }
    if to.records {
        let sets = desired.records.values().filter(|set| is_within(&set.name)).cloned();
        wanted.sets.extend(sets.map(ProviderSet::plain));
    }
    wanted
}

fn ttl_of(steered: &SteeredName, desired: &Desired) -> Ttl {
    steered.ttl.or_else(|| desired.pools.get(&steered.pool).map(|pool| pool.ttl)).unwrap_or(Ttl::STEERED)
}

/// The addresses of a steered name at `name`; where there is none, the name is held.
fn add_addresses(wanted: &mut Wanted, name: &Name, steered: &SteeredName, (configured, view): (&Configured, &View)) {
    let pool = configured.desired.pools.get(&steered.pool);
    let addresses = pool.map_or_else(Vec::new, |pool| addresses(pool, configured, view));
    let sets = address_sets(name, ttl_of(steered, &configured.desired), &addresses);
    if sets.is_empty() {
        wanted.held.insert(name.clone());
    }
    wanted.sets.extend(sets.into_iter().map(ProviderSet::plain));
}

/// The addresses that any client may get: of members that are up, of the best tier that has one, standbys where nobody else is up.
fn addresses(pool: &Pool, configured: &Configured, view: &View) -> Vec<IpAddr> {
    if pool.mode != Mode::Address {
        return Vec::new();
    }
    let up: Vec<(&Member, Vec<IpAddr>)> = pool
        .members
        .iter()
        // Who is for some clients alone is not for a server that tells no clients apart.
        .filter(|member| !member.internal && member.networks.is_empty() && is_open(pool, member, view))
        .map(|member| (member, up(pool, member, configured, view)))
        .filter(|(_, addresses)| !addresses.is_empty())
        .collect();
    let has_share = |(member, _): &&(&Member, Vec<IpAddr>)| member.weight.0 > 0;
    let only_standbys = !up.iter().any(|one| has_share(&one));
    let eligible: Vec<_> = up.iter().filter(|one| only_standbys || has_share(one)).collect();
    let tier = eligible.iter().map(|(member, _)| member.tier).min();
    // Where clients are told apart by place before tiers are, each tier is the best of somebody.
    let by_tier =
        !pool.policy.ranks.first().is_some_and(|rank| *rank != Rank::Tier && pool.policy.ranks.contains(&Rank::Tier));
    let chosen = eligible.into_iter().filter(|(member, _)| !by_tier || Some(member.tier) == tier);
    let mut addresses: Vec<_> = chosen.flat_map(|(_, addresses)| addresses.iter().copied()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

fn is_open(pool: &Pool, member: &Member, view: &View) -> bool {
    let schedule = view.conditions.schedule(&view.snapshot, &pool.name, &member.cluster);
    schedule.is_none_or(|schedule| schedule.turn.open)
}

/// The addresses of a member that are up, or were when last judged.
fn up(pool: &Pool, member: &Member, configured: &Configured, view: &View) -> Vec<IpAddr> {
    let cluster = configured.desired.clusters.get(&member.cluster);
    let is_up = |address: &IpAddr| {
        let site = (member.cluster.clone(), *address);
        let mut standings =
            configured.uses.targets(&pool.name, &site).map(|target| view.conditions.health(target).standing());
        standings.any(|standing| matches!(standing, Standing::Up | Standing::Unknown))
    };
    cluster.map_or_else(Vec::new, |cluster| cluster.addresses.iter().copied().filter(is_up).collect())
}

/// Most addresses of a published name: as many as a message without EDNS holds of either family.
const ADDRESSES_MAX: usize = 28;
