//! Parses Prometheus' text format (version 0.0.4) as it arrives. Pure.
//!
//! Only the current line is kept, and no sample allocates, so memory does not depend on the size of the text. A text with a
//! malformed line, or one that ends within a line, is rejected as a whole, because the missing samples are unknown. Comments
//! with types and help are skipped.

use std::str;

/// Largest number of bytes of a line, which is a sample with its labels. Those of Istio have about 1 KiB.
pub const LINE_MAX: usize = 64 << 10;
/// Largest number of bytes of a text: 16 MiB are some 100,000 series.
pub(super) const TEXT_MAX: usize = 16 << 20;

/// The reason why a text is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpositionError {
    /// The text ends within this line.
    #[error("metrics are incomplete; they end within line {0}")]
    Cut(u64),
    /// A line that is not a sample.
    #[error("metrics, line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The error.
        what: &'static str,
    },
    /// The text is longer than this limit in bytes.
    #[error("metrics over {0} bytes; configure the gateway to export fewer, or request a part of them")]
    Long(usize),
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Its metric.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value; may be NaN or infinite.
    pub value: f64,
}

/// Labels of a sample in the order of the text; their syntax is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// Returns names and values. Escapes in values (`\\`, `\"`, `\n`) are kept.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (pair, after) = label(rest).ok().flatten()?;
            rest = after;
            Some(pair)
        })
    }

    /// Returns the value of a label. A missing label has an empty value, as in Prometheus.
    pub fn value(self, name: &str) -> &'a str {
        self.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns true if a label has this value; `value` is without escapes.
    pub fn has(self, name: &str, value: &str) -> bool {
        let found = self.value(name);
        found == value || (found.contains('\\') && unescaped(found) == value)
    }
}

/// A parser of a text that arrives in pieces.
#[derive(Debug)]
pub struct Exposition {
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    /// Number of complete lines.
    lines: u64,
    /// Number of bytes that may still arrive.
    left: usize,
    max: usize,
}

impl Exposition {
    /// Returns a parser of at most `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self { begun: Vec::new(), lines: 0, left: max, max }
    }

    /// Parses the next piece and passes each complete sample to `sample`.
    pub fn feed(&mut self, piece: &[u8], sample: &mut impl FnMut(Sample<'_>)) -> Result<(), ExpositionError> {
        let within = piece.len().min(self.left);
        self.left -= within;
        // The part within the limit is parsed first, so that the error does not depend on the pieces.
        self.lines(&piece[..within], sample)?;
        if within < piece.len() { Err(ExpositionError::Long(self.max)) } else { Ok(()) }
    }

    /// Ends the text; an error if its last line is incomplete.
    pub fn finish(self) -> Result<(), ExpositionError> {
        if self.begun.is_empty() { Ok(()) } else { Err(ExpositionError::Cut(self.lines + 1)) }
    }

    fn lines(&mut self, mut piece: &[u8], sample: &mut impl FnMut(Sample<'_>)) -> Result<(), ExpositionError> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            if self.begun.is_empty() {
                read(line, self.lines + 1, sample)?;
            } else {
                self.begin(line)?;
                read(&self.begun, self.lines + 1, sample)?;
                self.begun.clear();
            }
            self.lines += 1;
            piece = rest;
        }
        self.begin(piece)
    }

    fn begin(&mut self, part: &[u8]) -> Result<(), ExpositionError> {
        if self.begun.len() + part.len() > LINE_MAX {
            return Err(ExpositionError::Line { line: self.lines + 1, what: LONG_LINE });
        }
        self.begun.extend_from_slice(part);
        Ok(())
    }
}

const LONG_LINE: &str = "over 64 KiB";

