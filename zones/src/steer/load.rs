//! Pools that heed load: each member takes its share of the clients that come to it, and the others go on.
//!
//! For a client, in the order of its row:
//!
//! 1. Demand that is held goes where it is held, while that member can be answered.
//! 2. Each group offers the client to the member that it would fall to without load. The member takes it where a draw of
//!    16 bits, hashed from client and group, is below its acceptance: the *near* one in the first group that has a
//!    candidate, the *spill* one in all others. Otherwise the next group is asked. Standby members are asked only when no
//!    other is a candidate.
//! 3. Nobody took it: it falls to one of all candidates, by weight × near acceptance; where all of that is 0, by weight.
//!
//! Of the clients that fall to a member it takes `acceptance / 65535`, whoever else is in its group: the shares of a group
//! are weight × acceptance over its whole weight. What a changed acceptance moves is that margin of that member, and no
//! one else's clients. The draw is of the group, so that a client which comes to fall to its neighbour is not drawn anew.

use fairway_model::{ClusterName, Demand, mix};

use super::{
    Choice, ClientNet, Kind, Sight, SteerPool, Trace, log2,
    order::Step,
    pick::{Entry, Picked, Picking, Score},
    pool::Member,
    weighted,
};
use crate::{Draw, RuntimeState, balanced::Balanced, hash::seed};

/// How a client came to its member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Its best group took it.
    #[default]
    Near,
    /// A better group had candidates, and did not take it.
    Spill,
    /// Its demand is held there.
    Pinned,
    /// Nobody took it, so it fell to one of all.
    Rest,
}

/// Where the demand of a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The cluster that is answered first.
    pub cluster: &'a ClusterName,
    /// How the client came to it.
    pub reach: Reach,
    /// What stands for the client's demand on the pool.
    pub demand: Demand,
}

/// A member that is asked whether it takes a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether it is of the client's best group.
    pub near: bool,
    /// How much it takes, in 65535ths.
    pub acceptance: u16,
    /// What is held against it, 0 to 65534: the client is taken where that is below.
    pub draw: u16,
}

impl Offer {
    /// Whether the member takes the client.
    pub fn is_taken(self) -> bool {
        self.draw < self.acceptance
    }
}

/// What is decided for whom, in a pool that heeds load.
#[derive(Clone, Copy)]
pub(super) struct Offered<'a> {
    pub(super) row: &'a [Step],
    /// Stands for the client.
    pub(super) seed: u64,
    /// None where everybody takes everything.
    pub(super) balanced: Option<&'a Balanced>,
}

impl Offered<'_> {
    /// What is offered to a member of the group that has this key.
    #[inline]
    fn offer(&self, balanced: &Balanced, group: u64, member: &Member, near: bool) -> Offer {
        let acceptance = balanced.acceptance(member.cluster);
        let acceptance = if near { acceptance.local } else { acceptance.overflow };
        let hash = mix(mix(self.seed ^ group) ^ seed::OFFER);
        // 16 bits spread over 0 to 65534, so that an acceptance of 65535 takes everybody.
        Offer { near, acceptance, draw: (((hash >> 48) * 65_535) >> 16) as u16 }
    }
}

/// What a member is to the choice: a candidate, of which a part only, or none.
pub(super) type Fit = Option<bool>;

impl SteerPool {
    /// Where the demand of a client goes: the decision that answers queries, and what balancing needs to know of it.
    ///
    /// None where the answer is no choice among members.
    pub fn route(&self, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Option<Route<'_>> {
        let mut watch = Watch::default();
        let choice = self.choose(kind, runtime, client, draw, &mut watch);
        let number = choice.members.as_slice().first()?;
        Some(Route { cluster: self.cluster(*number), reach: watch.0, demand: self.demand(client, draw) })
    }

    /// What stands for the demand of a client on this pool.
    pub fn demand(&self, client: ClientNet, draw: Draw) -> Demand {
        self.demand_of(weighted::seed(self.spread, client, draw))
    }

