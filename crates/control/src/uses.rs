//! Who is judged by which target: the way from a flip to the pools it concerns, and from a cluster to its health.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{
    ClusterName, DesiredState, Monitor, MonitorName, Pool, PoolName, ProbeAddress, SharedMap, SharedSet, Target,
    ZoneSpec,
};
use fairway_zones::{Snapshot, TargetIndex};

/// One address of one cluster, as an override names it.
pub(crate) type Site = (ClusterName, IpAddr);

/// Who judges each address of a pool's members.
type Judged = Arc<[(Site, TargetIndex)]>;

/// Who is judged by which target, for one snapshot. What a change leaves as it was is shared with the uses before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uses {
    /// The number of each target.
    numbers: Arc<HashMap<Target, TargetIndex>>,
    /// By target: the addresses it speaks for, mostly one, in order, and in how many pools.
    sites: Vec<Arc<Vec<(Site, u32)>>>,
    /// By target: the pools it speaks for, in order.
    pools: Vec<SharedSet<PoolName>>,
    /// By pool: who judges each address of its members; one target, or one a zone where zones have
    /// monitors of their own.
    members: SharedMap<PoolName, Judged>,
}

impl Uses {
    /// Joins what is wished for with what it was compiled to.
    pub fn new(desired: &DesiredState, snapshot: &Snapshot) -> Self {
        let mut uses = Self::default();
        uses.renumber(&[], snapshot.targets(), &[]);
        let mut known = Known::default();
        // Pools come in order: sets of them are made at once, without a search for the place of each.
        let (mut pools, mut members) = (vec![Vec::new(); uses.len()], Vec::new());
        for pool in desired.pools.values() {
            let Some(judged) = uses.judged(desired, snapshot, pool, &mut known) else { continue };
            for (_, number) in &*judged {
                let of_target: &mut Vec<(PoolName, ())> = &mut pools[number.0 as usize];
                if of_target.last().is_none_or(|(last, ())| *last != pool.name) {
                    of_target.push((pool.name.clone(), ()));
                }
            }
            members.push((pool.name.clone(), judged));
        }
        uses.pools = pools.into_iter().map(SharedSet::from_iter).collect();
        uses.members = members.into_iter().collect();
        uses
    }

