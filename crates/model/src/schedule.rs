//! Schedules of members: windows by the local time of a time zone, and between two moments.
//!
//! A schedule is a pure function of the moment. It reads no clock and does not know where the rules of time zones are from.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use jiff::tz::TimeZone;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A schedule: a member takes part while any of its windows is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schedule(Box<[ScheduleWindow]>);

/// The state of a schedule at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// True if a window is open.
    pub open: bool,
    /// The next change. `None` if there is none, or none among the next 1,024 beginnings and ends of windows.
    pub until: Option<Timestamp>,
}

impl Schedule {
    /// Largest number of windows.
    pub const WINDOWS_MAX: usize = 16;

    /// Returns a schedule of these windows; `None` without a window or with more than [`Self::WINDOWS_MAX`].
    pub fn new(windows: Vec<ScheduleWindow>) -> Option<Self> {
        (1..=Self::WINDOWS_MAX).contains(&windows.len()).then(|| Self(windows.into()))
    }

    /// Returns true if a window is open.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.0.iter().any(|window| window.is_open(at))
    }

    /// Returns the state at a moment.
    pub fn state_at(&self, at: Timestamp) -> ScheduleState {
        let open = self.is_open(at);
        let next = |after: &Timestamp| self.0.iter().filter_map(|window| window.next_candidate(*after)).min();
        let mut candidates = std::iter::successors(next(&at), next).take(CANDIDATES_MAX);
        ScheduleState { open, until: candidates.find(|moment| self.is_open(*moment) != open) }
    }

    /// Returns a moment in the time zone of the first window that has one, else in UTC: `2026-11-23T08:00:00+01:00[Europe/Berlin]`.
    pub fn show(&self, moment: Timestamp) -> String {
        let zone = self.0.iter().find_map(|window| window.weekly.as_ref()).map(|weekly| &weekly.zone);
        zone.map_or_else(|| moment.to_string(), |zone| zone.show(moment))
    }
}

/// A window in which a member takes part: all given conditions must be satisfied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScheduleWindow {
    weekly: Option<WeeklyHours>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

/// Error of an invalid window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleWindowError {
    /// No condition is given.
    #[error("the window has no condition")]
    Nothing,
    /// The end is not after the beginning.
    #[error("the window ends before it begins")]
    Reversed,
    /// Begin and end are the same time of day.
    #[error("the window ends at the time it begins at")]
    NoLength,
    /// Every hour of the week.
    #[error("the window is open at every hour of the week")]
    Always,
}

impl ScheduleWindow {
    /// Returns a window of hours of the week, from one moment on and before another.
    pub fn new(
        weekly: Option<WeeklyHours>,
        after: Option<Timestamp>,
        before: Option<Timestamp>,
    ) -> Result<Self, ScheduleWindowError> {
        if weekly.is_none() && after.is_none() && before.is_none() {
            return Err(ScheduleWindowError::Nothing);
        }
        if after.zip(before).is_some_and(|(after, before)| before <= after) {
            return Err(ScheduleWindowError::Reversed);
        }
        Ok(Self { weekly, after, before })
    }

    fn is_open(&self, at: Timestamp) -> bool {
        self.after.is_none_or(|after| after <= at)
            && self.before.is_none_or(|before| at < before)
            && self.weekly.as_ref().is_none_or(|weekly| weekly.is_open(at))
    }

    /// Returns the next moment at which it may open or close; `None` if there is none.
    fn next_candidate(&self, at: Timestamp) -> Option<Timestamp> {
        match (self.after, self.before) {
            (Some(after), _) if at < after => Some(after),
            (_, Some(before)) if before <= at => None,
            (_, before) => self.weekly.as_ref().map(|weekly| weekly.next_candidate(at)).into_iter().chain(before).min(),
        }
    }
}

/// Hours of days of the week, in the local time of a time zone.
///
/// Only the local time matters: a time that is skipped when summer time begins is missing from a window, and one that
/// occurs twice when it ends is in the window twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeeklyHours {
    days: Weekdays,
    from: TimeOfDay,
    to: TimeOfDay,
    zone: NamedTimeZone,
}

