//! Objects of the store that hold webhook contributions: rows of one client, and the time of its last call.

use fairway_providers::{Endpoint, Json};
use serde::{Deserialize, Serialize};

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Time when an endpoint with this key was first contributed, in seconds since 1970.
    pub since: u64,
    /// The endpoint as it was adjusted.
    pub endpoint: Endpoint,
}

#[derive(Serialize, Deserialize)]
struct Part {
    rows: Vec<Row>,
}

/// Reads the rows of an object.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Row>, String> {
    Part::from_json(bytes).map(|part| part.rows)
}

/// Returns an object with these rows.
pub(super) fn write(rows: Vec<Row>) -> Vec<u8> {
    Part { rows }.to_json()
}

#[derive(Serialize, Deserialize)]
struct Seen {
    seen: u64,
}

/// Reads the time of a client's last call, in seconds since 1970.
pub(crate) fn read_seen(bytes: &[u8]) -> Result<u64, String> {
    Seen::from_json(bytes).map(|seen| seen.seen)
}

/// Returns an object with the time of a client's last call.
pub(super) fn write_seen(seen: u64) -> Vec<u8> {
    Seen { seen }.to_json()
}
