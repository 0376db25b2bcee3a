//! From verdicts to answers.

use std::{sync::atomic::Ordering::Relaxed, time::SystemTime};

use fairway_health::HealthTransition;
use fairway_model::{Cause, Eligibility, HealthStatus};

use super::*;

fn transition(control: &Control, address: &str, to: HealthStatus) -> HealthTransition {
    let from = status(control, address);
    HealthTransition { target: target(control, address), from, to, cause: Cause::new("a test"), at: SystemTime::now() }
}

#[tokio::test]
async fn flips_that_wait_together_become_one_change_and_each_is_told() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut told = control.transitions();
    actor.waiting = vec![
        transition(&control, "127.0.0.1", HealthStatus::Down),
        transition(&control, "127.0.0.2", HealthStatus::Up),
        transition(&control, "127.0.0.1", HealthStatus::Up),
        transition(&control, "127.0.0.1", HealthStatus::Down),
    ];
    actor.apply_flips();
    assert_eq!(control.shared.counts.conditions.load(Relaxed), 1);
    assert_eq!([status(&control, "127.0.0.1"), status(&control, "127.0.0.2")], [HealthStatus::Down, HealthStatus::Up]);
    for _ in 0..4 {
        let event = told.try_recv().unwrap();
        assert_eq!((event.pools.len(), event.clusters.len()), (1, 1));
    }
}

#[tokio::test]
async fn a_flip_of_an_unknown_target_changes_nothing() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut stray = transition(&control, "127.0.0.1", HealthStatus::Up);
    stray.target.address = "192.0.2.99:1".parse().unwrap();
    let before = control.shared.serving.load().runtime.id();
    actor.waiting = vec![stray];
    actor.apply_flips();
    assert_eq!(control.shared.serving.load().runtime.id(), before);
}

#[tokio::test]
async fn a_replaced_view_is_freed_by_the_control_side_once_nobody_reads_it() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let reader = control.shared.serving.load();
    actor.waiting = vec![transition(&control, "127.0.0.1", HealthStatus::Up)];
    actor.apply_flips();
    assert_eq!(actor.retired.take_free().len(), 0, "a worker still reads it");
    let freed = Arc::downgrade(&reader);
    drop(reader);
    assert!(freed.upgrade().is_some(), "the worker that lets go is not the one to free it");
    drop(actor.retired.take_free());
    assert!(freed.upgrade().is_none() && actor.retired.len() == 0);
}

#[tokio::test]
async fn a_gateway_that_opens_is_in_the_answers_and_one_that_closes_is_out() {
    let (listener, port) = gateway();
    let monitor = format!("type: tcp, port: {port}, period: 60ms, timeout: 50ms, rise: 1, fall: 2");
    let (control, actor) = Scene::new(&config(&monitor)).run().await;
    until("eu1 up", async || health(&control, "127.0.0.1").eligibility() == Eligibility::Up).await;
    drop(listener);
    until("eu1 down", async || health(&control, "127.0.0.1").eligibility() == Eligibility::Down).await;
    actor.abort();
}

#[tokio::test]
async fn the_story_of_a_flip_tells_which_clients_are_answered_otherwise_for_it() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut told = control.transitions();
    actor.waiting =
        vec![transition(&control, "127.0.0.1", HealthStatus::Up), transition(&control, "127.0.0.2", HealthStatus::Up)];
    actor.apply_flips();
    actor.waiting = vec![transition(&control, "127.0.0.2", HealthStatus::Down)];
    actor.apply_flips();
    let standby = [told.recv().await, told.recv().await, told.recv().await].into_iter().last().unwrap().unwrap();
    let story = control.stories(&[standby]).await.remove(0);
    assert_eq!((story.pools_moved, story.names_moved), (Some(0), 0), "nobody was answered with us1");

    actor.waiting = vec![transition(&control, "127.0.0.2", HealthStatus::Up)];
    actor.apply_flips();
    actor.waiting = vec![transition(&control, "127.0.0.1", HealthStatus::Down)];
    actor.apply_flips();
    let preferred = [told.recv().await, told.recv().await].into_iter().last().unwrap().unwrap();
    let story = control.stories(&[preferred]).await.remove(0);
    assert_eq!((story.pools_moved, story.names_moved), (Some(1), 1));
    let pool = &story.pools[0];
    assert_eq!((pool.pool.as_str(), pool.moved, pool.some.len()), ("shop", 1.0, 1));
    let parts: Vec<_> = pool.shares.iter().map(|(cluster, was, is)| (cluster.as_str(), *was, *is)).collect();
    assert_eq!(parts, [("eu1", 1.0, 0.0), ("us1", 0.0, 1.0)]);
}

#[tokio::test]
async fn of_a_storm_of_flips_no_more_is_asked_than_can_be_answered_quickly() {
    let (control, mut actor) = Scene::new(&silent()).actor().await;
    let mut told = control.transitions();
    actor.waiting = vec![transition(&control, "127.0.0.1", HealthStatus::Up)];
    actor.apply_flips();
    let event = told.recv().await.unwrap();
    // 32,768 clients in all: 16 each for 2,048 pools.
    let stories = control.stories(&vec![event.clone(); 2_048]).await;
    assert!(stories.iter().all(|story| story.pools_moved.is_some()));
    let stories = control.stories(&vec![event; 2_049]).await;
    assert!(stories.iter().all(|story| story.pools_moved.is_none()));
}
