//! What clients of the webhook contribute: kept in the object store, read, joined, served.
//!
//! ```text
//! webhook ── changes ──► ledger ── parts of a client's rows ──► store ── events ──► Declared ── contributed() ──► a wish of rank webhook
//!         ◄── rows as they were adjusted ───────────────────────────────────────────┘                 └──► conditions
//! ```
//! A client's rows lie in up to [`PARTS`] objects of the store, by a sum of their names: a change writes few of them, and the largest
//! body fits one batch.

mod leases;
mod ledger;
mod listing;
mod owners;
mod read;
mod rows_wire;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{
    Condition, Desired, Fault, Held, Name, Offer, Permille, PoolName, RecordSet, Rtype, SharedNames, Subject, unite,
};
use fairway_providers::webhook_server::Scope;

pub(super) use self::rows_wire::read_seen;
pub(crate) use self::{leases::Strengths, ledger::ContributionLedger, read::ReadRow};
use self::{owners::Owners, read::Meaning};
use crate::{
    access::TokenHash,
    store::objects::{Key, Kind},
};

/// Names that are left out of the answers, with the reason.
pub(super) type LeftNames = BTreeMap<Name, String>;

/// What is contributed, as it is served.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contributed {
    /// What is wished for.
    pub(super) desired: Desired,
    /// What of it is not heeded.
    pub(crate) conditions: Vec<Condition>,
}

/// The rows of an object, with what they mean.
pub(super) fn read_part(octets: &[u8]) -> Result<Box<[ReadRow]>, String> {
    rows_wire::read(octets).map(|rows| rows.into_iter().map(ReadRow::new).collect())
}

/// Rows of one client.
pub(crate) type Rows<'a> = (Scope, Vec<&'a ReadRow>);

/// What rows come to beside what others declared. `strength` tells how much of an owner's weight is left.
pub(super) fn contributed(
    clients: &[Rows<'_>],
    beside: &Desired,
    shared: SharedNames,
    left: &LeftNames,
    strength: impl Fn(&Scope, &str) -> Permille,
) -> Contributed {
    let (mut offers, mut sets) = (BTreeMap::<_, Offer>::new(), Vec::new());
    let mut conditions = Vec::new();
    for (scope, rows) in clients {
        let owners = Owners::of(scope, rows);
        for row in rows {
            let owner = owners.of_row(row);
            let endpoint = &row.row.endpoint;
            let mut tell = |what: String| {
                let (name, set) = (endpoint.dns_name.as_str().into(), endpoint.set_identifier.as_str().into());
                conditions.push(Condition { name, owner: Arc::clone(&owner), set, what });
            };
            row.odd.iter().for_each(|what| tell(format!("{}: {what}", endpoint.record_type)));
            let Some(name) = &row.name else { continue };
            if beside.zone_of(name).is_none() {
                tell("it lies in none of the zones".to_owned());
                continue;
            }
            if let Some(why) = left.get(name) {
                tell(format!("{} is left out: {why}", endpoint.record_type));
                continue;
            }
            match &row.meaning {
                Meaning::Addresses(addresses, wanted) => {
                    let key = (name, Arc::clone(&owner), endpoint.set_identifier.as_str());
                    let offer = offers.entry(key).or_insert_with(|| Offer {
                        name: name.clone(),
                        owner: Arc::clone(&owner),
                        set: endpoint.set_identifier.as_str().into(),
                        since: row.row.since,
                        addresses: vec![],
                        wanted: Arc::clone(wanted),
                        strength: strength(scope, &owner),
                    });
                    offer.addresses.extend(addresses);
                    offer.since = offer.since.min(row.row.since);
                }
                Meaning::Records(set) if strength(scope, &owner) > Permille::default() => {
                    sets.push(OfferedSet { since: row.row.since, owner, row, set });
                }
                Meaning::Nothing | Meaning::Records(_) => {}
            }
        }
    }
    let held = Held { clusters: &beside.clusters, pools: &beside.pools, names: &beside.names };
    let united = unite(offers.into_values().collect(), shared, &held, pool_name);
    conditions.extend(united.conditions);
    let mut desired = united.desired;
    desired.records = records(sets, &desired, &mut conditions).into_iter().collect();
    conditions.sort();
    conditions.dedup();
    Contributed { desired, conditions }
}

/// A record set that a row offers.
struct OfferedSet<'a> {
    since: u64,
    owner: Arc<str>,
    row: &'a ReadRow,
    set: &'a RecordSet,
}

