//! What is said of the routes of declared objects.

use axum::http::Method;

use super::{
    super::openapi::{Content, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, LAST_EVENT_ID, Operation, Shape, element},
    path,
};
use fairway_api_types::objects_wire::{
    ApplyBody, ApplyReport, HistoryEntry, ListParameters, ObjectList, WriteParameters,
};
use fairway_store::objects::Kind;

pub(super) fn list(kind: Kind) -> Operation {
    let operation = new(Method::GET, path(kind), format!("Every {} that was declared here", kind.word()));
    let operation = operation.about(
        "With `watch=true` a stream of Server-Sent Events: `changed` with the object, `deleted`, and `reset` where changes are no \
         longer remembered.",
    );
    let operation = operation.asks::<ListParameters>().heeds(&[&LAST_EVENT_ID]);
    let told = "In the order of their names, with `next` where there are more.";
    let operation = operation.tells(200, told, Shape::list::<ObjectList>(element(kind)).json());
    let operation = operation.tells(200, told, Content::text("text/event-stream"));
    operation.refuses(&[(400, "The parameters are at fault.")])
}

pub(super) fn read(kind: Kind) -> Operation {
    let operation = new(Method::GET, one(kind), format!("One {}", kind.word()));
    let operation = operation.tells(200, "The object.", body(kind)).with(200, "ETag", "Its revision.");
    operation.refuses(&[(404, "Nothing is called so.")])
}

pub(super) fn history(kind: Kind) -> Operation {
    let operation =
        new(Method::GET, format!("{}/history", one(kind)), format!("Who changed a {}, when and why", kind.word()));
    let operation =
        operation.tells(200, "The last 100 changes, the latest first.", Shape::told::<Vec<HistoryEntry>>().json());
    operation.refuses(&[(404, "Nothing was ever called so.")])
}

pub(super) fn create(kind: Kind) -> Operation {
    let operation = new(Method::POST, path(kind), format!("Declares a {} that is not there", kind.word()));
    let operation = operation.asks::<WriteParameters>().heeds(&[&IDEMPOTENCY_KEY]).takes(body(kind));
    let operation = operation.tells(200, DRY, report()).tells(201, "It was made.", body(kind));
    let operation = operation.with(201, "ETag", "Its revision.").with(201, "Location", "Where it is.");
    refused(operation).refuses(&[(412, "Somebody was faster.")])
}

pub(super) fn put(kind: Kind) -> Operation {
    let operation = new(Method::PUT, one(kind), format!("Declares a {}, or declares it anew", kind.word()));
    let operation = operation.about("What GET gives, PUT takes: `metadata` and `status` are left alone.");
    let operation = operation.asks::<WriteParameters>().heeds(&[&IF_MATCH, &IF_NONE_MATCH, &IDEMPOTENCY_KEY]);
    let operation = operation.takes(body(kind));
    let operation = operation.tells(200, "It was replaced; or what would come of it (`dryRun`).", {
        let Content { media, shape } = body(kind);
        Content { media, shape: Shape::OneOf(vec![shape, Shape::told::<ApplyReport>()]) }
    });
    let operation = operation.tells(201, "It was made.", body(kind)).with(201, "Location", "Where it is.");
    let operation = operation.with(200, "ETag", "Its revision.").with(201, "ETag", "Its revision.");
    refused(operation).refuses(&[(412, "It has another revision.")])
}

pub(super) fn delete(kind: Kind) -> Operation {
    let operation = new(Method::DELETE, one(kind), format!("Takes a {} away", kind.word()));
    let operation = operation.asks::<WriteParameters>().heeds(&[&IF_MATCH, &IF_NONE_MATCH, &IDEMPOTENCY_KEY]);
    let operation = operation.tells(200, DRY, report()).ends(204, "It is gone.");
    let operation = operation.refuses(&[(400, "The parameters are at fault."), (404, "Nothing is called so.")]);
    operation.refuses(&[
        (409, "Others need it."),
        (412, "It has another revision."),
        (413, "A body over 16 MiB."),
        (422, "The key was given with another request."),
    ])
}

pub(super) fn apply() -> Operation {
    let operation = new(Method::POST, "/v1/apply".to_owned(), "Declares many objects, or none".to_owned());
    let operation = operation.about(
        "With `prune=true` what is not named goes, of intents what the caller has applied; that takes the verb `delete` too.",
    );
    let operation = operation.asks::<WriteParameters>().heeds(&[&IDEMPOTENCY_KEY]);
    let operation = operation.takes(Shape::taken::<ApplyBody>().json());
    let operation = operation.tells(200, "What was done, or would be (`dryRun`).", report());
    refused(operation).refuses(&[(412, "Somebody was faster.")])
}

fn new(method: Method, path: String, summary: String) -> Operation {
    Operation::new(method, path, "objects", summary)
}

fn refused(operation: Operation) -> Operation {
    operation.refuses(&[
        (400, "The body is no JSON, or its name is not that of the path."),
        (409, "It is there already, or others would not fit any more."),
        (413, "A body over 16 MiB, or more than 10,000 changes."),
        (422, "The object is at fault, or needs what is not there: `errors` has each fault with its pointer."),
    ])
}

fn one(kind: Kind) -> String {
    format!("{}/{{name}}", path(kind))
}

fn body(kind: Kind) -> Content {
    Shape::Component(element(kind)).json()
}

fn report() -> Content {
    Shape::told::<ApplyReport>().json()
}

const DRY: &str = "What would come of it (`dryRun`).";
