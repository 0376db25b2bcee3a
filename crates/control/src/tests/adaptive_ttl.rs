//! Adaptive TTLs in the whole control task.

use fairway_model::{AdaptiveTtl, Risk};

use super::*;

#[tokio::test]
async fn drain_makes_the_ttl_short_at_once_until_it_is_calm() {
    let scene = Scene::new(
        &config("type: always").replace("policy: failover", "policy: failover, ttl: 2s, ttlMin: 1s, ttlMax: 9s"),
    );
    let (control, _actor) = scene.run().await;
    let ttl = || control.shared.serving.load().runtime.adaptive_ttl(0);
    assert_eq!(ttl(), AdaptiveTtl::Declared);
    let drain = scene.override_for("eu1", OverrideAction::Drain, 60);
    let id = control.add_override(drain).await.unwrap().active.id.unwrap();
    assert_eq!(ttl(), AdaptiveTtl::Risky(Risk::Drain), "the TTL is short with the drain");
    // Caches keep earlier answers for the largest TTL, 9 s; the slack is a twentieth.
    let over = control.shared.balance.drains.load().values().next().unwrap().over;
    assert_eq!(over, scene.now().plus(Duration::from_millis(9_450)));
    control.remove_override(&id, "ann").await.unwrap();
    assert_eq!(ttl(), AdaptiveTtl::Risky(Risk::Recent));
    until("the declared TTL", async || ttl() == AdaptiveTtl::Declared).await;
}

#[tokio::test]
async fn pool_that_loses_its_bounds_forgets_its_risk() {
    let bound =
        config("type: always").replace("policy: failover", "policy: failover, ttl: 60s, ttlMin: 1s, ttlMax: 90s");
    let scene = Scene::new(&bound);
    let (control, _actor) = scene.run().await;
    let ttl = || control.shared.serving.load().runtime.adaptive_ttl(0);
    let drain = scene.override_for("eu1", OverrideAction::Drain, 60);
    let id = control.add_override(drain).await.unwrap().active.id.unwrap();
    assert_eq!(ttl(), AdaptiveTtl::Risky(Risk::Drain));
    scene.write(&config("type: always"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(ttl(), AdaptiveTtl::Declared);
    control.remove_override(&id, "ann").await.unwrap();
    scene.write(&bound);
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(ttl(), AdaptiveTtl::Declared, "the TTL starts over, without a recent risk");
}
