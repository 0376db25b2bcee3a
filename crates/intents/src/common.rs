//! Fields that bodies of several kinds have: metadata, labels, protocols.

use fairway_model::intent::{IntentName, Metadata};

use super::{
    fields::{Body, Field},
    json_wire::Json,
    values::{Errors, invalid, text},
};

/// Fields of metadata. Responses also have the name in the body itself; sets have name and description there only.
pub(super) const METADATA: &[Field] = &[
    Field::homed("metadata.name", &[""], &["name"]),
    Field::homed("metadata.description", &[""], &["description"]),
    Field::plain("metadata.userData1"),
    Field::plain("metadata.userData2"),
];

/// Parses metadata; `None` without a valid name.
pub(super) fn metadata(body: &mut Body<'_>) -> Option<Metadata> {
    let description = body.text("metadata.description", 1_024);
    let user_data1 = body.text("metadata.userData1", 512);
    let user_data2 = body.text("metadata.userData2", 512);
    body.need("metadata.name", "\"shop\"");
    let name = body.read("metadata.name", name)?;
    Some(Metadata { name, description, user_data1, user_data2 })
}

/// Returns the canonical form.
pub(super) fn write_metadata(metadata: &Metadata) -> Json {
    Json::map([
        ("name", metadata.name.as_str().into()),
        ("description", metadata.description.as_str().into()),
        ("userData1", metadata.user_data1.as_str().into()),
        ("userData2", metadata.user_data2.as_str().into()),
    ])
}

/// Parses the name of an object.
pub(super) fn name(json: &Json) -> Result<IntentName, Errors> {
    IntentName::new(&text(json, 1_024)?).or_else(|error| invalid(error.to_string()))
}

/// Parses the label of a workload, `key=value`.
pub(super) fn label(body: &mut Body<'_>, path: &'static str) -> String {
    let label = body.read(path, |json| {
        let label = text(json, LABEL_MAX)?;
        match label.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.contains('=') => Ok(label),
            _ => invalid(format!("{label:?} is not a label; write it like app=shop")),
        }
    });
    label.unwrap_or_default()
}

/// Maximum length of names of apps, services, namespaces and labels.
pub(super) const LABEL_MAX: usize = 255;
