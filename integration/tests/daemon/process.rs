//! Wants of the machine: too few descriptors, time in which the process does not run.

use std::{
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, Process, fairway_binary, free_port, head, http_get, wait_until},
};
use tempfile::TempDir;

use super::{Gateway, LIMIT, NAME, answering, failing_over, hold};

#[test]
fn with_64_descriptors_udp_is_answered_while_200_connections_are_opened() {
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let file = folder.path().join("fairway.yaml");
    // One client may take all there is: that is the harder case.
    let config = head(dns, http) + "tcp: { connectionsMax: 1000, perClientMax: 1000 }\n" + &answering(&["192.0.2.1"]);
    std::fs::write(&file, config).expect("the folder can be written");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" serve --config \"$1\" --data-dir \"$2\""]);
    command.arg(fairway_binary()).arg(&file).arg(folder.path().join("data"));
    let mut process = Process::start(&mut command, &folder.path().join("fairway.log"));
    wait_until("it is ready", LIMIT, || {
        assert!(process.is_running(), "fairway ended: {}", process.output());
        http_get(http, "/readyz").is_some_and(|(status, _)| status == 200)
    });
    let load = Load::start(dns, 4, NAME, |reply| reply.is(&["192.0.2.1"]));
    let connect = |_| TcpStream::connect_timeout(&dns, Duration::from_secs(5));
    let connections: Vec<_> = (0..200).filter_map(|number| connect(number).ok()).collect();
    assert!(connections.len() >= 100, "only {} connections", connections.len());
    load.wait_for(200);
    drop(connections);
    load.stop().expect_whole(200);
    assert!(process.is_running());
    wait_until("metrics are there again", LIMIT, || {
        http_get(http, "/metrics")
            .is_some_and(|(status, body)| status == 200 && body.contains("fairway_worker_panics_total 0"))
    });
}

#[test]
fn two_seconds_of_stop_are_no_death_of_any_gateway() {
    let port = free_port();
    let _gateways = ["127.0.0.2", "127.0.0.3"].map(|address| Gateway::healthy(address, port));
    let monitor = format!("type: http, port: {port}, period: 200ms, timeout: 200ms, rise: 2, fall: 2");
    let config = failing_over(&[("eu1", "127.0.0.2"), ("us1", "127.0.0.3")], &monitor);
    let server = Fairway::start(&config, &[]);
    wait_answer(server.dns, NAME, &["127.0.0.2"], LIMIT);
    let before = server.metric("fairway_flips_total", "to=\"down\"");
    for _ in 0..2 {
        server.process.signal("STOP");
        hold(Duration::from_secs(2), || {});
        server.process.signal("CONT");
        // Several periods: every probe of that time is judged.
        hold(Duration::from_secs(1), || {
            let reply = resolve(server.dns, NAME);
            assert!(reply.as_ref().is_some_and(|reply| reply.is(&["127.0.0.2"])), "{reply:?}");
        });
    }
    assert_eq!(server.metric("fairway_flips_total", "to=\"down\""), before, "a false death");
    assert!(server.metric("fairway_observer_held_up_seconds_total", "") >= 3.0, "the stop went unnoticed");
}
