//! Pools that balance by load, and orders that depend on the client's location.

use std::time::Duration;

use fairway_model::{Latency, Permille, Policy, Rank, Selection, Spread};
use proptest::prelude::*;

use super::*;
use crate::steer::{
    LoadGroup,
    answer::{Assignment, Basis},
};

const NETWORKS: u32 = 12_000;

fn weighted() -> Policy {
    Policy { load: true, ..Policy::WEIGHTED }
}

fn nearest() -> Policy {
    Policy { ranks: vec![Rank::Nearest], load: true, ..Policy::WEIGHTED }
}

pub(super) fn loaded(members: &str) -> Scene {
    Scene::new(weighted(), members, |_| {})
}

/// Returns how many networks are answered with each member.
fn counts(scene: &Scene, spread: &[u8]) -> Vec<u32> {
    let mut counts = vec![0; scene.pool.members.len()];
    spread.iter().for_each(|member| counts[usize::from(*member)] += 1);
    counts
}

fn shares(scene: &Scene, runtime: &RuntimeState) -> Vec<u32> {
    counts(scene, &scene.spread(runtime, NETWORKS))
        .iter()
        .map(|count| (count * 100 + NETWORKS / 2) / NETWORKS)
        .collect()
}

/// Returns the networks that moved, and the least number that had to.
fn moved(scene: &Scene, before: &[u8], after: &[u8]) -> (u32, u32) {
    let gained = counts(scene, before).into_iter().zip(counts(scene, after)).map(|(b, a)| a.saturating_sub(b));
    (before.iter().zip(after).filter(|(b, a)| b != a).count() as u32, gained.sum())
}

fn near(actual: &[u32], expected: &[u32]) {
    let close = actual.iter().zip(expected).all(|(a, e)| a.abs_diff(*e) <= 2);
    assert!(close && actual.len() == expected.len(), "{actual:?}, expected {expected:?} within 2");
}

fn assignment(scene: &Scene, runtime: &RuntimeState, client: IpAddr) -> (String, Assignment) {
    let route = scene.steer.route(Kind::V4, runtime, scene.steer.client_net(client), Draw(0)).unwrap();
    (route.cluster.to_string(), route.assignment)
}

#[test]
fn each_class_has_its_own_order() {
    let policy = Policy { ranks: vec![Rank::Geo], ..Policy::WEIGHTED };
    let scene = Scene::placed(policy, "a b c", [&[0, 1, 1], &[1, 0]], |_| {});
    let all = scene.runtime("u u u");
    let answer =
        |client: &str, runtime: &RuntimeState| scene.text(Kind::V4, scene.choose(Kind::V4, runtime, client).answer);
    assert_eq!((answer("10.0.0.1", &all), answer("192.0.2.1", &all)), ("a".into(), "b".into()));
    let without = scene.runtime("d d u");
    assert_eq!((answer("10.0.0.1", &without), answer("192.0.2.1", &without)), ("c".into(), "c".into()));
    let without = scene.runtime("u d u");
    assert_eq!(answer("192.0.2.1", &without), "a", "what the ranking does not speak of comes last");
    // The next two of the first half rank equal and share.
    near(&shares(&scene, &scene.runtime("d u u")), &[0, 50, 50]);
}

#[test]
fn scope_is_the_finer_of_block_and_client_prefix() {
    let by_place = |choose, spread| {
        let policy = Policy { ranks: vec![Rank::Geo], selection: choose, ..Policy::WEIGHTED };
        scopes(&Scene::placed(policy, "a b", [&[0, 1], &[1, 0]], |pool| pool.spread = spread)).0
    };
    assert_eq!(by_place(Selection::First, Spread::Client), 1, "only the place counts");
    assert_eq!(by_place(Selection::Weighted, Spread::Client), 24);
    assert_eq!(by_place(Selection::Weighted, Spread::Query), 1);
    let failover = Policy { load: true, ..Policy::FAILOVER };
    assert_eq!(scopes(&Scene::new(failover, "a b", |_| {})).0, 24, "who is passed on depends on the network");
}

#[test]
fn tier_and_cost_rank_members() {
    let policy = |ranks: &[Rank]| Policy { ranks: ranks.to_vec(), ..Policy::FAILOVER };
    let order = |policy: Policy| {
        let scene = Scene::placed(policy, "a@2 b@1 c@1", [&[0, 1, 1], &[0, 0, 0]], |pool| {
            for (member, cost) in pool.members.iter_mut().zip([1, 9, 5]) {
                member.cost = cost;
            }
        });
        let states = ["u u u", "d u u", "u d u", "u u d"];
        let answer = |states| scene.choose(Kind::V4, &scene.runtime(states), "10.0.0.1").answer;
        states.map(|states| scene.text(Kind::V4, answer(states))).join("")
    };
    assert_eq!(order(policy(&[])), "bbcb");
    assert_eq!(order(policy(&[Rank::Cost])), "cccb");
    assert_eq!(order(policy(&[Rank::Geo, Rank::Tier])), "abaa");
    assert_eq!(order(policy(&[Rank::Geo, Rank::Cost, Rank::Tier])), "acaa");
    assert_eq!(order(policy(&[Rank::Cost, Rank::Tier])), "acaa");
}

