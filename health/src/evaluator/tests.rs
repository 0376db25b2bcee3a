//! Tests of the evaluator.

use fairway_model::{Cause, Check};
use proptest::prelude::*;

use super::*;

const PASS: Observation = Observation::Pass;

fn fail() -> Observation {
    Observation::Fail(Cause::new("connection refused"))
}

fn inconclusive() -> Observation {
    Observation::Inconclusive(Cause::new("no file descriptor left"))
}

fn monitor(rise: u8, fall: u8) -> Monitor {
    Monitor { rise, fall, ..Monitor::new(Check::Tcp { port: 80 }) }
}

fn statuses(from: HealthStatus, monitor: &Monitor, outcomes: &[Observation]) -> Vec<Option<HealthStatus>> {
    let mut evaluator = Evaluator::new(from);
    outcomes.iter().map(|outcome| evaluator.observe(outcome, monitor)).collect()
}

#[test]
fn pass_between_failures_restarts_the_count() {
    let seen = statuses(HealthStatus::Up, &monitor(3, 2), &[fail(), PASS, fail(), fail()]);
    assert_eq!(seen, [None, None, None, Some(HealthStatus::Down)]);
}

#[test]
fn failure_between_passes_restarts_the_count() {
    let seen = statuses(HealthStatus::Down, &monitor(2, 3), &[PASS, fail(), PASS, PASS]);
    assert_eq!(seen, [None, None, None, Some(HealthStatus::Up)]);
}

#[test]
fn new_target_is_up_at_its_first_pass() {
    assert_eq!(statuses(HealthStatus::Pending, &monitor(3, 3), &[PASS]), [Some(HealthStatus::Up)]);
    assert_eq!(statuses(HealthStatus::Pending, &monitor(3, 3), &[fail(), PASS]), [None, Some(HealthStatus::Up)]);
}

#[test]
fn new_target_is_down_after_the_fall_count() {
    let seen = statuses(HealthStatus::Pending, &monitor(3, 3), &[fail(), fail(), fail()]);
    assert_eq!(seen, [None, None, Some(HealthStatus::Down)]);
}

#[test]
fn inconclusive_observation_neither_counts_nor_restarts() {
    let seen = statuses(HealthStatus::Up, &monitor(3, 2), &[fail(), inconclusive(), inconclusive(), fail()]);
    assert_eq!(seen, [None, None, None, Some(HealthStatus::Down)]);
    assert_eq!(statuses(HealthStatus::Up, &monitor(1, 1), &[inconclusive(), inconclusive()]), [None, None]);
}

#[test]
fn count_of_zero_means_one() {
    assert_eq!(
        statuses(HealthStatus::Up, &monitor(0, 0), &[fail(), PASS]),
        [Some(HealthStatus::Down), Some(HealthStatus::Up)]
    );
}

#[test]
fn status_expires_after_three_periods_and_a_timeout() {
    let monitor = monitor(2, 2);
    let limit = Duration::from_secs(34);
    for status in [HealthStatus::Up, HealthStatus::Down] {
        let mut evaluator = Evaluator::new(status);
        assert_eq!(evaluator.expire(limit, &monitor), None);
        assert_eq!(evaluator.expire(limit + Duration::from_millis(1), &monitor), Some(HealthStatus::Unknown));
        assert_eq!(evaluator.expire(limit * 2, &monitor), None);
    }
    assert_eq!(Evaluator::new(HealthStatus::Pending).expire(limit * 9, &monitor), None);
}

#[test]
fn unknown_target_changes_by_the_usual_counts() {
    let monitor = monitor(2, 3);
    assert_eq!(statuses(HealthStatus::Unknown, &monitor, &[PASS, PASS]), [None, Some(HealthStatus::Up)]);
    assert_eq!(
        statuses(HealthStatus::Unknown, &monitor, &[fail(), fail(), fail()]),
        [None, None, Some(HealthStatus::Down)]
    );
}

