//! Assigns the keys of a body to fields. Case and separators are ignored, and most fields have several names and places.
//!
//! A body is walked once. An unknown key is an error that names the closest field. `values` then parses the fields.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::OnceLock,
};

use fairway_model::closest;
use serde_json::Value;

use super::{
    error::{BodyError, ERRORS_MAX, step},
    json_wire::Json,
};

/// A field and its keys.
#[derive(Debug)]
pub(super) struct Field {
    /// Canonical place and name: `spec.traffic.lbMode`.
    pub(super) path: &'static str,
    /// Other places, folded: `spec.istio.loadbalancing`. The empty one is the body itself.
    pub(super) homes: &'static [&'static str],
    /// Other names, valid in all its places, folded.
    pub(super) names: &'static [&'static str],
}

impl Field {
    /// Returns a field with one place and one name.
    pub(super) const fn plain(path: &'static str) -> Self {
        Self { path, homes: &[], names: &[] }
    }

    /// Returns a field with one place and several names.
    pub(super) const fn named(path: &'static str, names: &'static [&'static str]) -> Self {
        Self { path, homes: &[], names }
    }

    /// Returns a field with several places and names.
    pub(super) const fn homed(
        path: &'static str,
        homes: &'static [&'static str],
        names: &'static [&'static str],
    ) -> Self {
        Self { path, homes, names }
    }

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

/// The fields of one kind of body, in groups.
#[derive(Debug)]
pub(super) struct Table {
    groups: &'static [&'static [Field]],
    index: OnceLock<Index>,
}

/// The fields by place and key. Built once per kind, since a start parses every stored object.
#[derive(Debug)]
struct Index {
    /// The first place is the body itself.
    places: Vec<IntentPath>,
}

/// An object that has fields, or objects with fields.
#[derive(Debug, Default)]
struct IntentPath {
    /// Folded; empty for the body itself.
    path: String,
    /// By folded key, and by canonical spelling: stored bodies have no other, and need not be folded.
    keys: HashMap<String, Meaning>,
}

/// Meaning of a key.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Field(&'static Field),
    /// Index of a place.
    IntentPath(usize),
}

impl IntentPath {
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
    /// Returns a table of groups.
    pub(super) const fn of(groups: &'static [&'static [Field]]) -> Self {
        Self { groups, index: OnceLock::new() }
    }

    /// Returns its fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.groups.iter().copied().flatten()
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(self))
    }
}

impl Index {
    /// If a key means several fields, the first one has it; a field precedes a place.
    fn of(table: &Table) -> Self {
        let mut index = Self { places: vec![IntentPath::default()] };
        for field in table.fields() {
            for (place, key) in field.meanings() {
                index.at(&place).keys.entry(key).or_insert(Meaning::Field(field));
            }
        }
        for place in table.fields().flat_map(Field::places) {
            let ends = place.match_indices('.').map(|(at, _)| at).chain([place.len()]);
            ends.for_each(|end| index.link(&place[..end]));
        }
        for field in table.fields() {
            let (home, name) = field.split();
            let keys = &mut index.at(&fold_path(home)).keys;
            if let Some(meaning) = keys.get(&*fold_path(name)).copied() {
                keys.entry(name.to_owned()).or_insert(meaning);
            }
        }
        index
    }

    /// Returns the index of a place, which is added if it is new.
    fn number(&mut self, path: &str) -> usize {
        let known = self.places.iter().position(|place| place.path == path);
        known.unwrap_or_else(|| {
            self.places.push(IntentPath { path: path.to_owned(), keys: HashMap::new() });
            self.places.len() - 1
        })
    }

    fn at(&mut self, path: &str) -> &mut IntentPath {
        let number = self.number(path);
        &mut self.places[number]
    }

    /// Adds a place to its parent place.
    fn link(&mut self, path: &str) {
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        let number = self.number(path);
        self.at(above).keys.entry(key.to_owned()).or_insert(Meaning::IntentPath(number));
    }
}

/// A body: its keys by field, and the errors so far.
pub(super) struct Body<'a> {
    table: &'static Table,
    /// In the order of the body. There are so few that a linear search is faster than a map.
    hits: Vec<Occurrence<'a>>,
    errors: Vec<BodyError>,
    /// Constraints of the fields, if they are collected.
    notes: Option<Notes>,
    is_stored: bool,
}

