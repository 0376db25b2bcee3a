//! Bodies about the change log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The query of `GET /v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventParameters {
    /// Earliest time (RFC 3339); default the beginning of the log.
    #[serde(default)]
    pub since: Option<String>,
    /// Latest time (RFC 3339); default now.
    #[serde(default)]
    pub until: Option<String>,
    /// Kinds, separated by commas: `process`, `health`, `override`, `configuration`, `change`, `api`, `schedule`, `load`, `publishing`, `hold`,
    /// `kubernetes`; default all.
    #[serde(default)]
    pub event: Option<String>,
    /// Text that the message or a field contains, whatever the case of its letters.
    #[serde(default)]
    pub contains: Option<String>,
    /// Id of an event: only those after it, the oldest first.
    #[serde(default)]
    pub after: Option<u64>,
    /// Maximum number, 1 to 1,000; default 100. Without `after` they are the newest ones.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u16>,
}

/// Events of the change log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Beginning of the log (RFC 3339); null without a log.
    pub begins: Option<String>,
    /// The events.
    pub events: Vec<TimelineEvent>,
}

/// Something that changed answers, or could have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEvent {
    /// Id, which rises with time.
    pub id: u64,
    /// Time (RFC 3339).
    pub time: String,
    /// Kind: `process`, `health`, `override`, `configuration`, `change`, `api`, `schedule`, `load`, `publishing`, `hold` or `kubernetes`.
    pub event: String,
    /// Level: `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// Message, as in the log.
    pub message: String,
    /// Id of the operation that it is part of, as in the log; null outside of one.
    pub trace: Option<String>,
    /// Its own fields, as in the log. `remote` is the network of the client: 24 bits of an IPv4 address, 56 of an IPv6 address.
    pub fields: BTreeMap<String, Value>,
}

/// The state of the past that an explanation is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastState {
    /// The time asked for (RFC 3339).
    pub time: String,
    /// Time from which the state was served (RFC 3339).
    pub since: String,
    /// True if it is the state that was served: configuration, health, overrides and shares.
    pub exact: bool,
    /// Reason why it is not; null if it is.
    pub note: Option<String>,
}
