//! The OpenAPI document (3.1.1), generated from the table of routes.
//!
//! Descriptions and schemas have one source each: doc comments of the types in api-types (by schemars), the configuration's schema for
//! declared objects, and the tables of fields of the crate `intents`.

mod schemas;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use axum::body::Bytes;
use serde_json::{Map, Value, json};

use self::schemas::Schemas;
use crate::route::{Content, Response, Route, Shape};
use fairway_intents::NAME;

/// The document of a listener's routes; made at the first request.
pub(crate) struct Document {
    routes: Vec<Route>,
    text: OnceLock<Bytes>,
}

impl Document {
    /// Returns the document of these routes.
    pub(crate) fn of(routes: Vec<Route>) -> Self {
        Self { routes, text: OnceLock::new() }
    }

    /// Returns the document as JSON.
    pub(crate) fn text(&self) -> Bytes {
        self.text.get_or_init(|| document(&self.routes).to_string().into()).clone()
    }
}

fn document(routes: &[Route]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path.to_string()).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut schemas);
    }
    let mut tags: Vec<&str> = routes.iter().map(|route| route.tag).collect();
    tags.sort_unstable();
    tags.dedup();
    let paths = Value::Object(paths);
    let components = schemas.components(&paths);
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Fairway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Authoritative DNS that balances load over clusters. Errors are problem details (RFC 9457). Responses may gain \
                            fields: ignore those that you do not know.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token of the configuration, or a JSON Web Token."},
                "certificate": {"type": "mutualTLS", "description": "A certificate of an authority of `tls.clientCa`."},
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    for of in with_errors_of_all(route) {
        responses.insert(of.status.to_string(), response(&of, schemas));
    }
    let mut made = json!({
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "description": description(route),
        "parameters": parameters(route, schemas),
        "responses": responses,
        "security": match route.permission.verbs() {
            // A configuration without `access` asks nobody for credentials.
            Some(_) => json!([{}, {"token": []}, {"certificate": []}]),
            None => json!([]),
        },
    });
    if let Some(body) = &route.body {
        made["requestBody"] = json!({"required": true, "content": {body.media: {"schema": schemas.of(&body.shape)}}});
    }
    made
}

fn description(route: &Route) -> String {
    let permission = match route.permission.verbs() {
        Some(verbs) => format!("Requires: {verbs}."),
        None => "Open to all.".to_owned(),
    };
    [route.description, &permission].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the responses of a route, with the errors of extractors and of the auth middleware.
fn with_errors_of_all(route: &Route) -> Vec<Response> {
    let mut route = route.clone();
    let has = |route: &Route, status: u16| route.responses.iter().any(|response| response.status == status);
    if !route.query.is_empty() && !has(&route, 400) {
        route.error(400, "A parameter is invalid.");
    }
    if route.body.is_some() && !has(&route, 413) {
        let limit = route.body_limit;
        route.error(413, format!("The body is larger than {limit}."));
    }
    if route.permission.verbs().is_some() {
        route = route.errors(AUTH_ERRORS);
        route = route.returns_header(401, "WWW-Authenticate", "`Bearer`, and the reason why a token was rejected.");
        route = route.returns_header(429, "Retry-After", "Seconds to wait.");
        if route.body.is_some() {
            route.error(415, "The body is of a type that an HTML form could send.");
        }
    }
    route.error(503, "The server is starting, stopping, or cannot write. Try again.");
    route.responses.sort_by_key(|response| response.status);
    // A status with two reasons has one problem body.
    for response in &mut route.responses {
        let mut known = Vec::new();
        response.content.retain(|content| {
            let is_new = !known.contains(&content.media) || content.media != Content::problem().media;
            known.push(content.media);
            is_new
        });
    }
    route.responses
}

fn response(of: &Response, schemas: &mut Schemas) -> Value {
    let mut made = json!({"description": of.description});
    for content in &of.content {
        made["content"][content.media] = match content.shape {
            // OpenAPI 3.1 cannot describe a stream of events.
            Shape::Text if content.media == "text/event-stream" => json!({}),
            ref shape => json!({"schema": schemas.of(shape)}),
        };
    }
    for (name, what) in &of.headers {
        made["headers"][*name] = json!({"description": what, "schema": {"type": "string"}});
    }
    made
}

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let steps = route.path.split('/').filter_map(|step| step.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = steps
        .map(|name| {
            let (description, pattern) = step(name);
            let schema = json!({"type": "string", "minLength": 1, "pattern": pattern});
            json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
        })
        .collect();
    for query in &route.query {
        let all_fields = schemas.parameters(*query).into_iter();
        for (name, mut schema, required) in all_fields.filter(|(name, ..)| !route.unused.contains(&name.as_str())) {
            let what = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let what = what.as_ref().and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
            all.push(json!({"name": name, "in": "query", "required": required, "description": what, "schema": schema}));
        }
    }
    for header in &route.headers {
        let schema = json!({"type": "string", "pattern": header.pattern});
        all.push(json!({"name": header.name, "in": "header", "required": false, "description": header.description, "schema": schema}));
    }
    all
}

/// Returns the description and the pattern of a parameter in a path.
fn step(name: &str) -> (String, &'static str) {
    match name {
        "name" => ("Name of the object.".to_owned(), r"^[^/]{1,255}$"),
        "id" => ("Id of the override, as in `/v1/state`.".to_owned(), r"^[^/]{1,64}$"),
        "cluster" => ("Name of the cluster.".to_owned(), r"^[^/]{1,128}$"),
        "table" => ("Name of the table.".to_owned(), r"^[^/]{1,128}$"),
        "file" => ("File of the page.".to_owned(), r"^[a-z]+\.[a-z]+$"),
        other => {
            let words: String = other
                .chars()
                .map(|c| if c.is_uppercase() { format!(" {}", c.to_lowercase()) } else { c.into() })
                .collect();
            (format!("Name of the {words}."), NAME)
        }
    }
}

/// Errors of the auth middleware.
const AUTH_ERRORS: &[(u16, &str)] = &[
    (401, "No credentials, or a token that is not accepted."),
    (403, "The caller lacks a verb, or the request comes from a web page of another origin."),
    (421, "`Host` is not a name of this server."),
    (429, "Too many requests."),
];
