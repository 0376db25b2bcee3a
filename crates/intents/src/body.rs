//! Bodies of every kind: parsing, the stored form and the public form.
//!
//! ```text
//! bytes ─► Json ─► keys to fields ─► values ─► Intent ─► canonical, with secrets     (stored)
//!                                                    └─► canonical, without secrets  (public; can be sent again)
//! ```

use fairway_model::intent::{Intent, Project, TrafficGroup};
use serde_json::Value;

use super::{
    certificates::{self, SecretForm},
    common,
    error::{BodyError, InvalidBody},
    fields::{Body, Notes, Table},
    groups, inbound,
    json_wire::Json,
    others,
    paths::{IntentPath, KEY_FORM},
    updates,
};
use fairway_store::objects::{Key, Kind, Object};

/// Parses a body of a kind. `before` is the object that it replaces, whose secrets it may keep.
pub fn read(kind: Kind, bytes: &[u8], before: Option<&Intent>) -> Result<Intent, InvalidBody> {
    let json = Json::read(bytes)?;
    read_sorted(kind, &json, Body::sort(table(kind), &json), before)
}

/// Parses a stored value.
pub fn read_stored(kind: Kind, bytes: &[u8]) -> Result<Intent, InvalidBody> {
    let json = Json::read(bytes)?;
    read_sorted(kind, &json, Body::sort(table(kind), &json).stored(), None)
}

fn read_sorted(kind: Kind, json: &Json, mut body: Body<'_>, before: Option<&Intent>) -> Result<Intent, InvalidBody> {
    let nameless = matches!(json, Json::Map(_)) && body.found("metadata.name").next().is_none();
    let intent = of_kind(kind, &mut body, before);
    let errors = body.into_errors();
    match intent {
        Some(intent) if errors.is_empty() => Ok(intent),
        _ => Err(InvalidBody { errors, nameless }),
    }
}

/// Validates an intent. Returns its key and the value to store, or all errors. `before` returns the object that it replaces, whose secrets it
/// may keep.
pub fn validate<'a>(
    key: &str,
    intent: &Value,
    before: impl Fn(&Key) -> Option<&'a Intent>,
) -> Result<(Key, Vec<u8>), Vec<BodyError>> {
    let what = || format!("{key:?} is not the key of an intent; {KEY_FORM}");
    let place = IntentPath::of_key(key).map_err(|_| vec![BodyError::new("/key", what())])?;
    let own = place.key(None);
    let read = read(place.kind, intent.to_string().as_bytes(), before(&own))
        .map_err(|invalid| invalid.within("/intent").errors)?;
    match place.name_mismatch(&read) {
        Some(detail) => Err(vec![BodyError::new("/intent/metadata/name", detail)]),
        None => Ok((own, to_stored(&read))),
    }
}

/// Returns the constraints of the fields of a kind, for its JSON Schema.
pub(super) fn notes(kind: Kind) -> Notes {
    let name = Json::map([("metadata", Json::map([("name", "a".into())]))]);
    let mut body = Body::sort(table(kind), &name).noting();
    _ = of_kind(kind, &mut body, None);
    body.into_notes()
}

fn of_kind(kind: Kind, body: &mut Body<'_>, before: Option<&Intent>) -> Option<Intent> {
    let key = before.and_then(Intent::private_key);
    match kind {
        Kind::AccessPoint => others::access_point(body).map(Intent::AccessPoint),
        Kind::Client => others::client(body).map(Intent::Client),
        Kind::CompositeApp => groups::composite_app(body).map(Intent::CompositeApp),
        Kind::Compound => others::compound(body).map(Intent::Compound),
        Kind::Controller => groups::controller(body).map(Intent::Controller),
        Kind::DeploymentGroup => groups::deployment_group(body).map(Intent::DeploymentGroup),
        Kind::DnsUpdateRecord => updates::read(body, before).map(Intent::DnsUpdateRecord),
        Kind::Inbound | Kind::InboundOfCompound => inbound::read(body, key).map(Intent::Inbound),
        Kind::Outbound => others::outbound(body).map(Intent::Outbound),
        Kind::OutboundServer => others::outbound_server(body, key).map(Intent::OutboundServer),
        Kind::Project => common::metadata(body).map(|metadata| Intent::Project(Project { metadata })),
        Kind::TrafficGroup => common::metadata(body).map(|metadata| Intent::TrafficGroup(TrafficGroup { metadata })),
        Kind::TrafficSet => groups::traffic_set(body).map(Intent::TrafficSet),
        _ => {
            body.error("", format!("a {} is not an object of the intent API; see /v1", kind.word()));
            None
        }
    }
}

