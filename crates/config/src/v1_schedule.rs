//! Windows of members as they stand in a file.

use fairway_model::{NamedTimeZone, TimeOfDay, Timestamp, Weekdays};
use schemars::JsonSchema;
use serde::Deserialize;

use super::values_wire::As;

/// When a member takes part: everything that is said must hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Window {
    /// Days of the week: names and ranges with commas, like `mon-fri` or `mon,wed-fri`. Default: every day.
    pub(super) days: Option<As<Weekdays>>,
    /// Time of day at which it opens.
    #[schemars(extend("default" = "00:00"))]
    pub(super) from: Option<As<TimeOfDay>>,
    /// Time of day at which it closes; where that is earlier than `from`, on the next day.
    #[schemars(extend("default" = "24:00"))]
    pub(super) to: Option<As<TimeOfDay>>,
    /// The zone of the IANA database whose clocks count, like `Europe/Berlin`, or `UTC`. Needed with days or times of day.
    pub(super) zone: Option<As<NamedTimeZone>>,
    /// The moment from which on it holds. Default: always.
    pub(super) after: Option<As<Timestamp>>,
    /// The moment at which it ends for good. Default: never.
    pub(super) before: Option<As<Timestamp>>,
}
