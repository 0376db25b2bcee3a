//! The server itself: liveness, readiness, state, explanations, metrics, reload, stop.

use std::sync::Arc;

use axum::{
    Extension, Json, extract,
    handler::Handler,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use fairway_model::{ClusterName, Name, Network, PoolName, Rtype};

use crate::{
    explain::{TargetNote, explanation, show_pins, show_plans, show_weights},
    health::{METRICS_TYPE, compression, live, ready},
    history::explain_past,
    openapi::Document,
    permission::Permission,
    problem::{ApiError, bad_request, problem},
    render::{self, reload_report},
    route::{Content, Route, Shape},
    state::{AppState, Operates, Parameters},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{EXPLAIN, Endpoint, METRICS, RELOAD, STATE, STOP, VERSION};
use fairway_api_types::explain_wire::Explanation;
use fairway_api_types::state_wire::{ExplainParameters, ReloadParameters, ReloadReport, State, Version};

/// The routes of the server itself.
pub(crate) fn routes() -> Vec<Route> {
    [probe_routes(), state_routes()].into_iter().flatten().collect()
}

/// The routes of probes, with the same paths as Kubernetes uses.
fn probe_routes() -> Vec<Route> {
    let text = || Content::text("text/plain");
    vec![
        Route::new(Endpoint::get("/healthz"), "getHealth", "Liveness probe")
            .description("503: the control task has ended; restart the process.")
            .requires(Permission::Open)
            .returns(200, "The process answers and its control task runs.", text())
            .handle(healthz),
        Route::new(Endpoint::get("/livez"), "getLiveness", "Liveness probe, under its name in Kubernetes")
            .description("The same as /healthz.")
            .requires(Permission::Open)
            .returns(200, "The process answers and its control task runs.", text())
            .handle(healthz),
        Route::new(Endpoint::get("/readyz"), "getReadiness", "Readiness probe")
            .description("200 once the first round of probes is complete and DNS is served; 503 before that and while the server stops.")
            .requires(Permission::Open)
            .returns(200, "DNS is served.", text())
            .handle(readyz),
    ]
}

fn state_routes() -> Vec<Route> {
    let text = || Content::text("text/plain");
    vec![
        Route::new(Endpoint::get("/openapi.json"), "getOpenApi", "Get the OpenAPI document")
            .description("OpenAPI 3.1, with the routes of the listener that serves the request.")
            .requires(Permission::Open)
            .returns(200, "The document.", Shape::Any.json())
            .handle(openapi),
        Route::new(VERSION, "getVersion", "Get the version of the server")
            .requires(Verb::Observe)
            .returns(200, "Version and process id.", Shape::output::<Version>().json())
            .handle(version),
        Route::new(METRICS, "getMetrics", "Get the metrics for Prometheus")
            .requires(Verb::Observe)
            .returns(200, "Text format 0.0.4; compressed if the request accepts gzip.", text())
            .errors(&[(500, "The metrics cannot be encoded; please report it.")])
            .handle(metrics.layer(compression())),
        Route::new(STATE, "getState", "Get the state of the server")
            .description(
                "Configuration and last reload, listeners, zones, clusters with their load, pools with members and reasons, targets \
                 with history, overrides.",
            )
            .requires(Verb::Observe)
            .returns(200, "What is configured, measured and answered.", Shape::output::<State>().json())
            .handle(state),
        Route::new(EXPLAIN, "explainAnswer", "Explain the answer that a client gets")
            .description(
                "Every step of the answer: names looked up, each member with the reason why it is in or out, the answer, and every term \
                 of the formulas.",
            )
            .requires(Verb::Observe)
            .query::<ExplainParameters>()
            .returns(200, "Every step and every term.", Shape::output::<Explanation>().json())
            .errors(&[
                (400, "The name, the type, the client or the time is missing or invalid."),
                (404, "The change log does not reach that time."),
                (409, "The state of that time cannot be compiled."),
            ])
            .handle(explain),
        Route::new(RELOAD, "reload", "Reload the configuration")
            .description(
                "Waits for the result. A rejected configuration is also 200, with `accepted: false` and `errors`; if many names would go, \
                 with `removalsRefused: true`.",
            )
            .requires(Verb::Operate)
            .query::<ReloadParameters>()
            .returns(200, "The result.", Shape::output::<ReloadReport>().json())
            .handle(reload),
        Route::new(STOP, "stop", "Stop the server")
            .description("On the control socket only.")
            .returns_empty(202, "Draining has begun.")
            .local()
            .handle(stop),
    ]
}

async fn healthz(extract::State(state): extract::State<AppState>) -> Result<String, ApiError> {
    probed(live(&state.control))
}

async fn readyz(extract::State(state): extract::State<AppState>) -> Result<String, ApiError> {
    probed(ready(&state.control))
}

fn probed(state: Result<&'static str, &'static str>) -> Result<String, ApiError> {
    state.map(|text| format!("{text}\n")).map_err(|why| problem(StatusCode::SERVICE_UNAVAILABLE, why))
}

async fn openapi(Extension(document): Extension<Arc<Document>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.text()).into_response()
}

async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() })
}

async fn metrics(extract::State(state): extract::State<AppState>) -> Result<Response, ApiError> {
    let text = state.metrics.gather(&state.control).await;
    let text = text.map_err(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}

async fn state(operates: Operates, extract::State(state): extract::State<AppState>) -> Result<Json<State>, ApiError> {
    Ok(Json(render::state_for(operates, &state.control).await?))
}

async fn explain(
    operates: Operates,
    extract::State(state): extract::State<AppState>,
    Parameters(query): Parameters<ExplainParameters>,
) -> Result<Json<Explanation>, ApiError> {
    let name: Name = query.name.parse().map_err(|error| bad_request(format!("name: {error}")))?;
    let rtype: Rtype =
        query.rtype.as_deref().unwrap_or("A").parse().map_err(|error| bad_request(format!("type: {error}")))?;
    let client = query.client.as_deref().map(str::parse::<Network>).transpose();
    let client = client.map_err(|error| bad_request(format!("client: {error}")))?;
    if let Some(at) = &query.at {
        return Ok(Json(explain_past(&state.control, (name, rtype, client), at).await?));
    }
    let now = state.control.explain(&name, rtype, client).await?;
    let note = |pool: &PoolName, cluster: &ClusterName, target| TargetNote {
        not_allowed: now.not_allowed(target).map(str::to_owned),
        probe: now.target(target).and_then(|target| render::probe_state(now.desired(), pool, cluster, target)),
        cause: now.cause(target).map(|cause| render::cause(operates, cause)),
    };
    let mut explanation = explanation(&now.explained, true, &note);
    show_pins(&mut explanation, |pool| now.pinned(pool));
    show_weights(&mut explanation, now.configured());
    show_plans(&mut explanation, &now.explained, |pool| now.plan(pool));
    Ok(Json(explanation))
}

async fn reload(
    extract::State(state): extract::State<AppState>,
    Parameters(query): Parameters<ReloadParameters>,
) -> Result<Json<ReloadReport>, ApiError> {
    let control = &state.control;
    let outcome = if query.allow_removals { control.reload_with_removals().await } else { control.reload().await };
    Ok(Json(reload_report(&outcome?)))
}

async fn stop(extract::State(state): extract::State<AppState>) -> StatusCode {
    state.control.stop();
    StatusCode::ACCEPTED
}
