//! Publishing to other DNS servers.

use std::{collections::BTreeSet, time::Duration};

use fairway_model::{Name, ProviderRecordSet, RecordSet, Rtype, Ttl};
use fairway_providers::publish::{Affix, Bounds, Ownership, Pacing, Policy, Rules, SealKey};
use fairway_zonefile::rdata_from_text;

use super::{Converter, monitors::secret, publish_to::destination};
use crate::{
    PublishTo, PublishedAlias, ServedDelegation, Settings, Steered, address_sets,
    bounds_wire::{Int, List, Text},
    is_owner,
    publish_wire::{self as wire, Publish},
    values_access::AccessName,
    values_wire::As,
};

/// Returns the owner id in registries of providers that name none.
pub(super) fn owner(publish: &Publish) -> &str {
    publish.owner.as_ref().map_or(Settings::PUBLISH_OWNER, |Text(owner)| owner)
}

pub(super) fn publish(converter: &mut Converter<'_, '_>, publish: &Publish) -> Vec<PublishTo> {
    let owner = owner(publish);
    if !is_owner(owner) {
        report_owner(converter, "/publish/owner", owner);
    }
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (index, provider) in publish.providers.iter().enumerate() {
        let pointer = format!("/publish/providers/{index}");
        let As(AccessName(name)) = &provider.name;
        if !seen.insert(name) {
            converter.error(
                format_args!("{pointer}/name"),
                format!("{name} is repeated"),
                "give each provider its own name",
            );
        }
        all.extend(self::provider(converter, &pointer, provider, owner));
    }
    all
}

fn provider(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::Provider, owner: &str) -> Option<PublishTo> {
    let As(AccessName(name)) = &from.name;
    let List(zones) = &from.zones;
    let zones: Vec<Name> = zones.iter().map(|As(zone)| zone.clone()).collect();
    let default = Bounds::default();
    let rules = Rules {
        policy: match from.policy {
            None | Some(wire::PublishPolicy::Sync) => Policy::Sync,
            Some(wire::PublishPolicy::UpsertOnly) => Policy::UpsertOnly,
            Some(wire::PublishPolicy::CreateOnly) => Policy::CreateOnly,
        },
        ownership: ownership(converter, pointer, from, owner),
        bounds: Bounds {
            deletions_max: from.deletions.max.map_or(default.deletions_max, |Int(max)| max as usize),
            deletions_percent: from.deletions.percent.map_or(default.deletions_percent, |Int(percent)| percent),
        },
        zones: zones.clone(),
    };
    let pacing = Pacing::default();
    let secs = Duration::from_secs;
    let pacing = Pacing {
        resync: converter.bounded(
            &format!("{pointer}/resync"),
            from.resync.as_ref(),
            &(secs(10)..=secs(86_400)),
            pacing.resync,
        ),
        call_gap: converter.bounded(
            &format!("{pointer}/callGap"),
            from.call_gap.as_ref(),
            &(Duration::ZERO..=secs(60)),
            pacing.call_gap,
        ),
    };
    let (mut fixed, mut served) = (Vec::new(), Vec::new());
    for (index, delegation) in from.delegations.iter().enumerate() {
        let all = ServedDelegation {
            zone: delegation.zone.0.clone(),
            ttl: delegation.ttl.as_ref().map_or(HOUR, |As(ttl)| *ttl),
            ds: ds(converter, &format!("{pointer}/delegations/{index}/ds"), &delegation.ds),
        };
        match &delegation.servers {
            Some(List(servers)) => fixed.extend(delegation_sets(all, servers, &zones)),
            None => served.push(all),
        }
    }
    Some(PublishTo {
        name: name.clone(),
        rules,
        pacing,
        auto: from.auto.unwrap_or(true),
        destination: destination(converter, pointer, from)?,
        steered: if from.steered.unwrap_or(true) { Steered::All } else { Steered::None },
        records: from.records.unwrap_or(false),
        aliases: from.aliases.iter().map(alias).collect(),
        fixed,
        served,
    })
}

