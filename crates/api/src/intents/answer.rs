//! What is answered: objects with their revision, and problems (RFC 9457) that name every fault.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;

use super::super::problem::Refusal;
use crate::{
    once::FASTER,
    problem::{Flaw, detailed},
};
use fairway_intents::{Fault, IntentStatus, Json, Refused, body::to_show};
use fairway_store::objects::{Kind, Object, StoreError};

/// An error of one sentence.
pub(super) fn problem(status: StatusCode, detail: impl Into<String>) -> Refusal {
    detailed(status, detail.into(), vec![]).into()
}

/// A body that was not taken: all its faults, each with its pointer.
pub(super) fn refused(kind: Kind, refused: &Refused) -> Refusal {
    let status = if refused.nameless { StatusCode::BAD_REQUEST } else { StatusCode::UNPROCESSABLE_ENTITY };
    let faults = &refused.faults;
    let detail = match &faults[..] {
        [only] if only.pointer.is_empty() => only.detail.clone(),
        many => format!("the {} has {} errors; fix those in `errors`", kind.word(), many.len()),
    };
    problems(status, detail, faults)
}

/// What the store did not do.
pub(super) fn not_stored(error: &StoreError) -> Refusal {
    let status = match error {
        StoreError::Conflict { .. } => StatusCode::CONFLICT,
        StoreError::Refused(_) => StatusCode::PAYLOAD_TOO_LARGE,
        StoreError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::Compacted { .. } | StoreError::Damaged(_) | StoreError::Newer { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    let detail = match error {
        StoreError::Conflict { key, .. } if key.kind() == Kind::Receipt => FASTER.to_owned(),
        _ => error.to_string(),
    };
    let mut response = detailed(status, detail, vec![]);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response.into()
}

fn problems(status: StatusCode, detail: String, faults: &[Fault]) -> Refusal {
    let flaw = |fault: &Fault| Flaw { pointer: fault.pointer.clone(), detail: fault.detail.clone() };
    detailed(status, detail, faults.iter().map(flaw).collect()).into()
}

/// An object that is there.
pub(super) fn found(intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    tagged(StatusCode::OK, with_status(to_show(intent), status), object)
}

/// An intent as answers show it, as a value.
pub(super) fn shown_with(intent: &Intent, status: &IntentStatus) -> serde_json::Value {
    serde_json::from_slice(&with_status(to_show(intent), status).to_text()).unwrap_or_default()
}

/// What an intent says, and what has become of it.
fn with_status(shown: Json, status: &IntentStatus) -> Json {
    let Json::Map(mut entries) = shown else { return shown };
    entries.push(("status".to_owned(), Json::of(status)));
    Json::Map(entries)
}

/// An object that was made or replaced: what it says, and what the seed's answers have beside that.
pub(super) fn stored(code: StatusCode, intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    let done = if code == StatusCode::CREATED { "created" } else { "updated" };
    let message = format!("{} {done}", noun(object.key.kind()));
    let name = intent.metadata().name.as_str();
    let mut entries = vec![("name".to_owned(), Json::from(name)), ("Message".to_owned(), message.into())];
    if let Json::Map(shown) = with_status(to_show(intent), status) {
        entries.extend(shown.into_iter().filter(|(key, _)| key != "name"));
    }
    let warnings = warnings(intent);
    if !warnings.is_empty() {
        entries.push(("warnings".to_owned(), warnings.into()));
    }
    tagged(code, Json::Map(entries), object)
}

/// Several objects, with a link to the next ones where there are more.
pub(super) fn listed(found: &[(Object, Intent)], statuses: &[IntentStatus], next: Option<String>) -> Response {
    let shown = found.iter().zip(statuses).map(|((_, intent), status)| with_status(to_show(intent), status));
    let list = Json::List(shown.collect());
    let mut response = json(StatusCode::OK, &list);
    let link = next.and_then(|next| HeaderValue::from_str(&format!("<{next}>; rel=\"next\"")).ok());
    link.map(|link| response.headers_mut().insert(header::LINK, link));
    response
}

fn tagged(status: StatusCode, body: Json, object: &Object) -> Response {
    let mut response = json(status, &body);
    let tag = HeaderValue::from_str(&tag(object)).expect("a number in quotes is a header's value");
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// The ETag of an object: its revision.
pub(super) fn tag(object: &Object) -> String {
    format!("\"{}\"", object.revision)
}

fn json(status: StatusCode, body: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_text()).into_response()
}

/// What is odd about an object that was taken.
fn warnings(intent: &Intent) -> Vec<&'static str> {
    let Intent::Inbound(inbound) = intent else { return Vec::new() };
    let mut warnings = Vec::new();
    if !inbound.external_support {
        warnings.push("/spec/externalSupport is false: its name is not answered");
    }
    if inbound.traffic.sweep_interval.is_some() {
        warnings.push(
            "/spec/traffic/sweepInterval is Istio's time between looks; how long an instance stays ejected is baseEjectionTime",
        );
    }
    warnings
}

/// What the seed calls an object in its messages.
fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::AccessPoint => "access point",
        Kind::Client => "client",
        Kind::CompositeApp => "composite app",
        Kind::Compound => "compound service",
        Kind::Controller => "controller",
        Kind::DeploymentGroup => "deployment intent group",
        Kind::DnsUpdateRecord => "dns update record",
        Kind::Inbound | Kind::InboundOfCompound => "inbound service",
        Kind::Outbound => "outbound service",
        Kind::OutboundServer => "outbound server",
        Kind::Project => "project",
        Kind::TrafficGroup => "traffic group",
        Kind::TrafficSet => "traffic intent set",
        _ => "object",
    }
}
