//! Views: a hidden member is never answered and never counts.

use fairway_model::{
    AnswerMode, DownAnswer, Network, Partition, Permille, Policy, Pool, Rank, Spread, Visibility, ZoneSpec,
};
use proptest::prelude::*;

use super::{laws::down, *};
use crate::steer::{answer::Basis, explain::Reason};

const INSIDE: &str = "10.1.2.3";
const OUTSIDE: &str = "192.0.2.1";

/// Returns members with their networks: `a b=10.0.0.0/8,2001:db8::/32 c=internal`.
fn viewed(policy: Policy, members: &str, adjust: impl FnOnce(&mut Pool)) -> Scene {
    let (mut plain, mut marks) = (Vec::new(), Vec::new());
    for text in members.split_whitespace() {
        let (member, mark) = text.split_once('=').unwrap_or((text, ""));
        plain.push(member);
        marks.push(mark);
    }
    Scene::new(policy, &plain.join(" "), |pool| {
        for (member, mark) in pool.members.iter_mut().zip(&marks) {
            member.internal = *mark == "internal";
            let networks = mark.split(',').filter(|text| !text.is_empty() && *text != "internal");
            member.networks = networks.map(|text| text.parse().unwrap()).collect();
        }
        adjust(pool);
    })
}

fn in_zone(scene: &Scene, visibility: Visibility) -> Scene {
    let zone = ZoneSpec { visibility, ..ZoneSpec::new("gslb.example".parse().unwrap()) };
    let mut table = TargetTable::default();
    let steer = SteerPool::build(&scene.desired, &scene.pool, Some(&zone), &LocationRankings::none(), &mut table);
    Scene::of(scene.desired.clone(), scene.pool.clone(), steer, table)
}

/// Returns the answers to a client inside and to one outside.
fn answers(scene: &Scene, states: &str) -> [String; 2] {
    let runtime = scene.runtime(states);
    [INSIDE, OUTSIDE].map(|client| scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, client).answer))
}

fn reasons(scene: &Scene, states: &str, client: &str) -> Vec<Reason> {
    let client = scene.steer.client_net(client.parse().unwrap());
    let explanation = scene.steer.explain(Kind::V4, &scene.runtime(states), client, Draw(0));
    explanation.members.iter().map(|member| member.reason).collect()
}

#[test]
fn member_is_answered_to_its_networks_only() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b", |_| {});
    assert_eq!(answers(&scene, "u u"), ["a", "b"]);
    assert_eq!(answers(&scene, "u d"), ["a", "b"], "a hidden member is never answered");
    assert_eq!(reasons(&scene, "u u", OUTSIDE), [Reason::HiddenFromClient, Reason::Chosen]);
    assert_eq!(reasons(&scene, "u u", INSIDE), [Reason::Chosen, Reason::Later]);
}

#[test]
fn scope_is_length_of_view_block() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b=2001:db8::/32", |_| {});
    let scope = |address: &str| scene.steer.client_net(address.parse().unwrap()).scope();
    assert_eq!([INSIDE, OUTSIDE, "11.0.0.1", "2001:db8::1", "3fff::1"].map(scope), [8, 1, 8, 32, 4]);
    let hashed = viewed(Policy::WEIGHTED, "a=10.0.0.0/8 b=10.0.0.0/28", |_| {});
    assert_eq!(hashed.steer.client_net("10.0.0.1".parse().unwrap()).scope(), 28);
    assert_eq!(hashed.steer.client_net("10.9.0.1".parse().unwrap()).scope(), 24);
}

