//! Visits the fields of a body. Case and separators of keys are ignored, and most fields have several names and places.
//!
//! A body that is read is walked once, which assigns its keys to fields. An unknown key is an error that names the closest field.
//! `values` has the forms of values.

use std::{borrow::Cow, collections::HashMap, rc::Rc};

use fairway_model::{closest, intent::Intent};
use serde_json::Value;

use super::{
    error::{BodyError, ERRORS_MAX, step},
    json_wire::Json,
    values::{Form, Optional, below},
};

/// A field and its keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Canonical place and name: `spec.traffic.lbMode`.
    pub(super) path: &'static str,
    /// Other places, folded: `spec.istio.loadbalancing`. The empty one is the body itself.
    pub(super) homes: &'static [&'static str],
    /// Other names, valid in all its places, folded.
    pub(super) names: &'static [&'static str],
}

/// Returns a field with one place and several names.
pub(super) const fn named(path: &'static str, names: &'static [&'static str]) -> Field {
    homed(path, &[], names)
}

/// Returns a field with several places and names.
pub(super) const fn homed(path: &'static str, homes: &'static [&'static str], names: &'static [&'static str]) -> Field {
    Field { path, homes, names }
}

impl From<&'static str> for Field {
    /// Returns a field with one place and one name.
    fn from(path: &'static str) -> Self {
        homed(path, &[], &[])
    }
}

impl Field {
    /// Returns the canonical place and name.
    fn split(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// Returns its folded places, the canonical one first.
    fn places(&self) -> impl Iterator<Item = String> {
        let others = self.homes.iter().map(|home| (*home).to_owned());
        std::iter::once(fold_path(self.split().0)).chain(others)
    }

    /// Returns its folded places and keys. The canonical name is valid in the canonical place only: short names like `ca` are ambiguous
    /// elsewhere.
    fn meanings(&self) -> impl Iterator<Item = (String, String)> {
        let (home, name) = self.split();
        let others =
            self.places().flat_map(move |place| self.names.iter().map(move |name| (place.clone(), (*name).to_owned())));
        std::iter::once((fold_path(home), fold_path(name))).chain(others)
    }
}

/// The fields of one kind of body, by place and key. Made once per kind, since a start parses every stored object.
#[derive(Debug)]
pub(super) struct Table {
    /// All fields, each with the JSON Schema of its value.
    pub(super) fields: Vec<(Field, Value)>,
    /// Paths of the fields that a body must have.
    pub(super) required: Vec<&'static str>,
    /// The first place is the body itself.
    places: Vec<Place>,
}

/// An object that has fields, or objects with fields.
#[derive(Debug, Default)]
struct Place {
    /// Folded; empty for the body itself.
    path: String,
    /// By folded key, and by canonical spelling: stored bodies have no other, and need not be folded.
    keys: HashMap<String, Meaning>,
}

/// Meaning of a key.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The path of a field.
    Field(&'static str),
    /// Index of a place.
    Place(usize),
}

impl Place {
    fn meaning(&self, key: &str) -> Option<Meaning> {
        let known = self.keys.get(key).or_else(|| match fold(key) {
            // The key is folded, and was not found.
            Cow::Borrowed(_) => None,
            Cow::Owned(folded) => self.keys.get(&folded),
        });
        known.copied()
    }
}

impl Table {
    /// Returns the table of these fields. If a key means several fields, the first one has it; a field precedes a place.
    pub(super) fn new(fields: Vec<(Field, Value)>, required: Vec<&'static str>) -> Self {
        let mut table = Self { fields: Vec::new(), required, places: vec![Place::default()] };
        for (field, _) in &fields {
            for (place, key) in field.meanings() {
                table.at(&place).keys.entry(key).or_insert(Meaning::Field(field.path));
            }
        }
        for place in fields.iter().flat_map(|(field, _)| field.places()) {
            let ends = place.match_indices('.').map(|(at, _)| at).chain([place.len()]);
            ends.for_each(|end| table.link(&place[..end]));
        }
        for (field, _) in &fields {
            let (home, name) = field.split();
            let keys = &mut table.at(&fold_path(home)).keys;
            if let Some(meaning) = keys.get(&*fold_path(name)).copied() {
                keys.entry(name.to_owned()).or_insert(meaning);
            }
        }
        Self { fields, ..table }
    }

    /// Returns the index of a place, which is added if it is new.
    fn number(&mut self, path: &str) -> usize {
        let known = self.places.iter().position(|place| place.path == path);
        known.unwrap_or_else(|| {
            self.places.push(Place { path: path.to_owned(), keys: HashMap::new() });
            self.places.len() - 1
        })
    }

    fn at(&mut self, path: &str) -> &mut Place {
        let number = self.number(path);
        &mut self.places[number]
    }

    /// Adds a place to its parent place.
    fn link(&mut self, path: &str) {
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        let number = self.number(path);
        self.at(above).keys.entry(key.to_owned()).or_insert(Meaning::Place(number));
    }
}

/// A pass over the fields of an object: from a body, to a body, or to learn what fields there are. A function per kind names each field
/// once, for all passes.
pub(super) struct Body<'a> {
    pass: Pass,
    /// The keys of the body that is read, in its order. There are so few that a linear search is faster than a map.
    hits: Vec<Occurrence<'a>>,
    errors: Vec<BodyError>,
    /// Paths of required fields, of a pass that collects fields.
    required: Vec<&'static str>,
    /// The object that is replaced, whose secrets the body may keep.
    pub(super) before: Option<&'a Intent>,
    /// True if the body is in the stored form: it has secrets and no empty fields, and was validated by the rules of the version that
    /// stored it.
    pub(super) is_stored: bool,
}

enum Pass {
    /// Collects the fields and their schemas.
    Describe(Vec<(Field, Value)>),
    /// Parses the values of a body.
    Read,
    /// Writes the canonical form.
    Write(Json),
}

/// A key of a body that means a field.
#[derive(Clone, Debug)]
pub(super) struct Occurrence<'a> {
    /// Path of the field.
    path: &'static str,
    location: Location<'a>,
    /// Value.
    pub(super) value: &'a Json,
}

impl Occurrence<'_> {
    /// Returns the pointer to the value.
    pub(super) fn pointer(&self) -> String {
        self.location.pointer()
    }

    fn is_empty(&self) -> bool {
        match self.value {
            Json::Null => true,
            Json::Text(text) => text.trim().is_empty(),
            _ => false,
        }
    }
}

