//! Weights of the members of pools: by splits of clusters' objects, and by ready endpoints.
//!
//! ```text
//! weight = declared, else that of the annotation, else that of the split, else 1, × ready endpoints with `weightBy: pods`
//! ```

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_access::Tenant;
use fairway_model::{
    Check, ClusterName, DeclaredClusters, DesiredState, Member, MemberService, Monitor, MonitorName, Name, Pool,
    PoolName, Rtype, SharedMap, Weight,
};

use crate::{
    found::{Found, FoundCluster, FoundName, FoundRow},
    objects::ObjectKey,
};

/// The sources of the weights of members.
#[derive(Clone, Copy)]
pub struct Weighing<'a> {
    /// Findings in the clusters.
    pub found: &'a Found,
    /// The declared clusters, with the addresses of their gateways.
    pub clusters: &'a DeclaredClusters,
    /// Returns the names of a pool.
    pub names: &'a dyn Fn(&PoolName) -> Vec<&'a Name>,
    /// Returns whether a tenant may claim a name with a type: what others declare, and what is no member, says nothing about the name.
    pub is_granted: &'a dyn Fn(&Tenant, &Name, Rtype) -> bool,
    /// Returns true if nothing but a split can give a member a weight.
    pub is_unweighted: &'a dyn Fn(&PoolName, &ClusterName) -> bool,
}

/// The weights of pools that have a split, or multiply by ready endpoints.
pub type WeighedPools = SharedMap<PoolName, PoolWeights>;

/// The origin of the weights of a pool's members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolWeights {
    /// The split that is used: the cluster and its object.
    pub split: Option<(ClusterName, ObjectKey)>,
    /// Factors of the members' weights.
    pub members: BTreeMap<ClusterName, WeightFactors>,
    /// Problems of splits.
    pub problems: Vec<SplitProblem>,
}

/// Factors of the weight of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightFactors {
    /// Its weight by the split, in place of 1.
    pub split: Option<u64>,
    /// Number of ready endpoints; if it is not known, the average of the other members.
    pub pods: Option<u64>,
}

/// A problem of a split, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitProblem {
    /// The cluster of the object.
    pub cluster: ClusterName,
    /// The object.
    pub object: ObjectKey,
    /// The problem.
    pub message: String,
}

/// Takes out the members of pools whose clusters have no ready endpoint of the pools' names, and gives members the weights of splits and of
/// ready endpoints. Returns the origins of these weights.
///
/// A member that is taken out keeps its place: it is down until its cluster has an endpoint again. A cluster that does not expose a name
/// has none, unless no cluster of the pool exposes it: then what is read says nothing about it.
pub fn weigh_members(
    desired: &mut DesiredState,
    pools: impl IntoIterator<Item = PoolName>,
    by: &Weighing<'_>,
) -> WeighedPools {
    let mut weighed = WeighedPools::new();
    if by.found.is_empty() {
        return weighed;
    }
    let monitor = Monitor { rise: 1, fall: 1, ..Monitor::new(Check::Never) };
    let no_endpoint = MonitorName::new(NO_ENDPOINT).expect("a valid name");
    desired.monitors.insert(no_endpoint.clone(), monitor.into());
    for name in pools {
        let Some(pool) = desired.pools.get(&name) else { continue };
        let Some((of_members, weights, services)) = by.pool(pool) else { continue };
        if !services.is_empty()
            && let Some(pool) = desired.pools.get_mut(&name)
        {
            pool.members.iter_mut().zip(services).for_each(|(member, service)| member.service = Some(service));
        }
        if of_members.iter().any(is_out)
            && let Some(pool) = desired.pools.get_mut(&name)
        {
            let members = pool.members.iter_mut().zip(&of_members).filter(|(_, ready)| is_out(ready));
            members.for_each(|(member, _)| member.monitor = Some(no_endpoint.clone()));
        }
        if let Some(pool) = desired.pools.get_mut(&name).filter(|_| !weights.members.is_empty()) {
            weights.apply(&mut pool.members);
        }
        if weights != PoolWeights::default() {
            weighed.insert(name, weights);
        }
    }
    weighed
}

