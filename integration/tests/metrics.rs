//! `/metrics` of the real binary: sums of counters, the answers of each cluster, a linter of the format, and rules of names.

#[cfg(feature = "real")]
use std::net::TcpListener;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairway_integration::{
    certificates,
    load::{connect, query, receive, resolve},
    query::Query,
    real::{Fairway, free_port, http_get, wait_until},
};
use fairway_model::{Rtype, Timestamp};
use serde_json::{Value, json};

/// Longest wait for an event that is immediate on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

const CONFIG: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]
clusters:
  - { name: eu1, addresses: [192.0.2.1] }
  - { name: us1, addresses: [192.0.2.2] }
monitors: [{ name: unchecked, type: always }]
pools:
  - { name: pay, policy: failover, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }
  - name: shop
    policy: weighted
    spread: query
    monitor: unchecked
    members: [{ cluster: eu1, weight: 70 }, { cluster: us1, weight: 30 }]
names: [{ name: pay.gslb.example, pool: pay }, { name: shop.gslb.example, pool: shop }]
";

/// Publishes into a zone file.
#[cfg(feature = "real")]
const PUBLISHED: &str = "publish:
  providers:
    - name: file
      zones: [pub.example]
      file: pub.zone
      aliases:
        - { name: shop.pub.example, of: shop.gslb.example, as: addresses }
";

/// Sends a query and receives the answer; the id distinguishes it from others.
fn exchange(server: SocketAddr, id: u16, packet: &[u8]) -> Vec<u8> {
    let socket = connect(server);
    socket.send(packet).expect("the server listens");
    receive(&socket, id).expect("an answer")
}

fn over_tcp(server: SocketAddr, packet: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
    let length = u16::try_from(packet.len()).expect("it is short").to_be_bytes();
    stream.write_all(&[&length, packet].concat()).expect("the server reads");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("an answer");
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply).expect("the rest of it");
    reply
}

/// Causes every kind of answer, and packets that get none. Returns the number of messages sent.
fn mix(server: SocketAddr) -> f64 {
    let mut sent = 0.0;
    let mut rcodes = Vec::new();
    let mut id = 0;
    let mut ask = |packet: &dyn Fn(u16) -> Vec<u8>| {
        id += 1;
        sent += 1.0;
        rcodes.push(exchange(server, id, &packet(id))[3] & 0xf);
    };
    for _ in 0..5 {
        ask(&|id| query("pay.gslb.example", id));
        ask(&|id| query("missing.gslb.example", id));
        ask(&|id| query("www.example.org", id));
        ask(&|id| query("gslb.example", id));
    }
    let name = || "pay.gslb.example".parse().expect("a domain name");
    // STATUS (opcode 2) is not implemented; an incomplete question is a format error.
    ask(&|id| Query { id, flags: 2 << 11, ..Query::new(name(), Rtype::A) }.encode());
    ask(&|id| Query { id, cut: Some(20), ..Query::new(name(), Rtype::A) }.encode());
    for rcode in [0, 1, 3, 4, 5] {
        assert!(rcodes.contains(&rcode), "rcode {rcode} is missing among {rcodes:?}");
    }
    over_tcp(server, &query("pay.gslb.example", 7));
    // A response and a packet without a whole header get no answer.
    let silent = UdpSocket::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let response = Query { flags: 0x8000, ..Query::new(name(), Rtype::A) }.encode();
    for packet in [&response[..], &[0; 11], &[]] {
        silent.send_to(packet, server).expect("the server listens");
    }
    sent + 1.0 + 3.0
}

#[test]
fn every_message_is_counted_once_as_response_or_drop() {
    let server = Fairway::start(CONFIG, &[]);
    let sent = mix(server.dns);
    wait_until("all messages are counted", LIMIT, || server.metric("fairway_queries_total", "") >= sent);
    assert_eq!(server.metric("fairway_queries_total", ""), sent);
    let (responses, dropped) =
        (server.metric("fairway_responses_total", ""), server.metric("fairway_queries_dropped_total", ""));
    assert_eq!(responses + dropped, sent, "{responses} responses, {dropped} dropped");
    let drops = |why: &str| server.metric("fairway_queries_dropped_total", why);
    assert_eq!(
        [drops("short"), drops("response"), drops("port_zero"), drops("service_port"), drops("no_room")],
        [2.0, 1.0, 0.0, 0.0, 0.0]
    );
    for (rcode, count) in [("NXDOMAIN", 5.0), ("REFUSED", 5.0), ("FORMERR", 1.0), ("NOTIMP", 1.0), ("NOERROR", 11.0)] {
        assert_eq!(server.metric("fairway_responses_total", &format!("\"{rcode}\"")), count, "{rcode}");
    }
    assert_eq!(server.metric("fairway_queries_total", "tcp"), 1.0);
    assert_eq!(server.metric("fairway_udp_received_total", ""), sent - 1.0);
    assert_eq!(server.metric("fairway_tcp_messages_total", ""), 1.0);
}

