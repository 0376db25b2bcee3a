//! Tests of the load table.

use std::{sync::Arc, time::Duration};

use fairway_model::{
    ClusterName, Load, LoadEndpoint, LoadQuery, LoadSignal, LoadSource, LoadSourceName, LoadUnit, ProbeAddress,
};
use tokio::time::Instant;

use crate::load::{
    error::ReadError,
    gateway::{GatewayMetrics, GatewayWarning},
    state::{LoadStatus, SourceLoad},
    table::{ClusterLoadSettings, LoadAmount, LoadEvent, LoadTable, PushError, PushedLoad, TableUpdate},
};

const PERIOD: Duration = Duration::from_secs(10);

fn gateways_source() -> LoadSource {
    let at = LoadEndpoint::Gateways { port: 15090, path: "/stats/prometheus".into() };
    LoadSource::new(LoadQuery::Prometheus { endpoint: at, signal: None, metric: None, overload_at: 95 })
}

fn settings(cluster: &str, source: Option<LoadSource>, gateways: u8) -> ClusterLoadSettings {
    ClusterLoadSettings {
        cluster: ClusterName::new(cluster).unwrap(),
        capacity: 100.try_into().ok(),
        source: source.map(|source| (LoadSourceName::new("gw").unwrap(), Arc::new(source))),
        gateways: (0..gateways).map(|n| ProbeAddress::Address([192, 0, 2, n].into())).collect::<Vec<_>>().into(),
    }
}

struct TableTest {
    table: LoadTable,
    now: Instant,
}

impl TableTest {
    fn new(settings: Vec<ClusterLoadSettings>) -> Self {
        let mut table = LoadTable::default();
        table.set(settings);
        Self { table, now: Instant::now() }
    }

    fn of(gateways: u8) -> Self {
        Self::new(vec![settings("eu1", Some(gateways_source()), gateways)])
    }

    fn advance(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }

    fn record(&mut self, results: Vec<Result<GatewayMetrics, ReadError>>) -> TableUpdate {
        self.table.record(&ClusterName::new("eu1").unwrap(), (results, false), self.now, self.now)
    }

    fn push(&mut self, amount: LoadAmount, sequence: u64, secs: u64) -> Result<TableUpdate, PushError> {
        let push = PushedLoad { amount, sequence: Some(sequence), valid_for: Duration::from_secs(secs) };
        self.table.push("eu1", push, self.now)
    }

    fn sources(&self) -> Vec<SourceLoad> {
        self.table.states(self.now).pop().map(|state| state.sources).unwrap_or_default()
    }

    fn statuses(&self) -> Vec<LoadStatus> {
        self.sources().iter().map(|source| source.status).collect()
    }
}

fn in_flight(requests: u32) -> Result<GatewayMetrics, ReadError> {
    Ok(GatewayMetrics { in_flight: Some(requests.into()), connections: Some(50.0), ..GatewayMetrics::default() })
}

fn late() -> Result<GatewayMetrics, ReadError> {
    Err(ReadError::Late(Duration::from_secs(4)))
}

fn warned(warnings: Vec<GatewayWarning>) -> Result<GatewayMetrics, ReadError> {
    Ok(GatewayMetrics { connections: Some(1.0), warnings, ..GatewayMetrics::default() })
}

fn permille(update: &TableUpdate) -> Option<u32> {
    Some(update.load.as_ref()?.report.as_ref()?.load.0)
}

#[test]
fn gateways_are_added_to_permille_of_the_capacity() {
    let mut test = TableTest::of(2);
    let first = test.record(vec![in_flight(20), in_flight(30)]);
    let load = first.load.unwrap();
    let report = load.report.unwrap();
    assert_eq!((report.load, report.signal), (Load(500), LoadSignal::InFlight));
    assert_eq!((report.sequence, load.period, load.is_exhausted), (1, PERIOD, Some(false)));
    assert_eq!(first.events, [LoadEvent::Succeeded(LoadSignal::InFlight, Load(500))]);
    let second = test.record(vec![in_flight(20), in_flight(31)]);
    assert_eq!(
        (permille(&second), second.load.unwrap().report.unwrap().sequence, second.events),
        (Some(510), 2, vec![])
    );
}

