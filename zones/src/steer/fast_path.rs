//! Fast path of the decision: one live member of a pool whose members are alike, without stages.
//!
//! It never differs from [`SteerPool::choose`], which a property test compares it with. Both exist for speed: this
//! one reads each member once, without stages and without a list of candidates. A query takes 831 instructions with
//! it and 1,247 without for a weighted pool, 946 and 1,346 for one that ranks by location (callgrind as in
//! `bench/run --tripwire`).

use fairway_model::{AnswerMode, Health, Selection};

use super::{
    answer::Family,
    client_net::ClientNet,
    eligibility::is_live,
    load::{Fit, LoadRequest},
    pool::{Member, SteerPool},
};
use crate::{
    client::Draw,
    runtime::RuntimeState,
    steer::{pool::FastPath, score::Score},
};

impl SteerPool {
    /// Returns the numbers of the answer and its member if [`SteerPool::choose`] would answer with one whole live
    /// member.
    ///
    /// Returns `None` if the slow path has to decide.
    #[inline(always)]
    pub(crate) fn choose_fast(
        &self,
        family: Family,
        runtime: &RuntimeState,
        client: ClientNet,
        draw: Draw,
    ) -> Option<(u16, u8)> {
        let best = match self.fast_path[family as usize] {
            FastPath::None => None,
            FastPath::First => self.best(family, &runtime.health, Score::by_place),
            FastPath::Weighted => {
                let seed = self.client_seed(client, draw);
                self.best(family, &runtime.health, |_, member| Score::weighted(seed, member.key, member.weight))
            }
            FastPath::Groups => {
                let request = LoadRequest {
                    order: self.orders.class(client.class()),
                    seed: self.client_seed(client, draw),
                    balanced: runtime.balanced.as_deref().filter(|_| self.load),
                    class: client.class(),
                };
                self.best_by_groups(family, &runtime.health, &request)
            }
        };
        best.map(|member| (member.address_sets[family as usize].rank.into(), member.number))
    }

    /// Returns the live member of the client: that of its slot, or else of the best group with one.
    #[inline(never)]
    fn best_by_groups(&self, family: Family, health: &[Health], request: &LoadRequest<'_>) -> Option<&Member> {
        let fits = live(family, health);
        let (entry, _) = self.member_by_load(request, |member, (): &mut ()| fits(member), &mut ())?;
        Some(&self.members[usize::from(entry.index)])
    }

    /// Returns the live member with the best score. `None` if there is none, or if a member that is not live could
    /// cause panic.
    ///
    /// Not inlined, like the function above, so that the loop keeps its registers.
    #[inline(never)]
    fn best(&self, family: Family, health: &[Health], score: impl Fn(usize, &Member) -> Score) -> Option<&Member> {
        let (mut best, mut winner) = (Score::LAST, None);
        for (index, member) in self.members.iter().enumerate() {
            let target = member.address_sets[family as usize].at as usize;
            if health.get(target).is_none_or(|health| !is_live(*health)) {
                if self.panic_threshold != 0 {
                    return None;
                }
                continue;
            }
            let score = score(index, member);
            if score.beats(&best) {
                (best, winner) = (score, Some(member));
            }
        }
        winner
    }

    /// Loads the memory that a choice reads of the pool itself.
    #[inline]
    pub(crate) fn touch(&self) -> (Selection, usize, u16) {
        (self.chooses, self.members.len(), self.panic_threshold)
    }

    /// Loads the memory that a choice reads of the members.
    #[inline]
    pub(crate) fn touch_members(&self) -> Option<u64> {
        let (first, last) = (self.members.first()?, self.members.last()?);
        Some(first.key ^ last.key)
    }

    /// Returns the fast path of a family.
    ///
    /// There is one if every member has one target, may be the whole answer and is always open, and if no group is
    /// weighed against the next.
    pub(super) fn fast_path_of(&self, family: Family) -> FastPath {
        let plan = &self.plans[family as usize];
        let one_target = |member: &Member| member.address_sets[family as usize].has_one_target();
        let alike = self.mode == AnswerMode::Address
            && plan.answers == 1
            && !self.members.is_empty()
            && self.details.schedules.is_empty()
            && self.members.iter().all(one_target);
        match (alike, self.chooses, self.load) {
            (false, ..) => FastPath::None,
            (_, Selection::First, false) if self.orders.is_one_class(&self.members) => FastPath::First,
            (_, Selection::Weighted, false) if self.orders.is_one_group(&self.members) => FastPath::Weighted,
            // Panic and `minHealthy` depend on members beyond the chosen group.
            _ if self.panic_threshold != 0 => FastPath::None,
            (_, Selection::Weighted, false) if self.min_healthy == 0 => FastPath::Groups,
            (_, Selection::First, _) | (.., true) => FastPath::Groups,
            _ => FastPath::None,
        }
    }
}

/// Returns the test for a live member, which is whole since it has one target.
#[inline(always)]
fn live(family: Family, health: &[Health]) -> impl Fn(&Member) -> Fit + Copy {
    move |member| {
        let target = member.address_sets[family as usize].at as usize;
        health.get(target).is_some_and(|health| is_live(*health)).then_some(false)
    }
}
