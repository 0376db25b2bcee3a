//! What is kept of a write that carried a key, so that the same request gets the same answer: an object of its own, written with the
//! others in one batch.

use serde::{Deserialize, Serialize};

use fairway_api_types::objects_wire::ApplyReport;

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
pub(crate) enum Done {
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
    /// One intent is there. What it said is in its history, which has its private key already.
    Kept {
        /// Where it is.
        key: String,
        /// Whether it was not there before.
        is_new: bool,
        /// The revision of its last change; none where that is this write.
        revision: Option<u64>,
    },
    /// Many were declared.
    Applied(ApplyReport),
}

/// The last change of an object that a write left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Same {
    pub revision: u64,
    pub changed: String,
    pub who: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
}
