//! Traces from a request to the answers that follow it, as a collector receives them from the real binary.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use data_encoding::HEXLOWER;
use fairway_integration::{
    load::resolve,
    real::{Fairway, free_port, http_get, wait_until},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;
use socket2::{Domain, Socket, Type};

use super::{Gateway, LIMIT, NAME};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector that accepts everything, and what it received.
struct Collector {
    gateway: Gateway,
    taken: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    fn start(port: u16) -> Self {
        let taken = Arc::<Mutex<Vec<Span>>>::default();
        let to = Arc::clone(&taken);
        let gateway = Gateway::start("127.0.0.1", port, move |stream, _| {
            // The connection that wakes the gateway at its end has no request.
            let Some(body) = body_of(stream) else { return };
            let request = ExportTraceServiceRequest::decode(&*body).expect("a request of OTLP");
            let spans = request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
            to.lock().expect("nobody panics with it").extend(spans);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        });
        Self { gateway, taken }
    }

    /// Returns the spans of a trace so far, by name.
    fn of(&self, trace: &str) -> BTreeMap<String, Span> {
        let taken = self.taken.lock().expect("nobody panics with it");
        taken.iter().filter(|span| hex(&span.trace_id) == trace).map(|span| (span.name.clone(), span.clone())).collect()
    }

    /// Waits for these spans of a trace.
    fn wait_for(&self, trace: &str, names: &[&str]) -> BTreeMap<String, Span> {
        wait_until(&format!("{names:?} of {trace}"), LIMIT, || {
            let spans = self.of(trace);
            names.iter().all(|name| spans.contains_key(*name))
        });
        self.of(trace)
    }
}

fn body_of(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    let mut read = |octets: &mut Vec<u8>| {
        let mut more = [0; 4_096];
        let length = stream.read(&mut more).ok().filter(|length| *length > 0)?;
        octets.extend_from_slice(&more[..length]);
        Some(())
    };
    let head = loop {
        if let Some(end) = octets.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = octets.split_off(end + 4);
            break String::from_utf8(std::mem::replace(&mut octets, body)).expect("a head is text").to_lowercase();
        }
        read(&mut octets)?;
    };
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    let length: usize = head.split_once("content-length: ")?.1.split_once('\r')?.0.parse().ok()?;
    while octets.len() < length {
        read(&mut octets)?;
    }
    Some(octets)
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Returns the attributes of a span as text.
fn said(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|one| one.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Sends a request with a body and further headers; returns its status.
fn send(server: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout can be set");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

fn config(collector: u16, more: &str) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{{ name: eu1, addresses: [192.0.2.1] }}, {{ name: us1, addresses: [192.0.2.2] }}]
monitors: [{{ name: unchecked, type: always }}]
log: {{ format: json }}
traces: {{ endpoint: \"http://127.0.0.1:{collector}\"{more} }}
"
    )
}

fn pool(clusters: &[&str]) -> String {
    let members: Vec<_> = clusters.iter().map(|cluster| format!("{{\"cluster\": \"{cluster}\"}}")).collect();
    let members = members.join(", ");
    format!("{{\"name\": \"shop\", \"policy\": \"failover\", \"monitor\": \"unchecked\", \"members\": [{members}]}}")
}

fn traceparent(trace: &str, flags: &str) -> String {
    format!("traceparent: 00-{trace}-{PARENT}-{flags}\r\n")
}

#[test]
fn one_trace_covers_a_request_up_to_the_answers() {
    let port = free_port();
    let collector = Collector::start(port);
    let server = Fairway::start(&config(port, ""), &[]);
    let name = format!("{{\"name\": \"{NAME}\", \"pool\": \"shop\"}}");
    // The first pool and the name, each in its own trace: with B3 in one header and in several.
    let b3 = "b3: a3ce929d0e0e4736a3ce929d0e0e4736-00f067aa0ba902b7-1\r\n";
    assert_eq!(send(server.http, "PUT", "/v1/pools/shop", b3, &pool(&["eu1"])), 201);
    let b3_multi = "X-B3-TraceId: b3ce929d0e0e4736\r\nX-B3-SpanId: 00f067aa0ba902b7\r\nX-B3-Sampled: 1\r\n";
    assert_eq!(send(server.http, "POST", "/v1/names", b3_multi, &name), 201);
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
    let state = format!("tracestate: vendor=1\r\n{}", traceparent(TRACE, "01"));
    assert_eq!(send(server.http, "PUT", "/v1/pools/shop", &state, &pool(&["us1", "eu1"])), 200);
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.2"])));

    let request = "PUT /v1/pools/{name}";
    let spans = collector.wait_for(TRACE, &[request, "try", "write", "compile", "in force"]);
    let parents: Vec<_> = ["try", "write", "compile", "in force", request]
        .iter()
        .map(|name| {
            let above = hex(&spans[*name].parent_span_id);
            let of = spans.values().find(|span| hex(&span.span_id) == above);
            of.map_or(above, |span| span.name.clone())
        })
        .collect();
    assert_eq!(parents, [request, request, "write", "compile", PARENT]);
    let said = |span: &str, key: &str| said(&spans[span].attributes, key).unwrap_or_default();
    assert_eq!(said(request, "http.route"), "/v1/pools/{name}");
    assert_eq!((&*said(request, "url.path"), &*said(request, "http.response.status_code")), ("/v1/pools/shop", "200"));
    assert_eq!(spans[request].trace_state, "vendor=1");
    assert_eq!((&*said("write", "fairway.store.kind"), &*said("write", "fairway.batch.durable")), ("embedded", "true"));
    assert_eq!((&*said("write", "fairway.batch.changes"), &*said("write", "fairway.revision")), ("1", "3"));
    assert_eq!(
        (&*said("compile", "fairway.compile.kind"), &*said("compile", "fairway.touched.pools")),
        ("incremental", "1")
    );
    let snapshot = said("in force", "fairway.snapshot");
    let state = http_get(server.http, "/v1/state").expect("an answer").1;
    assert!(state.contains(&format!("\"{snapshot}\"")), "{snapshot} serves");
    assert_eq!(said("in force", "fairway.revision"), "3");
    let [compiled, in_force] = ["compile", "in force"].map(|name| spans[name].end_time_unix_nano);
    assert!(spans["compile"].start_time_unix_nano <= compiled && compiled <= in_force, "{spans:?}");

    let put = collector.wait_for("a3ce929d0e0e4736a3ce929d0e0e4736", &[request, "in force"]);
    assert_eq!(hex(&put[request].parent_span_id), PARENT);
    collector.wait_for("0000000000000000b3ce929d0e0e4736", &["POST /v1/names", "write", "compile", "in force"]);
    // The log lines of a request and of the reload have the trace id, and the spans link to each other.
    let log = server.process.output();
    let audit =
        log.lines().find(|line| line.contains(TRACE) && line.contains("fairway::audit")).expect("an audit line");
    assert!(audit.contains("\"span_id\":\""), "{audit}");
    let trace = said("compile", "fairway.log.trace");
    assert!(
        log.lines().any(|line| line.contains(&trace) && line.contains("configuration applied")),
        "{trace} in {log}"
    );
    assert!(server.metric("fairway_trace_spans_total", "sent") >= 13.0);
    drop(collector.gateway);
}

#[test]
fn invalid_traceparent_starts_a_new_trace_and_ratio_0_records_nothing() {
    let port = free_port();
    let collector = Collector::start(port);
    let mut server = Fairway::start(&config(port, ", ratio: 0"), &[]);
    let broken = format!("traceparent: 00-{TRACE}-{PARENT}-01-more\r\n");
    let unsampled = traceparent("5bf92f3577b34da6a3ce929d0e0e4736", "00");
    let sampled = traceparent("6bf92f3577b34da6a3ce929d0e0e4736", "01");
    for headers in [&broken, &unsampled, "", &sampled] {
        assert_eq!(send(server.http, "GET", "/v1/pools", headers, ""), 200);
        assert_eq!(send(server.http, "GET", "/readyz", headers, ""), 200);
    }
    server.process.signal("TERM");
    assert!(server.process.ended(LIMIT).success());
    let taken = collector.taken.lock().expect("nobody panics with it");
    let seen: Vec<_> = taken.iter().map(|span| (hex(&span.trace_id), span.name.as_str())).collect();
    let known = "6bf92f3577b34da6a3ce929d0e0e4736".to_owned();
    // `/readyz` authenticates nobody, so the flag of its header does not count.
    assert_eq!(seen, [(known, "GET /v1/pools")], "what waited was sent at the end");
}

/// Requests without credentials whose headers ask for sampling: ten times as many as spans can wait for their export.
const FORGED: usize = 20_000;
/// First half of their trace ids.
const FORGED_TRACE: &str = "beefbeefbeefbeef";

/// Sends this many requests without credentials, each in a trace of its own that asks to be sampled, and reads the responses.
fn forge(from: u8, server: SocketAddr, path: &str, count: usize) {
    let mut answered = 0;
    while answered < count {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 1, from], 0)).into()).expect("loopback has the address");
        socket.connect(&server.into()).expect("it listens");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout can be set");
        let mut responses = BufReader::new(stream.try_clone().expect("a second handle"));
        let before = answered;
        // The server may close the connection after a response.
        while answered < count {
            let b3 = format!("b3: {FORGED_TRACE}{answered:016x}-{PARENT}-1\r\n");
            let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n{b3}\r\n");
            if stream.write_all(request.as_bytes()).is_err() || !skip_response(&mut responses) {
                break;
            }
            answered += 1;
        }
        assert!(answered > before, "{path}: request {answered} was not answered");
    }
}

