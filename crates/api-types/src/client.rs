//! A client of the API, which the command line uses.
//!
//! It calls the control socket, or a URL. Paths come from `endpoints`, as those of the routes do.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use fairway_http::{
    Failure, HttpError, Method, Options, Request, Route, StatusCode, Tls, Url, encode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use fairway_model::Secret;
use serde_json::Value;

use crate::{
    contributions_wire::{Confirmed, Contributions, Evicted, Eviction},
    endpoints::{
        self, ADD_OVERRIDE, APPLY, CONFIRM, CONTRIBUTIONS, DNS_UPDATE_RECORD, EVENTS, EVICT, EXPLAIN, EXPORT, Endpoint,
        LIST_OVERRIDES, METRICS, PUBLISH_APPLY, PUBLISH_PLAN, PUBLISH_TAKE, PUBLISHING, PUSH_LATENCY, PUSH_LOAD,
        RELOAD, REMOVE_OVERRIDE, STATE, STOP, VERSION,
    },
    explain_wire::Explanation,
    history_wire::{EventParameters, Timeline},
    latency_wire::LatencyState,
    load_wire::{LoadState, NewLoad},
    objects_wire::{ApplyReport, ObjectList, ObjectsExport},
    overrides_wire::{NewOverride, OverrideList, OverrideParameters, OverrideState},
    problem_wire::Problem,
    publishing_wire::{PublishPlan, PublishingState, TakeOrder, TakeReport},
    state_wire::{Body, ReloadReport, State, Version},
};

/// Address of a running server.
#[derive(Clone, Debug)]
pub enum Reach {
    /// Its control socket.
    Socket(PathBuf),
    /// Its HTTP listener, without TLS.
    Http(SocketAddr),
    /// A server at a URL.
    Remote(Box<Remote>),
}

/// A server at a URL, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// URL without path.
    pub url: Url,
    /// Trusted authority, and the client's certificate and key.
    pub tls: Tls,
    /// Token that is sent.
    pub token: Option<Secret>,
}

impl Reach {
    /// Returns the control socket of the server with this data folder.
    pub fn of_data_dir(data_dir: &Path) -> Self {
        Self::Socket(data_dir.join(CONTROL_SOCKET))
    }
}

/// Name of the control socket in the data folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    http: fairway_http::Client,
    /// An error if the address cannot be written as a URL.
    url: Result<Url, String>,
    socket: Option<PathBuf>,
    token: Option<Secret>,
}

/// Options of applying objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applying {
    /// Return what would change, and change nothing.
    pub dry_run: bool,
    /// Delete objects that were created over the API and are not in the body.
    pub prune: bool,
    /// Delete them also if that looks like a mistake.
    pub allow_removals: bool,
    /// Store access points with `DENY`, which nothing enforces yet.
    pub inert: bool,
    /// Reason, for the history.
    pub reason: String,
}

/// The query whose answer is explained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainQuery {
    /// The name asked for.
    pub name: String,
    /// The type asked for; default A.
    pub rtype: Option<String>,
    /// The client: an address or a network; default a query without client subnet.
    pub client: Option<String>,
    /// Time of the past (RFC 3339); default now.
    pub at: Option<String>,
}

impl Client {
    /// Creates a client; sends nothing.
    pub fn new(reach: Reach) -> Self {
        let mut options = Options { shows_path: true, ..Options::new(PATIENCE, BODY_MAX) };
        let (mut socket, mut token) = (None, None);
        let url = match reach {
            Reach::Socket(path) => {
                options.route = Route::UnixSocket(path.clone());
                socket = Some(path);
                Url::parse("http://fairway")
            }
            Reach::Http(address) => Url::parse(&format!("http://{address}")),
            Reach::Remote(to) => {
                options.tls = to.tls;
                token = to.token;
                Ok(to.url)
            }
        };
        let url = url.map_err(|error| error.to_string());
        Self { http: fairway_http::Client::new(options), url, socket, token }
    }

