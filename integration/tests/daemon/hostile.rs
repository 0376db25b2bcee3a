//! Malicious gateways: none affects another name, the memory, or the checks of others.

use std::{
    fs,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, free_port, wait_until},
};

use super::{Gateway, LIMIT, NAME, failing_over, hold, state};

/// Maximum bytes that a gateway can send in one probe: the 256 KiB that a probe reads, and the socket buffers of both sides,
/// of which the gateway's is kept small.
const POURED_MAX: u64 = (256 << 10) + (1 << 20);
const SEND_BUFFER: usize = 16 << 10;

/// A gateway that sends without end, and the amount that it sent.
struct Pouring {
    gateway: Gateway,
    probes: Arc<AtomicU64>,
    octets: Arc<AtomicU64>,
}

impl Pouring {
    /// Writes `head` and then `piece` repeatedly until the peer closes, or the test ends.
    fn start(address: &str, port: u16, head: &'static str, piece: Vec<u8>) -> Self {
        let [probes, octets] = [Arc::default(), Arc::<AtomicU64>::default()];
        let counted = (Arc::clone(&probes), Arc::clone(&octets));
        let gateway = Gateway::start(address, port, move |stream, stop| {
            counted.0.fetch_add(1, Ordering::Relaxed);
            socket2::SockRef::from(&*stream).set_send_buffer_size(SEND_BUFFER).expect("it is a socket");
            let _ = stream.read(&mut [0; 1_024]);
            let mut going = stream.write_all(head.as_bytes()).is_ok();
            while going && !stop.load(Ordering::Relaxed) {
                let written = stream.write(&piece);
                counted.1.fetch_add(*written.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
                going = written.is_ok();
            }
        });
        Self { gateway, probes, octets }
    }

    /// Checks that it was probed, and that each probe read a bounded amount.
    fn expect_little_taken(&self) {
        let [probes, octets] = [&self.probes, &self.octets].map(|count| count.load(Ordering::Relaxed));
        let at = self.gateway.at;
        assert!(probes >= 3 && octets > 0, "{at}: {probes} probes took {octets} octets");
        assert!(octets <= probes * POURED_MAX, "{at}: {probes} probes took {octets} octets");
    }
}

/// Returns the resident memory of a process in MiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1_024
}

#[test]
fn endless_streams_of_gateways_affect_nothing_else() {
    let port = free_port();
    let redirect = format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.4:{port}/\r\n\r\n");
    let pouring = [
        Pouring::start("127.0.0.2", port, "HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 65_536]),
        Pouring::start("127.0.0.3", port, "HTTP/1.1 200 OK\r\n", b"x-more: y\r\n".repeat(6_000)),
        Pouring::start("127.0.0.4", port, "", redirect.into_bytes()),
        Pouring::start("127.0.0.5", port, "", vec![0xff; 65_536]),
    ];
    let good = Gateway::healthy("127.0.0.6", port);
    // The monitor matches the body, so that each probe reads up to its limit.
    let monitor = format!("type: http, port: {port}, body: ok, period: 200ms, timeout: 200ms, rise: 2, fall: 2");
    let clusters = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
    let names = ["streams", "heads", "redirects", "nonsense", "good"];
    let clusters: Vec<_> = names.into_iter().zip(clusters).collect();
    let server = Fairway::start(&failing_over(&clusters, &monitor), &[]);
    wait_answer(server.dns, NAME, &["127.0.0.6"], LIMIT);
    let load = Load::start(server.dns, 4, NAME, |reply| reply.rcode == 0);
    let before = memory(server.process.pid());
    hold(Duration::from_secs(3), || {
        let reply = resolve(server.dns, NAME);
        assert!(reply.as_ref().is_some_and(|reply| reply.is(&["127.0.0.6"])), "{reply:?}");
    });
    load.wait_for(100);
    load.stop().expect_whole(100);
    let after = memory(server.process.pid());
    assert!(after < before + 32, "memory grew from {before} to {after} MiB");
    let state = state(server.http);
    for target in state["targets"].as_array().expect("targets are a list") {
        let good = target["address"].as_str().is_some_and(|address| address.contains("127.0.0.6"));
        assert_eq!(target["status"], if good { "up" } else { "down" }, "{target}");
        assert!(good || target["lastCause"].as_str().is_some_and(|cause| cause.len() < 200), "{target}");
    }
    pouring.iter().for_each(Pouring::expect_little_taken);
    drop((pouring, good));
}

#[test]
fn silent_gateway_delays_no_other() {
    let port = free_port();
    let silent = Gateway::start("127.0.0.2", port, |stream, _| while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {});
    let good = Gateway::healthy("127.0.0.3", port);
    let monitor = format!("type: http, port: {port}, period: 200ms, timeout: 200ms, rise: 2, fall: 2");
    let server = Fairway::start(&failing_over(&[("eu1", "127.0.0.2"), ("us1", "127.0.0.3")], &monitor), &[]);
    wait_answer(server.dns, NAME, &["127.0.0.3"], LIMIT);
    let passes = || {
        let state = state(server.http);
        let targets = state["targets"].as_array().expect("targets are a list");
        let count = |target: &serde_json::Value| target["passes"].as_u64();
        targets.iter().filter_map(count).sum::<u64>()
    };
    let before = passes();
    wait_until("ten further passes of the good one", LIMIT, || passes() >= before + 10);
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["127.0.0.3"])));
    drop((silent, good));
}
