//! From loads that are predicted to how much each cluster takes.

use std::collections::BTreeMap;

use fairway_model::{Demand, Shares};

use super::{Places, Settings, acceptance, demands::Demands, evidence::Evidence};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) near: Vec<f64>,
    pub(super) spill: Vec<f64>,
    pub(super) pins: BTreeMap<Demand, usize>,
    available: Vec<bool>,
    /// Since when it is available again.
    since: Vec<f64>,
    urgent: bool,
}

/// Dead band, as a part of the budget.
const BAND: f64 = 0.02;
/// Part of the demand that has to come nearer for a move to be worth it.
const WORTH: f64 = 0.01;
const DBT: f64 = 4.0;
/// How far over its budget a cluster may be on the way.
const SLACK: f64 = 0.06;
/// What the declared split is made of: this little is taken as near, so that nearly all is split by weight.
const TRACE: f64 = 0.01;

struct View {
    demands: Vec<Demand>,
    loads: Vec<f64>,
    pinned: Vec<bool>,
    home: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
struct Picture {
    place: Vec<Option<usize>>,
    total: Vec<f64>,
    natives: Vec<f64>,
    guests: Vec<f64>,
    pinned: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Setting {
    near: Vec<f64>,
    spill: Vec<f64>,
}

impl Plan {
    pub(super) fn new(settings: &Settings) -> Self {
        let most = settings.clusters.iter().map(|c| c.split).max().unwrap_or(1).max(1) as f64;
        let count = settings.clusters.len();
        Self {
            near: settings.clusters.iter().map(|c| TRACE * c.split as f64 / most).collect(),
            spill: vec![0.0; count],
            pins: BTreeMap::new(),
            available: vec![true; count],
            since: vec![f64::NEG_INFINITY; count],
            urgent: false,
        }
    }

    pub(super) fn shares(&self, settings: &Settings) -> Shares {
        shares(settings, &self.pins, &Setting { near: self.near.clone(), spill: self.spill.clone() })
    }

    pub(super) fn available(&mut self, cluster: usize, is: bool, at: f64) {
        if self.available[cluster] == is {
            return;
        }
        self.available[cluster] = is;
        self.urgent = true;
        if is {
            self.since[cluster] = at;
            self.near[cluster] = 0.0;
            self.spill[cluster] = 0.0;
        }
    }

    /// What each cluster may get, in the unit of the capacities.
    fn budgets(&self, now: f64, settings: &Settings, whole: f64, evidence: &[Evidence], ttl: f64) -> Vec<f64> {
        let period = settings.period.as_secs_f64();
        let clusters = settings.clusters.iter().enumerate();
        let mut budgets: Vec<f64> = clusters
            .map(|(c, declared)| {
                if !self.available[c] {
                    return 0.0;
                }
                let ramp = ((now - self.since[c]) / (5.0 * ttl)).clamp(0.0, 1.0);
                declared.capacity as f64 * f64::from(declared.soft.thousandths()) / 1000.0 * ramp
            })
            .collect();
        let sum: f64 = budgets.iter().sum();
        if sum > 0.0 && whole * 1.03 > sum {
            let more = whole * 1.03 / sum;
            budgets.iter_mut().for_each(|b| *b *= more);
        }
        let split: f64 =
            settings.clusters.iter().enumerate().filter(|(c, _)| self.available[*c]).map(|(_, d)| d.split as f64).sum();
        for (c, evidence) in evidence.iter().enumerate().filter(|(c, _)| self.available[*c]) {
            let heard = evidence.last.map_or(0.0, |(at, _)| at);
            let stale = now - heard - 4.0 * period;
            let fade = (stale / (10.0 * ttl)).clamp(0.0, 1.0);
            let share = whole * settings.clusters[c].split as f64 / split;
            budgets[c] += fade * (share - budgets[c]);
        }
        budgets
    }