    /// `GET /v1/state`.
    pub async fn state(&self) -> Result<State, ClientError> {
        self.request(&STATE, &[], &[]).await
    }

    /// `GET /v1/explain`.
    pub async fn explain(&self, query: &ExplainQuery) -> Result<Explanation, ClientError> {
        let mut parameters = vec![("name", query.name.as_str())];
        let optional = [("type", &query.rtype), ("client", &query.client), ("at", &query.at)];
        parameters.extend(optional.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))));
        self.request(&EXPLAIN, &[], &parameters).await
    }

    /// `GET /v1/events`.
    pub async fn events(&self, query: &EventParameters) -> Result<Timeline, ClientError> {
        let [after, limit] = [query.after.map(|id| id.to_string()), query.limit.map(|limit| limit.to_string())];
        let optional = [
            ("since", &query.since),
            ("until", &query.until),
            ("event", &query.event),
            ("contains", &query.contains),
            ("after", &after),
            ("limit", &limit),
        ];
        let parameters: Vec<_> = optional.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))).collect();
        self.request(&EVENTS, &[], &parameters).await
    }

    /// `GET /version`.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.request(&VERSION, &[], &[]).await
    }

    /// `GET /metrics`, in the exposition format.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let text = self.call(METRICS.method, &METRICS.path_with(&[]), None).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// `POST /v1/reload`: reloads the configuration and waits for the result. A rejected configuration is not an error.
    pub async fn reload(&self, allow_removals: bool) -> Result<ReloadReport, ClientError> {
        let allowed = [("allowRemovals", "true")];
        self.request(&RELOAD, &[], if allow_removals { &allowed } else { &[] }).await
    }

    /// `GET /v1/publishing`.
    pub async fn publishing(&self) -> Result<PublishingState, ClientError> {
        self.request(&PUBLISHING, &[], &[]).await
    }

    /// `GET /v1/publishing/{provider}/plan`.
    pub async fn publish_plan(&self, provider: &str, deletions: usize) -> Result<PublishPlan, ClientError> {
        self.request(&PUBLISH_PLAN, &[provider], &[("deletions", &deletions.to_string())]).await
    }

    /// `POST /v1/publishing/{provider}/apply`: returns once the sync has ended. With the id of a plan, applies only that one.
    pub async fn publish_apply(
        &self,
        provider: &str,
        deletions: usize,
        plan: Option<&str>,
    ) -> Result<PublishPlan, ClientError> {
        let deletions = deletions.to_string();
        let plan = plan.map(|id| ("plan", id));
        let query: Vec<_> = [("deletions", &*deletions)].into_iter().chain(plan).collect();
        self.request(&PUBLISH_APPLY, &[provider], &query).await
    }

    /// `POST /v1/publishing/{provider}/take`: one step of a handover, or what it would do.
    pub async fn take(&self, provider: &str, order: &TakeOrder) -> Result<TakeReport, ClientError> {
        self.send(&PUBLISH_TAKE, &[provider], order).await
    }

    /// `GET /v2/projects/{project}/dns-update-records/{name}`.
    pub async fn dns_update_record(&self, project: &str, name: &str) -> Result<Value, ClientError> {
        self.request(&DNS_UPDATE_RECORD, &[project, name], &[]).await
    }

    /// `GET /v1/overrides`.
    pub async fn overrides(&self) -> Result<OverrideList, ClientError> {
        self.request(&LIST_OVERRIDES, &[], &[]).await
    }

    /// `POST /v1/overrides`: returns once it is in force and on disk, or with the effect that it would have.
    pub async fn add_override(
        &self,
        new: &NewOverride,
        parameters: OverrideParameters,
    ) -> Result<OverrideState, ClientError> {
        let OverrideParameters { confirm, dry_run, local } = parameters;
        let path = format!("{}?confirm={confirm}&dryRun={dry_run}&local={local}", ADD_OVERRIDE.path_with(&[]));
        self.json(ADD_OVERRIDE.method, &path, Some(new)).await
    }

    /// `DELETE /v1/overrides/{id}`: returns once it is gone, also from the disk.
    pub async fn remove_override(&self, id: &str) -> Result<OverrideState, ClientError> {
        self.request(&REMOVE_OVERRIDE, &[id], &[]).await
    }

    /// `PUT /v1/load/{cluster}`: returns the load of the cluster after the push.
    pub async fn push_load(&self, cluster: &str, new: &NewLoad) -> Result<LoadState, ClientError> {
        self.send(&PUSH_LOAD, &[cluster], new).await
    }

    /// `PUT /v1/latency/{table}` with a table in CSV: returns the table that is in force then.
    pub async fn push_latency(&self, table: &str, text: &str) -> Result<LatencyState, ClientError> {
        let path = PUSH_LATENCY.path_with(&[table]);
        let bytes = self.call(PUSH_LATENCY.method, &path, Some(text.into())).await?;
        serde_json::from_slice(&bytes).map_err(|e| self.broken(&e))
    }

    /// `GET /v1/objects`: all declared objects.
    pub async fn objects(&self) -> Result<ObjectsExport, ClientError> {
        self.request(&EXPORT, &[], &[]).await
    }

    /// `POST /v1/apply`: applies all objects of a body, or none.
    pub async fn apply(&self, body: &Value, wanted: &Applying) -> Result<ApplyReport, ClientError> {
        let Applying { dry_run, prune, allow_removals, inert, reason } = wanted;
        let reason = encode(reason);
        let query =
            format!("dryRun={dry_run}&prune={prune}&allowRemovals={allow_removals}&inert={inert}&reason={reason}");
        let path = format!("{}?{query}", APPLY.path_with(&[]));
        self.json(APPLY.method, &path, Some(body)).await
    }

    /// `GET /v1/pools/NAME` and the like, `GET /v1/intents/KEY`: the body of the response.
    pub async fn object(&self, section: &str, name: &str) -> Result<Value, ClientError> {
        self.json(Method::GET, &endpoints::object(section, name), None::<&()>).await
    }

    /// `GET /v1/pools` and the like: the page that comes after a name, as large as pages can be.
    pub async fn objects_after(&self, section: &str, after: &str) -> Result<ObjectList, ClientError> {
        let path = format!("{}?limit=10000&after={}", endpoints::collection(section), encode(after));
        self.json(Method::GET, &path, None::<&()>).await
    }

    /// `DELETE /v1/pools/NAME` and the like: returns once it is gone.
    pub async fn delete_object(&self, section: &str, name: &str, reason: &str) -> Result<(), ClientError> {
        let path = format!("{}?reason={}", endpoints::object(section, name), encode(reason));
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    /// `GET /v1/contributions`: the contributions of the webhook's clients.
    pub async fn contributions(&self) -> Result<Contributions, ClientError> {
        self.request(&CONTRIBUTIONS, &[], &[]).await
    }

    /// `DELETE /v1/contributions`: returns once they are gone.
    pub async fn evict(&self, eviction: &Eviction) -> Result<Evicted, ClientError> {
        self.request(&EVICT, &[], &of_owner(eviction)).await
    }

    /// `POST /v1/contributions/confirm`: returns once what was held is gone.
    pub async fn confirm(&self, held: &Eviction) -> Result<Confirmed, ClientError> {
        self.request(&CONFIRM, &[], &of_owner(held)).await
    }

    /// `POST /v1/stop`: asks the daemon to drain and stop. Returns when draining has begun.
    pub async fn stop(&self) -> Result<(), ClientError> {
        self.call(STOP.method, &STOP.path_with(&[]), None).await.map(|_| ())
    }

    /// Sends a request without a body, whatever its method.
    async fn request<T: Body>(
        &self,
        endpoint: &Endpoint,
        names: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let mut path = endpoint.path_with(names);
        for (at, (key, value)) in query.iter().enumerate() {
            path.extend([if at == 0 { "?" } else { "&" }, key, "=", &encode(value)]);
        }
        self.json(endpoint.method.clone(), &path, None::<&()>).await
    }

    /// Sends a request with a JSON body.
    async fn send<T: Body>(&self, endpoint: &Endpoint, names: &[&str], body: &impl Body) -> Result<T, ClientError> {
        self.json(endpoint.method.clone(), &endpoint.path_with(names), Some(body)).await
    }

    async fn json<T: Body>(&self, method: Method, path: &str, body: Option<&impl Body>) -> Result<T, ClientError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| self.broken(&e))?;
        let bytes = self.call(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|e| self.broken(&e))
    }

    /// Sends a request and returns the body of its answer. A status other than 2xx is an error with the server's problem.
    async fn call(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
        let url = self.url.as_ref().map_err(|why| ClientError::Failed(unreachable(&self.address(), why)))?;
        let mut request = Request::new(method, url.join(path));
        if let Some(body) = body {
            request = Request { body, ..request }.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|error| self.broken(&error))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let answer = self.http.send(request).await.map_err(|error| self.failed(error))?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(self.refused(answer.status, &answer.body)) }
    }

    /// Returns the socket, or the URL without path.
    fn address(&self) -> String {
        match (&self.socket, &self.url) {
            (Some(socket), _) => socket.display().to_string(),
            (None, Ok(url)) => url.origin().to_owned(),
            (None, Err(_)) => String::new(),
        }
    }

    fn failed(&self, error: HttpError) -> ClientError {
        // The attempt also names the proxy, if one was used.
        let at = if self.socket.is_some() { self.address() } else { error.attempt };
        ClientError::Failed(match error.failure {
            Failure::Connect(why) | Failure::Resolve(why) => unreachable(&at, &why),
            Failure::ConnectTimeout(after) => unreachable(&at, &format!("no connection within {after:?}")),
            Failure::CertificateName(why) => {
                format!("TLS with {at} failed: {why}; give one of its names with --server")
            }
            Failure::Tls(why) => {
                format!("TLS with {at} failed: {why}; give the authority of the server's certificate with --cacert")
            }
            Failure::Timeout(after) => {
                format!("no response from {at} within {} s; look at the server's log", after.as_secs())
            }
            Failure::Broken(why) => invalid(&at, &why),
            other => format!("{at}: {other}"),
        })
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> ClientError {
        ClientError::Failed(invalid(&self.address(), error))
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let problem = serde_json::from_slice::<Problem>(body).unwrap_or_else(|_| Problem {
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            detail: String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned(),
            ..Problem::default()
        });
        ClientError::Refused { at: self.address(), status: status.as_u16(), problem }
    }
}

