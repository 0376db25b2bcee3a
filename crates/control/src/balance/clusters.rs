//! The balanced clusters: their numbers, targets and availability.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

use fairway_health::{
    balance::{Declared, Settings},
    load::LoadUpdate,
};
use fairway_model::{AcceptedShare, ClusterName, DesiredState, Eligibility, Shares};
use fairway_zones::{RuntimeState, Snapshot, TargetIndex, steer::SteerPool};

/// The balanced clusters, by their number in [`Settings::clusters`].
#[derive(Debug)]
pub(super) struct Clusters {
    names: Vec<ClusterName>,
    /// Targets of each cluster, in all pools together.
    targets: Vec<Box<[ClusterTarget]>>,
    /// Clusters whose gateways drain or are overloaded, and when that report expires.
    exhausted: HashMap<usize, Instant>,
    /// Availability of each cluster.
    available: Vec<bool>,
    /// Availability at the start of the running step, or else of the last one.
    available_at_begin: Vec<bool>,
    /// Availability that the decision in force is based on.
    available_at_decision: Vec<bool>,
}

/// A target that decides if a cluster is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClusterTarget {
    target: TargetIndex,
    /// Number of the pool and of the member whose schedule may close it.
    scheduled: Option<(usize, u8)>,
}

/// Number and availability of a cluster.
pub(super) type Availability = (usize, bool);

impl Clusters {
    /// Returns the clusters, all of them available until the first update.
    pub(super) fn new(settings: &Settings, snapshot: &Snapshot) -> Self {
        let names: Vec<_> = settings.clusters.iter().map(|declared| declared.name.clone()).collect();
        let available = vec![true; names.len()];
        let mut clusters = Self {
            names,
            targets: vec![],
            exhausted: HashMap::new(),
            available_at_begin: available.clone(),
            available_at_decision: available.clone(),
            available,
        };
        clusters.find_targets(snapshot);
        clusters
    }

    /// Finds the targets in a new snapshot.
    pub(super) fn find_targets(&mut self, snapshot: &Snapshot) {
        let numbers = self.numbers();
        let mut targets = vec![BTreeSet::new(); self.names.len()];
        for (of_pool, pool) in balanced_pools(snapshot) {
            for (member, cluster, target) in pool.member_targets() {
                if let Some(cluster) = numbers.get(cluster) {
                    let scheduled = pool.uses_schedules().then_some((of_pool, member));
                    targets[*cluster].insert(ClusterTarget { target, scheduled });
                }
            }
        }
        self.targets = targets.into_iter().map(|targets| targets.into_iter().collect()).collect();
    }

    /// Returns the number of each cluster.
    pub(super) fn numbers(&self) -> HashMap<ClusterName, usize> {
        self.names.iter().cloned().zip(0..).collect()
    }

    /// Records whether gateways of a cluster drain or are overloaded. The record expires if no later report repeats it.
    pub(super) fn add_report(&mut self, cluster: usize, report: &LoadUpdate, now: Instant) {
        if report.is_exhausted {
            self.exhausted.insert(cluster, now + report.period * EXHAUSTED_PERIODS);
        } else {
            self.exhausted.remove(&cluster);
        }
    }

    /// Updates the availability of all clusters. Returns those that changed.
    pub(super) fn update(&mut self, snapshot: &Snapshot, runtime: &RuntimeState, now: Instant) -> Vec<Availability> {
        self.exhausted.retain(|_, end| *end > now);
        let is_available = |cluster: usize| {
            let is_up = is_up(&self.targets[cluster], snapshot, runtime).unwrap_or(self.available[cluster]);
            is_up && !self.exhausted.contains_key(&cluster)
        };
        let all = (0..self.available.len()).map(|cluster| (cluster, is_available(cluster)));
        let changed: Vec<Availability> =
            all.filter(|(cluster, is_available)| self.available[*cluster] != *is_available).collect();
        for (cluster, is_available) in &changed {
            self.available[*cluster] = *is_available;
        }
        changed
    }

