//! Numbers of a pool's answers: every list of addresses that it can give, in a fixed order.
//!
//! A choice is a number into this list, so that queries compose nothing. The order of one family is:
//!
//! 1. Whole members. With one cluster per answer: each member. With several: every combination of 1 to k members, by
//!    size and then in colexicographic order, if there are at most [`COMBINATIONS_MAX`]. Else windows of 1 to k
//!    neighbours on the ring of members in declared order, by length and then by start.
//! 2. Some addresses of one member. With 2 or 3 addresses: every non-empty subset, by its bit mask. With more: each
//!    single address.
//! 3. Every address of every member, if the pool can answer that: one list for each set of members that some view sees,
//!    for the first [`EVERYONE_MAX`] sets of two and more.
//! 4. The fallback addresses.

use std::sync::Arc;

use fairway_model::{AnswerMode, Cluster, DownAnswer, Pool};

use super::{
    answer::Family,
    pool::{AddressSet, Member},
    views::{ClassMembers, MemberSet},
};

/// Maximum number of combinations. A pool with more uses windows.
const COMBINATIONS_MAX: u32 = 64;

/// Maximum number of lists with every address. Clients of other views get one member instead.
pub(super) const EVERYONE_MAX: usize = 16;

/// Maximum number of answers of one family: 8 windows and 8 parts for each of 255 members, and the down answers.
pub const SETS_MAX: u16 =
    (Pool::ANSWERS_MAX as u16 + Cluster::ADDRESSES_MAX as u16) * Pool::MEMBERS_MAX as u16 + EVERYONE_MAX as u16 + 1;

/// Numbering of the answers of one family.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Number of members with an address of the family.
    pub(super) members: u8,
    /// Maximum number of clusters in an answer: the declared one, but at most the number of members.
    pub(super) answers: u8,
    /// True if windows are numbered, false for combinations.
    pub(super) windows: bool,
    /// Answers with every address. `None` if the pool never gives them.
    pub(super) everyone: Option<Arc<Everyone>>,
    /// Number of the fallback addresses.
    pub(super) fallback: Option<u16>,
    /// Indices of the members by rank. Empty unless windows are numbered.
    pub(super) ring: Box<[u8]>,
}

/// Answers with every address that clients of a class may get.
#[derive(Debug)]
pub(super) struct Everyone {
    /// Number of the first answer.
    first: u16,
    /// Members of each answer, at most [`EVERYONE_MAX`].
    pub(super) sets: Box<[MemberSet]>,
    /// Index in `sets` for each class, past the end for none. Empty if all classes have the first.
    by_class: Box<[u8]>,
}

impl Everyone {
    /// Numbers the sets of visible members that have the family. A single member has a number already.
    fn new(first: u16, classes: &[ClassMembers], has_family: MemberSet) -> Self {
        let mut sets: Vec<MemberSet> = Vec::new();
        let by_class = classes.iter().map(|class| {
            let seen = class.visible.and(has_family);
            let known = sets.iter().position(|set| *set == seen);
            let index = known.unwrap_or(sets.len());
            if known.is_none() && seen.len() > 1 && sets.len() < EVERYONE_MAX {
                sets.push(seen);
            } else if known.is_none() {
                return u8::MAX;
            }
            index as u8 // at most EVERYONE_MAX
        });
        let mut by_class: Vec<u8> = by_class.collect();
        if by_class.iter().all(|index| *index == 0) {
            by_class.clear();
        }
        Self { first, sets: sets.into(), by_class: by_class.into() }
    }

    fn of(&self, class: u16) -> Option<u16> {
        let index = if self.by_class.is_empty() { 0 } else { *self.by_class.get(usize::from(class))? };
        (usize::from(index) < self.sets.len()).then(|| self.first + u16::from(index))
    }
}

impl Plan {
    /// Returns the answer with every address that clients of a class may get.
    pub(super) fn everyone(&self, class: u16) -> Option<u16> {
        self.everyone.as_ref()?.of(class)
    }

