//! One reading of a load source: sends the requests and parses the responses to metrics of gateways or values of clusters.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use fairway_model::{
    Cause, Check, ClusterName, ExposedServices, HttpCheck, LoadEndpoint, LoadQuery, LoadSource, Monitor, ProbeAddress,
    Secret, StatusSet,
};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{
    answers_wire::{self, JSON_MAX},
    error::ReadError,
    exposition::{Exposition, ExpositionError, TEXT_MAX},
    gateway::{GatewayCollector, GatewayMetrics, GatewayWarning},
    get::{BodyReceiver, HttpGet},
};
use crate::{
    fence::Fence,
    probe::{MonitorError, TlsConfigs, check_monitor},
};

/// A reading with a schedule of its own: the gateways of a cluster, or one URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReadJob {
    /// The load source.
    pub(super) source: Arc<LoadSource>,
    /// The clusters that it reads.
    pub(super) scope: ReadScope,
}

/// The clusters of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReadScope {
    /// All clusters of a source, which its response names.
    AllClusters,
    /// One cluster, by its gateways; a source with a URL does not use them.
    Cluster(ClusterName, Gateways),
}

/// The gateways of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gateways {
    /// The gateways that are read.
    pub all: Vec<ProbeAddress>,
    /// Addresses that lead to any of these gateways, and are read while none of them can be reached, as from outside of the network of
    /// their cluster. Empty unless the gateways are pods that were found.
    pub instead: Vec<ProbeAddress>,
    /// Port at which the gateways answer whether they are ready.
    pub status_port: Option<u16>,
}

impl From<Vec<ProbeAddress>> for Gateways {
    fn from(all: Vec<ProbeAddress>) -> Self {
        Self { all, ..Self::default() }
    }
}

/// The result of a reading.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReadResult {
    /// The metrics of each gateway, or (`true`) those behind each address that is read instead.
    Gateways(Vec<Result<GatewayMetrics, ReadError>>, bool),
    /// The value of each cluster that the response names.
    Clusters(Result<BTreeMap<String, f64>, ReadError>),
}

/// Limits that all readings share.
#[derive(Debug)]
pub(super) struct ReadLimits {
    /// Limit of open connections.
    connections: Arc<Semaphore>,
    /// Limit of concurrent look-ups of host names.
    lookups: Arc<Semaphore>,
    /// Decides if a connection is allowed.
    fence: Arc<Fence>,
}

impl ReadLimits {
    pub(super) fn new(fence: Arc<Fence>) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            fence,
        }
    }
}

/// Largest number of open connections of readings; others wait, and may run into their timeout. A quarter of the default
/// number of probe sockets, because a reading is rarer and larger than a probe.
const CONNECTIONS_MAX: usize = 256;
/// Largest number of concurrent look-ups of host names, each of which blocks a thread; a quarter of those of probes.
const LOOKUPS_MAX: usize = 16;

/// A job with its prepared request.
#[derive(Debug)]
pub(super) struct PreparedRead {
    job: ReadJob,
    /// The address of a source with a URL.
    url: Option<ProbeAddress>,
    get: Result<HttpGet, MonitorError>,
    /// The same without statistics of services, for gateways with too many of them.
    filtered: Option<HttpGet>,
    /// The status port of gateways that were found.
    status: Option<HttpGet>,
    /// Readings that are left before the gateways, and not the addresses instead of them, are read again.
    instead: AtomicU32,
    /// Readings that are left before the statistics of services are read again.
    reduced: AtomicU32,
    connections: Arc<Semaphore>,
}

/// Readings that go by another way after the usual one failed: an hour at the default period.
const OTHER_WAY: u32 = 360;

impl PreparedRead {
    pub(super) fn new(job: ReadJob, limits: &ReadLimits, configs: &mut TlsConfigs) -> Self {
        let (check, url) = check(&job);
        let read_max = if matches!(job.source.query, LoadQuery::Prometheus { .. }) { TEXT_MAX } else { JSON_MAX };
        // Twice the limit of the text, which the parser enforces: the rest is for chunks and TLS.
        let shared = (&limits.lookups, &limits.fence);
        let mut get = |check: &HttpCheck| HttpGet::new(check, 2 * read_max, shared, configs);
        let status_port = match &job.scope {
            ReadScope::Cluster(_, gateways) => gateways.status_port,
            ReadScope::AllClusters => None,
        };
        let status = status_port.and_then(|port| get(&HttpCheck::get(port, READY_PATH)).ok());
        let is_filterable = matches!(&job.source.query, LoadQuery::Prometheus { metric: None, .. }) && url.is_none();
        let path = format!("{}?filter={}", check.path, fairway_http::encode(WITHOUT_SERVICES));
        let filtered = HttpCheck { path, ..check.clone() };
        let filtered = (is_filterable && !check.path.contains('?')).then(|| get(&filtered).ok()).flatten();
        let get = get(&check);
        let (instead, reduced) = Default::default();
        Self { job, url, get, filtered, status, instead, reduced, connections: Arc::clone(&limits.connections) }
    }

