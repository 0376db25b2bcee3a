//! Pools that balance by load, and orders that depend on the client's location.

use fairway_model::{Permille, Policy, Rank, Selection, Spread};
use proptest::prelude::*;

use super::*;
use crate::steer::{
    answer::{AcceptanceTest, Assignment, Basis},
    trace::Trace,
};

const NETWORKS: u32 = 12_000;
/// Tenths of networks: 0.2 % of all, for cases in which almost nothing has to move.
const SLACK: u32 = 240;

fn weighted() -> Policy {
    Policy { load: true, ..Policy::WEIGHTED }
}

fn nearest() -> Policy {
    Policy { ranks: vec![Rank::Nearest], load: true, ..Policy::WEIGHTED }
}

fn loaded(members: &str) -> Scene {
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
fn shares_leave_pools_without_load_unchanged() {
    let scene = Scene::weighted("a b");
    let runtime = scene.runtime("u u");
    let balanced = scene.balanced(&runtime, "a:0+0");
    assert_eq!(scene.spread(&runtime, 3_000), scene.spread(&balanced, 3_000));
    assert_eq!(runtime.id(), balanced.id(), "no pool in the snapshot uses load");
}

#[test]
fn member_accepts_its_share_and_rest_goes_to_next_group() {
    let scene = loaded("a b@2 c@3");
    let runtime = scene.runtime("u u u");
    let whole = scene.balanced(&runtime, "b:0+0");
    assert_eq!(shares(&scene, &whole), [100, 0, 0], "nothing spills while all is taken");
    let spilling = scene.balanced(&runtime, "a:39321+0");
    near(&shares(&scene, &spilling), &[60, 40, 0]);
    let further = scene.balanced(&runtime, "a:39321+0 b:65535+32768");
    near(&shares(&scene, &further), &[60, 20, 20]);
    let near_of_spilled = scene.balanced(&scene.runtime("d u u"), "b:32768+0");
    near(&shares(&scene, &near_of_spilled), &[0, 50, 50]);
}

#[test]
fn shares_within_group_are_weight_by_acceptance() {
    let scene = loaded("a b:2 c");
    let balanced = scene.balanced(&scene.runtime("u u u"), "a:32768+0 b:65535+0 c:0+0");
    // 0.5 to 2 to 0.
    near(&shares(&scene, &balanced), &[20, 80, 0]);
    // Clients that no member of the group accepts go to the next group, and the group's own clients stay.
    let scene = loaded("a b:2 c d@2");
    let balanced = scene.balanced(&scene.runtime("u u u u"), "a:32768+0 b:65535+0 c:0+0");
    near(&shares(&scene, &balanced), &[13, 50, 0, 38]);
}

#[test]
fn remainder_is_split_by_local_share_or_else_by_weight() {
    let scene = loaded("a b:3@2");
    let runtime = scene.runtime("u u");
    let tight = scene.balanced(&runtime, "a:32768+0 b:32768+0");
    // Half of all clients remain: one part to three.
    near(&shares(&scene, &tight), &[63, 38]);
    let none = scene.balanced(&runtime, "a:0+0 b:0+0");
    near(&shares(&scene, &none), &[25, 75]);
    assert_eq!(assignment(&scene, &none, network(7)).1, Assignment::Remainder);
}

#[test]
fn standby_members_alone_pass_clients_on() {
    let scene = loaded("a b:0 c:0@2");
    let last = scene.balanced(&scene.runtime("d u u"), "b:0+0 c:0+65535");
    assert_eq!(shares(&scene, &last), [0, 0, 100]);
    let standby = scene.balanced(&scene.runtime("u u u"), "a:0+0 c:0+65535");
    assert_eq!(shares(&scene, &standby), [100, 0, 0]);
}

#[test]
fn standby_gets_nothing_while_another_is_available() {
    let scene = loaded("a b@2 s:0");
    let full = "a:0+0 b:0+0";
    assert_eq!(shares(&scene, &scene.balanced(&scene.runtime("u u u"), full))[2], 0);
    assert_eq!(shares(&scene, &scene.balanced(&scene.runtime("d d u"), full)), [0, 0, 100]);
    let alone = scene.balanced(&scene.runtime("d d u"), "s:0+0");
    assert_eq!(shares(&scene, &alone), [0, 0, 100], "the only one left takes all");
}

#[test]
fn first_member_passes_clients_on() {
    let scene = Scene::new(Policy { load: true, ..Policy::FAILOVER }, "a b c", |_| {});
    let balanced = scene.balanced(&scene.runtime("u u u"), "a:32768+0 b:0+32768");
    near(&shares(&scene, &balanced), &[50, 25, 25]);
}

#[test]
fn pin_holds_while_its_member_is_available() {
    let scene = Scene::placed(nearest(), "a b c s:0", [&[0, 1, 2], &[2, 1, 0]], |_| {});
    let client = network(70_000);
    let demand = scene.steer.demand(scene.steer.client_net(client), Draw(0));
    let at = |states: &str, shares: &str, to: &str| {
        let pinned = scene.balanced_with(&scene.runtime(states), shares, &[(demand, to)]);
        assignment(&scene, &pinned, client)
    };
    assert_eq!(at("u u u u", "", "c"), ("c".into(), Assignment::Pinned));
    assert_eq!(at("u u u u", "c:0+0", "c"), ("c".into(), Assignment::Pinned), "whatever it accepts");
    assert_eq!(at("u u d u", "", "c"), ("a".into(), Assignment::Local));
    assert_eq!(at("u u x u", "a:0+0", "c"), ("b".into(), Assignment::Overflow));
    assert_eq!(at("u u u u", "", "s"), ("a".into(), Assignment::Local), "standby is no candidate while another is");
    assert_eq!(at("d d d u", "", "s"), ("s".into(), Assignment::Pinned));
    let other = scene.balanced_with(&scene.runtime("u u u u"), "", &[(Demand(demand.0 ^ 1), "c")]);
    assert_eq!(assignment(&scene, &other, client), ("a".into(), Assignment::Local));
}

#[test]
fn several_answers_stay_within_accepting_group() {
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
    let spilling = groups(&scene.balanced(&runtime, "a:30000+30000 b:20000+20000"));
    assert!(spilling.iter().all(|members| members.iter().all(|m| m / 2 == members[0] / 2)), "{spilling:?}");
}

#[test]
fn equal_shares_have_equal_ids_and_different_ones_differ() {
    let scene = loaded("a b");
    let runtime = scene.runtime("u u");
    let id = |shares: &str, pins: &[(Demand, &str)]| scene.balanced_with(&runtime, shares, pins).id();
    assert_eq!(id("", &[]), runtime.id());
    assert_eq!(id("a:65535+65535", &[]), runtime.id(), "to take everything is to say nothing");
    assert_eq!(id("a:1+2 gone:1+1", &[(Demand(5), "gone")]), id("a:1+2", &[]));
    let ids = [id("", &[]), id("a:1+2", &[]), id("a:2+1", &[]), id("b:1+2", &[]), id("", &[(Demand(5), "a")])];
    assert!((1..ids.len()).all(|i| !ids[..i].contains(&ids[i])));
    let twice = scene.balanced(&scene.balanced(&runtime, "a:1+2"), "b:3+4");
    assert_eq!(twice.id(), id("b:3+4", &[]), "what was said before is gone");
}

/// Members in groups by tier with weights, their order for half of the clients, and their shares.
#[derive(Clone, Debug)]
struct Balancing {
    members: Vec<(u16, u16, u16)>,
    changed: usize,
    acceptance: u16,
    weight: u16,
}

fn balancing() -> impl Strategy<Value = Balancing> {
    let acceptance = || prop_oneof![2 => 0..=u16::MAX, 1 => Just(u16::MAX), 1 => Just(0)];
    let member = (1u16..20, 0u16..3, acceptance());
    let parts = (prop::collection::vec(member, 2..6), any::<prop::sample::Index>(), acceptance(), 1u16..20);
    parts.prop_map(|(members, changed, acceptance, weight)| {
        let changed = changed.index(members.len());
        Balancing { members, changed, acceptance, weight }
    })
}

impl Balancing {
    /// Gives members of a group equal weights and shares, and lets one group accept all clients.
    ///
    /// Otherwise a changed weight lets some clients pass each other: clients that reach a member with a smaller share
    /// go to the next group, while their old member loses others. In such pools up to 1.3 times the minimum moved.
    fn even(mut self) -> Self {
        let first = self.members[0].1;
        for at in 0..self.members.len() {
            let rank = self.members[at].1;
            let part = self.members.iter().find(|member| member.1 == rank).map_or(0, |member| member.2);
            self.members[at].2 = if rank == first { u16::MAX } else { part };
        }
        self
    }

    fn scene(&self, adjust: impl FnOnce(&mut Pool)) -> Scene {
        let members = self.members.iter().zip('a'..).map(|((weight, ..), name)| format!("{name}:{weight}"));
        let ranks: Vec<_> = self.members.iter().map(|(_, rank, _)| *rank).collect();
        let mirrored: Vec<_> = ranks.iter().map(|rank| 2 - rank).collect();
        Scene::placed(nearest(), &members.collect::<Vec<_>>().join(" "), [&ranks, &mirrored], adjust)
    }

    /// Returns the member of each of many networks.
    fn spread(&self) -> (Scene, Vec<u8>) {
        let scene = self.scene(|_| {});
        let names = || self.members.iter().zip('a'..);
        let shares: Vec<_> = names().map(|((_, _, part), name)| format!("{name}:{part}+{}", spill_of(*part))).collect();
        let balanced = scene.balanced(&scene.runtime(&scene.all("u")), &shares.join(" "));
        let choose = |i: u32| {
            let client = scene.steer.client_net(network(i.wrapping_mul(1_397)));
            scene.steer.choose(Kind::V4, &balanced, client, Draw(0), &mut ()).members.as_slice()[0]
        };
        let spread = (0..NETWORKS).map(choose).collect();
        (scene, spread)
    }
}

/// Returns the overflow share for a local share: half of it, or all.
fn spill_of(near: u16) -> u16 {
    if near == u16::MAX { near } else { near / 2 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn changed_share_moves_only_the_margin(before in balancing()) {
        let mut after = before.clone();
        after.members[before.changed].2 = before.acceptance;
        let ((scene, from), (_, to)) = (before.spread(), after.spread());
        let (moved, least) = moved(&scene, &from, &to);
        prop_assert!(moved * 10 <= least * 11 + SLACK, "{moved} moved, {least} had to");
    }

    #[test]
    fn changed_weight_moves_only_the_margin(before in balancing().prop_map(Balancing::even)) {
        let mut after = before.clone();
        after.members[before.changed].0 = before.weight;
        let ((scene, from), (_, to)) = (before.spread(), after.spread());
        let (moved, least) = moved(&scene, &from, &to);
        prop_assert!(moved * 10 <= least * 11 + SLACK, "{moved} moved, {least} had to");
    }

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
        let runtime = scene.balanced(&scene.runtime(&states.join(" ")), "a:40000+10000 b:1000+60000 c:0+0");
        let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
        let choice = scene.steer.choose(Kind::V4, &runtime, client, Draw(0), &mut ());
        if let Some((answer, member)) = scene.steer.choose_fast(Family::V4, &runtime, client, Draw(0)) {
            prop_assert_eq!((choice.answer, choice.basis), (Answer::Set(answer), Basis::Live));
            prop_assert_eq!(choice.members.as_slice(), [member]);
        }
    }
}

#[test]
fn shares_follow_cluster_name_over_reload() {
    let (before, after) = (loaded("a b"), loaded("z a b@2"));
    let balanced = before.balanced(&before.runtime("u u"), "a:0+0 gone:5+5");
    let shares = balanced.shares().unwrap();
    let carried = after.runtime("u u u").with_shares(&after.snapshot, shares);
    assert_eq!(carried.id(), after.balanced(&after.runtime("u u u"), "a:0+0").id());
    assert_eq!(counts(&after, &after.spread(&carried, 2_000))[1], 0);
}

#[test]
fn draw_below_acceptance_is_accepted() {
    let taken = |draw, acceptance| AcceptanceTest { is_local: true, acceptance, draw }.is_accepted();
    assert_eq!([taken(4, 5), taken(5, 5), taken(0, 0), taken(65_534, 65_535)], [true, false, false, true]);
}

/// Trace that keeps the first acceptance test.
#[derive(Default)]
struct FirstOffer(Option<AcceptanceTest>);

impl Trace for FirstOffer {
    fn acceptance_test(&mut self, _: u8, test: AcceptanceTest) {
        self.0.get_or_insert(test);
    }
}

#[test]
fn full_share_accepts_highest_draw() {
    let scene = loaded("a b@2");
    let runtime = scene.balanced(&scene.runtime("u u"), "a:65535+0 b:0+0");
    let mut heard = FirstOffer::default();
    // One in 65,536 clients has this draw.
    let client = scene.steer.client_net(network(1_527));
    let choice = scene.steer.choose(Kind::V4, &runtime, client, Draw(0), &mut heard);
    let test = AcceptanceTest { is_local: true, acceptance: 65_535, draw: 65_534 };
    assert_eq!((heard.0, choice.members.as_slice()), (Some(test), &[0][..]));
}

#[test]
fn pin_to_standby_member_holds_against_other_standby_members() {
    let scene = loaded("a s:0 t:0");
    let client = network(70_000);
    let demand = scene.steer.demand(scene.steer.client_net(client), Draw(0));
    let pinned = |states: &str| {
        let runtime = scene.balanced_with(&scene.runtime(states), "", &[(demand, "t")]);
        assignment(&scene, &runtime, client)
    };
    assert_eq!(pinned("d u u"), ("t".into(), Assignment::Pinned));
    assert_eq!(pinned("u u u"), ("a".into(), Assignment::Local));
}

#[test]
fn remainder_avoids_member_with_zero_share() {
    for members in ["a b@2", "b@2 a"] {
        let scene = loaded(members);
        let balanced = scene.balanced(&scene.runtime("u u"), "a:0+0 b:1000+0");
        let at = scene.pool.members.iter().position(|member| member.cluster.as_str() == "b").unwrap();
        assert_eq!(shares(&scene, &balanced)[at], 100, "{members}");
    }
}

#[test]
fn remainder_of_several_prefers_whole_members() {
    let scene = Scene::new(weighted(), "a/2+0 b", |pool| pool.answers = 2);
    let balanced = scene.balanced(&scene.runtime("ud u"), "a:60000+0 b:0+0");
    let rest = (0..2_000)
        .map(network)
        .find(|client| assignment(&scene, &balanced, *client).1 == Assignment::Remainder)
        .unwrap();
    assert_eq!(assignment(&scene, &balanced, rest).0, "b", "though only a takes anybody");
}

#[test]
fn only_members_with_local_share_join_several_answers() {
    let scene = Scene::new(weighted(), "a b", |pool| pool.answers = 2);
    let members = |balanced: &RuntimeState| {
        let choose = |i| scene.choose(Kind::V4, balanced, &network(i).to_string()).members.as_slice().to_vec();
        let mut seen: Vec<_> = (0..500).map(choose).collect();
        seen.sort();
        seen.dedup();
        seen
    };
    let runtime = scene.runtime("u u");
    assert_eq!(members(&scene.balanced(&runtime, "b:0+65535")), [[0]], "in their own group both are near");
    assert_eq!(members(&scene.balanced(&runtime, "b:65535+0")), [[0, 1], [1, 0]]);
}

#[test]
fn pin_to_partly_live_member_answers_its_live_part() {
    let scene = Scene::new(weighted(), "a/2+0 b", |pool| pool.answers = 2);
    let client = network(70_000);
    let demand = scene.steer.demand(scene.steer.client_net(client), Draw(0));
    let pinned = scene.balanced_with(&scene.runtime("ud u"), "", &[(demand, "a")]);
    let choice = scene.choose(Kind::V4, &pinned, &client.to_string());
    assert_eq!((scene.text(Kind::V4, choice.answer).as_str(), choice.members.as_slice()), ("a", &[0][..]));
}

#[test]
fn first_in_order_is_tried_first_for_several_answers() {
    let policy = Policy { load: true, ..Policy::FAILOVER };
    let scene = Scene::new(policy, "a b c", |pool| pool.answers = 2);
    let members = |i| scene.choose(Kind::V4, &scene.runtime("u u u"), &network(i).to_string()).members;
    assert!((0..100).all(|i| members(i).as_slice() == [0]));
}

#[test]
fn each_pool_has_its_own_demand_per_client() {
    let pool = |name: &str, spread| {
        let name = PoolName::new(name).unwrap();
        Scene::new(weighted(), "a b", |pool| (pool.name, pool.spread) = (name, spread)).steer
    };
    let demand = |pool: SteerPool| pool.demand(pool.client_net(network(7)), Draw(0));
    assert_ne!(demand(pool("shop", Spread::Client)), demand(pool("mail", Spread::Client)));
    assert!(pool("shop", Spread::Client).is_balanced() && !pool("shop", Spread::Query).is_balanced());
}
