//! The client: one call, one answer, both bounded in time and size.

use std::{path::PathBuf, sync::Arc, time::Duration};

use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::{
    Failure, HttpError, Method, Proxies, SetupError, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    proxy::Rules,
    resolver::SystemResolver,
};

/// How a client connects and what it accepts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time for a whole call, from resolving the name to the last byte of the body.
    pub timeout: Duration,
    /// Most bytes of an answer's body.
    pub body_max: usize,
    /// TLS; none for a client that speaks plain HTTP only. See [`crate::tls::client_config`].
    pub tls: Option<ClientConfig>,
    /// The way to the server.
    pub route: Route,
}

/// The way to a server.
#[derive(Clone, Debug)]
pub enum Route {
    /// TCP to the URL's host, or to a proxy.
    Network(Proxies),
    /// A unix socket; the URL's host is sent in the `Host` header only.
    UnixSocket(PathBuf),
}

/// A client. Clones share its connections, which stay open for [`IDLE`] after a call. Redirects are not followed: only the
/// configured address is trusted.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    direct: reqwest::Client,
    proxied: Option<(Rules, reqwest::Client)>,
    socket: Option<PathBuf>,
    has_tls: bool,
    connect_timeout: Duration,
    timeout: Duration,
    body_max: usize,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// Headers apart from `Host`, `User-Agent` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
    attempt: String,
}

impl Options {
    /// Options with these bounds, proxies from the environment, and no TLS.
    pub fn new(timeout: Duration, body_max: usize) -> Self {
        Self { timeout, body_max, tls: None, route: Route::Network(Proxies::from_env()) }
    }

    fn connect_timeout(&self) -> Duration {
        // A fifth is left for the answer, so that a connection that does not come about is reported as such.
        (self.timeout * 4 / 5).min(CONNECT_MAX)
    }
}

impl Client {
    /// Makes a client; connects to nothing.
    pub fn new(options: Options) -> Result<Self, SetupError> {
        Self::build(options, |builder| builder)
    }

    pub(crate) fn build(
        options: Options,
        adapt: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<Self, SetupError> {
        let connect_timeout = options.connect_timeout();
        let Options { timeout, body_max, tls, route } = options;
        let has_tls = tls.is_some();
        let tls = tls.map_or_else(no_trust, Ok)?;
        let builder = || {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(concat!("fairway/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(SystemResolver)
                .connect_timeout(connect_timeout)
                .timeout(timeout)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(IDLE_MAX);
            adapt(builder)
        };
        let library = |error: reqwest::Error| SetupError::Library(error.to_string());
        let (direct, proxied, socket) = match route {
            Route::UnixSocket(path) => (builder().unix_socket(path.as_path()), None, Some(path)),
            Route::Network(proxies) => {
                let through = |rules: Rules| {
                    let proxied = rules.proxies.iter().cloned().fold(builder(), reqwest::ClientBuilder::proxy);
                    Ok((rules, proxied.build().map_err(library)?))
                };
                (builder(), proxies.rules()?.map(through).transpose()?, None)
            }
        };
        let direct = direct.build().map_err(library)?;
        Ok(Self(Arc::new(Inner { direct, proxied, socket, has_tls, connect_timeout, timeout, body_max })))
    }

    /// Sends a request and returns the answer, whatever its status.
    pub async fn send(&self, request: Request) -> Result<Response, HttpError> {
        let (mut response, attempt) = self.start(request).await?;
        let max = self.0.body_max;
        let too_large = || HttpError { attempt: attempt.clone(), failure: Failure::BodyTooLarge { max } };
        if response.content_length().is_some_and(|length| length > max as u64) {
            return Err(too_large());
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&attempt, &error))? {
            if body.len() + chunk.len() > max {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, headers, body, attempt })
    }

    /// Sends a request and returns the status; the body of the answer is not read.
    pub async fn send_for_status(&self, request: Request) -> Result<StatusCode, HttpError> {
        self.start(request).await.map(|(response, _)| response.status())
    }

    /// Sends a request and returns the head of the answer, and what errors call the attempt.
    async fn start(&self, request: Request) -> Result<(reqwest::Response, String), HttpError> {
        let Request { method, url, headers, body } = request;
        let mut attempt = format!("{method} {}", url.without_query());
        let inner = &*self.0;
        if let Some(socket) = &inner.socket {
            attempt += &format!(" over {}", socket.display());
        }
        let through = inner.proxied.as_ref().and_then(|(rules, client)| Some((client, rules.proxy_of(&url)?)));
        if let Some((_, proxy)) = &through {
            attempt += &format!(" through proxy {proxy}");
        }
        if url.is_https() && !inner.has_tls {
            return Err(HttpError { attempt, failure: Failure::NoTls });
        }
        let client = through.map_or(&inner.direct, |(client, _)| client);
        let mut request = client.request(method, url.inner().clone()).headers(headers);
        if !body.is_empty() {
            request = request.body(body);
        }
        match request.send().await {
            Ok(response) => Ok((response, attempt)),
            Err(error) => Err(self.failed(&attempt, &error)),
        }
    }

    fn failed(&self, attempt: &str, error: &reqwest::Error) -> HttpError {
        HttpError { attempt: attempt.to_owned(), failure: Failure::of(error, self.0.connect_timeout, self.0.timeout) }
    }
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    /// A GET.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }
}

impl Response {
    /// Returns an error unless the status is 2xx.
    pub fn require_success(self) -> Result<Self, HttpError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let failure = Failure::Status { status: self.status, excerpt: self.excerpt() };
        Err(HttpError { attempt: self.attempt, failure })
    }

    /// The beginning of the body, for an error.
    pub fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(EXCERPT_MAX)]).trim().to_owned()
    }
}

/// TLS that trusts nobody, for a client that is not to speak it: the library would else bring its own defaults.
fn no_trust() -> Result<ClientConfig, SetupError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Library(error.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// How long a connection stays open without a call. Shorter than most servers wait (nginx 75 s, Go and Envoy minutes), so that few
/// calls meet a connection that the server is just closing.
const IDLE: Duration = Duration::from_secs(20);
/// Most open connections to a host without a call.
const IDLE_MAX: usize = 4;
/// Longest time for a connection, whatever the whole call may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a body that an error shows.
const EXCERPT_MAX: usize = 300;