    /// Reads all gateways in parallel, each with the full timeout, and collects statistics of these services.
    pub(super) async fn run(self: Arc<Self>, exposed: ExposedServices) -> ReadResult {
        let gateways = match &self.job.scope {
            ReadScope::AllClusters => return ReadResult::Clusters(self.read_clusters().await),
            ReadScope::Cluster(_, gateways) => gateways,
        };
        let (can_instead, is_instead) = (!gateways.instead.is_empty(), take_one(&self.instead));
        let gateways = if is_instead { &gateways.instead } else { &gateways.all };
        let addresses = self.url.clone().map_or_else(|| gateways.clone(), |url| vec![url]);
        let mut results: Vec<_> = addresses.iter().map(|_| Err(internal_error())).collect();
        let mut tasks = JoinSet::new();
        let is_reduced = take_one(&self.reduced);
        for (index, address) in addresses.into_iter().enumerate() {
            let (read, exposed) =
                (Arc::clone(&self), if is_reduced { ExposedServices::new() } else { exposed.clone() });
            tasks.spawn(async move { (index, read.read_gateway(&address, (is_reduced, is_instead), exposed).await) });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Ok((index, result)) = ended {
                results[index] = result;
            }
        }
        let is_unreachable = |result: &Result<_, ReadError>| {
            matches!(result, Err(ReadError::Connect(_) | ReadError::Late(_) | ReadError::NotAllowed(_)))
        };
        if can_instead && !is_instead && results.iter().all(is_unreachable) {
            self.instead.store(OTHER_WAY, Relaxed);
        }
        let is_long = |result: &Result<_, ReadError>| matches!(result, Err(ReadError::Text(ExpositionError::Long(_))));
        if self.filtered.is_some() && results.iter().any(is_long) {
            self.reduced.store(OTHER_WAY, Relaxed);
        }
        ReadResult::Gateways(results, is_instead)
    }

    async fn read_gateway(
        &self,
        address: &ProbeAddress,
        (is_reduced, is_instead): (bool, bool),
        exposed: ExposedServices,
    ) -> Result<GatewayMetrics, ReadError> {
        let filtered = self.filtered.as_ref().filter(|_| is_reduced);
        match &self.job.source.query {
            LoadQuery::Prometheus { metric, overload_at, .. } => {
                let mut exposition = Exposition::new(TEXT_MAX);
                let mut collector = GatewayCollector::new(metric.as_ref(), *overload_at).with_services(exposed);
                let mut parse = |piece: &[u8]| {
                    exposition.feed(piece, &mut |sample| collector.add_sample(sample)).map_err(ReadError::from)
                };
                let status = self.status.as_ref().filter(|_| !is_instead);
                let mut nothing = |_: &[u8]| Ok(());
                let is_ready = async {
                    let Some(status) = status else { return true };
                    // A firewall may let this server read statistics only, so a port that cannot be reached says nothing.
                    !matches!(self.request(status, address, &mut nothing).await, Err(ReadError::Status(_)))
                };
                let get = filtered.map_or_else(|| self.get(), Ok)?;
                let (read, is_ready) = tokio::join!(self.request(get, address, &mut parse), is_ready);
                read?;
                exposition.finish()?;
                let mut metrics = collector.finish()?;
                if !is_ready {
                    metrics.warnings.push(GatewayWarning::NotReady);
                }
                metrics.is_reduced = is_reduced;
                Ok(metrics)
            }
            LoadQuery::Json { pointer, .. } => {
                let pointer = match &self.job.scope {
                    ReadScope::Cluster(cluster, _) => pointer.replace(CLUSTER, cluster.as_str()),
                    ReadScope::AllClusters => pointer.clone(),
                };
                let number = answers_wire::number_at(&self.text(address).await?, &pointer)?;
                Ok(GatewayMetrics { declared: Some(number), ..GatewayMetrics::default() })
            }
            LoadQuery::Promql { .. } => Err(internal_error()),
        }
    }

