//! The routes, and what every call passes: who may call, how long it takes, how large it is.

use std::{net::IpAddr, sync::Arc, time::Instant};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;

use super::{
    BODY_MAX, CALL_MAX, Call, Calls, Ledger, Refused, Scope,
    adjust::{adjusted, octets},
};
use crate::{Changes, DomainFilter, Endpoint, Json, MEDIA_TYPE};

/// Tells whether a call that shows this token, or none, is heard; refused where no call is.
pub type Bearer = Arc<dyn Fn(Option<&str>) -> Result<bool, Refused> + Send + Sync>;

/// The webhook as a router. `bearer` is asked about each call; with `is_local`, only this machine may call, by an address or as
/// `localhost`: a page in a browser must not reach it under another name.
pub fn router(ledger: Arc<dyn Ledger>, calls: Arc<Calls>, bearer: Bearer, is_local: bool) -> Router {
    let bodies = Arc::new(Semaphore::new(BODIES_MAX));
    Router::new().fallback(answer).with_state(Webhook { ledger, calls, bearer, is_local, bodies })
}

#[derive(Clone)]
struct Webhook {
    ledger: Arc<dyn Ledger>,
    calls: Arc<Calls>,
    bearer: Bearer,
    is_local: bool,
    /// Places for bodies, and for what is made of them.
    bodies: Arc<Semaphore>,
}

/// A status, and what is wrong in one line.
struct Failed(StatusCode, String);

type Answered = Result<Response, Failed>;

async fn answer(State(webhook): State<Webhook>, request: Request) -> Response {
    let begun = Instant::now();
    let asked = asked(request.uri().path(), request.method());
    let call = asked.as_ref().map_or(Call::Other, |(call, _)| *call);
    let answered = match webhook.refused(request.headers()) {
        Some(refused) => Err(refused),
        None => match asked {
            Ok((call, scope)) => webhook.within(webhook.carry_out(call, &scope, request)).await,
            Err(failed) => Err(failed),
        },
    };
    let mut response = answered.unwrap_or_else(|Failed(status, what)| (status, format!("{what}\n")).into_response());
    webhook.calls.end(call, response.status().as_u16(), begun.elapsed());
    // For whoever stands around, which call it was.
    response.extensions_mut().insert(call);
    response
}