fn read(line: &[u8], number: u64, sample: &mut impl FnMut(Sample<'_>)) -> Result<(), ExpositionError> {
    let error = |what| ExpositionError::Line { line: number, what };
    if line.len() > LINE_MAX {
        return Err(error(LONG_LINE));
    }
    let text = str::from_utf8(line).map_err(|_| error("not UTF-8"))?;
    let text = text.trim_matches(BLANK);
    if text.is_empty() || text.starts_with('#') {
        return Ok(());
    }
    sample(parse(text).map_err(error)?);
    Ok(())
}

const BLANK: [char; 3] = [' ', '\t', '\r'];

/// Parses `name{label="value",…} value timestamp`; labels and timestamp are optional.
fn parse(text: &str) -> Result<Sample<'_>, &'static str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    let end = text.bytes().position(|byte| !is_word(byte)).ok_or("a name without a value")?;
    let (name, rest) = text.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("the line does not begin with the name of a metric");
    }
    let rest = rest.trim_start_matches(BLANK);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => split_labels(rest)?,
        None => ("", rest),
    };
    let mut words = rest.split(BLANK).filter(|word| !word.is_empty());
    let value = words.next().ok_or("no value")?.parse().map_err(|_| "the value is not a number")?;
    let timestamp = words.next();
    if timestamp.is_some_and(|millis| millis.parse::<i64>().is_err()) || words.next().is_some() {
        return Err("more than a value and a timestamp");
    }
    Ok(Sample { name, labels: Labels(labels), value })
}

/// Returns the labels and the text after their closing brace.
fn split_labels(text: &str) -> Result<(&str, &str), &'static str> {
    let mut rest = text;
    while let Some((_, after)) = label(rest)? {
        rest = after;
    }
    let after = rest.trim_start_matches(BLANK).strip_prefix('}').ok_or("the labels do not end")?;
    Ok((&text[..text.len() - rest.len()], after))
}

/// A label and the text after it.
type Label<'a> = ((&'a str, &'a str), &'a str);

/// Parses the first label of a text and the comma after it, if any; `None` at the end of the labels.
fn label(text: &str) -> Result<Option<Label<'_>>, &'static str> {
    let text = text.trim_start_matches(BLANK);
    if text.is_empty() || text.starts_with('}') {
        return Ok(None);
    }
    let (name, rest) = text.split_once('=').ok_or("a label without a value")?;
    let name = name.trim_end_matches(BLANK);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_word) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("the name of a label is invalid");
    }
    let rest = rest.trim_start_matches(BLANK).strip_prefix('"').ok_or("the value of a label is not in quotes")?;
    let end = closing_quote(rest).ok_or("the value of a label does not end")?;
    let after = rest[end + 1..].trim_start_matches(BLANK);
    match after.strip_prefix(',') {
        Some(next) => Ok(Some(((name, &rest[..end]), next))),
        None if after.is_empty() || after.starts_with('}') => Ok(Some(((name, &rest[..end]), after))),
        None => Err("no comma between two labels"),
    }
}

