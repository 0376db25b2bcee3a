//! Parameters of SVCB and HTTPS (RFC 9460): text, wire form, and the rules between parameters.

use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::BASE64;

use super::{
    codec::{self, Malformed, write_octets},
    time::read_number,
    words::{Words, parse, refuse, refuse_because, unescape},
    write::write_joined,
};
use crate::{diagnostics::TextError, lexer::Word};

/// Keys by number (IANA "Service Parameter Keys (SvcParamKeys)").
const KEYS: &[&str] =
    &["mandatory", "alpn", "no-default-alpn", "port", "ipv4hint", "ech", "ipv6hint", "dohpath", "ohttp"];
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;

/// Returns keys and values of the parameters.
fn parameters(mut rest: &[u8]) -> Result<Vec<(u16, &[u8])>, Malformed> {
    let mut found = vec![];
    while !rest.is_empty() {
        let ([k1, k2, l1, l2], tail) = rest.split_first_chunk().ok_or(CUT)?;
        let (value, after) = tail.split_at_checked(usize::from(u16::from_be_bytes([*l1, *l2]))).ok_or(CUT)?;
        found.push((u16::from_be_bytes([*k1, *k2]), value));
        rest = after;
    }
    Ok(found)
}

const CUT: Malformed = "the parameters are truncated";

/// Checks that keys ascend without duplicates, values match their keys, and mandatory keys exist (RFC 9460 sections 2.2, 7, 8).
pub(super) fn check(rest: &[u8]) -> Result<(), Malformed> {
    let parameters = parameters(rest)?;
    if !parameters.is_sorted_by(|a, b| a.0 < b.0) {
        return Err("parameters must be in ascending order of their keys, each once");
    }
    for (key, value) in &parameters {
        check_value(*key, value)?;
    }
    let value_of = |wanted: u16| parameters.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
    if value_of(u16::MAX).is_some() {
        return Err("key 65535 is reserved (RFC 9460 section 14.3.2)");
    }
    if value_of(NO_DEFAULT_ALPN).is_some() && value_of(ALPN).is_none() {
        return Err("no-default-alpn needs alpn (RFC 9460 section 7.1.1)");
    }
    let mandatory = value_of(MANDATORY).unwrap_or_default().as_chunks::<2>().0;
    if mandatory.iter().any(|key| value_of(u16::from_be_bytes(*key)).is_none()) {
        return Err("a key that mandatory lists is missing (RFC 9460 section 8)");
    }
    Ok(())
}

fn check_value(key: u16, value: &[u8]) -> Result<(), Malformed> {
    let is_valid = match key {
        MANDATORY => {
            let (keys, odd) = value.as_chunks::<2>();
            let keys = keys.iter().map(|k| u16::from_be_bytes(*k));
            !value.is_empty()
                && odd.is_empty()
                && keys.clone().all(|k| k != MANDATORY)
                && keys.is_sorted_by(|a, b| a < b)
        }
        ALPN => alpn_ids(value).is_some_and(|ids| !ids.is_empty()),
        NO_DEFAULT_ALPN | OHTTP => value.is_empty(),
        PORT => value.len() == 2,
        IPV4HINT => !value.is_empty() && value.len().is_multiple_of(4),
        IPV6HINT => !value.is_empty() && value.len().is_multiple_of(16),
        ECH => !value.is_empty(),
        DOHPATH => {
            !value.is_empty()
                && std::str::from_utf8(value).is_ok_and(|path| path.starts_with('/') && path.contains("dns"))
        }
        _ => true,
    };
    if is_valid { Ok(()) } else { Err(rule(key)) }
}

/// Returns what the value of a key must be.
const fn rule(key: u16) -> Malformed {
    match key {
        MANDATORY => {
            "mandatory must list keys like alpn or key667 in ascending order, each once, without itself (RFC 9460 section 8)"
        }
        ALPN => "alpn must list protocol identifiers of 1 to 255 octets (RFC 9460 section 7.1.1)",
        NO_DEFAULT_ALPN | OHTTP => "no-default-alpn and ohttp take no value",
        PORT => "port must be one number from 0 to 65535 (RFC 9460 section 7.2)",
        DOHPATH => "dohpath must be a relative URI template with the variable dns (RFC 9461 section 5)",
        ECH => "ech must not be empty (RFC 9460 section 7.3)",
        IPV4HINT => "ipv4hint must list IPv4 addresses, separated by commas (RFC 9460 section 7.3)",
        _ => "ipv6hint must list IPv6 addresses, separated by commas (RFC 9460 section 7.3)",
    }
}

