//! JSON Schemas of bodies, generated from the tables of fields and the constraints that the parsers have for them.
//!
//! They describe the canonical form, which responses have. Requests may have other names, places and forms of values (`fields`, `values`).
//! Rules between fields are not in the schemas.

use serde_json::{Map, Value, json};

use super::{
    body::{notes, table},
    fields::Notes,
    paths::templates,
};
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
    templates().map(|form| (component(form.kind), of(form.kind))).collect()
}

fn of(kind: Kind) -> Value {
    let notes = notes(kind);
    let mut root = json!({"type": "object", "properties": {}});
    for field in table(kind).fields() {
        let schema = schema_of(&notes, field.path);
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

/// Returns the schema of a field: the constraint that its parser has, or the one written here.
fn schema_of(notes: &Notes, path: &str) -> Value {
    let mut schema = notes.schemas.get(path).cloned().unwrap_or_else(|| by_hand(path));
    if schema["type"] == "array" && schema["items"].is_null() {
        schema["items"] = item(path);
    }
    schema
}

/// Returns the schema of a field whose parser has no constraint for it.
fn by_hand(path: &str) -> Value {
    let pem = json!({"type": "string", "maxLength": 65_536, "description": "PEM, or PEM in base64."});
    match path {
        "metadata.name" | "spec.compositeAppVersion" => json!({"type": "string", "pattern": NAME}),
        "spec.appLabel" => json!({"type": "string", "maxLength": 255, "examples": ["app=shop"]}),
        "spec.externalName" | "spec.localDomain" | "spec.publicDomain" => json!({"type": "string", "maxLength": 255}),
        "spec.certificates.service" | "spec.certificates.ca" => pem,
        "spec.certificates.privateKey" => {
            let hash = json!({"type": "object", "properties": {"sha256": {"type": "string"}}, "required": ["sha256"],
                "description": "The hash of the stored key, which responses have instead of the key."});
            json!({"anyOf": [pem, hash]})
        }
        "spec.access.serviceAccounts" => json!({"type": "array", "maxItems": 256, "items": account()}),
        "spec.gslb.ttl" => json!({"type": "integer", "minimum": 0, "maximum": 86_400, "description": "Seconds."}),
        "spec.gslb.policy" => {
            let word = json!({"type": "string", "examples": ["weighted"]});
            json!({"anyOf": [word, {"type": "array", "items": {"type": "string"}, "maxItems": 8}]})
        }
        "spec.gslb.downResponse" => {
            let fallback =
                json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 8}]});
            json!({"type": "object", "properties": {
                "type": {"enum": ["all", "empty", "last-good", "refuse", "fallback"]}, "fallback": fallback}})
        }
        "spec.gslb.probe.path" => json!({"type": "string", "pattern": "^/[!-~]{0,1023}$"}),
        "spec.parameters" => {
            let kept = json!({"type": "object", "properties": {"kept": {"const": true}}, "required": ["kept"],
                "description": "A stored secret, which responses have instead of the secret."});
            let value = json!({"anyOf": [{"type": "string", "maxLength": 16_384}, kept]});
            json!({"type": "object", "maxProperties": 256, "additionalProperties": value})
        }
        "spec.bind" => {
            let pair = json!({"type": "object", "properties": {"cluster": {"type": "string"}, "logicalCloud": {"type": "string"}}});
            json!({"type": "array", "maxItems": 256, "items": pair})
        }
        _ => json!({}),
    }
}

/// Returns the schema of the elements of a list.
fn item(path: &str) -> Value {
    let text = |most: usize| json!({"type": "string", "maxLength": most});
    let method = json!({"type": "string", "pattern": "^[A-Za-z]{1,32}$", "examples": ["GET"]});
    match path {
        "spec.access.namespaces" | "spec.namespaces" => text(255),
        "spec.cidrs" => json!({"type": "string", "maxLength": 64, "examples": ["192.0.2.0/24"]}),
        "spec.url" => text(1_024),
        "spec.access" => method,
        "spec.security.userAccess" => json!({"type": "object", "properties": {
            "user": text(255), "path": text(1_024), "methods": {"type": "array", "items": method, "maxItems": 32}}}),
        "spec.gslb.members" => json!({"type": "object", "required": ["cluster"], "properties": {
            "cluster": text(128),
            "weight": {"type": "integer", "minimum": 0, "maximum": 65_535, "default": 1},
            "tier": {"type": "integer", "minimum": 1, "maximum": 255, "default": 1}}}),
        "set" => {
            let name = json!({"type": "string", "pattern": NAME});
            json!({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                "properties": {"inbound": name, "outbound": name, "compound": name}})
        }
        _ => json!({}),
    }
}

fn account() -> Value {
    let rule = json!({"type": "object", "properties": {"method": {"type": "string"}, "path": {"type": "string"}}});
    json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "maxLength": 255}, "rules": {"type": "array", "items": rule}}})
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
        for kind in templates().map(|form| form.kind) {
            let notes = notes(kind);
            for field in table(kind).fields() {
                let schema = schema_of(&notes, field.path);
                assert_ne!(schema, json!({}), "{kind:?}: {}", field.path);
                assert_ne!(schema.get("items"), Some(&json!({})), "{kind:?}: {}", field.path);
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
