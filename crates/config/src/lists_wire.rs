//! Lists as people and programs write them in YAML, straight into the file's structs: no event, no tree, no text copied.
//!
//! It knows a part of YAML 1.2: lists and maps in block and flow style, plain and quoted text of one line, comments.
//! Whatever else it meets, and whatever does not fit, is [`Unknown`] and left to the reader of all of YAML, which also
//! tells faults. So it must never take what that one refuses, nor take it otherwise; a law in the tests holds them to it.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor, value::BorrowedStrDeserializer},
    forward_to_deserialize_any,
};

use super::{tree::Data, yaml::plain};

/// Something that is not known here; not told apart any further.
#[derive(Debug)]
pub(super) struct Unknown;

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not known")
    }
}

impl std::error::Error for Unknown {}

impl de::Error for Unknown {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Reads the list in block style that `text` begins with; returns the place of the content that follows it.
pub(super) fn read<'t, T: Deserialize<'t>>(text: &'t str, into: &mut Vec<T>) -> Result<usize, Unknown> {
    let mut cursor = Cursor { text, at: 0, line: 0, depth: 0 };
    cursor.skip_lines()?;
    let mut elements = Block { column: cursor.column(), cursor: &mut cursor };
    while let Some(element) = elements.next_element()? {
        into.push(element);
    }
    // What follows in another column than the first is no section.
    if cursor.column() == 0 { Ok(cursor.at) } else { Err(Unknown) }
}

/// Where reading is. Between values in block style that is at the first octet of a line's content, or at the end.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// Where the line begins.
    line: usize,
    /// How many lists and maps are open.
    depth: usize,
}

impl<'t> Cursor<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn column(&self) -> usize {
        self.at - self.line
    }

    fn eat(&mut self, octet: u8) -> bool {
        let there = self.peek() == Some(octet);
        self.at += usize::from(there);
        there
    }

    fn skip_spaces(&mut self) {
        while self.eat(b' ') {}
    }

    /// Whether an element of a block list begins here.
    fn is_item(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        rest.first() == Some(&b'-') && matches!(rest.get(1), None | Some(b' ' | b'\n'))
    }

    /// From the end of a value to the next line's content.
    fn end_line(&mut self) -> Result<(), Unknown> {
        let end = self.at;
        self.skip_spaces();
        match self.peek() {
            Some(b'#') if self.at == end => Err(Unknown),
            None | Some(b'#' | b'\n') => self.skip_lines(),
            Some(_) => Err(Unknown),
        }
    }

    /// To the next content, which may be here: past spaces, comments and ends of lines.
    fn skip_lines(&mut self) -> Result<(), Unknown> {
        loop {
            self.skip_spaces();
            match self.peek() {
                Some(b'\n') => {
                    self.at += 1;
                    self.line = self.at;
                }
                Some(b'#') => {
                    let rest = &self.text[self.at..];
                    let comment = &rest[..rest.find('\n').unwrap_or(rest.len())];
                    if !comment.chars().all(is_ordinary) {
                        return Err(Unknown);
                    }
                    self.at += comment.len();
                }
                None => {
                    self.line = self.at;
                    return Ok(());
                }
                Some(_) => return Ok(()),
            }
        }
    }

    /// A text in quotes, of one line and without escapes.
    fn quoted(&mut self, quote: char) -> Result<&'t str, Unknown> {
        let rest = &self.text[self.at + 1..];
        let end = rest.find(quote).ok_or(Unknown)?;
        let text = &rest[..end];
        self.at += end + 2;
        let twice = self.peek() == Some(quote as u8);
        if twice || text.contains('\\') || !text.chars().all(is_ordinary) { Err(Unknown) } else { Ok(text) }
    }

    /// A text without quotes, up to what ends it in this style.
    fn bare(&mut self, style: Style) -> Result<&'t str, Unknown> {
        let octets = &self.text.as_bytes()[self.at..];
        let first = octets.first().ok_or(Unknown)?;
        let negative = *first == b'-' && octets.get(1).is_some_and(u8::is_ascii_digit);
        if !(first.is_ascii_alphanumeric() || matches!(first, b'/' | b'.' | b'_') || negative) {
            return Err(Unknown);
        }
        let mut end = 0;
        loop {
            end += octets[end..].iter().position(|octet| !WORD[usize::from(*octet)]).unwrap_or(octets.len() - end);
            let Some(octet) = octets.get(end) else { break };
            let after = octets.get(end + 1).copied().unwrap_or(b'\n');
            match octet {
                b'\n' => break,
                b':' if matches!(after, b' ' | b'\n') => break,
                b' ' if matches!(after, b' ' | b'#' | b'\n') => break,
                b',' | b']' | b'}' if style == Style::Flow => break,
                b'[' | b'{' if style == Style::Flow => return Err(Unknown),
                b':' if style == Style::Flow && !(after == b':' || after.is_ascii_alphanumeric()) => {
                    return Err(Unknown);
                }
                b' '..=b'~' => end += 1,
                _ => end += self.letter(end)?,
            }
        }
        // Spaces before what ends it are none of it; its first octet is no space.
        while octets[end - 1] == b' ' {
            end -= 1;
        }
        let begin = self.at;
        self.at += end;
        Ok(&self.text[begin..self.at])
    }

    /// The length of a letter beyond ASCII.
    fn letter(&self, beyond: usize) -> Result<usize, Unknown> {
        let letter = self.text[self.at + beyond..].chars().next().filter(|c| c.is_alphanumeric());
        letter.map(char::len_utf8).ok_or(Unknown)
    }

    /// A key with its colon.
    fn key(&mut self, style: Style) -> Result<&'t str, Unknown> {
        let key = match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote.into())?,
            _ => self.bare(style)?,
        };
        let colon = self.eat(b':') && matches!(self.peek(), Some(b' ' | b'\n'));
        if colon { Ok(key) } else { Err(Unknown) }
    }

    /// Whether a key stands here; nothing is read.
    fn is_key(&self) -> bool {
        Cursor { ..*self }.key(Style::Block).is_ok()
    }
}