#[test]
fn silent_gateway_counts_for_three_periods() {
    let mut test = TableTest::of(2);
    test.record(vec![in_flight(20), in_flight(30)]);
    test.advance(10);
    let silent = test.record(vec![in_flight(20), late()]);
    assert_eq!(
        (permille(&silent), silent.events),
        (Some(500), vec![LoadEvent::AnsweringGateways { answering: 1, total: 2 }])
    );
    test.advance(20);
    assert_eq!(permille(&test.record(vec![in_flight(20), late()])), Some(500));
    test.advance(1);
    assert_eq!(permille(&test.record(vec![in_flight(20), late()])), Some(200));
    assert_eq!(test.sources()[0].gateways, Some((1, 2)));
}

#[test]
fn load_is_stale_after_three_periods_without_a_response() {
    let mut test = TableTest::of(1);
    test.record(vec![in_flight(20)]);
    test.advance(30);
    let silent = test.record(vec![late()]);
    assert_eq!(silent.events, [LoadEvent::Failed("no complete response within 4s".to_owned())]);
    assert_eq!((permille(&silent), test.statuses()), (None, vec![LoadStatus::Used]));
    test.advance(1);
    assert_eq!(test.record(vec![late()]).events, [], "a failure is logged once");
    let source = test.sources().remove(0);
    assert_eq!((source.status, source.load), (LoadStatus::Stale, Some((Load(200), LoadSignal::InFlight))));
    assert_eq!(test.record(vec![in_flight(30)]).events, [LoadEvent::Succeeded(LoadSignal::InFlight, Load(300))]);
}

#[test]
fn worse_signal_is_used_after_three_periods_without_the_better() {
    let mut test = TableTest::of(1);
    let connections = || Ok(GatewayMetrics { connections: Some(80.0), ..GatewayMetrics::default() });
    test.record(vec![in_flight(20)]);
    test.advance(10);
    let held = test.record(vec![connections()]);
    assert_eq!(permille(&held), None);
    assert_eq!(
        held.events,
        [LoadEvent::Failed("signal inFlight is missing, and connections is not comparable".to_owned())]
    );
    test.advance(21);
    let changed = test.record(vec![connections()]);
    assert_eq!(
        (permille(&changed), changed.events),
        (Some(800), vec![LoadEvent::Succeeded(LoadSignal::Connections, Load(800))])
    );
    test.advance(10);
    assert_eq!(permille(&test.record(vec![in_flight(10)])), Some(100), "a better signal is used at once");
}

#[test]
fn counter_read_once_is_neither_load_nor_failure() {
    let mut test = TableTest::of(1);
    let requests = |requests| Ok(GatewayMetrics { requests: Some(requests), ..GatewayMetrics::default() });
    let first = test.record(vec![requests(1e6)]);
    assert_eq!((first.load.and_then(|load| load.report), first.events), (None, vec![]));
    assert_eq!((test.statuses(), test.sources()[0].failure.clone()), (vec![LoadStatus::Unknown], None));
    test.advance(10);
    let second = test.record(vec![requests(1e6 + 200.0)]);
    let report = second.load.and_then(|load| load.report);
    assert_eq!(report.map(|report| (report.load.0, report.signal)), Some((200, LoadSignal::RequestRate)));
    test.advance(10);
    let reset = test.record(vec![requests(5.0)]);
    assert_eq!((reset.load.and_then(|load| load.report), reset.events), (None, vec![]), "the counter was reset");
}

#[test]
fn valid_push_takes_precedence_over_readings() {
    let mut test = TableTest::of(1);
    test.record(vec![in_flight(20)]);
    let pushed = test.push(LoadAmount::Used(90), 1, 30).unwrap();
    let load = pushed.load.unwrap();
    let report = load.report.unwrap();
    assert_eq!((report.load.0, report.sequence, load.period, load.is_exhausted), (900, 2, PERIOD, None));
    assert_eq!(permille(&test.record(vec![in_flight(25)])), None, "a reading is not used while a push is valid");
    assert_eq!(test.statuses(), [LoadStatus::Used, LoadStatus::Unused]);
    test.advance(30);
    assert_eq!(test.statuses(), [LoadStatus::Stale, LoadStatus::Used]);
    assert_eq!(permille(&test.record(vec![in_flight(25)])), Some(250));
}

#[test]
fn push_out_of_order_is_rejected_until_the_last_expires() {
    let mut test = TableTest::of(1);
    test.push(LoadAmount::Permille(700), 5, 30).unwrap();
    for given in [5, 4, 0] {
        assert_eq!(test.push(LoadAmount::Permille(1), given, 30), Err(PushError::Sequence { given, last: 5 }));
    }
    assert_eq!(test.sources()[0].load, Some((Load(700), LoadSignal::Declared)));
    assert_eq!(permille(&test.push(LoadAmount::Permille(900), 6, 30).unwrap()), Some(900));
    test.advance(30);
    assert_eq!(
        permille(&test.push(LoadAmount::Permille(100), 1, 30).unwrap()),
        Some(100),
        "the sequence starts again after the push expired"
    );
}

