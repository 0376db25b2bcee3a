//! What requests on the paths of ONAP and EMCO may ask beside their bodies.

use schemars::JsonSchema;
use serde::Deserialize;

/// The query of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct IntentParameters {
    /// Of lists: objects whose names come after this one.
    pub after: Option<String>,
    /// Of sets: let it name what is not there yet.
    pub defer: bool,
    /// Of writes: only tell what would come of it.
    pub dry_run: bool,
    /// Of bodies: take them as pages of the wiki print them, with comments and durations without quotes.
    pub lenient: bool,
    /// Of lists: at most so many, 1 to 1,000, which is the default.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// Of writes: why, for the history.
    pub reason: String,
}
