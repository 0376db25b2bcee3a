//! The way up: read, compile, bind, open the data folder, probe once around, serve.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use fairway_health::{Checker, CheckerSettings, Flip};
use fairway_model::{Fault, Timestamp};
use fairway_zones::Snapshot;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{broadcast, mpsc, watch},
};

use super::{
    Control, Daemon, Options,
    actor::{Actor, Askers},
    book::Book,
    configured::{Configured, Reader, describe},
    daemon::Tasks,
    keeper::Keeper,
    reload::view_of,
    retired::Retired,
    shared::{Clock, Counts, FLIPS_KEPT, Published, Readiness, Shared, system_clock},
    transports::Transports,
    watch::watch_files,
};
use crate::{
    api::{Api, bind_socket, client::CONTROL_SOCKET, state_wire::ListenerState},
    config::{Settings, watch::Fingerprint},
    observe::{logs::Logs, metrics::Metrics, query_log::QueryLog},
    serve::{BindErrors, Server, Sockets, TcpSettings},
    store::{DataFolder, FolderError, KeptOverride, Remembered},
};

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration or its zones are at fault; all faults at once.
    #[error("the configuration is refused:\n{}", lines(.0))]
    Config(Vec<Fault>),
    /// DNS addresses that cannot be bound, all of them.
    #[error(transparent)]
    Bind(#[from] BindErrors),
    /// The HTTP listener cannot be bound.
    #[error("HTTP listener {address}: {source}; free the address, or give another listen.http (off for none)")]
    Http {
        /// As configured.
        address: SocketAddr,
        /// The system's words.
        source: io::Error,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The control socket cannot be made.
    #[error("control socket {path}: {source}; a path of over 107 octets is too long for a socket")]
    Socket {
        /// Its path.
        path: String,
        /// The system's words.
        source: io::Error,
    },
    /// The threads of the transports, or a signal handler, cannot be started.
    #[error("the server cannot start its threads: {0}; look at the limits of the process")]
    Threads(io::Error),
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n")
}

/// Starts a daemon; what was begun is undone where a step fails.
pub(super) async fn start(options: Options) -> Result<Daemon, StartError> {
    let clock = system_clock();
    let reader = Reader { source: options.source, environment: options.environment, others: vec![] };
    let Some(reading) = reader.read(None, clock()).await else {
        return Err(StartError::Threads(io::Error::other("no thread to read the configuration on")));
    };
    let (configured, snapshot) = reading.outcome.map_err(StartError::Config)?;
    follow_filter(options.logs.as_ref(), &configured.settings);
    configured.warnings.iter().for_each(|fault| tracing::warn!(%fault, "configuration doubtful"));
    let bound = Bound::new(&configured.settings, options.inherited, options.workers).await?;
    let (folder, remembered, kept) = open_folder(configured.settings.data_dir.as_deref())?;
    let socket = folder.as_ref().map(|folder| control_socket(folder.path())).transpose()?;

    let (drain_timeout, first_round) = (configured.settings.drain_timeout, configured.settings.health.first_round);
    let tcp = tcp_settings(&configured.settings);
    let parts = Parts { reader, folder, clock, logs: options.logs.clone(), fingerprint: reading.fingerprint };
    let (control, actor, fingerprint) = parts.begin(configured, snapshot, remembered, kept).await;
    let actor = tokio::spawn(actor.run());
    let mut tasks = Tasks(vec![tokio::spawn(watch_files(fingerprint, control.commands.clone()))]);
    if options.signals {
        tasks.0.push(super::signals::listen(&control).map_err(StartError::Threads)?);
    }
    let shared = Arc::clone(&control.shared);
    // Set once, here.
    let _ = shared.listeners.set(bound.listeners(socket.as_ref()));
    let (addresses, http) = (bound.sockets.addresses(), bound.http_address());
    let api = Api::start(&control, &Arc::new(Metrics::default()), bound.http, socket);
    let unjudged = shared.checker.first_round(first_round).await;
    if unjudged > 0 {
        tracing::warn!(unjudged, ?first_round, "the first round of probes is not complete; serving all the same");
    }
    control.settle().await;
    let server = Server::start(bound.sockets, Arc::clone(&shared.view), tcp).map_err(StartError::Threads)?;
    let query_log = query_log(&shared, &server).map_err(StartError::Threads)?;
    shared.transports.put(server);
    shared.readiness.send_replace(Readiness::Ready);
    tracing::info!(?addresses, ?http, version = env!("CARGO_PKG_VERSION"), "serving");
    Ok(Daemon { control, addresses, http, api, actor, tasks, query_log, drain_timeout, logs: options.logs })
}

fn follow_filter(logs: Option<&Logs>, settings: &Settings) {
    if let Some(Err(error)) = logs.map(|logs| logs.set_filter(&settings.log.filter)) {
        tracing::warn!(%error, "the log keeps its filter");
    }
}

/// Starts the log of queries; it follows the configuration in force.
fn query_log(shared: &Arc<Shared>, server: &Server) -> io::Result<QueryLog> {
    let shared = Arc::clone(shared);
    let wanted = move || {
        let settings = shared.published.load().configured.settings.query_log.clone();
        (settings, *shared.hang_ups.borrow())
    };
    QueryLog::start(server.tallies_by_thread().to_vec(), Box::new(wanted))
}

/// What is bound, before anything is served on it.
struct Bound {
    sockets: Sockets,
    http: Option<TcpListener>,
}

impl Bound {
    async fn new(settings: &Settings, inherited: Sockets, workers: Option<usize>) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.or(settings.udp.workers).unwrap_or_else(cores);
        let sockets = inherited.complete(&settings.dns, workers)?;
        let http = match settings.http {
            None => None,
            Some(address) => {
                let fault = |source| StartError::Http { address, source };
                Some(TcpListener::bind(address).await.map_err(fault)?)
            }
        };
        Ok(Self { sockets, http })
    }

    fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    fn listeners(&self, socket: Option<&UnixListener>) -> Vec<ListenerState> {
        let state = |kind: &str, address: String| ListenerState { kind: kind.to_owned(), address };
        let mut listeners: Vec<_> =
            self.sockets.addresses().iter().map(|address| state("dns", address.to_string())).collect();
        listeners.extend(self.http_address().map(|address| state("http", address.to_string())));
        let path = socket.and_then(|socket| socket.local_addr().ok());
        let path = path.and_then(|address| address.as_pathname().map(|path| path.with_extension("sock")));
        listeners.extend(path.map(|path| state("control", path.display().to_string())));
        listeners
    }
}

