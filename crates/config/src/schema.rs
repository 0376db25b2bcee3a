//! JSON Schema of the configuration, and the structural errors of a file by that schema.

use std::{
    net::{IpAddr, SocketAddr},
    sync::LazyLock,
    time::Duration,
};

use fairway_http::Url;
use fairway_model::{
    ClusterName, Continent, Country, LoadUrl, Name, NamedTimeZone, Network, OverrideScope, Permille, PoolPattern,
    ProbeAddress, Rtype, Subdivision, TimeOfDay, Timestamp, Ttl, Weekdays,
};
use jsonschema::{ValidationOptions, Validator};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{limits_wire::MemorySize, webhook_wire::Lease};
use super::{
    reason::Reason,
    schema_errors::{self, SchemaError},
    v1,
    v1_kubernetes::NamespacedName,
    values::{AddressOrHost, Sample, TextValue},
    values_access::{GrantedType, SecureUrl},
    values_location::Distance,
    values_wire::{HttpAddress, PrefixLength, StatusText},
};
use fairway_access::{Algorithm, Subject, Tenant, TokenHash, Verb};

/// Returns the JSON Schema (2020-12) of a configuration file of version 1, for editors and for `fairway config schema`.
///
/// It has the canonical name of each key; aliases are replaced before a file is validated.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<v1::Config>().to_value();
    tidy(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), json!("Fairway configuration, version 1"));
    }
    schema
}

/// Returns every structural error of a value, unsorted.
pub(super) fn errors(value: &Value) -> Vec<SchemaError> {
    let errors = COMPILED.validator.iter_errors(value);
    errors.flat_map(|error| schema_errors::words(&error, &COMPILED.schema)).take(super::DIAGNOSTICS_MAX + 1).collect()
}

struct Compiled {
    schema: Value,
    validator: Validator,
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let schema = schema();
    let options = FORMATS.iter().fold(jsonschema::options(), |options, format| (format.register)(options));
    let validator = options.should_validate_formats(true).build(&schema).expect("the tests build this schema");
    Compiled { schema, validator }
});

/// A kind of text value, by its `format` in the schema.
struct Format {
    name: &'static str,
    example: &'static str,
    rejection: fn(&str) -> Option<Reason>,
    register: fn(ValidationOptions<'_>) -> ValidationOptions<'_>,
}

const fn format<T: TextValue + 'static>() -> Format {
    Format {
        name: T::FORMAT,
        example: T::EXAMPLE,
        rejection: |text| T::parse(text).err(),
        register: |options| options.with_format(T::FORMAT, |text: &str| T::parse(text).is_ok()),
    }
}

static FORMATS: &[Format] = &[
    format::<AddressOrHost>(),
    format::<Algorithm>(),
    format::<Url>(),
    // One entry for the names of all kinds of objects: they have the same format.
    format::<ClusterName>(),
    format::<Continent>(),
    format::<Country>(),
    format::<Distance>(),
    format::<Duration>(),
    format::<GrantedType>(),
    format::<HttpAddress>(),
    format::<IpAddr>(),
    format::<SecureUrl>(),
    format::<LoadUrl>(),
    format::<MemorySize>(),
    format::<Name>(),
    format::<Network>(),
    format::<Permille>(),
    format::<PrefixLength>(),
    format::<ProbeAddress>(),
    format::<Rtype>(),
    format::<Sample>(),
    format::<NamespacedName>(),
    format::<OverrideScope>(),
    format::<PoolPattern>(),
    format::<SocketAddr>(),
    format::<StatusText>(),
    format::<Subdivision>(),
    format::<Subject>(),
    format::<Tenant>(),
    format::<TimeOfDay>(),
    format::<Timestamp>(),
    format::<TokenHash>(),
    format::<Lease>(),
    format::<Ttl>(),
    format::<Verb>(),
    format::<Weekdays>(),
    format::<NamedTimeZone>(),
];

/// Returns why a text does not have the format; `None` if it has, or if the format is unknown.
pub(super) fn rejection(format: &str, text: &str) -> Option<Reason> {
    FORMATS.iter().find(|known| known.name == format).and_then(|known| (known.rejection)(text))
}

/// Returns one value of a format: the first of the examples in messages.
pub fn sound_example(format: &str) -> Option<&'static str> {
    let first = example(format)?.split([',', ' ']).next()?;
    rejection(format, first).is_none().then_some(first)
}

/// Returns an example of a format, as messages show it.
pub(super) fn example(format: &str) -> Option<&'static str> {
    FORMATS.iter().find(|known| known.name == format).map(|known| known.example)
}

/// Simplifies a generated schema. Optional keys are left out and never null; formats of Rust's integers mean nothing to
/// others.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            drop_null(object);
            let numeric = |format: &str| format.starts_with("uint") || format == "double";
            if object.get("format").and_then(Value::as_str).is_some_and(numeric) {
                object.remove("format");
            }
            if object.get("default").is_some_and(|default| *default == json!([]) || *default == json!({})) {
                object.remove("default");
            }
            for (key, inner) in object.iter_mut() {
                if let Value::String(text) = inner
                    && key == "description"
                {
                    *text = text.replace('\n', " ");
                }
                tidy(inner);
            }
        }
        _ => {}
    }
}

fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(forms)) = object.get_mut("anyOf") {
        forms.retain(|form| form.get("type") != Some(&json!("null")));
        if let [one] = &mut forms[..] {
            let one = one.take();
            object.remove("anyOf");
            for (key, inner) in one.as_object().into_iter().flatten() {
                object.entry(key.clone()).or_insert_with(|| inner.clone());
            }
        }
    }
}
