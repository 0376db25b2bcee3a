//! Walks the groups of one stage and keeps the preferred candidates.

use fairway_model::{Health, Selection};

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

/// What is asked and for whom.
#[derive(Clone, Copy)]
pub(super) struct ChoiceRequest<'a> {
    pub(super) kind: Kind,
    /// The row of the client's place, by its number.
    pub(super) place: u16,
    /// In which order members are tried there; those that the client may not see are not in it.
    pub(super) class: &'a [OrderStep],
    /// Stands for the client.
    pub(super) seed: u64,
}

/// The pool's members as the runtime state shows them.
pub(super) struct MemberFilter<'a> {
    health: &'a [Health],
    targets: &'a [TargetIndex],
    kind: Kind,
    /// Members that may take part, by number, one bit each; all where there is none.
    only: Option<&'a [u64]>,
    /// Members that are closed by their schedules, likewise; empty where the pool heeds none.
    closed: &'a [u64],
    /// What members take; none where everybody takes everything.
    pub(super) balanced: Option<&'a CompiledShares>,
}

impl<'a> MemberFilter<'a> {
    pub(super) fn new(pool: &'a SteerPool, runtime: &'a RuntimeState, kind: Kind) -> Self {
        Self {
            health: runtime.all(),
            targets: &pool.targets,
            kind,
            only: None,
            closed: runtime.closed(pool),
            balanced: runtime.balanced(),
        }
    }

    /// The same, with only these members taking part.
    pub(super) fn only(&self, members: &'a [u64]) -> Self {
        Self { only: Some(members), ..*self }
    }

    /// The standings of all addresses of a member. One that is closed is out, whatever its health.
    pub(super) fn any(&self, member: &Member) -> EligibilitySet {
        if self.is_closed(member) { OUT } else { self.whole(member) }
    }

    /// Whether nothing may bring the member, or an address of its family, into an answer.
    pub(super) fn is_out(&self, member: &Member, family: Family) -> bool {
        self.is_closed(member) || self.eligibility_of(&member.address_sets[family as usize]) & OUT != 0
    }

    /// Whether its schedule has closed it.
    #[inline]
    fn is_closed(&self, member: &Member) -> bool {
        !self.closed.is_empty() && has(self.closed, member.number)
    }

    #[inline]
    fn whole(&self, member: &Member) -> EligibilitySet {
        self.eligibility_of(&member.address_sets[0]) | self.eligibility_of(&member.address_sets[1])
    }

    /// The standings of its addresses of one family.
    #[inline]
    fn eligibility_of(&self, set: &AddressSet) -> EligibilitySet {
        if set.has_one_target() {
            return self.eligibility(TargetIndex(set.at));
        }
        self.spread_targets(set).iter().fold(0, |seen, target| seen | self.eligibility(*target))
    }

    /// What the member offers to the question.
    #[inline]
    fn asked(&self, member: &Member) -> EligibilitySet {
        match self.kind {
            Kind::Addresses(family) => self.eligibility_of(&member.address_sets[family as usize]),
            Kind::Cname => self.whole(member),
        }
    }

    /// What the member offers to another question only.
    fn other(&self, member: &Member) -> EligibilitySet {
        match self.kind {
            Kind::Addresses(family) => self.eligibility_of(&member.address_sets[family.other() as usize]),
            Kind::Cname => 0,
        }
    }

    /// The addresses whose standing is admitted, as a mask.
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

    /// A target that the runtime state does not know was never judged.
    #[inline]
    fn eligibility(&self, target: TargetIndex) -> EligibilitySet {
        self.health.get(target.0 as usize).map_or(PENDING, |health| eligibility(*health))
    }

    /// What a member is that takes no part; none of all others.
    #[cold]
    fn left_out(&self, member: &Member) -> Option<Candidacy> {
        if self.is_closed(member) {
            return Some(Candidacy::Closed);
        }
        (!self.only.is_none_or(|words| has(words, member.number))).then_some(Candidacy::Excluded)
    }

    /// What a member is to this stage. `whole` asks to tell apart those of which only a part may be answered.
    #[inline(always)]
    pub(super) fn candidacy(&self, member: &Member, admitted: EligibilitySet, whole: bool) -> Candidacy {
        if (self.only.is_some() || !self.closed.is_empty())
            && let Some(candidacy) = self.left_out(member)
        {
            return candidacy;
        }
        let asked = self.asked(member);
        if asked & admitted == 0 {
            return if self.other(member) & admitted == 0 { Candidacy::Ineligible } else { Candidacy::Elsewhere };
        }
        if whole && asked & !admitted != 0 { Candidacy::Partial } else { Candidacy::Candidate }
    }
}

