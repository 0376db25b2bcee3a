//! Withdrawals that look like a mistake: what deleted objects declared stays in the answers while its targets and endpoints are healthy.
//!
//! ```text
//! names that changed ──► rows whose objects are gone ──► namespace or cluster loses all of its names, or many ─────────┐ held
//!                                                   ├──► name is left without a healthy member ─────────────────────┤
//!                                                   └──► anything else, a target that is down, no ready endpoint: at once
//! held ──► confirmed, declared again, down, without ready endpoint, expired: released
//! ```
//! Objects are deleted one by one, so the first names of many are withdrawn at once. They come back when the others show that they are many.
//!
//! Pure: health, endpoints and time are arguments. The rules are those of `docs/operations/withdrawals.md`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use fairway_contributions::{
    Held, HoldRule, Meaning, NAMES_MAX, ReadRow, Release, WINDOW, WithdrawalSettings, are_many,
};
use fairway_model::{Eligibility, SharedMap};

use crate::found::{FoundName, FoundRow, HeldNames};

/// Health of the targets of found names, in the answers that are served.
pub trait TargetHealth: Debug + Send + Sync {
    /// Returns the best eligibility of the targets of a row's addresses; `None` if the answers do not have them.
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility>;

    /// Returns true if another member of the row's name is healthy; `None` if the name has no other member.
    fn is_other_healthy(&self, row: &ReadRow) -> Option<bool>;
}

/// Health before queries are answered: every target may be up.
#[derive(Debug)]
pub(crate) struct UnknownHealth;

impl TargetHealth for UnknownHealth {
    fn eligibility(&self, _: &ReadRow) -> Option<Eligibility> {
        Some(Eligibility::Pending)
    }

    fn is_other_healthy(&self, _: &ReadRow) -> Option<bool> {
        None
    }
}

/// Evidence about the rows of a cluster.
pub(crate) struct Evidence<'a> {
    /// Health of the targets.
    pub health: &'a dyn TargetHealth,
    /// Returns the number of ready endpoints of a row's services; `None` if it is unknown.
    pub ready: &'a dyn Fn(&FoundRow) -> Option<u32>,
    /// Times for which withdrawals are held.
    pub settings: WithdrawalSettings,
    /// Seconds since 1970.
    pub now: u64,
}

impl Evidence<'_> {
    fn has_endpoints(&self, row: &FoundRow) -> bool {
        (self.ready)(row) != Some(0)
    }

    /// Returns true unless the targets of a row are down, drained or not in the answers, or no endpoint is ready.
    fn is_alive(&self, row: &FoundRow) -> bool {
        self.has_endpoints(row)
            && match row.row.meaning {
                Meaning::Addresses(..) | Meaning::Host(..) => {
                    self.health.eligibility(&row.row).is_some_and(|state| state < Eligibility::Down)
                }
                Meaning::Records(_) => true,
                Meaning::Nothing => false,
            }
    }

    /// Returns true if a row is a healthy member of its name, and the others are not healthy.
    fn is_last_healthy(&self, row: &FoundRow) -> bool {
        row.row.is_member()
            && self.health.eligibility(&row.row).is_some_and(|state| state < Eligibility::Pending)
            && self.health.is_other_healthy(&row.row) == Some(false)
    }

    /// Returns the reason to release what an owner withdrew from a name; `None` if it stays.
    fn release(&self, rows: &[&FoundRow]) -> Option<Release> {
        let held = rows.iter().filter_map(|row| row.row.row.held).min_by_key(|held| held.at)?;
        let limit = match held.rule {
            HoldRule::ManyNames => self.settings.hold_for,
            HoldRule::LastHealthyMember => self.settings.hold_last_for,
        };
        if self.now.saturating_sub(held.at) >= limit.as_secs() {
            return Some(Release::Expired);
        }
        let is_down =
            |row: &&FoundRow| !self.has_endpoints(row) || self.health.eligibility(&row.row) == Some(Eligibility::Down);
        if rows.iter().all(is_down) {
            return Some(Release::Down);
        }
        let is_replaced = |row: &&FoundRow| self.health.is_other_healthy(&row.row) == Some(true);
        let is_last = held.rule == HoldRule::LastHealthyMember;
        (is_last && rows.iter().any(is_replaced)).then_some(Release::Replaced)
    }
}

/// Rows of a name whose objects are gone.
pub(crate) struct Withdrawn {
    /// The name.
    pub name: Arc<str>,
    /// The rows.
    pub rows: Vec<FoundRow>,
    /// Owners that still declare the name.
    pub declared_by: BTreeSet<Arc<str>>,
}

/// Held rows of a name.
pub(crate) type HeldRows = (Arc<str>, Vec<FoundRow>);

/// A withdrawal of the last ten minutes.
#[derive(Debug)]
struct Recent {
    /// Its time, in seconds since 1970.
    at: u64,
    /// Rows that were withdrawn at once; empty if they are held.
    rows: Vec<FoundRow>,
}

