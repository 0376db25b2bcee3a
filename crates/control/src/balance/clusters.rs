//! The balanced clusters: their targets and availability.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, DesiredState, Eligibility};
use fairway_steering::balancer::{Declared, Group};
use fairway_zones::{
    RuntimeState, Snapshot, TargetIndex,
    steer::{LoadGroup, SteerPool},
};

/// The balanced clusters.
#[derive(Debug)]
pub(super) struct Clusters {
    clusters: BTreeMap<ClusterName, ClusterState>,
    /// Clusters whose gateways drain or are overloaded, and when that report expires.
    exhausted: HashMap<ClusterName, Instant>,
}

#[derive(Debug)]
struct ClusterState {
    /// Its targets in all pools together.
    targets: Box<[ClusterTarget]>,
    is_available: bool,
}

/// A target that decides if a cluster is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClusterTarget {
    target: TargetIndex,
    /// Number of the pool and of the member whose schedule may close it.
    scheduled: Option<(usize, u8)>,
}

impl Clusters {
    /// Returns the clusters, all of them available until the first update.
    pub(super) fn new(groups: &[Group]) -> Self {
        let names = groups.iter().flat_map(|group| &group.clusters).map(|declared| declared.name.clone());
        let state = || ClusterState { targets: Box::default(), is_available: true };
        Self { clusters: names.map(|name| (name, state())).collect(), exhausted: HashMap::new() }
    }

    /// Finds the targets in a new snapshot.
    pub(super) fn find_targets(&mut self, snapshot: &Snapshot) {
        let mut targets: BTreeMap<&ClusterName, BTreeSet<ClusterTarget>> = BTreeMap::new();
        for (of_pool, pool) in balanced_pools(snapshot) {
            for (member, cluster, target) in pool.member_targets() {
                let scheduled = pool.uses_schedules().then_some((of_pool, member));
                targets.entry(cluster).or_default().insert(ClusterTarget { target, scheduled });
            }
        }
        for (name, cluster) in &mut self.clusters {
            cluster.targets = targets.remove(name).unwrap_or_default().into_iter().collect();
        }
    }

    /// Records whether gateways of a cluster drain or are overloaded. The record expires if no later report repeats it.
    pub(super) fn add_report(&mut self, update: &LoadUpdate, now: Instant) {
        let cluster = &update.report.cluster;
        if update.is_exhausted && self.clusters.contains_key(cluster) {
            self.exhausted.insert(cluster.clone(), now + update.period * EXHAUSTED_PERIODS);
        } else {
            self.exhausted.remove(cluster);
        }
    }

    /// Updates the availability of all clusters. Returns those that changed.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        runtime: &RuntimeState,
        now: Instant,
    ) -> Vec<(ClusterName, bool)> {
        self.exhausted.retain(|_, end| *end > now);
        let mut changed = Vec::new();
        for (name, cluster) in &mut self.clusters {
            let is_up = is_up(&cluster.targets, snapshot, runtime).unwrap_or(cluster.is_available);
            let is_available = is_up && !self.exhausted.contains_key(name);
            if std::mem::replace(&mut cluster.is_available, is_available) != is_available {
                changed.push((name.clone(), is_available));
            }
        }
        changed
    }

    /// Returns the clusters whose gateways drain or are overloaded.
    pub(super) fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.exhausted.keys()
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

/// Returns the groups of clusters whose load is controlled together. Clusters without a capacity cannot be compared, so they are in none.
pub(super) fn groups(desired: &DesiredState, snapshot: &Snapshot) -> Vec<Group> {
    // There may be many pools, and mostly none of them is load-balanced.
    if !snapshot.uses_load() {
        return vec![];
    }
    let classes = snapshot.load_classes();
    let mut ttls = vec![Duration::from_secs(1); classes.groups().len()];
    for (number, pool) in balanced_pools(snapshot) {
        if let Some(group) = classes.group(pool) {
            let ttl = Duration::from_secs(snapshot.pool_infos()[number].ttl_max().secs().into());
            ttls[group] = ttls[group].max(ttl);
        }
    }
    classes.groups().iter().zip(ttls).map(|(group, ttl)| declared(group, ttl, desired)).collect()
}

fn declared(group: &LoadGroup, ttl: Duration, desired: &DesiredState) -> Group {
    let declared = |name: &ClusterName| {
        let bounds = desired.load_bounds.get(name).copied().unwrap_or_default();
        Declared {
            name: name.clone(),
            capacity: desired.clusters.get(name).and_then(|cluster| cluster.capacity).unwrap_or(1),
            target: bounds.target(),
            limit: bounds.limit(),
        }
    };
    let sources = group.clusters.iter().filter_map(|name| desired.cluster_load_sources.get(name));
    let periods = sources.filter_map(|of| desired.load_sources.get(&of.source)).map(|source| source.period);
    Group {
        clusters: group.clusters.iter().map(declared).collect(),
        costs: group.costs.clone(),
        period: periods.max().unwrap_or(PUSH_PERIOD),
        ttl,
    }
}

/// Report periods after which a report of exhaustion expires.
const EXHAUSTED_PERIODS: u32 = 3;
/// Report period of clusters whose load is only pushed: the default period of load sources.
const PUSH_PERIOD: Duration = Duration::from_secs(10);
