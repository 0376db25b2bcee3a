//! Objects of the store that hold webhook contributions: rows of one client, and the time of its last call.

use fairway_providers::{Endpoint, Json};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Time when an endpoint with this key was first contributed, in seconds since 1970.
    pub since: u64,
    /// The endpoint as it was adjusted.
    pub endpoint: Endpoint,
    /// Set once its writer has withdrawn it and the withdrawal is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

impl Row {
    /// Returns name, type and set identifier, as they are spelled.
    pub(crate) fn identity(&self) -> [&str; 3] {
        let Endpoint { dns_name, record_type, set_identifier, .. } = &self.endpoint;
        [dns_name, record_type, set_identifier]
    }
}

/// A withdrawal that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Time of the withdrawal, in seconds since 1970.
    pub at: u64,
    /// Reason.
    pub rule: HoldRule,
}

/// The reason why a withdrawal is held.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum HoldRule {
    /// The owner withdrew all of its names, or many, within ten minutes.
    ManyNames,
    /// The name would have been left without a healthy member.
    LastHealthyMember,
}

/// A name that an owner withdrew at once. It counts towards the limit of the next ten minutes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawn {
    /// The name, in the spelling of [`ReadRow::text`](crate::ReadRow::text).
    pub name: String,
    /// The owner.
    pub owner: String,
    /// Time of the withdrawal, in seconds since 1970.
    pub at: u64,
}

/// A part of a client's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The rows.
    pub rows: Vec<Row>,
    /// Names of this part that were withdrawn in the last ten minutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<Withdrawn>,
}

impl Part {
    /// Returns the value of the object that holds it; `None` if it is empty.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let is_empty = self.rows.is_empty() && self.withdrawn.is_empty();
        (!is_empty).then(|| self.to_json())
    }
}

#[derive(Serialize, Deserialize)]
struct Seen {
    seen: u64,
}

/// Reads the time of a client's last call, in seconds since 1970.
pub fn read_seen(bytes: &[u8]) -> Result<u64, String> {
    Seen::from_json(bytes).map(|seen| seen.seen)
}

/// Returns an object with the time of a client's last call.
pub fn write_seen(seen: u64) -> Vec<u8> {
    Seen { seen }.to_json()
}
