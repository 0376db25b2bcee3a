//! Errors over HTTP: `application/problem+json` (RFC 9457), each with a way out. The one mechanism of all routes.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

pub(crate) use fairway_api_types::problem_wire::{Flaw, Problem};

/// An error as an answer.
pub(crate) fn problem(status: StatusCode, detail: impl Into<String>) -> Response {
    detailed(status, detail.into(), vec![])
}

/// An error with everything that is wrong, each in its place; the detail names the first of it.
pub(crate) fn flawed(status: StatusCode, what: &str, errors: Vec<Flaw>) -> Response {
    let place = |flaw: &Flaw| {
        if flaw.pointer.is_empty() { flaw.detail.clone() } else { format!("{}: {}", flaw.pointer, flaw.detail) }
    };
    let first: Vec<String> = errors.iter().take(FLAWS_TOLD).map(place).collect();
    let more = errors.len().saturating_sub(FLAWS_TOLD);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    detailed(status, format!("{what}: {}{more}", first.join("; ")), errors)
}

/// An error with everything that is wrong, each in its place, and a detail of its own.
pub(crate) fn detailed(status: StatusCode, detail: String, errors: Vec<Flaw>) -> Response {
    let title = status.canonical_reason().unwrap_or_default().to_owned();
    let body = Problem { title, status: status.as_u16(), detail, errors };
    let text = serde_json::to_vec(&body).expect("texts and numbers have a JSON form");
    (status, [(header::CONTENT_TYPE, "application/problem+json")], text).into_response()
}

/// Flaws that the detail names; `errors` has all.
const FLAWS_TOLD: usize = 10;