/// Returns the protocol identifiers, each of which follows its length octet; `None` if one is empty or truncated.
fn alpn_ids(mut value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut ids = vec![];
    while let Some((length, tail)) = value.split_first() {
        let (id, rest) = tail.split_at_checked(usize::from(*length))?;
        if id.is_empty() {
            return None;
        }
        ids.push(id);
        value = rest;
    }
    Some(ids)
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let mut found: Vec<(u16, Vec<u8>)> = vec![];
    while let Some(word) = words.next()? {
        if word.quoted {
            return Err(refuse(word, "a parameter like port=8443"));
        }
        let (key_text, value) = match word.text.iter().position(|o| *o == b'=') {
            None => (word.text, None),
            Some(equals) => {
                let quote = if equals + 1 == word.text.len() { words.lexer.adjoining_quote()? } else { None };
                let at = word.at + equals + 1;
                let plain = Word { text: &word.text[equals + 1..], at, ..word };
                (&word.text[..equals], Some(quote.unwrap_or(plain)))
            }
        };
        let (key, opaque) =
            read_key(key_text).ok_or_else(|| refuse(Word { text: key_text, ..word }, "a key like alpn or key667"))?;
        let text = value.map_or(&b""[..], |value| value.text);
        let octets = if opaque { read_opaque(text) } else { read_value(key, text) };
        let octets = octets.map_err(|fact| refuse_because(value.unwrap_or(word), fact))?;
        found.push((key, octets));
    }
    found.sort_by_key(|(key, _)| *key);
    for (key, value) in found {
        let length = u16::try_from(value.len())
            .map_err(|_| TextError::new(words.lexer.at(), "a parameter is over 65535 octets", "shorten it"))?;
        words.out.extend_from_slice(&key.to_be_bytes());
        words.out.extend_from_slice(&length.to_be_bytes());
        words.out.extend_from_slice(&value);
    }
    Ok(())
}

/// Reads a key: a name, or `keyN`, whose value is opaque (RFC 9460 section 2.1). Returns its number, and true if the value is opaque.
fn read_key(text: &[u8]) -> Option<(u16, bool)> {
    if let Some(number) = KEYS.iter().position(|key| key.as_bytes() == text) {
        return Some((u16::try_from(number).ok()?, false));
    }
    let digits = text.strip_prefix(b"key")?;
    if digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    Some((u16::try_from(read_number(digits)?).ok()?, true))
}

fn read_opaque(text: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut value = vec![];
    unescape(text, &mut value)?;
    Ok(value)
}

fn read_value(key: u16, text: &[u8]) -> Result<Vec<u8>, Malformed> {
    let value = read_opaque(text)?;
    let mut items = value.split(|o| *o == b',');
    let octets = match key {
        MANDATORY => items.map(|key| Some(read_key(key)?.0)).collect::<Option<Vec<u16>>>().map(|mut keys| {
            keys.sort_unstable();
            keys.into_iter().flat_map(u16::to_be_bytes).collect()
        }),
        ALPN => with_lengths(&read_list(&value)?),
        PORT => read_number(&value).and_then(|n| u16::try_from(n).ok()).map(|port| port.to_be_bytes().to_vec()),
        IPV4HINT => {
            items.try_fold(vec![], |all, item| Some([all, parse::<Ipv4Addr>(item)?.octets().to_vec()].concat()))
        }
        IPV6HINT => {
            items.try_fold(vec![], |all, item| Some([all, parse::<Ipv6Addr>(item)?.octets().to_vec()].concat()))
        }
        ECH => {
            let mut octets = vec![];
            codec::read_base64(&value, &mut octets)?;
            Some(octets)
        }
        _ => Some(value),
    };
    octets.ok_or_else(|| rule(key))
}

/// Returns the items, each after its length octet; `None` if one is too long.
fn with_lengths(items: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut octets = vec![];
    for item in items {
        octets.push(u8::try_from(item.len()).ok()?);
        octets.extend_from_slice(item);
    }
    Some(octets)
}

/// Reads a comma-separated list. A comma or backslash in an item is escaped again (RFC 9460 appendix A.1).
fn read_list(value: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut items = vec![vec![]];
    let mut octets = value.iter();
    while let Some(&octet) = octets.next() {
        let item = match octet {
            b',' => {
                items.push(vec![]);
                continue;
            }
            b'\\' => *octets.next().ok_or("a backslash in a list must be followed by a character")?,
            _ => octet,
        };
        if let Some(last) = items.last_mut() {
            last.push(item);
        }
    }
    Ok(items)
}

pub(super) fn write(value: &[u8], out: &mut String) -> Option<()> {
    for (index, (key, value)) in parameters(value).ok()?.into_iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(&key_name(key));
        if value.is_empty() {
            continue;
        }
        out.push('=');
        match key {
            MANDATORY => {
                write_joined(value.as_chunks::<2>().0.iter().map(|k| key_name(u16::from_be_bytes(*k))), ",", out);
            }
            ALPN => write_alpn(&alpn_ids(value)?, out),
            PORT => out.push_str(&u16::from_be_bytes(value.try_into().ok()?).to_string()),
            IPV4HINT => write_joined(value.as_chunks::<4>().0.iter().map(|a| Ipv4Addr::from(*a)), ",", out),
            IPV6HINT => write_joined(value.as_chunks::<16>().0.iter().map(|a| Ipv6Addr::from(*a)), ",", out),
            ECH => BASE64.encode_append(value, out),
            _ => write_octets(value, out),
        }
    }
    Some(())
}

fn write_alpn(ids: &[&[u8]], out: &mut String) {
    let mut list = vec![];
    for id in ids {
        if !list.is_empty() {
            list.push(b',');
        }
        for octet in *id {
            if matches!(octet, b',' | b'\\') {
                list.push(b'\\');
            }
            list.push(*octet);
        }
    }
    write_octets(&list, out);
}

fn key_name(key: u16) -> String {
    KEYS.get(usize::from(key)).map_or_else(|| format!("key{key}"), |name| (*name).to_owned())
}