/// Withdrawals of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Number of names that each owner declares. Held ones are not counted.
    declared: HashMap<Arc<str>, usize>,
    /// Number of names that anybody declares.
    all: usize,
    /// Withdrawals of the last ten minutes by owner and name.
    recent: BTreeMap<(Arc<str>, Arc<str>), Recent>,
    /// Names with held rows.
    held: BTreeSet<Arc<str>>,
    /// Number of these names of each owner.
    held_of: HashMap<Arc<str>, usize>,
}

impl Holds {
    /// Returns the state of a cluster with these names, without recent withdrawals.
    pub(crate) fn new(names: &SharedMap<Arc<str>, Arc<FoundName>>) -> Self {
        let mut holds = Self::default();
        names.iter().for_each(|(text, name)| holds.follow(text, None, Some(name)));
        holds
    }

    /// Follows a change of a name.
    pub(crate) fn follow(&mut self, text: &Arc<str>, before: Option<&FoundName>, now: Option<&FoundName>) {
        let [was, is] = [before, now].map(owners);
        self.all = self.all + usize::from(!is.is_empty()) - usize::from(!was.is_empty());
        recount(&mut self.declared, &was, &is);
        for owner in is.difference(&was) {
            self.recent.remove(&(Arc::clone(owner), Arc::clone(text)));
        }
        let [was, is] = [before, now].map(|name| owners_of_rows(name, FoundRow::is_held));
        recount(&mut self.held_of, &was, &is);
        if is.is_empty() {
            self.held.remove(text);
        } else {
            self.held.insert(Arc::clone(text));
        }
    }

    /// Weighs withdrawals that are followed already. Returns the rows that stay: of these, and of names that were withdrawn just before.
    pub(crate) fn weigh(&mut self, withdrawn: Vec<Withdrawn>, evidence: &Evidence<'_>) -> Vec<HeldRows> {
        let Evidence { settings, now, .. } = *evidence;
        self.recent.retain(|_, recent| now.saturating_sub(recent.at) < WINDOW.as_secs());
        let mut held = Vec::new();
        let mut owners = BTreeSet::new();
        for Withdrawn { name, rows, declared_by } in withdrawn {
            let mut by_owner: BTreeMap<Arc<str>, Vec<FoundRow>> = BTreeMap::new();
            rows.into_iter().for_each(|row| by_owner.entry(Arc::clone(&row.owner)).or_default().push(row));
            for (owner, rows) in by_owner {
                if !rows.iter().any(|row| evidence.is_alive(row)) {
                    continue;
                }
                let is_last = rows.iter().any(|row| evidence.is_alive(row) && evidence.is_last_healthy(row));
                if self.is_full(&owner) {
                    continue;
                }
                if is_last && settings.hold_last_for > Duration::ZERO {
                    held.push((Arc::clone(&name), marked(rows, HoldRule::LastHealthyMember, now)));
                    self.recent.insert((owner, Arc::clone(&name)), Recent { at: now, rows: Vec::new() });
                } else if settings.hold_for > Duration::ZERO && !declared_by.contains(&owner) {
                    owners.insert(Arc::clone(&owner));
                    self.recent.insert((owner, Arc::clone(&name)), Recent { at: now, rows });
                }
            }
        }
        let is_cluster = are_many(self.recent.len(), self.all, NAMES_MAX);
        owners.retain(|owner| is_cluster || self.are_many(owner));
        let is_fresh = |at: u64| now.saturating_sub(at) < RESTORED_MAX.as_secs();
        for ((owner, name), Recent { at, rows }) in &mut self.recent {
            if rows.is_empty() || !is_fresh(*at) || !(owners.contains(owner) || is_cluster && !owners.is_empty()) {
                continue;
            }
            let rows = std::mem::take(rows);
            if rows.iter().any(|row| evidence.has_endpoints(row)) {
                held.push((Arc::clone(name), marked(rows, HoldRule::ManyNames, now)));
            }
        }
        held
    }

    /// Returns true if as many names are held or weighed as may be: further ones are withdrawn at once.
    fn is_full(&self, owner: &Arc<str>) -> bool {
        let is_owner_full = self.held_of.get(owner).is_some_and(|held| *held >= OF_OWNER_MAX);
        is_owner_full || self.held.len() >= HELD_MAX || self.recent.len() >= HELD_MAX
    }

    /// Returns true if an owner has withdrawn all of its names, of at least two, or many.
    fn are_many(&self, owner: &Arc<str>) -> bool {
        let first = (Arc::clone(owner), Arc::default());
        let gone = self.recent.range(first..).take_while(|((of, _), _)| of == owner).count();
        are_many(gone, self.declared.get(owner).copied().unwrap_or_default(), NAMES_MAX)
    }

