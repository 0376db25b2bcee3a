//! The effect of changes on each endpoint.

use std::collections::BTreeMap;

use crate::{Changes, Endpoint, RowKey};

/// The new endpoint of each key; `None` if it is deleted.
pub type Edits = BTreeMap<RowKey, Option<Endpoint>>;

/// Returns the effect of changes. It does not depend on the current state: applying changes twice has no further effect, and `updateOld` need
/// not exist. Of two endpoints with one key the later one is used; a created or changed endpoint exists even if it is deleted too.
pub fn edits(changes: Changes) -> Edits {
    let Changes { create, update_old, update_new, delete } = changes;
    let gone = delete.iter().chain(&update_old).map(|endpoint| (endpoint.key(), None));
    let mut edits: Edits = gone.collect();
    edits.extend(create.into_iter().chain(update_new).map(|endpoint| (endpoint.key(), Some(endpoint))));
    edits
}