    pub(super) fn step(
        &mut self,
        now: f64,
        settings: &Settings,
        demands: &Demands,
        evidence: &[Evidence],
        places: &mut Places<'_>,
        debug: bool,
    ) {
        let names: Vec<Demand> = demands.iter().map(|(d, _)| *d).collect();
        let loads: Vec<f64> = demands.iter().map(|(_, it)| it.load).collect();
        let whole: f64 = loads.iter().sum();
        if names.is_empty() || whole <= 0.0 || evidence.iter().all(|e| e.last.is_none()) {
            if self.urgent {
                self.urgent = false;
            }
            return;
        }
        let home = places(&Shares::default(), &names);
        self.pins.retain(|d, _| demands.get(*d).is_some());
        let budgets = self.budgets(now, settings, whole, evidence, demands.ttl);
        self.pin(settings, demands, &budgets);
        let view =
            View { pinned: names.iter().map(|d| self.pins.contains_key(d)).collect(), demands: names, loads, home };
        let current = Setting { near: self.near.clone(), spill: self.spill.clone() };
        let before = self.look(&current, settings, &view, places);
        let over = self.excess(&before, &budgets, BAND);
        let (mut chosen, mut goal, mut best) = (current.clone(), current.clone(), f64::NEG_INFINITY);
        for (pull, slack) in [(f64::INFINITY, SLACK), (0.15, SLACK), (0.05, 2.0 * SLACK), (0.0, SLACK)] {
            if pull == 0.0 && (best > f64::NEG_INFINITY || over == 0.0) || slack > SLACK && best > f64::NEG_INFINITY {
                continue;
            }
            let g = self.improve(&current, &before, settings, &view, &budgets, pull, places);
            if g == current {
                continue;
            }
            if over == 0.0 && !self.urgent && pull == f64::INFINITY {
                let target = self.look(&g, settings, &view, places);
                let gain = target.natives.iter().sum::<f64>() - before.natives.iter().sum::<f64>();
                if gain < WORTH * whole {
                    break;
                }
            }
            if let Some((setting, near)) =
                self.approach(&current, &g, &before, slack, settings, &view, &budgets, whole, places)
                && near > best
            {
                (chosen, goal, best) = (setting, g, near);
            }
        }
        if debug {
            let show = |v: &[f64]| v.iter().map(|x| format!("{x:.2}")).collect::<Vec<_>>().join(" ");
            eprintln!(
                "{now:6.0} budget {} | predicted {} | near {} spill {} | goal {} / {} | pins {}",
                show(&budgets),
                show(&before.total),
                show(&chosen.near),
                show(&chosen.spill),
                show(&goal.near),
                show(&goal.spill),
                self.pins.len()
            );
        }
        self.near = chosen.near;
        self.spill = chosen.spill;
        self.urgent = false;
    }

    /// Demands too large to be moved with the margin stay where they are.
    fn pin(&mut self, settings: &Settings, demands: &Demands, _budgets: &[f64]) {
        let smallest = settings.clusters.iter().map(|c| c.capacity).min().unwrap_or(1) as f64;
        for (demand, it) in demands.iter() {
            let Some(at) = it.at else { continue };
            if it.load / it.stands > 0.05 * smallest && it.doubt < DBT * it.load * it.load && self.available[at] {
                self.pins.entry(*demand).or_insert(at);
            }
        }
        self.pins.retain(|_, at| self.available[*at]);
    }

    fn look(&self, setting: &Setting, settings: &Settings, view: &View, places: &mut Places<'_>) -> Picture {
        let place = places(&shares(settings, &self.pins, setting), &view.demands);
        let count = settings.clusters.len();
        let zero = || vec![0.0; count];
        let mut picture = Picture { place, total: zero(), natives: zero(), guests: zero(), pinned: zero() };
        for i in 0..view.demands.len() {
            let Some(c) = picture.place[i] else { continue };
            picture.total[c] += view.loads[i];
            if view.pinned[i] {
                picture.pinned[c] += view.loads[i];
            } else if view.home[i] == Some(c) {
                picture.natives[c] += view.loads[i];
            } else {
                picture.guests[c] += view.loads[i];
            }
        }
        picture
    }

