//! Exports declared objects to the process that replaces this one.

use fairway_api_types::objects_wire::{ExportedObject, ObjectsExport};
use fairway_control::declared::Declared;
use fairway_store::objects::Object;

/// Returns all declared objects as a body of the API.
pub(crate) fn export(declared: &Declared) -> ObjectsExport {
    let exported = |object: &Object| ExportedObject {
        key: object.key.to_string(),
        value: serde_json::from_slice(&object.value).unwrap_or_default(),
        revision: object.revision,
        generation: object.generation,
    };
    ObjectsExport { revision: declared.revision, objects: declared.all().map(exported).collect() }
}
