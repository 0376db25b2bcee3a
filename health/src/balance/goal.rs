//! Where acceptance should go: no cluster over its budget, and everything as near as that allows.

use super::picture::{Picture, Scene, Setting};

/// Dead band: as a part of the budget, what a cluster may be off it.
pub(super) const BAND: f64 = 0.02;
/// Times that a goal is corrected by what it would lead to.
const ROUNDS: usize = 8;
/// Rounds after which only too much is corrected, and no more room is looked for.
const FILLING_ROUNDS: usize = 3;

impl Scene<'_, '_> {
    /// Corrects a setting in a few rounds, each by what the last one would lead to.
    ///
    /// Clusters that take few of their own, as in the declared split, come home together: `pull` is by how much the near
    /// acceptance of the foremost may grow, in the proportions of the declared split. What nobody takes is shared in the
    /// proportions of near acceptance, so that one that runs ahead would get all of it.
    /// `fills` says whether room is offered to guests, too.
    pub(super) fn goal(&mut self, current: &Setting, before: &Picture, pull: f64, fills: bool) -> Setting {
        let reach = self.reach(current, pull);
        let at_home = self.at_home();
        let overflow = self.clusters().map(|place| (at_home[place] - self.free(before, place)).max(0.0)).sum();
        let (mut goal, mut picture) = (current.clone(), before.clone());
        let mut known = vec![Bracket::default(); self.budgets.len()];
        for round in 0..ROUNDS {
            let mut settled = true;
            let before = self.foremost(&goal, &at_home);
            for place in self.clusters() {
                let near = if at_home[place] > 0.0 {
                    let own = (at_home[place], reach[place]);
                    self.correct_near(&mut goal, &picture, place, own, &mut known[place])
                } else {
                    Correction::NONE
                };
                let spill = self.correct_spill(&mut goal, &picture, place, near.natives, fills);
                settled &= !near.is_cut && !spill.is_cut;
                settled &= round >= FILLING_ROUNDS || !near.is_raised && !spill.is_raised;
            }
            let growth = if before > 0.0 { self.foremost(&goal, &at_home) / before } else { 1.0 };
            for place in self.clusters().filter(|place| at_home[*place] <= 0.0) {
                settled &= !self.keep_up(&mut goal, &picture, place, growth, overflow);
            }
            if settled {
                break;
            }
            picture = self.look(&goal);
        }
        goal
    }

    /// How far the near acceptance of each cluster may be raised.
    fn reach(&self, current: &Setting, pull: f64) -> Vec<f64> {
        let split = self.split();
        let foremost = current.near.iter().zip(&split).map(|(near, part)| near / part.max(1e-9)).fold(0.0, f64::max);
        split.iter().map(|part| if pull.is_finite() { ((foremost + pull) * part).min(1.0) } else { 1.0 }).collect()
    }

    /// The declared split, as parts of the largest.
    fn split(&self) -> Vec<f64> {
        let most = self.settings.clusters.iter().map(|c| c.split).max().unwrap_or(1).max(1) as f64;
        self.settings.clusters.iter().map(|c| c.split as f64 / most).collect()
    }

    /// Near acceptance of the foremost of those that have clients of their own, as a part of its declared split.
    fn foremost(&self, goal: &Setting, at_home: &[f64]) -> f64 {
        let split = self.split();
        let homes = self.clusters().filter(|place| at_home[*place] > 0.0);
        homes.map(|place| goal.near[place] / split[place].max(1e-9)).fold(0.0, f64::max)
    }

    /// A cluster that nobody is at home in, as the dearer one where all go to the cheaper: its near acceptance says only how much
    /// it gets of what nobody takes. It grows with that of the others, or what nobody takes would all fall to those at
    /// once; and it is held to what those cannot carry. Tells whether it is corrected.
    fn keep_up(&self, goal: &mut Setting, picture: &Picture, place: usize, growth: f64, overflow: f64) -> bool {
        let wanted = overflow.min(self.free(picture, place));
        let guests = picture.guests[place];
        let is_off = (guests - wanted).abs() > BAND * self.budgets[place];
        let factor = if is_off { (wanted / guests.max(1e-9)).clamp(0.5, 2.0) } else { 1.0 };
        let near = &mut goal.near[place];
        *near = (*near * growth * factor).min(1.0);
        is_off
    }

