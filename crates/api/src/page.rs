//! The page for browsers: serves its files.

mod embedded;

use axum::{
    http::{HeaderMap, Uri},
    response::Response,
};

use crate::{
    permission::Permission,
    problem::{ApiError, no_such_route},
    route::{Content, Route},
};
use fairway_api_types::endpoints::Endpoint;

/// The routes of the page.
pub(crate) fn routes() -> Vec<Route> {
    let route = |path, id, summary| {
        Route::new(Endpoint::get(path), id, summary)
            .tag("page")
            .requires(Permission::Open)
            .returns(200, "The file.", Content::text("*/*"))
            .returns_empty(304, "The browser has the current file.")
            .returns_header(200, "ETag", "Changes with the file.")
            .handle(file)
    };
    vec![
        route("/", "getPage", "Get the page for browsers"),
        route("/page/{file}", "getPageFile", "Get a file of the page").errors(&[(404, "There is no such file.")]),
    ]
}

async fn file(uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    embedded::file(uri.path(), &headers).ok_or_else(|| no_such_route(uri.path()))
}
