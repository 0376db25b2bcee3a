//! Times of probes, and times until a transition.

use std::collections::HashMap;

use fairway_model::HealthStatus;
use tokio::time::{Instant, sleep};

use super::network::*;

/// Returns the time from a failure, `after` ms after a probe may be due, to the transition to down.
async fn time_to_down(answer: Behaviour, after: u64) -> std::time::Duration {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(targets(1, &fast()), vec![]).await;
    sleep(seconds(2) + millis(after)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let failed = Instant::now();
    network.answer(0, answer);
    let transition = transitions.recv().await.unwrap();
    assert_eq!(transition.to, HealthStatus::Down);
    failed.elapsed()
}

#[tokio::test(start_paused = true)]
async fn refusing_target_is_down_within_250_ms() {
    for after in (0..220).step_by(11) {
        let took = time_to_down(Behaviour::Refuse, after).await;
        assert!(took <= millis(250), "down after {took:?} for a failure at {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_target_is_down_within_650_ms() {
    for after in (0..220).step_by(11) {
        let took = time_to_down(Behaviour::Hang, after).await;
        assert!(took <= millis(650), "down after {took:?} for a failure at {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn default_monitor_confirms_a_refusal_within_410_ms() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Up);
    network.answer(0, Behaviour::Refuse);
    let first = network.probes(0);
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Down);
    let seen = network.seen();
    assert_eq!(seen.probes.len(), first + 3);
    assert!(seen.probes[first].0.elapsed() <= millis(410));
}

#[tokio::test(start_paused = true)]
async fn new_target_is_evaluated_at_once() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(1, Behaviour::Refuse);
    let start = Instant::now();
    checker.set_targets(targets(2, &monitor()), vec![]).await;
    assert_eq!(checker.first_round(seconds(10)).await, 0);
    assert!(start.elapsed() <= millis(450));
    let transitions = drain(&mut transitions);
    assert_eq!(transitions, [(HealthStatus::Pending, HealthStatus::Up), (HealthStatus::Pending, HealthStatus::Down)]);
}

#[tokio::test(start_paused = true)]
async fn first_round_ends_at_its_limit() {
    let network = Network::default();
    let (checker, _transitions) = network.open();
    network.answer(1, Behaviour::Hang);
    network.answer(2, Behaviour::NoDescriptor);
    checker.set_targets(targets(3, &monitor()), vec![]).await;
    let start = Instant::now();
    assert_eq!(checker.first_round(seconds(5)).await, 2);
    assert!(start.elapsed() >= seconds(5) && start.elapsed() < seconds(6));
}

#[tokio::test(start_paused = true)]
async fn recovery_takes_rise_passes_one_period_apart() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    network.answer(0, Behaviour::Refuse);
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Down);
    network.answer(0, Behaviour::Pass);
    let before = network.probes(0);
    let transition = transitions.recv().await.unwrap();
    assert_eq!((transition.to, transition.cause.to_string()), (HealthStatus::Up, "passes in a row: 3".to_owned()));
    assert_eq!(network.probes(0), before + 3);
    let apart = Instant::now() - network.seen().probes[before].0;
    assert!(apart >= seconds(18) && apart <= seconds(22), "{apart:?}");
}

#[tokio::test(start_paused = true)]
async fn target_that_alternates_keeps_its_status() {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    sleep(seconds(15)).await;
    network.answer(0, Behaviour::Flap);
    sleep(seconds(1_200)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let state = state(&checker).await;
    assert!(state.failures > 100 && state.passes > 100, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn probes_keep_their_period_and_spread_over_it() {
    let network = Network::default();
    let (checker, _transitions) = network.open();
    checker.set_targets(targets(200, &monitor()), vec![]).await;
    sleep(seconds(600)).await;
    let seen = network.seen();
    let mut last = HashMap::new();
    let mut intervals = vec![];
    for (at, target) in &seen.probes {
        if let Some(before) = last.insert(target, *at) {
            intervals.push(*at - before);
        }
    }
    // The second probe is anywhere within a period, later ones at ±10 % (timers round up to 1 ms).
    let regular = intervals.iter().skip(200).all(|gap| *gap >= millis(8_998) && *gap <= millis(11_002));
    assert!(regular, "{:?}", intervals.iter().skip(200).minmax());
    assert!((11_500..12_700).contains(&seen.probes.len()), "{} probes", seen.probes.len());
    let busiest = (0..600).map(|second| {
        let from = seen.probes[0].0 + seconds(second);
        seen.probes.iter().filter(|(at, _)| *at >= from && *at < from + seconds(1)).count()
    });
    // 20 per second on average; the first second has all first probes.
    assert!(busiest.skip(1).all(|count| count < 50));
}

#[tokio::test(start_paused = true)]
async fn limit_of_sockets_holds_and_every_target_is_probed() {
    let network = Network::default();
    let (sender, _transitions) = tokio::sync::mpsc::channel(1_000);
    let checker = network.checker(10, sender);
    for number in 0..100 {
        network.answer(number, Behaviour::Hang);
    }
    checker.set_targets(targets(200, &monitor()), vec![]).await;
    sleep(seconds(2)).await;
    let observer = checker.observer().await;
    // Half of the sockets are reserved for targets that passed.
    assert!((5..=10).contains(&observer.probes_running), "{observer:?}");
    assert!(observer.probes_waiting > 50, "{observer:?}");
    sleep(seconds(300)).await;
    assert_eq!(network.seen().most_running, 10);
    let states = checker.states().await;
    assert!(states.iter().all(|state| state.passes + state.failures > 0));
    assert!(states[100..].iter().all(|state| state.status == HealthStatus::Up));
}

/// Smallest and largest item, for the message of an assertion.
trait MinMax: Iterator<Item: Ord + Copy> + Sized {
    fn minmax(self) -> Option<(Self::Item, Self::Item)> {
        self.map(|item| (item, item)).reduce(|(low, high), (item, _)| (low.min(item), high.max(item)))
    }
}

impl<I: Iterator<Item: Ord + Copy>> MinMax for I {}
