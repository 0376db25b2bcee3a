//! Publishing to other DNS servers.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use fairway_model::{Cluster, ClusterName, Name, ProviderRecordSet, RecordSet, Rtype, SharedMap};
use fairway_providers::publish::{Affix, Bounds, Ownership, Pacing, Rules, SealKey};
use fairway_zonefile::rdata_from_text;

use super::{Converter, monitors::secret, publish_to::destination, zones::HOUR};
use crate::{
    PublishTo, PublishedAlias, ServedDelegation, Steered, address_sets,
    bounds_wire::{As, Plain, Text},
    is_owner, publish_wire as wire,
};

/// Converts the providers. `owner` is the owner id of those that name none.
pub(super) fn publish(
    converter: &mut Converter<'_, '_>,
    list: Vec<wire::Provider>,
    owner: &str,
    clusters: &SharedMap<ClusterName, Cluster>,
) -> Vec<PublishTo> {
    check_owner(converter, "/publish/owner", owner);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (index, provider) in list.into_iter().enumerate() {
        let pointer = format!("/publish/providers/{index}");
        let name = &provider.name.0.0;
        if !seen.insert(name.clone()) {
            let what = format!("{name} is repeated");
            converter.error(format_args!("{pointer}/name"), what, "give each provider its own name");
        }
        all.extend(self::provider(converter, &pointer, provider, owner, clusters));
    }
    all
}

fn provider(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    mut from: wire::Provider,
    owner: &str,
    clusters: &SharedMap<ClusterName, Cluster>,
) -> Option<PublishTo> {
    let (bounds, pacing) = (Bounds::default(), Pacing::default());
    let rules = Rules {
        policy: from.policy.plain().unwrap_or_default(),
        ownership: ownership(converter, pointer, &from, owner),
        bounds: Bounds {
            deletions_max: from.deletions.max.plain().unwrap_or(bounds.deletions_max),
            deletions_percent: from.deletions.percent.plain().unwrap_or(bounds.deletions_percent),
        },
        zones: std::mem::take(&mut from.zones.0).plain(),
    };
    let secs = Duration::from_secs;
    let resync = format_args!("{pointer}/resync");
    let pacing = Pacing {
        resync: converter.bounded(resync, from.resync, secs(10)..=secs(86_400), pacing.resync),
        call_gap: converter.bounded(
            format_args!("{pointer}/callGap"),
            from.call_gap,
            Duration::ZERO..=secs(60),
            pacing.call_gap,
        ),
    };
    let (mut fixed, mut served) = (Vec::new(), Vec::new());
    for (index, delegation) in std::mem::take(&mut from.delegations).into_iter().enumerate() {
        let all = ServedDelegation {
            zone: delegation.zone.0,
            ttl: delegation.ttl.plain().unwrap_or(HOUR),
            ds: ds(converter, &format!("{pointer}/delegations/{index}/ds"), &delegation.ds),
        };
        match delegation.servers {
            Some(As(servers)) => fixed.extend(delegation_sets(all, servers, &rules.zones)),
            None => served.push(all),
        }
    }
    let alias = |from: wire::Alias| PublishedAlias {
        name: from.name.0,
        of: from.of.0,
        form: from.form.plain().unwrap_or_default(),
    };
    Some(PublishTo {
        name: from.name.0.0.clone(),
        rules,
        pacing,
        auto: from.auto.unwrap_or(true),
        steered: if from.steered.unwrap_or(true) { Steered::All } else { Steered::None },
        records: from.records.unwrap_or(false),
        aliases: std::mem::take(&mut from.aliases).into_iter().map(alias).collect(),
        destination: destination(converter, pointer, from, clusters)?,
        fixed,
        served,
    })
}

fn ownership(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::Provider, owner: &str) -> Ownership {
    let (pointer, registry) = (format!("{pointer}/registry"), &from.registry);
    if from.dnsendpoint.is_some() {
        if registry.kind.is_some() {
            let what = "DNSEndpoint objects have no registry: ExternalDNS keeps that of their records";
            converter.error(&pointer, what, "remove it");
        }
        return Ownership::Whole;
    }
    match registry.kind.plain() {
        Some(wire::RegistryKind::Store) => return Ownership::Store,
        Some(wire::RegistryKind::None) => return Ownership::Unknown,
        Some(wire::RegistryKind::Txt) | None => {}
    }
    if let Some(As(own)) = &registry.owner {
        check_owner(converter, &format!("{pointer}/owner"), own);
    }
    let owner = registry.owner.as_ref().map_or(owner, |As(owner)| owner);
    let text = |given: &Option<_>| given.clone().plain().unwrap_or_default();
    let (prefix, suffix) = (text(&registry.prefix), text(&registry.suffix));
    let wildcard = registry.wildcard.clone().plain().unwrap_or_default();
    let affix = Affix::new(&prefix, &suffix, &wildcard).unwrap_or_else(|error| {
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

fn check_owner(converter: &mut Converter<'_, '_>, pointer: &str, owner: &str) {
    if !is_owner(owner) {
        let what = format!("{owner:?} is not a valid owner id of registry records");
        let hint = "write it without commas, quotes, equals signs and control characters";
        converter.error(pointer, what, hint);
    }
}

fn ds(converter: &mut Converter<'_, '_>, pointer: &str, texts: &[Text<1, 512>]) -> Vec<Box<[u8]>> {
    let mut ds = Vec::new();
    for (at, As(text)) in texts.iter().enumerate() {
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
fn delegation_sets(of: ServedDelegation, servers: Vec<wire::NameServer>, zones: &[Name]) -> Vec<ProviderRecordSet> {
    let ServedDelegation { zone, ttl, ds } = of;
    let names = servers.iter().map(|server| Box::from(server.name.0.as_wire()));
    let mut sets = vec![RecordSet::new(zone.clone(), Rtype::NS, ttl, names), RecordSet::new(zone, Rtype::DS, ttl, ds)];
    for wire::NameServer { name: As(name), addresses } in servers {
        if zones.iter().any(|zone| name.is_within(zone)) {
            let addresses: Vec<IpAddr> = addresses.plain();
            sets.extend(address_sets(&name, ttl, &addresses));
        }
    }
    sets.into_iter().filter(|set| !set.rdatas.is_empty()).map(ProviderRecordSet::plain).collect()
}
