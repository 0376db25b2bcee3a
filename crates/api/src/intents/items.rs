//! Intents as items of a list.

use fairway_model::intent::Intent;

use super::response::intent_json;
use crate::{objects::response::metadata, render::intent_statuses};
use fairway_api_types::intents_wire::IntentItem;
use fairway_control::Control;
use fairway_store::objects::{Key, Object};

/// True if an intent is in a project.
pub(crate) fn is_in_project(key: &Key, project: &str) -> bool {
    key.names().next() == Some(project)
}

/// Returns intents with their status. One that this version cannot parse has only its key and metadata.
pub(crate) async fn items(control: &Control, objects: Vec<Object>) -> Vec<IntentItem> {
    let parsed: Vec<_> = objects.into_iter().map(|object| (fairway_intents::parse_stored(&object), object)).collect();
    let intents: Vec<_> =
        parsed.iter().filter_map(|(intent, object)| Some((object.clone(), intent.clone()?))).collect();
    let mut statuses = intent_statuses(control, &intents).into_iter();
    let mut json = |intent: Intent| intent_json(&intent, &statuses.next().unwrap_or_default());
    let item = |(intent, object): (Option<Intent>, Object)| IntentItem {
        key: object.key.to_string(),
        metadata: metadata(&object),
        intent: intent.map(&mut json).unwrap_or_default(),
    };
    parsed.into_iter().map(item).collect()
}