#[test]
fn each_down_answer_respects_views() {
    use DownAnswer::{All, Empty, LastGood, Refuse};
    let fallback = || DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()]);
    // a and c are for clients inside, d is internal. Inside and outside: all down; b drained too; only b and c live.
    let classes: [(DownAnswer, [[&str; 2]; 3]); 5] = [
        (All, [["a b c", "b"], ["a", "nothing"], ["b", "b"]]),
        (LastGood, [["a b c", "b"], ["a", "nothing"], ["b", "b"]]),
        (Empty, [["nothing"; 2], ["nothing"; 2], ["b", "b"]]),
        (Refuse, [["refuse"; 2], ["refuse"; 2], ["b", "b"]]),
        (fallback(), [["z"; 2], ["z"; 2], ["b", "b"]]),
    ];
    for (down, expected) in classes {
        let scene =
            viewed(Policy::FAILOVER, "a=10.0.0.0/8 b c=10.1.0.0/16 d=internal", |pool| pool.down = down.clone());
        for (states, expected) in ["d d d u", "d x d u", "d u u u"].iter().zip(expected) {
            assert_eq!(answers(&scene, states), expected, "{down:?}, {states}");
        }
    }
}

#[test]
fn last_good_respects_views() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b c", |pool| pool.down = DownAnswer::LastGood);
    let was = |states: &str| {
        let runtime = scene.changed(&scene.runtime(states), "d d d");
        [INSIDE, OUTSIDE].map(|client| scene.text(Kind::V4, scene.choose(Kind::V4, &runtime, client).answer))
    };
    assert_eq!(was("d d u"), ["c", "c"]);
    assert_eq!(was("u d d"), ["a", "b c"], "nothing that is remembered is for this client: as `all`");
}

#[test]
fn pending_members_respect_views() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b", |_| {});
    assert_eq!(answers(&scene, "p p"), ["a", "b"]);
    assert_eq!(answers(&scene, "u p"), ["a", "b"], "what is up and hidden holds nobody back");
}

#[test]
fn panic_counts_visible_members_only() {
    let panicking = |pool: &mut Pool| pool.panic_threshold = Permille::new(500).unwrap();
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b=10.0.0.0/8 c=10.0.0.0/8 d e", panicking);
    let runtime = scene.runtime("d d d d u");
    let choice = |client| scene.choose(Kind::V4, &runtime, client);
    assert_eq!((choice(INSIDE).basis, choice(OUTSIDE).basis), (Basis::Panic, Basis::Live));
    assert_eq!(answers(&scene, "d d d d u"), ["a", "e"]);
    let views: Vec<_> = scene
        .steer
        .sample_clients()
        .map(|client| scene.steer.choose(Kind::V4, &runtime, client, Draw(0), &mut ()).basis)
        .collect();
    assert!(views.len() == 2 && views.contains(&Basis::Panic), "{views:?}");
}

#[test]
fn client_without_visible_member_gets_no_data_or_fallback() {
    let hidden = |down: DownAnswer| viewed(Policy::WEIGHTED, "a=10.0.0.0/8 b=10.0.0.0/8", |pool| pool.down = down);
    for down in [DownAnswer::All, DownAnswer::Empty, DownAnswer::Refuse, DownAnswer::LastGood] {
        let scene = hidden(down);
        let choice = scene.choose(Kind::V4, &scene.runtime("u u"), OUTSIDE);
        assert_eq!((choice.answer, choice.basis), (Answer::Nothing, Basis::Hidden));
        assert_eq!(reasons(&scene, "u u", OUTSIDE), [Reason::HiddenFromClient; 2]);
    }
    let fallback = DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()]);
    assert_eq!(answers(&hidden(fallback), "u u")[1], "z");
    let fallback = DownAnswer::FallbackCname("centre.example".parse().unwrap());
    assert_eq!(answers(&hidden(fallback), "u u")[1], "cname fallback");
}

#[test]
fn internal_members_are_answered_in_private_zones_only() {
    let scene = viewed(Policy::FAILOVER, "a=internal b c=internal", |_| {});
    let [public, private] = [Visibility::Public, Visibility::Private].map(|visibility| in_zone(&scene, visibility));
    for states in ["u u u", "u d d", "d d d"] {
        assert_eq!(answers(&public, states)[0], "b", "{states}");
    }
    assert_eq!(reasons(&public, "u u u", INSIDE), [Reason::Internal, Reason::Chosen, Reason::Internal]);
    assert_eq!(answers(&private, "u u u")[0], "a");
    assert_eq!(answers(&private, "d d d")[0], "a b c");
    assert_eq!(public.steer.client_net(INSIDE.parse().unwrap()).scope(), 0, "they tell no clients apart");
}

