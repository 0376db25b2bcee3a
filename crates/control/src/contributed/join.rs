//! What rows come to, each name by itself; and anew for the names that a change touches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{
    ContributionProblem, DeclaredClusters, DeclaredObjects, DesiredState, MergedName, Name, NameContribution, Permille,
    Pool, RecordSet, Rtype, SharedNamePolicy, SteeredName, merge_name,
};

use super::{
    LeftNames, pool_name,
    read::{Meaning, ReadRow},
};

/// A row, with who brings it.
#[derive(Clone, Debug)]
pub struct Brought<'a> {
    pub(crate) owner: Arc<str>,
    /// How much is left of what its writer brings.
    pub lease_weight: Permille,
    pub(crate) row: &'a ReadRow,
}

/// What is declared beside the rows: it has the higher rank.
pub struct Beside<'a> {
    /// Its zones.
    pub zones: &'a DesiredState,
    /// Its clusters.
    pub clusters: &'a DeclaredClusters,
    /// How a name is steered by it.
    pub steered: &'a dyn Fn(&Name) -> Option<Steered<'a>>,
    /// What is done with names that several owners offer.
    pub shared: SharedNamePolicy,
    /// Names that are left out.
    pub left: &'a LeftNames,
}

/// A name that is steered, its pool, and whether that answers other names, too.
type Steered<'a> = (&'a SteeredName, &'a Pool, bool);

/// What the rows of one name come to.
#[derive(Default)]
pub(super) struct Joined {
    /// None where no address is offered.
    pub of_name: Option<MergedName>,
    pub records: BTreeMap<Rtype, RecordSet>,
    /// What is not heeded, in order, each once.
    pub conditions: Vec<ContributionProblem>,
}

/// Joins the rows of one name, or of what is none.
pub(super) fn join(rows: &[Brought<'_>], beside: &Beside<'_>) -> Joined {
    let mut joined = Joined::default();
    let (mut offers, mut sets) = (BTreeMap::<_, NameContribution>::new(), Vec::new());
    for Brought { owner, lease_weight, row } in rows {
        let mut tell = |what| joined.conditions.push(condition(row, owner, what));
        row.odd.iter().for_each(|what| tell(format!("{}: {what}", row.row.endpoint.record_type)));
        let Some(name) = &row.name else { continue };
        if beside.zones.zone_of(name).is_none() {
            tell("it is in no declared zone".to_owned());
            continue;
        }
        if let Some(why) = beside.left.get(name) {
            tell(format!("{} is left out: {why}", row.row.endpoint.record_type));
            continue;
        }
        match &row.meaning {
            Meaning::Addresses(addresses, wanted) => {
                let set: Arc<str> = row.row.endpoint.set_identifier.as_str().into();
                let offer = offers.entry((Arc::clone(owner), Arc::clone(&set))).or_insert_with(|| NameContribution {
                    owner: Arc::clone(owner),
                    set,
                    since: row.row.since,
                    addresses: vec![],
                    spec: Arc::clone(wanted),
                    lease_weight: *lease_weight,
                });
                offer.addresses.extend(addresses);
                offer.since = offer.since.min(row.row.since);
            }
            Meaning::Records(set) if *lease_weight > Permille::default() => {
                sets.push(OfferedSet { since: row.row.since, owner: Arc::clone(owner), row, set });
            }
            Meaning::Nothing | Meaning::Records(_) => {}
        }
    }
    if let Some(name) = rows.iter().find_map(|brought| brought.row.name.as_ref()).filter(|_| !offers.is_empty()) {
        let declared = (beside.steered)(name);
        let held = DeclaredObjects {
            clusters: beside.clusters,
            steered: declared.map(|(steered, pool, _)| (steered, pool)),
            is_shared: declared.is_some_and(|(.., is_shared)| is_shared),
        };
        let mut of_name = merge_name(name, offers.into_values().collect(), beside.shared, &held, pool_name(name));
        joined.conditions.append(&mut of_name.problems);
        joined.of_name = Some(of_name);
    }
    let is_steered = joined.of_name.as_ref().is_some_and(|of_name| of_name.steered.is_some());
    joined.records = records(sets, is_steered, &mut joined.conditions);
    joined.conditions.sort();
    joined.conditions.dedup();
    joined
}

fn condition(row: &ReadRow, owner: &Arc<str>, what: String) -> ContributionProblem {
    let endpoint = &row.row.endpoint;
    let (name, set) = (endpoint.dns_name.as_str().into(), endpoint.set_identifier.as_str().into());
    ContributionProblem { name, owner: Arc::clone(owner), set, message: what }
}

/// A record set that a row offers.
struct OfferedSet<'a> {
    since: u64,
    owner: Arc<str>,
    row: &'a ReadRow,
    set: &'a RecordSet,
}

/// Record sets of a name, of all contributions: those of one type unite, but for a CNAME, of which there can be one.
fn records(
    mut sets: Vec<OfferedSet<'_>>,
    is_steered: bool,
    conditions: &mut Vec<ContributionProblem>,
) -> BTreeMap<Rtype, RecordSet> {
    let rank = |offered: &OfferedSet<'_>| (offered.since, Arc::clone(&offered.owner), offered.row.row.endpoint.key());
    sets.sort_by_cached_key(rank);
    let has_others = is_steered || sets.iter().any(|offered| offered.set.rtype != Rtype::CNAME);
    let mut joined: BTreeMap<Rtype, RecordSet> = BTreeMap::new();
    for OfferedSet { owner, row, set, .. } in sets {
        let refusal = match (set.rtype, joined.get(&set.rtype)) {
            (Rtype::CNAME, _) if has_others => Some(
                "other records are offered for the name, and beside a CNAME none can stand (RFC 1034 section 3.6.2)",
            ),
            (Rtype::CNAME, Some(first)) if first.rdatas != set.rdatas => {
                Some("another CNAME is offered for the name, and for longer; there can be but one")
            }
            (Rtype::CNAME, None) if set.rdatas.len() > 1 => Some("a CNAME has one target"),
            _ => None,
        };
        if let Some(what) = refusal {
            conditions.push(condition(row, &owner, what.to_owned()));
            continue;
        }
        match joined.get_mut(&set.rtype) {
            None => _ = joined.insert(set.rtype, set.clone()),
            Some(first) => {
                let rdatas = first.rdatas.iter().chain(&set.rdatas).cloned();
                *first = RecordSet::new(first.name.clone(), set.rtype, first.ttl.min(set.ttl), rdatas);
            }
        }
    }
    joined
}

/// The texts of the names whose rows differ between two versions of a part, and of those whose owner such a row tells.
pub(super) fn texts_touched<'a>(before: &'a [ReadRow], after: &'a [ReadRow], touched: &mut BTreeSet<String>) {
    let by_key =
        |rows: &'a [ReadRow]| -> BTreeMap<_, _> { rows.iter().map(|row| (row.row.endpoint.key(), row)).collect() };
    let (before, after) = (by_key(before), by_key(after));
    let gone = before.iter().filter(|(key, row)| after.get(*key) != Some(*row));
    let come = after.iter().filter(|(key, row)| before.get(*key) != Some(*row));
    for (_, row) in gone.chain(come) {
        touched.extend(row.companion_of());
        touched.insert(row.text.to_string());
    }
}
