//! Tests of schedules, some against a clock that is read minute by minute.

use jiff::civil::Weekday;
use proptest::prelude::*;

use super::*;

fn zone(name: &str) -> NamedTimeZone {
    NamedTimeZone::new(TimeZone::get(name).unwrap()).unwrap()
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn time(text: &str) -> TimeOfDay {
    let (hour, minute) = text.split_once(':').unwrap();
    TimeOfDay::new(hour.parse().unwrap(), minute.parse().unwrap()).unwrap()
}

/// `mon fri 08:00 20:00 Europe/Berlin`: the days, then the hours, then the zone.
fn weekly(text: &str) -> WeeklyHours {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let name = words.pop().unwrap();
    let (to, from) = (time(words.pop().unwrap()), time(words.pop().unwrap()));
    let number = |word: &str| Weekdays::NAMES.iter().position(|name| *name == word).unwrap() as u8;
    let days = words.into_iter().fold(Weekdays::default(), |days, word| days.with(number(word)));
    WeeklyHours::new(if days == Weekdays::default() { Weekdays::ALL } else { days }, from, to, zone(name)).unwrap()
}

fn schedule(text: &str) -> Schedule {
    Schedule::new(vec![ScheduleWindow::new(Some(weekly(text)), None, None).unwrap()]).unwrap()
}

/// Returns every transition between two moments, in local time without the year.
fn transitions(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
    let (mut at, end) = (moment(from), moment(to));
    let mut found = Vec::new();
    while let Some(until) = schedule.state_at(at).until.filter(|until| *until < end) {
        let word = if schedule.is_open(until) { "opens" } else { "closes" };
        found.push(format!("{word} {}", &schedule.show(until)[5..22]));
        at = until;
    }
    found
}

#[test]
fn working_hours_open_and_close_in_local_time() {
    let hours = schedule("mon tue wed thu fri 08:00 20:00 Europe/Berlin");
    let state = hours.state_at(moment("2026-11-21T12:00:00Z"));
    assert_eq!((state.open, state.until), (false, Some(moment("2026-11-23T07:00:00Z"))));
    assert_eq!(hours.show(state.until.unwrap()), "2026-11-23T08:00:00+01:00[Europe/Berlin]");
    assert!(hours.is_open(moment("2026-11-23T18:59:59.9Z")) && !hours.is_open(moment("2026-11-23T19:00:00Z")));
    assert_eq!(
        transitions(&hours, "2026-11-20T12:00:00Z", "2026-11-24T12:00:00Z"),
        ["closes 11-20T20:00:00+01", "opens 11-23T08:00:00+01", "closes 11-23T20:00:00+01", "opens 11-24T08:00:00+01"]
    );
}

#[test]
fn window_over_midnight_belongs_to_the_day_it_begins_on() {
    let night = schedule("sun 22:00 06:00 Asia/Tokyo");
    assert_eq!(
        transitions(&night, "2026-11-21T00:00:00Z", "2026-11-28T00:00:00Z"),
        ["opens 11-22T22:00:00+09", "closes 11-23T06:00:00+09"]
    );
    let to_midnight = schedule("sat 22:00 00:00 UTC");
    assert_eq!(
        transitions(&to_midnight, "2026-11-21T00:00:00Z", "2026-11-28T00:00:00Z"),
        ["opens 11-21T22:00:00+00", "closes 11-22T00:00:00+00"]
    );
}

#[test]
fn whole_days_in_a_row_are_one_window() {
    let weekend = schedule("sat sun 00:00 24:00 America/New_York");
    assert_eq!(
        transitions(&weekend, "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"),
        ["opens 11-21T00:00:00-05", "closes 11-23T00:00:00-05"]
    );
}

#[test]
fn window_in_a_skipped_hour_opens_after_it() {
    // On 2026-03-29 Berlin's clocks go from 02:00 to 03:00.
    let turned = |text: &str| transitions(&schedule(text), "2026-03-28T23:00:00Z", "2026-03-29T12:00:00Z");
    assert_eq!(turned("02:30 04:00 Europe/Berlin"), ["opens 03-29T03:00:00+02", "closes 03-29T04:00:00+02"]);
    assert_eq!(turned("01:00 02:30 Europe/Berlin"), ["opens 03-29T01:00:00+01", "closes 03-29T03:00:00+02"]);
    assert!(turned("02:00 02:30 Europe/Berlin").is_empty());
}

#[test]
fn window_in_a_repeated_hour_opens_twice() {
    // On 2026-10-25 Berlin's clocks go from 03:00 back to 02:00.
    let turned = |text: &str| transitions(&schedule(text), "2026-10-24T23:30:00Z", "2026-10-25T12:00:00Z");
    assert_eq!(
        turned("02:30 02:45 Europe/Berlin"),
        ["opens 10-25T02:30:00+02", "closes 10-25T02:45:00+02", "opens 10-25T02:30:00+01", "closes 10-25T02:45:00+01"]
    );
    assert_eq!(turned("02:00 03:00 Europe/Berlin"), ["opens 10-25T02:00:00+02", "closes 10-25T03:00:00+01"]);
    assert_eq!(
        turned("00:00 02:30 Europe/Berlin"),
        ["closes 10-25T02:30:00+02", "opens 10-25T02:00:00+01", "closes 10-25T02:30:00+01"]
    );
}

#[test]
fn absolute_bounds_limit_a_window() {
    let (after, before) = (moment("2031-12-01T00:00:00Z"), moment("2031-12-24T12:00:00Z"));
    let moved = Schedule::new(vec![
        ScheduleWindow::new(None, None, Some(moment("2027-01-01T00:00:00Z"))).unwrap(),
        ScheduleWindow::new(Some(weekly("mon 10:00 11:00 UTC")), Some(after), Some(before)).unwrap(),
    ])
    .unwrap();
    assert_eq!(
        transitions(&moved, "2026-01-01T00:00:00Z", "2040-01-01T00:00:00Z"),
        [
            "closes 01-01T00:00:00+00",
            "opens 12-01T10:00:00+00",
            "closes 12-01T11:00:00+00",
            "opens 12-08T10:00:00+00",
            "closes 12-08T11:00:00+00",
            "opens 12-15T10:00:00+00",
            "closes 12-15T11:00:00+00",
            "opens 12-22T10:00:00+00",
            "closes 12-22T11:00:00+00",
        ]
    );
    let last = ScheduleState { open: false, until: None };
    assert_eq!((moved.state_at(before), moved.state_at(Timestamp::from_secs(u64::MAX))), (last, last));
}

#[test]
fn adjacent_windows_have_no_transition_between_them() {
    let halves = ["00:00 12:00 Europe/Berlin", "12:00 24:00 Europe/Berlin"];
    let windows = halves.map(|half| ScheduleWindow::new(Some(weekly(half)), None, None).unwrap());
    let always = Schedule::new(windows.to_vec()).unwrap();
    assert_eq!(always.state_at(moment("2026-06-01T00:00:00Z")), ScheduleState { open: true, until: None });
}

#[test]
fn invalid_window_is_rejected() {
    let (noon, night) = (time("12:00"), time("22:00"));
    let weekly = |from, to| WeeklyHours::new(Weekdays::ALL, from, to, zone("UTC")).map(|_| ());
    assert_eq!(weekly(noon, noon), Err(ScheduleWindowError::NoLength));
    assert_eq!(weekly(TimeOfDay::END, noon), Err(ScheduleWindowError::NoLength));
    assert_eq!(weekly(TimeOfDay::START, TimeOfDay::END), Err(ScheduleWindowError::Always));
    assert_eq!(weekly(night, noon), Ok(()));
    let at = moment("2026-01-01T00:00:00Z");
    assert_eq!(ScheduleWindow::new(None, None, None), Err(ScheduleWindowError::Nothing));
    assert_eq!(ScheduleWindow::new(None, Some(at), Some(at)), Err(ScheduleWindowError::Reversed));
    assert_eq!((Schedule::new(vec![]), TimeOfDay::new(24, 1), TimeOfDay::new(12, 60)), (None, None, None));
    assert_eq!(time("08:05").to_string(), "08:05");
}

/// Returns true if the hours are open, by comparing the local time as text.
fn shown_open(weekly: &WeeklyHours, at: Timestamp) -> bool {
    let shown = at.to_jiff().to_zoned_datetime(weekly.zone.0.clone());
    let named = |day: Weekday| weekly.days.0 >> day.to_monday_zero_offset() & 1 == 1;
    let text = format!("{:02}:{:02}", shown.hour(), shown.minute());
    let (from, to) = (weekly.from.to_string(), weekly.to.to_string());
    let (today, yesterday) = (named(shown.weekday()), named(shown.weekday().previous()));
    if from < to { today && from <= text && text < to } else { today && from <= text || yesterday && text < to }
}

/// Zones whose offset changes by an hour, by half an hour, at midnight, by a whole day, and never.
const ZONES: [&str; 8] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Havana",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "UTC",
];

