//! Writes the sections of a response after the question, never past the limit.

use super::{
    Ecs, Edns, HEADER, Rcode,
    edns::{COOKIE, ECS, EXTENDED_ERROR, KEEPALIVE, NSID},
};
use crate::cookie::Cookie;

/// A record set does not fit into what is left of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The three sections, by the position of their count in the header's last eight octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer = 32,
    Authority = 16,
    Additional = 0,
}

/// A response under construction. Its header is written last.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    /// First octet that must not be written. Space for OPT is reserved after it.
    limit: usize,
    /// Third octet of the header: QR, opcode, AA, TC, RD.
    flags: u8,
    /// Records of each section, as in the header.
    counts: u64,
}

impl<'a> Writer<'a> {
    /// Returns a writer after the copied ID and question, with QR set and opcode and RD copied.
    ///
    /// `end` is the end of the question in `packet`, or [`HEADER`] to omit the question. Only OPT is written after `limit`.
    #[inline(always)]
    pub(crate) fn new(packet: &[u8], end: usize, out: &'a mut [u8], limit: usize) -> Self {
        let limit = limit.min(out.len());
        out[..end].copy_from_slice(&packet[..end]);
        let questions = u64::from(end > HEADER);
        Writer { out, at: end, limit, flags: 0x80 | packet[2] & 0x79, counts: questions << 48 }
    }

    /// Returns the writer at another location in memory, so that the original can stay in registers.
    #[inline(always)]
    pub(crate) fn moved(self) -> Self {
        let Self { out, at, limit, flags, counts } = self;
        Self { out, at, limit, flags, counts }
    }

    /// Returns the number of octets written.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the octets written.
    pub(crate) fn written(&self) -> &[u8] {
        &self.out[..self.at]
    }

    /// Sets the authoritative answer flag.
    #[inline]
    pub(crate) fn set_authoritative(&mut self) {
        self.flags |= AA;
    }

