//! Members in use: tiers, standby, minimum healthy weight, families, partly live members.

use fairway_model::{Permille, Policy, Rank};

use super::*;
use crate::steer::{answer::Candidacy, trace::Trace};

/// Returns the members answered over many clients, as text.
fn in_use(scene: &Scene, states: &str) -> String {
    let mut seen = scene.spread(&scene.runtime(states), 400);
    seen.sort_unstable();
    seen.dedup();
    seen.iter().map(|number| scene.steer.cluster(*number).as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn failover_takes_first_live_member_by_tier_then_order() {
    let scene = Scene::failover("a@2 b c@3 d");
    let answers = ["u u u u", "u d u u", "u d u d", "d d u d"].map(|states| scene.answer(Kind::V4, states));
    assert_eq!(answers, ["b", "d", "a", "c"]);
}

#[test]
fn failover_ignores_weights_and_clients() {
    let scene = Scene::failover("a:1 b:60000");
    assert_eq!(in_use(&scene, "u u"), "a");
    assert_eq!(scopes(&scene), (0, 0));
}

#[test]
fn lower_tier_is_used_once_upper_one_is_not_live() {
    let scene = Scene::weighted("a b c@2 d@2 e@3");
    assert_eq!(in_use(&scene, "u u u u u"), "a b");
    assert_eq!(in_use(&scene, "d u u u u"), "b");
    assert_eq!(in_use(&scene, "d d u u u"), "c d");
    assert_eq!(in_use(&scene, "d p d d u"), "e", "a pending member of a better tier waits for its first evaluation");
}

#[test]
fn unknown_counts_as_up() {
    let scene = Scene::weighted("a b c@2");
    assert_eq!(in_use(&scene, "s u u"), "a b");
    assert_eq!(in_use(&scene, "s d u"), "a");
}

#[test]
fn standby_members_come_after_every_tier() {
    let scene = Scene::weighted("a:0 b:5 c:1@2 d:0@2");
    assert_eq!(in_use(&scene, "u u u u"), "b");
    assert_eq!(in_use(&scene, "u d u u"), "c");
    assert_eq!(in_use(&scene, "u d d u"), "a");
    assert_eq!(in_use(&scene, "d d d u"), "d");
    assert_eq!(in_use(&scene, "u p p p"), "a", "an evaluated standby member comes before pending ones");
    assert_eq!(in_use(&scene, "p p p d"), "b");
    assert_eq!(in_use(&scene, "p d d d"), "a");
}

#[test]
fn all_weights_zero_share_equally() {
    let scene = Scene::weighted("a:0 b:0 c:0");
    assert_eq!(in_use(&scene, "u u u"), "a b c");
}

#[test]
fn tier_below_min_healthy_is_joined_by_next() {
    let scene = Scene::new(Policy::WEIGHTED, "a:6 b:4 c@2 d@3 e:0", |p| p.min_healthy = Permille::new(500).unwrap());
    assert_eq!(in_use(&scene, "u d u u u"), "a", "6 of 10 are enough");
    assert_eq!(in_use(&scene, "d u u u u"), "b c", "4 of 10 are not");
    assert_eq!(in_use(&scene, "d u d u u"), "b d", "nor is 0 of 1");
    assert_eq!(in_use(&scene, "d u d d u"), "b", "standby members replace, they do not join");
    assert_eq!(in_use(&scene, "x u u u u"), "b c", "what was drained is missing too");
}

#[test]
fn override_up_counts_as_up_and_override_down_as_out() {
    let scene = Scene::weighted("a b c@2");
    assert_eq!(in_use(&scene, "U f u"), "a");
    assert_eq!(in_use(&scene, "x f u"), "c");
}

#[test]
fn both_families_choose_one_cluster() {
    let scene = Scene::weighted("a/1+1 b/1+1 c/1+1");
    for i in 0..200 {
        let client = network(i).to_string();
        let runtime = scene.runtime("u u d");
        let chosen = KINDS.map(|(kind, _)| scene.choose(kind, &runtime, &client).members);
        assert_eq!(chosen[0], chosen[1]);
    }
}

#[test]
fn member_without_family_is_skipped() {
    let scene = Scene::failover("a b/1+1");
    assert_eq!(scene.answer(Kind::V4, "u u"), "a");
    assert_eq!(scene.answer(Kind::V6, "u u"), "b");
}

#[test]
fn member_with_family_down_is_skipped() {
    let scene = Scene::failover("a/1+1 b@2/1+1");
    assert_eq!(scene.answer(Kind::V4, "ud u"), "a");
    assert_eq!(scene.answer(Kind::V6, "ud u"), "b");
}

#[test]
fn family_without_live_member_has_no_data() {
    for members in ["a/1+1", "a:0/1+1", "a/1+1 b/0+1"] {
        let scene = Scene::weighted(members);
        let down = if members.contains('b') { "ud d" } else { "ud" };
        assert_eq!(scene.answer(Kind::V4, down), "a");
        assert_eq!(scene.answer(Kind::V6, down), "nothing", "not the down answer: {members}");
    }
}

#[test]
fn family_has_the_down_answer_if_only_the_other_one_is_pending() {
    // As on a server without a route to one family, which never evaluates the addresses of that family.
    for (members, states) in [("a/1+1", "dp"), ("a/1+1 b@2/1+1", "dp dp"), ("a/1+1 b@2/1+1", "dd dp")] {
        let scene = Scene::failover(members);
        let all = if members.contains('b') { "a b" } else { "a" };
        let pending = if states.starts_with("dd") { "b" } else { "a" };
        assert_eq!(scene.answer(Kind::V4, states), all, "{members}, {states}");
        assert_eq!(scene.answer(Kind::V6, states), pending, "{members}, {states}");
    }
    let live = Scene::weighted("a/1+1");
    assert_eq!(live.answer(Kind::V6, "up"), "nothing", "clients use the family that is up");
}

#[test]
fn min_healthy_counts_whole_members_for_both_families() {
    // For IPv6 alone tier 1 would be complete; as clusters, half of it is down.
    let scene = Scene::new(Policy::WEIGHTED, "a/1+1 b/1+0 c@2/1+1", |p| p.min_healthy = Permille::new(600).unwrap());
    let runtime = scene.runtime("u d u");
    for i in 0..200 {
        let client = network(i).to_string();
        let chosen = KINDS.map(|(kind, _)| scene.choose(kind, &runtime, &client).members);
        assert_eq!(chosen[0], chosen[1]);
    }
}

#[test]
fn partly_live_member_answers_its_live_addresses() {
    let scene = Scene::weighted("a/3+0");
    let answers = ["uuu", "duu", "udu", "uud", "ddu", "pud"].map(|states| scene.answer(Kind::V4, states));
    assert_eq!(answers, ["a a.2 a.3", "a.2 a.3", "a a.3", "a a.2", "a.3", "a.2"]);
    let scene = Scene::weighted("a/5+0");
    let answers = ["uuuuu", "duuuu", "ddduu"].map(|states| scene.answer(Kind::V4, states));
    assert_eq!(answers, ["a a.2 a.3 a.4 a.5", "a.2", "a.4"]);
}

#[test]
fn member_with_own_probe_is_live_or_down_as_a_whole() {
    let scene = Scene::new(Policy::FAILOVER, "a/2+2 b", |pool| {
        pool.members[0].probe = Some("192.0.2.99:15021".parse().unwrap());
    });
    assert_eq!(scene.snapshot.targets().len(), 2);
    assert_eq!(scene.answer(Kind::V4, "u u"), "a a.2");
    assert_eq!(scene.answer(Kind::V6, "u u"), "a a.2");
    assert_eq!(scene.answer(Kind::V4, "d u"), "b");
    assert_eq!(scene.answer(Kind::V6, "d u"), "nothing");
}

#[test]
fn tier_at_min_healthy_is_not_joined() {
    let half = |members: &str| Scene::new(Policy::WEIGHTED, members, |p| p.min_healthy = Permille::new(500).unwrap());
    assert_eq!(in_use(&half("a b c@2"), "u d u"), "a", "half is not under half");
    let scene = half("a/1+0 b:2/0+1 c@2/1+1");
    assert_eq!(in_use(&scene, "u u u"), "a", "b is there for the other family");
    assert_eq!(in_use(&scene, "u d u"), "a c", "and now it is not");
}

#[test]
fn partly_live_member_keeps_its_clients() {
    let scene = Scene::weighted("a/2+0 b");
    let whole = scene.spread(&scene.runtime("uu u"), 500);
    assert_eq!(scene.spread(&scene.runtime("ud u"), 500), whole);
    assert!(whole.contains(&0) && whole.contains(&1));
}

#[test]
fn failover_stops_at_first_candidate() {
    struct Looks(Vec<u8>);
    impl Trace for Looks {
        fn member(&mut self, number: u8, _: Candidacy) {
            self.0.push(number);
        }
    }
    let scene = Scene::new(Policy::FAILOVER, "a b c d", |pool| pool.answers = 2);
    let client = scene.steer.client_net(network(7));
    let mut looks = Looks(Vec::new());
    scene.steer.choose(Kind::V4, &scene.runtime("d u u u"), client, Draw(0), &mut looks);
    assert_eq!(looks.0, [0, 1, 2]);
}

#[test]
fn cost_belongs_to_member_after_undeclared_cluster() {
    let scene = Scene::new(Policy { ranks: vec![Rank::Cost], ..Policy::FAILOVER }, "a b", |pool| {
        (pool.members[0].cost, pool.members[1].cost) = (9, 1);
        pool.members.insert(0, Member::new(ClusterName::new("gone").unwrap()));
    });
    assert_eq!(in_use(&scene, "u u"), "b");
}
