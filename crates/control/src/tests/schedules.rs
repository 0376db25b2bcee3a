//! Members that open and close by a clock that the test sets.

use fairway_model::{AdaptiveTtl, ClusterName, Risk};
use fairway_zones::steer::{Basis, Kind};

use super::*;
use crate::runtime::Event;

/// 2026-11-20T12:00:00Z, a Friday.
const NOON: u64 = 1_795_176_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Returns a configuration with `eu1` open by day in Berlin, and `us1` as the second member, always open.
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

/// Returns the cluster in the answer.
fn answered(control: &Control) -> String {
    let state = control.shared.serving.load();
    let pool = &state.snapshot.steer_pools()[0];
    let client = pool.client_net("198.51.100.7".parse().unwrap());
    let choice = pool.choose(Kind::V4, &state.runtime, client, fairway_zones::Draw(0), &mut ());
    assert!(matches!(choice.basis, Basis::Live | Basis::Pending), "{choice:?}");
    pool.clusters().nth(choice.members.as_slice()[0].into()).unwrap().to_string()
}

/// Returns how often members were closed and opened.
fn transitions(control: &Control) -> [u64; 2] {
    let counts = &control.shared.counts;
    [&counts.schedules_closed, &counts.schedules_opened].map(|counter| counter.load(Relaxed))
}

#[tokio::test]
async fn ttl_is_short_before_a_schedule_transition() {
    let bounds = "policy: [schedule, failover], ttl: 60s, ttlMin: 5s, ttlMax: 300s";
    let scene = at_noon(&hours("20:00").replace("policy: [schedule, failover]", bounds));
    let (control, mut actor) = scene.actor().await;
    let ttl = || control.shared.serving.load().runtime.adaptive_ttl(0);
    // 20:00 in Berlin is 19:00 UTC.
    scene.advance(7 * HOUR - Duration::from_secs(302));
    actor.apply(Event::Second);
    assert_eq!(ttl(), AdaptiveTtl::Declared);
    scene.advance(Duration::from_secs(1));
    actor.apply(Event::Second);
    assert_eq!(ttl(), AdaptiveTtl::Risky(Risk::ScheduleTransition));
    scene.advance(Duration::from_secs(301));
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), ttl()), ("us1", AdaptiveTtl::Risky(Risk::Recent)));
}

#[tokio::test]
async fn members_close_and_open_with_the_clock_also_if_it_is_set_back() {
    let scene = at_noon(&hours("20:00"));
    let (control, mut actor) = scene.actor().await;
    let day = control.shared.serving.load().runtime.id();
    assert_eq!(answered(&control), "eu1");
    scene.advance(7 * HOUR - Duration::from_secs(1));
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("eu1", [0, 0]));
    scene.advance(Duration::from_secs(1));
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("us1", [1, 0]));
    scene.set_back(HOUR);
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("eu1", [1, 1]));
    assert_eq!(control.shared.serving.load().runtime.id(), day);
    // On Sunday, without an event in between.
    scene.advance(48 * HOUR);
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("us1", [2, 1]));
    scene.advance(13 * HOUR);
    actor.apply(Event::Second);
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("eu1", [2, 2]));
}

#[tokio::test]
async fn nothing_is_published_while_no_member_opens_or_closes() {
    let scene = at_noon(&hours("20:00"));
    let (control, mut actor) = scene.actor().await;
    let before = control.shared.serving.load();
    for _ in 0..100 {
        scene.advance(Duration::from_secs(60));
        actor.apply(Event::Second);
    }
    assert!(Arc::ptr_eq(&before, &control.shared.serving.load()));
}

#[tokio::test]
async fn closed_member_is_not_answered_after_the_start() {
    let scene = at_noon(&hours("13:00"));
    let (control, _actor) = scene.actor().await;
    assert_eq!((answered(&control).as_str(), transitions(&control)), ("us1", [0, 0]));
}

#[tokio::test]
async fn reload_closes_and_opens_members() {
    let scene = at_noon(&hours("20:00"));
    let (control, running) = scene.run().await;
    assert_eq!(answered(&control), "eu1");
    scene.write(&hours("13:00"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(answered(&control), "us1");
    scene.write(&hours("14:00"));
    assert!(control.reload().await.unwrap().is_accepted());
    assert_eq!(answered(&control), "eu1");
    // The running task closes it after 14:00.
    scene.advance(HOUR);
    until("eu1 closed", async || answered(&control) == "us1").await;
    running.abort();
}

#[tokio::test]
async fn override_does_not_open_a_closed_member() {
    let scene = at_noon(&hours("13:00"));
    let (control, running) = scene.run().await;
    control.add_override(scene.override_for("eu1", OverrideAction::Up, 3_600)).await.unwrap();
    assert_eq!(answered(&control), "us1");
    let state = control.shared.serving.load();
    let pool = &state.snapshot.pool_infos()[0].name;
    let schedule = state.runtime.schedule(&state.snapshot, pool, &ClusterName::new("eu1").unwrap()).unwrap();
    assert_eq!(schedule.to_string(), "closed: opens 2026-11-23T08:00:00+01:00[Europe/Berlin]");
    running.abort();
}
