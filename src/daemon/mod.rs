//! The running daemon: everything wired up, and the way down again.

mod announce;
mod bound;
mod replace;
mod signals;
mod start;
#[cfg(test)]
mod tests;
mod traces;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use fairway_telemetry::{
    logs::{Logs, Trace},
    query_log::QueryLog,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tracing::{Instrument, Span};

use crate::daemon::announce::Announcer;
use fairway_api::{Api, Webhook};
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::{Environment, Source};
use fairway_control::{Control, Readiness, Shared, Stopping, command::Command};
use fairway_store::DataFolder;
use fairway_transport::{
    Notifier, Server, Sockets,
    handover::{Offer, Successor},
};

pub use start::StartError;

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
    control: Control,
    addresses: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    api: Api,
    /// The DNS listeners.
    server: Server,
    /// What ExternalDNS speaks to.
    webhook: Webhook,
    actor: JoinHandle<()>,
    /// Tasks that end with the daemon: signals, watching files.
    tasks: Tasks,
    /// Tells somebody that it is ready, and that it stops.
    announcer: Option<Announcer>,
    query_log: QueryLog,
    /// Waits for a process that replaces this one.
    offer: Option<Offer>,
    folder: Option<Arc<DataFolder>>,
    notifier: Notifier,
    drain_timeout: Duration,
    logs: Option<Logs>,
}

/// Tasks that are cut off when this is dropped.
#[derive(Debug, Default)]
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Daemon {
    /// Reads, compiles, binds, probes once around, serves: in this order. Returns when the first query can be answered.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        // What a replacement logs on its way up belongs to the hand-over.
        let span = if options.replace { Trace::new().span() } else { Span::none() };
        start::start(options).instrument(span).await
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

    /// Serves until a signal or a command ends it, or another process takes its place; then drains.
    pub async fn run_until_stopped(mut self) {
        let mut stopping = self.control.shared.lifecycle.stopping.subscribe();
        let replaced = async {
            match &mut self.offer {
                Some(offer) => offer.successor().await,
                None => std::future::pending().await,
            }
        };
        let successor = tokio::select! {
            // The sender lives in what is held here, so waiting ends only with a reason.
            why = stopping.wait_for(Option::is_some) => {
                let why = why.ok().and_then(|why| *why).map_or("", Stopping::word);
                tracing::info!(reason = why, "stopping");
                None
            }
            successor = replaced => Some(successor),
        };
        let span = successor.as_ref().map_or_else(Span::none, |successor| successor.trace.span());
        self.end(successor).instrument(span).await;
    }

    /// Drains now: nothing new is taken, what was accepted is answered, what must survive is written.
    pub async fn stop(self) {
        self.end(None).await;
    }

    /// Ends. With a successor, the sockets stay open in it, and it is told once the state is written.
    async fn end(self, successor: Option<Successor>) {
        let Self {
            control, api, server, webhook, mut actor, tasks, announcer, query_log, offer, folder, notifier, ..
        } = self;
        let shared = Arc::clone(&control.shared);
        // A successor has announced that it is ready: a last message of this process would contradict it.
        let announcer = announcer.filter(|_| successor.is_none());
        shared.lifecycle.readiness.send_replace(Readiness::Draining);
        match &successor {
            Some(successor) => notifier.main_process(successor.peer.pid.unsigned_abs()),
            None => notifier.stopping(),
        }
        drop(tasks);
        // The offer holds copies of the sockets, which would keep the ports open.
        drop(offer);
        let is_replaced = successor.is_some();
        let drained = drain(server, self.drain_timeout, is_replaced);
        let released = async {
            if let Some(successor) = successor {
                release(successor, &control, &mut actor).await;
            }
        };
        let announced = async {
            if let Some(announcer) = announcer {
                announcer.end().await;
            }
        };
        tokio::join!(drained, released, announced);
        // Dropping it joins its thread, which writes the last samples.
        let _ = tokio::task::spawn_blocking(move || drop(query_log)).await;
        end_actor(&control.commands, &mut actor).await;
        api.stop().await;
        control.close_objects().await;
        // The webhook closes last: until then a caller is answered that the server stops.
        webhook.stop().await;
        // The traces end after everything that could still write a span.
        shared.traces.stop().await;
        if let Some(folder) = folder.filter(|_| !is_replaced) {
            // Nothing listens there any more. A socket that cannot be removed is replaced at the next start.
            let _ = std::fs::remove_file(folder.path().join(CONTROL_SOCKET));
        }
        log_totals(&shared);
        drop(self.logs);
    }
}

/// Answers what was accepted. With a successor, which has the sockets too, nothing more is read from them.
async fn drain(server: Server, timeout: Duration, is_replaced: bool) {
    if is_replaced {
        server.leave(timeout).await;
    } else {
        server.drain(timeout).await;
    }
}

/// Writes the state, and lets the successor take the data folder.
async fn release(successor: Successor, control: &Control, actor: &mut JoinHandle<()>) {
    end_actor(&control.commands, actor).await;
    control.close_objects().await;
    if let Err(error) = successor.release() {
        tracing::warn!(%error, "data folder release not sent to the new process");
    }
}

fn log_totals(shared: &Shared) {
    let counted = shared.queries.sums();
    let [queries, responses, dropped] =
        [&counted.queries[..], &counted.rcodes, &counted.drops].map(|counts| counts.iter().sum::<u64>());
    tracing::info!(queries, responses, dropped, "stopped");
}

/// Lets the control task write what must survive; a disk that hangs is not waited for for ever.
async fn end_actor(commands: &mpsc::Sender<Command>, actor: &mut JoinHandle<()>) {
    if actor.is_finished() {
        return;
    }
    let end = async {
        // A task that has ended already has written already.
        let _ = commands.send(Command::End).await;
        let _ = (&mut *actor).await;
    };
    if tokio::time::timeout(LAST_WRITE_MAX, end).await.is_err() {
        tracing::error!("state not written before exit: the next start uses the last saved state");
        actor.abort();
    }
}

/// Longest wait for the last state to reach the disk.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);
