//! Builds valid and invalid queries from the words of a recipe's `query` line.
//!
//! Every message that a client could send by mistake or with malice has a word; their meaning is in
//! `integration/recipes/README.md`.

use std::net::{IpAddr, SocketAddr};

use fairway_model::{Name, Rtype};

use crate::{message::bit, present::unhex};

/// EDNS option code of the client subnet (RFC 7871).
pub const ECS: u16 = 8;
/// EDNS option code of the name server identifier (RFC 5001).
pub const NSID: u16 = 3;
/// EDNS option code of cookies (RFC 7873).
pub const COOKIE: u16 = 10;
/// EDNS option code of the TCP keepalive (RFC 7828).
pub const KEEPALIVE: u16 = 11;
/// EDNS option code of extended errors (RFC 8914).
pub const EXTENDED_ERROR: u16 = 15;

/// A query to send.
#[derive(Clone, Debug)]
pub struct Query {
    /// Octets to send instead of the fields below, except transport and sender.
    pub raw: Option<Vec<u8>>,
    /// Message id.
    pub id: u16,
    /// Flags, QR to RCODE.
    pub flags: u16,
    /// Name, type and class of the question; `None` for a message without question.
    pub question: Option<(Name, Rtype, u16)>,
    /// OPT, if present.
    pub edns: Option<Opt>,
    /// Further records in wire form, of the answer, authority and additional section.
    pub extra: [Vec<Vec<u8>>; 3],
    /// Counts to write instead of the real ones.
    pub counts: [Option<u16>; 4],
    /// Octets after the message.
    pub trailing: Vec<u8>,
    /// Length to which the message is truncated.
    pub cut: Option<usize>,
    /// Transports: UDP, TCP, or both in turn.
    pub transports: Transports,
    /// Client address, if it matters.
    pub from: Option<SocketAddr>,
}

/// Transports of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transports {
    /// UDP, then TCP.
    Both,
    /// TCP only.
    Tcp,
    /// UDP only.
    Udp,
}

/// The OPT of a query.
#[derive(Clone, Debug)]
pub struct Opt {
    /// Owner, which should be the root.
    pub owner: Name,
    /// UDP payload size.
    pub size: u16,
    /// Version.
    pub version: u8,
    /// DO (0x8000) and reserved flags.
    pub flags: u16,
    /// Options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
    /// RDLENGTH to write instead of the real one.
    pub length: Option<u16>,
}

impl Default for Opt {
    fn default() -> Self {
        Self { owner: Name::root(), size: 1232, version: 0, flags: 0, options: vec![], length: None }
    }
}

impl Opt {
    fn encode(&self) -> Vec<u8> {
        let mut rdata = Vec::new();
        for (code, data) in &self.options {
            rdata.extend(code.to_be_bytes());
            rdata.extend(length_of(data).to_be_bytes());
            rdata.extend(data);
        }
        let mut wire = self.owner.as_wire().to_vec();
        wire.extend(Rtype::OPT.0.to_be_bytes());
        wire.extend(self.size.to_be_bytes());
        wire.extend([0, self.version]);
        wire.extend(self.flags.to_be_bytes());
        wire.extend(self.length.unwrap_or_else(|| length_of(&rdata)).to_be_bytes());
        wire.extend(rdata);
        wire
    }
}

fn length_of(octets: &[u8]) -> u16 {
    u16::try_from(octets.len()).expect("recipes stay under 65536 octets")
}

impl Query {
    /// Returns a query of class IN without EDNS.
    pub fn new(name: Name, rtype: Rtype) -> Self {
        Self { question: Some((name, rtype, 1)), ..Self::empty() }
    }

    /// Returns an empty message.
    pub fn empty() -> Self {
        Self {
            raw: None,
            id: 0x4d5a,
            flags: 0,
            question: None,
            edns: None,
            extra: Default::default(),
            counts: [None; 4],
            trailing: vec![],
            cut: None,
            transports: Transports::Both,
            from: None,
        }
    }

