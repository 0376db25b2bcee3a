//! TTLs that go by risk, in the whole control task.

use fairway_model::{AdaptiveTtl, Override, OverrideAction, Risk};

use super::*;

#[tokio::test]
async fn a_drain_makes_the_ttl_short_at_once_and_quiet_brings_it_back() {
    let scene = Scene::new(
        &config("type: always").replace("policy: failover", "policy: failover, ttl: 2s, ttlMin: 1s, ttlMax: 9s"),
    );
    let (control, _actor) = scene.run().await;
    let pace = || control.shared.serving.load().runtime.pace(0);
    assert_eq!(pace(), AdaptiveTtl::Declared);
    let expires = scene.now().plus(Duration::from_secs(60));
    let scope = "eu1".parse().unwrap();
    let said = Override::new(scope, OverrideAction::Drain, "planned work", expires, scene.now()).unwrap();
    let id = control.add_override(said).await.unwrap().id.unwrap();
    assert_eq!(pace(), AdaptiveTtl::Risky(Risk::Drain), "with the drain itself");
    // What was given before may be kept for as long as the largest TTL, and a twentieth of that.
    let over = control.shared.drains.load().values().next().unwrap().over;
    assert_eq!(over, scene.now().plus(Duration::from_millis(9_450)));
    control.remove_override(&id).await.unwrap();
    assert_eq!(pace(), AdaptiveTtl::Risky(Risk::Recent));
    until("the declared TTL", async || pace() == AdaptiveTtl::Declared).await;
}

#[tokio::test]
async fn a_pool_without_bounds_has_the_declared_ttl_and_nothing_of_what_was_when_it_had_some() {
    let bound =
        config("type: always").replace("policy: failover", "policy: failover, ttl: 60s, ttlMin: 1s, ttlMax: 90s");
    let scene = Scene::new(&bound);
    let (control, _actor) = scene.run().await;
    let pace = || control.shared.serving.load().runtime.pace(0);
    let expires = scene.now().plus(Duration::from_secs(60));
    let said =
        Override::new("eu1".parse().unwrap(), OverrideAction::Drain, "planned work", expires, scene.now()).unwrap();
    let id = control.add_override(said).await.unwrap().id.unwrap();
    assert_eq!(pace(), AdaptiveTtl::Risky(Risk::Drain));
    scene.write(&config("type: always"));
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(pace(), AdaptiveTtl::Declared);
    control.remove_override(&id).await.unwrap();
    scene.write(&bound);
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(pace(), AdaptiveTtl::Declared, "it begins anew, and not with a risk of lately");
}
