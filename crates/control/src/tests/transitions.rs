//! Health transitions, up to the answers.

use std::{sync::atomic::Ordering::Relaxed, time::SystemTime};

use fairway_health::HealthTransition;
use fairway_model::{Cause, Eligibility, HealthStatus};

use super::*;

fn transition(control: &Control, address: &str, to: HealthStatus) -> HealthTransition {
    let from = status(control, address);
    HealthTransition {
        target: target(control, address),
        from,
        to,
        cause: Cause::new("a test"),
        at: SystemTime::now(),
        is_allowed: true,
    }
}

#[tokio::test]
async fn waiting_transitions_become_one_runtime_state_and_each_is_published() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut published = control.transitions();
    actor.waiting = vec![
        transition(&control, "127.0.0.1", HealthStatus::Down),
        transition(&control, "127.0.0.2", HealthStatus::Up),
        transition(&control, "127.0.0.1", HealthStatus::Up),
        transition(&control, "127.0.0.1", HealthStatus::Down),
    ];
    actor.apply_transitions();
    assert_eq!(control.shared.counts.runtime_states.load(Relaxed), 1);
    assert_eq!([status(&control, "127.0.0.1"), status(&control, "127.0.0.2")], [HealthStatus::Down, HealthStatus::Up]);
    for _ in 0..4 {
        let event = published.try_recv().unwrap();
        assert_eq!((event.pools.len(), event.clusters.len()), (1, 1));
    }
}

#[tokio::test]
async fn transition_of_an_unknown_target_changes_nothing() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut stray = transition(&control, "127.0.0.1", HealthStatus::Up);
    stray.target.address = "192.0.2.99:1".parse().unwrap();
    let before = control.shared.serving.load().runtime.id();
    actor.waiting = vec![stray];
    actor.apply_transitions();
    assert_eq!(control.shared.serving.load().runtime.id(), before);
}

#[tokio::test]
async fn gateway_is_in_the_answers_while_it_accepts_connections() {
    let (listener, port) = gateway();
    let monitor = format!("type: tcp, port: {port}, period: 60ms, timeout: 50ms, rise: 1, fall: 2");
    let (control, actor) = Scene::new(&config(&monitor)).run().await;
    until("eu1 up", async || health(&control, "127.0.0.1").eligibility() == Eligibility::Up).await;
    drop(listener);
    until("eu1 down", async || health(&control, "127.0.0.1").eligibility() == Eligibility::Down).await;
    actor.abort();
}

#[tokio::test]
async fn impact_of_a_transition_has_the_moved_clients() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut published = control.transitions();
    actor.waiting =
        vec![transition(&control, "127.0.0.1", HealthStatus::Up), transition(&control, "127.0.0.2", HealthStatus::Up)];
    actor.apply_transitions();
    actor.waiting = vec![transition(&control, "127.0.0.2", HealthStatus::Down)];
    actor.apply_transitions();
    let standby =
        [published.recv().await, published.recv().await, published.recv().await].into_iter().last().unwrap().unwrap();
    let impact = control.impacts(&[standby]).await.remove(0);
    assert_eq!((impact.pools_moved, impact.names_moved), (Some(0), 0), "no client was answered with us1");

    actor.waiting = vec![transition(&control, "127.0.0.2", HealthStatus::Up)];
    actor.apply_transitions();
    actor.waiting = vec![transition(&control, "127.0.0.1", HealthStatus::Down)];
    actor.apply_transitions();
    let preferred = [published.recv().await, published.recv().await].into_iter().last().unwrap().unwrap();
    let impact = control.impacts(&[preferred]).await.remove(0);
    assert_eq!((impact.pools_moved, impact.names_moved), (Some(1), 1));
    let pool = &impact.pools[0];
    assert_eq!((pool.pool.as_str(), pool.moved, pool.some.len()), ("shop", 1.0, 1));
    let shares: Vec<_> = pool.shares.iter().map(|of| (of.cluster.as_str(), of.before, of.after)).collect();
    assert_eq!(shares, [("eu1", 1.0, 0.0), ("us1", 0.0, 1.0)]);
}

#[tokio::test]
async fn impact_of_a_storm_of_transitions_is_not_computed() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut published = control.transitions();
    actor.waiting = vec![transition(&control, "127.0.0.1", HealthStatus::Up)];
    actor.apply_transitions();
    let event = published.recv().await.unwrap();
    // 32,768 samples in all are 16 for each of 2,048 pools, the fewest.
    let impacts = control.impacts(&vec![event.clone(); 2_048]).await;
    assert!(impacts.iter().all(|impact| impact.pools_moved.is_some()));
    let impacts = control.impacts(&vec![event; 2_049]).await;
    assert!(impacts.iter().all(|impact| impact.pools_moved.is_none()));
}