    /// Returns the octets to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = self.raw.clone().unwrap_or_else(|| self.encode_message());
        wire.extend(&self.trailing);
        wire.truncate(self.cut.unwrap_or(usize::MAX));
        wire
    }

    fn encode_message(&self) -> Vec<u8> {
        let mut wire = Vec::new();
        wire.extend(self.id.to_be_bytes());
        wire.extend(self.flags.to_be_bytes());
        let mut counts = [usize::from(self.question.is_some()), 0, 0, 0];
        for (count, extra) in counts[1..].iter_mut().zip(&self.extra) {
            *count = extra.len();
        }
        counts[3] += usize::from(self.edns.is_some());
        for (count, given) in counts.into_iter().zip(self.counts) {
            let count = u16::try_from(count).expect("recipes stay under 65536 records");
            wire.extend(given.unwrap_or(count).to_be_bytes());
        }
        if let Some((name, rtype, class)) = &self.question {
            wire.extend(name.as_wire());
            wire.extend(rtype.0.to_be_bytes());
            wire.extend(class.to_be_bytes());
        }
        wire.extend(self.extra[0].concat());
        wire.extend(self.extra[1].concat());
        wire.extend(self.edns.as_ref().map(Opt::encode).unwrap_or_default());
        wire.extend(self.extra[2].concat());
        wire
    }

    /// Applies one word of a `query` line.
    pub fn apply(&mut self, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').map_or((word, ""), |(k, v)| (k, v));
        if let Some(flag) = header_flag(key) {
            self.flags |= flag;
            return Ok(());
        }
        match key {
            "udp" => self.transports = Transports::Udp,
            "tcp" => self.transports = Transports::Tcp,
            "id" => self.id = number(value)?,
            "opcode" => self.flags = self.flags & 0x87ff | number::<u16>(opcode(value))? << 11,
            "rcode" => self.flags |= number::<u16>(value)?,
            "class" => {
                let class = number(class(value))?;
                self.question.as_mut().ok_or("there is no question to give a class")?.2 = class;
            }
            "no-question" => self.question = None,
            "qdcount" => self.counts[0] = Some(number(value)?),
            "ancount" => self.counts[1] = Some(number(value)?),
            "nscount" => self.counts[2] = Some(number(value)?),
            "arcount" => self.counts[3] = Some(number(value)?),
            "+answer" => self.extra[0].extend(records(value)?),
            "+authority" => self.extra[1].extend(records(value)?),
            "+additional" => self.extra[2].extend(records(value)?),
            "trailing" => self.trailing.extend(octets(value)?),
            "cut" => self.cut = Some(number(value)?),
            "from" => self.from = Some(sender(value)?),
            _ => return self.apply_edns(key, value),
        }
        Ok(())
    }

    fn apply_edns(&mut self, key: &str, value: &str) -> Result<(), String> {
        let opt = self.edns.get_or_insert_default();
        match key {
            "edns" if value.is_empty() => {}
            "edns" => opt.size = number(value)?,
            "version" => opt.version = number(value)?,
            "do" => opt.flags |= 0x8000,
            "edns-flags" => {
                opt.flags = u16::from_str_radix(value, 16).map_err(|_| format!("{value:?} is no hex word"))?
            }
            "opt-owner" => opt.owner = value.parse().map_err(|e| format!("{value}: {e}"))?,
            "opt-length" => opt.length = Some(number(value)?),
            "nsid" => opt.options.push((NSID, octets(value)?)),
            "keepalive" => opt.options.push((KEEPALIVE, octets(value)?)),
            "cookie" => opt.options.push((COOKIE, octets(value)?)),
            "padding" => opt.options.push((12, vec![0; number(value)?])),
            "ecs" => opt.options.push((ECS, client_subnet(value)?)),
            "option" => {
                let (code, data) = value.split_once(':').ok_or("write option=CODE:HEX")?;
                opt.options.push((number(code)?, octets(data)?));
            }
            "many-options" => {
                let more = 0..number::<u16>(value)?;
                opt.options.extend(more.map(|n| (65001 + n % 500, vec![0xaa; 4])));
            }
            _ => return Err(format!("{key:?} is no word of a query; see integration/recipes/README.md")),
        }
        Ok(())
    }
}

