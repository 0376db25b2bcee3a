//! A configuration file as a tree of values with their positions, before conversion.
//!
//! Independent of YAML and of the schema. Paths are JSON pointers (RFC 6901) inside and `pools[2].ttl` in messages.

use std::{cell::OnceCell, fmt::Write as _, sync::Arc};

use fairway_model::FileLocation;
use serde_json::{Number, Value};

use super::{join::join, yaml};

/// Start of a node: a location without the name of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// Index into the names of the loaded files.
    pub(super) file: u16,
    /// Line, from 1; 0 for the file as a whole.
    pub(super) line: u32,
    /// Column in characters, from 1.
    pub(super) column: u32,
}

impl Position {
    /// Returns the location with the name of its file.
    pub(super) fn location(self, files: &[Arc<str>]) -> FileLocation {
        FileLocation { file: Arc::clone(&files[usize::from(self.file)]), line: self.line, column: self.column }
    }
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Start of the value.
    pub(super) position: Position,
    /// Index in the list of its own file, from 0; 0 outside lists. Joining and pruning do not change it.
    pub(super) index: u32,
    /// The value.
    pub(super) data: Data,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// A key without value, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, or outside the range of `i64`; always finite.
    Float(f64),
    /// Any other scalar.
    Text(String),
    /// Elements in order.
    List(Vec<Node>),
    /// Keys in order, each unique.
    Map(Vec<Entry>),
}

/// A key of a map, and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key.
    pub(super) key: String,
    /// Start of the key.
    pub(super) position: Position,
    /// The value.
    pub(super) value: Node,
}

impl Node {
    /// Returns the value of a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns a key of a map with its value.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        let Data::Map(entries) = &self.data else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the tree as a JSON value, without positions.
    pub(super) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(bool) => Value::Bool(*bool),
            Data::Integer(integer) => Value::from(*integer),
            Data::Float(float) => Number::from_f64(*float).map_or(Value::Null, Value::Number),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(elements) => elements.iter().map(Self::to_json).collect(),
            Data::Map(entries) => entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect(),
        }
    }

    /// Adds a key to a map that lacks it.
    pub(super) fn add(&mut self, key: &str, data: Data) {
        let position = self.position;
        if let Data::Map(entries) = &mut self.data
            && entries.iter().all(|entry| entry.key != key)
        {
            entries.push(Entry { key: key.to_owned(), position, value: Self { position, index: 0, data } });
        }
    }

    /// Returns the name of the object that is a part; `None` if the part has none.
    pub(super) fn name_of(&self, (section, index): &Part) -> Option<String> {
        let Data::List(elements) = &self.get(section)?.data else { return None };
        match &elements.get((*index)?)?.get("name")?.data {
            Data::Text(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Removes a part. Later elements move up.
    pub(super) fn prune(&mut self, (section, index): &Part) {
        let Data::Map(entries) = &mut self.data else { return };
        let Some(at) = entries.iter().position(|entry| entry.key == *section) else { return };
        match (&mut entries[at].value.data, index) {
            (Data::List(elements), Some(index)) if *index < elements.len() => drop(elements.remove(*index)),
            _ => drop(entries.remove(at)),
        }
    }

    /// Returns the positions of the last node on the way of a pointer, and its path for messages.
    pub(super) fn locate(&self, pointer: &str) -> Located {
        let mut located = Located { position: self.position, key: self.position, path: String::new() };
        let mut node = Some(self);
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let found = match node.map(|node| &node.data) {
                Some(Data::List(elements)) => {
                    let element = step.parse::<usize>().ok().and_then(|index| elements.get(index));
                    let index = element.map_or(step, |element| element.index.to_string());
                    write!(located.path, "[{index}]").expect("a String takes every write");
                    element.map(|element| (element.position, element))
                }
                _ => {
                    push_key(&mut located.path, &step);
                    node.and_then(|node| node.entry(&step)).map(|entry| (entry.position, &entry.value))
                }
            };
            if let Some((key, node)) = found {
                (located.key, located.position) = (key, node.position);
            }
            node = found.map(|(_, node)| node);
        }
        located
    }
}

/// The tree of a whole configuration. One that was read as JSON is parsed as a tree only when a position is needed.
pub(super) struct Tree<'a> {
    /// Names of the files, by the index in a [`Position`].
    pub(super) files: &'a [Arc<str>],
    /// The texts, if the tree may still have to be parsed.
    texts: &'a [Option<String>],
    root: OnceCell<Node>,
}

