//! Who is judged by which target: the way from a flip to the pools it concerns, and from a cluster to its health.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{ClusterName, Desired, Pool, PoolName, ProbeAddress, Target, ZoneSpec};
use fairway_zones::TargetIndex;

/// One address of one cluster, as an override names it.
pub(crate) type Site = (ClusterName, IpAddr);

/// Who is judged by which target, for one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// The number of each target.
    numbers: HashMap<Target, TargetIndex>,
    /// By target: the addresses it speaks for, each once.
    sites: Vec<Vec<Site>>,
    /// By target: the pools it speaks for.
    pools: Vec<Vec<PoolName>>,
    /// By pool: who judges each address of its members; one target, or one a zone where zones have monitors of their own.
    members: HashMap<PoolName, Vec<(Site, TargetIndex)>>,
}

impl Uses {
    /// Joins what is wished for with the targets it was compiled to.
    pub(crate) fn new(desired: &Desired, targets: &[Target]) -> Self {
        let numbers = (0..).map(TargetIndex);
        let mut uses = Self {
            numbers: targets.iter().cloned().zip(numbers).collect(),
            sites: vec![Vec::new(); targets.len()],
            pools: vec![Vec::new(); targets.len()],
            members: HashMap::with_capacity(desired.pools.len()),
        };
        let mut zones: HashMap<&PoolName, Vec<Option<&ZoneSpec>>> = HashMap::with_capacity(desired.pools.len());
        for name in desired.names.values() {
            let zone = desired.zone_of(&name.name);
            let known = zones.entry(&name.pool).or_default();
            if !known.contains(&zone) {
                known.push(zone);
            }
        }
        for pool in desired.pools.values() {
            let zones = zones.remove(&pool.name).unwrap_or_default();
            zones.into_iter().for_each(|zone| uses.add_pool(desired, pool, zone));
        }
        for sites in &mut uses.sites {
            let unique: BTreeSet<_> = sites.drain(..).collect();
            sites.extend(unique);
        }
        uses
    }

    fn add_pool(&mut self, desired: &Desired, pool: &Pool, zone: Option<&ZoneSpec>) {
        for (place, member) in pool.members.iter().enumerate() {
            let Some(cluster) = desired.clusters.get(&member.cluster) else { continue };
            let (label, monitor) = desired.monitor_of(pool, place, zone);
            for address in &cluster.addresses {
                let probed = member.probe.clone().unwrap_or(ProbeAddress::Address(*address));
                let target = Target { address: probed, monitor: Arc::clone(&monitor), label: label.clone() };
                // A target that the compiler did not make is one that nothing is answered by.
                let Some(&number) = self.numbers.get(&target) else { continue };
                self.add(number, pool, (cluster.name.clone(), *address));
            }
        }
    }

    fn add(&mut self, number: TargetIndex, pool: &Pool, site: Site) {
        let at = number.0 as usize;
        if self.pools[at].last() != Some(&pool.name) {
            self.pools[at].push(pool.name.clone());
        }
        if self.sites[at].last() != Some(&site) {
            self.sites[at].push(site.clone());
        }
        let members = self.members.entry(pool.name.clone()).or_default();
        if !members.contains(&(site.clone(), number)) {
            members.push((site, number));
        }
    }

    /// How many targets there are.
    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    /// The number of this target.
    pub(crate) fn number(&self, target: &Target) -> Option<TargetIndex> {
        self.numbers.get(target).copied()
    }

    /// The addresses this target speaks for.
    pub(crate) fn sites(&self, target: TargetIndex) -> &[Site] {
        &self.sites[target.0 as usize]
    }

    /// The clusters this target speaks for, each once.
    pub(crate) fn clusters(&self, target: TargetIndex) -> Vec<ClusterName> {
        let mut clusters: Vec<_> = self.sites(target).iter().map(|(cluster, _)| cluster.clone()).collect();
        clusters.dedup();
        clusters
    }

    /// The pools this target speaks for.
    pub(crate) fn pools(&self, target: TargetIndex) -> &[PoolName] {
        &self.pools[target.0 as usize]
    }

    /// The targets that judge one address of a cluster in a pool; none if no name uses the pool.
    pub(crate) fn targets(&self, pool: &PoolName, site: &Site) -> impl Iterator<Item = TargetIndex> {
        let members = self.members.get(pool).map_or(&[][..], Vec::as_slice);
        members.iter().filter(move |(of, _)| of == site).map(|(_, number)| *number)
    }
}
