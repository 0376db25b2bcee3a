//! The client side of the API: what `fairway status`, `explain`, `reload` and `override` call.
//!
//! One connection a request, over the control socket or over TCP. The paths stand here and in `routes` only.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::Secret;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::rustls::ClientConfig;

use crate::{
    contributions_wire::{Contributions, Evicted, Eviction},
    explain_wire::Explanation,
    latency_wire::LatencyState,
    load_wire::{LoadState, NewLoad},
    objects_wire::{ApplyReport, ObjectList, ObjectsExport},
    problem_wire::Problem,
    publishing_wire::{PublishPlan, PublishingState, TakeOrder, TakeReport},
    state_wire::{Body, NewOverride, OverrideState, ReloadReport, State, Version},
};
use fairway_http::https;

/// Where a running daemon is reached.
#[derive(Clone, Debug)]
pub enum Reach {
    /// Its control socket.
    Socket(PathBuf),
    /// Its HTTP listener, in clear.
    Http(SocketAddr),
    /// A server by its URL.
    Remote(Box<Remote>),
}

/// A server that is reached by a URL, and what is shown to it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Both, as a `Host` header has them.
    pub authority: String,
    /// How TLS is spoken; none for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// The token that is shown.
    pub token: Option<Secret>,
}

impl Reach {
    /// The control socket of the daemon that keeps this data folder.
    pub fn of_data_dir(data_dir: &Path) -> Self {
        Self::Socket(data_dir.join(CONTROL_SOCKET))
    }
}

/// Name of the control socket in the data folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// A client of one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    reach: Reach,
}

/// How objects are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applying {
    /// Only tell what would come of it.
    pub dry_run: bool,
    /// Take away what is declared over the API and not named.
    pub prune: bool,
    /// Why, for the history.
    pub reason: String,
}

/// Whose answer is to be explained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainQuery {
    /// The name asked for.
    pub name: String,
    /// The type asked for; default A.
    pub rtype: Option<String>,
    /// The client: an address or a network; default a query that says nothing of its client.
    pub client: Option<String>,
}

impl Client {
    /// A client of the daemon that is reached there; nothing is sent yet.
    pub const fn new(reach: Reach) -> Self {
        Self { reach }
    }

    /// `GET /v1/state`.
    pub async fn state(&self) -> Result<State, ClientError> {
        self.json(Method::GET, "/v1/state", None::<&()>).await
    }

    /// `GET /v1/explain`.
    pub async fn explain(&self, query: &ExplainQuery) -> Result<Explanation, ClientError> {
        let mut path = format!("/v1/explain?name={}", escape(&query.name));
        for (key, value) in [("type", &query.rtype), ("client", &query.client)] {
            if let Some(value) = value {
                path += &format!("&{key}={}", escape(value));
            }
        }
        self.json(Method::GET, &path, None::<&()>).await
    }