#[test]
fn answers_are_counted_by_pool_and_cluster() {
    let server = Fairway::start(CONFIG, &[]);
    let mut seen = [0.0; 2];
    for _ in 0..200 {
        let reply = resolve(server.dns, "shop.gslb.example").expect("an answer");
        let which = usize::from(reply.is(&["192.0.2.2"]));
        assert!(which == 1 || reply.is(&["192.0.2.1"]), "{reply:?}");
        seen[which] += 1.0;
    }
    resolve(server.dns, "pay.gslb.example").expect("an answer");
    let answers = |pool: &str, cluster: &str| {
        let rows = server.metrics();
        let row = rows.lines().find(|line| {
            let part = |word: String| line.contains(&word);
            line.starts_with("fairway_answers_total{")
                && part(format!("pool=\"{pool}\""))
                && part(format!("cluster=\"{cluster}\""))
        });
        row.and_then(|row| row.rsplit(' ').next()?.parse::<f64>().ok()).expect("the row is there")
    };
    assert_eq!([answers("shop", "eu1"), answers("shop", "us1")], seen);
    assert!(seen[0] > seen[1] && seen[1] > 0.0, "70 to 30 became {seen:?}");
    assert_eq!([answers("pay", "eu1"), answers("pay", "us1")], [1.0, 0.0]);
}

/// Returns where an exposition breaks the naming rules of Prometheus (prometheus.io/docs/practices/naming) that promtool does not check.
fn findings(text: &str) -> Vec<String> {
    let meta = |word: &'static str| {
        let lines = text.lines().filter_map(move |line| line.strip_prefix(word)?.split_once(' '));
        lines.collect::<BTreeMap<_, _>>()
    };
    let (kinds, help) = (meta("# TYPE "), meta("# HELP "));
    let mut found = vec![];
    for (name, kind) in &kinds {
        let base = name.strip_suffix("_total").unwrap_or(name);
        let parts: Vec<_> = base.split('_').collect();
        let unit = parts.iter().position(|part| ["seconds", "bytes", "ratio"].contains(part));
        let tokens: Vec<_> = help[name].split(|c: char| !c.is_alphanumeric()).collect();
        let rules = [
            ((base != *name) != (*kind == "counter"), "is a counter without _total, or has it and is none"),
            (parts.iter().any(|part| OTHER_UNITS.contains(part)), "has a unit that is no base unit"),
            (unit.is_some_and(|at| at + 1 != parts.len()), "does not end with its unit"),
            (tokens.contains(&"1") && tokens.contains(&"2"), "encodes an enumeration as numbers"),
        ];
        found.extend(rules.iter().filter(|(broken, _)| *broken).map(|(_, what)| format!("{name} {what}")));
    }
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (series, value) in rows(text) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels: Vec<_> = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()).collect();
        let state = labels.iter().position(|label| label.starts_with("state="));
        let rules = [
            (!seen.insert(series), "is there twice"),
            (name.ends_with("_info") && value != 1.0, "is not 1"),
            (state.is_some() && value != 0.0 && value != 1.0, "is neither 0 nor 1"),
            (
                !labels.is_empty() && labels.iter().all(|label| label.trim_end_matches('"').ends_with('=')),
                "has empty labels only",
            ),
        ];
        found.extend(rules.iter().filter(|(broken, _)| *broken).map(|(_, what)| format!("{series} {what}")));
        if let Some(at) = state {
            let others: Vec<_> = labels.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, l)| *l).collect();
            *sums.entry(format!("{name} {}", others.join(","))).or_default() += value;
        }
    }
    found.extend(sums.iter().filter(|(_, sum)| **sum != 1.0).map(|(set, sum)| format!("{set} is in {sum} states")));
    found
}

/// Words for units in names that are not base units.
const OTHER_UNITS: [&str; 11] =
    ["permille", "percent", "ms", "millis", "milliseconds", "micros", "minutes", "hours", "days", "kib", "mib"];

/// Returns the series of an exposition with their values.
fn rows(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    rows.map(|(series, value)| (series, value.parse().expect("a number")))
}

