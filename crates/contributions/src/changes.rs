//! Changes of one client's rows.

use std::{collections::BTreeMap, sync::Arc};

use fairway_providers::{Endpoint, RowKey, webhook_server::Edits};
use fairway_store::objects::Key;

use super::{
    foreign::Refused,
    held::WINDOW,
    rows_wire::{Held, HoldRule, Part, Row, Withdrawn},
};

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// The row has this endpoint.
    Put(Endpoint),
    /// The row is withdrawn, and held.
    Hold(Held),
    /// The row is removed.
    Remove,
}

/// Changes of one client's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowChanges {
    /// The changed rows, by their keys.
    pub rows: BTreeMap<RowKey, RowChange>,
    /// Names that are withdrawn at once.
    pub withdrawn: Vec<Withdrawn>,
    /// Owner, name and rule of what is held.
    pub held: Vec<(Arc<str>, Arc<str>, HoldRule)>,
    /// Writes to rows of other owners, which are not among the changed rows.
    pub foreign: Refused,
    /// Parts that only have lists of withdrawn names, which are outdated.
    pub outdated: Vec<Key>,
}

impl From<&Edits> for RowChanges {
    fn from(edits: &Edits) -> Self {
        let change = |endpoint: &Option<Endpoint>| endpoint.clone().map_or(RowChange::Remove, RowChange::Put);
        Self { rows: edits.iter().map(|(key, edit)| (key.clone(), change(edit))).collect(), ..Self::default() }
    }
}

impl RowChanges {
    /// Removes these rows.
    pub fn removing(keys: impl IntoIterator<Item = RowKey>) -> Self {
        Self { rows: keys.into_iter().map(|key| (key, RowChange::Remove)).collect(), ..Self::default() }
    }
}

impl Part {
    /// Returns the part with changes made. Names that were withdrawn long ago leave its list.
    pub fn changed(&self, changes: &[(&RowKey, &RowChange)], withdrawn: &[&Withdrawn], now: u64) -> Self {
        let mut rows: BTreeMap<_, _> = self.rows.iter().map(|row| (row.endpoint.key(), row.clone())).collect();
        for (at, change) in changes {
            match change {
                RowChange::Put(endpoint) => {
                    let since = rows.get(*at).map_or(now, |row| row.since);
                    rows.insert((*at).clone(), Row { since, endpoint: endpoint.clone(), held: None });
                }
                RowChange::Hold(held) => {
                    if let Some(row) = rows.get_mut(*at) {
                        row.held = Some(*held);
                    }
                }
                RowChange::Remove => _ = rows.remove(*at),
            }
        }
        let is_renewed = |old: &Withdrawn| withdrawn.iter().any(|new| new.name == old.name && new.owner == old.owner);
        let recent = self.withdrawn.iter().filter(|old| now.saturating_sub(old.at) < WINDOW.as_secs());
        let recent = recent.filter(|old| !is_renewed(old)).cloned();
        let withdrawn = recent.chain(withdrawn.iter().map(|new| (*new).clone())).collect();
        Self { rows: rows.into_values().collect(), withdrawn }
    }
}
