//! JSON Schemas of bodies, generated from the fields of each kind and the forms of their values.
//!
//! They describe the canonical form, which responses have. Requests may have other names, places and forms of values (`fields`, `values`).
//! Rules between fields are not in the schemas.

use serde_json::{Map, Value, json};

use super::{body::table, paths::templates};
use fairway_store::objects::Kind;

/// Returns the name of the component for bodies of a kind.
pub fn component(kind: Kind) -> String {
    match kind {
        Kind::InboundOfCompound => component(Kind::Inbound),
        kind => format!("{kind:?}Body"),
    }
}

/// Returns the schema of each kind of body, by component.
pub fn body_schemas() -> Map<String, Value> {
    templates().iter().map(|form| (component(form.kind), of(form.kind))).collect()
}

fn of(kind: Kind) -> Value {
    let mut root = json!({"type": "object", "properties": {}});
    for (field, schema) in table(kind).into_iter().flat_map(|table| &table.fields) {
        let (place, name) = field.path.rsplit_once('.').unwrap_or(("", field.path));
        let mut at = &mut root;
        for step in place.split('.').filter(|step| !step.is_empty()) {
            at = at["properties"]
                .as_object_mut()
                .expect("a place is not a field")
                .entry(step)
                .or_insert_with(|| json!({"type": "object", "properties": {}}));
        }
        at["properties"][name] = json!({"anyOf": [schema, {"type": "null"}]});
    }
    for (name, what) in RESPONSE_KEYS {
        root["properties"][*name] = json!({"type": "string", "readOnly": true, "description": what});
    }
    root["properties"]["status"] = json!({"$ref": "#/components/schemas/IntentStatus"});
    root["properties"]["warnings"] = json!({"type": "array", "items": {"type": "string"}, "readOnly": true,
        "description": "Warnings about an accepted object."});
    root
}

/// Keys that responses have in the body itself.
const RESPONSE_KEYS: &[(&str, &str)] = &[
    ("name", "The name of the object again. In requests it may be here only."),
    ("Message", "A message about the write."),
];

/// Pattern of names in EMCO.
pub const NAME: &str = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$";

#[cfg(test)]
mod tests {
    use fairway_model::intent::IntentName;

    use super::*;

    #[test]
    fn every_field_has_a_schema() {
        for kind in templates().iter().map(|form| form.kind) {
            for (field, schema) in &table(kind).unwrap().fields {
                assert_ne!(schema, &json!({}), "{kind:?}: {}", field.path);
            }
        }
        assert_eq!(of(Kind::Inbound)["properties"]["spec"]["properties"]["port"]["anyOf"][0]["maximum"], 65_535);
    }

    #[test]
    fn pattern_accepts_valid_names_only() {
        let validator = jsonschema::validator_for(&json!({"pattern": NAME})).unwrap();
        let (long, longer) = ("a".repeat(128), "a".repeat(129));
        for name in ["a", "a-b", "v1.0_2", "-a", "a-", "", "a b", "a/b", "ä", &long, &longer] {
            assert_eq!(validator.is_valid(&json!(name)), IntentName::new(name).is_ok(), "{name}");
        }
    }
}
