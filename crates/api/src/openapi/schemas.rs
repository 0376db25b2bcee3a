//! Schemas of bodies: from the types in api-types, from the configuration's schema for declared objects, and from the tables of fields for
//! intents.

use std::collections::BTreeSet;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    objects::kinds::{KINDS, component, section_of},
    route::{MakeSchema, Shape},
};

/// Collects the schemas that routes use.
pub(super) struct Schemas {
    /// Generator for types that the server writes: every field is present.
    output: SchemaGenerator,
    /// Generator for types that it reads: fields with a default are optional.
    input: SchemaGenerator,
    /// Components that are not made of Rust types.
    named: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings =
            || SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = DEFINITIONS.into());
        let (output, input) = (settings().for_serialize().into_generator(), settings().into_generator());
        let mut schemas = Self { output, input, named: Map::new() };
        schemas.add_objects();
        _ = schemas.output.subschema_for::<fairway_api_types::intent_status_wire::IntentStatus>();
        schemas.named.extend(fairway_intents::body_schemas());
        schemas
    }

    /// Returns the schema of a body.
    pub(super) fn of(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Output(make) => make(&mut self.output).to_value(),
            Shape::Input(make) => make(&mut self.input).to_value(),
            Shape::Component(name) => reference(name),
            Shape::Items(of) => json!({"type": "array", "items": reference(of)}),
            Shape::OneOf(shapes) => json!({"anyOf": shapes.iter().map(|shape| self.of(shape)).collect::<Vec<_>>()}),
            Shape::Any => json!({}),
            Shape::Text => json!({"type": "string"}),
            Shape::List(make, of) => {
                let mut list = make(&mut self.output).to_value();
                list["properties"]["items"]["items"] = reference(of);
                let name = format!("{of}List");
                self.named.insert(name.clone(), list);
                reference(&name)
            }
        }
    }

    /// Returns the query parameters of a type: name, schema, and true if it is required.
    pub(super) fn parameters(&mut self, of: MakeSchema) -> Vec<(String, Value, bool)> {
        let schema = of(&mut self.input).to_value();
        let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|of| of == name));
        let all = schema["properties"].as_object().into_iter().flatten();
        all.map(|(name, schema)| {
            let mut schema = schema.clone();
            // An optional parameter is left out; a query has no null.
            if let Some(Value::Array(types)) = schema.get_mut("type") {
                types.retain(|of| of != "null");
                if let [one] = types.as_slice() {
                    schema["type"] = one.clone();
                }
            }
            tidy(&mut schema);
            (name.clone(), schema, is_required(name))
        })
        .collect()
    }

    /// Returns the components that the paths refer to, directly or through others.
    pub(super) fn components(mut self, paths: &Value) -> Map<String, Value> {
        let mut all = self.named;
        for (name, schema) in self.input.take_definitions(true).into_iter().chain(self.output.take_definitions(true)) {
            let before = all.insert(name.clone(), schema);
            debug_assert!(before.is_none() || before.as_ref() == all.get(&name), "two schemas are called {name}");
        }
        apply_body(&mut all);
        new_intent(&mut all);
        let (mut wanted, mut used) = (references(paths), BTreeSet::new());
        while let Some(name) = wanted.pop_first() {
            wanted.extend(all.get(&name).map(references).unwrap_or_default());
            used.insert(name);
            wanted.retain(|name| !used.contains(name));
        }
        all.retain(|name, _| used.contains(name));
        all.values_mut().for_each(tidy);
        all
    }

    /// Adds declared objects: elements of the configuration with the metadata and status that the server adds.
    fn add_objects(&mut self) {
        let mut schema = fairway_config::schema_value();
        relocate(&mut schema);
        let definitions = schema["$defs"].take();
        self.named.extend(definitions.as_object().cloned().unwrap_or_default());
        let output = [
            ("metadata", self.output.subschema_for::<fairway_api_types::objects_wire::Metadata>()),
            ("status", self.output.subschema_for::<fairway_api_types::objects_wire::ObjectStatus>()),
        ];
        for kind in KINDS {
            let own = self.named.get_mut(&component(kind)).and_then(|schema| schema.get_mut("properties"));
            let own = own.and_then(Value::as_object_mut).expect("elements of lists are objects");
            for (name, schema) in &output {
                let mut schema = schema.clone().to_value();
                // `PUT` takes what `GET` returns, and ignores them.
                schema["readOnly"] = true.into();
                own.insert((*name).to_owned(), schema);
            }
        }
    }
}

/// Sets the sections of the body of `POST /v1/apply` to elements of the configuration.
fn apply_body(all: &mut Map<String, Value>) {
    let Some(body) = all.get_mut("ApplyBody") else { return };
    for kind in KINDS {
        body["properties"][section_of(kind)]["items"] = reference(&component(kind));
    }
}

/// Sets the intent of a body that also has its key to the kinds that have a key.
fn new_intent(all: &mut Map<String, Value>) {
    let Some(body) = all.get_mut("NewIntent") else { return };
    let kinds: BTreeSet<_> = fairway_intents::INTENT_KINDS.into_iter().map(fairway_intents::component).collect();
    let what = body["properties"]["intent"]["description"].take();
    let kinds: Vec<_> = kinds.iter().map(|kind| reference(kind)).collect();
    body["properties"]["intent"] = json!({"anyOf": kinds, "description": what});
}

/// Moves references from the configuration's schema to this document, and adds examples for strings with a format.
fn relocate(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(relocate),
        Value::Object(object) => {
            if let Some(Value::String(to)) = object.get_mut("$ref") {
                *to = to.replace("#/$defs/", "#/components/schemas/");
            }
            let example = object.get("format").and_then(Value::as_str).and_then(fairway_config::format_example);
            if let Some(example) = example {
                object.entry("examples").or_insert_with(|| json!([example]));
            }
            object.values_mut().for_each(relocate);
        }
        _ => {}
    }
}

/// Joins the lines of descriptions, and removes what makers of clients cannot use: integer formats that only Rust has, defaults that are no
/// value of a simple type, and titles of several words, from which they would make names of types.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(tidy),
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            let word = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (kind, format, title) = (word("type"), word("format"), word("title"));
            if format.starts_with("uint") || format == "double" {
                object.remove("format");
            }
            if !SIMPLE.contains(&kind.as_str()) || object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if title.contains(' ') {
                object.remove("title");
                object.entry("description").or_insert_with(|| title.into());
            }
            for (key, inner) in object {
                match (key.as_str(), inner) {
                    // Their keys are names of properties.
                    ("properties", Value::Object(schemas)) => schemas.values_mut().for_each(tidy),
                    ("const" | "default" | "enum" | "examples", _) => {}
                    (_, inner) => tidy(inner),
                }
            }
        }
        _ => {}
    }
}

/// Types whose values can be a default in a client.
const SIMPLE: &[&str] = &["boolean", "integer", "number", "string"];

fn references(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix(REFERENCE));
            own.map(str::to_owned).into_iter().chain(object.values().flat_map(references)).collect()
        }
        _ => BTreeSet::new(),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

const DEFINITIONS: &str = "/components/schemas";
const REFERENCE: &str = "#/components/schemas/";
