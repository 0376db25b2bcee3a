//! Gateways that answer probes with malice: none of them touches another name, the memory, or the checks of others.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, free_port, wait_until},
};

use super::{Gateway, LIMIT, NAME, failing_over, hold, state};

/// Writes `piece` again and again until the other side has enough, or the test ends.
fn pour(stream: &mut TcpStream, stop: &AtomicBool, head: &str, piece: &[u8]) {
    let _ = stream.read(&mut [0; 1_024]);
    let mut going = stream.write_all(head.as_bytes()).is_ok();
    while going && !stop.load(Ordering::Relaxed) {
        going = stream.write_all(piece).is_ok();
    }
}

/// Resident memory of a process, in MiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1_024
}

#[test]
fn gateways_that_stream_for_ever_touch_nothing_else() {
    let port = free_port();
    let streams = Gateway::start("127.0.0.2", port, |stream, stop| {
        pour(stream, stop, "HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 65_536]);
    });
    let heads = Gateway::start("127.0.0.3", port, |stream, stop| {
        pour(stream, stop, "HTTP/1.1 200 OK\r\n", &b"x-more: y\r\n".repeat(6_000));
    });
    let redirects = Gateway::start("127.0.0.4", port, move |stream, stop| {
        pour(stream, stop, "", format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.4:{port}/\r\n\r\n").as_bytes());
    });
    let nonsense = Gateway::start("127.0.0.5", port, |stream, stop| pour(stream, stop, "", &[0xff; 65_536]));
    let good = Gateway::healthy("127.0.0.6", port);
    // A body is looked for, so that each probe reads on as long as it may.
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
        assert_eq!(target["verdict"], if good { "up" } else { "down" }, "{target}");
        assert!(good || target["lastCause"].as_str().is_some_and(|cause| cause.len() < 200), "{target}");
    }
    drop((streams, heads, redirects, nonsense, good));
}

#[test]
fn a_gateway_that_takes_connections_and_says_nothing_holds_up_no_other() {
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
