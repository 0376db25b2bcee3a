//! Shares are exact over many clients, and changes move as few clients as possible.

use fairway_model::{ClientPrefix, Policy, Spread};
use proptest::prelude::*;

use super::*;

const NETWORKS: u32 = 100_000;

fn counts(choices: &[u8], members: usize) -> Vec<f64> {
    let mut counts = vec![0.0; members];
    choices.iter().for_each(|number| counts[usize::from(*number)] += 1.0);
    counts
}

fn members(weights: &[u16]) -> String {
    weights.iter().enumerate().map(|(i, weight)| format!("m{i}:{weight}")).collect::<Vec<_>>().join(" ")
}

/// Asserts that each member gets its part of the weight within one percentage point over many networks. The standard
/// deviation is at most 0.16 points.
fn assert_shares(scene: &Scene, weights: &[u16]) {
    let counts = counts(&scene.spread(&scene.runtime(&scene.all("u")), NETWORKS), weights.len());
    let total: f64 = weights.iter().map(|w| f64::from(*w)).sum();
    for (count, weight) in counts.iter().zip(weights) {
        let (got, due) = (count / f64::from(NETWORKS), f64::from(*weight) / total);
        assert!((got - due).abs() < 0.01, "weight {weight} of {total}: {got} instead of {due}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn each_member_gets_its_share(weights in prop::collection::vec(1u16.., 1..16)) {
        assert_shares(&Scene::weighted(&members(&weights)), &weights);
    }

    #[test]
    fn changed_weight_moves_only_the_difference(
        weights in prop::collection::vec(1u16..1000, 2..12), changed in any::<prop::sample::Index>(), to in 1u16..1000,
    ) {
        let place = changed.index(weights.len());
        let mut after = weights.clone();
        after[place] = to;
        let [before, after] = [&weights, &after].map(|weights| {
            let scene = Scene::weighted(&members(weights));
            (scene.spread(&scene.runtime(&scene.all("u")), NETWORKS), weights.clone())
        });
        let share = |weights: &[u16]| f64::from(weights[place]) / weights.iter().map(|w| f64::from(*w)).sum::<f64>();
        let must = (share(&before.1) - share(&after.1)).abs();
        let moved: Vec<_> = before.0.iter().zip(&after.0).filter(|(a, b)| a != b).collect();
        let part = moved.len() as f64 / f64::from(NETWORKS);
        prop_assert!(part <= 1.1 * must + 0.005, "{part} moved, {must} had to");
        // Only to or from the changed member, in one direction.
        let gains = after.1[place] > before.1[place];
        let place = place as u8;
        let one_way = moved.iter().all(|(a, b)| if gains { **b == place } else { **a == place });
        prop_assert!(one_way);
    }

    #[test]
    fn removed_member_moves_only_its_clients_and_gets_them_back(
        weights in prop::collection::vec(1u16..1000, 2..12), gone in any::<prop::sample::Index>(),
    ) {
        let scene = Scene::weighted(&members(&weights));
        let gone = gone.index(weights.len());
        let mut states = vec!["u"; weights.len()];
        let all_up = scene.spread(&scene.runtime(&states.join(" ")), 20_000);
        states[gone] = "d";
        let one_down = scene.spread(&scene.runtime(&states.join(" ")), 20_000);
        for (before, after) in all_up.iter().zip(&one_down) {
            prop_assert_ne!(usize::from(*after), gone);
            prop_assert!(before == after || usize::from(*before) == gone);
        }
        states[gone] = "u";
        prop_assert_eq!(all_up, scene.spread(&scene.runtime(&states.join(" ")), 20_000));
    }

    #[test]
    fn order_of_members_does_not_matter(
        (weights, order) in prop::collection::vec(0u16..1000, 1..12)
            .prop_flat_map(|w| (Just(w.clone()), Just((0..w.len()).collect::<Vec<_>>()).prop_shuffle())),
    ) {
        let names: Vec<_> = weights.iter().enumerate().map(|(i, weight)| format!("m{i}:{weight}")).collect();
        let shuffled: Vec<_> = order.iter().map(|i| names[*i].clone()).collect();
        let chosen = [names, shuffled].map(|names| {
            let scene = Scene::weighted(&names.join(" "));
            let choices = scene.spread(&scene.runtime(&scene.all("u")), 500);
            choices.iter().map(|number| scene.steer.cluster(*number).clone()).collect::<Vec<_>>()
        });
        prop_assert_eq!(&chosen[0], &chosen[1]);
    }
}

#[test]
fn very_unequal_weights_get_their_shares() {
    assert_shares(&Scene::weighted(&members(&[1, 65_535])), &[1, 65_535]);
    assert_shares(&Scene::weighted(&members(&[1, 99])), &[1, 99]);
    // 1 in 1,001 over a million networks: 999 expected, standard deviation 32.
    let scene = Scene::weighted(&members(&[1, 1000]));
    let small = scene.spread(&scene.runtime("u u"), 1_000_000).iter().filter(|number| **number == 0).count();
    assert!((800..1200).contains(&small), "{small}");
}

#[test]
fn largest_pool_shares_equally() {
    let weights = vec![65_535; Pool::MEMBERS_MAX];
    let scene = Scene::weighted(&members(&weights));
    let counts = counts(&scene.spread(&scene.runtime(&scene.all("u")), NETWORKS), weights.len());
    // 392 expected each, standard deviation 20.
    assert!(counts.iter().all(|count| (270.0..520.0).contains(count)));
}

#[test]
fn several_answers_prefer_heavier_members() {
    let scene = Scene::new(Policy::WEIGHTED, "a:3 b:1 c:1", |pool| pool.answers = 2);
    let runtime = scene.runtime("u u u");
    let with_a = |i: &u32| scene.choose(Kind::V4, &runtime, &network(*i).to_string()).members.as_slice().contains(&0);
    let part = (0..20_000).filter(with_a).count() as f64 / 20_000.0;
    // First with 3/5, else second with 3/4 (b or c drawn first, 1/5 each): 0.9.
    assert!((part - 0.9).abs() < 0.01, "{part}");
}

#[test]
fn network_shares_answer_and_finer_prefix_keeps_half() {
    let scene = Scene::weighted("a b c");
    let runtime = scene.runtime("u u u");
    let chosen = |scene: &Scene, client: &str| scene.choose(Kind::V4, &runtime, client).members;
    assert_eq!(chosen(&scene, "198.51.100.1"), chosen(&scene, "198.51.100.254"));
    let finer = Scene::new(Policy::WEIGHTED, "a b c", |pool| pool.client_prefix = ClientPrefix { v4: 25, v6: 60 });
    for i in 0..200 {
        let client = network(i).to_string();
        assert_eq!(chosen(&scene, &client), chosen(&finer, &client));
    }
}

#[test]
fn spread_per_query_gives_every_member_in_proportion() {
    let scene = Scene::new(Policy::WEIGHTED, "a:3 b:1", |pool| pool.spread = Spread::Query);
    let runtime = scene.runtime("u u");
    let client = scene.steer.client_net("198.51.100.7".parse().unwrap());
    let draw = |i| scene.steer.choose(Kind::V4, &runtime, client, Draw(i), &mut ()).members.as_slice()[0];
    let part = (0..20_000).filter(|i| draw(*i) == 0).count() as f64 / 20_000.0;
    assert!((part - 0.75).abs() < 0.01, "{part}");
    assert_eq!(scopes(&scene), (0, 0));
    assert_eq!(client, scene.steer.client_net("203.0.113.7".parse().unwrap()), "clients are not distinguished");
}

#[test]
fn scope_is_client_prefix() {
    let scene = Scene::new(Policy::WEIGHTED, "a", |pool| pool.client_prefix = ClientPrefix { v4: 20, v6: 48 });
    assert_eq!(scopes(&scene), (20, 48));
    for address in ["10.1.255.1", "::ffff:10.1.255.1"] {
        assert_eq!(scene.steer.client_net(address.parse().unwrap()).to_string(), "10.1.240.0/20");
    }
}

#[test]
fn pools_assign_clients_independently() {
    let chosen = ["shop", "mail"].map(|name| {
        let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| pool.name = PoolName::new(name).unwrap());
        scene.spread(&scene.runtime("u u"), 10_000)
    });
    let equal = chosen[0].iter().zip(&chosen[1]).filter(|(a, b)| a == b).count();
    assert!((4_700..5_300).contains(&equal), "{equal}");
}

