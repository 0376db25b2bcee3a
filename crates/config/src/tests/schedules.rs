//! Windows of members: conversion and errors.

use fairway_model::Timestamp;

use super::*;

fn config(policy: &str, open: &str) -> String {
    format!(
        "version: 1\nclusters: [{{name: c, addresses: [192.0.2.1]}}, {{name: d, addresses: [192.0.2.2]}}]\n\
        pools: [{{name: p, policy: {policy}, members: [{{cluster: c{open}}}, {{cluster: d}}]}}]\n"
    )
}

/// True if the first member is open at a time.
fn is_open(open: &str, at: &str) -> bool {
    let loaded = loaded(&config("[schedule, weighted]", &format!(", open: [{open}]")));
    let pool = loaded.desired.pools.values().next().unwrap();
    assert!(pool.policy.schedule && pool.members[1].schedule.is_none());
    pool.members[0].schedule.as_ref().unwrap().is_open(at.parse::<Timestamp>().unwrap())
}

#[test]
fn window_has_days_hours_zone_and_times_each_optional() {
    let hours = "{days: mon-fri, from: \"08:00\", to: \"20:00\", zone: Europe/Berlin}";
    assert!(is_open(hours, "2026-11-23T07:00:00Z") && !is_open(hours, "2026-11-22T12:00:00Z"));
    // Unquoted times are text, too.
    let night = "{from: 22:00, to: 06:00, zone: UTC}";
    assert!(is_open(night, "2026-11-23T05:59:00Z") && !is_open(night, "2026-11-23T06:00:00Z"));
    let weekend = "{days: \"sat,sun\", zone: UTC}";
    assert!(is_open(weekend, "2026-11-22T23:59:00Z") && !is_open(weekend, "2026-11-23T00:00:00Z"));
    let moved = "{after: \"2026-12-01T00:00:00+01:00\"}";
    assert!(is_open(moved, "2026-11-30T23:00:00Z") && !is_open(moved, "2026-11-30T22:59:59Z"));
    let until_then = "{before: \"2026-12-01T00:00:00Z\", days: mon, zone: UTC}, {before: \"2026-01-01T00:00:00Z\"}";
    assert!(is_open(until_then, "2026-11-30T12:00:00Z") && !is_open(until_then, "2026-12-07T12:00:00Z"));
}

#[test]
fn invalid_window_is_rejected_with_hint() {
    let shown = |open: &str| errors_of(&config("[schedule, weighted]", &format!(", open: {open}"))).join("\n");
    for (open, error) in [
        ("[]", "pools[0].members[0].open: the list is empty"),
        (
            "[{}]",
            "pools[0].members[0].open[0]: the window has no condition; add zone with days or times of day, or after or",
        ),
        (
            "[{zone: Europe/Berlim, days: mon}]",
            "open[0].zone: \"Europe/Berlim\" is not a zone of the IANA database; did you mean Europe/Berlin?",
        ),
        ("[{zone: UTC, days: monday}]", "open[0].days: \"monday\" is not days of the week; write it like mon-fri"),
        ("[{zone: UTC, from: \"8:00\"}]", "open[0].from: \"8:00\" is not a time of day from 00:00 to 24:00"),
        (
            "[{zone: UTC, days: mon}, {zone: UTC, from: \"08:00\", to: \"08:00\"}]",
            "open[1].to: the window opens and closes at 08:00, so it is never open; change one of them, or",
        ),
        (
            "[{zone: UTC, from: \"24:00\", to: \"06:00\"}]",
            "open[0].from: a window cannot open at 24:00; write 00:00 on",
        ),
        ("[{from: \"08:00\"}]", "open[0]: the window has days or times of day, but no time zone; add zone"),
        ("[{zone: UTC}]", "open[0]: the window is open at every hour of the week; add days or times of day"),
        (
            "[{after: \"2026-12-01T00:00:00Z\", before: \"2026-12-01T00:00:00Z\"}]",
            "open[0].before: the window ends before it begins; write a time later than `after`",
        ),
        ("[{zone: UTC, till: \"08:00\"}]", "open[0].till"),
        ("mon-fri", "pools[0].members[0].open: "),
    ] {
        let shown = shown(open);
        assert!(shown.contains(error) && shown.lines().count() == 1, "{open}: {shown}");
    }
    let many = vec!["{days: mon, zone: UTC}"; 17].join(", ");
    assert!(shown(&format!("[{many}]")).contains("pools[0].members[0].open: "), "{}", shown(&format!("[{many}]")));
}

#[test]
fn windows_without_step_are_rejected_and_step_without_windows_warns() {
    let open = ", open: [{days: mon, zone: UTC}]";
    let shown = errors_of(&config("weighted", open)).join("\n");
    let error =
        "pools[0].members[0].open: the member has windows, but the policy does not use them; add the step schedule";
    assert!(shown.contains(error), "{shown}");
    let warnings = loaded(&config("[schedule, failover]", "")).warnings;
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(shown.iter().any(|shown| shown.contains("has the step schedule, but no member has windows")), "{shown:?}");
    let shown = errors_of(&config("[load, schedule, weighted]", open)).join("\n");
    assert!(shown.contains("pools[0].policy[1]: load must come after schedule"), "{shown}");
    assert_eq!(
        loaded(&config("schedule", open)).desired.pools.values().next().unwrap().policy.to_string(),
        "schedule, weighted"
    );
}