type Opened = (Option<Arc<DataFolder>>, Vec<Remembered>, Vec<KeptOverride>);

/// Opens the data folder and reads what is in it. A disk that cannot be written to must not keep a name server from
/// starting: then what can be read is read, and nothing is kept.
fn open_folder(path: Option<&Path>) -> Result<Opened, StartError> {
    let Some(path) = path else { return Ok((None, vec![], vec![])) };
    match DataFolder::open(path) {
        Ok(folder) => {
            let (health, overrides) = (folder.read_health(), folder.read_overrides());
            Ok((Some(Arc::new(folder)), health, overrides))
        }
        Err(FolderError::Unusable { path, source })
            if matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull) =>
        {
            tracing::error!(path = %path.display(), error = %source, "data folder cannot be written to: nothing is kept");
            Ok((None, crate::store::peek_health(&path), crate::store::peek_overrides(&path)))
        }
        Err(error) => Err(error.into()),
    }
}

fn control_socket(folder: &Path) -> Result<UnixListener, StartError> {
    let path = folder.join(CONTROL_SOCKET);
    bind_socket(&path).map_err(|source| StartError::Socket { path: path.display().to_string(), source })
}

fn tcp_settings(settings: &Settings) -> TcpSettings {
    let tcp = &settings.tcp;
    TcpSettings {
        connections: tcp.connections_max,
        per_client: tcp.per_client_max,
        idle: tcp.idle_timeout,
        message: tcp.query_timeout,
        write: tcp.query_timeout,
    }
}

/// What the control task is made of.
pub(super) struct Parts {
    pub(super) reader: Reader,
    pub(super) folder: Option<Arc<DataFolder>>,
    pub(super) clock: Clock,
    pub(super) logs: Option<Logs>,
    pub(super) fingerprint: Fingerprint,
}

impl Parts {
    /// Starts checking, and makes the control task with its first view; the task is not started.
    pub(super) async fn begin(
        self,
        configured: Configured,
        snapshot: Snapshot,
        remembered: Vec<Remembered>,
        kept: Vec<KeptOverride>,
    ) -> (Control, Actor, watch::Receiver<Fingerprint>) {
        let (flips, flips_in) = mpsc::channel::<Flip>(FLIPS_WAITING_MAX);
        let settings = CheckerSettings { sockets_max: configured.settings.health.sockets_max };
        let checker = Checker::start(settings, flips);
        let targets = snapshot.targets().to_vec();
        let restored = Remembered::find(remembered, &targets);
        checker.set_targets(targets, restored).await;
        let verdicts: HashMap<_, _> = checker.states().await.into_iter().map(|s| (s.target, s.verdict)).collect();
        let book = first_book(&configured, kept, (self.clock)());
        let forced = book.forced(&configured.uses);
        let view = view_of(snapshot, None, &verdicts, &forced);
        let published = Published {
            snapshot: Arc::clone(&view.snapshot),
            configured: Arc::new(configured),
            generation: 1,
            loaded_at: (self.clock)(),
            stale: false,
            last_reload: None,
            book,
        };
        let shared = Arc::new(Shared {
            view: Arc::new(ArcSwap::from_pointee(view)),
            published: ArcSwap::from_pointee(published),
            checker,
            transports: Transports::default(),
            counts: Counts::default(),
            flips: broadcast::channel(FLIPS_KEPT).0,
            readiness: watch::channel(Readiness::Starting).0,
            stopping: watch::channel(None).0,
            hang_ups: watch::channel(0).0,
            started: SystemTime::now().into(),
            listeners: OnceLock::new(),
            source: describe(&self.reader.source),
        });
        let (commands, commands_in) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (fingerprint, files) = watch::channel(self.fingerprint);
        let actor = Actor {
            shared: Arc::clone(&shared),
            commands: commands_in,
            flips: flips_in,
            waiting: vec![],
            reader: self.reader,
            reading: None,
            askers: Askers::default(),
            later: Askers::default(),
            fingerprint,
            forced,
            keeper: Keeper::new(self.folder),
            retired: Retired::default(),
            clock: self.clock,
            logs: self.logs,
        };
        (Control { shared, commands }, actor, files)
    }
}

/// The overrides in force at the start; those that ended while nobody ran are told and left out.
fn first_book(configured: &Configured, kept: Vec<KeptOverride>, now: Timestamp) -> Book {
    let mut book = Book::new(configured.overrides.clone(), kept);
    for (_, said) in book.expire(now) {
        tracing::warn!(scope = %said.scope, force = %said.forced, ended = %said.expires, "override ended before the start");
    }
    book
}

/// Flips that may wait for the control task; the checker joins what is over.
const FLIPS_WAITING_MAX: usize = 4096;
/// Commands that may wait for the control task; further callers wait.
const COMMANDS_WAITING_MAX: usize = 64;
