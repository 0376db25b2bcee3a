//! All contributed names, merged, with the clusters and monitors they share. The cost of a change is proportional to the
//! names that change.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{AnonymousCluster, ContributionProblem, MergedName};
use crate::{Bias, Cluster, ClusterLocation, ClusterName, DesiredState, MonitorName, Name, SharedMap};

/// All contributed names. Clusters and monitors exist as long as a name uses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedNames {
    desired: DesiredState,
    names: SharedMap<Name, Arc<MergedName>>,
    regions: SharedMap<ClusterName, Regions>,
    /// Number of names that use each monitor.
    monitors: SharedMap<MonitorName, usize>,
}

/// Number of names that put a cluster in each region, or in none.
type Regions = BTreeMap<Option<Arc<str>>, usize>;

impl MergedNames {
    /// Returns the desired state of all names; it has no record sets.
    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    /// Returns the merged contributions to a name.
    pub fn of_name(&self, name: &Name) -> Option<&MergedName> {
        self.names.get(name).map(|of_name| &**of_name)
    }

    /// Returns every contributed name with its merged contributions.
    pub fn names(&self) -> impl Iterator<Item = (&Name, &MergedName)> {
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
                self.add(&name, &of_name);
                self.names.insert(name, Arc::new(of_name));
            }
        }
    }

    fn add(&mut self, name: &Name, of_name: &MergedName) {
        if let Some((steered, pool)) = &of_name.steered {
            self.desired.names.insert(name.clone(), steered.clone());
            self.desired.pools.insert(pool.name.clone(), pool.clone());
        }
        for (name, monitor) in &of_name.monitors {
            *counter(&mut self.monitors, name) += 1;
            if !self.desired.monitors.contains_key(name) {
                self.desired.monitors.insert(name.clone(), Arc::clone(monitor));
            }
        }
        for cluster in &of_name.clusters {
            *counter(&mut self.regions, &cluster.name).entry(region(cluster)).or_default() += 1;
            self.update_cluster(cluster);
        }
    }

    fn remove(&mut self, name: &Name, before: &MergedName) {
        if let Some((_, pool)) = &before.steered {
            self.desired.names.remove(name);
            self.desired.pools.remove(&pool.name);
        }
        for (monitor, _) in &before.monitors {
            let count = counter(&mut self.monitors, monitor);
            *count -= 1;
            if *count == 0 {
                self.monitors.remove(monitor);
                self.desired.monitors.remove(monitor);
            }
        }
        for cluster in &before.clusters {
            let regions = counter(&mut self.regions, &cluster.name);
            let count = regions.entry(region(cluster)).or_default();
            *count -= 1;
            if *count == 0 {
                regions.remove(&region(cluster));
            }
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
        let (name, addresses) = (cluster.name.clone(), cluster.addresses.clone());
        let declared = Cluster { name, addresses, dns_name: None, location, capacity: None, services: vec![] };
        self.desired.clusters.insert(cluster.name.clone(), declared);
    }

    /// Returns the names whose region of a cluster is not used, because more names have another one.
    pub fn disputes(&self) -> Vec<ContributionProblem> {
        let is_disputed = |regions: &Regions| regions.keys().flatten().count() > 1;
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
