//! The OpenAPI document (3.1.1) of the routes, made of the table that the router is made of.
//!
//! Texts and schemas have one source each: the comments of the types that go over the wire (by schemars, as the configuration's
//! schema), the configuration's schema for declared objects, the tables of fields for intents. What the gate asks of every request
//! follows from `access::need`.

mod intents;
mod operation;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use axum::{body::Bytes, http::Method};
use serde_json::{Map, Value, json};

pub(super) use self::{
    intents::{WRITES as INTENT_WRITES, history_of_intent, of_intents},
    operation::{Content, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, KNOWN, LAST_EVENT_ID, Operation, Shape},
    schemas::element,
};
use self::{
    operation::{Answer, problem},
    schemas::Schemas,
};
use fairway_access::Need;

use super::need::need;

/// The document of a listener's routes, made when it is first asked for.
pub(super) struct Document {
    operations: Vec<Operation>,
    text: OnceLock<Bytes>,
}

impl Document {
    /// That of these operations.
    pub(super) fn of(operations: Vec<Operation>) -> Self {
        Self { operations, text: OnceLock::new() }
    }

    /// The document as JSON.
    pub(super) fn text(&self) -> Bytes {
        self.text.get_or_init(|| document(&self.operations).to_string().into()).clone()
    }
}

/// The document of these operations.
fn document(operations: &[Operation]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path.to_string()).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = of(operation, &mut schemas);
    }
    let mut tags: Vec<&str> = operations.iter().map(|of| of.tag).collect();
    tags.sort_unstable();
    tags.dedup();
    let paths = Value::Object(paths);
    let components = schemas.components(&paths);
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Fairway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "DNS that balances load over clusters. Errors are problems (RFC 9457). Fields of answers are only ever \
                            added: leave alone what you do not know.",
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

fn of(operation: &Operation, schemas: &mut Schemas) -> Value {
    let need = need(operation.method.as_str(), &operation.path, "");
    let mut responses: Map<String, Value> = Map::new();
    for answer in gated(operation, need.as_ref()) {
        responses.insert(answer.status.to_string(), response(&answer, schemas));
    }
    let mut made = json!({
        "operationId": id(&operation.method, &operation.path),
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": described(operation, need.as_ref()),
        "parameters": parameters(operation, schemas),
        "responses": responses,
        "security": match need {
            // Nobody need show who he is where the configuration has no `access`.
            Some(_) => json!([{}, {"token": []}, {"certificate": []}]),
            None => json!([]),
        },
    });
    if let Some(body) = &operation.body {
        made["requestBody"] = json!({"required": true, "content": {body.media: {"schema": schemas.of(&body.shape)}}});
    }
    made
}

fn described(operation: &Operation, need: Option<&Need>) -> String {
    let verbs = match need {
        Some(need) => format!("Takes: {}.", need.verbs),
        None => "Open to all.".to_owned(),
    };
    [operation.about, &verbs].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The answers of an operation and of the gate before it.
fn gated(operation: &Operation, need: Option<&Need>) -> Vec<Answer> {
    let mut operation = operation.clone();
    if need.is_some() {
        operation = operation.refuses(GATE);
        operation = operation.with(401, "WWW-Authenticate", "`Bearer`, and why a token was not believed.");
        operation = operation.with(429, "Retry-After", "Seconds to wait.");
        if operation.body.is_some() {
            operation = operation.refuses(&[(415, "The body is of a type that a form could send.")]);
        }
    }
    operation = operation.refuses(&[(503, "Not now: it starts, stops, or cannot be written. Try again.")]);
    operation.answers.sort_by_key(|answer| answer.status);
    // Two reasons for one status are one problem.
    for answer in &mut operation.answers {
        let mut known = Vec::new();
        answer.content.retain(|content| {
            let is_new = !known.contains(&content.media) || content.media != problem().media;
            known.push(content.media);
            is_new
        });
    }
    operation.answers
}

fn response(answer: &Answer, schemas: &mut Schemas) -> Value {
    let mut made = json!({"description": answer.what});
    for content in &answer.content {
        made["content"][content.media] = match content.shape {
            // Of a stream of events no schema says what it is.
            Shape::Text if content.media == "text/event-stream" => json!({}),
            ref shape => json!({"schema": schemas.of(shape)}),
        };
    }
    for (name, what) in &answer.headers {
        made["headers"][*name] = json!({"description": what, "schema": {"type": "string"}});
    }
    made
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let steps = operation.path.split('/').filter_map(|step| step.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = steps
        .map(|name| {
            let (what, pattern) = step(name);
            let schema = json!({"type": "string", "minLength": 1, "pattern": pattern});
            json!({"name": name, "in": "path", "required": true, "description": what, "schema": schema})
        })
        .collect();
    for query in &operation.query {
        for (name, mut schema, required) in schemas.parameters(*query) {
            let what = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let what = what.as_ref().and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
            all.push(json!({"name": name, "in": "query", "required": required, "description": what, "schema": schema}));
        }
    }
    for header in &operation.headers {
        let schema = json!({"type": "string", "pattern": header.pattern});
        all.push(json!({"name": header.name, "in": "header", "required": false, "description": header.what, "schema": schema}));
    }
    all
}

/// What a name in a path is, and what it looks like.
fn step(name: &str) -> (String, &'static str) {
    match name {
        "name" => ("The object's name.".to_owned(), r"^[^/]{1,255}$"),
        "id" => ("The override's id, as `/v1/state` has it.".to_owned(), r"^[^/]{1,64}$"),
        "cluster" => ("A cluster's name.".to_owned(), r"^[^/]{1,128}$"),
        "table" => ("A table's name.".to_owned(), r"^[^/]{1,128}$"),
        "file" => ("A file of the page.".to_owned(), r"^[a-z]+\.[a-z]+$"),
        other => {
            let words: String = other
                .chars()
                .map(|c| if c.is_uppercase() { format!(" {}", c.to_lowercase()) } else { c.into() })
                .collect();
            (format!("Name of the {words}."), intents::NAME)
        }
    }
}

/// `getV1PoolsName` of `GET /v1/pools/{name}`.
fn id(method: &Method, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut id = method.as_str().to_ascii_lowercase();
    for word in words {
        id.push_str(&word[..1].to_ascii_uppercase());
        id.push_str(&word[1..]);
    }
    id
}

/// Refusals of the gate.
const GATE: &[(u16, &str)] = &[
    (401, "Nobody was shown, or a token that is not believed."),
    (403, "A verb is missing, or the request comes from a web page of another origin."),
    (421, "`Host` is no name of this server."),
    (429, "Too many requests."),
];