    /// True if records were removed because they did not fit.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        self.flags & TC != 0
    }

    /// Removes everything after `end` and sets TC (RFC 2181 section 9).
    pub(crate) fn truncate(&mut self, end: usize) {
        self.take_back(end);
        self.flags |= TC;
    }

    /// Removes everything after `end` and clears AA.
    pub(crate) fn clear(&mut self, end: usize) {
        self.take_back(end);
        self.flags &= !AA;
    }

    fn take_back(&mut self, end: usize) {
        self.at = end;
        self.counts &= 0xffff << 48;
    }

    /// Copies octets and returns their offset.
    #[inline(always)]
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

    /// Copies records, counts them, and points their owners to `owner`. Returns the offset of the first one.
    #[inline]
    pub(crate) fn records(
        &mut self,
        records: &[u8],
        count: u16,
        owner: usize,
        section: Section,
    ) -> Result<usize, Full> {
        let start = self.copy(records)?;
        self.count(section, count);
        if owner != HEADER {
            self.own(start, count, owner);
        }
        Ok(start)
    }

    /// Copies the sections of a whole answer. `pointers` are offsets of little-endian pointers that lack the offset of
    /// the sections.
    #[inline(always)]
    pub(crate) fn sections(
        &mut self,
        sections: &[u8],
        counts: u64,
        pointers: impl Iterator<Item = usize>,
    ) -> Result<(), Full> {
        let start = self.copy(sections)?;
        self.counts += counts;
        let written = &mut self.out[start..self.at];
        for at in pointers {
            if let Some(pointer) = written.get_mut(at..at + 2) {
                let value = u16::from_le_bytes([pointer[0], pointer[1]]).wrapping_add(start as u16);
                pointer.copy_from_slice(&value.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Points the owners of records that begin at `start` to another name.
    #[inline(never)]
    fn own(&mut self, start: usize, count: u16, owner: usize) {
        let mut at = start;
        for _ in 0..count {
            self.patch(at, 0xc000 | owner as u16);
            at += 12 + usize::from(u16::from_be_bytes([self.out[at + 10], self.out[at + 11]]));
        }
    }

    /// Overwrites two octets.
    #[inline]
    pub(crate) fn patch(&mut self, at: usize, value: u16) {
        self.out[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Lowers the TTL of the record at this offset, whose owner is a pointer, to at most `ttl` seconds.
    pub(crate) fn limit_ttl(&mut self, at: usize, ttl: u32) {
        if let Some(octets) = self.out.get_mut(at + 6..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *octets = u32::from_be_bytes(*octets).min(ttl).to_be_bytes();
        }
    }

    /// Counts records of a section.
    #[inline]
    pub(crate) fn count(&mut self, section: Section, records: u16) {
        self.counts += u64::from(records) << section as u64;
    }

    /// Writes an OPT record with at most a client subnet into the reserved space.
    #[inline(always)]
    pub(crate) fn usual_opt(&mut self, payload: u16, query: &Edns, rcode: Rcode, scope: u8) {
        match &query.ecs {
            None => self.open_opt(payload, query, rcode, 0),
            Some(ecs) => {
                self.open_opt(payload, query, rcode, query.usual_length() - Opt::BARE);
                self.client_subnet(ecs, scope);
            }
        }
    }

    /// Writes an OPT record up to its options, which take `data` octets.
    #[inline(always)]
    fn open_opt(&mut self, payload: u16, query: &Edns, rcode: Rcode, data: usize) {
        let flags = if query.dnssec_ok { 0x80 } else { 0 };
        let ([p0, p1], [d0, d1]) = (payload.to_be_bytes(), (data as u16).to_be_bytes());
        self.limit = self.out.len();
        // This cannot fail, and neither can the options, since space was reserved.
        let _ = self.copy(&[0, 0, 41, p0, p1, (rcode.0 >> 4) as u8, 0, flags, 0, d0, d1]);
        self.count(Section::Additional, 1);
    }

    /// Writes the client subnet option (RFC 7871 section 7.2.1).
    #[inline]
    fn client_subnet(&mut self, ecs: &Ecs, scope: u8) {
        let octets = ecs.octets();
        let scope = if ecs.source == 0 { 0 } else { scope };
        let head = [0, ECS as u8, 0, 4 + octets.len() as u8, 0, ecs.family, ecs.source, scope];
        let _ = self.copy(&head);
        match self.out.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            // A copy of fixed length takes a fraction of the time. What it writes after the option is overwritten or not sent.
            Some(rest) => {
                *rest = *ecs.address();
                self.at += octets.len();
            }
            None => {
                let _ = self.copy(octets);
            }
        }
    }

    /// Writes the header and returns the length of the message.
    #[inline]
    pub(crate) fn finish(self, rcode: Rcode) -> usize {
        if let Some(header) = self.out.first_chunk_mut::<HEADER>() {
            (header[2], header[3]) = (self.flags, rcode.0 as u8 & 15);
            header[4..].copy_from_slice(&self.counts.to_be_bytes());
        }
        self.at
    }
}

/// Flags in the third octet of a header (RFC 1035 section 4.1.1).
const AA: u8 = 0x04;
const TC: u8 = 0x02;

/// The OPT record of a response.
pub(crate) struct Opt<'a> {
    /// OPT record of the query.
    pub(crate) query: &'a Edns,
    /// UDP payload size of this server.
    pub(crate) payload: u16,
    /// Identifier of the server, if it is configured and was asked for.
    pub(crate) nsid: Option<&'a [u8]>,
    /// Idle timeout in units of 100 ms, over TCP only.
    pub(crate) keepalive: Option<u16>,
    /// Cookie, if the query has one and cookies are on.
    pub(crate) cookie: Option<&'a [u8; Cookie::OCTETS]>,
    /// Scope of the answer, for a client subnet.
    pub(crate) scope: u8,
    /// Extended error (RFC 8914).
    pub(crate) error: Option<u16>,
    /// Text of the extended error, in UTF-8.
    pub(crate) note: &'a [u8],
}

impl Opt<'_> {
    /// Octets of an OPT record without options.
    pub(super) const BARE: usize = 11;

    /// Returns its octets with options.
    pub(crate) fn len(&self) -> usize {
        let nsid = self.nsid.map_or(0, |id| 4 + id.len());
        self.query.usual_length()
            + nsid
            + self.cookie.map_or(0, |_| 4 + Cookie::OCTETS)
            + self.keepalive.map_or(0, |_| 6)
            + self.error.map_or(0, |_| 6 + self.note.len())
    }

    /// Writes it into the reserved space.
    pub(crate) fn write(&self, writer: &mut Writer<'_>, rcode: Rcode) {
        writer.open_opt(self.payload, self.query, rcode, self.len() - Self::BARE);
        self.write_options(writer);
    }

    fn write_options(&self, writer: &mut Writer<'_>) {
        let option = |writer: &mut Writer<'_>, code: u16, data: &[u8]| {
            let ([c0, c1], [l0, l1]) = (code.to_be_bytes(), (data.len() as u16).to_be_bytes());
            let _ = writer.copy(&[c0, c1, l0, l1]);
            let _ = writer.copy(data);
        };
        if let Some(id) = self.nsid {
            option(writer, NSID, id);
        }
        if let Some(ecs) = &self.query.ecs {
            writer.client_subnet(ecs, self.scope);
        }
        if let Some(cookie) = self.cookie {
            option(writer, COOKIE, cookie);
        }
        if let Some(units) = self.keepalive {
            option(writer, KEEPALIVE, &units.to_be_bytes());
        }
        if let Some(code) = self.error {
            let ([c0, c1], [l0, l1]) = (EXTENDED_ERROR.to_be_bytes(), (self.note.len() as u16 + 2).to_be_bytes());
            let _ = writer.copy(&[c0, c1, l0, l1]);
            let _ = writer.copy(&code.to_be_bytes());
            let _ = writer.copy(self.note);
        }
    }
}
