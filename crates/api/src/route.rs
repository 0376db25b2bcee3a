//! One route: a method on a path, with everything that is known of it.
//!
//! A row of the table of routes is one of these. Auth, axum's router, the OpenAPI document and the tables of the manual are made of
//! the rows, so that a new route is written in one place.

use std::borrow::Cow;

use axum::{
    extract::DefaultBodyLimit,
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{permission::Permission, routes::Site};
use fairway_access::Verbs;
use fairway_api_types::endpoints::Endpoint;

/// A method on a path.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// As the router has it: names of parameters in braces.
    pub(super) path: Cow<'static, str>,
    /// The `operationId`: the name of the method in generated clients.
    pub(super) id: Cow<'static, str>,
    pub(super) tag: &'static str,
    pub(super) summary: Cow<'static, str>,
    /// More about it, in Markdown; may be empty.
    pub(super) description: &'static str,
    pub(super) permission: Permission,
    /// Types of the query.
    pub(super) query: Vec<MakeSchema>,
    pub(super) headers: Vec<&'static RequestHeader>,
    pub(super) body: Option<Content>,
    /// Largest body, in bytes.
    pub(super) body_limit: usize,
    pub(super) responses: Vec<Response>,
    /// True if the control socket alone has it.
    pub(super) is_local: bool,
    /// None for the paths of intents, which the wildcard routes of `routes` answer.
    handler: Option<MethodRouter<Site>>,
}

/// Makes the schema of a type.
pub(super) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// A header of a request.
#[derive(Debug)]
pub(super) struct RequestHeader {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Regular expression that the value matches.
    pub(super) pattern: &'static str,
}

/// A body: its media type and its schema.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) media: &'static str,
    pub(super) shape: Shape,
}

/// The schema of a body.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A type that the server writes: every field is there.
    Output(MakeSchema),
    /// A type that the server reads: fields with a default may be left out.
    Input(MakeSchema),
    /// A component of the document.
    Component(String),
    /// A JSON array of components.
    Items(String),
    /// A list type, and the component of its `items`.
    List(MakeSchema, String),
    /// One of several.
    OneOf(Vec<Self>),
    /// Any JSON.
    Any,
    /// Text without a schema.
    Text,
}

/// One response: a status, with all bodies that it may have.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) description: Cow<'static, str>,
    pub(super) content: Vec<Content>,
    /// Names and descriptions of headers.
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// A type that the server writes.
    pub(super) fn output<T: JsonSchema>() -> Self {
        Self::Output(|generator| generator.subschema_for::<T>())
    }

    /// A type that the server reads.
    pub(super) fn input<T: JsonSchema>() -> Self {
        Self::Input(|generator| generator.subschema_for::<T>())
    }

    /// A type that lists components in `items`.
    pub(super) fn list<T: JsonSchema>(of: String) -> Self {
        Self::List(|generator| T::json_schema(generator), of)
    }

    /// As a JSON body.
    pub(super) fn json(self) -> Content {
        Content { media: "application/json", shape: self }
    }
}

impl Content {
    /// Text of a media type.
    pub(super) fn text(media: &'static str) -> Self {
        Self { media, shape: Shape::Text }
    }

    /// An error (RFC 9457).
    pub(super) fn problem() -> Self {
        Self { media: "application/problem+json", shape: Shape::output::<fairway_api_types::problem_wire::Problem>() }
    }
}