fn header_flag(word: &str) -> Option<u16> {
    Some(match word {
        "qr" => bit::QR,
        "aa" => bit::AA,
        "tc" => bit::TC,
        "rd" => bit::RD,
        "ra" => bit::RA,
        "z" => bit::Z,
        "ad" => bit::AD,
        "cd" => bit::CD,
        _ => return None,
    })
}

fn opcode(text: &str) -> &str {
    match text {
        "IQUERY" => "1",
        "STATUS" => "2",
        "NOTIFY" => "4",
        "UPDATE" => "5",
        "DSO" => "6",
        number => number,
    }
}

fn class(text: &str) -> &str {
    match text {
        "IN" => "1",
        "CH" => "3",
        "HS" => "4",
        "NONE" => "254",
        "ANY" => "255",
        number => number,
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number in range"))
}

fn octets(digits: &str) -> Result<Vec<u8>, String> {
    unhex(digits).ok_or_else(|| format!("{digits:?} is no even number of hexadecimal digits"))
}

/// Reads `HEX` or `HEX*TIMES`.
fn records(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let (digits, times) = text.split_once('*').unwrap_or((text, "1"));
    Ok(vec![octets(digits)?; number(times)?])
}

fn sender(text: &str) -> Result<SocketAddr, String> {
    let plain = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 5353));
    plain.or_else(|_| text.parse()).map_err(|_| format!("{text:?} is neither ADDRESS nor ADDRESS:PORT"))
}

/// Reads `ADDRESS/SOURCE` or `ADDRESS/SOURCE/SCOPE`. The address is truncated to whole octets; extra bits of the last one stay.
fn client_subnet(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.split('/');
    let address = parts.next().unwrap_or_default().parse::<IpAddr>().map_err(|_| format!("{text:?} has no address"))?;
    let source: u8 = number(parts.next().unwrap_or_default())?;
    let scope: u8 = parts.next().map_or(Ok(0), number)?;
    let (family, mut octets) = match address {
        IpAddr::V4(a) => (1u16, a.octets().to_vec()),
        IpAddr::V6(a) => (2, a.octets().to_vec()),
    };
    octets.truncate(usize::from(source).div_ceil(8));
    Ok([&family.to_be_bytes()[..], &[source, scope], &octets].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn query(words: &[&str]) -> Query {
        let mut query = Query::new("www.example.".parse().unwrap(), Rtype::A);
        for word in words {
            query.apply(word).unwrap();
        }
        query
    }

    #[test]
    fn words_become_octets_that_decode_to_the_same() {
        let octets = query(&["id=7", "rd", "edns=4096", "do", "ecs=192.0.2.0/24"]).encode();
        let message = Message::decode(&octets).unwrap();
        assert_eq!((message.header.id, message.header.flags), (7, bit::RD));
        assert_eq!(message.option(ECS), Some(&[0, 1, 24, 0, 192, 0, 2][..]));
        let edns = message.edns.unwrap();
        assert_eq!((edns.size, edns.flags), (4096, 0x8000));
    }

    #[test]
    fn invalid_queries_are_built_as_written() {
        assert!(Message::decode(&query(&["arcount=1"]).encode()).is_err());
        assert!(Message::decode(&query(&["trailing=00"]).encode()).is_err());
        assert_eq!(query(&["cut=5"]).encode().len(), 5);
        assert_eq!(query(&["opcode=NOTIFY"]).flags, 4 << 11);
    }

    #[test]
    fn a_word_that_means_nothing_is_refused() {
        assert!(query(&[]).apply("dnssec").unwrap_err().contains("dnssec"));
        assert!(query(&[]).apply("id=70000").is_err());
    }
}
