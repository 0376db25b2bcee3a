//! The HTTP client. Calls have a time limit, and response bodies a size limit.

use std::{path::PathBuf, sync::Arc, time::Duration};

use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::{
    Failure, HttpError, Method, Proxies, SetupError, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    proxy::Rules,
    resolver::SystemResolver,
    tls::{self, Tls},
};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time limit of a whole call, from resolving the name to the last byte of the body.
    pub timeout: Duration,
    /// Maximum number of bytes of a response body.
    pub body_max: usize,
    /// TLS of `https` URLs.
    pub tls: Tls,
    /// True if errors may show the path of a URL; some receivers take a secret path instead of a password.
    pub shows_path: bool,
    /// Route to the server.
    pub route: Route,
}

/// Route to a server.
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
    rules: Result<Arc<Rules>, SetupError>,
    /// For calls without TLS, which need no trust anchors: a machine may have none.
    plain: OnceCell<reqwest::Client>,
    secure: OnceCell<reqwest::Client>,
}

/// A request.
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

/// A response.
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
    /// Returns options with these limits, the system's trust anchors, and the proxies of the environment.
    pub fn new(timeout: Duration, body_max: usize) -> Self {
        Self { timeout, body_max, tls: Tls::default(), shows_path: false, route: Route::Network(Proxies::from_env()) }
    }

    fn connect_timeout(&self) -> Duration {
        // A fifth remains for the response, so that a failed connection is reported as such.
        (self.timeout * 4 / 5).min(CONNECT_MAX)
    }
}

impl Client {
    /// Creates a client. Trust anchors are read at the first call; their error is an error of the call, and the next call tries again.
    pub fn new(options: Options) -> Self {
        let rules = match &options.route {
            Route::Network(proxies) => proxies.rules(),
            Route::UnixSocket(_) => Proxies::none().rules(),
        };
        Self(Arc::new(Inner { options, rules: rules.map(Arc::new), plain: OnceCell::new(), secure: OnceCell::new() }))
    }

    /// Sends a request and returns the response with any status.
    pub async fn send(&self, request: Request) -> Result<Response, HttpError> {
        let (mut response, attempt) = self.start(request).await?;
        let max = self.0.options.body_max;
        let too_large = || HttpError { attempt: attempt.clone(), failure: Failure::BodyTooLarge { max } };
        if response.content_length().is_some_and(|length| length > max as u64) {
            return Err(too_large());
        }
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&attempt, &error))? {
            if body.len() + chunk.len() > max {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, headers, body, attempt })
    }

    /// Sends a request and returns the status; the body is not read.
    pub async fn send_for_status(&self, request: Request) -> Result<StatusCode, HttpError> {
        self.start(request).await.map(|(response, _)| response.status())
    }

    /// Sends a request. Returns the head of the response, and the description of the attempt for errors.
    async fn start(&self, request: Request) -> Result<(reqwest::Response, String), HttpError> {
        let Request { method, url, headers, body } = request;
        let Inner { options, rules, .. } = &*self.0;
        let shown = if options.shows_path { url.without_query() } else { url.origin() };
        let mut attempt = format!("{method} {shown}");
        if let Route::UnixSocket(path) = &options.route {
            attempt += &format!(" over {}", path.display());
        }
        let proxy = rules.as_ref().ok().and_then(|rules| rules.proxy_of(&url));
        if let Some(proxy) = &proxy {
            attempt += &format!(" through proxy {proxy}");
        }
        let client = match self.library_client(&url, proxy.as_deref()).await {
            Ok(client) => client,
            Err(error) => return Err(HttpError { attempt, failure: error.into() }),
        };
        let mut request = client.request(method, url.0.clone()).headers(headers);
        if !body.is_empty() {
            request = request.body(body);
        }
        match request.send().await {
            Ok(response) => Ok((response, attempt)),
            Err(error) => Err(self.failed(&attempt, &error)),
        }
    }

    async fn library_client(&self, url: &Url, proxy: Option<&str>) -> Result<&reqwest::Client, SetupError> {
        if url.is_https() || proxy.is_some_and(|proxy| proxy.starts_with("https:")) {
            let inner = Arc::clone(&self.0);
            // On a blocking thread: the system's trust anchors are some hundred files.
            let make = || async {
                let made = tokio::task::spawn_blocking(move || inner.make(inner.options.tls.config()?));
                made.await.map_err(|error| SetupError(format!("cannot set up the HTTP client: {error}")))?
            };
            self.0.secure.get_or_try_init(make).await
        } else {
            // Without trust anchors. Without any settings the library would load its own.
            let make = || async { self.0.make(tls::client_config(RootCertStore::empty().into(), None)?) };
            self.0.plain.get_or_try_init(make).await
        }
    }

    fn failed(&self, attempt: &str, error: &reqwest::Error) -> HttpError {
        let options = &self.0.options;
        let failure = Failure::of(error, options.connect_timeout(), options.timeout);
        HttpError { attempt: attempt.to_owned(), failure }
    }
}

impl Inner {
    fn make(&self, mut tls: ClientConfig) -> Result<reqwest::Client, SetupError> {
        let rules = self.rules.clone()?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("fairway/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .proxy(reqwest::Proxy::custom(move |url| rules.secret_proxy_of(&Url(url.clone())).map(str::to_owned)))
            .dns_resolver(SystemResolver)
            .connect_timeout(self.options.connect_timeout())
            .timeout(self.options.timeout)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX);
        if let Route::UnixSocket(path) = &self.options.route {
            builder = builder.unix_socket(path.as_path());
        }
        builder.build().map_err(|error| SetupError(format!("cannot set up the HTTP client: {error}")))
    }
}

impl Request {
    /// Returns a request without headers and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    /// Returns a GET request.
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

    /// Returns the beginning of the body, for errors.
    pub fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(EXCERPT_MAX)]).trim().to_owned()
    }
}

/// Time after which an idle connection is closed. Shorter than on most servers (nginx 75 s, Go and Envoy minutes), so that few calls use a
/// connection that the server is closing.
const IDLE: Duration = Duration::from_secs(20);
/// Maximum number of idle connections per host.
const IDLE_MAX: usize = 4;
/// Longest time for connecting, for any time limit of the call.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a body that an error shows.
const EXCERPT_MAX: usize = 300;
