//! Numbered answers: complete, bounded, and correct for several clusters per answer.

use fairway_model::{Cluster, DownAnswer, Policy, Pool};

use super::*;
use crate::steer::sets::SETS_MAX;

fn with_answers(members: &str, answers: u8) -> Scene {
    Scene::new(Policy::WEIGHTED, members, |pool| pool.answers = answers)
}

/// Returns members a, b, c, … with these numbers of addresses each.
fn many(count: usize, addresses: &str) -> String {
    (0..count).map(|i| format!("m{i}/{addresses}")).collect::<Vec<_>>().join(" ")
}

fn sets(scene: &Scene) -> Vec<String> {
    (0..scene.steer.sets(Family::V4).len() as u16).map(|n| scene.text(Kind::V4, Answer::Set(n))).collect()
}

#[test]
fn sets_with_one_cluster_are_members_parts_and_union() {
    let scene = Scene::weighted("a b/2+0 c/4+0");
    let parts = ["b", "b.2", "c", "c.2", "c.3", "c.4"];
    let mut expected = vec!["a", "b b.2", "c c.2 c.3 c.4"];
    expected.extend(parts);
    expected.push("a b b.2 c c.2 c.3 c.4");
    assert_eq!(sets(&scene), expected);
}

#[test]
fn few_combinations_are_numbered() {
    let scene = with_answers("a b c d", 2);
    assert_eq!(sets(&scene), ["a", "b", "c", "d", "a b", "a c", "b c", "a d", "b d", "c d", "a b c d"]);
}

#[test]
fn windows_replace_more_than_64_combinations() {
    assert_eq!(with_answers(&many(10, "1+0"), 2).steer.sets(Family::V4).len(), 10 + 45 + 1);
    assert_eq!(with_answers(&many(11, "1+0"), 2).steer.sets(Family::V4).len(), 2 * 11 + 1); // not 66
    assert_eq!(with_answers(&many(6, "1+0"), 8).steer.sets(Family::V4).len(), 63 + 1);
    assert_eq!(with_answers(&many(7, "1+0"), 3).steer.sets(Family::V4).len(), 63 + 1);
    assert_eq!(with_answers(&many(7, "1+0"), 7).steer.sets(Family::V4).len(), 7 * 7 + 1);
}

#[test]
fn largest_pool_stays_below_sets_max() {
    let scene = Scene::new(Policy::WEIGHTED, &many(Pool::MEMBERS_MAX, "8+8"), |pool| {
        (pool.answers, pool.down) = (Pool::ANSWERS_MAX, DownAnswer::All);
        // More views than lists of all addresses.
        for (member, i) in pool.members.iter_mut().zip(0u8..20) {
            member.networks =
                [format!("10.{i}.0.0/16"), format!("2001:db8:{i}::/48")].map(|text| text.parse().unwrap()).into();
        }
    });
    for (kind, family) in KINDS {
        let sets = scene.steer.sets(family);
        assert_eq!(sets.len(), usize::from(SETS_MAX) - 1, "all but the fallback");
        assert!(sets.iter().all(|set| !set.is_empty()));
        assert!(
            sets[..sets.len() - 16].iter().all(|s| s.len() <= Cluster::ADDRESSES_MAX * usize::from(Pool::ANSWERS_MAX))
        );
        for states in ["u", "d", "du", "uuuuuuud"] {
            let choice = scene.choose(kind, &scene.runtime(&scene.all(states)), "192.0.2.1");
            // With only IPv4 live, IPv6 has no data.
            assert!(
                matches!(choice.answer, Answer::Set(number) if usize::from(number) < sets.len()) || states.len() > 2
            );
        }
    }
}

#[test]
fn answer_names_requested_number_of_live_clusters() {
    let scene = with_answers("a b c d", 3);
    for (states, count) in [("u u u u", 3), ("u d u u", 3), ("u d u d", 2), ("d d d u", 1)] {
        let choice = scene.choose(Kind::V4, &scene.runtime(states), "192.0.2.1");
        let answer = scene.text(Kind::V4, choice.answer);
        let answered: Vec<_> = answer.split(' ').collect();
        assert_eq!((answered.len(), choice.members.as_slice().len()), (count, count), "{states}");
        for (number, letter) in choice.members.as_slice().iter().map(|n| (*n, (b'a' + n) as char)) {
            assert!(answered.contains(&&*letter.to_string()));
            assert_eq!(states.split(' ').nth(number.into()), Some("u"));
        }
    }
}

