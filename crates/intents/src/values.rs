//! Forms of values. Requests may have others than the canonical one: numbers as text, `yes` for true, durations without unit.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::{Value, json};

use super::{error::BodyError, fields::folds_alike, json_wire::Json};
use fairway_config::{parse_duration, show_duration};

/// Errors of a value. Their pointers are relative to the value.
pub(super) type Errors = Vec<BodyError>;

/// Returns an error of the value itself.
pub(super) fn invalid<T>(detail: impl Into<String>) -> Result<T, Errors> {
    Err(vec![BodyError::new("", detail)])
}

/// The form of a value: how it is read, written and described.
pub(super) trait Form {
    /// Type of the value.
    type Value: PartialEq;

    /// Parses a value.
    fn parse(&self, json: &Json) -> Result<Self::Value, Errors>;

    /// Returns the canonical form of a value.
    fn write(&self, value: &Self::Value) -> Json;

    /// Returns the JSON Schema of the canonical form.
    fn schema(&self) -> Value;
}

/// A form with functions of its own.
pub(super) struct Custom<T> {
    pub(super) parse: fn(&Json) -> Result<T, Errors>,
    pub(super) write: fn(&T) -> Json,
    pub(super) schema: fn() -> Value,
}

impl<T: PartialEq> Form for Custom<T> {
    type Value = T;

    fn parse(&self, json: &Json) -> Result<T, Errors> {
        (self.parse)(json)
    }

    fn write(&self, value: &T) -> Json {
        (self.write)(value)
    }

    fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// A boolean: `true`, `false`, `yes` or `no`.
pub(super) const FLAG: Custom<bool> =
    Custom { parse: flag, write: |flag| (*flag).into(), schema: || json!({"type": "boolean"}) };

/// A duration in a range. A number without unit is in seconds.
pub(super) struct Span(pub(super) RangeInclusive<Duration>);

impl Form for Span {
    type Value = Duration;

    fn parse(&self, json: &Json) -> Result<Duration, Errors> {
        let seconds = |number: u64| Duration::from_secs(number.min(u64::from(u32::MAX)));
        let parsed = match json {
            Json::Number(number) => {
                number.as_u64().map(seconds).ok_or_else(|| format!("{number} is not a number of whole seconds"))
            }
            Json::Text(text) => match text.trim().parse::<u64>() {
                Ok(number) => Ok(seconds(number)),
                Err(_) => parse_duration(text.trim()),
            },
            other => Err(format!("{} is not a duration", other.what())),
        };
        match parsed {
            Ok(duration) if self.0.contains(&duration) => Ok(duration),
            Ok(duration) => {
                let (min, max) = (show_duration(*self.0.start()), show_duration(*self.0.end()));
                invalid(format!("{} is out of range; write a duration from {min} to {max}", show_duration(duration)))
            }
            Err(what) => invalid(format!("{what}; write it like 30s")),
        }
    }

    fn write(&self, value: &Duration) -> Json {
        show_duration(*value).into()
    }

    fn schema(&self) -> Value {
        let (min, max) = (show_duration(*self.0.start()), show_duration(*self.0.end()));
        json!({"type": "string", "description": format!("A duration, {min} to {max}."), "examples": ["30s"]})
    }
}

/// A list of at most so many values of a form.
pub(super) struct List<F>(pub(super) usize, pub(super) F);

impl<F: Form> Form for List<F> {
    type Value = Vec<F::Value>;

    fn parse(&self, json: &Json) -> Result<Self::Value, Errors> {
        match json {
            Json::List(_) => list(json, self.0, |json| self.1.parse(json)),
            other => invalid(format!("{} is not a list; write a list", other.what())),
        }
    }

    fn write(&self, values: &Self::Value) -> Json {
        Json::List(values.iter().map(|value| self.1.write(value)).collect())
    }

    fn schema(&self) -> Value {
        json!({"type": "array", "maxItems": self.0, "items": self.1.schema()})
    }
}

/// A form whose value may be missing.
pub(super) struct Optional<'f, F>(pub(super) &'f F);

impl<F: Form> Form for Optional<'_, F> {
    type Value = Option<F::Value>;

    fn parse(&self, json: &Json) -> Result<Self::Value, Errors> {
        self.0.parse(json).map(Some)
    }

    fn write(&self, value: &Self::Value) -> Json {
        value.as_ref().map(|value| self.0.write(value)).into()
    }

    fn schema(&self) -> Value {
        self.0.schema()
    }
}

/// A text of at most so many characters.
pub(super) struct Text(pub(super) usize);

impl Form for Text {
    type Value = String;

    fn parse(&self, json: &Json) -> Result<String, Errors> {
        text(json, self.0)
    }

    fn write(&self, value: &String) -> Json {
        value.as_str().into()
    }

