//! Parses YAML (1.2, core schema) to a [`Node`] tree, within limits.
//!
//! Works on the parser's events, so that depth, size and the expansion of aliases are limited while reading. A file of a configuration has
//! one document; keys are scalars and unique; custom tags are rejected.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fairway_model::{Diagnostic, FileLocation};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::tree::{Data, Entry, Node, Position, quoted};

/// Largest nesting depth of lists and maps. The format itself needs seven.
const DEPTH_MAX: usize = 32;
/// Largest number of values in a file, including copies made by aliases: more than a file of 64 MiB has in practice.
const NODES_MAX: usize = 8_000_000;
/// Largest number of keys of one map. Except for headers, no map of the format has more than twenty.
const KEYS_MAX: usize = 10_000;
/// Number of keys up to which a linear search is used: nearly all maps are smaller.
const KEYS_FEW: usize = 16;
/// Largest number of values that all aliases together may copy.
const COPIES_MAX: usize = 100_000;

/// Number of documents that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Documents {
    /// At most one, as in a configuration.
    One,
    /// Any number.
    Many,
}

/// Parses one file; `None` if it has no document. Returns all errors up to the first one after which parsing cannot
/// continue.
pub(super) fn parse(text: &str, file: u16, files: &[Arc<str>]) -> Result<Option<Node>, Vec<Diagnostic>> {
    parse_documents(text, file, files, Documents::One).map(|mut documents| documents.pop())
}

/// Parses one file into its documents. Errors are those of [`parse`].
pub(super) fn parse_documents(
    text: &str,
    file: u16,
    files: &[Arc<str>],
    documents: Documents,
) -> Result<Vec<Node>, Vec<Diagnostic>> {
    let mut builder = TreeBuilder {
        parser: Parser::new_from_str(text),
        text,
        file,
        name: &files[usize::from(file)],
        anchors: BTreeMap::new(),
        nodes: 0,
        copies: 0,
        diagnostics: Vec::new(),
    };
    let roots = builder.documents(documents).unwrap_or_default();
    if builder.diagnostics.is_empty() { Ok(roots) } else { Err(builder.diagnostics) }
}

/// Parsing cannot continue; the error is recorded.
struct Stop;

struct TreeBuilder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    text: &'t str,
    file: u16,
    name: &'t Arc<str>,
    /// Values of anchors, with their number of nodes.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    copies: usize,
    diagnostics: Vec<Diagnostic>,
}

impl<'t> TreeBuilder<'t> {
    fn documents(&mut self, documents: Documents) -> Result<Vec<Node>, Stop> {
        let mut roots = Vec::new();
        loop {
            let (event, position) = self.event()?;
            match event {
                Event::StreamEnd => return Ok(roots),
                Event::DocumentStart(_) if documents == Documents::One && !roots.is_empty() => {
                    let hint = "write one document per file; a folder may have several files";
                    return Err(self.stop(position, "a second document begins here", hint));
                }
                Event::DocumentStart(_) => {
                    let (event, position) = self.event()?;
                    roots.push(self.node(event, position, 0)?);
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> Result<(Event<'t>, Position), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.position(&span.start))),
            Some(Err(error)) => Err(self.scan_error(&error)),
            None => Ok((Event::StreamEnd, Position { file: self.file, ..Position::default() })),
        }
    }

    fn node(&mut self, event: Event<'t>, position: Position, depth: usize) -> Result<Node, Stop> {
        if depth > DEPTH_MAX {
            let what = format!("lists and maps are nested more than {DEPTH_MAX} levels deep");
            return Err(self.stop(position, what, "no setting needs that; look for an extra bracket"));
        }
        let before = self.nodes;
        self.count(1, position)?;
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (self.scalar(text, style, tag.as_deref(), position), anchor),
            Event::SequenceStart(anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), position);
                (self.list(depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), position);
                (self.map(depth)?, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, position),
            _ => return Err(self.stop(position, "a value is missing here", "add one, or remove the key")),
        };
        let node = Node { position, index: 0, data };
        if anchor != 0 {
            let size = self.nodes - before;
            self.count(size, position)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Data, Stop> {
        let mut elements = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(Data::List(elements)),
                (event, position) => {
                    let index = u32::try_from(elements.len()).unwrap_or(u32::MAX);
                    elements.push(Node { index, ..self.node(event, position, depth + 1)? });
                }
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Data, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut many: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            let (event, position) = self.event()?;
            let key = match event {
                Event::MappingEnd => return Ok(Data::Map(entries)),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => {
                    return Err(self.stop(position, "a key is a list, a map or an alias", "write a plain word as key"));
                }
            };
            let (event, value_position) = self.event()?;
            // The position of a key without value is that of the key: the parser's position of the empty value is after
            // it.
            let value_position = if is_nothing(&event) { position } else { value_position };
            let value = self.node(event, value_position, depth + 1)?;
            let first = match entries.len() {
                0..=KEYS_FEW => entries.iter().find(|known| known.key == key),
                _ => many.get(&key).map(|at| &entries[*at]),
            };
            if let Some(first) = first {
                let line = first.position.line;
                let what = format!("key {} is repeated; it is already in line {line}", quoted(&key));
                self.report(position, what, "remove one of them");
                continue;
            }
            if entries.len() == KEYS_MAX {
                return Err(self.stop(position, format!("a map has more than {KEYS_MAX} keys"), "use a list instead"));
            }
            entries.push(Entry { key, position, value });
            if entries.len() > KEYS_FEW {
                many.extend((many.len()..entries.len()).map(|at| (entries[at].key.clone(), at)));
            }
        }
    }

    fn alias(&mut self, anchor: usize, position: Position) -> Result<Node, Stop> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            // The parser knows the anchor, so its value is still being parsed.
            return Err(self.stop(position, "an alias is inside the value that it refers to", "write the value out"));
        };
        let (mut node, size) = (node.clone(), *size);
        self.copies += size;
        if self.copies > COPIES_MAX {
            let what = format!("aliases copy more than {COPIES_MAX} values");
            return Err(self.stop(position, what, "write the values out, or spread them over several files"));
        }
        self.count(size, position)?;
        node.position = position;
        node.index = 0;
        Ok(node)
    }

