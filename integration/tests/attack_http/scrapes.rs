//! 64 clients read the metrics of a server with 3,000 targets (10,000 in the full form, five times) at once. DNS is answered as fast as
//! before, health probes go on, no scrape is reset or costs more than one alone, and the texts do not add up in memory.

use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::SocketAddr,
    sync::Barrier,
    thread,
};

use fairway_integration::load;

use super::{
    AtomicBool, Duration, Fairway, Instant, MEDIAN_MAX, P99_MAX, SetAtEnd, connect, free_port, http_get, limit,
    percentile, quiet_second, times,
};

/// Clients that read the metrics at once.
const SCRAPES: u8 = 64;
/// The same at the listener for health probes, whose 64 slots probes need, too.
const HEALTH_SCRAPES: u8 = 32;
const MEMBERS: usize = 100;
/// Texts in memory at once: one that is written, which may double while it grows, and a few that are sent. 64 without the protection.
const TEXTS_MAX: u64 = 16;
/// Processor time of a scrape among many, as a multiple of that of one alone. Queries and probes of the test are part of it, and a core that
/// others use, too, takes more time for the same work: it was up to 1.7.
const COST_MAX: f64 = 3.0;

/// Targets that refuse connections, in pools of 100.
fn config(pools: usize) -> String {
    let mut config = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\nclusters:\n".to_owned();
    for (pool, member) in (0..pools).flat_map(|pool| (0..MEMBERS).map(move |member| (pool, member))) {
        let _ = writeln!(config, "- {{ name: c{pool}-{member}, addresses: [127.3.{pool}.{}] }}", member + 1);
    }
    let port = free_port();
    let _ = writeln!(config, "monitors: [{{ name: gateway, type: tcp, port: {port}, period: 60s }}]\npools:");
    for pool in 0..pools {
        let members: Vec<_> = (0..MEMBERS).map(|member| format!("{{ cluster: c{pool}-{member} }}")).collect();
        let members = members.join(", ");
        let _ = writeln!(config, "- {{ name: p{pool}, policy: weighted, monitor: gateway, members: [{members}] }}");
    }
    config += "records: [{ name: plain.gslb.example, sets: [{ type: A, ttl: 60s, data: [192.0.2.1] }] }]\nnames:\n";
    for pool in 0..pools {
        let _ = writeln!(config, "- {{ name: s{pool}.gslb.example, pool: p{pool} }}");
    }
    config
}

/// Reads `/metrics` over a connection from an address of its own, at the same time as the others. Returns status and text.
fn scrape(from: u8, to: SocketAddr, together: &Barrier) -> (u16, String) {
    together.wait();
    let mut stream = connect(from, to).expect("it listens");
    // Longer than a request may take.
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket takes a timeout");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap_or_else(|error| panic!("client {from}: {error}"));
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("client {from}: no status")), text)
}

/// Returns a value of `/proc/PID/status` in KiB.
fn memory(server: &Fairway, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.process.pid())).expect("it runs");
    let line = text.lines().find(|line| line.starts_with(key)).expect("the kernel reports it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Returns the sorted times of DNS queries and of health probes while `meanwhile` runs. Each must be answered.
fn honest(server: &Fairway, health: SocketAddr, meanwhile: impl FnOnce()) -> [Vec<Duration>; 2] {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (end, stop, dns) = (SetAtEnd(&stop), &stop, server.dns);
        let socket = load::connect(dns);
        let query = move |number: usize| {
            let id = number as u16;
            socket.send(&load::query("plain.gslb.example", id)).ok()?;
            let reply = load::Reply::read(&load::receive(&socket, id)?)?;
            reply.is(&["192.0.2.1"]).then_some(200)
        };
        let threads = [
            scope.spawn(move || times(stop, "query", query)),
            scope.spawn(move || times(stop, "probe", |_| Some(http_get(health, "/healthz")?.0))),
        ];
        meanwhile();
        drop(end);
        threads.map(|thread| thread.join().expect("each is answered"))
    })
}

