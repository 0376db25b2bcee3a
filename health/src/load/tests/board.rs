//! Which word on a cluster's load counts, for how long, and what is told of it.

use std::{sync::Arc, time::Duration};

use fairway_model::{
    ClusterName, Load, LoadEndpoint, LoadQuery, LoadSignal, LoadSource, LoadSourceName, LoadUnit, ProbeAddress,
};
use tokio::time::Instant;

use crate::load::{
    board::{Board, Change, ClusterLoadSettings, Effect, LoadAmount, PushError, PushedLoad},
    failure::ReadError,
    gateway::{GatewayMetrics, GatewayWarning},
    state::{LoadStatus, SourceLoad},
};

const PERIOD: Duration = Duration::from_secs(10);

fn gateways_source() -> LoadSource {
    let at = LoadEndpoint::Gateways { port: 15090, path: "/stats/prometheus".into() };
    LoadSource::new(LoadQuery::Prometheus { endpoint: at, signal: None, metric: None, overload_at: 95 })
}

fn feed(cluster: &str, source: Option<LoadSource>, gateways: u8) -> ClusterLoadSettings {
    ClusterLoadSettings {
        cluster: ClusterName::new(cluster).unwrap(),
        capacity: 100.try_into().ok(),
        source: source.map(|source| (LoadSourceName::new("gw").unwrap(), Arc::new(source))),
        gateways: (0..gateways).map(|n| ProbeAddress::Address([192, 0, 2, n].into())).collect(),
    }
}

struct Scene {
    board: Board,
    now: Instant,
}

impl Scene {
    fn new(feeds: Vec<ClusterLoadSettings>) -> Self {
        let mut board = Board::default();
        board.set(feeds);
        Self { board, now: Instant::now() }
    }

    fn of(gateways: u8) -> Self {
        Self::new(vec![feed("eu1", Some(gateways_source()), gateways)])
    }

    fn pass(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }

    fn look(&mut self, looks: Vec<Result<GatewayMetrics, ReadError>>) -> Effect {
        self.board.looked(&ClusterName::new("eu1").unwrap(), looks, self.now, self.now)
    }

    fn push(&mut self, amount: LoadAmount, sequence: u64, secs: u64) -> Result<Effect, PushError> {
        let push = PushedLoad { amount, sequence: Some(sequence), valid_for: Duration::from_secs(secs) };
        self.board.push("eu1", push, self.now)
    }

    fn words(&self) -> Vec<SourceLoad> {
        self.board.states(self.now).pop().map(|state| state.sources).unwrap_or_default()
    }

    fn standings(&self) -> Vec<LoadStatus> {
        self.words().iter().map(|word| word.status).collect()
    }
}

fn flight(requests: u32) -> Result<GatewayMetrics, ReadError> {
    Ok(GatewayMetrics { in_flight: Some(requests.into()), connections: Some(50.0), ..GatewayMetrics::default() })
}

fn late() -> Result<GatewayMetrics, ReadError> {
    Err(ReadError::Late(Duration::from_secs(4)))
}

fn warned(warnings: Vec<GatewayWarning>) -> Result<GatewayMetrics, ReadError> {
    Ok(GatewayMetrics { connections: Some(1.0), warnings, ..GatewayMetrics::default() })
}

fn load(effect: &Effect) -> Option<u32> {
    effect.news.as_ref().map(|news| news.report.load.0)
}

#[test]
fn gateways_add_up_to_permille_of_the_capacity_and_reports_are_counted() {
    let mut scene = Scene::of(2);
    let first = scene.look(vec![flight(20), flight(30)]);
    let news = first.news.unwrap();
    assert_eq!((news.report.load, news.report.signal), (Load(500), LoadSignal::InFlight));
    assert_eq!((news.report.sequence, news.period, news.is_exhausted), (1, PERIOD, false));
    assert_eq!(first.changes, [Change::Read(LoadSignal::InFlight, Load(500))]);
    let second = scene.look(vec![flight(20), flight(31)]);
    assert_eq!((load(&second), second.news.unwrap().report.sequence, second.changes), (Some(510), 2, vec![]));
}

