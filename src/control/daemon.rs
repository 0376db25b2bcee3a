//! The running daemon: everything wired up, and the way down again.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle};

use super::{Control, StartError, command::Command, shared::Readiness, start};
use crate::{
    api::Api,
    config::Source,
    observe::{logs::Logs, query_log::QueryLog},
    serve::Sockets,
};

/// Asked for environment variables, so that tests need no environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How a daemon is started.
pub struct Options {
    /// Where the configuration comes from.
    pub source: Source,
    /// Sockets that a service manager passed on: see [`Sockets::inherited`]. Default none.
    pub inherited: Sockets,
    /// Whether to take the sockets over from the daemon that runs on the same data folder, and end it.
    pub replace: bool,
    /// UDP threads; default what the configuration says, else one a core.
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
        let inherited = Sockets::default();
        Self { source, inherited, replace: false, workers: None, signals: true, logs: None, environment }
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
    pub(super) control: Control,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) http: Option<SocketAddr>,
    pub(super) api: Api,
    pub(super) actor: JoinHandle<()>,
    /// Tasks that end with the daemon: signals, watching files.
    pub(super) tasks: Tasks,
    pub(super) query_log: QueryLog,
    pub(super) drain_timeout: Duration,
    pub(super) logs: Option<Logs>,
}

/// Tasks that are cut off when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(pub(super) Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Daemon {
    /// Reads, compiles, binds, probes once around, serves: in this order. Returns when the first query can be answered.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        start::start(options).await
    }

    /// The way to command it.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The addresses DNS is answered on, with the port that was given for port 0.
    pub fn dns_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address of the HTTP listener.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Serves until a signal or a command ends it, then drains.
    pub async fn run_until_stopped(self) {
        let mut stopping = self.control.shared.stopping.subscribe();
        // The sender lives in what is held here, so waiting ends only with a reason.
        let why = stopping.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        tracing::info!(?why, "stopping");
        self.stop().await;
    }

    /// Drains now: nothing new is taken, what was accepted is answered, what must survive is written.
    pub async fn stop(self) {
        let Self { control, api, mut actor, tasks, query_log, drain_timeout, logs, .. } = self;
        let shared = Arc::clone(&control.shared);
        shared.readiness.send_replace(Readiness::Draining);
        drop(tasks);
        if let Some(server) = shared.transports.take() {
            server.drain(drain_timeout).await;
        }
        // Joins its thread, which writes what was sampled last.
        let _ = tokio::task::spawn_blocking(move || drop(query_log)).await;
        end_actor(&control.commands, &mut actor).await;
        api.stop().await;
        tracing::info!("stopped");
        drop(logs);
    }
}

/// Lets the control task write what must survive; a disk that hangs is not waited for for ever.
async fn end_actor(commands: &mpsc::Sender<Command>, actor: &mut JoinHandle<()>) {
    let end = async {
        // A task that has ended already has written already.
        let _ = commands.send(Command::End).await;
        let _ = (&mut *actor).await;
    };
    if tokio::time::timeout(LAST_WRITE_MAX, end).await.is_err() {
        tracing::error!("state was not written in time; the next start begins from the last state");
        actor.abort();
    }
}

/// Longest wait for the last state to reach the disk.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);