/// Returns the number of ready endpoints of names in a cluster; the largest, as for the members of a pool. `None` if it is not known.
pub fn ready_endpoints<'a>(
    cluster: &ClusterName,
    found: &FoundCluster,
    clusters: &DeclaredClusters,
    names: impl Iterator<Item = &'a Name>,
) -> Option<u32> {
    let of_name = |name: &Name| {
        let rows = found.names.get(name.to_plain().as_str())?.rows.iter();
        Ready::of(rows.map(|row| row.ready_in(cluster, clusters))).count()
    };
    names.take(NAMES_MAX).filter_map(of_name).max()
}

/// Logs names that have lost their last ready endpoint in a cluster, or have one again: of those that were read anew, as answers count them.
pub fn log_endpoints([before, now]: [(&Found, &DeclaredClusters); 2]) {
    for (cluster, found) in now.0 {
        let Some(last) = before.0.get(cluster) else { continue };
        for (name, is, was) in found.names.differences(&last.names, Arc::ptr_eq) {
            let ready = |name: Option<&Arc<FoundName>>, clusters: &DeclaredClusters| {
                Ready::of(name?.rows.iter().map(|row| row.ready_in(cluster, clusters))).count()
            };
            match (ready(was, before.1), ready(is, now.1)) {
                (Some(1..), Some(0)) => {
                    tracing::warn!(event = "kubernetes", %cluster, %name, "no ready endpoint; the cluster is not answered")
                }
                (Some(0), Some(ready @ 1..)) => {
                    tracing::info!(event = "kubernetes", %cluster, %name, ready, "ready endpoints again")
                }
                _ => {}
            }
        }
    }
}

impl FoundRow {
    /// Returns the number of ready endpoints in its cluster, without those of backends that stand for other clusters.
    fn ready_in(&self, own: &ClusterName, clusters: &DeclaredClusters) -> Option<u32> {
        self.split.as_ref().map_or(self.ready, |split| split.ready(own, clusters))
    }
}

/// The split of a pool, with the weight of each cluster.
struct PoolSplit<'a> {
    cluster: &'a ClusterName,
    object: &'a ObjectKey,
    name: &'a str,
    weights: BTreeMap<ClusterName, u64>,
}

impl<'a> Weighing<'a> {
    /// Returns the ready endpoints of a pool's members, the origins of their weights, and their services, if these have a capacity. Returns
    /// `None` if what is read says nothing about the pool.
    fn pool(&self, pool: &Pool) -> Option<(Vec<Option<Ready>>, PoolWeights, Vec<MemberService>)> {
        if !pool.members.iter().any(|member| self.found.contains_key(&member.cluster)) {
            return None;
        }
        let names = (self.names)(&pool.name).into_iter().take(NAMES_MAX + 1).map(|name| (name.to_plain(), name));
        let names: Vec<(String, &Name)> = names.collect();
        if names.is_empty() || names.len() > NAMES_MAX {
            return None;
        }
        let ready = |cluster: &ClusterName| -> Option<Ready> {
            let found = self.found.get(cluster)?;
            let of_name =
                |of: &(String, &Name)| Ready::of(self.rows(found, of).map(|row| row.ready_in(cluster, self.clusters)));
            names.iter().map(of_name).max()
        };
        let of_members: Vec<_> = pool.members.iter().map(|member| ready(&member.cluster)).collect();
        if of_members.iter().flatten().all(|ready| *ready == Ready::NotExposed) {
            return None;
        }
        let mut weights = PoolWeights::default();
        let is_open = |member: &&Member| (self.is_unweighted)(&pool.name, &member.cluster);
        let split = match pool.members.iter().any(|member| is_open(&member)) {
            true => self.split(&names, &mut weights.problems),
            false => None,
        };
        if let Some(split) = &split {
            let missing = |member: &&Member| is_open(member) && !split.weights.contains_key(&member.cluster);
            weights.problems.extend(split.missing(pool.members.iter().filter(missing).map(|member| &member.cluster)));
        }
        weights.split = split.as_ref().map(|split| (split.cluster.clone(), split.object.clone()));
        let per_pod = pool.capacity_per_pod.filter(|_| pool.policy.load);
        let services = per_pod.map_or_else(Vec::new, |per_pod| self.services(pool, &names, per_pod, &of_members));
        let pods = if pool.weight_by_pods { pods(&of_members) } else { vec![None; of_members.len()] };
        if split.is_some() || pods.iter().any(Option::is_some) {
            let factors = |(member, pods): (&Member, Option<u64>)| {
                let split = split.as_ref().filter(|_| is_open(&member));
                let split = split.and_then(|split| split.weights.get(&member.cluster)).copied();
                (member.cluster.clone(), WeightFactors { split, pods })
            };
            weights.members = pool.members.iter().zip(pods).map(factors).collect();
        }
        Some((of_members, weights, services))
    }

