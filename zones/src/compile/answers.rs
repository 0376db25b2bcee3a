//! Writes whole answers from the zones' text, so that queries need not compose them.

use fairway_model::Rtype;

use super::records::Compiler;
use crate::{
    entries::{AnswerDraft, AnswerPlace, EntryWriter, Extra, Node, RrSet},
    wire::Section,
};

impl Compiler<'_> {
    /// Writes the denial of each zone, the referral of each delegation, and the answers of each CNAME to a name of
    /// ours.
    pub(super) fn build_answers(&mut self, extras: &[Extra]) {
        let Self { entries, names, numbers, zones, .. } = self;
        for zone in zones.iter_mut() {
            let origin_len = usize::from(zone.origin_len);
            let mut denial = AnswerDraft::new(Rtype::SOA, origin_len);
            let apex = AnswerPlace::BeforeNameEnd(origin_len);
            denial.add(entries.set(zone.negative), Some(apex), Section::Authority);
            zone.denial = entries.whole_answer(&denial, None);
        }
        for (draft, entry) in names.drafts.iter().zip(&*numbers) {
            let origin_len = usize::from(zones[usize::from(draft.zone)].origin_len);
            if draft.is(Node::CUT) && draft.occluder().is_none() {
                refer(entries, *entry, draft.name.len(), origin_len, extras);
            } else if draft.is(Node::ALIAS) && draft.is(Node::OPEN) {
                follow(entries, *entry, origin_len);
            }
        }
    }
}

/// Writes the referral of a delegation with all its additional addresses. `octets` is the length of its name.
fn refer(entries: &mut EntryWriter, entry: u32, octets: usize, origin_len: usize, extras: &[Extra]) {
    let Some((number, set)) = set_of(entries, entry, Rtype::NS) else { return };
    let mut answer = AnswerDraft::new(Rtype::NS, origin_len);
    answer.add(set, Some(AnswerPlace::BeforeNameEnd(octets)), Section::Authority);
    for extra in set.details().iter().flat_map(|rest| &extras[rest.extras()]) {
        answer.add(entries.set(extra.set), Some(AnswerPlace::Within(extra.at as usize)), Section::Additional);
    }
    keep(entries, number, &[answer]);
}

/// Writes the answers of a CNAME, one for each type at its target that needs no further records.
fn follow(entries: &mut EntryWriter, entry: u32, origin_len: usize) {
    let Some((number, alias)) = set_of(entries, entry, Rtype::CNAME) else { return };
    let Some(target) = alias.details().and_then(|rest| rest.target()) else { return };
    let sets = entries.sets_of(target).map(|(_, set)| set);
    let answers = sets.filter(|set| set.is_verbatim() && set.rtype() != Rtype::CNAME).map(|set| {
        let mut answer = AnswerDraft::new(set.rtype(), origin_len);
        answer.add(alias, None, Section::Answer);
        // The target begins after the owner (2) and type, class, TTL and length (10).
        answer.add(set, Some(AnswerPlace::Within(12)), Section::Answer);
        answer
    });
    keep(entries, number, &answers.collect::<Vec<_>>());
}

fn set_of(entries: &EntryWriter, entry: u32, rtype: Rtype) -> Option<(u32, RrSet<'_>)> {
    entries.sets_of(entry).find(|(_, set)| set.rtype() == rtype)
}

/// Writes those answers of a set that are small enough.
fn keep(entries: &mut EntryWriter, set: u32, answers: &[AnswerDraft]) {
    let mut last = None;
    for answer in answers.iter().filter(|answer| answer.is_kept()) {
        let number = entries.whole_answer(answer, last);
        if last.is_none() {
            entries.set_answer(set, number);
        }
        last = Some(number);
    }
}
