//! `_explain.NAME` TXT: a short explanation of how NAME is steered, for networks that may query it.
//!
//! This is the only answer that allocates, and [`Response::steered_to_explain`] admits only those networks, by the
//! source address. The explained client is that of the client subnet, as in any query.

use fairway_model::{Demand, Network, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    explain::{StateIds, Trace},
    lookup::{Found, locate},
    snapshot::{ServerOptions, Steered},
    steer::{self, Family, Kind, Recorder},
    wire::{Rcode, Section, Writer, name_end},
};

impl Response<'_> {
    /// Returns the steered name to explain, or `None` if the query is not for an explanation.
    ///
    /// It is if the question is for `_explain` below a steered name, the zone has no data there, and the source address
    /// is allowed. If no network is allowed, this is one test.
    #[inline]
    pub(super) fn steered_to_explain(&self) -> Option<&Steered> {
        if self.serving.snapshot.options.explain.is_empty() { None } else { self.steered_to_explain_slowly() }
    }

    #[cold]
    #[inline(never)]
    fn steered_to_explain_slowly(&self) -> Option<&Steered> {
        let snapshot = &*self.serving.snapshot;
        let name = self.query.name(self.packet);
        let (label, below) = name.split_at_checked(LABEL.len())?;
        let is_free = match self.found {
            Found::Nothing(_) => true,
            Found::Wildcard(number) => {
                let node = snapshot.node(number);
                node.set(Rtype::TXT).is_none() && node.set(Rtype::CNAME).is_none()
            }
            _ => false,
        };
        if !label.eq_ignore_ascii_case(LABEL) || !is_free || !self.may_explain() {
            return None;
        }
        let (_, labels) = name_end(below, 0)?;
        let (Found::Exact(number) | Found::Wildcard(number)) =
            locate(snapshot, below, labels, snapshot.key().hash(below))
        else {
            return None;
        };
        let steered = snapshot.node(number).steered().checked_sub(1)?;
        snapshot.steered.get(steered as usize)
    }

    /// True if the source address of the query may get explanations.
    pub(super) fn may_explain(&self) -> bool {
        let allowed = self.serving.snapshot.options.explain.iter().take(ServerOptions::EXPLAIN_MAX);
        allowed.copied().any(|network: Network| network.contains(self.client.address))
    }

    /// Answers with the explanation, one text per record, the most important first.
    #[cold]
    #[inline(never)]
    pub(super) fn explain<T: Trace>(&self, writer: &mut Writer<'_>, steered: &Steered, trace: &mut T) -> AnswerStatus {
        let snapshot = &*self.serving.snapshot;
        trace.located(snapshot, self.query.name(self.packet), self.found);
        let pool = &snapshot.pools[steered.pool as usize];
        let kind = match steered.cname {
            true => Kind::Cname,
            false if pool.has(Family::V4) => Kind::V4,
            false => Kind::V6,
        };
        let (client, scope) = self.client_of(pool);
        let mut recorder = Recorder::default();
        pool.choose(kind, &self.serving.runtime, client, self.draw, &mut recorder);
        let status = AnswerStatus { scope, ..AnswerStatus::of(Rcode::NOERROR) };
        writer.set_authoritative();
        let Some(explanation) = recorder.into_explanation() else { return status };
        let start = writer.at();
        for text in texts(StateIds::of(self.serving), &explanation) {
            if write(writer, &text).is_err() {
                writer.truncate(start);
                break;
            }
        }
        status
    }
}

/// Returns the texts of an explanation: the ids, the choice, then the members, chosen ones first.
fn texts(ids: StateIds, explanation: &steer::Explanation) -> Vec<String> {
    let StateIds { snapshot, runtime, epoch } = ids;
    let epoch = epoch.map(|epoch| format!(", shares of epoch {epoch}")).unwrap_or_default();
    let place = &explanation.proof.location_class;
    let class = if place.classes > 1 {
        format!(", location class {} of {}", place.class, place.classes)
    } else {
        String::new()
    };
    let chosen = explanation.choice.members.as_slice().iter();
    let chosen: Vec<&str> = chosen.map(|number| explanation.members[usize::from(*number)].cluster.as_str()).collect();
    let chosen = if chosen.is_empty() { "no member".to_owned() } else { chosen.join(", ") };
    let assignment = explanation.assignment.map(|assignment| format!("; {assignment}")).unwrap_or_default();
    let mut texts = vec![
        format!("snapshot {snapshot:016x}, runtime state {runtime:016x}{epoch}"),
        format!("pool {}, policy [{}], client {}{class}", explanation.pool, explanation.policy, explanation.client),
        format!("answer: {chosen}; {}{assignment}", explanation.choice.basis),
    ];
    let mut members: Vec<_> = explanation.members.iter().collect();
    members.sort_by_key(|member| (!member.reason.is_in(), member.group));
    let left_out = members.len().saturating_sub(MEMBERS_MAX);
    texts.extend(members.into_iter().take(MEMBERS_MAX).map(member));
    if left_out > 0 {
        texts.push(format!("and {left_out} more members; fairway explain shows all"));
    }
    texts
}

/// Returns a text such as `eu1 in: chosen, 256 of 256 slots`.
fn member(note: &steer::MemberNote) -> String {
    let side = if note.reason.is_in() { "in" } else { "out" };
    let slots = note.terms.slots.map(|slots| format!(", {slots} of {} slots", Demand::SLOTS)).unwrap_or_default();
    format!("{} {side}: {}{slots}", note.cluster, note.why())
}

/// Writes a TXT record with one text, owned by the question's name, with TTL 0.
fn write(writer: &mut Writer<'_>, text: &str) -> Result<(), crate::wire::Full> {
    let text = &text.as_bytes()[..text.len().min(TEXT_MAX)];
    let length = text.len() as u8;
    let [t0, t1] = Rtype::TXT.0.to_be_bytes();
    let [d0, d1] = (u16::from(length) + 1).to_be_bytes();
    writer.copy(&[0xc0, 12, t0, t1, 0, 1, 0, 0, 0, 0, d0, d1, length])?;
    writer.copy(text)?;
    writer.count(Section::Answer, 1);
    Ok(())
}

/// First label of the queried name.
const LABEL: &[u8] = b"\x08_explain";
/// Maximum length of a text (RFC 1035 section 3.3).
const TEXT_MAX: usize = 255;
/// Maximum number of members in an explanation. 64 records with the longest texts take 17 kB, a quarter of a TCP message.
const MEMBERS_MAX: usize = 60;

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
