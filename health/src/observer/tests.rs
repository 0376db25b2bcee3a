//! What counts as the observer's own fault.

use super::*;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn ticks_in_time_lose_nothing() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    for tick in 1..100 {
        assert_eq!(meter.tick(start + LagMeter::TICK * tick + millis(4)), None);
    }
    assert_eq!(meter.stalled_for(start + LagMeter::TICK * 100), Duration::ZERO);
    assert_eq!(meter.stalls(), 0);
}

#[test]
fn a_stall_counts_before_and_after_the_tick_that_finds_it() {
    let start = Instant::now();
    let mut meter = LagMeter::new(start);
    let back = start + millis(520);
    assert_eq!(meter.stalled_for(back), millis(500));
    assert_eq!(meter.tick(back), Some(millis(500)));
    assert_eq!(meter.stalled_for(back), millis(500));
    assert_eq!(meter.stalls(), 1);
}

#[test]
fn many_small_stalls_add_up() {
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
fn a_stop_of_an_hour_does_not_age_evidence() {
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
fn an_unreachable_network_needs_the_word_of_another_target() {
    let start = Instant::now();
    let mut reach = Reach::new();
    reach.note(Family::V4, 2, start);
    let first_failure = start + millis(1);
    assert!(!reach.other_since(Family::V4, 1, first_failure));
    reach.note(Family::V4, 1, start + millis(2));
    assert!(!reach.other_since(Family::V4, 1, first_failure), "its own word does not count");
    reach.note(Family::V6, 2, start + millis(3));
    assert!(!reach.other_since(Family::V4, 1, first_failure), "nor that of another family");
    reach.note(Family::V4, 2, start + millis(4));
    assert!(reach.other_since(Family::V4, 1, first_failure));
    reach.note(Family::V4, 1, start + millis(5));
    assert!(reach.other_since(Family::V4, 1, first_failure), "a later word does not hide it");
}
