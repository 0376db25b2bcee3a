//! Query parameters on the paths of ONAP and EMCO.

use schemars::JsonSchema;
use serde::Deserialize;

/// The query of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct IntentParameters {
    /// For lists: only objects whose names come after this one.
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
    pub reason: String,
}
