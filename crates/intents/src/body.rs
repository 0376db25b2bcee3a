//! Bodies of every kind: parsing, the stored form and the public form.
//!
//! ```text
//! bytes ─► Json ─► keys to fields ─► values ─► Intent ─► canonical, with secrets     (stored)
//!                                                    └─► canonical, without secrets  (public; can be sent again)
//! ```

use std::{collections::HashMap, sync::LazyLock};

use fairway_model::intent::{
    AccessPoint, Client, CompositeApp, Compound, Controller, DeploymentGroup, DnsUpdateRecord, Inbound, Intent,
    IntentName, IntentSpec, Metadata, Outbound, OutboundServer, ProviderParameter, TrafficSet,
};
use serde_json::Value;

use super::{
    common,
    error::{BodyError, InvalidBody},
    fields::{Body, Table},
    groups, inbound,
    json_wire::Json,
    mesh, others,
    paths::{IntentPath, KEY_FORM},
    updates,
};
use fairway_store::objects::{Key, Kind, Object};

/// Parses a body of a kind. `before` is the object that it replaces, whose secrets it may keep.
pub fn read(kind: Kind, bytes: &[u8], before: Option<&Intent>) -> Result<Intent, InvalidBody> {
    read_as(kind, bytes, before, false)
}

/// Parses a stored value.
pub fn read_stored(kind: Kind, bytes: &[u8]) -> Result<Intent, InvalidBody> {
    read_as(kind, bytes, None, true)
}

fn read_as(kind: Kind, bytes: &[u8], before: Option<&Intent>, is_stored: bool) -> Result<Intent, InvalidBody> {
    let json = Json::read(bytes)?;
    let (Some(mut intent), Some(table)) = (empty(kind), table(kind)) else {
        let detail = format!("a {} is not an object of the intent API; see /v1", kind.word());
        return Err(BodyError::new("", detail).into());
    };
    let mut body = Body::of(&json, table);
    body.before = before;
    body.is_stored = is_stored;
    let nameless = matches!(json, Json::Map(_)) && body.found("metadata.name").next().is_none();
    fields(&mut body, &mut intent);
    let errors = body.into_errors();
    if errors.is_empty() { Ok(intent) } else { Err(InvalidBody { errors, nameless }) }
}

/// Validates an intent. Returns its key and the value to store, or all errors. `before` returns the object that it replaces, whose secrets it
/// may keep. `is_inert` allows denials that nothing enforces.
pub fn validate<'a>(
    key: &str,
    intent: &Value,
    is_inert: bool,
    before: impl Fn(&Key) -> Option<&'a Intent>,
) -> Result<(Key, Vec<u8>), Vec<BodyError>> {
    let what = || format!("{key:?} is not the key of an intent; {KEY_FORM}");
    let place = IntentPath::of_key(key).map_err(|_| vec![BodyError::new("/key", what())])?;
    let own = place.key(None);
    let read = read(place.kind, intent.to_string().as_bytes(), before(&own))
        .map_err(|invalid| invalid.within("/intent").errors)?;
    if let Some(error) = mesh::unenforced_denial(&read, before(&own)).filter(|_| !is_inert) {
        return Err(InvalidBody::from(error).within("/intent").errors);
    }
    match place.name_mismatch(&read) {
        Some(detail) => Err(vec![BodyError::new("/intent/metadata/name", detail)]),
        None => Ok((own, to_stored(&read))),
    }
}

/// Returns the fields of a kind; `None` if it is no kind of the intent API.
pub(super) fn table(kind: Kind) -> Option<&'static Table> {
    static TABLES: LazyLock<HashMap<Kind, Table>> = LazyLock::new(|| {
        let table = |kind: &Kind| {
            let mut body = Body::to_describe();
            fields(&mut body, &mut empty(*kind)?);
            Some((*kind, body.into_table()))
        };
        Kind::ALL.iter().filter_map(table).collect()
    });
    TABLES.get(&kind)
}

