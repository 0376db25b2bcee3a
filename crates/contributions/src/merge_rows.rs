//! Merges the rows of one name with what is declared.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use fairway_access::{NameGrants, Tenant};
use fairway_model::{
    ContributedSpec, ContributionProblem, DeclaredClusters, DeclaredObjects, DesiredState, MergedName, Name,
    NameContribution, Permille, Pool, RecordSet, Rtype, SharedNamePolicy, SteeredName, merge_name,
};

use super::{
    contributed::RejectedNames,
    names::pool_name,
    read::{Meaning, ReadRow},
};

/// A row with its owner.
#[derive(Clone, Debug)]
pub struct OwnedRow<'a> {
    /// Its owner.
    pub owner: Arc<str>,
    /// Its client, which must be granted the name.
    pub tenant: Arc<Tenant>,
    /// Weight of its client's lease.
    pub lease_weight: Permille,
    /// The row.
    pub row: &'a ReadRow,
}

/// The declared state that rows are merged with. Declared fields have precedence.
pub struct MergeContext<'a> {
    /// The declared zones.
    pub zones: &'a DesiredState,
    /// The declared clusters.
    pub clusters: &'a DeclaredClusters,
    /// Returns the declared pool of a name.
    pub steered: &'a dyn Fn(&Name) -> Option<DeclaredName<'a>>,
    /// Names that clients may claim.
    pub names: &'a NameGrants,
    /// Returns why a claim since a time is not served yet: it takes over a name from another tenant.
    pub take_over: &'a dyn Fn(&Tenant, &Name, u64) -> Option<String>,
    /// Policy for names that several owners contribute to.
    pub shared: SharedNamePolicy,
    /// Names that are excluded.
    pub rejected: &'a RejectedNames,
}

impl MergeContext<'_> {
    /// Returns why a row is not used.
    fn refusal(&self, name: &Name, owned: &OwnedRow<'_>) -> Option<String> {
        let OwnedRow { tenant, row, .. } = owned;
        if self.zones.zone_of(name).is_none() {
            return Some("it is in no declared zone".to_owned());
        }
        if let Some(why) = self.rejection(name, row) {
            return Some(format!("{} is rejected: {why}", row.row.endpoint.record_type));
        }
        if let Err(refused) = self.names.check(tenant, name, row.rtype()?) {
            return Some(refused.to_string());
        }
        (self.take_over)(tenant, name, row.row.since)
    }

    /// Returns why a row is excluded.
    fn rejection(&self, name: &Name, row: &ReadRow) -> Option<&String> {
        if self.rejected.is_empty() {
            return None;
        }
        let of = |rtype| self.rejected.get(&(name.clone(), rtype));
        of(None).or_else(|| of(Some(row.rtype()?)))
    }
}

/// A declared steered name.
#[derive(Clone, Copy)]
pub struct DeclaredName<'a> {
    /// The name.
    pub steered: &'a SteeredName,
    /// Its pool.
    pub pool: &'a Pool,
    /// True if the pool answers other names, too.
    pub is_shared: bool,
    /// True if the pool takes no members from elsewhere.
    pub is_closed: bool,
}

/// The merged rows of one name.
#[derive(Default)]
pub(crate) struct MergedRows {
    /// `None` if no address is contributed.
    pub(crate) of_name: Option<MergedName>,
    pub(crate) records: BTreeMap<Rtype, RecordSet>,
    /// In order, without duplicates.
    pub(crate) warnings: Vec<ContributionProblem>,
}

