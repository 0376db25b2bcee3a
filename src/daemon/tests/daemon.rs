//! Answers, state and commands of the daemon.

use std::net::UdpSocket;

use super::*;
use crate::daemon::{Daemon, Options, StartError};
use fairway_api_types::{
    client::{Client, ClientError, ExplainQuery, Reach},
    overrides_wire::{NewOverride, OverrideParameters, OverrideState},
};

pub(super) async fn start(scene: &Scene) -> Daemon {
    Daemon::start(options(scene)).await.unwrap()
}

pub(super) fn options(scene: &Scene) -> Options {
    let data = scene.data().display().to_string();
    let environment: Environment = Arc::new(move |name| (name == "FAIRWAY_DATA_DIR").then(|| data.clone()));
    Options { signals: false, workers: Some(1), environment, ..Options::new(Source::Path(scene.file())) }
}

pub(super) fn always() -> String {
    config("type: always")
}

/// Query for the A records of shop.gslb.example.
const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04shop\x04gslb\x07example\x00\x00\x01\x00\x01";

fn ask(address: std::net::SocketAddr) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(QUERY, address).unwrap();
    let mut answer = vec![0; 1232];
    let length = socket.recv(&mut answer).unwrap();
    answer.truncate(length);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_answers_shows_its_state_and_stops() {
    let scene = Scene::new(&always());
    let daemon = start(&scene).await;
    let answer = ask(daemon.dns_addresses()[0]);
    assert!(answer.ends_with(&[127, 0, 0, 1]) && answer[3] & 15 == 0, "{answer:?}");
    let http = Client::new(Reach::Http(daemon.http_address().unwrap()));
    let state = http.state().await.unwrap();
    assert!(state.ready && state.listeners.len() == 3 && state.pools[0].members[0].eligibility == "up", "{state:#?}");
    assert_eq!(http.version().await.unwrap().pid, std::process::id());
    let query = ExplainQuery { name: "shop.gslb.example".to_owned(), ..ExplainQuery::default() };
    let explanation = http.explain(&query).await.unwrap();
    assert_eq!((explanation.rcode.as_str(), explanation.answer[0].data.as_str()), ("NOERROR", "127.0.0.1"));
    let metrics = http.metrics().await.unwrap();
    for line in [
        "fairway_queries_total{transport=\"udp\",family=\"ipv4\"} 1",
        "fairway_responses_total{rcode=\"NOERROR\"} 1",
        "fairway_answers_total{pool=\"shop\",cluster=\"eu1\"} 1",
        "fairway_targets{status=\"up\"} 2",
        "fairway_pool_members{pool=\"shop\",eligibility=\"up\"} 2",
        "fairway_ready 1",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
    let address = daemon.dns_addresses()[0];
    daemon.stop().await;
    until("free port", async || UdpSocket::bind(address).is_ok()).await;
    let error = http.state().await.unwrap_err().to_string();
    assert!(error.starts_with("cannot connect to "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_during_a_drain_are_counted() {
    let scene = Scene::new(&always());
    let daemon = start(&scene).await;
    let (address, shared) = (daemon.dns_addresses()[0], Arc::clone(daemon.control().shared()));
    ask(address);
    let counters = daemon.server.counters().clone();
    ask(address);
    daemon.stop().await;
    let (tallies, udp) = (shared.queries.sums(), counters.stats().udp);
    assert_eq!((tallies.queries, tallies.rcodes[0]), ([2, 0, 0, 0], 2));
    assert_eq!((udp.received, udp.answered), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_a_pool_is_in_the_metrics() {
    let (gateway, port) = gateway();
    let monitor = config(&format!("type: tcp, port: {port}, period: 200ms, timeout: 100ms, rise: 1, fall: 1"));
    let scene = Scene::new(&monitor.replace("policy: failover", "policy: failover, panicThreshold: 60%"));
    let daemon = start(&scene).await;
    let http = Client::new(Reach::Http(daemon.http_address().unwrap()));
    let shows = async |value: u8| {
        let row = format!("fairway_pool_panic{{pool=\"shop\"}} {value}");
        http.metrics().await.is_ok_and(|text| text.lines().any(|line| line == row))
    };
    until("panic while half of the weight is up", async || shows(1).await).await;
    drop(gateway);
    until("end of the panic when nothing is up", async || shows(0).await).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_work_on_the_control_socket_and_on_loopback() {
    let scene = Scene::new(&always());
    let daemon = start(&scene).await;
    let socket = Client::new(Reach::of_data_dir(&scene.data()));
    let http = Client::new(Reach::Http(daemon.http_address().unwrap()));
    let new = NewOverride {
        scope: "eu1".to_owned(),
        action: "drain".to_owned(),
        reason: "planned work".to_owned(),
        for_secs: 60,
        ..NewOverride::default()
    };
    let assert_rejected = |outcome: Result<_, ClientError>, expected: u16| match outcome {
        Err(ClientError::Refused { status, problem, .. }) => {
            assert_eq!((status, problem.status), (expected, expected), "{problem:?}");
        }
        other => panic!("{other:?}"),
    };
    assert_rejected(http.stop().await.map(|()| unreachable!("stop must be rejected over HTTP")), 404);
    assert!(http.reload(false).await.unwrap().accepted);
    let none = OverrideParameters::default();
    let here = http.add_override(&new, none).await.unwrap();
    http.remove_override(&here.id.unwrap()).await.unwrap();
    assert_rejected(socket.add_override(&NewOverride { for_secs: 0, ..new.clone() }, none).await, 400);
    assert_rejected(
        socket.add_override(&NewOverride { action: "sideways".to_owned(), ..new.clone() }, none).await,
        400,
    );
    assert_rejected(socket.add_override(&NewOverride { reason: "x".repeat(20 << 10), ..new.clone() }, none).await, 413);
    assert_rejected(socket.remove_override("none").await, 404);
    let added = OverrideState { effect: None, ..socket.add_override(&new, none).await.unwrap() };
    assert!(ask(daemon.dns_addresses()[0]).ends_with(&[127, 0, 0, 2]), "answer while eu1 is drained");
    assert_eq!(http.state().await.unwrap().overrides, std::slice::from_ref(&added));
    socket.remove_override(&added.id.unwrap()).await.unwrap();
    assert!(ask(daemon.dns_addresses()[0]).ends_with(&[127, 0, 0, 1]));
    assert!(socket.reload(false).await.unwrap().accepted);
    socket.stop().await.unwrap();
    tokio::time::timeout(PATIENCE, daemon.run_until_stopped()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_daemon_on_a_data_folder_fails_and_names_the_first() {
    let scene = Scene::new(&always());
    let daemon = start(&scene).await;
    let error = Daemon::start(options(&scene)).await.err().unwrap();
    assert!(matches!(&error, StartError::Folder(_)) && error.to_string().contains("process id"), "{error}");
    daemon.stop().await;
    start(&scene).await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_file_is_loaded_automatically() {
    let scene = Scene::new(&always());
    let daemon = start(&scene).await;
    scene.write(&always().replace("{ cluster: eu1 }, ", ""));
    let control = daemon.control().clone();
    until("new configuration", async || fairway_api::state(&control).await.is_ok_and(|s| s.config.number == 2)).await;
    assert!(ask(daemon.dns_addresses()[0]).ends_with(&[127, 0, 0, 2]));
    let last = fairway_api::state(&control).await.unwrap().config.last_reload.unwrap();
    assert_eq!((last.trigger.as_str(), last.accepted), ("files", true));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_with_an_invalid_configuration_reports_all_errors() {
    let scene = Scene::new(&always().replace("cluster: eu1", "cluster: e9").replace("cluster: us1", "cluster: u9"));
    let Err(StartError::Config(errors)) = Daemon::start(options(&scene)).await else { panic!("the start must fail") };
    assert_eq!(errors.iter().filter(|error| error.fact.contains("not declared")).count(), 2, "{errors:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_answers_without_a_gap_and_keeps_overrides() {
    let (dns, http) = (gateway().1, gateway().1);
    let listen = format!("dns: [\"127.0.0.1:{dns}\"], http: \"127.0.0.1:{http}\"");
    let scene = Scene::new(&always().replace("dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\"", &listen));
    let old = start(&scene).await;
    let address = old.dns_addresses()[0];
    let socket = Client::new(Reach::of_data_dir(&scene.data()));
    let new = NewOverride {
        scope: "eu1".to_owned(),
        action: "drain".to_owned(),
        reason: "planned work".to_owned(),
        for_secs: 60,
        ..NewOverride::default()
    };
    let added = socket.add_override(&new, OverrideParameters::default()).await.unwrap();
    let added = OverrideState { effect: None, ..added };
    let (stop, asking) = (Arc::new(AtomicU64::new(0)), std::sync::mpsc::channel());
    let asker = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || {
            while stop.load(Relaxed) == 0 {
                asking.0.send(ask(address).ends_with(&[127, 0, 0, 2])).unwrap();
            }
        })
    };
    let old = tokio::spawn(old.run_until_stopped());
    let new = Daemon::start(Options { replace: true, ..options(&scene) }).await.unwrap();
    tokio::time::timeout(PATIENCE, old).await.unwrap().unwrap();
    stop.store(1, Relaxed);
    asker.await.unwrap();
    assert!(asking.1.try_iter().all(|is_right| is_right), "every query must be answered with us1");
    assert_eq!(socket.state().await.unwrap().overrides, std::slice::from_ref(&added));
    socket.remove_override(&added.id.unwrap()).await.unwrap();
    assert!(!fs::read_to_string(scene.data().join("overrides.json")).unwrap().contains("planned work"));
    assert!(ask(address).ends_with(&[127, 0, 0, 1]));
    assert!(Client::new(Reach::Http(new.http_address().unwrap())).state().await.unwrap().ready);
    new.stop().await;
    until("free lock", async || fairway_store::DataFolder::open(&scene.data()).is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_of_nothing_is_an_ordinary_start() {
    let scene = Scene::new(&always());
    let daemon = Daemon::start(Options { replace: true, ..options(&scene) }).await.unwrap();
    assert!(ask(daemon.dns_addresses()[0]).ends_with(&[127, 0, 0, 1]));
    daemon.stop().await;
}

#[test]
fn manual_lists_every_metric() {
    let manual = include_str!("../../../docs/operations/metrics.md");
    let help = include_str!("../../../crates/api/src/metrics/help.tsv");
    let names = help.lines().filter_map(|line| line.split('\t').next());
    let missing: Vec<_> = names.filter(|name| !manual.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/operations/metrics.md lacks {missing:#?}");
}
