//! What clients of the webhook contribute: kept in the object store, read, joined, served.
//!
//! ```text
//! webhook ── changes ──► ledger ── parts of a client's rows ──► store ── events ──► Declared ── contributed() ──► a wish of rank webhook
//!         ◄── rows as they were adjusted ───────────────────────────────────────────┘                 └──► conditions
//! ```
//! A client's rows lie in up to `PARTS` objects of the store, by a sum of their names: a change writes few of them, and the largest
//! body fits one batch.

mod join;
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
    ContributionProblem, DesiredState, Diagnostic, MergedNames, Name, Permille, PoolName, RecordSet, Rtype, SharedMap,
    Subject,
};
use fairway_providers::{plain_name, webhook_server::Scope};

use self::{join::Joined, owners::Owners};
pub use self::{
    join::{Beside, Brought},
    rows_wire::read_seen,
};
pub use self::{leases::Strengths, ledger::ContributionLedger, read::ReadRow};
use crate::declared::Declared;
use fairway_access::TokenHash;
use fairway_store::objects::{Key, Kind};

/// Names that are left out of the answers, with the reason.
pub type LeftNames = BTreeMap<Name, String>;

/// What is contributed, as it is served; each name by itself, so that a change costs what it touches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contributed {
    /// Names that are steered.
    united: MergedNames,
    /// Record sets that are served as they are.
    records: SharedMap<(Name, Rtype), RecordSet>,
    /// What is not heeded, by the text of its name.
    conditions: SharedMap<Arc<str>, Arc<[ContributionProblem]>>,
    /// Names of which a row is spelled in another way than they are told, in both spellings.
    spelled: BTreeSet<Arc<str>>,
}

/// The rows of an object, with what they mean.
pub fn read_part(octets: &[u8]) -> Result<Box<[ReadRow]>, String> {
    rows_wire::read(octets).map(|rows| rows.into_iter().map(ReadRow::new).collect())
}

/// Rows of one client.
pub type Rows<'a> = (Scope, Vec<&'a ReadRow>);

/// Returns the rows of all clients, or of the names with these texts, each with its owner; those of one name keep the order of
/// clients and rows.
pub fn rows<'a>(declared: &'a Declared, texts: Option<&BTreeSet<String>>) -> Vec<Brought<'a>> {
    let Some(texts) = texts else {
        return brought(&declared.contributed_rows(), |scope| declared.lease_weight(scope));
    };
    let mut all = Vec::new();
    for scope in declared.scopes() {
        // Only at the root do rows belong to several owners, which other rows tell.
        let of_scope: Vec<&ReadRow> = match scope {
            Scope::Root => declared.rows_of(&scope).collect(),
            Scope::Owner(_) => vec![],
        };
        let (owners, lease_weight) = (Owners::of(&scope, &of_scope), declared.lease_weight(&scope));
        for text in texts {
            let own = declared.rows_at(&part_key(&scope, text)).iter().filter(|row| *row.text == **text);
            all.extend(own.map(|row| Brought { owner: owners.of_row(row), lease_weight, row }));
        }
    }
    all
}

fn brought<'a>(clients: &[Rows<'a>], lease_weight: impl Fn(&Scope) -> Permille) -> Vec<Brought<'a>> {
    let mut all = Vec::with_capacity(clients.iter().map(|(_, rows)| rows.len()).sum());
    for (scope, rows) in clients {
        let (owners, lease_weight) = (Owners::of(scope, rows), lease_weight(scope));
        all.extend(rows.iter().map(|row| Brought { owner: owners.of_row(row), lease_weight, row }));
    }
    all
}

/// Adds the texts of the names whose rows differ between two states of an object. Returns false if one of them is spelled in
/// another way: rows of its name are in other objects, too.
pub fn changed_texts(before: &Declared, now: &Declared, key: &Key, texts: &mut BTreeSet<String>) -> bool {
    let (before, now) = (before.rows_at(key), now.rows_at(key));
    join::texts_touched(before, now, texts);
    !before.iter().chain(now).any(ReadRow::is_spelled_otherwise)
}

impl Contributed {
    /// Merges rows with what is declared: all rows, or those of the given names, the others as before.
    ///
    /// Returns `None` if the rows of such a name cannot be found by its text.
    pub fn merged(
        before: Option<(&Self, &BTreeSet<String>)>,
        mut rows: Vec<Brought<'_>>,
        beside: &Beside<'_>,
    ) -> Option<Self> {
        let mut contributed = before.map(|(before, _)| before.clone()).unwrap_or_default();
        let mut spelled = rows.iter().map(|brought| brought.row).filter(|row| row.is_spelled_otherwise());
        match before {
            Some((before, texts)) => {
                if spelled.next().is_some() || texts.iter().any(|text| before.spelled.contains(&**text)) {
                    return None;
                }
            }
            None => {
                for row in spelled {
                    contributed.spelled.insert(Arc::clone(&row.text));
                    contributed.spelled.insert(plain_name(&row.row.endpoint.dns_name).into());
                }
            }
        }
        // The sort keeps the order of clients and rows.
        rows.sort_by(|a, b| a.row.text.cmp(&b.row.text));
        let of_texts = rows.chunk_by(|a, b| a.row.text == b.row.text);
        let has_rows = |text: &str| rows.binary_search_by(|brought| (*brought.row.text).cmp(text)).is_ok();
        let gone = before.into_iter().flat_map(|(_, texts)| texts).filter(|text| !has_rows(text));
        let merged = of_texts.map(|rows| (Arc::clone(&rows[0].row.text), join::join(rows, beside)));
        contributed.change(merged.chain(gone.map(|text| (Arc::from(&**text), Joined::default()))));
        Some(contributed)
    }

