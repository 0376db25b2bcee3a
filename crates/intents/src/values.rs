//! Parses the values of fields, in every form that requests have: numbers as text, text as numbers, `yes` for true, durations without
//! unit.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::json;

use super::{
    error::BodyError,
    fields::{Body, folds_alike},
    json_wire::Json,
};
use fairway_config::{parse_duration, show_duration};

/// Errors of a value. Their pointers are relative to the value.
pub(super) type Errors = Vec<BodyError>;

/// Returns an error of the value itself.
pub(super) fn invalid<T>(detail: impl Into<String>) -> Result<T, Errors> {
    Err(vec![BodyError::new("", detail)])
}

impl Body<'_> {
    /// Parses a field. If several keys mean the field, their values must be equal.
    pub(super) fn read<T: PartialEq>(
        &mut self,
        path: &'static str,
        parse: impl Fn(&Json) -> Result<T, Errors>,
    ) -> Option<T> {
        let (mut first, mut errors) = (None, Vec::new());
        for found in self.found(path) {
            match (parse(found.value), &first) {
                (Ok(value), None) => first = Some((value, found)),
                (Ok(value), Some((other, before))) if value != *other => {
                    let detail = format!("differs from {}, and both mean {path}; keep one", before.pointer());
                    errors.push(BodyError::new(found.pointer(), detail));
                }
                (Ok(_), Some(_)) => {}
                (Err(of_value), _) => errors.extend(below(&found.pointer(), of_value)),
            }
        }
        let value = first.map(|(value, _)| value);
        errors.into_iter().for_each(|BodyError { pointer, detail }| self.error(&pointer, detail));
        value
    }

    /// Returns an optional text of at most `max` characters.
    pub(super) fn text(&mut self, path: &'static str, max: usize) -> String {
        self.note(path, || json!({"type": "string", "maxLength": max}));
        self.read(path, |json| text(json, max)).unwrap_or_default()
    }

    /// Returns a required text.
    pub(super) fn needed_text(&mut self, path: &'static str, max: usize, example: &str) -> String {
        self.need(path, example);
        self.text(path, max)
    }

    /// Records an error if a required field is missing.
    pub(super) fn need(&mut self, path: &'static str, example: &str) {
        self.note_needed(path);
        if self.found(path).next().is_none() {
            self.error_at(path, format!("is missing; add it, for example {example}"));
        }
    }

    /// Returns a boolean: `true`, `false`, `yes` or `no`.
    pub(super) fn flag(&mut self, path: &'static str) -> bool {
        self.note(path, || json!({"type": "boolean"}));
        self.read(path, flag).unwrap_or_default()
    }

    /// Returns an integer, which may be a text.
    pub(super) fn whole<T: TryFrom<u64> + PartialEq>(
        &mut self,
        path: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<T> {
        self.note(path, || json!({"type": "integer", "minimum": range.start(), "maximum": range.end()}));
        self.read(path, |json| {
            let number = whole(json, &range)?;
            T::try_from(number).or_else(|_| invalid(format!("{number} is too large")))
        })
    }

    /// Returns the value of a word. Case and separators are ignored.
    pub(super) fn word<T: Copy + PartialEq>(&mut self, path: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.note(path, || json!({"enum": first_words(words)}));
        self.read(path, |json| word(json, words))
    }

    /// Returns a duration. A number without unit is in seconds.
    pub(super) fn duration(&mut self, path: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.note(path, || {
            let (min, max) = (show_duration(*range.start()), show_duration(*range.end()));
            json!({"type": "string", "description": format!("A duration, {min} to {max}."), "examples": ["30s"]})
        });
        self.read(path, |json| duration(json, &range))
    }

    /// Returns a list. A single value counts as a list of one.
    pub(super) fn list<T: PartialEq>(
        &mut self,
        path: &'static str,
        max: usize,
        parse: impl Fn(&Json) -> Result<T, Errors>,
    ) -> Vec<T> {
        // `schema` adds the schema of the elements.
        self.note(path, || json!({"type": "array", "maxItems": max}));
        self.read(path, |json| list(json, max, &parse)).unwrap_or_default()
    }
}

/// Parses a text of at most `max` characters without control characters.
pub(super) fn text(json: &Json, max: usize) -> Result<String, Errors> {
    let text = match json {
        Json::Text(text) => text.clone(),
        Json::Number(number) => number.to_string(),
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
pub(super) fn flag(json: &Json) -> Result<bool, Errors> {
    match json {
        Json::Bool(bool) => Ok(*bool),
        Json::Text(_) => word(json, &[("true", true), ("yes", true), ("false", false), ("no", false)]),
        other => invalid(format!("{} is not a boolean; write true or false", other.what())),
    }
}

/// Parses an integer within a range.
pub(super) fn whole(json: &Json, range: &RangeInclusive<u64>) -> Result<u64, Errors> {
    let number = match json {
        Json::Number(number) => number.as_u64(),
        Json::Text(text) if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => text.trim().parse().ok(),
        _ => None,
    };
    let (min, max) = (range.start(), range.end());
    match number {
        Some(number) if range.contains(&number) => Ok(number),
        Some(number) => invalid(format!("{number} is out of range; write an integer from {min} to {max}")),
        None => invalid(format!("{} is not an integer; write one from {min} to {max}", json.what())),
    }
}

/// Parses one of a few words.
pub(super) fn word<T: Copy + PartialEq>(json: &Json, words: &[(&str, T)]) -> Result<T, Errors> {
    let allowed = || first_words(words).join(", ");
    let Json::Text(text) = json else {
        return invalid(format!("{} is not a text; give {}", json.what(), allowed()));
    };
    match words.iter().find(|(word, _)| folds_alike(word, text.trim())) {
        Some((_, value)) => Ok(*value),
        None => invalid(format!("{} is unknown; give {}", json.what(), allowed())),
    }
}

/// Returns the canonical words: of the words with one meaning, the first.
fn first_words<'a, T: PartialEq>(words: &[(&'a str, T)]) -> Vec<&'a str> {
    let first = |(at, (_, of)): &(usize, &(&str, T))| words.iter().position(|(_, other)| other == of) == Some(*at);
    words.iter().enumerate().filter(first).map(|(_, (word, _))| *word).collect()
}

/// Parses a duration with its unit, or a number of seconds.
pub(super) fn duration(json: &Json, range: &RangeInclusive<Duration>) -> Result<Duration, Errors> {
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
        Ok(duration) if range.contains(&duration) => Ok(duration),
        Ok(duration) => {
            let (min, max) = (show_duration(*range.start()), show_duration(*range.end()));
            invalid(format!("{} is out of range; write a duration from {min} to {max}", show_duration(duration)))
        }
        Err(what) => invalid(format!("{what}; write it like 30s")),
    }
}

/// Parses the elements of a list. Errors have the index of the element.
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
