//! What every request passes before it is answered: how often its client asks, where it comes from, who asks, whether they may; and
//! the line in the audit log of what they changed.
//!
//! Here are the steps and what each refusal looks like; what is decided is in `access`.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::Response,
};

use super::{permission::Permissions, problem::problem, routes::Caller};
use fairway_access::{
    Access, ClientKey, Denied, Foreign, Identity, KeyError, KeyRings, LimitSettings, Limiter, RequiredPermission,
    Subject, Verbs, is_foreign,
};
use fairway_control::Control;
use fairway_transport::ComputeGuard;
use tower_http::timeout::TimeoutBody;

/// How a request came.
#[derive(Clone, Debug)]
pub(super) enum Via {
    /// Over the control socket, from this user of the machine.
    Socket(u32),
    /// Over the HTTP listener.
    Http {
        /// From there.
        peer: SocketAddr,
        /// Whether the listener is reached from this machine alone.
        is_local: bool,
        /// Whether TLS is spoken.
        is_tls: bool,
        /// What a certificate that was shown, and is vouched for, calls its holder; empty without one.
        certificate: Arc<[Subject]>,
    },
}

/// What the gate knows beside the configuration in force.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    control: Control,
    permissions: Arc<Permissions>,
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    rings: KeyRings,
    limiter: Mutex<Option<(LimitSettings, Arc<Limiter>)>>,
}

impl Gate {
    /// The gate of a daemon; nobody has passed yet.
    pub(super) fn new(control: &Control, permissions: Permissions) -> Self {
        Self { control: control.clone(), permissions: Arc::new(permissions), kept: Arc::default() }
    }

    /// What is configured now.
    pub(super) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.control.shared().serving.published().configured.settings.access)
    }

    /// Counts by the bounds that are configured now; new ones count from nothing.
    fn limiter(&self, access: &Access) -> Option<Arc<Limiter>> {
        let settings = access.limits?;
        let mut kept = self.kept.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, limiter)) if *of == settings => Some(Arc::clone(limiter)),
            _ => {
                let limiter = Arc::new(Limiter::new(&settings));
                *kept = Some((settings, Arc::clone(&limiter)));
                Some(limiter)
            }
        }
    }
}

/// Lets a request pass, or answers it; a write is told in the audit log, whatever becomes of it.
pub(super) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    // What is read may be as large as what is written.
    let _computing = ComputeGuard::begin();
    let required = gate.permissions.required(&request);
    let Some(via) = request.extensions().get::<Via>().cloned() else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "the request came over no listener; please report it");
    };
    let Some(required) = required else { return next.run(request).await };
    let (mut head, body) = request.into_parts();
    let what = format!("{} {}", head.method, head.uri.path());
    let changes = !required.verbs.without(Verbs::SEEING).is_empty() && !head.method.is_safe();
    let (who, response) = match admit(&gate, &via, &head, &required).await {
        Ok(identity) => {
            let who = identity.to_string();
            head.extensions.insert(Caller(who.clone()));
            let body = bounded(body);
            (who, next.run(Request::from_parts(head, body)).await)
        }
        Err((who, response)) => (who, *response),
    };
    if changes {
        audit(&who, &via, &what, &required, response.status());
    }
    response
}

/// A body that fails if the client stops sending. The time of the whole request bounds how long a steady one may take.
fn bounded(body: Body) -> Body {
    Body::new(TimeoutBody::new(PIECE_MAX, body))
}

/// Who was turned away, as far as it is known, and how.
type Turned = (String, Box<Response>);

