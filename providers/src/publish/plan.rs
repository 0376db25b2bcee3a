//! The plan: the difference between wanted and current sets.
//!
//! ```text
//!            | missing | owned, equal | owned, different | of another owner
//!  wanted    | create  | keep         | update           | obstacle
//!  held      |         | keep         | keep             |
//!  otherwise |         | delete       | delete           | never changed
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey, Rtype, Update};

use super::registry::{Current, Owner, Ownership};
use crate::sets::zone_of;

/// The wanted state of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Wanted sets; a set without records holds its name.
    pub sets: Vec<ProviderRecordSet>,
    /// Names that are wanted but have no records now: existing sets stay, since a possibly wrong answer is better than none.
    pub held: BTreeSet<Name>,
}

/// Zones and types that a publisher may write.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Zones of the provider. A name belongs to the longest matching one.
    pub zones: &'a [Name],
    /// Types that the provider can write; `None` for all.
    pub types: Option<&'a [Rtype]>,
    /// True if the provider supports set identifiers.
    pub set_identifiers: bool,
}

/// The reason why a wanted set cannot be published.
///
/// As `&str` it is a label of metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Obstacle {
    /// The name is in no zone of the provider.
    #[error("the name is in no zone of this provider; add the zone to its `zones`, or publish the name elsewhere")]
    OutsideZones,
    /// The set belongs to the server of the zone.
    #[error("SOA, the zone's own NS and DNSSEC records belong to the server of the zone; they are never published")]
    OfTheZone,
    /// The provider does not support the type.
    #[error("this provider cannot write records of this type")]
    Type,
    /// The provider omitted it from the sets that it will keep.
    #[error("this provider will not keep it; check the domains and types that the provider is configured for")]
    Dropped,
    /// The provider does not support set identifiers.
    #[error("this provider supports no set identifiers and no weights; publish the name as addresses")]
    SetIdentifier,
    /// Two sets with one key.
    #[error("it is declared twice with different records; the first is published")]
    Twice,
    /// A CNAME at a name with other records (RFC 2181 section 10.1).
    #[error("the name would have a CNAME and other records; publish it under another name")]
    Alias,
    /// The provider has a set without an owner.
    #[error("the provider already has this record set, without an owner; delete it there, and it is published")]
    Unclaimed,
    /// The provider has a set of another owner.
    #[error(
        "it belongs to the owner {0:?}; it is published once that owner removes it, or `fairway publish take` takes it over"
    )]
    OfOther(String),
    /// A handover of the set is in progress.
    #[error(
        "a handover from the owner {0:?} is in progress; end it with `fairway publish take --from {0} --step finish` (or `abort`)"
    )]
    Coming(String),
    /// Other records have the name of its registry record.
    #[error("other records have the name of its registry record; give the registry a prefix or a suffix")]
    #[strum(serialize = "registry")]
    CompanionTaken,
    /// The set has the name of a registry record.
    #[error("the registry record of another name has this name; give the registry a prefix or a suffix")]
    #[strum(serialize = "registry")]
    Registry,
    /// The name of its registry record is outside the zone or invalid.
    #[error(
        "the name of its registry record is outside the zone or too long; give the registry the prefix \"%{{record_type}}.\""
    )]
    #[strum(serialize = "registry")]
    CompanionOutside,
}

/// Changes, and sets that cannot be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Changes without registry records.
    pub changes: Changes,
    /// Owned sets that are as wanted, or held.
    pub kept: Vec<RecordSetKey>,
    /// Wanted sets that cannot be published.
    pub refused: Vec<(RecordSetKey, Obstacle)>,
}

/// Returns the plan.
pub fn plan(wanted: &Wanted, current: &Current, scope: Scope<'_>, ownership: &Ownership) -> Plan {
    let mut plan = Plan::default();
    let mut taken: BTreeMap<RecordSetKey, &ProviderRecordSet> = BTreeMap::new();
    let at = At::new(wanted, current, ownership);
    let mut held: BTreeSet<_> = wanted.held.iter().cloned().collect();
    for set in &wanted.sets {
        let key = set.key();
        if set.set.rdatas.is_empty() {
            held.insert(set.set.name.clone());
            continue;
        }
        let obstacle = match taken.get(&key) {
            Some(first) if *first == set => continue,
            Some(_) => Some(Obstacle::Twice),
            None => obstacle(set, &at, current, (scope, ownership)),
        };
        match obstacle {
            Some(obstacle) => plan.refused.push((key, obstacle)),
            None => drop(taken.insert(key, set)),
        }
    }
    for (key, set) in &taken {
        match current.sets.get(key) {
            None => plan.changes.create.push((*set).clone()),
            Some(there) if is_alike(set, &there.set) => plan.kept.push(key.clone()),
            Some(there) => plan.changes.update.push(Update { from: there.set.clone(), to: (*set).clone() }),
        }
    }
    // A set that cannot be updated is still wanted, so it must not be deleted.
    let refused: BTreeSet<_> = plan.refused.iter().map(|(key, _)| key.clone()).collect();
    for (key, there) in current.sets.iter().filter(|(key, there)| there.owner == Owner::Us && !taken.contains_key(key))
    {
        if held.contains(&key.name) || refused.contains(key) {
            plan.kept.push(key.clone());
        } else if *ownership != Ownership::Unknown {
            plan.changes.delete.push(there.set.clone());
        }
    }
    plan
}

