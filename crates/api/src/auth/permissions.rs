//! The permission of each request, from the table of routes.

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
};

use crate::{
    permission::Permission,
    route::{INTENT_KEYS, INTENT_PATHS, Route},
};
use fairway_access::{RequiredPermission, Verbs};
use fairway_intents::IntentPath;

/// Returns the permission that a request requires; none if everybody may make it. A request that matches no route requires every verb,
/// so that a mistake in the table closes a route instead of opening it.
pub(super) fn required_permission(routes: &[Route], request: &Request) -> Option<RequiredPermission> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    // The router answers HEAD where it answers GET.
    let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let permission = match request.extensions().get().map(MatchedPath::as_str) {
        Some(INTENT_PATHS | INTENT_KEYS) => {
            Some(Permission::of_intent(method, IntentPath::read(path).ok().map(|place| place.kind)))
        }
        Some(matched) => {
            routes.iter().find(|route| route.method == *method && route.path == matched).map(|route| route.permission)
        }
        None => None,
    };
    permission.unwrap_or(Permission::Server(Verbs::ALL)).of_request(path, query)
}

/// Returns true if a request must prove that no foreign page caused it: every write, and reads that have an effect elsewhere.
pub(super) fn asks_proof(routes: &[Route], request: &Request) -> bool {
    let matched = request.extensions().get().map(MatchedPath::as_str);
    let has_effect = |route: &Route| route.has_effect && Some(&*route.path) == matched;
    !matches!(*request.method(), Method::GET | Method::HEAD) || routes.iter().any(has_effect)
}

#[cfg(test)]
mod tests;
