//! Values of a decision: what is asked, what is answered, and on which grounds.

use std::net::IpAddr;

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
    pub(super) fn without_members(answer: Answer, basis: Basis) -> Self {
        Self { answer, members: Members::default(), basis }
    }
}

/// What a member is to a stage of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidacy {
    /// May be chosen.
    Candidate,
    /// May be chosen where no whole member is: only some of its addresses of the family fit.
    Partial,
    /// Fits, but has no fitting address of the family asked.
    Elsewhere,
    /// Is not among those that were the last to be up.
    Excluded,
    /// Is closed by its schedule.
    Closed,
    /// Does not fit.
    Ineligible,
}

/// How a client came to its member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Assignment {
    /// Its best group took it.
    #[default]
    Local,
    /// A better group had candidates, and did not take it.
    Overflow,
    /// Its demand is held there.
    Pinned,
    /// Nobody took it, so it fell to one of all.
    Remainder,
}

/// A member that is asked whether it takes a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptanceTest {
    /// Whether it is of the client's best group.
    pub near: bool,
    /// How much it takes, in 65535ths.
    pub acceptance: u16,
    /// What is held against it, 0 to 65534: the client is taken where that is below.
    pub draw: u16,
}

impl AcceptanceTest {
    /// Whether the member takes the client.
    pub fn is_accepted(self) -> bool {
        self.draw < self.acceptance
    }
}