/// Merges the rows of one name. Rows of a text that is no name result in warnings only.
pub(crate) fn merge(rows: &[OwnedRow<'_>], context: &MergeContext<'_>) -> MergedRows {
    let mut merged = MergedRows::default();
    let (mut contributions, mut sets) = (BTreeMap::<_, NameContribution>::new(), Vec::new());
    for owned in rows {
        let OwnedRow { owner, lease_weight, row, .. } = owned;
        for what in &row.problems {
            let what = format!("{}: {what}", row.row.endpoint.record_type);
            merged.warnings.push(warning(row, owner, what));
        }
        let Some(name) = &row.name else { continue };
        if let Some(why) = context.refusal(name, owned) {
            // The registry of ExternalDNS is read over the webhook: it need not be granted, and is not answered without a grant.
            if row.companion_of().is_none() || !context.names.is_enforced {
                merged.warnings.push(refusal(row, owner, why));
            }
            continue;
        }
        match &row.meaning {
            Meaning::Addresses(_, spec) | Meaning::Host(_, spec) => {
                let set: Arc<str> = row.row.endpoint.set_identifier.as_str().into();
                let contribution = contributions.entry((Arc::clone(owner), Arc::clone(&set)));
                let contribution = contribution.or_insert_with(|| new_contribution(owned, set, spec));
                row.meaning.add_to(contribution);
                contribution.since = contribution.since.min(row.row.since);
                contribution.is_held &= row.row.held.is_some();
            }
            Meaning::Records(set) if *lease_weight > Permille::default() => {
                sets.push(ContributedSet { since: row.row.since, owner: Arc::clone(owner), row, set });
            }
            Meaning::Nothing | Meaning::Records(_) => {}
        }
    }
    let Some(name) = rows.iter().find_map(|owned| owned.row.name.as_ref()) else { return merged.in_order() };
    let declared = (context.steered)(name);
    separate_cnames(&mut contributions, &mut sets, declared.is_some(), &mut merged.warnings);
    if !contributions.is_empty() {
        let objects = DeclaredObjects {
            clusters: context.clusters,
            steered: declared.map(|declared| (declared.steered, declared.pool)),
            is_shared: declared.is_some_and(|declared| declared.is_shared),
            is_closed: declared.is_some_and(|declared| declared.is_closed),
        };
        let contributions = contributions.into_values().collect();
        let mut of_name = merge_name(name, contributions, context.shared, &objects, pool_name(name));
        merged.warnings.append(&mut of_name.problems);
        merged.of_name = Some(of_name);
    }
    let is_steered = merged.of_name.as_ref().is_some_and(|of_name| of_name.steered.is_some());
    merged.records = merge_records(sets, is_steered, &mut merged.warnings);
    merged.in_order()
}

/// Returns the contribution of a row, as yet without addresses.
fn new_contribution(owned: &OwnedRow<'_>, set: Arc<str>, spec: &Arc<ContributedSpec>) -> NameContribution {
    NameContribution {
        owner: Arc::clone(&owned.owner),
        set,
        read_in: match &*owned.tenant {
            Tenant::Namespace { cluster, .. } => Some(cluster.as_str().into()),
            _ => None,
        },
        since: owned.row.row.since,
        addresses: vec![],
        hosts: vec![],
        spec: Arc::clone(spec),
        lease_weight: owned.lease_weight,
        is_held: owned.row.row.held.is_some(),
    }
}

impl MergedRows {
    fn in_order(mut self) -> Self {
        self.warnings.sort();
        self.warnings.dedup();
        self
    }
}

/// Chooses between the CNAME of one owner and the other records of others, since a name has only one of the two (RFC 1034 section 3.6.2):
/// what is older is used, and declared names win. Both sides get a warning.
fn separate_cnames(
    contributions: &mut BTreeMap<(Arc<str>, Arc<str>), NameContribution>,
    sets: &mut Vec<ContributedSet<'_>>,
    is_declared: bool,
    warnings: &mut Vec<ContributionProblem>,
) {
    let is_cname = |of: &ContributedSet<'_>| of.set.rtype == Rtype::CNAME;
    let Some(cname) = sets.iter().filter(|of| is_cname(of)).min_by_key(|of| (of.since, Arc::clone(&of.owner))) else {
        return;
    };
    let (since, owner, row) = (cname.since, Arc::clone(&cname.owner), cname.row);
    let others = contributions.values().map(|of| (of.since, &of.owner));
    let others = others.chain(sets.iter().filter(|of| !is_cname(of)).map(|of| (of.since, &of.owner)));
    let others: Vec<(u64, Arc<str>)> = others.map(|(since, owner)| (since, Arc::clone(owner))).collect();
    if others.iter().all(|(_, other)| *other == owner) {
        return;
    }
    let is_older = !is_declared && others.iter().all(|(other, by)| since < *other && *by != owner);
    let what = match is_older {
        true => format!("{owner} contributed a CNAME first, and a name with a CNAME has no other records"),
        false => format!("a CNAME of {owner} is rejected, because it would replace this record"),
    };
    let name = &row.row.endpoint.dns_name;
    let problem = |owner: &Arc<str>, set: &str| ContributionProblem {
        name: name.as_str().into(),
        owner: Arc::clone(owner),
        set: set.into(),
        message: what.clone(),
        is_refused: is_older,
    };
    let of_names = contributions.values().filter(|of| of.owner != owner);
    warnings.extend(of_names.map(|of| problem(&of.owner, &of.set)));
    let of_sets = sets.iter().filter(|of| !is_cname(of) && of.owner != owner);
    warnings.extend(of_sets.map(|of| problem(&of.owner, &of.row.row.endpoint.set_identifier)));
    if is_older {
        let names = others.iter().map(|(_, other)| &**other).collect::<BTreeSet<_>>();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        warnings.push(warning(row, &owner, format!("younger records of {names} at the name are rejected")));
        contributions.clear();
        sets.retain(is_cname);
    }
}

fn warning(row: &ReadRow, owner: &Arc<str>, what: String) -> ContributionProblem {
    let endpoint = &row.row.endpoint;
    let (name, set) = (endpoint.dns_name.as_str().into(), endpoint.set_identifier.as_str().into());
    ContributionProblem { name, owner: Arc::clone(owner), set, message: what, is_refused: false }
}

/// Returns the warning about a row that is not used.
fn refusal(row: &ReadRow, owner: &Arc<str>, what: String) -> ContributionProblem {
    ContributionProblem { is_refused: true, ..warning(row, owner, what) }
}

/// A record set of one row.
struct ContributedSet<'a> {
    since: u64,
    owner: Arc<str>,
    row: &'a ReadRow,
    set: &'a RecordSet,
}

