//! The paths of intents: their operations follow from the forms of path that lead to objects.

use axum::http::Method;

use super::{IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, KNOWN, Operation, Shape};
use crate::api::intents::IntentParameters;
use fairway_api_types::objects_wire::{ApplyReport, HistoryEntry};
use fairway_intents::{INTENT_KINDS, What, component, forms};
use fairway_store::objects::Kind;

pub(super) use fairway_intents::NAME;

/// Every operation of these paths.
pub(in crate::api) fn of_intents() -> Vec<Operation> {
    let by_key = INTENT_KINDS.into_iter().map(|kind| (by_key(kind), kind, What::Object));
    forms().chain(by_key).flat_map(|(path, kind, what)| of_form(&path, kind, what)).collect()
}

/// Who changed an intent, by its key.
pub(in crate::api) fn history_of_intent(kind: Kind) -> Operation {
    let summary = format!("Who changed one {}, when and why", kind.word().replace('-', " "));
    let operation = Operation::new(Method::GET, format!("{}/history", by_key(kind)), "intents", summary);
    let operation = operation.about("Of a private key the hash is told.");
    let operation =
        operation.tells(200, "The last 100 changes, the latest first.", Shape::told::<Vec<HistoryEntry>>().json());
    operation.refuses(&[(404, "No such intent was ever there.")])
}

/// Where an intent is by its key.
fn by_key(kind: Kind) -> String {
    let own: &[&str] = if kind == Kind::InboundOfCompound { &["compoundIntent", "intent"] } else { &["intent"] };
    let names = ["project", "compositeApp", "version", "deploymentIntentGroup", "trafficGroup"];
    let names: Vec<_> = names.iter().chain(own).map(|name| format!("{{{name}}}")).collect();
    format!("/v1/intents/{}/{}", kind.word(), names.join("/"))
}

fn of_form(path: &str, kind: Kind, what: What) -> Vec<Operation> {
    let (word, body) = (kind.word().replace('-', " "), || Shape::Component(component(kind)));
    let new = |method: Method, summary: String| {
        Operation::new(method, path.to_owned(), "intents", summary).asks::<IntentParameters>().refuses(MISSES)
    };
    let list = || {
        let operation = new(Method::GET, format!("Every {word} here"));
        let told = "In the order of their names; `Link` leads to the next page.";
        operation.tells(200, told, Shape::Items(component(kind)).json()).with(200, "Link", "The next page (RFC 8288).")
    };
    let read = || {
        let operation = new(Method::GET, format!("One {word}")).heeds(&[&KNOWN]);
        let operation = operation.tells(200, "The object.", body().json()).ends(304, "The client has it.");
        operation.with(200, "ETag", "Its revision.").with(304, "ETag", "Its revision.")
    };
    let create = || {
        let operation = new(Method::POST, format!("Makes a {word}"));
        let operation = operation.heeds(&[&IDEMPOTENCY_KEY]);
        let operation = operation.takes(body().json()).tells(200, DRY, Shape::told::<ApplyReport>().json());
        let operation = operation.tells(201, "It was made.", body().json()).refuses(WRITES);
        operation.with(201, "ETag", "Its revision.").with(201, "Location", "Where it is.")
    };
    let replace = || {
        let operation = new(Method::PUT, format!("Makes a {word}, or makes it anew"));
        let operation = operation.takes(body().json()).heeds(&[&IF_MATCH, &IF_NONE_MATCH, &IDEMPOTENCY_KEY]);
        let either = Shape::OneOf(vec![body(), Shape::told::<ApplyReport>()]);
        let operation = operation.tells(200, "It was replaced; or what would come of it (`dryRun`).", either.json());
        let operation = operation.tells(201, "It was made.", body().json()).refuses(WRITES);
        let operation = operation.refuses(&[(412, "It has another revision.")]);
        operation.with(200, "ETag", "Its revision.").with(201, "ETag", "Its revision.")
    };
    let remove = || {
        let operation = new(Method::DELETE, format!("Takes a {word} away"));
        let operation = operation.heeds(&[&IF_MATCH, &IDEMPOTENCY_KEY]).ends(204, "It is gone.");
        let operation = operation.tells(200, DRY, Shape::told::<ApplyReport>().json());
        operation.refuses(&[(409, "Others hold on to it."), (412, "It has another revision.")]).refuses(KEYED)
    };
    match what {
        What::Collection => vec![list(), create()],
        What::Object => vec![read(), replace(), remove()],
        What::Only => vec![read(), create(), replace(), remove()],
    }
}

const DRY: &str = "What would come of it (`dryRun`).";
const MISSES: &[(u16, &str)] =
    &[(400, "A name that none can have, or an unknown parameter."), (404, "No such object, or none above it.")];
const KEYED: &[(u16, &str)] = &[(413, "A body over 256 KiB."), (422, "The key was given with another request.")];
pub(in crate::api) const WRITES: &[(u16, &str)] = &[
    (409, "It exists already, or others changed it meanwhile."),
    (413, "A body over 256 KiB."),
    (422, "The body is at fault: `errors` has each fault with its pointer."),
];
