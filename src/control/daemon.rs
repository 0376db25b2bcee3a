//! The running daemon: everything wired up, and the way down again.

use std::{fmt, net::SocketAddr, sync::Arc};

use fairway_model::Fault;

use crate::{config::Source, control::Control, observe::logs::Logs};

/// Asked for environment variables, so that tests need no environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How a daemon is started.
#[derive(Clone)]
pub struct Options {
    /// Where the configuration comes from.
    pub source: Source,
    /// Whether to take the sockets over from the daemon that runs on the same data folder, and end it.
    pub replace: bool,
    /// UDP threads; default one a core.
    pub workers: Option<usize>,
    /// Whether SIGTERM, SIGINT and SIGHUP are acted on. Off in tests and in the demo, which has its own Ctrl-C.
    pub signals: bool,
    /// The log whose filter follows the configuration.
    pub logs: Option<Logs>,
    /// The environment.
    pub environment: Environment,
}

impl Options {
    /// The defaults: no replacing, a thread a core, signals acted on, the process' own environment.
    pub fn new(source: Source) -> Self {
        let environment: Environment = Arc::new(|name| std::env::var(name).ok());
        Self { source, replace: false, workers: None, signals: true, logs: None, environment }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("source", &self.source).field("replace", &self.replace).finish_non_exhaustive()
    }
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    control: Control,
}

impl Daemon {
    /// Reads, compiles, probes once around, binds, serves: in this order. Returns when the first query can be answered.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let _ = options;
        Err(StartError::Config(vec![]))
    }

    /// The way to command it.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The addresses DNS is answered on, with the port that was given for port 0.
    pub fn dns_addresses(&self) -> &[SocketAddr] {
        &[]
    }

    /// The address of the HTTP listener.
    pub fn http_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Serves until a signal or a command ends it, then drains.
    pub async fn run_until_stopped(self) {}

    /// Drains now: nothing new is taken, what was accepted is answered.
    pub async fn stop(self) {}
}

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration or its zones are at fault; all faults at once.
    #[error("the configuration is refused:\n{}", lines(.0))]
    Config(Vec<Fault>),
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n")
}
