//! The numbers of a pool's answers: every list of addresses it can ever give, in a fixed order.
//!
//! A choice is a number into this list; nothing is composed for a query. Per family, in this order:
//!
//! 1. whole members. One cluster an answer: each member. Several: every combination of 1 to k members where those are at
//!    most [`COMBINATIONS_MAX`], by size and then in colexicographic order; else the windows of 1 to k neighbours on the
//!    ring of members in declared order, by length and then by start.
//! 2. parts of one member, for when only some of its addresses may be answered: with 2 or 3 addresses every non-empty
//!    part by its bit mask, with more of them each single address.
//! 3. every address of every member, if the pool can come to answer it: one list for each set of members that clients of
//!    some view see, for the first [`EVERYONE_MAX`] sets of two and more.
//! 4. the fallback addresses, if there are any.

use std::sync::Arc;

use fairway_model::{AnswerMode, Cluster, DownAnswer, Pool};

use super::{
    answer::Family,
    pool::{AddressSet, Member},
    views::{ClassMembers, MemberSet},
};

/// Most combinations that are numbered one by one; a pool with more takes windows.
const COMBINATIONS_MAX: u32 = 64;

/// Most lists of every address; clients whose view is none of these get one member in place of all.
pub(super) const EVERYONE_MAX: usize = 16;

/// Most answers of one family a pool can have: 8 windows and 8 parts for each of 255 members, and the down answers.
pub const SETS_MAX: u16 =
    (Pool::ANSWERS_MAX as u16 + Cluster::ADDRESSES_MAX as u16) * Pool::MEMBERS_MAX as u16 + EVERYONE_MAX as u16 + 1;

/// How the answers of one family are numbered.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Members that have an address of the family.
    pub(super) members: u8,
    /// Clusters an answer names at most: what was asked for, as far as there are so many members.
    pub(super) answers: u8,
    /// Whether windows of the ring are numbered, and not combinations.
    pub(super) windows: bool,
    /// The answers with every address; none where the pool never answers all.
    pub(super) everyone: Option<Arc<Everyone>>,
    /// The fallback addresses.
    pub(super) fallback: Option<u16>,
    /// Places of the members in the order they are tried, by rank; empty unless windows are numbered.
    pub(super) ring: Box<[u8]>,
}

/// The answers with every address that the clients of a row may get.
#[derive(Debug)]
pub(super) struct Everyone {
    /// Number of the first one.
    first: u16,
    /// Whose addresses each one has, at most [`EVERYONE_MAX`].
    pub(super) sets: Box<[MemberSet]>,
    /// Which one a row has, by its place in `sets`; past the end of them for none. Empty where all rows have the first.
    by_row: Box<[u8]>,
}

impl Everyone {
    /// Numbers the sets of members that are seen in these rows, of those that have the family. One member is a set already.
    fn new(first: u16, classes: &[ClassMembers], has_family: MemberSet) -> Self {
        let mut sets: Vec<MemberSet> = Vec::new();
        let by_row = classes.iter().map(|class| {
            let seen = class.visible.and(has_family);
            let known = sets.iter().position(|set| *set == seen);
            let place = known.unwrap_or(sets.len());
            if known.is_none() && seen.len() > 1 && sets.len() < EVERYONE_MAX {
                sets.push(seen);
            } else if known.is_none() {
                return u8::MAX;
            }
            place as u8 // at most EVERYONE_MAX
        });
        let mut by_row: Vec<u8> = by_row.collect();
        if by_row.iter().all(|place| *place == 0) {
            by_row.clear();
        }
        Self { first, sets: sets.into(), by_row: by_row.into() }
    }

    fn of(&self, class: u16) -> Option<u16> {
        let place = if self.by_row.is_empty() { 0 } else { *self.by_row.get(usize::from(class))? };
        (usize::from(place) < self.sets.len()).then(|| self.first + u16::from(place))
    }
}

impl Plan {
    /// The number of every address that the clients of a row may get, if that is numbered.
    pub(super) fn everyone(&self, class: u16) -> Option<u16> {
        self.everyone.as_ref()?.of(class)
    }

    /// Numbers the answers of a family and tells each member its rank and the number of its first part.
    ///
    /// `members` are in declared order, `classes` tell who is seen where. In mode `cname` only fallback addresses are answers of
    /// a family.
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

    /// Lays out the ring of windows, now that the members are in the order they are tried.
    pub(super) fn with_ring(mut self, members: &[Member], family: Family) -> Self {
        if self.windows {
            let set = |place: &u8| &members[usize::from(*place)].address_sets[family as usize];
            let places = (0..=u8::MAX).zip(members).map(|(place, _)| place);
            let mut ring: Vec<u8> = places.filter(|place| set(place).addresses() > 0).collect();
            ring.sort_by_key(|place| set(place).rank);
            self.ring = ring.into();
        }
        self
    }

    /// How many answers are whole members.
    fn whole_answers(&self) -> u16 {
        let windows = u16::from(self.members) * u16::from(self.answers);
        combinations(self.members, self.answers).filter(|_| !self.windows && self.answers > 1).unwrap_or(windows)
    }

    /// The answer with the members of these ranks, which are distinct and at most [`Plan::answers`]; they get sorted.
    pub(super) fn combination(&self, ranks: &mut [u8]) -> u16 {
        ranks.sort_unstable();
        let smaller: u32 = (1..ranks.len()).map(|size| binomial(self.members.into(), size as u32)).sum();
        let colex: u32 = (1..).zip(&*ranks).map(|(place, rank)| binomial(u32::from(*rank), place)).sum();
        (smaller + colex) as u16 // at most COMBINATIONS_MAX
    }

    /// The answer with `length` neighbours on the ring from the member of this rank on.
    pub(super) fn window(&self, start: u8, length: u8) -> u16 {
        (u16::from(length) - 1) * u16::from(self.members) + u16::from(start)
    }
}

impl AddressSet {
    /// The answer with the addresses of a mask, which has at least one bit set.
    pub(super) fn answer(&self, mask: u32) -> u16 {
        match self.addresses() {
            _ if mask == self.all() => self.rank.into(),
            0..=3 => self.parts + mask as u16 - 1,
            _ => self.parts + mask.trailing_zeros() as u16,
        }
    }
}

/// The masks of the numbered parts of a member, in order; none where its addresses stand and fall together.
pub(super) fn parts(set: &AddressSet) -> impl Iterator<Item = u32> + use<> {
    let (all, small) = (set.all(), set.addresses() <= 3);
    let count = match set.addresses() {
        _ if set.has_one_target() => 0,
        0..=3 => all.saturating_sub(1),
        addresses => addresses,
    };
    (0..count).map(move |i| if small { i + 1 } else { 1 << i })
}

/// How many combinations of 1 to `most` out of `members` there are, if at most [`COMBINATIONS_MAX`].
fn combinations(members: u8, most: u8) -> Option<u16> {
    let mut sum = 0;
    for size in 1..=u32::from(most) {
        // Stops long before a binomial could overflow: the first, `members` itself, is at most 64 from here on.
        sum += binomial(u32::from(members), size);
        if sum > COMBINATIONS_MAX {
            return None;
        }
    }
    u16::try_from(sum).ok()
}

/// Combinations of `k` out of `n`.
fn binomial(n: u32, k: u32) -> u32 {
    // Each step's product is a binomial times its divisor, so the division is exact.
    (0..k).fold(1, |c, i| c * n.saturating_sub(i) / (i + 1))
}
