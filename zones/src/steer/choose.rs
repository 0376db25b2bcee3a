//! The decision: which answer this client gets from this pool under this runtime state.

use std::net::IpAddr;

use fairway_model::Selection;

use super::{
    ClientNet, SteerPool, Trace, failover,
    load::Offered,
    pick::{Asked, Lens, Picking},
    pool::{Down, Member},
    standing::{DOWN, LIVE, NOT_OUT, PENDING, Standings},
    weighted,
};
use crate::{Draw, RuntimeState};

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4, type A.
    V4,
    /// IPv6, type AAAA.
    V6,
}

impl Family {
    /// Both, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Whether the address is of this family.
    pub fn holds(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    /// The other one.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// What is asked of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Addresses of one family, from a pool of mode `address`.
    Addresses(Family),
    /// The cluster whose name to answer with, from a pool of mode `cname`, whatever type was asked.
    Cname,
}

impl Kind {
    /// A records.
    pub const V4: Self = Self::Addresses(Family::V4);
    /// AAAA records.
    pub const V6: Self = Self::Addresses(Family::V6);
}

/// What to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The address list of this number: the place in [`SteerPool::sets`] of the family asked.
    Set(u16),
    /// A CNAME to the cluster of this member (mode `cname` only).
    Member(u8),
    /// Mode `cname` only: the fallback addresses at the name itself, [`SteerPool::fallback_set`] of the family asked.
    FallbackAddresses,
    /// A CNAME to the pool's fallback name.
    FallbackCname,
    /// No data of this type (NOERROR, never NXDOMAIN).
    Nothing,
    /// SERVFAIL.
    Refuse,
}

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Members that are up, or whose evidence is stale.
    Live,
    /// Members never judged: no judged one is live.
    Pending,
    /// Too little of the weight is live (`panicThreshold`): verdicts are ignored.
    Panic,
    /// Nothing is live or pending: the pool's down answer.
    Down,
    /// Every member is hidden from the client.
    Hidden,
    /// No member has an address of the family asked, whatever its health.
    NoFamily,
}

/// An answer, and what it is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What to answer.
    pub answer: Answer,
    /// The members whose addresses or name are in it; none where the answer is not a choice among members.
    pub members: Members,
    /// What it rests on.
    pub basis: Basis,
}

/// Up to 8 members, by number, in order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    list: [u8; 8],
    count: u8,
}

impl Members {
    /// Their numbers.
    pub fn as_slice(&self) -> &[u8] {
        &self.list[..usize::from(self.count).min(self.list.len())]
    }

    /// Appends a member; past the eighth nothing happens, since no answer names more.
    pub(super) fn push(&mut self, number: u8) {
        if let Some(free) = self.list.get_mut(usize::from(self.count)) {
            *free = number;
            self.count += 1;
        }
    }
}

impl Choice {
    /// An answer that is no choice among members.
    pub(super) fn plain(answer: Answer, basis: Basis) -> Self {
        Self { answer, members: Members::default(), basis }
    }
}

impl SteerPool {
    /// Chooses the answer for a client.
    ///
    /// `kind` must fit the pool's mode. `client` is what [`SteerPool::client_net`] gives; the draw is read by pools that
    /// spread per query only.
    pub fn choose<T: Trace>(
        &self,
        kind: Kind,
        runtime: &RuntimeState,
        client: ClientNet,
        draw: Draw,
        trace: &mut T,
    ) -> Choice {
        let place = client.row();
        let asked = Asked { kind, place, row: self.orders.row(place), seed: self.seed(client, draw) };
        let lens = Lens::new(self, runtime, kind);
        trace.begin(self, kind, runtime, client, draw);
        let choice = self.decide(asked, &lens, runtime, trace);
        trace.end(&choice);
        choice
    }

    /// The number of the fallback addresses in a family's [`SteerPool::sets`], if there are any.
    pub fn fallback_set(&self, family: Family) -> Option<u16> {
        self.plans[family as usize].fallback
    }

