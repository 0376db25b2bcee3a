//! Composite apps, groups, sets, controllers.

use fairway_model::intent::{CompositeApp, Controller, DeploymentGroup, Metadata, SetEntry, TrafficSet};
use serde_json::json;

use super::{
    common::{INTENT_NAME, PORT, WORD},
    fields::{Body, fold, homed, named},
    json_wire::Json,
    values::{Custom, Errors, Form, List, Whole, below, invalid},
};

/// Visits a composite app.
pub(super) fn composite_app(body: &mut Body<'_>, app: &mut CompositeApp) {
    body.required(named("spec.compositeAppVersion", &["version"]), &INTENT_NAME, &mut app.version, "\"v1\"");
}

/// Visits a deployment-intent-group.
pub(super) fn deployment_group(body: &mut Body<'_>, group: &mut DeploymentGroup) {
    body.field(named("spec.compositeProfile", &["profile"]), &WORD, &mut group.composite_profile);
    body.field("spec.version", &WORD, &mut group.version);
    body.field("spec.logicalCloud", &WORD, &mut group.logical_cloud);
}

/// Visits a controller.
pub(super) fn controller(body: &mut Body<'_>, controller: &mut Controller) {
    body.required("spec.host", &WORD, &mut controller.host, "\"127.0.0.1\"");
    body.required("spec.port", &PORT, &mut controller.port, "9040");
    body.field("spec.type", &WORD, &mut controller.kind);
    // EMCO's schema allows 100, its code a million.
    body.field("spec.priority", &Whole(1..=1_000_000), &mut controller.priority);
}

/// Visits a traffic set.
pub(super) fn traffic_set(body: &mut Body<'_>, metadata: &Metadata, set: &mut TrafficSet) {
    if super::paths::is_collection_word(metadata.name.as_str()) {
        let reserved = "inbound-intents, outbound-intents, compound-intents";
        body.error_at("metadata.name", format!("{reserved} are words of paths; choose another name"));
    }
    body.field(homed("set", &["spec"], &["set"]), &List(1_000, ENTRY), &mut set.set);
}

/// An intent of a set, by its kind and name.
const ENTRY: Custom<SetEntry> = Custom {
    parse: entry,
    write: |entry| {
        let (key, name) = match entry {
            SetEntry::Compound(name) => ("compound", name),
            SetEntry::Inbound(name) => ("inbound", name),
            SetEntry::Outbound(name) => ("outbound", name),
        };
        Json::map([(key, name.as_str().into())])
    },
    schema: || {
        let name = INTENT_NAME.schema();
        json!({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
            "properties": {"inbound": name, "outbound": name, "compound": name}})
    },
};

fn entry(json: &Json) -> Result<SetEntry, Errors> {
    let example = "{\"inbound\": \"shop\"}, or outbound or compound";
    let Json::Map(entries) = json else {
        return invalid(format!("{} is not an entry of a set; write {example}", json.what()));
    };
    let [(key, value)] = &entries[..] else { return invalid(format!("an entry names one intent; write {example}")) };
    let named = INTENT_NAME.parse(value).map_err(|errors| below(&super::error::step(key), errors))?;
    match &*fold(key) {
        "inbound" => Ok(SetEntry::Inbound(named)),
        "outbound" => Ok(SetEntry::Outbound(named)),
        "compound" => Ok(SetEntry::Compound(named)),
        _ => invalid(format!("{key:?} is not a kind of intent; write {example}")),
    }
}
