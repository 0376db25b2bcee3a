//! The words of one RDATA, taken one by one as what a field needs.

use std::net::Ipv6Addr;

use fairway_model::Name;

use super::{
    read::{read_name, show_name_error},
    time::read_number,
    wire::Malformed,
};
use crate::{
    faults::{Wrong, show},
    lexer::{Lexer, Word},
};

/// The words of one RDATA, and where its wire form goes.
pub(super) struct Source<'l, 'a> {
    pub(super) lexer: &'l mut Lexer<'a>,
    pub(super) origin: &'l Name,
    /// A word that was looked at and not taken.
    pub(super) pending: Option<Word<'a>>,
    pub(super) out: &'l mut Vec<u8>,
}

impl<'a> Source<'_, 'a> {
    /// The next word; none at the end of the record.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, Wrong> {
        match self.pending.take() {
            Some(word) => Ok(Some(word)),
            None => self.lexer.word(),
        }
    }

    /// Whether a word is left.
    pub(super) fn more(&mut self) -> Result<bool, Wrong> {
        self.pending = self.next()?;
        Ok(self.pending.is_some())
    }

    /// The next word, which must be there.
    pub(super) fn need(&mut self, meaning: &str) -> Result<Word<'a>, Wrong> {
        let word = self.next()?;
        word.ok_or_else(|| {
            Wrong::new(self.lexer.at(), format!("the record ends too early: expected {meaning}"), "complete it")
        })
    }

    /// A number of decimal digits up to `max`.
    pub(super) fn number(&mut self, max: u64) -> Result<u64, Wrong> {
        let word = self.need("a number")?;
        read_number(word.text).filter(|n| *n <= max).ok_or_else(|| refuse(word, &format!("a number from 0 to {max}")))
    }

    /// A number of one octet.
    pub(super) fn octet(&mut self) -> Result<u8, Wrong> {
        Ok(self.number(u8::MAX.into())?.to_le_bytes()[0])
    }

    /// A domain name.
    pub(super) fn name(&mut self) -> Result<(), Wrong> {
        let word = self.need("a domain name")?;
        if word.quoted {
            return Err(refuse(word, "a domain name without quotes"));
        }
        read_name(word.text, self.origin, self.out).map_err(|e| show_name_error(word, e))
    }

    /// An IPv4 address.
    pub(super) fn ipv4(&mut self) -> Result<(), Wrong> {
        let word = self.need("an IPv4 address")?;
        let address = read_ipv4(word.text).ok_or_else(|| refuse(word, "an IPv4 address like 192.0.2.1"))?;
        self.out.extend_from_slice(&address);
        Ok(())
    }

    /// An IPv6 address.
    pub(super) fn ipv6(&mut self) -> Result<(), Wrong> {
        let word = self.need("an IPv6 address")?;
        let address = read_ipv6(word.text).ok_or_else(|| refuse(word, "an IPv6 address like 2001:db8::1"))?;
        self.out.extend_from_slice(&address.octets());
        Ok(())
    }

    /// A character-string with its length octet.
    pub(super) fn string(&mut self, word: Word<'_>) -> Result<(), Wrong> {
        let start = self.out.len();
        self.out.push(0);
        self.unescape(word)?;
        let length = self.out.len() - start - 1;
        self.out[start] = u8::try_from(length).map_err(|_| {
            let what = format!("the string has {length} octets; the maximum is 255 (RFC 1035 section 3.3)");
            Wrong::new(word.at, what, "split it into several quoted strings")
        })?;
        Ok(())
    }

    /// The octets of a word without its escapes.
    pub(super) fn unescape(&mut self, word: Word<'_>) -> Result<(), Wrong> {
        unescape(word.text, self.out).map_err(|what| refuse_because(word, what))
    }

    /// All words that are left, put together.
    pub(super) fn rest(&mut self) -> Result<(usize, Vec<u8>), Wrong> {
        let at = self.pending.map_or_else(|| self.lexer.at(), |word| word.at);
        let mut text = vec![];
        while let Some(word) = self.next()? {
            text.extend_from_slice(word.text);
        }
        Ok((at, text))
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), Wrong> {
        match self.next()? {
            None => Ok(()),
            Some(word) => {
                let what = format!("unexpected {} after the end of the data", show(word.text));
                Err(Wrong::new(word.at, what, "remove it, or quote a string that contains blanks"))
            }
        }
    }
}

/// A fault for a word that is not what was expected.
pub(super) fn refuse(word: Word<'_>, expected: &str) -> Wrong {
    Wrong::new(word.at, format!("expected {expected}, found {}", show(word.text)), "")
}

/// A fault for a word that is wrong for a reason.
pub(super) fn refuse_because(word: Word<'_>, what: Malformed) -> Wrong {
    Wrong::new(word.at, format!("{}: {what}", show(word.text)), "")
}

/// Appends a text without its escapes: `\DDD` and `\X` (RFC 1035 section 5.1).
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

/// Four numbers up to 255 without leading zeros, which some readers take as octal.
pub(super) fn read_ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let mut octets = [0; 4];
    let mut place = 0;
    let mut digits = 0;
    let mut value = 0u16;
    for &octet in text {
        match octet {
            b'0'..=b'9' if digits < 3 && (digits == 0 || value > 0) => {
                value = value * 10 + u16::from(octet - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && place < 3 => {
                octets[place] = u8::try_from(value).ok()?;
                (place, digits, value) = (place + 1, 0, 0);
            }
            _ => return None,
        }
    }
    octets[place] = u8::try_from(value).ok()?;
    (place == 3 && digits > 0).then_some(octets)
}

pub(super) fn read_ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