#[test]
fn internal_member_with_networks_stays_internal() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b", |pool| pool.members[0].internal = true);
    assert_eq!(answers(&in_zone(&scene, Visibility::Public), "u u"), ["b", "b"]);
    assert_eq!(answers(&in_zone(&scene, Visibility::Private), "u u"), ["a", "b"]);
}

#[test]
fn cname_pool_never_names_hidden_member() {
    let scene = viewed(Policy::FAILOVER, "a=10.0.0.0/8 b", |pool| pool.mode = AnswerMode::Cname);
    for states in ["u u", "d d"] {
        let runtime = scene.runtime(states);
        let named =
            [INSIDE, OUTSIDE].map(|client| scene.text(Kind::Cname, scene.choose(Kind::Cname, &runtime, client).answer));
        assert_eq!(named, ["cname a", "cname b"], "{states}");
    }
}

#[test]
fn lists_of_all_addresses_are_bounded_by_views() {
    // Client network i sees i and z. Clients without a network see z only.
    let members: Vec<_> = (0..20).map(|i| format!("m{i}=10.{i}.0.0/16")).collect();
    let scene = viewed(Policy::FAILOVER, &format!("{} z", members.join(" ")), |_| {});
    let runtime = scene.runtime(&scene.all("d"));
    let sets = scene.steer.sets(Family::V4);
    assert_eq!(sets.len(), 21 + 16);
    for i in 0..20u8 {
        let choice = scene.choose(Kind::V4, &runtime, &format!("10.{i}.0.1"));
        let set = &sets[usize::from(set_of(&choice))];
        let seen = [IpAddr::from([10, 0, i, 1]), IpAddr::from([10, 0, 20, 1])];
        assert_eq!(set[..], if i < 16 { &seen[..] } else { &seen[..1] }[..], "{i}");
    }
    assert_eq!(set_of(&scene.choose(Kind::V4, &runtime, OUTSIDE)), 20);
}

#[test]
fn window_ends_before_hidden_member() {
    // Twelve members, three per answer: more combinations than are numbered. Every third is for clients inside.
    let members: Vec<_> = ('a'..='l')
        .zip(0..)
        .map(|(name, i)| format!("{name}{}", if i % 3 == 2 { "=10.0.0.0/8" } else { "" }))
        .collect();
    let scene = viewed(Policy::WEIGHTED, &members.join(" "), |pool| pool.answers = 3);
    let runtime = scene.runtime(&scene.all("u"));
    let sets = scene.steer.sets(Family::V4);
    for i in 0..=u8::MAX {
        let address = IpAddr::from([i % 16, i, 2, 3]);
        let inside = i % 16 == 10;
        let client = scene.steer.client_net(address);
        let choice = scene.steer.choose(Kind::V4, &runtime, client, Draw(0), &mut ());
        let named = choice.members.as_slice();
        assert_eq!(sets[usize::from(set_of(&choice))].len(), named.len(), "the answer is of whom it names");
        assert!(inside || named.len() <= 2 && named.iter().all(|number| number % 3 != 2), "{named:?}");
        assert!(!inside || named.len() == 3, "{named:?}");
    }
}

#[test]
fn views_and_locations_make_one_partition() {
    let scene = viewed(Policy { ranks: vec![Rank::Geo], ..Policy::FAILOVER }, "a b c=200.0.0.0/8", |_| {});
    let mut classes = ClassRanks::new(3);
    [[0, 1, 2], [2, 1, 0]].iter().for_each(|ranks| classes.push(ranks));
    let halves = ["0.0.0.0/1", "128.0.0.0/1"].map(|half| half.parse().unwrap());
    let partition = ClientPartition::new(Partition::of_networks(halves.into_iter().zip(0..), 0)).unwrap();
    let placed = Scene::compile_at(
        scene.desired,
        scene.pool,
        &LocationRankings { partition, rankings: vec![classes], latencies: ClassLatencies::default() },
    );
    let runtime = placed.runtime("u u u");
    let answer = |client| placed.text(Kind::V4, placed.choose(Kind::V4, &runtime, client).answer);
    assert_eq!([INSIDE, "200.1.1.1", OUTSIDE].map(answer), ["a", "c", "b"]);
    assert_eq!(placed.steer.client_net("200.1.1.1".parse().unwrap()).scope(), 8);
}

