//! What one reading does: ask, and read the answer into what a gateway shows, or into numbers of clusters.

use std::{collections::BTreeMap, sync::Arc};

use fairway_model::{
    Cause, Check, ClusterName, HttpCheck, LoadEndpoint, LoadQuery, LoadSource, Monitor, ProbeAddress, StatusSet,
};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{
    answers_wire::{self, JSON_MAX},
    exposition::{Exposition, TEXT_MAX},
    failure::ReadError,
    gateway::{GatewayCollector, GatewayMetrics},
};
use crate::probe::{
    MonitorError, check_monitor,
    get::{Get, GetError, Piece, TlsConfigs},
};

/// One place, or a cluster's gateways, to read at a time of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Errand {
    /// What is asked.
    pub(super) source: Arc<LoadSource>,
    /// For whom.
    pub(super) whom: Whom,
}

/// For whom an errand is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whom {
    /// All clusters of a source: its answer names them.
    All,
    /// One cluster, by the gateways that are asked; at its one place where there are none.
    Cluster(ClusterName, Vec<ProbeAddress>),
}

/// What an errand brought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Brought {
    /// Of each gateway.
    Looks(Vec<Result<GatewayMetrics, ReadError>>),
    /// Of each cluster that the answer names.
    Values(Result<BTreeMap<String, f64>, ReadError>),
}

/// What all errands share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Connections that may be open at once.
    pub(super) places: Arc<Semaphore>,
    /// Lookups of names that may run at once.
    pub(super) lookups: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(CONNECTIONS_MAX)), lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

/// Connections of readings open at once; further ones wait, and what they bring late does not count.
const CONNECTIONS_MAX: usize = 256;
/// Lookups of host names at once: each blocks a thread.
const LOOKUPS_MAX: usize = 16;

/// An errand, ready to be run again and again.
#[derive(Debug)]
pub(super) struct Work {
    errand: Errand,
    /// The one place; none where gateways are asked.
    url: Option<ProbeAddress>,
    get: Result<Get, MonitorError>,
    places: Arc<Semaphore>,
}

impl Work {
    pub(super) fn new(errand: Errand, shared: &Shared, configs: &mut TlsConfigs) -> Self {
        let (check, url) = check(&errand);
        let read_max = if matches!(errand.source.query, LoadQuery::Prometheus { .. }) { TEXT_MAX } else { JSON_MAX };
        // Twice: room for chunks and TLS. The bound of the text itself is the reader's.
        let get = Get::new(&check, 2 * read_max, &shared.lookups, configs);
        Self { errand, url, get, places: Arc::clone(&shared.places) }
    }

    /// Asks once. Each gateway has the whole timeout, beside the others.
    pub(super) async fn run(self: Arc<Self>) -> Brought {
        let gateways = match &self.errand.whom {
            Whom::All => return Brought::Values(self.values().await),
            Whom::Cluster(_, gateways) => gateways.clone(),
        };
        let asked = self.url.clone().map_or(gateways, |url| vec![url]);
        let mut looks: Vec<_> = asked.iter().map(|_| Err(broken())).collect();
        let mut tasks = JoinSet::new();
        for (place, address) in asked.into_iter().enumerate() {
            let work = Arc::clone(&self);
            tasks.spawn(async move { (place, work.look(&address).await) });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Ok((place, look)) = ended {
                looks[place] = look;
            }
        }
        Brought::Looks(looks)
    }

    async fn look(&self, address: &ProbeAddress) -> Result<GatewayMetrics, ReadError> {
        match &self.errand.source.query {
            LoadQuery::Prometheus { metric, overload_at, .. } => {
                let (mut exposition, mut look) =
                    (Exposition::new(TEXT_MAX), GatewayCollector::new(metric.as_ref(), *overload_at));
                let mut fault = None;
                let mut read = |piece: &[u8]| {
                    fault = exposition.feed(piece, &mut |sample| look.take(sample)).err();
                    fault.is_none()
                };
                let outcome = self.ask(address, &mut read).await;
                if let Some(fault) = fault {
                    return Err(fault.into());
                }
                outcome?;
                exposition.finish()?;
                Ok(look.end()?)
            }
            LoadQuery::Json { pointer, .. } => {
                let pointer = self.named(pointer);
                let number = answers_wire::number_at(&self.text(address).await?, &pointer)?;
                Ok(GatewayMetrics { declared: Some(number), ..GatewayMetrics::default() })
            }
            LoadQuery::Promql { .. } => Err(broken()),
        }
    }

    async fn values(&self) -> Result<BTreeMap<String, f64>, ReadError> {
        let (LoadQuery::Promql { label, .. }, Some(url)) = (&self.errand.source.query, &self.url) else {
            return Err(broken());
        };
        answers_wire::vector(&self.text(url).await?, label)
    }

