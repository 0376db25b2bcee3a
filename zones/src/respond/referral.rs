//! Delegations, and the addresses that go with them and with SRV and SVCB.

use fairway_model::Rtype;

use super::answer::{Answering, Step};
use crate::{
    entries::{Extra, Node, RrSet},
    explain::Trace,
    wire::{Full, Section},
};

impl<T: Trace> Answering<'_, '_, '_, T> {
    /// Refers to the servers of a delegated zone: NS in the authority section, glue behind it (RFC 1034 section 4.3.2).
    pub(super) fn refer(&mut self, step: &Step<'_>, cut: Node<'_>) -> Result<(), Full> {
        let snapshot = self.snapshot();
        let Some(set) = cut.set(Rtype::NS) else { return Ok(()) };
        let owner = step.at + step.name.len() - cut.name_len();
        let origin = usize::from(snapshot.zones[usize::from(cut.zone())].origin_len);
        let apex = step.at + step.name.len() - origin;
        let start = self.copy(set, owner, Section::Authority)?;
        self.from.point_to_apex(self.writer, set, start, apex);
        self.extras(step, set, start)
    }

    /// Adds what belongs with a set that was written at `start`. Required glue must fit; the rest comes if it does.
    pub(super) fn extras(&mut self, step: &Step<'_>, set: RrSet<'_>, start: usize) -> Result<(), Full> {
        let snapshot = self.snapshot();
        let Some(rest) = set.rest() else { return Ok(()) };
        for extra in &snapshot.extras[rest.extras()] {
            let owner = if extra.at == Extra::OWNER { step.at } else { start + extra.at as usize };
            if owner >= POINTER_END {
                continue; // Too far back to point to: only in giant sets over TCP.
            }
            let addresses = snapshot.entries.set(extra.set);
            if self.copy(addresses, owner, Section::Additional).is_err() && extra.required {
                return Err(Full);
            }
        }
        Ok(())
    }
}

/// First place a compression pointer cannot reach (14 bits, RFC 1035 section 4.1.4).
const POINTER_END: usize = 0x4000;
