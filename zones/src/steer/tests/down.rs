//! Every down answer for every cause, and conditions of panic.

use fairway_model::{AnswerMode, DownAnswer, Permille, Policy, Pool};

use super::*;
use crate::steer::answer::Basis;

/// Returns a pool of two members whose answer does not depend on the client if only one list is possible.
fn scene(down: DownAnswer) -> Scene {
    Scene::new(Policy::FAILOVER, "a b", |pool| pool.down = down)
}

fn fallback() -> DownAnswer {
    DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()])
}

fn fallback_name() -> DownAnswer {
    DownAnswer::FallbackCname("centre.example".parse().unwrap())
}

#[test]
fn each_down_answer_applies_for_each_cause() {
    use DownAnswer::{All, Empty, LastGood, Refuse};
    // Columns: one up, all unknown, all pending, all down, all drained, all set down by overrides, one drained and one
    // down.
    let states = ["d u", "s s", "p p", "d d", "x x", "f f", "x d"];
    let classes: [(DownAnswer, [&str; 7]); 6] = [
        (All, ["b", "a", "a", "a b", "nothing", "nothing", "b"]),
        (fallback(), ["b", "a", "a", "z", "z", "z", "z"]),
        (fallback_name(), ["b", "a", "a", "cname fallback", "cname fallback", "cname fallback", "cname fallback"]),
        (Empty, ["b", "a", "a", "nothing", "nothing", "nothing", "nothing"]),
        (Refuse, ["b", "a", "a", "refuse", "refuse", "refuse", "refuse"]),
        (LastGood, ["b", "a", "a", "a b", "nothing", "nothing", "b"]), // nothing remembered: as `all`
    ];
    for (down, answers) in classes {
        let scene = scene(down.clone());
        for (states, answer) in states.iter().zip(answers) {
            assert_eq!(scene.answer(Kind::V4, states), answer, "{down:?}, {states}");
        }
    }
}

#[test]
fn fallback_name_is_answered_unless_each_family_has_a_pending_address() {
    let scene = Scene::new(Policy::FAILOVER, "a/1+1 b@2/1+1", |pool| pool.down = fallback_name());
    for states in ["dp dp", "pd dd", "dd dp", "dd dd"] {
        assert_eq!([Kind::V4, Kind::V6].map(|kind| scene.answer(kind, states)), ["cname fallback"; 2], "{states}");
    }
    assert_eq!([Kind::V4, Kind::V6].map(|kind| scene.answer(kind, "pp dd")), ["a"; 2]);
    assert_eq!([Kind::V4, Kind::V6].map(|kind| scene.answer(kind, "pd dp")), ["a", "b"]);
    let one_family = Scene::new(Policy::FAILOVER, "a/1+0 b/1+0", |pool| pool.down = fallback_name());
    assert_eq!(one_family.answer(Kind::V4, "p d"), "a");
    assert_eq!(one_family.answer(Kind::V6, "p d"), "nothing", "no CNAME beside the address");
}

#[test]
fn exhausted_members_are_answered_only_if_no_other_is_up() {
    use DownAnswer::{All, Empty, LastGood, Refuse};
    // Never empty and never the fallback: they still answer.
    for down in [All, fallback(), fallback_name(), Empty, Refuse, LastGood] {
        let scene = scene(down.clone());
        let answers =
            [("e u", "b"), ("e s", "b"), ("e e", "a"), ("e d", "a"), ("e x", "a"), ("e p", "a"), ("d e", "b")];
        for (states, answer) in answers {
            assert_eq!(scene.answer(Kind::V4, states), answer, "{down:?}, {states}");
        }
    }
    let standby = Scene::new(Policy::WEIGHTED, "a b c:0", |_| {});
    assert_eq!(standby.answer(Kind::V4, "e d u"), "c");
    let families = Scene::new(Policy::WEIGHTED, "a/1+0 b/0+1", |_| {});
    let answers = [Kind::V4, Kind::V6].map(|kind| families.answer(kind, "e u"));
    assert_eq!(answers, ["a", "b"], "an exhausted member is better than no data");
}

