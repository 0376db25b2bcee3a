//! Output of commands: colours, tables and JSON. A closed pipe is not a failure.

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use anyhow::Context;
use clap::ValueEnum;
use fairway_api_types::state_wire::Shown;
use fairway_model::Timestamp;

/// Use of colours in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Never.
    Never,
}

/// The meaning of a piece of text, which gives it its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No colour.
    #[default]
    Plain,
    /// A good state: green.
    Good,
    /// A bad state: red.
    Bad,
    /// A warning: yellow.
    Warn,
    /// Less important: dim.
    Quiet,
    /// A heading: bold.
    Strong,
    /// Something to type or open: cyan.
    Try,
}

/// Paints text, or leaves it plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    is_on: bool,
}

impl Palette {
    /// No colour.
    pub(crate) const PLAIN: Self = Self { is_on: false };

    /// Returns the palette for standard output. `NO_COLOR` counts if it is not empty (no-color.org).
    fn for_stdout(when: ColorWhen) -> Self {
        let has_no_color = env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|v| v == "dumb");
        let is_on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => !has_no_color && !is_dumb && io::stdout().is_terminal(),
        };
        Self { is_on }
    }

    /// Returns the text in its colour (ECMA-48 SGR).
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Quiet => "2",
            Tone::Strong => "1",
            Tone::Try => "36",
        };
        if self.is_on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Returns a line in its colour.
    pub(crate) fn line(self, tone: Tone, text: &str) -> String {
        self.paint(tone, text) + "\n"
    }
}

/// Error of printing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// The reader closed the pipe, as `head` does. The program ends with status 0.
    #[error("standard output was closed")]
    Closed,
    /// Another error, like a full disk.
    #[error("cannot write standard output: {0}; check where it is redirected to")]
    Io(io::Error),
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Io(error) }
    }
}

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// Colours of the output.
    pub(crate) palette: Palette,
}

impl Out {
    /// Returns standard output, coloured as requested.
    pub(crate) fn new(when: ColorWhen) -> Self {
        Self { palette: Palette::for_stdout(when) }
    }

    /// Prints a text and flushes it.
    pub(crate) fn print(&self, text: &str) -> Result<(), PrintError> {
        self.bytes(text.as_bytes())
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) -> Result<(), PrintError> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Prints a result, as JSON or as text.
    pub(crate) fn show(
        &self,
        as_json: bool,
        result: &impl Shown,
        text: impl FnOnce(Palette) -> String,
    ) -> anyhow::Result<()> {
        if as_json {
            let json = serde_json::to_string_pretty(result).context("cannot format the result as JSON")?;
            Ok(self.line(&json)?)
        } else {
            Ok(self.print(&text(self.palette))?)
        }
    }

    /// Prints bytes and flushes them.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), PrintError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The text, on one line.
    pub(crate) text: String,
    /// Its meaning.
    pub(crate) tone: Tone,
}

impl Cell {
    /// Returns a cell with a meaning.
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Formats rows in aligned columns, two spaces apart, after `indent` spaces. Headings are dim and in capitals. Returns an empty text if
/// there is no row.
///
/// No line ends in spaces: the last column is not padded.
pub(crate) fn table(
    palette: Palette,
    indent: usize,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> String {
    let mut all: Vec<Vec<Cell>> = rows.into_iter().collect();
    if !all.is_empty() && !head.is_empty() {
        all.insert(0, head.iter().map(|h| Cell::new(Tone::Quiet, h.to_uppercase())).collect());
    }
    let columns = all.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| all.iter().filter_map(|r| r.get(column)).map(|c| c.text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in all {
        let mut line = " ".repeat(indent);
        let mut pending = 0; // spaces before the next text, which a line that has none left does not get
        for (cell, width) in row.iter().zip(&widths) {
            if !cell.text.is_empty() {
                line.push_str(&" ".repeat(pending));
                line.push_str(&palette.paint(cell.tone, &cell.text));
                pending = 0;
            }
            pending += width - cell.text.chars().count() + 2;
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Formats a number with commas between thousands: `1,204`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 zone`, `1,204 records`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// Lists the first items, and the number of further ones.
pub(crate) fn first(max: usize, separator: &str, list: &[String]) -> String {
    let shown = list[..list.len().min(max)].join(separator);
    if list.len() <= max { shown } else { format!("{shown} and {} more", list.len() - max) }
}

/// Formats the time from a moment to `now`, both in RFC 3339. Returns the moment itself if one of them is invalid.
pub(super) fn ago(moment: &str, now: &str) -> String {
    match (moment.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => match now.since(then).as_secs() {
            0 => "just now".to_owned(),
            secs => format!("{} ago", span(secs)),
        },
        _ => moment.to_owned(),
    }
}

/// Formats a duration in its two largest units: `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`.
pub(crate) fn span(secs: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let Some(first) = units.iter().position(|(size, _)| secs >= *size) else { return "0 s".to_owned() };
    let (size, unit) = units[first];
    let whole = format!("{} {unit}", secs / size);
    match units.get(first + 1) {
        Some((smaller, name)) if secs % size >= *smaller => format!("{whole} {} {name}", secs % size / smaller),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_aligns_columns_and_pads_no_line_end() {
        let rows = [vec![Cell::from("eu1"), Cell::from("up")], vec![Cell::from("south1"), Cell::from("")]];
        assert_eq!(table(Palette::PLAIN, 2, &["name", "state"], rows), "  NAME    STATE\n  eu1     up\n  south1\n");
    }

    #[test]
    fn table_with_colours_keeps_columns_aligned() {
        let rows = [vec![Cell::new(Tone::Good, "a"), Cell::from("b")], vec![Cell::from("cc"), Cell::from("d")]];
        let painted = table(Palette { is_on: true }, 0, &[], rows);
        assert_eq!(painted, "\x1b[32ma\x1b[0m   b\ncc  d\n");
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((count(1, "zone", "zones"), count(2, "zone", "zones")), ("1 zone".into(), "2 zones".into()));
    }

    #[test]
    fn span_shows_its_two_largest_units() {
        assert_eq!(
            [0, 59, 60, 185, 7_800, 360_000].map(span),
            ["0 s", "59 s", "1 min", "3 min 5 s", "2 h 10 min", "4 d 4 h"]
        );
    }

    #[test]
    fn broken_pipe_differs_from_other_errors() {
        assert!(matches!(PrintError::from(io::Error::from(io::ErrorKind::BrokenPipe)), PrintError::Closed));
        assert!(matches!(PrintError::from(io::Error::from(io::ErrorKind::StorageFull)), PrintError::Io(_)));
    }
}
