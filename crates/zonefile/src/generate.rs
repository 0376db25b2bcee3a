//! $GENERATE: one line that produces many records, compatible with BIND.
//!
//! `$GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA`: in OWNER and DATA each `$` becomes the number, and
//! `${OFFSET[,WIDTH[,BASE]]}` the number plus OFFSET, at least WIDTH digits long, in base d, o, x, X, n or N (nibbles
//! in reverse, with dots). `\$` is a literal dollar.

use super::{
    diagnostics::{TextError, show},
    lexer::{Lexer, Word},
    rdata::read_number,
    reader::{Frame, Reader},
};

/// Maximum number of records of all $GENERATE lines of a zone, so that a short text cannot fill the memory.
const GENERATED_MAX: usize = 1 << 20;
/// Maximum octets of the text of all these records: 64 per record.
const OCTETS_MAX: usize = 64 * GENERATED_MAX;
/// Maximum width of a number; a longer one fits into no name or address.
const WIDTH_MAX: usize = 127;

impl Reader<'_> {
    /// Reads the arguments of $GENERATE, then the records that it produces.
    pub(super) fn generate(&mut self, lexer: &mut Lexer<'_>, frame: &Frame) -> Result<(), TextError> {
        let line = lexer.line();
        let expected = "a range like 1-254 or 0-100/2";
        let range_word = lexer.word()?;
        let range_word = range_word
            .ok_or_else(|| TextError::new(lexer.at(), format!("expected {expected} after $GENERATE"), "add it"))?;
        let range = read_range(range_word.text).ok_or_else(|| {
            TextError::new(range_word.at, format!("expected {expected}, found {}", show(range_word.text)), "")
        })?;
        let template = read_template(lexer)?;
        self.generated += range.clone().count();
        if self.generated > GENERATED_MAX {
            let fact = "the $GENERATE lines of the zone produce more than 1048576 records";
            return Err(TextError::new(range_word.at, fact, "put the records into a file and include it"));
        }
        let mut generated = Frame { line: Some(line), ..frame.clone() };
        for number in range {
            let mut text = Vec::with_capacity(template.len() + 16);
            substitute(&template, number, &mut text).map_err(|fact| {
                TextError::new(range_word.at, fact, "write ${OFFSET,WIDTH,BASE}, or \\$ for a dollar")
            })?;
            text.push(b'\n');
            self.generated_octets += text.len();
            if self.generated_octets > OCTETS_MAX {
                let fact = "the $GENERATE lines of the zone produce more than 64 MiB of text";
                return Err(TextError::new(range_word.at, fact, "put the records into a file and include it"));
            }
            // The other numbers would only repeat the error.
            if !self.lines(&mut Lexer::new(&text), &mut generated) {
                break;
            }
        }
        Ok(())
    }
}

/// Reads `START-STOP` or `START-STOP/STEP`.
fn read_range(text: &[u8]) -> Option<std::iter::StepBy<std::ops::RangeInclusive<u32>>> {
    let text = std::str::from_utf8(text).ok()?;
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (start, stop) = range.split_once('-')?;
    let number = |digits: &str| u32::try_from(read_number(digits.as_bytes())?).ok();
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    // Numbers have at most 31 bits, as in BIND.
    let is_valid = start <= stop && stop < 1 << 31 && step > 0;
    is_valid.then(|| (start..=stop).step_by(usize::try_from(step).unwrap_or(usize::MAX)))
}

/// Returns the words of the record, separated by one blank, with escapes and quotes as written.
fn read_template(lexer: &mut Lexer<'_>) -> Result<Vec<u8>, TextError> {
    let mut template = vec![];
    let mut count = 0;
    let mut push = |word: Word<'_>| {
        let quote: &[u8] = if word.quoted { b"\"" } else { b"" };
        template.extend_from_slice(&[quote, word.text, quote, b" "].concat());
        count += 1;
    };
    while let Some(word) = lexer.word()? {
        push(word);
    }
    if count < 3 {
        let fact = "$GENERATE needs an owner, a type and data";
        return Err(TextError::new(lexer.at(), fact, "complete it"));
    }
    Ok(template)
}

/// Replaces each `$` with the number.
fn substitute(template: &[u8], number: u32, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut rest = template;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match octet {
            b'\\' => {
                if rest.first() != Some(&b'$') {
                    out.push(octet);
                }
                if let Some((&escaped, tail)) = rest.split_first() {
                    out.push(escaped);
                    rest = tail;
                }
            }
            b'$' if rest.first() == Some(&b'{') => {
                let end = rest.iter().position(|o| *o == b'}').ok_or("the brace after $ is not closed")?;
                format_number(&rest[1..end], number, out)?;
                rest = &rest[end + 1..];
            }
            b'$' => out.extend_from_slice(number.to_string().as_bytes()),
            _ => out.push(octet),
        }
    }
    Ok(())
}

/// Appends the number in the format `OFFSET[,WIDTH[,BASE]]`.
fn format_number(modifiers: &[u8], number: u32, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const BAD: &str = "the braces after $ must hold OFFSET,WIDTH,BASE";
    let modifiers = std::str::from_utf8(modifiers).map_err(|_| BAD)?;
    let mut parts = modifiers.split(',');
    let offset: i64 = parts.next().unwrap_or("0").parse().map_err(|_| BAD)?;
    let width: usize = parts.next().unwrap_or("0").parse().map_err(|_| BAD)?;
    let base = parts.next().unwrap_or("d");
    if parts.next().is_some() || width > WIDTH_MAX {
        return Err(BAD);
    }
    let sum = i64::from(number).checked_add(offset).ok_or(BAD)?;
    let value = u64::try_from(sum).map_err(|_| "a number that $GENERATE produces is below 0")?;
    let text = match base {
        "d" => format!("{value:0width$}"),
        "o" => format!("{value:0width$o}"),
        "x" => format!("{value:0width$x}"),
        "X" => format!("{value:0width$X}"),
        "n" => nibbles(&format!("{value:x}"), width),
        "N" => nibbles(&format!("{value:X}"), width),
        _ => return Err(BAD),
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Returns the hexadecimal digits in reverse order, separated by dots; the width includes the dots.
fn nibbles(digits: &str, width: usize) -> String {
    let mut text = String::new();
    for digit in digits.chars().rev().chain(std::iter::repeat('0')) {
        if text.len() >= 2 * digits.len() - 1 && text.len() + usize::from(!text.is_empty()) >= width.max(1) {
            break;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push(digit);
    }
    text
}