#[test]
fn each_broken_naming_rule_is_found() {
    for (what, kind, row) in [
        ("a counter without _total", "counter", "a 1"),
        ("has it and is none", "gauge", "a_total 1"),
        ("no base unit", "gauge", "a_permille 1"),
        ("end with its unit", "gauge", "a_seconds_max 1"),
        ("is not 1", "gauge", "a_info{b=\"c\"} 2"),
        ("neither 0 nor 1", "gauge", "a{state=\"up\"} 2"),
        ("in 2 states", "gauge", "a{state=\"up\"} 1\na{state=\"down\"} 1"),
        ("in 0 states", "gauge", "a{b=\"1\",state=\"up\"} 0"),
        ("empty labels only", "gauge", "a{b=\"\",c=\"\"} 1"),
        ("is there twice", "gauge", "a 1\na 1"),
    ] {
        let name = row.split(['{', ' ']).next().expect("a name");
        let found = findings(&format!("# HELP {name} Of a.\n# TYPE {name} {kind}\n{row}\n"));
        assert!(found.iter().any(|finding| finding.contains(what)), "{row}: {found:?}");
    }
    let codes = findings("# HELP a Status: 0 pending, 1 down, 2 up.\n# TYPE a gauge\na 1\n");
    assert_eq!(codes, ["a encodes an enumeration as numbers"]);
    let good = "# HELP a_seconds Age.\n# TYPE a_seconds gauge\na_seconds{b=\"c\"} 0.5\n";
    assert_eq!(findings(good), Vec::<String>::new());
}

#[test]
fn questions_are_counted_by_zone_and_type_over_reloads() {
    let server = Fairway::start(CONFIG, &[]);
    mix(server.dns);
    let count = |zone: &str, rtype: &str| {
        server.metric("fairway_zone_queries_total", &format!("zone=\"{zone}\",type=\"{rtype}\""))
    };
    // 16 queries of `mix`, and one over TCP.
    wait_until("all are counted", LIMIT, || count("gslb.example.", "A") == 16.0);
    assert_eq!([count("outside", "A"), count("gslb.example.", "AAAA"), count("other", "A")], [5.0, 0.0, 0.0]);
    // A zone with fewer labels is numbered before the others.
    server.write_config(&CONFIG.replace("zones: [", "zones: [{ name: example, ns: [ns1.example.net] }, "));
    assert!(server.command(&["reload"]).status.success());
    exchange(server.dns, 9, &query("www.example", 9));
    let query = Query { id: 10, ..Query::new("pay.gslb.example".parse().expect("a name"), Rtype::HTTPS) };
    exchange(server.dns, 10, &query.encode());
    wait_until("all are counted", LIMIT, || count("gslb.example.", "HTTPS") == 1.0);
    assert_eq!([count("gslb.example.", "A"), count("example.", "A"), count("outside", "A")], [16.0, 1.0, 5.0]);
}

#[test]
fn answers_of_sampled_batches_are_timed() {
    let server = Fairway::start(CONFIG, &[]);
    let count = || server.metric("fairway_udp_answer_duration_seconds_count", "");
    for id in 0..200 {
        exchange(server.dns, id, &query("pay.gslb.example", id));
    }
    wait_until("every 16th of at least 200 batches per worker is timed", LIMIT, || count() >= 12.0);
    let (sum, bytes) = (
        server.metric("fairway_udp_answer_duration_seconds_sum", ""),
        server.metric("fairway_udp_sent_bytes_total", ""),
    );
    assert!(sum > 0.0 && sum < 200.0 && count() < 40.0, "{sum} s, {} answers", count());
    assert!((200.0 * 40.0..200.0 * 200.0).contains(&bytes), "{bytes} bytes");
}

#[test]
fn requests_are_counted_by_the_template_of_their_route() {
    let server = Fairway::start(CONFIG, &[]);
    for path in ["/v1/pools/shop", "/v1/pools/missing", "/v1/pools/pay", "/no/such/path", "/no/other"] {
        http_get(server.http, path).expect("an answer");
    }
    let count = |labels: &str| server.metric("fairway_http_request_duration_seconds_count", labels);
    let of = |route: &str, code: u16| count(&format!("method=\"GET\",route=\"{route}\",code=\"{code}\""));
    assert_eq!(of("none", 404), 2.0);
    assert_eq!(count("route=\"/v1/pools/{name}\""), 3.0, "{}", server.metrics());
    assert_eq!(count("/v1/pools/shop"), 0.0);
}