#[test]
fn a_gateway_that_is_silent_counts_with_its_last_word_for_three_periods() {
    let mut scene = Scene::of(2);
    scene.look(vec![flight(20), flight(30)]);
    scene.pass(10);
    let silent = scene.look(vec![flight(20), late()]);
    assert_eq!((load(&silent), silent.changes), (Some(500), vec![Change::Answering(1, 2)]));
    scene.pass(20);
    assert_eq!(load(&scene.look(vec![flight(20), late()])), Some(500));
    scene.pass(1);
    assert_eq!(load(&scene.look(vec![flight(20), late()])), Some(200));
    assert_eq!(scene.words()[0].gateways, Some((1, 2)));
}

#[test]
fn when_no_gateway_answers_nothing_is_told_and_the_last_word_is_stale_after_three_periods() {
    let mut scene = Scene::of(1);
    scene.look(vec![flight(20)]);
    scene.pass(30);
    let silent = scene.look(vec![late()]);
    assert_eq!(silent.changes, [Change::Unread("no whole answer within 4s".to_owned())]);
    assert_eq!((load(&silent), scene.standings()), (None, vec![LoadStatus::Used]));
    scene.pass(1);
    assert_eq!(scene.look(vec![late()]).changes, [], "a failure is told once");
    let word = scene.words().remove(0);
    assert_eq!((word.status, word.load), (LoadStatus::Stale, Some((Load(200), LoadSignal::InFlight))));
    assert_eq!(scene.look(vec![flight(30)]).changes, [Change::Read(LoadSignal::InFlight, Load(300))]);
}

#[test]
fn a_worse_signal_counts_only_once_the_better_one_was_missing_for_three_periods() {
    let mut scene = Scene::of(1);
    let connections = || Ok(GatewayMetrics { connections: Some(80.0), ..GatewayMetrics::default() });
    scene.look(vec![flight(20)]);
    scene.pass(10);
    let held = scene.look(vec![connections()]);
    assert_eq!(load(&held), None);
    assert_eq!(held.changes, [Change::Unread("no inFlight any more, and connections does not compare".to_owned())]);
    scene.pass(21);
    let changed = scene.look(vec![connections()]);
    assert_eq!((load(&changed), changed.changes), (Some(800), vec![Change::Read(LoadSignal::Connections, Load(800))]));
    scene.pass(10);
    assert_eq!(load(&scene.look(vec![flight(10)])), Some(100), "a better one counts at once");
}

#[test]
fn a_counter_seen_once_tells_nothing_and_is_no_failure() {
    let mut scene = Scene::of(1);
    let requests = |requests| Ok(GatewayMetrics { requests: Some(requests), ..GatewayMetrics::default() });
    assert_eq!(scene.look(vec![requests(1e6)]), Effect::default());
    assert_eq!((scene.standings(), scene.words()[0].failure.clone()), (vec![LoadStatus::Unknown], None));
    scene.pass(10);
    let second = scene.look(vec![requests(1e6 + 200.0)]);
    assert_eq!(second.news.map(|news| (news.report.load.0, news.report.signal)), Some((200, LoadSignal::RequestRate)));
    scene.pass(10);
    assert_eq!(scene.look(vec![requests(5.0)]), Effect::default(), "it was reset");
}

#[test]
fn a_push_counts_before_what_is_read_and_only_while_it_is_valid() {
    let mut scene = Scene::of(1);
    scene.look(vec![flight(20)]);
    let pushed = scene.push(LoadAmount::Used(90), 1, 30).unwrap();
    let news = pushed.news.unwrap();
    assert_eq!((news.report.load.0, news.report.sequence, news.period), (900, 2, PERIOD));
    assert_eq!(load(&scene.look(vec![flight(25)])), None, "it is kept and not told");
    assert_eq!(scene.standings(), [LoadStatus::Used, LoadStatus::Unused]);
    scene.pass(30);
    assert_eq!(scene.standings(), [LoadStatus::Stale, LoadStatus::Used]);
    assert_eq!(load(&scene.look(vec![flight(25)])), Some(250));
}

