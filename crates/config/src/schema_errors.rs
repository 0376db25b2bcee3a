//! Messages of structural errors, built from the findings of the schema validator.

use std::sync::Arc;

use fairway_model::{Diagnostic, closest};
use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::{
    context::Input,
    reason::{Reason, did_you_mean},
    schema,
    tree::{Node, Part, quoted},
};

/// A structural error without its location.
pub(super) struct SchemaError {
    /// JSON pointer of the value with the error.
    pointer: String,
    /// True if the error is the key of that value.
    is_key: bool,
    why: Reason,
}

impl SchemaError {
    /// Returns the element or section to remove so that the rest is valid; `None` if there is none.
    pub(super) fn part(&self) -> Option<Part> {
        let mut steps = self.pointer.split('/').skip(1);
        let section = steps.next()?.replace("~1", "/").replace("~0", "~");
        Some((section, steps.next().and_then(|index| index.parse().ok())))
    }

    /// Returns the error with its location.
    pub(super) fn diagnostic(&self, tree: &Node, files: &[Arc<str>], input: Input) -> Diagnostic {
        let located = tree.locate(&self.pointer);
        let position = if self.is_key { located.key } else { located.position };
        let path = if input == Input::ApiObject { &self.pointer } else { &located.path };
        let separator = if path.is_empty() { "" } else { ": " };
        let what = format!("{path}{separator}{}", self.why.what);
        Diagnostic::error(position.location(files), what, self.why.hint.clone())
    }
}

/// Returns the errors of one finding: one, or one for each unknown key.
pub(super) fn words(error: &ValidationError<'_>, root: &Value) -> Vec<SchemaError> {
    let keyword = error.schema_path().as_str();
    let schema = keyword.rsplit_once('/').and_then(|(parent, _)| root.pointer(parent)).unwrap_or(root);
    let instance = error.instance();
    let pointer = error.instance_path().as_str().to_owned();
    let why = match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            let word = |key: &String| SchemaError {
                pointer: format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")),
                is_key: true,
                why: unknown(key, schema),
            };
            return unexpected.iter().map(word).collect();
        }
        Kind::AnyOf { context } => return forms(error, context, schema, root),
        Kind::Required { property } => missing(property.as_str().unwrap_or_default(), schema),
        Kind::Type { .. } => wrong_type(instance, schema),
        Kind::Enum { options } => wrong_word(instance, options),
        Kind::Format { format } => {
            let text = instance.as_str().unwrap_or_default();
            schema::rejection(format, text)
                .unwrap_or_else(|| Reason::new(format!("{} is not {format}", show(instance)), ""))
        }
        Kind::Maximum { limit } if pointer == "/version" => {
            let what = format!("{} is newer than this program, which reads version {limit}", show(instance));
            Reason::new(what, "use a newer fairway, or write the file in version 1")
        }
        Kind::Maximum { limit } => Reason::new(format!("{} is over {limit}", show(instance)), range(schema)),
        Kind::Minimum { limit } => Reason::new(format!("{} is under {limit}", show(instance)), range(schema)),
        Kind::MinItems { .. } => Reason::new("the list is empty", "give at least one element"),
        Kind::MaxItems { limit } => {
            let count = instance.as_array().map_or(0, Vec::len);
            Reason::new(format!("the list has {count} elements; the maximum is {limit}"), "shorten or split it")
        }
        Kind::MinLength { limit: 1 } => Reason::new("the text is empty", "write one, or remove the key"),
        Kind::MinLength { limit } => {
            Reason::new(format!("{} is shorter than {limit} characters", show(instance)), "write a longer one")
        }
        Kind::MaxLength { limit } => {
            let count = instance.as_str().map_or(0, |text| text.chars().count());
            Reason::new(format!("the text has {count} characters; the maximum is {limit}"), "shorten it")
        }
        Kind::MinProperties { .. } | Kind::MaxProperties { .. } => {
            Reason::new(format!("this is not {}", expected(schema)), "give exactly one of the keys")
        }
        other => Reason::new(format!("{} breaks the rule {} of the schema", show(instance), other.keyword()), ""),
    };
    vec![SchemaError { pointer, is_key: false, why }]
}