/// Returns the index of the closing quote.
fn closing_quote(text: &str) -> Option<usize> {
    // Few values have an escape; without one, the first quote is the end.
    let first = text.find('"')?;
    if !text.as_bytes()[..first].contains(&b'\\') {
        return Some(first);
    }
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            letter => letter,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Found = Result<Vec<(String, Vec<(String, String)>, f64)>, ExpositionError>;

    /// Parses a text in pieces of this size.
    fn found(text: &[u8], piece: usize) -> Found {
        let (mut exposition, mut all) = (Exposition::new(TEXT_MAX), Vec::new());
        let mut keep = |sample: Sample<'_>| {
            let labels = sample.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            all.push((sample.name.to_owned(), labels, sample.value));
        };
        for piece in text.chunks(piece.max(1)) {
            exposition.feed(piece, &mut keep)?;
        }
        exposition.finish().map(|()| all)
    }

    fn error(line: &str) -> &'static str {
        match found(format!("a 1\n{line}\n").as_bytes(), 7) {
            Err(ExpositionError::Line { line: 2, what }) => what,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn samples_parse_with_and_without_labels_timestamps_and_blanks() {
        let text = b"# HELP a Of a.\n# TYPE a gauge\na 1\na{} 2\n\n a_b{x=\"1\",} 3 1700000000000\r\n\
            h_bucket{le=\"+Inf\", y = \"p,}\\\"q\" } 4e2\nn NaN\ni -Inf\n";
        let all = found(text, 5).unwrap();
        let values: Vec<f64> = all.iter().map(|(.., value)| *value).collect();
        assert_eq!(values[..4], [1.0, 2.0, 3.0, 400.0]);
        assert!(values[4].is_nan() && values[5].is_infinite());
        assert_eq!(all[3].1, [("le".into(), "+Inf".into()), ("y".into(), "p,}\\\"q".into())]);
    }

    #[test]
    fn label_is_compared_without_escapes() {
        let sample = parse("a{x=\"1\\\\2\\n\\\"\",y=\"\"} 0").unwrap();
        assert!(sample.labels.has("x", "1\\2\n\"") && sample.labels.has("y", "") && sample.labels.has("z", ""));
        assert!(!sample.labels.has("x", "1"));
    }

    #[test]
    fn malformed_line_is_rejected_with_number_and_error() {
        assert_eq!(error("a"), "a name without a value");
        assert_eq!(error("1a 1"), "the line does not begin with the name of a metric");
        assert_eq!(error("{} 1"), "the line does not begin with the name of a metric");
        assert_eq!(error("a{x=\"1\" 1"), "no comma between two labels");
        assert_eq!(error("a{x=\"1\""), "the labels do not end");
        assert_eq!(error("a{x=1} 1"), "the value of a label is not in quotes");
        assert_eq!(error("a{x=\"1\\\"} 1"), "the value of a label does not end");
        assert_eq!(error("a{=\"1\"} 1"), "the name of a label is invalid");
        assert_eq!(error("a{x} 1"), "a label without a value");
        assert_eq!(error("a{x=\"1\"}"), "no value");
        assert_eq!(error("a one"), "the value is not a number");
        assert_eq!(error("a 1 2 3"), "more than a value and a timestamp");
        assert_eq!(error("a 1 soon"), "more than a value and a timestamp");
        assert_eq!(found(b"\xff 1\n", 2), Err(ExpositionError::Line { line: 1, what: "not UTF-8" }));
    }

    #[test]
    fn text_that_ends_within_a_line_is_rejected() {
        assert_eq!(found(b"a 1\nb 12", 3), Err(ExpositionError::Cut(2)));
        assert_eq!(found(b"", 3), Ok(vec![]));
    }

    #[test]
    fn text_and_line_over_their_limits_are_rejected() {
        let mut exposition = Exposition::new(1 << 20);
        let piece = b"abcdef 1\n".repeat(1000);
        let mut fed = 0;
        let stopped = loop {
            match exposition.feed(&piece, &mut |_| {}) {
                Ok(()) => fed += piece.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(stopped, ExpositionError::Long(1 << 20));
        assert!(fed <= 1 << 20 && fed > (1 << 20) - piece.len());
        let long = ExpositionError::Line { line: 1, what: LONG_LINE };
        for end in ["", "\n"] {
            let text = "a".repeat(LINE_MAX + 1) + end;
            assert_eq!(found(text.as_bytes(), 4096), Err(long.clone()));
            assert_eq!(found(text.as_bytes(), text.len()), Err(long.clone()));
        }
        let longest = format!("{} 1\n", "a".repeat(LINE_MAX - 2));
        assert_eq!(found(longest.as_bytes(), 4096).unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn result_does_not_depend_on_the_pieces(
            text in "([a-c_]{1,3}(\\{([xy]=\"[a\\\\\"]{0,3}\",?){0,2}\\})? [0-9.eN+-]{1,4}( [0-9]{1,3})?\n|#.{0,5}\n|.{0,9}\n?){0,6}",
            piece in 1..40_usize,
        ) {
            prop_assert_eq!(format!("{:?}", found(text.as_bytes(), piece)), format!("{:?}", found(text.as_bytes(), usize::MAX)));
        }
    }
}
