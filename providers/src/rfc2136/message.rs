//! DNS messages as far as updates and transfers need them (RFC 1035 section 4, RFC 2136, RFC 5936).

use std::collections::BTreeMap;

use fairway_model::{Changes, Name, NameError, ProviderRecordSet, RecordSet, Rtype, Ttl};

/// An UPDATE of one zone (RFC 2136 section 2): all of it is carried out, or nothing.
///
/// What is created must not be there, and what is changed or deleted must be as it was read: whoever was faster keeps what he wrote.
pub(super) fn update(id: u16, zone: &Name, changes: &Changes) -> Vec<u8> {
    let mut out = header(id, 5 << 11);
    question(&mut out, zone, Rtype::SOA);
    let (mut required, mut done) = (0, 0);
    for set in &changes.create {
        required += record(&mut out, &set.set.name, set.set.rtype, NONE, 0, &[]);
    }
    for from in changes.update.iter().map(|update| &update.from).chain(&changes.delete) {
        for rdata in &from.set.rdatas {
            required += record(&mut out, &from.set.name, from.set.rtype, IN, 0, rdata);
        }
    }
    for from in changes.delete.iter().chain(changes.update.iter().map(|update| &update.from)) {
        done += record(&mut out, &from.set.name, from.set.rtype, ANY, 0, &[]);
    }
    for to in changes.update.iter().map(|update| &update.to).chain(&changes.create) {
        for rdata in &to.set.rdatas {
            done += record(&mut out, &to.set.name, to.set.rtype, IN, to.set.ttl.secs(), rdata);
        }
    }
    put(&mut out, 6, required);
    put(&mut out, 8, done);
    out
}

/// A question for the whole zone (RFC 5936 section 2.1).
pub(super) fn transfer(id: u16, zone: &Name) -> Vec<u8> {
    let mut out = header(id, 0);
    question(&mut out, zone, Rtype::AXFR);
    out
}

fn header(id: u16, flags: u16) -> Vec<u8> {
    let mut out = vec![0; 12];
    put(&mut out, 0, id);
    put(&mut out, 2, flags);
    put(&mut out, 4, 1);
    out
}

fn question(out: &mut Vec<u8>, name: &Name, rtype: Rtype) {
    out.extend_from_slice(name.as_wire());
    out.extend(rtype.0.to_be_bytes());
    out.extend(IN.to_be_bytes());
}

/// Writes one record; counts it. Counts past 65,535 cannot be: such a message is far over its bound.
pub(super) fn record(out: &mut Vec<u8>, name: &Name, rtype: Rtype, class: u16, ttl: u32, rdata: &[u8]) -> u16 {
    out.extend_from_slice(name.as_wire());
    out.extend(rtype.0.to_be_bytes());
    out.extend(class.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
    1
}

pub(super) fn put(out: &mut [u8], at: usize, value: u16) {
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    /// They end early, or point somewhere wrong.
    #[error("the answer is cut off or malformed")]
    Cut,
    /// A name in it is none.
    #[error("a name in the answer is none: {0}")]
    Name(#[from] NameError),
}

/// One record of a message.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) rtype: Rtype,
    pub(super) class: u16,
    pub(super) ttl: u32,
    /// Names in it whole.
    pub(super) rdata: Box<[u8]>,
    /// Where in the message it begins.
    pub(super) start: usize,
}

/// A message that was read.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: u16,
    pub(super) is_response: bool,
    pub(super) rcode: u8,
    pub(super) answers: Vec<Record>,
    /// Those of the additional section.
    pub(super) additional: Vec<Record>,
}

impl Message {
    pub(super) fn read(wire: &[u8]) -> Result<Self, ReadError> {
        let mut reader = Reader { wire, at: 12 };
        let head = |at: usize| wire.get(at..at + 2).map(|o| u16::from_be_bytes([o[0], o[1]])).ok_or(ReadError::Cut);
        for _ in 0..head(4)? {
            reader.name()?;
            reader.take(4)?;
        }
        let mut section = |count: u16| (0..count).map(|_| reader.record()).collect::<Result<Vec<_>, _>>();
        let (answers, _authority, additional) = (section(head(6)?)?, section(head(8)?)?, section(head(10)?)?);
        let flags = head(2)?;
        let (is_response, rcode) = (flags & 0x8000 != 0, (flags & 15) as u8);
        Ok(Self { id: head(0)?, is_response, rcode, answers, additional })
    }
}

