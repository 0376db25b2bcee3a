//! Changes of targets, restored state, and transitions.

use std::time::SystemTime;

use fairway_model::{Cause, Check, HealthStatus, Monitor};
use tokio::{sync::mpsc, time::sleep};

use super::network::*;
use crate::{DeclaredTarget, HistoryEntry, RestoredState};

#[tokio::test(start_paused = true)]
async fn equal_targets_are_probed_once() {
    let network = Network::default();
    let (checker, _transitions) = network.open();
    let mut twice = targets(1, &monitor());
    twice.push(fairway_model::Target {
        label: fairway_model::MonitorName::new("other").unwrap(),
        ..target(0, &monitor())
    });
    checker.set_targets(twice, vec![]).await;
    sleep(seconds(100)).await;
    assert_eq!(checker.states().await.len(), 1);
    assert!((10..=12).contains(&network.probes(0)), "{} probes", network.probes(0));
}

#[tokio::test(start_paused = true)]
async fn address_with_two_monitors_is_two_targets() {
    let (checker, _transitions) = Network::default().open();
    checker.set_targets(vec![target(0, &monitor()), target(0, &fast())], vec![]).await;
    assert_eq!(checker.states().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn address_with_many_monitors_is_probed_at_a_bounded_rate() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    // 2,000 probes per second of one address as declared, and one target beside.
    let many = (0..2_000).map(|n| target(0, &Monitor { timeout: millis(100 + n), period: seconds(1), ..monitor() }));
    let all: Vec<_> = many.chain([target(1, &monitor())]).collect();
    checker.set_targets(all, vec![]).await;
    sleep(seconds(30)).await;
    let (before, beside) = (network.probes(0), network.probes(1));
    sleep(seconds(100)).await;
    let rate = (network.probes(0) - before) / 100;
    assert!((150..=220).contains(&rate), "{rate} probes per second");
    assert!((9..=11).contains(&(network.probes(1) - beside)), "the other target is probed at its own period");
    assert!(checker.states().await.iter().all(|state| state.status == HealthStatus::Up), "no status expires");
    drain(&mut transitions);
    // Fewer targets are probed at their own period again.
    checker
        .set_targets(vec![target(0, &Monitor { period: seconds(1), timeout: millis(100), ..monitor() })], vec![])
        .await;
    sleep(seconds(20)).await;
    let before = network.probes(0);
    sleep(seconds(100)).await;
    assert!((95..=105).contains(&(network.probes(0) - before)), "{}", network.probes(0) - before);
}

#[tokio::test(start_paused = true)]
async fn change_keeps_known_targets_and_ends_removed_ones() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(1, Behaviour::Stuck);
    checker.set_targets(targets(3, &monitor()), vec![]).await;
    sleep(seconds(35)).await;
    let before = checker.states().await;
    assert_eq!((before[2].passes >= 4, network.seen().running), (true, 1));
    drain(&mut transitions);
    checker.set_targets(vec![target(2, &monitor()), target(0, &monitor()), target(7, &monitor())], vec![]).await;
    let after = checker.states().await;
    assert_eq!((after[0].passes, after[1].passes, after[2].passes), (before[2].passes, before[0].passes, 0));
    assert_eq!(after[2].status, HealthStatus::Pending);
    sleep(seconds(1)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    assert_eq!(network.seen().running, 0, "the probe of the removed target is ended");
    checker.set_targets(Vec::<DeclaredTarget>::new(), vec![]).await;
    let probes = network.seen().probes.len();
    sleep(seconds(100)).await;
    assert_eq!(network.seen().probes.len(), probes);
    assert_eq!(checker.first_round(seconds(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn always_is_up_without_a_probe() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(vec![target(0, &Monitor::new(Check::Always))], vec![]).await;
    assert_eq!(checker.first_round(seconds(1)).await, 0);
    sleep(seconds(600)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    assert_eq!(network.seen().probes.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_checker_ends_its_probes() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(0, Behaviour::Stuck);
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    sleep(seconds(1)).await;
    assert_eq!(network.seen().running, 1);
    drop(checker);
    assert!(transitions.recv().await.is_none(), "the task has closed the channel");
    sleep(seconds(1)).await;
    assert_eq!(network.seen().running, 0);
}

fn restored(status: HealthStatus, age: u64) -> RestoredState {
    let written = SystemTime::now() - seconds(age);
    let since = written - seconds(3_600);
    let history = (0..20).map(|step| HistoryEntry { at: since + seconds(step), to: status, cause: Cause::new("old") });
    RestoredState { status, since, history: history.collect(), written }
}

#[tokio::test(start_paused = true)]
async fn recent_record_restores_the_status_without_a_transition() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
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
async fn old_record_restores_history_and_unknown() {
    let (checker, mut transitions) = Network::default().open();
    let long = Monitor { period: seconds(60), ..monitor() };
    let all = vec![target(0, &monitor()), target(1, &long), target(2, &monitor())];
    let mut future = restored(HealthStatus::Up, 0);
    future.written += seconds(3_600);
    let known = vec![
        (target(0, &monitor()), restored(HealthStatus::Down, 90)),
        (target(1, &long), restored(HealthStatus::Up, 90)),
        (target(2, &monitor()), future),
        (target(9, &monitor()), restored(HealthStatus::Up, 1)),
    ];
    checker.set_targets(all, known).await;
    let states = checker.states().await;
    let statuses: Vec<_> = states.iter().map(|state| state.status).collect();
    assert_eq!(statuses, [HealthStatus::Unknown, HealthStatus::Up, HealthStatus::Unknown]);
    let last = states[0].history.last().unwrap();
    assert_eq!((states[0].history.len(), last.to), (16, HealthStatus::Unknown));
    // Unknown targets are probed at once and change to up after the rise count.
    assert_eq!(checker.first_round(seconds(2)).await, 0);
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Unknown, HealthStatus::Up); 2]);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_gets_the_latest_statuses_and_delays_no_probe() {
    let network = Network::default();
    let (sender, mut transitions) = mpsc::channel(1);
    let checker = network.checker(1_024, sender);
    checker.set_targets(targets(100, &fast()), vec![]).await;
    sleep(seconds(5)).await;
    for number in 0..100 {
        network.answer(number, Behaviour::Refuse);
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
async fn states_of_10000_targets_are_complete_and_in_order() {
    let (checker, _transitions) = Network::default().open();
    let all = targets(10_000, &monitor());
    checker.set_targets(all.clone(), vec![]).await;
    assert_eq!(checker.first_round(seconds(10)).await, 0);
    let states = checker.states().await;
    assert!(states.iter().map(|state| &state.target).eq(&all));
    assert!(states.iter().all(|state| state.status == HealthStatus::Up && state.streak >= 1));
}

#[tokio::test(start_paused = true)]
async fn states_are_consistent_during_a_change_of_targets() {
    let (checker, _transitions) = Network::default().open();
    checker.set_targets(targets(1_000, &monitor()), vec![]).await;
    let (states, ()) = tokio::join!(checker.states(), checker.set_targets(targets(600, &monitor()), vec![]));
    assert!([600, 1_000].contains(&states.len()), "{} states", states.len());
}

#[tokio::test(start_paused = true)]
async fn handle_works_from_another_task() {
    let (checker, _transitions) = Network::default().open();
    let left = tokio::spawn(async move {
        checker.set_targets(targets(3, &monitor()), vec![]).await;
        checker.first_round(seconds(10)).await + checker.states().await.len()
    });
    assert_eq!(left.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn denied_target_is_down_at_once_and_recovers_once_it_is_allowed() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(0, Behaviour::Denied);
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    sleep(seconds(1)).await;
    let denied = transitions.recv().await.unwrap();
    assert_eq!((denied.from, denied.to, denied.is_allowed), (HealthStatus::Pending, HealthStatus::Down, false));
    assert_eq!(denied.cause, Cause::new("loopback addresses are not allowed"));
    sleep(seconds(60)).await;
    assert_eq!(drain(&mut transitions), [], "it is reported once");
    network.answer(0, Behaviour::Pass);
    let allowed = transitions.recv().await.unwrap();
    assert_eq!((allowed.to, allowed.is_allowed), (HealthStatus::Down, true));
    let up = transitions.recv().await.unwrap();
    assert_eq!((up.from, up.to, up.is_allowed), (HealthStatus::Down, HealthStatus::Up, true));
}
