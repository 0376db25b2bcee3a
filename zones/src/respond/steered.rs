//! Steered names: writes the record sets that the pool chooses by number.

use fairway_model::Rtype;

use super::{
    AnswerStatus, Response,
    answer::{Answering, ChainStep},
    extended_error::OTHER,
};
use crate::{
    entries::Node,
    explain::Trace,
    snapshot::Steered,
    steer::{Answer, Basis, ClientNet, Family, Kind, SteerPool},
    wire::{Ecs, Full, Rcode, Section},
};

impl<'a, T: Trace> Answering<'a, '_, '_, T> {
    /// Answers from the name's pool. Returns false if the pool does not answer the type.
    pub(super) fn steer(&mut self, step: &ChainStep<'_>, node: Node<'a>, steered: &Steered) -> Result<bool, Full> {
        let pool = &self.snapshot().pools[steered.pool as usize];
        let rtype = self.from.query.rtype;
        let kind = match rtype {
            _ if steered.cname => Kind::Cname,
            Rtype::A => Kind::V4,
            Rtype::AAAA => Kind::V6,
            // While the name is a CNAME, it is one for every type (RFC 1034 section 3.6.2).
            _ if steered.fallback != Steered::NONE => Kind::V4,
            _ => return Ok(false),
        };
        let (client, scope) = self.from.client_of(pool);
        self.status.scope = self.status.scope.max(scope);
        let choice = pool.choose(kind, &self.from.serving.runtime, client, self.from.draw, self.trace.choices());
        if kind == Kind::V4 && rtype != Rtype::A && choice.answer != Answer::FallbackCname {
            return Ok(false);
        }
        if steered.noted && self.from.is_noted() {
            (self.status.noted, self.status.error) = (steered.pool + 1, Some(OTHER));
        }
        let snapshot = self.snapshot();
        for member in choice.members.as_slice() {
            self.from.tally.answer(snapshot.counters[steered.counters as usize + usize::from(*member)]);
        }
        if let (true, Some(first)) = (pool.is_balanced(), choice.members.as_slice().first()) {
            self.from.tally.note_demand(pool.key(), client, *first);
        }
        self.status.down |= choice.basis == Basis::Down;
        let (kind_sets, family) =
            if rtype == Rtype::AAAA { (steered.v6, Family::V6) } else { (steered.v4, Family::V4) };
        let set = match choice.answer {
            Answer::Set(number) => kind_sets + u32::from(number),
            Answer::Member(number) => {
                let set = snapshot.answer(steered.members + u32::from(number));
                return self.alias(step, node, set).map(|()| true);
            }
            Answer::FallbackCname => {
                return self.alias(step, node, snapshot.answer(steered.fallback)).map(|()| true);
            }
            Answer::FallbackAddresses if matches!(rtype, Rtype::A | Rtype::AAAA) => match pool.fallback_set(family) {
                Some(number) => kind_sets + u32::from(number),
                None => return self.negative(step, node.zone()).map(|()| true),
            },
            Answer::FallbackAddresses | Answer::Nothing => {
                return self.negative(step, node.zone()).map(|()| true);
            }
            Answer::Refuse => {
                self.refuse();
                return Ok(true);
            }
        };
        self.copy(snapshot.answer(set), step.at, Section::Answer)?;
        Ok(true)
    }

    /// Answers SERVFAIL without records, so that the resolver asks another server.
    fn refuse(&mut self) {
        let AnswerStatus { scope, noted, .. } = self.status;
        self.writer.clear(self.from.query.question_end());
        self.status = AnswerStatus {
            scope,
            noted,
            error: Some(NO_REACHABLE_AUTHORITY),
            down: true,
            ..AnswerStatus::of(Rcode::SERVFAIL)
        };
    }
}

impl Response<'_> {
    /// Returns the client as the pool groups clients, and the ECS scope.
    #[inline(always)]
    pub(super) fn client_of(&self, pool: &SteerPool) -> (ClientNet, u8) {
        let subnet = self.query.edns.as_ref().and_then(|edns| edns.ecs.as_ref()).and_then(Ecs::client);
        let address = subnet.unwrap_or(self.client.address);
        let client = pool.client_net(address);
        if subnet.is_none() {
            return (client, 0);
        }
        // An IPv4-mapped address counts as IPv4. Its scope includes the bits before the IPv4 address.
        let mapped = address.is_ipv6() && client.network().address().is_ipv4() && pool.tells_clients_apart();
        (client, client.scope() + if mapped { MAPPED } else { 0 })
    }
}

/// Bits before the IPv4 address in an IPv4-mapped one (RFC 4291 section 2.5.5.2).
const MAPPED: u8 = 96;
/// Extended error "No Reachable Authority" (RFC 8914 section 4.23), the nearest one to "every cluster is down".
const NO_REACHABLE_AUTHORITY: u16 = 22;