    /// Returns true if record sets are contributed to a name.
    pub fn has_records_at(&self, name: &Name) -> bool {
        records_at(&self.records, name).next().is_some()
    }

    /// What is wished for together.
    pub fn desired(&self) -> DesiredState {
        DesiredState { records: self.records.clone(), ..self.united.desired().clone() }
    }

    /// What is not heeded.
    pub fn conditions(&self) -> impl Iterator<Item = ContributionProblem> {
        let own = self.conditions.values().flat_map(|told| told.iter().cloned());
        own.chain(self.united.disputes())
    }

    /// How much is not heeded.
    pub fn conditions_len(&self) -> usize {
        self.conditions.values().map(|told| told.len()).sum::<usize>() + self.united.disputes().len()
    }

    /// What is offered for steered names.
    pub fn united(&self) -> &MergedNames {
        &self.united
    }

    /// Whether nothing is contributed.
    pub fn is_empty(&self) -> bool {
        self.united.names().next().is_none() && self.records.is_empty() && self.conditions.is_empty()
    }

    /// Says what the rows of these texts come to from now on.
    fn change(&mut self, changes: impl IntoIterator<Item = (Arc<str>, Joined)>) {
        let mut steered = Vec::new();
        for (text, Joined { of_name, records, conditions }) in changes {
            match conditions.is_empty() {
                true => self.conditions.remove(&text),
                false => self.conditions.insert(Arc::clone(&text), conditions.into()),
            };
            // What is no name has neither.
            let Ok(name) = text.parse::<Name>() else { continue };
            let gone: Vec<_> = records_at(&self.records, &name).map(RecordSet::key).collect();
            gone.iter().for_each(|key| _ = self.records.remove(key));
            self.records.extend(records.into_values().map(|set| (set.key(), set)));
            steered.push((name, of_name));
        }
        self.united.change(steered);
    }

    /// Leaves out the names that errors are about; false if they are about none that is contributed.
    pub fn leave_out(&self, faults: &[Diagnostic], left: &mut LeftNames) -> bool {
        let mut found = false;
        for fault in faults.iter().filter(|fault| fault.is_error()) {
            let Some(subject) = &fault.about else { continue };
            for name in self.names_of(subject) {
                found |= left.insert(name, format!("{}; {}", fault.fact, fault.hint)).is_none();
            }
        }
        found
    }

    /// Leaves out every name; false if none is left.
    pub fn leave_all(&self, faults: &[Diagnostic], left: &mut LeftNames) -> bool {
        let why = faults.iter().find(|fault| fault.is_error()).map(ToString::to_string).unwrap_or_default();
        let records = self.records.keys().map(|(name, _)| name);
        let names = self.united.desired().names.keys().chain(records);
        let before = left.len();
        left.extend(names.map(|name| (name.clone(), why.clone())));
        left.len() > before
    }

    /// The names that are contributed because of which there is something.
    fn names_of(&self, subject: &Subject) -> Vec<Name> {
        let desired = self.united.desired();
        let of_pool = |pool: &PoolName| {
            let own = desired.names.values().filter(|steered| steered.pool == *pool);
            own.map(|steered| steered.name.clone()).collect()
        };
        match subject {
            Subject::Name(name) if desired.names.contains_key(name) => vec![name.clone()],
            Subject::Name(name) | Subject::Records(name, _) => {
                let is_own = records_at(&self.records, name).next().is_some();
                is_own.then(|| name.clone()).into_iter().collect()
            }
            Subject::Pool(pool) | Subject::Member(pool, _) => of_pool(pool),
            Subject::Cluster(cluster) if desired.clusters.contains_key(cluster) => {
                let has = |pool: &PoolName| {
                    desired.pools.get(pool).is_some_and(|pool| pool.members.iter().any(|m| m.cluster == *cluster))
                };
                let own = desired.names.values().filter(|steered| has(&steered.pool));
                own.map(|steered| steered.name.clone()).collect()
            }
            _ => vec![],
        }
    }
}

/// The record sets of a name.
fn records_at<'a>(
    records: &'a SharedMap<(Name, Rtype), RecordSet>,
    name: &Name,
) -> impl Iterator<Item = &'a RecordSet> + use<'a> {
    // No record is of type 0.
    let name = name.clone();
    records.after(&(name.clone(), Rtype(0))).map(|(_, set)| set).take_while(move |set| set.name == name)
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
pub fn part_key(scope: &Scope, plain: &str) -> Key {
    let sum = plain.bytes().fold(0x811c_9dc5_u32, |sum, octet| (sum ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    let part = format!("{:03x}", (sum ^ sum >> 16) % PARTS);
    Key::new(Kind::Contribution, &[scope_word(scope), &part]).expect("plain words")
}

/// The key of the object that says when a client was heard of.
pub fn seen_key(scope: &Scope) -> Key {
    Key::new(Kind::Contributor, &[scope_word(scope)]).expect("plain words")
}

/// The word for a client in keys. No owner is called `@`.
pub fn scope_word(scope: &Scope) -> &str {
    match scope {
        Scope::Root => "@",
        Scope::Owner(name) => name,
    }
}

/// The client whose rows lie at a key.
pub fn scope_of(key: &Key) -> Option<Scope> {
    match key.names().next()? {
        "@" => Some(Scope::Root),
        name => Scope::owner(name),
    }
}

/// Into how many objects the rows of a client are parted.
const PARTS: u32 = 1_024;
/// Most characters of a text within an object's name, which has 128 in all.
const PART_MAX: usize = 80;
