//! Stage one: parses a packet to a question or to a reason not to answer it. Bounded by the packet's length.

use fairway_model::Rtype;

use super::{Edns, HEADER, NameKey, Rcode, Section, name_end};

/// A parsed packet. It holds no reference to the packet, so that a batch can wait for memory together.
#[derive(Clone)]
pub(crate) struct Query {
    /// Hash of the name.
    pub(crate) hash: u64,
    /// End of the name in the packet.
    name_end: u16,
    /// Labels of the name without the root.
    pub(crate) labels: u8,
    pub(crate) rtype: Rtype,
    pub(crate) class: u16,
    pub(crate) edns: Option<Edns>,
    pub(crate) refusal: Option<Refusal>,
}

/// Reason why no answer is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing is sent.
    Drop,
    /// A bare header with this code, and OPT if the query has it and is sound, since the question cannot be trusted.
    Bare(Rcode),
    /// This code with the question, and with OPT if the query has it.
    Question(Rcode),
    /// FORMERR with question and OPT because of the length of the cookie, unless cookies are off (RFC 7873 section 5.2.2).
    BadCookie,
    /// A bare header with a cookie, since the query has no question and asks for one (RFC 7873 section 5.4).
    Cookie,
    /// NOTAUTH with a TSIG record that says BADKEY (RFC 8945 section 5.2.1). Contains the offset of the query's record.
    BadKey(u16),
}

impl Query {
    /// Stands for a packet that is dropped.
    pub(crate) const NONE: Self =
        Self { hash: 0, name_end: 0, labels: 0, rtype: Rtype(0), class: 0, edns: None, refusal: Some(Refusal::Drop) };

    /// Returns the end of the question, where answers begin.
    #[inline]
    pub(crate) fn question_end(&self) -> usize {
        usize::from(self.name_end) + 4
    }

    /// Returns the name in its packet.
    #[inline]
    pub(crate) fn name<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        &packet[HEADER..usize::from(self.name_end)]
    }

    /// Parses a packet in place of the previous one. `key` is that of the snapshot in which the name will be looked up.
    #[inline]
    pub(crate) fn read(&mut self, key: &NameKey, packet: &[u8]) {
        // Fields that a refused packet leaves unparsed must not be those of the previous one.
        (self.edns, self.name_end) = (None, 0);
        self.refusal = self.read_question(key, packet).err();
    }

    fn read_question(&mut self, key: &NameKey, packet: &[u8]) -> Result<(), Refusal> {
        const FORMERR: Refusal = Refusal::Bare(Rcode::FORMERR);
        let (header, _) = packet.split_first_chunk::<HEADER>().ok_or(Refusal::Drop)?;
        // Four bits of opcode with the QR bit above them.
        let opcode = header[2] >> 3;
        if opcode != QUERY {
            match opcode {
                RESPONSE.. => return Err(Refusal::Drop), // Answering it would make a loop.
                NOTIFY | UPDATE => {}
                _ => return Err(self.bare(packet, Rcode::NOTIMP)),
            }
        }
        // Counts of the question and the three sections, 16 bits each.
        let [_, _, _, _, counts @ ..] = *header;
        let counts = u64::from_be_bytes(counts);
        if counts >> 48 != 1 {
            // RFC 9619.
            let refusal = self.read_without_question(packet, counts, opcode);
            return Err(refusal.unwrap_or_else(|| self.bare(packet, Rcode::FORMERR)));
        }
        let (end, labels) = name_end(packet, HEADER).ok_or(FORMERR)?;
        self.labels = labels;
        self.hash = key.hash(&packet[HEADER..end]);
        self.name_end = end as u16; // at most 12 + 255
        let (&[t0, t1, c0, c1], rest) = packet[end..].split_first_chunk::<4>().ok_or(FORMERR)?;
        (self.rtype, self.class) = (Rtype(u16::from_be_bytes([t0, t1])), u16::from_be_bytes([c0, c1]));
        match counts & (u64::MAX >> 16) {
            0 if rest.is_empty() => {}
            1 if let Some(read) = Edns::alone(rest, end + 4, &mut self.edns) => {
                if read.is_err() {
                    self.edns = None;
                    return Err(Refusal::Question(Rcode::FORMERR));
                }
            }
            _ => read_records(packet, end + 4, counts, &mut self.edns)?,
        }
        // NOTIFY and UPDATE have the same form, so OPT and unknown keys are handled alike.
        match &self.edns {
            Some(edns) if edns.version != 0 => Err(Refusal::Question(Rcode::BADVERS)),
            Some(edns) if edns.has_malformed_subnet() => Err(Refusal::Question(Rcode::FORMERR)),
            _ if opcode != QUERY => Err(Refusal::Question(Rcode::REFUSED)),
            Some(edns) if edns.has_malformed_cookie() => Err(Refusal::BadCookie),
            _ => Ok(()),
        }
    }

    /// Parses a query that has an OPT record with a cookie and nothing else. `None` if it is another one.
    #[cold]
    fn read_without_question(&mut self, packet: &[u8], counts: u64, opcode: u8) -> Option<Refusal> {
        let mut edns = None;
        if counts != 1 || opcode != QUERY {
            return None;
        }
        Edns::alone(&packet[HEADER..], HEADER, &mut edns)?.ok()?;
        self.edns = edns.filter(|edns| edns.cookie.is_some() && edns.malformed.is_none());
        self.edns.map(|_| Refusal::Cookie)
    }

    /// Returns the refusal of a message that is not one question, and notes its OPT if all of it is sound.
    #[cold]
    fn bare(&mut self, packet: &[u8], rcode: Rcode) -> Refusal {
        self.edns = questions_end(packet).and_then(|(end, counts)| {
            let mut edns = None;
            match read_records(packet, end, counts, &mut edns) {
                Ok(()) | Err(Refusal::BadKey(_)) => edns.map(|edns| Edns { cookie: None, ..edns }),
                Err(_) => None,
            }
        });
        Refusal::Bare(rcode)
    }
}

