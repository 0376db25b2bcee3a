//! The value of an idempotency record in the store.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request that was handled, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// SHA-256 of what was requested, in hexadecimal.
    pub(super) request: String,
    /// Content of the response, in the format of the caller.
    pub(super) outcome: Value,
}
