//! Values of fields, in all the forms they come in: numbers as texts, texts as numbers, `yes` for true, durations without unit.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::json;

use super::{
    fault::Fault,
    fields::{Body, folds_alike},
    json_wire::Json,
};
use fairway_config::{parse_duration, show_duration};

/// What a value is at fault with; pointers go on from it.
pub(super) type Flaws = Vec<Fault>;

/// One flaw of the value itself.
pub(super) fn flaw<T>(detail: impl Into<String>) -> Result<T, Flaws> {
    Err(vec![Fault::new("", detail)])
}

impl Body<'_> {
    /// Reads a field. Where several keys mean it they must say the same.
    pub(super) fn read<T: PartialEq>(
        &mut self,
        path: &'static str,
        read: impl Fn(&Json) -> Result<T, Flaws>,
    ) -> Option<T> {
        let (mut said, mut faults) = (None, Vec::new());
        for hit in self.hits(path) {
            match (read(hit.value), &said) {
                (Ok(value), None) => said = Some((value, hit)),
                (Ok(value), Some((first, before))) if value != *first => {
                    let detail = format!("says otherwise than {}, and both mean {path}; keep one", before.pointer());
                    faults.push(Fault::new(hit.pointer(), detail));
                }
                (Ok(_), Some(_)) => {}
                (Err(flaws), _) => faults.extend(below(&hit.pointer(), flaws)),
            }
        }
        let said = said.map(|(value, _)| value);
        faults.into_iter().for_each(|Fault { pointer, detail }| self.fault(&pointer, detail));
        said
    }

    /// A text that may be missing; of at most so many characters.
    pub(super) fn text(&mut self, path: &'static str, most: usize) -> String {
        self.note(path, || json!({"type": "string", "maxLength": most}));
        self.read(path, |json| text(json, most)).unwrap_or_default()
    }

    /// A text that must be there.
    pub(super) fn needed_text(&mut self, path: &'static str, most: usize, example: &str) -> String {
        self.need(path, example);
        self.text(path, most)
    }

    /// Records a fault where nothing is said.
    pub(super) fn need(&mut self, path: &'static str, example: &str) {
        self.note_needed(path);
        if self.hits(path).next().is_none() {
            self.fault_at(path, format!("is missing; give it, as {example}"));
        }
    }

    /// `true`, `false`, `yes` or `no`.
    pub(super) fn flag(&mut self, path: &'static str) -> bool {
        self.note(path, || json!({"type": "boolean"}));
        self.read(path, flag).unwrap_or_default()
    }

    /// A whole number, also as a text.
    pub(super) fn whole<T: TryFrom<u64> + PartialEq>(
        &mut self,
        path: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<T> {
        self.note(path, || json!({"type": "integer", "minimum": range.start(), "maximum": range.end()}));
        self.read(path, |json| {
            let number = whole(json, &range)?;
            T::try_from(number).or_else(|_| flaw(format!("{number} is too large")))
        })
    }

    /// One of a few words; case and separators do not count.
    pub(super) fn word<T: Copy + PartialEq>(&mut self, path: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.note(path, || json!({"enum": first_words(words)}));
        self.read(path, |json| word(json, words))
    }

    /// A duration with its unit; without one it counts seconds.
    pub(super) fn duration(&mut self, path: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.note(path, || {
            let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
            json!({"type": "string", "description": format!("A duration, {least} to {most}."), "examples": ["30s"]})
        });
        self.read(path, |json| duration(json, &range))
    }

    /// A list of values; a single one counts as a list.
    pub(super) fn list<T: PartialEq>(
        &mut self,
        path: &'static str,
        most: usize,
        read: impl Fn(&Json) -> Result<T, Flaws>,
    ) -> Vec<T> {
        self.note(path, || json!({"type": "array", "maxItems": most, "items": super::schema::item(path)}));
        self.read(path, |json| list(json, most, &read)).unwrap_or_default()
    }
}

