//! The listener for health probes: plain HTTP for everybody who may connect, so its responses have no names.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};

use tower_http::{CompressionLevel, compression::CompressionLayer};

use crate::{
    metrics::{Metrics, timed},
    problem::{no_such_route, problem},
    routes::guard,
};
use fairway_access::{ForeignRequest, check_origin};
use fairway_control::{Control, Readiness};
use fairway_transport::ComputeGuard;

/// Returns the router; it serves the metrics if `has_metrics` is true. `is_loopback` is true if the listener is on a loopback address.
pub(crate) fn router(control: &Control, metrics: &Arc<Metrics>, has_metrics: bool, is_loopback: bool) -> Router {
    let (for_live, for_ready, for_metrics) = (control.clone(), control.clone(), control.clone());
    let live = move || async move { answer(live(&for_live)) };
    let mut router = Router::new()
        .route("/healthz", get(live.clone()))
        .route("/livez", get(live))
        .route("/readyz", get(move || async move { answer(ready(&for_ready)) }));
    if has_metrics {
        let metrics = Arc::clone(metrics);
        let metrics = move |headers: HeaderMap| async move {
            match is_loopback.then(|| check_host(&for_metrics, &headers)) {
                Some(Err(foreign)) => problem(StatusCode::MISDIRECTED_REQUEST, foreign.to_string()).into_response(),
                _ => gather(&metrics, &for_metrics).await,
            }
        };
        router = router.route("/metrics", get(metrics).layer(compression()));
    }
    router
        .fallback(async |uri: axum::http::Uri| no_such_route(uri.path()))
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn_with_state(Arc::clone(metrics), timed))
}

/// Returns the text of a liveness probe, or the reason why the process has to be restarted.
pub(crate) fn live(control: &Control) -> Result<&'static str, &'static str> {
    match control.is_running() {
        true => Ok("ok"),
        false => Err("the control task has ended; restart fairway"),
    }
}

/// Returns the text of a readiness probe, or the reason why DNS is not served.
pub(crate) fn ready(control: &Control) -> Result<&'static str, &'static str> {
    match control.readiness() {
        Readiness::Ready => Ok("ready"),
        waiting => Err(waiting.reason()),
    }
}

/// Checks `Host` as the API does without TLS. Otherwise a web page could read the metrics through a browser on this machine, from a host
/// name of the page that points to loopback (DNS rebinding).
fn check_host(control: &Control, headers: &HeaderMap) -> Result<(), ForeignRequest> {
    let published = control.shared().serving.published();
    check_origin(false, headers, Some(&published.configured.settings.access.hosts))
}

fn answer(state: Result<&'static str, &'static str>) -> Response {
    match state {
        Ok(text) => format!("{text}\n").into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn gather(metrics: &Metrics, control: &Control) -> Response {
    // Metrics of many pools take computing time that DNS must not wait for.
    let _computing = ComputeGuard::begin();
    match metrics.gather(control).await {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Returns the layer that compresses metrics for clients that accept gzip, as Prometheus does. Other responses stay as they are: the
/// length of a compressed one shows what it has in common with what its reader chose (BREACH).
pub(crate) fn compression() -> CompressionLayer {
    CompressionLayer::new().quality(CompressionLevel::Fastest)
}

/// Media type of metrics.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
