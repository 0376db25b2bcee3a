//! Overrides that pin pools to their declared weights.

use fairway_health::load::{LoadAmount, PushedLoad};
use fairway_model::{Network, PoolName, Rtype};

use super::*;
use crate::ControlError;

/// Weights of 1:3 and capacities of 3:1: load control begins with a split of 1:1.
fn balanced() -> String {
    let config = config("type: always").replace("policy: failover", "policy: [load, weighted]");
    let config = config.replace("[127.0.0.1] }", "[127.0.0.1], capacity: 300 }");
    let config = config.replace("[127.0.0.2] }", "[127.0.0.2], capacity: 100 }");
    config.replace("{ cluster: us1 }", "{ cluster: us1, weight: 3 }")
}

/// Returns the percentage of 1,024 clients that are answered with eu1.
fn percent_of_eu1(control: &Control) -> usize {
    let state = control.shared.serving.load();
    let name = "shop.gslb.example".parse().unwrap();
    let clients = (0..1_024).map(|number| format!("10.{}.{}.0/24", number / 256, number % 256));
    let is_eu1 = |client: &String| {
        let client: Network = client.parse().unwrap();
        let explained = fairway_zones::explain(&state.serving, &name, Rtype::A, Some(client));
        explained.message.answer.iter().any(|record| record.rdata == "127.0.0.1")
    };
    clients.filter(is_eu1).count() * 100 / 1_024
}

/// Returns the running control task once load control has begun.
async fn with_load_control(scene: &Scene) -> (Control, JoinHandle<()>) {
    let (control, actor) = scene.run().await;
    report(&control).await;
    (control, actor)
}

async fn report(control: &Control) {
    for cluster in ["eu1", "us1"] {
        let (amount, valid_for) = (LoadAmount::Used(10), Duration::from_secs(60));
        let push = PushedLoad { amount, sequence: None, valid_for };
        control.push_load(cluster, push).await.unwrap();
    }
    until("load control decides", async || is_by_load(control)).await;
}

fn is_by_load(control: &Control) -> bool {
    (44..=56).contains(&percent_of_eu1(control))
}

fn is_by_weight(control: &Control) -> bool {
    (20..=30).contains(&percent_of_eu1(control))
}

fn shop() -> PoolName {
    PoolName::new("shop").unwrap()
}

#[tokio::test]
async fn pinned_pool_is_answered_by_its_weights_until_the_override_is_removed() {
    let scene = Scene::new(&balanced());
    let (control, _actor) = with_load_control(&scene).await;
    let added = control.add_override(scene.load_off_for("sh*", 60)).await.unwrap();
    assert_eq!((&added.active.pools[..], added.effect.names), (&[shop()][..], 0));
    assert!(is_by_weight(&control), "{} %, once the override is acknowledged", percent_of_eu1(&control));
    let published = control.shared.serving.published();
    let pinned = published.overrides.pinned(&shop(), &published.configured).expect("the state shows it");
    assert_eq!((pinned.id, pinned.policy.to_string().as_str()), (added.active.id.as_deref(), "load, weighted"));
    assert!(!control.shared.serving.load().snapshot.uses_load(), "the pool is in no group");
    let removed = control.remove_override(added.active.id.as_deref().unwrap(), "ann").await.unwrap();
    assert_eq!(removed.pools, [shop()]);
    until("load control decides again", async || is_by_load(&control)).await;
}

#[tokio::test]
async fn health_still_applies_to_a_pinned_pool() {
    let scene = Scene::new(&balanced());
    let (control, _actor) = with_load_control(&scene).await;
    control.add_override(scene.override_for("us1", OverrideAction::Drain, 60)).await.unwrap();
    control.add_override(scene.load_off_for("shop", 60)).await.unwrap();
    assert_eq!(percent_of_eu1(&control), 100, "us1 is drained");
}

#[tokio::test]
async fn pin_survives_reloads_and_a_restart_and_expires() {
    let scene = Scene::new(&balanced());
    let (control, actor) = with_load_control(&scene).await;
    control.add_override(scene.load_off_for("shop", 60)).await.unwrap();
    scene.write(&balanced().replace("monitor: gateway", "ttl: 20s, monitor: gateway"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert!(is_by_weight(&control), "after a reload of the files");
    control.commands.send(crate::command::Command::End).await.unwrap();
    actor.await.unwrap();
    drop(control);
    let (control, _actor) = scene.run().await;
    assert!(is_by_weight(&control), "from the first answer on");
    scene.advance(Duration::from_secs(60));
    until("the override expires", async || control.shared.serving.load().snapshot.uses_load()).await;
    assert!(control.shared.serving.published().overrides.kept.is_empty());
    report(&control).await;
}

#[tokio::test]
async fn pin_that_is_removed_while_its_reload_runs_is_followed_by_another_reload() {
    let scene = Scene::new(&balanced());
    let (_control, mut actor) = scene.actor().await;
    let id = actor.add_override(scene.load_off_for("shop", 60)).await.unwrap().active.id.unwrap();
    assert!(!actor.reloads.has_next(), "the reload with the pin runs");
    actor.remove_override(&id).await.unwrap();
    assert!(actor.reloads.has_next());
}

#[tokio::test]
async fn pin_of_the_configuration_is_in_force_as_long_as_it_is_declared() {
    let scene = Scene::new(&balanced());
    let (control, _actor) = with_load_control(&scene).await;
    let until = scene.now().plus(Duration::from_secs(3_600));
    let pin = format!("overrides: [ {{ pools: \"*\", load: off, reason: planned work, until: \"{until}\" }} ]\n");
    scene.write(&(balanced() + &pin));
    assert!(control.reload().await.unwrap().is_accepted());
    assert!(is_by_weight(&control));
    scene.write(&balanced());
    assert!(control.reload().await.unwrap().is_accepted());
    assert!(control.shared.serving.published().configured.merged.pinned.is_empty());
    super::until("load control decides again", async || is_by_load(&control)).await;
}

#[tokio::test]
async fn pin_of_no_pool_with_load_is_refused_with_a_hint() {
    let scene = Scene::new(&balanced());
    let (control, _actor) = scene.run().await;
    let refused = control.add_override(scene.load_off_for("shpo", 60)).await;
    let (fact, hint) = ("no pool with the step load matches shpo".to_owned(), "did you mean shop?".to_owned());
    assert_eq!(refused, Err(ControlError::NothingMatches { fact, hint }));
    let scene = Scene::new(&silent());
    let (control, _actor) = scene.run().await;
    let refused = control.add_override(scene.load_off_for("shop", 60)).await.unwrap_err().to_string();
    assert!(refused.contains("pool shop has the policy failover"), "{refused}");
}

#[tokio::test]
async fn dry_run_of_a_pin_returns_the_pools_and_changes_nothing() {
    let scene = Scene::new(&balanced());
    let (control, _actor) = with_load_control(&scene).await;
    let request = OverrideRequest { is_dry_run: true, ..scene.load_off_for("*", 60) };
    let would = control.add_override(request).await.unwrap();
    assert_eq!((would.active.id, would.active.pools), (None, vec![shop()]));
    assert!(control.shared.serving.published().overrides.kept.is_empty() && is_by_load(&control));
}