/// Returns the errors of a value that may have several forms: those of the form with its type, otherwise the list of
/// forms.
fn forms(
    error: &ValidationError<'_>,
    context: &[Vec<ValidationError<'static>>],
    schema: &Value,
    root: &Value,
) -> Vec<SchemaError> {
    let pointer = error.instance_path().as_str();
    let another_type = |form: &&Vec<ValidationError<'static>>| form.iter().any(|e| is_another_type(e, pointer));
    match context.iter().find(|form| !another_type(form)) {
        // An unknown word may be meant for another form.
        Some(form) => match (&form[..], schema["title"].as_str()) {
            ([error], Some(title)) if is_far_word(error, pointer) => {
                let why = Reason::new(format!("{} is not known here", show(error.instance())), format!("give {title}"));
                vec![SchemaError { pointer: pointer.to_owned(), is_key: false, why }]
            }
            _ => form.iter().flat_map(|error| words(error, root)).collect(),
        },
        None => {
            vec![SchemaError { pointer: pointer.to_owned(), is_key: false, why: wrong_type(error.instance(), schema) }]
        }
    }
}

/// True if the value has another type than the form, so that this form was not meant.
fn is_another_type(error: &ValidationError<'_>, pointer: &str) -> bool {
    if error.instance_path().as_str() != pointer {
        return false;
    }
    match error.kind() {
        Kind::Type { .. } => true,
        Kind::Enum { .. } => !error.instance().is_string(),
        Kind::AnyOf { context } => context.iter().all(|form| form.iter().any(|e| is_another_type(e, pointer))),
        _ => false,
    }
}

/// Number of words up to which all are listed, even if one of them seems to be meant.
const WORDS_FEW: usize = 8;

/// True if no known word is similar to the value.
fn is_far_word(error: &ValidationError<'_>, pointer: &str) -> bool {
    let Kind::Enum { options } = error.kind() else { return false };
    error.instance_path().as_str() == pointer
        && error.instance().as_str().is_some_and(|text| closest(text, texts(options)).is_none())
}

fn unknown(key: &str, schema: &Value) -> Reason {
    let known: Vec<&str> =
        schema["properties"].as_object().map(|p| p.keys().map(String::as_str).collect()).unwrap_or_default();
    let hint = if key == "<<" {
        "YAML 1.2 has no merge keys: write the keys out".to_owned()
    } else if let Some(word) = key.strip_prefix('-').filter(|word| known.contains(word)) {
        format!("write \"- {word}\": a space follows the dash")
    } else {
        did_you_mean(key, known.iter().copied(), || format!("known here: {}", known.join(", ")))
    };
    Reason::new("unknown key", hint)
}

fn missing(property: &str, schema: &Value) -> Reason {
    let expected = match property {
        "version" => "1".to_owned(),
        _ => expected(&schema["properties"][property]),
    };
    Reason::new(format!("key {property} is missing"), format!("add {property}: {expected}"))
}

fn wrong_word(instance: &Value, options: &Value) -> Reason {
    let options = texts(options);
    let Some(text) = instance.as_str() else { return mismatch(instance, &options.join(" or ")) };
    let all = format!("use one of: {}", options.join(", "));
    let hint = match closest(text, options.iter().copied()) {
        Some(near) if options.len() <= WORDS_FEW => format!("{all}; did you mean {near}?"),
        Some(near) => format!("did you mean {near}?"),
        None => all,
    };
    Reason::new(format!("{} is not known here", quoted(text)), hint)
}

fn wrong_type(instance: &Value, schema: &Value) -> Reason {
    let expected = expected(schema);
    let format = schema["format"].as_str().unwrap_or_default();
    match (instance, schema["type"].as_str().unwrap_or_default()) {
        (Value::Null, _) => Reason::new("the key has no value", format!("write {expected}, or remove the key")),
        (Value::Number(number), _) if format == "distance-with-unit" => {
            Reason::new(format!("{number} has no unit"), format!("write {number}km or {number}m"))
        }
        (Value::Number(number), _) if format == "size-with-unit" => {
            Reason::new(format!("{number} has no unit"), format!("write {number}MiB or {number}GiB"))
        }
        (Value::Number(number), _) if format.ends_with("-with-unit") => {
            Reason::new(format!("{number} has no unit"), format!("write {number}s, or another unit: ms, m, h, d"))
        }
        (Value::Number(_) | Value::Bool(_), "string") => {
            let hint = match schema::example(format) {
                Some(example) => format!("write it like {example}"),
                None => format!("put it in quotes: \"{}\"", show(instance)),
            };
            Reason::new(format!("{} is {}, expected {expected}", show(instance), kind(instance)), hint)
        }
        (Value::String(text), "integer" | "number") if text.parse::<f64>().is_ok() => {
            Reason::new(format!("{} is text, expected a number", quoted(text)), "remove the quotes")
        }
        (Value::String(text), "boolean") => {
            Reason::new(format!("{} is not true or false", quoted(text)), "write true or false, without quotes")
        }
        (Value::Object(keys), "array") if keys.keys().next().is_some_and(|key| key.starts_with('-')) => {
            let key = keys.keys().next().map_or("", |key| key.trim_start_matches('-'));
            Reason::new("this is not a list", format!("write \"- {key}\": a space follows the dash"))
        }
        (_, "array") => Reason::new(
            format!("{} is not a list", show(instance)),
            "write [ONE, TWO], or one line per element, beginning with \"- \"",
        ),
        _ => mismatch(instance, &expected),
    }
}

fn mismatch(instance: &Value, expected: &str) -> Reason {
    Reason::new(format!("{} is not valid here", show(instance)), format!("give {expected}"))
}

/// Returns a description of the values that a schema accepts, to follow "write" or "expected".
fn expected(schema: &Value) -> String {
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    if schema["enum"].is_array() {
        return texts(&schema["enum"]).join(" or ");
    }
    if let Some(keys) = schema["properties"].as_object() {
        let keys = keys.keys().map(String::as_str);
        let needed = texts(&schema["required"]);
        let keys = if needed.is_empty() { keys.take(5).collect() } else { needed };
        return format!("a section with keys like {}", keys.join(" and "));
    }
    match schema["type"].as_str() {
        Some("array") => "a list".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("string") => "text".to_owned(),
        _ => "a section".to_owned(),
    }
}

/// Returns the texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn range(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, max) => format!("give at most {max}"),
        (min, Value::Null) => format!("give at least {min}"),
        (min, max) if min == max => format!("give {min}"),
        (min, max) => format!("give {min} to {max}"),
    }
}

fn kind(instance: &Value) -> &'static str {
    match instance {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a section",
    }
}

fn show(instance: &Value) -> String {
    match instance {
        Value::String(text) => quoted(text),
        Value::Null | Value::Array(_) | Value::Object(_) => kind(instance).to_owned(),
        plain => plain.to_string(),
    }
}
