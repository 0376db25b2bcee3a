//! Weighs withdrawals against evidence: those that look like a mistake are held.
//!
//! ```text
//! deletions of a client ──► owner withdraws all of its names, or many ────────┐ held: the answers keep what was withdrawn
//!                      └──► name is left without a healthy member ────────────┤       while its target is healthy
//!                      └──► anything else, or a target that is down: at once  │
//!                  released: down, confirmed, created again, replaced, expired ┘
//! ```
//! Pure: rows, health and time are arguments. The rules are those of `docs/operations/withdrawals.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use fairway_config::WithdrawalSettings;
use fairway_model::{Eligibility, Name};
use fairway_providers::{
    RowKey,
    webhook_server::{Edits, Scope},
};
use strum::IntoStaticStr;

use super::{
    changes::{RowChange, RowChanges},
    keys::part_key,
    owners::RowOwners,
    read::{Meaning, ReadRow},
    rows_wire::{Held, HoldRule, Row, Withdrawn},
};
use fairway_store::objects::Key;

/// The rows of all clients.
pub trait ClientRows {
    /// Returns the clients that contribute anything.
    fn scopes(&self) -> Vec<Scope>;

    /// Returns the rows of one client.
    fn of_client(&self, scope: &Scope) -> Vec<&ReadRow>;

    /// Returns the rows of one part.
    fn at(&self, key: &Key) -> Vec<&ReadRow>;

    /// Returns the names that a client withdrew at once, some of them longer than ten minutes ago.
    fn withdrawn_by(&self, scope: &Scope) -> Vec<&Withdrawn>;
}

/// Health of the targets of contributed names.
pub trait Evidence {
    /// Returns the best eligibility of the targets of a row's addresses; `None` if the answers do not have them.
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility>;

    /// Returns true if a member that files or the API declare for a name is healthy; `None` if they declare none.
    fn is_declared_healthy(&self, name: &Name) -> Option<bool>;
}

/// The cause of the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum Release {
    /// An operator confirmed the withdrawal.
    Confirmed,
    /// It was held for the configured time.
    Expired,
    /// Its targets are down.
    Down,
    /// Its owner or another one contributes to the name.
    Replaced,
}

/// Held rows to release.
#[derive(Debug, Default)]
pub struct Releases {
    /// Their keys, with the reasons.
    pub due: BTreeMap<RowKey, Release>,
    /// The withdrawals, which still count towards the limit.
    pub withdrawn: Vec<Withdrawn>,
}

impl From<Releases> for RowChanges {
    fn from(releases: Releases) -> Self {
        let Releases { due, withdrawn } = releases;
        Self { withdrawn, ..Self::removing(due.into_keys()) }
    }
}

/// The rows of one client, with the evidence.
pub struct Weighing<'a> {
    /// The rows of all clients.
    pub rows: &'a dyn ClientRows,
    /// The client.
    pub scope: &'a Scope,
    /// Health of the targets.
    pub evidence: &'a dyn Evidence,
    /// Times for which withdrawals are held.
    pub settings: WithdrawalSettings,
    /// Seconds since 1970.
    pub now: u64,
}

/// Withdrawals of an owner in one call, and the names that it keeps. Records of the registry are not counted.
#[derive(Default)]
struct OwnerChanges<'a> {
    /// Withdrawn rows by name.
    gone: BTreeMap<&'a str, Vec<&'a ReadRow>>,
    /// Withdrawn records of the registry, by the name that they are about.
    registry: BTreeMap<String, Vec<&'a ReadRow>>,
    /// Names that it contributes to afterwards.
    kept: BTreeSet<&'a str>,
    /// Names that it withdrew in the last ten minutes.
    earlier: BTreeSet<&'a str>,
}