    /// Returns the clusters whose gateways drain or are overloaded.
    pub(super) fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.exhausted.keys().map(|cluster| &self.names[*cluster])
    }

    /// Returns the availability of each cluster.
    pub(super) fn availability(&self) -> impl Iterator<Item = Availability> {
        self.available.iter().copied().enumerate()
    }

    /// Records that a step begins with the current availability.
    pub(super) fn step_begins(&mut self) {
        self.available_at_begin.clone_from(&self.available);
    }

    /// Records that the decision of the step is in force.
    pub(super) fn step_ended(&mut self) {
        self.available_at_decision.clone_from(&self.available_at_begin);
    }

    /// Returns decided shares, with no share for unavailable clusters. A cluster that became available has none either until the next
    /// decision, however long that takes. If no cluster is available, all keep their shares.
    pub(super) fn without_unavailable(&self, decided: &Shares) -> Shares {
        let mut shares = decided.clone();
        let is_unavailable = |cluster: usize| !(self.available[cluster] && self.available_at_decision[cluster]);
        let is_any_available = self.available.contains(&true);
        let is_out =
            |cluster: usize| self.exhausted.contains_key(&cluster) || (is_any_available && is_unavailable(cluster));
        let out: HashSet<&ClusterName> =
            (0..self.names.len()).filter(|cluster| is_out(*cluster)).map(|cluster| &self.names[cluster]).collect();
        for cluster in &out {
            shares.accepted.insert((*cluster).clone(), AcceptedShare::NONE);
        }
        if !out.is_empty() {
            shares.pins.retain(|_, cluster| !out.contains(cluster));
        }
        shares
    }
}

/// Returns true if a target is up or unknown, and its member is open. Returns `None` if that is not known: no target is, and some were
/// never evaluated.
fn is_up(targets: &[ClusterTarget], snapshot: &Snapshot, runtime: &RuntimeState) -> Option<bool> {
    let mut is_known = true;
    let is_closed = |(pool, member): (usize, u8)| snapshot.steer_pools()[pool].is_closed(member, runtime);
    for target in targets.iter().filter(|target| !target.scheduled.is_some_and(is_closed)) {
        match runtime.health(target.target).eligibility() {
            Eligibility::Up | Eligibility::Unknown => return Some(true),
            Eligibility::Pending => is_known = false,
            Eligibility::Down | Eligibility::Out => {}
        }
    }
    is_known.then_some(false)
}

/// Returns the load-balanced pools, with their numbers in the snapshot.
pub(super) fn balanced_pools(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &SteerPool)> {
    snapshot.steer_pools().iter().enumerate().filter(|(_, pool)| pool.is_balanced())
}

/// Returns the settings of the balancer, or `None` if there is nothing to balance.
///
/// Clusters without a capacity cannot be compared, so they accept everything.
pub(super) fn settings(desired: &DesiredState, snapshot: &Snapshot) -> Option<Settings> {
    // There may be many pools, and mostly none of them is load-balanced.
    if !snapshot.uses_load() {
        return None;
    }
    let names: BTreeSet<&ClusterName> = balanced_pools(snapshot).flat_map(|(_, pool)| pool.clusters()).collect();
    let declared = |name: &ClusterName| {
        let capacity = desired.clusters.get(name)?.capacity?;
        let bounds = desired.load_bounds.get(name).copied().unwrap_or_default();
        let (soft, hard) = (bounds.target(), bounds.limit());
        Some(Declared { name: name.clone(), capacity, soft, hard, split: capacity })
    };
    let clusters: Vec<Declared> = names.iter().filter_map(|name| declared(name)).collect();
    let ttl = balanced_pools(snapshot).map(|(number, _)| snapshot.pool_infos()[number].ttl_max()).max()?;
    let sources = names.iter().filter_map(|name| desired.cluster_load_sources.get(*name));
    let periods = sources.filter_map(|of| desired.load_sources.get(&of.source)).map(|source| source.period);
    let period = periods.max().unwrap_or(PUSH_PERIOD);
    let ttl = Duration::from_secs(u64::from(ttl.secs().max(1)));
    (!clusters.is_empty()).then_some(Settings { clusters, period, ttl, sampled: 1 })
}

/// Report periods after which a report of exhaustion expires.
const EXHAUSTED_PERIODS: u32 = 3;
/// Report period of clusters whose load is only pushed: the default period of load sources.
const PUSH_PERIOD: Duration = Duration::from_secs(10);
