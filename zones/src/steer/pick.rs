//! Walks the groups of one stage and keeps the best candidates.

use fairway_model::Health;

use super::{
    answer::{Answer, Basis, Candidacy, Choice, Family, Kind, Members},
    eligibility::{EligibilitySet, OUT, PENDING, eligibility},
    order::OrderStep,
    pool::{AddressSet, Member, SteerPool},
    trace::Trace,
};
use crate::{
    runtime::RuntimeState,
    shares::CompiledShares,
    steer::{order::group_of, score::Score},
    target::TargetIndex,
};

/// Inputs of a choice: the question and the client.
#[derive(Clone, Copy)]
pub(super) struct ChoiceRequest<'a> {
    pub(super) kind: Kind,
    /// Location class of the client.
    pub(super) class: u16,
    /// Members in the order of that class. Members that the client may not see are missing.
    pub(super) order: &'a [OrderStep],
    /// Hash of the client, or of the draw.
    pub(super) seed: u64,
}

/// View of the pool's members in a runtime state.
pub(super) struct MemberFilter<'a> {
    health: &'a [Health],
    targets: &'a [TargetIndex],
    kind: Kind,
    /// Members that may take part, one bit per number. `None` for all.
    only: Option<&'a [u64]>,
    /// Members that their schedules close, one bit per number. Empty if the pool uses no schedules.
    closed: &'a [u64],
    /// Tables of load control, if there are any.
    pub(super) balanced: Option<&'a CompiledShares>,
}

impl<'a> MemberFilter<'a> {
    pub(super) fn new(pool: &'a SteerPool, runtime: &'a RuntimeState, kind: Kind) -> Self {
        Self {
            health: &runtime.health,
            targets: &pool.targets,
            kind,
            only: None,
            closed: runtime.closed(pool),
            balanced: runtime.balanced.as_deref(),
        }
    }

    /// Returns the filter that admits only these members.
    pub(super) fn only(&self, members: &'a [u64]) -> Self {
        Self { only: Some(members), ..*self }
    }

    /// Returns the eligibility of all addresses of a member. A closed member is out.
    pub(super) fn any(&self, member: &Member) -> EligibilitySet {
        if self.is_closed(member) { OUT } else { self.whole(member) }
    }

    /// Returns the eligibility of a member's addresses of one family; 0 if it has none, or is closed.
    pub(super) fn of_family(&self, member: &Member, family: Family) -> EligibilitySet {
        if self.is_closed(member) { 0 } else { self.eligibility_of(&member.address_sets[family as usize]) }
    }

    /// True if the member, or an address of this family, must not be in any answer.
    pub(super) fn is_out(&self, member: &Member, family: Family) -> bool {
        self.is_closed(member) || self.eligibility_of(&member.address_sets[family as usize]) & OUT != 0
    }

    /// True if the member's schedule has closed it.
    #[inline]
    fn is_closed(&self, member: &Member) -> bool {
        !self.closed.is_empty() && has(self.closed, member.number)
    }

    #[inline]
    fn whole(&self, member: &Member) -> EligibilitySet {
        self.eligibility_of(&member.address_sets[0]) | self.eligibility_of(&member.address_sets[1])
    }

    /// Returns the eligibility of a member's addresses of one family.
    #[inline]
    fn eligibility_of(&self, set: &AddressSet) -> EligibilitySet {
        if set.has_one_target() {
            return self.eligibility(TargetIndex(set.at));
        }
        self.spread_targets(set).iter().fold(0, |seen, target| seen | self.eligibility(*target))
    }

    /// Returns the eligibility of the addresses that the question is about.
    #[inline]
    fn asked(&self, member: &Member) -> EligibilitySet {
        match self.kind {
            Kind::Addresses(family) => self.eligibility_of(&member.address_sets[family as usize]),
            Kind::Cname => self.whole(member),
        }
    }

    /// Returns the eligibility of the addresses of the other family.
    fn other(&self, member: &Member) -> EligibilitySet {
        match self.kind {
            Kind::Addresses(family) => self.eligibility_of(&member.address_sets[family.other() as usize]),
            Kind::Cname => 0,
        }
    }

    /// Returns the mask of the admitted addresses.
    fn mask(&self, set: &AddressSet, admitted: EligibilitySet) -> u32 {
        if set.has_one_target() {
            return set.all();
        }
        let targets = (0..).zip(self.spread_targets(set));
        targets.fold(0, |mask, (i, target)| mask | u32::from(self.eligibility(*target) & admitted != 0) << i)
    }

