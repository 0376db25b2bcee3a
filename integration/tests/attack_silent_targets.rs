//! Targets that accept connections and never answer, as behind a firewall that drops: no change of others waits for their probes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use fairway_integration::{
    load::resolve,
    real::{self, Fairway, free_port, http_get, wait_until},
};
use serde_json::{Value, json};

/// Longest wait for an event that must come.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest time until a healthy change is in the answers: ten times that of the same change without silent targets, but at least the first
/// time, since a single change may meet a short stall, and at most the second one: the second that is promised, or more in a debug build,
/// which is slow next to other tests. Both kinds took 12 to 50 ms there.
const SERVED_MAX: (Duration, Duration) =
    (Duration::from_millis(300), Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 }));
/// Time limit of a probe, and of the first round of probes: much longer than the test takes, so that a wait for a silent target shows.
const PROBE: &str = "period: 60s, timeout: 30s }]\nhealth: { firstRound: 30s }\n";

/// Gateways on loopback, one port for all addresses.
struct Gateways {
    /// Accepts nothing, so connections wait in the kernel's queue: they are open, and never answered.
    _silent: Vec<TcpListener>,
    port: u16,
}

impl Gateways {
    /// Returns silent gateways at 127.0.0.11 and following, and a healthy one at 127.0.0.10, which ends with the test's process.
    fn start(silent: u8) -> Self {
        let port = free_port();
        let listen = |last: u8| TcpListener::bind((format!("127.0.0.{last}"), port)).expect("loopback has the port");
        let healthy = listen(10);
        thread::spawn(move || {
            for mut stream in healthy.incoming().flatten() {
                let _ = stream.read(&mut [0; 1_024]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Self { _silent: (0..silent).map(|number| listen(11 + number)).collect(), port }
    }
}

/// Sends a request; returns status and body.
fn call(server: SocketAddr, method: &str, path: &str, media_type: &str, body: &str) -> (u16, String) {
    real::call(server, &format!("{method} {path}"), ("", media_type), body, LIMIT).expect("it answers")
}

/// Puts an intent whose service runs on the cluster of the same name.
fn put_intent(server: SocketAddr, name: &str) -> (u16, String) {
    let path = format!("/v2/projects/p/composite-apps/a/v1/traffic-intent-set/inbound-intents/{name}");
    let spec = json!({"app": "a", "serviceName": name, "externalSupport": true,
        "externalName": format!("{name}.gslb.example")});
    let body = json!({"metadata": {"name": name}, "spec": spec}).to_string();
    call(server, "PUT", &path, "application/json", &body)
}

/// Puts a healthy intent; returns the time until its name is answered.
fn time_until_answered(server: &Fairway, name: &str) -> Duration {
    let (http, text) = (server.http, name.to_owned());
    let begun = Instant::now();
    let writing = thread::spawn(move || put_intent(http, &text));
    let external = format!("{name}.gslb.example");
    wait_until("the healthy name is answered", LIMIT, || {
        resolve(server.dns, &external).is_some_and(|reply| reply.is(&["127.0.0.10"]))
    });
    let took = begun.elapsed();
    let (status, body) = writing.join().expect("it does not panic");
    assert!(status == 201 && body.contains("\"Served\""), "the response shows the first result: {status} {body}");
    took
}

#[test]
fn healthy_intent_is_answered_within_a_second_behind_five_silent_ones() {
    let gateways = Gateways::start(5);
    let silent =
        (1..=5).map(|n| format!("  - {{ name: dead{n}, addresses: [127.0.0.{}], services: [dead{n}] }}\n", 10 + n));
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: gateway }}]
monitors: [{{ name: gateway, type: http, port: {}, {PROBE}clusters:
  - {{ name: live, addresses: [127.0.0.10], services: [control, shop] }}
{}",
        gateways.port,
        silent.collect::<String>()
    );
    let server = Fairway::start(&config, &[]);
    let control = time_until_answered(&server, "control");
    let http = server.http;
    let begun = Instant::now();
    let writes: Vec<JoinHandle<_>> =
        (1..=5).map(|n| thread::spawn(move || put_intent(http, &format!("dead{n}")))).collect();
    // A silent name is answered at once, since no member of it was evaluated.
    wait_until("the last silent name is answered", LIMIT, || {
        (1..=5).all(|n| {
            let name = format!("dead{n}.gslb.example");
            resolve(server.dns, &name).is_some_and(|reply| reply.is(&[&format!("127.0.0.{}", 10 + n)]))
        })
    });
    let silent_answered = begun.elapsed();
    let took = time_until_answered(&server, "shop");
    println!(
        "healthy intent: {took:?}, without silent ones {control:?}; silent ones answered after {silent_answered:?}"
    );
    let limit = (control * 10).clamp(SERVED_MAX.0, SERVED_MAX.1);
    assert!(took <= limit, "{took:?} > {limit:?}");
    for write in writes {
        let (status, body) = write.join().expect("it does not panic");
        assert_eq!(status, 201, "{body}");
    }
    // Neither the healthy intent nor a write waited for the end of a probe. The order shows it, at any speed of the machine.
    let (_, state) = http_get(http, "/v1/state").expect("it answers");
    let state: Value = serde_json::from_str(&state).expect("JSON");
    let targets = state["targets"].as_array().expect("targets");
    let pending = targets.iter().filter(|target| target["status"] == "pending").count();
    assert_eq!(pending, 5, "silent targets whose first probe goes on: {targets:?}");
}

#[test]
fn eight_webhook_owners_apply_at_once_although_half_have_silent_targets() {
    let gateways = Gateways::start(4);
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: gateway }}]
monitors: [{{ name: gateway, type: http, port: {}, period: 10s, timeout: 4s }}]
webhook: {{ listen: \"{webhook}\" }}
health: {{ networks: {{ allow: [127.0.0.0/8] }} }}
",
        gateways.port
    );
    let server = Fairway::start(&config, &[]);
    let media_type = "application/external.dns.webhook+json;version=1";
    wait_until("the webhook is open", LIMIT, || call(webhook, "GET", "/", media_type, "").0 == 200);
    let apply = move |owner: u8| {
        let address = if owner < 4 { format!("127.0.0.{}", 11 + owner) } else { "127.0.0.10".to_owned() };
        let endpoint = json!({"dnsName": format!("n{owner}.gslb.example"), "recordType": "A", "targets": [address],
            "recordTTL": 30});
        let body = json!({"create": [endpoint]}).to_string();
        let begun = Instant::now();
        (call(webhook, "POST", &format!("/owners/o{owner}/records"), media_type, &body), begun.elapsed())
    };
    let calls: Vec<JoinHandle<_>> = (0..8).map(|owner| thread::spawn(move || apply(owner))).collect();
    let results: Vec<_> = calls.into_iter().map(|call| call.join().expect("it does not panic")).collect();
    println!("{:?}", results.iter().map(|((status, _), took)| (status, took)).collect::<Vec<_>>());
    // A call that takes longer than 4.5 s gets 503.
    for ((status, body), _) in &results {
        assert_eq!(*status, 204, "{body}");
    }
    for owner in 0..8 {
        let reply = resolve(server.dns, &format!("n{owner}.gslb.example"));
        assert!(reply.is_some_and(|reply| reply.rcode == 0), "the change of owner {owner} is in the answers");
    }
}
