//! The process: readiness, too few descriptors, and time in which it does not run.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, Process, fairway_binary, free_port, head, http_get, serve, wait_until},
};
use tempfile::TempDir;

use super::{Gateway, LIMIT, NAME, answering, failing_over, hold};

#[test]
fn udp_is_answered_with_64_descriptors_and_200_connections() {
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let file = folder.path().join("fairway.yaml");
    // One client may use all connections, which is the harder case.
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
fn server_stopped_for_two_seconds_reports_no_gateway_down() {
    let port = free_port();
    let _gateways = ["127.0.0.2", "127.0.0.3"].map(|address| Gateway::healthy(address, port));
    let monitor = format!("type: http, port: {port}, period: 200ms, timeout: 200ms, rise: 2, fall: 2");
    let config = failing_over(&[("eu1", "127.0.0.2"), ("us1", "127.0.0.3")], &monitor);
    let server = Fairway::start(&config, &[]);
    wait_answer(server.dns, NAME, &["127.0.0.2"], LIMIT);
    let before = server.metric("fairway_health_transitions_total", "to=\"down\"");
    for _ in 0..2 {
        server.process.signal("STOP");
        hold(Duration::from_secs(2), || {});
        server.process.signal("CONT");
        // Several periods, so that every probe of that time is evaluated.
        hold(Duration::from_secs(1), || {
            let reply = resolve(server.dns, NAME);
            assert!(reply.as_ref().is_some_and(|reply| reply.is(&["127.0.0.2"])), "{reply:?}");
        });
    }
    assert_eq!(server.metric("fairway_health_transitions_total", "to=\"down\""), before, "a false death");
    assert!(server.metric("fairway_observer_stalled_seconds_total", "") >= 3.0, "the stop went unnoticed");
}

/// A load balancer over several servers sends queries here only while this one answers.
#[test]
fn server_is_live_but_not_ready_before_the_first_probes_and_during_the_stop() {
    // Accepts connections and sends nothing: the first round ends at its timeout.
    let silent = TcpListener::bind("127.0.0.2:0").expect("a port is free");
    let port = silent.local_addr().expect("it is bound").port();
    let monitor = format!("type: http, port: {port}, period: 20s, timeout: 20s");
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let config = head(dns, http) + "health: { firstRound: 2s }\n" + &failing_over(&[("eu1", "127.0.0.2")], &monitor);
    std::fs::write(folder.path().join("fairway.yaml"), config).expect("the folder can be written");
    let mut process = Process::start(&mut serve(folder.path()), &folder.path().join("fairway.log"));
    let is = |status: u16, word: &str| {
        http_get(http, "/readyz").is_some_and(|(found, body)| found == status && body.contains(word))
    };
    wait_until("it says that it waits", LIMIT, || is(503, "the first round of probes is not complete"));
    assert_eq!(http_get(http, "/healthz").map(|(status, _)| status), Some(200));
    wait_until("it is ready", LIMIT, || is(200, "ready"));
    // A query that has begun to arrive keeps the process running for a while.
    let mut begun = TcpStream::connect(dns).expect("it listens");
    begun.write_all(&[0, 40, 1, 2]).expect("it is read");
    wait_answer(dns, NAME, &["127.0.0.2"], LIMIT);
    process.signal("TERM");
    wait_until("it says that it stops", LIMIT, || is(503, "fairway is stopping"));
    assert_eq!(http_get(http, "/healthz").map(|(status, _)| status), Some(200));
    drop(begun);
    assert!(process.ended(LIMIT).success(), "{}", process.output());
}

#[test]
fn answering_threads_have_the_highest_priority() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let own = share(Path::new("/proc/thread-self"), "").expect("this thread's share");
    let last = ((own.0 + 10).min(19), SCHED_BATCH);
    // A thread names itself and sets its share when it runs for the first time.
    for (threads, expected) in [("fairway-udp", own), ("fairway-tcp", own), ("tokio-", last), ("store", last)] {
        wait_until(&format!("{threads}* run with {expected:?}"), LIMIT, || {
            let found = shares(&server, threads);
            !found.is_empty() && found.iter().all(|share| *share == expected)
        });
    }
}

/// The thread ends with each reload: strace holds one where it opens the file.
#[cfg(feature = "real")]
#[test]
fn compiling_thread_has_the_lowest_priority() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let folder = server.folder.path();
    let mut command = Command::new(fairway_integration::real::program("strace", "strace"));
    // Ten minutes in microseconds: longer than the test.
    command.args(["-qq", "-f", "-e", "trace=openat", "-e", "inject=openat:delay_enter=600000000"]);
    command.arg("-P").arg(folder.join("fairway.yaml")).arg("-o").arg(folder.join("calls"));
    command.args(["-p", &server.process.pid().to_string()]);
    let mut strace = Process::start(&mut command, &folder.join("strace.log"));
    wait_until("strace has every thread", LIMIT, || {
        assert!(strace.is_running(), "strace ended: {}", strace.output());
        tasks(&server).all(|task| {
            let status = std::fs::read_to_string(task.join("status"));
            status.is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
        })
    });
    let own = share(Path::new("/proc/thread-self"), "").expect("this thread's share");
    server.process.signal("HUP");
    wait_until("it compiles after all others", LIMIT, || {
        shares(&server, "fairway-compile") == [((own.0 + 15).min(19), SCHED_BATCH)]
    });
}

/// Returns the threads of a server.
fn tasks(server: &Fairway) -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process.pid())).expect("its threads");
    tasks.filter_map(|task| Some(task.ok()?.path()))
}

/// Returns the scheduling of the threads whose names begin with this.
fn shares(server: &Fairway, begin: &str) -> Vec<(i32, u32)> {
    tasks(server).filter_map(|task| share(&task, begin)).collect()
}

/// Policy of threads whose wake-up preempts no other (`SCHED_BATCH`, sched(7)).
const SCHED_BATCH: u32 = 3;

/// Returns niceness and policy of a thread whose name begins with this (proc_pid_stat(5), fields 19 and 41).
fn share(task: &Path, begin: &str) -> Option<(i32, u32)> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    name.starts_with(begin).then(|| Some((fields[16].parse().ok()?, fields[38].parse().ok()?)))?
}
