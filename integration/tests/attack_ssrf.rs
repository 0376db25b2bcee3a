//! A tenant with the role `editor`, or one that writes over the webhook, has the server connect to services that only this machine
//! reaches. No connection arrives there, nothing is reported, and the operator's own loopback targets stay healthy.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::resolve,
    real::{self, Fairway, fairway_binary, free_port, wait_until},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for an event that must come.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest wait for a step with thousands of monitors, also in a debug build.
const FLOOD_MAX: Duration = Duration::from_secs(240);
const JSON: &str = "application/json";
const WEBHOOK: &str = "application/external.dns.webhook+json;version=1";
/// Text that the attacked service would answer with.
const CREDENTIAL: &str = "credential-of-the-machine";

/// An HTTP service that counts its connections. It ends with the test's process.
struct Service {
    at: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Service {
    /// Answers every request with these lines of a head, and the credential.
    fn start(address: &str, head: String) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("loopback has a free port");
        let at = listener.local_addr().expect("it is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counter.fetch_add(1, Relaxed);
                let _ = stream.read(&mut [0; 1_024]);
                let length = CREDENTIAL.len();
                let _ = write!(stream, "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{CREDENTIAL}");
            }
        });
        Self { at, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

/// Creates a token; returns its text and its entry for the configuration.
fn token(name: &str) -> (String, String) {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("token");
    let output = Command::new(fairway_binary()).args(["token", "create", name, "--out"]).arg(&file).output();
    let output = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let entry = output.lines().find(|line| line.contains("sha256:")).expect("an entry").trim().to_owned();
    (std::fs::read_to_string(&file).expect("a token").trim().to_owned(), entry)
}

/// Sends a request; returns status and body.
fn call(server: SocketAddr, request: &str, token: &str, media_type: &str, body: &str) -> (u16, String) {
    real::call(server, request, (token, media_type), body, LIMIT).expect("it answers")
}

/// Starts a server whose files have a gateway on loopback, and an allowed network.
fn serve(allow: &str, gateway: &Service, further: &str) -> Fairway {
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: gateway }}]
clusters: [{{ name: own, addresses: [127.0.0.20] }}]
monitors: [{{ name: gateway, type: http, port: {}, headers: {{ X-Token: secret }}, period: 300ms, timeout: 300ms }}]
pools: [{{ name: own, policy: weighted, monitor: gateway, members: [{{ cluster: own }}] }}]
names: [{{ name: own.gslb.example, pool: own }}]
health: {{ tenantProbesMax: 300, networks: {{ allow: [{allow}] }} }}
{further}",
        gateway.at.port()
    );
    Fairway::start(&config, &[])
}

/// A server with a tenant that may edit, and what the tenant sees.
struct Attack {
    server: Fairway,
    editor: String,
    operator: String,
}

impl Attack {
    /// Starts a server with a token for an editor.
    fn start(allow: &str, gateway: &Service, further: &str) -> Self {
        let ((editor, entry), (operator, all)) = (token("tenant"), token("boss"));
        let grants = "    - { role: editor, to: [\"token:tenant\"] }\n    - { role: admin, to: [\"token:boss\"] }\n";
        let access = format!("access:\n  tokens:\n    {entry}\n    {all}\n  grants:\n{grants}");
        Self { server: serve(allow, gateway, &format!("{access}{further}")), editor, operator }
    }

    fn put(&self, path: &str, object: Value) {
        let (status, body) = self.try_put(&self.editor, path, object);
        assert!(status == 201 || status == 200, "{path}: {status} {body}");
    }

    /// The tenant may not write the object, but the operator may.
    fn put_as_operator(&self, path: &str, object: Value) {
        let (status, body) = self.try_put(&self.editor, path, object.clone());
        assert!(status == 403 && body.contains("operate"), "{path}: {status} {body}");
        let (status, body) = self.try_put(&self.operator, path, object);
        assert!(status == 201 || status == 200, "{path}: {status} {body}");
    }

    fn try_put(&self, token: &str, path: &str, mut object: Value) -> (u16, String) {
        object["name"] = json!(path.rsplit('/').next());
        call(self.server.http, &format!("PUT {path}"), token, JSON, &object.to_string())
    }

