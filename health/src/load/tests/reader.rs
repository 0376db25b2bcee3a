//! Reading from servers on loopback that behave and misbehave.

use std::net::SocketAddr;

use fairway_model::{Load, LoadEndpoint, LoadMetric, LoadSignal, LoadSource, LoadUnit, LoadUrl, ProbeAddress, Secret};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::*;
use crate::{
    load::{
        board::LoadAmount,
        gateway::GatewayWarning,
        state::{LoadStatus, SourceLoad},
    },
    probe::tests::servers::{answering, request, serve, silent, streaming},
};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Metrics of each gateway, with what a test needs to be quick.
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

fn feed(cluster: &str, source: &LoadSource, gateways: &[SocketAddr]) -> ClusterLoadSettings {
    ClusterLoadSettings {
        cluster: ClusterName::new(cluster).unwrap(),
        capacity: 100.try_into().ok(),
        source: Some((LoadSourceName::new("gw").unwrap(), Arc::new(source.clone()))),
        gateways: gateways.iter().map(|address| ProbeAddress::Socket(*address)).collect(),
    }
}

async fn started(feeds: Vec<ClusterLoadSettings>) -> (LoadReader, broadcast::Receiver<LoadUpdate>) {
    let loads = LoadReader::start();
    let news = loads.updates();
    loads.set(feeds).await;
    (loads, news)
}

async fn next(news: &mut broadcast::Receiver<LoadUpdate>) -> (String, Load, LoadSignal) {
    let LoadUpdate { report, .. } = timeout(PATIENCE, news.recv()).await.expect("news in time").expect("the task runs");
    (report.cluster.to_string(), report.load, report.signal)
}

