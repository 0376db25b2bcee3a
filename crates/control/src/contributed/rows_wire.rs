//! Endpoints as they lie in an object of the store: those of one client whose names fall into one part.

use fairway_providers::{Endpoint, Json};
use serde::{Deserialize, Serialize};

/// An endpoint that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Since when there is one with this key, in seconds since 1970.
    pub since: u64,
    /// As it was adjusted.
    pub endpoint: Endpoint,
}

#[derive(Serialize, Deserialize)]
struct Part {
    rows: Vec<Row>,
}

/// The rows of an object.
pub(super) fn read(octets: &[u8]) -> Result<Vec<Row>, String> {
    Part::from_json(octets).map(|part| part.rows)
}

#[derive(Serialize, Deserialize)]
struct Seen {
    seen: u64,
}

/// When a client was heard of, in seconds since 1970.
pub fn read_seen(octets: &[u8]) -> Result<u64, String> {
    Seen::from_json(octets).map(|seen| seen.seen)
}

/// The octets of that.
pub(super) fn write_seen(seen: u64) -> Vec<u8> {
    Seen { seen }.to_json()
}

/// The octets of an object with these rows.
pub(super) fn write(rows: Vec<Row>) -> Vec<u8> {
    Part { rows }.to_json()
}