/// Returns an object with the defaults of a kind, to read a body into; `None` if it is no kind of the intent API.
fn empty(kind: Kind) -> Option<Intent> {
    let unnamed = || IntentName::new("unnamed").expect("a valid literal");
    let spec = match kind {
        Kind::AccessPoint => IntentSpec::AccessPoint(AccessPoint::default()),
        Kind::Client => IntentSpec::Client(Client::default()),
        Kind::CompositeApp => IntentSpec::CompositeApp(CompositeApp { version: unnamed() }),
        Kind::Compound => IntentSpec::Compound(Compound::default()),
        Kind::Controller => IntentSpec::Controller(Controller { priority: 1, ..Controller::default() }),
        Kind::DeploymentGroup => IntentSpec::DeploymentGroup(DeploymentGroup::default()),
        Kind::DnsUpdateRecord => IntentSpec::DnsUpdateRecord(DnsUpdateRecord::default()),
        Kind::Inbound | Kind::InboundOfCompound => IntentSpec::Inbound(Inbound::default()),
        Kind::Outbound => IntentSpec::Outbound(Outbound::default()),
        Kind::OutboundServer => IntentSpec::OutboundServer(OutboundServer::default()),
        Kind::Project => IntentSpec::Project,
        Kind::TrafficGroup => IntentSpec::TrafficGroup,
        Kind::TrafficSet => IntentSpec::TrafficSet(TrafficSet::default()),
        _ => return None,
    };
    Some(Intent { metadata: Metadata::new(unnamed()), spec })
}

/// Visits the fields of an intent, in the order of its canonical form.
fn fields(body: &mut Body<'_>, Intent { metadata, spec }: &mut Intent) {
    if let IntentSpec::TrafficSet(_) = spec {
        // The canonical form of a set is that of the wiki: all fields are in the body itself.
        body.write("name", metadata.name.as_str());
        body.write("description", metadata.description.as_str());
    }
    common::metadata(body, metadata);
    match spec {
        IntentSpec::AccessPoint(point) => others::access_point(body, point),
        IntentSpec::Client(client) => others::client(body, client),
        IntentSpec::CompositeApp(app) => groups::composite_app(body, app),
        IntentSpec::Compound(compound) => others::compound(body, compound),
        IntentSpec::Controller(controller) => groups::controller(body, controller),
        IntentSpec::DeploymentGroup(group) => groups::deployment_group(body, group),
        IntentSpec::DnsUpdateRecord(record) => updates::fields(body, record),
        IntentSpec::Inbound(of) => inbound::fields(body, of),
        IntentSpec::Outbound(outbound) => others::outbound(body, outbound),
        IntentSpec::OutboundServer(server) => others::outbound_server(body, server),
        IntentSpec::Project | IntentSpec::TrafficGroup => {}
        IntentSpec::TrafficSet(set) => groups::traffic_set(body, metadata, set),
    }
}

/// Returns the canonical text to store, without empty fields. It has secrets and must not be shown.
pub fn to_stored(intent: &Intent) -> Vec<u8> {
    write(intent, true).to_text()
}

/// Returns the canonical form without secrets.
pub fn to_public(intent: &Intent) -> Json {
    write(intent, false)
}

fn write(intent: &Intent, is_stored: bool) -> Json {
    let mut body = Body::to_write(is_stored);
    fields(&mut body, &mut intent.clone());
    let mut json = body.into_json();
    // A compound has its steering settings in `spec` itself, and no members.
    if let (IntentSpec::Compound(_), Some(Json::Map(spec))) = (&intent.spec, json.get_mut("spec"))
        && let Some((_, Json::Map(steering))) = spec.pop_if(|(key, _)| key == "gslb")
    {
        spec.extend(steering.into_iter().filter(|(key, _)| key != "members"));
    }
    json
}

/// Returns a stored value without its secrets; `None` if it is not of this kind. History, watches and plans show stored values.
pub fn public_value(kind: Kind, stored: &[u8]) -> Option<Vec<u8>> {
    read_stored(kind, stored).ok().map(|intent| to_public(&intent).to_text())
}

/// Returns a stored value without its secrets; `None` if it has none. The store keeps only that in its history.
pub fn without_secrets(kind: Kind, stored: &[u8]) -> Option<Vec<u8>> {
    if !matches!(kind, Kind::DnsUpdateRecord | Kind::Inbound | Kind::InboundOfCompound | Kind::OutboundServer) {
        return None;
    }
    let intent = read_stored(kind, stored).ok()?;
    has_secrets(&intent).then(|| to_public(&intent).to_text())
}

fn has_secrets(intent: &Intent) -> bool {
    let is_secret = |parameter: &ProviderParameter| matches!(parameter, ProviderParameter::Secret(_));
    match &intent.spec {
        IntentSpec::DnsUpdateRecord(record) => record.parameters.values().any(is_secret),
        _ => intent.private_key().is_some(),
    }
}

/// Returns the intent of a stored object; `None` if it cannot be parsed.
pub fn parse_stored(object: &Object) -> Option<Intent> {
    read_stored(object.key.kind(), &object.value).ok()
}

/// Returns the error of a stored value that cannot be parsed: another version wrote it.
pub fn unreadable(invalid: &InvalidBody) -> BodyError {
    BodyError::new("", format!("the stored value is not canonical: {invalid}; see `fairway store verify`"))
}