/// Octets that go on with a text without quotes whatever follows them.
static WORD: [bool; 256] = {
    let mut word = [false; 256];
    let mut octet = 0u8;
    while octet < 0x80 {
        word[octet as usize] = octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'/');
        octet += 1;
    }
    word
};

/// Nothing that looks like nothing, moves the cursor, or counts as the end of a line somewhere.
fn is_ordinary(c: char) -> bool {
    matches!(c, ' '..='~') || !c.is_ascii() && c.is_alphanumeric()
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// By indentation. The cursor stands at its content, and what follows it is in a line of its own.
    Block,
    /// By indentation, in the line of its key: a text, or flow style.
    Inline,
    /// Within brackets.
    Flow,
}

/// The value that begins at the cursor.
struct Value<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    style: Style,
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = Unknown;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        let Self { cursor, style } = self;
        let column = cursor.column();
        cursor.depth += 1;
        let found = match cursor.peek().ok_or(Unknown)? {
            _ if cursor.depth > DEPTH_MAX => return Err(Unknown),
            b'[' => visitor.visit_seq(Flow::open(cursor, b']'))?,
            b'{' => visitor.visit_map(Flow::open(cursor, b'}'))?,
            b'-' if style == Style::Block && cursor.is_item() => {
                let list = visitor.visit_seq(Block { cursor, column })?;
                cursor.depth -= 1;
                return Ok(list);
            }
            _ if style == Style::Block && cursor.is_key() => {
                let map = visitor.visit_map(Block { cursor, column })?;
                cursor.depth -= 1;
                return Ok(map);
            }
            quote @ (b'"' | b'\'') => visitor.visit_borrowed_str(cursor.quoted(quote.into())?)?,
            _ => visit_bare(cursor.bare(style)?, visitor)?,
        };
        cursor.depth -= 1;
        if style != Style::Flow {
            cursor.end_line()?;
        }
        Ok(found)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        visitor.visit_some(self)
    }

    /// A word; values with a variant and its content are none of lists'.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        visitor.visit_enum(<&str>::deserialize(self)?.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Unknown> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// What a text without quotes is, for a visitor.