/// Merges record sets of one name. Sets of one type are joined. Of several CNAMEs the oldest is used, since a name has one at most.
fn merge_records(
    mut sets: Vec<ContributedSet<'_>>,
    is_steered: bool,
    warnings: &mut Vec<ContributionProblem>,
) -> BTreeMap<Rtype, RecordSet> {
    sets.sort_by_cached_key(|of| (of.since, Arc::clone(&of.owner), of.row.row.endpoint.key()));
    let has_others = is_steered || sets.iter().any(|of| of.set.rtype != Rtype::CNAME);
    let mut merged: BTreeMap<Rtype, RecordSet> = BTreeMap::new();
    let mut first_cname: Option<(&ReadRow, Arc<str>)> = None;
    for ContributedSet { owner, row, set, .. } in sets {
        let why = match (set.rtype, merged.get(&set.rtype).zip(first_cname.as_ref())) {
            (Rtype::CNAME, _) if has_others => Some(
                "other records are contributed to the name, and a name with a CNAME has no others (RFC 1034 section 3.6.2)".to_owned(),
            ),
            (Rtype::CNAME, Some((first, (older, by)))) if first.rdatas != set.rdatas => {
                warnings.push(warning(older, by, format!("a younger CNAME of {owner} to the name is rejected")));
                Some(format!("an older CNAME of {by} is contributed to the name, and a name has one at most"))
            }
            (Rtype::CNAME, None) if set.rdatas.len() > 1 => Some("a CNAME has one target".to_owned()),
            _ => None,
        };
        if let Some(why) = why {
            warnings.push(refusal(row, &owner, why));
            continue;
        }
        if set.rtype == Rtype::CNAME && first_cname.is_none() {
            first_cname = Some((row, owner));
        }
        match merged.get_mut(&set.rtype) {
            None => _ = merged.insert(set.rtype, set.clone()),
            Some(first) => {
                let rdatas = first.rdatas.iter().chain(set.rdatas.iter()).cloned();
                *first = RecordSet::new(first.name.clone(), set.rtype, first.ttl.min(set.ttl), rdatas);
            }
        }
    }
    merged
}

/// Adds the texts of the names whose rows differ between two versions of a part, and of the names whose owner such a row declares.
///
/// Returns false if a row is respelled: rows of its name are in other parts, too.
pub fn changed_texts([before, after]: [&[Arc<ReadRow>]; 2], texts: &mut BTreeSet<String>) -> bool {
    // Versions of a part share the rows that did not change.
    let is_in = |rows: &HashSet<_>, row: &Arc<ReadRow>| rows.contains(&Arc::as_ptr(row));
    let [of_before, of_after] = [before, after].map(|rows| rows.iter().map(Arc::as_ptr).collect::<HashSet<_>>());
    let removed = before.iter().filter(|row| !is_in(&of_after, row));
    let added = after.iter().filter(|row| !is_in(&of_before, row));
    for row in removed.chain(added) {
        texts.extend(row.companion_of());
        texts.insert(row.text.to_string());
    }
    !before.iter().chain(after).any(|row| row.is_respelled())
}
