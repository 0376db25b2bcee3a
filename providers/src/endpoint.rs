//! Record sets as endpoints of ExternalDNS, and back.
//!
//! ExternalDNS writes names in targets without a final dot, except in SRV and NAPTR (`NewEndpointWithTTL`; the CRD source requires it), and
//! TXT with quotes. A set that cannot be parsed becomes a set without records. Labels are not converted: they belong to the client.

use std::collections::BTreeMap;

use fairway_model::{Changes as SetChanges, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Ttl};
use fairway_zonefile::{rdata_from_text, rdata_text};

use crate::{Changes, Endpoint, Labels, Property, sets::txt_of};

/// Returns a set as an endpoint.
pub(crate) fn endpoint(set: &ProviderRecordSet) -> Endpoint {
    let rtype = set.set.rtype;
    let property = |(name, value): (&String, &String)| Property { name: name.clone(), value: value.clone() };
    let target = |rdata: &[u8]| {
        let target = rdata_text(rtype, rdata);
        match target.strip_suffix('.') {
            Some(plain) if UNDOTTED.contains(&rtype) => plain.to_owned(),
            _ => target,
        }
    };
    Endpoint {
        dns_name: set.set.name.to_plain(),
        targets: set.set.rdatas.iter().map(|rdata| target(rdata)).collect(),
        record_type: rtype.to_string(),
        set_identifier: set.set_identifier.clone(),
        record_ttl: i64::from(set.set.ttl.secs()),
        labels: Labels::default(),
        provider_specific: set.properties.iter().map(property).collect(),
    }
}

/// Returns endpoints as sets. Endpoints with the same key become one set.
pub(crate) fn sets(endpoints: Vec<Endpoint>) -> Vec<ProviderRecordSet> {
    let mut sets: BTreeMap<RecordSetKey, ProviderRecordSet> = BTreeMap::new();
    for set in endpoints.into_iter().filter_map(set) {
        match sets.get_mut(&set.key()) {
            Some(there) => there.set.rdatas = there.set.rdatas.iter().chain(set.set.rdatas.iter()).cloned().collect(),
            None => {
                sets.insert(set.key(), set);
            }
        }
    }
    sets.into_values().collect()
}

/// Returns changes in the form of ExternalDNS.
pub(crate) fn changes(changes: &SetChanges) -> Changes {
    let all = |sets: &[ProviderRecordSet]| sets.iter().map(endpoint).collect();
    Changes {
        create: all(&changes.create),
        update_old: changes.update.iter().map(|update| endpoint(&update.from)).collect(),
        update_new: changes.update.iter().map(|update| endpoint(&update.to)).collect(),
        delete: all(&changes.delete),
    }
}

/// Returns an endpoint as a set, or `None` if its name or type is invalid.
fn set(endpoint: Endpoint) -> Option<ProviderRecordSet> {
    let rtype: Rtype = endpoint.record_type.parse().ok()?;
    // 0 means that no TTL is given.
    let ttl = u32::try_from(endpoint.record_ttl).ok().and_then(|ttl| Ttl::from_secs(ttl).ok()).unwrap_or(Ttl::MAX);
    let rdatas = endpoint.targets.iter().map(|target| rdata(rtype, target)).collect::<Option<Vec<_>>>();
    let properties = endpoint.provider_specific.into_iter().filter(|property| !property.name.is_empty());
    Some(ProviderRecordSet {
        set: RecordSet::new(endpoint.dns_name.parse().ok()?, rtype, ttl, rdatas.unwrap_or_default()),
        set_identifier: endpoint.set_identifier,
        properties: properties.map(|property| (property.name, property.value)).collect(),
    })
}

fn rdata(rtype: Rtype, target: &str) -> Option<Box<[u8]>> {
    if rtype == Rtype::TXT && !target.starts_with('"') {
        return Some(txt_of(target.as_bytes()));
    }
    rdata_from_text(rtype, target.as_bytes(), &Name::root()).ok()
}

/// Types whose targets end with a name without a final dot.
const UNDOTTED: &[Rtype] = &[Rtype::CNAME, Rtype::NS, Rtype::PTR, Rtype::DNAME, Rtype::MX];
/// Types that ExternalDNS supports.
pub(crate) const TYPES: &[Rtype] = &[
    Rtype::A,
    Rtype::AAAA,
    Rtype::CNAME,
    Rtype::TXT,
    Rtype::SRV,
    Rtype::NS,
    Rtype::PTR,
    Rtype::MX,
    Rtype::NAPTR,
    Rtype::DNAME,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_is_converted_with_identifier_and_fields() {
        let set =
            RecordSet::new("a.x.".parse().unwrap(), Rtype::CNAME, Ttl::STEERED, [Box::from(&b"\x01b\x01y\x00"[..])]);
        let properties = BTreeMap::from([("aws/weight".to_owned(), "5".to_owned())]);
        let set = ProviderRecordSet { set, set_identifier: "eu".to_owned(), properties };
        let endpoint = endpoint(&set);
        assert_eq!((&*endpoint.dns_name, &endpoint.targets[..]), ("a.x", &["b.y".to_owned()][..]));
        assert_eq!(sets(vec![endpoint]), [set]);
    }

    #[test]
    fn endpoints_of_one_key_are_one_set_and_invalid_targets_give_an_empty_set() {
        let endpoint = |name: &str, rtype: &str, target: &str| Endpoint {
            dns_name: name.to_owned(),
            record_type: rtype.to_owned(),
            targets: vec![target.to_owned()],
            ..Endpoint::default()
        };
        let read = sets(vec![
            endpoint("a.x", "A", "192.0.2.1"),
            endpoint("A.x.", "A", "192.0.2.2"),
            endpoint("a.x", "AAAA", "what"),
            endpoint("t.x", "TXT", "heritage=external-dns,external-dns/owner=o"),
            endpoint("a..x", "A", "192.0.2.3"),
            endpoint("b.x", "ALIAS", "y"),
        ]);
        let shown: Vec<_> = read.iter().map(|set| (set.key().to_string(), set.set.rdatas.len())).collect();
        let expected = [("a.x. A", 2), ("a.x. AAAA", 0), ("t.x. TXT", 1)];
        assert_eq!(shown, expected.map(|(key, count)| (key.to_owned(), count)));
    }
}