/// Constraints of fields, by their paths.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// A JSON Schema for each.
    pub(super) schemas: BTreeMap<&'static str, Value>,
    /// Required fields.
    pub(super) needed: Vec<&'static str>,
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
    /// Assigns the keys of a body to the fields of a table.
    pub(super) fn sort(table: &'static Table, json: &'a Json) -> Self {
        let mut body =
            Self { table, hits: Vec::with_capacity(HITS), errors: Vec::new(), notes: None, is_stored: false };
        match json {
            Json::Map(entries) => body.walk(entries, &table.index().places[0], None),
            other => body.error("", format!("the body is {}; send a JSON object", other.what())),
        }
        body
    }

    fn walk(&mut self, entries: &'a [(String, Json)], home: &'static IntentPath, above: Option<&Rc<Location<'a>>>) {
        for (key, value) in entries {
            let location = Location { above: above.cloned(), step: Step::Key(key) };
            let place = match home.meaning(key) {
                Some(Meaning::Field(field)) => {
                    self.hits.push(Occurrence { path: field.path, location, value });
                    continue;
                }
                Some(Meaning::IntentPath(number)) => &self.table.index().places[number],
                // Responses have these keys, and a response can be sent again.
                None if home.path.is_empty() && RESPONSE_KEYS.contains(&&*fold(key)) => continue,
                None => {
                    self.unknown(&location.pointer(), key, &home.path);
                    continue;
                }
            };
            match value {
                Json::Map(inner) => self.walk(inner, place, Some(&Rc::new(location))),
                Json::List(entries) => self.walk_list(entries, place, &Rc::new(location)),
                Json::Null => {}
                other => self.misplaced(&location, other),
            }
        }
    }

    fn misplaced(&mut self, location: &Location<'_>, json: &Json) {
        self.error(&location.pointer(), format!("{} is not an object; write an object with fields", json.what()));
    }

    /// Walks a list with one element as that element: some bodies have lists of one group.
    fn walk_list(&mut self, entries: &'a [Json], place: &'static IntentPath, above: &Rc<Location<'a>>) {
        for (at, entry) in entries.iter().enumerate() {
            let location = Location { above: Some(Rc::clone(above)), step: Step::Element(at) };
            match entry {
                Json::Map(inner) if at == 0 => self.walk(inner, place, Some(&Rc::new(location))),
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

    fn unknown(&mut self, pointer: &str, key: &str, home: &str) {
        let near = self.fields().filter(|field| {
            let own = field.split().0;
            is_folded(own, home) || field.homes.contains(&home)
        });
        let known: Vec<_> = near.map(|field| field.split().1).collect();
        let elsewhere: Vec<_> = self.fields().map(|field| field.split().1).collect();
        let hint = match closest(key, known.iter().copied()).or_else(|| closest(key, elsewhere)) {
            Some(name) => format!("did you mean {name}?"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("known here: {}", known.join(", ")),
        };
        self.error(pointer, format!("unknown field; {hint}"));
    }

    fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.table.fields()
    }

    /// Returns the keys that mean a field, in the order of the body, without empty values (`null` or an empty text).
    pub(super) fn found(&self, path: &'static str) -> impl Iterator<Item = &Occurrence<'a>> {
        debug_assert!(self.fields().any(|field| field.path == path), "{path} is in no table");
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

    /// Marks the body as a stored value, which was validated by the rules of the version that stored it.
    pub(super) fn stored(self) -> Self {
        Self { is_stored: true, ..self }
    }

    /// True if the body is a stored value.
    pub(super) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// True if there are no errors so far.
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Collects the constraints of fields from now on.
    pub(super) fn noting(self) -> Self {
        Self { notes: Some(Notes::default()), ..self }
    }

    /// Adds the constraint of a field, if constraints are collected.
    pub(super) fn note(&mut self, path: &'static str, schema: impl FnOnce() -> Value) {
        if let Some(notes) = &mut self.notes {
            notes.schemas.insert(path, schema());
        }
    }

    /// Adds a required field, if constraints are collected.
    pub(super) fn note_needed(&mut self, path: &'static str) {
        if let Some(notes) = &mut self.notes {
            notes.needed.push(path);
        }
    }

    /// Returns the collected constraints.
    pub(super) fn into_notes(self) -> Notes {
        self.notes.unwrap_or_default()
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

/// True if a camelCase text folds to `folded`.
fn is_folded(text: &str, folded: &str) -> bool {
    text.len() == folded.len() && text.eq_ignore_ascii_case(folded)
}

const SEPARATORS: [char; 3] = ['-', '_', ' '];
/// Initial capacity for keys. Most bodies have fewer.
const HITS: usize = 24;

/// Keys of responses that are ignored in requests.
const RESPONSE_KEYS: &[&str] = &["message", "status", "warnings"];