/// Reads a response with a length. Returns false at the end of the connection.
fn skip_response(responses: &mut BufReader<TcpStream>) -> bool {
    let (mut length, mut line) = (0, String::new());
    while responses.read_line(&mut line).is_ok_and(|read| read > 0) {
        let header = std::mem::take(&mut line).to_lowercase();
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.trim_end().parse().expect("a number");
        }
        if header == "\r\n" {
            let body = std::io::copy(&mut responses.take(length), &mut std::io::sink());
            return body.is_ok_and(|read| read == length);
        }
    }
    false
}

/// Returns a configuration in which the API and the webhook require the token `ops`, and the token as a header.
fn with_token(folder: &Path, collector: u16, webhook: SocketAddr) -> (String, String) {
    let file = folder.join("ops.token");
    let created = super::run(&["token", "create", "ops", "--out", file.to_str().expect("it is UTF-8")]);
    let created = String::from_utf8(created.stdout).expect("text");
    let entry =
        created.lines().find(|line| line.contains("sha256:")).expect("an entry").trim().trim_start_matches("- ");
    let sum = entry.split_once("sha256: ").and_then(|(_, rest)| rest.get(..64)).expect("a sum");
    // The limits of clients would refuse most of the attack before it reaches the traces.
    let more = format!(
        "access:
  tokens: [{entry}]
  grants: [{{ role: operator, to: [\"token:ops\"] }}]
  limits: {{ perSecond: 1000000, burst: 1000000, failuresPerMinute: 1000000 }}
webhook: {{ listen: \"{webhook}\", token: \"{sum}\" }}
"
    );
    let token = std::fs::read_to_string(&file).expect("a token");
    (config(collector, "") + &more, format!("Authorization: Bearer {}\r\n", token.trim()))
}

#[test]
fn requests_without_credentials_displace_no_span() {
    let (port, folder) = (free_port(), tempfile::tempdir().expect("a temporary folder"));
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let collector = Collector::start(port);
    let (config, token) = with_token(folder.path(), port, webhook);
    let mut server = Fairway::start(&config, &[]);
    let http = server.http;
    // Refused, open to everybody, and absent; and a call of the webhook.
    let targets = [(http, "/v1/pools"), (http, "/page/app.js"), (http, "/none"), (webhook, "/records")];
    let mut sent = 0;
    thread::scope(|scope| {
        let forge = |(from, (to, path))| scope.spawn(move || forge(from, to, path, FORGED / targets.len()));
        let forging: Vec<_> = (1..).zip(targets).map(forge).collect();
        while !forging.iter().any(thread::ScopedJoinHandle::is_finished) {
            sent += 1;
            let trace = format!("{sent:032x}");
            let headers = token.clone() + &traceparent(&trace, "01");
            assert_eq!(send(http, "GET", "/v1/pools", &headers, ""), 200);
            collector.wait_for(&trace, &["GET /v1/pools"]);
        }
    });
    // What still waits is sent at the end.
    server.process.signal("TERM");
    assert!(server.process.ended(LIMIT).success());
    let taken = collector.taken.lock().expect("nobody panics with it");
    let forged = taken.iter().filter(|span| hex(&span.trace_id).starts_with(FORGED_TRACE)).count();
    println!("{sent} spans of {sent} requests with the token arrived, and {forged} of {FORGED} without");
    assert!(
        sent > 0 && (forged, taken.len()) == (0, sent),
        "{sent} with the token, {forged} forged of {}",
        taken.len()
    );
}

#[test]
fn unreachable_collector_does_not_delay_writes_and_is_logged_once() {
    let port = free_port();
    let server = Fairway::start(&config(port, ""), &[]);
    for round in 0..3_000 {
        let cluster = ["eu1", "us1"][round % 2];
        let status = send(server.http, "PUT", "/v1/pools/shop", &traceparent(TRACE, "01"), &pool(&[cluster]));
        assert!(status == 200 || status == 201, "{status}");
        if server.metric("fairway_trace_spans_total", "dropped") > 0.0 {
            break;
        }
    }
    assert!(server.metric("fairway_trace_spans_total", "dropped") > 0.0, "the queue is full");
    assert!(server.metric("fairway_trace_export_failures_total", "") >= 1.0);
    assert_eq!(server.metric("fairway_trace_spans_total", "sent"), 0.0);
    // The failure is logged after the retries of the first batch have failed.
    let failed = || server.process.output().matches("trace export failed").count();
    wait_until("the failure is logged", Duration::from_secs(60), || failed() > 0);
    assert_eq!(failed(), 1);
    // When the collector is back, it receives traces again.
    let collector = Collector::start(port);
    wait_until("it is back", Duration::from_secs(60), || {
        send(server.http, "GET", "/v1/pools", &traceparent("7bf92f3577b34da6a3ce929d0e0e4736", "01"), "");
        !collector.of("7bf92f3577b34da6a3ce929d0e0e4736").is_empty()
    });
    let recoveries = || server.process.output().matches("trace export recovered").count();
    wait_until("the log has the recovery", LIMIT, || recoveries() > 0);
    assert_eq!(recoveries(), 1);
}

#[test]
fn webhook_changes_are_traced() {
    let (port, webhook) = (free_port(), free_port());
    let collector = Collector::start(port);
    let more = format!("webhook: {{ listen: \"127.0.0.1:{webhook}\" }}\n");
    let server = Fairway::start(&(config(port, "") + &more), &[]);
    let webhook = SocketAddr::from(([127, 0, 0, 1], webhook));
    let media = "application/external.dns.webhook+json;version=1";
    let body = format!(
        "{{\"create\": [{{\"dnsName\": \"{NAME}\", \"recordType\": \"A\", \"targets\": [\"192.0.2.9\"], \"providerSpecific\": \
         [{{\"name\": \"webhook/gslb-health-scheme\", \"value\": \"none\"}}]}}]}}"
    );
    let mut stream = TcpStream::connect(webhook).expect("it listens");
    let (length, trace) = (body.len(), traceparent(TRACE, "01"));
    write!(
        stream,
        "POST /records HTTP/1.1\r\nHost: {webhook}\r\nContent-Type: {media}\r\n{trace}Content-Length: {length}\r\n\r\n{body}"
    )
    .expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.9"])));
    let spans = collector.wait_for(TRACE, &["POST /records", "write", "compile", "in force"]);
    assert_eq!(hex(&spans["POST /records"].parent_span_id), PARENT);
    assert_eq!(spans["write"].parent_span_id, spans["POST /records"].span_id);
}
