//! Values of a decision: question, answer, reasons.

use std::net::IpAddr;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4, record type A.
    V4,
    /// IPv6, record type AAAA.
    V6,
}

impl Family {
    /// Both families, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// True if the address is of this family.
    pub fn holds(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    /// Returns the other family.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// Question to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Addresses of one family, from a pool with mode `address`.
    Addresses(Family),
    /// The name of a cluster, from a pool with mode `cname`, for every record type.
    Cname,
}

impl Kind {
    /// A records.
    pub const V4: Self = Self::Addresses(Family::V4);
    /// AAAA records.
    pub const V6: Self = Self::Addresses(Family::V6);
}

/// Answer of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Address list with this number, the index in [`SteerPool::sets`](super::SteerPool::sets) of the family.
    Set(u16),
    /// A CNAME to the cluster of this member (mode `cname` only).
    Member(u8),
    /// Mode `cname` only: the fallback addresses at the name itself, see
    /// [`SteerPool::fallback_set`](super::SteerPool::fallback_set).
    FallbackAddresses,
    /// A CNAME to the pool's fallback name.
    FallbackCname,
    /// No data of this type (NOERROR, never NXDOMAIN).
    Nothing,
    /// SERVFAIL.
    Refuse,
}

/// Reason for the stage of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum Basis {
    /// Members that are up or unknown.
    #[strum(to_string = "live members")]
    Live,
    /// Exhausted members, since every member that is up is so.
    #[strum(to_string = "exhausted members: the gateways of every member that is up drain or are overloaded")]
    Exhausted,
    /// Pending members, since no member is live.
    #[strum(to_string = "pending members: no evaluated member is live")]
    Pending,
    /// Too little of the weight is live (`panicThreshold`), so health is ignored.
    #[strum(to_string = "panic: too little of the weight is live, so health is ignored")]
    Panic,
    /// No member is live or pending: the down answer.
    #[strum(to_string = "down answer: no member is live")]
    Down,
    /// Every member is hidden from the client.
    #[strum(to_string = "every member is hidden from this client")]
    Hidden,
    /// No member has an address of the family.
    #[strum(to_string = "no member has an address of this family")]
    NoFamily,
}

/// An answer with its members, which are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Answer of the pool.
    pub answer: Answer,
    /// Members with addresses or name in the answer. Empty if the answer is not a choice among members.
    pub members: Members,
    /// Stage of the answer.
    pub basis: Basis,
}

/// Up to 8 members by number, in order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    list: [u8; 8],
    count: u8,
}

impl Members {
    /// Returns the numbers.
    pub fn as_slice(&self) -> &[u8] {
        &self.list[..usize::from(self.count).min(self.list.len())]
    }

    /// Appends a member. Ignores a ninth one, since no answer names more.
    pub(super) fn push(&mut self, number: u8) {
        if let Some(free) = self.list.get_mut(usize::from(self.count)) {
            *free = number;
            self.count += 1;
        }
    }
}

impl Choice {
    /// Returns an answer that is not a choice among members.
    pub(super) fn without_members(answer: Answer, basis: Basis) -> Self {
        Self { answer, members: Members::default(), basis }
    }
}

/// Result of a stage for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum Candidacy {
    /// May be chosen.
    Candidate,
    /// May be chosen if no whole member is: only some of its addresses are admitted.
    Partial,
    /// Only addresses of the other family are admitted.
    Elsewhere,
    /// Not a last-good member.
    Excluded,
    /// Closed by its schedule.
    Closed,
    /// No address is admitted.
    Ineligible,
}

/// Rule that assigned a client to its member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::Display)]
pub enum Assignment {
    /// It is a candidate of the best group that has one: load control has no table, or the cluster of the slot cannot be answered.
    #[default]
    #[strum(to_string = "nearest: the best group with a candidate")]
    Nearest,
    /// The table of its location class has the cluster for its slot.
    #[strum(to_string = "slot: load control assigns the client's slot to this cluster")]
    Slot,
}