#[test]
fn metrics_are_compressed_for_clients_that_accept_it() {
    let server = Fairway::start(CONFIG, &[]);
    let raw = |headers: &str| {
        let mut stream = TcpStream::connect(server.http).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("the timeout is not zero");
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {}\r\n{headers}\r\n", server.http);
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = vec![];
        stream.read_to_end(&mut answer).expect("the rest of it");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer[end + 4..].to_vec())
    };
    let (plain_head, plain) = raw("");
    let (head, packed) = raw("Accept-Encoding: gzip\r\n");
    assert!(!plain_head.contains("content-encoding") && head.contains("content-encoding: gzip"), "{head}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
    assert!(text.contains("\nfairway_ready 1\n") && packed.len() * 4 < plain.len(), "{} bytes", packed.len());
}

#[test]
fn query_log_has_pool_clusters_and_answer() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let log = folder.path().join("queries");
    let config = format!("{CONFIG}queryLog: {{ sample: 1, file: {} }}\n", log.display());
    let server = Fairway::start(&config, &[]);
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let mut before = 0;
    wait_until("the log has begun", LIMIT, || {
        exchange(server.dns, 99, &query("pay.gslb.example", 99));
        before = lines().lines().count();
        before > 0
    });
    for id in 0..20 {
        exchange(server.dns, id, &query("shop.gslb.example", id));
    }
    exchange(server.dns, 20, &query("missing.gslb.example", 20));
    let shop = || lines().lines().filter(|line| !line.contains("\"pay.")).count();
    wait_until("each query is logged", LIMIT, || shop() == 21);
    let lines = lines();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let (denied, answered): (Vec<_>, Vec<_>) =
        lines.filter(|line| line["name"] != "pay.gslb.example.").partition(|line| line["rcode"] == 3);
    assert_eq!((&denied[0]["answer"], denied[0].get("pool"), denied.len()), (&json!([]), None, 1));
    let mut clusters = BTreeSet::new();
    for line in &answered {
        let (cluster, address) = match line["answer"][0].as_str() {
            Some("192.0.2.1") => ("eu1", "192.0.2.1"),
            _ => ("us1", "192.0.2.2"),
        };
        assert_eq!(
            (&line["pool"], &line["clusters"], &line["answer"]),
            (&json!("shop"), &json!([cluster]), &json!([address]))
        );
        assert_eq!(
            (&line["name"], &line["type"], &line["class"]),
            (&json!("shop.gslb.example."), &json!("A"), &json!(1))
        );
        clusters.insert(cluster);
    }
    assert_eq!((answered.len(), clusters.len()), (20, 2), "weighted 70 to 30, per query");
}

/// Returns the end of an override that drains a cluster, and its section of the configuration.
fn drain(cluster: &str) -> (Timestamp, String) {
    let end = Timestamp::from(SystemTime::now() + Duration::from_secs(86_400));
    (end, format!("overrides: [{{ match: {cluster}, action: drain, reason: test, until: {end} }}]\n"))
}

