//! The body of an error, as it goes over the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error body, `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// The status' own words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong and what to do about it.
    pub detail: String,
    /// Everything that is wrong, each in its place; left out where there is only the detail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One thing that is wrong with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) into the body; empty for the whole.
    pub pointer: String,
    /// What is wrong and what to do about it.
    pub detail: String,
}
