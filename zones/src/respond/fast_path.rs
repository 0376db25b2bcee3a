//! Fast path: the answers of most queries, with at most an OPT record.
//!
//! It answers with one record set of a static or steered name, or with a whole answer: a denial, a CNAME with its
//! target, a referral. It never differs from [`super::answer`], the slow path, to which it leaves everything else. A
//! test compares the two.
//!
//! Both exist for speed. Instructions of a query here and on the slow path (callgrind as in `bench/run --tripwire`):
//! record set 520 and 725, denial 651 and 822, CNAME with its target 640 and 1,330, referral 757 and 1,109, weighted
//! pool 831 and 1,503.

use fairway_model::Rtype;

use super::{AnswerStatus, CLASS_IN, Response, is_for_zones};
use crate::{
    entries::{Node, RrSet, WholeAnswer},
    lookup::Found,
    snapshot::Steered,
    steer::Family,
    tally::AnswerKind,
    wire::{Edns, Rcode, Section, Writer},
};

impl<'a> Response<'a> {
    /// Writes the answer to a query that is not refused, and returns its length and code. `None` if the slow path has to
    /// answer.
    #[inline(always)]
    pub(super) fn fast_path(&self, out: &mut [u8]) -> Option<(usize, Rcode)> {
        let (snapshot, query) = (&*self.serving.snapshot, self.query);
        if query.class != CLASS_IN {
            return None;
        }
        let (answer, rcode) = match self.found {
            Found::Exact(number) | Found::Wildcard(number) => {
                let node = snapshot.node(number);
                if let Some(number) = node.steered().checked_sub(1) {
                    return self.fast_choice(out, &snapshot.steered[number as usize]);
                }
                if let Some(set) = node.set(query.rtype) {
                    return if set.is_verbatim() { self.fast_set(out, set, 0) } else { None };
                }
                let answer = if node.is(Node::ALIAS) { self.alias(node) } else { self.denial(self.denying_zone(node)) };
                (answer?, Rcode::NOERROR)
            }
            Found::Nothing(zone) => (self.denial(zone as u16)?, Rcode::NXDOMAIN),
            Found::Cut(number) => (self.referral(snapshot.node(number))?, Rcode::NOERROR),
            Found::Dname(_) | Found::Outside => return None,
        };
        self.fast_whole_answer(out, answer, rcode)
    }

    /// Writes a record set owned by the question's name.
    #[inline(always)]
    fn fast_set(&self, out: &mut [u8], set: RrSet<'_>, scope: u8) -> Option<(usize, Rcode)> {
        let mut writer = self.begin(out);
        writer.copy(set.records()).ok()?;
        writer.count(Section::Answer, set.count());
        writer.set_authoritative();
        Some(self.end(writer, Rcode::NOERROR, scope))
    }