    fn count(&mut self, nodes: usize, position: Position) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        Err(self.stop(
            position,
            format!("the file has more than {NODES_MAX} values"),
            "spread it over several files of a folder",
        ))
    }

    fn scalar(&mut self, text: Cow<'t, str>, style: ScalarStyle, tag: Option<&Tag>, position: Position) -> Data {
        match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
            Some((true, "str")) => return Data::Text(text.into_owned()),
            None | Some((true, "bool" | "float" | "int" | "null")) => {}
            Some(_) => self.tag_error(tag, position),
        }
        if style == ScalarStyle::Plain { plain(&text) } else { Data::Text(text.into_owned()) }
    }

    fn check_collection_tag(&mut self, tag: Option<&Tag>, position: Position) {
        if tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq"))) {
            self.tag_error(tag, position);
        }
    }

    fn tag_error(&mut self, tag: Option<&Tag>, position: Position) {
        let tag = tag.map(Tag::to_string).unwrap_or_default();
        self.report(position, format!("the tag {} is not supported", quoted(&tag)), "remove it, or quote the text");
    }

    fn scan_error(&mut self, error: &ScanError) -> Stop {
        let position = self.position(error.marker());
        let (what, hint) = explain(error.info(), self.text, error.marker());
        self.stop(position, what, hint)
    }

    fn stop(&mut self, position: Position, what: impl Into<String>, hint: impl Into<String>) -> Stop {
        self.report(position, what, hint);
        Stop
    }

    fn report(&mut self, position: Position, what: impl Into<String>, hint: impl Into<String>) {
        if self.diagnostics.len() < super::DIAGNOSTICS_MAX {
            let location = FileLocation { file: Arc::clone(self.name), line: position.line, column: position.column };
            self.diagnostics.push(Diagnostic::error(location, what, hint));
        }
    }

    /// Converts a marker of the parser, which counts lines from 1 and columns from 0.
    fn position(&self, marker: &Marker) -> Position {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { file: self.file, line: number(marker.line()), column: number(marker.col().saturating_add(1)) }
    }
}

fn is_nothing(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, ..) if text.is_empty())
}

/// Resolves an unquoted scalar (YAML 1.2.2 section 10.3.2). `.nan` and `.inf` stay text: no setting can have them.
fn plain(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" => return Data::Bool(true),
        "false" | "False" | "FALSE" => return Data::Bool(false),
        _ => {}
    }
    let based = |prefix, base| text.strip_prefix(prefix).and_then(|digits| i64::from_str_radix(digits, base).ok());
    if let Some(integer) = text.parse().ok().or_else(|| based("0x", 16)).or_else(|| based("0o", 8)) {
        return Data::Integer(integer);
    }
    // Rust also parses "inf" and "infinity"; only digits, sign, point and exponent make a number here.
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        // `2.0` is the whole number 2, also for settings that require one. Up to 2^53 each whole number has an exact
        // float.
        Ok(float) if numeric && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            Data::Integer(float as i64)
        }
        Ok(float) if numeric && float.is_finite() => Data::Float(float),
        _ => Data::Text(text.to_owned()),
    }
}

/// Returns our message for an error of the parser, with the cause that is likely for its text.
fn explain(info: &str, text: &str, marker: &Marker) -> (String, &'static str) {
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start().len()];
    let info = if indentation.contains('\t') { "tab" } else { info };
    match CAUSES.iter().find(|(part, ..)| info.contains(part)) {
        Some((_, what, hint)) => ((*what).to_owned(), hint),
        None => {
            let hint = "check the indentation, brackets and quotes here and in the lines before";
            (format!("this is not YAML ({info})"), hint)
        }
    }
}

/// Errors of the parser, by a part of their text, with our message and hint.
const CAUSES: &[(&str, &str, &str)] = &[
    ("tab", "the indentation contains a tab, which YAML forbids", "indent with spaces"),
    ("unknown anchor", "an alias (*) refers to an anchor (&) that is not defined before it", "write the value out"),
    (
        "mapping values are not allowed",
        "unexpected ':'",
        "quote text that contains ': ', or fix the indentation of this line and the one before",
    ),
    ("recursion limit", "brackets are nested too deeply", "look for an extra bracket"),
    ("unprintable", "unexpected control character", "remove it; in double quotes it can be written as \\x00"),
];

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