    fn spread_targets(&self, set: &AddressSet) -> &[TargetIndex] {
        let begin = set.at as usize;
        self.targets.get(begin..begin + set.addresses() as usize).unwrap_or_default()
    }

    /// A target that the runtime state does not know is pending.
    #[inline]
    fn eligibility(&self, target: TargetIndex) -> EligibilitySet {
        self.health.get(target.0 as usize).map_or(PENDING, |health| eligibility(*health))
    }

    /// Returns the candidacy of a member that takes no part, or `None` for all others.
    #[cold]
    fn left_out(&self, member: &Member) -> Option<Candidacy> {
        if self.is_closed(member) {
            return Some(Candidacy::Closed);
        }
        (!self.only.is_none_or(|words| has(words, member.number))).then_some(Candidacy::Excluded)
    }
}

/// True if a member's bit is set.
fn has(words: &[u64], number: u8) -> bool {
    words.get(usize::from(number / 64)).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankedCandidate {
    pub(super) score: Score,
    /// Index in [`SteerPool::members`].
    pub(super) index: u8,
    /// True if only some of its addresses are admitted. Whole members come first.
    pub(super) is_partial: bool,
}

impl RankedCandidate {
    #[inline]
    pub(super) fn beats(&self, other: &Self) -> bool {
        if self.is_partial == other.is_partial { self.score.beats(&other.score) } else { other.is_partial }
    }
}

/// The best candidates of a stage, best first: at most `wanted` of the capacity K.
pub(super) struct BestCandidates<const K: usize> {
    entries: [RankedCandidate; K],
    count: usize,
    wanted: usize,
    /// True if a member has admitted addresses of the other family only.
    pub(super) elsewhere: bool,
    /// First and last group with a candidate.
    groups: [u8; 2],
}

impl<const K: usize> BestCandidates<K> {
    pub(super) fn new(wanted: u8) -> Self {
        let wanted = usize::from(wanted).clamp(1, K);
        Self { entries: [RankedCandidate::default(); K], count: 0, wanted, elsewhere: false, groups: [0; 2] }
    }

    fn entries(&self) -> &[RankedCandidate] {
        &self.entries[..self.count]
    }

    /// Adds a first member, whatever the others score, and restricts the groups to its group.
    pub(super) fn begin(&mut self, entry: RankedCandidate, group: u8) {
        self.groups = [group; 2];
        self.consider(RankedCandidate { score: Score::FIRST, ..entry });
    }

    /// Returns the index of the first member and its group.
    pub(super) fn first_and_group(&self) -> (u8, u8) {
        (self.entries().first().map_or(u8::MAX, |entry| entry.index), self.groups[0])
    }

    #[inline]
    pub(super) fn consider(&mut self, entry: RankedCandidate) {
        if K == 1 {
            // The common case, without the loop.
            if self.count == 0 || entry.beats(&self.entries[0]) {
                (self.entries[0], self.count) = (entry, 1);
            }
            return;
        }
        let mut at = self.count;
        while at > 0 && entry.beats(&self.entries[at - 1]) {
            if at < self.wanted {
                self.entries[at] = self.entries[at - 1];
            }
            at -= 1;
        }
        if at < self.wanted {
            self.entries[at] = entry;
            self.count = (self.count + 1).min(self.wanted);
        }
    }

    /// True if no later candidate of policy `failover` can get in.
    fn is_full(&self) -> bool {
        self.count == self.wanted && self.entries().last().is_some_and(|last| !last.is_partial)
    }
}

/// A stage of the decision.
pub(super) struct Stage<'a> {
    pub(super) filter: &'a MemberFilter<'a>,
    /// Members in the order in which they are tried.
    pub(super) order: &'a [OrderStep],
    pub(super) basis: Basis,
    /// Eligibility that may be answered.
    pub(super) admitted: EligibilitySet,
    /// Number of clusters to name.
    pub(super) wanted: u8,
}

impl Stage<'_> {
    /// Returns the candidacy of a member. Only answers with several members distinguish members of which only some
    /// addresses are admitted.
    #[inline(always)]
    pub(super) fn candidacy(&self, member: &Member) -> Candidacy {
        let &Self { filter, admitted, wanted, .. } = self;
        if (filter.only.is_some() || !filter.closed.is_empty())
            && let Some(candidacy) = filter.left_out(member)
        {
            return candidacy;
        }
        let asked = filter.asked(member);
        if asked & admitted == 0 {
            return if filter.other(member) & admitted == 0 { Candidacy::Ineligible } else { Candidacy::Elsewhere };
        }
        if wanted > 1 && asked & !admitted != 0 { Candidacy::Partial } else { Candidacy::Candidate }
    }
}

