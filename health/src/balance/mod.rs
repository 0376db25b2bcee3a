//! How much of its traffic each cluster takes: from reports of load and from who asks, to [`Shares`]. Pure: time comes in
//! as an argument, chance is not used, and where a demand is answered is asked of the caller, who asks the real decision.
//!
//! ```text
//!  queries ──► demands   what each client network carries, and where its last answer sent it
//!                 ▲ │
//!  reports ──► evidence  what a report differs from what was expected, laid to those that moved
//!                   ▼
//!  flips ────► budgets ──► goal ──► plan   acceptance moved a bounded step, large demands pinned ──► Shares
//! ```
//!
//! Reports are late, and clients follow an answer only when their caches ask again. Acting on a report as if it told of
//! now is what makes load control swing. Here a report is held against what should have been there *when it was
//! measured*: what is wrong with that is learnt, at a gain that falls with the noise, and every step is then tried on
//! what is known of all demands before it is taken. `docs/policies/load.md` has the formulas and the reasons.

mod age;
mod budgets;
mod demands;
mod evidence;
mod goal;
mod picture;
mod plan;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use fairway_model::{AcceptedShare, ClusterName, Demand, LoadReport, Permille, Shares};

use self::{
    demands::Demands,
    evidence::{Alike, Evidence},
    plan::Plan,
};

/// A cluster as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Its name.
    pub name: ClusterName,
    /// What it can carry, in the unit of its load reports; 0 counts as 1.
    pub capacity: u64,
    /// Load it is kept under while all others can be, too. Default 800.
    pub soft: Permille,
    /// Load that it is not given more than, as long as there is room elsewhere. Default 1000.
    pub hard: Permille,
    /// Its part of the declared split, relative to the others': what holds where load is not known. Default: the capacity.
    pub split: u64,
}

/// What balancing is told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The clusters. Their places in this list stand for them in every call.
    pub clusters: Vec<Declared>,
    /// From one report of a gateway to the next.
    pub period: Duration,
    /// TTL of the answers; where pools differ, the largest.
    pub ttl: Duration,
    /// Of so many queries one is told to [`Balancer::asked`]; 1 = all.
    pub sampled: u32,
}

/// Who asks for a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandKind {
    /// A source that is proven to receive our answers. What it carries is learnt.
    Proven,
    /// Nobody: it stands for clients that no proven source asks for, as the caller spreads them. What they carry is learnt, and no
    /// report is disbelieved for it.
    StandIn,
}

/// Where each of these demands is answered under these shares and the health of now, by the real decision; none where
/// that is not known.
pub type Places<'a> = dyn FnMut(&Shares, &[Demand]) -> Vec<Option<usize>> + 'a;

/// What is known of a drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drain {
    /// When the last client should have left: the last answer, and the TTL, or for how long that client kept answers before.
    pub over: Instant,
    /// Load that is still there, in the unit of the capacities.
    pub left: f64,
}

/// How much a TTL should leave to the next minutes. The daemon makes a TTL of it, within declared bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caution {
    /// Nothing moved for ten TTLs: answers may be kept for long.
    Calm,
    /// As declared.
    Ordinary,
    /// A cluster is away or over its budget, or reports are missing: answers should not be kept for long.
    Short,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was believed.
    Believed,
    /// It says far less than what is known to be there: passed over.
    Disbelieved,
    /// Measured before every client has asked once: where most of the demand is was not known then.
    Early,
    /// Not newer than the last one.
    Old,
    /// Of a cluster that is not declared.
    Unknown,
}

/// What survives a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Near and spill acceptance of each cluster.
    pub acceptance: Vec<(ClusterName, AcceptedShare)>,
    /// Where large demands are held.
    pub pins: Vec<(Demand, ClusterName)>,
    /// Demands: what each carries, the variance of that, and where it was sent.
    pub demands: Vec<(Demand, f64, f64, ClusterName)>,
}

/// The controller: told what happens, it decides [`Shares`] at each [`Balancer::step`].
#[derive(Debug)]
pub struct Balancer {
    settings: Settings,
    /// What times are counted from.
    origin: Instant,
    demands: Demands,
    evidence: Vec<Evidence>,
    plan: Plan,
    shares: Shares,
}

impl Balancer {
    /// Starts from the declared split, or from what was kept; clusters that are not declared any more are passed over.
    pub fn new(settings: Settings, now: Instant, kept: Option<&Kept>) -> Self {
        let ttl = settings.ttl.as_secs_f64() * f64::from(settings.sampled.max(1));
        let mut balancer = Self {
            demands: Demands::new(ttl.max(1e-3)),
            evidence: vec![Evidence::default(); settings.clusters.len()],
            plan: Plan::new(&settings),
            shares: Shares::default(),
            settings,
            origin: now,
        };
        if let Some(kept) = kept {
            balancer.restore(kept);
        }
        balancer.shares = balancer.plan.shares(&balancer.settings);
        balancer
    }

    /// What holds now.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// A query of a proven source was answered: whose demand, with which cluster, when.
    pub fn asked(&mut self, demand: Demand, cluster: usize, at: Instant) {
        self.asked_as((DemandKind::Proven, 1.0), demand, cluster, at);
    }

    /// Adds an answered query: the kind of its source and the demand's weight there (0 to 1), the demand, the cluster and the time. Until a
    /// report covers it, the demand counts as this part of a typical source.
    pub fn asked_as(&mut self, kind: (DemandKind, f64), demand: Demand, cluster: usize, at: Instant) {
        if cluster < self.evidence.len() {
            let at = self.secs(at);
            self.demands.asked_as(kind, demand, cluster, at);
        }
    }

