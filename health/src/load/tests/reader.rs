//! Tests of the load reader with servers on loopback.

use std::net::SocketAddr;

use fairway_model::{Load, LoadEndpoint, LoadMetric, LoadSignal, LoadSource, LoadUnit, LoadUrl, ProbeAddress, Secret};
use tokio::{io::AsyncWriteExt, sync::mpsc, time::timeout};

use super::*;
use crate::{
    load::{
        gateway::GatewayWarning,
        state::{LoadStatus, SourceLoad},
        table::LoadAmount,
    },
    probe::tests::servers::{answering, request, serve, silent, streaming},
};

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns a source that reads each gateway with a short period.
fn gateways() -> LoadSource {
    quick(LoadQuery::Prometheus {
        endpoint: LoadEndpoint::Gateways { port: 1, path: "/stats/prometheus".into() },
        signal: None,
        metric: None,
        overload_at: 95,
    })
}

fn quick(read: LoadQuery) -> LoadSource {
    LoadSource { period: Duration::from_millis(50), timeout: PATIENCE, ..LoadSource::new(read) }
}

fn url(address: SocketAddr, path: &str) -> LoadUrl {
    LoadUrl { https: false, address: ProbeAddress::Socket(address), path: path.to_owned() }
}

fn settings(cluster: &str, source: &LoadSource, gateways: &[SocketAddr]) -> ClusterLoadSettings {
    ClusterLoadSettings {
        cluster: ClusterName::new(cluster).unwrap(),
        capacity: 100.try_into().ok(),
        source: Some((LoadSourceName::new("gw").unwrap(), Arc::new(source.clone()))),
        gateways: gateways.iter().map(|address| ProbeAddress::Socket(*address)).collect::<Vec<_>>().into(),
    }
}

async fn started(settings: Vec<ClusterLoadSettings>) -> (LoadReader, broadcast::Receiver<LoadUpdate>) {
    let reader = LoadReader::start(Arc::default());
    let updates = reader.updates();
    reader.set(settings);
    (reader, updates)
}

async fn next(updates: &mut broadcast::Receiver<LoadUpdate>) -> (String, Load, LoadSignal) {
    loop {
        let update = timeout(PATIENCE, updates.recv()).await.expect("an update in time").expect("the task runs");
        if let Some(report) = update.report {
            return (report.backend.to_string(), report.load, report.signal);
        }
    }
}

/// Returns the load of the only cluster once it satisfies a condition.
async fn source(reader: &LoadReader, is_expected: impl Fn(&SourceLoad) -> bool) -> SourceLoad {
    let look = async {
        loop {
            let source = reader.states().0.pop().map(|mut state| state.sources.remove(0));
            if let Some(source) = source.filter(&is_expected) {
                return source;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, look).await.expect("the condition holds in time")
}

/// Returns the failure of reading a gateway with this response.
async fn failure(answer: impl Into<Vec<u8>>) -> String {
    let (reader, _) = started(vec![settings("eu1", &gateways(), &[answering(answer).await])]).await;
    source(&reader, |source| source.failure.is_some()).await.failure.unwrap()
}

#[tokio::test]
async fn metrics_of_all_gateways_are_one_report() {
    let a = answering(ok("envoy_http_a_downstream_rq_active{} 20\nenvoy_server_live{} 0\n")).await;
    let b = answering(ok("envoy_http_a_downstream_rq_active{} 31\nenvoy_server_live{} 1\n")).await;
    let (reader, mut updates) = started(vec![settings("eu1", &gateways(), &[a, b])]).await;
    assert_eq!(next(&mut updates).await, ("eu1".to_owned(), Load(510), LoadSignal::InFlight));
    let (states, totals) = reader.states();
    assert_eq!(states[0].sources[0].gateways, Some((2, 2)));
    assert_eq!((states[0].warnings.clone(), states[0].is_exhausted), (vec![GatewayWarning::Draining], false));
    assert!(totals.sources["gw"].0 >= 2 && totals.took.count >= 1);
}

#[tokio::test]
async fn hanging_gateway_delays_no_other_cluster() {
    let fine = answering(ok("envoy_server_total_connections 7\n")).await;
    let settings = vec![settings("eu1", &gateways(), &[silent().await]), settings("us1", &gateways(), &[fine])];
    let (_loads, mut updates) = started(settings).await;
    for _ in 0..5 {
        assert_eq!(next(&mut updates).await, ("us1".to_owned(), Load(70), LoadSignal::Connections));
    }
}

#[tokio::test]
async fn request_has_accept_and_token_headers() {
    let (seen, mut requests) = mpsc::channel(1);
    let (address, _) = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let _ = seen.try_send(request(&mut stream).await);
            let _ = stream.write_all(ok("envoy_server_total_connections 7\n").as_bytes()).await;
        }
    })
    .await;
    let source = LoadSource { token: Some(Secret::new("s3")), ..gateways() };
    let (_loads, _news) = started(vec![settings("eu1", &source, &[address])]).await;
    let request = timeout(PATIENCE, requests.recv()).await.unwrap().unwrap();
    assert!(request.starts_with("GET /stats/prometheus HTTP/1.1\r\n"), "{request}");
    for header in
        ["accept: text/plain;version=0.0.4\r\n", "authorization: Bearer s3\r\n", &format!("host: {address}\r\n")]
    {
        assert!(request.to_lowercase().contains(&header.to_lowercase()), "{header:?} is missing in {request}");
    }
}

