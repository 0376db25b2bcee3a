//! An issuer of tokens, a PowerDNS and a collector of traces whose name has an IPv6 address that does not answer, or that are behind a
//! proxy that does not answer.
//!
//! The name is `localhost`: the server resolves it to `::1`, whose port drops every connection, and to `127.0.0.1`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use fairway_http::test_util::BlackHole;
use fairway_integration::{
    load::resolve,
    real::{Process, free_port, serve, wait_until},
};
use serde_json::json;

use super::{PATIENCE, Server, now};

/// Longest time for a log-in, for publishing and for a span. With two connections of 0.3 s each it takes about a second; without the
/// second address family in time it takes 4 s, 10 s and 5 s.
const LATE: Duration = Duration::from_secs(3);
/// Longest time of a stop.
const STOP_MAX: Duration = Duration::from_secs(10);
const NAME: &str = "shop.gslb.example";

/// First lines and bodies of received requests.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(String, String)>>>);

impl Received {
    fn push(&self, line: &str, body: String) {
        self.0.lock().expect("nobody panics with it").push((line.to_owned(), body));
    }

    /// Returns the number of requests whose first line begins like this.
    fn count(&self, line: &str) -> usize {
        self.0.lock().expect("nobody panics with it").iter().filter(|(first, _)| first.starts_with(line)).count()
    }

    fn has(&self, line: &str, body: &str) -> bool {
        let all = self.0.lock().expect("nobody panics with it");
        all.iter().any(|(first, text)| first.starts_with(line) && text.contains(body))
    }
}

/// Serves the keys of an issuer, the API of a PowerDNS with an empty zone and a collector, until the process ends. Closes each connection
/// after one response, so that each call connects.
fn services(port: u16, keys: String) -> Received {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("loopback has the port");
    let received = Received::default();
    let seen = received.clone();
    let issuer = format!("http://localhost:{port}");
    let metadata = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Some((line, body)) = request_of(&stream) else { continue };
            let (status, response) = match line.split(' ').nth(1) {
                Some("/.well-known/openid-configuration") => ("200 OK", &*metadata),
                Some("/keys") => ("200 OK", &*keys),
                Some(path) if path.starts_with("/api/") && line.starts_with("GET") => ("200 OK", "{\"rrsets\": []}"),
                Some(path) if path.starts_with("/api/") => ("204 No Content", ""),
                _ => ("200 OK", ""),
            };
            let length = if status.starts_with("204") {
                String::new()
            } else {
                format!("Content-Length: {}\r\n", response.len())
            };
            let _ = write!(&stream, "HTTP/1.1 {status}\r\n{length}Connection: close\r\n\r\n{response}");
            seen.push(&line, body);
        }
    });
    received
}

/// Returns the first line and the body of a request.
fn request_of(stream: &TcpStream) -> Option<(String, String)> {
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while reader.read_until(b'\n', &mut head).ok()? > 2 {}
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = head.lines().next()?;
    let (method, rest) = line.split_once(' ')?;
    Some((format!("{} {rest}", method.to_uppercase()), String::from_utf8_lossy(&body).into_owned()))
}

/// Accepts connections and reads from them, but never answers, until the process ends.
fn silent_proxy() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let (at, received) = (listener.local_addr().expect("it is bound"), Received::default());
    let seen = received.clone();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            seen.push(&line, String::new());
            open.push(stream);
        }
    });
    (at, received)
}

