//! Auth middleware: rate limits, the origin of a request, the identity of its caller and the caller's permission; and the audit log of
//! writes.
//!
//! The decisions are made by the crate `access`; this file turns them into responses.

mod permissions;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tower_http::timeout::TimeoutBody;

use self::permissions::{asks_proof, required_permission};
use crate::{
    connections::Mark,
    problem::{ApiError, problem},
    route::Route,
    state::{Caller, DryRun, Operates, Remote},
    traced::traced,
};
use fairway_access::{
    Access, ClientKey, ForeignRequest, Identity, KeyError, KeyRings, LimitSettings, Limiter, RequiredPermission,
    Subject, Verb, Verbs, check_origin,
};
use fairway_control::Control;
use fairway_transport::ComputeGuard;

/// The connection that a request came over.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    /// The control socket, used by this user id.
    Socket(u32),
    /// The HTTP listener.
    Http {
        /// Address of the client.
        peer: SocketAddr,
        /// True if the listener's address is a loopback address.
        is_local: bool,
        /// True if TLS is used.
        is_tls: bool,
        /// Subjects of the client's certificate, if it has one of a trusted authority; else empty.
        certificate: Arc<[Subject]>,
    },
}

impl Connection {
    /// Returns the address of the client, or `control socket`.
    fn remote(&self) -> String {
        match self {
            Self::Socket(_) => "control socket".to_owned(),
            Self::Http { peer, .. } => address(peer.ip()),
        }
    }
}

/// State of the auth middleware.
#[derive(Clone)]
pub(crate) struct Auth {
    control: Control,
    /// All routes, for their permissions.
    routes: Arc<[Route]>,
    key_rings: Arc<KeyRings>,
    limiter: Arc<Mutex<Option<ConfiguredLimiter>>>,
}

/// Counters of requests, and the limits that they were made for.
type ConfiguredLimiter = (LimitSettings, Arc<Limiter>);

impl Auth {
    /// Creates the state; all counters are zero.
    pub(crate) fn new(control: &Control, routes: Vec<Route>) -> Self {
        let control = control.clone();
        Self { control, routes: routes.into(), key_rings: Arc::default(), limiter: Arc::default() }
    }

    /// Returns the `access` section of the configuration in use.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.control.shared().serving.published().configured.settings.access)
    }

    /// Returns the counters for the configured limits. A change of the limits starts new ones.
    fn limiter(&self, access: &Access) -> Option<Arc<Limiter>> {
        let settings = access.limits?;
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        match &*limiter {
            Some((of, limiter)) if *of == settings => Some(Arc::clone(limiter)),
            _ => {
                let new = Arc::new(Limiter::new(&settings));
                *limiter = Some((settings, Arc::clone(&new)));
                Some(new)
            }
        }
    }
}

/// Passes a request on if its caller has the permission that its route requires. Every write is logged, also a rejected one.
pub(crate) async fn authorize(State(auth): State<Auth>, request: Request, next: Next) -> Response {
    // Responses may be as large as requests: both take computing time that DNS must not wait for.
    let _computing = ComputeGuard::begin();
    let required = required_permission(&auth.routes, &request);
    let asks_proof = asks_proof(&auth.routes, &request);
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        let detail = "the request came over no listener; please report it";
        return problem(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response();
    };
    let traces = &auth.control.shared().traces;
    let Some(required) = required else {
        return traced(traces, request, false, |request| next.run(request)).await;
    };
    let (head, body) = request.into_parts();
    let access = auth.access();
    let identified = identify(&auth, &access, &connection, &head, asks_proof).await;
    let is_authenticated = matches!(&identified, Ok(identity) if *identity != Identity::Nobody);
    if let Some(mark) = head.extensions.get::<Mark>().filter(|_| is_authenticated) {
        mark.authenticated();
    }
    let operate = RequiredPermission { verbs: Verb::Operate.into(), project: None };
    let operates = Operates(identified.as_ref().is_ok_and(|identity| access.decide(identity, &operate).is_ok()));
    let (identity, permitted) = match identified {
        Ok(identity) => (identity.to_string(), permit(&access, &identity, &required)),
        Err(error) => ("unknown".to_owned(), Err(error)),
    };
    let mut request = Request::from_parts(head, body);
    request.extensions_mut().insert(operates);
    let handle = |request| decided(request, next, identity, permitted, &connection, &required);
    traced(traces, request, is_authenticated, handle).await
}