/// Whether the bit of a member is set.
fn has(words: &[u64], number: u8) -> bool {
    words.get(usize::from(number / 64)).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankedCandidate {
    pub(super) score: Score,
    /// Its place in [`SteerPool::members`].
    pub(super) place: u8,
    /// Only some of its addresses may be answered, and whole members go first.
    pub(super) part: bool,
}

impl RankedCandidate {
    #[inline]
    pub(super) fn beats(&self, other: &Self) -> bool {
        if self.part == other.part { self.score.beats(&other.score) } else { other.part }
    }
}

/// The preferred candidates of a stage, best first: room for K, used up to what is wanted.
pub(super) struct BestCandidates<const K: usize> {
    entries: [RankedCandidate; K],
    count: usize,
    wanted: usize,
    /// A member fits, but only for another family.
    pub(super) elsewhere: bool,
    /// The first and the last group that took part.
    groups: [u8; 2],
    admitted: EligibilitySet,
}

impl<const K: usize> BestCandidates<K> {
    pub(super) fn new(wanted: u8, admitted: EligibilitySet) -> Self {
        let wanted = usize::from(wanted).clamp(1, K);
        Self { entries: [RankedCandidate::default(); K], count: 0, wanted, elsewhere: false, groups: [0; 2], admitted }
    }

    fn entries(&self) -> &[RankedCandidate] {
        &self.entries[..self.count]
    }

    /// Begins with a member that comes first whatever others score, and with its group alone.
    pub(super) fn begin(&mut self, entry: RankedCandidate, group: u8) {
        self.groups = [group; 2];
        self.consider(RankedCandidate { score: Score::FIRST, ..entry });
    }

    /// The place of the first member, and its group.
    pub(super) fn first_and_group(&self) -> (u8, u8) {
        (self.entries().first().map_or(u8::MAX, |entry| entry.place), self.groups[0])
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

    /// Whether nothing that a policy prefers less can still get in.
    fn is_full(&self) -> bool {
        self.count == self.wanted && self.entries().last().is_some_and(|last| !last.part)
    }
}

/// One stage, to be picked from.
pub(super) struct Stage<'a> {
    pub(super) filter: &'a MemberFilter<'a>,
    /// In which order members are tried.
    pub(super) class: &'a [OrderStep],
    pub(super) basis: Basis,
    /// Standings that may be answered.
    pub(super) admitted: EligibilitySet,
    /// Clusters to name.
    pub(super) wanted: u8,
}

impl SteerPool {
    /// Walks the members by group and answers with those that score best among the admitted ones; none where nobody is
    /// admitted in either family.
    ///
    /// A group is left for the next one when it has no candidate. It is joined by the next when less than `minHealthy` of
    /// its weight is admitted; that goes by the members as a whole, so that both families come to the same groups.
    #[inline(never)]
    pub(super) fn pick<const K: usize, T: Trace>(
        &self,
        stage: &Stage<'_>,
        score: impl Fn(usize, &Member) -> Score,
        trace: &mut T,
    ) -> Option<Choice> {
        let &Stage { filter, class, admitted, wanted, .. } = stage;
        let mut picked = BestCandidates::<K>::new(wanted, admitted);
        let (mut fit, mut total) = (0u64, 0u64);
        for (at, step) in class.iter().enumerate() {
            let member = &self.members[usize::from(step.place)];
            let candidacy = filter.candidacy(member, admitted, wanted > 1);
            trace.member(member.number, candidacy);
            let weight = u64::from(member.weight);
            total += weight;
            if let Candidacy::Candidate | Candidacy::Partial = candidacy {
                fit += weight;
                picked.groups[1] = step.group;
                picked.consider(RankedCandidate {
                    score: score(at, member),
                    place: step.place,
                    part: candidacy == Candidacy::Partial,
                });
                if self.chooses == Selection::First && picked.is_full() {
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

    /// Clusters an answer of this kind names at most.
    pub(super) fn wanted(&self, kind: Kind) -> u8 {
        match kind {
            Kind::Addresses(family) => self.plans[family as usize].answers,
            Kind::Cname => 1,
        }
    }

    /// The answer of a stage from what was picked; none where nobody fits in either family.
    pub(super) fn answer<const K: usize>(&self, stage: &Stage<'_>, picked: &BestCandidates<K>) -> Option<Choice> {
        let basis = stage.basis;
        let Some(first) = picked.entries().first() else {
            return picked.elsewhere.then(|| Choice::without_members(Answer::Nothing, basis));
        };
        let mut members = Members::default();
        members.push(self.members[usize::from(first.place)].number);
        let answer = match stage.filter.kind {
            Kind::Cname => Answer::Member(self.members[usize::from(first.place)].number),
            Kind::Addresses(family) => Answer::Set(self.set(family, stage, picked, first, &mut members)),
        };
        Some(Choice { answer, members, basis })
    }

    /// The number of the picked members' address list; adds the further ones to `members`.
    fn set<const K: usize>(
        &self,
        family: Family,
        stage: &Stage<'_>,
        picked: &BestCandidates<K>,
        first: &RankedCandidate,
        members: &mut Members,
    ) -> u16 {
        let (plan, filter) = (&self.plans[family as usize], stage.filter);
        let set = |place: u8| &self.members[usize::from(place)].address_sets[family as usize];
        if plan.answers == 1 || first.part {
            return set(first.place).answer(filter.mask(set(first.place), picked.admitted));
        }
        let start = set(first.place).rank;
        if plan.windows {
            let further = (1..plan.answers).map(|step| (u16::from(start) + u16::from(step)) % u16::from(plan.members));
            let further = further.map(|rank| plan.ring[usize::from(rank)]);
            let fits = |place: &u8| {
                let member = &self.members[usize::from(*place)];
                (picked.groups[0]..=picked.groups[1]).contains(&group_of(stage.class, *place))
                    && filter.candidacy(member, picked.admitted, true) == Candidacy::Candidate
            };
            further.take_while(fits).for_each(|place| members.push(self.members[usize::from(place)].number));
            return plan.window(start, members.as_slice().len() as u8);
        }
        let (mut ranks, mut count) = ([start; 8], 1);
        for entry in picked.entries()[1..].iter().filter(|entry| !entry.part) {
            ranks[count] = set(entry.place).rank;
            count += 1;
            members.push(self.members[usize::from(entry.place)].number);
        }
        plan.combination(&mut ranks[..count])
    }
}
