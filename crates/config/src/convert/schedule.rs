//! Schedules of members.

use std::fmt::Arguments;

use fairway_model::{Schedule, ScheduleWindow, ScheduleWindowError, TimeOfDay, Weekdays, WeeklyHours};

use super::Converter;
use crate::{
    bounds_wire::{As, List, Plain},
    policy_wire::Step,
    reason::Reason,
    v1, v1_schedule,
};

/// Returns the schedule of a member. Invalid windows are reported and skipped.
pub(super) fn schedule(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: Option<List<v1_schedule::Window, 1, { Schedule::WINDOWS_MAX }>>,
) -> Option<Schedule> {
    let As(windows) = wire?;
    let mut valid = Vec::with_capacity(windows.len());
    for (number, wire) in windows.into_iter().enumerate() {
        match window(wire) {
            Ok(window) => valid.push(window),
            Err((key, why)) => converter.reject(format_args!("{pointer}/open/{number}{key}"), why),
        }
    }
    Schedule::new(valid)
}

/// Converts a window. An error has the pointer inside the window.
fn window(wire: v1_schedule::Window) -> Result<ScheduleWindow, (&'static str, Reason)> {
    let v1_schedule::Window { days, from, to, zone, after, before } = wire;
    let has_hours = days.is_some() || from.is_some() || to.is_some();
    let from = from.plain().unwrap_or(TimeOfDay::START);
    let to = to.plain().unwrap_or(TimeOfDay::END);
    let explain = |error: ScheduleWindowError| {
        let (key, hint) = match error {
            ScheduleWindowError::NoLength if from == TimeOfDay::END => {
                return ("/from", Reason::new("a window cannot open at 24:00", "write 00:00 on the following days"));
            }
            ScheduleWindowError::NoLength => {
                let what = format!("the window opens and closes at {from}, so it is never open");
                return ("/to", Reason::new(what, "change one of them, or remove both for whole days"));
            }
            ScheduleWindowError::Reversed => ("/before", "write a time later than `after`"),
            ScheduleWindowError::Nothing => ("", "add zone with days or times of day, or after or before"),
            ScheduleWindowError::Always => ("", "add days or times of day, or remove zone"),
        };
        (key, Reason::new(error.to_string(), hint))
    };
    let weekly = match zone {
        Some(As(zone)) => {
            let days = days.plain().unwrap_or(Weekdays::ALL);
            Some(WeeklyHours::new(days, from, to, zone).map_err(explain)?)
        }
        None if has_hours => {
            let what = "the window has days or times of day, but no time zone";
            return Err(("", Reason::new(what, "add zone, for example Europe/Berlin or UTC")));
        }
        None => None,
    };
    ScheduleWindow::new(weekly, after.plain(), before.plain()).map_err(explain)
}

/// Checks that windows and the step `schedule` go together. Without the step, windows would have no effect, and a
/// member be answered while it should be closed.
pub(super) fn check_step(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, pool: &v1::Pool) {
    let says_so = pool.policy.steps().contains(&Step::Schedule);
    let As(members) = &pool.members;
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
