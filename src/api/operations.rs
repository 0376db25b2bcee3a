//! What is said of the routes of the server itself; those of objects are described beside them, those of intents by their forms.

use axum::http::Method;

use super::{
    intents::IntentParameters,
    openapi::{Content, IDEMPOTENCY_KEY, INTENT_WRITES, LAST_EVENT_ID, Operation, Shape},
    watch_wire::WatchParameters,
};
use fairway_api_types::{
    contributions_wire::{Contributions, Evicted, Eviction},
    explain_wire::Explanation,
    intents_wire::{IntentList, IntentListParameters, NewIntent},
    latency_wire::LatencyState,
    load_wire::{LoadState, NewLoad},
    objects_wire::{ApplyReport, ObjectsExport},
    publishing_wire::{PublishParameters, PublishPlan, PublishingState, TakeOrder, TakeReport},
    state_wire::{ExplainParameters, NewOverride, OverrideState, ReloadReport, State, Version},
};

pub(super) fn healthz() -> Operation {
    let operation = Operation::new(Method::GET, "/healthz", "server", "Whether the process answers");
    let operation = operation.about("503: its control task has ended; restart it.");
    operation.tells(200, "It answers, and its control task runs.", Content::text("text/plain"))
}

pub(super) fn readyz() -> Operation {
    let operation = Operation::new(Method::GET, "/readyz", "server", "Whether it wants to be asked");
    let operation = operation.about("503 before the first round of probes is done, and while it stops.");
    operation.tells(200, "DNS is served.", Content::text("text/plain"))
}

pub(super) fn openapi() -> Operation {
    let operation = Operation::new(Method::GET, "/openapi.json", "server", "This document");
    operation.tells(200, "OpenAPI 3.1, of the listener that was asked.", Content::any())
}

pub(super) fn page() -> Vec<Operation> {
    let new = |path| Operation::new(Method::GET, path, "page", "A file of the page that people look at");
    let told = |operation: Operation| {
        let operation = operation.tells(200, "The file.", Content::text("*/*")).ends(304, "The browser has it.");
        operation.with(200, "ETag", "Changes with the file.")
    };
    vec![told(new("/")), told(new("/page/{file}")).refuses(&[(404, "There is no such file.")])]
}

pub(super) fn version() -> Operation {
    let operation = Operation::new(Method::GET, "/version", "server", "Which program answers");
    operation.tells(200, "Version and process.", Shape::told::<Version>().json())
}

pub(super) fn metrics() -> Operation {
    let operation = Operation::new(Method::GET, "/metrics", "server", "Metrics for Prometheus");
    let operation = operation.tells(200, "Text format 0.0.4.", Content::text("text/plain"));
    operation.refuses(&[(500, "They cannot be written; please report it.")])
}

pub(super) fn state() -> Operation {
    let operation =
        Operation::new(Method::GET, "/v1/state", "server", "Everything there is to know of a running server");
    operation.tells(200, "What is configured, measured and answered.", Shape::told::<State>().json())
}

pub(super) fn explain() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/explain", "server", "Why a client is answered so");
    let operation = operation.asks::<ExplainParameters>();
    let operation = operation.tells(200, "Every step and every term.", Shape::told::<Explanation>().json());
    operation.refuses(&[(400, "No name, no type or no client.")])
}

pub(super) fn watch() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/watch", "server", "What changes, as it happens");
    let operation = operation.about(
        "Server-Sent Events `flip`, `reload`, `state` and `reset`. A stream ends after 110 s; go on with the id of the last event.",
    );
    let operation = operation.asks::<WatchParameters>().heeds(&[&LAST_EVENT_ID]);
    let operation = operation.tells(200, "Events, as they happen.", Content::text("text/event-stream"));
    operation.refuses(&[(400, "The parameters are at fault.")])
}

pub(super) fn reload() -> Operation {
    let operation = Operation::new(Method::POST, "/v1/reload", "server", "Reads the configuration anew");
    let told = "What became of it; refused is `accepted: false`, with `faults`.";
    operation.tells(200, told, Shape::told::<ReloadReport>().json())
}

pub(super) fn add_override() -> Operation {
    let operation = Operation::new(Method::POST, "/v1/overrides", "server", "Puts force over verdicts");
    let operation = operation.heeds(&[&IDEMPOTENCY_KEY]).takes(Shape::taken::<NewOverride>().json());
    let operation = operation.tells(201, "It is in force and on disk.", Shape::told::<OverrideState>().json());
    operation.refuses(&[
        (400, "The body is at fault."),
        (404, "No such cluster."),
        (409, "256 are there already."),
        (413, "A body over 16 KiB."),
        (422, "The key was given with another request."),
    ])
}

pub(super) fn remove_override() -> Operation {
    let operation = Operation::new(Method::DELETE, "/v1/overrides/{id}", "server", "Takes force away");
    let operation = operation.tells(200, "It is gone, also from the disk.", Shape::told::<OverrideState>().json());
    operation.refuses(&[(404, "No such override.")])
}

pub(super) fn contributions() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/contributions", "server", "What is brought over the webhook");
    operation.tells(200, "By whom, and since when.", Shape::told::<Contributions>().json())
}

pub(super) fn evict() -> Operation {
    let operation = Operation::new(Method::DELETE, "/v1/contributions", "server", "Takes out what an owner brought");
    let operation = operation.about("A writer that still runs brings it again.").asks::<Eviction>();
    let operation = operation.tells(200, "How much it was.", Shape::told::<Evicted>().json());
    operation.refuses(&[
        (400, "The parameters are at fault."),
        (404, "It brings nothing of the kind."),
        (409, "It was changed meanwhile."),
        (412, "It was changed meanwhile."),
        (413, "It is too much at once."),
    ])
}

