//! YAML text (1.2, core schema) to a [`Node`] tree, within bounds.
//!
//! Reads the parser's events, so that depth, size and the expansion of aliases are bounded while reading. One document a
//! file; keys are plain values and stand once; custom tags are refused.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fairway_model::{Diagnostic, FileLocation};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::tree::{Data, Entry, Node, Spot, quoted};

/// Most levels of lists and maps within each other. The format itself needs seven.
const DEPTH_MAX: usize = 32;
/// Most values in a file, copies made by aliases included: more than a file of full size holds in practice.
const NODES_MAX: usize = 8_000_000;
/// Most keys of one map. None of the format's has more than twenty, but for headers.
const KEYS_MAX: usize = 10_000;
/// Up to so many keys of a map are compared one by one: nearly every map is smaller.
const KEYS_FEW: usize = 16;
/// Most values that aliases may copy, all together.
const COPIES_MAX: usize = 100_000;

/// Reads one file; none if it holds no document. Its faults come all, up to the first after which YAML cannot go on.
pub(super) fn parse(text: &str, file: u16, files: &[Arc<str>]) -> Result<Option<Node>, Vec<Diagnostic>> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        text,
        file,
        name: &files[usize::from(file)],
        anchors: BTreeMap::new(),
        nodes: 0,
        copies: 0,
        faults: Vec::new(),
    };
    let root = reader.document();
    match root {
        Ok(root) if reader.faults.is_empty() => Ok(root),
        Ok(_) => Err(reader.faults),
        Err(Stop) => Err(reader.faults),
    }
}

/// Reading cannot go on; the fault is recorded.
struct Stop;

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    text: &'t str,
    file: u16,
    name: &'t Arc<str>,
    /// Values that aliases may stand for, with their size.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    copies: usize,
    faults: Vec<Diagnostic>,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Option<Node>, Stop> {
        let mut root = None;
        loop {
            let (event, spot) = self.event()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::DocumentStart(_) if root.is_some() => {
                    let hint = "keep one document a file; several files may lie in a folder";
                    return Err(self.stop(spot, "a second document begins here", hint));
                }
                Event::DocumentStart(_) => {
                    let (event, spot) = self.event()?;
                    root = Some(self.node(event, spot, 0)?);
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> Result<(Event<'t>, Spot), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.spot(&span.start))),
            Some(Err(error)) => Err(self.scan_fault(&error)),
            None => Ok((Event::StreamEnd, Spot { file: self.file, ..Spot::default() })),
        }
    }

    fn node(&mut self, event: Event<'t>, spot: Spot, depth: usize) -> Result<Node, Stop> {
        if depth > DEPTH_MAX {
            let what = format!("lists and maps stand in each other more than {DEPTH_MAX} levels deep");
            return Err(self.stop(spot, what, "no setting needs that; look for a bracket too many"));
        }
        let before = self.nodes;
        self.count(1, spot)?;
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (self.scalar(text, style, tag.as_deref(), spot), anchor),
            Event::SequenceStart(anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), spot);
                (self.list(depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), spot);
                (self.map(depth)?, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, spot),
            _ => return Err(self.stop(spot, "a value is missing here", "give one, or take the key out")),
        };
        let node = Node { spot, index: 0, data };
        if anchor != 0 {
            let size = self.nodes - before;
            self.count(size, spot)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Data, Stop> {
        let mut elements = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(Data::List(elements)),
                (event, spot) => {
                    let index = u32::try_from(elements.len()).unwrap_or(u32::MAX);
                    elements.push(Node { index, ..self.node(event, spot, depth + 1)? });
                }
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Data, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut many: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            let (event, spot) = self.event()?;
            let key = match event {
                Event::MappingEnd => return Ok(Data::Map(entries)),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(self.stop(spot, "a key is a list, a map or an alias", "give a plain word as key")),
            };
            let (event, value_spot) = self.event()?;
            // A key without value stands where the key stands: the parser's place of nothing lies behind it.
            let value_spot = if is_nothing(&event) { spot } else { value_spot };
            let value = self.node(event, value_spot, depth + 1)?;
            let first = match entries.len() {
                0..=KEYS_FEW => entries.iter().find(|known| known.key == key),
                _ => many.get(&key).map(|at| &entries[*at]),
            };
            if let Some(first) = first {
                let line = first.spot.line;
                let what = format!("key {} stands here again; it stands in line {line} already", quoted(&key));
                self.fault(spot, what, "keep one of both");
                continue;
            }
            if entries.len() == KEYS_MAX {
                return Err(self.stop(spot, format!("a map has more than {KEYS_MAX} keys"), "make a list of it"));
            }
            entries.push(Entry { key, spot, value });
            if entries.len() > KEYS_FEW {
                many.extend((many.len()..entries.len()).map(|at| (entries[at].key.clone(), at)));
            }
        }
    }

    fn alias(&mut self, anchor: usize, spot: Spot) -> Result<Node, Stop> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            // The parser knows the anchor, so its value is still being read.
            return Err(self.stop(spot, "an alias stands inside the value it names", "write the value out"));
        };
        let (mut node, size) = (node.clone(), *size);
        self.copies += size;
        if self.copies > COPIES_MAX {
            let what = format!("aliases copy more than {COPIES_MAX} values");
            return Err(self.stop(spot, what, "write the values out, or spread them over files of a folder"));
        }
        self.count(size, spot)?;
        node.spot = spot;
        node.index = 0;
        Ok(node)
    }

    fn count(&mut self, nodes: usize, spot: Spot) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        Err(self.stop(spot, format!("the file holds more than {NODES_MAX} values"), "spread it over files of a folder"))
    }

    fn scalar(&mut self, text: Cow<'t, str>, style: ScalarStyle, tag: Option<&Tag>, spot: Spot) -> Data {
        match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
            Some((true, "str")) => return Data::Text(text.into_owned()),
            None | Some((true, "bool" | "float" | "int" | "null")) => {}
            Some(_) => self.tag_fault(tag, spot),
        }
        if style == ScalarStyle::Plain { plain(&text) } else { Data::Text(text.into_owned()) }
    }

    fn check_collection_tag(&mut self, tag: Option<&Tag>, spot: Spot) {
        if tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq"))) {
            self.tag_fault(tag, spot);
        }
    }

    fn tag_fault(&mut self, tag: Option<&Tag>, spot: Spot) {
        let tag = tag.map(Tag::to_string).unwrap_or_default();
        self.fault(spot, format!("the tag {} has no meaning here", quoted(&tag)), "take it out, or quote the text");
    }

    fn scan_fault(&mut self, error: &ScanError) -> Stop {
        let spot = self.spot(error.marker());
        let (what, hint) = explain(error.info(), self.text, error.marker());
        self.stop(spot, what, hint)
    }

    fn stop(&mut self, spot: Spot, what: impl Into<String>, hint: impl Into<String>) -> Stop {
        self.fault(spot, what, hint);
        Stop
    }

    fn fault(&mut self, spot: Spot, what: impl Into<String>, hint: impl Into<String>) {
        if self.faults.len() < super::FAULTS_MAX {
            let place = FileLocation { file: Arc::clone(self.name), line: spot.line, column: spot.column };
            self.faults.push(Diagnostic::error(place, what, hint));
        }
    }

    /// The parser counts lines from 1 and columns from 0.
    fn spot(&self, marker: &Marker) -> Spot {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Spot { file: self.file, line: number(marker.line()), column: number(marker.col().saturating_add(1)) }
    }
}

