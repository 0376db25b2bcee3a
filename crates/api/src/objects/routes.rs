//! The routes of declared objects, and their export.

use axum::http::Method;

use super::{
    export, get, history,
    kinds::{KINDS, component, path},
    list,
    request::{BODY_MAX, ONE_MAX},
    write,
};
use crate::{
    permission::Permission,
    problem::OVER_LIMIT,
    route::{Content, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, LAST_EVENT_ID, Route, Shape},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{APPLY, EXPORT, Endpoint};
use fairway_api_types::objects_wire::{
    ApplyBody, ApplyReport, HistoryEntry, ListParameters, ObjectList, ObjectsExport, WriteParameters,
};
use fairway_store::objects::Kind;

/// The routes of declared objects.
pub(crate) fn routes() -> Vec<Route> {
    let of_kind = |kind| {
        [
            list_route(kind),
            create_route(kind),
            get_route(kind),
            replace_route(kind),
            delete_route(kind),
            history_route(kind),
        ]
    };
    let export = Route::new(EXPORT, "exportObjects", "Export all declared objects as the store has them")
        .tag("objects")
        .description("On the control socket only, for a process that takes over.")
        .returns(200, "All objects.", Shape::output::<ObjectsExport>().json())
        .local()
        .handle(export);
    KINDS.into_iter().flat_map(of_kind).chain([apply_route(), export]).collect()
}

/// Returns the nouns for one and for many objects of a kind, and their forms in operation ids.
fn words(kind: Kind) -> [&'static str; 4] {
    match kind {
        Kind::Cluster => ["a cluster", "clusters", "Cluster", "Clusters"],
        Kind::Monitor => ["a monitor", "monitors", "Monitor", "Monitors"],
        Kind::Name => ["a name", "names", "Name", "Names"],
        Kind::Pool => ["a pool", "pools", "Pool", "Pools"],
        _ => ["the records of a name", "records by name", "RecordsOfName", "Records"],
    }
}

fn list_route(kind: Kind) -> Route {
    let items = "In the order of their names, with `next` if there are more.";
    let [_, many, _, ids] = words(kind);
    new(Method::GET, path(kind), format!("list{ids}"), format!("List {many}"))
        .description(
            "All that are served, with their source in `metadata`: the API, configuration files, intents, clients of the webhook, or objects \
             of Kubernetes clusters. Those of the API and of files have all their fields, those of the other sources the main ones. Those of \
             the API are listed even if they are not served. With `watch=true` a stream of Server-Sent Events about those of the API: `changed` with the object, `deleted`, and `reset` if the changes are no \
             longer remembered.",
        )
        .requires(Verb::Read)
        .query::<ListParameters>()
        .headers(&[&LAST_EVENT_ID])
        .returns(200, items, Shape::list::<ObjectList>(component(kind)).json())
        .returns(200, items, Content::text("text/event-stream"))
        .handle(move |state, operates, headers, query| list(kind, state, operates, headers, query))
}

fn get_route(kind: Kind) -> Route {
    let [one, _, id, _] = words(kind);
    new(Method::GET, one_path(kind), format!("get{id}"), format!("Get {one}"))
        .requires(Verb::Read)
        .returns_object(
            200,
            "The object, with `metadata` and `status`. Without an ETag if the API does not declare it.",
            body(kind),
        )
        .errors(NO_SUCH)
        .handle(move |state, operates, name| get(kind, state, operates, name))
}

fn history_route(kind: Kind) -> Route {
    let [one, _, id, _] = words(kind);
    let path = format!("{}/history", one_path(kind));
    new(Method::GET, path, format!("get{id}History"), format!("Get the history of {one}"))
        .description("Author, time and reason of each change.")
        .requires(Verb::Read)
        .returns(200, "The last 100 changes, the latest first.", Shape::output::<Vec<HistoryEntry>>().json())
        .errors(&[(404, "There has never been an object of this name.")])
        .handle(move |state, name| history(kind, state, name))
}

fn create_route(kind: Kind) -> Route {
    let [one, _, id, _] = words(kind);
    new(Method::POST, path(kind), format!("create{id}"), format!("Create {one}"))
        .requires(Verb::Write)
        .query::<WriteParameters>()
        .without(OF_APPLY)
        .headers(&[&IDEMPOTENCY_KEY])
        .body(body(kind))
        // Generated clients have one type for both successes.
        .returns(200, DRY_RUN, Shape::OneOf(vec![body(kind).shape, report().shape]).json())
        .returns_object(201, "Created.", body(kind))
        .returns_header(201, "Location", "Path of the object.")
        .errors(WRITE_ERRORS)
        .errors(&[(412, "Another write came first.")])
        .handle(move |state, request| write::create(kind, state, request))
}

fn replace_route(kind: Kind) -> Route {
    let either = Shape::OneOf(vec![body(kind).shape, Shape::output::<ApplyReport>()]);
    let [one, _, id, _] = words(kind);
    new(Method::PUT, one_path(kind), format!("replace{id}"), format!("Create or replace {one}"))
        .description("`PUT` takes what `GET` returns: `metadata` and `status` are ignored.")
        .requires(Verb::Write)
        .query::<WriteParameters>()
        .without(OF_APPLY)
        .headers(&[&IF_MATCH, &IF_NONE_MATCH, &IDEMPOTENCY_KEY])
        .body(body(kind))
        .returns_object(200, "Replaced; with `dryRun` what would change.", either.json())
        .returns_object(201, "Created.", body(kind))
        .returns_header(201, "Location", "Path of the object.")
        .errors(WRITE_ERRORS)
        .errors(&[(412, "The object has another revision.")])
        .handle(move |state, name, request| write::replace(kind, state, name, request))
}

fn delete_route(kind: Kind) -> Route {
    let [one, _, id, _] = words(kind);
    new(Method::DELETE, one_path(kind), format!("delete{id}"), format!("Delete {one}"))
        .requires(Verb::Delete)
        .query::<WriteParameters>()
        .without(OF_APPLY)
        .headers(&[&IF_MATCH, &IDEMPOTENCY_KEY])
        .returns(200, DRY_RUN, report())
        .returns_empty(204, "Deleted.")
        .errors(NO_SUCH)
        .errors(&[
            (409, "Other objects refer to it."),
            (412, "The object has another revision."),
            (413, "The body is larger than 2 MiB."),
            (422, "The idempotency key was used with another request."),
        ])
        .handle(move |state, name, request| write::delete(kind, state, name, request))
}

fn apply_route() -> Route {
    Route::new(APPLY, "applyObjects", "Create and replace many objects, all or none")
        .tag("objects")
        .description(
            "The body has objects by section, as a configuration has. With `prune=true` objects that the body lacks are deleted, of intents \
             those that the same caller applied before; that requires the verb `delete` too. If the deletions look like a mistake, nothing \
             is changed, unless `allowRemovals=true`.",
        )
        .requires(Permission::Apply)
        .query::<WriteParameters>()
        .headers(&[&IDEMPOTENCY_KEY])
        .body(Shape::input::<ApplyBody>().json())
        .body_limit(BODY_MAX)
        .returns(200, "The changes; with `dryRun` none is made.", report())
        .errors(WRITE_ERRORS)
        .errors(&[(412, "Another write came first.")])
        .handle(write::apply)
}

fn new(method: Method, path: String, id: String, summary: String) -> Route {
    Route::new(Endpoint::new(method, path), id, summary).tag("objects").body_limit(ONE_MAX)
}

fn one_path(kind: Kind) -> String {
    format!("{}/{{name}}", path(kind))
}

fn body(kind: Kind) -> Content {
    Shape::Component(component(kind)).json()
}

fn report() -> Content {
    Shape::output::<ApplyReport>().json()
}

/// Query parameters that only `POST /v1/apply` uses.
const OF_APPLY: &[&str] = &["allowRemovals", "inert", "prune"];
const DRY_RUN: &str = "With `dryRun`: what would change.";
const NO_SUCH: &[(u16, &str)] = &[(404, "There is no object of this name.")];
const WRITE_ERRORS: &[(u16, &str)] = &[
    (400, "A parameter is invalid, the body is not JSON, or its name is not that of the path."),
    (
        409,
        "It exists already, other objects would become invalid, or a request with the same idempotency key is in progress.",
    ),
    (
        413,
        "The body is larger than 2 MiB for one object, than 16 MiB or 300,000 values for many, or has more than 10,000 changes.",
    ),
    (422, "The object is invalid, or refers to one that does not exist: `errors` has each error with its pointer."),
    OVER_LIMIT,
];
