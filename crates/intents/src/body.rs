//! Bodies of every kind: what comes in, what is kept, what is shown.
//!
//! ```text
//! octets ─► Json ─► keys to fields ─► values ─► Intent ─► canonical, with secrets     (kept)
//!                                                     └─► canonical, without secrets  (shown; can be sent again)
//! ```

use fairway_model::intent::{Intent, Project, TrafficGroup};
use serde_json::Value;

use super::{
    certificates::{self, Keys},
    common,
    fault::{Fault, Refused},
    fields::{Body, Notes, Table},
    groups, inbound,
    json_wire::Json,
    others,
    paths::{KEY_FORM, Place},
    relations::is_named_otherwise,
    updates,
};
use fairway_api_types::problem_wire::FieldError;
use fairway_store::objects::{Key, Kind, Object};

/// Reads a body of a kind. `before` is the object it takes the place of, whose secrets it may keep.
pub fn read(kind: Kind, octets: &[u8], before: Option<&Intent>) -> Result<Intent, Refused> {
    let json = Json::read(octets)?;
    read_sorted(kind, &json, Body::sort(table(kind), &json), before)
}

/// Reads what the store keeps.
pub fn read_kept(kind: Kind, octets: &[u8]) -> Result<Intent, Refused> {
    let json = Json::read(octets)?;
    read_sorted(kind, &json, Body::sort(table(kind), &json).kept(), None)
}

fn read_sorted(kind: Kind, json: &Json, mut body: Body<'_>, before: Option<&Intent>) -> Result<Intent, Refused> {
    let nameless = matches!(json, Json::Map(_)) && body.hits("metadata.name").next().is_none();
    let intent = of_kind(kind, &mut body, before);
    let faults = body.into_faults();
    match intent {
        Some(intent) if faults.is_empty() => Ok(intent),
        _ => Err(Refused { faults, nameless }),
    }
}

/// The key of an intent and the text that is to be kept, or all that is wrong with it. `before` knows what is there, whose secrets it may
/// keep.
pub fn sound<'a>(
    key: &str,
    intent: &Value,
    before: impl Fn(&Key) -> Option<&'a Intent>,
) -> Result<(Key, Vec<u8>), Vec<FieldError>> {
    let flaw = |pointer: &str, detail: String| vec![FieldError { pointer: pointer.to_owned(), detail }];
    let what = || format!("{key:?} is no key of an intent; {KEY_FORM}");
    let place = Place::of_key(key).map_err(|_| flaw("/key", what()))?;
    let own = place.key(None);
    let read = read(place.kind, intent.to_string().as_bytes(), before(&own)).map_err(|refused| {
        let within = refused.within("/intent").faults.into_iter();
        within.map(|Fault { pointer, detail }| FieldError { pointer, detail }).collect::<Vec<_>>()
    })?;
    match is_named_otherwise(&place, &read) {
        Some(detail) => Err(flaw("/intent/metadata/name", detail)),
        None => Ok((own, to_keep(&read))),
    }
}

/// What the reader of a kind asks its fields to be.
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
            body.fault("", format!("a {} is no object of the intent API; see /v1", kind.word()));
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

/// The canonical text that the store keeps, without what says nothing. It holds secrets: nobody is shown it.
pub fn to_keep(intent: &Intent) -> Vec<u8> {
    write(intent, Keys::Kept).pruned().to_text()
}

/// The canonical form that anybody may be shown.
pub fn to_show(intent: &Intent) -> Json {
    write(intent, Keys::Shown)
}

/// What may be shown of a kept text; `None` if it is not one of this kind.
///
/// For whatever shows the octets of a store (history, watch, plans): what is kept has secrets in it.
pub fn shown(kind: Kind, kept: &[u8]) -> Option<Vec<u8>> {
    read_kept(kind, kept).ok().map(|intent| to_show(&intent).to_text())
}

fn write(intent: &Intent, keys: Keys) -> Json {
    let spec = match intent {
        Intent::AccessPoint(point) => others::write_access_point(point),
        Intent::Client(client) => others::write_client(client),
        Intent::CompositeApp(app) => Json::map([("compositeAppVersion", app.version.as_str().into())]),
        Intent::Compound(compound) => others::write_compound(compound),
        Intent::Controller(controller) => groups::write_controller(controller),
        Intent::DeploymentGroup(group) => groups::write_deployment_group(group),
        Intent::DnsUpdateRecord(record) => updates::write(record, keys),
        Intent::Inbound(of) => inbound::write(of, certificates::write(&of.certificates, keys)),
        Intent::Outbound(outbound) => others::write_outbound(outbound),
        Intent::OutboundServer(server) => others::write_outbound_server(server, keys),
        Intent::Project(_) | Intent::TrafficGroup(_) => {
            return Json::map([("metadata", common::write_metadata(intent.metadata()))]);
        }
        Intent::TrafficSet(set) => return groups::write_traffic_set(set),
    };
    Json::map([("metadata", common::write_metadata(intent.metadata())), ("spec", spec)])
}

/// What an object says that is an intent; none where that cannot be read.
pub fn understood(object: &Object) -> Option<Intent> {
    read_kept(object.key.kind(), &object.value).ok()
}

/// A kept text that cannot be read: the store holds what this version did not write.
pub fn unreadable(refused: &Refused) -> Fault {
    Fault::new("", format!("what the store keeps is no canonical text: {refused}; see `fairway store verify`"))
}