    #[inline]
    pub(super) fn demand_of(&self, seed: u64) -> Demand {
        Demand(mix(seed ^ self.key))
    }

    /// The member that takes the client, and how it came to it; none where nobody does, or nobody fits.
    #[inline(always)]
    pub(super) fn taker<T: Trace>(
        &self,
        offered: &Offered<'_>,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<(Entry, Reach)> {
        let held = offered.balanced.filter(|balanced| balanced.has_pins());
        let held = held.and_then(|balanced| balanced.pin(self.demand_of(offered.seed)));
        if let Some(entry) = held.and_then(|cluster| self.holder(offered.row, cluster, &fits, trace)) {
            return Some((entry, Reach::Pinned));
        }
        let mut reach = Reach::Near;
        for group in offered.row.chunk_by(|step, _| !step.ends_group()) {
            let first = &self.members[usize::from(group[0].place)];
            if first.standby && reach == Reach::Spill && self.others_fit(offered.row, &fits, trace) {
                break;
            }
            let best = match group {
                [_] => {
                    fits(first, trace).map(|part| (Entry { score: Score::FIRST, place: group[0].place, part }, first))
                }
                _ => self.best_of(group, offered.seed, &fits, trace),
            };
            let Some((entry, member)) = best else { continue };
            let Some(balanced) = offered.balanced else { return Some((entry, reach)) };
            let offer = offered.offer(balanced, first.key, member, reach == Reach::Near);
            trace.offer(member.number, offer);
            if offer.is_taken() {
                return Some((entry, reach));
            }
            reach = Reach::Spill;
        }
        None
    }