    /// Returns a whole answer, of at most [`JSON_MAX`] octets.
    async fn text(&self, address: &ProbeAddress) -> Result<Vec<u8>, ReadError> {
        let mut text = Vec::new();
        let mut read = |piece: &[u8]| {
            let fits = text.len() + piece.len() <= JSON_MAX;
            if fits {
                text.extend_from_slice(piece);
            }
            fits
        };
        self.ask(address, &mut read).await?;
        Ok(text)
    }

    async fn ask(&self, address: &ProbeAddress, piece: &mut Piece<'_>) -> Result<(), ReadError> {
        let get = self.get.as_ref().map_err(|error| ReadError::Observer(Cause(error.to_string())))?;
        let _place = self.places.acquire().await.map_err(|_| broken())?;
        let limit = self.errand.source.timeout;
        timeout(limit, get.send(address, piece)).await.map_err(|_| ReadError::Late(limit))?.map_err(read_error)
    }

    fn named(&self, text: &str) -> String {
        match &self.errand.whom {
            Whom::Cluster(cluster, _) => text.replace(CLUSTER, cluster.as_str()),
            Whom::All => text.to_owned(),
        }
    }
}

/// Stands for the name of a cluster in a path and in a pointer.
const CLUSTER: &str = "{cluster}";

/// Returns a fault of this program: a task that ended early, an errand that is none.
fn broken() -> ReadError {
    ReadError::Observer(Cause::new("the reading broke off by a fault of its own; please report it"))
}

fn read_error(error: GetError) -> ReadError {
    match error {
        GetError::Asker(cause) => ReadError::Observer(cause),
        GetError::Target(cause) => ReadError::Connect(cause),
        GetError::Status(status) => ReadError::Status(status),
        GetError::Encoded => ReadError::Content("the answer is compressed, which was not asked for".to_owned()),
        GetError::Enough => ReadError::Content(format!("an answer over {} MiB", JSON_MAX >> 20)),
    }
}

/// Returns the request of an errand, and its one place where it has one.
fn check(errand: &Errand) -> (HttpCheck, Option<ProbeAddress>) {
    let source = &errand.source;
    let cluster = match &errand.whom {
        // A plus stands for a blank in a query.
        Whom::Cluster(cluster, _) => cluster.as_str().replace('+', "%2B"),
        Whom::All => String::new(),
    };
    let (accept, (path, url), port) = match &source.query {
        LoadQuery::Prometheus { endpoint: LoadEndpoint::Gateways { port, path }, .. } => {
            (TEXT, (path.clone(), None), *port)
        }
        LoadQuery::Prometheus { endpoint: LoadEndpoint::Url(url), .. } => {
            (TEXT, (url.path.replace(CLUSTER, &cluster), Some(url)), 0)
        }
        LoadQuery::Json { endpoint: LoadEndpoint::Gateways { port, path }, .. } => (JSON, (path.clone(), None), *port),
        LoadQuery::Json { endpoint: LoadEndpoint::Url(url), .. } => {
            (JSON, (url.path.replace(CLUSTER, &cluster), Some(url)), 0)
        }
        LoadQuery::Promql { url, query, .. } => {
            let path = format!("{}/api/v1/query?query={}", url.path.trim_end_matches('/'), fairway_http::encode(query));
            (JSON, (path, Some(url)), 0)
        }
    };
    let user_agent = concat!("fairway/", env!("CARGO_PKG_VERSION"), " (load)");
    let mut headers = vec![("accept".to_owned(), accept.to_owned()), ("user-agent".to_owned(), user_agent.to_owned())];
    headers
        .extend(source.token.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {}", token.expose()))));
    let tls = match url {
        Some(url) => url.https.then(|| source.tls.clone().unwrap_or_default()),
        None => source.tls.clone(),
    };
    let check = HttpCheck {
        port,
        path: if path.is_empty() { "/".to_owned() } else { path },
        method: "GET".to_owned(),
        host: None,
        headers,
        status: StatusSet::default(),
        body: None,
        response_header: None,
        tls,
    };
    (check, url.map(|url| url.address.clone()))
}

const TEXT: &str = "text/plain;version=0.0.4";
const JSON: &str = "application/json";

/// Why a source cannot be read; says the field and what would be right. Nothing is connected to.
///
/// The system's trust anchors are not looked at, so that a configuration can be checked on another machine.
pub fn check_load_source(source: &LoadSource) -> Result<(), MonitorError> {
    let whom = match source.query {
        LoadQuery::Promql { .. } => Whom::All,
        _ => Whom::Cluster(ClusterName::new("any").map_err(|error| MonitorError::Path(error.to_string()))?, vec![]),
    };
    let (check, _) = check(&Errand { source: Arc::new(source.clone()), whom });
    let check = HttpCheck { port: check.port.max(1), ..check };
    check_monitor(&Monitor::new(Check::Http(check)))
}
