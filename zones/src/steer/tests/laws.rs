//! Properties of every pool in every state: which addresses may be answered, and that there is an answer.

use fairway_model::{AnswerMode, DownAnswer, Eligibility, Permille, Policy, Pool, Spread};
use proptest::prelude::*;

use super::*;
use crate::steer::answer::Basis;

/// Members as text with a state for each. Names are in order, so that labels match.
fn members() -> impl Strategy<Value = (String, String)> {
    let counts = prop_oneof![Just((1, 0)), Just((1, 1)), Just((0, 1)), (0u8..=3, 1u8..=3), (4u8..=8, 0u8..=8)];
    let weight = prop_oneof![3 => 1u16..100, 1 => Just(0)];
    let member = (weight, 1u8..4, counts, "[udpsxfUe]{1,4}");
    prop::collection::vec(member, 1..13).prop_map(|members| {
        let text = members
            .iter()
            .enumerate()
            .map(|(i, (weight, tier, (v4, v6), _))| format!("{}:{weight}@{tier}/{v4}+{v6}", (b'a' + i as u8) as char));
        let states = members.iter().map(|m| m.3.clone());
        (text.collect::<Vec<_>>().join(" "), states.collect::<Vec<_>>().join(" "))
    })
}

pub(super) fn down() -> impl Strategy<Value = DownAnswer> {
    prop_oneof![
        Just(DownAnswer::All),
        Just(DownAnswer::Empty),
        Just(DownAnswer::Refuse),
        Just(DownAnswer::LastGood),
        Just(DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()])),
        Just(DownAnswer::FallbackCname("centre.example".parse().unwrap())),
    ]
}

prop_compose! {
    pub(super) fn scene()(
        (members, states) in members(), policy in prop_oneof![Just(Policy::WEIGHTED), Just(Policy::FAILOVER)],
        down in down(), answers in 1u8..=8, panic in 0u16..=1000, min_healthy in 0u16..=1000,
        extra in prop_oneof![3 => Just((0, 0)), 1 => Just((1, 0)), 1 => Just((0, 1)), 1 => Just((1, 1))],
        spread in prop_oneof![Just(Spread::Client), Just(Spread::Query)],
    ) -> (Scene, String) {
        let adjust = |pool: &mut Pool| {
            (pool.down, pool.answers, pool.spread) = (down, answers, spread);
            pool.panic_threshold = Permille::new(panic * extra.0).unwrap();
            pool.min_healthy = Permille::new(min_healthy * extra.1).unwrap();
        };
        (Scene::new(policy, &members, adjust), states)
    }
}

/// Members with one address per family, as the fast path needs.
fn alike() -> impl Strategy<Value = (Scene, String)> {
    let member = (0u16..4, 1u8..3, "[udsxfpUe]");
    let policy = prop_oneof![Just(Policy::WEIGHTED), Just(Policy::FAILOVER)];
    let spread = prop_oneof![Just(Spread::Client), Just(Spread::Query)];
    let panic = prop_oneof![Just(0), Just(500)];
    (prop::collection::vec(member, 1..5), policy, spread, panic).prop_map(|(members, policy, spread, panic)| {
        let names = members.iter().zip('a'..).map(|((weight, tier, _), name)| format!("{name}:{weight}@{tier}/1+1"));
        let states = members.iter().map(|(_, _, state)| state.clone()).collect::<Vec<_>>().join(" ");
        let adjust = |pool: &mut Pool| {
            (pool.spread, pool.panic_threshold) = (spread, Permille::new(panic).unwrap());
        };
        (Scene::new(policy, &names.collect::<Vec<_>>().join(" "), adjust), states)
    })
}