    /// Writes the set of one live member that the pool chooses.
    #[inline(always)]
    fn fast_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        match steered.special {
            false => self.usual_choice(out, steered),
            true if steered.cname => None,
            true => self.noted_choice(out, steered),
        }
    }

    /// Chooses if some clients get explanations. For those the slow path answers.
    #[cold]
    #[inline(never)]
    fn noted_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        if self.is_noted() { None } else { self.usual_choice(out, steered) }
    }

    #[inline(always)]
    fn usual_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        let snapshot = &*self.serving.snapshot;
        let (family, first) = match self.query.rtype {
            Rtype::A => (Family::V4, steered.v4),
            Rtype::AAAA => (Family::V6, steered.v6),
            _ => return None,
        };
        let pool = &snapshot.pools[steered.pool as usize];
        let (client, scope) = self.client_of(pool);
        let (answer, member) = pool.choose_fast(family, &self.serving.runtime, client, self.draw)?;
        if pool.is_balanced() && self.is_challenge_drawn() {
            return None;
        }
        let written = self.fast_set(out, snapshot.answer(first + u32::from(answer)), scope)?;
        self.tally.answer(snapshot.counters[steered.counters as usize + usize::from(member)]);
        if pool.is_balanced() {
            self.tally.note_demand(pool.key(), client, member, self.source());
        }
        Some(written)
    }

    /// Writes a stored whole answer.
    #[inline(always)]
    fn fast_whole_answer(&self, out: &mut [u8], answer: WholeAnswer<'_>, rcode: Rcode) -> Option<(usize, Rcode)> {
        let mut writer = self.begin(out);
        writer.sections(answer.sections(), answer.counts, answer.patches()).ok()?;
        if !matches!(self.found, Found::Cut(_)) {
            writer.set_authoritative();
        }
        Some(self.end(writer, rcode, 0))
    }

    /// Returns the answer that a zone has no such name or type.
    #[inline(always)]
    fn denial(&self, zone: u16) -> Option<WholeAnswer<'a>> {
        let rtype = self.query.rtype;
        let is_explained = || rtype == Rtype::TXT && self.steered_to_explain().is_some();
        if !is_for_zones(rtype) || rtype == Rtype::ANY || is_explained() {
            return None;
        }
        let text = &*self.serving.snapshot.text;
        Some(text.layer.entries.whole_answer(text.zones[usize::from(zone)].denial))
    }

    /// Returns the answer with a CNAME and the records of its target.
    #[inline(always)]
    fn alias(&self, node: Node<'_>) -> Option<WholeAnswer<'a>> {
        let snapshot = &*self.serving.snapshot;
        let rest = node.set(Rtype::CNAME)?.details()?;
        // The target may be a name of the upper layer.
        if snapshot.upper.table.guess(rest.alias_hash).is_some() {
            return None;
        }
        snapshot.text.layer.entries.whole_answer_to(rest.answer()?, self.query.rtype)
    }

    /// Returns the referral to the servers of a delegated zone.
    #[inline(always)]
    fn referral(&self, cut: Node<'_>) -> Option<WholeAnswer<'a>> {
        // The parent zone answers DS of a delegated name.
        if !is_for_zones(self.query.rtype) || self.query.rtype == Rtype::DS {
            return None;
        }
        let answer = cut.set(Rtype::NS)?.details()?.answer()?;
        Some(self.serving.snapshot.text.layer.entries.whole_answer(answer))
    }

    /// Begins a response.
    #[inline(always)]
    fn begin<'o>(&self, out: &'o mut [u8]) -> Writer<'o> {
        let limit = self.limit().min(out.len());
        Writer::new(self.packet, self.query.question_end(), out, limit - self.opt_room(limit))
    }

    /// Writes OPT, counters and header.
    #[inline(always)]
    fn end(&self, mut writer: Writer<'_>, rcode: Rcode, scope: u8) -> (usize, Rcode) {
        let edns = self.query.edns.as_ref();
        if let Some(edns) = edns {
            if !edns.is_usual() {
                return self.end_unusually(writer.moved(), edns, rcode, scope);
            }
            writer.usual_opt(self.serving.snapshot.options.udp_payload, edns, rcode, scope);
        }
        self.count(rcode, edns);
        (writer.finish(rcode), rcode)
    }

    /// Ends a response with other options than the client subnet.
    #[cold]
    #[inline(never)]
    fn end_unusually(&self, mut writer: Writer<'_>, edns: &'a Edns, rcode: Rcode, scope: u8) -> (usize, Rcode) {
        self.write_opt(&mut writer, edns, &AnswerStatus { scope, ..AnswerStatus::of(rcode) }, self.limit());
        self.count(rcode, Some(edns));
        (writer.finish(rcode), rcode)
    }

    #[inline(always)]
    fn count(&self, rcode: Rcode, edns: Option<&Edns>) {
        let ecs = edns.is_some_and(|edns| edns.ecs.is_some());
        self.tally.response(rcode, AnswerKind { truncated: false, edns: edns.is_some(), ecs, down: false });
    }
}

#[cfg(test)]
#[path = "fast_path_tests.rs"]
mod tests;
