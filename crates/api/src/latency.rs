//! `PUT` and `GET /v1/latency/{table}`: tables of measured latencies.

use axum::{
    Json,
    extract::{Path, State},
    http::header,
    response::{IntoResponse, Response},
};

use crate::{
    problem::ApiError,
    route::{Content, Route, Shape},
    state::{AppState, RequestBody},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{Endpoint, PUSH_LATENCY};
use fairway_api_types::latency_wire::LatencyState;
use fairway_control::PushedTable;

/// The routes of pushed latency tables.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(PUSH_LATENCY, "replaceLatencyTable", "Replace a table of measured latencies")
            .description("The body is the whole table in CSV. Returns once the table is on disk and in force; it survives restarts.")
            .requires(Verb::Report)
            .body(Content::text("text/csv"))
            .body_limit(TABLE_MAX)
            .returns(200, "The table is on disk and in force.", Shape::output::<LatencyState>().json())
            .errors(&[
                (400, "The table is invalid."),
                (404, "There is no such table."),
                (409, "The table is read from a file, or does not fit the configuration."),
            ])
            .handle(push),
        Route::new(Endpoint::get("/v1/latency/{table}"), "getLatencyTable", "Get a table of measured latencies")
            .description("As it was sent.")
            .requires(Verb::Observe)
            .returns(200, "The table in CSV.", Content::text("text/csv"))
            .errors(&[
                (404, "There is no such table, or none was sent."),
                (409, "The table is read from a file."),
            ])
            .handle(get),
    ]
}

async fn get(State(state): State<AppState>, Path(table): Path<String>) -> Result<Response, ApiError> {
    let text = state.control.pushed_latency(&table).await?;
    Ok(([(header::CONTENT_TYPE, "text/csv")], text).into_response())
}

async fn push(
    State(state): State<AppState>,
    Path(table): Path<String>,
    RequestBody(body): RequestBody,
) -> Result<Json<LatencyState>, ApiError> {
    let PushedTable { name, networks, clusters, configuration } =
        state.control.push_latency(&table, body.into()).await?;
    Ok(Json(LatencyState { table: name.to_string(), networks, clusters, configuration }))
}

/// Largest table, in bytes: a million networks with four clusters are under 50 MB.
const TABLE_MAX: usize = 64 << 20;
