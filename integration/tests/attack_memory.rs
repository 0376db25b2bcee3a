//! Many webhook owners that fill the memory. Each is within its own limit; all together reach the limits of all declared objects.
//!
//! The server runs in a control group where this machine lets the test make one, and is attacked with the default of `limits.memory`, a
//! quarter of the group's limit; the kernel ends it if it uses more. Elsewhere it runs under `prlimit --data` with a configured limit, and
//! an allocation over the promised memory fails. The output says which.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{Load, resolve},
    memory::MemoryLimit,
    real::{Process, call, fairway_binary, free_port, head, http_get, wait_until},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for an event that must come.
const LIMIT: Duration = Duration::from_secs(60);
const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";
const MEBIBYTE: u64 = 1 << 20;
/// A name of the configuration, which no owner may affect.
const BYSTANDER: &str = "site.gslb.example";

struct Server {
    process: Process,
    folder: TempDir,
    dns: SocketAddr,
    http: SocketAddr,
    webhook: SocketAddr,
    /// Memory that the process may use. After the process in the order of fields, so that its control group is empty when it is removed.
    allowed: MemoryLimit,
}

impl Server {
    /// Starts a server with limits of declared objects, and these bytes of memory.
    fn start(limits: &str, allowed: MemoryLimit) -> Self {
        println!("the server may use {allowed}; its configuration has limits: {limits}");
        let [dns, http, webhook] = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let folder = TempDir::new().expect("a temporary folder");
        write_config(folder.path(), [dns, http, webhook], limits);
        let process = serve(folder.path(), &allowed);
        let server = Self { process, folder, dns, http, webhook, allowed };
        server.wait_ready(LIMIT);
        server
    }

    fn wait_ready(&self, limit: Duration) {
        let is_ready = || http_get(self.http, "/readyz").is_some_and(|(status, _)| status == 200);
        wait_until("it is ready", limit, is_ready);
    }

    /// Kills the server and starts it with other limits.
    fn restart(&mut self, limits: &str) {
        self.process.signal("KILL");
        self.process.ended(LIMIT);
        write_config(self.folder.path(), [self.dns, self.http, self.webhook], limits);
        self.process = serve(self.folder.path(), &self.allowed);
    }

    /// Sends changes of an owner; repeats a call that the server was too busy for.
    fn apply(&self, owner: &str, changes: &Value) -> (u16, String) {
        let request = format!("POST /owners/{owner}/records");
        let end = Instant::now() + LIMIT;
        loop {
            let answer = call(self.webhook, &request, ("", MEDIA_TYPE), &changes.to_string(), LIMIT);
            match answer {
                Some((503, _)) if Instant::now() < end => {}
                Some(answer) => return answer,
                None => panic!("the webhook does not answer; {}", self.usage()),
            }
        }
    }

    /// Returns the number of endpoints of an owner; repeats the call while the server starts.
    fn count(&self, owner: &str) -> usize {
        let request = format!("GET /owners/{owner}/records");
        let end = Instant::now() + LIMIT;
        let text = loop {
            match call(self.webhook, &request, ("", MEDIA_TYPE), "", LIMIT).expect("the webhook answers") {
                (200, text) => break text,
                (status, text) => assert!(status == 503 && Instant::now() < end, "{status} {text}"),
            }
        };
        serde_json::from_str::<Value>(&text).expect("JSON").as_array().map_or(0, Vec::len)
    }

    fn put(&self, path: &str, body: &Value) -> (u16, String) {
        call(self.http, &format!("PUT {path}"), ("", "application/json"), &body.to_string(), LIMIT).expect("an answer")
    }

    /// Returns the use of a limit and the limit, from `/v1/state`.
    fn limit(&self, name: &str) -> (u64, u64) {
        let state: Value = serde_json::from_str(&http_get(self.http, "/v1/state").expect("a state").1).expect("JSON");
        let limits = state["store"]["limits"].as_array().expect("limits").clone();
        let of = limits.iter().find(|of| of["name"] == name).expect("it is among them");
        (of["used"].as_u64().expect("a number"), of["limit"].as_u64().expect("a number"))
    }