    /// Returns the sum of the rows of a metric that contain `part`.
    fn server_metric(&self, name: &str, part: &str) -> f64 {
        let (status, text) = call(self.server.http, "GET /metrics", &self.operator, JSON, "");
        assert_eq!(status, 200, "{text}");
        let rows = text.lines().filter(|line| line.starts_with(name) && line.contains(part));
        rows.map(|row| row.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number")).sum()
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = call(self.server.http, &format!("GET {path}"), &self.editor, JSON, "");
        assert_eq!(status, 200, "{path}: {body}");
        assert!(!body.contains(CREDENTIAL), "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Steers a name to a pool of one member.
    fn steer(&self, name: &str, monitor: &str, member: Value) {
        self.put(&format!("/v1/pools/{name}"), json!({"policy": "weighted", "monitor": monitor, "members": [member]}));
        self.put(&format!("/v1/names/{name}.gslb.example"), json!({"pool": name}));
    }

    /// Returns the targets of a pool that are not allowed.
    fn denied(&self, pool: &str) -> Vec<Value> {
        let state = self.get("/v1/state");
        let targets = state["targets"].as_array().cloned().unwrap_or_default();
        let of_pool = |target: &Value| target["pools"].as_array().is_some_and(|pools| pools.contains(&json!(pool)));
        targets.into_iter().filter(|target| of_pool(target) && !target["notAllowed"].is_null()).collect()
    }

    /// Waits until a pool's target is refused; then its name has no address, and its object says so.
    fn expect_refused(&self, pool: &str) {
        wait_until(&format!("{pool} is refused"), LIMIT, || {
            self.denied(pool).first().is_some_and(|target| target["status"] == "down")
        });
        let reply = resolve(self.server.dns, &format!("{pool}.gslb.example")).expect("an answer");
        assert!(reply.addresses.is_empty(), "{pool}: {:?}", reply.addresses);
        let conditions = self.get(&format!("/v1/pools/{pool}"))["status"]["conditions"].to_string();
        assert!(conditions.contains("TargetNotAllowed"), "{conditions}");
    }

    /// The operator's own target on loopback is up and answered.
    fn expect_bystander(&self) {
        wait_until("the operator's own gateway is up", LIMIT, || {
            resolve(self.server.dns, "own.gslb.example").is_some_and(|reply| reply.is(&["127.0.0.20"]))
        });
        assert!(self.denied("own").is_empty());
    }
}

#[test]
fn editor_reaches_no_service_of_this_machine() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let metadata = Service::start("127.0.0.1", "HTTP/1.1 200 OK\r\n".to_owned());
    let at = metadata.at;
    let redirect = Service::start("127.0.0.9", format!("HTTP/1.1 302 Found\r\nLocation: http://{at}/\r\n"));
    let source = format!(
        "{{ name: feed, type: json, url: \"http://{}/\", pointer: /a, period: 300ms, timeout: 300ms }}",
        redirect.at
    );
    let gateways = "{ name: gauges, type: prometheus, period: 300ms, timeout: 300ms }";
    let attack = Attack::start("127.0.0.9", &gateway, &format!("load: [{source}, {gateways}]\n"));
    let monitor = |port: u16| json!({"type": "http", "port": port, "path": "/token", "period": "1s", "timeout": "1s"});
    for (key, value) in [("headers", json!({"Metadata-Flavor": "Google"})), ("body", json!("ya29."))] {
        let mut oracle = monitor(at.port());
        (oracle["name"], oracle[key]) = (json!("oracle"), value);
        let path = "PUT /v1/monitors/oracle";
        let (status, body) = call(attack.server.http, path, &attack.editor, JSON, &oracle.to_string());
        assert!(status == 403 && body.contains("operate"), "{key}: {status} {body}");
        let all = json!({"monitors": [oracle]}).to_string();
        assert_eq!(call(attack.server.http, "POST /v1/apply", &attack.editor, JSON, &all).0, 403, "{key}");
    }
    attack.put("/v1/monitors/metadata", monitor(at.port()));
    attack.put("/v1/monitors/redirected", monitor(redirect.at.port()));
    attack.put_as_operator("/v1/clusters/plain", json!({"addresses": ["192.0.2.7"], "capacity": 10, "load": "feed"}));
    let scrape = json!([at.to_string(), format!("localhost:{}", at.port())]);
    attack.put_as_operator(
        "/v1/clusters/read",
        json!({"addresses": ["127.0.0.3"], "capacity": 10, "load": "gauges", "scrape": scrape}),
    );
    for (name, address) in [("four", "127.0.0.3"), ("six", "::1"), ("mapped", "::ffff:127.0.0.1")] {
        attack.put(&format!("/v1/clusters/{name}"), json!({"addresses": [address]}));
        attack.steer(name, "metadata", json!({"cluster": name}));
    }
    attack.steer("socket", "metadata", json!({"cluster": "plain", "probe": at.to_string()}));
    attack.steer("host", "metadata", json!({"cluster": "plain", "probe": format!("localhost:{}", at.port())}));
    attack.steer("moved", "redirected", json!({"cluster": "plain", "probe": redirect.at.to_string()}));
    for pool in ["four", "six", "mapped", "socket", "host"] {
        attack.expect_refused(pool);
    }
    let explained = attack.get("/v1/explain?name=four.gslb.example");
    let member = &explained["steps"][0]["pool"]["members"][0];
    assert_eq!(member["reason"], "target not allowed: loopback addresses are not allowed", "{explained}");
    assert_eq!(member["addresses"][0]["overrideAction"], Value::Null, "{explained}");
    assert_eq!(member["addresses"][0]["notAllowed"], "loopback addresses are not allowed", "{explained}");
    wait_until("the redirection is not followed", LIMIT, || redirect.connections() > 6);

    attack.expect_bystander();
    assert_eq!(metadata.connections(), 0, "connections to the service");
    let log = attack.server.process.output();
    assert!(log.contains("target not allowed"), "{log}");
}

#[test]
fn cause_of_a_failed_probe_is_shown_with_the_verb_operate_only() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let inside = Service::start("127.0.0.9", "HTTP/1.1 418 Inside\r\n".to_owned());
    let attack = Attack::start("127.0.0.9", &gateway, "");
    let monitor = json!({"type": "http", "port": inside.at.port(), "period": "1s", "timeout": "1s", "fall": 1});
    attack.put("/v1/monitors/probing", monitor);
    attack.put("/v1/clusters/inside", json!({"addresses": ["127.0.0.9"]}));
    attack.steer("inside", "probing", json!({"cluster": "inside"}));
    let pages = ["/v1/state", "/v1/explain?name=inside.gslb.example", "/v1/pools/inside"];
    let of = |token: &str, path: &str| call(attack.server.http, &format!("GET {path}"), token, JSON, "").1;
    wait_until("the operator sees the cause", LIMIT, || {
        pages[..2].iter().all(|page| of(&attack.operator, page).contains("418"))
    });
    for page in pages {
        let text = of(&attack.editor, page);
        assert!(!text.contains("418"), "{page}: {text}");
    }
    let state = attack.get("/v1/state");
    let target = state["targets"].as_array().expect("targets").iter().find(|target| target["address"] == "127.0.0.9");
    let target = target.expect("the target");
    assert_eq!((&target["status"], &target["lastMicros"]), (&json!("down"), &Value::Null), "{target}");
    assert!(target["lastCause"].as_str().is_some_and(|cause| cause.contains("operate")), "{target}");

    attack.expect_bystander();
}

#[test]
fn editor_sends_no_secrets_of_the_operator_and_no_fast_probes() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let attack = Attack::start("127.0.0.9", &gateway, "");
    let eavesdropper = Service::start("127.0.0.9", "HTTP/1.1 200 OK\r\n".to_owned());
    let secret = json!({"type": "http", "port": eavesdropper.at.port(), "headers": {"Authorization": "Bearer secret"}});
    attack.put_as_operator("/v1/monitors/secret", secret);
    attack.put("/v1/clusters/ear", json!({"addresses": ["127.0.0.9"]}));
    attack.steer("whole", "secret", json!({"cluster": "ear"}));
    attack.steer("member", "gateway", json!({"cluster": "ear", "monitor": "secret"}));
    // The monitor of the files, and that of the zone, which is the same.
    attack.steer("files", "gateway", json!({"cluster": "ear", "probe": eavesdropper.at.to_string()}));
    attack.put("/v1/pools/zone", json!({"policy": "weighted", "members": [{"cluster": "ear"}]}));
    attack.put("/v1/names/zone.gslb.example", json!({"pool": "zone"}));
    // The operator's address, at a port of the tenant.
    attack.steer(
        "port",
        "gateway",
        json!({"cluster": "own", "probe": format!("127.0.0.20:{}", eavesdropper.at.port())}),
    );
    for pool in ["whole", "member", "files", "zone", "port"] {
        attack.expect_refused(pool);
    }
    assert_eq!(eavesdropper.connections(), 0, "connections to the tenant's service");
    attack.expect_bystander();
    attack
        .put_as_operator("/v1/monitors/fast", json!({"type": "tcp", "port": 80, "period": "999ms", "timeout": "1ms"}));
    attack.put("/v1/monitors/slow", json!({"type": "tcp", "port": 80, "period": "1s", "timeout": "1ms"}));
}

