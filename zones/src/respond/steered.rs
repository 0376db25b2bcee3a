//! Steered names: writes the record sets that the pool chooses by number.

use std::net::IpAddr;

use fairway_model::{Rtype, SourceProof};

use super::{
    AnswerStatus, Response,
    answer::{Answering, ChainStep},
    extended_error::OTHER,
};
use crate::{
    client::Transport,
    cookie::{Cookie, CookieStatus},
    entries::Node,
    explain::Trace,
    snapshot::Steered,
    steer::{Answer, Basis, Choice, ClientNet, Family, Kind, SteerPool},
    tally::is_drawn,
    wire::{Ecs, Full, Rcode, Section},
};

/// Returns what the pool is asked for; `None` if it does not answer the type.
#[inline(always)]
fn kind_of(rtype: Rtype, steered: &Steered) -> Option<Kind> {
    match rtype {
        _ if steered.cname => Some(Kind::Cname),
        Rtype::A => Some(Kind::V4),
        Rtype::AAAA => Some(Kind::V6),
        // While the name is a CNAME, it is one for every type (RFC 1034 section 3.6.2).
        _ if steered.fallback != Steered::NONE => Some(Kind::V4),
        _ => None,
    }
}

impl<'a, T: Trace> Answering<'a, '_, '_, T> {
    /// Answers from the name's pool. Returns false if the pool does not answer the type.
    pub(super) fn steer(&mut self, step: &ChainStep<'_>, node: Node<'a>, steered: &Steered) -> Result<bool, Full> {
        let pool = &self.snapshot().pools[steered.pool as usize];
        let rtype = self.from.query.rtype;
        let Some(kind) = kind_of(rtype, steered) else { return Ok(false) };
        if pool.is_balanced() && self.from.is_challenge_drawn() && self.from.challenge() {
            return Err(Full);
        }
        let (client, scope) = self.from.client_of(pool);
        let others = self.status.scope;
        self.status.scope = others.max(scope);
        let choice = pool.choose(kind, &self.from.serving.runtime, client, self.from.draw, self.trace.choices());
        if kind == Kind::V4 && rtype != Rtype::A {
            // Members are not chosen for this type, so only the client's class counts.
            if !pool.has_classes() {
                self.status.scope = others;
            }
            if choice.answer != Answer::FallbackCname {
                return Ok(false);
            }
        }
        if steered.noted && self.from.is_noted() {
            (self.status.noted, self.status.error) = (steered.pool + 1, Some(OTHER));
        }
        self.count(steered, pool, client, &choice);
        let snapshot = self.snapshot();
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
                None => return self.steered_negative(step, node.zone(), steered.ttl).map(|()| true),
            },
            Answer::FallbackAddresses | Answer::Nothing => {
                // Every client gets this answer, so resolvers may keep it for all (RFC 7871 section 7.4).
                if pool.is_denied_to_all(kind) {
                    self.status.scope = others;
                }
                return self.steered_negative(step, node.zone(), steered.ttl).map(|()| true);
            }
            Answer::Refuse => {
                self.refuse();
                return Ok(true);
            }
        };
        self.copy(snapshot.answer(set), step.at, Section::Answer)?;
        Ok(true)
    }

    /// Counts the answer for its members, and the client as demand of the first one.
    #[inline]
    fn count(&mut self, steered: &Steered, pool: &SteerPool, client: ClientNet, choice: &Choice) {
        let (snapshot, members) = (self.snapshot(), choice.members.as_slice());
        for member in members {
            self.from.tally.answer(snapshot.counters[steered.counters as usize + usize::from(*member)]);
        }
        if let (true, Some(first)) = (pool.is_balanced(), members.first()) {
            self.from.tally.note_demand(pool.key(), client, *first, self.from.source());
        }
    }

    /// Writes the SOA for a negative answer of a pool, with at most the pool's TTL. RFC 2308 section 5 gives a maximum,
    /// but a resolver must not keep "no address" longer than it would keep an address.
    fn steered_negative(&mut self, step: &ChainStep<'_>, zone: u16, ttl: u32) -> Result<(), Full> {
        let start = self.writer.at();
        self.negative(step, zone)?;
        self.writer.limit_ttl(start, ttl);
        Ok(())
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
    /// Returns the source of the query, and what the query shows about it.
    #[inline(always)]
    pub(super) fn source(&self) -> (IpAddr, SourceProof) {
        let proof = match self.cookie {
            _ if self.client.transport == Transport::Tcp => SourceProof::Tcp,
            Some(Cookie { status: CookieStatus::Valid, .. }) => SourceProof::Cookie,
            _ => SourceProof::None,
        };
        (self.client.address, proof)
    }

    /// True for one query in 1,024 of a source that has proven nothing. The answer may then be a challenge.
    #[inline(always)]
    pub(super) fn is_challenge_drawn(&self) -> bool {
        is_drawn(self.draw) && self.serving.snapshot.options.challenge && self.source().1 == SourceProof::None
    }

    /// Returns true if the answer is to be a challenge: truncated, so that the resolver comes over TCP. That proves that it receives
    /// our answers.
    #[cold]
    fn challenge(&self) -> bool {
        self.tally.challenge(self.client.address, self.now)
    }

    /// Returns the client as the pool groups clients, and the ECS scope.
    #[inline(always)]
    pub(super) fn client_of(&self, pool: &SteerPool) -> (ClientNet, u8) {
        let subnet = self.query.edns.as_ref().and_then(|edns| edns.ecs.as_ref()).and_then(Ecs::client);
        match subnet {
            Some(subnet) => pool.client_of_subnet(subnet, self.client.address),
            None => (pool.client_net(self.client.address), 0),
        }
    }
}

/// Extended error "No Reachable Authority" (RFC 8914 section 4.23), the nearest one to "every cluster is down".
const NO_REACHABLE_AUTHORITY: u16 = 22;
