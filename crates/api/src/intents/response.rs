//! Intents as responses, and errors of their bodies.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fairway_model::intent::{Intent, IntentSpec};

use crate::problem::{ApiError, FieldError, with_errors};
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_intents::{BodyError, InvalidBody, Json, body::to_public};
use fairway_store::objects::{Kind, Object};

/// Returns the error of an invalid body, with all its errors.
pub(super) fn invalid_body(kind: Kind, refused: &InvalidBody) -> ApiError {
    let status = if refused.nameless { StatusCode::BAD_REQUEST } else { StatusCode::UNPROCESSABLE_ENTITY };
    let detail = match &refused.errors[..] {
        [only] if only.pointer.is_empty() => only.detail.clone(),
        [_] => format!("the {} has an error; fix that in `errors`", kind.word()),
        many => format!("the {} has {} errors; fix those in `errors`", kind.word(), many.len()),
    };
    let error = |fault: &BodyError| FieldError { pointer: fault.pointer.clone(), detail: fault.detail.clone() };
    with_errors(status, detail, refused.errors.iter().map(error).collect())
}

/// Returns the response to a read.
pub(super) fn found(intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    with_tag(StatusCode::OK, &with_status(to_public(intent), status), object)
}

/// Returns an intent with its status as JSON.
pub(super) fn intent_json(intent: &Intent, status: &IntentStatus) -> serde_json::Value {
    serde_json::from_slice(&with_status(to_public(intent), status).to_text()).unwrap_or_default()
}

fn with_status(shown: Json, status: &IntentStatus) -> Json {
    let Json::Map(mut entries) = shown else { return shown };
    entries.push(("status".to_owned(), Json::of(status)));
    Json::Map(entries)
}

/// Returns the response to a write: the intent, with the fields `name` and `Message` of ONAP's responses.
pub(super) fn stored(code: StatusCode, intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    let done = if code == StatusCode::CREATED { "created" } else { "updated" };
    let message = format!("{} {done}", noun(object.key.kind()));
    let name = intent.metadata.name.as_str();
    let mut entries = vec![("name".to_owned(), Json::from(name)), ("Message".to_owned(), message.into())];
    if let Json::Map(shown) = with_status(to_public(intent), status) {
        entries.extend(shown.into_iter().filter(|(key, _)| key != "name"));
    }
    let warnings = warnings(intent);
    if !warnings.is_empty() {
        entries.push(("warnings".to_owned(), warnings.into()));
    }
    with_tag(code, &Json::Map(entries), object)
}

/// Returns a page of intents, with a link to the next page if there is one.
pub(super) fn listed(found: &[(Object, Intent)], statuses: &[IntentStatus], next: Option<String>) -> Response {
    let shown = found.iter().zip(statuses).map(|((_, intent), status)| with_status(to_public(intent), status));
    let mut response = json(StatusCode::OK, &Json::List(shown.collect()));
    if let Some(link) = next.and_then(|next| HeaderValue::from_str(&format!("<{next}>; rel=\"next\"")).ok()) {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

fn with_tag(status: StatusCode, body: &Json, object: &Object) -> Response {
    let mut response = json(status, body);
    let tag = HeaderValue::from_str(&etag(object)).expect("a number in quotes is a header's value");
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// Returns the ETag of an object: its revision.
pub(super) fn etag(object: &Object) -> String {
    format!("\"{}\"", object.revision)
}

fn json(status: StatusCode, body: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_text()).into_response()
}

/// Returns warnings about a valid intent.
fn warnings(intent: &Intent) -> Vec<&'static str> {
    let IntentSpec::Inbound(inbound) = &intent.spec else { return Vec::new() };
    let mut warnings = Vec::new();
    if !inbound.external_support {
        warnings.push("/spec/externalSupport is false: its name is not answered");
    }
    if inbound.traffic.sweep_interval.is_some() {
        warnings.push(
            "/spec/traffic/sweepInterval is Istio's interval between analyses; baseEjectionTime is how long an instance stays ejected",
        );
    }
    warnings
}

/// Returns the name of a kind in ONAP's messages.
fn noun(kind: Kind) -> String {
    let noun = match kind {
        Kind::Compound => "compound service",
        Kind::DeploymentGroup => "deployment intent group",
        Kind::Inbound | Kind::InboundOfCompound => "inbound service",
        Kind::Outbound => "outbound service",
        Kind::TrafficSet => "traffic intent set",
        other => return other.word().replace('-', " "),
    };
    noun.to_owned()
}