/// Location of a value. It is turned into a pointer only for an error.
#[derive(Clone, Debug)]
struct Location<'a> {
    /// Location of the parent object or list.
    above: Option<Rc<Self>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Key(&'a str),
    Element(usize),
}

impl Location<'_> {
    fn pointer(&self) -> String {
        let above = self.above.as_ref().map(|above| above.pointer()).unwrap_or_default();
        match self.step {
            Step::Key(key) => above + &step(key),
            Step::Element(at) => format!("{above}/{at}"),
        }
    }
}

impl<'a> Body<'a> {
    fn new(pass: Pass) -> Self {
        Self { pass, hits: Vec::new(), errors: Vec::new(), required: Vec::new(), before: None, is_stored: false }
    }

    /// Returns a pass that reads a body: assigns its keys to the fields of a table.
    pub(super) fn of(json: &'a Json, table: &'static Table) -> Self {
        let mut body = Self { hits: Vec::with_capacity(HITS), ..Self::new(Pass::Read) };
        match json {
            Json::Map(entries) => body.walk(entries, table, &table.places[0], None),
            other => body.error("", format!("the body is {}; send a JSON object", other.what())),
        }
        body
    }

    /// Returns a pass that writes the canonical form, stored or public.
    pub(super) fn to_write(is_stored: bool) -> Self {
        Self { is_stored, ..Self::new(Pass::Write(Json::Map(Vec::new()))) }
    }

