//! Outcomes of writes, as idempotency records have them in the store.

use serde::{Deserialize, Serialize};

use fairway_api_types::objects_wire::ApplyReport;

/// The outcome of a write. The rest of the response is rebuilt from the repeated request and the recorded revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WriteOutcome {
    /// Objects were applied.
    Applied(ApplyReport),
    /// An object was created or replaced.
    Declared {
        /// True if there was no such object before.
        is_new: bool,
        /// Generation of the object.
        generation: u64,
        /// Time of its creation, in RFC 3339 with nanoseconds; none if this write created it.
        created: Option<String>,
        /// The object's last change before, if this write changed nothing.
        unchanged: Option<LastChange>,
    },
    /// An object was deleted.
    Deleted,
    /// An intent was created or replaced. Its content is read from its history, since a record must not hold its private key.
    IntentDeclared {
        /// Its key.
        key: String,
        /// True if there was no such intent before.
        is_new: bool,
        /// Revision of its last change; none if that is this write.
        revision: Option<u64>,
    },
}

/// The last change of an object that a write left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastChange {
    pub revision: u64,
    /// Time, in RFC 3339 with nanoseconds.
    pub changed: String,
    pub who: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
}
