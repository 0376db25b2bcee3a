//! A strict decoder of DNS messages (RFC 1035 section 4), independent of the server's own code.
//!
//! Rejects what a strict receiver rejects: pointers that do not point backward, compressed names where they are not allowed
//! (RFC 3597 section 4), trailing octets. `query` builds messages.

use std::fmt;

use fairway_model::{Name, Rtype};

use crate::present::rdata_text;

/// The header of a message: twelve octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Message id.
    pub id: u16,
    /// Flags, QR to RCODE.
    pub flags: u16,
    /// Counts of questions, answers, authority and additional records.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header.
    pub fn read(octets: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]));
        Some(Self { id: word(0)?, flags: word(2)?, counts: [word(4)?, word(6)?, word(8)?, word(10)?] })
    }

    /// True if one bit of the flags is set.
    pub const fn has(self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// Returns the opcode.
    pub const fn opcode(self) -> u16 {
        self.flags >> 11 & 0xf
    }

    /// Returns the lower four bits of the response code.
    pub const fn rcode(self) -> u16 {
        self.flags & 0xf
    }
}

/// Bits of the second word of the header.
#[allow(missing_docs, reason = "each constant is the bit's name in RFC 1035 section 4.1.1 and RFC 4035")]
pub mod bit {
    pub const QR: u16 = 0x8000;
    pub const AA: u16 = 0x0400;
    pub const TC: u16 = 0x0200;
    pub const RD: u16 = 0x0100;
    pub const RA: u16 = 0x0080;
    pub const Z: u16 = 0x0040;
    pub const AD: u16 = 0x0020;
    pub const CD: u16 = 0x0010;
}

/// A decoded record.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Owner.
    pub owner: Name,
    /// Type.
    pub rtype: Rtype,
    /// Class.
    pub class: u16,
    /// TTL.
    pub ttl: u32,
    /// RDATA with uncompressed names.
    pub rdata: Vec<u8>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            1 => "IN".to_owned(),
            3 => "CH".to_owned(),
            255 => "ANY".to_owned(),
            other => format!("CLASS{other}"),
        };
        write!(f, "{} {} {class} {} {}", self.owner, self.ttl, self.rtype, rdata_text(self.rtype, &self.rdata))
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The OPT pseudo-record (RFC 6891 section 6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// UDP payload size of the sender.
    pub size: u16,
    /// Upper eight bits of the response code.
    pub rcode_high: u8,
    /// Version.
    pub version: u8,
    /// DO and the reserved flags.
    pub flags: u16,
    /// Options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// A complete message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// Octets of the question section.
    pub question: Vec<u8>,
    /// Answer, authority and additional section, without OPT.
    pub sections: [Vec<Record>; 3],
    /// OPT, if there is one.
    pub edns: Option<Edns>,
    /// Length of the message in octets.
    pub octets: usize,
}

/// Reason why octets are no valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound(pub String);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Message {
    /// Decodes octets that must be exactly one message.
    pub fn decode(octets: &[u8]) -> Result<Self, Unsound> {
        let header = Header::read(octets).ok_or_else(|| Unsound(format!("{} octets are no header", octets.len())))?;
        let mut reader = Reader { octets, at: 12 };
        for _ in 0..header.counts[0] {
            reader.name("question")?;
            reader.take(4, "question")?;
        }
        let question = octets[12..reader.at].to_vec();
        let mut sections: [Vec<Record>; 3] = Default::default();
        let mut edns = None;
        for (index, section) in sections.iter_mut().enumerate() {
            for _ in 0..header.counts[index + 1] {
                let record = reader.record()?;
                if record.rtype != Rtype::OPT {
                    section.push(record);
                } else if index != 2 || edns.replace(read_edns(&record)?).is_some() {
                    return Err(Unsound(
                        "an OPT outside the additional section, or two (RFC 6891 section 6.1.1)".into(),
                    ));
                }
            }
        }
        if reader.at != octets.len() {
            return Err(Unsound(format!("{} octets are left over after the last record", octets.len() - reader.at)));
        }
        Ok(Self { header, question, sections, edns, octets: octets.len() })
    }

    /// Returns the response code, with its upper bits from OPT.
    pub fn rcode(&self) -> u16 {
        self.header.rcode() | self.edns.as_ref().map_or(0, |e| u16::from(e.rcode_high) << 4)
    }

    /// Returns the data of the first option with this code.
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        self.edns.as_ref()?.options.iter().find(|(c, _)| *c == code).map(|(_, data)| &data[..])
    }
}

fn read_edns(record: &Record) -> Result<Edns, Unsound> {
    if !record.owner.is_root() {
        return Err(Unsound(format!("OPT is owned by {}, not by the root (RFC 6891 section 6.1.2)", record.owner)));
    }
    let [rcode_high, version, flags_high, flags_low] = record.ttl.to_be_bytes();
    let mut reader = Reader { octets: &record.rdata, at: 0 };
    let mut options = Vec::new();
    while reader.at < record.rdata.len() {
        let code = reader.word("option")?;
        let length = reader.word("option")?;
        options.push((code, reader.take(usize::from(length), "option")?.to_vec()));
    }
    let flags = u16::from_be_bytes([flags_high, flags_low]);
    Ok(Edns { size: record.class, rcode_high, version, flags, options })
}

struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Unsound> {
        let end = self.at + count;
        let taken = self.octets.get(self.at..end);
        self.at = end;
        taken.ok_or_else(|| Unsound(format!("the octets end inside a {what}")))
    }

    fn word(&mut self, what: &str) -> Result<u16, Unsound> {
        self.take(2, what).map(|o| u16::from_be_bytes([o[0], o[1]]))
    }

    /// Reads a name that may be compressed. Each pointer must point strictly backward, so the loop ends.
    fn name(&mut self, what: &str) -> Result<(Name, bool), Unsound> {
        let mut wire = Vec::new();
        let mut compressed = false;
        let mut at = self.at;
        let mut before = at;
        loop {
            let cut = || Unsound(format!("the octets end inside the name of a {what}"));
            let length = *self.octets.get(at).ok_or_else(cut)?;
            if length >= 0xc0 {
                let low = *self.octets.get(at + 1).ok_or_else(cut)?;
                let to = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if to >= before {
                    return Err(Unsound(format!("a pointer at octet {at} goes to {to}, which is not backward")));
                }
                self.at = if compressed { self.at } else { at + 2 };
                (compressed, at, before) = (true, to, to);
                continue;
            }
            let end = at + 1 + usize::from(length);
            wire.extend_from_slice(self.octets.get(at..end).ok_or_else(cut)?);
            at = end;
            if length == 0 {
                break;
            }
        }
        self.at = if compressed { self.at } else { at };
        let name = Name::from_wire(&wire).map_err(|e| Unsound(format!("the name of a {what}: {e}")))?;
        Ok((name, compressed))
    }

    fn record(&mut self) -> Result<Record, Unsound> {
        let (owner, _) = self.name("record")?;
        let rtype = Rtype(self.word("record")?);
        let class = self.word("record")?;
        let ttl = self.take(4, "record")?;
        let ttl = u32::from_be_bytes([ttl[0], ttl[1], ttl[2], ttl[3]]);
        let length = usize::from(self.word("record")?);
        let start = self.at;
        self.take(length, "RDATA")?;
        let rdata = self.expand(rtype, start, start + length)?;
        Ok(Record { owner, rtype, class, ttl, rdata })
    }

    /// Returns RDATA with its names uncompressed. Only types of RFC 1035 may have compressed ones (RFC 3597 section 4).
    fn expand(&self, rtype: Rtype, start: usize, end: usize) -> Result<Vec<u8>, Unsound> {
        let Some((before, names, may_compress)) = names_inside(rtype) else {
            return Ok(self.octets[start..end].to_vec());
        };
        let mut reader = Reader { octets: &self.octets[..end], at: start };
        let mut rdata = reader.take(before, "RDATA")?.to_vec();
        for _ in 0..names {
            let (name, compressed) = reader.name("RDATA")?;
            if compressed && !may_compress {
                return Err(Unsound(format!("a compressed name inside {rtype} (RFC 3597 section 4)")));
            }
            rdata.extend_from_slice(name.as_wire());
        }
        rdata.extend_from_slice(&self.octets[reader.at..end]);
        Ok(rdata)
    }
}

/// Octets before the first name, number of names, and true if they may be compressed.
fn names_inside(rtype: Rtype) -> Option<(usize, usize, bool)> {
    Some(match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::MB | Rtype::MG | Rtype::MR | Rtype::MD | Rtype::MF => {
            (0, 1, true)
        }
        Rtype::SOA | Rtype::MINFO => (0, 2, true),
        Rtype::MX => (2, 1, true),
        Rtype::DNAME => (0, 1, false),
        Rtype::RP => (0, 2, false),
        Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::SVCB | Rtype::HTTPS => (2, 1, false),
        Rtype::SRV => (6, 1, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 12] = [0, 7, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    const QUESTION: [u8; 7] = [1, b'a', 0, 0, 2, 0, 1];

    fn message(record: &[u8]) -> Vec<u8> {
        [&HEADER[..], &QUESTION, record].concat()
    }

    #[test]
    fn a_compressed_answer_is_read_whole() {
        let octets = message(&[0xc0, 12, 0, 2, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'b', 0xc0, 12]);
        let message = Message::decode(&octets).unwrap();
        assert_eq!(message.sections[0][0].to_string(), "a. 9 IN NS b.a.");
        assert!(message.header.has(bit::QR) && message.header.has(bit::AA));
    }

    #[test]
    fn pointers_that_do_not_go_backward_are_refused() {
        for pointer in [19, 21, 0x3f] {
            let octets = message(&[0xc0, pointer, 0, 1, 0, 1, 0, 0, 0, 9, 0, 0]);
            assert!(Message::decode(&octets).unwrap_err().0.contains("not backward"));
        }
    }

    #[test]
    fn compression_inside_newer_types_is_refused() {
        let octets = message(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 9, 0, 8, 0, 0, 0, 0, 0, 0, 0xc0, 12]);
        assert!(Message::decode(&octets).unwrap_err().0.contains("SRV"));
    }

    #[test]
    fn octets_left_over_and_cut_messages_are_refused() {
        let whole = message(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1]);
        assert!(Message::decode(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(Message::decode(&whole[..end]).is_err(), "cut at {end}");
        }
        assert!(Message::decode(&[&whole[..], &[0]].concat()).is_err());
    }
}