struct Reader<'a> {
    wire: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let octets = self.wire.get(self.at..self.at + count).ok_or(ReadError::Cut)?;
        self.at += count;
        Ok(octets)
    }

    fn u16(&mut self) -> Result<u16, ReadError> {
        self.take(2).map(|o| u16::from_be_bytes([o[0], o[1]]))
    }

    /// A name, pointers followed (RFC 1035 section 4.1.4). Each pointer leads further to the front, so that it ends.
    fn name(&mut self) -> Result<Name, ReadError> {
        let (mut wire, mut at, mut end, mut limit) = (Vec::with_capacity(64), self.at, None, self.at);
        loop {
            let length = *self.wire.get(at).ok_or(ReadError::Cut)?;
            if length >= 0xc0 {
                let low = *self.wire.get(at + 1).ok_or(ReadError::Cut)?;
                end.get_or_insert(at + 2);
                at = usize::from(length & 0x3f) << 8 | usize::from(low);
                if at >= limit {
                    return Err(ReadError::Cut);
                }
                limit = at;
                continue;
            }
            let label = self.wire.get(at..=at + usize::from(length)).ok_or(ReadError::Cut)?;
            wire.extend_from_slice(label);
            at += label.len();
            if length == 0 || wire.len() > Name::OCTETS_MAX {
                self.at = end.unwrap_or(at);
                return Ok(Name::from_wire(&wire)?);
            }
        }
    }

    fn record(&mut self) -> Result<Record, ReadError> {
        let start = self.at;
        let name = self.name()?;
        let (rtype, class) = (Rtype(self.u16()?), self.u16()?);
        let ttl = u32::from(self.u16()?) << 16 | u32::from(self.u16()?);
        let end = usize::from(self.u16()?) + self.at;
        let rdata = self.rdata(rtype, end)?;
        Ok(Record { name, rtype, class, ttl, rdata, start })
    }

    /// RDATA with the names in it whole: those of the types that may be compressed (RFC 3597 section 4).
    fn rdata(&mut self, rtype: Rtype, end: usize) -> Result<Box<[u8]>, ReadError> {
        let (before, names) = match rtype {
            Rtype::NS
            | Rtype::CNAME
            | Rtype::PTR
            | Rtype::DNAME
            | Rtype::MB
            | Rtype::MD
            | Rtype::MF
            | Rtype::MG
            | Rtype::MR => (0, 1),
            Rtype::SOA | Rtype::MINFO | Rtype::RP => (0, 2),
            Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => (2, 1),
            Rtype::PX => (2, 2),
            Rtype::SRV => (6, 1),
            _ => (0, 0),
        };
        let mut rdata = Vec::new();
        if end > self.at {
            rdata.extend_from_slice(self.take(before)?);
            for _ in 0..names {
                rdata.extend_from_slice(self.name()?.as_wire());
            }
        }
        let rest = end.checked_sub(self.at).ok_or(ReadError::Cut)?;
        rdata.extend_from_slice(self.take(rest)?);
        Ok(rdata.into())
    }
}

/// Record sets of records that were transferred; the second SOA is the end's mark and no record.
pub(super) fn sets(records: Vec<Record>) -> Vec<ProviderRecordSet> {
    let mut sets: BTreeMap<(Name, Rtype), Members> = BTreeMap::new();
    for record in records.into_iter().filter(|record| record.class == IN) {
        let (ttl, rdatas) = sets.entry((record.name, record.rtype)).or_insert((record.ttl, Vec::new()));
        *ttl = record.ttl.min(*ttl);
        rdatas.push(record.rdata);
    }
    let set = |((name, rtype), (ttl, rdatas))| {
        ProviderRecordSet::plain(RecordSet::new(name, rtype, Ttl::from_secs(ttl).unwrap_or(Ttl::MAX), rdatas))
    };
    sets.into_iter().map(set).collect()
}

/// TTL and RDATA of one set.
type Members = (u32, Vec<Box<[u8]>>);

/// The Internet class.
pub(super) const IN: u16 = 1;
/// No class: what must not be there.
const NONE: u16 = 254;
/// Any class: what is deleted whole.
pub(super) const ANY: u16 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn compressed_names_in_records_come_out_whole() {
        let mut wire = header(7, 0x8400);
        question(&mut wire, &name("x."), Rtype::AXFR);
        put(&mut wire, 6, 1);
        // x. MX 10 m.x., both names pointing at the question's.
        wire.extend(b"\xc0\x0c\x00\x0f\x00\x01\x00\x00\x00\x3c\x00\x06\x00\x0a\x01m\xc0\x0c");
        let message = Message::read(&wire).unwrap();
        assert_eq!((message.id, message.is_response, message.rcode), (7, true, 0));
        assert_eq!(
            (&message.answers[0].name, &*message.answers[0].rdata),
            (&name("x."), &b"\x00\x0a\x01m\x01x\x00"[..])
        );
        for end in 0..wire.len() {
            assert!(Message::read(&wire[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn pointers_that_lead_in_a_circle_are_an_error() {
        let mut wire = header(7, 0x8400);
        wire.extend(b"\xc0\x0c\x00\x01\x00\x01");
        assert_eq!(Message::read(&wire).unwrap_err(), ReadError::Cut);
    }

    #[test]
    fn an_update_asks_first_for_what_it_was_planned_on() {
        let set = |last: u8| {
            ProviderRecordSet::plain(RecordSet::new(
                name("a.x."),
                Rtype::A,
                Ttl::STEERED,
                [Box::from([192, 0, 2, last])],
            ))
        };
        let changes = Changes { create: vec![set(1)], ..Changes::default() };
        let wire = update(1, &name("x."), &changes);
        // Counts: one zone, one thing required, one done.
        assert_eq!(wire[2..12], [5 << 3, 0, 0, 1, 0, 1, 0, 1, 0, 0]);
        let none = b"\x01a\x01x\x00\x00\x01\x00\xfe\x00\x00\x00\x00\x00\x00";
        assert_eq!(wire[19..][..none.len()], none[..]);
    }
}