/// Reads the metrics of a listener from all clients at once, so many times each, and checks what happens meanwhile.
fn attack(server: &Fairway, health: SocketAddr, to: SocketAddr, (clients, waves): (u8, usize), targets: usize) {
    let cpu = || server.process.cpu_time();
    let text = scrape(0, to, &Barrier::new(1)).1;
    let before = cpu();
    scrape(0, to, &Barrier::new(1));
    // Times are counted in hundredths of a second.
    let alone = (cpu() - before).max(Duration::from_millis(20));
    assert!(text.matches("\nfairway_target_status{").count() >= targets, "all targets are in the text");
    let text = text.len() as u64 / 1024;
    let quiet = honest(server, health, quiet_second);
    fs::write(format!("/proc/{}/clear_refs", server.process.pid()), "5").expect("the peak can be reset");
    let (memory_before, before, begun) = (memory(server, "VmRSS"), cpu(), Instant::now());
    let (together, mut statuses) = (Barrier::new(clients.into()), vec![]);
    let attacked = honest(server, health, || {
        let together = &together;
        let client = |from| (0..waves).map(|_| scrape(from, to, together).0).collect::<Vec<_>>();
        statuses = thread::scope(|scope| {
            let scrapes: Vec<_> = (1..=clients).map(|from| scope.spawn(move || client(from))).collect();
            scrapes.into_iter().flat_map(|scrape| scrape.join().expect("no scrape is reset")).collect()
        });
    });
    let (took, grown) = (begun.elapsed(), memory(server, "VmHWM").saturating_sub(memory_before));
    let served = statuses.iter().filter(|status| **status == 200).count();
    let cost = (cpu() - before).div_f64(served.max(1) as f64);
    println!(
        "{served} of {} scrapes of {text} KiB in {took:?}, {cost:?} of a core each (alone {alone:?}); {grown} KiB more memory",
        statuses.len()
    );
    assert!(statuses.iter().all(|status| [200, 429, 503].contains(status)) && served > 0, "{statuses:?}");
    assert!(grown <= TEXTS_MAX * text, "{grown} KiB for texts of {text} KiB");
    assert!(cost <= alone.mul_f64(COST_MAX), "{cost:?} of a core for a scrape, {alone:?} alone");
    for ((what, during), quiet) in ["query", "probe"].iter().zip(&attacked).zip(&quiet) {
        let [median, p99, quiet_median, quiet_p99] =
            [(during, 50), (during, 99), (quiet, 50), (quiet, 99)].map(|(times, part)| percentile(times, part));
        println!("{what}: median {median:?} (quiet {quiet_median:?}), p99 {p99:?} (quiet {quiet_p99:?})");
        assert!(
            median <= limit(MEDIAN_MAX, quiet_median),
            "{what}: median {median:?}, {quiet_median:?} without scrapes"
        );
        assert!(p99 <= limit(P99_MAX, quiet_p99), "{what}: p99 {p99:?}, {quiet_p99:?} without scrapes");
    }
}

/// Attacks the API and the listener for health probes of a server with this many pools of 100 targets.
fn attack_both(pools: usize, waves: usize) {
    let _turn = super::turn();
    let health = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Fairway::start_with(&format!(", health: {{ address: \"{health}\", metrics: true }}"), &config(pools));
    for (listener, clients) in [(server.http, SCRAPES), (health, HEALTH_SCRAPES)] {
        attack(&server, health, listener, (clients, waves), pools * MEMBERS);
    }
}

#[test]
fn foreign_host_gets_no_metrics_of_a_loopback_listener() {
    let health = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let more = "access: { hosts: [metrics.example] }\n";
    let listen = format!(", health: {{ address: \"{health}\", metrics: true }}");
    let _server = Fairway::start_with(&listen, &format!("{}{more}", config(1)));
    let status = |path: &str, host: &str| {
        let mut stream = std::net::TcpStream::connect(health).expect("it listens");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
    };
    // A web page would reach loopback through a host name of its own (DNS rebinding).
    for (path, host, expected) in [
        ("/metrics", "evil.example", 421),
        ("/metrics", "evil.example:8080", 421),
        ("/metrics", "localhost", 200),
        ("/metrics", "127.0.0.1:8080", 200),
        ("/metrics", "metrics.example", 200),
        ("/readyz", "evil.example", 200),
    ] {
        assert_eq!(status(path, host), expected, "{path} {host}");
    }
}

#[test]
fn simultaneous_scrapes_of_many_targets_delay_no_dns() {
    attack_both(30, 1);
}

#[test]
#[ignore = "for a release build; see bench/README.md"]
fn scrapes_of_ten_thousand_targets_delay_no_dns() {
    attack_both(100, 5);
}
