//! The table of routes: what is answered and what is said of it are put in together, so that the OpenAPI document has each route
//! of the router and no other.

use axum::{
    Router,
    extract::DefaultBodyLimit,
    handler::Handler,
    routing::{MethodFilter, on},
};

use super::{openapi::Operation, routes::Site};

/// Routes, and what is said of them.
#[derive(Clone)]
pub(super) struct Table {
    router: Router<Site>,
    operations: Vec<Operation>,
}

impl Table {
    /// No route yet.
    pub(super) fn new() -> Self {
        Self { router: Router::new(), operations: vec![] }
    }

    /// One more operation, and who carries it out.
    pub(super) fn on<H: Handler<T, Site>, T: 'static>(mut self, operation: Operation, handler: H) -> Self {
        let method = MethodFilter::try_from(operation.method().clone()).expect("operations have methods of HTTP");
        self.router = self.router.route(operation.path(), on(method, handler));
        self.operations.push(operation);
        self
    }

    /// Routes that find their way themselves, and what is said of them.
    pub(super) fn within(mut self, router: Router<Site>, operations: Vec<Operation>) -> Self {
        self.router = self.router.merge(router);
        self.operations.extend(operations);
        self
    }

    /// The routes of another table, whose bodies have at most so many octets.
    pub(super) fn bounded(self, other: Self, octets: usize) -> Self {
        self.within(other.router.layer(DefaultBodyLimit::max(octets)), other.operations)
    }

    /// The router, and what is said of its routes.
    pub(super) fn into_parts(self) -> (Router<Site>, Vec<Operation>) {
        (self.router, self.operations)
    }
}