impl OwnerChanges<'_> {
    /// Returns true if the owner withdraws all of its names, of at least two, or more than the limit within ten minutes.
    fn are_many(&self) -> bool {
        let gone = self.gone.keys().filter(|name| !self.kept.contains(*name));
        let earlier = self.earlier.iter().filter(|name| !self.kept.contains(*name));
        let total = gone.chain(earlier).collect::<BTreeSet<_>>().len();
        are_many(total, self.kept.len(), NAMES_MAX)
    }
}

/// Returns true if `gone` names look like a mistake: all, of at least two, or more than ten and more than a fifth. `max` limits the fifth.
pub fn are_many(gone: usize, kept: usize, max: usize) -> bool {
    (kept == 0 && gone >= 2) || gone > ((gone + kept) / 5).clamp(NAMES_MIN, max)
}

impl Weighing<'_> {
    /// Returns the effect of edits on the rows: withdrawals are held, or made at once and counted.
    pub fn changes(&self, edits: &Edits) -> RowChanges {
        let mut changes = RowChanges::from(edits);
        if !edits.values().any(Option::is_none) {
            return changes;
        }
        let row = |endpoint| Row { since: self.now, endpoint, held: None };
        let new: Vec<ReadRow> = edits.values().flatten().map(|endpoint| ReadRow::new(row(endpoint.clone()))).collect();
        let before: Vec<&ReadRow> = self.rows.of_client(self.scope);
        let all: Vec<&ReadRow> = before.iter().copied().chain(&new).collect();
        let owners = RowOwners::of(self.scope, &all);
        let scopes = self.rows.scopes();
        let mut new_by_name: BTreeMap<&str, Vec<&ReadRow>> = BTreeMap::new();
        new.iter().for_each(|row| new_by_name.entry(&row.text).or_default().push(row));
        for (owner, batch) in self.by_owner(&before, &new, edits, &owners, &mut changes) {
            let are_many = batch.are_many();
            for (text, rows) in &batch.gone {
                let new = new_by_name.get(text).map_or(&[][..], Vec::as_slice);
                let others = self.others(&scopes, text, |key| !edits.contains_key(key), new);
                let is_whole = !batch.kept.contains(text);
                let registry = batch.registry.get(*text).into_iter().flatten();
                match self.rule(rows, &others, are_many && is_whole) {
                    Some(rule) => {
                        let held = Held { at: self.now, rule };
                        let keys = rows.iter().chain(registry).map(|row| row.row.endpoint.key());
                        changes.rows.extend(keys.map(|key| (key, RowChange::Hold(held))));
                        changes.held.push((Arc::clone(&owner), (*text).into(), rule));
                    }
                    None if is_whole => {
                        let (name, owner) = ((*text).to_owned(), owner.to_string());
                        changes.withdrawn.push(Withdrawn { name, owner, at: self.now });
                    }
                    None => {}
                }
            }
        }
        changes
    }

    /// Sorts rows by owner. Rows that are held already stay so, even if their writer withdraws them again.
    fn by_owner<'r>(
        &'r self,
        before: &[&'r ReadRow],
        new: &'r [ReadRow],
        edits: &Edits,
        owners: &RowOwners,
        changes: &mut RowChanges,
    ) -> BTreeMap<Arc<str>, OwnerChanges<'r>> {
        let mut by_owner: BTreeMap<Arc<str>, OwnerChanges<'r>> = BTreeMap::new();
        for row in before {
            let (key, companion_of) = (row.row.endpoint.key(), row.companion_of());
            let is_registry = companion_of.is_some();
            let of_owner = by_owner.entry(owners.of_row(row)).or_default();
            match (row.row.held, edits.get(&key)) {
                (Some(held), edit) => {
                    if edit == Some(&None) {
                        changes.rows.remove(&key);
                    }
                    if !is_registry && self.is_recent(held.at) {
                        of_owner.earlier.insert(&row.text);
                    }
                }
                (None, Some(None)) => match companion_of {
                    Some(name) => of_owner.registry.entry(name).or_default().push(row),
                    None => of_owner.gone.entry(&row.text).or_default().push(row),
                },
                (None, None) if !is_registry => _ = of_owner.kept.insert(&row.text),
                (None, _) => {}
            }
        }
        for row in new.iter().filter(|row| row.companion_of().is_none()) {
            by_owner.entry(owners.of_row(row)).or_default().kept.insert(&row.text);
        }
        for withdrawn in self.rows.withdrawn_by(self.scope).into_iter().filter(|withdrawn| self.is_recent(withdrawn.at))
        {
            if let Some(of_owner) = by_owner.get_mut(&*withdrawn.owner) {
                of_owner.earlier.insert(&withdrawn.name);
            }
        }
        by_owner.retain(|_, batch| !batch.gone.is_empty());
        by_owner
    }

    /// Returns the rule by which the withdrawn rows of a name are held; `None` if they are withdrawn at once.
    fn rule(&self, rows: &[&ReadRow], others: &[&ReadRow], are_many: bool) -> Option<HoldRule> {
        let mut protected = rows.iter().filter(|row| self.is_alive(row) && !is_covered(row, others)).peekable();
        protected.peek()?;
        if are_many && self.settings.hold_for > Duration::ZERO {
            return Some(HoldRule::ManyNames);
        }
        let name = protected.find(|row| row.is_member())?.name.as_ref()?;
        let declared = self.evidence.is_declared_healthy(name);
        let mut others = others.iter().filter(|row| row.is_member()).peekable();
        let is_shared = others.peek().is_some() || declared.is_some();
        let is_last = is_shared && declared != Some(true) && !others.any(|row| self.is_healthy(row));
        (is_last && self.settings.hold_last_for > Duration::ZERO).then_some(HoldRule::LastHealthyMember)
    }

    /// Returns the held rows to release.
    pub fn releases(&self) -> Releases {
        let rows: Vec<&ReadRow> = self.rows.of_client(self.scope);
        let owners = RowOwners::of(self.scope, &rows);
        let mut groups: BTreeMap<(Arc<str>, String), Vec<&ReadRow>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| row.row.held.is_some()) {
            let text = row.companion_of().unwrap_or_else(|| row.text.to_string());
            groups.entry((owners.of_row(row), text)).or_default().push(row);
        }
        let scopes = self.rows.scopes();
        let mut releases = Releases::default();
        for ((owner, text), group) in groups {
            let others = self.others(&scopes, &text, |_| true, &[]);
            let is_own = |row: &ReadRow| *owners.of_row(row) == *owner;
            let own_rows = self.rows.at(&part_key(self.scope, &text)).into_iter().filter(|row| *row.text == *text);
            let is_recreated = own_rows.filter(|row| row.row.held.is_none()).any(is_own);
            if let Some(release) = self.release(&group, &others, is_recreated) {
                let at = group.iter().filter_map(|row| row.row.held).map(|held| held.at).min().unwrap_or_default();
                releases.withdrawn.push(Withdrawn { name: text, owner: owner.to_string(), at });
                releases.due.extend(group.iter().map(|row| (row.row.endpoint.key(), release)));
            }
        }
        releases
    }

    /// Returns the reason to release the held rows of one owner at a name; `None` if they stay.
    fn release(&self, group: &[&ReadRow], others: &[&ReadRow], is_recreated: bool) -> Option<Release> {
        let rows: Vec<_> = group.iter().filter(|row| row.companion_of().is_none()).collect();
        let Some(held) = rows.iter().filter_map(|row| row.row.held).min_by_key(|held| held.at) else {
            // What the registry's records are about is gone.
            return Some(Release::Replaced);
        };
        let limit = match held.rule {
            HoldRule::ManyNames => self.settings.hold_for,
            HoldRule::LastHealthyMember => self.settings.hold_last_for,
        };
        if self.now.saturating_sub(held.at) >= limit.as_secs() {
            return Some(Release::Expired);
        }
        // Targets that are not evaluated, or drained for a while, are no evidence that the name is not needed.
        let mut states = rows.iter().filter_map(|row| self.evidence.eligibility(row)).peekable();
        let has_target = states.peek().is_some();
        if has_target && states.all(|state| state == Eligibility::Down) {
            return Some(Release::Down);
        }
        let is_replaced = match held.rule {
            // Others that were there before are no replacement: clients were distributed over all of them.
            HoldRule::ManyNames => {
                let mut newer = others.iter().filter(|row| row.row.since >= held.at);
                is_recreated || newer.any(|row| self.is_healthy(row))
            }
            HoldRule::LastHealthyMember => {
                let name = rows.iter().find_map(|row| row.name.as_ref());
                let is_declared = name.is_some_and(|name| self.evidence.is_declared_healthy(name) == Some(true));
                is_declared || others.iter().any(|row| self.is_healthy(row))
            }
        };
        (is_replaced || rows.iter().all(|row| is_covered(row, others))).then_some(Release::Replaced)
    }

    /// Returns the rows of a name that are not held, of all clients; of this one those that `is_kept`, and the `new` ones.
    fn others<'r>(
        &'r self,
        scopes: &[Scope],
        text: &str,
        is_kept: impl Fn(&RowKey) -> bool,
        new: &[&'r ReadRow],
    ) -> Vec<&'r ReadRow> {
        let mut others = Vec::new();
        for scope in scopes {
            let rows = self.rows.at(&part_key(scope, text)).into_iter();
            let rows = rows.filter(|row| *row.text == *text && row.row.held.is_none());
            others.extend(rows.filter(|row| scope != self.scope || is_kept(&row.row.endpoint.key())));
        }
        others.extend(new);
        others.retain(|row| row.companion_of().is_none());
        others
    }

    /// Returns true unless the targets of a row are down, drained or not in the answers. Records without a target count as alive.
    fn is_alive(&self, row: &ReadRow) -> bool {
        match row.meaning {
            Meaning::Addresses(..) | Meaning::Host(..) => {
                self.evidence.eligibility(row).is_some_and(|state| state < Eligibility::Down)
            }
            Meaning::Records(_) => true,
            Meaning::Nothing => false,
        }
    }

    fn is_healthy(&self, row: &ReadRow) -> bool {
        match row.meaning {
            Meaning::Addresses(..) | Meaning::Host(..) => {
                self.evidence.eligibility(row).is_some_and(|state| state < Eligibility::Pending)
            }
            Meaning::Records(_) => true,
            Meaning::Nothing => false,
        }
    }

    fn is_recent(&self, at: u64) -> bool {
        self.now.saturating_sub(at) < WINDOW.as_secs()
    }
}

/// Returns true if others contribute the same addresses or records, so that the withdrawal changes no answer.
fn is_covered(row: &ReadRow, others: &[&ReadRow]) -> bool {
    match &row.meaning {
        Meaning::Addresses(own, _) => {
            let addresses = others.iter().filter_map(|other| match &other.meaning {
                Meaning::Addresses(addresses, _) => Some(addresses),
                _ => None,
            });
            let addresses: BTreeSet<&IpAddr> = addresses.flatten().collect();
            own.iter().all(|address| addresses.contains(address))
        }
        Meaning::Host(host, _) => {
            others.iter().any(|other| matches!(&other.meaning, Meaning::Host(other, _) if other == host))
        }
        Meaning::Records(_) => others.iter().any(|other| other.meaning == row.meaning),
        Meaning::Nothing => true,
    }
}

/// Time in which an owner's withdrawals are counted together.
pub const WINDOW: Duration = Duration::from_secs(600);
/// Number of names that may be withdrawn together, if it is more than a fifth.
const NAMES_MIN: usize = 10;
/// Maximum number of such names, so that the list of them stays small.
pub const NAMES_MAX: usize = 4_096;