/// Days before clocks are turned in one of them.
const TURNED: [&str; 6] = [
    "2011-12-27T00:00:00Z",
    "2026-03-06T00:00:00Z",
    "2026-03-26T00:00:00Z",
    "2026-04-03T00:00:00Z",
    "2026-10-22T00:00:00Z",
    "2026-10-30T00:00:00Z",
];

prop_compose! {
    fn any_window()(
        days in 1u8..128, from in 0u16..1440, length in 1u16..1440, zone_number in 0..ZONES.len(),
        bounds in prop::option::weighted(0.3, (0u64..9 * DAY, 1u64..9 * DAY)),
    ) -> (u8, u16, u16, usize, Option<(u64, u64)>) {
        (days, from, length, zone_number, bounds)
    }
}

fn window(begin: u64, parts: (u8, u16, u16, usize, Option<(u64, u64)>)) -> ScheduleWindow {
    let (days, from, length, zone_number, bounds) = parts;
    let to = if from + length == 1440 { 1440 } else { (from + length) % 1440 };
    let weekly = WeeklyHours::new(Weekdays(days), TimeOfDay(from), TimeOfDay(to), zone(ZONES[zone_number]));
    let moments = bounds.map(|(after, length)| (begin + after, begin + after + length));
    let [after, before] = [moments.map(|m| m.0), moments.map(|m| m.1)].map(|m| m.map(Timestamp::from_secs));
    ScheduleWindow::new(weekly.ok(), after, before).unwrap_or_else(|_| window(begin, (1, 0, 60, 0, None)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn transitions_equal_those_found_by_checking_each_minute(
        windows in prop::collection::vec(any_window(), 1..4),
        // Weeks in which some offset changes, and any others from 2011 (the day that Samoa skipped) to 2040.
        begin in prop_oneof![
            prop::sample::select(&TURNED[..]).prop_map(|text| moment(text).secs()), 1_300_000_000u64..2_200_000_000
        ],
        offset in 0u64..3600,
    ) {
        let windows: Vec<ScheduleWindow> = windows.into_iter().map(|parts| window(begin, parts)).collect();
        let schedule = Schedule::new(windows.clone()).unwrap();
        let begin = begin / 60 * 60;
        let open = |at: Timestamp| windows.iter().any(|window| {
            window.after.is_none_or(|after| after <= at) && window.before.is_none_or(|before| at < before)
                && window.weekly.as_ref().is_none_or(|weekly| shown_open(weekly, at))
        });
        // Bounds are not at whole minutes, so they are checked, too.
        let edges = windows.iter().flat_map(|window| [window.after, window.before]).flatten().map(Timestamp::secs);
        let edges = edges.filter(|edge| (begin..begin + 8 * DAY).contains(edge));
        let mut moments: Vec<u64> = (0..8 * 24 * 60).map(|minute| begin + minute * 60).chain(edges).collect();
        moments.push(begin + offset);
        moments.sort_unstable();
        moments.dedup();
        let seen: Vec<(u64, bool)> = moments.into_iter().map(|at| (at, open(Timestamp::from_secs(at)))).collect();
        let mut at = Timestamp::from_secs(begin);
        let mut expected = seen.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0);
        let last = seen.last().unwrap().0;
        for (at, open) in &seen {
            prop_assert_eq!(schedule.is_open(Timestamp::from_secs(*at)), *open);
        }
        loop {
            let state = schedule.state_at(at);
            let until = state.until.map(Timestamp::secs).filter(|until| *until <= last && seen[0].0 <= *until);
            let next = expected.by_ref().find(|edge| *edge > at.secs() && *edge <= last);
            prop_assert_eq!(until, next);
            let Some(until) = until else { break };
            at = Timestamp::from_secs(until);
        }
    }

    #[test]
    fn next_transition_is_the_same_from_every_earlier_moment(parts in any_window(), begin in 1_300_000_000u64..2_200_000_000) {
        let schedule = Schedule::new(vec![window(begin, parts)]).unwrap();
        let first = schedule.state_at(Timestamp::from_secs(begin));
        if let Some(until) = first.until {
            for part in 0..8 {
                let between = begin + (until.secs() - begin) * part / 8;
                prop_assert_eq!(schedule.state_at(Timestamp::from_secs(between)), first);
            }
            prop_assert_ne!(schedule.state_at(until).open, first.open);
        }
    }
}

#[test]
fn transition_after_many_candidates_is_found() {
    let end = moment("2026-11-20T00:00:00Z");
    let hours = (1..Schedule::WINDOWS_MAX).map(|hour| weekly(&format!("{hour:02}:00 {hour:02}:30 UTC")));
    let hours = hours.map(|weekly| ScheduleWindow::new(Some(weekly), None, Some(end)).unwrap());
    let long = ScheduleWindow::new(None, None, Some(end)).unwrap();
    let schedule = Schedule::new(hours.chain([long]).collect()).unwrap();
    // Nine days with thirty moments each, at which nothing changes.
    let state = schedule.state_at(moment("2026-11-11T00:00:00Z"));
    assert_eq!(state, ScheduleState { open: true, until: Some(end) });
}

#[test]
fn schedule_has_1_to_16_windows() {
    let window = ScheduleWindow::new(None, None, Some(moment("2026-11-20T00:00:00Z"))).unwrap();
    let is_one = |count: usize| Schedule::new(vec![window.clone(); count]).is_some();
    assert_eq!([0, 1, 16, 17].map(is_one), [false, true, true, false]);
}

#[test]
fn moment_is_shown_in_the_first_named_zone() {
    let end = moment("2026-11-20T00:00:00Z");
    let of = |zone: &str| ScheduleWindow::new(Some(weekly(&format!("08:00 20:00 {zone}"))), None, None).unwrap();
    let plain = ScheduleWindow::new(None, None, Some(end)).unwrap();
    let schedule = Schedule::new(vec![plain.clone(), of("Europe/Berlin"), of("America/New_York")]).unwrap();
    assert_eq!(schedule.show(end), "2026-11-20T01:00:00+01:00[Europe/Berlin]");
    assert!(schedule.show(Timestamp::from_secs(u64::MAX)).starts_with("9999-12-"));
    assert_eq!(Schedule::new(vec![plain, of("America/New_York")]).unwrap().show(end)[..13], *"2026-11-19T19");
}

#[test]
fn zone_is_hashed_by_name() {
    use std::hash::{BuildHasher, RandomState};
    let state = RandomState::new();
    let hash = |name: &str| state.hash_one(zone(name));
    assert_eq!(hash("Europe/Berlin"), hash("Europe/Berlin"));
    assert_ne!(hash("Europe/Berlin"), hash("America/New_York"));
}
