//! The body of an error, as it goes over the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error body, `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// Standard phrase of the status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Error and hint.
    pub detail: String,
    /// Errors of fields; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// An error of a field of the body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) to the field; empty for the whole body.
    pub pointer: String,
    /// Error and hint.
    pub detail: String,
}
