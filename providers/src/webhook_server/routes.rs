//! Routes, authentication, and limits on time and size of calls.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    BODY_MAX, CALL_MAX, Call, Calls, EndpointStore, Scope, WebhookError,
    adjust::{adjusted, size_of},
};
use crate::{Changes, DomainFilter, Endpoint, Json, MEDIA_TYPE};

/// Returns true if this call of a client is allowed: by its token, or by what the listener recorded in its extensions.
pub type CallCheck = Arc<dyn Fn(&Scope, &Request) -> Result<bool, WebhookError> + Send + Sync>;

/// Returns the router. With `is_local` only `Host`s that are an address or `localhost` are accepted, so that a page in a browser cannot
/// call it under another name.
pub fn router(store: Arc<dyn EndpointStore>, calls: Arc<Calls>, check: CallCheck, is_local: bool) -> Router {
    let (computing, large) = (Arc::new(Semaphore::new(COMPUTING_MAX)), Arc::new(Semaphore::new(LARGE_MAX)));
    Router::new().fallback(answer).with_state(Webhook { store, calls, check, is_local, computing, large })
}

#[derive(Clone)]
struct Webhook {
    store: Arc<dyn EndpointStore>,
    calls: Arc<Calls>,
    check: CallCheck,
    is_local: bool,
    /// Permits for calls whose body has arrived.
    computing: Arc<Semaphore>,
    /// Permits for bodies over [`SMALL_MAX`].
    large: Arc<Semaphore>,
}

/// An error: status and one line of text.
struct Failed(StatusCode, String);

type Answered = Result<Response, Failed>;

async fn answer(State(webhook): State<Webhook>, request: Request) -> Response {
    let begun = Instant::now();
    let routed = route(request.uri().path(), request.method());
    let call = routed.as_ref().map_or(Call::Other, |(call, _)| *call);
    let client = routed.as_ref().map_or(&Scope::Root, |(_, scope)| scope);
    let answered = match webhook.rejected(client, &request) {
        Some(refused) => Err(refused),
        None => match routed {
            Ok((call, scope)) => webhook.within(webhook.carry_out(call, &scope, request)).await,
            Err(failed) => Err(failed),
        },
    };
    let mut response = answered.unwrap_or_else(|Failed(status, what)| (status, format!("{what}\n")).into_response());
    webhook.ended(call, response.status(), begun.elapsed());
    // The metrics and traces of the surrounding layers read it.
    response.extensions_mut().insert(call);
    response
}