    /// Returns the services of a pool's members, each with a capacity of `per_pod` times its ready endpoints. Empty if none are known.
    fn services(
        &self,
        pool: &Pool,
        names: &[(String, &Name)],
        per_pod: u64,
        of_members: &[Option<Ready>],
    ) -> Vec<MemberService> {
        let service = |(member, pods): (&Member, Option<u64>)| {
            let mut services = BTreeSet::new();
            if let Some(found) = self.found.get(&member.cluster) {
                let rows = names.iter().flat_map(|of_name| self.rows(found, of_name));
                services.extend(rows.flat_map(|row| row.services.iter().cloned()));
            }
            Some(MemberService { capacity: per_pod.saturating_mul(pods?), services: services.into_iter().collect() })
        };
        pool.members.iter().zip(pods(of_members)).filter_map(service).collect()
    }

    /// Returns the rows of a name that may declare members of it.
    fn rows<'f>(&self, found: &'f FoundCluster, (text, name): &(String, &Name)) -> impl Iterator<Item = &'f FoundRow> {
        let rows = found.names.get(&**text).into_iter().flat_map(|found| &found.rows);
        rows.filter(move |row| {
            let rtype = row.row.rtype().filter(|_| row.row.is_member());
            rtype.is_some_and(|rtype| (self.is_granted)(&row.tenant, name, rtype))
        })
    }

    /// Returns the split of names: the oldest one. Others that differ, and one that is 0, are problems.
    fn split<'n>(&self, names: &'n [(String, &Name)], problems: &mut Vec<SplitProblem>) -> Option<PoolSplit<'n>>
    where
        'a: 'n,
    {
        let mut splits = BTreeMap::<(u64, &ObjectKey, &ClusterName), PoolSplit<'n>>::new();
        for (cluster, found) in self.found {
            for of_name in names {
                let has_split = |name: &Arc<FoundName>| name.rows.iter().any(|row| row.split.is_some());
                if !found.names.get(&*of_name.0).is_some_and(has_split) {
                    continue;
                }
                let rows: Vec<&'a FoundRow> = self.rows(found, of_name).collect();
                // Of two namespaces, the older one has the name.
                let first = rows.iter().min_by_key(|row| (row.row.row.since, &row.owner));
                let own = rows.iter().filter(|row| first.is_some_and(|first| row.owner == first.owner));
                for split in own.filter_map(|row| row.split.as_deref()) {
                    let Some(weights) = split.weights(cluster, self.clusters) else { continue };
                    let (object, name) = (&split.object, &*of_name.0);
                    let of_object = splits.entry((split.created, object, cluster));
                    of_object.or_insert(PoolSplit { cluster, object, name, weights });
                }
            }
        }
        let mut splits = splits.into_values();
        let mut used = splits.next()?;
        if used.weights.values().all(|weight| *weight == 0) {
            problems
                .push(used.problem(format!("all its weights of {} are 0, so the clusters get equal parts", used.name)));
            used.weights.values_mut().for_each(|weight| *weight = 1);
        }
        for other in splits.filter(|other| !is_proportional(&other.weights, &used.weights)) {
            problems.push(other.problem(format!(
                "its split of {} ({}) is not used, because {} of cluster {} takes precedence and has {}",
                other.name,
                shown_weights(&other.weights),
                used.object,
                used.cluster,
                shown_weights(&used.weights)
            )));
        }
        Some(used)
    }
}

impl PoolSplit<'_> {
    /// Returns the problem of members that have no weight, in this split or of their own: 1 is seldom meant next to 75 and 25.
    fn missing<'c>(&self, clusters: impl Iterator<Item = &'c ClusterName>) -> Option<SplitProblem> {
        let clusters: Vec<&str> = clusters.map(ClusterName::as_str).collect();
        let shown = clusters.iter().take(MISSING_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = clusters.len().saturating_sub(MISSING_SHOWN_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!clusters.is_empty()).then(|| {
            self.problem(format!(
                "its split of {} ({}) has no weight for {shown}{more}, which counts as 1; set the annotation \
                 webhook-gslb-weight there",
                self.name,
                shown_weights(&self.weights)
            ))
        })
    }

    fn problem(&self, message: String) -> SplitProblem {
        SplitProblem { cluster: self.cluster.clone(), object: self.object.clone(), message }
    }
}

