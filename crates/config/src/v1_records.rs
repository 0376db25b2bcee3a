//! The part of the configuration file, version 1, that declares record sets.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use fairway_model::{Name, Rtype, Ttl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::bounds_wire::{As, List, Text};

/// Static records of a name, in addition to those of the zone file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Records {
    /// Owner name. It may be a wildcard; if it is steered, only types that its pool does not answer are allowed.
    pub(super) name: As<Name>,
    /// Record sets of the name, one per type.
    pub(super) sets: List<RecordSet, 1, 64>,
}

/// All records of a name and type.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RecordSet {
    /// The type: a mnemonic, or `TYPE65280` (RFC 3597).
    #[serde(rename = "type")]
    pub(super) rtype: As<Rtype>,
    /// TTL of the records.
    #[schemars(extend("default" = "5m"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// Data of each record, as in a zone file. Names in it are absolute, with or without a final dot.
    pub(super) data: List<Text<0, 65535>, 1, 4096>,
}