/// Returns the token of a request: a bearer token, or a password (RFC 7617), as Go's clients send one from a URL.
pub fn token_of(headers: &HeaderMap) -> Option<String> {
    let (scheme, credentials) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => Some(credentials.trim().to_owned()),
        scheme if scheme.eq_ignore_ascii_case("basic") => {
            let both = String::from_utf8(BASE64.decode(credentials.trim().as_bytes()).ok()?).ok()?;
            both.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

/// Returns the client of a path. A path below `/owners` without a valid name counts as that of a client without base path.
pub fn scope_of_path(path: &str) -> Scope {
    let owner = path.strip_prefix("/owners/").and_then(|below| Scope::owner(below.split('/').next()?));
    owner.unwrap_or(Scope::Root)
}

/// Returns call and client of a path and method.
fn route(path: &str, method: &Method) -> Result<(Call, Scope), Failed> {
    let path = path.trim_end_matches('/');
    let (scope, rest) = match path.strip_prefix("/owners/") {
        Some(below) => {
            let (owner, rest) = below.split_once('/').unwrap_or((below, ""));
            let what = format!("{owner:.80?} is not the name of an owner: use 1 to 63 letters, digits, '-', '_', '.'");
            (Scope::owner(owner).ok_or(Failed(StatusCode::NOT_FOUND, what))?, rest)
        }
        None => (Scope::Root, path.trim_start_matches('/')),
    };
    let call = match (rest, method) {
        ("", &Method::GET) => Call::Negotiate,
        ("records", &Method::GET) => Call::Records,
        ("records", &Method::POST) => Call::Apply,
        ("adjustendpoints", &Method::POST) => Call::Adjust,
        ("" | "records" | "adjustendpoints", method) => {
            let what = format!("the webhook does not have the method {method} at this path");
            return Err(Failed(StatusCode::BAD_REQUEST, what));
        }
        _ => {
            return Err(Failed(StatusCode::NOT_FOUND, "the webhook of ExternalDNS has no such path".into()));
        }
    };
    Ok((call, scope))
}

impl Webhook {
    fn ended(&self, call: Call, status: StatusCode, took: Duration) {
        let mut counts = self.calls.counts();
        counts.ended.entry((call, status.as_u16())).or_default().note(took);
    }

    /// Returns the error of a request that is not authorized.
    fn rejected(&self, client: &Scope, request: &Request) -> Option<Failed> {
        if self.is_local && !request.headers().get(header::HOST).is_none_or(is_this_machine) {
            let what = "Host is not a name of this machine; use 127.0.0.1 or localhost";
            return Some(Failed(StatusCode::FORBIDDEN, what.to_owned()));
        }
        let what = "the token of this base path is required: Authorization: Bearer TOKEN, or the password in the URL: https://fairway:TOKEN@HOST; or its client certificate";
        match (self.check)(client, request) {
            Ok(true) => None,
            Ok(false) => Some(Failed(StatusCode::UNAUTHORIZED, what.to_owned())),
            Err(refused) => Some(refused.into()),
        }
    }

    /// Returns the response, or 503 after [`CALL_MAX`].
    async fn within(&self, answer: impl Future<Output = Answered>) -> Answered {
        tokio::time::timeout(CALL_MAX, answer).await.unwrap_or_else(|_| {
            let what = format!("the call took longer than {CALL_MAX:?}; try again");
            Err(Failed(StatusCode::SERVICE_UNAVAILABLE, what))
        })
    }

    async fn carry_out(&self, call: Call, scope: &Scope, request: Request) -> Answered {
        match call {
            Call::Negotiate => {
                let include = self.store.domains(scope)?;
                Ok(json(&DomainFilter { include, ..DomainFilter::default() }).1)
            }
            Call::Records => {
                let (bytes, response) = json(&self.store.endpoints(scope).await?);
                self.calls.counts().answered = bytes;
                Ok(response)
            }
            Call::Adjust => {
                let body = self.body(request).await?;
                let _permit = permit(&self.computing).await?;
                let endpoints: Option<Vec<Endpoint>> = parse(&body.bytes)?;
                Ok(json(&adjusted(endpoints.unwrap_or_default())).1)
            }
            Call::Apply => {
                let body = self.body(request).await?;
                let _permit = permit(&self.computing).await?;
                let changes: Changes = parse(&body.bytes)?;
                let count = changes.len();
                self.store.apply(scope, to_store(changes)?).await?;
                self.calls.counts().changed += count;
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            Call::Other => Err(Failed(StatusCode::NOT_FOUND, "no such call".to_owned())),
        }
    }

    /// Reads a body of the webhook's media type. No permit for computing is held meanwhile, so that a client that stops sending delays no
    /// other call.
    async fn body(&self, request: Request) -> Result<Arrived<'_>, Failed> {
        if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_media_type) {
            let what = format!("the Content-Type must be {MEDIA_TYPE}");
            return Err(Failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        read_all(request.into_body(), &self.large).await
    }
}

/// A body that has arrived, with its permit if it is large.
struct Arrived<'s> {
    bytes: Vec<u8>,
    _large: Option<SemaphorePermit<'s>>,
}

async fn permit(semaphore: &Semaphore) -> Result<SemaphorePermit<'_>, Failed> {
    let stopping = |_| Failed(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping".to_owned());
    semaphore.acquire().await.map_err(stopping)
}

/// Returns changes in the form that is stored. An endpoint that is too large is an error, since `adjustendpoints` would have omitted it.
fn to_store(changes: Changes) -> Result<Changes, Failed> {
    let Changes { create, update_old, update_new, delete } = changes;
    if let Some(large) = create.iter().chain(&update_new).find(|endpoint| size_of(endpoint) > super::ENDPOINT_MAX) {
        let what = format!("{:.300}: an endpoint has at most {} bytes", large.dns_name, super::ENDPOINT_MAX);
        return Err(Failed(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    if create.iter().chain(&update_new).any(|endpoint| endpoint.dns_name.is_empty()) {
        return Err(Failed(StatusCode::BAD_REQUEST, "an endpoint has no dnsName; add it".to_owned()));
    }
    Ok(Changes { create: adjusted(create), update_old, update_new: adjusted(update_new), delete })
}

fn parse<T: Json>(json: &[u8]) -> Result<T, Failed> {
    T::from_json(json).map_err(|error| Failed(StatusCode::BAD_REQUEST, format!("the body: {error}")))
}

/// Reads a body. A body over the limit is read up to twice the limit, since a client that is still sending would not read the response.
/// The rest of a large body waits for one of the permits; small ones need none.
async fn read_all(mut body: Body, large: &Semaphore) -> Result<Arrived<'_>, Failed> {
    let (mut bytes, mut seen, mut held) = (Vec::new(), 0, None);
    while let Some(frame) = body.frame().await {
        let cut_off = |error| Failed(StatusCode::BAD_REQUEST, format!("the body is incomplete: {error}"));
        let frame = frame.map_err(cut_off)?;
        let Some(data) = frame.data_ref() else { continue };
        seen += data.len();
        if seen > SMALL_MAX && held.is_none() {
            held = Some(permit(large).await?);
        }
        match seen {
            0..=BODY_MAX => bytes.extend_from_slice(data),
            _ => bytes = Vec::new(),
        }
        if seen > 2 * BODY_MAX {
            break;
        }
    }
    match seen {
        0..=BODY_MAX => Ok(Arrived { bytes, _large: held }),
        _ => Err(Failed(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {BODY_MAX} bytes"))),
    }
}

/// Returns a body with its length.
fn json<T: Json>(value: &T) -> (usize, Response) {
    let body = value.to_json();
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))];
    (body.len(), (kind, body).into_response())
}

/// Returns true for the webhook's media type, with any spaces.
fn is_media_type(value: &HeaderValue) -> bool {
    let plain = value.to_str().unwrap_or_default().to_ascii_lowercase().replace([' ', '\t'], "");
    plain == MEDIA_TYPE
}

/// Returns true if a `Host` is an address or `localhost`.
fn is_this_machine(host: &HeaderValue) -> bool {
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

impl From<WebhookError> for Failed {
    fn from(refused: WebhookError) -> Self {
        let status = match refused {
            WebhookError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            WebhookError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            WebhookError::Large(_) => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Self(status, refused.to_string())
    }
}

/// Maximum number of bodies that are processed at once; further calls wait. A body of 32 MiB takes several times its size while it is
/// parsed.
const COMPUTING_MAX: usize = 4;
/// Size up to which a body needs no permit, in bytes: some thousand endpoints. With 256 connections it bounds the memory of all to 256 MiB.
const SMALL_MAX: usize = 1 << 20;
/// Maximum number of larger bodies in memory; with [`BODY_MAX`] 128 MiB.
const LARGE_MAX: usize = 4;
