//! Schedules of members.

use std::fmt::Arguments;

use fairway_model::{Schedule, ScheduleWindow, ScheduleWindowError, TimeOfDay, Weekdays, WeeklyHours};

use super::Converter;
use crate::{bounds_wire::List, policy_wire as wire, policy_wire::Step, v1, v1_schedule, values_wire::As};

/// Returns the schedule of a member. Invalid windows are reported and skipped.
pub(super) fn schedule(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: Option<List<v1_schedule::Window, 1, { Schedule::WINDOWS_MAX }>>,
) -> Option<Schedule> {
    let List(windows) = wire?;
    let mut valid = Vec::with_capacity(windows.len());
    for (number, wire) in windows.into_iter().enumerate() {
        match window(wire) {
            Ok(window) => valid.push(window),
            Err((key, what, hint)) => converter.error(format_args!("{pointer}/open/{number}{key}"), what, hint),
        }
    }
    Schedule::new(valid)
}

/// An error of a window: pointer inside it, message, hint.
type WindowError = (&'static str, String, &'static str);

fn window(wire: v1_schedule::Window) -> Result<ScheduleWindow, WindowError> {
    let v1_schedule::Window { days, from, to, zone, after, before } = wire;
    let has_hours = days.is_some() || from.is_some() || to.is_some();
    let from = from.map_or(TimeOfDay::START, |As(time)| time);
    let to = to.map_or(TimeOfDay::END, |As(time)| time);
    let diagnostic = |error: ScheduleWindowError| match error {
        ScheduleWindowError::NoLength if from == TimeOfDay::END => {
            ("/from", "a window cannot open at 24:00".to_owned(), "write 00:00 and the days after")
        }
        ScheduleWindowError::NoLength => {
            let what = format!("the window opens and closes at {from}, so it is never open");
            ("/to", what, "change one of them, or remove both for whole days")
        }
        ScheduleWindowError::Reversed => ("/before", error.to_string(), "write a time later than `after`"),
        ScheduleWindowError::Nothing => {
            ("", error.to_string(), "add zone with days or times of day, or after or before")
        }
        ScheduleWindowError::Always => ("", error.to_string(), "add days or times of day, or remove zone"),
    };
    let weekly = match zone {
        Some(As(zone)) => {
            let days = days.map_or(Weekdays::ALL, |As(days)| days);
            Some(WeeklyHours::new(days, from, to, zone).map_err(diagnostic)?)
        }
        None if has_hours => {
            let what = "the window has days or times of day, but no time zone".to_owned();
            return Err(("", what, "add zone, for example Europe/Berlin or UTC"));
        }
        None => None,
    };
    ScheduleWindow::new(weekly, after.map(|As(after)| after), before.map(|As(before)| before)).map_err(diagnostic)
}

/// Checks that windows and the step `schedule` go together. Without the step, windows would have no effect, and a
/// member be answered while it should be closed.
pub(super) fn check_step(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, pool: &v1::Pool) {
    let steps = match &pool.policy {
        wire::Policy::Word(step) => std::slice::from_ref(step),
        wire::Policy::Steps(List(steps)) => &steps[..],
    };
    let says_so = steps.contains(&Step::Schedule);
    let List(members) = &pool.members;
    let mut open = members.iter().enumerate().filter(|(_, member)| member.open.is_some()).peekable();
    if says_so && open.peek().is_none() {
        let what = "the policy has the step schedule, but no member has windows";
        converter.warn(format_args!("{pointer}/policy"), what, "add `open` to a member, or remove the step");
    }
    for (number, _) in open.filter(|_| !says_so) {
        let what = "the member has windows, but the policy does not use them";
        let hint = "add the step schedule to the policy, or remove the windows";
        converter.error(format_args!("{pointer}/members/{number}/open"), what, hint);
    }
}