/// Networks close to each other, so that they nest and touch, and clients in some of them.
fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        (0u8..16, 1u8..=4).prop_map(|(top, length)| Network::of([top << 4, 0, 0, 0].into(), length)),
        (0u16..16, 1u8..=4).prop_map(|(top, length)| Network::of([top << 12, 0, 0, 0, 0, 0, 0, 0].into(), length)),
    ]
}

fn client() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| std::net::Ipv4Addr::from(bits).into()),
        any::<u128>().prop_map(|bits| std::net::Ipv6Addr::from(bits).into())
    ]
}

prop_compose! {
    fn scene()(
        members in prop::collection::vec((0u8..4, 1u8..3, 0u8..3, 0u8..3, prop::collection::vec(network(), 0..3), prop::bool::weighted(0.2)), 1..7),
        (policy, load, ranks) in (prop_oneof![Just(Policy::WEIGHTED), Just(Policy::FAILOVER)], any::<bool>(), prop::option::of(Just(Rank::Geo))),
        down in down(), answers in 1u8..=3, panic in prop_oneof![Just(0u16), 1u16..=1000],
        spread in prop_oneof![Just(Spread::Client), Just(Spread::Query)],
        is_private in any::<bool>(), mode in prop_oneof![4 => Just(AnswerMode::Address), 1 => Just(AnswerMode::Cname)],
        ranked in prop::collection::vec(prop::collection::vec(0u16..3, 6), 2),
    ) -> (Scene, bool) {
        let text = members.iter().zip('a'..).map(|((weight, tier, v4, v6, ..), name)| {
            format!("{name}:{weight}@{tier}/{}+{v6}", if *v6 == 0 { (*v4).max(1) } else { *v4 })
        });
        let policy = Policy { load, ranks: ranks.into_iter().collect(), ..policy };
        let scene = Scene::new(policy, &text.collect::<Vec<_>>().join(" "), |pool| {
            for (member, (.., networks, internal)) in pool.members.iter_mut().zip(&members) {
                (member.networks, member.internal) = (networks.clone(), *internal);
            }
            (pool.down, pool.answers, pool.spread, pool.mode) = (down, answers, spread, mode);
            pool.panic_threshold = Permille::new(panic).unwrap();
        });
        let visibility = if is_private { Visibility::Private } else { Visibility::Public };
        let zone = ZoneSpec { visibility, ..ZoneSpec::new("gslb.example".parse().unwrap()) };
        let mut classes = ClassRanks::new(scene.pool.members.len());
        ranked.iter().for_each(|ranks| classes.push(ranks));
        let halves = ["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"].map(|half| half.parse().unwrap());
        let location = LocationRankings { partition: ClientPartition::new(Partition::of_networks(halves.into_iter().zip([0, 1, 1, 0]), 0)).unwrap(), rankings: vec![classes], latencies: ClassLatencies::default() };
        let location = if scene.pool.policy.ranks.is_empty() { LocationRankings::none() } else { location };
        let mut table = TargetTable::default();
        let steer = SteerPool::build(&scene.desired, &scene.pool, Some(&zone), &location, &mut table);
        (Scene::of(scene.desired, scene.pool, steer, table), is_private)
    }
}

fn states() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => prop::collection::vec("[udpsxfUe]{1,4}", 6).prop_map(|words| words.join(" ")),
        1 => prop::collection::vec("[dx]{1,4}", 6).prop_map(|words| words.join(" ")),
    ]
}