/// Returns the end of all questions and the counts of the header. Bounded by the length: each has at least 5 octets.
fn questions_end(packet: &[u8]) -> Option<(usize, u64)> {
    let (_, counts) = packet.first_chunk::<HEADER>()?.split_last_chunk::<8>()?;
    let counts = u64::from_be_bytes(*counts);
    let mut at = HEADER;
    for _ in 0..counts >> 48 {
        at = skip_name(packet, at)? + 4;
        if at > packet.len() {
            return None;
        }
    }
    Some((at, counts))
}

/// Parses one packet.
#[cfg(test)]
fn parse(packet: &[u8]) -> Query {
    let mut query = Query::NONE;
    query.read(&NameKey::random(), packet);
    query
}

/// Parses the records after the questions: skips those before the additional section, and reads OPT and TSIG there.
///
/// `counts` are those of the header.
#[inline(never)]
fn read_records(packet: &[u8], start: usize, counts: u64, edns: &mut Option<Edns>) -> Result<(), Refusal> {
    const FORMERR: Refusal = Refusal::Question(Rcode::FORMERR);
    let count = |section: Section| usize::from((counts >> section as u32) as u16);
    let before = count(Section::Answer) + count(Section::Authority);
    let additional = count(Section::Additional);
    let mut at = start;
    let mut signed = None;
    for index in 0..before + additional {
        let record = Record::read(packet, at).ok_or(FORMERR)?;
        if signed.is_some() {
            return Err(FORMERR); // TSIG is not the last record (RFC 8945 section 5.1).
        }
        match record.rtype {
            Rtype::OPT if index < before || edns.is_some() || !record.root => return Err(FORMERR),
            Rtype::OPT => {
                let [_, version, flags, _] = record.ttl.to_be_bytes();
                let start = record.end - record.rdata.len();
                let read = Edns::read(record.class, version, flags, record.rdata, start).ok_or(FORMERR)?;
                if edns.insert(read).has_malformed_subnet() {
                    return Err(FORMERR);
                }
            }
            Rtype::TSIG if index < before => return Err(FORMERR),
            Rtype::TSIG => signed = Some(at as u16),
            _ => {}
        }
        at = record.end;
    }
    if at != packet.len() {
        return Err(FORMERR);
    }
    signed.map_or(Ok(()), |at| Err(Refusal::BadKey(at)))
}

/// The fields of a query's record that matter here.
pub(crate) struct Record<'a> {
    /// True if the owner is written as the root.
    pub(crate) root: bool,
    pub(crate) rtype: Rtype,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) rdata: &'a [u8],
    /// End of the owner.
    pub(crate) owner_end: usize,
    /// End of the record.
    pub(crate) end: usize,
}

