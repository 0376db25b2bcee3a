//! The real binary as a daemon: reloads, restarts, replacement, commands, wants of the machine, hostile gateways, each under
//! continuous queries where that is what an operator would fear.
//!
//! What single pieces do (the reader of the configuration, the hand-over, the health checks) is told beside them.

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
mod damaged;
#[cfg(feature = "real")]
mod flush;
mod hostile;
mod intents;
mod objects;
mod once;
mod places;
mod privileges;
mod process;
mod ready;
mod reload;
mod replace;
mod schedule;
mod start;
#[cfg(feature = "real")]
mod trace;
mod traces;
mod unreadable;
mod watch;

/// Longest time for anything that happens at once on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The name of every test.
const NAME: &str = "www.gslb.example";

/// A configuration that answers [`NAME`] with these addresses of one cluster, unchecked.
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

/// A configuration that answers [`NAME`] with the first of these clusters that is up; `monitor` says how they are checked.
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

/// `GET /v1/state`.
fn state(server: SocketAddr) -> serde_json::Value {
    let (_, body) = http_get(server, "/v1/state").expect("/v1/state answers");
    serde_json::from_str(&body).expect("/v1/state is JSON")
}

/// Runs a command of the program to its end.
fn run(arguments: &[&str]) -> Output {
    Command::new(fairway_binary()).args(arguments).output().expect("the program starts")
}

/// Everything that a command printed.
fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|octets| String::from_utf8_lossy(octets).into_owned()).concat()
}

/// The traces of a log's lines with this message, empty for those that have none.
fn traces(log: &str, msg: &str) -> Vec<String> {
    // The last line may be half written.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let wanted = lines.filter(|line| line["msg"] == msg);
    wanted.map(|line| line["trace"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Lets time pass and looks all the while whether `check` still holds.
fn hold(span: Duration, mut check: impl FnMut()) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        check();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A gateway of the test's own: takes connections one after the other and gives each to `serve`, until it is dropped.
struct Gateway {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// `serve` gets the connection and a flag that tells it to end.
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

    /// One that says 200 to everything.
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
        // Wakes it out of its wait for the next connection.
        let _ = std::net::TcpStream::connect(self.at);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the program on a folder's `fairway.yaml` with these further arguments; its output is in `log`.
fn serve_again(server: &Fairway, log: &str) -> Process {
    let folder: &Path = server.folder.path();
    Process::start(&mut fairway_integration::real::serve(folder), &folder.join(log))
}
