//! All contributed names, merged, with the clusters and monitors they share. The cost of a change is proportional to the
//! names that change.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{AnonymousCluster, ContributionProblem, MergedName, WeightOrigin};
use crate::{
    Bias, Cluster, ClusterHost, ClusterLocation, ClusterName, DesiredState, MonitorName, Name, PoolName, SharedMap,
};

/// All contributed names. Clusters and monitors exist as long as a name uses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedNames {
    desired: DesiredState,
    names: SharedMap<Name, Arc<ContributedName>>,
    regions: SharedMap<ClusterName, Regions>,
    /// Number of names that use each monitor.
    monitors: SharedMap<MonitorName, usize>,
}

/// A contributed name, without what it declares, which is in the desired state. There are many, so each list has its exact size.
#[derive(Clone, Debug, PartialEq)]
pub struct ContributedName {
    /// The pool; `None` without a member.
    pub pool: Option<PoolName>,
    /// The origin of the weight of each member of the pool.
    pub origins: Box<[WeightOrigin]>,
    /// Clusters of members that are not declared.
    clusters: Box<[AnonymousCluster]>,
    /// Monitors of members.
    monitors: Box<[MonitorName]>,
}

/// Number of names that put a cluster in each region, or in none; sorted, and mostly one.
type Regions = Vec<(Option<Arc<str>>, usize)>;

impl MergedNames {
    /// Returns the desired state of all names; it has no record sets.
    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    /// Returns the merged contributions to a name.
    pub fn of_name(&self, name: &Name) -> Option<&ContributedName> {
        self.names.get(name).map(|of_name| &**of_name)
    }

    /// Returns true if a cluster is a contributed member of a name, without a weight.
    pub fn is_unweighted(&self, name: &Name, cluster: &ClusterName) -> bool {
        let Some(of_name) = self.of_name(name) else { return false };
        let pool = of_name.pool.as_ref().and_then(|pool| self.desired.pools.get(pool));
        let mut members = pool.into_iter().flat_map(|pool| &pool.members).zip(&of_name.origins);
        members.any(|(member, origin)| member.cluster == *cluster && origin.weight.is_none())
    }

    /// Returns every contributed name with its merged contributions.
    pub fn names(&self) -> impl Iterator<Item = (&Name, &ContributedName)> {
        self.names.iter().map(|(name, of_name)| (name, &**of_name))
    }

    /// Replaces the merged contributions to names; `None` removes a name.
    pub fn change(&mut self, changes: impl IntoIterator<Item = (Name, Option<MergedName>)>) {
        let changes: Vec<_> = changes.into_iter().collect();
        // A declared pool may move from one name to another, so all are removed before any is added.
        for (name, _) in &changes {
            if let Some(before) = self.names.remove(name) {
                self.remove(name, &before);
            }
        }
        for (name, of_name) in changes {
            if let Some(of_name) = of_name {
                let of_name = self.add(&name, of_name);
                self.names.insert(name, Arc::new(of_name));
            }
        }
    }

    fn add(&mut self, name: &Name, of_name: MergedName) -> ContributedName {
        let pool = of_name.steered.map(|(steered, mut pool)| {
            pool.members.shrink_to_fit();
            let pool_name = pool.name.clone();
            self.desired.names.insert(name.clone(), steered);
            self.desired.pools.insert(pool_name.clone(), pool);
            pool_name
        });
        for (name, monitor) in &of_name.monitors {
            *counter(&mut self.monitors, name) += 1;
            if !self.desired.monitors.contains_key(name) {
                self.desired.monitors.insert(name.clone(), Arc::clone(monitor));
            }
        }
        for cluster in &of_name.clusters {
            let (regions, region) = (counter(&mut self.regions, &cluster.name), region(cluster));
            match regions.binary_search_by(|(known, _)| known.cmp(&region)) {
                Ok(at) => regions[at].1 += 1,
                Err(at) => {
                    regions.reserve_exact(1);
                    regions.insert(at, (region, 1));
                }
            }
            self.update_cluster(cluster);
        }
        ContributedName {
            pool,
            origins: of_name.origins.into(),
            clusters: of_name.clusters.into(),
            monitors: of_name.monitors.into_iter().map(|(monitor, _)| monitor).collect(),
        }
    }

