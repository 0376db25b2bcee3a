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

/// Returns the schema of each kind of body, by component, and of the parts that all have.
pub fn body_schemas() -> Map<String, Value> {
    let mut all: Map<_, _> = templates().iter().map(|form| (component(form.kind), of(form.kind))).collect();
    // With a name of its own, or makers of clients call it after one of the kinds.
    let reference = json!({"$ref": "#/components/schemas/IntentMetadata"});
    let metadata =
        all.values_mut().map(|body| std::mem::replace(&mut body["properties"]["metadata"], reference.clone()));
    let mut metadata = metadata.last().expect("there are kinds");
    metadata["description"] = "Name and description of an intent.".into();
    all.insert("IntentMetadata".to_owned(), metadata);
    all
}

fn of(kind: Kind) -> Value {
    let mut root = json!({"type": "object", "properties": {}});
    for (field, schema) in table(kind).into_iter().flat_map(|table| &table.fields) {
        let is_required = table(kind).is_some_and(|table| table.required.contains(&field.path));
        let (place, name) = field.path.rsplit_once('.').unwrap_or(("", field.path));
        let mut at = &mut root;
        for step in place.split('.').filter(|step| !step.is_empty()) {
            require(at, step, is_required);
            at = at["properties"]
                .as_object_mut()
                .expect("a place is not a field")
                .entry(step)
                .or_insert_with(|| json!({"type": ["object", "null"], "properties": {}}));
            if is_required {
                at["type"] = "object".into();
            }
        }
        require(at, name, is_required);
        at["properties"][name] =
            if is_required { schema.clone() } else { json!({"anyOf": [schema, {"type": "null"}]}) };
    }
    for (name, what) in RESPONSE_KEYS {
        root["properties"][*name] = json!({"type": "string", "readOnly": true, "description": what});
    }
    root["properties"]["status"] = json!({"$ref": "#/components/schemas/IntentStatus", "readOnly": true});
    root["properties"]["warnings"] = json!({"type": "array", "items": {"type": "string"}, "readOnly": true,
        "description": "Warnings about an accepted object."});
    root
}

/// Adds a property to the required ones of an object.
fn require(object: &mut Value, name: &str, is_required: bool) {
    if !is_required {
        return;
    }
    let required = object.as_object_mut().expect("an object's schema").entry("required").or_insert_with(|| json!([]));
    let required = required.as_array_mut().expect("a list of names");
    if !required.iter().any(|known| known == name) {
        required.push(name.into());
    }
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
    fn body_without_a_required_field_is_refused_by_schema_and_server() {
        let mut count = 0;
        for kind in templates().iter().map(|form| form.kind) {
            let mut schema = of(kind);
            schema["properties"].as_object_mut().unwrap().remove("status"); // refers to another component
            let validator = jsonschema::validator_for(&schema).unwrap();
            let required = &table(kind).unwrap().required;
            let is_valid = |left_out: Option<&str>| {
                let mut body = json!({});
                for path in required.iter().filter(|path| Some(**path) != left_out) {
                    let value = if path.ends_with("port") { json!(1) } else { json!("a") };
                    path.split('.').fold(&mut body, |at, key| &mut at[key]).clone_from(&value);
                }
                let is_read = crate::body::read(kind, body.to_string().as_bytes(), None).is_ok();
                assert_eq!(validator.is_valid(&body), is_read, "{kind:?} without {left_out:?}: {body}");
                is_read
            };
            assert!(is_valid(None), "{kind:?}");
            assert!(required.contains(&"metadata.name"), "{kind:?}");
            assert!(required.iter().all(|path| !is_valid(Some(path))), "{kind:?}");
            count += required.len();
        }
        assert!(count > 30, "{count}");
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