fn is_nothing(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, ..) if text.is_empty())
}

/// What an unquoted text is (YAML 1.2.2 section 10.3.2). Numbers that are none (`.nan`, `.inf`) stay text.
pub(super) fn plain(text: &str) -> Data {
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
    // Rust also reads "inf" and "1e5x"-like names as no number; only digits, sign, point and exponent are one here.
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        // `2.0` is the whole number 2, also where whole numbers are asked for. 2^53: up to there each has a float.
        Ok(float) if numeric && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            Data::Integer(float as i64)
        }
        Ok(float) if numeric && float.is_finite() => Data::Float(float),
        _ => Data::Text(text.to_owned()),
    }
}

/// Words of our own for what the parser found, by what stands at the place.
fn explain(info: &str, text: &str, marker: &Marker) -> (String, &'static str) {
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start().len()];
    if indentation.contains('\t') || info.contains("tab") {
        return ("a tab stands in the indentation, which YAML forbids".to_owned(), "indent with spaces");
    }
    if info.contains("unknown anchor") {
        return ("an alias (*) names an anchor (&) that does not stand before it".to_owned(), "write the value out");
    }
    if info.contains("mapping values are not allowed") {
        let what = "a ':' stands where no key can be";
        return (
            what.to_owned(),
            "quote text that holds ': ', or mend the indentation of this line and the one before",
        );
    }
    if info.contains("recursion limit") {
        return ("brackets stand in each other too deep".to_owned(), "look for a bracket too many");
    }
    if info.contains("unprintable") {
        return (
            "a control character stands here".to_owned(),
            "take it out; in double quotes it can be written as \\x00",
        );
    }
    let hint = "look at the indentation, brackets and quotes here and in the lines before";
    (format!("this is not YAML ({info})"), hint)
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
