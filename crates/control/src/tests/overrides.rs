//! What operators force: in force and on disk before it is acknowledged, gone when its time has come.

use fairway_model::{Override, OverrideAction};

use super::*;
use crate::ControlError;

fn said(scene: &Scene, scope: &str, forced: OverrideAction, hold: u64) -> Override {
    let expires = scene.now().plus(Duration::from_secs(hold));
    Override::new(scope.parse().unwrap(), forced, "planned work", expires, scene.now()).unwrap()
}

#[tokio::test]
async fn an_override_is_in_the_answers_and_on_disk_when_it_is_acknowledged() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let state = control.add_override(said(&scene, "eu*", OverrideAction::Drain, 3_600)).await.unwrap();
    assert_eq!((state.source.as_str(), &state.addresses[..]), ("command", &["eu1/127.0.0.1".to_owned()][..]));
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Drain));
    assert_eq!(health(&control, "127.0.0.2").override_action(), None);
    let text = fs::read_to_string(scene.data().join("overrides.json")).unwrap();
    assert!(text.contains(&state.id.unwrap()) && text.contains("planned work"), "{text}");
}

#[tokio::test]
async fn a_drain_says_when_the_last_answer_given_before_has_run_out() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let drains = || control.shared.drains.load_full();
    let id = control.add_override(said(&scene, "eu1", OverrideAction::Drain, 60)).await.unwrap().id.unwrap();
    // The pool's TTL of 30 s, and a twentieth.
    let [(cluster, drain)] = &drains().iter().map(|(name, drain)| (name.to_string(), *drain)).collect::<Vec<_>>()[..]
    else {
        panic!("one cluster is out: {:?}", drains())
    };
    assert_eq!((cluster.as_str(), drain.since, drain.left), ("eu1", scene.now(), None));
    assert_eq!(drain.over, scene.now().plus(Duration::from_millis(31_500)));
    control.remove_override(&id).await.unwrap();
    assert_eq!(*drains(), Default::default());
}

#[tokio::test]
async fn a_cluster_drains_once_all_of_it_is_out_for_as_long_as_its_own_names_hold() {
    let config = silent().replace("addresses: [127.0.0.1]", "addresses: [127.0.0.1, 127.0.0.3]").replace(
        "names: [ { name: shop.gslb.example, pool: shop } ]",
        "names: [ { name: shop.gslb.example, pool: shop }, { name: mail.gslb.example, pool: mail }, \
         { name: long.gslb.example, pool: long } ]",
    );
    let pool = |name: &str, ttl: u32, cluster: &str| {
        let monitor = "monitor: gateway";
        format!("{{ name: {name}, policy: failover, ttl: {ttl}s, {monitor}, members: [ {{ cluster: {cluster} }} ] }}, ")
    };
    let pools = pool("mail", 200, "eu1") + &pool("long", 3_000, "us1");
    let scene = Scene::new(&config.replace("pools: [ ", &format!("pools: [ {pools}")));
    let (control, _actor) = scene.run().await;
    let drains = || control.shared.drains.load_full();
    control.add_override(said(&scene, "eu1/127.0.0.1", OverrideAction::Down, 60)).await.unwrap();
    assert!(drains().is_empty(), "one of two addresses: {:?}", drains());
    control.add_override(said(&scene, "eu1/127.0.0.3", OverrideAction::Down, 60)).await.unwrap();
    let over = drains().iter().map(|(name, drain)| (name.to_string(), drain.over)).collect::<Vec<_>>();
    let [(cluster, over)] = &over[..] else { panic!("one cluster is out: {over:?}") };
    // The larger TTL of both names that it is answered for, and what is added to that.
    let [least, most] = [200, 300].map(|secs| scene.now().plus(Duration::from_secs(secs)));
    assert!(cluster == "eu1" && (least..most).contains(over), "{over:?}");
}

#[tokio::test]
async fn a_removed_override_is_gone_from_answers_and_disk_and_an_unknown_one_is_named() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let id = control.add_override(said(&scene, "eu1", OverrideAction::Down, 60)).await.unwrap().id.unwrap();
    control.remove_override(&id).await.unwrap();
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
    assert!(!fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains(&id));
    assert_eq!(control.remove_override(&id).await, Err(ControlError::NoSuchOverride(id)));
}

#[tokio::test]
async fn what_cannot_be_written_is_not_in_force() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    fs::rename(scene.data(), scene.folder.path().join("gone")).unwrap();
    let refused = control.add_override(said(&scene, "eu1", OverrideAction::Down, 60)).await;
    assert!(matches!(refused, Err(ControlError::NotKept(_))), "{refused:?}");
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}

#[tokio::test]
async fn an_override_holds_over_a_restart_and_ends_when_its_time_has_come() {
    let scene = Scene::new(&silent());
    let (control, actor) = scene.run().await;
    control.add_override(said(&scene, "us1/127.0.0.2", OverrideAction::Down, 60)).await.unwrap();
    control.add_override(said(&scene, "eu1", OverrideAction::Down, 30)).await.unwrap();
    control.commands.send(super::super::command::Command::End).await.unwrap();
    actor.await.unwrap();
    drop(control);
    scene.pass(Duration::from_secs(30));
    let (control, _actor) = scene.run().await;
    assert_eq!(health(&control, "127.0.0.1").override_action(), None, "it ended while nobody ran");
    assert_eq!(health(&control, "127.0.0.2").override_action(), Some(OverrideAction::Down));
    scene.pass(Duration::from_secs(30));
    until("the end of the override", async || health(&control, "127.0.0.2").override_action().is_none()).await;
    until("its end on disk", async || {
        !fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains("us1")
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_steps_moves_the_end_of_overrides_and_nothing_else() {
    let scene = Scene::new(&config("type: tcp, port: 9, period: 200ms, timeout: 100ms"));
    let (control, _actor) = scene.run().await;
    let is_down = |address| health(&control, address).status() == HealthStatus::Down;
    until("nobody answers at port 9", async || is_down("127.0.0.1") && is_down("127.0.0.2")).await;
    control.add_override(said(&scene, "eu1", OverrideAction::Up, 60)).await.unwrap();
    let count = |to| control.shared.counts.transitions(to).map(|counter| counter.load(Relaxed));
    let transitions = || [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown].map(count);
    let before = transitions();
    // Back by an hour: it holds until its time comes again, here and on disk, and whoever asks is answered.
    scene.step_back(Duration::from_secs(3_600));
    control.reload().await.unwrap();
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Up));
    assert!(fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains("eu1"));
    // Ahead by a year: it ends.
    scene.pass(Duration::from_secs(366 * 86_400));
    until("the end of the override", async || health(&control, "127.0.0.1").override_action().is_none()).await;
    // Probes go by another clock: no verdict was made of either step.
    assert!(is_down("127.0.0.1") && is_down("127.0.0.2"));
    assert_eq!(transitions(), before);
}

#[tokio::test]
async fn an_override_of_the_configuration_holds_and_goes_with_it() {
    let scene = Scene::new(&silent());
    let until = scene.now().plus(Duration::from_secs(3_600));
    let declared = format!(
        "{}overrides: [ {{ match: \"eu1\", action: drain, reason: planned work, until: \"{until}\" }} ]\n",
        silent()
    );
    let (control, _actor) = scene.run().await;
    scene.write(&declared);
    let report = control.reload().await.unwrap();
    assert!(report.accepted, "{report:?}");
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Drain));
    scene.write(&silent());
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}