fn first(states: &str, scene: &Scene) -> String {
    states.split_whitespace().take(scene.pool.members.len()).collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn answer_never_holds_hidden_member(
        (scene, is_private) in scene(), before in states(), after in states(), slots in prop::option::of((any::<u8>(), any::<u8>())),
        address in client(), draw in any::<u64>(),
    ) {
        let seen = |number: u8| {
            let member = &scene.pool.members[usize::from(number)];
            let inside = member.networks.is_empty() || member.networks.iter().any(|network| network.contains(address));
            inside && (is_private || !member.internal)
        };
        let mut runtime = scene.changed(&scene.runtime(&first(&before, &scene)), &first(&after, &scene));
        if let Some((a, b)) = slots {
            runtime = scene.balanced(&runtime, &format!("a:{a} b:{b} c:20"));
        }
        let client = scene.steer.client_net(address);
        let kinds: &[_] = if scene.pool.mode == AnswerMode::Cname { &[(Kind::Cname, Family::V4)] } else { &KINDS };
        for (kind, family) in kinds {
            let choice = scene.steer.choose(*kind, &runtime, client, Draw(draw), &mut ());
            let named = match choice.answer {
                Answer::Member(number) => vec![number],
                Answer::Set(set) if Some(set) != scene.steer.fallback_set(*family) => {
                    let set = &scene.steer.sets(*family)[usize::from(set)];
                    let has = |number: &u8| scene.steer.addresses(*number, *family).any(|address| set.contains(&address));
                    (0..scene.pool.members.len() as u8).filter(has).collect()
                }
                _ => vec![],
            };
            prop_assert!(named.iter().all(|number| seen(*number)), "{choice:?} for {address}");
            prop_assert!(choice.members.as_slice().iter().all(|number| seen(*number)));
            // A trace sees only visible members, and every hidden one has its reason.
            let explanation = scene.steer.explain(*kind, &runtime, client, Draw(draw));
            prop_assert_eq!(explanation.choice, choice);
            for (number, member) in (0u8..).zip(&explanation.members) {
                let hidden = matches!(member.reason, Reason::HiddenFromClient | Reason::Internal);
                prop_assert_eq!(hidden, !seen(number), "{:?}", member);
            }
            if *kind != Kind::Cname
                && let Some((set, member)) = scene.steer.choose_fast(*family, &runtime, client, Draw(draw))
            {
                prop_assert_eq!((choice.answer, choice.members.as_slice()), (Answer::Set(set), &[member][..]));
            }
        }
    }

    #[test]
    fn clients_of_block_share_answer_and_blocks_do_not_overlap(
        (scene, _) in scene(), states in states(), one in client(), other in any::<u128>(),
    ) {
        let runtime = scene.runtime(&first(&states, &scene));
        let block = scene.steer.client_net(one).network();
        // Any other address of the block.
        let within = match block.address() {
            IpAddr::V4(first) => IpAddr::V4((first.to_bits() | (other as u32).checked_shr(block.length().into()).unwrap_or(0)).into()),
            IpAddr::V6(first) => IpAddr::V6((first.to_bits() | other.checked_shr(block.length().into()).unwrap_or(0)).into()),
        };
        prop_assert_eq!(scene.steer.client_net(within), scene.steer.client_net(one));
        let kind = if scene.pool.mode == AnswerMode::Cname { Kind::Cname } else { Kind::V4 };
        let choose = |address: IpAddr| scene.steer.choose(kind, &runtime, scene.steer.client_net(address), Draw(1), &mut ());
        prop_assert_eq!(choose(within), choose(one));
        let elsewhere = scene.steer.client_net(std::net::Ipv6Addr::from(other).into()).network();
        prop_assert!(elsewhere == block || !(block.contains(elsewhere.address()) || elsewhere.contains(block.address())));
    }
}

#[test]
fn zone_that_hides_members_makes_a_variant() {
    let keys = |members: &str| {
        let scene = viewed(Policy::WEIGHTED, members, |_| {});
        [Visibility::Public, Visibility::Private].map(|visibility| in_zone(&scene, visibility).steer.key())
    };
    let [public, private] = keys("a b=internal");
    assert_ne!(public, private);
    assert_eq!(keys("a b"), [private; 2]);
}