impl SteerPool {
    /// Returns the answer with the best admitted candidates. `None` if no member is admitted in either family.
    ///
    /// The walk stops at the first group with a candidate. It continues if less than `minHealthy` of the group's weight
    /// is admitted, and then the next group joins. Weight counts members of both families, so that both stop at the
    /// same group.
    #[inline(never)]
    pub(super) fn pick<const K: usize, T: Trace>(
        &self,
        stage: &Stage<'_>,
        score: impl Fn(usize, &Member) -> Score,
        trace: &mut T,
    ) -> Option<Choice> {
        let mut picked = BestCandidates::<K>::new(stage.wanted);
        let (mut fit, mut total) = (0u64, 0u64);
        for (at, step) in stage.order.iter().enumerate() {
            let member = &self.members[usize::from(step.index)];
            let candidacy = stage.candidacy(member);
            trace.member(member.number, candidacy);
            let weight = u64::from(member.weight);
            total += weight;
            if let Candidacy::Candidate | Candidacy::Partial = candidacy {
                fit += weight;
                picked.groups[1] = step.group;
                picked.consider(RankedCandidate {
                    score: score(at, member),
                    index: step.index,
                    is_partial: candidacy == Candidacy::Partial,
                });
                if self.chooses.is_in_order() && picked.is_full() {
                    break;
                }
            } else if candidacy == Candidacy::Elsewhere {
                fit += weight;
                picked.elsewhere = true;
            }
            if step.ends_group() {
                let short = fit * 1000 < total * u64::from(self.min_healthy);
                if picked.count > 0 && !(short && step.next_may_help()) {
                    break;
                }
                (fit, total) = (0, 0);
            }
        }
        self.answer(stage, &picked)
    }

    /// Returns how many clusters an answer of this kind names at most.
    pub(super) fn wanted(&self, kind: Kind) -> u8 {
        match kind {
            Kind::Addresses(family) => self.plans[family as usize].answers,
            Kind::Cname => 1,
        }
    }

    /// Returns the answer of a stage. `None` if no candidate was found in either family.
    pub(super) fn answer<const K: usize>(&self, stage: &Stage<'_>, picked: &BestCandidates<K>) -> Option<Choice> {
        let basis = stage.basis;
        let Some(first) = picked.entries().first() else {
            return picked.elsewhere.then(|| Choice::without_members(Answer::Nothing, basis));
        };
        let mut members = Members::default();
        members.push(self.members[usize::from(first.index)].number);
        let answer = match stage.filter.kind {
            Kind::Cname => Answer::Member(self.members[usize::from(first.index)].number),
            Kind::Addresses(family) => Answer::Set(self.set(family, stage, picked, first, &mut members)),
        };
        Some(Choice { answer, members, basis })
    }

    /// Returns the number of the candidates' address list and adds the further members to `members`.
    fn set<const K: usize>(
        &self,
        family: Family,
        stage: &Stage<'_>,
        picked: &BestCandidates<K>,
        first: &RankedCandidate,
        members: &mut Members,
    ) -> u16 {
        let plan = &self.plans[family as usize];
        let set = |index: u8| &self.members[usize::from(index)].address_sets[family as usize];
        if plan.answers == 1 || first.is_partial {
            return set(first.index).answer(stage.filter.mask(set(first.index), stage.admitted));
        }
        let start = set(first.index).rank;
        if plan.windows {
            let further = (1..plan.answers).map(|step| (u16::from(start) + u16::from(step)) % u16::from(plan.members));
            let further = further.map(|rank| plan.ring[usize::from(rank)]);
            let fits = |index: &u8| {
                let member = &self.members[usize::from(*index)];
                (picked.groups[0]..=picked.groups[1]).contains(&group_of(stage.order, *index))
                    && stage.candidacy(member) == Candidacy::Candidate
            };
            further.take_while(fits).for_each(|index| members.push(self.members[usize::from(index)].number));
            return plan.window(start, members.as_slice().len() as u8);
        }
        let (mut ranks, mut count) = ([start; 8], 1);
        for entry in picked.entries()[1..].iter().filter(|entry| !entry.is_partial) {
            ranks[count] = set(entry.index).rank;
            count += 1;
            members.push(self.members[usize::from(entry.index)].number);
        }
        plan.combination(&mut ranks[..count])
    }
}
