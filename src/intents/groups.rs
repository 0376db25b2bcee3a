//! Projects, apps, groups, sets, records to publish, controllers: reading and canonical form.

use std::collections::BTreeMap;

use fairway_model::intent::{CompositeApp, Controller, DeploymentGroup, DnsUpdateRecord, SetEntry, TrafficSet};

use super::{
    common::{self, LABEL_MAX, metadata, name},
    fault::Fault,
    fields::{Body, Field, Table, fold},
    gslb::PORTS,
    json_wire::Json,
    values::{Flaws, below, flaw, list, text},
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
/// Fields of a record of where to publish. The older body, of `dnsproviders`, has them in the one entry of `dnsProvider`.
pub(super) static DNS_UPDATE_RECORD: Table = Table::of(&[
    common::METADATA,
    &[
        Field::homed("spec.provider", &["dnsprovider"], &["id", "provider"]),
        Field::homed("spec.parameters", &["dnsprovider"], &["externaldnsparameters", "parameters"]),
        Field::homed("spec.bind", &["dnsprovider"], &["clusterselector", "bind"]),
    ],
]);
/// Fields of a controller.
pub(super) static CONTROLLER: Table = Table::of(&[
    common::METADATA,
    &[Field::plain("spec.host"), Field::plain("spec.port"), Field::plain("spec.type"), Field::plain("spec.priority")],
]);

/// Reads a composite app.
pub(super) fn composite_app(body: &mut Body<'_>) -> Option<CompositeApp> {
    body.need("spec.compositeAppVersion", "\"v1\"");
    let version = body.read("spec.compositeAppVersion", name);
    Some(CompositeApp { metadata: metadata(body)?, version: version? })
}

/// Reads a deployment-intent-group.
pub(super) fn deployment_group(body: &mut Body<'_>) -> Option<DeploymentGroup> {
    Some(DeploymentGroup {
        metadata: metadata(body)?,
        composite_profile: body.text("spec.compositeProfile", LABEL_MAX),
        version: body.text("spec.version", LABEL_MAX),
        logical_cloud: body.text("spec.logicalCloud", LABEL_MAX),
    })
}

/// The canonical form of its `spec`.
pub(super) fn write_deployment_group(group: &DeploymentGroup) -> Json {
    Json::map([
        ("compositeProfile", group.composite_profile.as_str().into()),
        ("version", group.version.as_str().into()),
        ("logicalCloud", group.logical_cloud.as_str().into()),
    ])
}

/// Reads a traffic set.
pub(super) fn traffic_set(body: &mut Body<'_>) -> Option<TrafficSet> {
    let metadata = metadata(body)?;
    let reserved = ["inbound-intents", "outbound-intents", "compound-intents"];
    if super::paths::is_collection_word(metadata.name.as_str()) {
        let detail = format!("the paths of {} stand where this set would; give another name", reserved.join(", "));
        body.fault_at("metadata.name", detail);
    }
    Some(TrafficSet { metadata, set: body.list("set", 1_000, entry) })
}

fn entry(json: &Json) -> Result<SetEntry, Flaws> {
    let example = "{\"inbound\": \"shop\"}, or outbound or compound";
    let Json::Map(entries) = json else {
        return flaw(format!("{} is no entry of a set; write {example}", json.what()));
    };
    let [(key, value)] = &entries[..] else { return flaw(format!("an entry names one intent; write {example}")) };
    let named = name(value).map_err(|flaws| below(&super::fault::step(key), flaws))?;
    match fold(key).as_str() {
        "inbound" => Ok(SetEntry::Inbound(named)),
        "outbound" => Ok(SetEntry::Outbound(named)),
        "compound" => Ok(SetEntry::Compound(named)),
        _ => flaw(format!("{key:?} is no kind of intent; write {example}")),
    }
}

/// The canonical form: as the seed has it, with everything in the body itself.
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

/// Reads a record of where to publish.
pub(super) fn dns_update_record(body: &mut Body<'_>) -> Option<DnsUpdateRecord> {
    let metadata = metadata(body)?;
    let given = body.needed_text("spec.provider", LABEL_MAX, "\"rfc2136\"").to_ascii_lowercase();
    let provider = match given.as_str() {
        "pdns" => "powerdns".to_owned(),
        "coredns" => "etcd".to_owned(),
        _ => given,
    };
    Some(DnsUpdateRecord {
        metadata,
        provider,
        parameters: body.read("spec.parameters", parameters).unwrap_or_default(),
        bind: body.read("spec.bind", bind).unwrap_or_default(),
    })
}

fn parameters(json: &Json) -> Result<BTreeMap<String, String>, Flaws> {
    let Json::Map(entries) = json else {
        return flaw(format!("{} is no object; write {{\"etcd-urls\": \"http://127.0.0.1:2379\"}}", json.what()));
    };
    if entries.len() > 256 {
        return flaw(format!("there are {} parameters; 256 is the most", entries.len()));
    }
    let mut parameters = BTreeMap::new();
    let mut flaws = Vec::new();
    for (key, value) in entries {
        let way = super::fault::step(key);
        let written = match value {
            Json::Bool(bool) => Ok(bool.to_string()),
            other => text(other, 4_096),
        };
        match written {
            _ if key.is_empty() || key.len() > 128 => {
                flaws.push(Fault::new(way, "is no parameter; give 1 to 128 characters"))
            }
            Ok(value) => drop(parameters.insert(key.trim_start_matches('-').to_owned(), value)),
            Err(found) => flaws.extend(below(&way, found)),
        }
    }
    if flaws.is_empty() { Ok(parameters) } else { Err(flaws) }
}

/// `[{"cluster": "p1+c1"}, {"logicalCloud": "lc1"}]`, or one such object with several keys.
fn bind(json: &Json) -> Result<Vec<(String, String)>, Flaws> {
    let pairs = |json: &Json| match json {
        Json::Map(entries) => entries.iter().map(|(key, value)| bound_to(key, value)).collect::<Result<Vec<_>, _>>(),
        other => flaw(format!("{} binds to nothing; write {{\"cluster\": \"eu1\"}}", other.what())),
    };
    if matches!(json, Json::Map(_)) {
        return pairs(json);
    }
    Ok(list(json, 256, pairs)?.into_iter().flatten().collect())
}

fn bound_to(key: &str, value: &Json) -> Result<(String, String), Flaws> {
    let kind = match fold(key).as_str() {
        "cluster" | "edge" => "cluster",
        "logicalcloud" => "logicalCloud",
        _ => return flaw(format!("{key:?} is nothing to bind to; it is cluster or logicalCloud")),
    };
    Ok((kind.to_owned(), text(value, LABEL_MAX)?))
}

/// The canonical form of its `spec`.
pub(super) fn write_dns_update_record(record: &DnsUpdateRecord) -> Json {
    let parameters = record.parameters.iter().map(|(key, value)| (key.clone(), Json::from(value.as_str())));
    let bind = record.bind.iter().map(|(key, value)| Json::map([(key, value.as_str().into())]));
    Json::map([
        ("provider", record.provider.as_str().into()),
        ("parameters", Json::Map(parameters.collect())),
        ("bind", Json::List(bind.collect())),
    ])
}

/// Reads a controller.
pub(super) fn controller(body: &mut Body<'_>) -> Option<Controller> {
    body.need("spec.port", "9040");
    let port = body.whole("spec.port", PORTS);
    let host = body.needed_text("spec.host", LABEL_MAX, "\"127.0.0.1\"");
    let kind = body.text("spec.type", LABEL_MAX);
    // EMCO's schema ends at 100, its code at a million.
    let priority = body.whole("spec.priority", 1..=1_000_000).unwrap_or(1);
    Some(Controller { metadata: metadata(body)?, host, port: port?, kind, priority })
}

/// The canonical form of its `spec`.
pub(super) fn write_controller(controller: &Controller) -> Json {
    Json::map([
        ("host", controller.host.as_str().into()),
        ("port", u64::from(controller.port).into()),
        ("type", controller.kind.as_str().into()),
        ("priority", u64::from(controller.priority).into()),
    ])
}
