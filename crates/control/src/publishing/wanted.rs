//! What is wanted at a provider: steered names with the addresses of the members that can take traffic, aliases, record sets,
//! delegations.

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use fairway_model::{DesiredState, Member, Name, Pool, ProviderRecordSet, RecordSet, Rtype, SteeredName, Ttl};
use fairway_providers::publish::{Wanted, Weights};
use fairway_zonefile::rdata_from_text;
use fairway_zones::{ServingState, explain};

use super::{
    members::eligible,
    weights::{Part, Shown},
};
use crate::configured::Configured;
use fairway_config::{AliasForm, PublishTo, ServedDelegation, Steered, address_sets};

/// What is served, for a provider.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    /// What is configured.
    pub configured: &'a Configured,
    /// What is answered.
    pub view: &'a ServingState,
    /// How the provider is told weights, if it knows them.
    pub weights: Option<Weights>,
    /// Now.
    pub now: Instant,
}

/// What is wanted there now. Names of which no member can take traffic are held: what stands there stays.
pub(super) fn wanted(to: &PublishTo, served: Served<'_>, shown: &mut Shown) -> Wanted {
    let desired = &served.configured.merged.desired;
    let mut wanted = Wanted { sets: to.fixed.clone(), held: BTreeSet::new() };
    let is_within = |name: &Name| to.rules.zones.iter().any(|zone| name.is_within(zone));
    match &to.steered {
        Steered::None => {}
        Steered::All => {
            for steered in desired.names.values().filter(|steered| is_within(&steered.name)) {
                add_addresses(&mut wanted, &steered.name, steered, served, shown);
            }
        }
        Steered::OfProject { project, within, without } => {
            let lies = |name: &Name, domains: &[Name]| domains.iter().any(|domain| name.is_within(domain));
            let is_meant =
                |name: &Name| is_within(name) && (within.is_empty() || lies(name, within)) && !lies(name, without);
            let names = served.configured.objects.names_of(project, desired);
            for (name, steered) in names.filter(|(name, _)| is_meant(name)) {
                match steered {
                    Some(steered) => add_addresses(&mut wanted, &name, steered, served, shown),
                    // An intent that does not fit now may fit again.
                    None => _ = wanted.held.insert(name),
                }
            }
        }
    }
    for alias in &to.aliases {
        match (desired.names.get(&alias.of), alias.form) {
            (Some(steered), AliasForm::Addresses) => add_addresses(&mut wanted, &alias.name, steered, served, shown),
            (Some(steered), AliasForm::Cname) => {
                let ttl = ttl_of(steered, desired);
                let set = RecordSet::new(alias.name.clone(), Rtype::CNAME, ttl, [Box::from(alias.of.as_wire())]);
                wanted.sets.push(ProviderRecordSet::plain(set));
            }
            // A name that is gone may come back; what leads to it is left to who wrote the alias.
            (None, _) => drop(wanted.held.insert(alias.name.clone())),
        }
    }
    if to.records {
        let sets = desired.records.values().filter(|set| is_within(&set.name)).cloned();
        wanted.sets.extend(sets.map(ProviderRecordSet::plain));
    }
    for delegation in &to.served {
        add_delegation(&mut wanted, delegation, served.view, &to.rules.zones);
    }
    wanted
}

fn ttl_of(steered: &SteeredName, desired: &DesiredState) -> Ttl {
    steered.ttl.or_else(|| desired.pools.get(&steered.pool).map(|pool| pool.ttl)).unwrap_or(Ttl::STEERED)
}

/// The addresses of a steered name at `name`: a set a cluster with its weight, where the provider knows weights. Where there is none, the
/// name is held.
fn add_addresses(wanted: &mut Wanted, name: &Name, steered: &SteeredName, served: Served<'_>, shown: &mut Shown) {
    let pool = served.configured.merged.desired.pools.get(&steered.pool);
    let members = pool.map_or_else(Vec::new, |pool| eligible(pool, served.configured, served.view));
    let ttl = ttl_of(steered, &served.configured.merged.desired);
    let before = wanted.sets.len();
    match (served.weights, pool) {
        (Some(how), Some(pool)) => {
            let parts: Vec<_> = members.iter().map(|(member, _)| part(pool, member, served.view)).collect();
            let weights = shown.weights(name, &parts, how.max(), served.now);
            for ((member, addresses), weight) in members.iter().zip(weights) {
                let sets = address_sets(name, ttl, &few(addresses.iter().copied()));
                wanted.sets.extend(sets.into_iter().map(|set| ProviderRecordSet {
                    set,
                    set_identifier: member.cluster.to_string(),
                    properties: [(how.field().to_owned(), weight.to_string())].into(),
                }));
            }
        }
        _ => {
            let addresses = few(members.into_iter().flat_map(|(_, addresses)| addresses));
            wanted.sets.extend(address_sets(name, ttl, &addresses).into_iter().map(ProviderRecordSet::plain));
        }
    }
    if wanted.sets.len() == before {
        wanted.held.insert(name.clone());
    }
}

/// In order, none twice, as many as are published.
fn few(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let addresses: BTreeSet<_> = addresses.collect();
    addresses.into_iter().take(ADDRESSES_MAX).collect()
}

fn part(pool: &Pool, member: &Member, view: &ServingState) -> Part {
    let shares = view.runtime.shares().filter(|_| pool.policy.load);
    let acceptance = shares.and_then(|shares| shares.accepted.get(&member.cluster));
    let accepts = acceptance.map_or(u16::MAX, |acceptance| acceptance.local);
    Part { cluster: member.cluster.clone(), weight: member.weight.0.max(1), accepts }
}

/// NS, glue and DS of a zone of ours as it is answered: its own NS, the addresses of those of them that lie within the provider's zones,
/// and what it says of its keys (CDS, RFC 7344). A zone that is not served is held.
fn add_delegation(wanted: &mut Wanted, delegation: &ServedDelegation, view: &ServingState, zones: &[Name]) {
    let ServedDelegation { zone, ttl, ds } = delegation;
    let answered = |name: &Name, rtype: Rtype| -> Vec<Box<[u8]>> {
        let answer = explain(view, name, rtype, None);
        let records = answer.answer.iter().filter(|record| answer.authoritative && record.rtype == rtype);
        let records = records.filter(|record| record.owner == *name);
        records.filter_map(|record| rdata_from_text(rtype, record.rdata.as_bytes(), &Name::root()).ok()).collect()
    };
    let servers = answered(zone, Rtype::NS);
    if servers.is_empty() {
        wanted.held.insert(zone.clone());
        return;
    }
    // Algorithm 0 asks the parent to take DS away (RFC 8078 section 4).
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

/// Most addresses of a published name: as many as a message without EDNS holds of either family.
const ADDRESSES_MAX: usize = 28;

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
