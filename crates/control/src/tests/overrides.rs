//! Overrides: in force and on disk before they are acknowledged, removed when they expire.

use fairway_model::PoolName;

use super::*;
use crate::{
    ControlError,
    overrides::OverrideOverlap,
    overrides::{BrokenRule, OverrideEffect},
};

#[tokio::test]
async fn acknowledged_override_is_in_the_answers_and_on_disk() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let state = control.add_override(scene.override_for("eu*", OverrideAction::Drain, 3_600)).await.unwrap().active;
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
        control.add_override(scene.override_for("eu1", OverrideAction::Drain, 60)).await.unwrap().active.id.unwrap();
    // The pool's TTL of 30 s, and a twentieth.
    let [(cluster, drain)] = &drains().iter().map(|(name, drain)| (name.to_string(), *drain)).collect::<Vec<_>>()[..]
    else {
        panic!("expected one drained cluster: {:?}", drains())
    };
    assert_eq!((cluster.as_str(), drain.since, drain.left), ("eu1", scene.now(), None));
    assert_eq!(drain.over, scene.now().plus(Duration::from_millis(31_500)));
    control.remove_override(&id, "ann").await.unwrap();
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
    control.add_override(scene.override_for("eu1/127.0.0.1", OverrideAction::Down, 60)).await.unwrap();
    assert!(drains().is_empty(), "one of two addresses: {:?}", drains());
    control.add_override(scene.override_for("eu1/127.0.0.3", OverrideAction::Down, 60)).await.unwrap();
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
    let id =
        control.add_override(scene.override_for("eu1", OverrideAction::Down, 60)).await.unwrap().active.id.unwrap();
    control.remove_override(&id, "ann").await.unwrap();
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
    assert!(!fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains(&id));
    assert_eq!(control.remove_override(&id, "ann").await, Err(ControlError::NoSuchOverride(id)));
}

#[tokio::test]
async fn override_that_cannot_be_written_is_not_in_force() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    fs::rename(scene.data(), scene.folder.0.path().join("gone")).unwrap();
    let refused = control.add_override(scene.override_for("eu1", OverrideAction::Down, 60)).await;
    assert!(matches!(refused, Err(ControlError::NotKept(_))), "{refused:?}");
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}

