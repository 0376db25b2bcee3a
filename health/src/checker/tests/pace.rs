//! When probes run, and how soon a verdict follows.

use std::collections::HashMap;

use fairway_model::HealthStatus;
use tokio::time::{Instant, sleep};

use super::world::*;

/// From a death at a given moment of a running check to its flip.
async fn time_to_down(answer: Answer, after: u64) -> std::time::Duration {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &fast()), vec![]).await;
    sleep(seconds(2) + millis(after)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let death = Instant::now();
    world.answer(0, answer);
    let transition = transitions.recv().await.unwrap();
    assert_eq!(transition.to, HealthStatus::Down);
    death.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_refusing_target_is_down_within_250_ms() {
    for after in (0..220).step_by(11) {
        let took = time_to_down(Answer::Refuse, after).await;
        assert!(took <= millis(250), "{took:?} for a death at {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_target_is_down_within_650_ms() {
    for after in (0..220).step_by(11) {
        let took = time_to_down(Answer::Hang, after).await;
        assert!(took <= millis(650), "{took:?} for a death at {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_default_monitor_a_refusal_is_confirmed_within_half_a_second() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Up);
    world.answer(0, Answer::Refuse);
    let first = world.probes(0);
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Down);
    let seen = world.seen();
    assert_eq!(seen.probes.len(), first + 3);
    assert!(seen.probes[first].0.elapsed() <= millis(410));
}

#[tokio::test(start_paused = true)]
async fn a_new_target_is_judged_at_once_either_way() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    world.answer(1, Answer::Refuse);
    let start = Instant::now();
    checker.set_targets(targets(2, &monitor()), vec![]).await;
    assert_eq!(checker.first_round(seconds(10)).await, 0);
    assert!(start.elapsed() <= millis(450));
    let transitions = drain(&mut transitions);
    assert_eq!(transitions, [(HealthStatus::Pending, HealthStatus::Up), (HealthStatus::Pending, HealthStatus::Down)]);
}

#[tokio::test(start_paused = true)]
async fn the_first_round_ends_at_its_limit() {
    let world = World::default();
    let (checker, _flips) = world.open();
    world.answer(1, Answer::Hang);
    world.answer(2, Answer::NoDescriptor);
    checker.set_targets(targets(3, &monitor()), vec![]).await;
    let start = Instant::now();
    assert_eq!(checker.first_round(seconds(5)).await, 2);
    assert!(start.elapsed() >= seconds(5) && start.elapsed() < seconds(6));
}

#[tokio::test(start_paused = true)]
async fn recovery_takes_rise_passes_a_period_apart() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    world.answer(0, Answer::Refuse);
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    assert_eq!(transitions.recv().await.unwrap().to, HealthStatus::Down);
    world.answer(0, Answer::Pass);
    let before = world.probes(0);
    let transition = transitions.recv().await.unwrap();
    assert_eq!((transition.to, transition.cause.to_string()), (HealthStatus::Up, "passes in a row: 3".to_owned()));
    assert_eq!(world.probes(0), before + 3);
    let apart = Instant::now() - world.seen().probes[before].0;
    assert!(apart >= seconds(18) && apart <= seconds(22), "{apart:?}");
}

#[tokio::test(start_paused = true)]
async fn a_flapping_target_keeps_its_verdict() {
    let world = World::default();
    let (checker, mut transitions) = world.open();
    checker.set_targets(targets(1, &monitor()), vec![]).await;
    sleep(seconds(15)).await;
    world.answer(0, Answer::Flap);
    sleep(seconds(1_200)).await;
    assert_eq!(drain(&mut transitions), [(HealthStatus::Pending, HealthStatus::Up)]);
    let state = state(&checker).await;
    assert!(state.failures > 100 && state.passes > 100, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn probes_keep_their_period_and_spread_over_it() {
    let world = World::default();
    let (checker, _flips) = world.open();
    checker.set_targets(targets(200, &monitor()), vec![]).await;
    sleep(seconds(600)).await;
    let seen = world.seen();
    let mut last = HashMap::new();
    let mut intervals = vec![];
    for (at, whose) in &seen.probes {
        if let Some(before) = last.insert(whose, *at) {
            intervals.push(*at - before);
        }
    }
    // The second probe comes anywhere within a period, the others at ±10 % (and timers round up to 1 ms).
    let regular = intervals.iter().skip(200).all(|gap| *gap >= millis(8_998) && *gap <= millis(11_002));
    assert!(regular, "{:?}", intervals.iter().skip(200).minmax());
    assert!((11_500..12_700).contains(&seen.probes.len()), "{} probes", seen.probes.len());
    let busiest = (0..600).map(|second| {
        let from = seen.probes[0].0 + seconds(second);
        seen.probes.iter().filter(|(at, _)| *at >= from && *at < from + seconds(1)).count()
    });
    // 20 a second on average; the first round has them all.
    assert!(busiest.skip(1).all(|count| count < 50));
}

#[tokio::test(start_paused = true)]
async fn sockets_stay_bounded_and_everyone_gets_a_turn() {
    let world = World::default();
    let (sender, _flips) = tokio::sync::mpsc::channel(1_000);
    let checker = world.checker(10, sender);
    for number in 0..100 {
        world.answer(number, Answer::Hang);
    }
    checker.set_targets(targets(200, &monitor()), vec![]).await;
    sleep(seconds(2)).await;
    let observer = checker.observer().await;
    // Half of the sockets stay for those that do not hang, once they are known.
    assert!((5..=10).contains(&observer.probes_running), "{observer:?}");
    assert!(observer.probes_waiting > 50, "{observer:?}");
    sleep(seconds(300)).await;
    assert_eq!(world.seen().most_running, 10);
    let states = checker.states().await;
    assert!(states.iter().all(|state| state.passes + state.failures > 0));
    assert!(states[100..].iter().all(|state| state.status == HealthStatus::Up));
}

/// Shortest and longest, to show when an assertion fails.
trait MinMax: Iterator<Item: Ord + Copy> + Sized {
    fn minmax(self) -> Option<(Self::Item, Self::Item)> {
        self.map(|item| (item, item)).reduce(|(low, high), (item, _)| (low.min(item), high.max(item)))
    }
}

impl<I: Iterator<Item: Ord + Copy>> MinMax for I {}
