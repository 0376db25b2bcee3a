//! Splits a zone file into words (RFC 1035 section 5.1): blanks, comments, quotes, parentheses, line breaks.
//!
//! A word is a slice of the text, with its escapes: only the reader of a field knows how to decode them. Nothing is copied.

use super::diagnostics::TextError;

/// One word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Octets as written, without the quotes and with the escapes.
    pub text: &'a [u8],
    /// True if the word was quoted.
    pub quoted: bool,
    /// True if the word contains a backslash.
    pub escaped: bool,
    /// Offset in the text.
    pub at: usize,
}

/// Start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// An owner or a directive in the first column.
    Owner,
    /// A blank: the record has the owner of the record before.
    Blank,
    /// End of the text.
    End,
}

/// Reads a text word by word.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Line of `at`, from 1.
    line: u32,
    /// Number of open parentheses at `at`.
    depth: u32,
    /// Offset of the outermost open parenthesis.
    opened: usize,
}

/// Class of an octet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Escape,
    Blank,
    Newline,
    Comment,
    Quote,
    Open,
    Close,
    Control,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Plain; 256];
    let mut octet = 0;
    while octet < 0x20 {
        kinds[octet] = Kind::Control;
        octet += 1;
    }
    kinds[0x7f] = Kind::Control;
    kinds[b' ' as usize] = Kind::Blank;
    kinds[b'\t' as usize] = Kind::Blank;
    kinds[b'\r' as usize] = Kind::Blank;
    kinds[b'\n' as usize] = Kind::Newline;
    kinds[b';' as usize] = Kind::Comment;
    kinds[b'"' as usize] = Kind::Quote;
    kinds[b'(' as usize] = Kind::Open;
    kinds[b')' as usize] = Kind::Close;
    kinds[b'\\' as usize] = Kind::Escape;
    kinds
};

const fn kind(octet: u8) -> Kind {
    KINDS[octet as usize]
}

impl<'a> Lexer<'a> {
    /// Returns a lexer at the start of `text`. Skips a byte order mark.
    pub(super) fn new(text: &'a [u8]) -> Self {
        let at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Self { text, at, line: 1, depth: 0, opened: 0 }
    }

    /// Returns the current line, from 1.
    pub(super) const fn line(&self) -> u32 {
        self.line
    }

    /// Returns the offset of the next octet.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Returns line and column, both from 1, of an offset that was read. Scans the record, so use it for diagnostics only.
    pub(super) fn position(&self, at: usize) -> (u32, u32) {
        let at = at.min(self.text.len());
        let newlines = |text: &[u8]| text.iter().filter(|o| **o == b'\n').count();
        let back = self.text.get(at..self.at).map_or(0, newlines);
        let start = self.text[..at].iter().rposition(|o| *o == b'\n').map_or(0, |newline| newline + 1);
        let before = &self.text[start..at];
        let before = before.strip_prefix(b"\xef\xbb\xbf").unwrap_or(before);
        // Columns count characters, so UTF-8 continuation octets are skipped.
        let column = 1 + before.iter().filter(|o| **o & 0xc0 != 0x80).count();
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (self.line.saturating_sub(short(back)), short(column))
    }

    /// Moves to the next line that is not empty. The record before must have been read to its end.
    pub(super) fn begin(&mut self) -> Begin {
        loop {
            let Some(&first) = self.text.get(self.at) else { return Begin::End };
            let blank = kind(first) == Kind::Blank;
            while self.text.get(self.at).is_some_and(|o| kind(*o) == Kind::Blank) {
                self.at += 1;
            }
            match self.text.get(self.at).map(|o| kind(*o)) {
                None => return Begin::End,
                Some(Kind::Newline) => self.newline(),
                Some(Kind::Comment) => self.skip_comment(),
                Some(_) if blank => return Begin::Blank,
                Some(_) => return Begin::Owner,
            }
        }
    }