#[tokio::test]
async fn invalid_response_is_a_failure_with_its_cause() {
    let fine = "envoy_server_total_connections 7\n";
    assert_eq!(failure("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").await, "status 503, expected 200");
    assert_eq!(failure("HTTP/1.1 302 No\r\nContent-Length: 0\r\n\r\n").await, "status 302, expected 200");
    let zipped = ok(fine).replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
    assert_eq!(failure(zipped).await, "the response is compressed, but no encoding was accepted");
    assert_eq!(failure(ok("envoy_server_total_connections 7")).await, "metrics are incomplete; they end within line 1");
    assert_eq!(
        failure(ok("envoy_server_total_connections NaN\n")).await,
        "envoy_server_total_connections is NaN, which is not an amount"
    );
    assert_eq!(
        failure(ok(&format!("{fine}<html>\n"))).await,
        "metrics, line 2: the line does not begin with the name of a metric"
    );
    assert!(failure(ok("up 1\n")).await.starts_with("the metrics have no signal of load"));
    assert_eq!(failure("220 smtp\r\n\r\n").await, "response is not HTTP");
}

#[tokio::test]
async fn endless_response_stops_at_its_limit() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    // Comments, which parse fast in a debug build, too.
    let poured = streaming(head, "# comments are skipped, and count towards the limit of the text\n");
    let poured = poured.await;
    let (reader, _) = started(vec![settings("eu1", &gateways(), &[poured])]).await;
    let source = source(&reader, |source| source.failure.is_some()).await;
    assert!(source.failure.unwrap().starts_with("metrics over 16777216 bytes"));
    assert_eq!((source.load, source.status), (None, LoadStatus::Unknown));
    let json = quick(LoadQuery::Json {
        endpoint: LoadEndpoint::Url(url(streaming(head, "[[[[").await, "/")),
        pointer: "/a".into(),
    });
    let (reader, _) = started(vec![settings("eu1", &json, &[])]).await;
    let failed = self::source(&reader, |source| source.failure.is_some()).await.failure;
    assert_eq!(failed.as_deref(), Some("response over 4 MiB"));
}

