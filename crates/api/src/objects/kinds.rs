//! The kinds of objects that are elements of a configuration's lists, and how they are named.

use fairway_control::declared::section;
use fairway_model::Name;
use fairway_store::objects::{Key, Kind};

/// The kinds that are elements of a configuration's lists.
pub(crate) const KINDS: [Kind; 5] = [Kind::Monitor, Kind::Cluster, Kind::Pool, Kind::Name, Kind::Records];

/// Returns the list of a kind in a configuration: `pools`. It is also the last step of the path of its objects.
pub(crate) fn section_of(kind: Kind) -> &'static str {
    section(kind).unwrap_or_default()
}

/// Returns the path of the objects of a kind: `/v1/pools`.
pub(super) fn path(kind: Kind) -> String {
    fairway_api_types::endpoints::collection(section_of(kind))
}

/// Returns the OpenAPI component of the objects of a kind, which is its definition in the configuration's schema; empty for other kinds.
///
/// Stated here because making that schema takes some 5 ms, which a start need not wait for.
pub(crate) fn component(kind: Kind) -> String {
    match kind {
        Kind::Monitor => "Monitor",
        Kind::Cluster => "Cluster",
        Kind::Pool => "Pool",
        Kind::Name => "SteeredName",
        Kind::Records => "Records",
        _ => "",
    }
    .to_owned()
}

/// Returns the key of an object by its name as people write it; none if no object can have this name.
pub(super) fn key(kind: Kind, name: &str) -> Option<Key> {
    let name = match kind {
        Kind::Name | Kind::Records => name.parse::<Name>().ok()?.to_plain(),
        _ => name.to_owned(),
    };
    Key::new(kind, &[&name]).ok()
}

/// Returns the name of an object in reports: `pools/shop`, or the key of an intent.
pub(super) fn display_name(key: &Key) -> String {
    match section(key.kind()) {
        Some(section) => format!("{section}/{}", key.name()),
        None => key.to_string(),
    }
}
