//! The observer doubts itself before it doubts a target.

use std::{sync::mpsc::channel, time::Duration};

use fairway_model::HealthStatus;
use tokio::time::{advance, sleep};

use super::world::*;

#[tokio::test(start_paused = true)]
async fn probes_that_ran_while_the_process_was_stopped_do_not_count() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(50, &fast()), vec![]).await;
    sleep(seconds(2)).await;
    assert_eq!(drain(&mut transitions).len(), 50);
    for round in 0..20 {
        // All of them hang for as long as the process is stopped, and answer again when it is back.
        for number in 0..50 {
            world.answer(number, Answer::Hang);
        }
        sleep(millis(130)).await;
        assert!(world.seen().running > 10, "round {round}");
        advance(seconds(3)).await;
        for number in 0..50 {
            world.answer(number, Answer::Pass);
        }
        sleep(seconds(1)).await;
    }
    assert_eq!(drain(&mut transitions), []);
    let states = checker.states().await;
    assert!(states.iter().all(|state| state.status == HealthStatus::Up && state.inconclusive > 0));
    let observer = checker.observer().await;
    assert!(observer.stalls >= 20 && observer.stalled_for >= seconds(50), "{observer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_death_right_after_a_stop_is_seen_all_the_same() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &fast()), vec![]).await;
    sleep(seconds(2)).await;
    drain(&mut transitions);
    world.answer(0, Answer::Hang);
    advance(seconds(3)).await;
    let transition = tokio::time::timeout(seconds(2), transitions.recv()).await.unwrap().unwrap();
    assert_eq!(transition.to, HealthStatus::Down);
}

#[tokio::test(start_paused = true)]
async fn after_an_hour_of_stop_verdicts_hold_and_probes_do_not_come_all_at_once() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1_000, &monitor()), vec![]).await;
    sleep(seconds(60)).await;
    assert_eq!(drain(&mut transitions).len(), 1_000);
    advance(seconds(3_600)).await;
    let before = world.seen().probes.len();
    sleep(seconds(1)).await;
    let first_second = world.seen().probes.len() - before;
    assert!((50..200).contains(&first_second), "{first_second} probes in the first second");
    sleep(seconds(10)).await;
    assert_eq!(drain(&mut transitions), []);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_never_in_time_leaves_verdicts_alone_and_then_lets_them_go() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &fast()), vec![]).await;
    sleep(seconds(2)).await;
    drain(&mut transitions);
    world.answer(0, Answer::Hang);
    for _ in 0..200 {
        advance(millis(100)).await;
        sleep(millis(1)).await;
    }
    assert!(!drain(&mut transitions).contains(&(HealthStatus::Up, HealthStatus::Down)));
    assert!(state(&checker).await.inconclusive > 5);
}

#[tokio::test]
async fn a_blocked_runtime_is_measured() {
    let (checker, _flips) = World::default().open();
    checker.observer().await;
    sleep(millis(40)).await;
    let before = checker.observer().await;
    // Holds the runtime's only thread, as a careless task would.
    let (_never, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(millis(150));
    sleep(millis(40)).await;
    let after = checker.observer().await;
    assert!(after.stalls > before.stalls);
    assert!(after.stalled_for - before.stalled_for >= millis(120), "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn without_descriptors_nobody_is_down() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(10, &monitor()), vec![]).await;
    sleep(seconds(20)).await;
    assert_eq!(drain(&mut transitions).len(), 10);
    for number in 0..10 {
        world.answer(number, Answer::NoDescriptor);
    }
    let before = world.seen().probes.len();
    sleep(seconds(22)).await;
    assert_eq!(drain(&mut transitions), [], "within three periods and a timeout");
    let tried = world.seen().probes.len() - before;
    assert!(tried < 10 * 12, "retries slow down: {tried}");
    sleep(seconds(30)).await;
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Up, HealthStatus::Unknown); 10]);
    let cause = state(&checker).await.history.pop().unwrap().cause.to_string();
    assert!(cause.starts_with("no evidence for 3") && cause.ends_with("no file descriptor left"), "{cause}");
    for number in 0..10 {
        world.answer(number, Answer::Pass);
    }
    sleep(seconds(12)).await;
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Unknown, HealthStatus::Up); 10]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_route_holds_nobody_down() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(5, &monitor()), vec![]).await;
    sleep(seconds(20)).await;
    drain(&mut transitions);
    for number in 0..5 {
        world.answer(number, Answer::NoRoute);
    }
    sleep(seconds(300)).await;
    let seen = drain(&mut transitions);
    assert_eq!(seen, vec![(HealthStatus::Up, HealthStatus::Unknown); 5]);
    let cause = state(&checker).await.last_cause.unwrap().to_string();
    assert_eq!(cause, "network unreachable, and no other IPv4 target was reached since");
}

#[tokio::test(start_paused = true)]
async fn a_network_that_only_one_target_lost_is_that_targets_death() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(5, &monitor()), vec![]).await;
    sleep(seconds(20)).await;
    drain(&mut transitions);
    world.answer(3, Answer::NoRoute);
    let transition = tokio::time::timeout(seconds(30), transitions.recv()).await.unwrap().unwrap();
    assert_eq!((transition.from, transition.to), (HealthStatus::Up, HealthStatus::Down));
    assert_eq!(transition.target.address.to_string(), address(3).to_string());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_is_no_evidence_and_disturbs_nobody() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    world.answer(0, Answer::Panic);
    checker.set_targets(targets(2, &monitor()), vec![]).await;
    sleep(seconds(30)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let states = checker.states().await;
    assert_eq!((states[0].status, states[1].status), (HealthStatus::Pending, HealthStatus::Up));
    assert!(states[0].inconclusive > 0 && states[0].failures == 0);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_reaches_the_channel_in_the_turn_of_its_probe() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    transitions.recv().await.unwrap();
    let since = world.seen().probes[0].0.elapsed();
    assert!(since <= Duration::from_millis(1), "{since:?}");
}