#[test]
fn a_push_out_of_order_is_refused_until_the_one_before_it_has_ended() {
    let mut scene = Scene::of(1);
    scene.push(LoadAmount::Permille(700), 5, 30).unwrap();
    for given in [5, 4, 0] {
        assert_eq!(scene.push(LoadAmount::Permille(1), given, 30), Err(PushError::Sequence { given, last: 5 }));
    }
    assert_eq!(scene.words()[0].load, Some((Load(700), LoadSignal::Declared)));
    assert_eq!(load(&scene.push(LoadAmount::Permille(900), 6, 30).unwrap()), Some(900));
    scene.pass(30);
    assert_eq!(load(&scene.push(LoadAmount::Permille(100), 1, 30).unwrap()), Some(100), "the pusher was restarted");
}

#[test]
fn a_push_for_an_unknown_cluster_or_without_capacity_changes_nothing() {
    let bare = ClusterLoadSettings { capacity: None, ..feed("eu1", None, 1) };
    let mut scene = Scene::new(vec![bare, feed("us1", None, 1)]);
    let push = PushedLoad { amount: LoadAmount::Used(1), sequence: None, valid_for: PERIOD };
    let unknown = scene.board.push("eu2", push, scene.now).unwrap_err();
    assert_eq!(unknown.to_string(), "cluster eu2 is not declared; did you mean eu1?");
    let no_capacity = scene.board.push("eu1", push, scene.now).unwrap_err();
    assert!(no_capacity.to_string().starts_with("cluster eu1 has no capacity"), "{no_capacity}");
    assert_eq!(scene.board.states(scene.now), []);
    assert_eq!(load(&scene.push(LoadAmount::Permille(u32::MAX), 1, 30).unwrap()), Some(Load::MAX.0));
}

#[test]
fn a_cluster_is_exhausted_when_all_its_gateways_that_answer_are() {
    let mut scene = Scene::of(2);
    let drains = || warned(vec![GatewayWarning::Draining]);
    let fine = || warned(vec![GatewayWarning::CertificateEnds(3)]);
    let effect = scene.look(vec![drains(), fine()]);
    assert!(!effect.news.unwrap().is_exhausted);
    assert!(
        effect.changes.contains(&Change::Warned(vec![GatewayWarning::CertificateEnds(3), GatewayWarning::Draining]))
    );
    let all = scene.look(vec![drains(), warned(vec![GatewayWarning::Overloaded("heap is 97".into())])]);
    assert!(all.news.unwrap().is_exhausted && scene.board.states(scene.now)[0].is_exhausted);
    let same = scene.look(vec![drains(), warned(vec![GatewayWarning::Overloaded("heap is 98".into())])]);
    assert_eq!(same.changes, [], "a pressure that moves is no change");
    assert!(scene.look(vec![drains(), late()]).news.unwrap().is_exhausted);
    let over = scene.look(vec![warned(vec![]), warned(vec![])]);
    assert!(!over.news.unwrap().is_exhausted && over.changes.contains(&Change::Warned(vec![])));
}

#[test]
fn a_changed_wish_keeps_what_was_said_of_clusters_that_are_read_as_before() {
    let mut scene = Scene::of(1);
    scene.look(vec![flight(20)]);
    scene.board.set(vec![feed("eu1", Some(gateways_source()), 1), feed("us1", None, 1)]);
    assert_eq!(scene.standings(), [LoadStatus::Used]);
    scene.push(LoadAmount::Used(50), 7, 30).unwrap();
    let permille = LoadSource { unit: LoadUnit::Permille, ..gateways_source() };
    scene.board.set(vec![feed("eu1", Some(permille), 1)]);
    assert_eq!(scene.standings(), [LoadStatus::Used, LoadStatus::Unknown]);
    let told = scene.push(LoadAmount::Used(50), 8, 30).unwrap().news.unwrap();
    assert_eq!(told.report.sequence, 3, "the balancer's count goes on");
    scene.board.set(vec![]);
    assert_eq!(scene.board.states(scene.now), []);
}
