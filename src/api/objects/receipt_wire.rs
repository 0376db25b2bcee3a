//! What is kept of a write that carried a key, so that the same request gets the same answer: an object of its own, written with the
//! others in one batch.

use serde::{Deserialize, Serialize};

use super::super::objects_wire::ApplyReport;

/// What is kept of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    /// SHA-256 of what was asked for, in hexadecimal.
    pub(super) asked: String,
    /// What was answered.
    #[serde(flatten)]
    pub(super) done: Done,
}

/// What was answered. The rest is in the request, which is the same, and in the revision of the receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Done {
    /// One object is there.
    Declared {
        /// Whether it was not there before.
        is_new: bool,
        /// How often it has changed.
        generation: u64,
        /// When it was made; none where it was made by this write.
        created: Option<String>,
        /// Its last change, where the write changed nothing.
        same: Option<Same>,
    },
    /// One object is gone.
    Deleted,
    /// Many were declared.
    Applied(ApplyReport),
}

/// The last change of an object that a write left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Same {
    pub(super) revision: u64,
    pub(super) changed: String,
    pub(super) who: String,
    pub(super) why: String,
}
