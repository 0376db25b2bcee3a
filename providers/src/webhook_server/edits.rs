//! What changes come to, endpoint by endpoint.

use std::collections::BTreeMap;

use crate::{Changes, Endpoint, RowKey};

/// The endpoint that is at a key from now on; none where it goes.
pub type Edits = BTreeMap<RowKey, Option<Endpoint>>;

/// What changes come to. The outcome hangs on nothing that is there: made twice, they change nothing the second time, and what
/// `updateOld` takes to be there need not be. Of two endpoints with one key the later holds; what is created or changed is there, even if
/// it is deleted too.
pub fn edits(changes: Changes) -> Edits {
    let Changes { create, update_old, update_new, delete } = changes;
    let gone = delete.iter().chain(&update_old).map(|endpoint| (endpoint.key(), None));
    let mut edits: Edits = gone.collect();
    edits.extend(create.into_iter().chain(update_new).map(|endpoint| (endpoint.key(), Some(endpoint))));
    edits
}
