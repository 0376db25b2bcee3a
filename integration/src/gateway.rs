//! A real Envoy as an ingress gateway, with its own address.

use std::{net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use tempfile::TempDir;

use crate::real::{Process, free_port, http, http_get, program, wait_until};

/// The bootstrap of `fairway demo --envoy`: traffic, readiness by the health check filter, statistics, administration.
pub const BOOTSTRAP: &str = include_str!("../../src/demo/envoy.yaml");

/// Longest time until it is ready; half a second is usual, the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// One gateway: a real Envoy with its own address.
#[derive(Debug)]
pub struct Gateway {
    address: &'static str,
    ready: u16,
    /// Port of the administration interface.
    pub admin: u16,
    /// Port of the traffic.
    pub data: u16,
    /// Port of the statistics.
    pub stats: u16,
    folder: TempDir,
    bootstrap: String,
    process: Option<Process>,
}

impl Gateway {
    /// Starts Envoy with the placeholders of its bootstrap replaced; `ready` is the port of its readiness.
    pub fn new(address: &'static str, ready: u16, bootstrap: &str) -> Self {
        let [admin, data, stats] = [free_port(), free_port(), free_port()];
        let blanks = [("{admin}", admin), ("{data}", data), ("{ready}", ready), ("{stats}", stats)];
        let mut bootstrap = bootstrap.replace("{cluster}", "test").replace("{address}", address);
        for (blank, port) in blanks {
            bootstrap = bootstrap.replace(blank, &port.to_string());
        }
        let folder = TempDir::new().expect("a temporary folder");
        let mut gateway = Self { address, ready, admin, data, stats, folder, bootstrap, process: None };
        gateway.start();
        gateway
    }

    /// Starts Envoy (again, after a kill), and waits until it is ready.
    pub fn start(&mut self) {
        let file = self.folder.path().join("envoy.yaml");
        std::fs::write(&file, &self.bootstrap).expect("the folder can be written");
        let mut command = Command::new(envoy());
        command.arg("--config-path").arg(file);
        command.args(["--log-level", "warning", "--disable-hot-restart", "--concurrency", "1"]);
        self.process = Some(Process::start(&mut command, &self.folder.path().join("envoy.log")));
        wait_until("Envoy is ready", LIMIT, || {
            let process = self.process.as_mut().expect("it was just started");
            assert!(process.is_running(), "Envoy ended: {}", process.output());
            http_get(self.at(self.ready), "/healthz/ready").is_some_and(|(status, _)| status == 200)
        });
    }

    /// Returns the address of one of its ports.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address.parse().expect("an address"), port)
    }

    /// Kills it: its ports refuse connections from now on.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        self.process.as_ref().expect("it runs").signal(name);
    }

    /// Sends `POST /healthcheck/fail` or `/healthcheck/ok`, as a drain before an upgrade does.
    pub fn healthcheck(&self, word: &str) {
        let answer = http(self.at(self.admin), "POST", &format!("/healthcheck/{word}"));
        assert!(answer.as_ref().is_some_and(|(status, _)| *status == 200), "{answer:?}");
    }
}

/// Returns the path of the program.
pub fn envoy() -> PathBuf {
    program("envoy", "envoy")
}
