//! Converts RDATA from presentation form to wire form, field by field.

use std::net::Ipv6Addr;

use fairway_model::{Name, Rtype};

use super::{
    codec::{self, Malformed},
    host_identity, location, ports, prefix, svcb,
    table::{Field, Mnemonics, fields},
    time::{read_time, read_ttl},
    wire,
    words::{Words, parse, read_code, refuse},
};
use crate::{diagnostics::TextError, lexer::Lexer};

/// Text of the errors at a place for a record type.
const RECORD_TYPE: &str = "a record type like AAAA or TYPE65280";

/// Reads the remaining words of a record as RDATA and writes the wire form to `out`, which is empty.
pub(crate) fn read(rtype: Rtype, lexer: &mut Lexer<'_>, origin: &Name, out: &mut Vec<u8>) -> Result<(), TextError> {
    let first = lexer.word()?;
    let begin = first.map_or_else(|| lexer.at(), |word| word.at);
    let mut words = Words { lexer, origin, pending: first, out };
    match (first, fields(rtype)) {
        (Some(word), _) if word.text == b"\\#" && !word.quoted => words.generic()?,
        (_, Some(fields)) => {
            for &field in fields {
                if !field.is_optional() || words.has_next()? {
                    words.field(field.resolved(words.out))?;
                }
                while field.is_list() && words.has_next()? {
                    words.field(field)?;
                }
            }
            words.end()?;
        }
        _ => {
            let fact = format!("type {rtype} has no presentation form");
            return Err(TextError::new(begin, fact, "write \\# LENGTH HEX (RFC 3597 section 5)"));
        }
    }
    // An address that was read cannot be malformed.
    if matches!(rtype, Rtype::A | Rtype::AAAA) && first.is_some_and(|w| !w.escaped) {
        return Ok(());
    }
    wire::check(rtype, out).map_err(|fact| TextError::new(begin, format!("{rtype} data: {fact}"), ""))
}

impl Words<'_, '_> {
    /// Reads `\# LENGTH HEX` (RFC 3597 section 5).
    fn generic(&mut self) -> Result<(), TextError> {
        self.pending = None;
        let length = self.number(u16::MAX.into())?;
        let (at, text) = self.rest()?;
        codec::read_hex(&text, self.out).map_err(|fact| TextError::new(at, fact, ""))?;
        let octets = self.out.len();
        if u64::try_from(octets) == Ok(length) {
            return Ok(());
        }
        let fact = format!("the length field says {length} octets, but {octets} follow");
        Err(TextError::new(at, fact, "correct the length, or complete the data"))
    }

    fn field(&mut self, field: Field) -> Result<(), TextError> {
        match field {
            Field::Name | Field::Names => self.name()?,
            Field::U8 => self.push_number(1)?,
            Field::U16 => self.push_number(2)?,
            Field::U32 => self.push_number(4)?,
            Field::U64 => self.push_number(8)?,
            Field::Code8(mnemonics) => self.code(mnemonics, 1)?,
            Field::Code16(mnemonics) => self.code(mnemonics, 2)?,
            Field::Ipv4 => {
                let meaning = "an IPv4 address like 192.0.2.1";
                let word = self.need(meaning)?;
                let address = read_ipv4(word.text).ok_or_else(|| refuse(word, meaning))?;
                self.out.extend_from_slice(&address);
            }
            Field::Hex | Field::Base64 | Field::OptionalBase64 => self.encoded(field)?,
            Field::TypeBitmap => self.type_bitmap()?,
            Field::Location => location::read(self)?,
            Field::Ports => ports::read(self)?,
            Field::RelayType => {
                let discovery = self.number(1)?;
                let kind = self.number(0x7f)?;
                self.out.push((discovery << 7 | kind).to_le_bytes()[0]);
            }
            Field::HostIdentity => host_identity::read(self)?,
            Field::Parameters => svcb::read(self)?,
            _ => self.one_word(field)?,
        }
        Ok(())
    }

