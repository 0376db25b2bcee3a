//! Which keys of a body mean which field: case and separators do not count, and most fields have several names and places.
//!
//! A body is walked once. Each key goes to its field, whatever it is called and wherever it stands; what goes to none is told
//! with the nearest known name. `values` then reads the fields.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::OnceLock,
};

use fairway_model::closest;
use serde_json::Value;

use super::{
    fault::{FAULTS_MAX, Fault, step},
    json_wire::Json,
};

/// A field and the keys that mean it.
#[derive(Debug)]
pub(super) struct Field {
    /// Where canonical bodies have it: `spec.traffic.lbMode`.
    pub(super) path: &'static str,
    /// Other places where it may stand, folded: `spec.istio.loadbalancing`; the empty one is the body itself.
    pub(super) homes: &'static [&'static str],
    /// Other names it may have in any of its places, folded.
    pub(super) names: &'static [&'static str],
}

impl Field {
    /// A field that stands in one place under one name.
    pub(super) const fn plain(path: &'static str) -> Self {
        Self { path, homes: &[], names: &[] }
    }

    /// A field with other names in its one place.
    pub(super) const fn named(path: &'static str, names: &'static [&'static str]) -> Self {
        Self { path, homes: &[], names }
    }

    /// A field with other names, in several places.
    pub(super) const fn homed(
        path: &'static str,
        homes: &'static [&'static str],
        names: &'static [&'static str],
    ) -> Self {
        Self { path, homes, names }
    }

    /// The canonical place and name.
    fn split(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// The folded places where it may stand, the canonical one first.
    fn places(&self) -> impl Iterator<Item = String> {
        let others = self.homes.iter().map(|home| (*home).to_owned());
        std::iter::once(fold_path(self.split().0)).chain(others)
    }

    /// The folded places and keys that mean it. Its canonical name counts in its canonical place only, since short names like
    /// `ca` say too little elsewhere.
    fn meanings(&self) -> impl Iterator<Item = (String, String)> {
        let (home, name) = self.split();
        let others =
            self.places().flat_map(move |place| self.names.iter().map(move |name| (place.clone(), (*name).to_owned())));
        std::iter::once((fold_path(home), fold_path(name))).chain(others)
    }
}

/// One kind of body: groups of fields.
#[derive(Debug)]
pub(super) struct Table {
    groups: &'static [&'static [Field]],
    index: OnceLock<Index>,
}

/// The way from keys to fields, made once: every object that a store holds is read at a start.
#[derive(Debug)]
struct Index {
    /// The first is the body itself.
    places: Vec<Place>,
}

/// An object that fields stand in, or below.
#[derive(Debug, Default)]
struct Place {
    /// Folded; empty for the body itself.
    path: String,
    /// By folded key, and by the canonical spelling: a body that the store keeps has no other, and need not be folded.
    keys: HashMap<String, Meaning>,
}

/// What a key means.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Field(&'static Field),
    /// The number of a place.
    Place(usize),
}

impl Place {
    fn meaning(&self, key: &str) -> Option<Meaning> {
        let known = self.keys.get(key).or_else(|| match fold(key) {
            // It was looked for.
            Cow::Borrowed(_) => None,
            Cow::Owned(folded) => self.keys.get(&folded),
        });
        known.copied()
    }
}

impl Table {
    /// A table of these groups.
    pub(super) const fn of(groups: &'static [&'static [Field]]) -> Self {
        Self { groups, index: OnceLock::new() }
    }

    /// Its fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.groups.iter().copied().flatten()
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(self))
    }
}

impl Index {
    /// Of several fields that one key means the first has it, and of a field and a place the field.
    fn of(table: &Table) -> Self {
        let mut index = Self { places: vec![Place::default()] };
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

    /// The number of a place, which may be a new one.
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

    /// Makes a place known to the one that it is right below.
    fn link(&mut self, path: &str) {
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        let number = self.number(path);
        self.at(above).keys.entry(key.to_owned()).or_insert(Meaning::Place(number));
    }
}

/// The keys of a body by the fields they mean, and what was found wrong so far.
pub(super) struct Body<'a> {
    table: &'static Table,
    /// In the order of the body. They are so few that a search through them takes less than a map does.
    hits: Vec<Hit<'a>>,
    faults: Vec<Fault>,
    /// What its fields are asked to be, where somebody wants to know.
    notes: Option<Notes>,
    is_kept: bool,
}

/// What fields are asked to be, by their paths.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// A JSON Schema each.
    pub(super) schemas: BTreeMap<&'static str, Value>,
    /// Those that must be there.
    pub(super) needed: Vec<&'static str>,
}

/// A key that means a field.
#[derive(Clone, Debug)]
pub(super) struct Hit<'a> {
    /// The path of the field.
    path: &'static str,
    way: Way<'a>,
    /// What it says.
    pub(super) value: &'a Json,
}

impl Hit<'_> {
    /// Where it stands.
    pub(super) fn pointer(&self) -> String {
        self.way.pointer()
    }

    fn says(&self) -> bool {
        !matches!(self.value, Json::Null) && !is_blank(self.value)
    }
}

/// The way to a value. It becomes a pointer only where something is at fault.
#[derive(Clone, Debug)]
struct Way<'a> {
    /// That of the object or list that it stands in.
    above: Option<Rc<Self>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Key(&'a str),
    Element(usize),
}

impl Way<'_> {
    fn pointer(&self) -> String {
        let above = self.above.as_ref().map(|above| above.pointer()).unwrap_or_default();
        match self.step {
            Step::Key(key) => above + &step(key),
            Step::Element(at) => format!("{above}/{at}"),
        }
    }
}

