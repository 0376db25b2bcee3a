//! When a member takes part: windows by the clock of a zone, and between moments.
//!
//! A schedule is a pure function of the moment. Who looks at a clock, and what becomes of members that are closed, is not
//! said here; nor is where the rules of a zone come from.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use jiff::tz::TimeZone;

use crate::Timestamp;

/// When a member takes part: while any of its windows is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule(Box<[ScheduleWindow]>);

/// How a schedule stands at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// True if a window is open.
    pub open: bool,
    /// When that changes; none where it does not, or not within the weeks that are looked through.
    pub until: Option<Timestamp>,
}

impl Schedule {
    /// Most windows a schedule may have.
    pub const WINDOWS_MAX: usize = 16;

    /// Returns a schedule of these windows; none without a window, or with too many.
    pub fn new(windows: Vec<ScheduleWindow>) -> Option<Self> {
        (1..=Self::WINDOWS_MAX).contains(&windows.len()).then(|| Self(windows.into()))
    }

    /// Returns true if a window is open.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.0.iter().any(|window| window.is_open(at))
    }

    /// How it stands, and until when.
    pub fn turn(&self, at: Timestamp) -> ScheduleState {
        let open = self.is_open(at);
        let next = |after: &Timestamp| self.0.iter().filter_map(|window| window.next_look(*after)).min();
        let mut looks = std::iter::successors(next(&at), next).take(LOOKS_MAX);
        ScheduleState { open, until: looks.find(|look| self.is_open(*look) != open) }
    }

    /// Returns a moment by the clock of the first zone that is named, else in UTC: `2026-11-23T08:00:00+01:00[Europe/Berlin]`.
    pub fn show(&self, moment: Timestamp) -> String {
        let zone = self.0.iter().find_map(|window| window.weekly.as_ref()).map(|weekly| &weekly.zone);
        zone.map_or_else(|| moment.to_string(), |zone| zone.show(moment))
    }
}

/// A span of time in which a member takes part: everything that is said must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleWindow {
    weekly: Option<WeeklyHours>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

/// What is no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleWindowError {
    /// Nothing is said.
    #[error("the window says nothing")]
    Nothing,
    /// The end is not past the begin.
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
    /// Returns a window of some hours of the week, from a moment on, before a moment.
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

    /// Returns the next moment at which it may open or close.
    fn next_look(&self, at: Timestamp) -> Option<Timestamp> {
        match (self.after, self.before) {
            (Some(after), _) if at < after => Some(after),
            (_, Some(before)) if before <= at => None,
            (_, before) => self.weekly.as_ref().map(|weekly| weekly.next_look(at)).into_iter().chain(before).min(),
        }
    }
}

/// Hours of some days of the week, as a clock on the wall of a zone shows them.
///
/// What that clock leaps over is missing from a window, and what it shows twice is in it twice: nothing but the clock's
/// face counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeeklyHours {
    days: Weekdays,
    from: TimeOfDay,
    to: TimeOfDay,
    zone: NamedTimeZone,
}

impl WeeklyHours {
    /// From one time of day to another, on these days. A window that ends at an earlier time than it begins at ends on the
    /// day after, whose name does not count.
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

    fn next_look(&self, at: Timestamp) -> Timestamp {
        // Until the zone turns its clock, that shows each time of day once a day.
        let (_, second) = self.zone.local(at);
        let ahead = |time: TimeOfDay| (time.seconds() + 2 * DAY - second - 1) % DAY + 1;
        let by_clock = Timestamp::from_secs(at.secs() + ahead(self.from).min(ahead(self.to)));
        self.zone.next_turn(at).map_or(by_clock, |turn| turn.min(by_clock))
    }
}

/// Days of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Weekdays(u8);

impl Weekdays {
    /// Every day.
    pub const ALL: Self = Self(0x7f);
    /// Their names, Monday first.
    pub const NAMES: [&'static str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

    /// The same days, and this one: counted from Monday, a week round.
    pub const fn with(self, day: u8) -> Self {
        Self(self.0 | 1 << (day % 7))
    }

    const fn contains(self, day: u8) -> bool {
        self.0 >> (day % 7) & 1 == 1
    }
}

/// A time of day in whole minutes, from 00:00 to 24:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// 00:00.
    pub const START: Self = Self(0);
    /// 24:00, the end of the day.
    pub const END: Self = Self(24 * 60);

    /// Returns the time that a clock shows so; none past 24:00.
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

/// A zone of the IANA database, with its rules: how far its clocks are from UTC, and when they are turned.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedTimeZone(TimeZone);

impl NamedTimeZone {
    /// Returns the zone of these rules; none where they have no name.
    pub fn new(rules: TimeZone) -> Option<Self> {
        rules.iana_name().is_some().then(|| Self(rules.clone()))
    }

    /// Returns its name: `Europe/Berlin`.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or_default()
    }

    /// Day of the week, counted from Monday, and second of the day.
    fn local(&self, at: Timestamp) -> (u8, u64) {
        let local = self.0.to_datetime(at.to_jiff());
        let day = local.weekday().to_monday_zero_offset().unsigned_abs();
        let [hour, minute, second] =
            [local.hour(), local.minute(), local.second()].map(|n| u64::from(n.unsigned_abs()));
        (day, (hour * 60 + minute) * 60 + second)
    }

    /// When its clocks are turned next.
    fn next_turn(&self, at: Timestamp) -> Option<Timestamp> {
        let turn = self.0.following(at.to_jiff()).next()?;
        Some(turn.timestamp().into())
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
    /// By name: what is hashed must be the same on every server, whichever edition of the database it has.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// Seconds.
const DAY: u64 = 24 * 60 * 60;
/// Most moments that are looked at for the next change: with 16 windows of two a day each, those of a month.
const LOOKS_MAX: usize = 1024;

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