    /// Reads a field that is one word and has one error message.
    fn one_word(&mut self, field: Field) -> Result<(), TextError> {
        let meaning = match field {
            Field::Seconds => "a number of seconds like 3600 or 1h",
            Field::Time => "a time like 20300131235959",
            Field::Type => RECORD_TYPE,
            Field::Text | Field::String | Field::OptionalString | Field::Strings => "a string",
            Field::Ipv6 => "an IPv6 address like 2001:db8::1",
            Field::Prefixes => "a prefix like 1:192.0.2.0/24 or !2:2001:db8::/32",
            Field::NoGateway => "a dot after gateway type 0",
            Field::Gateway(_) => "a gateway of type 0 to 3",
            Field::Tag => "a tag of letters and digits",
            Field::Salt => "hexadecimal digits or -",
            Field::Hash => "a hash in Base32 with the extended hex alphabet",
            Field::Eui48 => "six pairs of hexadecimal digits like 00-00-5e-00-53-2a",
            Field::Eui64 => "eight pairs of hexadecimal digits like 00-00-5e-ef-10-00-00-2a",
            Field::Locator64 => "four groups of hexadecimal digits like 2001:0db8:1140:1000",
            _ => "an NSAP address like 0x47.0005",
        };
        let word = self.need(meaning)?;
        let start = self.out.len();
        let read = match field {
            Field::Seconds => read_ttl(word.text).map(|n| self.out.extend_from_slice(&n.to_be_bytes())),
            Field::Time => read_time(word.text).ok().map(|t| self.out.extend_from_slice(&t.to_be_bytes())),
            Field::Type => parse::<Rtype>(word.text).map(|t| self.out.extend_from_slice(&t.0.to_be_bytes())),
            Field::Ipv6 => parse::<Ipv6Addr>(word.text).map(|a| self.out.extend_from_slice(&a.octets())),
            Field::Prefixes => prefix::read(word.text).map(|item| self.out.extend_from_slice(&item)),
            Field::NoGateway => (word.text == b".").then_some(()),
            Field::Gateway(_) => None,
            Field::Text => return self.unescape(word),
            Field::Tag | Field::String | Field::OptionalString | Field::Strings => return self.string(word),
            Field::Salt if word.text == b"-" => self.counted(|_| Ok(())),
            Field::Salt => self.counted(|out| codec::read_hex(word.text, out)),
            Field::Hash => self.counted(|out| codec::read_base32hex(word.text, out)),
            Field::Eui48 => self.groups(word.text, b'-', 6, 2),
            Field::Eui64 => self.groups(word.text, b'-', 8, 2),
            Field::Locator64 => self.groups(word.text, b':', 4, 4),
            _ => self.nsap(word.text),
        };
        read.ok_or_else(|| {
            self.out.truncate(start);
            refuse(word, meaning)
        })
    }

    fn push_number(&mut self, octets: usize) -> Result<(), TextError> {
        let number = self.number(u64::MAX >> (64 - 8 * octets))?;
        self.out.extend_from_slice(&number.to_be_bytes()[8 - octets..]);
        Ok(())
    }

    /// Reads a number or one of its mnemonics.
    fn code(&mut self, mnemonics: Mnemonics, octets: usize) -> Result<(), TextError> {
        let word = self.need("a number or its mnemonic")?;
        let number = read_code(word.text, mnemonics).filter(|n| *n < 1 << (8 * octets)).ok_or_else(|| {
            let known = mnemonics.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            refuse(word, &format!("a number up to {} or one of {known}", (1 << (8 * octets)) - 1))
        })?;
        self.out.extend_from_slice(&number.to_be_bytes()[8 - octets..]);
        Ok(())
    }