/// Record sets of all contributions: those of one name and type unite, but for a CNAME, of which there can be one.
fn records(
    mut sets: Vec<OfferedSet<'_>>,
    steered: &Desired,
    conditions: &mut Vec<Condition>,
) -> BTreeMap<(Name, Rtype), RecordSet> {
    let rank = |offered: &OfferedSet<'_>| (offered.since, Arc::clone(&offered.owner));
    sets.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.row.row.endpoint.key().cmp(&b.row.row.endpoint.key())));
    let mut joined: BTreeMap<(Name, Rtype), RecordSet> = BTreeMap::new();
    let others = sets.iter().filter(|offered| offered.set.rtype != Rtype::CNAME).map(|offered| &offered.set.name);
    let others: BTreeSet<&Name> = others.chain(steered.names.keys()).collect();
    for OfferedSet { owner, row, set, .. } in sets {
        let (name, rtype) = (&set.name, set.rtype);
        let refusal = match (rtype, joined.get(&set.key())) {
            (Rtype::CNAME, _) if others.contains(name) => Some(
                "other records are offered for the name, and beside a CNAME none can stand (RFC 1034 section 3.6.2)",
            ),
            (Rtype::CNAME, Some(first)) if first.rdatas != set.rdatas => {
                Some("another CNAME is offered for the name, and for longer; there can be but one")
            }
            (Rtype::CNAME, None) if set.rdatas.len() > 1 => Some("a CNAME has one target"),
            _ => None,
        };
        if let Some(what) = refusal {
            let endpoint = &row.row.endpoint;
            let (name, set) = (endpoint.dns_name.as_str().into(), endpoint.set_identifier.as_str().into());
            conditions.push(Condition { name, owner, set, what: what.to_owned() });
            continue;
        }
        match joined.get_mut(&set.key()) {
            None => _ = joined.insert(set.key(), set.clone()),
            Some(first) => {
                let rdatas = first.rdatas.iter().chain(&set.rdatas).cloned();
                *first = RecordSet::new(first.name.clone(), rtype, first.ttl.min(set.ttl), rdatas);
            }
        }
    }
    joined
}

impl Contributed {
    /// Leaves out the names that errors are about; false if they are about none that is contributed.
    pub(super) fn leave_out(&self, faults: &[Fault], left: &mut LeftNames) -> bool {
        let mut found = false;
        for fault in faults.iter().filter(|fault| fault.is_error()) {
            let Some(subject) = &fault.about else { continue };
            for name in self.names_of(subject) {
                found |= left.insert(name, format!("{}; {}", fault.what, fault.way_out)).is_none();
            }
        }
        found
    }

    /// Leaves out every name; false if none is left.
    pub(super) fn leave_all(&self, faults: &[Fault], left: &mut LeftNames) -> bool {
        let why = faults.iter().find(|fault| fault.is_error()).map(ToString::to_string).unwrap_or_default();
        let names = self.desired.names.keys().chain(self.desired.records.keys().map(|(name, _)| name));
        let before = left.len();
        left.extend(names.map(|name| (name.clone(), why.clone())));
        left.len() > before
    }

    /// The names that are contributed because of which there is something.
    fn names_of(&self, subject: &Subject) -> Vec<Name> {
        let of_pool = |pool: &PoolName| {
            let own = self.desired.names.values().filter(|steered| steered.pool == *pool);
            own.map(|steered| steered.name.clone()).collect()
        };
        match subject {
            Subject::Name(name) if self.desired.names.contains_key(name) => vec![name.clone()],
            Subject::Name(name) | Subject::Records(name, _) => {
                let is_own = self.desired.records.keys().any(|(own, _)| own == name);
                is_own.then(|| name.clone()).into_iter().collect()
            }
            Subject::Pool(pool) | Subject::Member(pool, _) => of_pool(pool),
            Subject::Cluster(cluster) if self.desired.clusters.contains_key(cluster) => {
                let has = |pool: &PoolName| {
                    self.desired.pools.get(pool).is_some_and(|pool| pool.members.iter().any(|m| m.cluster == *cluster))
                };
                let own = self.desired.names.values().filter(|steered| has(&steered.pool));
                own.map(|steered| steered.name.clone()).collect()
            }
            _ => vec![],
        }
    }
}

/// What the pool of a contributed name is called.
fn pool_name(name: &Name) -> PoolName {
    let text = name.to_string().to_ascii_lowercase();
    let text = format!("webhook+{}", name_part(text.trim_end_matches('.')));
    PoolName::new(&text).expect("made of what names may have")
}

/// A text as a part of an object's name: what such a name may not have is `+` and two digits, and what is too long ends in a hash. It ends in a
/// letter or digit.
fn name_part(text: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    let mut part = String::with_capacity(text.len());
    for octet in text.bytes() {
        match plain(octet) {
            true => part.push(char::from(octet)),
            false => part.push_str(&format!("+{octet:02x}")),
        }
    }
    let ends_well = part.bytes().last().is_some_and(|octet| octet.is_ascii_alphanumeric());
    if part.len() <= PART_MAX && ends_well {
        return part;
    }
    part.truncate(PART_MAX);
    // Nothing that is kept whole has two pluses in a row.
    format!("{part}++{}", &TokenHash::of(text).to_string()[..16])
}

/// The key of the object that a name's rows of a client lie in.
pub(super) fn part_key(scope: &Scope, plain: &str) -> Key {
    let sum = plain.bytes().fold(0x811c_9dc5_u32, |sum, octet| (sum ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    let part = format!("{:03x}", (sum ^ sum >> 16) % PARTS);
    Key::new(Kind::Contribution, &[scope_word(scope), &part]).expect("plain words")
}

/// The key of the object that says when a client was heard of.
pub(super) fn seen_key(scope: &Scope) -> Key {
    Key::new(Kind::Contributor, &[scope_word(scope)]).expect("plain words")
}

/// The word for a client in keys. No owner is called `@`.
pub(super) fn scope_word(scope: &Scope) -> &str {
    match scope {
        Scope::Root => "@",
        Scope::Owner(name) => name,
    }
}

/// The client whose rows lie at a key.
pub(super) fn scope_of(key: &Key) -> Option<Scope> {
    match key.names().next()? {
        "@" => Some(Scope::Root),
        name => Scope::owner(name),
    }
}

/// Into how many objects the rows of a client are parted.
const PARTS: u32 = 4_096;
/// Most characters of a text within an object's name, which has 128 in all.
const PART_MAX: usize = 80;
