//! Runtime state: its id, its changes, and last-good members over both.

use fairway_model::{DownAnswer, Policy, Timestamp};
use proptest::prelude::*;

use super::*;

fn remembering(members: &str) -> Scene {
    Scene::new(Policy::FAILOVER, members, |pool| pool.down = DownAnswer::LastGood)
}

fn answer(scene: &Scene, runtime: &RuntimeState) -> String {
    scene.text(Kind::V4, scene.choose(Kind::V4, runtime, "192.0.2.1").answer)
}

proptest! {
    #[test]
    fn id_depends_on_state_and_not_on_history(steps in prop::collection::vec("[udpsxfUe]( [udpsxfUe]){3}", 1..6)) {
        let scene = Scene::weighted("a b c d");
        let mut runtime = scene.runtime("p p p p");
        for states in &steps {
            runtime = scene.changed(&runtime, states);
        }
        prop_assert_eq!(runtime.id(), scene.runtime(&steps[steps.len() - 1]).id());
    }
}

#[test]
fn different_states_have_different_ids() {
    let scene = Scene::weighted("a b");
    let states = ["u u", "u d", "d u", "d d", "x u", "f u", "U U", "p p", "s s"];
    let ids: Vec<_> = states.iter().map(|states| scene.runtime(states).id()).collect();
    for (place, id) in ids.iter().enumerate() {
        assert!(!ids[..place].contains(id), "{}", states[place]);
    }
}

#[test]
fn last_good_members_are_part_of_id() {
    let scene = remembering("a b");
    let through = |between| scene.changed(&scene.changed(&scene.runtime("u u"), between), "d d");
    assert_ne!(through("d u").id(), through("u d").id());
    assert_eq!(through("d u").id(), through("d u").id());
    assert_ne!(answer(&scene, &through("d u")), answer(&scene, &through("u d")));
}

#[test]
fn last_good_members_start_with_first_state() {
    let scene = remembering("a b c");
    let runtime = scene.changed(&scene.runtime("d u u"), "d d d");
    assert_eq!(answer(&scene, &runtime), "b");
}

#[test]
fn pending_and_drained_members_are_not_last_good() {
    let scene = remembering("a b c");
    let runtime = scene.changed(&scene.runtime("p x u"), "d d d");
    assert_eq!(answer(&scene, &runtime), "c");
}

#[test]
fn reload_keeps_last_good_members_by_name() {
    let before = remembering("a b c");
    let old = before.changed(&before.runtime("d u u"), "d d d");
    // b is removed, x is added, and the order has changed.
    let after = remembering("c x a");
    let reloaded = |states| {
        let previous = (&before.snapshot, &old);
        RuntimeState::after(&after.snapshot, previous, Timestamp::from_secs(0), after.health(states))
    };
    let new = reloaded("d d d");
    assert_eq!(after.steer.cluster(after.choose(Kind::V4, &new, "192.0.2.1").members.as_slice()[0]).as_str(), "c");
    // Members that are live now win over former ones.
    let later = after.changed(&reloaded("d d u"), "d d d");
    assert_eq!(after.steer.cluster(after.choose(Kind::V4, &later, "192.0.2.1").members.as_slice()[0]).as_str(), "a");
    assert_ne!(new.id(), after.runtime("d d d").id());
}

#[test]
fn pool_without_last_good_reserves_no_words() {
    let scene = Scene::weighted("a b");
    assert!(scene.steer.memory().is_empty());
    assert!(remembering("a b").steer.memory().len() == 1);
    let many: Vec<_> = (0..255).map(|i| format!("m{i}")).collect();
    let scene = remembering(&many.join(" "));
    assert_eq!(scene.steer.memory().len(), 4);
    let mut states = vec!["d"; 255];
    states[200] = "u";
    let runtime = scene.changed(&scene.runtime(&states.join(" ")), &scene.all("d"));
    assert_eq!(scene.choose(Kind::V4, &runtime, "192.0.2.1").members.as_slice(), [200]);
}

#[test]
fn change_of_removed_target_is_ignored() {
    let scene = Scene::weighted("a b");
    let runtime = scene.runtime("u u");
    let changed = runtime.with(&scene.snapshot, &[(crate::TargetIndex(99), Health::PENDING)]);
    assert_eq!(changed.id(), runtime.id());
    assert_eq!(changed.health(crate::TargetIndex(99)), Health::PENDING);
}