/// Returns the eligibility of an answered address.
fn eligibility_of(scene: &Scene, runtime: &RuntimeState, address: &IpAddr) -> Option<Eligibility> {
    scene.steer.members.iter().find_map(|member| {
        Family::BOTH.into_iter().find_map(|family| {
            let place = scene.steer.addresses(member.number, family).position(|a| a == *address)?;
            let target = scene.steer.target_of(&member.address_sets[family as usize], place);
            Some(runtime.health(target).eligibility())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn answer_never_holds_ineligible_address((scene, states) in scene(), client in any::<u32>(), draw in any::<u64>()) {
        let runtime = scene.runtime(&states);
        for (kind, family) in KINDS {
            let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
            let choice = scene.steer.choose(kind, &runtime, client, Draw(draw), &mut ());
            let Answer::Set(number) = choice.answer else { continue };
            let sets = scene.steer.sets(family);
            let set = &sets[usize::from(number)];
            prop_assert!(!set.is_empty() && set.iter().all(|a| family.holds(a)));
            if Some(number) == scene.steer.fallback_set(family) {
                prop_assert_eq!(choice.basis, Basis::Down);
                continue;
            }
            for address in set {
                let eligibility = eligibility_of(&scene, &runtime, address).unwrap();
                let fits = match choice.basis {
                    Basis::Live => matches!(eligibility, Eligibility::Up | Eligibility::Unknown),
                    Basis::Exhausted => eligibility == Eligibility::Exhausted,
                    Basis::Pending => eligibility == Eligibility::Pending,
                    Basis::Panic | Basis::Down => eligibility != Eligibility::Out,
                    Basis::NoFamily | Basis::Hidden => false,
                };
                prop_assert!(fits, "{} answered on {:?}", address, choice.basis);
            }
            // The named members are those with addresses in the answer.
            let of_members = choice.members.as_slice().iter().flat_map(|m| scene.steer.addresses(*m, family));
            let of_members: Vec<_> = of_members.collect();
            prop_assert!(choice.members.as_slice().is_empty() || set.iter().all(|a| of_members.contains(a)));
            prop_assert!(choice.members.as_slice().len() <= usize::from(scene.pool.answers));
        }
    }

    #[test]
    fn fast_path_agrees_with_choose(
        (scene, states) in prop_oneof![3 => alike(), 1 => scene()], client in any::<u32>(), draw in any::<u64>()
    ) {
        let runtime = scene.runtime(&states);
        let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
        for (kind, family) in KINDS {
            let choice = scene.steer.choose(kind, &runtime, client, Draw(draw), &mut ());
            let Some((answer, member)) = scene.steer.choose_fast(family, &runtime, client, Draw(draw)) else {
                continue;
            };
            prop_assert_eq!((choice.answer, choice.basis), (Answer::Set(answer), Basis::Live));
            prop_assert_eq!(choice.members.as_slice(), [member]);
        }
    }

    #[test]
    fn alike_live_members_use_fast_path((scene, _) in alike(), client in any::<u32>()) {
        let one_tier = scene.steer.orders.is_one_group(&scene.steer.members);
        prop_assume!(one_tier || scene.pool.policy == Policy::FAILOVER || scene.steer.panic_threshold == 0);
        let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
        let runtime = scene.runtime(&scene.all("u"));
        prop_assert!(scene.steer.choose_fast(Family::V4, &runtime, client, Draw(0)).is_some());
    }

    #[test]
    fn live_member_always_gives_an_answer((scene, states) in scene(), client in any::<u32>()) {
        let runtime = scene.runtime(&states);
        let client = std::net::Ipv4Addr::from_bits(client).to_string();
        for (kind, family) in KINDS {
            let live = scene.steer.members.iter().any(|m| {
                let set = &m.address_sets[family as usize];
                let eligibility = |place| runtime.health(scene.steer.target_of(set, place)).eligibility();
                (0..set.addresses() as usize).any(|place| eligibility(place) <= Eligibility::Exhausted)
            });
            let choice = scene.choose(kind, &runtime, &client);
            prop_assert!(!live || matches!(choice.answer, Answer::Set(_)), "{:?}", choice);
        }
    }

    #[test]
    fn both_families_choose_the_same_cluster_if_possible((scene, states) in scene(), client in any::<u32>()) {
        let scene = scene.recompiled(Pool { answers: 1, ..scene.pool.clone() });
        let runtime = scene.runtime(&states);
        let client = std::net::Ipv4Addr::from_bits(client).to_string();
        let [v4, v6] = KINDS.map(|(kind, _)| scene.choose(kind, &runtime, &client));
        let ([a], [b]) = (v4.members.as_slice(), v6.members.as_slice()) else { return Ok(()) };
        // A family without any other address that is up is answered with exhausted ones.
        prop_assume!(v4.basis == v6.basis || ![v4.basis, v6.basis].contains(&Basis::Exhausted));
        // One without a pending address has the down answer.
        if let (Basis::Pending, Basis::Down) | (Basis::Down, Basis::Pending) = (v4.basis, v6.basis) {
            return Ok(());
        }
        prop_assert_eq!(v4.basis, v6.basis);
        let member = |number: u8| scene.steer.members.iter().find(|m| m.number == number).unwrap();
        // Each could have been answered for the other family too.
        let fits = |number: u8, family: Family| {
            let set = &member(number).address_sets[family as usize];
            (0..set.addresses() as usize).any(|place| {
                let eligibility = runtime.health(scene.steer.target_of(set, place)).eligibility();
                match v4.basis {
                    Basis::Live => matches!(eligibility, Eligibility::Up | Eligibility::Unknown),
                    Basis::Exhausted => eligibility == Eligibility::Exhausted,
                    Basis::Pending => eligibility == Eligibility::Pending,
                    // Exhausted ones only if there is no other.
                    Basis::Panic => !matches!(eligibility, Eligibility::Out | Eligibility::Exhausted),
                    _ => eligibility != Eligibility::Out,
                }
            })
        };
        if fits(*a, Family::V6) && fits(*b, Family::V4) {
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn fallback_name_is_the_answer_for_both_families_or_neither((scene, states) in scene(), client in any::<u32>()) {
        let scene = scene.recompiled(Pool { down: DownAnswer::FallbackCname("centre.example".parse().unwrap()), ..scene.pool.clone() });
        let runtime = scene.runtime(&states);
        let client = std::net::Ipv4Addr::from_bits(client).to_string();
        let [v4, v6] = KINDS.map(|(kind, _)| scene.choose(kind, &runtime, &client).answer == Answer::FallbackCname);
        prop_assert_eq!(v4, v6);
    }

    #[test]
    fn standby_is_never_answered_while_another_is_live((scene, states) in scene(), client in any::<u32>()) {
        let runtime = scene.runtime(&states);
        let choice = scene.choose(Kind::V4, &runtime, &std::net::Ipv4Addr::from_bits(client).to_string());
        prop_assume!(choice.basis == Basis::Live);
        let weight = |number: u8| scene.pool.members[usize::from(number)].weight.0;
        let standby = choice.members.as_slice().iter().any(|m| weight(*m) == 0);
        let live_weighted = (0u8..).zip(&scene.pool.members).any(|(number, member)| {
            member.weight.0 > 0 && scene.steer.addresses(number, Family::V4).any(|a| {
                matches!(eligibility_of(&scene, &runtime, &a), Some(Eligibility::Up | Eligibility::Unknown))
            })
        });
        prop_assert!(!(standby && live_weighted));
    }

    #[test]
    fn cname_pool_names_a_member_unless_all_are_out((scene, states) in scene(), client in any::<u32>()) {
        let mut pool = scene.pool.clone();
        (pool.mode, pool.down) = (AnswerMode::Cname, DownAnswer::All);
        let any_in = scene.runtime(&states);
        let any_in = (0..scene.snapshot.targets().len() as u32)
            .any(|t| any_in.health(crate::TargetIndex(t)).eligibility() != Eligibility::Out);
        let adjusted = scene.recompiled(pool);
        let choice = adjusted.choose(Kind::Cname, &adjusted.runtime(&states), &std::net::Ipv4Addr::from_bits(client).to_string());
        prop_assert_eq!(matches!(choice.answer, Answer::Member(_)), any_in);
    }
}
