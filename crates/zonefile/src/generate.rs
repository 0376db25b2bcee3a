//! $GENERATE: one line for many records that differ in a number, as BIND has it.
//!
//! `$GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA`: in OWNER and DATA each `$` becomes the number, and
//! `${OFFSET[,WIDTH[,BASE]]}` the number plus OFFSET, at least WIDTH digits long, in base d, o, x, X, n or N (nibbles
//! in reverse, with dots). `\$` is a plain dollar.

use super::{
    faults::{Wrong, show},
    lexer::{Lexer, Word},
    reader::{Frame, Reader},
};

/// How many records all of a zone's $GENERATE lines may make: a short text must not fill the memory.
const GENERATED_MAX: usize = 1 << 20;
/// Most octets that all these records may be in text: 64 for each of the most records.
const OCTETS_MAX: usize = 64 * GENERATED_MAX;
/// Longest number that a width may ask for; a longer one fits into no name or address.
const WIDTH_MAX: usize = 127;

impl Reader<'_> {
    /// Reads what follows $GENERATE, and the records it stands for.
    pub(super) fn generate(&mut self, lexer: &mut Lexer<'_>, frame: &Frame) -> Result<(), Wrong> {
        let line = lexer.line();
        let expected = "a range like 1-254 or 0-100/2";
        let range_word = lexer.word()?;
        let range_word = range_word
            .ok_or_else(|| Wrong::new(lexer.at(), format!("expected {expected} after $GENERATE"), "add it"))?;
        let range = read_range(range_word.text).ok_or_else(|| {
            Wrong::new(range_word.at, format!("expected {expected}, found {}", show(range_word.text)), "")
        })?;
        let template = read_template(lexer)?;
        self.generated += range.clone().count();
        if self.generated > GENERATED_MAX {
            let what = "the $GENERATE lines of the zone produce more than 1048576 records";
            return Err(Wrong::new(range_word.at, what, "put the records into a file and include it"));
        }
        let mut generated = Self::generated_frame(frame, line);
        for number in range {
            let mut text = Vec::with_capacity(template.len() + 16);
            substitute(&template, number, &mut text)
                .map_err(|what| Wrong::new(range_word.at, what, "write ${OFFSET,WIDTH,BASE}, or \\$ for a dollar"))?;
            text.push(b'\n');
            self.generated_octets += text.len();
            if self.generated_octets > OCTETS_MAX {
                let what = "the $GENERATE lines of the zone produce more than 64 MiB of text";
                return Err(Wrong::new(range_word.at, what, "put the records into a file and include it"));
            }
            // One fault is enough: the other numbers would only repeat it.
            if !self.lines(&mut Lexer::new(&text), &mut generated) {
                break;
            }
        }
        Ok(())
    }
}

/// `START-STOP` or `START-STOP/STEP`.
fn read_range(text: &[u8]) -> Option<std::iter::StepBy<std::ops::RangeInclusive<u32>>> {
    let text = std::str::from_utf8(text).ok()?;
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (start, stop) = range.split_once('-')?;
    let digits = |t: &str| t.bytes().all(|o| o.is_ascii_digit()).then(|| t.parse::<u32>().ok())?;
    let (start, stop, step) = (digits(start)?, digits(stop)?, digits(step)?);
    // Numbers stay in 31 bits, as in BIND.
    let sound = start <= stop && stop < 1 << 31 && step > 0;
    sound.then(|| (start..=stop).step_by(usize::try_from(step).unwrap_or(usize::MAX)))
}

/// The record in words with one blank between, its escapes and quotes as written.
fn read_template(lexer: &mut Lexer<'_>) -> Result<Vec<u8>, Wrong> {
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
        let what = "$GENERATE needs an owner, a type and data";
        return Err(Wrong::new(lexer.at(), what, "complete it"));
    }
    Ok(template)
}

/// Puts the number in the place of each `$`.
fn substitute(template: &[u8], number: u32, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut rest = template;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match octet {
            b'\\' => {
                if rest.first() != Some(&b'$') {
                    out.push(octet);
                }
                if let Some((&hidden, tail)) = rest.split_first() {
                    out.push(hidden);
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

/// One `OFFSET[,WIDTH[,BASE]]`.
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

/// Hexadecimal digits from the last to the first with dots between; the width counts the dots.
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
