//! Members that open and close by a clock that the test sets.

use fairway_model::{AdaptiveTtl, Risk};
use fairway_zones::steer::{Basis, Kind};

use super::*;

/// 2026-11-20T12:00:00Z, a Friday.
const NOON: u64 = 1_795_176_000;
const HOUR: Duration = Duration::from_secs(3600);

/// `eu1` by day in Berlin, `us1` always and second.
fn hours(to: &str) -> String {
    config("type: always").replace("policy: failover", "policy: [schedule, failover]").replace(
        "{ cluster: eu1 }",
        &format!(
            "{{ cluster: eu1, open: [ {{ days: mon-fri, from: \"08:00\", to: \"{to}\", zone: Europe/Berlin }} ] }}"
        ),
    )
}

fn at_noon(config: &str) -> Scene {
    let scene = Scene::new(config);
    scene.clock.store(NOON, Relaxed);
    scene
}

/// Who is answered.
fn answered(control: &Control) -> String {
    let view = control.shared.serving.load();
    let pool = &view.snapshot.steer_pools()[0];
    let client = pool.client_net("198.51.100.7".parse().unwrap());
    let choice = pool.choose(Kind::V4, &view.runtime, client, fairway_zones::Draw(0), &mut ());
    assert!(matches!(choice.basis, Basis::Live | Basis::Pending), "{choice:?}");
    pool.clusters().nth(choice.members.as_slice()[0].into()).unwrap().to_string()
}

/// Closed, opened: as often as it was told.
fn turns(control: &Control) -> [u64; 2] {
    [0, 1].map(|to: usize| control.shared.counts.turns[to].load(Relaxed))
}

#[tokio::test]
async fn the_ttl_is_short_before_a_member_turns_and_no_answer_is_kept_from_before_that() {
    let bounds = "policy: [schedule, failover], ttl: 60s, ttlMin: 5s, ttlMax: 300s";
    let scene = at_noon(&hours("20:00").replace("policy: [schedule, failover]", bounds));
    let (control, mut actor) = scene.actor().await;
    let pace = || control.shared.serving.load().runtime.pace(0);
    // 20:00 in Berlin is 19:00 UTC.
    scene.pass(7 * HOUR - Duration::from_secs(302));
    actor.keep_pace();
    assert_eq!(pace(), AdaptiveTtl::Declared);
    scene.pass(Duration::from_secs(1));
    actor.keep_pace();
    assert_eq!(pace(), AdaptiveTtl::Risky(Risk::ScheduleTransition));
    scene.pass(Duration::from_secs(301));
    actor.follow_schedules();
    actor.keep_pace();
    assert_eq!((answered(&control).as_str(), pace()), ("us1", AdaptiveTtl::Risky(Risk::Recent)));
}

#[tokio::test]
async fn a_member_closes_and_opens_with_the_clock_and_with_one_that_is_set_back() {
    let scene = at_noon(&hours("20:00"));
    let (control, mut actor) = scene.actor().await;
    let day = control.shared.serving.load().runtime.id();
    assert_eq!(answered(&control), "eu1");
    scene.pass(7 * HOUR - Duration::from_secs(1));
    actor.follow_schedules();
    assert_eq!((answered(&control).as_str(), turns(&control)), ("eu1", [0, 0]));
    scene.pass(Duration::from_secs(1));
    actor.follow_schedules();
    assert_eq!((answered(&control).as_str(), turns(&control)), ("us1", [1, 0]));
    scene.step_back(HOUR);
    actor.follow_schedules();
    assert_eq!((answered(&control).as_str(), turns(&control)), ("eu1", [1, 1]));
    assert_eq!(control.shared.serving.load().runtime.id(), day);
    // On Sunday, without a look between.
    scene.pass(48 * HOUR);
    actor.follow_schedules();
    assert_eq!((answered(&control).as_str(), turns(&control)), ("us1", [2, 1]));
    scene.pass(13 * HOUR);
    actor.follow_schedules();
    assert_eq!((answered(&control).as_str(), turns(&control)), ("eu1", [2, 2]));
}

#[tokio::test]
async fn nothing_is_published_while_nobody_opens_or_closes() {
    let scene = at_noon(&hours("20:00"));
    let (control, mut actor) = scene.actor().await;
    let before = control.shared.serving.load();
    for _ in 0..100 {
        scene.pass(Duration::from_secs(60));
        actor.follow_schedules();
    }
    assert!(Arc::ptr_eq(&before, &control.shared.serving.load()));
}

#[tokio::test]
async fn a_closed_member_is_not_answered_from_the_first_view_on() {
    let scene = at_noon(&hours("13:00"));
    let (control, _actor) = scene.actor().await;
    assert_eq!((answered(&control).as_str(), turns(&control)), ("us1", [0, 0]));
}

#[tokio::test]
async fn a_reload_closes_and_opens_with_its_first_view() {
    let scene = at_noon(&hours("20:00"));
    let (control, running) = scene.run().await;
    assert_eq!(answered(&control), "eu1");
    scene.write(&hours("13:00"));
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(answered(&control), "us1");
    scene.write(&hours("14:00"));
    assert!(control.reload().await.unwrap().accepted);
    assert_eq!(answered(&control), "eu1");
    // Past 14:00 the running task sees it by itself.
    scene.pass(HOUR);
    until("eu1 closed", async || answered(&control) == "us1").await;
    running.abort();
}

#[tokio::test]
async fn force_does_not_open_a_member_and_the_state_tells_when_it_does() {
    let scene = at_noon(&hours("13:00"));
    let (control, running) = scene.run().await;
    let up = fairway_model::Override::new(
        "eu1".parse().unwrap(),
        fairway_model::OverrideAction::Up,
        "test",
        scene.now().plus(HOUR),
        scene.now(),
    );
    control.add_override(up.unwrap()).await.unwrap();
    assert_eq!(answered(&control), "us1");
    let member = &control.state().await.unwrap().pools[0].members[0];
    let told = "closed: opens 2026-11-23T08:00:00+01:00[Europe/Berlin]";
    assert_eq!((member.eligibility.as_str(), member.schedule.as_deref()), ("closed", Some(told)));
    running.abort();
}
