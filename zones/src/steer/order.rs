//! The order in which a pool tries its members: one for each row of its territory, by all rankings of its policy.
//!
//! It is laid out when the pool is compiled, as flat lists of small steps; a decision reads one of them from its begin.

use std::sync::Arc;

use fairway_model::{Pool, Rank, Selection};

use super::{partition::LocationRankings, pool::Member, views::ClassMembers};

/// A member in the order of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderStep {
    /// Its place in [`super::SteerPool::members`].
    pub(super) place: u8,
    /// Counts the groups of the row.
    pub(super) group: u8,
    marks: u8,
}

impl OrderStep {
    const ENDS_GROUP: u8 = 1;
    const NEXT_MAY_HELP: u8 = 2;

    /// The last of its group: here it is decided whether the next group takes part.
    #[inline]
    pub(super) fn ends_group(self) -> bool {
        self.marks & Self::ENDS_GROUP != 0
    }

    /// Whether the next group may join this one when it is short of weight, and not only replace it.
    #[inline]
    pub(super) fn next_may_help(self) -> bool {
        self.marks & Self::NEXT_MAY_HELP != 0
    }
}

/// The group of a member in a row.
pub(super) fn group_of(class: &[OrderStep], place: u8) -> u8 {
    class.iter().find(|step| step.place == place).map_or(u8::MAX, |step| step.group)
}

/// The orders of all rows. Copies share their memory.
#[derive(Clone, Debug)]
pub(super) struct MemberOrders {
    steps: Arc<[OrderStep]>,
    /// Where each row begins, and where the last one ends.
    starts: Arc<[u32]>,
}

impl MemberOrders {
    /// Lays out every row, of the members that can be seen in it. `members` are in the order of their places.
    pub(super) fn new(members: &[Member], ranking: &OrderKeys<'_>, classes: &[ClassMembers]) -> Self {
        let (mut steps, mut starts) = (Vec::new(), vec![0]);
        for ClassMembers { base, visible } in classes {
            let seen = (0..=u8::MAX).zip(members).filter(|(_, member)| visible.contains(member.number));
            let mut keys: Vec<_> = seen.map(|(place, member)| (ranking.key(*base, member), place)).collect();
            keys.sort_unstable();
            steps.extend(lay_out(&keys, ranking.is_single()));
            starts.push(u32::try_from(steps.len()).expect("65,535 classes of 255 members"));
        }
        Self { steps: steps.into(), starts: starts.into() }
    }

    /// The order of a row; nobody where there is no such row.
    #[inline]
    pub(super) fn class(&self, class: u16) -> &[OrderStep] {
        let class = usize::from(class);
        match (self.starts.get(class), self.starts.get(class + 1)) {
            (Some(begin), Some(end)) => self.steps.get(*begin as usize..*end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Whether there is one row, which has all members in one group.
    pub(super) fn is_one_group(&self, members: &[Member]) -> bool {
        self.is_one_class(members) && self.steps.iter().all(|step| step.group == 0)
    }

    /// Whether there is one row, which has all members.
    pub(super) fn is_one_class(&self, members: &[Member]) -> bool {
        self.starts.len() == 2 && self.steps.len() == members.len()
    }
}

/// Ranks of a member by each ranking, after whether it is standby; then its number, for equals.
pub(super) type Key = (bool, [u16; RANKINGS], u8);

/// As many rankings as there are; one named twice says nothing the second time.
const RANKINGS: usize = 5;

/// What the order of members follows from.
pub(super) struct OrderKeys<'a> {
    pub(super) pool: &'a Pool,
    pub(super) location: &'a LocationRankings,
    /// The place in the pool of each member that is compiled, by its number.
    pub(super) declared: &'a [usize],
}

impl OrderKeys<'_> {
    /// What members of a row are sorted by.
    pub(super) fn key(&self, class: u16, member: &Member) -> Key {
        let declared = self.declared[usize::from(member.number)];
        let mut places = self.location.rankings.iter();
        let mut ranks = [0; RANKINGS];
        for (rank, by) in ranks.iter_mut().zip(self.pool.policy.rankings()) {
            *rank = match by {
                Rank::Tier => member.tier.into(),
                Rank::Cost => self.pool.members[declared].cost,
                Rank::Geo | Rank::Nearest | Rank::Latency { .. } => {
                    places.next().map_or(0, |classes| classes.rank(class, declared))
                }
            };
        }
        (member.standby, ranks, member.number)
    }

    /// Whether every member is a group of its own: where the first is taken, and either it alone is answered or each is
    /// asked whether it takes more.
    fn is_single(&self) -> bool {
        self.pool.policy.selection == Selection::First && (self.pool.policy.load || self.pool.answers == 1)
    }
}

/// The steps of sorted members.
fn lay_out(keys: &[(Key, u8)], single: bool) -> Vec<OrderStep> {
    let group_of =
        |at: usize| keys.get(at).map(|((standby, ranks, number), _)| (standby, ranks, single.then_some(number)));
    let mut group = 0;
    let mut steps = Vec::with_capacity(keys.len());
    for (at, (_, place)) in keys.iter().enumerate() {
        let next = keys.get(at + 1).map(|((standby, ..), _)| *standby);
        let mut marks = 0;
        if group_of(at) != group_of(at + 1) {
            marks |= OrderStep::ENDS_GROUP;
            marks |= if next == Some(false) { OrderStep::NEXT_MAY_HELP } else { 0 };
        }
        steps.push(OrderStep { place: *place, group, marks });
        if marks & OrderStep::ENDS_GROUP != 0 {
            group = group.saturating_add(1);
        }
    }
    steps
}