    /// `GET /version`.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.json(Method::GET, "/version", None::<&()>).await
    }

    /// `GET /metrics`, in the exposition format.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        Ok(String::from_utf8_lossy(&self.call(Method::GET, "/metrics", None).await?).into_owned())
    }

    /// `POST /v1/reload`: reads the configuration anew, and waits for what becomes of it. Refused is an answer, not an error.
    pub async fn reload(&self) -> Result<ReloadReport, ClientError> {
        self.json(Method::POST, "/v1/reload", None::<&()>).await
    }

    /// `GET /v1/publishing`.
    pub async fn publishing(&self) -> Result<PublishingState, ClientError> {
        self.json(Method::GET, "/v1/publishing", None::<&()>).await
    }

    /// `GET /v1/publishing/{provider}/plan`, or `POST …/apply`, which waits for the sync.
    pub async fn publish(&self, provider: &str, deletions: usize, carry_out: bool) -> Result<PublishPlan, ClientError> {
        let (method, verb) = if carry_out { (Method::POST, "apply") } else { (Method::GET, "plan") };
        let path = format!("/v1/publishing/{}/{verb}?deletions={deletions}", escape(provider));
        self.json(method, &path, None::<&()>).await
    }

    /// `POST /v1/publishing/{provider}/take`: a step of a handover, or what it would do.
    pub async fn take(&self, provider: &str, order: &TakeOrder) -> Result<TakeReport, ClientError> {
        self.json(Method::POST, &format!("/v1/publishing/{}/take", escape(provider)), Some(order)).await
    }

    /// `GET /v2/projects/{project}/dns-update-records/{name}`.
    pub async fn dns_update_record(&self, project: &str, name: &str) -> Result<Value, ClientError> {
        let path = format!("/v2/projects/{}/dns-update-records/{}", escape(project), escape(name));
        self.json(Method::GET, &path, None::<&()>).await
    }

    /// `POST /v1/overrides`: returns once it is in force and on disk.
    pub async fn add_override(&self, new: &NewOverride) -> Result<OverrideState, ClientError> {
        self.json(Method::POST, "/v1/overrides", Some(new)).await
    }

    /// `DELETE /v1/overrides/{id}`: returns once it is gone, also from the disk.
    pub async fn remove_override(&self, id: &str) -> Result<OverrideState, ClientError> {
        self.json(Method::DELETE, &format!("/v1/overrides/{}", escape(id)), None::<&()>).await
    }

    /// `PUT /v1/load/{cluster}`: returns how the cluster's load stands then.
    pub async fn push_load(&self, cluster: &str, new: &NewLoad) -> Result<LoadState, ClientError> {
        self.json(Method::PUT, &format!("/v1/load/{}", escape(cluster)), Some(new)).await
    }

    /// `PUT /v1/latency/{table}` with a table in CSV: returns what is in force then.
    pub async fn push_latency(&self, table: &str, text: &str) -> Result<LatencyState, ClientError> {
        let bytes = self.call(Method::PUT, &format!("/v1/latency/{}", escape(table)), Some(text.into())).await?;
        serde_json::from_slice(&bytes).map_err(|e| self.broken(&e))
    }

    /// `GET /v1/objects`: everything that is declared over the API.
    pub async fn objects(&self) -> Result<ObjectsExport, ClientError> {
        self.json(Method::GET, "/v1/objects", None::<&()>).await
    }

    /// `POST /v1/apply`: takes all objects of a body, or none.
    pub async fn apply(&self, body: &Value, wanted: &Applying) -> Result<ApplyReport, ClientError> {
        let Applying { dry_run, prune, reason } = wanted;
        let path = format!("/v1/apply?dryRun={dry_run}&prune={prune}&reason={}", escape(reason));
        self.json(Method::POST, &path, Some(body)).await
    }

    /// `GET /v1/pools/NAME` and the like, `GET /v1/intents/KEY`: as it is answered.
    pub async fn object(&self, section: &str, name: &str) -> Result<Value, ClientError> {
        self.json(Method::GET, &format!("/v1/{section}/{}", steps(name)), None::<&()>).await
    }

    /// `GET /v1/pools` and the like: the page that comes after a name.
    pub async fn objects_after(&self, section: &str, after: &str) -> Result<ObjectList, ClientError> {
        self.json(Method::GET, &format!("/v1/{section}?after={}", escape(after)), None::<&()>).await
    }

    /// `DELETE /v1/pools/NAME` and the like: returns once it is gone.
    pub async fn delete_object(&self, section: &str, name: &str, reason: &str) -> Result<(), ClientError> {
        let path = format!("/v1/{section}/{}?reason={}", steps(name), escape(reason));
        self.call(Method::DELETE, &path, None).await.map(|_| ())
    }

    /// `GET /v1/contributions`: who brings what over the webhook.
    pub async fn contributions(&self) -> Result<Contributions, ClientError> {
        self.json(Method::GET, "/v1/contributions", None::<&()>).await
    }

    /// `DELETE /v1/contributions`: returns once it is out.
    pub async fn evict(&self, eviction: &Eviction) -> Result<Evicted, ClientError> {
        let Eviction { owner, path, set, reason } = eviction;
        let mut query = format!("owner={}&reason={}", escape(owner), escape(reason));
        for (name, value) in [("path", path), ("set", set)] {
            value.iter().for_each(|value| query.extend(["&", name, "=", &escape(value)]));
        }
        self.json(Method::DELETE, &format!("/v1/contributions?{query}"), None::<&()>).await
    }

    /// `POST /v1/stop`: asks the daemon to drain and end. Returns when it has begun to.
    pub async fn stop(&self) -> Result<(), ClientError> {
        self.call(Method::POST, "/v1/stop", None).await.map(|_| ())
    }

    async fn json<T: Body>(&self, method: Method, path: &str, body: Option<&impl Body>) -> Result<T, ClientError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| self.broken(&e))?;
        let bytes = self.call(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|e| self.broken(&e))
    }

    /// One request, one response, at most [`PATIENCE`]; a status other than 2xx is an error with the server's own words.
    async fn call(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Bytes, ClientError> {
        let exchange = async {
            match &self.reach {
                Reach::Socket(socket) => {
                    let stream = UnixStream::connect(socket).await.map_err(|e| self.unreachable(&e))?;
                    self.exchange(stream, method, path, body).await
                }
                Reach::Http(address) => {
                    let stream = TcpStream::connect(address).await.map_err(|e| self.unreachable(&e))?;
                    self.exchange(stream, method, path, body).await
                }
                Reach::Remote(to) => {
                    let stream = https::connect(&to.host, to.port).await.map_err(|e| self.unreachable(&e))?;
                    let Some(tls) = &to.tls else { return self.exchange(stream, method, path, body).await };
                    let stream = https::over_tls(Arc::clone(tls), &to.host, stream).await;
                    self.exchange(stream.map_err(|e| self.untrusted(&e))?, method, path, body).await
                }
            }
        };
        let late = |_| ClientError::Late { at: self.place(), secs: PATIENCE.as_secs() };
        tokio::time::timeout(PATIENCE, exchange).await.map_err(late)?
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Bytes, ClientError> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(&e))?;
        let driver = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", self.host());
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Reach::Remote(to) = &self.reach
            && let Some(token) = &to.token
        {
            request = request.header("authorization", format!("Bearer {}", token.expose()));
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default()))).map_err(|e| self.broken(&e))?;
        let response = sender.send_request(request).await.map_err(|e| self.broken(&e))?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), BODY_MAX).collect().await.map_err(|e| self.broken(&e))?.to_bytes();
        driver.abort();
        if status.is_success() { Ok(body) } else { Err(self.refused(status, &body)) }
    }

    fn place(&self) -> String {
        match &self.reach {
            Reach::Socket(path) => path.display().to_string(),
            Reach::Http(address) => format!("http://{address}"),
            Reach::Remote(to) => {
                let scheme = if to.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", to.authority)
            }
        }
    }

    fn host(&self) -> String {
        match &self.reach {
            Reach::Socket(_) => "fairway".to_owned(),
            Reach::Http(address) => address.to_string(),
            Reach::Remote(to) => to.authority.clone(),
        }
    }

    fn untrusted(&self, error: &std::io::Error) -> ClientError {
        ClientError::Untrusted { at: self.place(), why: error.to_string() }
    }

    fn unreachable(&self, error: &std::io::Error) -> ClientError {
        ClientError::Unreachable { at: self.place(), why: error.to_string() }
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> ClientError {
        ClientError::Broken { at: self.place(), why: error.to_string() }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let problem = serde_json::from_slice::<Problem>(body).unwrap_or_else(|_| Problem {
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            detail: String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned(),
            ..Problem::default()
        });
        ClientError::Refused { at: self.place(), status: status.as_u16(), problem }
    }
}