#[test]
fn expiry_restarts_the_count() {
    let monitor = monitor(2, 2);
    let mut evaluator = Evaluator::new(HealthStatus::Up);
    evaluator.observe(&fail(), &monitor);
    evaluator.expire(Duration::from_secs(60), &monitor);
    assert_eq!(evaluator.observe(&fail(), &monitor), None);
    assert_eq!(evaluator.observe(&fail(), &monitor), Some(HealthStatus::Down));
}

#[test]
fn failure_is_confirmed_at_once_and_recovery_is_not() {
    let monitor = monitor(3, 3);
    let wavers = |from, outcome: Observation| {
        let mut evaluator = Evaluator::new(from);
        evaluator.observe(&outcome, &monitor);
        evaluator.is_wavering()
    };
    assert!(
        wavers(HealthStatus::Up, fail())
            && wavers(HealthStatus::Pending, fail())
            && wavers(HealthStatus::Unknown, fail())
    );
    assert!(wavers(HealthStatus::Unknown, PASS));
    assert!(
        !wavers(HealthStatus::Up, PASS) && !wavers(HealthStatus::Down, PASS) && !wavers(HealthStatus::Down, fail())
    );
    assert!(!wavers(HealthStatus::Up, inconclusive()));
}

#[test]
fn target_that_fails_every_other_probe_keeps_its_status() {
    let monitor = monitor(3, 3);
    let trace: Vec<_> = (0..1_000).map(|step| if step % 2 == 0 { fail() } else { PASS }).collect();
    assert!(statuses(HealthStatus::Up, &monitor, &trace).iter().all(Option::is_none));
}

fn outcome() -> impl Strategy<Value = Observation> {
    prop_oneof![Just(PASS), Just(fail()), Just(inconclusive())]
}

proptest! {
    #[test]
    fn status_changes_exactly_at_its_count(
        rise in 1_u8..6, fall in 1_u8..6, outcomes in proptest::collection::vec(outcome(), 0..200),
    ) {
        let monitor = monitor(rise, fall);
        let mut evaluator = Evaluator::new(HealthStatus::Up);
        let (mut passes, mut failures) = (0_u32, 0_u32);
        for outcome in &outcomes {
            match outcome {
                Observation::Pass => (passes, failures) = (passes + 1, 0),
                Observation::Fail(_) => (passes, failures) = (0, failures + 1),
                Observation::Inconclusive(_) => {}
            }
            match evaluator.observe(outcome, &monitor) {
                Some(HealthStatus::Up) => prop_assert_eq!(passes, u32::from(rise)),
                Some(HealthStatus::Down) => prop_assert_eq!(failures, u32::from(fall)),
                Some(other) => prop_assert!(false, "an observation changed the status to {other}"),
                None => {}
            }
            // The status has changed once the count is reached.
            prop_assert!(failures < u32::from(fall) || evaluator.status() == HealthStatus::Down);
            prop_assert!(passes < u32::from(rise) || evaluator.status() == HealthStatus::Up);
        }
    }

    #[test]
    fn transitions_are_at_least_the_counts_apart(
        rise in 1_u8..6, fall in 1_u8..6, outcomes in proptest::collection::vec(outcome(), 0..200),
    ) {
        let changes = statuses(HealthStatus::Up, &monitor(rise, fall), &outcomes).into_iter().flatten().count();
        prop_assert!(changes * usize::from(rise.min(fall)) <= outcomes.len());
    }

    #[test]
    fn inconclusive_observations_do_not_affect_transitions(
        outcomes in proptest::collection::vec(outcome(), 0..100),
    ) {
        let monitor = monitor(3, 2);
        let conclusive: Vec<_> = outcomes.iter().filter(|o| !matches!(o, Observation::Inconclusive(_))).cloned().collect();
        let changes = |outcomes: &[Observation]| -> Vec<HealthStatus> {
            statuses(HealthStatus::Pending, &monitor, outcomes).into_iter().flatten().collect()
        };
        prop_assert_eq!(changes(&outcomes), changes(&conclusive));
    }
}
