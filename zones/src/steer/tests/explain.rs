//! Explanations: each reason and each basis, and that observing changes nothing.

use fairway_model::{DownAnswer, Permille, Policy, Spread};

use super::*;
use crate::steer::{
    answer::Basis,
    explain::{Explanation, HashInput, Reason},
};

fn explain(scene: &Scene, kind: Kind, states: &str) -> Explanation {
    let client = scene.steer.client_net("198.51.100.7".parse().unwrap());
    let runtime = scene.runtime(states);
    let explanation = scene.steer.explain(kind, &runtime, client, Draw(7));
    assert_eq!(explanation.choice, scene.steer.choose(kind, &runtime, client, Draw(7), &mut ()));
    explanation
}

fn reasons(explanation: &Explanation) -> Vec<Reason> {
    explanation.members.iter().map(|m| m.reason).collect()
}

#[test]
fn each_member_has_its_reason() {
    use Reason::*;
    let scene = Scene::failover("a b c d e f g@2 h:0 i/0+1");
    let explanation = explain(&scene, Kind::V4, "d x f p u u u u u");
    assert_eq!(
        reasons(&explanation),
        [Down, Drained, ForcedDown, Pending, Chosen, Later, LaterTier, Standby, LacksFamily]
    );
    assert_eq!((explanation.tiers, explanation.choice.basis), (vec![1], Basis::Live));
    assert_eq!(explanation.input, HashInput::Everyone);
}

#[test]
fn client_network_is_input_of_weighted_choice() {
    let scene = Scene::weighted("a:50 b:50 c:1@2");
    let explanation = explain(&scene, Kind::V4, "u u u");
    let reasons = reasons(&explanation);
    assert_eq!(reasons.iter().filter(|r| **r == Reason::Chosen).count(), 1);
    assert_eq!(reasons.iter().filter(|r| **r == Reason::NotChosen).count(), 1);
    assert_eq!(reasons[2], Reason::LaterTier);
    assert_eq!(explanation.members[0].weight.0, 50);
    let HashInput::Client(client) = explanation.input else { panic!("{:?}", explanation.input) };
    assert_eq!(client.to_string(), "198.51.100.0/24");
}

#[test]
fn draw_is_input_of_choice_per_query() {
    let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| pool.spread = Spread::Query);
    assert_eq!(explain(&scene, Kind::V4, "u u").input, HashInput::Draw(7));
}

#[test]
fn member_up_in_other_family_is_explained() {
    let scene = Scene::failover("a/1+1 b/1+1");
    let explanation = explain(&scene, Kind::V6, "ud u");
    assert_eq!(reasons(&explanation), [Reason::OtherFamily, Reason::Chosen]);
    let healths: Vec<_> = explanation.members[0].addresses.iter().map(|a| a.health).collect();
    assert_eq!(healths, [state('u'), state('d')]);
}

#[test]
fn down_answer_is_explained() {
    let all = explain(&Scene::weighted("a b c/0+1"), Kind::V4, "d d d");
    assert_eq!(reasons(&all), [Reason::AnsweredAll, Reason::AnsweredAll, Reason::LacksFamily]);
    assert_eq!((all.choice.basis, all.tiers), (Basis::Down, vec![]));
    let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| pool.down = DownAnswer::Refuse);
    assert_eq!(reasons(&explain(&scene, Kind::V4, "d x")), [Reason::Down, Reason::Drained]);
    let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| {
        pool.down = DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()]);
    });
    assert_eq!(reasons(&explain(&scene, Kind::V4, "d d")), [Reason::Down, Reason::Down]);
}

#[test]
fn members_that_are_not_last_good_are_explained() {
    let scene = Scene::new(Policy::FAILOVER, "a b", |pool| pool.down = DownAnswer::LastGood);
    let runtime = scene.changed(&scene.runtime("d u"), "d d");
    let client = scene.steer.client_net("192.0.2.1".parse().unwrap());
    let explanation = scene.steer.explain(Kind::V4, &runtime, client, Draw(0));
    assert_eq!(reasons(&explanation), [Reason::NotLastGood, Reason::Chosen]);
}

#[test]
fn panic_is_explained() {
    let scene = Scene::new(Policy::FAILOVER, "a b", |pool| pool.panic_threshold = Permille::new(900).unwrap());
    let explanation = explain(&scene, Kind::V4, "d u");
    assert_eq!(explanation.choice.basis, Basis::Panic);
    assert_eq!(reasons(&explanation), [Reason::Chosen, Reason::Later]);
}

#[test]
fn partly_live_member_is_explained_next_to_whole_ones() {
    let scene = Scene::new(Policy::WEIGHTED, "a/2+0 b", |pool| pool.answers = 2);
    assert_eq!(reasons(&explain(&scene, Kind::V4, "ud u")), [Reason::PartlyUp, Reason::Chosen]);
}

#[test]
fn missing_family_is_reason_of_all_members() {
    let explanation = explain(&Scene::weighted("a b"), Kind::V6, "u u");
    assert_eq!(reasons(&explanation), [Reason::LacksFamily; 2]);
    assert_eq!(explanation.choice.basis, Basis::NoFamily);
}