#[test]
fn own_listeners_are_reached_by_no_probe_although_loopback_is_allowed() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let attack = Attack::start("127.0.0.0/8", &gateway, "");
    let monitor = |port| json!({"type": "http", "port": port, "path": "/healthz", "period": "1s", "timeout": "1s"});
    attack.put("/v1/monitors/self", monitor(attack.server.http.port()));
    let other = Service::start("127.0.0.1", "HTTP/1.1 200 OK\r\n".to_owned());
    attack.put("/v1/monitors/other", monitor(other.at.port()));
    attack.put("/v1/clusters/near", json!({"addresses": ["127.0.0.1"]}));
    attack.steer("self", "self", json!({"cluster": "near"}));
    attack.steer("other", "other", json!({"cluster": "near"}));
    attack.expect_refused("self");
    wait_until("an allowed loopback target is up", LIMIT, || {
        resolve(attack.server.dns, "other.gslb.example").is_some_and(|reply| reply.is(&["127.0.0.1"]))
    });
    attack.expect_bystander();
}

#[test]
fn webhook_owner_reaches_no_service_of_this_machine() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let metadata = Service::start("127.0.0.1", "HTTP/1.1 200 OK\r\n".to_owned());
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let further = format!("webhook: {{ listen: \"{webhook}\" }}\n");
    let attack =
        Attack { server: serve("127.0.0.9", &gateway, &further), editor: String::new(), operator: String::new() };
    let properties =
        [("port", metadata.at.port().to_string()), ("path", "/token".to_owned()), ("scheme", "http".to_owned())]
            .map(|(word, value)| json!({"name": format!("webhook/gslb-health-{word}"), "value": value}));
    let endpoint = json!({"dnsName": "hook.gslb.example", "recordType": "A", "targets": ["127.0.0.3", "127.0.0.1"],
        "recordTTL": 30, "providerSpecific": properties});
    let body = json!({"create": [endpoint]}).to_string();
    wait_until("the webhook takes the endpoint", LIMIT, || {
        call(webhook, "POST /owners/evil/records", "", WEBHOOK, &body).0 == 204
    });
    let owner = || attack.get("/v1/contributions")["items"].to_string();
    wait_until("the owner is warned", LIMIT, || owner().contains("TargetNotAllowed: 127.0.0."));
    let reply = resolve(attack.server.dns, "hook.gslb.example").expect("an answer");
    assert!(reply.addresses.is_empty(), "{:?}", reply.addresses);

    attack.expect_bystander();
    assert_eq!(metadata.connections(), 0, "connections to the service");
}

