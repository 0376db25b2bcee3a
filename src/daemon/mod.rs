//! The running daemon: start, run, stop. `start` connects control, transport and API.

mod announce;
mod bound;
mod file_access;
mod first_load;
mod limited;
mod protection;
mod query_log;
mod replace;
mod signals;
mod start;
#[cfg(test)]
mod tests;
mod traces;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fairway_telemetry::{logs::Logs, query_log::QueryLog};
use tokio::{sync::mpsc, task::JoinHandle};
use tracing::{Instrument, Span};

use crate::daemon::announce::Announcer;
use fairway_api::{Api, Webhook};
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::{Environment, Source};
use fairway_control::{Control, Readiness, Shared, command::Command};
use fairway_history::History;
use fairway_store::DataFolder;
use fairway_transport::{
    Notifier, Server, Sockets,
    handover::{Offer, Successor},
};

pub(crate) use first_load::restrict_log_thread;
pub use {first_load::FirstLoad, start::StartError};

/// Options of a daemon.
pub struct Options {
    /// Source of the configuration.
    pub source: Source,
    /// Sockets from a service manager, see [`Sockets::inherited`]. Default: none.
    pub inherited: Sockets,
    /// True to take over from the daemon that runs on the same data folder.
    pub replace: bool,
    /// Number of UDP threads. Default: that of the configuration, else one per core.
    pub workers: Option<usize>,
    /// True to handle SIGTERM, SIGINT and SIGHUP. False in tests and in the demo, which handles Ctrl-C itself.
    pub signals: bool,
    /// The log; its filter and format follow the configuration.
    pub logs: Option<Logs>,
    /// The change log, which gets the events of the log.
    pub history: History,
    /// Environment variables.
    pub environment: Environment,
}

impl Options {
    /// Returns the default options, with the environment of the process.
    pub fn new(source: Source) -> Self {
        let environment: Environment = Arc::new(|name| std::env::var(name).ok());
        let inherited = Sockets::default();
        Self {
            source,
            inherited,
            replace: false,
            workers: None,
            signals: true,
            logs: None,
            history: History::default(),
            environment,
        }
    }
}

/// A running daemon.
pub struct Daemon {
    control: Control,
    addresses: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    api: Api,
    /// The DNS listeners.
    server: Server,
    webhook: Webhook,
    /// The control task.
    actor: JoinHandle<()>,
    /// Tasks that end with the daemon, like those for signals and for files.
    tasks: Tasks,
    /// Calls the ready callback.
    announcer: Option<Announcer>,
    query_log: QueryLog,
    /// Waits for a process that takes over.
    offer: Option<Offer>,
    folder: Option<Arc<DataFolder>>,
    notifier: Notifier,
    drain_timeout: Duration,
    logs: Option<Logs>,
}