    /// Returns the owners whose held rows at a name are to be released, with the reasons.
    pub(crate) fn due(
        &self,
        names: &SharedMap<Arc<str>, Arc<FoundName>>,
        confirmed: &BTreeSet<Arc<str>>,
        evidence: &Evidence<'_>,
    ) -> Vec<(Arc<str>, Arc<str>, Release)> {
        let mut due = Vec::new();
        for (text, name) in self.held.iter().filter_map(|text| names.get_key_value(text)) {
            let mut by_owner: BTreeMap<&Arc<str>, Vec<&FoundRow>> = BTreeMap::new();
            name.rows
                .iter()
                .filter(|row| row.is_held())
                .for_each(|row| by_owner.entry(&row.owner).or_default().push(row));
            for (owner, rows) in by_owner {
                let is_confirmed = confirmed.contains(owner).then_some(Release::Confirmed);
                let release = is_confirmed.or_else(|| evidence.release(&rows));
                due.extend(release.map(|release| (Arc::clone(text), Arc::clone(owner), release)));
            }
        }
        due
    }

    /// Returns the names with held rows.
    pub(crate) const fn names(&self) -> &BTreeSet<Arc<str>> {
        &self.held
    }

    /// Returns the held names by owner.
    pub(crate) fn summary(&self, names: &SharedMap<Arc<str>, Arc<FoundName>>) -> BTreeMap<Arc<str>, HeldNames> {
        let mut summary = BTreeMap::<Arc<str>, HeldNames>::new();
        for (text, name) in self.held.iter().filter_map(|text| names.get_key_value(text)) {
            let mut of_name: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
            for (row, held) in name.rows.iter().filter_map(|row| Some((row, row.row.row.held?))) {
                let since = of_name.entry(&row.owner).or_insert(held.at);
                *since = (*since).min(held.at);
            }
            for (owner, since) in of_name {
                let of_owner = summary.entry(Arc::clone(owner));
                let of_owner = of_owner.or_insert_with(|| HeldNames { names: 0, first: Arc::clone(text), since });
                of_owner.names += 1;
                of_owner.since = of_owner.since.min(since);
            }
        }
        summary
    }
}

/// Returns the rows of a name that are gone, and adds those that are held to what is declared now. A held row ends once its owner declares
/// anything for the name, or another one declares the same set identifier.
pub(crate) fn withdraw(before: Option<&FoundName>, now: Option<FoundName>) -> (Option<FoundName>, Vec<FoundRow>) {
    let Some(before) = before else { return (now, Vec::new()) };
    let set = |row: &FoundRow| row.row.row.endpoint.set_identifier.clone();
    let is_declared = |gone: &FoundRow| {
        let is_it = |row: &FoundRow| set(row) == set(gone) || gone.is_held() && row.owner == gone.owner;
        now.iter().flat_map(|now| &now.rows).any(is_it)
    };
    let gone = before.rows.iter().filter(|row| !is_declared(row)).cloned();
    let (held, gone): (Vec<_>, Vec<_>) = gone.partition(FoundRow::is_held);
    if held.is_empty() {
        return (now, gone);
    }
    (Some(with_rows(now.as_ref(), held)), gone)
}

/// Returns a name with further rows.
pub(crate) fn with_rows(name: Option<&FoundName>, rows: Vec<FoundRow>) -> FoundName {
    let known = name.into_iter().flat_map(|name| name.rows.iter().cloned());
    FoundName { rows: known.chain(rows).collect() }
}

/// Returns rows with a mark that they are held.
fn marked(mut rows: Vec<FoundRow>, rule: HoldRule, now: u64) -> Vec<FoundRow> {
    for row in &mut rows {
        let mut read = ReadRow::clone(&row.row);
        read.row.held = Some(Held { at: now, rule });
        row.row = Arc::new(read);
    }
    rows
}

/// Returns the owners that declare a name.
pub(crate) fn owners(name: Option<&FoundName>) -> BTreeSet<&Arc<str>> {
    owners_of_rows(name, |row| !row.is_held())
}

fn owners_of_rows(name: Option<&FoundName>, is_meant: impl Fn(&FoundRow) -> bool) -> BTreeSet<&Arc<str>> {
    name.into_iter().flat_map(|name| &name.rows).filter(|row| is_meant(row)).map(|row| &row.owner).collect()
}

/// Follows a change of the owners of a name in the numbers of their names.
fn recount(counts: &mut HashMap<Arc<str>, usize>, was: &BTreeSet<&Arc<str>>, is: &BTreeSet<&Arc<str>>) {
    for owner in was.difference(is) {
        let count = counts.get(*owner).copied().unwrap_or_default();
        if count > 1 {
            counts.insert(Arc::clone(owner), count - 1);
        } else {
            counts.remove(*owner);
        }
    }
    for owner in is.difference(was) {
        *counts.entry(Arc::clone(owner)).or_default() += 1;
    }
}

/// Maximum number of held names of a cluster, and of names that are weighed together. Objects that are created and deleted again and again
/// would otherwise leave ever more of them.
const HELD_MAX: usize = 50_000;
/// Maximum number of held names of one namespace, so that it does not take the places of all others. What is deleted in one batch may exceed it.
const OF_OWNER_MAX: usize = 10_000;
/// Time after which a name that was withdrawn at once does not come back, if more names of its namespace follow.
const RESTORED_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
