//! The routes of intents. The paths of ONAP and EMCO come from the templates by which the crate `intents` parses them.

use std::borrow::Cow;

use axum::http::Method;

use super::{handler::BODY_MAX, history, list, one, parameters_wire::IntentParameters};
use crate::{
    permission::Permission,
    problem::OVER_LIMIT,
    route::{
        Content, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, IF_NONE_MATCH_TAGS, LAST_EVENT_ID, REVISION, Route, Shape,
    },
};
use fairway_access::Verb;
use fairway_api_types::endpoints::Endpoint;
use fairway_api_types::intents_wire::{IntentList, IntentListParameters, NewIntent};
use fairway_api_types::objects_wire::{ApplyReport, HistoryEntry};
use fairway_intents::{Family, INTENT_KINDS, PathTarget, component, templates};
use fairway_store::objects::Kind;

/// Returns every route of intents.
pub(crate) fn routes() -> Vec<Route> {
    let by_key = INTENT_KINDS.into_iter().flat_map(|kind| {
        let resource = Resource { path: by_key(kind), kind, target: PathTarget::Object, family: "" };
        resource.routes().into_iter().chain([history_of(kind)])
    });
    let by_path = templates().iter().flat_map(|form| {
        let family = match form.family {
            Some(Family::Emco) => "Emco",
            Some(Family::Wiki) => "Onap",
            Some(Family::Fairway) | None => "",
        };
        Resource { path: form.with_parameters(), kind: form.kind, target: form.target, family }.routes()
    });
    [list_all(), create_any()].into_iter().chain(by_key).chain(by_path).collect()
}

fn list_all() -> Route {
    let items = "In the order of their keys, with `next` if there are more.";
    Route::new(Endpoint::get("/v1/intents"), "listIntents", "List the intents of all projects")
        .tag("intents")
        .description(
            "Each with its key, metadata and status. With `watch=true` a stream of Server-Sent Events: `changed` with the item, `deleted` \
             with its key, and `reset` if the changes are no longer remembered. With `project` a grant for that project is \
             enough.",
        )
        .requires(Permission::ProjectOfQuery(Verb::Read.into()))
        .query::<IntentListParameters>()
        .headers(&[&LAST_EVENT_ID])
        .returns(200, items, Shape::output::<IntentList>().json())
        .returns(200, items, Content::text("text/event-stream"))
        .handle(list)
}

fn create_any() -> Route {
    let route = Route::new(Endpoint::post("/v1/intents"), "createIntent", "Create an intent, with its key in the body")
        .tag("intents")
        .description(
            "`POST` takes what `GET` lists; `metadata` is ignored. The caller needs a grant for all projects: with a grant for one project, \
             `PUT` the intent at its key with `If-None-Match: *`.",
        )
        .requires(Verb::Write)
        .query::<IntentParameters>()
        .without(OF_LISTS)
        .headers(&[&IDEMPOTENCY_KEY])
        .body(Shape::input::<NewIntent>().json())
        .body_limit(BODY_MAX)
        .returns(200, DRY_RUN, either(any_intent()))
        .returns_object(201, "Created.", any_intent())
        .returns_header(201, "Location", "Path of the intent.")
        .errors(&[(400, "A parameter is invalid, or the body has no name."), (404, "There is no parent object.")]);
    route.errors(WRITE_ERRORS).handle(one)
}

fn history_of(kind: Kind) -> Route {
    let id = format!("get{}History", pascal(&noun(kind)));
    let path = format!("{}/history", by_key(kind));
    let summary = format!("Get the history of {}", with_article(&noun(kind)));
    Route::new(Endpoint::new(Method::GET, path), id, summary)
        .tag("intents")
        .description("Author, time and reason of each change. Of a private key the history shows the hash.")
        .requires(Permission::of_intent(&Method::GET, Some(kind)))
        .returns(200, "The last 100 changes, the latest first.", Shape::output::<Vec<HistoryEntry>>().json())
        .errors(&[(404, "There has never been such an intent.")])
        .handle(history)
}

/// Returns the path of an intent by its key.
fn by_key(kind: Kind) -> String {
    let own: &[&str] = if kind == Kind::InboundOfCompound { &["compoundIntent", "intent"] } else { &["intent"] };
    let names = ["project", "compositeApp", "version", "deploymentIntentGroup", "trafficGroup"];
    let names: Vec<_> = names.iter().chain(own).map(|name| format!("{{{name}}}")).collect();
    format!("/v1/intents/{}/{}", kind.word(), names.join("/"))
}

/// A path that leads to objects of a kind.
struct Resource {
    path: String,
    kind: Kind,
    target: PathTarget,
    /// Part of the operation ids, so that they differ: `Emco`, `Onap`, or empty.
    family: &'static str,
}

impl Resource {
    fn routes(&self) -> Vec<Route> {
        match self.target {
            PathTarget::Collection => vec![self.list(), self.create()],
            PathTarget::Object => vec![self.get(), self.replace(), self.delete()],
            PathTarget::Singleton => vec![self.get(), self.create(), self.replace(), self.delete()],
        }
    }

