//! The answers most queries get: one set of records, copied as it lies, at a name that exists or in proof that one does not, and
//! at most an OPT behind it.
//!
//! It says nothing that [`super::answer`] would not say, and leaves to it whatever needs more than that: `explain` never
//! comes here, and a test holds the two against each other.

use fairway_model::Rtype;

use super::{CLASS_IN, Ending, Response, is_for_zones};
use crate::{
    lookup::Found,
    snapshot::{RrSet, Steered},
    steer::Family,
    tally::AnswerKind,
    wire::{Full, Rcode, Section, Writer},
};

/// What one set is enough for.
#[derive(Clone, Copy)]
enum Plain<'a> {
    /// The records asked for.
    Set(&'a RrSet),
    /// What a pool chose: its set, the counter of its member, and how much of the client's subnet that depends on.
    Chosen(&'a RrSet, u16, u8),
    /// The zone of this number has no such name, or no such records there.
    Denied(u16, Rcode),
}

impl<'a> Response<'a> {
    /// Writes the answer, if it is a plain one; gives its length and code.
    #[inline(always)]
    pub(super) fn plain(&self, out: &mut [u8]) -> Option<(usize, Rcode)> {
        let query = self.query;
        if query.class != CLASS_IN || query.refusal.is_some() {
            return None;
        }
        let plain = self.one_set()?;
        let (edns, limit) = (query.edns.as_ref(), self.limit());
        let mut writer = Writer::new(self.packet, query.question_end(), out, limit - self.opt_room(limit));
        let mut ending = Ending::of(Rcode::NOERROR);
        match plain {
            Plain::Set(set) => self.copy_plain(&mut writer, set),
            Plain::Chosen(set, slot, scope) => {
                self.copy_plain(&mut writer, set).ok()?;
                ending.scope = scope;
                self.tally.answer(slot);
                Ok(())
            }
            Plain::Denied(zone, rcode) => {
                ending.rcode = rcode;
                // The question's name ends where type and class begin, four octets before its end.
                self.deny(&mut writer, zone, query.question_end() - 4)
            }
        }
        .ok()?;
        writer.set_authoritative();
        if let Some(edns) = edns {
            self.write_opt(&mut writer, edns, &ending, limit);
        }
        let ecs = edns.is_some_and(|edns| edns.ecs.is_some());
        self.tally.response(ending.rcode, AnswerKind { truncated: false, edns: edns.is_some(), ecs, down: false });
        Some((writer.finish(ending.rcode), ending.rcode))
    }

    /// The one set that answers.
    #[inline(always)]
    fn one_set(&self) -> Option<Plain<'a>> {
        let (snapshot, rtype) = (&*self.view.snapshot, self.query.rtype);
        let node = match self.found {
            Found::Exact(number) | Found::Wildcard(number) => snapshot.node(number),
            Found::Nothing(zone) => return is_for_zones(rtype).then_some(Plain::Denied(zone, Rcode::NXDOMAIN)),
            _ => return None,
        };
        if let Some(number) = node.steered.checked_sub(1) {
            return self.plain_choice(&snapshot.steered[number as usize]);
        }
        if let Some(set) = snapshot.set(node, rtype) {
            return set.is_plain().then_some(Plain::Set(set));
        }
        let denied = is_for_zones(rtype) && rtype != Rtype::ANY && snapshot.set(node, Rtype::CNAME).is_none();
        denied.then(|| Plain::Denied(self.denying_zone(node), Rcode::NOERROR))
    }

    /// Copies a set behind the question, whose name is the owner.
    #[inline(always)]
    fn copy_plain(&self, writer: &mut Writer<'_>, set: &RrSet) -> Result<(), Full> {
        writer.copy(self.view.snapshot.blob(set))?;
        writer.count(Section::Answer, set.count);
        Ok(())
    }

    /// The set of a pool's choice, with its counter and how much of the client's subnet it depends on.
    #[inline(always)]
    fn plain_choice(&self, steered: &Steered) -> Option<Plain<'a>> {
        let snapshot = &*self.view.snapshot;
        let (family, first) = match self.query.rtype {
            _ if steered.cname => return None,
            Rtype::A => (Family::V4, steered.v4),
            Rtype::AAAA => (Family::V6, steered.v6),
            _ => return None,
        };
        let pool = &snapshot.pools[steered.pool as usize];
        let (client, scope) = self.client_of(pool);
        let (answer, member) = pool.choose_quickly(family, &self.view.conditions, client, self.draw)?;
        let slot = snapshot.pool_slots[steered.pool as usize][usize::from(member)];
        Some(Plain::Chosen(&snapshot.sets[(first + u32::from(answer)) as usize], slot, scope))
    }
}

impl RrSet {
    /// Whether copying is all it needs.
    #[inline]
    fn is_plain(&self) -> bool {
        self.patch_count == 0 && self.extra_count == 0
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
