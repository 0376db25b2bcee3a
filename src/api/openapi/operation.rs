//! One operation: a method on a path, with all that may be asked and answered there.
//!
//! What the gate asks of every request (verbs, and the codes of refusals) is not written here again: it follows from `access::need`.

use std::borrow::Cow;

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A method on a path.
#[derive(Clone, Debug)]
pub(in crate::api) struct Operation {
    pub(super) method: Method,
    /// As the router has it: names of parameters in braces.
    pub(super) path: Cow<'static, str>,
    pub(super) tag: &'static str,
    pub(super) summary: Cow<'static, str>,
    pub(super) about: &'static str,
    pub(super) query: Vec<Make>,
    pub(super) headers: Vec<&'static AskedHeader>,
    pub(super) body: Option<Content>,
    pub(super) answers: Vec<Answer>,
}

/// Makes the schema of a type.
pub(super) type Make = fn(&mut SchemaGenerator) -> Schema;

/// A header of a request.
#[derive(Debug)]
pub(in crate::api) struct AskedHeader {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Regular expression that its value fits.
    pub(super) pattern: &'static str,
}

/// What a body is.
#[derive(Clone, Debug)]
pub(in crate::api) struct Content {
    pub(in crate::api) media: &'static str,
    pub(in crate::api) shape: Shape,
}

/// What schema a body has.
#[derive(Clone, Debug)]
pub(in crate::api) enum Shape {
    /// That of a type that the server writes.
    Told(Make),
    /// That of a type that the server reads.
    Taken(Make),
    /// That of a component.
    Component(String),
    /// Components of one kind, one after the other.
    Items(String),
    /// Objects of a list: its type, and the component of its items.
    List(Make, String),
    /// One of several.
    OneOf(Vec<Self>),
    /// Anything.
    Any,
    /// Text, which says no more.
    Text,
}

/// One answer there may be.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) what: &'static str,
    pub(super) content: Vec<Content>,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// A type that the server writes.
    pub(in crate::api) fn told<T: JsonSchema>() -> Self {
        Self::Told(|generator| generator.subschema_for::<T>())
    }

    /// A type that the server reads.
    pub(in crate::api) fn taken<T: JsonSchema>() -> Self {
        Self::Taken(|generator| generator.subschema_for::<T>())
    }

    /// A type that lists components in `items`.
    pub(in crate::api) fn list<T: JsonSchema>(of: String) -> Self {
        Self::List(|generator| T::json_schema(generator), of)
    }

    /// As a body in JSON.
    pub(in crate::api) fn json(self) -> Content {
        Content { media: "application/json", shape: self }
    }
}

impl Content {
    /// JSON of any form.
    pub(in crate::api) fn any() -> Self {
        Shape::Any.json()
    }

    /// Text of this media type.
    pub(in crate::api) fn text(media: &'static str) -> Self {
        Self { media, shape: Shape::Text }
    }
}

impl Operation {
    /// An operation that says what it does.
    pub(in crate::api) fn new(
        method: Method,
        path: impl Into<Cow<'static, str>>,
        tag: &'static str,
        summary: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            tag,
            summary: summary.into(),
            about: "",
            query: vec![],
            headers: vec![],
            body: None,
            answers: vec![],
        }
    }

    /// More about it, in Markdown.
    pub(in crate::api) fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// It may be asked with a query of this form.
    pub(in crate::api) fn asks<T: JsonSchema>(mut self) -> Self {
        self.query.push(|generator| T::json_schema(generator));
        self
    }

    /// It heeds these headers.
    pub(in crate::api) fn heeds(mut self, headers: &[&'static AskedHeader]) -> Self {
        self.headers.extend(headers);
        self
    }

    /// It takes this body.
    pub(in crate::api) fn takes(self, body: Content) -> Self {
        Self { body: Some(body), ..self }
    }

    /// It may answer this with a body.
    pub(in crate::api) fn tells(mut self, status: u16, what: &'static str, content: Content) -> Self {
        self.answer(status, what).content.push(content);
        self
    }

    /// It may answer this without a body.
    pub(in crate::api) fn ends(mut self, status: u16, what: &'static str) -> Self {
        self.answer(status, what);
        self
    }

    /// The answer of this status has a header.
    pub(in crate::api) fn with(mut self, status: u16, name: &'static str, what: &'static str) -> Self {
        self.answer(status, "").headers.push((name, what));
        self
    }

    /// It may be refused with a problem of these statuses.
    pub(in crate::api) fn refuses(mut self, problems: &[(u16, &'static str)]) -> Self {
        for (status, what) in problems {
            self.answer(*status, what).content.push(problem());
        }
        self
    }

    /// The answer of a status, which is made where there is none yet.
    fn answer(&mut self, status: u16, what: &'static str) -> &mut Answer {
        let place = self.answers.iter().position(|answer| answer.status == status);
        let place = place.unwrap_or_else(|| {
            self.answers.push(Answer { status, what, content: vec![], headers: vec![] });
            self.answers.len() - 1
        });
        &mut self.answers[place]
    }

    /// The method as a router takes it.
    pub(in crate::api) fn method(&self) -> &Method {
        &self.method
    }

    /// The path as a router takes it.
    pub(in crate::api) fn path(&self) -> &str {
        &self.path
    }
}

/// A body that says what is wrong.
pub(super) fn problem() -> Content {
    Content { media: "application/problem+json", shape: Shape::told::<crate::problem::Problem>() }
}

/// The revision that must be there.
pub(in crate::api) static IF_MATCH: AskedHeader = AskedHeader {
    name: "If-Match",
    what: "The ETag that the object must have, or `*` for any; else 412.",
    pattern: r#"^(\*|"[0-9]{1,19}")$"#,
};
/// By which a write is known when it is sent again.
pub(in crate::api) static IDEMPOTENCY_KEY: AskedHeader = AskedHeader {
    name: "Idempotency-Key",
    what: "By which the request is known when it is sent again: it is answered as before, and done once. A key counts for a day, for \
           whoever gave it.",
    pattern: r#"^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$"#,
};
/// That nothing may be there.
pub(in crate::api) static IF_NONE_MATCH: AskedHeader =
    AskedHeader { name: "If-None-Match", what: "`*`: there must be no such object; else 412.", pattern: r"^\*$" };
/// What the client has.
pub(in crate::api) static KNOWN: AskedHeader = AskedHeader {
    name: "If-None-Match",
    what: "ETags that the client has; the answer is 304 where one of them is still right.",
    pattern: r#"^(\*|"[0-9]{1,19}"(, "[0-9]{1,19}")*)$"#,
};
/// Where a stream goes on.
pub(in crate::api) static LAST_EVENT_ID: AskedHeader = AskedHeader {
    name: "Last-Event-ID",
    what: "Id of the last event that was seen: the stream goes on after it.",
    pattern: r"^[0-9a-f]{1,16}(\.[0-9]{1,19})?$",
};
