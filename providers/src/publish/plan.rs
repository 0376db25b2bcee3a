//! The difference between what is wanted and what is there.
//!
//! ```text
//!            | not there | ours, alike | ours, different | somebody else's
//!  wanted    | create    | keep        | update          | obstacle
//!  held      |           | keep        | keep            |
//!  otherwise |           | delete      | delete          | never touched
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey, Rtype, Update};

use super::registry::{Current, Owner, Ownership};

/// What is to stand at a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The sets; one without records holds its name.
    pub sets: Vec<ProviderRecordSet>,
    /// Names that are wanted and have no records at the moment: what stands there stays. An answer that may be wrong is better than none.
    pub held: BTreeSet<Name>,
}

/// Where a publisher may write, and what.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The zones there. A name belongs to the longest that it is within.
    pub zones: &'a [Name],
    /// Types that the provider can write; none for all.
    pub types: Option<&'a [Rtype]>,
    /// Whether several sets of one name and type are told apart.
    pub set_identifiers: bool,
}

impl Scope<'_> {
    /// The zone that a name belongs to.
    pub fn zone_of(&self, name: &Name) -> Option<&Name> {
        self.zones.iter().filter(|zone| name.is_within(zone)).max_by_key(|zone| zone.label_count())
    }
}

/// Why a wanted set is not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No zone of the provider holds it.
    #[error("it is in no zone of this provider; add the zone to its `zones`, or publish the name elsewhere")]
    OutsideZones,
    /// The zone's own.
    #[error(
        "SOA, the NS of the zone itself, and what signs it belong to the server of the zone; they are never published"
    )]
    OfTheZone,
    /// The provider cannot write it.
    #[error("this provider cannot write records of this type")]
    Type,
    /// The provider leaves it out where it is asked what it will keep.
    #[error("this provider says that it will not keep it: compare the domains and the types that it is set up for")]
    Dropped,
    /// The provider knows no set identifiers.
    #[error("this provider knows no set identifiers and no weights; publish the name as addresses")]
    SetIdentifier,
    /// Two sets with one key.
    #[error("it is wanted twice, with different records; the first is published")]
    Twice,
    /// An alias beside other records (RFC 2181 section 10.1).
    #[error("an alias (CNAME) and other records would stand at one name; publish it under another name")]
    Alias,
    /// A set that is not ours stands there.
    #[error("a record set that nobody claims is there already; delete it there, and it is published")]
    Unclaimed,
    /// A set of another owner stands there.
    #[error(
        "it belongs to the owner {0:?}; it is published once that one has let go of it, or `fairway publish take` has taken it over"
    )]
    OfOther(String),
    /// A set stands there that is being taken over.
    #[error(
        "it is being taken over from the owner {0:?}; `fairway publish take --from {0} --step finish` (or `abort`) ends that"
    )]
    Coming(String),
    /// The place of the registry's TXT record is taken.
    #[error("other TXT records stand where its registry record would have to; give the registry a prefix or a suffix")]
    CompanionTaken,
    /// A registry's TXT record stands there, or will.
    #[error("the registry's own TXT record of another name stands there; give the registry a prefix or a suffix")]
    Registry,
    /// The registry's TXT record would lie outside the zone, or be no name.
    #[error(
        "its registry record would lie outside the zone or be too long; give the registry the prefix \"%{{record_type}}.\""
    )]
    CompanionOutside,
}

impl Obstacle {
    /// It in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::OutsideZones => "outside_zones",
            Self::OfTheZone => "of_the_zone",
            Self::Type => "type",
            Self::Dropped => "dropped",
            Self::SetIdentifier => "set_identifier",
            Self::Twice => "twice",
            Self::Alias => "alias",
            Self::Unclaimed => "unclaimed",
            Self::OfOther(_) => "of_other",
            Self::Coming(_) => "coming",
            Self::CompanionTaken | Self::Registry | Self::CompanionOutside => "registry",
        }
    }
}

/// What is to be done, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// To be carried out, without what the registry adds.
    pub changes: Changes,
    /// Sets of ours that are as they are wanted, or held.
    pub kept: Vec<RecordSetKey>,
    /// Wanted sets that cannot be published.
    pub refused: Vec<(RecordSetKey, Obstacle)>,
}

/// Compares.
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
    // A set that cannot be published as it is wanted is not one that is wanted no more.
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

/// What is at each name once all is done: what is wanted with its registry records, and what others have.
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

    fn has_alias_beside_others(&self, name: &Name) -> bool {
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
    let Some(zone) = scope.zone_of(name) else { return Some(Obstacle::OutsideZones) };
    if OF_THE_ZONE.contains(&rtype) || rtype.is_meta() || rtype == Rtype::NS && name == zone {
        return Some(Obstacle::OfTheZone);
    }
    if scope.types.is_some_and(|types| !types.contains(&rtype)) {
        return Some(Obstacle::Type);
    }
    if !set.set_identifier.is_empty() && !scope.set_identifiers {
        return Some(Obstacle::SetIdentifier);
    }
    if at.has_alias_beside_others(name) {
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

/// Whether a set is as it is wanted. TTL 0 is what providers say that keep none; fields that are not wanted are theirs to add.
fn is_alike(wanted: &ProviderRecordSet, there: &ProviderRecordSet) -> bool {
    let is_ttl_alike = there.set.ttl.secs() == 0 || wanted.set.ttl == there.set.ttl;
    let fields = |(name, value)| there.properties.get(name) == Some(value);
    is_ttl_alike && wanted.properties.iter().all(fields) && folded(wanted) == folded(there)
}

/// The records with names in lower case, sorted: case is kept by some and lowered by others.
fn folded(set: &ProviderRecordSet) -> BTreeSet<Vec<u8>> {
    let name_at = match set.set.rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => 0,
        Rtype::MX => 2,
        Rtype::SRV => 6,
        _ => usize::MAX,
    };
    let fold = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        // Length octets are at most 63 and so never letters.
        rdata.get_mut(name_at..).into_iter().for_each(<[u8]>::make_ascii_lowercase);
        rdata
    };
    set.set.rdatas.iter().map(|rdata| fold(rdata)).collect()
}

/// Types that the server of a zone keeps itself.
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