impl PoolWeights {
    /// Multiplies the weights of members by their factors, and scales them to fit.
    fn apply(&self, members: &mut [Member]) {
        let weight = |member: &Member| {
            let WeightFactors { split, pods } = self.members.get(&member.cluster).copied().unwrap_or_default();
            u128::from(member.weight.0) * u128::from(split.unwrap_or(1)) * u128::from(pods.unwrap_or(1))
        };
        let weights: Vec<u128> = members.iter().map(weight).collect();
        let max = u128::from(u16::MAX);
        let largest = weights.iter().copied().fold(max, u128::max);
        for (member, weight) in members.iter_mut().zip(weights) {
            let scaled = ((weight * max + largest / 2) / largest).max(u128::from(weight > 0));
            member.weight = Weight(u16::try_from(scaled).unwrap_or(u16::MAX));
        }
    }
}

/// Returns true if two splits are the same, perhaps in other units.
fn is_proportional(a: &BTreeMap<ClusterName, u64>, b: &BTreeMap<ClusterName, u64>) -> bool {
    let sum = |of: &BTreeMap<ClusterName, u64>| of.values().map(|weight| u128::from(*weight)).sum::<u128>();
    let (of_a, of_b) = (sum(a), sum(b));
    let scaled = |weight: &u64, other: u128| u128::from(*weight).saturating_mul(other);
    a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| scaled(a, of_b) == scaled(b, of_a))
}

/// Returns weights as text: `eu1 75, us1 25`.
fn shown_weights(weights: &BTreeMap<ClusterName, u64>) -> String {
    weights.iter().map(|(cluster, weight)| format!("{cluster} {weight}")).collect::<Vec<_>>().join(", ")
}

/// Returns the factor of each member by its number of ready endpoints; `None` for all if no number is known.
fn pods(of_members: &[Option<Ready>]) -> Vec<Option<u64>> {
    let count = |ready: &Option<Ready>| match ready {
        Some(Ready::Endpoints(count)) => Some(u64::from(*count)),
        _ => None,
    };
    let known: Vec<u64> = of_members.iter().filter_map(count).filter(|count| *count > 0).collect();
    let average = (known.iter().sum::<u64>() / (known.len() as u64).max(1)).max(1);
    // A member without an endpoint is out by its monitor. Its weight would otherwise make it standby for good.
    let factor = |ready| (!known.is_empty()).then(|| count(ready).unwrap_or(average).max(1));
    of_members.iter().map(factor).collect()
}

/// Returns true if a member has no ready endpoint.
fn is_out(ready: &Option<Ready>) -> bool {
    ready.is_some_and(|ready| ready <= Ready::Endpoints(0))
}

/// Endpoints of a name in a cluster, in ascending order of what they are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ready {
    /// No object exposes the name.
    NotExposed,
    /// The number of ready endpoints.
    Endpoints(u32),
    /// It is exposed, and its endpoints cannot be counted.
    Unknown,
}

impl Ready {
    /// Returns the endpoints of rows of one name. They often lead to the same service, whose endpoints count once.
    pub(crate) fn of(rows: impl Iterator<Item = Option<u32>>) -> Self {
        rows.map(|ready| ready.map_or(Self::Unknown, Self::Endpoints)).reduce(Self::better).unwrap_or(Self::NotExposed)
    }

    /// Returns the number; `None` if there is none.
    const fn count(self) -> Option<u32> {
        match self {
            Self::Endpoints(count) => Some(count),
            Self::NotExposed | Self::Unknown => None,
        }
    }

    /// Returns the one that says more: the larger number, and what cannot be counted only in place of none.
    fn better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Endpoints(1..), Self::Unknown) => self,
            (Self::Unknown, Self::Endpoints(1..)) => other,
            _ => self.max(other),
        }
    }
}

/// Members without a weight that a problem names.
const MISSING_SHOWN_MAX: usize = 8;
/// Name of the monitor of members whose cluster has no ready endpoint.
const NO_ENDPOINT: &str = "kubernetes+no-endpoint";
/// Maximum number of names of a pool whose endpoints are looked at. A pool of more names is one of gateways, not of a service.
const NAMES_MAX: usize = 16;