    /// Numbers the answers of a family, and sets the rank and first part of each member.
    ///
    /// `members` are in declared order. In mode `cname` only fallback addresses are answers of a family.
    pub(super) fn new(pool: &Pool, members: &mut [Member], classes: &[ClassMembers], family: Family) -> Self {
        let has = |m: &Member| m.address_sets[family as usize].addresses() > 0 && pool.mode == AnswerMode::Address;
        let ranks = members.iter().filter(|m| has(m)).count();
        let ranks = u8::try_from(ranks).expect("a pool has at most 255 members");
        let answers = pool.answers.clamp(1, Pool::ANSWERS_MAX).min(ranks.max(1));
        let windows = answers > 1 && combinations(ranks, answers).is_none();
        let mut plan = Self { members: ranks, answers, windows, everyone: None, fallback: None, ring: Box::default() };
        let mut count = plan.whole_answers();
        for (rank, member) in (0..ranks).zip(members.iter_mut().filter(|m| has(m))) {
            let set = &mut member.address_sets[family as usize];
            set.rank = rank;
            set.parts = count;
            count += parts(set).fold(0, |n, _| n + 1);
        }
        if matches!(pool.down, DownAnswer::All | DownAnswer::LastGood) {
            let having = members.iter().filter(|m| has(m)).map(|m| m.number).collect();
            let everyone = Everyone::new(count, classes, having);
            count += everyone.sets.len() as u16; // at most EVERYONE_MAX
            plan.everyone = Some(Arc::new(everyone)).filter(|everyone| !everyone.sets.is_empty());
        }
        if matches!(&pool.down, DownAnswer::FallbackAddresses(addresses) if addresses.iter().any(|a| family.holds(a))) {
            plan.fallback = Some(count);
        }
        plan
    }

    /// Sets the ring of windows, after the members were sorted.
    pub(super) fn with_ring(mut self, members: &[Member], family: Family) -> Self {
        if self.windows {
            let set = |index: &u8| &members[usize::from(*index)].address_sets[family as usize];
            let indices = (0..=u8::MAX).zip(members).map(|(index, _)| index);
            let mut ring: Vec<u8> = indices.filter(|index| set(index).addresses() > 0).collect();
            ring.sort_by_key(|index| set(index).rank);
            self.ring = ring.into();
        }
        self
    }

    /// Returns the number of answers with whole members.
    fn whole_answers(&self) -> u16 {
        let windows = u16::from(self.members) * u16::from(self.answers);
        combinations(self.members, self.answers).filter(|_| !self.windows && self.answers > 1).unwrap_or(windows)
    }

    /// Returns the answer with the members of these ranks, which are distinct and get sorted.
    pub(super) fn combination(&self, ranks: &mut [u8]) -> u16 {
        ranks.sort_unstable();
        let smaller: u32 = (1..ranks.len()).map(|size| binomial(self.members.into(), size as u32)).sum();
        let colex: u32 = (1..).zip(&*ranks).map(|(index, rank)| binomial(u32::from(*rank), index)).sum();
        (smaller + colex) as u16 // at most COMBINATIONS_MAX
    }

    /// Returns the answer with `length` neighbours on the ring, beginning at this rank.
    pub(super) fn window(&self, start: u8, length: u8) -> u16 {
        (u16::from(length) - 1) * u16::from(self.members) + u16::from(start)
    }
}

impl AddressSet {
    /// Returns the answer with the addresses of a mask that is not 0.
    pub(super) fn answer(&self, mask: u32) -> u16 {
        match self.addresses() {
            _ if mask == self.all() => self.rank.into(),
            0..=3 => self.parts + mask as u16 - 1,
            _ => self.parts + mask.trailing_zeros() as u16,
        }
    }
}

/// Returns the masks of a member's numbered parts. Empty if one target stands for all addresses.
pub(super) fn parts(set: &AddressSet) -> impl Iterator<Item = u32> + use<> {
    let (all, small) = (set.all(), set.addresses() <= 3);
    let count = match set.addresses() {
        _ if set.has_one_target() => 0,
        0..=3 => all.saturating_sub(1),
        addresses => addresses,
    };
    (0..count).map(move |i| if small { i + 1 } else { 1 << i })
}

/// Returns the number of combinations of 1 to `most` members. `None` if it exceeds [`COMBINATIONS_MAX`].
fn combinations(members: u8, most: u8) -> Option<u16> {
    let mut sum = 0;
    for size in 1..=u32::from(most) {
        // Ends long before a binomial overflows, since `members` is at most 64 after the first step.
        sum += binomial(u32::from(members), size);
        if sum > COMBINATIONS_MAX {
            return None;
        }
    }
    u16::try_from(sum).ok()
}

/// Returns the number of combinations of `k` out of `n`.
fn binomial(n: u32, k: u32) -> u32 {
    // Each product is a binomial times its divisor, so the division is exact.
    (0..k).fold(1, |c, i| c * n.saturating_sub(i) / (i + 1))
}
