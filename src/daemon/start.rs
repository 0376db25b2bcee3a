//! Start of the daemon: load, compile, bind, open the data folder, wait for the first probe round, serve.

use std::{io, mem, net::SocketAddr, os::fd::OwnedFd, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use fairway_hosts::Hosts;
use fairway_model::Diagnostic;
use fairway_sources::Sources;
use fairway_telemetry::{logs::Logs, query_log::QueryLog, traces::Traces};
use fairway_zones::{CookieKey, give_back_memory};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
    task::JoinHandle,
};

use crate::daemon::{
    Daemon, Options, Tasks,
    announce::Announcer,
    bound::{Bound, HEALTH, HTTP, HandedOver, WEBHOOK},
    first_load::FirstLoad,
    limited::log_limited_responses,
    protection::protections,
    query_log,
    replace::{self, Predecessor},
    signals,
    traces::start_traces,
};
use fairway_api::{Api, Webhook, bind_socket, metrics::Metrics};
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::{Settings, watch::Fingerprint};
use fairway_control::{
    Control, Readiness,
    declared::Declared,
    file_watch::watch_files,
    lifecycle::{Clock, Listener, Protection, system_clock},
    objects, publishing,
    reader::Reader,
    reloads::{ReloadScope, Trigger},
    start::Parts,
};
use fairway_history::History;
use fairway_store::{DataFolder, FolderError, SavedState, objects::StoreError};
use fairway_transport::{
    BindErrors, Notifier, PrivilegeError, Server, Sockets, TcpSettings, drop_to,
    handover::{HandoverError, Offer},
};

