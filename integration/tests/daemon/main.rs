//! The real binary as a daemon: reloads, restarts, replacement, commands, resource limits, hostile gateways. Tests send continuous
//! queries where an operator would fear lost answers.
//!
//! Unit tests cover the single parts (reader of the configuration, hand-over, health checks).

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use fairway_integration::real::{Fairway, Process, fairway_binary, http_get};

mod commands;
mod commands_files;
mod damaged;
#[cfg(feature = "real")]
mod flush;
mod hostile;
mod intents;
mod inventory;
mod landlock;
mod objects;
mod once;
mod places;
mod privileges;
mod process;
mod ready;
mod reload;
mod removals;
mod replace;
mod restart;
mod schedule;
mod secrets;
mod start;
#[cfg(feature = "real")]
mod timeline;
mod trace;
mod traces;
mod unreadable;
mod upgrade;
mod watch;

/// Longest wait for an event that is immediate on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The name that every test queries.
const NAME: &str = "www.gslb.example";

/// Returns a configuration that answers [`NAME`] with these addresses of one cluster, without a monitor.
fn answering(addresses: &[&str]) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{{ name: eu1, addresses: [{}] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: {NAME}, pool: shop }}]
",
        addresses.join(", ")
    )
}

/// Returns a configuration that answers [`NAME`] with the first of these clusters that is up; `monitor` is the monitor of all.
fn failing_over(clusters: &[(&str, &str)], monitor: &str) -> String {
    let declared = clusters.iter().map(|(name, address)| format!("{{ name: {name}, addresses: [{address}] }}"));
    let members = clusters.iter().map(|(name, _)| format!("{{ cluster: {name} }}"));
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{}]
monitors: [{{ name: gateway, {monitor} }}]
pools: [{{ name: shop, policy: failover, monitor: gateway, members: [{}] }}]
names: [{{ name: {NAME}, pool: shop }}]
",
        declared.collect::<Vec<_>>().join(", "),
        members.collect::<Vec<_>>().join(", "),
    )
}

/// Returns `GET /v1/state`.
fn state(server: SocketAddr) -> serde_json::Value {
    let (_, body) = http_get(server, "/v1/state").expect("/v1/state answers");
    serde_json::from_str(&body).expect("/v1/state is JSON")
}

/// Runs a command of the program to its end.
fn run(arguments: &[&str]) -> Output {
    Command::new(fairway_binary()).args(arguments).output().expect("the program starts")
}

/// Returns the whole output of a command.
fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|octets| String::from_utf8_lossy(octets).into_owned()).concat()
}

/// Returns the trace ids of the log lines with this message; empty for lines without one.
fn traces(log: &str, msg: &str) -> Vec<String> {
    // The last line may be incomplete.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let wanted = lines.filter(|line| line["msg"] == msg);
    wanted.map(|line| line["trace"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits, and checks all the time that `check` still holds.
fn hold(span: Duration, mut check: impl FnMut()) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        check();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A gateway of the test: accepts connections one after the other and passes each to `serve`, until it is dropped.
struct Gateway {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// `serve` gets the connection and a flag that asks it to end.
    fn start(address: &str, port: u16, serve: impl Fn(&mut std::net::TcpStream, &AtomicBool) + Send + 'static) -> Self {
        let listener = TcpListener::bind((address, port)).expect("loopback has the port");
        let at = listener.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                serve(&mut stream, &ending);
            }
        });
        Self { at, stop, thread: Some(thread) }
    }

    /// Returns a gateway that answers 200 to everything.
    fn healthy(address: &str, port: u16) -> Self {
        Self::start(address, port, |stream, _| {
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next connection.
        let _ = std::net::TcpStream::connect(self.at);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the program on a folder's `fairway.yaml` with further arguments; its output goes to `log`.
fn serve_again(server: &Fairway, log: &str) -> Process {
    let folder: &Path = server.folder.path();
    Process::start(&mut fairway_integration::real::serve(folder), &folder.join(log))
}