#[test]
fn pool_by_load_without_shares_chooses_like_one_without_load() {
    for members in ["a:60 b:40 c:5", "a b@2 c@2 d:0"] {
        let (plain, by_load) = (Scene::weighted(members), loaded(members));
        for state in ["u", "d", "p"] {
            let states = scene_states(&plain, state);
            let plain_spread = plain.spread(&plain.runtime(&states), 3_000);
            assert_eq!(plain_spread, by_load.spread(&by_load.runtime(&states), 3_000));
        }
    }
}

fn scene_states(scene: &Scene, first: &str) -> String {
    let rest = vec!["u"; scene.pool.members.len() - 1];
    format!("{first} {}", rest.join(" "))
}

#[test]
fn tables_leave_pools_without_load_unchanged() {
    let scene = Scene::weighted("a b");
    let runtime = scene.runtime("u u");
    let balanced = scene.balanced(&runtime, "b:256");
    assert_eq!(scene.spread(&runtime, 3_000), scene.spread(&balanced, 3_000));
    assert_eq!(runtime.id(), balanced.id(), "no pool in the snapshot uses load");
}

#[test]
fn clients_get_the_cluster_of_their_slot() {
    let scene = loaded("a b@2 c@3");
    let runtime = scene.runtime("u u u");
    assert_eq!(shares(&scene, &scene.balanced(&runtime, "c:256")), [0, 0, 100], "however far it is");
    near(&shares(&scene, &scene.balanced(&runtime, "a:154 b:102")), &[60, 40, 0]);
    let (before, after) = (scene.balanced(&runtime, "a:128 b:128"), scene.balanced(&runtime, "a:127 c:1 b:128"));
    let [before, after] = [before, after].map(|runtime| scene.spread(&runtime, NETWORKS));
    let (moved, least) = moved(&scene, &before, &after);
    assert!(moved == least && (20..80).contains(&moved), "{moved} networks moved of one slot in 256, {least} had to");
}

#[test]
fn clients_of_a_cluster_that_is_not_available_get_the_nearest() {
    let scene = Scene::placed(nearest(), "a b c s:0", [&[0, 1, 2], &[2, 1, 0]], |_| {});
    let client = network(70_000);
    let at = |states: &str, table: &str| assignment(&scene, &scene.balanced(&scene.runtime(states), table), client);
    assert_eq!(at("u u u u", "c:256"), ("c".into(), Assignment::Slot));
    assert_eq!(at("u u d u", "c:256"), ("a".into(), Assignment::Nearest));
    assert_eq!(at("d u x u", "c:256"), ("b".into(), Assignment::Nearest));
    assert_eq!(at("d u u u", ""), ("b".into(), Assignment::Nearest), "no slot has a cluster");
    assert_eq!(at("u u u u", "s:256"), ("a".into(), Assignment::Nearest), "standby members have no slot");
    assert_eq!(at("d d d u", "c:256"), ("s".into(), Assignment::Nearest));
}

#[test]
fn each_ranking_has_its_own_table() {
    let scene = Scene::placed(nearest(), "a b", [&[0, 1], &[1, 0]], |_| {});
    let classes = scene.snapshot.load_classes();
    let group = &classes.groups()[0];
    let costs = |address: &str| {
        let class = scene.steer.client_net(address.parse().unwrap()).class();
        let class = classes.class(&scene.steer, class).unwrap();
        group.costs[classes.place(class).1].iter().flatten().map(|of| of.cost).collect::<Vec<_>>()
    };
    assert_eq!((costs("10.0.0.1"), costs("192.0.2.1")), (vec![0, 1_000], vec![1_000, 0]));
    let first = classes.class(&scene.steer, 0).unwrap();
    let tables = if first == 0 { "b:256 / a:256" } else { "a:256 / b:256" };
    let balanced = scene.balanced(&scene.runtime("u u"), tables);
    let answer = |client: &str| scene.text(Kind::V4, scene.choose(Kind::V4, &balanced, client).answer);
    assert_eq!((answer("10.0.0.1"), answer("192.0.2.1")), ("b".into(), "a".into()));
}