#[test]
fn invalid_push_changes_nothing() {
    let bare = ClusterLoadSettings { capacity: None, ..settings("eu1", None, 1) };
    let mut test = TableTest::new(vec![bare, settings("us1", None, 1)]);
    let push = PushedLoad { amount: LoadAmount::Used(1), sequence: None, valid_for: PERIOD };
    let unknown = test.table.push("eu2", push, test.now).unwrap_err();
    assert_eq!(unknown.to_string(), "cluster eu2 is not declared; did you mean eu1?");
    let no_capacity = test.table.push("eu1", push, test.now).unwrap_err();
    assert!(no_capacity.to_string().starts_with("cluster eu1 has no capacity"), "{no_capacity}");
    assert_eq!(test.table.states(test.now), []);
    assert_eq!(permille(&test.push(LoadAmount::Permille(u32::MAX), 1, 30).unwrap()), Some(Load::MAX.0));
}

#[test]
fn cluster_is_exhausted_if_all_answering_gateways_are() {
    let mut test = TableTest::of(2);
    let drains = || warned(vec![GatewayWarning::Draining]);
    let fine = || warned(vec![GatewayWarning::CertificateEnds(3)]);
    let update = test.record(vec![drains(), fine()]);
    assert_eq!(update.load.unwrap().is_exhausted, Some(false));
    assert!(
        update
            .events
            .contains(&LoadEvent::WarningsChanged(vec![GatewayWarning::CertificateEnds(3), GatewayWarning::Draining]))
    );
    let all = test.record(vec![drains(), warned(vec![GatewayWarning::Overloaded("heap is 97".into())])]);
    assert!(all.load.unwrap().is_exhausted == Some(true) && test.table.states(test.now)[0].is_exhausted);
    let same = test.record(vec![drains(), warned(vec![GatewayWarning::Overloaded("heap is 98".into())])]);
    assert_eq!(same.events, [], "a change of a pressure is not logged");
    assert!(test.record(vec![drains(), late()]).load.unwrap().is_exhausted == Some(true));
    let over = test.record(vec![warned(vec![]), warned(vec![])]);
    assert!(
        over.load.unwrap().is_exhausted == Some(false) && over.events.contains(&LoadEvent::WarningsChanged(vec![]))
    );
}

#[test]
fn cluster_is_exhausted_without_any_load_to_report() {
    let drains = || vec![warned(vec![GatewayWarning::Draining])];
    let bare = ClusterLoadSettings { capacity: None, ..settings("eu1", Some(gateways_source()), 1) };
    let mut no_capacity = TableTest::new(vec![bare]);
    let update = no_capacity.record(drains()).load.unwrap();
    assert_eq!((update.report, update.is_exhausted), (None, Some(true)));
    assert_eq!(no_capacity.record(vec![late()]).load, None, "no gateway answered");
    let mut pushed = TableTest::of(1);
    pushed.push(LoadAmount::Used(50), 1, 30).unwrap();
    let update = pushed.record(drains()).load.unwrap();
    assert_eq!((update.report, update.is_exhausted, update.period), (None, Some(true), PERIOD));
}

#[test]
fn unchanged_clusters_keep_their_loads() {
    let mut test = TableTest::of(1);
    test.record(vec![in_flight(20)]);
    test.table.set(vec![settings("eu1", Some(gateways_source()), 1), settings("us1", None, 1)]);
    assert_eq!(test.statuses(), [LoadStatus::Used]);
    test.push(LoadAmount::Used(50), 7, 30).unwrap();
    let other_unit = LoadSource { unit: LoadUnit::Permille, ..gateways_source() };
    test.table.set(vec![settings("eu1", Some(other_unit), 1)]);
    assert_eq!(test.statuses(), [LoadStatus::Used, LoadStatus::Unknown]);
    let pushed = test.push(LoadAmount::Used(50), 8, 30).unwrap().load.unwrap();
    assert_eq!(pushed.report.unwrap().sequence, 3, "the sequence of reports continues");
    test.table.set(vec![]);
    assert_eq!(test.table.states(test.now), []);
}