/// The types at each name after the sync: wanted sets, their registry records, and sets of other owners.
struct At {
    types: HashMap<Name, BTreeSet<Rtype>>,
    companions: HashSet<RecordSetKey>,
}

impl At {
    fn new(wanted: &Wanted, current: &Current, ownership: &Ownership) -> Self {
        let keys: Vec<_> =
            wanted.sets.iter().filter(|set| !set.set.rdatas.is_empty()).map(ProviderRecordSet::key).collect();
        let companions: HashSet<_> = keys.iter().filter_map(|key| ownership.companion_key(key)).collect();
        let foreign = current.sets.iter().filter(|(_, there)| there.owner != Owner::Us).map(|(key, _)| key);
        let mut types: HashMap<Name, BTreeSet<Rtype>> = HashMap::new();
        for key in keys.iter().chain(&companions).chain(foreign) {
            types.entry(key.name.clone()).or_default().insert(key.rtype);
        }
        Self { types, companions }
    }

    fn has_alias(&self, name: &Name) -> bool {
        self.types.get(name).is_some_and(|types| types.contains(&Rtype::CNAME))
    }

    fn has_alias_and_others(&self, name: &Name) -> bool {
        self.has_alias(name) && self.types.get(name).is_some_and(|types| types.len() > 1)
    }
}

fn obstacle(
    set: &ProviderRecordSet,
    at: &At,
    current: &Current,
    (scope, ownership): (Scope<'_>, &Ownership),
) -> Option<Obstacle> {
    let (key, name, rtype) = (set.key(), &set.set.name, set.set.rtype);
    let Some(zone) = zone_of(scope.zones, name) else { return Some(Obstacle::OutsideZones) };
    if OF_THE_ZONE.contains(&rtype) || rtype.is_meta() || rtype == Rtype::NS && name == zone {
        return Some(Obstacle::OfTheZone);
    }
    if scope.types.is_some_and(|types| !types.contains(&rtype)) {
        return Some(Obstacle::Type);
    }
    if !set.set_identifier.is_empty() && !scope.set_identifiers {
        return Some(Obstacle::SetIdentifier);
    }
    if at.has_alias_and_others(name) {
        return Some(Obstacle::Alias);
    }
    if at.companions.contains(&key) || current.is_registry(&key) {
        return Some(Obstacle::Registry);
    }
    match current.sets.get(&key).map(|there| &there.owner) {
        Some(Owner::Nobody) => return Some(Obstacle::Unclaimed),
        Some(Owner::Other(owner)) => return Some(Obstacle::OfOther(owner.clone())),
        Some(Owner::Coming(from)) => return Some(Obstacle::Coming(from.clone())),
        Some(Owner::Us) | None => {}
    }
    if matches!(ownership, Ownership::Txt { .. }) {
        match ownership.companion_key(&key) {
            Some(place) if !place.name.is_within(zone) => return Some(Obstacle::CompanionOutside),
            Some(place) if at.has_alias(&place.name) => return Some(Obstacle::CompanionTaken),
            Some(_) => {}
            None => return Some(Obstacle::CompanionOutside),
        }
    }
    match ownership.companion_taken(&key, current)? {
        Owner::Other(owner) => Some(Obstacle::OfOther(owner)),
        Owner::Us | Owner::Coming(_) | Owner::Nobody => Some(Obstacle::CompanionTaken),
    }
}

/// Returns true if a set is as wanted. TTL 0 means that the provider keeps no TTL; a provider may add fields of its own.
fn is_alike(wanted: &ProviderRecordSet, there: &ProviderRecordSet) -> bool {
    let is_ttl_alike = there.set.ttl.secs() == 0 || wanted.set.ttl == there.set.ttl;
    let fields = |(name, value)| there.properties.get(name) == Some(value);
    is_ttl_alike && wanted.properties.iter().all(fields) && folded(wanted) == folded(there)
}

/// Returns the records sorted, with names in lower case, since some providers change the case.
fn folded(set: &ProviderRecordSet) -> BTreeSet<Vec<u8>> {
    let name_at = match set.set.rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => 0,
        Rtype::MX => 2,
        Rtype::SRV => 6,
        _ => usize::MAX,
    };
    let fold = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        // Length bytes of labels are at most 63 and so never letters.
        if let Some(name) = rdata.get_mut(name_at..) {
            name.make_ascii_lowercase();
        }
        rdata
    };
    set.set.rdatas.iter().map(|rdata| fold(rdata)).collect()
}

/// Types that the server of a zone maintains.
const OF_THE_ZONE: &[Rtype] = &[
    Rtype::SOA,
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::DNSKEY,
    Rtype::CDS,
    Rtype::CDNSKEY,
];

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