async fn admit(gate: &Gate, via: &Via, head: &Parts, required: &RequiredPermission) -> Result<Identity, Turned> {
    let (peer, is_local, is_tls, certificate) = match via {
        Via::Socket(uid) => return Ok(Identity::Local(format!("local user {uid}"))),
        Via::Http { peer, is_local, is_tls, certificate } => (peer, is_local, is_tls, certificate),
    };
    let access = gate.access();
    let turned = |who: &str, response| (who.to_owned(), Box::new(response));
    let limiter = gate.limiter(&access);
    let client = ClientKey::from(peer.ip());
    if let Some(Err(wait)) = limiter.as_ref().map(|limiter| limiter.request(client)) {
        return Err(turned("unknown", too_often(wait, "requests")));
    }
    let hosts = (!is_tls).then_some(&access.hosts[..]);
    if let Err(foreign) = is_foreign(&head.method, &head.headers, hosts) {
        let status = match foreign {
            Foreign::Body(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Foreign::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Foreign::Page => StatusCode::FORBIDDEN,
        };
        return Err(turned("unknown", problem(status, foreign.to_string())));
    }
    if !access.is_enabled() {
        return match is_local {
            true => Ok(Identity::Local(format!("{} without authentication", shown(peer.ip())))),
            // The configuration was changed so that this listener may not be; it goes with the next start.
            false => Err(turned("unknown", problem(StatusCode::FORBIDDEN, NOT_ANY_MORE))),
        };
    }
    let failed = |response| match limiter.as_ref().map(|limiter| limiter.failure(client)) {
        Some(Err(wait)) => turned("unknown", too_often(wait, "failed logins")),
        _ => turned("unknown", response),
    };
    let identity = identify(gate, &access, &head.headers, certificate).await.map_err(|error| match error {
        Unknown::Later(why) => turned("unknown", later(&why)),
        Unknown::Refused(why) => failed(unauthorized(Some(&why))),
    })?;
    access.decide(&identity, required).map_err(|denied| match &identity {
        Identity::Nobody => turned("nobody", unauthorized(None)),
        known => turned(&known.to_string(), forbidden(known, &denied)),
    })?;
    Ok(identity)
}

/// Why nobody is known.
enum Unknown {
    Later(String),
    Refused(String),
}

async fn identify(
    gate: &Gate,
    access: &Access,
    headers: &HeaderMap,
    certificate: &[Subject],
) -> Result<Identity, Unknown> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = shown.next() else {
        return Ok(if certificate.is_empty() {
            Identity::Nobody
        } else {
            Identity::known(certificate.iter().cloned())
        });
    };
    let token = first.to_str().ok().and_then(bearer).filter(|_| shown.next().is_none());
    let token =
        token.ok_or_else(|| Unknown::Refused("send one Authorization header: Bearer and the token".to_owned()))?;
    if token.split('.').count() == 3 {
        let identified = gate.kept.rings.identify(access, token, Instant::now()).await;
        return identified.map_err(|error| match error {
            KeyError::Refused(why) => Unknown::Refused(format!("token rejected: {why}")),
            unreadable @ KeyError::Unreadable { .. } => Unknown::Later(unreadable.to_string()),
        });
    }
    let known = access.of_token(token, SystemTime::now().into());
    known.ok_or_else(|| Unknown::Refused("the token is unknown or has expired".to_owned()))
}

/// The token of a header (RFC 6750 section 2.1); the scheme is written in any case (RFC 9110 section 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    let is_token = !token.is_empty() && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b));
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

fn unauthorized(why: Option<&str>) -> Response {
    let detail = why.map_or_else(
        || "authentication required: send a token (Authorization: Bearer …) or a client certificate".to_owned(),
        |why| format!("{why}; get a new token"),
    );
    let mut response = problem(StatusCode::UNAUTHORIZED, detail);
    // RFC 6750 section 3: no error code where nothing was shown.
    let challenge = match why {
        None => "Bearer realm=\"fairway\"",
        Some(_) => "Bearer realm=\"fairway\", error=\"invalid_token\"",
    };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

fn forbidden(who: &Identity, denied: &Denied) -> Response {
    let detail = format!("{who} lacks {denied}; add a grant to the configuration (access.grants)");
    problem(StatusCode::FORBIDDEN, detail)
}

fn too_often(wait: Duration, what: &str) -> Response {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let mut response = problem(StatusCode::TOO_MANY_REQUESTS, format!("too many {what}; wait {secs} s"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs.max(1)));
    response
}

fn later(why: &str) -> Response {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, format!("{why}; try again later"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// One line for each write, also for one that was turned away: who, what, from where, with which outcome. What is written is
/// in the store's history.
fn audit(identity: &str, via: &Via, action: &str, required: &RequiredPermission, status: StatusCode) {
    let remote = match via {
        Via::Socket(_) => "control socket".to_owned(),
        Via::Http { peer, .. } => shown(peer.ip()),
    };
    let outcome = match status.as_u16() {
        200..300 => "done",
        401 | 403 | 421 | 429 => "denied",
        500.. => "failed",
        _ => "refused",
    };
    let (verbs, project) = (required.verbs.to_string(), required.project.as_deref().unwrap_or("-"));
    let status = status.as_u16();
    tracing::info!(target: "fairway::audit", identity, remote, action, verbs, project, outcome, status, "write");
}

fn shown(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Longest wait for the next piece of a body.
const PIECE_MAX: Duration = Duration::from_secs(10);
const NOT_ANY_MORE: &str = "this address takes TLS and authentication, which the configuration in force does not have; \
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

    /// A body whose first piece never arrives.
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
    fn a_token_is_taken_out_of_its_header_and_nothing_else_is() {
        assert_eq!(bearer("Bearer fairway_00"), Some("fairway_00"));
        assert_eq!(bearer("bearer  a.b.c"), Some("a.b.c"));
        for header in ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer a,b", "Bearera", "Bearer \u{e9}"] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }

    #[test]
    fn refusals_say_what_to_do_and_when() {
        let response = too_often(Duration::from_millis(1_200), "requests");
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(too_often(Duration::ZERO, "requests").headers()[header::RETRY_AFTER], "1");
        assert_eq!(unauthorized(None).headers()[header::WWW_AUTHENTICATE], "Bearer realm=\"fairway\"");
        let refused = unauthorized(Some("it has expired"));
        assert_eq!(refused.headers()[header::WWW_AUTHENTICATE], "Bearer realm=\"fairway\", error=\"invalid_token\"");
    }
}
