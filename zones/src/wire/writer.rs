//! Stage three's pen: sections of a response, written behind the question and never past the limit.

use super::{
    Edns, HEADER, Rcode,
    edns::{ECS, EXTENDED_ERROR, KEEPALIVE, NSID},
};

/// A record set does not fit into what is left of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The three sections behind the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

/// A response under construction.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    /// First octet that may not be written; room for OPT is already taken off.
    limit: usize,
    counts: [u16; 3],
}

impl<'a> Writer<'a> {
    /// Copies header and question, and sets what every response has: QR; ID, opcode and RD as they came; all else clear.
    /// `end` is where the question ends in `packet`; with [`HEADER`], no question is given back.
    pub(crate) fn new(packet: &[u8], end: usize, out: &'a mut [u8], limit: usize) -> Self {
        let limit = limit.min(out.len());
        out[..end].copy_from_slice(&packet[..end]);
        out[2] = 0x80 | packet[2] & 0x79;
        out[3] = 0;
        out[4..HEADER].fill(0);
        out[5] = u8::from(end > HEADER);
        Writer { out, at: end, limit, counts: [0; 3] }
    }

    /// Keeps room at the end for OPT and its options.
    pub(crate) fn reserve(&mut self, octets: usize) {
        self.limit = self.limit.saturating_sub(octets);
    }

    /// How many octets are written.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What is written so far.
    pub(crate) fn written(&self) -> &[u8] {
        &self.out[..self.at]
    }

    /// Sets the authoritative answer flag.
    pub(crate) fn set_authoritative(&mut self) {
        self.out[2] |= 0x04;
    }

    /// Takes back everything behind `end` and says so (TC, RFC 2181 section 9).
    pub(crate) fn truncate(&mut self, end: usize) {
        self.at = end;
        self.counts = [0; 3];
        self.out[2] |= 0x02;
    }

    /// Takes back everything behind `end`, and the authority with it.
    pub(crate) fn clear(&mut self, end: usize) {
        self.at = end;
        self.counts = [0; 3];
        self.out[2] &= !0x04;
    }

    /// Copies octets as they are.
    #[inline]
    pub(crate) fn copy(&mut self, octets: &[u8]) -> Result<usize, Full> {
        let start = self.at;
        let end = start + octets.len();
        if end > self.limit {
            return Err(Full);
        }
        self.out[start..end].copy_from_slice(octets);
        self.at = end;
        Ok(start)
    }

    /// Overwrites two octets that were written before.
    #[inline]
    pub(crate) fn patch(&mut self, at: usize, value: u16) {
        self.out[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Counts records of a section.
    #[inline]
    pub(crate) fn count(&mut self, section: Section, records: u16) {
        self.counts[section as usize] += records;
    }

    /// Writes code, OPT and counts; gives the length of the message.
    pub(crate) fn finish(mut self, rcode: Rcode, opt: Option<Opt<'_>>) -> usize {
        self.out[3] = rcode.0 as u8 & 15;
        if let Some(opt) = opt {
            self.limit = self.out.len();
            opt.write(&mut self, rcode);
        }
        for (place, count) in [6, 8, 10].into_iter().zip(self.counts) {
            self.patch(place, count);
        }
        self.at
    }
}

/// The OPT record of a response.
pub(crate) struct Opt<'a> {
    /// What the query had.
    pub(crate) query: &'a Edns,
    /// Our own payload size.
    pub(crate) payload: u16,
    /// The server's identifier, if it was asked for and is configured.
    pub(crate) nsid: Option<&'a [u8]>,
    /// Idle time limit in units of 100 ms, on TCP only.
    pub(crate) keepalive: Option<u16>,
    /// Scope of the answer, where a client subnet is echoed.
    pub(crate) scope: u8,
    /// Extended error (RFC 8914).
    pub(crate) error: Option<u16>,
}

impl Opt<'_> {
    /// Octets it takes: 11 for the record itself, and its options.
    pub(crate) fn len(&self) -> usize {
        let ecs = self.query.ecs.map_or(0, |ecs| 8 + ecs.octets().1);
        let nsid = self.nsid.map_or(0, |id| 4 + id.len());
        11 + ecs + nsid + self.keepalive.map_or(0, |_| 6) + self.error.map_or(0, |_| 6)
    }

    fn write(&self, writer: &mut Writer<'_>, rcode: Rcode) {
        let flags = if self.query.dnssec_ok { 0x80 } else { 0 };
        let [high, low] = self.payload.to_be_bytes();
        let data = (self.len() - 11) as u16;
        let fixed = [0, 0, 41, high, low, (rcode.0 >> 4) as u8, 0, flags, 0, (data >> 8) as u8, data as u8];
        // `reserve` kept the room, so nothing below can be refused.
        let _ = writer.copy(&fixed);
        if data > 0 {
            self.write_options(writer);
        }
        writer.count(Section::Additional, 1);
    }

    fn write_options(&self, writer: &mut Writer<'_>) {
        let mut option = |code: u16, parts: [&[u8]; 2]| {
            let length = (parts[0].len() + parts[1].len()) as u16;
            let head = [(code >> 8) as u8, code as u8, (length >> 8) as u8, length as u8];
            for part in [&head[..], parts[0], parts[1]] {
                let _ = writer.copy(part);
            }
        };
        if let Some(id) = self.nsid {
            option(NSID, [id, &[]]);
        }
        if let Some(ecs) = self.query.ecs {
            let (octets, used) = ecs.octets();
            let scope = if ecs.source == 0 { 0 } else { self.scope };
            let [f0, f1] = ecs.family.to_be_bytes();
            option(ECS, [&[f0, f1, ecs.source, scope], &octets[..used]]);
        }
        if let Some(units) = self.keepalive {
            option(KEEPALIVE, [&units.to_be_bytes(), &[]]);
        }
        if let Some(code) = self.error {
            option(EXTENDED_ERROR, [&code.to_be_bytes(), &[]]);
        }
    }
}