fn ownership(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::Provider, owner: &str) -> Ownership {
    let (pointer, registry) = (format!("{pointer}/registry"), &from.registry);
    if from.dnsendpoint.is_some() {
        if registry.kind.is_some() {
            let what = "a folder of objects has no registry: ExternalDNS keeps that of their records";
            converter.error(&pointer, what, "remove it");
        }
        return Ownership::Whole;
    }
    match registry.kind {
        Some(wire::RegistryKind::Store) => return Ownership::Store,
        Some(wire::RegistryKind::None) => return Ownership::Unknown,
        Some(wire::RegistryKind::Txt) | None => {}
    }
    if let Some(Text(own)) = &registry.owner
        && !is_owner(own)
    {
        report_owner(converter, &format!("{pointer}/owner"), own);
    }
    let owner = registry.owner.as_ref().map_or(owner, |Text(owner)| owner);
    let prefix = registry.prefix.as_ref().map_or("", |Text(prefix)| prefix);
    let suffix = registry.suffix.as_ref().map_or("", |Text(suffix)| suffix);
    let wildcard = registry.wildcard.as_ref().map_or("", |Text(wildcard)| wildcard);
    let affix = Affix::new(prefix, suffix, wildcard).unwrap_or_else(|error| {
        converter.error(&pointer, error.to_string(), "shorten or leave out prefix, suffix and wildcard");
        Affix::default()
    });
    let key = registry.key.as_ref().and_then(|key| {
        let pointer = format!("{pointer}/key");
        let key = SealKey::new(secret(converter, &pointer, key)?);
        key.map_err(|error| converter.error(&pointer, error.to_string(), "use the key of ExternalDNS")).ok()
    });
    Ownership::Txt { affix, owner: owner.to_owned(), key }
}

fn report_owner(converter: &mut Converter<'_, '_>, pointer: &str, owner: &str) {
    let what = format!("{owner:?} is not a valid owner id of registry records");
    converter.error(pointer, what, "write it without commas, quotes, equals signs and control characters");
}

fn alias(from: &wire::Alias) -> PublishedAlias {
    let (As(name), As(of)) = (&from.name, &from.of);
    PublishedAlias { name: name.clone(), of: of.clone(), form: from.form.unwrap_or_default() }
}

fn ds(converter: &mut Converter<'_, '_>, pointer: &str, texts: &[Text<1, 512>]) -> Vec<Box<[u8]>> {
    let mut ds = Vec::new();
    for (at, Text(text)) in texts.iter().enumerate() {
        match rdata_from_text(Rtype::DS, text.as_bytes(), &Name::root()) {
            Ok(rdata) => ds.push(rdata),
            Err(error) => converter.error(
                format_args!("{pointer}/{at}"),
                format!("{text:?} is not a DS record: {error}"),
                "write TAG ALGORITHM DIGEST-TYPE DIGEST, with the digest in hexadecimal",
            ),
        }
    }
    ds
}

/// Returns the NS, glue and DS record sets of a delegation to these servers.
fn delegation_sets(of: ServedDelegation, servers: &[wire::NameServer], zones: &[Name]) -> Vec<ProviderRecordSet> {
    let ServedDelegation { zone, ttl, ds } = of;
    let names = servers.iter().map(|wire::NameServer { name: As(name), .. }| Box::from(name.as_wire()));
    let mut sets =
        vec![RecordSet::new(zone.clone(), Rtype::NS, ttl, names), RecordSet::new(zone.clone(), Rtype::DS, ttl, ds)];
    for wire::NameServer { name: As(name), addresses } in servers {
        if !zones.iter().any(|zone| name.is_within(zone)) {
            continue;
        }
        let addresses: Vec<_> = addresses.iter().map(|As(address)| *address).collect();
        sets.extend(address_sets(name, ttl, &addresses));
    }
    sets.into_iter().filter(|set| !set.rdatas.is_empty()).map(ProviderRecordSet::plain).collect()
}

/// Default TTL of delegations, which change seldom.
const HOUR: Ttl = match Ttl::from_secs(3_600) {
    Ok(ttl) => ttl,
    Err(_) => Ttl::MAX,
};