fn visit_bare<'t, V: Visitor<'t>>(text: &'t str, visitor: V) -> Result<V::Value, Unknown> {
    let octets = text.as_bytes();
    let (Some(first), Some(last)) = (octets.first(), octets.last()) else { return Err(Unknown) };
    // None of the words for true, false and null begins with another letter or has another length, and no number ends
    // with a letter that is no hexadecimal digit. So nearly all texts are told without trying each kind of number.
    let is_word = first.is_ascii_alphabetic() && !(b"fFnNtT".contains(first) && matches!(octets.len(), 4 | 5));
    if is_word || first.is_ascii_digit() && last.is_ascii_alphabetic() && last.to_ascii_lowercase() > b'f' {
        return visitor.visit_borrowed_str(text);
    }
    if octets.len() <= 18 && octets.iter().all(u8::is_ascii_digit) {
        return text.parse().map_or(Err(Unknown), |number| visitor.visit_i64(number));
    }
    match plain(text) {
        Data::Text(_) => visitor.visit_borrowed_str(text),
        Data::Bool(bool) => visitor.visit_bool(bool),
        Data::Integer(integer) => visitor.visit_i64(integer),
        Data::Float(float) => visitor.visit_f64(float),
        Data::Null | Data::List(_) | Data::Map(_) => Err(Unknown),
    }
}

/// A list or map in brackets; the opening one is read.
struct Flow<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    close: u8,
    first: bool,
}

impl<'c, 't> Flow<'c, 't> {
    fn open(cursor: &'c mut Cursor<'t>, close: u8) -> Self {
        cursor.at += 1;
        Self { cursor, close, first: true }
    }

    /// To the next element; none if the closing bracket is read. Brackets stay within their line.
    fn next(&mut self) -> Result<bool, Unknown> {
        self.cursor.skip_spaces();
        if self.cursor.eat(self.close) {
            return Ok(false);
        }
        if !std::mem::take(&mut self.first) && !self.cursor.eat(b',') {
            return Err(Unknown);
        }
        self.cursor.skip_spaces();
        Ok(true)
    }
}

impl<'t> SeqAccess<'t> for Flow<'_, 't> {
    type Error = Unknown;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Unknown> {
        if !self.next()? {
            return Ok(None);
        }
        seed.deserialize(Value { cursor: self.cursor, style: Style::Flow }).map(Some)
    }
}

impl<'t> MapAccess<'t> for Flow<'_, 't> {
    type Error = Unknown;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Unknown> {
        if !self.next()? {
            return Ok(None);
        }
        let key = self.cursor.key(Style::Flow)?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Unknown> {
        self.cursor.skip_spaces();
        seed.deserialize(Value { cursor: self.cursor, style: Style::Flow })
    }
}

/// A list or map in block style whose elements begin in this column.
struct Block<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    column: usize,
}

impl Block<'_, '_> {
    /// Whether an element begins here; deeper content would go on with the one before, as a text of several lines.
    fn next(&self) -> Result<bool, Unknown> {
        match self.cursor.peek() {
            None => Ok(false),
            Some(_) if self.cursor.column() > self.column => Err(Unknown),
            Some(_) => Ok(self.cursor.column() == self.column),
        }
    }
}

impl<'t> SeqAccess<'t> for Block<'_, 't> {
    type Error = Unknown;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Unknown> {
        // A list may stand in the column of its key; then the next key ends it.
        if !self.next()? || !self.cursor.is_item() {
            return Ok(None);
        }
        self.cursor.at += 1;
        self.cursor.skip_lines()?;
        if self.cursor.column() <= self.column {
            return Err(Unknown);
        }
        seed.deserialize(Value { cursor: self.cursor, style: Style::Block }).map(Some)
    }
}

impl<'t> MapAccess<'t> for Block<'_, 't> {
    type Error = Unknown;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Unknown> {
        if !self.next()? {
            return Ok(None);
        }
        let key = self.cursor.key(Style::Block)?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Unknown> {
        let line = self.cursor.line;
        self.cursor.skip_lines()?;
        let below = self.cursor.line != line;
        let (column, is_item) = (self.cursor.column(), self.cursor.is_item());
        let style = match below {
            false if is_item => return Err(Unknown),
            false => Style::Inline,
            true if column > self.column || column == self.column && is_item => Style::Block,
            true => return Err(Unknown),
        };
        seed.deserialize(Value { cursor: self.cursor, style })
    }
}

/// Most levels of lists and maps within each other. Elements of lists need five.
const DEPTH_MAX: usize = 16;