    /// Returns a number of `/proc/PID/status`, in bytes.
    fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("a field");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
    }

    /// Returns what the control group has used, if there is one.
    fn usage(&self) -> String {
        self.allowed.usage().map_or_else(
            || "no control group".to_owned(),
            |(peak, kills)| {
                format!("peak of the control group {} MiB, {kills} processes killed for it", peak / MEBIBYTE)
            },
        )
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("fairway.log")).expect("a log")
    }

    fn expect_bystander(&self) {
        assert!(
            resolve(self.dns, BYSTANDER).is_some_and(|reply| reply.is(&["192.0.2.1"])),
            "the bystander is answered"
        );
    }
}

fn write_config(folder: &Path, [dns, http, webhook]: [SocketAddr; 3], limits: &str) {
    let config = format!(
        "{}limits: {limits}
zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: unchecked }}]
monitors: [{{ name: unchecked, type: always }}]
clusters: [{{ name: c1, addresses: [192.0.2.1] }}]
pools: [{{ name: site, policy: weighted, monitor: unchecked, members: [{{ cluster: c1 }}] }}]
names: [{{ name: {BYSTANDER}, pool: site }}]
webhook: {{ listen: \"{webhook}\" }}
",
        head(dns, http)
    );
    fs::write(folder.join("fairway.yaml"), config).expect("the folder can be written");
}

fn serve(folder: &Path, allowed: &MemoryLimit) -> Process {
    let mut command = allowed.command(fairway_binary());
    command.env_remove("FAIRWAY_PARTS");
    command.arg("serve").arg("--config").arg(folder.join("fairway.yaml")).arg("--data-dir").arg(folder.join("data"));
    Process::start(&mut command, &folder.join("fairway.log"))
}

/// Returns the key of the configuration that limits declared objects to some mebibytes: none where the server derives its limit from the
/// control group. Returns the limit that results, too.
fn memory_key(allowed: &MemoryLimit, default: u64, configured: u64) -> (String, u64) {
    match allowed.is_readable() {
        true => (String::new(), default),
        false => (format!("memory: {configured}MiB, "), configured),
    }
}

/// Returns endpoints of an owner, each with a text of some bytes.
fn endpoints(owner: &str, round: usize, count: usize, bytes: usize) -> Vec<Value> {
    let text = "x".repeat(bytes);
    let name = |number| format!("r{round}-{number}.{owner}.gslb.example");
    (0..count).map(|number| json!({"dnsName": name(number), "recordType": "TXT", "targets": [text]})).collect()
}

fn owner(number: usize) -> String {
    format!("o{number}")
}

/// Lets owners take turns with batches until one is refused. Returns the acknowledged endpoints of each, and the error.
fn fill(server: &Server, owners: usize, count: usize, bytes: usize) -> (Vec<usize>, String) {
    let mut stored = vec![0; owners];
    for round in 0..1_000 {
        for number in 0..owners {
            let batch = json!({"create": endpoints(&owner(number), round, count, bytes)});
            match server.apply(&owner(number), &batch) {
                (204, _) => stored[number] += count,
                (507, error) => return (stored, error),
                other => panic!("{other:?}"),
            }
            server.expect_bystander();
        }
    }
    panic!("nothing is refused");
}