/// Characters, at most so many, none of them a control.
pub(super) fn text(json: &Json, most: usize) -> Result<String, Flaws> {
    let text = match json {
        Json::Text(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        other => return flaw(format!("{} is no text; give a text", other.what())),
    };
    // Most are plain, and read by the hundred thousand at a start.
    if text.len() <= most && text.bytes().all(|octet| matches!(octet, b' '..=b'~')) {
        return Ok(text);
    }
    let length = text.chars().count();
    if length > most {
        return flaw(format!("the text has {length} characters; {most} is the most"));
    }
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if text.chars().any(odd) {
        return flaw("the text has control characters; take them out");
    }
    Ok(text)
}

/// `true` and `false` in the forms they come in.
pub(super) fn flag(json: &Json) -> Result<bool, Flaws> {
    match json {
        Json::Bool(bool) => Ok(*bool),
        Json::Text(_) => word(json, &[("true", true), ("yes", true), ("false", false), ("no", false)]),
        other => flaw(format!("{} is neither true nor false; give one of both", other.what())),
    }
}

/// A whole number within bounds.
pub(super) fn whole(json: &Json, range: &RangeInclusive<u64>) -> Result<u64, Flaws> {
    let number = match json {
        Json::Number(number) => number.as_u64(),
        Json::Text(text) if text.trim().bytes().all(|octet| octet.is_ascii_digit()) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if range.contains(&number) => Ok(number),
        Some(number) => {
            flaw(format!("{number} is not within {} to {}; give such a number", range.start(), range.end()))
        }
        None => {
            let what = json.what();
            flaw(format!("{what} is no whole number; give one from {} to {}", range.start(), range.end()))
        }
    }
}

/// One of a few words; of the words with one meaning the first is the canonical one, which a fault shows.
pub(super) fn word<T: Copy + PartialEq>(json: &Json, words: &[(&str, T)]) -> Result<T, Flaws> {
    let Json::Text(text) = json else {
        return flaw(format!("{} is no text; give {}", json.what(), canonical(words)));
    };
    let said = text.trim();
    let found = words.iter().find(|(word, _)| folds_alike(word, said));
    found.map_or_else(|| flaw(format!("{} is not known; give {}", json.what(), canonical(words))), |(_, of)| Ok(*of))
}

fn canonical<T: PartialEq>(words: &[(&str, T)]) -> String {
    first_words(words).join(", ")
}

/// Of the words with one meaning the first, which is the canonical one.
fn first_words<'a, T: PartialEq>(words: &[(&'a str, T)]) -> Vec<&'a str> {
    let first = |(at, (_, of)): &(usize, &(&str, T))| words.iter().position(|(_, other)| other == of) == Some(*at);
    words.iter().enumerate().filter(first).map(|(_, (word, _))| *word).collect()
}

/// A duration with its unit, or a number of seconds.
pub(super) fn duration(json: &Json, range: &RangeInclusive<Duration>) -> Result<Duration, Flaws> {
    let seconds = |number: u64| Duration::from_secs(number.min(u64::from(u32::MAX)));
    let found = match json {
        Json::Number(number) => {
            number.as_u64().map(seconds).ok_or_else(|| format!("{number} is no whole number of seconds"))
        }
        Json::Text(text) => match text.trim().parse::<u64>() {
            Ok(number) => Ok(seconds(number)),
            Err(_) => parse_duration(text.trim()),
        },
        other => Err(format!("{} is no duration", other.what())),
    };
    match found {
        Ok(found) if range.contains(&found) => Ok(found),
        Ok(found) => {
            let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
            flaw(format!("{} is not within {least} to {most}; give such a duration", show_duration(found)))
        }
        Err(what) => flaw(format!("{what}; write it like 30s")),
    }
}

/// Elements of a list, every flaw with its number.
pub(super) fn list<T>(json: &Json, most: usize, read: impl Fn(&Json) -> Result<T, Flaws>) -> Result<Vec<T>, Flaws> {
    let elements = match json {
        Json::List(elements) => &elements[..],
        Json::Map(_) => return flaw("an object stands where a list is meant; give a list"),
        single => std::slice::from_ref(single),
    };
    if elements.len() > most {
        return flaw(format!("the list has {} elements; {most} is the most", elements.len()));
    }
    let mut values = Vec::with_capacity(elements.len());
    let mut flaws = Vec::new();
    let is_list = matches!(json, Json::List(_));
    for (at, element) in elements.iter().enumerate() {
        match read(element) {
            Ok(value) => values.push(value),
            Err(found) if is_list => flaws.extend(below(&format!("/{at}"), found)),
            Err(found) => flaws.extend(found),
        }
    }
    if flaws.is_empty() { Ok(values) } else { Err(flaws) }
}

/// Flaws of a part, with the way to it.
pub(super) fn below(way: &str, flaws: Flaws) -> Flaws {
    flaws.into_iter().map(|flaw| Fault::new(format!("{way}{}", flaw.pointer), flaw.detail)).collect()
}
