//! Which targets are checked, what is kept of them, and who is told.

use std::time::SystemTime;

use fairway_model::{Cause, Check, HealthStatus, Monitor};
use tokio::{sync::mpsc, time::sleep};

use super::world::*;
use crate::{HistoryEntry, RestoredState};

#[tokio::test(start_paused = true)]
async fn equal_targets_run_once_whatever_their_monitor_is_called() {
    let world = World::default();
    let (checker, _flips) = world.open();
    let mut twice = targets(1, &monitor());
    twice.push(fairway_model::Target {
        label: fairway_model::MonitorName::new("other").unwrap(),
        ..target(0, &monitor())
    });
    checker.set_targets(twice, vec![]).await;
    sleep(seconds(100)).await;
    assert_eq!(checker.states().await.len(), 1);
    assert!((10..=12).contains(&world.probes(0)), "{} probes", world.probes(0));
}

#[tokio::test(start_paused = true)]
async fn one_address_under_two_monitors_is_two_targets() {
    let (checker, _flips) = World::default().open();
    checker.set_targets(vec![target(0, &monitor()), target(0, &fast())], vec![]).await;
    assert_eq!(checker.states().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_change_keeps_the_state_of_those_that_stay_and_ends_the_others() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    world.answer(1, Answer::Stuck);
    checker.set_targets(targets(3, &monitor()), vec![]).await;
    sleep(seconds(35)).await;
    let before = checker.states().await;
    assert_eq!((before[2].passes >= 4, world.seen().running), (true, 1));
    drain(&mut transitions);
    checker.set_targets(vec![target(2, &monitor()), target(0, &monitor()), target(7, &monitor())], vec![]).await;
    let after = checker.states().await;
    assert_eq!((after[0].passes, after[1].passes, after[2].passes), (before[2].passes, before[0].passes, 0));
    assert_eq!(after[2].status, HealthStatus::Pending);
    sleep(seconds(1)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    assert_eq!(world.seen().running, 0, "the probe of the target that is gone was ended");
    checker.set_targets(vec![], vec![]).await;
    let probes = world.seen().probes.len();
    sleep(seconds(100)).await;
    assert_eq!(world.seen().probes.len(), probes);
    assert_eq!(checker.first_round(seconds(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn always_is_up_without_a_probe() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(vec![target(0, &Monitor::new(Check::Always))], vec![]).await;
    assert_eq!(checker.first_round(seconds(1)).await, 0);
    sleep(seconds(600)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    assert_eq!(world.seen().probes.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_checker_ends_its_probes() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    world.answer(0, Answer::Stuck);
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    sleep(seconds(1)).await;
    assert_eq!(world.seen().running, 1);
    drop(checker);
    assert!(transitions.recv().await.is_none(), "the task let go of the channel");
    sleep(seconds(1)).await;
    assert_eq!(world.seen().running, 0);
}

fn restored(status: HealthStatus, age: u64) -> RestoredState {
    let written = SystemTime::now() - seconds(age);
    let since = written - seconds(3_600);
    let history = (0..20).map(|step| HistoryEntry { at: since + seconds(step), to: status, cause: Cause::new("old") });
    RestoredState { status, since, history: history.collect(), written }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_record_restores_the_verdict_without_a_flip() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    let record = restored(HealthStatus::Down, 30);
    checker.set_targets(targets(1, &monitor()), vec![(target(0, &monitor()), record.clone())]).await;
    assert_eq!(checker.first_round(seconds(1)).await, 0);
    let state = state(&checker).await;
    assert_eq!((state.status, state.since), (HealthStatus::Down, record.since));
    assert_eq!(state.history, record.history[4..]);
    sleep(seconds(40)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Down, HealthStatus::Up)]);
}

#[tokio::test(start_paused = true)]
async fn an_old_record_restores_its_history_and_unknown() {
    let (checker, mut transitions) = World::default().open();
    let long = Monitor { period: seconds(60), ..monitor() };
    let wished = vec![target(0, &monitor()), target(1, &long), target(2, &monitor())];
    let mut future = restored(HealthStatus::Up, 0);
    future.written += seconds(3_600);
    let known = vec![
        (target(0, &monitor()), restored(HealthStatus::Down, 90)),
        (target(1, &long), restored(HealthStatus::Up, 90)),
        (target(2, &monitor()), future),
        (target(9, &monitor()), restored(HealthStatus::Up, 1)),
    ];
    checker.set_targets(wished, known).await;
    let states = checker.states().await;
    let statuses: Vec<_> = states.iter().map(|state| state.status).collect();
    assert_eq!(statuses, [HealthStatus::Unknown, HealthStatus::Up, HealthStatus::Unknown]);
    let last = states[0].history.last().unwrap();
    assert_eq!((states[0].history.len(), last.to), (16, HealthStatus::Unknown));
    // What is unknown is looked at first, and comes back within its rise count, at once.
    assert_eq!(checker.first_round(seconds(2)).await, 0);
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Unknown, HealthStatus::Up); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_sleeps_gets_the_latest_of_everyone_and_holds_nothing_up() {
    let world = World::default();
    let (sender, mut transitions) = mpsc::channel(1);
    let checker = world.checker(1_024, sender);
    checker.set_targets(targets(100, &fast()), vec![]).await;
    sleep(seconds(5)).await;
    for number in 0..100 {
        world.answer(number, Answer::Refuse);
    }
    sleep(seconds(5)).await;
    assert!(checker.states().await.iter().all(|state| state.status == HealthStatus::Down));
    assert_eq!(checker.observer().await.transitions_waiting, 100);
    let mut latest = std::collections::HashMap::new();
    while let Ok(Some(transition)) = tokio::time::timeout(seconds(1), transitions.recv()).await {
        latest.insert(transition.target.address, transition.to);
    }
    assert_eq!(latest.len(), 100);
    assert!(latest.values().all(|status| *status == HealthStatus::Down));
}

#[tokio::test(start_paused = true)]
async fn states_of_ten_thousand_targets_come_whole_and_in_order() {
    let (checker, _flips) = World::default().open();
    let wished = targets(10_000, &monitor());
    checker.set_targets(wished.clone(), vec![]).await;
    assert_eq!(checker.first_round(seconds(10)).await, 0);
    let states = checker.states().await;
    assert!(states.iter().map(|state| &state.target).eq(&wished));
    assert!(states.iter().all(|state| state.status == HealthStatus::Up && state.streak >= 1));
}

#[tokio::test(start_paused = true)]
async fn states_survive_a_change_of_targets_in_their_middle() {
    let (checker, _flips) = World::default().open();
    checker.set_targets(targets(1_000, &monitor()), vec![]).await;
    let (states, ()) = tokio::join!(checker.states(), checker.set_targets(targets(600, &monitor()), vec![]));
    assert!([600, 1_000].contains(&states.len()), "{} states", states.len());
}

#[tokio::test(start_paused = true)]
async fn the_handle_can_be_driven_from_another_task() {
    let (checker, _flips) = World::default().open();
    let left = tokio::spawn(async move {
        checker.set_targets(targets(3, &monitor()), vec![]).await;
        checker.first_round(seconds(10)).await + checker.states().await.len()
    });
    assert_eq!(left.await.unwrap(), 3);
}
