//! How acceptance moves: towards a goal, a bounded step at a time, and only where that pays.

use std::collections::BTreeMap;

use fairway_model::{AcceptedShare, Demand, Shares};

use super::{
    DemandKind, Places, Settings,
    budgets::{self, Means},
    demands::Demands,
    evidence::Evidence,
    goal::BAND,
    picture::{Flow, Picture, Scene, Setting},
};

/// What the declared split is made of: clusters take this little as near and nothing as spill, so that nearly every client
/// falls to one of all clusters, by weight × near acceptance.
const TRACE: f64 = 0.01;
/// Part of the smallest capacity from which on a demand is pinned.
const LUMP: f64 = 0.05;
/// Part of it from which on it is let go again.
const LUMP_NO_MORE: f64 = 0.03;
/// Variance over squared load up to which the size of a demand counts as known.
const KNOWN: f64 = 4.0;
/// Part of the demand that must come nearer for a move to pay.
const WORTH: f64 = 0.01;
/// How far over its budget a cluster may be on the way.
const SLACK: f64 = 0.06;
/// What a cluster must be over its budget by for larger steps.
const FULL: f64 = 0.1;
/// Part of the demand that may move within the time in which a move shows, TTL + lag: in calm, and while a cluster is over
/// its budget.
const PACE: (f64, f64) = (0.12, 0.48);
/// Part of its capacity that a cluster may gain, and lose, within that time while one fades.
const FADE_PACE: f64 = 0.04;
/// Times that a plan is corrected after a flip.
const FLIP_ROUNDS: usize = 4;
/// Halvings of a step until it counts as impossible.
const HALVINGS: usize = 7;

/// What is decided, and what that rests on.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    setting: Setting,
    pins: BTreeMap<Demand, usize>,
    available: Vec<bool>,
    /// Since when each cluster can be answered again.
    since: Vec<f64>,
    /// A flip that no step has followed yet.
    urgent: bool,
    /// How late reports are, in seconds.
    lag: f64,
    /// When acceptance moved last.
    moved: f64,
    /// What each cluster was thought to carry when it was heard last; none where its load was never known.
    held: Vec<Option<f64>>,
    /// What each cluster may gain and lose now while one fades. It is saved up for what is larger than a step, so that a
    /// fade goes at its pace whatever the sizes.
    saved: Vec<f64>,
    /// A cluster is away or over its budget.
    strained: bool,
    /// It began without anything kept.
    is_blank: bool,
}

/// One way to move on.
struct Attempt {
    /// Growth of near acceptance beyond the foremost; see [`Scene::goal`].
    pull: f64,
    /// Whether room is offered to guests as well.
    fills: bool,
    /// How far over its budget a cluster may be on the way.
    slack: f64,
}

/// What one step may move.
struct Limit {
    /// In all.
    whole: f64,
    /// Into and out of each cluster; clusters beyond its end are not bounded.
    each: Vec<f64>,
}

impl Limit {
    const NONE: Self = Self { whole: f64::INFINITY, each: vec![] };

    fn allows(&self, flow: &Flow) -> bool {
        flow.whole <= self.whole && flow.each.iter().zip(&self.each).all(|(moved, most)| moved <= most)
    }
}

impl Plan {
    /// The declared split.
    pub(super) fn new(settings: &Settings) -> Self {
        let most = settings.clusters.iter().map(|c| c.split).max().unwrap_or(1).max(1) as f64;
        let count = settings.clusters.len();
        let near = settings.clusters.iter().map(|c| TRACE * c.split as f64 / most).collect();
        Self {
            setting: Setting { near, spill: vec![0.0; count] },
            pins: BTreeMap::new(),
            available: vec![true; count],
            since: vec![f64::NEG_INFINITY; count],
            urgent: false,
            lag: settings.period.as_secs_f64(),
            moved: 0.0,
            held: vec![None; count],
            saved: vec![0.0; count],
            strained: false,
            is_blank: true,
        }
    }

    /// What holds, as the deciding code reads it.
    pub(super) fn shares(&self, settings: &Settings) -> Shares {
        self.setting.shares(settings, &self.pins)
    }

    /// Takes over the acceptance of a cluster from before a restart.
    pub(super) fn restore(&mut self, place: usize, given: AcceptedShare) {
        self.is_blank = false;
        self.setting.near[place] = f64::from(given.local) / 65_535.0;
        self.setting.spill[place] = f64::from(given.overflow) / 65_535.0;
    }

    /// Holds a demand where it is.
    pub(super) fn pin(&mut self, demand: Demand, place: usize) {
        if self.pins.len() < Shares::PINS_MAX {
            self.pins.entry(demand).or_insert(place);
        }
    }