    /// Returns a pass that collects the fields.
    pub(super) fn to_describe() -> Self {
        Self::new(Pass::Describe(Vec::new()))
    }

    /// Returns what was written.
    pub(super) fn into_json(self) -> Json {
        if let Pass::Write(json) = self.pass { json } else { Json::Null }
    }

    /// Returns the table of the fields that were collected.
    pub(super) fn into_table(self) -> Table {
        let Pass::Describe(fields) = self.pass else { return Table::new(Vec::new(), self.required) };
        Table::new(fields, self.required)
    }

    /// Visits a field. A value stays as it is if the body that is read lacks the field, or has an error there.
    pub(super) fn field<F: Form>(&mut self, field: impl Into<Field>, form: &F, value: &mut F::Value) {
        let field = field.into();
        match &mut self.pass {
            Pass::Describe(fields) => fields.push((field, form.schema())),
            Pass::Read => {
                if let Some(parsed) = self.parse(field.path, form) {
                    *value = parsed;
                }
            }
            Pass::Write(_) => self.write(field.path, form.write(value)),
        }
    }

    /// Visits a field that may be missing.
    pub(super) fn optional<F: Form>(&mut self, field: impl Into<Field>, form: &F, value: &mut Option<F::Value>) {
        self.field(field, &Optional(form), value);
    }

    /// Writes a value, in a pass that writes. The stored form has no empty values.
    pub(super) fn write(&mut self, path: &str, value: impl Into<Json>) {
        let value = value.into();
        if let Pass::Write(json) = &mut self.pass
            && !(self.is_stored && value.is_empty())
        {
            json.put(path, value);
        }
    }