    /// The candidate of a group that the client would fall to without load. A call of its own, so that where each member is a group
    /// the loop over them keeps its registers.
    #[inline(never)]
    fn best_of<T: Trace>(
        &self,
        group: &[Step],
        seed: u64,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<(Entry, &Member)> {
        let mut best = None::<(Entry, &Member)>;
        for step in group {
            let member = &self.members[usize::from(step.place)];
            let Some(part) = fits(member, trace) else { continue };
            let entry = Entry { score: weighted::score(seed, member.key, member.weight), place: step.place, part };
            if best.is_none_or(|(best, _)| entry.beats(&best)) {
                best = Some((entry, member));
            }
        }
        best
    }

    /// Whether a member that is not standby is a candidate: then none that is standby is asked.
    #[cold]
    fn others_fit<T: Trace>(&self, row: &[Step], fits: impl Fn(&Member, &mut T) -> Fit, trace: &mut T) -> bool {
        let members = row.iter().map(|step| &self.members[usize::from(step.place)]);
        members.filter(|member| !member.standby).any(|member| fits(member, trace).is_some())
    }

    /// The member of the cluster that holds the client's demand, if it is a candidate.
    #[cold]
    fn holder<T: Trace>(
        &self,
        row: &[Step],
        cluster: u16,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<Entry> {
        let mut others = false;
        for step in row {
            let member = &self.members[usize::from(step.place)];
            let Some(part) = fits(member, trace) else { continue };
            if member.cluster == cluster {
                return (!member.standby || !others).then_some(Entry {
                    score: Score::default(),
                    place: step.place,
                    part,
                });
            }
            others |= !member.standby;
        }
        None
    }

    /// One of all candidates, for a client that nobody takes.
    #[cold]
    pub(super) fn rest(&self, offered: &Offered<'_>, fits: impl Fn(&Member) -> Fit) -> Option<Entry> {
        let seed = mix(offered.seed ^ seed::REST);
        let mut best: Option<(Leftover, u8)> = None;
        for step in offered.row {
            let member = &self.members[usize::from(step.place)];
            if member.standby && best.as_ref().is_some_and(|(_, place)| !self.members[usize::from(*place)].standby) {
                break;
            }
            let Some(part) = fits(member) else { continue };
            let near = offered.balanced.map_or(u16::MAX, |balanced| balanced.acceptance(member.cluster).local);
            let left = Leftover {
                part,
                cost: log2::cost(mix(seed ^ member.key)),
                accepted: u32::from(member.weight) * u32::from(near),
                weight: member.weight,
            };
            if best.as_ref().is_none_or(|(best, _)| left.beats(best)) {
                best = Some((left, step.place));
            }
        }
        best.map(|(left, place)| Entry { score: Score::default(), place, part: left.part })
    }

    /// Chooses in a stage of a pool that heeds load; none where nobody fits in either family.
    #[inline(never)]
    pub(super) fn offer<const K: usize, T: Trace>(
        &self,
        picking: &Picking<'_>,
        offered: &Offered<'_>,
        trace: &mut T,
    ) -> Option<Choice> {
        let sight = |member: &Member| picking.lens.sight(member, picking.admitted, picking.wanted > 1);
        let heard = |member: &Member, trace: &mut T| {
            let sight = sight(member);
            trace.member(member.number, sight);
            fit(sight)
        };
        let taken = self.taker(offered, heard, trace);
        let taken = taken.or_else(|| Some((self.rest(offered, |member| fit(sight(member)))?, Reach::Rest)));
        let mut picked = Picked::<K>::new(picking.wanted, picking.admitted);
        if let Some((entry, reach)) = taken {
            trace.reached(reach);
            picked.begin(entry, group_of(offered.row, entry.place));
            if K > 1 && !entry.part {
                self.join(offered, &mut picked, reach != Reach::Spill, |member| fit(sight(member)));
            }
        }
        picked.elsewhere = offered.row.iter().any(|s| sight(&self.members[usize::from(s.place)]) == Sight::Elsewhere);
        self.answer(picking, &picked)
    }

    /// Adds members of the same group that take the client as well, for answers that name several.
    fn join<const K: usize>(
        &self,
        offered: &Offered<'_>,
        picked: &mut Picked<K>,
        near: bool,
        fits: impl Fn(&Member) -> Fit,
    ) {
        let (first, group) = picked.first_and_group();
        let mut members = offered.row.iter().filter(|step| step.group == group).peekable();
        let key = members.peek().map_or(0, |step| self.members[usize::from(step.place)].key);
        for step in members.filter(|step| step.place != first) {
            let member = &self.members[usize::from(step.place)];
            let takes = offered.balanced.is_none_or(|balanced| offered.offer(balanced, key, member, near).is_taken());
            if takes && fits(member) == Some(false) {
                let score = weighted::score(offered.seed, member.key, member.weight);
                picked.offer(Entry { score, place: step.place, part: false });
            }
        }
    }
}

fn fit(sight: Sight) -> Fit {
    matches!(sight, Sight::Candidate | Sight::Part).then_some(sight == Sight::Part)
}

/// The group of a member in a row.
pub(super) fn group_of(row: &[Step], place: u8) -> u8 {
    row.iter().find(|step| step.place == place).map_or(u8::MAX, |step| step.group)
}

/// How much a candidate is preferred for a client that nobody took.
struct Leftover {
    part: bool,
    cost: u64,
    /// Weight × near acceptance.
    accepted: u32,
    weight: u16,
}

impl Leftover {
    fn beats(&self, other: &Self) -> bool {
        if self.part != other.part {
            return other.part;
        }
        match (self.accepted, other.accepted) {
            (0, 0) => self.cost * u64::from(other.weight) < other.cost * u64::from(self.weight),
            (0, _) => false,
            (_, 0) => true,
            // Costs have 47 bits and weights 32 here.
            (own, theirs) => u128::from(self.cost) * u128::from(theirs) < u128::from(other.cost) * u128::from(own),
        }
    }
}

/// Listens for how a client came to its member.
#[derive(Default)]
struct Watch(Reach);

impl Trace for Watch {
    fn reached(&mut self, reach: Reach) {
        self.0 = reach;
    }
}