    /// Load of the demands that are at home in each cluster, wherever they are now, without pinned ones.
    fn at_home(&self) -> Vec<f64> {
        let mut at_home = vec![0.0; self.budgets.len()];
        for (i, load) in self.loads.iter().enumerate().filter(|(i, _)| !self.pinned[*i]) {
            if let Some(all) = self.home[i].and_then(|place| at_home.get_mut(place)) {
                *all += load;
            }
        }
        at_home
    }

    /// A cluster's own clients come first, up to its budget: `all` of them there are, and `reach` is how far near acceptance may go.
    fn correct_near(
        &self,
        goal: &mut Setting,
        picture: &Picture,
        place: usize,
        (all, reach): (f64, f64),
        known: &mut Bracket,
    ) -> Correction {
        let free = self.free(picture, place);
        let band = BAND * self.budgets[place];
        let natives = picture.natives[place];
        let near = &mut goal.near[place];
        if natives > free + band {
            *near = known.below(*near, *near * free / natives);
            return Correction { natives: free, is_cut: true, is_raised: false };
        }
        if natives < free - band && natives < all && *near < reach {
            let raised = known.above(*near, *near + (free - natives).min(all - natives) / all).min(reach);
            let expected = natives + (raised - *near) * all;
            *near = raised;
            return Correction { natives: expected, is_cut: false, is_raised: true };
        }
        Correction { natives, is_cut: false, is_raised: false }
    }

    /// What its own clients leave is for others.
    fn correct_spill(
        &self,
        goal: &mut Setting,
        picture: &Picture,
        place: usize,
        natives: f64,
        fills: bool,
    ) -> Correction {
        let room = (self.free(picture, place) - natives).max(0.0);
        let band = BAND * self.budgets[place];
        let guests = picture.guests[place];
        let spill = &mut goal.spill[place];
        let is_cut = guests > room + band;
        let is_raised = fills && guests < room - band && *spill < 1.0;
        if is_cut {
            *spill *= room / guests;
        } else if is_raised {
            let growth = ((room - guests) / guests.max(band)).min(1.0);
            *spill = (*spill + spill.max(0.05) * growth).min(1.0);
        }
        Correction { natives, is_cut, is_raised }
    }

    /// What a cluster may get beside its pinned demands.
    fn free(&self, picture: &Picture, place: usize) -> f64 {
        (self.budgets[place] - picture.pinned[place]).max(0.0)
    }
}

/// Between which values of a cluster's near acceptance its own clients fill its budget: the more it takes the more it has, but
/// where most of the load lies in a few clients, a small step may bring nearly all of it, and what the mean client lets expect
/// swings about the goal for ever. Then the middle is tried.
#[derive(Clone, Copy)]
struct Bracket {
    too_little: f64,
    too_much: f64,
}

impl Default for Bracket {
    fn default() -> Self {
        Self { too_little: f64::NEG_INFINITY, too_much: f64::INFINITY }
    }
}

impl Bracket {
    /// `at` was too much; `expected`, if nothing speaks against it.
    fn below(&mut self, at: f64, expected: f64) -> f64 {
        self.too_much = at;
        self.within(expected)
    }

    /// `at` was too little; `expected`, if nothing speaks against it.
    fn above(&mut self, at: f64, expected: f64) -> f64 {
        self.too_little = at;
        self.within(expected)
    }

    fn within(&self, expected: f64) -> f64 {
        let is_open = expected > self.too_little && expected < self.too_much;
        if is_open { expected } else { (self.too_little + self.too_much) / 2.0 }
    }
}

/// What a round did to one acceptance.
struct Correction {
    /// Load of the cluster's own clients that is expected then.
    natives: f64,
    is_cut: bool,
    is_raised: bool,
}

impl Correction {
    const NONE: Self = Self { natives: 0.0, is_cut: false, is_raised: false };
}
