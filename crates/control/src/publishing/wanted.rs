//! The wanted record sets at a provider: steered names with the addresses of available members, aliases, record sets, delegations.

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use fairway_model::{DesiredState, Member, Name, Pool, ProviderRecordSet, RecordSet, Rtype, SteeredName, Ttl};
use fairway_providers::publish::{MemberWeight, PublishedWeights, Wanted, Weights};
use fairway_zonefile::rdata_from_text;
use fairway_zones::{ServingState, explain};

use super::members::eligible;
use crate::configured::Configured;
use fairway_config::{AliasForm, PublishTo, ServedDelegation, Steered, address_sets};

/// Sources of the wanted record sets.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    /// The configuration in force.
    pub configured: &'a Configured,
    /// The serving state.
    pub state: &'a ServingState,
    /// Form of weights at the provider; `None` if it has none.
    pub weights: Option<Weights>,
    /// Time, for the pauses of weights.
    pub now: Instant,
}

/// Returns the record sets that are wanted now. Names without an available member are held: their published records stay.
pub(super) fn wanted(to: &PublishTo, sources: Sources<'_>, published: &mut PublishedWeights) -> Wanted {
    let desired = &sources.configured.merged.desired;
    let mut wanted = Wanted { sets: to.fixed.clone(), held: BTreeSet::new() };
    let is_within = |name: &Name| to.rules.zones.iter().any(|zone| name.is_within(zone));
    match &to.steered {
        Steered::None => {}
        Steered::All => {
            for steered in desired.names.values().filter(|steered| is_within(&steered.name)) {
                add_addresses(&mut wanted, &steered.name, steered, sources, published);
            }
        }
        Steered::OfProject { project, within, without } => {
            let is_in = |name: &Name, domains: &[Name]| domains.iter().any(|domain| name.is_within(domain));
            let is_selected =
                |name: &Name| is_within(name) && (within.is_empty() || is_in(name, within)) && !is_in(name, without);
            let names = sources.configured.objects.names_of(project, desired);
            for (name, steered) in names.filter(|(name, _)| is_selected(name)) {
                match steered {
                    Some(steered) => add_addresses(&mut wanted, &name, steered, sources, published),
                    // An intent that is not served now may be served later.
                    None => _ = wanted.held.insert(name),
                }
            }
        }
    }
    for alias in &to.aliases {
        match (desired.names.get(&alias.of), alias.form) {
            (Some(steered), AliasForm::Addresses) => {
                add_addresses(&mut wanted, &alias.name, steered, sources, published)
            }
            (Some(steered), AliasForm::Cname) => {
                let ttl = ttl_of(steered, desired);
                let set = RecordSet::new(alias.name.clone(), Rtype::CNAME, ttl, [Box::from(alias.of.as_wire())]);
                wanted.sets.push(ProviderRecordSet::plain(set));
            }
            // The steered name of the alias may be declared again; until then the published alias stays.
            (None, _) => drop(wanted.held.insert(alias.name.clone())),
        }
    }
    if to.records {
        let sets = desired.records.values().filter(|set| is_within(&set.name)).cloned();
        wanted.sets.extend(sets.map(ProviderRecordSet::plain));
    }
    for delegation in &to.served {
        add_delegation(&mut wanted, delegation, sources.state, &to.rules.zones);
    }
    wanted
}

fn ttl_of(steered: &SteeredName, desired: &DesiredState) -> Ttl {
    steered.ttl.or_else(|| desired.pools.get(&steered.pool).map(|pool| pool.ttl)).unwrap_or(Ttl::STEERED)
}

