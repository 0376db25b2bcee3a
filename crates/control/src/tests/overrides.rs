//! Overrides: in force and on disk before they are acknowledged, removed when they expire.

use super::*;
use crate::ControlError;

#[tokio::test]
async fn acknowledged_override_is_in_the_answers_and_on_disk() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let state = control.add_override(scene.override_for("eu*", OverrideAction::Drain, 3_600), None).await.unwrap();
    assert_eq!(state.addresses, ["eu1/127.0.0.1"]);
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Drain));
    assert_eq!(health(&control, "127.0.0.2").override_action(), None);
    let text = fs::read_to_string(scene.data().join("overrides.json")).unwrap();
    assert!(text.contains(&state.id.unwrap()) && text.contains("planned work"), "{text}");
}

#[tokio::test]
async fn drain_ends_after_the_ttl_of_earlier_answers() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let drains = || control.shared.balance.drains.load_full();
    let id =
        control.add_override(scene.override_for("eu1", OverrideAction::Drain, 60), None).await.unwrap().id.unwrap();
    // The pool's TTL of 30 s, and a twentieth.
    let [(cluster, drain)] = &drains().iter().map(|(name, drain)| (name.to_string(), *drain)).collect::<Vec<_>>()[..]
    else {
        panic!("expected one drained cluster: {:?}", drains())
    };
    assert_eq!((cluster.as_str(), drain.since, drain.left), ("eu1", scene.now(), None));
    assert_eq!(drain.over, scene.now().plus(Duration::from_millis(31_500)));
    control.remove_override(&id).await.unwrap();
    assert_eq!(*drains(), Default::default());
}

#[tokio::test]
async fn cluster_drains_once_all_its_addresses_are_out_for_the_ttl_of_its_names() {
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
    let drains = || control.shared.balance.drains.load_full();
    control.add_override(scene.override_for("eu1/127.0.0.1", OverrideAction::Down, 60), None).await.unwrap();
    assert!(drains().is_empty(), "one of two addresses: {:?}", drains());
    control.add_override(scene.override_for("eu1/127.0.0.3", OverrideAction::Down, 60), None).await.unwrap();
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
    let id = control.add_override(scene.override_for("eu1", OverrideAction::Down, 60), None).await.unwrap().id.unwrap();
    control.remove_override(&id).await.unwrap();
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
    assert!(!fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains(&id));
    assert_eq!(control.remove_override(&id).await, Err(ControlError::NoSuchOverride(id)));
}

#[tokio::test]
async fn override_that_cannot_be_written_is_not_in_force() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    fs::rename(scene.data(), scene.folder.0.path().join("gone")).unwrap();
    let refused = control.add_override(scene.override_for("eu1", OverrideAction::Down, 60), None).await;
    assert!(matches!(refused, Err(ControlError::NotKept(_))), "{refused:?}");
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}

#[tokio::test]
async fn override_survives_a_restart_and_expires() {
    let scene = Scene::new(&silent());
    let (control, actor) = scene.run().await;
    control.add_override(scene.override_for("us1/127.0.0.2", OverrideAction::Down, 60), None).await.unwrap();
    control.add_override(scene.override_for("eu1", OverrideAction::Down, 30), None).await.unwrap();
    control.commands.send(crate::command::Command::End).await.unwrap();
    actor.await.unwrap();
    drop(control);
    scene.advance(Duration::from_secs(30));
    let (control, _actor) = scene.run().await;
    assert_eq!(health(&control, "127.0.0.1").override_action(), None, "the override expired while no process ran");
    assert_eq!(health(&control, "127.0.0.2").override_action(), Some(OverrideAction::Down));
    scene.advance(Duration::from_secs(30));
    until("the override expires", async || health(&control, "127.0.0.2").override_action().is_none()).await;
    until("the override is removed from the disk", async || {
        !fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains("us1")
    })
    .await;
}

#[tokio::test]
async fn clock_that_is_set_changes_the_expiry_of_overrides_and_nothing_else() {
    let scene = Scene::new(&config("type: tcp, port: 9, period: 200ms, timeout: 100ms"));
    let (control, _actor) = scene.run().await;
    let is_down = |address| health(&control, address).status() == HealthStatus::Down;
    until("both targets are down", async || is_down("127.0.0.1") && is_down("127.0.0.2")).await;
    control.add_override(scene.override_for("eu1", OverrideAction::Up, 60), None).await.unwrap();
    let count = |to| control.shared.counts.transitions(to).map(|counter| counter.load(Relaxed));
    let transitions = || [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown].map(count);
    let before = transitions();
    // Set back by an hour, the override stays in force and on disk, and commands are executed.
    scene.set_back(Duration::from_secs(3_600));
    control.reload().await.unwrap();
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Up));
    assert!(fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains("eu1"));
    // Set ahead by a year, the override expires.
    scene.advance(Duration::from_secs(366 * 86_400));
    until("the override expires", async || health(&control, "127.0.0.1").override_action().is_none()).await;
    // Probes use the monotonic clock, so neither step changed a health status.
    assert!(is_down("127.0.0.1") && is_down("127.0.0.2"));
    assert_eq!(transitions(), before);
}

#[tokio::test]
async fn override_of_the_configuration_is_removed_with_it() {
    let scene = Scene::new(&silent());
    let until = scene.now().plus(Duration::from_secs(3_600));
    let declared = format!(
        "{}overrides: [ {{ match: \"eu1\", action: drain, reason: planned work, until: \"{until}\" }} ]\n",
        silent()
    );
    let (control, _actor) = scene.run().await;
    scene.write(&declared);
    let report = control.reload().await.unwrap();
    assert!(report.is_accepted(), "{report:?}");
    assert_eq!(health(&control, "127.0.0.1").override_action(), Some(OverrideAction::Drain));
    scene.write(&silent());
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}