/// Why a daemon's answer is not there.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("{at}: {why}; is fairway running, and with this data folder or HTTP listener?")]
    Unreachable {
        /// Socket or URL.
        at: String,
        /// The system's words.
        why: String,
    },
    /// The connection or the answer is not what this program speaks.
    #[error("{at}: {why}; is it fairway that answers there?")]
    Broken {
        /// Socket or URL.
        at: String,
        /// What did not fit.
        why: String,
    },
    /// No TLS with it: mostly a certificate that is not trusted, or one of ours that is not wanted.
    #[error("{at}: TLS: {why}; give the authority of its certificate with --cacert")]
    Untrusted {
        /// URL.
        at: String,
        /// What did not fit.
        why: String,
    },
    /// No answer in time.
    #[error("{at}: no answer within {secs} s; look at the daemon's log")]
    Late {
        /// Socket or URL.
        at: String,
        /// How long was waited.
        secs: u64,
    },
    /// The daemon says no.
    #[error("{at}: {status} {}: {}", problem.title, problem.detail)]
    Refused {
        /// Socket or URL.
        at: String,
        /// HTTP status.
        status: u16,
        /// The daemon's own words.
        problem: Problem,
    },
}

/// Longest wait for an answer: a reload of a million names compiles for some seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most octets of an answer: the state of 10,000 targets with full history is under 40 MB.
const BODY_MAX: usize = 128 << 20;

/// Percent-encodes each step of a name: keys of intents have several.
fn steps(name: &str) -> String {
    name.split('/').map(escape).collect::<Vec<_>>().join("/")
}

/// Percent-encodes everything but what RFC 3986 section 2.3 leaves free.
fn escape(text: &str) -> String {
    let free = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if free(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