/// The token that a request shows: by itself, or as a password (RFC 7617), which is what Go's clients make of one in a URL.
fn shown_token(headers: &HeaderMap) -> Option<String> {
    let (scheme, shown) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => Some(shown.trim().to_owned()),
        scheme if scheme.eq_ignore_ascii_case("basic") => {
            let both = String::from_utf8(BASE64.decode(shown.trim().as_bytes()).ok()?).ok()?;
            both.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

/// Which call of which client a path and method are.
fn asked(path: &str, method: &Method) -> Result<(Call, Scope), Failed> {
    let path = path.trim_end_matches('/');
    let (scope, rest) = match path.strip_prefix("/owners/") {
        Some(below) => {
            let (owner, rest) = below.split_once('/').unwrap_or((below, ""));
            let what = format!("{owner:.80?} is no name of an owner: give 1 to 63 letters, digits, '-', '_', '.'");
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
            let what = format!("{method} is not among the calls of the webhook here");
            return Err(Failed(StatusCode::BAD_REQUEST, what));
        }
        _ => {
            return Err(Failed(
                StatusCode::NOT_FOUND,
                "this is the webhook of ExternalDNS, which has no such path".into(),
            ));
        }
    };
    Ok((call, scope))
}

impl Webhook {
    /// Why nothing is heard of a request.
    fn refused(&self, headers: &HeaderMap) -> Option<Failed> {
        if self.is_local && !headers.get(header::HOST).is_none_or(is_this_machine) {
            let what = "it is asked under a name that is not this machine's; ask 127.0.0.1 or localhost";
            return Some(Failed(StatusCode::FORBIDDEN, what.to_owned()));
        }
        let what =
            "show the token: Authorization: Bearer TOKEN, or as the password in the URL: https://fairway:TOKEN@HOST";
        match (self.bearer)(shown_token(headers).as_deref()) {
            Ok(true) => None,
            Ok(false) => Some(Failed(StatusCode::UNAUTHORIZED, what.to_owned())),
            Err(refused) => Some(refused.into()),
        }
    }

    /// The answer, or that there is none in time.
    async fn within(&self, answer: impl Future<Output = Answered>) -> Answered {
        tokio::time::timeout(CALL_MAX, answer).await.unwrap_or_else(|_| {
            let what = format!("it took longer than {CALL_MAX:?}; try again");
            Err(Failed(StatusCode::SERVICE_UNAVAILABLE, what))
        })
    }

    async fn carry_out(&self, call: Call, scope: &Scope, request: Request) -> Answered {
        match call {
            Call::Negotiate => {
                let include = self.ledger.domains()?;
                json(&DomainFilter { include, ..DomainFilter::default() }).map(|(_, response)| response)
            }
            Call::Records => {
                let _place = self.place().await?;
                let (octets, response) = json(&self.ledger.endpoints(scope).await?)?;
                self.calls.answer(octets);
                Ok(response)
            }
            Call::Adjust => {
                let _place = self.place().await?;
                let endpoints: Option<Vec<Endpoint>> = read(request).await?;
                json(&adjusted(endpoints.unwrap_or_default())).map(|(_, response)| response)
            }
            Call::Apply => {
                let _place = self.place().await?;
                let changes: Changes = read(request).await?;
                let count = changes.len();
                self.ledger.apply(scope, kept(changes)?).await?;
                self.calls.change(count);
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            Call::Other => Err(Failed(StatusCode::NOT_FOUND, "there is no such call".to_owned())),
        }
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Failed> {
        self.bodies.acquire().await.map_err(|_| Failed(StatusCode::SERVICE_UNAVAILABLE, "it is ending".to_owned()))
    }
}

/// Changes in the form in which they are kept; refused where an endpoint is too large, which none is that was adjusted.
fn kept(changes: Changes) -> Result<Changes, Failed> {
    let Changes { create, update_old, update_new, delete } = changes;
    if let Some(large) = create.iter().chain(&update_new).find(|endpoint| octets(endpoint) > super::ENDPOINT_MAX) {
        let what = format!("{:.300}: an endpoint has at most {} octets", large.dns_name, super::ENDPOINT_MAX);
        return Err(Failed(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    Ok(Changes { create: adjusted(create), update_old, update_new: adjusted(update_new), delete })
}

/// Reads a body of the contract's type.
async fn read<T: Json>(request: Request) -> Result<T, Failed> {
    if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_of_contract) {
        let what = format!("give the body as {MEDIA_TYPE}");
        return Err(Failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let octets = whole(request.into_body()).await?;
    T::from_json(&octets).map_err(|error| Failed(StatusCode::BAD_REQUEST, format!("the body: {error}")))
}

/// All of a body. One that is too large is read to its end, as far as time lasts: a client that still sends would not hear the answer.
async fn whole(mut body: Body) -> Result<Bytes, Failed> {
    let mut octets = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let cut_off = |error| Failed(StatusCode::BAD_REQUEST, format!("the body did not come whole: {error}"));
        let frame = frame.map_err(cut_off)?;
        let Some(data) = frame.data_ref() else { continue };
        seen += data.len();
        match seen {
            0..=BODY_MAX => octets.extend_from_slice(data),
            _ => octets = Vec::new(),
        }
        if seen > 2 * BODY_MAX {
            break;
        }
    }
    match seen {
        0..=BODY_MAX => Ok(octets.into()),
        _ => Err(Failed(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {BODY_MAX} octets"))),
    }
}

fn json<T: Json>(value: &T) -> Result<(usize, Response), Failed> {
    let octets = value.to_json();
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))];
    Ok((octets.len(), (kind, octets).into_response()))
}

/// Whether a media type is that of the contract, however it is spaced.
fn is_of_contract(value: &HeaderValue) -> bool {
    let plain = value.to_str().unwrap_or_default().to_ascii_lowercase().replace([' ', '\t'], "");
    plain == MEDIA_TYPE
}

/// Whether a `Host` is an address, or the name that every machine has for itself.
fn is_this_machine(host: &HeaderValue) -> bool {
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refused::Large(_) => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Self(status, refused.to_string())
    }
}

/// Bodies that are read, or made, at once; more wait. Each takes some times 32 MiB at the bound.
const BODIES_MAX: usize = 4;