    /// Parses a field. If several keys mean the field, their values must be equal.
    fn parse<F: Form>(&mut self, path: &'static str, form: &F) -> Option<F::Value> {
        let (mut first, mut errors) = (None, Vec::new());
        for found in self.found(path) {
            match (form.parse(found.value), &first) {
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

    /// Visits a required field. The error of a body without it has the example.
    pub(super) fn required<F: Form>(&mut self, field: impl Into<Field>, form: &F, value: &mut F::Value, example: &str) {
        let field = field.into();
        match self.pass {
            Pass::Describe(_) => self.required.push(field.path),
            Pass::Read if self.found(field.path).next().is_none() => {
                self.error_at(field.path, format!("is missing; add it, for example {example}"));
            }
            Pass::Read | Pass::Write(_) => {}
        }
        self.field(field, form, value);
    }

    fn walk(
        &mut self,
        entries: &'a [(String, Json)],
        table: &'static Table,
        home: &'static Place,
        above: Option<&Rc<Location<'a>>>,
    ) {
        for (key, value) in entries {
            let location = Location { above: above.cloned(), step: Step::Key(key) };
            let place = match home.meaning(key) {
                Some(Meaning::Field(path)) => {
                    self.hits.push(Occurrence { path, location, value });
                    continue;
                }
                Some(Meaning::Place(number)) => &table.places[number],
                // Responses have these keys, and a response can be sent again.
                None if home.path.is_empty() && RESPONSE_KEYS.contains(&&*fold(key)) => continue,
                None => {
                    self.unknown(table, &location.pointer(), key, &home.path);
                    continue;
                }
            };
            match value {
                Json::Map(inner) => self.walk(inner, table, place, Some(&Rc::new(location))),
                Json::List(entries) => self.walk_list(entries, table, place, &Rc::new(location)),
                Json::Null => {}
                other => self.misplaced(&location, other),
            }
        }
    }

    fn misplaced(&mut self, location: &Location<'_>, json: &Json) {
        self.error(&location.pointer(), format!("{} is not an object; write an object with fields", json.what()));
    }

    /// Walks a list with one element as that element: some bodies have lists of one group.
    fn walk_list(
        &mut self,
        entries: &'a [Json],
        table: &'static Table,
        place: &'static Place,
        above: &Rc<Location<'a>>,
    ) {
        for (at, entry) in entries.iter().enumerate() {
            let location = Location { above: Some(Rc::clone(above)), step: Step::Element(at) };
            match entry {
                Json::Map(inner) if at == 0 => self.walk(inner, table, place, Some(&Rc::new(location))),
                Json::Map(_) => {
                    self.error(
                        &location.pointer(),
                        "a second element is not allowed: send each as an object with its own name",
                    );
                }
                other => self.misplaced(&location, other),
            }
        }
    }

    fn unknown(&mut self, table: &Table, pointer: &str, key: &str, home: &str) {
        let fields = || table.fields.iter().map(|(field, _)| field);
        let near = fields().filter(|field| field.split().0.eq_ignore_ascii_case(home) || field.homes.contains(&home));
        let known: Vec<_> = near.map(|field| field.split().1).collect();
        let elsewhere = fields().map(|field| field.split().1);
        let hint = match closest(key, known.iter().copied()).or_else(|| closest(key, elsewhere)) {
            Some(name) => format!("did you mean {name}?"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("known here: {}", known.join(", ")),
        };
        self.error(pointer, format!("unknown field; {hint}"));
    }

    /// Returns the keys that mean a field, in the order of the body, without empty values (`null` or an empty text).
    pub(super) fn found(&self, path: &'static str) -> impl Iterator<Item = &Occurrence<'a>> {
        self.hits.iter().filter(move |hit| hit.path == path && !hit.is_empty())
    }

    /// Returns the pointer to a field, which is the canonical one if the body lacks the field.
    pub(super) fn pointer(&self, path: &'static str) -> String {
        let found = self.hits.iter().find(|hit| hit.path == path);
        found.map_or_else(|| path.split('.').map(step).collect(), Occurrence::pointer)
    }

    /// Records an error at a pointer.
    pub(super) fn error(&mut self, pointer: &str, detail: impl Into<String>) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(BodyError::new(pointer, detail));
        }
    }

    /// Records an error at a field.
    pub(super) fn error_at(&mut self, path: &'static str, detail: impl Into<String>) {
        let pointer = self.pointer(path);
        self.error(&pointer, detail);
    }

    /// True if this is a pass over a body that a client sent.
    pub(super) fn is_request(&self) -> bool {
        matches!(self.pass, Pass::Read) && !self.is_stored
    }

    /// True if there are no errors so far.
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the errors.
    pub(super) fn into_errors(self) -> Vec<BodyError> {
        self.errors
    }
}

/// Folds a key: removes case and separators. A dot of the key becomes a zero byte, since dots separate places.
pub(super) fn fold(key: &str) -> Cow<'_, str> {
    let is_folded = |byte: u8| !byte.is_ascii_uppercase() && !matches!(byte, b'-' | b'_' | b' ' | b'.');
    if key.bytes().all(is_folded) { Cow::Borrowed(key) } else { folded(key).collect() }
}

/// True if two keys differ in case and separators only.
pub(super) fn folds_alike(one: &str, other: &str) -> bool {
    one == other || folded(one).eq(folded(other))
}

fn folded(key: &str) -> impl Iterator<Item = char> {
    let chars = key.chars().filter(|c| !SEPARATORS.contains(c));
    chars.map(|c| if c == '.' { '\0' } else { c.to_ascii_lowercase() })
}

fn fold_path(path: &str) -> String {
    path.to_ascii_lowercase()
}

const SEPARATORS: [char; 3] = ['-', '_', ' '];
/// Initial capacity for keys. Most bodies have fewer.
const HITS: usize = 24;

/// Keys of responses that are ignored in requests.
const RESPONSE_KEYS: &[&str] = &["message", "status", "warnings"];