    fn schema(&self) -> Value {
        json!({"type": "string", "maxLength": self.0})
    }
}

/// An integer in a range, which may be a text.
pub(super) struct Whole<T>(pub(super) RangeInclusive<T>);

impl<T: Copy + PartialEq + TryFrom<u64> + Into<u64>> Form for Whole<T> {
    type Value = T;

    fn parse(&self, json: &Json) -> Result<T, Errors> {
        let number = match json {
            Json::Number(number) => number.as_u64(),
            Json::Text(text) if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => text.trim().parse().ok(),
            _ => None,
        };
        let (min, max): (u64, u64) = ((*self.0.start()).into(), (*self.0.end()).into());
        let Some(number) = number else {
            return invalid(format!("{} is not an integer; write one from {min} to {max}", json.what()));
        };
        match T::try_from(number) {
            Ok(value) if (min..=max).contains(&number) => Ok(value),
            _ => invalid(format!("{number} is out of range; write an integer from {min} to {max}")),
        }
    }

    fn write(&self, value: &T) -> Json {
        Json::from((*value).into())
    }

    fn schema(&self) -> Value {
        let (min, max): (u64, u64) = ((*self.0.start()).into(), (*self.0.end()).into());
        json!({"type": "integer", "minimum": min, "maximum": max})
    }
}

/// One of a few words, each with its value. Case and separators are ignored; of the words with one value, the first is canonical.
pub(super) struct Words<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Form for Words<T> {
    type Value = T;

    fn parse(&self, json: &Json) -> Result<T, Errors> {
        let allowed = || self.canonical().join(", ");
        let Json::Text(text) = json else {
            return invalid(format!("{} is not a text; give {}", json.what(), allowed()));
        };
        match self.0.iter().find(|(word, _)| folds_alike(word, text.trim())) {
            Some((_, value)) => Ok(*value),
            None => invalid(format!("{} is unknown; give {}", json.what(), allowed())),
        }
    }

    fn write(&self, value: &T) -> Json {
        self.0.iter().find(|(_, of)| of == value).map(|(word, _)| *word).into()
    }

    fn schema(&self) -> Value {
        json!({"enum": self.canonical()})
    }
}

impl<T: PartialEq> Words<T> {
    fn canonical(&self) -> Vec<&'static str> {
        let is_first = |at: usize| self.0.iter().position(|(_, of)| *of == self.0[at].1) == Some(at);
        (0..self.0.len()).filter(|at| is_first(*at)).map(|at| self.0[at].0).collect()
    }
}

/// Parses a text of at most `max` characters without control characters.
pub(super) fn text(json: &Json, max: usize) -> Result<String, Errors> {
    let text = match json {
        Json::Text(text) => text.clone(),
        Json::Number(number) => return invalid(format!("{number} is a number; write the text \"{number}\"")),
        other => return invalid(format!("{} is not a text; write a text", other.what())),
    };
    // Most texts are printable ASCII, and a start parses some hundred thousand of them.
    if text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(text);
    }
    let length = text.chars().count();
    if length > max {
        return invalid(format!("the text has {length} characters; the limit is {max}"));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return invalid("the text has control characters; remove them");
    }
    Ok(text)
}

/// Parses a boolean.
fn flag(json: &Json) -> Result<bool, Errors> {
    match json {
        Json::Bool(bool) => Ok(*bool),
        Json::Text(_) => Words(&[("true", true), ("yes", true), ("false", false), ("no", false)]).parse(json),
        other => invalid(format!("{} is not a boolean; write true or false", other.what())),
    }
}

/// Parses the elements of a list; a single value counts as a list of one. Errors have the index of the element.
pub(super) fn list<T>(json: &Json, max: usize, parse: impl Fn(&Json) -> Result<T, Errors>) -> Result<Vec<T>, Errors> {
    let elements = match json {
        Json::List(elements) => &elements[..],
        Json::Map(_) => return invalid("an object is not a list; write a list"),
        single => std::slice::from_ref(single),
    };
    if elements.len() > max {
        return invalid(format!("the list has {} elements; the limit is {max}", elements.len()));
    }
    let mut values = Vec::with_capacity(elements.len());
    let mut errors = Vec::new();
    let is_list = matches!(json, Json::List(_));
    for (at, element) in elements.iter().enumerate() {
        match parse(element) {
            Ok(value) => values.push(value),
            Err(of_element) if is_list => errors.extend(below(&format!("/{at}"), of_element)),
            Err(of_element) => errors.extend(of_element),
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

/// Returns the errors of a part with the pointer to the part.
pub(super) fn below(pointer: &str, errors: Errors) -> Errors {
    errors.into_iter().map(|error| BodyError::new(format!("{pointer}{}", error.pointer), error.detail)).collect()
}