#[test]
fn choices_of_clients_are_pinned() {
    let scene = Scene::weighted("a:50 b:30 c:20");
    let choices = scene.spread(&scene.runtime("u u u"), 32);
    let text: String = choices.iter().map(|number| (b'a' + number) as char).collect();
    assert_eq!(text, "abbbaacaaaaacacbaaacbabbbbcabaaa");
    let v6 = (0..16u16).map(|i| IpAddr::from([0x2001, 0xdb8, i, 0, 0, 0, 0, 1]).to_string());
    let runtime = scene.runtime("u u u");
    let text: String =
        v6.map(|client| scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, &client).answer)).collect();
    assert_eq!(text, "acbaaaacccaaaaaa");
}

#[test]
fn location_classes_have_their_part_of_addresses() {
    let scene = Scene::placed(Policy::WEIGHTED, "a b", [&[0, 1], &[1, 0]], |_| {});
    let parts: Vec<_> = scene.steer.location_classes().into_iter().map(|(_, parts)| parts).collect();
    // All addresses of the other family are in the first class.
    assert_eq!(parts, [[0.5, 1.0], [0.5, 0.0]]);
    assert_eq!(Scene::weighted("a").steer.location_classes().len(), 1);
}

#[test]
fn choices_of_draws_are_pinned() {
    let scene = Scene::new(Policy::WEIGHTED, "a:50 b:30 c:20", |pool| pool.spread = Spread::Query);
    let runtime = scene.runtime("u u u");
    let client = scene.steer.client_net(network(7));
    let draw = |i| scene.steer.choose(Kind::V4, &runtime, client, Draw(i), &mut ()).members.as_slice()[0];
    let text: String = (0..32).map(|i| (b'a' + draw(i)) as char).collect();
    assert_eq!(text, "cbaaaacbcbaaacaaaaaabccaaaaabaaa");
}
