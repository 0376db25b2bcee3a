//! What is answered on which path, to whoever the gate lets through.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, Path, Query, Request, State,
        rejection::{BytesRejection, QueryRejection},
    },
    handler::Handler,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::any,
};
use fairway_model::{Name, Network, Override, Rtype, Timestamp};

use super::{
    contributions,
    explain::explanation,
    gate::{Gate, Via, gate},
    handover,
    intents::{self, of_intents},
    latency::{TABLE_MAX, push_latency},
    load::push_load,
    metrics::Metrics,
    objects,
    openapi::{self, Document},
    operations,
    problem::{problem, refusal},
    publishing,
    table::Table,
    traced::traced,
    watch::{Hub, watch},
};
use crate::{
    control::{Control, Readiness},
    once::{Given, UnderWay},
    page,
};
use fairway_api_types::state_wire::{ExplainParameters, NewOverride, Version};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::Author;

/// What the routes read from, and command.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) control: Control,
    pub(super) metrics: Arc<Metrics>,
    /// Orders the writes of intents: see `intents`.
    pub(super) intent_writes: Arc<tokio::sync::RwLock<()>>,
    /// What lets requests through.
    pub(super) gate: Gate,
    /// Writes with a key that are under way.
    pub(super) under_way: UnderWay,
    /// What watchers pull from.
    pub(super) hub: Arc<Hub>,
    /// True once streams are to end, so that nobody waits for them.
    pub(super) ending: tokio::sync::watch::Receiver<bool>,
}

/// Who asks, as far as it is known: it stands in the history of what they change.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) String);

/// What the HTTP listener answers, and what the control socket does: that has what is for this machine alone, too.
pub(super) fn of_both(site: &Site) -> (Router, Router) {
    let table = table();
    let of_socket = table.clone().on(operations::export(), export).on(operations::stop(), stop);
    (finish(table, site), finish(of_socket, site))
}

/// Every route of both listeners.
pub(super) fn table() -> Table {
    let commands = Table::new()
        .on(operations::reload(), reload)
        .on(operations::add_override(), add_override)
        .on(operations::remove_override(), remove_override)
        .on(operations::contributions(), contributions::list)
        .on(operations::evict(), contributions::evict)
        .on(operations::publish_apply(), publishing::apply)
        .on(operations::publish_take(), handover::take)
        .on(operations::push_load(), push_load)
        .on(operations::push_latency(), push_latency.layer(DefaultBodyLimit::max(TABLE_MAX)));
    let reads = Table::new()
        .on(operations::healthz(), healthz)
        .on(operations::readyz(), readyz)
        .on(operations::openapi(), openapi)
        .on(operations::version(), version)
        .on(operations::metrics(), metrics)
        .on(operations::state(), state)
        .on(operations::explain(), explain)
        .on(operations::watch(), watch)
        .on(operations::publishing(), publishing::all)
        .on(operations::publish_plan(), publishing::plan)
        .within(page::routes(), operations::page());
    let limit = DefaultBodyLimit::max(intents::BODY_MAX);
    let of_paths = Router::new().route("/v2/{*path}", any(of_intents)).route("/v1/intents/{*key}", any(of_intents));
    let all = objects::add(reads.bounded(commands, BODY_MAX)).within(of_paths.layer(limit), openapi::of_intents());
    let all = all.on(operations::intents(), intents::list).on(operations::create_intent(), of_intents.layer(limit));
    INTENT_KINDS.into_iter().fold(all, |all, kind| all.on(openapi::history_of_intent(kind), intents::history))
}

fn finish(table: Table, site: &Site) -> Router {
    let (router, operations) = table.into_parts();
    router
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(site.gate.clone(), gate))
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn_with_state(site.control.shared().traces.clone(), traced))
        .layer(Extension(Arc::new(Document::of(operations))))
        .with_state(site.clone())
}

/// Bounds the time of every request, and says of every answer that it is for now, is what it says it is, and is for nobody's frame.
async fn guard(request: Request, next: Next) -> Response {
    let is_tls = matches!(request.extensions().get(), Some(Via::Http { is_tls: true, .. }));
    let late = |_| problem(StatusCode::SERVICE_UNAVAILABLE, "no answer in time; fairway is busy, look at its log");
    let mut response = tokio::time::timeout(REQUEST_MAX, next.run(request)).await.unwrap_or_else(late);
    let headers = response.headers_mut();
    // The page's files say themselves how long they are good.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in GUARDS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

/// Alive: requests are answered, and the control task runs.
async fn healthz(State(site): State<Site>) -> Response {
    match site.control.is_running() {
        true => "ok\n".into_response(),
        false => problem(StatusCode::SERVICE_UNAVAILABLE, "the control task has ended; restart fairway"),
    }
}

/// Ready: wants to be asked.
async fn readyz(State(site): State<Site>) -> Response {
    match site.control.readiness() {
        Readiness::Ready => "ready\n".into_response(),
        waiting => problem(StatusCode::SERVICE_UNAVAILABLE, waiting.reason()),
    }
}

/// What there is to ask, for programs.
async fn openapi(Extension(document): Extension<Arc<Document>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.text()).into_response()
}

