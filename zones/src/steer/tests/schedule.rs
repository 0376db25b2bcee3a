//! Members closed by their schedules: never answered, and no evidence against other members.

use fairway_model::{AnswerMode, DownAnswer, Permille, Policy, Pool, ScheduleWindow, Timestamp};
use proptest::prelude::*;

use super::{laws::scene, *};
use crate::steer::{answer::Basis, explain::Reason};

/// Seconds: members for the day are open before, those for the night from then on.
const DUSK: u64 = 1000;

fn moment(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

impl Scene {
    /// Returns the pool with a letter per member: open by `d`ay, by `n`ight, `a`lways.
    fn scheduled(&self, letters: &str) -> Self {
        let mut pool = self.pool.clone();
        pool.policy.schedule = true;
        for (member, letter) in pool.members.iter_mut().zip(letters.chars()) {
            let (after, before) = match letter {
                'd' => (None, Some(moment(DUSK))),
                'n' => (Some(moment(DUSK)), None),
                _ => continue,
            };
            member.schedule = Schedule::new(vec![ScheduleWindow::new(None, after, before).unwrap()]);
        }
        self.recompiled(pool)
    }

    fn runtime_at(&self, states: &str, secs: u64) -> RuntimeState {
        RuntimeState::new_at(&self.snapshot, moment(secs), self.health(states))
    }

    /// Returns the runtime state at another time.
    fn later(&self, runtime: &RuntimeState, secs: u64) -> RuntimeState {
        runtime.at(&self.snapshot, moment(secs)).unwrap_or_else(|| runtime.clone())
    }

    fn answer_at(&self, runtime: &RuntimeState) -> String {
        self.text(Kind::V4, self.choose(Kind::V4, runtime, "198.51.100.7").answer)
    }
}

#[test]
fn member_is_answered_within_its_windows_only() {
    let scene = Scene::weighted("a b@2").scheduled("da");
    let day = scene.runtime_at("u u", DUSK - 1);
    assert_eq!(scene.answer_at(&day), "a");
    let night = scene.later(&day, DUSK);
    assert_eq!(scene.answer_at(&night), "b");
    // The clock is set back.
    assert_eq!(scene.answer_at(&scene.later(&night, DUSK - 1)), "a");
}

#[test]
fn policy_without_schedule_ignores_windows() {
    let mut pool = Scene::weighted("a").scheduled("d").pool;
    pool.policy.schedule = false;
    let scene = Scene::weighted("a").recompiled(pool);
    assert_eq!(scene.answer_at(&scene.runtime_at("u", DUSK)), "a");
}

#[test]
fn down_answer_applies_if_all_members_are_closed() {
    let answers = |down: DownAnswer| {
        let scene = Scene::new(Policy::WEIGHTED, "a b", |pool| pool.down = down).scheduled("dd");
        let choice = scene.choose(Kind::V4, &scene.runtime_at("u U", DUSK), "198.51.100.7");
        assert_eq!(choice.basis, Basis::Down);
        scene.text(Kind::V4, choice.answer)
    };
    assert_eq!(answers(DownAnswer::All), "nothing");
    assert_eq!(answers(DownAnswer::LastGood), "nothing");
    assert_eq!(answers(DownAnswer::Empty), "nothing");
    assert_eq!(answers(DownAnswer::Refuse), "refuse");
    assert_eq!(answers(DownAnswer::FallbackAddresses(vec!["10.0.25.1".parse().unwrap()])), "z");
}

#[test]
fn closed_members_do_not_count_for_panic() {
    let panics = |pool: &mut Pool| pool.panic_threshold = Permille::new(600).unwrap();
    let scene = Scene::new(Policy::FAILOVER, "a b c d", panics).scheduled("ddaa");
    // At night all open members are live: half of the pool's weight, which by day would mean panic if the other half
    // were down.
    let basis = |states: &str, secs| scene.choose(Kind::V4, &scene.runtime_at(states, secs), "198.51.100.7").basis;
    assert_eq!((basis("d d u u", DUSK), basis("d d u u", DUSK - 1)), (Basis::Live, Basis::Panic));
    let night = scene.runtime_at("u u d u", DUSK);
    let choice = scene.choose(Kind::V4, &night, "198.51.100.7");
    assert_eq!((scene.text(Kind::V4, choice.answer), choice.basis), ("c".to_owned(), Basis::Panic));
}

#[test]
fn closed_member_is_not_last_good() {
    let remembers = |pool: &mut Pool| pool.down = DownAnswer::LastGood;
    let scene = Scene::new(Policy::FAILOVER, "a b c", remembers).scheduled("dna");
    let day = scene.runtime_at("u u d", DUSK - 1);
    let night = scene.later(&day, DUSK);
    let all_down = scene.changed(&night, "d d d");
    assert_eq!(scene.answer_at(&all_down), "b");
    // By day again no last-good member may be answered, but any other may.
    assert_eq!(scene.answer_at(&scene.later(&all_down, DUSK - 1)), "a");
}

#[test]
fn closed_member_is_explained_with_opening_time() {
    let scene = Scene::weighted("a b c").scheduled("nda");
    let client = scene.steer.client_net("198.51.100.7".parse().unwrap());
    let explained = |secs, member: usize| {
        let explanation = scene.steer.explain(Kind::V4, &scene.runtime_at("d u u", secs), client, Draw(0));
        (explanation.members[member].reason, explanation.members[member].why())
    };
    assert_eq!(explained(0, 0), (Reason::Closed, "closed: opens 1970-01-01T00:16:40Z".to_owned()));
    assert_eq!(explained(DUSK, 0), (Reason::Down, "down".to_owned()));
    assert_eq!(explained(DUSK, 1), (Reason::Closed, "closed: opens at no known time".to_owned()));
}

#[test]
fn id_depends_on_closed_members_and_not_on_time() {
    let scene = Scene::weighted("a b").scheduled("dn");
    let id = |secs| scene.runtime_at("u u", secs).id();
    assert_eq!(id(0), id(DUSK - 1));
    assert_ne!(id(0), id(DUSK));
    let open = Scene::weighted("a b").scheduled("da");
    assert_eq!(open.runtime_at("u u", 0).id(), open.runtime("u u").id());
    let (day, night) = (scene.runtime_at("u u", 0), scene.runtime_at("u u", DUSK));
    assert_eq!((scene.later(&day, DUSK).id(), scene.later(&night, 0).id()), (night.id(), day.id()));
}

/// Returns the clusters of an answer, by number.
fn answered(scene: &Scene, kind: Kind, choice: &Choice) -> Vec<u8> {
    let mut numbers = choice.members.as_slice().to_vec();
    let Kind::Addresses(family) = kind else { return numbers };
    let Answer::Set(set) = choice.answer else { return numbers };
    if Some(set) == scene.steer.fallback_set(family) {
        return numbers;
    }
    let sets = scene.steer.sets(family);
    let of =
        |number: u8| sets[usize::from(set)].iter().any(|a| scene.steer.addresses(number, family).any(|own| own == *a));
    numbers.extend((0..scene.pool.members.len() as u8).filter(|number| of(*number)));
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A closed member is treated like a drained one: never answered, for any health, override, share or down answer.
    #[test]
    fn closed_member_chooses_like_drained_one(
        (plain, states) in scene(), letters in "[dna]{13}", night in any::<bool>(), client in any::<u32>(),
        load in any::<bool>(), cname in any::<bool>(), draw in any::<u64>(),
    ) {
        let mut pool = plain.pool.clone();
        pool.policy.load = load;
        pool.mode = if cname { AnswerMode::Cname } else { AnswerMode::Address };
        if cname && matches!(pool.down, DownAnswer::FallbackAddresses(_)) {
            pool.down = DownAnswer::All;
        }
        let plain = plain.recompiled(pool);
        let scene = plain.scheduled(&letters);
        let closed = |at: usize| letters.as_bytes()[at] == if night { b'd' } else { b'n' };
        let taken_out: Vec<&str> =
            states.split(' ').enumerate().map(|(at, state)| if closed(at) { "x" } else { state }).collect();
        let runtime = scene.runtime_at(&states, if night { DUSK } else { 0 });
        let expected = plain.runtime(&taken_out.join(" "));
        let shares = "a:100 c:100 b:20";
        let (runtime, expected) = (scene.balanced(&runtime, shares), plain.balanced(&expected, shares));
        let kinds = if cname { vec![Kind::Cname] } else { vec![Kind::V4, Kind::V6] };
        for kind in kinds {
            let client = scene.steer.client_net(std::net::Ipv4Addr::from_bits(client).into());
            let choice = scene.steer.choose(kind, &runtime, client, Draw(draw), &mut ());
            prop_assert_eq!(choice, plain.steer.choose(kind, &expected, client, Draw(draw), &mut ()));
            let numbers = answered(&scene, kind, &choice);
            prop_assert!(!numbers.iter().any(|number| closed(usize::from(*number))), "{:?} of {}", choice, letters);
            let explanation = scene.steer.explain(kind, &runtime, client, Draw(draw));
            for (at, member) in explanation.members.iter().enumerate().filter(|(at, _)| closed(*at)) {
                prop_assert!(matches!(member.reason, Reason::Closed | Reason::LacksFamily), "{}: {:?}", at, member);
            }
            if let (Kind::Addresses(family), false) = (kind, scene.snapshot.targets.schedules.is_empty()) {
                prop_assert_eq!(scene.steer.choose_fast(family, &runtime, client, Draw(draw)), None);
            }
        }
    }
}

#[test]
fn pool_with_schedules_has_no_fast_path() {
    let fast_path = |scene: &Scene| {
        let runtime = scene.runtime_at("u u", DUSK);
        scene.steer.choose_fast(Family::V4, &runtime, scene.steer.client_net(network(7)), Draw(0)).is_some()
    };
    assert!(fast_path(&Scene::weighted("a b")) && !fast_path(&Scene::weighted("a b").scheduled("da")));
}
