//! The way up: read, compile, bind, open the data folder, probe once around, serve.

use std::{io, net::SocketAddr, os::fd::OwnedFd, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use fairway_model::{Diagnostic, Timestamp};
use fairway_telemetry::{
    logs::Logs,
    query_log::{self, QueryLog, QueryLogOptions, QuerySample},
    traces::Traces,
};
use fairway_zones::{Sample, Snapshot, Transport, give_back_memory};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
};

use crate::daemon::signals;
use crate::daemon::{
    Daemon, Options, Tasks,
    announce::Announcer,
    bound::{Bound, Passed},
    replace::{self, Predecessor},
    traces::start_traces,
};
use fairway_api::{Api, Webhook, bind_socket, metrics::Metrics};
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::{QueryLogSink, Settings, watch::Fingerprint};
use fairway_control::{
    Control, Readiness, Shared,
    configured::{Compiled, Configured},
    declared::Declared,
    file_watch::watch_files,
    lifecycle::system_clock,
    line_format, objects, publishing,
    reader::{LowerPriority, Reader},
    reloads::{ReloadScope, Trigger},
    start::{Parts, Past},
};
use fairway_store::{DataFolder, FolderError};
use fairway_transport::{
    BindErrors, Notifier, PrivilegeError, Server, Sockets, TcpSettings, drop_to,
    handover::{HandoverError, Offer},
    lower_priority_of_computation, raise_open_files,
};

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration or its zones are at fault; all faults at once.
    #[error("the configuration is refused:\n{}", lines(.0))]
    Config(Vec<Diagnostic>),
    /// DNS addresses that cannot be bound, all of them.
    #[error(transparent)]
    Bind(#[from] BindErrors),
    /// The HTTP listener cannot be bound.
    #[error("HTTP listener {address}: {source}; free the address, or give another {key}")]
    Http {
        /// Where it is configured.
        key: &'static str,
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
    /// `--replace` without a data folder.
    #[error("--replace finds the running fairway by its data folder, and there is none; give --data-dir")]
    NothingToReplace,
    /// The running daemon does not give way.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The user of the settings cannot be become.
    #[error(transparent)]
    User(#[from] PrivilegeError),
    /// The threads of the transports, or a signal handler, cannot be started.
    #[error("the server cannot start its threads: {0}; look at the limits of the process")]
    Threads(io::Error),
}

fn lines(faults: &[Diagnostic]) -> String {
    faults.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n")
}

/// Starts a daemon; undoes what was begun if a step fails.
pub(super) async fn start(options: Options) -> Result<Daemon, StartError> {
    more_open_files();
    let (signals, logs) = (options.signals, options.logs.clone());
    let notifier = Notifier::new((options.environment)("NOTIFY_SOCKET").map(Into::into));
    let clock = system_clock();
    let Prepared { reader, declared, configured, snapshot, fingerprint, settings, predecessor, mut bound } =
        prepare(options, clock()).await?;
    let (copies, shown) = (bound.copies()?, bound.listeners(settings.data_dir.as_deref()));
    // The webhook answers first: that it is starting, unless the process that is replaced still answers.
    let mut hook = Hook::new(&settings, bound.webhook.take(), predecessor.is_none());
    become_user(&settings)?;
    let (folder, kept) = open_folder(settings.data_dir.as_deref(), predecessor.is_some())?;
    let objects = match predecessor {
        // The store is opened once the predecessor has released it.
        Some(_) => {
            replace::fetch_objects(&settings, &declared).await;
            None
        }
        None => Some(objects::at_start(&settings, folder.as_deref(), &declared).await),
    };
    let (configured, snapshot) = objects::with_objects(&reader, configured, snapshot, clock());

    let parts = Parts { reader, folder: folder.clone(), clock: Arc::clone(&clock), logs: logs.clone(), fingerprint };
    let (control, actor, fingerprint) = parts.start(configured, snapshot, kept, hook.traces.clone()).await;
    let followed = objects.map(|objects| control.set_objects(objects));
    let actor = tokio::spawn(actor.run());
    let mut tasks = first_tasks(&control, fingerprint);
    tasks.0.extend(followed.flatten());
    if signals {
        tasks.0.push(signals::listen(&control).map_err(StartError::Threads)?);
    }
    // Both cells are empty until here, so that setting them cannot fail.
    let _ = control.shared.lifecycle.listeners.set(shown);
    let _ = control.shared.declarations.webhook.set(hook.webhook.parts());
    let (addresses, http) = (bound.sockets.addresses(), bound.http_address());
    let Answering { mut api, server, query_log } =
        answer(&control, &settings, bound, &mut hook, predecessor.is_some()).await?;
    let folder = match predecessor {
        Some(predecessor) => Some(take_over(predecessor, &control, &settings, &declared, &mut tasks).await?),
        None => folder,
    };
    if let Some(folder) = &folder {
        api.serve_socket(control_socket(folder.path())?);
    }
    let offer = folder.as_ref().and_then(|folder| offer(&server, folder, &copies));
    hook.open(&control, &settings, &mut tasks);
    tell_serving(&addresses, http, &notifier);
    // Nothing waits for the memory to be returned.
    drop(tokio::task::spawn_blocking(give_back_memory));
    let announcer = Announcer::start(&settings, &control.shared, clock);
    Ok(Daemon {
        control,
        addresses,
        http,
        api,
        server,
        webhook: hook.webhook,
        actor,
        tasks,
        announcer,
        query_log,
        offer,
        folder,
        notifier,
        drain_timeout: settings.drain_timeout,
        logs,
    })
}

/// The configuration as it was first read, and the sockets that it names.
struct Prepared {
    reader: Reader,
    declared: Arc<ArcSwap<Declared>>,
    configured: Configured,
    snapshot: Snapshot,
    fingerprint: Fingerprint,
    settings: Settings,
    /// The process that is replaced; `None` if none is.
    predecessor: Option<Predecessor>,
    bound: Bound,
}

/// Reads the configuration, takes the sockets of the process that is replaced, and binds the others.
async fn prepare(options: Options, now: Timestamp) -> Result<Prepared, StartError> {
    let Options { source, inherited, replace, workers, logs, environment, .. } = options;
    let lower_priority: LowerPriority = || Box::new(lower_priority_of_computation());
    let reader = Reader { lower_priority, ..Reader::new(source, environment) };
    let declared = Arc::clone(&reader.declared);
    let (configured, snapshot, fingerprint) = first(&reader, now, logs.as_ref())?;
    let settings = configured.settings.clone();
    let (predecessor, inherited, passed) =
        if replace { ask(&settings, inherited).await? } else { (None, inherited, Passed::default()) };
    let bound = Bound::new(&settings, inherited, passed, workers).await?;
    Ok(Prepared { reader, declared, configured, snapshot, fingerprint, settings, predecessor, bound })
}

/// The listeners that answer.
struct Answering {
    api: Api,
    server: Server,
    query_log: QueryLog,
}

/// Answers DNS and HTTP on what is bound. A process that takes over answers HTTP only once it answers DNS: until then the other one
/// answers HTTP for it.
async fn answer(
    control: &Control,
    settings: &Settings,
    bound: Bound,
    hook: &mut Hook,
    takes_over: bool,
) -> Result<Answering, StartError> {
    let metrics = Arc::new(Metrics::default());
    let mut api = Api::new(control, Arc::clone(&metrics));
    let Bound { sockets, http: listener, health, .. } = bound;
    let (now, later) = if takes_over { (None, listener) } else { (listener, None) };
    if let Some(listener) = now {
        api.serve_http(listener);
    }
    let (server, query_log) = serve(control, settings, sockets).await?;
    metrics.set_transports(server.counters().clone());
    if let Some(listener) = later {
        api.serve_http(listener);
    }
    if let Some(listener) = health {
        hook.webhook.serve_metrics(listener, control, metrics);
    }
    Ok(Answering { api, server, query_log })
}

/// What follows the files, and what publishes, from the start on.
fn first_tasks(control: &Control, fingerprint: watch::Receiver<Fingerprint>) -> Tasks {
    let files = watch_files(fingerprint, control.commands.clone());
    Tasks(vec![tokio::spawn(files), tokio::spawn(publishing::follow(Arc::clone(&control.shared)))])
}

/// Reads the configuration for the first time. On this thread: nothing else is there to be done, and memory of the main thread costs
/// far fewer calls of the system.
fn first(
    reader: &Reader,
    now: Timestamp,
    logs: Option<&Logs>,
) -> Result<(Configured, Snapshot, Fingerprint), StartError> {
    let reading = reader.read_here(ReloadScope::Files, None, now);
    let Compiled { configured, snapshot, .. } = reading.outcome.map_err(StartError::Config)?;
    follow_settings(logs, &configured.settings);
    configured.warnings.iter().for_each(|fault| tracing::warn!(%fault, "configuration warning"));
    Ok((configured, snapshot, reading.fingerprint.unwrap_or_default()))
}

/// Takes the data folder of the daemon before, and what was declared to it to the last.
async fn take_over(
    predecessor: Predecessor,
    control: &Control,
    settings: &Settings,
    declared: &Arc<ArcSwap<Declared>>,
    tasks: &mut Tasks,
) -> Result<Arc<DataFolder>, StartError> {
    let folder = predecessor.end(control).await?;
    let objects = objects::open(&folder, &settings.store, declared).await;
    tasks.0.extend(control.set_objects(objects));
    control.request_reload(ReloadScope::Objects, Trigger::Api).await;
    Ok(folder)
}

fn more_open_files() {
    if let Err(error) = raise_open_files() {
        tracing::warn!(%error, "open file limit not raised");
    }
}

fn tell_serving(addresses: &[SocketAddr], http: Option<SocketAddr>, notifier: &Notifier) {
    let served = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let shown = http.map_or_else(|| "off".to_owned(), |address| address.to_string());
    tracing::info!(dns = served, http = shown, version = env!("CARGO_PKG_VERSION"), "serving");
    notifier.ready(&format!("Serving on {served}"));
}

/// Asks the daemon that runs on the data folder for its sockets.
async fn ask(settings: &Settings, inherited: Sockets) -> Result<Asked, StartError> {
    let Some(folder) = settings.data_dir.as_deref() else { return Err(StartError::NothingToReplace) };
    match Predecessor::ask(folder, settings).await? {
        Some((predecessor, sockets, passed)) => Ok((Some(predecessor), sockets, passed)),
        None => {
            tracing::info!(folder = %folder.display(), "nothing to replace: no daemon runs on this data folder");
            Ok((None, inherited, Passed::default()))
        }
    }
}

type Asked = (Option<Predecessor>, Sockets, Passed);

/// The webhook on the way up, with the traces of its calls. Its listener may be shared with the process that is replaced, which answers
/// until this one can.
struct Hook {
    webhook: Webhook,
    later: Option<TcpListener>,
    traces: Traces,
}

impl Hook {
    fn new(settings: &Settings, listener: Option<TcpListener>, is_alone: bool) -> Self {
        let traces = start_traces(settings);
        let mut hook = Self { webhook: Webhook::default(), later: listener, traces };
        if is_alone {
            hook.answer(settings);
        }
        hook
    }

    fn answer(&mut self, settings: &Settings) {
        if let Some((listener, settings)) = self.later.take().zip(settings.webhook.as_ref()) {
            self.webhook.serve_calls(listener, settings, &self.traces);
        }
    }

    /// Keeps in this daemon from now on.
    fn open(&mut self, control: &Control, settings: &Settings, tasks: &mut Tasks) {
        let (ledger, _) = self.webhook.parts();
        ledger.open(control);
        tasks.0.push(tokio::spawn(ledger.follow()));
        self.answer(settings);
    }
}

/// Gives up root for good, once everything that needs it is done.
fn become_user(settings: &Settings) -> Result<(), StartError> {
    let Some(user) = &settings.user else { return Ok(()) };
    if let Some(folder) = &settings.data_dir {
        DataFolder::create_for(folder, user)?;
    }
    Ok(drop_to(user)?)
}

/// Waits for the first verdicts, a while; then answers.
async fn serve(control: &Control, settings: &Settings, sockets: Sockets) -> Result<(Server, QueryLog), StartError> {
    let shared = &control.shared;
    let limit = settings.health.first_round;
    let unevaluated = shared.probes.checker.first_round(limit).await;
    if unevaluated > 0 {
        tracing::warn!(unevaluated, ?limit, "serving before the first probe round is complete");
    }
    control.settle().await;
    let server =
        Server::start(sockets, shared.serving.pointer(), tcp_settings(settings)).map_err(StartError::Threads)?;
    let query_log = query_log(shared, &server).map_err(StartError::Threads)?;
    let counters = server.counters().clone();
    shared.queries.set(Box::new(move || counters.tallies_by_thread().cloned().collect()));
    shared.lifecycle.readiness.send_replace(Readiness::Ready);
    Ok((server, query_log))
}

/// Offers everything to a later process; without an offer, replacing this one costs queries, and it serves all the same.
fn offer(server: &Server, folder: &DataFolder, listeners: &[(&str, OwnedFd)]) -> Option<Offer> {
    let offer = replace::offer(folder, server, listeners);
    offer.inspect_err(|error| tracing::warn!(%error, "handover not available for this process")).ok()
}

fn follow_settings(logs: Option<&Logs>, settings: &Settings) {
    logs.into_iter().for_each(|logs| logs.set_format(line_format(settings.log.format)));
    if let Some(Err(error)) = logs.map(|logs| logs.set_filter(&settings.log.filter)) {
        tracing::warn!(%error, "log filter rejected: the previous one stays in use");
    }
}

/// Starts the log of queries; it follows the configuration in force.
fn query_log(shared: &Arc<Shared>, server: &Server) -> io::Result<QueryLog> {
    let (shared, counters) = (Arc::clone(shared), server.counters().clone());
    QueryLog::start(Box::new(move |each| {
        let published = shared.serving.published();
        let settings = published.configured.settings.query_log.as_ref();
        let one_in = settings.map_or(0, |settings| settings.one_in.get());
        for tally in counters.tallies_by_thread() {
            // Each time: another thread may have begun to serve.
            tally.sample_every(one_in);
            tally.take_samples(|sample| each(logged(sample)));
        }
        let sink = settings.map(|settings| match &settings.sink {
            QueryLogSink::Stdout => query_log::QueryLogSink::Stdout,
            QueryLogSink::File(path) => query_log::QueryLogSink::File(path.clone()),
        });
        QueryLogOptions { sink, opened: *shared.lifecycle.hang_ups.borrow() }
    }))
}

fn logged(sample: Sample) -> QuerySample {
    let Sample { at, client, subnet, transport, rcode, question } = sample;
    let transport = match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    };
    QuerySample { at, client, subnet, transport, rcode, question }
}

/// Opens the data folder and reads what is in it. A disk that cannot be written to must not keep a name server from
/// starting: then what can be read is read, and nothing is kept.
/// While another process has the folder (`is_taken`), it is only looked into.
fn open_folder(path: Option<&Path>, is_taken: bool) -> Result<(Option<Arc<DataFolder>>, Past), StartError> {
    let Some(path) = path else { return Ok((None, Past::default())) };
    if is_taken {
        return Ok((None, Past::peek(path)));
    }
    match DataFolder::open(path) {
        Ok(folder) => {
            let past = Past::read(&folder);
            Ok((Some(Arc::new(folder)), past))
        }
        Err(FolderError::Unusable { path, source })
            if matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull) =>
        {
            tracing::error!(path = %path.display(), error = %source, "data folder not writable: state is not saved");
            Ok((None, Past::peek(&path)))
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