#[test]
fn costs_are_in_milliseconds_where_latencies_decide() {
    let costs = |ranks: Vec<Rank>, members: &str, millis: [Option<u32>; 3]| {
        let scene = Scene::new(Policy { ranks, load: true, ..Policy::WEIGHTED }, members, |_| {});
        let mut classes = ClassRanks::new(3);
        classes.push(&[0, 1, 2]);
        let partition = ClientPartition::everywhere();
        let latencies =
            ClassLatencies::new(3, millis.map(|millis| millis.map(|millis| Latency(millis * 1_000))).to_vec());
        let rankings = LocationRankings { partition, rankings: vec![classes.clone(), classes], latencies };
        let scene = Scene::compile_at(scene.desired, scene.pool, &rankings);
        scene.snapshot.load_classes().groups()[0].costs[0].iter().flatten().map(|of| of.cost).collect::<Vec<_>>()
    };
    let latency = Rank::Latency { tolerance: Duration::from_millis(1) };
    assert_eq!(costs(vec![latency], "a b c", [Some(10), Some(20), Some(210)]), [0, 400, 8_000], "25 ms are a rank");
    assert_eq!(costs(vec![latency, Rank::Nearest], "a b c", [Some(10), Some(10), None]), [0, 40, 1_040]);
    assert_eq!(
        costs(vec![latency], "a b@2 c@2", [Some(10), Some(20), Some(30)]),
        [0, 1_000, 1_400],
        "tiers count first"
    );
    assert_eq!(costs(vec![Rank::Nearest, latency], "a b c", [None; 3]), [0, 1_000, 2_000]);
}

#[test]
fn cluster_without_capacity_takes_its_clients() {
    let scene = loaded("a b@2 c@3");
    let mut desired = scene.desired.clone();
    desired.clusters.get_mut(&ClusterName::new("b").unwrap()).unwrap().capacity = None;
    let scene = Scene::compile(desired, scene.pool.clone());
    let group = &scene.snapshot.load_classes().groups()[0];
    assert_eq!(texts(group), ["a"], "c is farther than b");
    let balanced = scene.balanced(&scene.runtime("u u u"), "a:128");
    assert_eq!(shares(&scene, &balanced), [100, 0, 0]);
    assert_eq!(shares(&scene, &scene.balanced(&scene.runtime("d u u"), "a:128")), [0, 100, 0]);
}

#[test]
fn pools_that_share_clusters_are_one_group() {
    let pools = [("one", "a b"), ("two", "b c"), ("three", "d e")];
    let mut desired = DesiredState::default();
    let mut table = TargetTable::default();
    let mut built = Vec::new();
    for (name, members) in pools {
        let scene = loaded(members);
        desired.clusters.extend(scene.desired.clusters.iter().map(|(name, cluster)| (name.clone(), cluster.clone())));
        let pool = Pool { name: PoolName::new(name).unwrap(), ..scene.pool };
        built.push(SteerPool::build(&desired, &pool, None, &LocationRankings::none(), &mut table));
    }
    let snapshot = snapshot_of(&built, table);
    let groups = snapshot.load_classes().groups().iter();
    let mut names: Vec<String> = groups.map(|group| texts(group).concat()).collect();
    names.sort();
    assert_eq!(names, ["abc", "de"]);
}

/// Returns the backends of a group.
pub(super) fn texts(group: &LoadGroup) -> Vec<String> {
    group.clusters.iter().map(ToString::to_string).collect()
}

#[test]
fn pools_of_the_same_clusters_with_other_weights_have_tables_of_their_own() {
    let mut table = TargetTable::default();
    let mut built = Vec::new();
    for (name, members) in [("one", "a:9 b:1"), ("two", "a:1 b:9"), ("three", "a:18 b:2")] {
        let scene = loaded(members);
        let pool = Pool { name: PoolName::new(name).unwrap(), ..scene.pool };
        built.push(SteerPool::build(&scene.desired, &pool, None, &LocationRankings::none(), &mut table));
    }
    let snapshot = snapshot_of(&built, table);
    let classes = snapshot.load_classes();
    let of: Vec<usize> = built.iter().map(|pool| classes.class(pool, 0).unwrap()).collect();
    assert_eq!((of[0] == of[1], of[0] == of[2]), (false, true), "9:1 and 18:2 are the same");
    let group = &classes.groups()[0];
    let weights = |class: usize| group.costs[class].iter().flatten().map(|of| of.weight).collect::<Vec<_>>();
    assert_eq!((weights(of[0]), weights(of[1])), (vec![900, 100], vec![100, 900]));
    // Each class finds its own table, in any order.
    let table = |class: usize| {
        let costs = group.costs_of(class).map(|(name, cost)| (name.clone(), cost.unwrap())).collect();
        SlotTable { costs, slots: vec![class as u16; Demand::SLOTS] }
    };
    let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
    for tables in [vec![table(0), table(1)], vec![table(1), table(0)]] {
        let runtime = runtime.with_shares(&snapshot, &Arc::new(Shares { epoch: 1, tables, ..Shares::default() }));
        let member = |pool: &SteerPool| {
            let client = pool.client_net("192.0.2.1".parse().unwrap());
            usize::from(pool.choose(Kind::V4, &runtime, client, Draw(0), &mut ()).members.as_slice()[0])
        };
        assert_eq!(built.iter().map(member).collect::<Vec<_>>(), of);
    }
}

