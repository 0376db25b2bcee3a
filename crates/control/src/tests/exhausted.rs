//! Clusters whose gateways drain or are overloaded, in pools without the step `load`.

use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, Eligibility, LoadSource, Rtype};

use super::*;

/// Result of reading the gateways of a cluster without a load.
fn reading(cluster: &str, is_exhausted: bool, period: Duration) -> LoadUpdate {
    let cluster = ClusterName::new(cluster).unwrap();
    LoadUpdate { cluster, report: None, sequence: 1, services: None, is_exhausted: Some(is_exhausted), period }
}

/// Returns the addresses that the name is answered with.
fn answer(control: &Control) -> Vec<String> {
    let (state, name) = (control.shared.serving.load(), "shop.gslb.example".parse().unwrap());
    let explained = fairway_zones::explain(&state.serving, &name, Rtype::A, None);
    explained.message.answer.into_iter().map(|record| record.rdata).collect()
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn exhausted_cluster_leaves_a_pool_without_load_and_returns() {
    let (control, mut actor) = Scene::new(&config("type: always")).actor().await;
    assert!(!actor.inputs.balance.runs());
    assert_eq!(answer(&control), ["127.0.0.1"]);
    actor.add_load(Ok(reading("eu1", true, LONG)));
    assert_eq!(answer(&control), ["127.0.0.2"]);
    assert_eq!(health(&control, "127.0.0.1").eligibility(), Eligibility::Exhausted);
    assert_eq!(control.shared.balance.drains.load().len(), 1);
    // A reading without an answering gateway, or a push, says nothing about exhaustion.
    actor.add_load(Ok(LoadUpdate { is_exhausted: None, ..reading("eu1", true, LONG) }));
    assert_eq!(answer(&control), ["127.0.0.2"]);
    actor.add_load(Ok(reading("eu1", false, LONG)));
    assert_eq!(answer(&control), ["127.0.0.1"]);
    assert!(control.shared.balance.drains.load().is_empty());
}

#[tokio::test]
async fn pool_of_exhausted_clusters_is_answered_as_if_none_were() {
    let down_is_empty = config("type: always").replace("policy: failover", "policy: failover, down: empty");
    let (control, mut actor) = Scene::new(&down_is_empty).actor().await;
    actor.add_load(Ok(reading("eu1", true, LONG)));
    actor.add_load(Ok(reading("us1", true, LONG)));
    assert_eq!(answer(&control), ["127.0.0.1"]);
}

#[tokio::test]
async fn exhaustion_that_is_not_repeated_expires() {
    let (control, mut actor) = Scene::new(&config("type: always")).actor().await;
    let period = Duration::from_secs(10);
    let validity = period * LoadSource::PERIODS_VALID;
    let now = std::time::Instant::now();
    assert!(actor.inputs.exhausted.note(&reading("eu1", true, period), now));
    assert!(!actor.inputs.exhausted.expire(now + validity - Duration::from_millis(1)));
    assert!(!actor.inputs.exhausted.note(&reading("eu1", true, period), now + period), "it is repeated");
    assert!(!actor.inputs.exhausted.expire(now + validity));
    assert!(actor.inputs.exhausted.expire(now + period + validity));
    // In the control task, within a second of the end.
    actor.add_load(Ok(reading("eu1", true, Duration::from_millis(1))));
    assert_eq!(answer(&control), ["127.0.0.2"]);
    until("it expires", async || {
        actor.expire_exhausted();
        answer(&control) == ["127.0.0.1"]
    })
    .await;
}

#[tokio::test]
async fn exhausted_cluster_stays_out_after_a_reload_and_a_transition() {
    let scene = Scene::new(&config("type: always"));
    let (control, mut actor) = scene.actor().await;
    actor.add_load(Ok(reading("eu1", true, LONG)));
    let running = tokio::spawn(actor.run());
    scene.write(&config("type: always").replace("policy: failover", "policy: weighted"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(answer(&control), ["127.0.0.2"]);
    // An override of the operator has precedence over what the gateways report.
    let up = scene.override_for("eu1", OverrideAction::Up, 60);
    let id = control.add_override(up).await.unwrap().active.id.unwrap();
    assert_eq!(health(&control, "127.0.0.1").eligibility(), Eligibility::Up);
    control.remove_override(&id, "ann").await.unwrap();
    assert_eq!(answer(&control), ["127.0.0.2"]);
    running.abort();
}