pub(super) fn intents() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/intents", "intents", "Every intent, with what has become of it");
    let operation = operation.about(
        "Replaced and taken away by their keys, `PUT` and `DELETE /v1/intents/KEY`. With `watch=true` a stream of Server-Sent \
         Events: `changed` with the item, `deleted` with the key as `name`, and `reset` where changes are no longer remembered. \
         With `project` a grant for that project is enough.",
    );
    let operation = operation.asks::<IntentListParameters>().heeds(&[&LAST_EVENT_ID]);
    let told = "In the order of their keys, with `next` where there are more.";
    let operation = operation.tells(200, told, Shape::told::<IntentList>().json());
    let operation = operation.tells(200, told, Content::text("text/event-stream"));
    operation.refuses(&[(400, "The parameters are at fault.")])
}

pub(super) fn create_intent() -> Operation {
    let operation = Operation::new(Method::POST, "/v1/intents", "intents", "Makes an intent, with its key beside it");
    let operation = operation.about(
        "What `GET` lists, `POST` takes; `metadata` is left alone. Takes a grant for all projects: with one for a project, `PUT` the \
         intent at its key with `If-None-Match: *`.",
    );
    let operation = operation.asks::<IntentParameters>().heeds(&[&IDEMPOTENCY_KEY]);
    let operation = operation.takes(Shape::taken::<NewIntent>().json());
    let operation = operation.tells(200, "What would come of it (`dryRun`).", Shape::told::<ApplyReport>().json());
    let operation = operation.tells(201, "It was made.", Content::any());
    let operation = operation.with(201, "ETag", "Its revision.").with(201, "Location", "Where it is.");
    let operation = operation.refuses(&[(400, "The parameters are at fault, or the body has no name.")]);
    operation.refuses(&[(404, "There is nothing above it.")]).refuses(INTENT_WRITES)
}

pub(super) fn publishing() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/publishing", "server", "How publishing stands");
    operation.tells(200, "Each provider, with a condition a record set.", Shape::told::<PublishingState>().json())
}

pub(super) fn publish_plan() -> Operation {
    let path = "/v1/publishing/{provider}/plan";
    let operation = Operation::new(Method::GET, path, "server", "What a sync of a provider would change");
    let operation = operation.asks::<PublishParameters>();
    let operation = operation.tells(200, "Each change; none is made.", Shape::told::<PublishPlan>().json());
    operation.refuses(&[(400, "The parameters are at fault."), (404, "No such provider."), (502, "It cannot be read.")])
}

pub(super) fn publish_apply() -> Operation {
    let path = "/v1/publishing/{provider}/apply";
    let operation = Operation::new(Method::POST, path, "server", "Syncs a provider now");
    let operation = operation.asks::<PublishParameters>();
    let operation = operation.tells(200, "What was changed.", Shape::told::<PublishPlan>().json());
    operation.refuses(&[(400, "The parameters are at fault."), (404, "No such provider."), (502, "It cannot be read.")])
}

pub(super) fn publish_take() -> Operation {
    let path = "/v1/publishing/{provider}/take";
    let operation =
        Operation::new(Method::POST, path, "server", "Takes record sets over from another owner, a step a call");
    let operation =
        operation.about("`announce` says it in the registry, `finish` makes them ours, `abort` gives them back.");
    let operation = operation.takes(Shape::taken::<TakeOrder>().json());
    let operation = operation.tells(200, "What became of each record set.", Shape::told::<TakeReport>().json());
    operation.refuses(&[
        (400, "The body is at fault."),
        (404, "No such provider."),
        (409, "Nothing can be taken over there: its registry is not of the type txt, or the owner is this one."),
        (413, "A body over 16 KiB."),
        (502, "It cannot be read."),
    ])
}

pub(super) fn push_load() -> Operation {
    let operation = Operation::new(Method::PUT, "/v1/load/{cluster}", "server", "Reports the load of a cluster");
    let operation = operation.takes(Shape::taken::<NewLoad>().json());
    let operation = operation.tells(200, "How it stands then.", Shape::told::<LoadState>().json());
    operation.refuses(&[
        (400, "The body is at fault."),
        (404, "No such cluster."),
        (409, "Out of order, or there is no capacity to count in."),
        (413, "A body over 16 KiB."),
    ])
}

pub(super) fn push_latency() -> Operation {
    let operation = Operation::new(Method::PUT, "/v1/latency/{table}", "server", "Replaces a table of latencies");
    let operation = operation.takes(Content::text("text/csv"));
    let operation = operation.tells(200, "It is on disk and in force.", Shape::told::<LatencyState>().json());
    operation.refuses(&[
        (400, "The table is at fault."),
        (404, "No such table."),
        (409, "It is read from a file, or does not fit the configuration."),
        (413, "A body over 64 MiB."),
    ])
}

pub(super) fn export() -> Operation {
    let operation = Operation::new(Method::GET, "/v1/objects", "objects", "Everything that is declared, as it is kept");
    let operation = operation.about("Over the control socket alone, for a process that takes over.");
    operation.tells(200, "All objects.", Shape::told::<ObjectsExport>().json())
}

pub(super) fn stop() -> Operation {
    let operation = Operation::new(Method::POST, "/v1/stop", "server", "Stops the server");
    operation.about("Over the control socket alone.").ends(202, "Draining has begun.")
}
