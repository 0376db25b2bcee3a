//! Which pools have a fast path.

use fairway_model::{Permille, Policy, Ttl, TtlBounds};

use super::*;

/// True if the fast path answers a client while all members are up.
fn is_quick(scene: &Scene) -> bool {
    let runtime = scene.runtime(&scene.all("u"));
    scene.steer.choose_fast(Family::V4, &runtime, scene.steer.client_net(network(7)), Draw(0)).is_some()
}

#[test]
fn pools_with_more_to_weigh_have_no_fast_path() {
    let fast_path = |members: &str, adjust: fn(&mut Pool)| is_quick(&Scene::new(Policy::WEIGHTED, members, adjust));
    assert!(fast_path("a b", |_| {}) && fast_path("a b@2", |_| {}));
    assert!(!fast_path("a b", |pool| pool.answers = 2), "two are answered");
    assert!(!fast_path("a b@2", |pool| pool.min_healthy = Permille::new(1).unwrap()), "the next tier may join");
    assert!(!fast_path("a/2+0 b", |_| {}), "a part of a member may be live");
    let bounds = TtlBounds { short: Ttl::from_secs(1).unwrap(), long: Ttl::from_secs(9).unwrap() };
    assert!(!is_quick(&Scene::new(Policy::WEIGHTED, "a b", |pool| pool.ttl_bounds = Some(bounds))), "which TTL holds");
}