    /// How many demands of proven sources are known, and the sum of their weights.
    pub fn proven(&self) -> (usize, f64) {
        let proven = self.demands.iter().filter(|(_, it)| it.kind == DemandKind::Proven);
        proven.fold((0, 0.0), |sum, (_, it)| (sum.0 + 1, sum.1 + it.weight))
    }

    /// Forgets a demand, unless a proven source asks for it.
    pub fn forget(&mut self, demand: Demand) {
        self.demands.forget(demand);
    }

    /// A gateway told its load, which is known from now on.
    pub fn report(&mut self, report: &LoadReport, now: Instant) -> Heard {
        let Some(place) = self.place(&report.cluster) else { return Heard::Unknown };
        let (at, now) = (self.secs(report.at), self.secs(now));
        if !self.evidence[place].is_new(report.sequence, at) {
            return Heard::Old;
        }
        if !self.demands.have_all_asked(at, 0.0) {
            return Heard::Early;
        }
        let load = f64::from(report.load.0) / 1000.0 * self.settings.clusters[place].capacity.max(1) as f64;
        let forgotten = self.plan.means(now, &self.settings, &self.evidence).forgotten(place);
        let alike = self.expected(place, at).map(|load| Alike { load, forgotten });
        let is_believed = self.evidence[place].hear(place, load, at, alike, &mut self.demands);
        self.plan.late(now - at + self.evidence[place].age());
        if is_believed { Heard::Believed } else { Heard::Disbelieved }
    }

    /// A cluster can be answered, or cannot any more. A step should follow before the flip is served.
    pub fn available(&mut self, cluster: usize, is: bool, at: Instant) {
        let at = self.secs(at);
        self.plan.available(cluster, is, at);
    }

    /// Decides anew: once a report period, and at every flip. `places` is asked at most about a hundred
    /// times, at a flip four times that.
    pub fn step(&mut self, now: Instant, places: &mut Places<'_>) {
        let now = self.secs(now);
        self.demands.expire(now);
        self.demands.guess(now);
        self.plan.step(now, &self.settings, &self.demands, &self.evidence, places);
        let next = self.plan.shares(&self.settings);
        if next.accepted != self.shares.accepted || next.pins != self.shares.pins {
            self.shares = Shares { epoch: self.shares.epoch.wrapping_add(1), ..next };
        }
    }

    /// How far the drain of a cluster is, or how long it would take.
    pub fn drain(&self, cluster: usize, now: Instant) -> Drain {
        let (over, left) = self.demands.left(cluster, self.secs(now));
        Drain { over: self.origin + Duration::from_secs_f64(over.max(0.0)), left }
    }

    /// How much a TTL should leave to the next minutes.
    pub fn caution(&self, now: Instant) -> Caution {
        let (now, ttl) = (self.secs(now), self.settings.ttl.as_secs_f64());
        let hold = budgets::HOLD_PERIODS * self.settings.period.as_secs_f64();
        let silent = self.evidence.iter().any(|evidence| now - evidence.heard() > hold);
        match now - self.plan.moved() {
            _ if silent || self.plan.is_strained() => Caution::Short,
            still if still > 10.0 * ttl => Caution::Calm,
            _ => Caution::Ordinary,
        }
    }

    /// What a restart should find again.
    pub fn keep(&self) -> Kept {
        let name = |place: usize| self.settings.clusters[place].name.clone();
        let proven = self.demands.iter().filter(|(_, it)| it.kind == DemandKind::Proven);
        let demands = proven.filter_map(|(d, it)| Some((*d, it.load, it.doubt, name(it.at?))));
        Kept {
            acceptance: self.shares.accepted.iter().map(|(name, given)| (name.clone(), *given)).collect(),
            pins: self.shares.pins.iter().map(|(demand, name)| (*demand, name.clone())).collect(),
            demands: demands.collect(),
        }
    }

    /// The demands that are known one by one, of which the caller must be able to say where they are answered.
    pub fn tracked(&self) -> impl Iterator<Item = Demand> {
        self.demands.iter().map(|(demand, _)| *demand)
    }

    fn restore(&mut self, kept: &Kept) {
        for (name, given) in &kept.acceptance {
            if let Some(place) = self.place(name) {
                self.plan.restore(place, *given);
            }
        }
        for (demand, name) in &kept.pins {
            if let Some(place) = self.place(name) {
                self.plan.pin(*demand, place);
            }
        }
        for (demand, load, doubt, name) in &kept.demands {
            if let Some(place) = self.place(name).filter(|_| load.is_finite() && doubt.is_finite() && *load >= 0.0) {
                self.demands.restore(*demand, *load, doubt.max(0.0), place);
            }
        }
        self.demands.guess(0.0);
    }

    fn place(&self, name: &ClusterName) -> Option<usize> {
        self.settings.clusters.iter().position(|declared| declared.name == *name)
    }

    /// Seconds since the start. What was before it counts as then.
    fn secs(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.origin).as_secs_f64()
    }

    /// What a cluster should carry if its clients are like those of the others; none if no other one tells.
    fn expected(&self, cluster: usize, at: f64) -> Option<f64> {
        let others = self.evidence.iter().enumerate().filter(|(other, _)| *other != cluster);
        let reported = others.filter_map(|(_, evidence)| evidence.told()).filter(|(_, count)| *count > 0.0);
        let sum = reported.fold((0.0, 0.0), |sum, (load, count)| (sum.0 + load, sum.1 + count));
        (sum.1 > 0.0).then(|| sum.0 / sum.1 * self.demands.count_at(cluster, at))
    }
}
