//! Writes of one owner to rows of another, where several owners share a base path: they are refused.
//!
//! The first owner of a row keeps it. ExternalDNS leaves rows of others alone once it has read the list, so only a client that read an older
//! list, or that deletes by hand, sends such a write. The rest of its call is carried out; a warning says what was refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use fairway_providers::{Changes, Endpoint, RowKey, webhook_server::edits};

use super::{
    changes::RowChanges,
    held::Weighing,
    owners::RowOwners,
    read::{ReadRow, declared_owner},
};

/// Refused writes: the owner who wrote and the row, with the owner of the row.
pub type Refused = BTreeMap<(Arc<str>, RowKey), Arc<str>>;

/// Refused writes since the start, at most 1,000.
#[derive(Debug, Default)]
pub struct ForeignWrites(Mutex<Refused>);

impl ForeignWrites {
    /// Adds refused writes. Returns their number.
    pub fn note(&self, refused: Refused) -> usize {
        let count = refused.len();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(refused);
        while all.len() > REFUSED_MAX {
            all.pop_first();
        }
        count
    }

    /// Returns the refused writes whose rows still are those of the same owners.
    pub fn current(&self, owners: &RowOwners, rows: &[&ReadRow]) -> Refused {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.is_empty() {
            let known = known_owners(owners, rows);
            all.retain(|(_, key), of| known.get(key) == Some(of));
        }
        all.clone()
    }
}

impl Weighing<'_> {
    /// Returns the effect of a client's changes on the rows: that of its edits, without those of rows of other owners.
    pub fn changes_of(&self, changes: &Changes) -> RowChanges {
        let rows = self.rows.of_client(self.scope);
        let owners = RowOwners::of(self.scope, &rows);
        let foreign = if owners.are_mixed() { foreign(changes, &known_owners(&owners, &rows)) } else { Refused::new() };
        let keys: BTreeSet<&RowKey> = foreign.keys().map(|(_, key)| key).collect();
        let own = |endpoints: &[Endpoint]| {
            endpoints.iter().filter(|endpoint| !keys.contains(&endpoint.key())).cloned().collect::<Vec<_>>()
        };
        let Changes { create, update_old, update_new, delete } = changes;
        let own = Changes {
            create: own(create),
            update_old: own(update_old),
            update_new: own(update_new),
            delete: own(delete),
        };
        let made = self.changes(&edits(own));
        RowChanges { foreign, ..made }
    }
}

/// Returns the owners of rows that state one. A held row is free for others: its owner has withdrawn it.
fn known_owners(owners: &RowOwners, rows: &[&ReadRow]) -> BTreeMap<RowKey, Arc<str>> {
    let free = rows.iter().filter(|row| row.row.held.is_none());
    free.filter_map(|row| Some((row.row.endpoint.key(), owners.stated(row)?))).collect()
}

/// Returns the changes of rows of other owners. An update whose old state names the owner of the row has read it, so it may hand the row
/// over.
fn foreign(changes: &Changes, known: &BTreeMap<RowKey, Arc<str>>) -> Refused {
    let Changes { create, update_old, update_new, delete } = changes;
    let has_read = |endpoint: &&Endpoint| {
        declared_owner(endpoint).is_some_and(|owner| known.get(&endpoint.key()).is_some_and(|of| **of == *owner))
    };
    let read: BTreeSet<RowKey> = update_old.iter().filter(has_read).map(Endpoint::key).collect();
    let updates = update_new.iter().filter(|endpoint| !read.contains(&endpoint.key()));
    let written = create.iter().chain(update_old).chain(updates).chain(delete);
    let refused = written.filter_map(|endpoint| {
        let (key, writer) = (endpoint.key(), declared_owner(endpoint)?);
        let of = known.get(&key).filter(|of| ***of != *writer)?;
        Some(((writer.into(), key), Arc::clone(of)))
    });
    refused.collect()
}

/// Maximum number of refused writes that are remembered.
const REFUSED_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use fairway_providers::Labels;

    use super::*;

    fn endpoint(name: &str, owner: &str) -> Endpoint {
        let labels: Labels =
            [("owner".to_owned(), owner.to_owned())].into_iter().filter(|of| !of.1.is_empty()).collect();
        Endpoint { dns_name: name.to_owned(), record_type: "A".to_owned(), labels, ..Endpoint::default() }
    }

    #[test]
    fn write_to_a_row_of_another_owner_is_refused() {
        let known = BTreeMap::from([(endpoint("x", "").key(), Arc::from("a"))]);
        let [of_a, of_b, unknown] = ["a", "b", ""].map(|owner| vec![endpoint("x", owner)]);
        let create = |create: &Vec<Endpoint>| Changes { create: create.clone(), ..Changes::default() };
        let delete = |delete: &Vec<Endpoint>| Changes { delete: delete.clone(), ..Changes::default() };
        let update = |old: &Vec<Endpoint>, new: &Vec<Endpoint>| Changes {
            update_old: old.clone(),
            update_new: new.clone(),
            ..Changes::default()
        };
        for (changes, count) in [
            (create(&of_a), 0),
            (create(&of_b), 1),
            (create(&unknown), 0),
            (create(&vec![endpoint("y", "b")]), 0),
            (delete(&of_a), 0),
            (delete(&of_b), 1),
            (update(&of_b, &of_b), 1),
            (update(&unknown, &of_b), 1),
            // `--migrate-from-txt-owner` of ExternalDNS.
            (update(&of_a, &of_b), 0),
        ] {
            assert_eq!(foreign(&changes, &known).len(), count, "{changes:?}");
        }
    }
}