impl WeeklyHours {
    /// Returns the hours from one time of day to another on these days. If `to` is before `from`, they end on the next day,
    /// which need not be one of these days.
    pub fn new(
        days: Weekdays,
        from: TimeOfDay,
        to: TimeOfDay,
        zone: NamedTimeZone,
    ) -> Result<Self, ScheduleWindowError> {
        if from == to || from == TimeOfDay::END {
            return Err(ScheduleWindowError::NoLength);
        }
        if days == Weekdays::ALL && from == TimeOfDay::START && to == TimeOfDay::END {
            return Err(ScheduleWindowError::Always);
        }
        Ok(Self { days, from, to, zone })
    }

    fn is_open(&self, at: Timestamp) -> bool {
        let (day, second) = self.zone.local(at);
        let (from, to) = (self.from.seconds(), self.to.seconds());
        let today = self.days.contains(day);
        if from < to {
            return today && (from..to).contains(&second);
        }
        today && second >= from || self.days.contains(day + 6) && second < to
    }

    fn next_candidate(&self, at: Timestamp) -> Timestamp {
        // Until the UTC offset changes, each local time occurs once a day.
        let (_, second) = self.zone.local(at);
        let ahead = |time: TimeOfDay| (time.seconds() + 2 * DAY - second - 1) % DAY + 1;
        let by_clock = Timestamp::from_secs(at.secs() + ahead(self.from).min(ahead(self.to)));
        self.zone.next_offset_change(at).map_or(by_clock, |change| change.min(by_clock))
    }
}

/// Days of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weekdays(u8);

impl Weekdays {
    /// Every day.
    pub const ALL: Self = Self(0x7f);
    /// Their names, Monday first.
    pub const NAMES: [&'static str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

    /// Returns these days and one more, counted from Monday = 0.
    pub const fn with(self, day: u8) -> Self {
        Self(self.0 | 1 << (day % 7))
    }

    const fn contains(self, day: u8) -> bool {
        self.0 >> (day % 7) & 1 == 1
    }
}

/// A time of day in whole minutes, from 00:00 to 24:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// 00:00.
    pub const START: Self = Self(0);
    /// 24:00, the end of the day.
    pub const END: Self = Self(24 * 60);

    /// Returns the time of day; `None` past 24:00.
    pub fn new(hour: u16, minute: u16) -> Option<Self> {
        let time = Self(hour.checked_mul(60)?.checked_add(minute)?);
        (minute < 60 && time <= Self::END).then_some(time)
    }

    fn seconds(self) -> u64 {
        u64::from(self.0) * 60
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// A time zone of the IANA database, with its rules.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedTimeZone(TimeZone);

impl NamedTimeZone {
    /// Returns the time zone with these rules; `None` if they have no IANA name.
    pub fn new(rules: TimeZone) -> Option<Self> {
        rules.iana_name().is_some().then(|| Self(rules.clone()))
    }

    /// Returns its IANA name: `Europe/Berlin`.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or_default()
    }

    /// Returns the local day of the week, counted from Monday = 0, and the second of the day.
    fn local(&self, at: Timestamp) -> (u8, u64) {
        let local = self.0.to_datetime(at.to_jiff());
        let day = local.weekday().to_monday_zero_offset().unsigned_abs();
        let [hour, minute, second] =
            [local.hour(), local.minute(), local.second()].map(|n| u64::from(n.unsigned_abs()));
        (day, (hour * 60 + minute) * 60 + second)
    }

    /// Returns the next change of the UTC offset.
    fn next_offset_change(&self, at: Timestamp) -> Option<Timestamp> {
        let change = self.0.following(at.to_jiff()).next()?;
        Some(change.timestamp().into())
    }

    fn show(&self, moment: Timestamp) -> String {
        // Whole seconds, as in the text of a moment in UTC.
        format!("{:.0}", moment.to_jiff().to_zoned_datetime(self.0.clone()))
    }
}

impl fmt::Debug for NamedTimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Hash for NamedTimeZone {
    /// Hashes the name only, so that the hash is the same on servers with different editions of the database.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// Largest number of moments that are checked for the next change: with 16 windows of two moments a day, those of a month.
const CANDIDATES_MAX: usize = 1024;

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
