//! New configurations: applied as a whole, or rejected with the reasons.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

#[tokio::test]
async fn rejected_reload_keeps_the_previous_configuration() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let before = control.shared.serving.load().snapshot.id();
    scene.write(&silent().replace("cluster: us1", "cluster: us9"));
    let report = control.reload().await.unwrap();
    assert!(!report.is_accepted() && report.errors.iter().any(|error| error.contains("us9")), "{report:?}");
    assert_eq!(control.shared.serving.load().snapshot.id(), before);
    let published = control.shared.serving.published();
    assert!(published.stale && published.number == 1);
    assert_eq!(published.last_reload, Some(report));
    assert_eq!(control.shared.counts.reloads_rejected.load(Relaxed), 1);
}

#[tokio::test]
async fn missing_file_is_a_rejected_reload() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    fs::remove_file(scene.folder.file()).unwrap();
    let report = control.reload().await.unwrap();
    assert!(!report.is_accepted() && !report.errors.is_empty());
    assert_eq!(control.shared.serving.published().configured.merged.desired.pools.len(), 1);
}

#[tokio::test]
async fn accepted_reload_counts_changes_and_is_not_stale() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    scene.write("version: 1\nnonsense: true\n");
    assert!(!control.reload().await.unwrap().is_accepted());
    scene.write(&silent().replace("policy: failover", "policy: weighted"));
    let report = control.reload().await.unwrap();
    assert!(report.is_accepted(), "{report:?}");
    assert_eq!(report.changes, ["pools: 0 added, 1 changed, 0 removed"]);
    let published = control.shared.serving.published();
    assert!(!published.stale && published.number == 2);
}

#[tokio::test]
async fn changed_listener_is_a_warning_that_it_takes_a_restart() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    scene.write(&silent().replace("http: \"127.0.0.1:0\"", "http: off"));
    let report = control.reload().await.unwrap();
    assert!(report.warnings.iter().any(|warning| warning.contains("listen.http")), "{report:?}");
}

#[tokio::test]
async fn storm_of_reload_requests_makes_few_reloads() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let requests = (0..40).map(|_| {
        let control = control.clone();
        tokio::spawn(async move { control.reload().await.unwrap().configuration })
    });
    let mut last = 0;
    for request in requests.collect::<Vec<_>>() {
        last = request.await.unwrap().max(last);
    }
    // Mostly two: all requests are spawned before the first reload ends, but the runtime may run some of them later.
    assert!((2..=10).contains(&last), "40 requests made {} reloads", last - 1);
}

#[tokio::test]
async fn health_survives_a_reload_also_of_the_monitor() {
    // Nothing listens at the address of us1.
    let (_listener, port) = gateway();
    let monitor = |period| format!("type: tcp, port: {port}, period: {period}, timeout: 50ms, rise: 2, fall: 2");
    let scene = Scene::new(&config(&monitor("60ms")));
    let (control, _actor) = scene.run().await;
    let (eu1, us1) = ("127.0.0.1", "127.0.0.2");
    until("both evaluated", async || {
        [eu1, us1].map(|at| status(&control, at)) == [HealthStatus::Up, HealthStatus::Down]
    })
    .await;
    scene.write(&config(&monitor("60ms")).replace("policy: failover", "policy: weighted"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!([eu1, us1].map(|at| status(&control, at)), [HealthStatus::Up, HealthStatus::Down], "known targets");

    // Targets of a monitor that has no result yet.
    let (silent, silent_port) = gateway();
    let http = format!("type: http, port: {silent_port}, period: 1h, timeout: 50m");
    scene.write(&config(&http));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(status(&control, eu1), HealthStatus::Unknown, "it was up: answered as before, with stale evidence");
    drop(silent);
    until("us1 down", async || status(&control, us1) == HealthStatus::Down).await;
    scene.write(&config(&monitor("70ms")));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(
        status(&control, us1),
        HealthStatus::Down,
        "a member that was down is not answered again before it passes"
    );
    until("eu1 up", async || status(&control, eu1) == HealthStatus::Up).await;
}

#[tokio::test]
async fn reload_does_not_wait_for_silent_targets() {
    let (_silent, port) = gateway();
    let monitor = format!("type: http, port: {port}, period: 1h, timeout: 50m");
    // A reload that waited for the first results would wait ten minutes.
    let head = |config: String| config.replace("version: 1", "version: 1\nhealth: { firstRound: 10m }");
    let scene = Scene::new(&head(silent()));
    let (control, _actor) = scene.run().await;
    scene.write(&head(config(&monitor)).replace("127.0.0.2]", "127.0.0.1]"));
    let reload = tokio::time::timeout(PATIENCE, control.reload()).await;
    assert!(reload.expect("it does not wait").unwrap().is_accepted());
    assert_eq!(status(&control, "127.0.0.1"), HealthStatus::Pending, "served before its first result");
}

#[tokio::test]
async fn health_survives_a_restart() {
    let (listener, port) = gateway();
    let monitor = format!("type: tcp, port: {port}, period: 60ms, timeout: 50ms, rise: 1, fall: 1");
    let scene = Scene::new(&config(&monitor));
    let (control, actor) = scene.run().await;
    until("eu1 up", async || status(&control, "127.0.0.1") == HealthStatus::Up).await;
    control.commands.send(crate::command::Command::End).await.unwrap();
    actor.await.unwrap();
    drop((control, listener));
    let (control, _actor) = scene.actor().await;
    assert_eq!(status(&control, "127.0.0.1"), HealthStatus::Up, "the status is restored before the first probe");
    let states = control.shared.probes.checker.states().await;
    assert!(states.iter().any(|of| of.target.address.to_string() == "127.0.0.1" && !of.history.is_empty()));
}