/// Declares so many monitors of one address, each with a period of 50 ms, by a token with the verb `operate`; an editor may not choose it.
/// The address must not be flooded, and the targets of the files must be probed as before, with the same results.
fn many_monitors_of_one_address(count: u64) {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let victim = Service::start("127.0.0.9", "HTTP/1.1 200 OK\r\n".to_owned());
    let attack = Attack::start("127.0.0.9", &gateway, "");
    attack.expect_bystander();
    let transitions = || attack.server_metric("fairway_health_transitions_total", "to=\"down\"");
    let name = |number: u64| format!("m{number}");
    // None of them is equal to another one.
    let monitor = |number| json!({"name": name(number), "type": "http", "port": victim.at.port(), "path": format!("/{number}"), "period": "50ms", "timeout": "50ms"});
    let pool = |number| json!({"name": name(number), "policy": "weighted", "monitor": name(number), "members": [{"cluster": "victim"}]});
    let steered = |number| json!({"name": format!("{}.gslb.example", name(number)), "pool": name(number)});
    let body = |first: u64| {
        let numbers = first..first + 1_000;
        json!({
            "clusters": [{"name": "victim", "addresses": ["127.0.0.9"]}],
            "monitors": numbers.clone().map(monitor).collect::<Vec<_>>(),
            "pools": numbers.clone().map(pool).collect::<Vec<_>>(),
            "names": numbers.map(steered).collect::<Vec<_>>(),
        })
        .to_string()
    };
    assert_eq!(call(attack.server.http, "POST /v1/apply", &attack.editor, JSON, &body(0)).0, 403);
    let (begun, own) = (Instant::now(), gateway.connections());
    for first in (0..count).step_by(1_000) {
        let applied =
            real::call(attack.server.http, "POST /v1/apply", (&attack.operator, JSON), &body(first), FLOOD_MAX);
        assert!(applied.as_ref().is_some_and(|(status, _)| *status == 200), "{applied:?}");
    }
    // The first probes of new targets come at once, and the second ones, with their retries, are spread over a period that grows meanwhile.
    wait_until("every monitor probes the victim", FLOOD_MAX, || victim.connections() as u64 >= 3 * count);
    let (before, since) = (victim.connections(), Instant::now());
    wait_until("further probes", FLOOD_MAX, || victim.connections() >= before + 1_000.max(count as usize / 2));
    let rate = (victim.connections() - before) as f64 / since.elapsed().as_secs_f64();
    let own_rate = (gateway.connections() - own) as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{count} monitors: {rate:.0} connections per second to the victim, {own_rate:.1} to the operator's gateway"
    );
    // 200 regular probes per second, and retries of failed ones.
    assert!(rate < 250.0, "{rate:.0} connections per second");
    // 3.3 as declared; a busy machine sends fewer.
    assert!(own_rate > 1.5, "{own_rate:.1} connections per second to the operator's gateway");
    attack.expect_bystander();
    let state = attack.get("/v1/state").to_string();
    assert!(!state.contains("127.0.0.20\",\"status\":\"down"), "{state}");
    assert_eq!(transitions(), 0.0, "a busy prober is no evidence against a target");
}