    /// A report was so late, in seconds.
    pub(super) fn late(&mut self, lag: f64) {
        self.lag += 0.1 * (lag.clamp(0.0, 600.0) - self.lag);
    }

    /// When acceptance moved last.
    pub(super) fn moved(&self) -> f64 {
        self.moved
    }

    /// Whether a cluster is away or over its budget.
    pub(super) fn is_strained(&self) -> bool {
        self.strained
    }

    /// A cluster can be answered again, and takes nothing at first; or it cannot any more.
    pub(super) fn available(&mut self, place: usize, is: bool, at: f64) {
        if self.available.get(place).is_none_or(|known| *known == is) {
            return;
        }
        self.available[place] = is;
        self.urgent = true;
        if is {
            self.since[place] = at;
            (self.setting.near[place], self.setting.spill[place]) = (0.0, 0.0);
        }
    }

    /// Moves on, if it must or if it pays.
    pub(super) fn step(
        &mut self,
        now: f64,
        settings: &Settings,
        demands: &Demands,
        evidence: &[Evidence],
        places: &mut Places<'_>,
    ) {
        let silent = evidence.iter().all(|evidence| evidence.told().is_none());
        if self.is_blank && silent || !demands.have_all_asked(now, self.until_told(settings)) {
            return;
        }
        let means = self.means(now, settings, evidence);
        let loads = demands.loads(&means.all(Means::forgotten));
        let whole: f64 = loads.iter().sum();
        if whole <= 0.0 {
            return;
        }
        let (budgets, fades) = (budgets::budgets(&means, whole), means.all(Means::fade));
        self.update_pins(settings, demands);
        self.save(settings, fades.iter().any(|fade| *fade > 0.0));
        let names: Vec<Demand> = demands.iter().map(|(demand, _)| *demand).collect();
        let mut home = places(&Shares::default(), &names);
        home.resize(names.len(), None);
        let mut scene = Scene {
            settings,
            pins: &self.pins,
            available: &self.available,
            loads,
            pinned: names.iter().map(|demand| self.pins.contains_key(demand)).collect(),
            home,
            demands: names,
            budgets: budgets.now,
            places,
        };
        let before = scene.look(&self.setting);
        for (place, _) in fades.iter().enumerate().filter(|(_, fade)| **fade == 0.0) {
            self.held[place] = Some(before.total[place]);
        }
        let over = scene.excess(&before, BAND);
        self.strained = over > 0.0 || self.available.contains(&false);
        let full = |(place, budget): (usize, &f64)| before.total[place] > budget * (1.0 + FULL);
        let is_full = scene.clusters().zip(scene.clusters().map(|place| &budgets.unfaded[place])).any(full);
        let limit = self.limit(settings, whole, is_full);
        let mut next = self.choose(&mut scene, &before, over > 0.0, &limit);
        let after = scene.look(&next);
        let flow = scene.flow(&before, &after);
        self.saved.iter_mut().zip(flow.each).for_each(|(saved, moved)| *saved -= moved);
        if self.urgent {
            next = self.settle(&mut scene, next);
        }
        if next != self.setting {
            (self.setting, self.moved) = (next, now);
        }
        self.urgent = false;
    }

