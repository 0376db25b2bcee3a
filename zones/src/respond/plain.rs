//! The answers most queries get: a set of records, copied as it lies, at a name that exists or in proof that one does not; one
//! CNAME and where it leads; a referral; and at most an OPT behind it.
//!
//! It says nothing that [`super::answer`] would not say, and leaves to it whatever needs more than that: `explain` never
//! comes here, and a test holds the two against each other.

use fairway_model::Rtype;

use super::{CLASS_IN, Ending, Response, is_for_zones};
use crate::{
    entries::{Node, RrSet},
    lookup::Found,
    snapshot::Steered,
    steer::Family,
    tally::AnswerKind,
    wire::{HEADER, Rcode, Section, Writer},
};

impl<'a> Response<'a> {
    /// Writes the answer, if it is a plain one; gives its length and code.
    #[inline(always)]
    pub(super) fn plain(&self, out: &mut [u8]) -> Option<(usize, Rcode)> {
        let (snapshot, query) = (&*self.view.snapshot, self.query);
        if query.class != CLASS_IN || query.refusal.is_some() {
            return None;
        }
        let (zone, rcode) = match self.found {
            Found::Exact(number) | Found::Wildcard(number) => {
                let node = snapshot.node(number);
                if let Some(number) = node.steered().checked_sub(1) {
                    return self.plain_choice(out, &snapshot.steered[number as usize]);
                }
                if let Some(set) = node.set(query.rtype) {
                    return if set.is_plain() { self.plain_set(out, set, 0) } else { None };
                }
                if node.is(Node::ALIAS) {
                    return self.plain_alias(out, node);
                }
                (self.denying_zone(node), Rcode::NOERROR)
            }
            Found::Nothing(zone) => (zone as u16, Rcode::NXDOMAIN),
            Found::Cut(number) => return self.plain_referral(out, snapshot.node(number)),
            Found::Dname(_) | Found::Outside => return None,
        };
        self.plain_denial(out, zone, rcode)
    }

    /// Writes a set behind the question, whose name is the owner.
    #[inline(always)]
    fn plain_set(&self, out: &mut [u8], set: RrSet<'_>, scope: u8) -> Option<(usize, Rcode)> {
        let mut writer = self.begin(out);
        writer.copy(set.records()).ok()?;
        writer.count(Section::Answer, set.count());
        writer.set_authoritative();
        Some(self.end(writer, Rcode::NOERROR, scope))
    }

    /// Writes what a pool chooses, where that is a set of one live member.
    #[inline(always)]
    fn plain_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        match steered.special {
            false => self.usual_choice(out, steered),
            true if steered.cname => None,
            true => self.noted_choice(out, steered),
        }
    }

    /// The same where some are told why they get what they get: those take the long way.
    #[cold]
    #[inline(never)]
    fn noted_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        if self.is_noted() { None } else { self.usual_choice(out, steered) }
    }

    #[inline(always)]
    fn usual_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        let snapshot = &*self.view.snapshot;
        let (family, first) = match self.query.rtype {
            Rtype::A => (Family::V4, steered.v4),
            Rtype::AAAA => (Family::V6, steered.v6),
            _ => return None,
        };
        let pool = &snapshot.pools[steered.pool as usize];
        let (client, scope) = self.client_of(pool);
        let (answer, member) = pool.choose_quickly(family, &self.view.conditions, client, self.draw)?;
        let written = self.plain_set(out, snapshot.answer(first + u32::from(answer)), scope)?;
        self.tally.answer(snapshot.counters[steered.counters as usize + usize::from(member)]);
        if pool.is_balanced() {
            self.tally.asked(pool.key(), client, member);
        }
        Some(written)
    }

    /// Writes that a zone has no such name, or no such records there.
    #[inline(always)]
    fn plain_denial(&self, out: &mut [u8], zone: u16, rcode: Rcode) -> Option<(usize, Rcode)> {
        let rtype = self.query.rtype;
        let is_explained = || rtype == Rtype::TXT && self.explained().is_some();
        if !is_for_zones(rtype) || rtype == Rtype::ANY || is_explained() {
            return None;
        }
        let mut writer = self.begin(out);
        self.deny(&mut writer, zone, self.name_end()).ok()?;
        writer.set_authoritative();
        Some(self.end(writer, rcode, 0))
    }

    /// Writes a CNAME that leads to records of ours in one step, and these.
    #[inline(never)]
    fn plain_alias(&self, out: &mut [u8], node: Node<'a>) -> Option<(usize, Rcode)> {
        let snapshot = &*self.view.snapshot;
        let alias = node.set(Rtype::CNAME)?;
        let target = snapshot.node(snapshot.target(alias.rest()?)?);
        let set = target.set(self.query.rtype).filter(|set| set.is_plain() && target.steered() == 0)?;
        let mut writer = self.begin(out);
        let start = writer.records(alias.records(), alias.count(), HEADER, Section::Answer).ok()?;
        let origin = usize::from(snapshot.zone(node.zone()).origin_len);
        self.point_to_apex(&mut writer, alias, start, self.name_end() - origin);
        // The target's name begins behind the owner (2), type, class, TTL and length (10).
        writer.records(set.records(), set.count(), start + 12, Section::Answer).ok()?;
        writer.set_authoritative();
        Some(self.end(writer, Rcode::NOERROR, 0))
    }

    /// Refers to the servers of a delegated zone.
    #[inline(never)]
    fn plain_referral(&self, out: &mut [u8], cut: Node<'_>) -> Option<(usize, Rcode)> {
        // DS of a delegated name is the parent's to answer.
        if !is_for_zones(self.query.rtype) || self.query.rtype == Rtype::DS {
            return None;
        }
        let mut writer = self.begin(out);
        self.refer(&mut writer, HEADER, self.name_end() - HEADER, cut).ok()?;
        Some(self.end(writer, Rcode::NOERROR, 0))
    }

    /// Where the question's name ends: before type and class, four octets.
    #[inline]
    fn name_end(&self) -> usize {
        self.query.question_end() - 4
    }

    /// Begins a response.
    #[inline(always)]
    fn begin<'o>(&self, out: &'o mut [u8]) -> Writer<'o> {
        let limit = self.limit().min(out.len());
        Writer::new(self.packet, self.query.question_end(), out, limit - self.opt_room(limit))
    }

    /// Ends a response: its OPT, its counters, its header.
    #[inline(always)]
    fn end(&self, mut writer: Writer<'_>, rcode: Rcode, scope: u8) -> (usize, Rcode) {
        let edns = self.query.edns.as_ref();
        if let Some(edns) = edns {
            self.write_opt(&mut writer, edns, &Ending { scope, ..Ending::of(rcode) }, self.limit());
        }
        let ecs = edns.is_some_and(|edns| edns.ecs.is_some());
        self.tally.response(rcode, AnswerKind { truncated: false, edns: edns.is_some(), ecs, down: false });
        (writer.finish(rcode), rcode)
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
