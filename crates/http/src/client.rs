//! The client: one call, one answer, both bounded in time and size.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::sync::OnceCell;

use crate::{
    Failure, HttpError, Method, Proxies, SetupError, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    proxy::Rules,
    resolver::SystemResolver,
    tls::Tls,
};

/// How a client connects and what it accepts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time for a whole call, from resolving the name to the last byte of the body.
    pub timeout: Duration,
    /// Most bytes of an answer's body.
    pub body_max: usize,
    /// TLS of `https` URLs.
    pub tls: Tls,
    /// True if errors may show the path of a URL; some receivers take a secret path instead of a password.
    pub shows_path: bool,
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

/// A client. Clones share its connections, which stay open for 20 s after a call. Redirects are not followed: only the configured
/// address is trusted.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    rules: Result<Option<Rules>, SetupError>,
    /// For calls without TLS: these need no trust anchors, which a machine may lack.
    plain: OnceCell<Connectors>,
    secure: OnceCell<Connectors>,
    /// Replaces what the system's resolver says, in tests.
    addresses: Vec<(String, Vec<SocketAddr>)>,
}

/// The library's clients: it decides about proxies, too, but not as we do.
#[derive(Debug)]
struct Connectors {
    direct: reqwest::Client,
    proxied: reqwest::Client,
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
    /// Options with these bounds, the system's trust anchors, and the proxies of the environment.
    pub fn new(timeout: Duration, body_max: usize) -> Self {
        Self { timeout, body_max, tls: Tls::default(), shows_path: false, route: Route::Network(Proxies::from_env()) }
    }

    fn connect_timeout(&self) -> Duration {
        // A fifth is left for the answer, so that a connection that does not come about is reported as such.
        (self.timeout * 4 / 5).min(CONNECT_MAX)
    }
}

impl Client {
    /// Makes a client. It reads trust anchors and connects when it is first needed; an error of these is an error of the call, and the
    /// next call tries again.
    pub fn new(options: Options) -> Self {
        Self::with_addresses(options, Vec::new())
    }

    /// As `new`, with fixed addresses for some host names.
    pub(crate) fn with_addresses(options: Options, addresses: Vec<(String, Vec<SocketAddr>)>) -> Self {
        let rules = match &options.route {
            Route::Network(proxies) => proxies.rules(),
            Route::UnixSocket(_) => Ok(None),
        };
        let (plain, secure) = (OnceCell::new(), OnceCell::new());
        Self(Arc::new(Inner { options, rules, plain, secure, addresses }))
    }

    /// Sends a request and returns the answer, whatever its status.
    pub async fn send(&self, request: Request) -> Result<Response, HttpError> {
        let (mut response, attempt) = self.start(request).await?;
        let max = self.0.options.body_max;
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
        let Inner { options, rules, .. } = &*self.0;
        let shown = if options.shows_path { url.without_query() } else { url.origin() };
        let mut attempt = format!("{method} {shown}");
        if let Route::UnixSocket(path) = &options.route {
            attempt += &format!(" over {}", path.display());
        }
        let proxy = rules.as_ref().ok().and_then(|rules| rules.as_ref()?.proxy_of(&url));
        if let Some(proxy) = &proxy {
            attempt += &format!(" through proxy {proxy}");
        }
        let connectors = match self.connectors(&url, proxy.as_deref()).await {
            Ok(connectors) => connectors,
            Err(error) => return Err(HttpError { attempt, failure: error.into() }),
        };
        let client = if proxy.is_some() { &connectors.proxied } else { &connectors.direct };
        let mut request = client.request(method, url.inner().clone()).headers(headers);
        if !body.is_empty() {
            request = request.body(body);
        }
        match request.send().await {
            Ok(response) => Ok((response, attempt)),
            Err(error) => Err(self.failed(&attempt, &error)),
        }
    }

    async fn connectors(&self, url: &Url, proxy: Option<&str>) -> Result<&Connectors, SetupError> {
        if let Err(error) = &self.0.rules {
            return Err(error.clone());
        }
        if url.is_https() || proxy.is_some_and(|proxy| proxy.starts_with("https:")) {
            let inner = Arc::clone(&self.0);
            // Not on a thread of the runtime: the system's trust anchors are some hundred files.
            let make = || async {
                let made = tokio::task::spawn_blocking(move || inner.make(inner.options.tls.config()?));
                made.await.map_err(|error| SetupError::Library(error.to_string()))?
            };
            self.0.secure.get_or_try_init(make).await
        } else {
            self.0.plain.get_or_try_init(|| async { self.0.make(no_trust()?) }).await
        }
    }

    fn failed(&self, attempt: &str, error: &reqwest::Error) -> HttpError {
        let options = &self.0.options;
        let failure = Failure::of(error, options.connect_timeout(), options.timeout);
        HttpError { attempt: attempt.to_owned(), failure }
    }
}

impl Inner {
    fn make(&self, mut tls: ClientConfig) -> Result<Connectors, SetupError> {
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let builder = || {
            let mut builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(concat!("fairway/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(SystemResolver)
                .connect_timeout(self.options.connect_timeout())
                .timeout(self.options.timeout)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(IDLE_MAX);
            if let Route::UnixSocket(path) = &self.options.route {
                builder = builder.unix_socket(path.as_path());
            }
            let fixed = self.addresses.iter();
            fixed.fold(builder, |builder, (host, addresses)| builder.resolve_to_addrs(host, addresses))
        };
        let made =
            |builder: reqwest::ClientBuilder| builder.build().map_err(|error| SetupError::Library(error.to_string()));
        let proxies = self.rules.as_ref().map_err(Clone::clone)?.iter().flat_map(|rules| &rules.proxies);
        let proxied = proxies.cloned().fold(builder(), reqwest::ClientBuilder::proxy);
        Ok(Connectors { direct: made(builder())?, proxied: made(proxied)? })
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

/// TLS that trusts nobody, for calls that do not use it: without a configuration the library looks for one of its own.
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