    /// What budgets follow from.
    pub(super) fn means<'a>(&'a self, now: f64, settings: &'a Settings, evidence: &'a [Evidence]) -> Means<'a> {
        let Self { available, since, lag, held, .. } = self;
        Means { settings, evidence, available, since, lag: *lag, held, now }
    }

    /// How long it takes, after the TTL within which every client asks, until the last one did and reports have told of it.
    fn until_told(&self, settings: &Settings) -> f64 {
        0.2 * settings.ttl.as_secs_f64() + self.lag + 2.0 * settings.period.as_secs_f64()
    }

    /// What a flip leaves over budgets is taken further at once: its clients move anyway, and nothing is to be waited for.
    fn settle(&self, scene: &mut Scene<'_, '_>, next: Setting) -> Setting {
        let mut plan = Self { setting: next, ..self.clone() };
        for _ in 0..FLIP_ROUNDS {
            let picture = scene.look(&plan.setting);
            if scene.excess(&picture, BAND) <= 0.0 {
                break;
            }
            plan.setting = plan.choose(scene, &picture, true, &Limit::NONE);
        }
        plan.setting
    }

    /// What a cluster may gain and lose grows with each step, up to what the largest demand that is not pinned needs; while
    /// none fades it is not bounded.
    fn save(&mut self, settings: &Settings, fades: bool) {
        let part = FADE_PACE * self.shown(settings);
        let lump = lump(settings);
        for (saved, declared) in self.saved.iter_mut().zip(&settings.clusters) {
            let share = part * declared.capacity.max(1) as f64;
            let most = share.max(lump);
            *saved = if fades { saved.min(most - share).max(0.0) + share } else { f64::INFINITY };
        }
    }

    /// What one step may move: so little that what it leads to is seen before much more has moved.
    fn limit(&self, settings: &Settings, whole: f64, is_full: bool) -> Limit {
        if self.urgent {
            return Limit::NONE;
        }
        let (calm, full) = PACE;
        // At least as much as the largest demand that is not pinned, or it would be in the way for ever.
        let most = |part: f64| (whole * part * self.shown(settings)).max(lump(settings));
        if is_full {
            Limit { whole: most(full), each: vec![] }
        } else {
            Limit { whole: most(calm), each: self.saved.clone() }
        }
    }

    /// What part of the time in which a move shows one period is.
    fn shown(&self, settings: &Settings) -> f64 {
        (settings.period.as_secs_f64() / (settings.ttl.as_secs_f64() + self.lag)).min(1.0)
    }

    /// Demands too large to be moved with the margin stay where they are, as long as that can be answered.
    fn update_pins(&mut self, settings: &Settings, demands: &Demands) {
        let smallest = smallest(settings);
        let available = &self.available;
        self.pins.retain(|demand, place| {
            available[*place] && demands.get(*demand).is_some_and(|it| it.load / it.stands > LUMP_NO_MORE * smallest)
        });
        let lumps = demands
            .iter()
            .filter(|(_, it)| it.kind == DemandKind::Proven)
            .filter(|(_, it)| it.load / it.stands > LUMP * smallest && it.doubt < KNOWN * it.load * it.load);
        let lumps = lumps.filter_map(|(demand, it)| Some((*demand, it.at?)));
        let lumps: Vec<_> = lumps.filter(|(_, place)| available[*place]).collect();
        for (demand, place) in lumps {
            self.pin(demand, place);
        }
    }

    /// The step that leads over budgets least, and of several such that which brings most of the demand nearer.
    fn choose(&self, scene: &mut Scene<'_, '_>, before: &Picture, is_over: bool, limit: &Limit) -> Setting {
        let attempt = |pull, fills, slack| Attempt { pull, fills, slack };
        let mut best = if is_over { (f64::INFINITY, f64::NEG_INFINITY) } else { (0.0, before.near()) };
        let mut chosen = None;
        for attempt in [attempt(f64::INFINITY, true, SLACK), attempt(0.15, true, SLACK), attempt(0.15, false, SLACK)] {
            let goal = scene.goal(&self.setting, before, attempt.pull, attempt.fills);
            let must = is_over || self.urgent;
            if attempt.pull.is_infinite() && !must && scene.look(&goal).near() - before.near() < WORTH * scene.whole() {
                return self.setting.clone();
            }
            let Some((setting, picture)) = self.approach(scene, &goal, before, attempt.slack, limit) else { continue };
            let (excess, near) = (scene.excess(&picture, SLACK), picture.near());
            let even = 1e-3 * scene.whole();
            if excess < best.0 - even || (excess < best.0 + even && near > best.1) {
                (chosen, best) = (Some(setting), (excess, near));
            }
        }
        // Nothing leads on without going over a budget: by more of it, then only away from what is over.
        let last = [attempt(0.05, true, 2.0 * SLACK), attempt(0.0, true, SLACK)];
        for attempt in last.into_iter().filter(|attempt| attempt.pull > 0.0 || is_over) {
            if chosen.is_none() {
                let goal = scene.goal(&self.setting, before, attempt.pull, attempt.fills);
                chosen = self.approach(scene, &goal, before, attempt.slack, limit).map(|(setting, _)| setting);
            }
        }
        chosen.unwrap_or_else(|| self.setting.clone())
    }

    /// As far towards a goal as a step may go: it keeps to the limit, and adds nothing to what is over budgets.
    fn approach(
        &self,
        scene: &mut Scene<'_, '_>,
        goal: &Setting,
        before: &Picture,
        slack: f64,
        limit: &Limit,
    ) -> Option<(Setting, Picture)> {
        if *goal == self.setting {
            return None;
        }
        let allowed = scene.excess(before, slack) + 1e-9;
        let mut part = 1.0;
        for _ in 0..HALVINGS {
            let setting = self.setting.towards(goal, part);
            let picture = scene.look(&setting);
            if limit.allows(&scene.flow(before, &picture)) && scene.excess(&picture, slack) <= allowed {
                return Some((setting, picture));
            }
            part /= 2.0;
        }
        None
    }
}

/// What the largest demand that is not pinned carries.
fn lump(settings: &Settings) -> f64 {
    1.01 * LUMP * smallest(settings)
}

/// The smallest capacity.
fn smallest(settings: &Settings) -> f64 {
    settings.clusters.iter().map(|c| c.capacity).min().unwrap_or(1).max(1) as f64
}