impl Route {
    /// A route that requires every verb until [`requires`](Self::requires) says otherwise.
    pub(super) fn new(
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
            headers: vec![],
            body: None,
            body_limit: BODY_MAX,
            responses: vec![],
            is_local: false,
            handler: None,
        }
    }

    /// Groups it with the routes of this tag.
    pub(super) fn tag(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    /// Adds a description, in Markdown.
    pub(super) fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// Sets the permission that a caller needs.
    pub(super) fn requires(self, permission: impl Into<Permission>) -> Self {
        Self { permission: permission.into(), ..self }
    }

    /// Adds query parameters: the fields of a type.
    pub(super) fn query<T: JsonSchema>(mut self) -> Self {
        self.query.push(|generator| T::json_schema(generator));
        self
    }

    /// Adds request headers.
    pub(super) fn headers(mut self, headers: &[&'static RequestHeader]) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Sets the body of the request.
    pub(super) fn body(self, body: Content) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Sets the largest body, in bytes; [`BODY_MAX`] by default.
    pub(super) fn body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    /// Adds a response with a body.
    pub(super) fn returns(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.response(status, description).content.push(content);
        self
    }

    /// Adds a response without a body.
    pub(super) fn returns_empty(mut self, status: u16, description: &'static str) -> Self {
        self.response(status, description);
        self
    }

    /// Adds a header to the response of a status.
    pub(super) fn returns_header(mut self, status: u16, name: &'static str, description: &'static str) -> Self {
        self.response(status, "").headers.push((name, description));
        self
    }

    /// Adds errors: statuses, each with its reason.
    pub(super) fn errors(mut self, errors: &[(u16, &'static str)]) -> Self {
        for (status, description) in errors {
            self.error(*status, *description);
        }
        self
    }

    /// Adds one error.
    pub(super) fn error(&mut self, status: u16, description: impl Into<Cow<'static, str>>) {
        self.response(status, description).content.push(Content::problem());
    }

    /// Serves it on the control socket alone.
    pub(super) fn local(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// Sets the handler.
    pub(super) fn handle<H: Handler<T, Site>, T: 'static>(self, handler: H) -> Self {
        let method = MethodFilter::try_from(self.method.clone()).expect("routes have methods of HTTP");
        Self { handler: Some(on(method, handler)), ..self }
    }

    /// The handler as the router takes it, with the limit on bodies.
    pub(super) fn handler(&self) -> Option<MethodRouter<Site>> {
        self.handler.clone().map(|handler| handler.layer(DefaultBodyLimit::max(self.body_limit)))
    }

    /// The response of a status, which is added where there is none.
    fn response(&mut self, status: u16, description: impl Into<Cow<'static, str>>) -> &mut Response {
        let at = self.responses.iter().position(|response| response.status == status).unwrap_or_else(|| {
            let description = description.into();
            self.responses.push(Response { status, description, content: vec![], headers: vec![] });
            self.responses.len() - 1
        });
        &mut self.responses[at]
    }
}

/// Largest body by default, in bytes: an override with the longest reason is under 3 kB.
pub(super) const BODY_MAX: usize = 16 << 10;

pub(super) static IF_MATCH: RequestHeader = RequestHeader {
    name: "If-Match",
    description: "The ETag that the object must have, or `*` for any; else 412.",
    pattern: r#"^(\*|"[0-9]{1,19}")$"#,
};
pub(super) static IDEMPOTENCY_KEY: RequestHeader = RequestHeader {
    name: "Idempotency-Key",
    description: "Identifies the request: sent again with the same key, it gets the first answer and changes nothing. A key is valid for \
                  one day and for the caller who sent it.",
    pattern: r#"^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$"#,
};
/// Of writes.
pub(super) static IF_NONE_MATCH: RequestHeader =
    RequestHeader { name: "If-None-Match", description: "`*`: the object must not exist; else 412.", pattern: r"^\*$" };
/// Of reads.
pub(super) static IF_NONE_MATCH_TAGS: RequestHeader = RequestHeader {
    name: "If-None-Match",
    description: "ETags that the client holds; the answer is 304 if one of them is current.",
    pattern: r#"^(\*|"[0-9]{1,19}"(, "[0-9]{1,19}")*)$"#,
};
pub(super) static LAST_EVENT_ID: RequestHeader = RequestHeader {
    name: "Last-Event-ID",
    description: "Id of the last event that the client has seen; the stream continues after it.",
    pattern: r"^[0-9a-f]{1,16}(\.[0-9]{1,19})?$",
};