pub(super) fn table(kind: Kind) -> &'static Table {
    match kind {
        Kind::AccessPoint => &others::ACCESS_POINT,
        Kind::Client => &others::CLIENT,
        Kind::CompositeApp => &groups::COMPOSITE_APP,
        Kind::Compound => &others::COMPOUND,
        Kind::Controller => &groups::CONTROLLER,
        Kind::DeploymentGroup => &groups::DEPLOYMENT_GROUP,
        Kind::DnsUpdateRecord => &updates::TABLE,
        Kind::Inbound | Kind::InboundOfCompound => &inbound::TABLE,
        Kind::Outbound => &others::OUTBOUND,
        Kind::OutboundServer => &others::OUTBOUND_SERVER,
        Kind::TrafficSet => &groups::TRAFFIC_SET,
        _ => &groups::PLAIN,
    }
}

/// Returns the canonical text to store, without empty fields. It has secrets and must not be shown.
pub fn to_stored(intent: &Intent) -> Vec<u8> {
    write(intent, SecretForm::Plain).pruned().to_text()
}

/// Returns the canonical form without secrets.
pub fn to_public(intent: &Intent) -> Json {
    write(intent, SecretForm::Hashed)
}

/// Returns a stored value without its secrets; `None` if it is not of this kind. History, watches and plans show stored values.
pub fn public_value(kind: Kind, stored: &[u8]) -> Option<Vec<u8>> {
    read_stored(kind, stored).ok().map(|intent| to_public(&intent).to_text())
}

fn write(intent: &Intent, form: SecretForm) -> Json {
    let spec = match intent {
        Intent::AccessPoint(point) => others::write_access_point(point),
        Intent::Client(client) => others::write_client(client),
        Intent::CompositeApp(app) => Json::map([("compositeAppVersion", app.version.as_str().into())]),
        Intent::Compound(compound) => others::write_compound(compound),
        Intent::Controller(controller) => groups::write_controller(controller),
        Intent::DeploymentGroup(group) => groups::write_deployment_group(group),
        Intent::DnsUpdateRecord(record) => updates::write(record, form),
        Intent::Inbound(of) => inbound::write(of, certificates::write(&of.certificates, form)),
        Intent::Outbound(outbound) => others::write_outbound(outbound),
        Intent::OutboundServer(server) => others::write_outbound_server(server, form),
        Intent::Project(_) | Intent::TrafficGroup(_) => {
            return Json::map([("metadata", common::write_metadata(intent.metadata()))]);
        }
        Intent::TrafficSet(set) => return groups::write_traffic_set(set),
    };
    Json::map([("metadata", common::write_metadata(intent.metadata())), ("spec", spec)])
}

/// Returns the intent of a stored object; `None` if it cannot be parsed.
pub fn parse_stored(object: &Object) -> Option<Intent> {
    read_stored(object.key.kind(), &object.value).ok()
}

/// Returns the error of a stored value that cannot be parsed: another version wrote it.
pub fn unreadable(invalid: &InvalidBody) -> BodyError {
    BodyError::new("", format!("the stored value is not canonical: {invalid}; see `fairway store verify`"))
}
