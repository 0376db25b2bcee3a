//! `PUT /v1/latency/{table}`: a table of measured latencies, whole, in the form of its file.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    response::{IntoResponse, Response},
};

use super::{
    problem::{problem, refusal},
    routes::Site,
};

/// Takes it, or refuses it with nothing touched.
pub(super) async fn push_latency(
    State(site): State<Site>,
    Path(table): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; 64 MiB are the most", error.body_text())),
    };
    match site.control.push_latency(&table, body.into()).await {
        Ok(state) => Json(state).into_response(),
        Err(error) => refusal(&error),
    }
}

/// Most octets of a table: a million networks with four clusters are under 50 MB.
pub(super) const TABLE_MAX: usize = 64 << 20;
