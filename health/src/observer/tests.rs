//! Tests of the state of the probe host.

use super::*;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn ticks_in_time_are_not_stalls() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    for tick in 1..100 {
        assert_eq!(meter.tick(start + LagMeter::TICK * tick + millis(4)), None);
    }
    assert_eq!(meter.stalled_for(start + LagMeter::TICK * 100), Duration::ZERO);
    assert_eq!(meter.stalls(), 0);
}

#[test]
fn stall_counts_before_and_after_its_tick() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    let back = start + millis(520);
    assert_eq!(meter.stalled_for(back), millis(500));
    assert_eq!(meter.tick(back), Some(millis(500)));
    assert_eq!(meter.stalled_for(back), millis(500));
    assert_eq!(meter.stalls(), 1);
}

#[test]
fn small_stalls_add_up() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    let mut now = start;
    for _ in 0..10 {
        now += LagMeter::TICK + millis(10);
        meter.tick(now);
    }
    assert_eq!(meter.stalled_for(now), millis(100));
}

#[test]
fn stop_of_an_hour_does_not_age_evidence() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    let before = meter.awake(start + millis(20));
    let back = start + Duration::from_secs(3_600);
    meter.tick(back);
    assert_eq!(meter.awake(back), before);
    assert_eq!(meter.awake(back + millis(20)), before + millis(20));
}

#[test]
fn tolerance_follows_the_timeout_within_bounds() {
    assert_eq!(tolerance(millis(20)), millis(10));
    assert_eq!(tolerance(millis(200)), millis(50));
    assert_eq!(tolerance(Duration::from_secs(60)), Duration::from_secs(1));
}

#[test]
fn unreachable_target_counts_only_if_another_was_reached() {
    let start = Instant::now();
    let mut reach = ReachedTargets::new();
    reach.note(Family::V4, 2, start);
    let first_failure = start + millis(1);
    assert!(!reach.other_since(Family::V4, 1, first_failure));
    reach.note(Family::V4, 1, start + millis(2));
    assert!(!reach.other_since(Family::V4, 1, first_failure), "the target itself is not evidence");
    reach.note(Family::V6, 2, start + millis(3));
    assert!(!reach.other_since(Family::V4, 1, first_failure), "a target of the other family is not evidence");
    reach.note(Family::V4, 2, start + millis(4));
    assert!(reach.other_since(Family::V4, 1, first_failure));
    reach.note(Family::V4, 1, start + millis(5));
    assert!(reach.other_since(Family::V4, 1, first_failure), "a later response of the target itself does not hide it");
}
