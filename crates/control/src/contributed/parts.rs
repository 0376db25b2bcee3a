//! Changes of a client's rows, as changes of the objects that hold them.

use std::{collections::BTreeMap, sync::Arc};

use fairway_contributions::{Held, HoldRule, Part, ReadPart, Row, Withdrawn, part_key};
use fairway_providers::{
    Endpoint, RowKey,
    webhook_server::{Edits, Scope, WebhookError},
};
use fairway_store::objects::{Change, Expect, Key};

use super::held::WINDOW;
use crate::declared::Declared;

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowChange {
    /// The row has this endpoint.
    Put(Endpoint),
    /// The row is withdrawn, and held.
    Hold(Held),
    /// The row is removed.
    Remove,
}

/// Changes of one client's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowChanges {
    pub(crate) rows: BTreeMap<RowKey, RowChange>,
    /// Names that are withdrawn at once.
    pub(crate) withdrawn: Vec<Withdrawn>,
    /// Owner, name and rule of what is held.
    pub(crate) held: Vec<(Arc<str>, Arc<str>, HoldRule)>,
    /// Parts that only have lists of withdrawn names, which are outdated.
    pub(crate) outdated: Vec<Key>,
}

impl From<&Edits> for RowChanges {
    fn from(edits: &Edits) -> Self {
        let change = |endpoint: &Option<Endpoint>| endpoint.clone().map_or(RowChange::Remove, RowChange::Put);
        Self { rows: edits.iter().map(|(key, edit)| (key.clone(), change(edit))).collect(), ..Self::default() }
    }
}

impl RowChanges {
    /// Removes these rows.
    pub(crate) fn removing(keys: impl IntoIterator<Item = RowKey>) -> Self {
        Self { rows: keys.into_iter().map(|key| (key, RowChange::Remove)).collect(), ..Self::default() }
    }

    /// Returns the changes of objects that make these changes.
    pub(crate) fn of_parts(&self, declared: &Declared, scope: &Scope, now: u64) -> Result<Vec<Change>, WebhookError> {
        let mut parts: BTreeMap<Key, (Vec<_>, Vec<&Withdrawn>)> = BTreeMap::new();
        for key in &self.outdated {
            parts.entry(key.clone()).or_default();
        }
        for row in &self.rows {
            parts.entry(part_key(scope, &row.0.0)).or_default().0.push(row);
        }
        for withdrawn in &self.withdrawn {
            parts.entry(part_key(scope, &withdrawn.name)).or_default().1.push(withdrawn);
        }
        let mut changes = Vec::with_capacity(parts.len());
        for (key, (rows, withdrawn)) in parts {
            let before = declared.part_at(&key).map(ReadPart::part).unwrap_or_default();
            let after = changed(&before, &rows, &withdrawn, now);
            if after == before {
                continue;
            }
            let expect = declared.get(&key).map_or(Expect::Absent, |object| Expect::Revision(object.revision));
            changes.push(Change { key, expect, value: after.to_bytes() });
        }
        let new = changes.iter().flat_map(|change| &change.value).map(Vec::len).sum::<usize>();
        let grown = declared.bytes_of(scope) + new;
        // What only removes rows must not fail.
        if grown > BYTES_MAX && self.rows.values().any(|change| matches!(change, RowChange::Put(_))) {
            let what = format!("{scope} would have {grown} bytes of endpoints; the limit is {BYTES_MAX}");
            return Err(WebhookError::Large(what));
        }
        Ok(changes)
    }
}

/// Returns a part with changes made. Names that were withdrawn long ago leave its list.
fn changed(before: &Part, changes: &[(&RowKey, &RowChange)], withdrawn: &[&Withdrawn], now: u64) -> Part {
    let mut rows: BTreeMap<_, _> = before.rows.iter().map(|row| (row.endpoint.key(), row.clone())).collect();
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
    let recent = before.withdrawn.iter().filter(|old| now.saturating_sub(old.at) < WINDOW.as_secs());
    let recent = recent.filter(|old| !is_renewed(old)).cloned();
    let withdrawn = recent.chain(withdrawn.iter().map(|new| (*new).clone())).collect();
    Part { rows: rows.into_values().collect(), withdrawn }
}

/// Maximum bytes of one client's stored endpoints. Those of a change count in addition to those that it replaces. The limit is twice the
/// largest response that the client reads, 32 MiB.
const BYTES_MAX: usize = 64 << 20;
