//! Delegations, and additional addresses for delegations, SRV and SVCB.

use fairway_model::Rtype;

use super::Response;
use crate::{
    entries::{Extra, Node, RrSet},
    wire::{Full, Section, Writer},
};

impl Response<'_> {
    /// Writes a referral: NS in the authority section and glue (RFC 1034 section 4.3.2).
    ///
    /// The name at or below the delegation begins at `at` in the message and has this many octets.
    #[inline]
    pub(super) fn refer(&self, writer: &mut Writer<'_>, at: usize, octets: usize, cut: Node<'_>) -> Result<(), Full> {
        let Some(set) = cut.set(Rtype::NS) else { return Ok(()) };
        let origin = usize::from(self.serving.snapshot.zone(cut.zone()).origin_len);
        let end = at + octets;
        let start = writer.records(set.records(), set.count(), end - cut.name_len(), Section::Authority)?;
        self.point_to_apex(writer, set, start, end - origin);
        self.extras(writer, at, set, start)
    }

    /// Adds the extras of a set that was written at `start`. Its owner is at `at`. Required glue must fit; the rest is
    /// optional.
    #[inline]
    pub(super) fn extras(&self, writer: &mut Writer<'_>, at: usize, set: RrSet<'_>, start: usize) -> Result<(), Full> {
        let Some(rest) = set.details() else { return Ok(()) };
        let snapshot = &*self.serving.snapshot;
        for extra in &snapshot.text.extras[rest.extras()] {
            let owner = if extra.at == Extra::OWNER { at } else { start + extra.at as usize };
            if owner >= POINTER_END {
                continue; // Too far back to point to: only in giant sets over TCP.
            }
            let addresses = snapshot.text.layer.entries.set(extra.set);
            let written = writer.records(addresses.records(), addresses.count(), owner, Section::Additional);
            if written.is_err() && extra.required {
                return Err(Full);
            }
        }
        Ok(())
    }
}

/// First offset that a compression pointer cannot reach (14 bits, RFC 1035 section 4.1.4).
const POINTER_END: usize = 0x4000;