#[test]
fn several_answers_stay_within_the_group_of_the_slot() {
    let scene = Scene::placed(nearest(), "a b c d", [&[0, 0, 1, 1], &[1, 1, 0, 0]], |pool| pool.answers = 2);
    let groups = |runtime: &RuntimeState| {
        let choose = |i| scene.choose(Kind::V4, runtime, &network(i).to_string()).members;
        let mut seen: Vec<Vec<u8>> = (0..2_000).map(|i| choose(i * 8_000).as_slice().to_vec()).collect();
        seen.iter_mut().for_each(|members| members.sort_unstable());
        seen.sort();
        seen.dedup();
        seen
    };
    let runtime = scene.runtime("u u u u");
    assert_eq!(groups(&runtime), [[0, 1], [2, 3]]);
    assert_eq!(groups(&scene.balanced(&runtime, "a:100 b:100 c:28 d:28")), [[0, 1], [2, 3]]);
    assert_eq!(groups(&scene.balanced(&runtime, "a:128 c:128")), [[0], [2]], "b and d have no slot");
}

#[test]
fn equal_tables_have_equal_ids_and_different_ones_differ() {
    let scene = loaded("a b");
    let runtime = scene.runtime("u u");
    let id = |table: &str| scene.balanced(&runtime, table).id();
    assert_eq!(id("a:100 b:156"), id("a:100 b:156"));
    let ids = [runtime.id(), id("a:256"), id("a:255 b:1"), id("b:1 a:255"), id("a:255")];
    assert!((1..ids.len()).all(|i| !ids[..i].contains(&ids[i])));
    let twice = scene.balanced(&scene.balanced(&runtime, "a:256"), "b:256");
    assert_eq!(twice.id(), id("b:256"), "the table before is gone");
}

/// Members in groups by tier with weights, in another order for half of the clients.
#[derive(Clone, Debug)]
struct Balancing {
    members: Vec<(u16, u16)>,
}

fn balancing() -> impl Strategy<Value = Balancing> {
    prop::collection::vec((1u16..20, 0u16..3), 2..6).prop_map(|members| Balancing { members })
}

impl Balancing {
    fn scene(&self, adjust: impl FnOnce(&mut Pool)) -> Scene {
        let members = self.members.iter().zip('a'..).map(|((weight, _), name)| format!("{name}:{weight}"));
        let ranks: Vec<_> = self.members.iter().map(|(_, rank)| *rank).collect();
        let mirrored: Vec<_> = ranks.iter().map(|rank| 2 - rank).collect();
        Scene::placed(nearest(), &members.collect::<Vec<_>>().join(" "), [&ranks, &mirrored], adjust)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn fast_path_uses_location_and_load(
        before in balancing(), states in "[udsxp]{6}", client in any::<u32>(), panic in prop_oneof![Just(0), Just(600)],
        load in any::<bool>(), choose in prop_oneof![Just(Selection::First), Just(Selection::Weighted)],
    ) {
        let scene = before.scene(|pool| {
            pool.panic_threshold = Permille::new(panic).unwrap();
            (pool.policy.load, pool.policy.selection) = (load, choose);
        });
        let states: Vec<_> = states.chars().take(scene.pool.members.len()).map(String::from).collect();
        let runtime = scene.balanced(&scene.runtime(&states.join(" ")), "a:100 b:50 f:20 c:30 / b:200");
        let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
        let choice = scene.steer.choose(Kind::V4, &runtime, client, Draw(0), &mut ());
        if let Some((answer, member)) = scene.steer.choose_fast(Family::V4, &runtime, client, Draw(0)) {
            prop_assert_eq!((choice.answer, choice.basis), (Answer::Set(answer), Basis::Live));
            prop_assert_eq!(choice.members.as_slice(), [member]);
        }
    }
}

#[test]
fn tables_follow_the_name_of_the_cluster_over_a_reload() {
    let (before, after) = (loaded("a b"), loaded("z a b@2"));
    let balanced = before.balanced(&before.runtime("u u"), "b:256");
    let carried = after.runtime("u u u").with_shares(&after.snapshot, balanced.shares().unwrap());
    assert_eq!(shares(&after, &carried), [0, 0, 100]);
}