#[test]
fn exhausted_members_count_as_live_for_panic_and_come_last_in_it() {
    let panics = |threshold| {
        let scene =
            Scene::new(Policy::FAILOVER, "a b c d", |pool| pool.panic_threshold = Permille::new(threshold).unwrap());
        let runtime = scene.runtime("e e u d");
        let choice = scene.choose(Kind::V4, &runtime, "192.0.2.1");
        (choice.basis, scene.text(Kind::V4, choice.answer))
    };
    assert_eq!(panics(750), (Basis::Live, "c".to_owned()));
    assert_eq!(panics(751), (Basis::Panic, "c".to_owned()));
}

#[test]
fn last_good_without_history_answers_all() {
    let scene = scene(DownAnswer::LastGood);
    assert_eq!(scene.answer(Kind::V4, "d d"), "a b");
}

#[test]
fn last_good_members_are_answered_while_all_are_down() {
    let scene = Scene::new(Policy::FAILOVER, "a b c", |pool| pool.down = DownAnswer::LastGood);
    let mut runtime = scene.runtime("u u u");
    for states in ["d u u", "d d u", "d d d"] {
        runtime = scene.changed(&runtime, states);
    }
    let answer = |runtime: &RuntimeState| scene.text(Kind::V4, scene.choose(Kind::V4, runtime, "192.0.2.1").answer);
    assert_eq!(answer(&runtime), "c");
    // Drained since: no last-good member is left, so all that are not out.
    assert_eq!(answer(&scene.changed(&runtime, "d d x")), "a");
}

#[test]
fn all_answers_every_address_of_family_once() {
    let scene = Scene::weighted("a/2+1 b/1+0 c/0+2");
    assert_eq!(scene.answer(Kind::V4, "d d d"), "a a.2 b");
    assert_eq!(scene.answer(Kind::V6, "d d d"), "a c c.2");
}

#[test]
fn drained_address_leaves_other_addresses_in_down_answer() {
    let scene = Scene::failover("a/3+0 b");
    assert_eq!(scene.answer(Kind::V4, "dxd d"), "a a.3");
}

#[test]
fn fallback_of_one_family_leaves_other_without_data() {
    let scene = Scene::new(Policy::WEIGHTED, "a/1+1", |pool| pool.down = fallback());
    assert_eq!(scene.answer(Kind::V4, "d"), "z");
    assert_eq!(scene.answer(Kind::V6, "d"), "nothing");
}

#[test]
fn fallback_replaces_family_that_no_member_has() {
    let v6 = DownAnswer::FallbackAddresses(vec!["2001:db8:19::1".parse().unwrap()]);
    let scene = Scene::new(Policy::WEIGHTED, "a", |pool| pool.down = v6);
    assert_eq!(scene.answer(Kind::V6, "u"), "nothing");
    assert_eq!(scene.answer(Kind::V6, "d"), "z");
    // A CNAME holds for every type, so both families are answered or none.
    let scene = Scene::new(Policy::WEIGHTED, "a", |pool| pool.down = fallback_name());
    assert_eq!(scene.answer(Kind::V6, "u"), "nothing");
    assert_eq!(scene.answer(Kind::V6, "d"), "cname fallback");
}

#[test]
fn missing_family_is_no_data_and_not_an_error() {
    for down in [DownAnswer::All, DownAnswer::Empty, DownAnswer::Refuse, DownAnswer::LastGood] {
        let scene = scene(down);
        assert_eq!(scene.answer(Kind::V6, "d d"), "nothing");
        assert_eq!(scene.answer(Kind::V6, "u u"), "nothing");
    }
}