#[test]
fn end_of_certificates_and_overrides_is_in_the_metrics() {
    let webhook = free_port();
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    certificates::authority(folder.path());
    certificates::issue(folder.path(), "server", "DNS:gslb.example", 1);
    let (end, drain) = drain("eu1");
    let file = |name: &str| format!("{{ file: {} }}", folder.path().join(name).display());
    let tls = format!("cert: {}, key: {}, clientCa: {}", file("server.pem"), file("server.key"), file("ca.pem"));
    let config = format!("{CONFIG}webhook: {{ listen: \"127.0.0.1:{webhook}\", tls: {{ {tls} }} }}\n{drain}");
    let server = Fairway::start(&config, &[]);
    let ends = |part: &str| server.metric("fairway_tls_certificate_not_after_timestamp_seconds", part);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs_f64();
    for part in ["listener=\"webhook\",certificate=\"server\"", "listener=\"webhook\",certificate=\"clientCa\""] {
        let left = ends(part) - now;
        assert!((86_400.0..=2.0 * 86_400.0).contains(&left), "{part} ends in {left} s, and was made for two days");
    }
    let part = "id=\"\",scope=\"eu1\",action=\"drain\"";
    assert_eq!(server.metric("fairway_override_end_timestamp_seconds", part), end.secs() as f64);
    assert_eq!(server.metric("fairway_pool_all_out", ""), 0.0);
    let added = server.command(&["override", "add", "us1", "drain", "--for", "5m", "--reason", "test", "--yes"]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    assert_eq!(server.metric("fairway_pool_all_out", ""), 2.0, "both pools");
}

/// A server with most kinds of metrics.
#[cfg(feature = "real")]
fn rich(gateway: u16, webhook: u16) -> String {
    let config = CONFIG
        .replace("addresses: [192.0.2.1]", "addresses: [127.0.0.1], capacity: 100, load: gw")
        .replace("addresses: [192.0.2.2]", "addresses: [192.0.2.2], capacity: 100")
        .replace("pay, policy: failover, monitor: unchecked", "pay, policy: [load, weighted], monitor: tcp")
        .replace("monitors: [", &format!("monitors: [{{ name: tcp, type: tcp, port: {gateway}, period: 200ms }}, "));
    format!(
        "{config}load: [{{ name: gw, type: prometheus, port: {gateway}, period: 200ms }}]
webhook: {{ listen: \"127.0.0.1:{webhook}\" }}
{}{PUBLISHED}",
        drain("us1").1
    )
}

/// Serves the statistics of a gateway.
#[cfg(feature = "real")]
fn statistics() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let body = "envoy_http_in_downstream_rq_active{} 7\nenvoy_server_live{} 1\n";
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A probe sends nothing.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// Families that the rich server does not have: of host names, Kubernetes, traces, certificates, endpoints of the webhook, and an outage
/// of the store.
#[cfg(feature = "real")]
const ABSENT: [&str; 14] = [
    "fairway_host_age_seconds",
    "fairway_host_failing",
    "fairway_kubernetes_failing_seconds",
    "fairway_kubernetes_held_names",
    "fairway_kubernetes_names",
    "fairway_kubernetes_objects",
    "fairway_kubernetes_objects_bytes",
    "fairway_store_unavailable_since_timestamp_seconds",
    "fairway_tls_certificate_not_after_timestamp_seconds",
    "fairway_trace_export_failures_total",
    "fairway_trace_spans_total",
    "fairway_webhook_endpoints",
    "fairway_withdrawals_held_endpoints",
    "fairway_withdrawals_released_endpoints_total",
];

/// Families whose rows come with time: shares of the last minute, and routes that were requested.
#[cfg(feature = "real")]
const GROWING: [&str; 2] = ["fairway_http_request_duration_seconds", "fairway_member_share_ratio"];

/// Prometheus' own linter parses the text as Prometheus does, and checks names, units and help.
#[cfg(feature = "real")]
#[test]
fn promtool_and_the_naming_rules_accept_the_metrics() {
    use std::process::{Command, Stdio};

    let webhook = free_port();
    let config = rich(statistics(), webhook);
    let server = Fairway::start(&config, &[("pub.zone", "@ SOA ns a 1 2 3 4 5\n")]);
    mix(server.dns);
    http_get(([127, 0, 0, 1], webhook).into(), "/").expect("the webhook answers");
    let sets = |status: &str, reason: &str| {
        let rows = server.metrics();
        let row = format!("fairway_publish_sets{{provider=\"file\",status=\"{status}\",reason=\"{reason}\"}} ");
        rows.lines().find_map(|line| line.strip_prefix(&row)?.parse::<f64>().ok())
    };
    wait_until("it is published", LIMIT, || sets("published", "") == Some(1.0));
    let others = [("waiting", ""), ("leaving", ""), ("refused", "alias")].map(|(word, why)| sets(word, why));
    assert_eq!(others, [Some(0.0), Some(0.0), None], "{}", server.metrics());
    let mut command = Command::new(fairway_integration::real::program("promtool", "promtool"));
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool starts");
    let has = |name: &str| server.metrics().contains(&format!("# TYPE {name} "));
    wait_until("a probe and a reading are complete", LIMIT, || {
        has("fairway_probe_duration_seconds") && has("fairway_cluster_load_ratio")
    });
    let text = server.metrics();
    let help = include_str!("../../crates/api/src/metrics/help.tsv");
    let families = help.lines().filter_map(|line| line.split('\t').next());
    let absent: Vec<_> = families
        .filter(|name| !GROWING.contains(name))
        .filter(|name| !text.contains(&format!("# TYPE {name} ")))
        .collect();
    assert_eq!(absent, ABSENT, "{text}");
    assert_eq!(findings(&text), Vec::<String>::new(), "{text}");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("it is our child");
    let said = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o).into_owned()).concat();
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
    // Another configuration has the same series: none has a label that changes with it.
    server.write_config(&config.replace("weight: 70", "weight: 60"));
    assert!(server.command(&["reload"]).status.success());
    let names = |text: &str| {
        let is_growing = |series: &str| GROWING.iter().any(|family| series.starts_with(family));
        let lasting = rows(text).map(|(series, _)| series.to_owned()).filter(|series| !is_growing(series));
        lasting.collect::<BTreeSet<_>>()
    };
    let after = server.metrics();
    assert!(server.metric("fairway_configurations_total", "") > 1.0);
    assert_eq!(names(&after).symmetric_difference(&names(&text)).collect::<Vec<_>>(), Vec::<&String>::new());
}