    /// Those of a snapshot that was made of one with these targets: `changed` are all pools that were declared otherwise, or have other
    /// names now.
    pub fn revised<'a>(
        &self,
        desired: &DesiredState,
        before: &[Target],
        snapshot: &Snapshot,
        changed: impl IntoIterator<Item = &'a PoolName>,
    ) -> Self {
        let now = snapshot.targets();
        let moved: Vec<usize> = (0..before.len()).filter(|at| now.get(*at) != before.get(*at)).collect();
        let mut pools: BTreeSet<&PoolName> = moved.iter().flat_map(|at| self.pools[*at].keys()).collect();
        for name in changed {
            pools.insert(name);
        }
        let mut uses = self.clone();
        pools.iter().for_each(|name| uses.take_out(name));
        uses.renumber(before, now, &moved);
        let mut known = Known::default();
        for pool in pools.iter().filter_map(|name| desired.pools.get(*name)) {
            uses.add(desired, snapshot, pool, &mut known);
        }
        uses
    }

    /// Takes the numbers of targets; of those before, the moved ones have no use now.
    fn renumber(&mut self, before: &[Target], now: &[Target], moved: &[usize]) {
        if !moved.is_empty() || before.len() < now.len() {
            let numbers = Arc::make_mut(&mut self.numbers);
            moved.iter().for_each(|at| _ = numbers.remove(&before[*at]));
            for at in moved.iter().copied().filter(|at| *at < now.len()).chain(before.len()..now.len()) {
                let number = u32::try_from(at).expect("the compiler counts targets so");
                numbers.insert(now[at].clone(), TargetIndex(number));
            }
        }
        self.sites.resize_with(now.len(), Arc::default);
        self.pools.resize_with(now.len(), SharedSet::new);
    }

    /// Adds a pool, if any name uses it.
    fn add(&mut self, desired: &DesiredState, snapshot: &Snapshot, pool: &Pool, known: &mut Known) {
        let Some(judged) = self.judged(desired, snapshot, pool, known) else { return };
        for (_, number) in &*judged {
            self.pools[number.0 as usize].insert(pool.name.clone(), ());
        }
        self.members.insert(pool.name.clone(), judged);
    }

    /// Who judges the addresses of a pool's members, which are counted at their targets; none if no name uses it.
    fn judged(
        &mut self,
        desired: &DesiredState,
        snapshot: &Snapshot,
        pool: &Pool,
        known: &mut Known,
    ) -> Option<Judged> {
        let infos = snapshot.pool_infos();
        // Zones of one compiled pool are alike in all that matters here, so that its first name stands for all.
        let mut names: Vec<_> = snapshot.places_of(&pool.name).filter_map(|place| infos[place].names.first()).collect();
        if names.is_empty() {
            return None;
        }
        names.sort();
        let mut judged = Vec::with_capacity(pool.members.len());
        for name in names {
            judge(desired, pool, desired.zone_of(name), &mut known.of(&self.numbers), &mut judged);
        }
        for (site, number) in &judged {
            let sites = Arc::make_mut(&mut self.sites[number.0 as usize]);
            match sites.binary_search_by(|(known, _)| known.cmp(site)) {
                Ok(at) => sites[at].1 += 1,
                Err(at) => {
                    sites.reserve_exact(1);
                    sites.insert(at, (site.clone(), 1));
                }
            }
        }
        Some(judged.into())
    }

    /// Takes a pool out, if it is there.
    fn take_out(&mut self, pool: &PoolName) {
        let Some(judged) = self.members.remove(pool) else { return };
        for (site, number) in &*judged {
            let sites = Arc::make_mut(&mut self.sites[number.0 as usize]);
            if let Ok(at) = sites.binary_search_by(|(known, _)| known.cmp(site)) {
                sites[at].1 -= 1;
                if sites[at].1 == 0 {
                    sites.remove(at);
                }
            }
            self.pools[number.0 as usize].remove(pool);
        }
    }

    /// How many targets there are.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    /// The number of this target.
    pub fn number_of(&self, target: &Target) -> Option<TargetIndex> {
        self.numbers.get(target).copied()
    }

    /// The addresses this target speaks for, in order.
    pub fn sites(&self, target: TargetIndex) -> impl Iterator<Item = &Site> {
        self.sites[target.0 as usize].iter().map(|(site, _)| site)
    }

    /// The clusters this target speaks for, each once.
    pub fn clusters(&self, target: TargetIndex) -> Vec<ClusterName> {
        let mut clusters: Vec<_> = self.sites(target).map(|(cluster, _)| cluster.clone()).collect();
        clusters.dedup();
        clusters
    }

    /// The pools this target speaks for, in order.
    pub fn pools(&self, target: TargetIndex) -> &SharedSet<PoolName> {
        &self.pools[target.0 as usize]
    }

    /// The targets that judge one address of a cluster in a pool; none if no name uses the pool.
    pub fn targets(&self, pool: &PoolName, site: &Site) -> impl Iterator<Item = TargetIndex> {
        let members = self.members.get(pool).map_or(&[][..], |judged| judged);
        members.iter().filter(move |(of, _)| of == site).map(|(_, number)| *number)
    }
}

/// Numbers of targets, found by the monitor's place in memory: most members share theirs, which takes long to hash.
#[derive(Default)]
struct Known(HashMap<(ProbeAddress, *const Monitor), Option<TargetIndex>>);

impl Known {
    fn of<'a>(&'a mut self, numbers: &'a HashMap<Target, TargetIndex>) -> Numbers<'a> {
        Numbers { placed: &mut self.0, numbers }
    }
}

struct Numbers<'a> {
    placed: &'a mut HashMap<(ProbeAddress, *const Monitor), Option<TargetIndex>>,
    numbers: &'a HashMap<Target, TargetIndex>,
}

impl Numbers<'_> {
    fn number(&mut self, address: ProbeAddress, label: &MonitorName, monitor: &Arc<Monitor>) -> Option<TargetIndex> {
        *self.placed.entry((address, Arc::as_ptr(monitor))).or_insert_with_key(|(address, _)| {
            let target = Target { address: address.clone(), monitor: Arc::clone(monitor), label: label.clone() };
            self.numbers.get(&target).copied()
        })
    }
}

/// Adds who judges the addresses of a pool's members for names of one zone.
fn judge(
    desired: &DesiredState,
    pool: &Pool,
    zone: Option<&ZoneSpec>,
    known: &mut Numbers<'_>,
    judged: &mut Vec<(Site, TargetIndex)>,
) {
    let of_pool = desired.monitor_of_pool(pool, zone);
    for member in &pool.members {
        let Some(cluster) = desired.clusters.get(&member.cluster) else { continue };
        let (label, monitor) = desired.monitor_of(member, of_pool);
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