    /// Walks the stages until one gives an answer.
    ///
    /// A stage is the pool's, not the family's: where it has members in the other family only, this family has no data,
    /// and clients use the one that works.
    fn decide<T: Trace>(&self, asked: Asked<'_>, lens: &Lens<'_>, runtime: &RuntimeState, trace: &mut T) -> Choice {
        if self.lacks(asked.kind) {
            return Choice::plain(Answer::Nothing, Basis::NoFamily);
        }
        if asked.row.is_empty() && !self.members.is_empty() {
            return self.fallback_answer(asked.kind, Basis::Hidden);
        }
        if self.panic_threshold != 0 && self.panics(asked, lens) {
            return self
                .stage(asked, lens, Basis::Panic, NOT_OUT, trace)
                .unwrap_or_else(|| Choice::plain(Answer::Nothing, Basis::Panic));
        }
        let choice = self.stage(asked, lens, Basis::Live, LIVE, trace);
        let choice = choice.or_else(|| self.stage(asked, lens, Basis::Pending, PENDING, trace));
        choice.unwrap_or_else(|| self.down_answer(asked, lens, runtime, trace))
    }

    /// Chooses among the members whose standing is admitted; none where no member's is, in either family.
    pub(super) fn stage<T: Trace>(
        &self,
        asked: Asked<'_>,
        lens: &Lens<'_>,
        basis: Basis,
        admitted: Standings,
        trace: &mut T,
    ) -> Option<Choice> {
        trace.stage(basis);
        let several = match asked.kind {
            Kind::Addresses(family) => {
                let plan = &self.plans[family as usize];
                plan.answers > 1 && !plan.windows
            }
            Kind::Cname => false,
        };
        let picking = Picking { lens, row: asked.row, basis, admitted, wanted: self.wanted(asked.kind) };
        let weighted = |_, member: &Member| weighted::score(asked.seed, member.key, member.weight);
        if self.load {
            let offered = Offered { row: asked.row, seed: asked.seed, balanced: lens.balanced };
            return match several {
                false => self.offer::<1, T>(&picking, &offered, trace),
                true => self.offer::<8, T>(&picking, &offered, trace),
            };
        }
        // Four copies of one loop, so that each keeps its few variables in registers.
        match (self.chooses, several) {
            (Selection::First, false) => self.pick::<1, T>(&picking, failover::score, trace),
            (Selection::First, true) => self.pick::<8, T>(&picking, failover::score, trace),
            (Selection::Weighted, false) => self.pick::<1, T>(&picking, weighted, trace),
            (Selection::Weighted, true) => self.pick::<8, T>(&picking, weighted, trace),
        }
    }

    /// What stands for the client in the decision; nothing where every client gets the same.
    pub(super) fn seed(&self, client: ClientNet, draw: Draw) -> u64 {
        match self.chooses {
            Selection::First if !self.load => 0,
            _ => weighted::seed(self.spread, client, draw),
        }
    }

    /// Whether the pool never has an answer of this kind, whatever the health: no member has the family.
    ///
    /// A fallback can still be answered when the other family is down; a fallback name even must be, since a CNAME holds
    /// for every type.
    fn lacks(&self, kind: Kind) -> bool {
        let Kind::Addresses(family) = kind else { return false };
        let plan = &self.plans[family as usize];
        plan.members == 0 && plan.fallback.is_none() && self.down != Down::FallbackCname
    }

    /// Whether so little of the weight that the client can see is live that the observer is the likelier one to be wrong.
    ///
    /// Standby members and those that are out by force count on neither side. While nothing of the weight is live there
    /// is no panic: standby members and the down answer are for that. Nor is there while nobody is down: members that
    /// were never judged are no evidence.
    fn panics(&self, asked: Asked<'_>, lens: &Lens<'_>) -> bool {
        let (mut live, mut total, mut any_down) = (0u64, 0u64, false);
        let members = asked.row.iter().map(|step| &self.members[usize::from(step.place)]);
        for member in members.filter(|member| !member.standby) {
            let standings = lens.any(member);
            let weight = u64::from(member.weight);
            live += if standings & LIVE != 0 { weight } else { 0 };
            total += if standings & NOT_OUT != 0 { weight } else { 0 };
            any_down |= standings & (LIVE | DOWN) == DOWN;
        }
        any_down && live > 0 && live * 1000 < total * u64::from(self.panic_threshold)
    }
}
