//! Members that a location excludes (`geo` with `only`): for these clients they are not in the pool.

use std::net::Ipv4Addr;

use fairway_model::{DownAnswer, Network, Permille, Policy, Rank, Selection, Spread};

use super::*;
use crate::steer::{answer::Basis, explain::Reason};

/// A client in the first half of the addresses, and one in the second.
const KEPT: &str = "10.1.2.3";
const FREE: &str = "192.0.2.1";
const NEVER: u16 = ClassRanks::NEVER;

fn geo(load: bool, choose: Selection) -> Policy {
    Policy { ranks: vec![Rank::Geo], load, selection: choose, schedule: false }
}

fn answers(scene: &Scene, states: &str) -> [String; 2] {
    let runtime = scene.runtime(states);
    [KEPT, FREE].map(|client| scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, client).answer))
}

#[test]
fn exclusive_preference_keeps_clients_to_its_members() {
    let scene = Scene::placed(geo(false, Selection::First), "a b c", [&[0, 1, NEVER], &[1, 2, 0]], |_| {});
    assert_eq!(answers(&scene, "u u u"), ["a", "c"]);
    assert_eq!(answers(&scene, "d u u"), ["b", "c"]);
    assert_eq!(answers(&scene, "d d u"), ["a b", "c"], "the down answer is of those that may be answered");
    assert_eq!(answers(&scene, "f f u"), ["nothing", "c"]);
    let client = scene.steer.client_net(KEPT.parse().unwrap());
    let explanation = scene.steer.explain(Kind::V4, &scene.runtime("d d u"), client, Draw(0));
    assert_eq!(explanation.members[2].reason, Reason::HiddenFromClient);
    assert_eq!(client.scope(), 1, "the answer depends on the half alone");
}

#[test]
fn location_without_own_member_gets_fallback() {
    let fallback = DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()]);
    let ranks: [&[u16]; 2] = [&[NEVER, NEVER], &[0, 1]];
    for (down, expected) in [(DownAnswer::All, "nothing"), (DownAnswer::Refuse, "nothing"), (fallback, "z")] {
        let scene = Scene::placed(geo(false, Selection::First), "a b", ranks, |pool| pool.down = down.clone());
        assert_eq!(answers(&scene, "u u"), [expected, "a"], "{down:?}");
        let runtime = scene.runtime("u u");
        assert_eq!(scene.choose(Kind::V4, &runtime, KEPT).basis, Basis::Hidden);
    }
}

#[test]
fn views_and_locations_both_hide_members() {
    let scene = Scene::placed(geo(false, Selection::First), "a b c", [&[0, 1, NEVER], &[0, 1, 2]], |pool| {
        pool.members[0].networks = vec!["10.9.0.0/16".parse().unwrap()];
        pool.members[2].networks = vec!["10.0.0.0/8".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    });
    assert_eq!(answers(&scene, "u d u"), ["b", "c"], "b is all that is left to the first one");
    let runtime = scene.runtime("u u u");
    assert_eq!(scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, "10.9.1.1").answer), "a");
}

/// Every down answer, threshold, number of answers, selection and set of states, for 5 members of which 3 are excluded.
#[test]
fn excluded_member_is_never_answered() {
    let downs = [
        DownAnswer::All,
        DownAnswer::LastGood,
        DownAnswer::Empty,
        DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()]),
    ];
    let policies = [
        geo(false, Selection::First),
        geo(false, Selection::Weighted),
        geo(true, Selection::First),
        geo(true, Selection::Weighted),
    ];
    let letters = ['u', 'd', 'p', 's', 'x', 'f', 'U', 'e'];
    let mut played = 0u32;
    for (at, policy) in policies.iter().enumerate() {
        for down in &downs {
            for answers in [1, 2, 5] {
                let scene = Scene::placed(
                    policy.clone(),
                    "a b:0 c:9 d@2 e/2+2",
                    [&[0, NEVER, NEVER, 1, NEVER], &[1, 0, 0, 0, 2]],
                    |pool| {
                        (pool.down, pool.answers) = (down.clone(), answers);
                        pool.panic_threshold = Permille::new(if at % 2 == 0 { 900 } else { 0 }).unwrap();
                        pool.min_healthy = Permille::new(600).unwrap();
                        pool.spread = if answers == 5 { Spread::Query } else { Spread::Client };
                    },
                );
                let mut runtime = scene.runtime("u u u u u");
                for number in 0..letters.len().pow(5) {
                    // Visits each state in every position, but only some of all 32,768 combinations.
                    if number % 41 != 0 {
                        continue;
                    }
                    let letter = |place: u32| letters[number / letters.len().pow(place) % letters.len()];
                    let states: Vec<String> = (0..5).map(|place| letter(place).to_string()).collect();
                    runtime = scene.changed(&runtime, &states.join(" "));
                    let balanced = scene.balanced(&runtime, "b:100 c:100 e:56");
                    for (kind, runtime) in [(Kind::V4, &runtime), (Kind::V6, &runtime), (Kind::V4, &balanced)] {
                        let text = scene.text(kind, scene.choose(kind, runtime, KEPT).answer);
                        let excluded = text.split([' ', '.']).any(|name| ["b", "c", "e"].contains(&name));
                        assert!(!excluded, "{text} under {states:?}, {down:?}, {policy}");
                        played += 1;
                    }
                }
            }
        }
    }
    assert!(played > 50_000, "{played}");
}

#[test]
fn too_many_classes_drop_ranks_but_keep_exclusions() {
    // 65,535 location classes, the even ones without b. A view splits one of them again.
    let blocks =
        (0..u16::MAX).map(|class| (Network::of(Ipv4Addr::from(u32::from(class) << 16).into(), 16), u32::from(class)));
    let rest = (Network::of([255, 255, 0, 0].into(), 16), 1);
    let mut classes = ClassRanks::new(3);
    (0..u16::MAX).for_each(|class| classes.push(&[class % 5, if class % 2 == 0 { NEVER } else { class % 3 }, 1]));
    let partition = ClientPartition::new(Partition::of_networks(blocks.chain([rest]), 1)).unwrap();
    let scene = Scene::new(geo(false, Selection::First), "a b c", |pool| {
        pool.members[2].networks = vec!["1.3.128.0/17".parse().unwrap()];
    });
    let scene = Scene::compile_at(
        scene.desired,
        scene.pool,
        &LocationRankings { partition, rankings: vec![classes], latencies: ClassLatencies::default() },
    );
    assert!(scene.steer.details.ignores_location);
    let runtime = scene.runtime("d u d");
    let answer = |client| scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, client).answer);
    assert_eq!(["1.2.0.1", "1.3.0.1", "200.4.0.1", "200.5.0.1"].map(answer), ["a", "b", "a", "b"]);
}