    /// Returns the next word of the record, or `None` at its end, also when called again.
    pub(super) fn word(&mut self) -> Result<Option<Word<'a>>, TextError> {
        loop {
            let Some(&octet) = self.text.get(self.at) else { return self.finish() };
            match kind(octet) {
                Kind::Plain | Kind::Escape => return Ok(Some(self.plain())),
                Kind::Blank => self.at += 1,
                Kind::Newline if self.depth == 0 => return Ok(None),
                Kind::Newline => self.newline(),
                Kind::Comment => self.skip_comment(),
                Kind::Quote => return self.quoted().map(Some),
                Kind::Open => self.open(),
                Kind::Close if self.depth == 0 => {
                    let at = self.at;
                    self.at += 1;
                    return Err(TextError::new(at, "closing parenthesis without an opening one", "remove it"));
                }
                Kind::Close => {
                    self.depth -= 1;
                    self.at += 1;
                }
                Kind::Control => {
                    let fact = format!("unexpected control character {octet:#04x}; the file may be damaged");
                    self.at += 1;
                    return Err(TextError::new(self.at - 1, fact, format!("write \\{octet:03} if it is intended")));
                }
            }
        }
    }

    /// Returns the quoted word at the current offset, as in `alpn="h2"` after the equals sign; `None` if there is none.
    pub(super) fn adjoining_quote(&mut self) -> Result<Option<Word<'a>>, TextError> {
        if self.text.get(self.at) == Some(&b'"') { self.quoted().map(Some) } else { Ok(None) }
    }

    /// Skips the rest of the record. Fails if a parenthesis is open at the end of the text; other errors would only follow from the first.
    pub(super) fn skip_record(&mut self) -> Result<(), TextError> {
        loop {
            match self.word() {
                Ok(Some(_)) => {}
                Err(error) if error.at == self.opened => return Err(error),
                Err(_) => {}
                Ok(None) if self.at < self.text.len() => {
                    self.newline();
                    return Ok(());
                }
                Ok(None) => return Ok(()),
            }
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
    }

    fn open(&mut self) {
        if self.depth == 0 {
            self.opened = self.at;
        }
        self.depth = self.depth.saturating_add(1);
        self.at += 1;
    }

    fn skip_comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|o| *o == b'\n').unwrap_or(rest.len());
    }

    /// Handles the end of the text: an error if a parenthesis is open.
    fn finish(&mut self) -> Result<Option<Word<'a>>, TextError> {
        if self.depth == 0 {
            return Ok(None);
        }
        self.depth = 0;
        let fact = "this parenthesis is not closed before the end of the file";
        Err(TextError::new(self.opened, fact, "close it; the file may be truncated"))
    }

    fn plain(&mut self) -> Word<'a> {
        let start = self.at;
        let mut escaped = false;
        while let Some(&octet) = self.text.get(self.at) {
            match kind(octet) {
                Kind::Plain => self.at += 1,
                Kind::Escape => {
                    escaped = true;
                    self.step_over_escape();
                }
                _ => break,
            }
        }
        Word { text: &self.text[start..self.at], quoted: false, escaped, at: start }
    }

    /// Skips a backslash and the escaped octet. A line break cannot be escaped.
    fn step_over_escape(&mut self) {
        self.at += 1;
        if self.text.get(self.at).is_some_and(|o| !matches!(o, b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn quoted(&mut self) -> Result<Word<'a>, TextError> {
        let quote = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.text.get(self.at) {
                None | Some(b'\n') => {
                    let fact = "this quote is not closed before the end of the line";
                    return Err(TextError::new(quote, fact, "close it on the same line; write \\010 for a line break"));
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.step_over_escape();
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(Word { text: &self.text[quote + 1..self.at - 1], quoted: true, escaped, at: quote })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut found = vec![];
        loop {
            match lexer.word() {
                Ok(Some(word)) => found.push(String::from_utf8_lossy(word.text).into_owned()),
                Ok(None) => return found,
                Err(error) => return [found, vec![format!("!{}", error.at)]].concat(),
            }
        }
    }

    #[test]
    fn record_ends_with_its_line_unless_in_parentheses() {
        assert_eq!(words("a b ; c\nd"), ["a", "b"]);
        assert_eq!(words("a ( b ; c )\n d ) e\nf"), ["a", "b", "d", "e"]);
        assert_eq!(words("a (b (c\n) d\n) e"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn quotes_protect_blanks_comments_and_parentheses() {
        assert_eq!(words(r#"a "b ; (c" "d\"e""#), ["a", "b ; (c", r#"d\"e"#]);
        assert_eq!(words(r#"a"b""#), ["a", "b"]);
        assert_eq!(words(r"a\ b\;c"), [r"a\ b\;c"]);
    }

    #[test]
    fn unclosed_quote_and_parenthesis_are_reported_at_their_start() {
        assert_eq!(words("a \"b\nc\""), ["a", "!2"]);
        assert_eq!(words("a ( b\nc"), ["a", "b", "c", "!2"]);
        assert_eq!(words("a ) b"), ["a", "!2"]);
        assert_eq!(words("a\0b"), ["a", "!1"]);
    }

    #[test]
    fn backslash_at_the_end_of_a_line_escapes_nothing() {
        assert_eq!(words("a\\\nb"), ["a\\"]);
        assert_eq!(words("a\\"), ["a\\"]);
        assert_eq!(words("a \"b\\"), ["a", "!2"]);
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "\u{feff}ä b\n c (\n ü d )\n";
        let mut lexer = Lexer::new(text.as_bytes());
        assert_eq!(lexer.begin(), Begin::Owner);
        lexer.word().unwrap();
        let b = lexer.word().unwrap().unwrap();
        assert_eq!(lexer.position(b.at), (1, 3));
        lexer.skip_record().unwrap();
        assert_eq!(lexer.begin(), Begin::Blank);
        let c = lexer.word().unwrap().unwrap();
        lexer.word().unwrap();
        let d = lexer.word().unwrap().unwrap();
        assert_eq!((lexer.position(c.at), lexer.position(d.at)), ((2, 2), (3, 4)));
    }
}
