//! Queries signed with TSIG. No key is configured, so every key is unknown (RFC 8945 section 5.2.1).

use super::Response;
use crate::wire::{Record, name_end, u16_at};

impl<'a> Response<'a> {
    /// Returns the key of the TSIG record at an offset, or `None` if the record is malformed.
    pub(super) fn unknown_key(&self, at: u16) -> Option<UnknownKey<'a>> {
        UnknownKey::read(self.packet, at.into(), self.query.question_end())
    }
}

/// Parts of the query's TSIG record that the response repeats.
pub(super) struct UnknownKey<'a> {
    owner: &'a [u8],
    algorithm: &'a [u8],
    /// Time signed (6 octets) and fudge (2).
    time: &'a [u8],
    original_id: &'a [u8],
}

impl<'a> UnknownKey<'a> {
    fn read(packet: &'a [u8], at: usize, question_end: usize) -> Option<Self> {
        let record = Record::read(packet, at)?;
        if (record.class, record.ttl) != (CLASS_ANY, 0) {
            return None; // RFC 8945 section 4.2.
        }
        let owner = packet.get(at..record.owner_end)?;
        // The owner is copied, so a pointer in it must lead into the question, which is copied too.
        if pointer_of(owner).is_some_and(|to| to >= question_end) {
            return None;
        }
        // The algorithm's name is not compressed (RFC 8945 section 4.2).
        let (end, _) = name_end(record.rdata, 0)?;
        let (algorithm, rest) = record.rdata.split_at(end);
        let mac = usize::from(u16_at(rest, 8)?);
        let original_id = rest.get(10 + mac..12 + mac)?;
        let other = usize::from(u16_at(rest, 14 + mac)?);
        (rest.len() == 16 + mac + other).then_some(Self { owner, algorithm, time: &rest[..8], original_id })
    }

    /// Appends the unsigned TSIG record with the error BADKEY, and returns the new length.
    ///
    /// TSIG comes last, after OPT. It is no longer than that of the query, so that apart from our OPT the response is
    /// no longer than the query.
    pub(super) fn append(&self, out: &mut [u8], length: usize) -> usize {
        let Some(end) = self.write(&mut out[length..]) else { return length };
        let count = u16_at(out, 10).unwrap_or(0) + 1;
        out[10..12].copy_from_slice(&count.to_be_bytes());
        length + end
    }

    /// Writes the record and returns its length, or `None` if it does not fit.
    fn write(&self, out: &mut [u8]) -> Option<usize> {
        let rdata = (self.algorithm.len() + 16) as u16;
        let head = [0, 250, 0, 255, 0, 0, 0, 0, (rdata >> 8) as u8, rdata as u8];
        // MAC size 0, the original ID, error 17 (BADKEY), other length 0.
        let tail: [&[u8]; 3] = [&[0, 0], self.original_id, &[0, 17, 0, 0]];
        let mut at = 0;
        for part in [self.owner, &head, self.algorithm, self.time].into_iter().chain(tail) {
            out.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some(at)
    }
}

/// Returns the target of a name's compression pointer, or `None` for a name without one.
fn pointer_of(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match usize::from(*name.get(at)?) {
            0 => return None,
            length @ 1..=63 => at += 1 + length,
            _ => return u16_at(name, at).map(|pointer| usize::from(pointer & 0x3fff)),
        }
    }
}

/// Class of TSIG records.
const CLASS_ANY: u16 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_is_distinguished_from_labels() {
        assert_eq!(pointer_of(b"\x03key\0"), None);
        assert_eq!(pointer_of(b"\xc0\x0c"), Some(12));
        assert_eq!(pointer_of(b"\x03key\xc1\x00"), Some(256));
        assert_eq!(pointer_of(b"\x02\xc0\xc0\0"), None);
    }
}