#[test]
fn owners_are_refused_at_the_limits_and_nothing_is_lost() {
    const OWNERS: usize = 8;
    let allowed = MemoryLimit::new(512 * MEBIBYTE);
    let (key, memory) = memory_key(&allowed, 128, 24);
    let (at_start, exceeded) = (format!("{{ {key}owners: 8 }}"), format!("limits.memory is {memory}.0 MiB"));
    let mut server = Server::start(&at_start, allowed);
    let load = Load::start(server.dns, 1, BYSTANDER, |reply| reply.is(&["192.0.2.1"]));
    let before = server.memory("VmRSS");

    // Endpoints of a batch: four or five batches of an owner fill either limit, so that the test takes as long with each.
    let batch = memory as usize;
    let (stored, error) = fill(&server, OWNERS, batch, 8_000);
    println!("stored {stored:?}: {error}; peak {} MiB, {}", server.memory("VmHWM") / MEBIBYTE, server.usage());
    assert!(error.contains(&exceeded) && error.contains("raise limits.memory"), "{error}");
    assert!(stored.iter().all(|count| *count > 0), "{stored:?}");
    let (used, limit) = server.limit("memory");
    assert!(limit == memory * MEBIBYTE && used <= limit && used > limit / 10 * 9, "{used} of {limit}");
    // The limit, the pages of the store, and what the allocator keeps of requests, which are larger with the larger limit.
    let grown = server.memory("VmRSS").saturating_sub(before);
    assert!(grown <= 2 * limit + 128 * MEBIBYTE, "grown by {grown} bytes, peak {}", server.memory("VmHWM"));

    // A ninth owner is refused for itself, and objects of the API by the same limit.
    let row = |owner: &str| json!({"create": endpoints(owner, 9_999, 1, 1)});
    let (status, error) = server.apply("ninth", &row("ninth"));
    assert!(status == 507 && error.contains("limits.owners is 8"), "{status} {error}");
    let large = json!({"name": "big.gslb.example", "sets": [{"type": "TXT", "ttl": "60s", "data": vec!["x".repeat(200); 4_000]}]});
    let (status, error) = server.put("/v1/records/big.gslb.example", &large);
    let problem: Value = serde_json::from_str(&error).expect("JSON");
    assert!(status == 507 && problem["status"] == 507, "{status} {error}");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains(&exceeded)), "{error}");
    let metrics = http_get(server.http, "/metrics").expect("metrics").1;
    assert!(metrics.contains("fairway_declared_refused_total{limit=\"owners\"} 1"), "{metrics}");
    assert!(server.log().contains("declared objects near a limit"), "{}", server.log());

    // Deletions pass, and make space for others.
    let first = endpoints("o0", 0, batch, 8_000);
    assert_eq!(server.apply("o0", &json!({"delete": first})).0, 204);
    assert_eq!(server.apply("o1", &row("o1")).0, 204);
    let mut expected = stored;
    expected[0] -= batch;
    expected[1] += 1;
    let is_complete = |server: &Server| (0..OWNERS).all(|number| server.count(&owner(number)) == expected[number]);
    assert!(is_complete(&server), "nothing is lost");
    load.wait_for(10);
    load.stop().expect_whole(100);

    // A start at the limit, and one with a lower limit.
    for (limits, is_over) in [(&*at_start, false), ("{ memory: 8MiB, objects: 10, owners: 2 }", true)] {
        server.restart(limits);
        server.wait_ready(LIMIT);
        server.expect_bystander();
        assert!(is_complete(&server), "{limits}");
        assert_eq!(server.log().contains("declared objects over a limit"), is_over, "{limits}");
    }
    assert_eq!(server.apply("o1", &row("o1")).0, 204, "what changes nothing passes");
    let (status, error) = server.apply("o1", &json!({"create": endpoints("o1", 10_000, 1, 1)}));
    assert!(status == 507 && error.contains("limits.memory is 8.0 MiB"), "{status} {error}");
    assert_eq!(server.apply("o1", &json!({"delete": endpoints("o1", 9_999, 1, 1)})).0, 204);
    assert_eq!(server.count("o1"), expected[1] - 1);
    server.expect_bystander();
}

/// 100 owners of 60 MiB each against 1 GiB: with the release build only.
#[test]
#[ignore = "takes minutes; see bench/README.md"]
fn hundred_owners_of_60_mib_do_not_end_a_server_with_1_gib() {
    let allowed = MemoryLimit::new(1_024 * MEBIBYTE);
    let (key, memory) = memory_key(&allowed, 256, 256);
    let limits = format!("{{ {key}owners: 1000 }}");
    let mut server = Server::start(&limits, allowed);
    assert_eq!(server.limit("memory").1, memory * MEBIBYTE);
    let (stored, error) = fill(&server, 100, 2_000, 10_000);
    println!("stored {stored:?}: {error}");
    for number in 0..100 {
        let batch = json!({"create": endpoints(&owner(number), 1_001, 2_000, 10_000)});
        assert_eq!(server.apply(&owner(number), &batch).0, 507);
    }
    println!("peak {} MiB, {}", server.memory("VmHWM") / MEBIBYTE, server.usage());
    assert!(server.memory("VmRSS") < 1_024 * MEBIBYTE, "{}", server.memory("VmRSS"));
    server.restart(&limits);
    server.wait_ready(Duration::from_secs(10));
    server.expect_bystander();
    println!("after the restart {} MiB, {}", server.memory("VmRSS") / MEBIBYTE, server.usage());
    assert!(stored.iter().enumerate().all(|(number, stored)| server.count(&owner(number)) == *stored));
}