impl<'a> Record<'a> {
    /// Parses the record at `at`. Its owner is skipped, and pointers are not followed.
    pub(crate) fn read(packet: &'a [u8], at: usize) -> Option<Self> {
        let owner_end = skip_name(packet, at)?;
        let fixed = packet.get(owner_end..owner_end + 10)?;
        let rdata_start = owner_end + 10;
        let end = rdata_start + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        Some(Self {
            root: owner_end == at + 1,
            rtype: Rtype(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: u16::from_be_bytes([fixed[2], fixed[3]]),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata: packet.get(rdata_start..end)?,
            owner_end,
            end,
        })
    }
}

/// Returns the end of the name at `at`. A pointer ends it and must lead back, before the name itself.
fn skip_name(packet: &[u8], at: usize) -> Option<usize> {
    let mut here = at;
    loop {
        let length = *packet.get(here)?;
        match length {
            0 => return Some(here + 1),
            1..=63 => here += 1 + usize::from(length),
            0xc0.. => {
                let low = *packet.get(here + 1)?;
                let to = usize::from(length & 0x3f) << 8 | usize::from(low);
                return (HEADER..at).contains(&to).then_some(here + 2);
            }
            _ => return None,
        }
        if here - at >= 255 {
            return None;
        }
    }
}

/// Opcodes (IANA "DNS OpCodes").
const QUERY: u8 = 0;
const NOTIFY: u8 = 4;
const UPDATE: u8 = 5;
/// First number with the QR bit above four bits of opcode.
const RESPONSE: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 0x01, 0x00];
        packet.extend(counts.iter().flat_map(|c| c.to_be_bytes()));
        packet.extend(rest);
        packet
    }

    const QUESTION: &[u8] = b"\x01A\x00\x00\x01\x00\x01";
    const OPT: &[u8] = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";

    fn refusal(counts: [u16; 4], rest: &[u8]) -> Option<Refusal> {
        parse(&packet(counts, rest)).refusal
    }

    #[test]
    fn plain_question_is_parsed() {
        let packet = packet([1, 0, 0, 0], QUESTION);
        let query = parse(&packet);
        assert_eq!((query.refusal, query.rtype, query.class), (None, Rtype::A, 1));
        assert_eq!(query.name(&packet), b"\x01A\x00");
        assert_eq!(query.question_end(), 12 + 7);
    }

    #[test]
    fn responses_and_short_packets_are_dropped() {
        let mut response = packet([1, 0, 0, 0], QUESTION);
        response[2] |= 0x80;
        assert_eq!(parse(&response).refusal, Some(Refusal::Drop));
        assert_eq!(parse(&response[..11]).refusal, Some(Refusal::Drop));
    }

    #[test]
    fn opt_is_accepted_once_and_only_at_root() {
        assert_eq!(parse(&packet([1, 0, 0, 1], &[QUESTION, OPT].concat())).edns.unwrap().payload, 1232);
        let twice = refusal([1, 0, 0, 2], &[QUESTION, OPT, OPT].concat());
        assert_eq!(twice, Some(Refusal::Question(Rcode::FORMERR)));
        let owned = refusal([1, 0, 0, 1], &[QUESTION, b"\x01x", OPT].concat());
        assert_eq!(owned, Some(Refusal::Question(Rcode::FORMERR)));
    }

    #[test]
    fn wrong_counts_and_trailing_octets_are_format_errors() {
        assert_eq!(refusal([1, 0, 0, 1], QUESTION), Some(Refusal::Question(Rcode::FORMERR)));
        assert_eq!(refusal([1, 0, 0, 0], &[QUESTION, b"x"].concat()), Some(Refusal::Question(Rcode::FORMERR)));
        assert_eq!(refusal([2, 0, 0, 0], QUESTION), Some(Refusal::Bare(Rcode::FORMERR)));
        assert_eq!(refusal([0, 0, 0, 0], b""), Some(Refusal::Bare(Rcode::FORMERR)));
        assert_eq!(refusal([1, 0, 0, 0], b"\xc0\x0c\x00\x01\x00\x01"), Some(Refusal::Bare(Rcode::FORMERR)));
    }

    #[test]
    fn pointer_must_lead_back() {
        let record = b"\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00";
        let with = |pointer: [u8; 2]| refusal([1, 1, 0, 0], &[QUESTION, &pointer, record].concat());
        assert_eq!(with([0xc0, 12]), None);
        assert_eq!(with([0xc0, 19]), Some(Refusal::Question(Rcode::FORMERR))); // itself
        assert_eq!(with([0xc0, 40]), Some(Refusal::Question(Rcode::FORMERR))); // forward
    }

    #[test]
    fn tsig_that_is_not_last_is_a_format_error() {
        let tsig = b"\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x00";
        assert_eq!(refusal([1, 0, 0, 1], &[QUESTION, tsig].concat()), Some(Refusal::BadKey(19)));
        let early = refusal([1, 0, 0, 2], &[QUESTION, tsig, OPT].concat());
        assert_eq!(early, Some(Refusal::Question(Rcode::FORMERR)));
    }
}
