//! New configurations: taken into force whole, or refused with reasons.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

#[tokio::test]
async fn a_refused_reload_keeps_the_old_configuration_and_says_why() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let before = control.shared.serving.load().snapshot.id();
    scene.write(&silent().replace("cluster: us1", "cluster: us9"));
    let report = control.reload().await.unwrap();
    assert!(!report.accepted && report.errors.iter().any(|fault| fault.contains("us9")), "{report:?}");
    assert_eq!(control.shared.serving.load().snapshot.id(), before);
    let state = control.state().await.unwrap();
    assert!(state.config.stale && state.config.generation == 1);
    assert_eq!(state.config.last_reload, Some(report));
    assert_eq!(control.shared.counts.reloads_refused.load(Relaxed), 1);
}

#[tokio::test]
async fn a_vanished_file_is_a_refused_reload_and_not_an_empty_one() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    fs::remove_file(scene.file()).unwrap();
    let report = control.reload().await.unwrap();
    assert!(!report.accepted && !report.errors.is_empty());
    assert_eq!(control.state().await.unwrap().pools.len(), 1);
}

#[tokio::test]
async fn an_accepted_reload_counts_what_changed_and_clears_the_mark_of_a_refused_one() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    scene.write("version: 1\nnonsense: true\n");
    assert!(!control.reload().await.unwrap().accepted);
    scene.write(&silent().replace("policy: failover", "policy: weighted"));
    let report = control.reload().await.unwrap();
    assert!(report.accepted, "{report:?}");
    assert_eq!(report.changes, ["pools: 0 added, 1 changed, 0 removed"]);
    let state = control.state().await.unwrap();
    assert!(!state.config.stale && state.config.generation == 2);
}

#[tokio::test]
async fn a_changed_listener_is_taken_note_of_and_takes_a_restart() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    scene.write(&silent().replace("http: \"127.0.0.1:0\"", "http: off"));
    let report = control.reload().await.unwrap();
    assert!(report.warnings.iter().any(|warning| warning.contains("listen.http")), "{report:?}");
}

#[tokio::test]
async fn a_storm_of_reloads_is_two_readings() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let asked = (0..40).map(|_| {
        let control = control.clone();
        tokio::spawn(async move { control.reload().await.unwrap().generation })
    });
    let mut last = 0;
    for asker in asked.collect::<Vec<_>>() {
        last = asker.await.unwrap().max(last);
    }
    // All were asked before the first reading could end, but nothing forces the runtime to run them all by then.
    assert!((2..=10).contains(&last), "40 requests, {} readings", last - 1);
}

#[tokio::test]
async fn verdicts_stay_over_a_reload_and_new_targets_are_probed_before_they_are_used() {
    let (_listener, port) = gateway();
    let monitor = |period| format!("type: tcp, port: {port}, period: {period}, timeout: 50ms, rise: 2, fall: 2");
    let scene = Scene::new(&config(&monitor("60ms")));
    let (control, _actor) = scene.run().await;
    until("eu1 up", async || status(&control, "127.0.0.1") == HealthStatus::Up).await;
    scene.write(&config(&monitor("60ms")).replace("policy: failover", "policy: weighted"));
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(status(&control, "127.0.0.1"), HealthStatus::Up, "the same target keeps its verdict");
    scene.write(&config(&monitor("70ms")));
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(status(&control, "127.0.0.1"), HealthStatus::Up, "the new target was judged first");
}

#[tokio::test]
async fn what_was_known_of_targets_is_known_after_a_restart() {
    let (listener, port) = gateway();
    let monitor = format!("type: tcp, port: {port}, period: 60ms, timeout: 50ms, rise: 1, fall: 1");
    let scene = Scene::new(&config(&monitor));
    let (control, actor) = scene.run().await;
    until("eu1 up", async || status(&control, "127.0.0.1") == HealthStatus::Up).await;
    control.commands.send(super::super::command::Command::End).await.unwrap();
    actor.await.unwrap();
    drop((control, listener));
    let (control, _actor) = scene.actor().await;
    assert_eq!(status(&control, "127.0.0.1"), HealthStatus::Up, "before any probe of the new process");
    let state = control.state().await.unwrap();
    assert!(state.targets.iter().any(|t| t.address == "127.0.0.1" && !t.history.is_empty()));
}
