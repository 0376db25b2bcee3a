//! Windows of members, as written in a file.

use fairway_model::{NamedTimeZone, TimeOfDay, Timestamp, Weekdays};
use schemars::JsonSchema;
use serde::Deserialize;

use super::bounds_wire::As;

/// A window of time in which a member takes part; all given keys must hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Window {
    /// Days of the week: names and ranges, separated by commas, like `mon-fri` or `mon,wed-fri`. Default: every day.
    pub(super) days: Option<As<Weekdays>>,
    /// Time of day at which the window opens.
    #[schemars(extend("default" = "00:00"))]
    pub(super) from: Option<As<TimeOfDay>>,
    /// Time of day at which it closes; if that is before `from`, on the next day.
    #[schemars(extend("default" = "24:00"))]
    pub(super) to: Option<As<TimeOfDay>>,
    /// IANA time zone of days and times, like `Europe/Berlin`, or `UTC`. Required with days or times of day.
    pub(super) zone: Option<As<NamedTimeZone>>,
    /// Time before which the window is closed. Default: none.
    pub(super) after: Option<As<Timestamp>>,
    /// Time from which on the window is closed for good. Default: none.
    pub(super) before: Option<As<Timestamp>>,
}
