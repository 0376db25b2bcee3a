//! Query parameters on the paths of ONAP and EMCO.

use schemars::JsonSchema;
use serde::Deserialize;

/// The query of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct IntentParameters {
    /// For lists: only objects whose names come after this one; of composite apps `NAME/VERSION`.
    #[schemars(length(max = 255), pattern("^[!-.0-~]*$"))]
    pub after: Option<String>,
    /// For sets: allow names of intents that do not exist yet.
    pub defer: bool,
    /// For writes: report what would change, and change nothing.
    pub dry_run: bool,
    /// For access points: store one that denies requests, although nothing enforces it.
    pub inert: bool,
    /// For bodies: accept the examples of the ONAP wiki, with comments and durations without quotes.
    pub lenient: bool,
    /// For lists: number of objects, 1 to 1,000; 1,000 by default.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// For writes: reason, for the history.
    #[schemars(length(max = 1024), pattern(r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub reason: String,
}