/// Returns a configuration with an issuer, a PowerDNS and a collector at these URLs.
fn config(server: &Server, token: &str, [issuer, powerdns, collector]: [&str; 3]) -> String {
    fs::write(server.path("key"), "key-of-the-tests").expect("a file");
    format!(
        "access:
  tokens: [ {token} ]
  issuers: [ {{ name: corp, issuer: \"{issuer}\", audiences: [fairway] }} ]
  grants: [ {{ role: viewer, to: [\"token:ci\", \"jwt:corp:alice\"] }} ]
zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: unchecked, type: always }}]
clusters: [{{ name: eu1, addresses: [203.0.113.10] }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: {NAME}, pool: shop }}]
publish:
  owner: us
  providers:
    - name: corporate
      zones: [pub.example]
      powerdns: {{ url: \"{powerdns}\", key: {{ file: key }} }}
      aliases: [{{ name: www.pub.example, of: {NAME} }}]
traces: {{ endpoint: \"{collector}\", timeout: 1m }}
"
    )
}

/// Returns a token of alice.
fn web_token(server: &Server, issuer: &str) -> String {
    let claims = json!({"iss": issuer, "aud": "fairway", "sub": "alice", "exp": now() + 300});
    server.signed(&json!({"alg": "RS256", "kid": "k"}), &claims)
}

fn start_behind(server: &mut Server, proxy: SocketAddr) {
    let mut command = serve(server.folder.path());
    command.env("HTTPS_PROXY", format!("http://{proxy}")).env_remove("NO_PROXY").env_remove("no_proxy");
    server.process = Some(Process::start(&mut command, &server.path("fairway.log")));
    wait_until("it is ready", PATIENCE, || server.curl("/readyz", &[]).status == 200);
}

/// Stops the server, and returns the time that this took.
fn stop(server: &mut Server) -> Duration {
    let begun = Instant::now();
    let process = server.process.as_mut().expect("it runs");
    process.signal("TERM");
    assert!(process.ended(STOP_MAX).success(), "{}", server.log());
    begun.elapsed()
}

fn expect_answer(server: &Server) {
    let dns = SocketAddr::from(([127, 0, 0, 1], server.dns));
    assert!(resolve(dns, NAME).is_some_and(|reply| reply.is(&["203.0.113.10"])), "{NAME} is answered");
}

#[test]
fn black_holed_ipv6_addresses_delay_log_ins_publishing_and_spans_by_less_than_a_second_each() {
    let mut server = Server::folder();
    server.scheme = "http";
    server.issuer();
    let port = free_port();
    let received = services(port, fs::read_to_string(server.path("keys.json")).expect("a file"));
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let _hole = runtime.block_on(BlackHole::new(port));
    let at = format!("http://localhost:{port}");
    let (ci, alice) = (server.token("ci"), web_token(&server, &at));
    server.start(&config(&server, &ci, [&at, &at, &at]));
    let begun = Instant::now();
    server.curl_as(&alice, "/v1/state", &[]).expect(200);
    let log_in = begun.elapsed();
    wait_until("the span arrives", LATE, || received.has("POST /v1/traces ", "GET /v1/state"));
    println!("log-in {log_in:?}, span {:?}", begun.elapsed() - log_in);
    assert!(log_in < LATE, "{log_in:?}");
    wait_until("it is published", LATE, || {
        received.has("PATCH /api/v1/servers/localhost/zones/pub.example. ", "www.pub.example.")
    });
    expect_answer(&server);
    println!("stopped in {:?}", stop(&mut server));
}

#[test]
fn proxy_that_never_answers_delays_only_the_calls_through_it() {
    let mut server = Server::folder();
    server.scheme = "http";
    server.issuer();
    let (proxy, received) = silent_proxy();
    let (ci, alice) = (server.token("ci"), web_token(&server, "https://id.example"));
    server.write(&config(&server, &ci, ["https://id.example", "https://pdns.example", "https://otel.example"]));
    let token = server.shown("ci");
    start_behind(&mut server, proxy);
    let begun = Instant::now();
    let (refused, others) = thread::scope(|scope| {
        let log_in = scope.spawn(|| server.curl_as(&alice, "/v1/state", &[]));
        let mut others = 0;
        while !log_in.is_finished() {
            server.curl_as(&token, "/v1/state", &[]).expect(200);
            expect_answer(&server);
            others += 1;
            // An address has 50 requests a second (`access.limits`).
            thread::park_timeout(Duration::from_millis(50));
        }
        (log_in.join().expect("curl returns"), others)
    });
    println!("log-in without keys refused after {:?}, {others} others meanwhile", begun.elapsed());
    let refused = refused.expect(503);
    assert!(refused.header("retry-after").is_some() && refused.body.contains("keys of corp"), "{}", refused.body);
    assert!(others > 0, "no other log-in met it");
    for host in ["id.example", "pdns.example", "otel.example"] {
        wait_until(host, PATIENCE, || received.count(&format!("CONNECT {host}:443 ")) > 0);
    }
    println!("stopped in {:?} during calls to a PowerDNS and a collector", stop(&mut server));

    // Stopped during a log-in.
    let asked = received.count("CONNECT id.example:443 ");
    start_behind(&mut server, proxy);
    let http = server.peer();
    let mut stream = TcpStream::connect(http).expect("it listens");
    write!(stream, "GET /v1/state HTTP/1.1\r\nHost: {http}\r\nAuthorization: Bearer {alice}\r\n\r\n")
        .expect("it reads");
    wait_until("the keys are requested", PATIENCE, || received.count("CONNECT id.example:443 ") > asked);
    println!("stopped in {:?} during a log-in", stop(&mut server));
}