async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() })
}

async fn metrics(State(site): State<Site>) -> Response {
    match site.metrics.gather(&site.control).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn state(State(site): State<Site>) -> Response {
    match site.control.state().await {
        Ok(state) => Json(state).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn explain(State(site): State<Site>, query: Result<Query<ExplainParameters>, QueryRejection>) -> Response {
    let asked = match query {
        Ok(Query(asked)) => asked,
        Err(error) => {
            return bad(format!("{}; ask with ?name=NAME, and type= and client= where wanted", error.body_text()));
        }
    };
    let (name, rtype) = match (asked.name.parse::<Name>(), asked.rtype.as_deref().unwrap_or("A").parse::<Rtype>()) {
        (Ok(name), Ok(rtype)) => (name, rtype),
        (Err(error), _) => return bad(format!("name: {error}")),
        (_, Err(error)) => return bad(format!("type: {error}")),
    };
    let client = match asked.client.as_deref().map(str::parse::<Network>).transpose() {
        Ok(client) => client,
        Err(error) => return bad(format!("client: {error}")),
    };
    match site.control.explain(&name, rtype, client).await {
        Ok(now) => Json(explanation(&now.explained, true, &|target| now.cause(target))).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn reload(State(site): State<Site>) -> Response {
    match site.control.reload().await {
        Ok(report) => Json(report).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn add_override(
    State(site): State<Site>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; 16 KiB are the most", error.body_text())),
    };
    let by = Author::new(caller.map(|Extension(Caller(who))| who).unwrap_or_default(), "");
    let given = match Given::read(&headers, &by, &[&b"POST /v1/overrides"[..], &body]) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let new = match serde_json::from_slice::<NewOverride>(&body) {
        Ok(new) => new,
        Err(error) => return bad(format!("{error}; give scope, force, reason and forSecs as one JSON object")),
    };
    let new = match parse_override(&new, Timestamp::from(std::time::SystemTime::now())) {
        Ok(new) => new,
        Err(fault) => return bad(fault),
    };
    let added = match given {
        Some(given) => site.control.add_override_once(new, given.id()).await,
        None => site.control.add_override(new).await,
    };
    match added {
        Ok(state) => (StatusCode::CREATED, Json(state)).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn remove_override(State(site): State<Site>, Path(id): Path<String>) -> Response {
    match site.control.remove_override(&id).await {
        Ok(state) => Json(state).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn export(State(site): State<Site>) -> Response {
    match site.control.objects() {
        Ok(objects) => Json(objects.declared().export()).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn stop(State(site): State<Site>) -> StatusCode {
    site.control.stop();
    StatusCode::ACCEPTED
}

async fn unknown(uri: Uri) -> Response {
    problem(StatusCode::NOT_FOUND, format!("nothing is at {}; /openapi.json has all paths", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    problem(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
}

fn bad(detail: String) -> Response {
    problem(StatusCode::BAD_REQUEST, detail)
}

/// Takes a body into the model: every fault has its field.
fn parse_override(new: &NewOverride, now: Timestamp) -> Result<Override, String> {
    let scope = new.scope.parse().map_err(|error| format!("scope: {error}"))?;
    let forced = new.force.parse().map_err(|error| format!("force: {error}"))?;
    if new.for_secs == 0 {
        return Err("forSecs: 0 would end at once; give 1 to 2592000 (30 days)".to_owned());
    }
    let expires = now.plus(Duration::from_secs(new.for_secs));
    Override::new(scope, forced, &new.reason, expires, now).map_err(|error| error.to_string())
}

/// What a browser is told of every answer; the page's files say themselves what they may do.
const GUARDS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Most octets of a request's body: an override with the longest reason is under 3 kB.
const BODY_MAX: usize = 16 << 10;
/// Longest time for one answer. A reload of a million names takes some seconds, and warms new targets up.
const REQUEST_MAX: Duration = Duration::from_secs(110);