    async fn read_clusters(&self) -> Result<BTreeMap<String, f64>, ReadError> {
        let (LoadQuery::Promql { label, .. }, Some(url)) = (&self.job.source.query, &self.url) else {
            return Err(internal_error());
        };
        answers_wire::vector(&self.text(url).await?, label)
    }

    /// Returns the whole response, of at most [`JSON_MAX`] bytes.
    async fn text(&self, address: &ProbeAddress) -> Result<Vec<u8>, ReadError> {
        let mut text = Vec::new();
        let mut append = |piece: &[u8]| {
            if text.len() + piece.len() > JSON_MAX {
                return Err(ReadError::Content(format!("response over {} MiB", JSON_MAX >> 20)));
            }
            text.extend_from_slice(piece);
            Ok(())
        };
        self.request(self.get()?, address, &mut append).await?;
        Ok(text)
    }

    fn get(&self) -> Result<&HttpGet, ReadError> {
        self.get.as_ref().map_err(|error| ReadError::Observer(Cause(error.to_string())))
    }

    async fn request(
        &self,
        get: &HttpGet,
        address: &ProbeAddress,
        receiver: &mut BodyReceiver<'_>,
    ) -> Result<(), ReadError> {
        let _permit = self.connections.acquire().await.map_err(|_| internal_error())?;
        let limit = self.job.source.timeout;
        timeout(limit, get.send(address, receiver)).await.map_err(|_| ReadError::Late(limit))?
    }
}

/// Returns true if anything is left, of which it takes one.
fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// Path at which Istio's gateways answer whether they are ready.
const READY_PATH: &str = "/healthz/ready";
/// Statistics of a gateway that are read if all of them are too many: Envoy's query parameter `filter`, a regular expression of names.
const WITHOUT_SERVICES: &str = "downstream_rq_active$|^server\\.|^overload\\.|istio_requests_total|^istio_build";

/// Placeholder of the cluster's name in a path and in a pointer.
const CLUSTER: &str = "{cluster}";

/// Returns the error of a panicked task or of a job without a matching query.
fn internal_error() -> ReadError {
    ReadError::Observer(Cause::new("internal error of the load reader; please report it"))
}

/// Returns the request of a job, and the address of its URL if it has one.
fn check(job: &ReadJob) -> (HttpCheck, Option<ProbeAddress>) {
    let source = &job.source;
    let cluster = match &job.scope {
        // A plus in a query string means a space.
        ReadScope::Cluster(cluster, _) => cluster.as_str().replace('+', "%2B"),
        ReadScope::AllClusters => String::new(),
    };
    let accept = if matches!(source.query, LoadQuery::Prometheus { .. }) { TEXT } else { JSON };
    let ((path, url), port) = match &source.query {
        LoadQuery::Prometheus { endpoint, .. } | LoadQuery::Json { endpoint, .. } => match endpoint {
            LoadEndpoint::Gateways { port, path } => ((path.clone(), None), *port),
            LoadEndpoint::Url(url) => ((url.path.replace(CLUSTER, &cluster), Some(url)), 0),
        },
        LoadQuery::Promql { url, query, .. } => {
            let path = format!("{}/api/v1/query?query={}", url.path.trim_end_matches('/'), fairway_http::encode(query));
            ((path, Some(url)), 0)
        }
    };
    let user_agent = concat!("fairway/", env!("CARGO_PKG_VERSION"), " (load)");
    let header = |name: &str, value: &str| (name.to_owned(), Secret::new(value));
    let mut headers = vec![header("accept", accept), header("user-agent", user_agent)];
    if let Some(token) = &source.token {
        headers.push(("authorization".to_owned(), Secret::new(format!("Bearer {}", token.expose()))));
    }
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

/// Returns an error if a load source is invalid, without connecting to it.
///
/// The system's trust anchors are not read, so that a configuration can be checked on another machine.
pub fn check_load_source(source: &LoadSource) -> Result<(), MonitorError> {
    let scope = match source.query {
        LoadQuery::Promql { .. } => ReadScope::AllClusters,
        _ => {
            let any = ClusterName::new("any").map_err(|error| MonitorError::Path(error.to_string()))?;
            ReadScope::Cluster(any, Gateways::default())
        }
    };
    let (check, _) = check(&ReadJob { source: Arc::new(source.clone()), scope });
    let check = HttpCheck { port: check.port.max(1), ..check };
    check_monitor(&Monitor::new(Check::Http(check)))
}
