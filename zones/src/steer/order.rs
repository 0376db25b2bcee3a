//! Order in which a pool tries its members: one per location class, from all rankings of the policy.
//!
//! The orders are written when the pool is compiled, as flat lists that a decision reads from the start.

use std::sync::Arc;

use fairway_model::{Latency, LocationRankings, Pool, Rank};

use super::{pool::Member, views::ClassMembers};

/// A member in the order of a location class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderStep {
    /// Index in [`super::SteerPool::members`].
    pub(super) index: u8,
    /// Number of its group in the order.
    pub(super) group: u8,
    marks: u8,
}

impl OrderStep {
    const ENDS_GROUP: u8 = 1;
    const NEXT_MAY_HELP: u8 = 2;

    /// True for the last member of a group, where the walk may stop.
    #[inline]
    pub(super) fn ends_group(self) -> bool {
        self.marks & Self::ENDS_GROUP != 0
    }

    /// True if the next group may join this one when too little of its weight is admitted.
    #[inline]
    pub(super) fn next_may_help(self) -> bool {
        self.marks & Self::NEXT_MAY_HELP != 0
    }
}

/// Returns the group of a member, or `u8::MAX` if it is not in the order.
pub(super) fn group_of(order: &[OrderStep], index: u8) -> u8 {
    order.iter().find(|step| step.index == index).map_or(u8::MAX, |step| step.group)
}

/// The orders of all location classes. Copies share memory.
#[derive(Clone, Debug)]
pub(super) struct MemberOrders {
    steps: Arc<[OrderStep]>,
    /// Start of each order, and the end of the last one.
    starts: Arc<[u32]>,
}

impl MemberOrders {
    /// Returns the order of each location class, with the members visible in it. `members` are sorted by index.
    pub(super) fn new(members: &[Member], ranking: &OrderKeys<'_>, classes: &[ClassMembers]) -> Self {
        let pool = ranking.pool;
        // Every member is a group of its own if the first one is the answer, or if each is asked to accept the client.
        let is_single = pool.policy.selection.is_in_order() && (pool.policy.load || pool.answers == 1);
        let (mut steps, mut starts) = (Vec::new(), vec![0]);
        for ClassMembers { base, visible } in classes {
            let seen = (0..=u8::MAX).zip(members).filter(|(_, member)| visible.contains(member.number));
            let mut keys: Vec<_> = seen.map(|(index, member)| (ranking.key(*base, member), index)).collect();
            keys.sort_unstable();
            steps.extend(lay_out(&keys, is_single));
            starts.push(u32::try_from(steps.len()).expect("65,535 classes of 255 members"));
        }
        Self { steps: steps.into(), starts: starts.into() }
    }

    /// Returns the order of a location class. Empty for an unknown class.
    #[inline]
    pub(super) fn class(&self, class: u16) -> &[OrderStep] {
        let class = usize::from(class);
        match (self.starts.get(class), self.starts.get(class + 1)) {
            (Some(begin), Some(end)) => self.steps.get(*begin as usize..*end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns the number of location classes.
    pub(super) fn count(&self) -> u16 {
        (self.starts.len() - 1) as u16 // at most 65,535
    }

    /// True if there is one location class, with all members in one group.
    pub(super) fn is_one_group(&self, members: &[Member]) -> bool {
        self.is_one_class(members) && self.steps.iter().all(|step| step.group == 0)
    }

    /// True if there is one location class, with all members.
    pub(super) fn is_one_class(&self, members: &[Member]) -> bool {
        self.starts.len() == 2 && self.steps.len() == members.len()
    }
}

/// Sort key of a member: standby last, then its ranks, then its number.
pub(super) type Key = (bool, [u16; RANKINGS], u8);

/// Number of rankings that exist. A repeated ranking has no effect.
const RANKINGS: usize = 5;

/// Inputs of the members' order.
pub(super) struct OrderKeys<'a> {
    pub(super) pool: &'a Pool,
    pub(super) location: &'a LocationRankings,
    /// Index in the declared pool of each compiled member, by number.
    pub(super) declared: &'a [usize],
}

impl OrderKeys<'_> {
    /// Returns the sort key of a member in a location class.
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
}

/// Returns the mean latency of a member, by its number, from the clients of a location class; `None` if it is not known or not compared.
pub(super) type MemberLatencies<'a> = dyn Fn(u16, u8) -> Option<Latency> + 'a;

impl OrderKeys<'_> {
    /// Returns the mean latencies of the members in these location classes.
    pub(super) fn latencies(&self, classes: &[ClassMembers]) -> impl Fn(u16, u8) -> Option<Latency> {
        move |class, member| {
            let base = classes.get(usize::from(class))?.base;
            self.location.latencies.get(base, self.declared[usize::from(member)])
        }
    }
}

/// Returns the order of sorted members.
fn lay_out(keys: &[(Key, u8)], single: bool) -> Vec<OrderStep> {
    let group_of =
        |at: usize| keys.get(at).map(|((standby, ranks, number), _)| (standby, ranks, single.then_some(number)));
    let mut group = 0;
    let mut steps = Vec::with_capacity(keys.len());
    for (at, (_, index)) in keys.iter().enumerate() {
        let next = keys.get(at + 1).map(|((standby, ..), _)| *standby);
        let mut marks = 0;
        if group_of(at) != group_of(at + 1) {
            marks |= OrderStep::ENDS_GROUP;
            marks |= if next == Some(false) { OrderStep::NEXT_MAY_HELP } else { 0 };
        }
        steps.push(OrderStep { index: *index, group, marks });
        if marks & OrderStep::ENDS_GROUP != 0 {
            group = group.saturating_add(1);
        }
    }
    steps
}
