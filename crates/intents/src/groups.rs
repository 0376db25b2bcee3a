//! Projects, apps, groups, sets, controllers: parsing and canonical form.

use fairway_model::intent::{CompositeApp, Controller, DeploymentGroup, SetEntry, TrafficSet};

use super::{
    common::{self, LABEL_MAX, metadata, name},
    fields::{Body, Field, Table, fold},
    gslb::PORTS,
    json_wire::Json,
    values::{Errors, below, invalid},
};

/// Fields of a project, and of a traffic group.
pub(super) static PLAIN: Table = Table::of(&[common::METADATA]);
/// Fields of a composite app.
pub(super) static COMPOSITE_APP: Table =
    Table::of(&[common::METADATA, &[Field::named("spec.compositeAppVersion", &["version"])]]);
/// Fields of a deployment-intent-group.
pub(super) static DEPLOYMENT_GROUP: Table = Table::of(&[
    common::METADATA,
    &[
        Field::named("spec.compositeProfile", &["profile"]),
        Field::plain("spec.version"),
        Field::plain("spec.logicalCloud"),
    ],
]);
/// Fields of a traffic set.
pub(super) static TRAFFIC_SET: Table = Table::of(&[common::METADATA, &[Field::homed("set", &["spec"], &["set"])]]);
/// Fields of a controller.
pub(super) static CONTROLLER: Table = Table::of(&[
    common::METADATA,
    &[Field::plain("spec.host"), Field::plain("spec.port"), Field::plain("spec.type"), Field::plain("spec.priority")],
]);

/// Parses a composite app.
pub(super) fn composite_app(body: &mut Body<'_>) -> Option<CompositeApp> {
    body.need("spec.compositeAppVersion", "\"v1\"");
    let version = body.read("spec.compositeAppVersion", name);
    Some(CompositeApp { metadata: metadata(body)?, version: version? })
}

/// Parses a deployment-intent-group.
pub(super) fn deployment_group(body: &mut Body<'_>) -> Option<DeploymentGroup> {
    Some(DeploymentGroup {
        metadata: metadata(body)?,
        composite_profile: body.text("spec.compositeProfile", LABEL_MAX),
        version: body.text("spec.version", LABEL_MAX),
        logical_cloud: body.text("spec.logicalCloud", LABEL_MAX),
    })
}

/// Returns the canonical form of `spec`.
pub(super) fn write_deployment_group(group: &DeploymentGroup) -> Json {
    Json::map([
        ("compositeProfile", group.composite_profile.as_str().into()),
        ("version", group.version.as_str().into()),
        ("logicalCloud", group.logical_cloud.as_str().into()),
    ])
}

/// Parses a traffic set.
pub(super) fn traffic_set(body: &mut Body<'_>) -> Option<TrafficSet> {
    let metadata = metadata(body)?;
    let reserved = ["inbound-intents", "outbound-intents", "compound-intents"];
    if super::paths::is_collection_word(metadata.name.as_str()) {
        let detail = format!("{} are words of paths; choose another name", reserved.join(", "));
        body.error_at("metadata.name", detail);
    }
    Some(TrafficSet { metadata, set: body.list("set", 1_000, entry) })
}

fn entry(json: &Json) -> Result<SetEntry, Errors> {
    let example = "{\"inbound\": \"shop\"}, or outbound or compound";
    let Json::Map(entries) = json else {
        return invalid(format!("{} is not an entry of a set; write {example}", json.what()));
    };
    let [(key, value)] = &entries[..] else { return invalid(format!("an entry names one intent; write {example}")) };
    let named = name(value).map_err(|errors| below(&super::error::step(key), errors))?;
    match &*fold(key) {
        "inbound" => Ok(SetEntry::Inbound(named)),
        "outbound" => Ok(SetEntry::Outbound(named)),
        "compound" => Ok(SetEntry::Compound(named)),
        _ => invalid(format!("{key:?} is not a kind of intent; write {example}")),
    }
}

/// Returns the canonical form, which is that of the wiki: all fields are in the body itself.
pub(super) fn write_traffic_set(set: &TrafficSet) -> Json {
    let entries = set.set.iter().map(|entry| match entry {
        SetEntry::Compound(name) => Json::map([("compound", name.as_str().into())]),
        SetEntry::Inbound(name) => Json::map([("inbound", name.as_str().into())]),
        SetEntry::Outbound(name) => Json::map([("outbound", name.as_str().into())]),
    });
    let metadata = &set.metadata;
    Json::map([
        ("name", metadata.name.as_str().into()),
        ("description", metadata.description.as_str().into()),
        ("metadata", common::write_metadata(metadata)),
        ("set", Json::List(entries.collect())),
    ])
}

/// Parses a controller.
pub(super) fn controller(body: &mut Body<'_>) -> Option<Controller> {
    body.need("spec.port", "9040");
    let port = body.whole("spec.port", PORTS);
    let host = body.needed_text("spec.host", LABEL_MAX, "\"127.0.0.1\"");
    let kind = body.text("spec.type", LABEL_MAX);
    // EMCO's schema allows 100, its code a million.
    let priority = body.whole("spec.priority", 1..=1_000_000).unwrap_or(1);
    Some(Controller { metadata: metadata(body)?, host, port: port?, kind, priority })
}

/// Returns the canonical form of `spec`.
pub(super) fn write_controller(controller: &Controller) -> Json {
    Json::map([
        ("host", controller.host.as_str().into()),
        ("port", u64::from(controller.port).into()),
        ("type", controller.kind.as_str().into()),
        ("priority", u64::from(controller.priority).into()),
    ])
}