    fn route(&self, method: Method, verb: &str, summary: String) -> Route {
        let plural = if verb == "list" { "s" } else { "" };
        let id = format!("{verb}{}{}{plural}", self.family, pascal(&noun(self.kind)));
        let permission = Permission::of_intent(&method, Some(self.kind));
        let tag = match self.family {
            "Emco" => "emco",
            "Onap" => "onap",
            _ if self.path.starts_with("/v1/") => "intents",
            _ => "projects",
        };
        Route::new(Endpoint::new(method, Cow::Owned(self.path.clone())), id, summary)
            .tag(tag)
            .requires(permission)
            .body_limit(BODY_MAX)
            .errors(&[
                (400, "A name in the path or a parameter is invalid."),
                (404, "There is no such object, or no parent object."),
            ])
    }

    fn list(&self) -> Route {
        let route = self.route(Method::GET, "list", format!("List {}s", noun(self.kind)));
        let items = "In the order of their names; `Link` leads to the next page.";
        let route = route.query::<IntentParameters>().without(&["defer", "dryRun", "inert", "lenient", "reason"]);
        route.returns(200, items, Shape::Items(component(self.kind)).json()).returns_header(
            200,
            "Link",
            "The next page (RFC 8288).",
        )
    }

    fn get(&self) -> Route {
        let route = self.route(Method::GET, "get", format!("Get {}", with_article(&noun(self.kind))));
        route
            .headers(&[&IF_NONE_MATCH_TAGS])
            .returns_object(200, "The object.", self.body())
            .returns_empty(304, "The client has the current version.")
            .returns_header(304, "ETag", REVISION)
    }

    fn create(&self) -> Route {
        let route = self.route(Method::POST, "create", format!("Create {}", with_article(&noun(self.kind))));
        route
            .query::<IntentParameters>()
            .without(OF_LISTS)
            .headers(&[&IDEMPOTENCY_KEY])
            .body(self.body())
            // Generated clients have one type for both successes.
            .returns(200, DRY_RUN, either(self.body()))
            .returns_object(201, "Created.", self.body())
            .errors(WRITE_ERRORS)
            .returns_header(201, "Location", "Path of the object.")
    }

    fn replace(&self) -> Route {
        let summary = format!("Create or replace {}", with_article(&noun(self.kind)));
        self.route(Method::PUT, "replace", summary)
            .query::<IntentParameters>()
            .without(OF_LISTS)
            .body(self.body())
            .headers(&[&IF_MATCH, &IF_NONE_MATCH, &IDEMPOTENCY_KEY])
            .returns_object(200, "Replaced; with `dryRun` what would change.", either(self.body()))
            .returns_object(201, "Created.", self.body())
            .errors(WRITE_ERRORS)
            .errors(&[(412, "The object has another revision.")])
    }

    fn delete(&self) -> Route {
        self.route(Method::DELETE, "delete", format!("Delete {}", with_article(&noun(self.kind))))
            .query::<IntentParameters>()
            .without(&["after", "defer", "inert", "lenient", "limit"])
            .headers(&[&IF_MATCH, &IDEMPOTENCY_KEY])
            .returns_empty(204, "Deleted.")
            .returns(200, DRY_RUN, Shape::output::<ApplyReport>().json())
            .errors(&[
                (409, "Other objects refer to it."),
                (412, "The object has another revision."),
                (413, "The body is larger than 256 KiB."),
                (422, "The idempotency key was used with another request."),
            ])
    }

    fn body(&self) -> Content {
        Shape::Component(component(self.kind)).json()
    }
}

/// Returns the body of an intent of any kind of `/v1/intents`.
fn any_intent() -> Content {
    let kinds = [Kind::Inbound, Kind::Compound, Kind::Outbound];
    Shape::OneOf(kinds.map(|kind| Shape::Component(component(kind))).to_vec()).json()
}

/// Returns the body of a success: the object, or with `dryRun` a report.
fn either(body: Content) -> Content {
    Shape::OneOf(vec![body.shape, Shape::output::<ApplyReport>()]).json()
}

/// Returns the name of a kind, for texts and operation ids.
fn noun(kind: Kind) -> String {
    let noun = match kind {
        Kind::Compound => "compound intent",
        Kind::DeploymentGroup => "deployment intent group",
        Kind::DnsUpdateRecord => "DNS update record",
        Kind::Inbound => "inbound intent",
        Kind::InboundOfCompound => "compound inbound intent",
        Kind::Outbound => "outbound intent",
        Kind::TrafficSet => "traffic intent set",
        other => return other.word().replace('-', " "),
    };
    noun.to_owned()
}

fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// Returns a noun in the form of operation ids: `DnsUpdateRecord` of `DNS update record`.
fn pascal(noun: &str) -> String {
    let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase();
    noun.split(' ').map(word).collect()
}

/// Query parameters that only lists use.
const OF_LISTS: &[&str] = &["after", "limit"];
const DRY_RUN: &str = "With `dryRun`: what would change.";
const WRITE_ERRORS: &[(u16, &str)] = &[
    (
        409,
        "It exists already, others changed it at the same time, or a request with the same idempotency key is in progress.",
    ),
    (422, "The body is invalid: `errors` has each error with its pointer."),
    OVER_LIMIT,
];
