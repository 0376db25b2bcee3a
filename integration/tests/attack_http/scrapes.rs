//! 64 clients read the metrics of a server with 3,000 targets (10,000 in a release build) at once. DNS and health probes go on, no scrape
//! is reset, and the texts do not add up in memory.

use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::SocketAddr,
    sync::Barrier,
    thread,
};

use fairway_integration::load::Load;

use super::{Arc, AtomicBool, Duration, Fairway, Instant, Ordering, connect, free_port, http_get, percentile, times};

/// Clients that read the metrics at once.
const SCRAPES: u8 = 64;
/// The same at the listener for health probes, whose 64 slots probes need, too.
const HEALTH_SCRAPES: u8 = 32;
const POOLS: usize = if cfg!(debug_assertions) { 30 } else { 100 };
const MEMBERS: usize = 100;
/// Texts in memory at once: one that is written, which may double while it grows, and a few that are sent. 64 without the protection.
const TEXTS_MAX: u64 = 16;

/// Targets that refuse connections, in pools of 100.
fn config() -> String {
    let mut config = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\nclusters:\n".to_owned();
    for (pool, member) in (0..POOLS).flat_map(|pool| (0..MEMBERS).map(move |member| (pool, member))) {
        let _ = writeln!(config, "- {{ name: c{pool}-{member}, addresses: [127.3.{pool}.{}] }}", member + 1);
    }
    let port = free_port();
    let _ = writeln!(config, "monitors: [{{ name: gateway, type: tcp, port: {port}, period: 60s }}]\npools:");
    for pool in 0..POOLS {
        let members: Vec<_> = (0..MEMBERS).map(|member| format!("{{ cluster: c{pool}-{member} }}")).collect();
        let members = members.join(", ");
        let _ = writeln!(config, "- {{ name: p{pool}, policy: weighted, monitor: gateway, members: [{members}] }}");
    }
    config += "records: [{ name: plain.gslb.example, sets: [{ type: A, ttl: 60s, data: [192.0.2.1] }] }]\nnames:\n";
    for pool in 0..POOLS {
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

/// Reads the metrics of a listener from all clients at once, and checks what happens meanwhile.
fn attack(server: &Fairway, health: SocketAddr, to: SocketAddr, clients: u8) {
    let text = scrape(0, to, &Barrier::new(1)).1;
    assert!(text.matches("\nfairway_target_status{").count() >= POOLS * MEMBERS, "all targets are in the text");
    let text = text.len() as u64 / 1024;
    fs::write(format!("/proc/{}/clear_refs", server.process.pid()), "5").expect("the peak can be reset");
    let before = memory(server, "VmRSS");
    let load = Load::start(server.dns, 8, "plain.gslb.example", |reply| reply.is(&["192.0.2.1"]));
    load.wait_for(100);
    let stop = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&stop);
    let prober = thread::spawn(move || times(&ending, "probe", |_| Some(http_get(health, "/healthz")?.0)));
    let (together, begun) = (Barrier::new(clients.into()), Instant::now());
    let statuses = thread::scope(|scope| {
        let together = &together;
        let scrapes: Vec<_> = (1..=clients).map(|from| scope.spawn(move || scrape(from, to, together).0)).collect();
        scrapes.into_iter().map(|scrape| scrape.join().expect("no scrape is reset")).collect::<Vec<_>>()
    });
    let (took, grown) = (begun.elapsed(), memory(server, "VmHWM").saturating_sub(before));
    stop.store(true, Ordering::Relaxed);
    let probes = prober.join().expect("each probe is answered");
    load.wait_for(100);
    load.stop().expect_whole(200);
    let served = statuses.iter().filter(|status| **status == 200).count();
    println!(
        "{served} of {clients} scrapes of {text} KiB in {took:?}; memory {before} KiB, {grown} more at the peak; {} probes, p99 {:?}",
        probes.len(),
        percentile(&probes, 99)
    );
    assert!(statuses.iter().all(|status| [200, 429, 503].contains(status)) && served > 0, "{statuses:?}");
    assert!(grown <= TEXTS_MAX * text, "{grown} KiB for texts of {text} KiB");
}

#[test]
fn simultaneous_scrapes_of_many_targets_delay_no_dns() {
    let health = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Fairway::start_with(&format!(", health: {{ address: \"{health}\", metrics: true }}"), &config());
    for (listener, clients) in [(server.http, SCRAPES), (health, HEALTH_SCRAPES)] {
        attack(&server, health, listener, clients);
    }
}