#[test]
fn window_holds_live_neighbours_only() {
    let scene = with_answers(&many(20, "1+0"), 4);
    let states = "u u u d u u u u u u d d u u u u u u u u";
    let live: Vec<bool> = states.split(' ').map(|s| s == "u").collect();
    let (runtime, sets) = (scene.runtime(states), scene.steer.sets(Family::V4));
    let mut lengths = [0; 5];
    for i in 0..500 {
        let choice = scene.choose(Kind::V4, &runtime, &network(i).to_string());
        let members = choice.members.as_slice();
        assert!(members.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 20), "a run on the ring: {members:?}");
        assert!(members.iter().all(|m| live[usize::from(*m)]));
        let next = usize::from(members[members.len() - 1] + 1) % 20;
        assert!(members.len() == 4 || !live[next], "the longest run");
        let addresses: Vec<_> = members.iter().map(|m| IpAddr::from([10, 0, *m, 1])).collect();
        assert_eq!(sets[usize::from(set_of(&choice))], addresses);
        lengths[members.len()] += 1;
    }
    assert!(lengths[1..].iter().all(|count| *count > 0), "{lengths:?}");
}

#[test]
fn window_stays_within_tier() {
    let members: Vec<_> = (0..20).map(|i| format!("m{i}@{}", 1 + i % 2)).collect();
    for policy in [Policy::WEIGHTED, Policy::FAILOVER] {
        let scene = Scene::new(policy, &members.join(" "), |pool| pool.answers = 3);
        let choice = scene.choose(Kind::V4, &scene.runtime(&scene.all("u")), "192.0.2.1");
        assert_eq!(choice.members.as_slice().len(), 1, "its neighbours are of tier 2");
    }
    let scene = Scene::new(Policy::FAILOVER, &many(20, "1+0"), |pool| pool.answers = 3);
    let choice = scene.choose(Kind::V4, &scene.runtime(&scene.all("u")), "192.0.2.1");
    assert_eq!(choice.members.as_slice(), [0, 1, 2]);
}

#[test]
fn failover_answers_first_members() {
    let scene = Scene::new(Policy::FAILOVER, "a b c d@2", |pool| pool.answers = 2);
    let answers = ["u u u u", "d u u u", "d d u u", "d d d u"].map(|states| scene.answer(Kind::V4, states));
    assert_eq!(answers, ["a b", "b c", "c", "d"]);
}

#[test]
fn partly_live_member_is_answered_last_and_alone() {
    for members in ["a/2+0 b/2+0 c/2+0".to_owned(), many(20, "2+0")] {
        let scene = with_answers(&members, 2);
        let rest = " d".repeat(scene.pool.members.len() - 3);
        assert_eq!(scene.answer(Kind::V4, &format!("ud uu du{rest}")), "b b.2");
        let alone = scene.answer(Kind::V4, &format!("ud dd du{rest}"));
        assert!(["a", "c.2"].contains(&&*alone), "{alone}");
    }
}

#[test]
fn address_of_two_clusters_is_answered_once() {
    let mut desired = DesiredState::default();
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
    for name in ["a", "b"] {
        let (mut cluster, member) = member(0, name);
        cluster.addresses = vec!["10.0.0.1".parse().unwrap()];
        desired.clusters.insert(cluster.name.clone(), cluster);
        pool.members.push(member);
    }
    pool.answers = 2;
    let scene = Scene::compile(desired, pool);
    assert_eq!(scene.snapshot.targets().len(), 1);
    assert_eq!(sets(&scene), ["a", "a", "a", "a"]);
}

#[test]
fn more_answers_than_members_names_all_members() {
    let scene = with_answers("a b", 8);
    assert_eq!(scene.answer(Kind::V4, "u u"), "a b");
    assert_eq!(scene.answer(Kind::V4, "u d"), "a");
}
