//! A row of the table of routes: a method on a path, with its permission, bodies, summary and handler.
//!
//! Auth, axum's router, the OpenAPI document and the tables of the manual are derived from the rows, so that a new route is written in one
//! place.

use std::{borrow::Cow, convert::Infallible};

use axum::{
    Extension,
    extract::DefaultBodyLimit,
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{
    permission::Permission,
    state::{AppState, BodyLimit},
};
use fairway_access::Verbs;
use fairway_api_types::endpoints::Endpoint;

/// A method on a path.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Path in the router's syntax: names of parameters in braces.
    pub(crate) path: Cow<'static, str>,
    /// The `operationId` of OpenAPI: the name of the method in generated clients.
    pub(crate) id: Cow<'static, str>,
    pub(crate) tag: &'static str,
    pub(crate) summary: Cow<'static, str>,
    /// Description in Markdown; may be empty.
    pub(crate) description: &'static str,
    pub(crate) permission: Permission,
    /// Types whose fields are the parameters of the query.
    pub(crate) query: Vec<MakeSchema>,
    /// Fields of these types that have no effect on this route, and are not in its document.
    pub(crate) unused: &'static [&'static str],
    pub(crate) headers: Vec<&'static RequestHeader>,
    pub(crate) body: Option<Content>,
    pub(crate) body_limit: BodyLimit,
    pub(crate) responses: Vec<Response>,
    /// True if only the control socket serves it.
    pub(crate) is_local: bool,
    /// True if the method reads, but calls another server or holds one of few places, which a foreign page must not cause.
    pub(crate) has_effect: bool,
    /// None for paths of intents, which the wildcard routes [`INTENT_PATHS`] and [`INTENT_KEYS`] serve.
    handler: Option<MethodRouter<AppState>>,
}

/// Returns the schema of a type.
pub(crate) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// A header of a request.
#[derive(Debug)]
pub(crate) struct RequestHeader {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// Regular expression that the value matches; an empty one for any value.
    pub(crate) pattern: &'static str,
}

/// A body: its media type and its schema.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) media: &'static str,
    pub(crate) shape: Shape,
}

/// The schema of a body.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A type that the server writes: every field is present.
    Output(MakeSchema),
    /// A type that the server reads: fields with a default are optional.
    Input(MakeSchema),
    /// A component of the document.
    Component(String),
    /// A JSON array of components.
    Items(String),
    /// A list type, and the component of the elements of its `items`.
    List(MakeSchema, String),
    /// One of several.
    OneOf(Vec<Self>),
    /// Any JSON.
    Any,
    /// Text without a schema.
    Text,
}

/// The responses of a route with one status.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) description: Cow<'static, str>,
    /// Bodies that it may have, by media type.
    pub(crate) content: Vec<Content>,
    /// Names and descriptions of headers.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// Returns the schema of a type that the server writes.
    pub(crate) fn output<T: JsonSchema>() -> Self {
        Self::Output(|generator| generator.subschema_for::<T>())
    }

    /// Returns the schema of a type that the server reads.
    pub(crate) fn input<T: JsonSchema>() -> Self {
        Self::Input(|generator| generator.subschema_for::<T>())
    }

    /// Returns the schema of a type whose `items` are of a component.
    pub(crate) fn list<T: JsonSchema>(component: String) -> Self {
        Self::List(|generator| T::json_schema(generator), component)
    }

    /// Returns a JSON body of this schema.
    pub(crate) fn json(self) -> Content {
        Content { media: "application/json", shape: self }
    }
}

impl Content {
    /// Returns a text body.
    pub(crate) fn text(media: &'static str) -> Self {
        Self { media, shape: Shape::Text }
    }

    /// Returns the body of an error (RFC 9457).
    pub(crate) fn problem() -> Self {
        Self { media: "application/problem+json", shape: Shape::output::<fairway_api_types::problem_wire::Problem>() }
    }
}

