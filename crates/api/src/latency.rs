//! `PUT /v1/latency/{table}`: a table of measured latencies, whole, in the form of its file.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    response::{IntoResponse, Response},
};

use super::{
    problem::{problem, refusal},
    route::{Content, Route, Shape},
    routes::Site,
};
use fairway_access::Verb;
use fairway_api_types::endpoints::PUSH_LATENCY;
use fairway_api_types::latency_wire::LatencyState;

/// The routes of pushed latency tables.
pub(super) fn routes() -> Vec<Route> {
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
    ]
}

async fn push(State(site): State<Site>, Path(table): Path<String>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; the limit is 64 MiB", error.body_text())),
    };
    match site.control.push_latency(&table, body.into()).await {
        Ok(state) => Json(state).into_response(),
        Err(error) => refusal(&error),
    }
}

/// Largest table, in bytes: a million networks with four clusters are under 50 MB.
const TABLE_MAX: usize = 64 << 20;
