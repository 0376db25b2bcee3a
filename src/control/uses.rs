//! Who is judged by which target: the way from a flip to the pools it concerns, and from a cluster to its health.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{ClusterName, Desired, Monitor, MonitorName, Pool, PoolName, ProbeAddress, Target, ZoneSpec};
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
    /// By pool, in the order of names: who judges each address of its members; one target, or one a zone where zones have
    /// monitors of their own.
    members: Vec<(PoolName, Vec<(Site, TargetIndex)>)>,
}

/// The zones of a pool's names: one, and any others.
type Zones<'a> = (Option<&'a ZoneSpec>, Vec<Option<&'a ZoneSpec>>);

impl Uses {
    /// Joins what is wished for with the targets it was compiled to.
    pub(crate) fn new(desired: &Desired, targets: &[Target]) -> Self {
        let numbers: HashMap<_, _> = targets.iter().cloned().zip((0..).map(TargetIndex)).collect();
        let mut zones: HashMap<&PoolName, Zones<'_>> = HashMap::with_capacity(desired.pools.len());
        for name in desired.names.values() {
            let zone = desired.zone_of(&name.name);
            let (first, others) = zones.entry(&name.pool).or_insert((zone, Vec::new()));
            if *first != zone && !others.contains(&zone) {
                others.push(zone);
            }
        }
        let mut sites = vec![Vec::new(); targets.len()];
        let mut pools = vec![Vec::new(); targets.len()];
        let mut members = Vec::with_capacity(desired.pools.len());
        let mut known = Known { numbers: &numbers, placed: HashMap::new() };
        for pool in desired.pools.values() {
            let Some((first, others)) = zones.remove(&pool.name) else { continue };
            let mut judged = Vec::with_capacity(pool.members.len());
            for zone in std::iter::once(first).chain(others) {
                judge(desired, pool, zone, &mut known, &mut judged);
            }
            for (site, number) in &judged {
                push_new(&mut pools[number.0 as usize], &pool.name);
                push_new(&mut sites[number.0 as usize], site);
            }
            members.push((pool.name.clone(), judged));
        }
        for sites in &mut sites {
            let unique: BTreeSet<_> = sites.drain(..).collect();
            sites.extend(unique);
        }
        Self { numbers, sites, pools, members }
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
        let at = self.members.binary_search_by(|(name, _)| name.cmp(pool));
        let members = at.map_or(&[][..], |at| &self.members[at].1);
        members.iter().filter(move |(of, _)| of == site).map(|(_, number)| *number)
    }
}

/// Numbers of targets, found by the monitor's place in memory: most members share theirs, which takes long to hash.
struct Known<'a> {
    numbers: &'a HashMap<Target, TargetIndex>,
    placed: HashMap<(ProbeAddress, *const Monitor), Option<TargetIndex>>,
}

impl Known<'_> {
    fn number(&mut self, address: ProbeAddress, label: &MonitorName, monitor: &Arc<Monitor>) -> Option<TargetIndex> {
        *self.placed.entry((address, Arc::as_ptr(monitor))).or_insert_with_key(|(address, _)| {
            let target = Target { address: address.clone(), monitor: Arc::clone(monitor), label: label.clone() };
            self.numbers.get(&target).copied()
        })
    }
}

/// Adds who judges the addresses of a pool's members for names of one zone.
fn judge(
    desired: &Desired,
    pool: &Pool,
    zone: Option<&ZoneSpec>,
    known: &mut Known<'_>,
    judged: &mut Vec<(Site, TargetIndex)>,
) {
    for (place, member) in pool.members.iter().enumerate() {
        let Some(cluster) = desired.clusters.get(&member.cluster) else { continue };
        let (label, monitor) = desired.monitor_of(pool, place, zone);
        for address in &cluster.addresses {
            let probed = member.probe.clone().unwrap_or(ProbeAddress::Address(*address));
            // A target that the compiler did not make is one that nothing is answered by.
            let Some(number) = known.number(probed, label, monitor) else { continue };
            let judgement = ((cluster.name.clone(), *address), number);
            if !judged.contains(&judgement) {
                judged.push(judgement);
            }
        }
    }
}

/// Adds a value that is not the last one already.
fn push_new<T: PartialEq + Clone>(list: &mut Vec<T>, value: &T) {
    if list.last() != Some(value) {
        list.push(value.clone());
    }
}