impl<'a> Tree<'a> {
    /// Returns a tree that is parsed from its text when a position is needed.
    pub(super) fn lazy(texts: &'a [Option<String>], files: &'a [Arc<str>]) -> Self {
        Self { files, texts, root: OnceCell::new() }
    }

    /// Returns a tree that is already parsed.
    pub(super) fn parsed(root: Node, files: &'a [Arc<str>]) -> Self {
        Self { files, texts: &[], root: root.into() }
    }

    /// Returns the position and path of a pointer; parses the tree if necessary.
    pub(super) fn locate(&self, pointer: &str) -> Located {
        self.root_node().locate(pointer)
    }

    /// Returns the position of a pointer if the tree is already parsed; otherwise only the file is known.
    pub(super) fn parsed_position(&self, pointer: &str) -> Position {
        self.root.get().map_or_else(Position::default, |root| root.locate(pointer).position)
    }
    /// Returns the tree, after parsing it if necessary.
    fn root_node(&self) -> &Node {
        self.root.get_or_init(|| {
            // A text that cannot be parsed as YAML has no positions except the file as a whole.
            let grow = |(text, file): (&Option<String>, u16)| yaml::parse(text.as_ref()?, file, self.files).ok()?;
            join(self.texts.iter().zip(0..).filter_map(grow).collect(), self.files, &mut Vec::new())
        })
    }
}

/// A part that can be left out of a configuration: a section, or one element of it.
pub(super) type Part = (String, Option<usize>);

/// The position and path of a node.
#[derive(Clone, Debug)]
pub(super) struct Located {
    /// Start of the node.
    pub(super) position: Position,
    /// Start of its key; of the node in a list.
    pub(super) key: Position,
    /// `pools[2].ttl`; empty for the whole configuration.
    pub(super) path: String,
}

/// Appends `.key`, or `["key"]` if the key is not a plain word.
fn push_key(path: &mut String, key: &str) {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if plain && key.len() <= SHOWN_MAX {
        path.push_str(if path.is_empty() { "" } else { "." });
        path.push_str(key);
    } else {
        write!(path, "[{}]", quoted(key)).expect("a String takes every write");
    }
}

/// Returns text as messages show it: quoted, control characters escaped, truncated if long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

/// Largest number of characters of user input that a message shows.
const SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(data: Data, file: u16, line: u32) -> Node {
        Node { position: Position { file, line, column: 1 }, index: 0, data }
    }

    fn map(key: &str, value: Node) -> Node {
        let position = value.position;
        node(Data::Map(vec![Entry { key: key.to_owned(), position, value }]), position.file, position.line)
    }

    #[test]
    fn path_has_index_of_element_in_its_own_file() {
        let element = |(index, file, line)| Node { index, ..map("ttl", node(Data::Integer(1), file, line)) };
        let pools = [(0, 0, 1), (1, 0, 2), (0, 1, 7)].map(element);
        let tree = map("pools", node(Data::List(pools.into()), 0, 1));
        let found = tree.locate("/pools/2/ttl");
        assert_eq!((found.path.as_str(), found.position.file, found.position.line), ("pools[0].ttl", 1, 7));
        assert_eq!(tree.locate("/pools/1").path, "pools[1]");
    }

    #[test]
    fn pointer_to_nothing_has_position_of_last_known_node() {
        let tree = map("a/b", node(Data::Null, 0, 9));
        let found = tree.locate("/a~1b/c");
        assert_eq!((found.path.as_str(), found.position.line), ("[\"a/b\"].c", 9));
    }

    #[test]
    fn shown_text_is_truncated_and_escaped() {
        assert_eq!(quoted("a\tb"), "\"a\\tb\"");
        assert_eq!(quoted(&"ü".repeat(70)), format!("\"{}\"…", "ü".repeat(64)));
    }
}