/// What is said of the one cluster, once it is as wanted.
async fn word(loads: &LoadReader, wanted: impl Fn(&SourceLoad) -> bool) -> SourceLoad {
    let look = async {
        loop {
            let word = loads.states().await.0.pop().map(|mut state| state.sources.remove(0));
            if let Some(word) = word.filter(&wanted) {
                return word;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, look).await.expect("it comes in time")
}

/// Why a gateway that answers so cannot be read.
async fn failure(answer: impl Into<Vec<u8>>) -> String {
    let (loads, _) = started(vec![feed("eu1", &gateways(), &[answering(answer).await])]).await;
    word(&loads, |word| word.failure.is_some()).await.failure.unwrap()
}

#[tokio::test]
async fn metrics_of_all_gateways_become_one_report() {
    let a = answering(ok("envoy_http_a_downstream_rq_active{} 20\nenvoy_server_live{} 0\n")).await;
    let b = answering(ok("envoy_http_a_downstream_rq_active{} 31\nenvoy_server_live{} 1\n")).await;
    let (loads, mut news) = started(vec![feed("eu1", &gateways(), &[a, b])]).await;
    assert_eq!(next(&mut news).await, ("eu1".to_owned(), Load(510), LoadSignal::InFlight));
    let (states, totals) = loads.states().await;
    assert_eq!(states[0].sources[0].gateways, Some((2, 2)));
    assert_eq!((states[0].warnings.clone(), states[0].is_exhausted), (vec![GatewayWarning::Draining], false));
    assert!(totals.sources["gw"].0 >= 2 && totals.count >= 1);
}

#[tokio::test]
async fn a_gateway_that_hangs_delays_nobody() {
    let fine = answering(ok("envoy_server_total_connections 7\n")).await;
    let feeds = vec![feed("eu1", &gateways(), &[silent().await]), feed("us1", &gateways(), &[fine])];
    let (_loads, mut news) = started(feeds).await;
    for _ in 0..5 {
        assert_eq!(next(&mut news).await, ("us1".to_owned(), Load(70), LoadSignal::Connections));
    }
}

#[tokio::test]
async fn a_request_asks_for_text_and_brings_its_token() {
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
    let (_loads, _news) = started(vec![feed("eu1", &source, &[address])]).await;
    let request = timeout(PATIENCE, requests.recv()).await.unwrap().unwrap();
    assert!(request.starts_with("GET /stats/prometheus HTTP/1.1\r\n"), "{request}");
    for header in
        ["accept: text/plain;version=0.0.4\r\n", "authorization: Bearer s3\r\n", &format!("host: {address}\r\n")]
    {
        assert!(request.to_lowercase().contains(&header.to_lowercase()), "{header:?} is missing in {request}");
    }
}

#[tokio::test]
async fn each_bad_answer_has_its_own_words_and_nothing_of_it_counts() {
    let fine = "envoy_server_total_connections 7\n";
    assert_eq!(failure("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").await, "status 503, where 200 is wanted");
    assert_eq!(failure("HTTP/1.1 302 No\r\nContent-Length: 0\r\n\r\n").await, "status 302, where 200 is wanted");
    let zipped = ok(fine).replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
    assert_eq!(failure(zipped).await, "the answer is compressed, which was not asked for");
    assert_eq!(failure(ok("envoy_server_total_connections 7")).await, "metrics end within line 1, so they were cut");
    assert_eq!(
        failure(ok("envoy_server_total_connections NaN\n")).await,
        "envoy_server_total_connections is NaN, which is no amount"
    );
    assert_eq!(
        failure(ok(&format!("{fine}<html>\n"))).await,
        "metrics, line 2: it does not begin with the name of a metric"
    );
    assert!(failure(ok("up 1\n")).await.starts_with("no signal of load"));
    assert_eq!(failure("220 smtp\r\n\r\n").await, "answer is not HTTP");
}

#[tokio::test]
async fn an_answer_without_end_stops_at_its_bound() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    // Comments, which are read fast also in a debug build.
    let poured =
        streaming(head, "# all of this is passed over, and counts towards the bound of what is read of a text\n");
    let poured = poured.await;
    let (loads, _) = started(vec![feed("eu1", &gateways(), &[poured])]).await;
    let word = word(&loads, |word| word.failure.is_some()).await;
    assert!(word.failure.unwrap().starts_with("metrics over 16777216 octets"));
    assert_eq!((word.load, word.status), (None, LoadStatus::Unknown));
    let json = quick(LoadQuery::Json {
        endpoint: LoadEndpoint::Url(url(streaming(head, "[[[[").await, "/")),
        pointer: "/a".into(),
    });
    let (loads, _) = started(vec![feed("eu1", &json, &[])]).await;
    let failed = self::word(&loads, |word| word.failure.is_some()).await.failure;
    assert_eq!(failed.as_deref(), Some("an answer over 4 MiB"));
}

#[tokio::test]
async fn a_json_feed_is_asked_for_each_cluster_by_name() {
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
    let (_loads, mut news) = started(vec![feed("a+b", &source, &[]), feed("us1", &source, &[])]).await;
    let mut found = BTreeSet::new();
    while found.len() < 2 {
        let (cluster, load, _) = next(&mut news).await;
        found.insert((cluster, load));
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a+b".to_owned(), Load(400)), ("us1".to_owned(), Load(510))]);
}

#[tokio::test]
async fn one_query_of_a_prometheus_server_tells_of_many_clusters() {
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
    let feeds = ["eu1", "jp1", "us1"].map(|cluster| feed(cluster, &source, &[])).to_vec();
    let (loads, mut news) = started(feeds).await;
    assert_eq!(next(&mut news).await, ("eu1".to_owned(), Load(250), LoadSignal::Declared));
    assert_eq!(next(&mut news).await, ("us1".to_owned(), Load(2), LoadSignal::Declared));
    let jp1 = loads.states().await.0.remove(1).sources.remove(0);
    assert_eq!(jp1.failure.as_deref(), Some("the answer has no value for jp1"));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_declared_counter_is_read_as_its_growth_a_second() {
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
    let (_loads, mut news) = started(vec![feed("eu1", &source, &[address])]).await;
    let (_, load, signal) = next(&mut news).await;
    assert!(load > Load(0) && signal == LoadSignal::Declared, "{load}");
}

#[tokio::test]
async fn what_a_held_up_observer_read_does_not_count() {
    let source = gateways();
    let mut reader = Reader::new(broadcast::channel(4).0);
    reader.set(vec![feed("eu1", &source, &[([127, 0, 0, 1], 9).into()])]);
    let mut news = reader.news.subscribe();
    let begun = Instant::now();
    let shown = GatewayMetrics { connections: Some(7.0), ..GatewayMetrics::default() };
    let ended = |took, stalled_before| Ended {
        due: begun,
        started: begun,
        ended: begun + took,
        stalled_before,
        brought: Brought::Looks(vec![Ok(shown.clone())]),
    };
    let long = Duration::from_secs(60);
    reader.weigh(1, ended(long, Duration::ZERO), begun + long);
    assert_eq!((reader.totals.sources["gw"], news.is_empty()), ((0, [0, 0, 1, 0, 0]), true));
    let known = reader.meter.stalled_for(begun);
    reader.weigh(1, ended(Duration::from_millis(1), known), begun);
    assert_eq!((reader.totals.sources["gw"].0, news.try_recv().unwrap().report.load), (1, Load(70)));
}

#[tokio::test]
async fn a_push_is_told_and_a_reading_that_is_no_more_wanted_ends() {
    let (address, asked) = serve(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(ok("envoy_server_total_connections 7\n").as_bytes()).await;
    })
    .await;
    let fed = feed("eu1", &gateways(), &[address]);
    let (loads, mut news) = started(vec![fed.clone()]).await;
    assert_eq!(next(&mut news).await.1, Load(70));
    loads.set(vec![ClusterLoadSettings { source: None, ..fed }]).await;
    let so_far = asked.load(std::sync::atomic::Ordering::Relaxed);
    while news.try_recv().is_ok() {}
    let push = PushedLoad { amount: LoadAmount::Used(99), sequence: None, valid_for: PATIENCE };
    loads.push("eu1", push).await.unwrap();
    assert_eq!(next(&mut news).await, ("eu1".to_owned(), Load(990), LoadSignal::Declared));
    assert!(matches!(loads.push("eu", push).await, Err(PushError::Unknown(..))));
    // One may have been on its way.
    assert!(asked.load(std::sync::atomic::Ordering::Relaxed) <= so_far + 1);
}