/// Error of a start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration or its zones are invalid; has all errors.
    #[error("the configuration is invalid:\n{}", lines(.0))]
    Config(Vec<Diagnostic>),
    /// Addresses for DNS that cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindErrors),
    /// The HTTP listener cannot be bound.
    #[error("HTTP listener {address}: {source}; free the address, or change {key}")]
    Http {
        /// Key in the configuration.
        key: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The control socket cannot be created.
    #[error("control socket {path}: {source}; the path of a socket may have at most 107 bytes")]
    Socket {
        /// Its path.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// `--replace` without a data folder.
    #[error("--replace finds the running process by its data folder; add --data-dir")]
    NothingToReplace,
    /// The running daemon did not hand over.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The declared objects are encrypted with a key that is not given. Without them, names would be missing from the answers.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Cannot switch to the user of the settings.
    #[error(transparent)]
    User(#[from] PrivilegeError),
    /// A thread or a signal handler cannot be started.
    #[error("cannot start the threads of the server: {0}; check the limits of the process")]
    Threads(io::Error),
}

fn lines(errors: &[Diagnostic]) -> String {
    errors.iter().map(|error| format!("  {error}")).collect::<Vec<_>>().join("\n")
}

/// Starts a daemon. If a step fails, everything that was started before is dropped, which stops it.
pub(super) async fn start(first: FirstLoad) -> Result<Daemon, StartError> {
    let FirstLoad { options, mut reader, configured, snapshot, fingerprint, landlock, .. } = first;
    let (signals, logs, history) = (options.signals, options.logs.clone(), options.history.clone());
    let notifier = Notifier::new((options.environment)("NOTIFY_SOCKET").map(Into::into));
    let clock = system_clock();
    let (predecessor, mut bound) = bind(options, &configured.settings).await?;
    let (declared, settings) = (Arc::clone(&reader.declared), configured.settings.clone());
    let (copies, listeners) = (bound.copies()?, bound.state(settings.data_dir.as_deref()));
    // The webhook answers from here on, with 503 until the start is complete. A replaced process still answers itself.
    let mut hook = Hook::new(&settings, bound.listeners.remove(WEBHOOK), predecessor.is_none());
    // Everything that needs root is done before.
    settings.user.as_deref().map_or(Ok(()), drop_to)?;
    let protections = protections(&settings, landlock);
    let (folder, mut saved) = open_folder(settings.data_dir.as_deref(), predecessor.is_some())?;
    objects::check_store(&settings, folder.as_deref())?;
    set_cookie_key(&reader, settings.data_dir.as_deref());
    let objects = if predecessor.is_some() {
        // The store is opened once the predecessor has released it.
        replace::fetch_objects(&settings, &declared).await;
        None
    } else {
        Some(objects::at_start(&settings, folder.as_deref(), &declared).await)
    };
    let read = start_reading(&mut reader, &mut saved);
    let (configured, snapshot) = objects::with_objects(&reader, configured, snapshot, clock());
    let parts = parts((reader, read), (&folder, &clock, &logs), history, fingerprint, &listeners);
    let (control, actor, fingerprint) = parts.start(configured, snapshot, saved, hook.traces.clone()).await;
    let store_task = objects.and_then(|objects| control.set_objects(objects));
    let actor = tokio::spawn(actor.run());
    let mut tasks = first_tasks(&control, fingerprint, store_task, signals)?;
    publish(&control, listeners, protections, &hook);
    let (addresses, http) = (bound.sockets.addresses(), bound.http_address());
    let (mut api, server, query_log) =
        serve_all(&control, &settings, bound, folder.as_deref(), predecessor.is_some()).await?;
    let folder = match predecessor {
        Some(predecessor) => Some(take_over(predecessor, &control, &mut api, &settings, &declared, &mut tasks).await?),
        None => folder,
    };
    folder.iter().for_each(|folder| open_history(&control, folder, &settings));
    let offer = folder.as_ref().and_then(|folder| offer(&server, folder, &copies));
    hook.open(&control, &settings, &mut tasks);
    report_serving(&control, &addresses, http, &notifier);
    Ok(Daemon {
        announcer: Announcer::start(&settings, &control.shared, clock),
        control,
        addresses,
        http,
        api,
        server,
        webhook: hook.webhook,
        actor,
        tasks,
        query_log,
        offer,
        folder,
        notifier,
        drain_timeout: settings.drain_timeout,
        logs,
    })
}

/// Folder of the change log, in the data folder.
const HISTORY_FOLDER: &str = "history";

/// Begins the change log. Without it, the server answers all the same.
fn open_history(control: &Control, folder: &DataFolder, settings: &Settings) {
    let served = &control.shared.serving;
    match served.history().open(&folder.path().join(HISTORY_FOLDER), settings.history.bytes) {
        Ok(()) => served.record(),
        Err(error) => tracing::error!(%error, "change log not written: there are no events and no `explain --at`"),
    }
}

/// Starts look-ups of host names and reading of Kubernetes clusters, whose results the reader uses from now on.
fn start_reading(reader: &mut Reader, saved: &mut SavedState) -> (Hosts, Sources) {
    reader.kept.store(Arc::new(saved.overrides.clone()));
    let hosts = Hosts::start(mem::take(&mut saved.hosts));
    let sources = Sources::start(saved.found.take().as_deref());
    (reader.hosts, reader.found) = (hosts.addresses(), sources.found());
    (hosts, sources)
}

/// Returns the parts of the control task.
fn parts(
    (reader, (hosts, sources)): (Reader, (Hosts, Sources)),
    (folder, clock, logs): (&Option<Arc<DataFolder>>, &Clock, &Option<Logs>),
    history: History,
    fingerprint: Fingerprint,
    listeners: &[Listener],
) -> Parts {
    let listeners = listeners.iter().filter_map(|listener| listener.address.parse().ok()).collect();
    let (folder, clock, logs) = (folder.clone(), Arc::clone(clock), logs.clone());
    Parts { reader, folder, clock, logs, fingerprint, listeners, hosts, sources, history }
}

/// Gives the API the listeners, the protections, and the ledger of the webhook. The cells are empty until here, so setting them cannot fail.
fn publish(control: &Control, listeners: Vec<Listener>, protections: Vec<Protection>, hook: &Hook) {
    let _ = control.shared.lifecycle.listeners.set(listeners);
    let _ = control.shared.lifecycle.protections.set(protections);
    let _ = control.shared.declarations.webhook.set((hook.webhook.ledger.clone(), hook.webhook.calls.clone()));
}

/// Sets the key of cookies to that of the data folder, which a replacement shares with the process that it replaces.
fn set_cookie_key(reader: &Reader, folder: Option<&Path>) {
    if let Some(key) = fairway_store::cookie_key(folder).and_then(|hex| CookieKey::from_hex(&hex)) {
        reader.cookie_key.set(key);
    }
}

/// Takes the sockets of the process to replace, and binds the others.
async fn bind(options: Options, settings: &Settings) -> Result<(Option<Predecessor>, Bound), StartError> {
    let Options { inherited, replace, workers, .. } = options;
    let taken = if replace { take_sockets(settings).await? } else { None };
    let (predecessor, sockets, handed_over) = match taken {
        Some((predecessor, sockets, listeners)) => (Some(predecessor), sockets, listeners),
        None => (None, inherited, HandedOver::default()),
    };
    let bound = Bound::new(settings, sockets, handed_over, workers).await?;
    Ok((predecessor, bound))
}

/// Starts to serve DNS, HTTP and the control socket of the folder, which is there before the server is ready. A replacement has no folder
/// yet, and serves HTTP only after DNS; until then the replaced process serves HTTP.
async fn serve_all(
    control: &Control,
    settings: &Settings,
    bound: Bound,
    folder: Option<&DataFolder>,
    is_replacement: bool,
) -> Result<(Api, Server, QueryLog), StartError> {
    let metrics = Arc::new(Metrics::default());
    let mut api = Api::new(control, Arc::clone(&metrics));
    let Bound { sockets, mut listeners } = bound;
    let mut serve_http = |api: &mut Api| {
        if let Some(listener) = listeners.remove(HTTP) {
            api.serve_http(listener);
        }
        if let Some((listener, settings)) = listeners.remove(HEALTH).zip(settings.health_listener.clone()) {
            api.serve_health(listener, settings);
        }
    };
    if let Some(folder) = folder {
        api.serve_socket(control_socket(folder.path())?);
    }
    if !is_replacement {
        serve_http(&mut api);
    }
    let (server, query_log) = serve_dns(control, settings, sockets).await?;
    metrics.set_transports(server.counters().clone());
    if is_replacement {
        // The replaced process answers the webhook until it has released the folder.
        report_ready(control);
    }
    serve_http(&mut api);
    Ok((api, server, query_log))
}

/// Starts the tasks that watch files, publish and handle signals; adds that of the store.
fn first_tasks(
    control: &Control,
    fingerprint: watch::Receiver<Fingerprint>,
    store_task: Option<JoinHandle<()>>,
    handles_signals: bool,
) -> Result<Tasks, StartError> {
    let files = watch_files(fingerprint, control.commands.clone());
    let publishing = publishing::follow(Arc::clone(&control.shared));
    let limits = log_limited_responses(Arc::clone(&control.shared));
    let mut tasks = vec![tokio::spawn(files), tokio::spawn(publishing), tokio::spawn(limits)];
    tasks.extend(store_task);
    if handles_signals {
        tasks.push(signals::listen(control).map_err(StartError::Threads)?);
    }
    Ok(Tasks(tasks))
}

/// Takes over the data folder of the replaced daemon with its control socket, and the objects that were declared to it until its end.
async fn take_over(
    predecessor: Predecessor,
    control: &Control,
    api: &mut Api,
    settings: &Settings,
    declared: &Arc<ArcSwap<Declared>>,
    tasks: &mut Tasks,
) -> Result<Arc<DataFolder>, StartError> {
    let folder = predecessor.end(control).await?;
    let objects = objects::open(&folder, &settings.store, declared).await;
    tasks.0.extend(control.set_objects(objects));
    control.request_reload(ReloadScope::Objects, Trigger::Api).await;
    api.serve_socket(control_socket(folder.path())?);
    Ok(folder)
}

fn report_ready(control: &Control) {
    control.shared.lifecycle.readiness.send_replace(Readiness::Ready);
}

/// Reports that the server serves, and frees memory of the start in the background, because nothing waits for that.
fn report_serving(control: &Control, addresses: &[SocketAddr], http: Option<SocketAddr>, notifier: &Notifier) {
    report_ready(control);
    let served = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let shown = http.map_or_else(|| "off".to_owned(), |address| address.to_string());
    tracing::info!(event = "process", dns = served, http = shown, version = env!("CARGO_PKG_VERSION"), "serving");
    notifier.ready(&format!("Serving on {served}"));
    drop(tokio::task::spawn_blocking(give_back_memory));
}

/// Takes the sockets of the daemon that runs on the data folder. Returns `None` if none runs.
async fn take_sockets(settings: &Settings) -> Result<Option<(Predecessor, Sockets, HandedOver)>, StartError> {
    let folder = settings.data_dir.as_deref().ok_or(StartError::NothingToReplace)?;
    let taken = Predecessor::take_sockets(folder, settings.user.as_deref()).await?;
    if taken.is_none() {
        tracing::info!(folder = %folder.display(), "nothing to replace: no daemon runs on this data folder");
    }
    Ok(taken)
}

/// The webhook during the start, with the traces of its calls. The replaced process may share its listener, and answers until this process
/// can.
struct Hook {
    webhook: Webhook,
    /// Listener that does not answer yet.
    listener: Option<TcpListener>,
    traces: Traces,
}

impl Hook {
    /// Starts to answer at once, unless another process still does.
    fn new(settings: &Settings, listener: Option<TcpListener>, is_alone: bool) -> Self {
        let traces = start_traces(settings);
        let mut hook = Self { webhook: Webhook::default(), listener, traces };
        if is_alone {
            hook.answer(settings);
        }
        hook
    }

    fn answer(&mut self, settings: &Settings) {
        if let Some((listener, settings)) = self.listener.take().zip(settings.webhook.as_ref()) {
            self.webhook.serve_calls(listener, settings, &self.traces);
        }
    }

    /// Completes the start: calls are processed from now on.
    fn open(&mut self, control: &Control, settings: &Settings, tasks: &mut Tasks) {
        let ledger = Arc::clone(&self.webhook.ledger);
        ledger.open(control);
        tasks.0.push(tokio::spawn(ledger.follow()));
        self.answer(settings);
        self.webhook.drop_first_settings();
    }
}

/// Waits for the first probe round, up to its limit, then serves DNS.
async fn serve_dns(control: &Control, settings: &Settings, sockets: Sockets) -> Result<(Server, QueryLog), StartError> {
    let shared = &control.shared;
    let limit = settings.health.first_round;
    control.read_clusters(limit).await;
    let unevaluated = shared.probes.checker.first_round(limit).await;
    if unevaluated > 0 {
        tracing::warn!(unevaluated, ?limit, "serving before the first probe round is complete");
    }
    control.settle().await;
    let server =
        Server::start(sockets, shared.serving.pointer(), tcp_settings(settings)).map_err(StartError::Threads)?;
    let query_log = query_log::start(shared, &server).map_err(StartError::Threads)?;
    let counters = server.counters().clone();
    shared.queries.set(Box::new(move || counters.tallies_by_thread().cloned().collect()));
    Ok((server, query_log))
}

/// Starts to wait for a process that takes over. If that fails, the daemon serves nevertheless, but its replacement loses queries.
fn offer(server: &Server, folder: &DataFolder, listeners: &[(&str, OwnedFd)]) -> Option<Offer> {
    let offer = replace::offer(folder, server, listeners);
    offer.inspect_err(|error| tracing::warn!(%error, "handover not available for this process")).ok()
}

/// Opens the data folder and reads the saved state. While another process holds the folder (`is_taken`), the state is only read. A disk
/// that cannot be written must not prevent the start of a name server: then the state is read, and not saved.
fn open_folder(path: Option<&Path>, is_taken: bool) -> Result<(Option<Arc<DataFolder>>, SavedState), StartError> {
    let Some(path) = path else { return Ok((None, SavedState::default())) };
    if is_taken {
        return Ok((None, SavedState::peek(path)));
    }
    match DataFolder::open(path) {
        Ok(folder) => {
            let past = folder.read_state();
            Ok((Some(Arc::new(folder)), past))
        }
        Err(FolderError::Unusable { path, source })
            if matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull) =>
        {
            tracing::error!(path = %path.display(), error = %source, "data folder not writable: state is not saved");
            Ok((None, SavedState::peek(&path)))
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
