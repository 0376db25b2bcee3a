//! Decides how much each cluster takes, from what gateways report and who asks. Pure: time comes in, chance is not used.
#![allow(missing_docs)]

mod demands;
mod evidence;
mod plan;

use std::time::{Duration, Instant};

use fairway_model::{Acceptance, ClusterName, Demand, LoadReport, Permille, Shares};

use self::{demands::Demands, evidence::Evidence, plan::Plan};

/// A cluster as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    pub name: ClusterName,
    pub capacity: u64,
    pub soft: Permille,
    pub hard: Permille,
    pub split: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub clusters: Vec<Declared>,
    pub period: Duration,
    pub ttl: Duration,
}

/// Where each of these demands is answered, under these shares and the health of now, by the real decision.
pub type Places<'a> = dyn FnMut(&Shares, &[Demand]) -> Vec<Option<usize>> + 'a;

#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    pub over: Instant,
    pub left: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub near: Vec<(ClusterName, f64, f64)>,
    pub pins: Vec<(Demand, ClusterName)>,
    pub demands: Vec<(Demand, f64, f64, ClusterName)>,
}

pub struct Balancer {
    settings: Settings,
    origin: Instant,
    demands: Demands,
    evidence: Vec<Evidence>,
    plan: Plan,
    shares: Shares,
    last_step: f64,
    pub debug: bool,
}

impl Balancer {
    pub fn new(settings: Settings, now: Instant, kept: Option<&Kept>) -> Self {
        let plan = Plan::new(&settings);
        let mut it = Self {
            demands: Demands::new(settings.ttl.as_secs_f64()),
            evidence: settings.clusters.iter().map(|_| Evidence::default()).collect(),
            shares: Shares::default(),
            plan,
            settings,
            origin: now,
            last_step: 0.0,
            debug: std::env::var("DBG").is_ok(),
        };
        if let Some(kept) = kept {
            it.restore(kept);
        }
        it.shares = it.share();
        it
    }

    fn restore(&mut self, kept: &Kept) {
        let place = |name: &ClusterName| self.settings.clusters.iter().position(|c| c.name == *name);
        for (name, near, spill) in &kept.near {
            if let Some(c) = place(name) {
                (self.plan.near[c], self.plan.spill[c]) = (*near, *spill);
            }
        }
        for (demand, name) in &kept.pins {
            if let Some(c) = place(name) {
                self.plan.pins.insert(*demand, c);
            }
        }
        for (demand, load, doubt, name) in &kept.demands {
            if let Some(c) = place(name) {
                self.demands.restore(*demand, *load, *doubt, c);
            }
        }
    }

    pub fn keep(&self, _now: Instant) -> Kept {
        let name = |c: usize| self.settings.clusters[c].name.clone();
        Kept {
            near: (0..self.evidence.len()).map(|c| (name(c), self.plan.near[c], self.plan.spill[c])).collect(),
            pins: self.plan.pins.iter().map(|(d, c)| (*d, name(*c))).collect(),
            demands: self.demands.iter().filter_map(|(d, t)| Some((*d, t.load, t.doubt, name(t.at?)))).collect(),
        }
    }

    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    fn secs(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.origin).as_secs_f64()
    }

    pub fn asked(&mut self, demand: Demand, cluster: usize, at: Instant) {
        let at = self.secs(at);
        self.demands.asked(demand, cluster, at);
    }

    pub fn report(&mut self, report: &LoadReport) {
        let Some(c) = self.settings.clusters.iter().position(|d| d.name == report.cluster) else { return };
        if report.sequence <= self.evidence[c].sequence {
            return;
        }
        self.evidence[c].sequence = report.sequence;
        let at = self.secs(report.at);
        let load = f64::from(report.load.0) / 1000.0 * self.settings.clusters[c].capacity as f64;
        let expected = self.expected(c, at);
        self.evidence[c].hear(c, load, at, expected, &mut self.demands);
    }

    /// What a cluster should carry if its clients are like those of the others; none if no other one tells.
    fn expected(&self, cluster: usize, at: f64) -> Option<f64> {
        let others = (0..self.evidence.len()).filter(|other| *other != cluster);
        let (mut load, mut caches) = (0.0, 0.0);
        for other in others {
            let Some((_, told)) = self.evidence[other].last else { continue };
            load += told;
            caches += self.evidence[other].caches;
        }
        (caches > 0.0).then(|| load / caches * self.demands.caches_at(cluster, at))
    }

    pub fn available(&mut self, cluster: usize, is: bool, at: Instant) {
        let at = self.secs(at);
        self.plan.available(cluster, is, at);
    }

    pub fn step(&mut self, now: Instant, places: &mut Places<'_>) {
        let now = self.secs(now);
        self.last_step = now;
        self.demands.expire(now);
        self.plan.step(now, &self.settings, &self.demands, &self.evidence, places, self.debug);
        let shares = self.share();
        if shares.acceptance != self.shares.acceptance || shares.pins != self.shares.pins {
            self.shares = Shares { epoch: self.shares.epoch + 1, ..shares };
        }
    }

    fn share(&self) -> Shares {
        let mut shares = self.plan.shares(&self.settings);
        shares.epoch = self.shares.epoch;
        shares
    }

    pub fn drain(&self, cluster: usize, now: Instant) -> Drain {
        let now = self.secs(now);
        let (over, left) = self.demands.left(cluster, now);
        Drain { over: self.origin + Duration::from_secs_f64(over), left }
    }

    pub fn load_of(&self, demand: Demand) -> Option<f64> {
        self.demands.get(demand).map(|t| t.load)
    }
}

fn acceptance(near: f64, spill: f64) -> Acceptance {
    let part = |x: f64| (x.clamp(0.0, 1.0) * 65535.0).round() as u16;
    Acceptance { near: part(near), spill: part(spill) }
}
