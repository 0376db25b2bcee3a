//! The page that people look at: files in the program itself, served as they are. What it shows it asks `/v1` for.
//!
//! Nothing is loaded from elsewhere and nothing is built: the files are what the browser gets. The headers let the page do
//! that much and no more, so that a name that somebody declared stays a text whatever is in it.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// One file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    body: &'static str,
}

/// The file of a path: the page at `/`, its files below `/page/`.
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let (file, tag) = FILES.iter().zip(TAGS.iter()).find(|(file, _)| file.path == path)?;
    Some(answer(file, tag, headers))
}

/// The file, or that the client has it already.
fn answer(file: &File, tag: &HeaderValue, asked: &HeaderMap) -> Response {
    let mut response = match is_known(asked, tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, HeaderValue::from_static(file.kind))], file.body).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag.clone());
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client names this tag in `If-None-Match`, by RFC 9110 section 13.1.2: compared weakly, `*` fits any.
fn is_known(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let lists = asked.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/").as_bytes() == tag.as_bytes())
}

/// A strong tag for each file: it changes with the file, and with nothing else.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let mut hasher = DefaultHasher::new();
        (file.kind, file.body).hash(&mut hasher);
        HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).expect("hexadecimal digits and quotes")
    };
    FILES.iter().map(tag).collect()
});

/// Headers of each file that differ from those of other responses.
const HEADERS: [(HeaderName, &str); 2] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
    ),
    // To be asked for each time, which costs 304 and no body where nothing changed.
    (header::CACHE_CONTROL, "no-cache"),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! file {
    ($path:literal, $kind:ident, $name:literal) => {
        File { path: $path, kind: $kind, body: include_str!(concat!("files/", $name)) }
    };
}

static FILES: &[File] = &[
    file!("/", HTML, "index.html"),
    file!("/page/api.css", STYLE, "api.css"),
    file!("/page/api.html", HTML, "api.html"),
    file!("/page/api.js", SCRIPT, "api.js"),
    file!("/page/app.css", STYLE, "app.css"),
    file!("/page/app.js", SCRIPT, "app.js"),
    file!("/page/ask.js", SCRIPT, "ask.js"),
    file!("/page/chart.js", SCRIPT, "chart.js"),
    file!("/page/clusters.js", SCRIPT, "clusters.js"),
    file!("/page/contributions.js", SCRIPT, "contributions.js"),
    file!("/page/dom.js", SCRIPT, "dom.js"),
    file!("/page/editor.js", SCRIPT, "editor.js"),
    file!("/page/explain.js", SCRIPT, "explain.js"),
    file!("/page/fields.js", SCRIPT, "fields.js"),
    file!("/page/flips.js", SCRIPT, "flips.js"),
    file!("/page/form.js", SCRIPT, "form.js"),
    file!("/page/icon.svg", IMAGE, "icon.svg"),
    file!("/page/intents.js", SCRIPT, "intents.js"),
    file!("/page/model.js", SCRIPT, "model.js"),
    file!("/page/override.js", SCRIPT, "override.js"),
    file!("/page/overview.js", SCRIPT, "overview.js"),
    file!("/page/publishing.js", SCRIPT, "publishing.js"),
    file!("/page/rows.js", SCRIPT, "rows.js"),
    file!("/page/server.js", SCRIPT, "server.js"),
    file!("/page/services.js", SCRIPT, "services.js"),
    file!("/page/side.js", SCRIPT, "side.js"),
    file!("/page/stream.js", SCRIPT, "stream.js"),
    file!("/page/token.js", SCRIPT, "token.js"),
    file!("/page/who.js", SCRIPT, "who.js"),
    file!("/page/worker.js", SCRIPT, "worker.js"),
];

#[cfg(test)]
mod tests;
