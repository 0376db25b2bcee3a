//! `_explain.NAME` TXT: how a steered name is answered to who asks, in a few short texts, for those who are let in.
//!
//! Nobody else comes past [`Response::explained`], so that only here an answer allocates. Who asks is told by the source address
//! of the query; the client that is explained is that of its client subnet, as for any query.

use fairway_model::{Network, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    explain::{StateIds, Trace},
    lookup::{Found, locate},
    snapshot::{ServerOptions, Steered},
    steer::{self, Family, Kind, Recorder},
    wire::{Rcode, Section, Writer, name_end, name_hash},
};

impl Response<'_> {
    /// What steers the name that is to be explained: none unless the question is for `_explain` below a steered name, nothing of
    /// the zone stands there, and who asks may know. Where nobody may, that is one look.
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
        let (Found::Exact(number) | Found::Wildcard(number)) = locate(snapshot, below, labels, name_hash(below)) else {
            return None;
        };
        let steered = snapshot.node(number).steered().checked_sub(1)?;
        snapshot.steered.get(steered as usize)
    }

    /// Whether explanations are for who asks, by the source address of the query.
    pub(super) fn may_explain(&self) -> bool {
        let allowed = self.serving.snapshot.options.explain.iter().take(ServerOptions::EXPLAIN_MAX);
        allowed.copied().any(|network: Network| network.contains(self.client.address))
    }

    /// Answers with the explanation: one text a record, in an order that says what matters first.
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

/// The texts of an explanation: what it was made from, the choice, then members, those that were chosen first.
fn texts(ids: StateIds, explanation: &steer::Explanation) -> Vec<String> {
    let StateIds { snapshot, runtime, epoch } = ids;
    let epoch = epoch.map(|epoch| format!(", shares of epoch {epoch}")).unwrap_or_default();
    let place = &explanation.proof.place;
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
        texts.push(format!("and {left_out} members more; fairway explain shows all"));
    }
    texts
}

/// `eu1 in: chosen, near 100 %`.
fn member(note: &steer::MemberNote) -> String {
    let side = if note.reason.is_in() { "in" } else { "out" };
    let acceptance_test = note.acceptance_test.map(|acceptance_test| {
        let part = if acceptance_test.near { "local" } else { "overflow" };
        format!(", {part} {} %", u32::from(acceptance_test.acceptance) * 100 / 65_535)
    });
    format!("{} {side}: {}{}", note.cluster, note.why(), acceptance_test.unwrap_or_default())
}

/// Writes a record with one text: the question's name, TXT, IN, TTL 0.
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

/// The label in front of a steered name.
const LABEL: &[u8] = b"\x08_explain";
/// Longest text of a record (RFC 1035 section 3.3).
const TEXT_MAX: usize = 255;
/// Members that are told of: with the longest texts, 64 records take 17 kB, which TCP holds four times.
const MEMBERS_MAX: usize = 60;

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