    fn remove(&mut self, name: &Name, before: &ContributedName) {
        if let Some(pool) = &before.pool {
            self.desired.names.remove(name);
            self.desired.pools.remove(pool);
        }
        for monitor in &before.monitors {
            let count = counter(&mut self.monitors, monitor);
            *count -= 1;
            if *count == 0 {
                self.monitors.remove(monitor);
                self.desired.monitors.remove(monitor);
            }
        }
        for cluster in &before.clusters {
            let (regions, region) = (counter(&mut self.regions, &cluster.name), region(cluster));
            regions.retain_mut(|(known, count)| {
                *count -= usize::from(*known == region);
                *count > 0
            });
            self.update_cluster(cluster);
        }
    }

    /// Updates a cluster to what the names that use it contribute, or removes it with the last of them.
    fn update_cluster(&mut self, cluster: &AnonymousCluster) {
        let regions = self.regions.get(&cluster.name);
        if regions.is_none_or(Regions::is_empty) {
            self.regions.remove(&cluster.name);
            self.desired.clusters.remove(&cluster.name);
            return;
        }
        let region = regions.and_then(most_common).map(|region| region.to_string());
        // Contributions have no coordinates.
        let location =
            region.map(|region| ClusterLocation { coordinates: None, region: Some(region), bias: Bias::default() });
        if self.desired.clusters.get(&cluster.name).is_some_and(|known| known.location == location) {
            return;
        }
        let hosts = cluster.host.iter().map(|host| ClusterHost { name: host.clone(), addresses: Arc::default() });
        let declared = Cluster {
            hosts: hosts.collect(),
            dns_name: cluster.host.clone(),
            location,
            ..Cluster::new(cluster.name.clone(), cluster.addresses.clone())
        };
        self.desired.clusters.insert(cluster.name.clone(), declared);
    }

    /// Returns the names whose region of a cluster is not used, because more names have another one.
    pub fn disputes(&self) -> Vec<ContributionProblem> {
        let is_disputed = |regions: &Regions| regions.iter().filter(|(region, _)| region.is_some()).count() > 1;
        let disputed = self.regions.iter().filter(|(_, regions)| is_disputed(regions));
        let preferred: BTreeMap<_, _> =
            disputed.filter_map(|(name, regions)| Some((name, most_common(regions)?))).collect();
        if preferred.is_empty() {
            return vec![];
        }
        let mut found = BTreeSet::new();
        for (name, of_name) in &self.names {
            for cluster in &of_name.clusters {
                let Some(((region, owner, set), preferred)) = cluster.region.as_ref().zip(preferred.get(&cluster.name))
                else {
                    continue;
                };
                if region != *preferred {
                    found.insert(ContributionProblem {
                        name: name.to_string().into(),
                        owner: Arc::clone(owner),
                        set: Arc::clone(set),
                        message: format!("these addresses are in region {preferred}, by more names"),
                        is_refused: false,
                    });
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Returns the region of most names; of equals the first in alphabetical order.
fn most_common(regions: &Regions) -> Option<&Arc<str>> {
    let known = regions.iter().filter_map(|(region, count)| Some((region.as_ref()?, count)));
    known.max_by_key(|(region, count)| (**count, Reverse(*region))).map(|(region, _)| region)
}

/// Returns the region that a name contributes for a cluster.
fn region(cluster: &AnonymousCluster) -> Option<Arc<str>> {
    cluster.region.as_ref().map(|(region, ..)| Arc::clone(region))
}

/// Returns the counter of a key, which starts at the default.
fn counter<'a, K: Ord + Clone, V: Clone + Default>(map: &'a mut SharedMap<K, V>, key: &K) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.clone(), V::default());
    }
    map.get_mut(key).expect("the key was inserted above")
}