    /// Where acceptance should go: no cluster over its budget, everything as near as that allows.
    fn improve(
        &self,
        current: &Setting,
        before: &Picture,
        settings: &Settings,
        view: &View,
        budgets: &[f64],
        pull: f64,
        places: &mut Places<'_>,
    ) -> Setting {
        let count = budgets.len();
        let most = settings.clusters.iter().map(|c| c.split).max().unwrap_or(1).max(1) as f64;
        let split: Vec<f64> = settings.clusters.iter().map(|c| c.split as f64 / most).collect();
        let pull = (0..count).map(|c| current.near[c] / split[c].max(1e-9)).fold(0.0, f64::max) + pull;
        let mut all = vec![0.0; count];
        for i in 0..view.demands.len() {
            if let (Some(home), false) = (view.home[i], view.pinned[i]) {
                all[home] += view.loads[i];
            }
        }
        let mut goal = current.clone();
        let mut picture = before.clone();
        for round in 0..8 {
            let mut settled = true;
            for c in (0..count).filter(|c| self.available[*c]) {
                let free = (budgets[c] - picture.pinned[c]).max(0.0);
                let band = BAND * budgets[c];
                let (natives, guests) = (picture.natives[c], picture.guests[c]);
                let mut expected = natives;
                if natives > free + band {
                    goal.near[c] *= free / natives;
                    expected = free;
                    settled = false;
                } else if natives < free - band && goal.near[c] < 1.0 && natives < all[c] {
                    let more = (free - natives).min(all[c] - natives);
                    let raised = (goal.near[c] + more / all[c]).min(pull * split[c]).min(1.0);
                    if raised > goal.near[c] {
                        expected += (raised - goal.near[c]) * all[c];
                        goal.near[c] = raised;
                        settled &= round > 2;
                    }
                }
                let room = (free - expected).max(0.0);
                if guests > room + band {
                    goal.spill[c] *= room / guests;
                    settled = false;
                } else if guests < room - band && goal.spill[c] < 1.0 {
                    goal.spill[c] = (goal.spill[c]
                        + goal.spill[c].max(0.05) * ((room - guests) / guests.max(band)).min(1.0))
                    .min(1.0);
                    settled &= round > 2;
                }
            }
            if settled {
                break;
            }
            picture = self.look(&goal, settings, view, places);
        }
        goal
    }

    /// By how much clusters are over their budgets, and a bit more.
    fn excess(&self, picture: &Picture, budgets: &[f64], slack: f64) -> f64 {
        let clusters = (0..budgets.len()).filter(|c| self.available[*c]);
        clusters.map(|c| (picture.total[c] - budgets[c] * (1.0 + slack)).max(0.0)).sum()
    }

    /// As far towards the goal as a step may go, and what is near then.
    #[allow(clippy::too_many_arguments)]
    fn approach(
        &self,
        current: &Setting,
        goal: &Setting,
        before: &Picture,
        slack: f64,
        settings: &Settings,
        view: &View,
        budgets: &[f64],
        whole: f64,
        places: &mut Places<'_>,
    ) -> Option<(Setting, f64)> {
        let full = self.excess(before, budgets, 0.1) > 0.0;
        let limit = if self.urgent {
            f64::INFINITY
        } else if full {
            0.12
        } else {
            0.03
        } * whole;
        let allowed = self.excess(before, budgets, slack) + 1e-9;
        let mut part = 1.0;
        for _ in 0..7 {
            let way = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + part * (b - a)).collect::<Vec<_>>();
            let setting = Setting { near: way(&current.near, &goal.near), spill: way(&current.spill, &goal.spill) };
            let picture = self.look(&setting, settings, view, places);
            let moved: f64 =
                (0..view.loads.len()).filter(|i| before.place[*i] != picture.place[*i]).map(|i| view.loads[i]).sum();
            if moved <= limit && self.excess(&picture, budgets, slack) <= allowed {
                return Some((setting, picture.natives.iter().sum()));
            }
            part /= 2.0;
        }
        None
    }
}

fn shares(settings: &Settings, pins: &BTreeMap<Demand, usize>, setting: &Setting) -> Shares {
    let clusters = settings.clusters.iter().enumerate();
    let acceptance = clusters.map(|(c, d)| (d.name.clone(), acceptance(setting.near[c], setting.spill[c])));
    let pins = pins.iter().map(|(d, c)| (*d, settings.clusters[*c].name.clone()));
    Shares { epoch: 0, acceptance: acceptance.collect(), pins: pins.take(Shares::PINS_MAX).collect() }
}
