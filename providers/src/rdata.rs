//! RDATA as text (RFC 1035 section 5) and back, for providers that speak text. Types without a form here are written as RFC 3597 has it.

use std::fmt::Write;

use fairway_model::{Name, Rtype};

/// The presentation form of RDATA whose names are whole; names end in a dot.
pub fn to_text(rtype: Rtype, rdata: &[u8]) -> String {
    known(rtype, rdata).unwrap_or_else(|| {
        let hex = rdata.iter().fold(String::new(), |mut hex, octet| {
            let _ = write!(hex, "{octet:02x}");
            hex
        });
        format!("\\# {} {hex}", rdata.len()).trim_end().to_owned()
    })
}

fn known(rtype: Rtype, rdata: &[u8]) -> Option<String> {
    let short = |at: usize| rdata.get(at..at + 2).map(|o| u16::from_be_bytes([o[0], o[1]]));
    let name = |at: usize| {
        let name = Name::from_wire(rdata.get(at..)?).ok()?;
        (at + name.as_wire().len() == rdata.len()).then_some(name)
    };
    Some(match rtype {
        Rtype::A => <[u8; 4]>::try_from(rdata).ok().map(std::net::Ipv4Addr::from)?.to_string(),
        Rtype::AAAA => <[u8; 16]>::try_from(rdata).ok().map(std::net::Ipv6Addr::from)?.to_string(),
        Rtype::CNAME | Rtype::NS | Rtype::PTR | Rtype::DNAME => name(0)?.to_string(),
        Rtype::MX => format!("{} {}", short(0)?, name(2)?),
        Rtype::SRV => format!("{} {} {} {}", short(0)?, short(2)?, short(4)?, name(6)?),
        Rtype::TXT => strings(rdata)?,
        Rtype::DS => {
            let hex: String = rdata.get(4..)?.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("{} {} {} {hex}", short(0)?, rdata[2], rdata[3])
        }
        _ => return None,
    })
}

fn strings(mut rdata: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let Some((length, rest)) = rdata.split_first() {
        let (string, rest) = rest.split_at_checked(usize::from(*length))?;
        text.push_str(if text.is_empty() { "\"" } else { " \"" });
        for octet in string {
            match octet {
                b'"' | b'\\' => text.extend(['\\', char::from(*octet)]),
                0x20..=0x7e => text.push(char::from(*octet)),
                _ => drop(write!(text, "\\{octet:03}")),
            }
        }
        text.push('"');
        rdata = rest;
    }
    (!text.is_empty()).then_some(text)
}

/// RDATA of a text; names may lack their final dot. None where it is malformed, or of a type that has no form here.
pub fn from_text(rtype: Rtype, text: &str) -> Option<Box<[u8]>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.first() == Some(&"\\#") {
        let octets = hex(&words.get(2..)?.concat())?;
        return (words.get(1)?.parse::<usize>().ok()? == octets.len()).then(|| octets.into());
    }
    let shorts = |count: usize| -> Option<Vec<u8>> {
        let numbers = words.get(..count)?.iter().map(|word| word.parse::<u16>().ok());
        Some(numbers.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u16::to_be_bytes).collect())
    };
    let named = |count: usize| {
        let name: Name = words.get(count)?.parse().ok()?;
        let mut rdata = shorts(count)?;
        rdata.extend_from_slice(name.as_wire());
        (words.len() == count + 1).then(|| rdata.into())
    };
    match rtype {
        Rtype::A => text.trim().parse::<std::net::Ipv4Addr>().ok().map(|address| address.octets().into()),
        Rtype::AAAA => text.trim().parse::<std::net::Ipv6Addr>().ok().map(|address| address.octets().into()),
        Rtype::CNAME | Rtype::NS | Rtype::PTR | Rtype::DNAME => named(0),
        Rtype::MX => named(1),
        Rtype::SRV => named(3),
        Rtype::TXT => from_strings(text.trim()),
        Rtype::DS => {
            let [tag, algorithm, digest_type] = [words.first()?, words.get(1)?, words.get(2)?];
            let mut rdata = tag.parse::<u16>().ok()?.to_be_bytes().to_vec();
            rdata.extend([algorithm.parse::<u8>().ok()?, digest_type.parse::<u8>().ok()?]);
            rdata.extend(hex(&words[3..].concat())?);
            Some(rdata.into())
        }
        _ => None,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |octet: &u8| char::from(*octet).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair.first()?)? << 4 | digit(pair.get(1)?)?) as u8)).collect()
}

