//! Probes are inconclusive if the probe host itself may have failed.

use std::{sync::mpsc::channel, time::Duration};

use fairway_model::HealthStatus;
use tokio::time::{advance, sleep};

use super::network::*;

#[tokio::test(start_paused = true)]
async fn probe_during_a_stop_of_the_process_is_inconclusive() {
    let (network, checker, mut transitions) = all_up(50, &fast(), seconds(2)).await;
    for round in 0..20 {
        // All targets hang while the process is stopped, and answer when it continues.
        for number in 0..50 {
            network.answer(number, Behaviour::Hang);
        }
        sleep(millis(130)).await;
        assert!(network.seen().running > 10, "round {round}");
        advance(seconds(3)).await;
        for number in 0..50 {
            network.answer(number, Behaviour::Pass);
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
async fn failure_after_a_stop_is_detected() {
    let (network, _checker, mut transitions) = all_up(1, &fast(), seconds(2)).await;
    network.answer(0, Behaviour::Hang);
    advance(seconds(3)).await;
    let transition = tokio::time::timeout(seconds(2), transitions.recv()).await.unwrap().unwrap();
    assert_eq!(transition.to, HealthStatus::Down);
}

#[tokio::test(start_paused = true)]
async fn stop_of_an_hour_keeps_statuses_and_spreads_probes() {
    let (network, _checker, mut transitions) = all_up(1_000, &monitor(), seconds(60)).await;
    advance(seconds(3_600)).await;
    let before = network.seen().probes.len();
    sleep(seconds(1)).await;
    let first_second = network.seen().probes.len() - before;
    assert!((50..200).contains(&first_second), "{first_second} probes in the first second");
    sleep(seconds(10)).await;
    assert_eq!(drain(&mut transitions), []);
}

#[tokio::test(start_paused = true)]
async fn constantly_late_runtime_never_changes_a_status_to_down() {
    let (network, checker, mut transitions) = all_up(1, &fast(), seconds(2)).await;
    network.answer(0, Behaviour::Hang);
    for _ in 0..200 {
        advance(millis(100)).await;
        sleep(millis(1)).await;
    }
    assert!(!drain(&mut transitions).contains(&(HealthStatus::Up, HealthStatus::Down)));
    assert!(state(&checker).await.inconclusive > 5);
}

#[tokio::test]
async fn blocked_runtime_is_measured_as_a_stall() {
    let (checker, _transitions) = Network::default().open();
    checker.observer().await;
    sleep(millis(40)).await;
    let before = checker.observer().await;
    // Blocks the runtime's only thread.
    let (_never, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(millis(150));
    sleep(millis(40)).await;
    let after = checker.observer().await;
    assert!(after.stalls > before.stalls);
    assert!(after.stalled_for - before.stalled_for >= millis(120), "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_file_descriptors_make_no_target_down() {
    let (network, checker, mut transitions) = all_up(10, &monitor(), seconds(20)).await;
    for number in 0..10 {
        network.answer(number, Behaviour::NoDescriptor);
    }
    let before = network.seen().probes.len();
    sleep(seconds(22)).await;
    assert_eq!(drain(&mut transitions), [], "within three periods and a timeout");
    let tried = network.seen().probes.len() - before;
    assert!(tried < 10 * 12, "retries slow down: {tried}");
    sleep(seconds(30)).await;
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Up, HealthStatus::Unknown); 10]);
    let cause = state(&checker).await.history.pop().unwrap().cause.to_string();
    assert!(cause.starts_with("no evidence for 3") && cause.ends_with("no file descriptor left"), "{cause}");
    for number in 0..10 {
        network.answer(number, Behaviour::Pass);
    }
    sleep(seconds(12)).await;
    assert_eq!(drain(&mut transitions), vec![(HealthStatus::Unknown, HealthStatus::Up); 10]);
}

#[tokio::test(start_paused = true)]
async fn probe_host_without_a_route_makes_no_target_down() {
    let (network, checker, mut transitions) = all_up(5, &monitor(), seconds(20)).await;
    for number in 0..5 {
        network.answer(number, Behaviour::NoRoute);
    }
    sleep(seconds(300)).await;
    let seen = drain(&mut transitions);
    assert_eq!(seen, vec![(HealthStatus::Up, HealthStatus::Unknown); 5]);
    let cause = state(&checker).await.last_cause.unwrap().to_string();
    assert_eq!(cause, "network unreachable, and no other IPv4 target was reached since");
}

#[tokio::test(start_paused = true)]
async fn missing_route_to_one_target_only_makes_it_down() {
    let (network, _checker, mut transitions) = all_up(5, &monitor(), seconds(20)).await;
    network.answer(3, Behaviour::NoRoute);
    let transition = tokio::time::timeout(seconds(30), transitions.recv()).await.unwrap().unwrap();
    assert_eq!((transition.from, transition.to), (HealthStatus::Up, HealthStatus::Down));
    assert_eq!(transition.target.address.to_string(), address(3).to_string());
}

#[tokio::test(start_paused = true)]
async fn probe_that_panics_is_inconclusive() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(0, Behaviour::Panic);
    checker.set_targets(targets(2, &monitor()), vec![]).await;
    sleep(seconds(30)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let states = checker.states().await;
    assert_eq!((states[0].status, states[1].status), (HealthStatus::Pending, HealthStatus::Up));
    assert!(states[0].inconclusive > 0 && states[0].failures == 0);
}

#[tokio::test(start_paused = true)]
async fn transition_is_sent_as_soon_as_the_probe_ends() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    transitions.recv().await.unwrap();
    let since = network.seen().probes[0].0.elapsed();
    assert!(since <= Duration::from_millis(1), "{since:?}");
}