#[tokio::test]
async fn override_survives_a_restart_and_expires() {
    let scene = Scene::new(&silent());
    let (control, actor) = scene.run().await;
    control.add_override(scene.override_for("us1/127.0.0.2", OverrideAction::Down, 60)).await.unwrap();
    control.add_override(scene.override_for("eu1", OverrideAction::Down, 30)).await.unwrap();
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
    control.add_override(scene.override_for("eu1", OverrideAction::Up, 60)).await.unwrap();
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
async fn override_of_members_that_are_down_requires_no_confirmation() {
    let scene = Scene::new(&config("type: tcp, port: 9, period: 200ms, timeout: 100ms"));
    let (control, _actor) = scene.run().await;
    let is_down = |address| health(&control, address).status() == HealthStatus::Down;
    until("both targets are down", async || is_down("127.0.0.1") && is_down("127.0.0.2")).await;
    let drain = unconfirmed(scene.override_for("*", OverrideAction::Drain, 60));
    assert_eq!(control.add_override(drain).await.unwrap().effect, OverrideEffect::default());
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

/// Two clusters that are up, with rules in the configuration.
fn two_up(rules: &str) -> Scene {
    Scene::new(&format!("{}{rules}\n", config("type: always")))
}

fn unconfirmed(request: OverrideRequest) -> OverrideRequest {
    OverrideRequest { is_confirmed: false, ..request }
}

#[tokio::test]
async fn override_that_leaves_a_name_without_a_healthy_member_requires_confirmation() {
    let scene = two_up("");
    let (control, _actor) = scene.run().await;
    let drain = |scope: &str| unconfirmed(scene.override_for(scope, OverrideAction::Drain, 60));
    let added = control.add_override(drain("eu1")).await.unwrap();
    assert_eq!(added.effect, OverrideEffect::default(), "us1 is healthy");
    let effect = OverrideEffect { names: 1, first: vec!["shop.gslb.example".parse().unwrap()] };
    let refused = control.add_override(drain("us1")).await.unwrap_err();
    assert_eq!(refused, ControlError::NotConfirmed(effect.clone()));
    let text = refused.to_string();
    assert!(text.contains("1 name would be") && text.contains("shop.gslb.example") && text.contains("--yes"), "{text}");
    assert_eq!(health(&control, "127.0.0.2").override_action(), None);
    let up = unconfirmed(scene.override_for("us1", OverrideAction::Up, 60));
    assert_eq!(control.add_override(up).await.unwrap().effect, OverrideEffect::default(), "up takes nothing out");
    let confirmed = control.add_override(scene.override_for("us1", OverrideAction::Drain, 60)).await.unwrap();
    assert_eq!(
        (confirmed.effect, health(&control, "127.0.0.2").override_action()),
        (effect, Some(OverrideAction::Drain))
    );
}

#[tokio::test]
async fn members_that_are_pending_or_down_are_not_healthy() {
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let refused = control.add_override(unconfirmed(scene.override_for("eu1", OverrideAction::Down, 60))).await;
    assert!(matches!(refused, Err(ControlError::NotConfirmed(_))), "us1 was never evaluated: {refused:?}");
}

#[tokio::test]
async fn member_that_its_schedule_closes_is_not_counted_as_healthy() {
    let closed = "{ cluster: us1, open: [ { from: \"00:01\", to: \"00:02\", zone: UTC } ] }";
    let config = config("type: always").replace("policy: failover", "policy: [schedule, failover]");
    let scene = Scene::new(&config.replace("{ cluster: us1 }", closed));
    let (control, _actor) = scene.run().await;
    let refused = control.add_override(unconfirmed(scene.override_for("eu1", OverrideAction::Drain, 60))).await;
    assert!(matches!(refused, Err(ControlError::NotConfirmed(_))), "{refused:?}");
}

#[tokio::test]
async fn each_address_family_needs_a_healthy_member() {
    let config = config("type: always").replace("addresses: [127.0.0.1]", "addresses: [127.0.0.1, \"::1\"]");
    let scene = Scene::new(&config);
    let (control, _actor) = scene.run().await;
    let drain = |scope: &str| unconfirmed(scene.override_for(scope, OverrideAction::Drain, 60));
    let refused = control.add_override(drain("eu1")).await;
    assert!(matches!(refused, Err(ControlError::NotConfirmed(_))), "no AAAA record is left: {refused:?}");
    control.add_override(drain("eu1/127.0.0.1")).await.unwrap();
}

#[tokio::test]
async fn dry_run_returns_the_effect_and_changes_nothing() {
    let scene = two_up("");
    let (control, _actor) = scene.run().await;
    let all = unconfirmed(scene.override_for("*", OverrideAction::Down, 60));
    let would = control.add_override(OverrideRequest { is_dry_run: true, ..all }).await.unwrap();
    assert_eq!((would.active.id, would.active.addresses.len(), would.effect.names), (None, 2, 1));
    assert!(control.shared.serving.published().overrides.kept.is_empty());
    assert!(!scene.data().join("overrides.json").exists());
    assert_eq!(health(&control, "127.0.0.1").override_action(), None);
}

#[tokio::test]
async fn scope_that_matches_no_cluster_is_refused_with_a_hint() {
    let scene = two_up("");
    let (control, _actor) = scene.run().await;
    for (scope, hint) in [
        ("eu2", "did you mean eu1?"),
        ("frankfurt-9", "declared: eu1, us1"),
        ("eu1/192.0.2.1", "eu1 has the addresses 127.0.0.1"),
    ] {
        let refused = control.add_override(scene.override_for(scope, OverrideAction::Up, 60)).await;
        let fact = format!("no address matches {scope}");
        assert_eq!(refused, Err(ControlError::NothingMatches { fact, hint: hint.to_owned() }));
    }
}

#[tokio::test]
async fn rule_keeps_clusters_even_with_a_confirmation() {
    let scene = two_up("overrideRules: [ { pools: [\"sh*\"], minClusters: 1 } ]");
    let (control, _actor) = scene.run().await;
    let add = |scope: &str, action| control.add_override(scene.override_for(scope, action, 60));
    let broken = BrokenRule { pool: PoolName::new("shop").unwrap(), left: 0, clusters: 2, min_clusters: 1 };
    assert_eq!(add("*", OverrideAction::Drain).await, Err(ControlError::RuleBroken(broken.clone())));
    add("eu1", OverrideAction::Drain).await.unwrap();
    assert_eq!(add("us1", OverrideAction::Down).await, Err(ControlError::RuleBroken(broken)));
    // It takes nothing out that is not out already.
    add("eu1", OverrideAction::Down).await.unwrap();
    add("us1", OverrideAction::Up).await.unwrap();
}

#[tokio::test]
async fn down_takes_precedence_over_up_and_both_show_it() {
    let scene = two_up("");
    let (control, _actor) = scene.run().await;
    let overlap = |other: &str, action, is_shadowed| {
        let (address, other) = ("eu1/127.0.0.1".to_owned(), other.to_owned());
        vec![OverrideOverlap { address, other, action, is_shadowed }]
    };
    let up = control.add_override(scene.override_for("*", OverrideAction::Up, 60)).await.unwrap().active;
    assert_eq!(up.overlaps, []);
    let down = control.add_override(scene.override_for("eu1", OverrideAction::Down, 60)).await.unwrap().active;
    let (up_id, down_id) = (up.id.unwrap(), down.id.unwrap());
    assert_eq!(down.overlaps, overlap(&up_id, OverrideAction::Up, false));
    let drain = control.add_override(scene.override_for("eu1", OverrideAction::Drain, 60)).await.unwrap().active;
    assert_eq!(drain.overlaps, overlap(&down_id, OverrideAction::Down, true), "the strongest of the others");
}
