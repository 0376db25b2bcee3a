//! The part of the configuration file, version 1, that declares records one name at a time.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use fairway_model::{Name, Rtype, Ttl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{List, Text},
    values_wire::As,
};

/// Records of a name that are served as they are, beside those of the zone's file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Records {
    /// The name. It may be a wildcard, and it may be steered, for types that its pool does not answer.
    pub(super) name: As<Name>,
    /// Its record sets, one a type.
    pub(super) sets: List<RecordSet, 1, 64>,
}

/// All records of a name that have one type.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RecordSet {
    /// The type: a mnemonic, or `TYPE65280` (RFC 3597).
    #[serde(rename = "type")]
    pub(super) rtype: As<Rtype>,
    /// How long resolvers may keep them.
    #[schemars(extend("default" = "5m"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// The data of each record, as in a zone file. Names in it are whole, with or without a dot at their end.
    pub(super) data: List<Text<0, 65535>, 1, 4096>,
}