#[test]
fn cname_pool_that_is_down_names_chosen_member() {
    let cname = |down: DownAnswer| {
        Scene::new(Policy::FAILOVER, "a b", |pool| (pool.mode, pool.down) = (AnswerMode::Cname, down))
    };
    let answers = |down: DownAnswer| {
        ["u u", "d u", "p p", "d d", "x d", "x x"].map(|s| cname(down.clone()).answer(Kind::Cname, s))
    };
    assert_eq!(answers(DownAnswer::All), ["cname a", "cname b", "cname a", "cname a", "cname b", "nothing"]);
    assert_eq!(answers(DownAnswer::LastGood)[3..], ["cname a", "cname b", "nothing"]);
    assert_eq!(answers(fallback())[3..], ["fallback addresses"; 3]);
    assert_eq!(answers(fallback_name())[3..], ["cname fallback"; 3]);
    assert_eq!(answers(DownAnswer::Refuse)[3..], ["refuse"; 3]);
    assert_eq!(answers(DownAnswer::Empty)[3..], ["nothing"; 3]);
    assert_eq!(cname(fallback()).steer.sets(Family::V4).len(), 1);
    assert_eq!(cname(fallback()).steer.fallback_set(Family::V4), Some(0));
    assert_eq!(cname(DownAnswer::All).steer.sets(Family::V4).len(), 0);
}

fn panicking(members: &str, thousandths: u16) -> Scene {
    let threshold = |pool: &mut Pool| pool.panic_threshold = Permille::new(thousandths).unwrap();
    Scene::new(Policy::WEIGHTED, members, threshold)
}

#[test]
fn health_is_ignored_below_panic_threshold() {
    let scene = panicking("a b c d", 500);
    let clusters = |states: &str| -> Vec<u8> {
        let mut seen = scene.spread(&scene.runtime(states), 200);
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(clusters("u d d d"), [0, 1, 2, 3]);
    assert_eq!(clusters("u u d d"), [0, 1], "half is not under half");
    assert_eq!(clusters("u d d x"), [0, 1, 2], "a drained member is on neither side and never answered");
    assert_eq!(clusters("u x x x"), [0], "1 of 1");
    assert_eq!(clusters("u p p p"), [0], "pending members are no evidence of a failure");
}

#[test]
fn panic_needs_a_live_member() {
    let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| {
        (pool.panic_threshold, pool.down) = (Permille::new(900).unwrap(), DownAnswer::Refuse);
    });
    assert_eq!(scene.answer(Kind::V4, "d d"), "refuse");
    assert_eq!(panicking("a:0 b c", 900).answer(Kind::V4, "u d d"), "a", "a live standby member is answered");
}

#[test]
fn panic_keeps_tier_order() {
    let scene = panicking("a b c@2", 700);
    let seen = scene.spread(&scene.runtime("u d u"), 200);
    assert!(seen.contains(&1) && !seen.contains(&2), "tier 1 alone, both of it");
}

#[test]
fn panic_counts_down_members_only() {
    let clusters = |members: &str, states: &str| -> Vec<u8> {
        let scene = panicking(members, 500);
        let mut seen = scene.spread(&scene.runtime(states), 200);
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(clusters("a b c d", "u d p p"), [0], "one of two: new members are no part of the whole");
    assert_eq!(clusters("a b c d", "u d d p"), [0, 1, 2, 3], "one of three: in panic, pending members share too");
    assert_eq!(clusters("a/2+0 b c", "ud p p"), [0], "a member that is down in part is live");
    assert_eq!(clusters("a b c d", "u d x x"), [0], "one of two: the drained ones are no part of the whole");
    assert_eq!(clusters("a:0 b:0 c:0", "u d d"), [0, 1, 2], "where nobody has a weight, nobody is standby");
}

#[test]
fn unknown_target_is_pending() {
    let scene = Scene::weighted("a b");
    let without_targets =
        Scene::of(DesiredState::default(), scene.pool.clone(), scene.steer.clone(), TargetTable::default());
    let none = RuntimeState::new(&without_targets.snapshot, |_| Health::PENDING);
    assert_eq!(scene.choose(Kind::V4, &none, "198.51.100.7").basis, Basis::Pending);
}
