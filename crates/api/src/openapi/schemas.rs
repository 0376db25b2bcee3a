//! Schemas of bodies: of what goes over the wire by its own types, of declared objects by the configuration's schema, of intents by
//! the tables that read them.

use std::collections::BTreeSet;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    objects::kinds::{KINDS, component, section_of},
    route::{MakeSchema, Shape},
};

/// Schemas, as they are asked for.
pub(super) struct Schemas {
    /// Of what the server writes: every field is there.
    output: SchemaGenerator,
    /// Of what it reads: what has a default may be left out.
    input: SchemaGenerator,
    named: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = PLACE.into());
        let (output, input) = (settings().for_serialize().into_generator(), settings().into_generator());
        let mut schemas = Self { output, input, named: Map::new() };
        schemas.add_objects();
        _ = schemas.output.subschema_for::<fairway_intents::IntentStatus>();
        schemas.named.extend(fairway_intents::body_schemas());
        schemas
    }

    /// The schema of a body, as it stands in an operation.
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

    /// The parameters that a query of this type has, each with its schema; whether it must be there.
    pub(super) fn parameters(&mut self, of: MakeSchema) -> Vec<(String, Value, bool)> {
        let schema = of(&mut self.input).to_value();
        let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|of| of == name));
        let all = schema["properties"].as_object().into_iter().flatten();
        all.map(|(name, schema)| {
            let mut schema = schema.clone();
            // What is left out says nothing; there is no null in a query.
            if let Some(Value::Array(types)) = schema.get_mut("type") {
                types.retain(|of| of != "null");
            }
            (name.clone(), schema, is_required(name))
        })
        .collect()
    }

    /// The schemas that were referred to, and those that they refer to.
    pub(super) fn components(mut self, paths: &Value) -> Map<String, Value> {
        let mut all = self.named;
        for (name, schema) in self.input.take_definitions(true).into_iter().chain(self.output.take_definitions(true)) {
            let before = all.insert(name.clone(), schema);
            debug_assert!(before.is_none() || before.as_ref() == all.get(&name), "two schemas are called {name}");
        }
        apply_body(&mut all);
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

    /// Declared objects: elements of the configuration, and what the server says of them.
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
            let own = own.and_then(Value::as_object_mut).expect("elements of lists are objects with a name each");
            for (name, schema) in &output {
                own.insert((*name).to_owned(), schema.clone().to_value());
            }
        }
    }
}

/// The sections of what is applied have elements of the configuration.
fn apply_body(all: &mut Map<String, Value>) {
    let Some(body) = all.get_mut("ApplyBody") else { return };
    for kind in KINDS {
        body["properties"][section_of(kind)]["items"] = reference(&component(kind));
    }
}

/// Definitions lie elsewhere in this document; texts of a format get an example.
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

/// Comments of several lines become one, and integers of Rust plain ones.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            if object.get("format").and_then(Value::as_str).is_some_and(|of| of.starts_with("uint") || of == "double") {
                object.remove("format");
            }
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

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

const PLACE: &str = "/components/schemas";
const REFERENCE: &str = "#/components/schemas/";