/// Character-strings, quoted or one bare text; each is cut into pieces of 255 octets.
fn from_strings(text: &str) -> Option<Box<[u8]>> {
    let mut rdata = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        let is_quoted = rest.first() == Some(&b'"');
        rest = &rest[usize::from(is_quoted)..];
        let mut string = Vec::new();
        loop {
            let Some((octet, tail)) = rest.split_first() else {
                if is_quoted {
                    return None;
                }
                break;
            };
            rest = tail;
            match octet {
                b'"' if is_quoted => break,
                b'\\' => {
                    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
                    let (octet, taken) = match digits {
                        Some(digits) => (std::str::from_utf8(digits).ok()?.parse().ok()?, 3),
                        None => (*rest.first()?, 1),
                    };
                    string.push(octet);
                    rest = &rest[taken..];
                }
                other => string.push(*other),
            }
        }
        let pieces: Vec<&[u8]> = if string.is_empty() { vec![b""] } else { string.chunks(255).collect() };
        pieces.iter().for_each(|piece| rdata.extend([&[piece.len() as u8], *piece].concat()));
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return (rdata.len() <= usize::from(u16::MAX)).then(|| rdata.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_come_back_as_they_were() {
        for (rtype, text) in [
            (Rtype::A, "192.0.2.1"),
            (Rtype::AAAA, "2001:db8::1"),
            (Rtype::CNAME, "www.example."),
            (Rtype::MX, "10 mx.example."),
            (Rtype::SRV, "1 2 443 a.example."),
            (Rtype::TXT, "\"a \\\"b\\\" \\\\ \\195\\188\" \"second\""),
            (Rtype::DS, "12345 13 2 0a0b0c"),
            (Rtype::CAA, "\\# 3 00ff01"),
        ] {
            let rdata = from_text(rtype, text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(to_text(rtype, &rdata), text);
        }
    }

    #[test]
    fn long_and_bare_texts_become_strings() {
        let rdata = from_text(Rtype::TXT, &"t".repeat(4096)).unwrap();
        assert_eq!((rdata.len(), rdata[0]), (4096 + 17, 255));
        assert_eq!(*from_text(Rtype::TXT, "\"\"").unwrap(), [0]);
    }

    #[test]
    fn what_is_malformed_is_nothing() {
        for (rtype, text) in [
            (Rtype::A, "2001:db8::1"),
            (Rtype::A, "www.example."),
            (Rtype::MX, "mx.example."),
            (Rtype::MX, "70000 mx.example."),
            (Rtype::CNAME, "a b"),
            (Rtype::CNAME, ""),
            (Rtype::TXT, "\"open"),
            (Rtype::TXT, "\\"),
            (Rtype::CAA, "\\# 4 00ff01"),
            (Rtype::CAA, "\\# 1 0g"),
            (Rtype::DS, "1 2"),
        ] {
            assert_eq!(from_text(rtype, text), None, "{rtype} {text}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_come_back(octets in prop::collection::vec(any::<u8>(), 0..40), rtype in 1..70u16) {
            let rtype = Rtype(rtype);
            let text = to_text(rtype, &octets);
            if let Some(rdata) = from_text(rtype, &text) {
                prop_assert_eq!(&*rdata, &octets[..]);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*", rtype in 1..70u16) {
            let _ = from_text(Rtype(rtype), &text);
        }
    }
}