impl<'a> Body<'a> {
    /// Sorts the keys of a body.
    pub(super) fn sort(table: &'static Table, json: &'a Json) -> Self {
        let mut body = Self { table, hits: Vec::with_capacity(HITS), faults: Vec::new(), notes: None, is_kept: false };
        match json {
            Json::Map(entries) => body.walk(entries, &table.index().places[0], None),
            other => body.fault("", format!("the body is {}; give a JSON object", other.what())),
        }
        body
    }

    fn walk(&mut self, entries: &'a [(String, Json)], home: &'static Place, above: Option<&Rc<Way<'a>>>) {
        for (key, value) in entries {
            let way = Way { above: above.cloned(), step: Step::Key(key) };
            let place = match home.meaning(key) {
                Some(Meaning::Field(field)) => {
                    self.hits.push(Hit { path: field.path, way, value });
                    continue;
                }
                Some(Meaning::Place(number)) => &self.table.index().places[number],
                // Answers bring these along, and what an answer says can be sent again.
                None if home.path.is_empty() && ANSWERED.contains(&&*fold(key)) => continue,
                None => {
                    self.unknown(&way.pointer(), key, &home.path);
                    continue;
                }
            };
            match value {
                Json::Map(inner) => self.walk(inner, place, Some(&Rc::new(way))),
                Json::List(entries) => self.walk_list(entries, place, &Rc::new(way)),
                Json::Null => {}
                other => self.misplaced(&way, other),
            }
        }
    }

    fn misplaced(&mut self, way: &Way<'_>, json: &Json) {
        self.fault(&way.pointer(), format!("{} stands where fields are; give an object", json.what()));
    }

    /// A list of one group is that group: an object has one of each.
    fn walk_list(&mut self, entries: &'a [Json], place: &'static Place, above: &Rc<Way<'a>>) {
        for (at, entry) in entries.iter().enumerate() {
            let way = Way { above: Some(Rc::clone(above)), step: Step::Element(at) };
            match entry {
                Json::Map(inner) if at == 0 => self.walk(inner, place, Some(&Rc::new(way))),
                Json::Map(_) => {
                    self.fault(&way.pointer(), "is one too many: send each as an object with a name of its own");
                }
                other => self.misplaced(&way, other),
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
            Some(name) => format!("is {name} meant?"),
            None if known.is_empty() => "take it out".to_owned(),
            None => format!("known here: {}", known.join(", ")),
        };
        self.fault(pointer, format!("no field has this name; {hint}"));
    }

    fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.table.fields()
    }

    /// The keys that mean a field, in the order of the body; those that say nothing (`null` or an empty text) left out.
    pub(super) fn hits(&self, path: &'static str) -> impl Iterator<Item = &Hit<'a>> {
        debug_assert!(self.fields().any(|field| field.path == path), "{path} stands in no table");
        self.hits.iter().filter(move |hit| hit.path == path && hit.says())
    }

    /// The pointer to a field: where it stands, or where it would.
    pub(super) fn pointer(&self, path: &'static str) -> String {
        let there = self.hits.iter().find(|hit| hit.path == path);
        there.map_or_else(|| path.split('.').map(step).collect(), Hit::pointer)
    }

    /// Records a fault at a pointer.
    pub(super) fn fault(&mut self, pointer: &str, detail: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault::new(pointer, detail));
        }
    }

    /// Records a fault at a field.
    pub(super) fn fault_at(&mut self, path: &'static str, detail: impl Into<String>) {
        let pointer = self.pointer(path);
        self.fault(&pointer, detail);
    }

    /// It is what the store keeps: it was looked through when it was taken, and by what held then.
    pub(super) fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// Whether it is what the store keeps.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether nothing was found wrong so far.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// From now on notes what fields are asked to be.
    pub(super) fn noting(self) -> Self {
        Self { notes: Some(Notes::default()), ..self }
    }

    /// Notes what a field is asked to be, if somebody wants to know.
    pub(super) fn note(&mut self, path: &'static str, schema: impl FnOnce() -> Value) {
        if let Some(notes) = &mut self.notes {
            notes.schemas.insert(path, schema());
        }
    }

    /// Notes that a field must be there, if somebody wants to know.
    pub(super) fn note_needed(&mut self, path: &'static str) {
        if let Some(notes) = &mut self.notes {
            notes.needed.push(path);
        }
    }

    /// What was noted.
    pub(super) fn into_notes(self) -> Notes {
        self.notes.unwrap_or_default()
    }

    /// The faults so far.
    pub(super) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }
}

fn is_blank(json: &Json) -> bool {
    matches!(json, Json::Text(text) if text.trim().is_empty())
}

/// A key without case and separators. Dots part places, so that a key's own dot is replaced by what no table has.
pub(super) fn fold(key: &str) -> Cow<'_, str> {
    let is_folded = |octet: u8| !octet.is_ascii_uppercase() && !matches!(octet, b'-' | b'_' | b' ' | b'.');
    if key.bytes().all(is_folded) { Cow::Borrowed(key) } else { folded(key).collect() }
}

/// Whether two keys differ in case and separators alone.
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

/// Whether a camelCase text folds to this.
fn is_folded(text: &str, folded: &str) -> bool {
    text.len() == folded.len() && text.eq_ignore_ascii_case(folded)
}

const SEPARATORS: [char; 3] = ['-', '_', ' '];
/// Keys that a body has room for at first: most have fewer.
const HITS: usize = 24;

/// Keys of answers that say nothing in a request.
const ANSWERED: &[&str] = &["message", "status", "warnings"];
