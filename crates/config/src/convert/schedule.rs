//! Windows of members.

use std::fmt::Arguments;

use fairway_model::{Schedule, ScheduleWindow, ScheduleWindowError, TimeOfDay, Weekdays, WeeklyHours};

use super::Meaning;
use crate::{bounds_wire::List, policy_wire as wire, policy_wire::Step, v1, v1_schedule, values_wire::As};

/// When a member takes part. Windows that are at fault are left out.
pub(super) fn schedule(
    meaning: &mut Meaning<'_, '_>,
    pointer: Arguments<'_>,
    wire: Option<List<v1_schedule::Window, 1, { Schedule::WINDOWS_MAX }>>,
) -> Option<Schedule> {
    let List(windows) = wire?;
    let mut sound = Vec::with_capacity(windows.len());
    for (number, wire) in windows.into_iter().enumerate() {
        match window(wire) {
            Ok(window) => sound.push(window),
            Err((key, what, hint)) => meaning.error(format_args!("{pointer}/open/{number}{key}"), what, hint),
        }
    }
    Schedule::new(sound)
}

/// A fault of a window: where in it, what, and the way out.
type WindowFault = (&'static str, String, &'static str);

fn window(wire: v1_schedule::Window) -> Result<ScheduleWindow, WindowFault> {
    let v1_schedule::Window { days, from, to, zone, after, before } = wire;
    let has_hours = days.is_some() || from.is_some() || to.is_some();
    let from = from.map_or(TimeOfDay::START, |As(time)| time);
    let to = to.map_or(TimeOfDay::END, |As(time)| time);
    let fault = |error: ScheduleWindowError| match error {
        ScheduleWindowError::NoLength if from == TimeOfDay::END => {
            ("/from", "no day has an hour after 24:00".to_owned(), "let it open at 00:00, on the days after")
        }
        ScheduleWindowError::NoLength => {
            let what = format!("the window opens and closes at {from}, so that it is no time long");
            ("/to", what, "give another time, or leave both out for whole days")
        }
        ScheduleWindowError::Reversed => ("/before", error.to_string(), "give a moment that is past `after`"),
        ScheduleWindowError::Nothing => {
            ("", error.to_string(), "give zone with days or times of day, or after or before")
        }
        ScheduleWindowError::Always => ("", error.to_string(), "give days or times of day, or leave zone out"),
    };
    let weekly = match zone {
        Some(As(zone)) => {
            let days = days.map_or(Weekdays::ALL, |As(days)| days);
            Some(WeeklyHours::new(days, from, to, zone).map_err(fault)?)
        }
        None if has_hours => {
            let what = "the window has days or times of day, and no zone whose clocks show them".to_owned();
            return Err(("", what, "add zone, like Europe/Berlin, or UTC"));
        }
        None => None,
    };
    ScheduleWindow::new(weekly, after.map(|As(after)| after), before.map(|As(before)| before)).map_err(fault)
}

/// Windows without the step would be passed over silently, and a member be answered that is meant to be closed.
pub(super) fn agrees(meaning: &mut Meaning<'_, '_>, pointer: Arguments<'_>, pool: &v1::Pool) {
    let steps = match &pool.policy {
        wire::Policy::Word(step) => std::slice::from_ref(step),
        wire::Policy::Steps(List(steps)) => &steps[..],
    };
    let says_so = steps.contains(&Step::Schedule);
    let List(members) = &pool.members;
    let mut open = members.iter().enumerate().filter(|(_, member)| member.open.is_some()).peekable();
    if says_so && open.peek().is_none() {
        let what = "the policy has the step schedule, and no member has windows";
        meaning.warn(format_args!("{pointer}/policy"), what, "give a member `open`, or take the step out");
    }
    for (number, _) in open.filter(|_| !says_so) {
        let what = "the member has windows, and the policy does not heed them";
        let hint = "add the step schedule to the policy, or take the windows out";
        meaning.error(format_args!("{pointer}/members/{number}/open"), what, hint);
    }
}
