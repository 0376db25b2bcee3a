//! What is printed: colour only where it is wanted, tables that line up, and a closed pipe that is no failure.

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

/// What a piece of text means; the colour follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Well: green.
    Good,
    /// Broken: red.
    Bad,
    /// Worth a look: yellow.
    Warn,
    /// Less important: dim.
    Quiet,
    /// A heading: bold.
    Strong,
    /// Something to type or open: cyan.
    Try,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    on: bool,
}

impl Palette {
    /// No colour.
    pub(crate) const PLAIN: Self = Self { on: false };

    /// Decides for standard output. `NO_COLOR` counts when it is not empty (no-color.org).
    fn for_stdout(when: ColorWhen) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|v| v == "dumb");
        let on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => !refused && !dumb && io::stdout().is_terminal(),
        };
        Self { on }
    }

    /// The text in its colour (ECMA-48 SGR).
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
        if self.on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Why printing failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// The reader went away, as `head` does. Not our failure: the program ends quietly.
    #[error("standard output was closed")]
    Closed,
    /// Anything else, like a full disk.
    #[error("standard output cannot be written: {0}; see where it goes")]
    Io(io::Error),
}

impl From<io::Error> for PrintError {
    fn from(fault: io::Error) -> Self {
        if fault.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Io(fault) }
    }
}

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// How to colour what goes there.
    pub(crate) palette: Palette,
}

impl Out {
    /// Standard output with colour as asked.
    pub(crate) fn new(when: ColorWhen) -> Self {
        Self { palette: Palette::for_stdout(when) }
    }

    /// Prints the text as it is, at once.
    pub(crate) fn print(&self, text: &str) -> Result<(), PrintError> {
        self.bytes(text.as_bytes())
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) -> Result<(), PrintError> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Prints octets.
    pub(crate) fn bytes(&self, octets: &[u8]) -> Result<(), PrintError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(octets)?;
        Ok(stdout.flush()?)
    }
}

/// One cell of a table: its text and what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The text, on one line.
    pub(crate) text: String,
    /// What it means.
    pub(crate) tone: Tone,
}

impl Cell {
    /// A cell in its tone.
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

/// Rows in columns that line up, two blanks between, `indent` blanks before; headings are dim and in capitals.
///
/// The last column is not padded, so that no line ends in blanks.
pub(crate) fn table(palette: Palette, indent: usize, head: &[&str], rows: &[Vec<Cell>]) -> String {
    let heading: Vec<Cell> = head.iter().map(|h| Cell::new(Tone::Quiet, h.to_uppercase())).collect();
    let all = || std::iter::once(&heading).filter(|h| !h.is_empty()).chain(rows);
    let columns = all().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| all().filter_map(|r| r.get(column)).map(|c| c.text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in all() {
        let mut line = " ".repeat(indent);
        let mut pending = 0; // blanks owed before the next text: none at the end of a line
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

/// A number with commas between thousands: `1,204`.
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

/// `1 zone`, `1,204 records`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// A span of time as people say it, its two largest units: `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`.
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
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let rows = [vec![Cell::from("eu1"), Cell::from("up")], vec![Cell::from("south1"), Cell::from("")]];
        assert_eq!(table(Palette::PLAIN, 2, &["name", "state"], &rows), "  NAME    STATE\n  eu1     up\n  south1\n");
    }

    #[test]
    fn colour_does_not_shift_columns() {
        let rows = [vec![Cell::new(Tone::Good, "a"), Cell::from("b")], vec![Cell::from("cc"), Cell::from("d")]];
        let painted = table(Palette { on: true }, 0, &[], &rows);
        assert_eq!(painted, "\x1b[32ma\x1b[0m   b\ncc  d\n");
    }

    #[test]
    fn numbers_get_commas_between_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((count(1, "zone", "zones"), count(2, "zone", "zones")), ("1 zone".into(), "2 zones".into()));
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        assert_eq!(
            [0, 59, 60, 185, 7_800, 360_000].map(span),
            ["0 s", "59 s", "1 min", "3 min 5 s", "2 h 10 min", "4 d 4 h"]
        );
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_faults() {
        assert!(matches!(PrintError::from(io::Error::from(io::ErrorKind::BrokenPipe)), PrintError::Closed));
        assert!(matches!(PrintError::from(io::Error::from(io::ErrorKind::StorageFull)), PrintError::Io(_)));
    }
}