    /// Appends a length octet and the octets that `read` appends, at most 255.
    fn counted(&mut self, read: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>) -> Option<()> {
        let start = self.out.len();
        self.out.push(0);
        read(self.out).ok()?;
        self.out[start] = u8::try_from(self.out.len() - start - 1).ok()?;
        Some(())
    }

    fn encoded(&mut self, field: Field) -> Result<(), TextError> {
        let (at, text) = self.rest()?;
        let (optional, coding) = match field {
            Field::OptionalBase64 => (true, "Base64"),
            Field::Base64 => (false, "Base64"),
            _ => (false, "hexadecimal digits"),
        };
        if text.is_empty() && !optional {
            let fact = format!("the record ends too early: expected {coding}");
            return Err(TextError::new(at, fact, "complete it"));
        }
        let read = match field {
            Field::Hex => codec::read_hex(&text, self.out),
            _ if optional && text == b"-" => Ok(()),
            _ => codec::read_base64(&text, self.out),
        };
        read.map_err(|fact| TextError::new(at, fact, ""))
    }

    fn type_bitmap(&mut self) -> Result<(), TextError> {
        let mut types = vec![];
        while let Some(word) = self.next()? {
            let rtype = parse::<Rtype>(word.text);
            types.push(rtype.ok_or_else(|| refuse(word, RECORD_TYPE))?.0);
        }
        types.sort_unstable();
        for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
            let mut bits = [0u8; 32];
            let mut used = 0;
            for bit in window.iter().map(|t| t & 0xff) {
                used = usize::from(bit >> 3);
                bits[used] |= 0x80 >> (bit & 7);
            }
            self.out.extend_from_slice(&[window[0].to_be_bytes()[0], 1 + used.to_le_bytes()[0]]);
            self.out.extend_from_slice(&bits[..=used]);
        }
        Ok(())
    }

    /// Reads `count` groups of `digits` hexadecimal digits. Between colons a group may have fewer digits.
    fn groups(&mut self, text: &[u8], between: u8, count: usize, digits: usize) -> Option<()> {
        let mut found = 0;
        for group in text.split(|o| *o == between) {
            found += 1;
            if group.is_empty() || group.len() > digits || (between == b'-' && group.len() < digits) {
                return None;
            }
            let value = group
                .iter()
                .try_fold(0u16, |sum, d| Some(sum << 4 | u16::try_from(char::from(*d).to_digit(16)?).ok()?))?;
            self.out.extend_from_slice(&value.to_be_bytes()[2 - digits / 2..]);
        }
        (found == count).then_some(())
    }

    fn nsap(&mut self, text: &[u8]) -> Option<()> {
        let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
        let plain: Vec<u8> = digits.iter().copied().filter(|o| *o != b'.').collect();
        codec::read_hex(&plain, self.out).ok()
    }
}

/// Reads an IPv4 address: four decimal numbers without leading zeros, because some programs read those as octal.
///
/// The parser of the standard library needs text that was checked to be UTF-8, which costs 290 more instructions per address. Most records
/// of a large zone are addresses, so that would be 4 % of the start with a million names.
fn read_ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let (mut address, mut place, mut digits) = ([0u8; 4], 0, 0);
    for &octet in text {
        match octet {
            b'0'..=b'9' if digits == 0 || address[place] > 0 => {
                address[place] = address[place].checked_mul(10)?.checked_add(octet - b'0')?;
                digits += 1;
            }
            b'.' if digits > 0 && place < 3 => (place, digits) = (place + 1, 0),
            _ => return None,
        }
    }
    (place == 3 && digits > 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::{parse, read_ipv4};

    proptest! {
        #[test]
        fn ipv4_addresses_are_read_as_the_standard_library_does(
            text in "[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9.a -]{0,16}|(0|1|25[0-9])(\\.(0|7|2[0-9]{2})){2,4}"
        ) {
            prop_assert_eq!(read_ipv4(text.as_bytes()), parse::<Ipv4Addr>(text.as_bytes()).map(|a| a.octets()));
        }
    }
}