fn unreachable(at: &str, why: &str) -> String {
    format!("cannot connect to {at}: {why}; check that fairway is running with this data folder or HTTP listener")
}

fn invalid(at: &str, why: &dyn std::fmt::Display) -> String {
    format!(
        "invalid response from {at}: {why}; check that the server there is fairway, and the scheme (https if it serves TLS)"
    )
}

/// Cause of a failed call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no valid response. The text names the server, the error, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The server returned an error.
    #[error("{at}: {status} {}: {}", problem.title, problem.detail)]
    Refused {
        /// Socket or URL.
        at: String,
        /// HTTP status.
        status: u16,
        /// The body of the response.
        problem: Problem,
    },
}

/// Longest wait for a response: a reload of a million names compiles for some seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest response, in bytes: the state of 10,000 targets with full history is under 40 MB.
const BODY_MAX: usize = 128 << 20;

/// Returns the parameters that name contributions of an owner.
fn of_owner(of: &Eviction) -> Vec<(&str, &str)> {
    let Eviction { owner, path, set, reason } = of;
    let optional = [("path", path), ("set", set)].map(|(key, value)| Some((key, value.as_deref()?)));
    let always = [("owner", owner.as_str()), ("reason", reason.as_str())];
    always.into_iter().chain(optional.into_iter().flatten()).collect()
}
