//! Reads the words of one RDATA as the values that fields need.

use std::str::FromStr;

use fairway_model::Name;

use super::{
    codec::Malformed,
    name::{name_error, read_name},
    table::Mnemonics,
    time::read_number,
};
use crate::{
    diagnostics::{TextError, show},
    lexer::{Lexer, Word},
};

/// The words of one RDATA, and the buffer for its wire form.
pub(super) struct Words<'l, 'a> {
    pub(super) lexer: &'l mut Lexer<'a>,
    pub(super) origin: &'l Name,
    /// A word that was peeked at.
    pub(super) pending: Option<Word<'a>>,
    pub(super) out: &'l mut Vec<u8>,
}

impl<'a> Words<'_, 'a> {
    /// Returns the next word, or `None` at the end of the record.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, TextError> {
        match self.pending.take() {
            Some(word) => Ok(Some(word)),
            None => self.lexer.word(),
        }
    }

    /// True if there is another word.
    pub(super) fn has_next(&mut self) -> Result<bool, TextError> {
        self.pending = self.next()?;
        Ok(self.pending.is_some())
    }

    /// Returns the next word. Fails at the end of the record.
    pub(super) fn need(&mut self, meaning: &str) -> Result<Word<'a>, TextError> {
        let word = self.next()?;
        word.ok_or_else(|| {
            TextError::new(self.lexer.at(), format!("the record ends too early: expected {meaning}"), "complete it")
        })
    }

    /// Reads a decimal number up to `max`.
    pub(super) fn number(&mut self, max: u64) -> Result<u64, TextError> {
        let word = self.need("a number")?;
        read_number(word.text).filter(|n| *n <= max).ok_or_else(|| refuse(word, &format!("a number from 0 to {max}")))
    }

    /// Reads a number of one octet.
    pub(super) fn octet(&mut self) -> Result<u8, TextError> {
        Ok(self.number(u8::MAX.into())?.to_le_bytes()[0])
    }

    /// Appends a domain name.
    pub(super) fn name(&mut self) -> Result<(), TextError> {
        let word = self.need("a domain name")?;
        if word.quoted {
            return Err(refuse(word, "a domain name without quotes"));
        }
        read_name(word.text, self.origin, self.out).map_err(|e| name_error(word, e))
    }

    /// Appends a character-string with its length octet.
    pub(super) fn string(&mut self, word: Word<'_>) -> Result<(), TextError> {
        let start = self.out.len();
        self.out.push(0);
        self.unescape(word)?;
        let length = self.out.len() - start - 1;
        self.out[start] = u8::try_from(length).map_err(|_| {
            let fact = format!("the string has {length} octets; the maximum is 255 (RFC 1035 section 3.3)");
            TextError::new(word.at, fact, "split it into several quoted strings")
        })?;
        Ok(())
    }

    /// Appends the octets of a word, with its escapes decoded.
    pub(super) fn unescape(&mut self, word: Word<'_>) -> Result<(), TextError> {
        unescape(word.text, self.out).map_err(|fact| refuse_because(word, fact))
    }

    /// Returns the offset of the next word, and the remaining words joined.
    pub(super) fn rest(&mut self) -> Result<(usize, Vec<u8>), TextError> {
        let at = self.pending.map_or_else(|| self.lexer.at(), |word| word.at);
        let mut text = vec![];
        while let Some(word) = self.next()? {
            text.extend_from_slice(word.text);
        }
        Ok((at, text))
    }

    /// Fails if another word follows.
    pub(super) fn end(&mut self) -> Result<(), TextError> {
        match self.next()? {
            None => Ok(()),
            Some(word) => {
                let fact = format!("unexpected {} after the end of the data", show(word.text));
                Err(TextError::new(word.at, fact, "remove it, or quote a string that contains blanks"))
            }
        }
    }
}

/// Returns the error for a word that is not the expected value.
pub(super) fn refuse(word: Word<'_>, expected: &str) -> TextError {
    TextError::new(word.at, format!("expected {expected}, found {}", show(word.text)), "")
}

/// Returns the error for a word, with a reason.
pub(super) fn refuse_because(word: Word<'_>, fact: Malformed) -> TextError {
    TextError::new(word.at, format!("{}: {fact}", show(word.text)), "")
}

/// Appends a text with its escapes `\DDD` and `\X` decoded (RFC 1035 section 5.1).
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    const BAD: Malformed = "a backslash must be followed by one character or three digits up to 255";
    let mut rest = text;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        if octet != b'\\' {
            out.push(octet);
            continue;
        }
        let (&first, tail) = rest.split_first().ok_or(BAD)?;
        if first.is_ascii_digit() {
            let (digits, tail) = rest.split_at_checked(3).ok_or(BAD)?;
            let value = read_number(digits).and_then(|v| u8::try_from(v).ok());
            out.push(value.ok_or(BAD)?);
            rest = tail;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    Ok(())
}

/// Reads a value in the form of its type, such as an address or a record type.
pub(super) fn parse<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a number, or one of its mnemonics.
pub(super) fn read_code(text: &[u8], mnemonics: Mnemonics) -> Option<u64> {
    let named = mnemonics.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text));
    named.map(|(_, number)| u64::from(*number)).or_else(|| read_number(text))
}