#[test]
fn many_monitors_of_an_operator_neither_flood_an_address_nor_delay_others() {
    many_monitors_of_one_address(1_000);
}

#[test]
#[ignore = "for a release build; see bench/README.md"]
fn ten_thousand_monitors_neither_flood_an_address_nor_delay_others() {
    many_monitors_of_one_address(10_000);
}

/// 127.1.0.1 and the next ones are the targets of the tenant: below the bound of each address, above that of a tenant.
#[test]
fn targets_of_one_tenant_are_probed_less_often_and_those_of_the_files_are_not() {
    let gateway = Service::start("127.0.0.20", "HTTP/1.1 200 OK\r\n".to_owned());
    let victims = Service::start("0.0.0.0", "HTTP/1.1 200 OK\r\n".to_owned());
    let attack = Attack::start("127.1.0.0/16", &gateway, "");
    let name = |number: u64| format!("c{number}");
    let cluster =
        |number| json!({"name": name(number), "addresses": [format!("127.1.{}.{}", number / 250, 1 + number % 250)]});
    let pool = |part: u64| {
        let members: Vec<_> = (part * 50..(part + 1) * 50).map(|number| json!({"cluster": name(number)})).collect();
        json!({"name": format!("p{part}"), "policy": "weighted", "monitor": "fast", "members": members})
    };
    let body = json!({
        "clusters": (0..900).map(cluster).collect::<Vec<_>>(),
        "monitors": [{"name": "fast", "type": "http", "port": victims.at.port(), "period": "1s", "timeout": "1s"}],
        "pools": (0..18).map(pool).collect::<Vec<_>>(),
        "names": (0..18).map(|part| json!({"name": format!("p{part}.gslb.example"), "pool": format!("p{part}")})).collect::<Vec<_>>(),
    });
    let (status, text) = call(attack.server.http, "POST /v1/apply", &attack.editor, JSON, &body.to_string());
    assert_eq!(status, 200, "{text}");
    wait_until("every target was probed", LIMIT, || victims.connections() >= 1_800);
    let (before, own, begun) = (victims.connections(), gateway.connections(), Instant::now());
    wait_until("another thousand", LIMIT, || victims.connections() >= before + 1_000);
    let per_second = |count: usize| count as f64 / begun.elapsed().as_secs_f64();
    let (rate, own_rate) = (per_second(victims.connections() - before), per_second(gateway.connections() - own));
    println!("{rate:.0} connections per second to the tenant's targets, {own_rate:.1} to the operator's");
    assert!(rate < 450.0, "{rate:.0} connections per second");
    // 3.3 as declared.
    assert!(own_rate > 1.5, "{own_rate:.1} connections per second");
    attack.expect_bystander();
}