/// Adds the addresses of a steered name at `name`, with a weighted set per cluster if the provider has weights. Without an address, the
/// name is held.
fn add_addresses(
    wanted: &mut Wanted,
    name: &Name,
    steered: &SteeredName,
    sources: Sources<'_>,
    published: &mut PublishedWeights,
) {
    let pool = sources.configured.merged.desired.pools.get(&steered.pool);
    let members = pool.map_or_else(Vec::new, |pool| eligible(pool, sources.configured, sources.state));
    let ttl = ttl_of(steered, &sources.configured.merged.desired);
    let before = wanted.sets.len();
    match (sources.weights, pool) {
        (Some(form), Some(pool)) => {
            let weights: Vec<_> =
                members.iter().map(|(member, _)| member_weight(pool, member, sources.state)).collect();
            let weights = published.weights(name, &weights, form.max(), sources.now);
            for ((member, addresses), weight) in members.iter().zip(weights) {
                let sets = address_sets(name, ttl, &limited(addresses.iter().copied()));
                wanted.sets.extend(sets.into_iter().map(|set| ProviderRecordSet {
                    set,
                    set_identifier: member.cluster.to_string(),
                    properties: [(form.field().to_owned(), weight.to_string())].into(),
                }));
            }
        }
        _ => {
            let addresses = limited(members.into_iter().flat_map(|(_, addresses)| addresses));
            wanted.sets.extend(address_sets(name, ttl, &addresses).into_iter().map(ProviderRecordSet::plain));
        }
    }
    if wanted.sets.len() == before {
        wanted.held.insert(name.clone());
    }
}

/// Returns addresses in order without duplicates, at most [`ADDRESSES_MAX`].
fn limited(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let addresses: BTreeSet<_> = addresses.collect();
    addresses.into_iter().take(ADDRESSES_MAX).collect()
}

fn member_weight(pool: &Pool, member: &Member, state: &ServingState) -> MemberWeight {
    let shares = state.runtime.shares().filter(|_| pool.policy.load);
    let part = shares.and_then(|shares| shares.parts.get(&pool.backend(&member.cluster))).copied();
    MemberWeight { cluster: member.cluster.clone(), weight: member.weight.0.max(1), part }
}

/// Adds NS, glue and DS of a served zone: its own NS records, the addresses of name servers within the provider's zones, and its CDS
/// records as DS (RFC 7344). A zone that is not served is held.
fn add_delegation(wanted: &mut Wanted, delegation: &ServedDelegation, state: &ServingState, zones: &[Name]) {
    let ServedDelegation { zone, ttl, ds } = delegation;
    let answered = |name: &Name, rtype: Rtype| -> Vec<Box<[u8]>> {
        let answer = explain(state, name, rtype, None);
        let records =
            answer.message.answer.iter().filter(|record| answer.message.authoritative && record.rtype == rtype);
        let records = records.filter(|record| record.owner == *name);
        records.filter_map(|record| rdata_from_text(rtype, record.rdata.as_bytes(), &Name::root()).ok()).collect()
    };
    let servers = answered(zone, Rtype::NS);
    if servers.is_empty() {
        wanted.held.insert(zone.clone());
        return;
    }
    // Algorithm 0 requests the removal of DS records (RFC 8078 section 4).
    let of_keys =
        answered(zone, Rtype::CDS).into_iter().filter(|cds| cds.get(2).is_some_and(|algorithm| *algorithm > 0));
    let ds = if ds.is_empty() { of_keys.collect() } else { ds.clone() };
    let mut sets = vec![RecordSet::new(zone.clone(), Rtype::DS, *ttl, ds)];
    for server in servers.iter().filter_map(|server| Name::from_wire(server).ok()) {
        if !zones.iter().any(|zone| server.is_within(zone)) {
            continue;
        }
        for rtype in [Rtype::A, Rtype::AAAA] {
            sets.push(RecordSet::new(server.clone(), rtype, *ttl, answered(&server, rtype)));
        }
    }
    sets.push(RecordSet::new(zone.clone(), Rtype::NS, *ttl, servers));
    wanted.sets.extend(sets.into_iter().filter(|set| !set.rdatas.is_empty()).map(ProviderRecordSet::plain));
}

/// Maximum number of addresses of a published name: a response of 512 octets without EDNS holds 28 A records of 16 octets, with 64 octets
/// for header, question and flags.
const ADDRESSES_MAX: usize = 28;

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
