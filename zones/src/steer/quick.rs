//! The choice most queries need: one live member of a pool whose members are alike, without a walk over stages and tiers.
//!
//! It says nothing that [`SteerPool::choose`] would not say; a law in the tests holds the two against each other.

use fairway_model::{Mode, Policy};

use super::{
    ClientNet, Family, SteerPool, failover,
    pick::Score,
    pool::Member,
    standing::{LIVE, standing},
    weighted,
};
use crate::{Conditions, Draw};

impl SteerPool {
    /// The number of the answer and that of its member, where [`SteerPool::choose`] would answer with one whole live member;
    /// none where more has to be weighed, or somebody listens.
    #[inline]
    pub(crate) fn choose_quickly(
        &self,
        family: Family,
        conditions: &Conditions,
        client: ClientNet,
        draw: Draw,
    ) -> Option<(u16, u8)> {
        if !self.alike[family as usize] {
            return None;
        }
        let best = match self.policy {
            Policy::Failover => self.best(family, conditions, failover::score),
            Policy::Weighted => {
                let seed = weighted::seed(self.spread, client, draw);
                self.best(family, conditions, |_, member| weighted::score(seed, member.key, member.weight))
            }
        };
        best.map(|member| (member.spots[family as usize].rank.into(), member.number))
    }

    /// The live member that scores best; none where nobody is live, or where one who is not might mean panic.
    #[inline(always)]
    fn best(&self, family: Family, conditions: &Conditions, score: impl Fn(u8, &Member) -> Score) -> Option<&Member> {
        let health = conditions.all();
        let mut best: Option<(Score, &Member)> = None;
        for (place, member) in (0..=u8::MAX).zip(&self.members) {
            let target = member.spots[family as usize].at as usize;
            if health.get(target).is_none_or(|health| standing(*health) != LIVE) {
                if self.panic_threshold != 0 {
                    return None;
                }
                continue;
            }
            let score = score(place, member);
            if best.as_ref().is_none_or(|(best, _)| score.beats(best)) {
                best = Some((score, member));
            }
        }
        best.map(|(_, member)| member)
    }

    /// Reads what a choice reads of the pool itself.
    #[inline]
    pub(crate) fn touch(&self) -> (Policy, usize, u16) {
        (self.policy, self.members.len(), self.panic_threshold)
    }

    /// Reads what a choice reads of its members.
    #[inline]
    pub(crate) fn touch_members(&self) -> Option<u64> {
        let (first, last) = (self.members.first()?, self.members.last()?);
        Some(first.key ^ last.key)
    }

    /// Whether the members of a family are alike: each has one target and may be the whole answer, and no tier of several
    /// members has to be weighed against the next one.
    pub(super) fn are_alike(&self, family: Family) -> bool {
        let plan = &self.plans[family as usize];
        let one_target = |member: &Member| member.spots[family as usize].has_one_target();
        let one_tier = self.members.iter().all(|member| member.group == 0);
        self.mode == Mode::Address
            && plan.answers == 1
            && !self.members.is_empty()
            && self.members.iter().all(one_target)
            && (one_tier || self.policy == Policy::Failover)
    }
}