#[tokio::test]
async fn json_source_is_read_for_each_cluster() {
    let (address, _) = serve(|mut stream| async move {
        let body = match request(&mut stream).await.split(' ').nth(1) {
            Some("/load?of=a%2Bb") => "{\"a+b\":{\"used\":40}}",
            Some("/load?of=us1") => "{\"us1\":{\"used\":\"50.5\"}}",
            _ => "{}",
        };
        let _ = stream.write_all(ok(body).as_bytes()).await;
    })
    .await;
    let at = LoadEndpoint::Url(url(address, "/load?of={cluster}"));
    let source = quick(LoadQuery::Json { endpoint: at, pointer: "/{cluster}/used".into() });
    let (_loads, mut updates) = started(vec![settings("a+b", &source, &[]), settings("us1", &source, &[])]).await;
    let mut found = BTreeSet::new();
    while found.len() < 2 {
        let (cluster, load, _) = next(&mut updates).await;
        found.insert((cluster, load));
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a+b".to_owned(), Load(400)), ("us1".to_owned(), Load(510))]);
}

#[tokio::test]
async fn promql_query_reads_all_clusters() {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"dc":"eu1"},"value":[1,"250"]},{"metric":{"dc":"us1"},"value":[1,"1.5"]}]}}"#;
    let (address, asked) = serve(move |mut stream| async move {
        let request = request(&mut stream).await;
        let wanted = "GET /prom/api/v1/query?query=sum%20by%20%28dc%29%20%28x%29 HTTP/1.1\r\n";
        let answer =
            if request.starts_with(wanted) { ok(body) } else { "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n".into() };
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let read = LoadQuery::Promql { url: url(address, "/prom/"), query: "sum by (dc) (x)".into(), label: "dc".into() };
    let source = LoadSource { unit: LoadUnit::Permille, period: Duration::from_secs(3600), ..quick(read) };
    let settings = ["eu1", "jp1", "us1"].map(|cluster| settings(cluster, &source, &[])).to_vec();
    let (reader, mut updates) = started(settings).await;
    assert_eq!(next(&mut updates).await, ("eu1".to_owned(), Load(250), LoadSignal::Declared));
    assert_eq!(next(&mut updates).await, ("us1".to_owned(), Load(2), LoadSignal::Declared));
    let jp1 = reader.states().0.remove(1).sources.remove(0);
    assert_eq!(jp1.failure.as_deref(), Some("the response has no value for jp1"));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn declared_counter_is_read_as_a_rate() {
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (address, _) = serve(move |mut stream| {
        let count = Arc::clone(&count);
        async move {
            request(&mut stream).await;
            let grown = count.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed);
            let _ = stream.write_all(ok(&format!("work_total{{kind=\"a\"}} {grown}\n")).as_bytes()).await;
        }
    })
    .await;
    let metric = LoadMetric { name: "work_total".into(), labels: vec![("kind".into(), "a".into())], is_rate: true };
    let LoadQuery::Prometheus { endpoint: at, signal, overload_at, .. } = gateways().query else { unreachable!() };
    let source = quick(LoadQuery::Prometheus { endpoint: at, signal, metric: Some(metric), overload_at });
    let (_loads, mut updates) = started(vec![settings("eu1", &source, &[address])]).await;
    let (_, load, signal) = next(&mut updates).await;
    assert!(load > Load(0) && signal == LoadSignal::Declared, "{load}");
}

#[tokio::test]
async fn reading_during_a_stall_is_ignored() {
    let fed = settings("eu1", &gateways(), &[([127, 0, 0, 1], 9).into()]);
    let read = jobs(std::slice::from_ref(&fed)).remove(0);
    let mut state = ReaderState::new(Arc::default());
    state.table.set(vec![fed]);
    let mut updates = state.updates.subscribe();
    let begun = Instant::now();
    let metrics = GatewayMetrics { connections: Some(7.0), ..GatewayMetrics::default() };
    let ended = |took, stalled_before| FinishedRead {
        started: begun,
        ended: begun + took,
        stalled_before,
        result: ReadResult::Gateways(vec![Ok(metrics.clone())], false),
    };
    state.finish(&read, ended(Duration::from_secs(60), Duration::ZERO));
    assert_eq!((state.totals.sources["gw"], updates.is_empty()), ((0, [0, 0, 1, 0, 0]), true));
    let known = state.meter.stalled_for(begun);
    state.finish(&read, ended(Duration::from_millis(1), known));
    assert_eq!((state.totals.sources["gw"].0, updates.try_recv().unwrap().report.unwrap().load), (1, Load(70)));
}

#[tokio::test]
async fn push_is_published_and_removed_source_is_not_read() {
    let (address, asked) = serve(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(ok("envoy_server_total_connections 7\n").as_bytes()).await;
    })
    .await;
    let fed = settings("eu1", &gateways(), &[address]);
    let (reader, mut updates) = started(vec![fed.clone()]).await;
    assert_eq!(next(&mut updates).await.1, Load(70));
    reader.set(vec![ClusterLoadSettings { source: None, ..fed }]);
    let so_far = asked.load(std::sync::atomic::Ordering::Relaxed);
    while updates.try_recv().is_ok() {}
    let push = PushedLoad { amount: LoadAmount::Used(99), sequence: None, valid_for: PATIENCE };
    reader.push("eu1", push).unwrap();
    assert_eq!(next(&mut updates).await, ("eu1".to_owned(), Load(990), LoadSignal::Declared));
    assert!(matches!(reader.push("eu", push), Err(PushError::Unknown(..))));
    // One request may have been running.
    assert!(asked.load(std::sync::atomic::Ordering::Relaxed) <= so_far + 1);
}