/// Passes a request on if that is permitted.
async fn decided(
    request: Request,
    next: Next,
    identity: String,
    permitted: Result<(), ApiError>,
    connection: &Connection,
    required: &RequiredPermission,
) -> Response {
    let (mut head, body) = request.into_parts();
    let action = format!("{} {}", head.method, head.uri.path());
    let is_write = !required.verbs.without(Verbs::READ_ONLY).is_empty() && !head.method.is_safe();
    let response = match permitted {
        Ok(()) => {
            head.extensions.insert(Caller(identity.clone()));
            head.extensions.insert(Remote(connection.remote()));
            next.run(Request::from_parts(head, bounded(body))).await
        }
        Err(error) => error.into_response(),
    };
    if is_write {
        audit(&identity, connection, &action, required, &response);
    }
    response
}

/// Returns a body that fails if the client stops sending. The time of the whole request bounds how long a slow, steady one may take.
fn bounded(body: Body) -> Body {
    Body::new(TimeoutBody::new(FRAME_WAIT_MAX, body))
}

/// Returns the identity of the caller, if a client may make such a request at all.
async fn identify(
    auth: &Auth,
    access: &Access,
    connection: &Connection,
    head: &Parts,
    asks_proof: bool,
) -> Result<Identity, ApiError> {
    let (peer, is_local, is_tls, certificate) = match connection {
        Connection::Socket(uid) => return Ok(Identity::Local(format!("local user {uid}"))),
        Connection::Http { peer, is_local, is_tls, certificate } => (peer, is_local, is_tls, certificate),
    };
    let limiter = auth.limiter(access);
    let client = ClientKey::from(peer.ip());
    if let Some(Err(wait)) = limiter.as_ref().map(|limiter| limiter.requests.count(client)) {
        return Err(too_many(wait, "requests"));
    }
    let hosts = (!is_tls).then_some(&access.hosts[..]);
    if let Err(foreign) = check_origin(asks_proof, &head.headers, hosts) {
        let status = match foreign {
            ForeignRequest::Body(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ForeignRequest::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            ForeignRequest::Page => StatusCode::FORBIDDEN,
        };
        return Err(problem(status, foreign.to_string()));
    }
    if !access.is_enabled() {
        return match is_local {
            true => Ok(Identity::Local(format!("{} without authentication", address(peer.ip())))),
            // A reload removed the section; the listener itself is closed at the next start.
            false => Err(problem(StatusCode::FORBIDDEN, NOT_CONFIGURED)),
        };
    }
    let rejected = |why: String| match limiter.as_ref().map(|limiter| limiter.failures.count(client)) {
        Some(Err(wait)) => too_many(wait, "failed logins"),
        _ => unauthorized(Some(&why)),
    };
    let mut values = head.headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = values.next() else {
        return Ok(match certificate.is_empty() {
            true => Identity::Nobody,
            false => Identity::known(certificate.iter().cloned()),
        });
    };
    let token = first.to_str().ok().and_then(bearer).filter(|_| values.next().is_none());
    let token = token.ok_or_else(|| rejected("send one Authorization header: Bearer and the token".to_owned()))?;
    // A JSON Web Token has three parts (RFC 7519 section 3.1); tokens of the configuration have no dot.
    if token.split('.').count() == 3 {
        let identity = auth.key_rings.identify(access, token, Instant::now()).await;
        return identity.map_err(|error| match error {
            KeyError::Rejected(why) => rejected(format!("token rejected: {why}")),
            error @ KeyError::Unavailable { .. } => {
                let detail = format!("{error}; try again later");
                problem(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, 10_u64)
            }
        });
    }
    let identity = access.identify_token(token, SystemTime::now().into());
    identity.ok_or_else(|| rejected("the token is unknown or has expired".to_owned()))
}

/// Checks that a caller has a permission.
fn permit(access: &Access, identity: &Identity, required: &RequiredPermission) -> Result<(), ApiError> {
    access.decide(identity, required).map_err(|denied| match identity {
        Identity::Nobody => unauthorized(None),
        identity => {
            let detail = format!("{identity} lacks {denied}; add a grant to the configuration (access.grants)");
            problem(StatusCode::FORBIDDEN, detail)
        }
    })
}

/// Returns the token of an Authorization header (RFC 6750 section 2.1). The scheme is case-insensitive (RFC 9110 section 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    let is_token = !token.is_empty() && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b));
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

/// Returns the error for missing credentials, or for rejected ones with the reason.
fn unauthorized(why: Option<&str>) -> ApiError {
    // RFC 6750 section 3: no error code if no credentials were sent.
    let (detail, challenge) = match why {
        None => (
            "authentication required: send a token (Authorization: Bearer …) or a client certificate".to_owned(),
            "Bearer realm=\"fairway\"",
        ),
        Some(why) => (format!("{why}; get a new token"), "Bearer realm=\"fairway\", error=\"invalid_token\""),
    };
    problem(StatusCode::UNAUTHORIZED, detail).header(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
}

fn too_many(wait: Duration, what: &str) -> ApiError {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    problem(StatusCode::TOO_MANY_REQUESTS, format!("too many {what}; wait {secs} s"))
        .header(header::RETRY_AFTER, secs.max(1))
}

/// Logs a write, also one that was rejected. The content is in the history of the store.
fn audit(identity: &str, connection: &Connection, action: &str, required: &RequiredPermission, response: &Response) {
    let remote = connection.remote();
    let status = response.status().as_u16();
    let outcome = match status {
        200..300 if response.extensions().get::<DryRun>().is_some() => "dry-run",
        200..300 => "done",
        401 | 403 | 421 | 429 => "denied",
        500.. => "failed",
        _ => "refused",
    };
    let (verbs, project) = (required.verbs.to_string(), required.project.as_deref().unwrap_or("-"));
    // Loads are pushed every few seconds, which would hide who did what. Failures are logged like those of other writes.
    if outcome == "done" && required.verbs == Verb::Report.into() {
        tracing::debug!(target: "fairway::audit", identity, remote, action, verbs, project, outcome, status, "write");
        return;
    }
    // Not in the timeline of what changed answers.
    if outcome == "dry-run" {
        tracing::info!(target: "fairway::audit", identity, remote, action, verbs, project, outcome, status, "write");
        return;
    }
    tracing::info!(target: "fairway::audit", event = "api", identity, remote, action, verbs, project, outcome, status, "write");
}

/// An IPv4 address that is mapped to IPv6 is written as IPv4.
fn address(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Longest wait for the next piece of a body.
const FRAME_WAIT_MAX: Duration = Duration::from_secs(10);
const NOT_CONFIGURED: &str = "this address requires TLS and authentication, which the configuration in use does not have; \
     give it access.tls and access.tokens again, or restart fairway to close this address";

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    use axum::body::Bytes;
    use http_body_util::BodyExt;
    use hyper::body::Frame;

    use super::*;

    /// A body whose first chunk never arrives.
    struct Stalled;

    impl hyper::body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_stops_arriving_fails_after_ten_seconds() {
        assert_eq!(bounded(Body::from("whole")).collect().await.unwrap().to_bytes(), "whole");
        let began = tokio::time::Instant::now();
        let error = bounded(Body::new(Stalled)).collect().await.unwrap_err();
        assert!(began.elapsed() == Duration::from_secs(10), "{error} after {:?}", began.elapsed());
    }

    #[test]
    fn bearer_returns_the_token_of_a_well_formed_header() {
        assert_eq!(bearer("Bearer fairway_00"), Some("fairway_00"));
        assert_eq!(bearer("bearer  a.b.c"), Some("a.b.c"));
        for header in ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer a,b", "Bearera", "Bearer \u{e9}"] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }

    #[test]
    fn rejections_have_a_challenge_or_a_time_to_wait() {
        let header = |error: ApiError, name| error.into_response().headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header(too_many(Duration::from_millis(1_200), "requests"), header::RETRY_AFTER), "2");
        assert_eq!(header(too_many(Duration::ZERO, "requests"), header::RETRY_AFTER), "1");
        assert_eq!(header(unauthorized(None), header::WWW_AUTHENTICATE), "Bearer realm=\"fairway\"");
        let rejected = header(unauthorized(Some("it has expired")), header::WWW_AUTHENTICATE);
        assert_eq!(rejected, "Bearer realm=\"fairway\", error=\"invalid_token\"");
    }
}