/// Tasks that are aborted on drop.
#[derive(Debug, Default)]
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Daemon {
    /// Starts a daemon. Returns when it answers queries.
    ///
    /// # Errors
    ///
    /// The first step that failed. Everything that was started before is stopped.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        Self::start_loaded(FirstLoad::new(options)?).await
    }

    /// Starts a daemon with a configuration that is loaded already. Returns when it answers queries.
    ///
    /// # Errors
    ///
    /// The first step that failed. Everything that was started before is stopped.
    pub async fn start_loaded(first: FirstLoad) -> Result<Self, StartError> {
        let span = first.span.clone();
        start::start(first).instrument(span).await
    }

    /// Returns the handle for commands.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the addresses for DNS, with the assigned port instead of port 0.
    pub fn dns_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the address of the HTTP listener.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Serves until a signal or a command stops it, or another process takes over. Then it drains.
    pub async fn run_until_stopped(mut self) {
        let mut stopping = self.control.shared.lifecycle.stopping.subscribe();
        let replaced = async {
            match &mut self.offer {
                Some(offer) => offer.successor().await,
                None => std::future::pending().await,
            }
        };
        let successor = tokio::select! {
            // `self` holds the sender, so waiting never fails.
            reason = stopping.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| *reason).map_or("", Into::into);
                tracing::info!(event = "process", reason, "stopping");
                None
            }
            successor = replaced => Some(successor),
        };
        let span = successor.as_ref().map_or_else(Span::none, |successor| successor.trace.span());
        self.shut_down(successor).instrument(span).await;
    }

    /// Stops: answers the accepted queries, takes no new ones, and saves the state.
    pub async fn stop(self) {
        self.shut_down(None).await;
    }

    /// Stops. A successor keeps the sockets open; it gets the data folder once the state is saved. Without a successor, UDP is answered until
    /// everything else has ended.
    async fn shut_down(self, successor: Option<Successor>) {
        let Self {
            control, api, server, webhook, mut actor, tasks, announcer, query_log, offer, folder, notifier, ..
        } = self;
        let shared = Arc::clone(&control.shared);
        // The successor has reported that it is ready. A report of this process that it stops would contradict that.
        let announcer = announcer.filter(|_| successor.is_none());
        shared.lifecycle.readiness.send_replace(Readiness::Draining);
        match &successor {
            Some(successor) => notifier.main_process(successor.peer.pid.unsigned_abs()),
            None => notifier.stopping(),
        }
        drop(tasks);
        // The offer has copies of the sockets, which would keep the ports open.
        drop(offer);
        let is_replaced = successor.is_some();
        let publishers = shared.publishers.load_full();
        let resigned = async {
            // A Lease that is not released in this time ends by itself.
            let _ = tokio::time::timeout(RESIGN_MAX, publishers.resign()).await;
        };
        let announced = async {
            if let Some(announcer) = announcer {
                announcer.end().await;
            }
        };
        let server = match successor {
            Some(successor) => {
                // Nothing more is read from the sockets, since the successor reads them.
                let left = server.leave(self.drain_timeout);
                tokio::join!(left, release(successor, &control, &mut actor), announced, resigned);
                None
            }
            None => {
                // The API goes on, so that readiness is reported as long as a TCP client is waited for.
                let mut server = server;
                tokio::join!(server.drain_tcp(self.drain_timeout), announced, resigned);
                Some(server)
            }
        };
        end_actor(&control.commands, &mut actor).await;
        api.stop().await;
        control.close_objects().await;
        // The webhook closes after the store: until then its clients get 503 instead of a refused connection.
        webhook.stop().await;
        // After everything that could still record a span.
        shared.traces.stop().await;
        // Last of all, since nobody else answers: queries that come between here and the next start are lost.
        if let Some(server) = server {
            server.drain(self.drain_timeout).await;
        }
        end_logs(query_log, shared.serving.history().clone()).await;
        if let Some(folder) = folder.filter(|_| !is_replaced) {
            // A socket file that cannot be removed is replaced at the next start.
            let _ = std::fs::remove_file(folder.path().join(CONTROL_SOCKET));
        }
        log_totals(&shared);
        drop(self.logs);
    }
}

/// Saves the state, and hands the data folder over.
async fn release(successor: Successor, control: &Control, actor: &mut JoinHandle<()>) {
    end_actor(&control.commands, actor).await;
    control.close_objects().await;
    if let Err(error) = successor.release() {
        tracing::warn!(%error, "data folder release not sent to the new process");
    }
}

/// Writes the last samples of the query log, and what waits for the change log.
async fn end_logs(query_log: QueryLog, history: History) {
    // Dropping joins its thread.
    let _ = tokio::task::spawn_blocking(move || drop(query_log)).await;
    // If the disk hangs, the rest is lost.
    let _ = tokio::time::timeout(LAST_WRITE_MAX, tokio::task::spawn_blocking(move || history.close())).await;
}

fn log_totals(shared: &Shared) {
    let counted = shared.queries.sums();
    let [queries, responses, dropped] =
        [&counted.queries[..], &counted.rcodes, &counted.drops].map(|counts| counts.iter().sum::<u64>());
    tracing::info!(queries, responses, dropped, "stopped");
}

/// Ends the control task, which saves its state. Aborts it after [`LAST_WRITE_MAX`], since the disk may hang.
async fn end_actor(commands: &mpsc::Sender<Command>, actor: &mut JoinHandle<()>) {
    if actor.is_finished() {
        return;
    }
    let end = async {
        // Sending fails if the task has ended; then it has saved its state.
        let _ = commands.send(Command::End).await;
        let _ = (&mut *actor).await;
    };
    if tokio::time::timeout(LAST_WRITE_MAX, end).await.is_err() {
        tracing::error!("state not written before exit: the next start uses the last saved state");
        actor.abort();
    }
}

/// Longest wait until publishers let other servers publish; those that take over wait 15 s otherwise.
const RESIGN_MAX: Duration = Duration::from_secs(2);
/// Longest wait until the state is on disk.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);
