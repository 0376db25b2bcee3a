//! RDATA as text (RFC 1035 section 5.1, RFC 3597 section 5, RFC 9460 section 2.1), for comparison with recipes.
//!
//! Types without a text form in recipes have the generic one, `\# LENGTH HEX`.

use std::{
    fmt::Write as _,
    net::{Ipv4Addr, Ipv6Addr},
};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use fairway_model::{Name, Rtype};

/// Returns RDATA as text; generic if the octets do not match the type.
pub fn rdata_text(rtype: Rtype, rdata: &[u8]) -> String {
    typed(rtype, rdata).unwrap_or_else(|| generic(rdata))
}

/// Returns `\# LENGTH HEX`.
pub fn generic(rdata: &[u8]) -> String {
    let mut text = format!("\\# {}", rdata.len());
    if !rdata.is_empty() {
        text.push(' ');
        text.push_str(&hex(rdata));
    }
    text
}

/// Returns octets as lower-case hexadecimal digits.
pub fn hex(octets: &[u8]) -> String {
    HEXLOWER.encode(octets)
}

/// Returns the octets of hexadecimal digits.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()
}

fn typed(rtype: Rtype, rdata: &[u8]) -> Option<String> {
    let mut data = Data(rdata);
    let text = match rtype {
        Rtype::A => Ipv4Addr::from(data.array::<4>()?).to_string(),
        Rtype::AAAA => Ipv6Addr::from(data.array::<16>()?).to_string(),
        Rtype::NS | Rtype::CNAME | Rtype::DNAME | Rtype::PTR => data.name()?,
        Rtype::SOA => {
            let (mname, rname) = (data.name()?, data.name()?);
            let times: Option<Vec<_>> = (0..5).map(|_| data.long()).collect();
            format!("{mname} {rname} {}", times?.join(" "))
        }
        Rtype::MX => format!("{} {}", data.word()?, data.name()?),
        Rtype::SRV => format!("{} {} {} {}", data.word()?, data.word()?, data.word()?, data.name()?),
        Rtype::TXT | Rtype::SPF | Rtype::HINFO => data.strings()?,
        Rtype::CAA => {
            let (flags, tag) = (data.octet()?, data.string()?);
            format!("{flags} {} {}", String::from_utf8_lossy(tag), quoted(data.rest()))
        }
        Rtype::DS => format!("{} {} {} {}", data.word()?, data.octet()?, data.octet()?, hex(data.rest())),
        Rtype::SVCB | Rtype::HTTPS => {
            let mut text = format!("{} {}", data.word()?, data.name()?);
            while !data.0.is_empty() {
                let (key, length) = (data.word()?, data.word()?);
                write!(text, " key{key}={}", hex(data.take(usize::from(length))?)).ok()?;
            }
            text
        }
        _ => return None,
    };
    data.0.is_empty().then_some(text)
}

/// Appends a character-string in quotes.
fn quoted(octets: &[u8]) -> String {
    let mut text = String::from("\"");
    for &octet in octets {
        match octet {
            b'"' | b'\\' => write!(text, "\\{}", char::from(octet)),
            0x20..=0x7e => write!(text, "{}", char::from(octet)),
            _ => write!(text, "\\{octet:03}"),
        }
        .expect("a String takes everything");
    }
    text.push('"');
    text
}

struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn octet(&mut self) -> Option<u8> {
        self.array::<1>().map(|o| o[0])
    }

    fn word(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<String> {
        self.array().map(|o| u32::from_be_bytes(o).to_string())
    }

    fn name(&mut self) -> Option<String> {
        let name = Name::from_wire(self.0).ok()?;
        self.take(name.as_wire().len())?;
        Some(name.to_string())
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.octet()?;
        self.take(usize::from(length))
    }

    fn strings(&mut self) -> Option<String> {
        let mut texts = Vec::new();
        while !self.0.is_empty() {
            texts.push(quoted(self.string()?));
        }
        Some(texts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_types_have_their_own_form_and_others_the_generic_one() {
        assert_eq!(rdata_text(Rtype::A, &[192, 0, 2, 1]), "192.0.2.1");
        assert_eq!(rdata_text(Rtype::A, &[192, 0, 2]), "\\# 3 c00002");
        assert_eq!(rdata_text(Rtype::TXT, b"\x02a\"\x00"), "\"a\\\"\" \"\"");
        assert_eq!(rdata_text(Rtype::HTTPS, &[0, 1, 0, 0, 3, 0, 2, 1, 187]), "1 . key3=01bb");
        assert_eq!(rdata_text(Rtype(65280), &[]), "\\# 0");
    }

    #[test]
    fn hexadecimal_digits_come_back() {
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
        assert!(unhex("0").is_none() && unhex("zz").is_none());
    }
}