impl Route {
    /// Returns a route that requires every verb until [`requires`](Self::requires) says otherwise.
    pub(crate) fn new(
        endpoint: Endpoint,
        id: impl Into<Cow<'static, str>>,
        summary: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            method: endpoint.method,
            path: endpoint.path,
            id: id.into(),
            tag: "server",
            summary: summary.into(),
            description: "",
            permission: Permission::Server(Verbs::ALL),
            query: vec![],
            unused: &[],
            headers: vec![],
            body: None,
            body_limit: BodyLimit(BODY_MAX),
            responses: vec![],
            is_local: false,
            has_effect: false,
            handler: None,
        }
    }

    /// Sets the tag that groups it in OpenAPI; `server` by default.
    pub(crate) fn tag(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    /// Adds a description, in Markdown.
    pub(crate) fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// Sets the permission that a caller needs.
    pub(crate) fn requires(self, permission: impl Into<Permission>) -> Self {
        Self { permission: permission.into(), ..self }
    }

    /// Adds the fields of a type as query parameters.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query.push(|generator| T::json_schema(generator));
        self
    }

    /// Leaves fields of the types of its query out of the document: they have no effect on this route.
    pub(crate) fn without(self, unused: &'static [&'static str]) -> Self {
        Self { unused, ..self }
    }

    /// Adds request headers.
    pub(crate) fn headers(mut self, headers: &[&'static RequestHeader]) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Sets the body of the request.
    pub(crate) fn body(self, body: Content) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Sets the largest body, in bytes; [`BODY_MAX`] by default.
    pub(crate) fn body_limit(self, body_limit: usize) -> Self {
        Self { body_limit: BodyLimit(body_limit), ..self }
    }

    /// Adds a response with a body.
    pub(crate) fn returns(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.response(status, description).content.push(content);
        self
    }

    /// Adds a response with an object and its ETag.
    pub(crate) fn returns_object(self, status: u16, description: &'static str, content: Content) -> Self {
        self.returns(status, description, content).returns_header(status, "ETag", REVISION)
    }

    /// Adds a response without a body.
    pub(crate) fn returns_empty(mut self, status: u16, description: &'static str) -> Self {
        self.response(status, description);
        self
    }

    /// Adds a header to the response of a status.
    pub(crate) fn returns_header(mut self, status: u16, name: &'static str, description: &'static str) -> Self {
        self.response(status, "").headers.push((name, description));
        self
    }

    /// Adds errors: statuses with their reasons.
    pub(crate) fn errors(mut self, errors: &[(u16, &'static str)]) -> Self {
        for (status, description) in errors {
            self.error(*status, *description);
        }
        self
    }

    /// Adds one error.
    pub(crate) fn error(&mut self, status: u16, description: impl Into<Cow<'static, str>>) {
        self.response(status, description).content.push(Content::problem());
    }

    /// Serves it on the control socket only.
    pub(crate) fn local(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// Asks for the proof of a write that no foreign page caused the request.
    pub(crate) fn has_effect(self) -> Self {
        Self { has_effect: true, ..self }
    }

    /// Sets the handler.
    pub(crate) fn handle<H: Handler<T, AppState>, T: 'static>(self, handler: H) -> Self {
        let method = MethodFilter::try_from(self.method.clone()).expect("routes have methods of HTTP");
        Self { handler: Some(on(method, handler)), ..self }
    }

    /// Returns the handler with the limit on bodies; none if a wildcard route serves it.
    pub(crate) fn handler(&self) -> Option<MethodRouter<AppState>> {
        self.handler.clone().map(|handler| limited(handler, self.body_limit))
    }

    /// Returns the response of a status; adds one if there is none.
    fn response(&mut self, status: u16, description: impl Into<Cow<'static, str>>) -> &mut Response {
        let at = self.responses.iter().position(|response| response.status == status).unwrap_or_else(|| {
            let description = description.into();
            self.responses.push(Response { status, description, content: vec![], headers: vec![] });
            self.responses.len() - 1
        });
        &mut self.responses[at]
    }
}

/// Limits bodies, and passes the limit to the extractor [`RequestBody`](crate::state::RequestBody) for its error.
pub(crate) fn limited(handler: MethodRouter<AppState>, limit: BodyLimit) -> MethodRouter<AppState> {
    handler.layer::<_, Infallible>(Extension(limit)).layer(DefaultBodyLimit::max(limit.0))
}

/// Largest body by default, in bytes: an override with the longest reason is under 3 kB.
const BODY_MAX: usize = 16 << 10;

/// Description of the header `ETag`.
pub(crate) const REVISION: &str = "Revision of the object.";

pub(crate) static IF_MATCH: RequestHeader = RequestHeader {
    name: "If-Match",
    description: "The ETag that the object must have, or `*` for any; else 412.",
    pattern: r#"^(\*|"[0-9]{1,19}")$"#,
};
pub(crate) static IDEMPOTENCY_KEY: RequestHeader = RequestHeader {
    name: "Idempotency-Key",
    description: "Identifies the request: sent again with the same key, it gets the first answer and changes nothing. A key is valid for \
                  one day and for the caller who sent it.",
    pattern: r#"^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$"#,
};
/// The header of writes.
pub(crate) static IF_NONE_MATCH: RequestHeader =
    RequestHeader { name: "If-None-Match", description: "`*`: the object must not exist; else 412.", pattern: r"^\*$" };
/// The header of reads.
pub(crate) static IF_NONE_MATCH_TAGS: RequestHeader = RequestHeader {
    name: "If-None-Match",
    description: "ETags that the client holds; the answer is 304 if one of them is current.",
    // Proxies send weak ETags, which match nothing.
    pattern: "",
};
pub(crate) static LAST_EVENT_ID: RequestHeader = RequestHeader {
    name: "Last-Event-ID",
    description: "Id of the last event that the client has seen; the stream continues after it.",
    // It is read with `watch` only.
    pattern: "",
};

/// Paths of ONAP and EMCO. They have more spellings than the router can distinguish, so one handler parses them; each has a row in the
/// table nevertheless.
pub(crate) const INTENT_PATHS: &str = "/v2/{*path}";
/// Paths of intents by their keys; parsed by the same handler.
pub(crate) const INTENT_KEYS: &str = "/v1/intents/{*key}";
