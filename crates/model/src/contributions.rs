//! Merges the addresses that several owners contribute to one name into one pool.
//!
//! Pure. A contribution is identified by source, owner and set identifier: withdrawing one withdraws nothing of another.

mod merged;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    Cluster, ClusterName, Member, Monitor, MonitorName, Name, Permille, Policy, Pool, PoolName, SteeredName, Tier, Ttl,
    Weight,
};

pub use self::merged::MergedNames;

/// The contribution of one owner to one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NameContribution {
    /// The owner.
    pub owner: Arc<str>,
    /// The set identifier; empty without one.
    pub set: Arc<str>,
    /// Time it was first seen, in seconds since 1970: of two that conflict, the older one wins.
    pub since: u64,
    /// The addresses, both families.
    pub addresses: Vec<IpAddr>,
    /// The settings that come with the addresses.
    pub spec: Arc<ContributedSpec>,
    /// Lease weight: the fraction of its weight that is in effect. It falls below 1 while its writer is silent; 0 removes it.
    pub lease_weight: Permille,
}

/// The settings of a contribution. What is `None` is left to other contributions, or to the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContributedSpec {
    /// The declared cluster that has these addresses.
    pub cluster: Option<ClusterName>,
    /// The member's weight.
    pub weight: Option<Weight>,
    /// The member's tier.
    pub tier: Option<Tier>,
    /// The region of a cluster that is not declared.
    pub region: Option<Arc<str>>,
    /// The monitor of the member.
    pub monitor: Option<(MonitorName, Arc<Monitor>)>,
    /// The policy of the pool.
    pub policy: Option<Policy>,
    /// TTL of the answers; of several the smallest is used.
    pub ttl: Option<Ttl>,
    /// Number of clusters in an answer, 1 to 8.
    pub answers: Option<u8>,
}

/// What happens if several owners contribute to a name without set identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedNamePolicy {
    /// All contributions are merged.
    Merge,
    /// The oldest one is used; the others are rejected with a message.
    #[default]
    Refuse,
}

/// Why a contribution, or a part of it, is not in the answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContributionProblem {
    /// The name.
    pub name: Arc<str>,
    /// The owner.
    pub owner: Arc<str>,
    /// The set identifier.
    pub set: Arc<str>,
    /// Fact and hint.
    pub message: String,
}

/// The result of merging the contributions to one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedName {
    /// The steered name and its pool; `None` without a member.
    pub steered: Option<(SteeredName, Pool)>,
    /// The origin of the weight of each member of the pool.
    pub origins: Vec<WeightOrigin>,
    /// Clusters of members that are not declared.
    pub clusters: Vec<AnonymousCluster>,
    /// Monitors of members.
    pub monitors: Vec<(MonitorName, Arc<Monitor>)>,
    /// Contributions, or parts of them, that are not used.
    pub problems: Vec<ContributionProblem>,
}

/// The origin of the weight of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightOrigin {
    /// The owner.
    pub owner: Arc<str>,
    /// The set identifier.
    pub set: Arc<str>,
    /// The contributed weight; `None` counts as 1.
    pub weight: Option<Weight>,
    /// The lease weight, by which it is multiplied.
    pub lease_weight: Permille,
}

/// A cluster that is not declared and is identified by its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousCluster {
    /// Its name, derived from the addresses.
    pub name: ClusterName,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its region, with the owner and the set identifier that contribute it.
    pub region: Option<(Arc<str>, Arc<str>, Arc<str>)>,
}

/// What sources of higher rank declare; it takes precedence.
pub struct DeclaredObjects<'a> {
    /// The declared clusters.
    pub clusters: &'a DeclaredClusters,
    /// The declared steered name and its pool.
    pub steered: Option<(&'a SteeredName, &'a Pool)>,
    /// True if the pool answers other names, too.
    pub is_shared: bool,
}

/// The declared clusters by name and by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredClusters {
    names: BTreeSet<ClusterName>,
    /// The cluster of each address that only one cluster has.
    by_address: BTreeMap<IpAddr, ClusterName>,
}

impl DeclaredClusters {
    /// Returns the index of these clusters.
    pub fn new<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Self {
        let (mut declared, mut twice) = (Self::default(), BTreeSet::new());
        for cluster in clusters {
            declared.names.insert(cluster.name.clone());
            for address in &cluster.addresses {
                let other = declared.by_address.insert(*address, cluster.name.clone());
                if other.is_some_and(|other| other != cluster.name) {
                    twice.insert(*address);
                }
            }
        }
        declared.by_address.retain(|address, _| !twice.contains(address));
        declared
    }

    /// Returns true if a cluster of this name is declared.
    pub fn contains(&self, name: &ClusterName) -> bool {
        self.names.contains(name)
    }
}

/// Merges the contributions to one name; the result does not depend on their order. `pool` is the name of the pool if none is
/// declared.
///
/// Of a setting with only one value, the oldest contribution wins, then owner and set identifier in alphabetical order.
pub fn merge_name(
    name: &Name,
    mut offers: Vec<NameContribution>,
    shared: SharedNamePolicy,
    held: &DeclaredObjects<'_>,
    pool: PoolName,
) -> MergedName {
    offers.sort_by(|a, b| (a.since, &a.owner, &a.set).cmp(&(b.since, &b.owner, &b.set)));
    let mut of_name = MergedName::default();
    if let Some((steered, _)) = held.steered.filter(|_| held.is_shared) {
        let what = format!("pool {} answers other names, too; give {name} its own pool", steered.pool);
        offers.iter().for_each(|offer| of_name.reject(name, offer, &what));
        return of_name;
    }
    let pool = match held.steered {
        Some((_, declared)) => Pool { members: vec![], ..declared.clone() },
        None => Pool::new(pool, Policy::WEIGHTED),
    };
    let is_declared = held.steered.is_some();
    let mut merging = Merging { name, clusters: held.clusters, is_declared, pool, of_name: &mut of_name };
    merging.merge(&offers, shared);
    let Merging { pool, .. } = merging;
    if !pool.members.is_empty() {
        let own = || SteeredName { name: name.clone(), pool: pool.name.clone(), ttl: None };
        let steered = held.steered.map_or_else(own, |(steered, _)| steered.clone());
        of_name.steered = Some((steered, pool));
    }
    of_name
}

impl MergedName {
    fn reject(&mut self, name: &Name, offer: &NameContribution, what: impl Into<String>) {
        let (owner, set) = (Arc::clone(&offer.owner), Arc::clone(&offer.set));
        self.problems.push(ContributionProblem { name: name.to_string().into(), owner, set, message: what.into() });
    }
}

/// The state of merging one name.
struct Merging<'a> {
    name: &'a Name,
    clusters: &'a DeclaredClusters,
    /// True if a source of higher rank declares the name.
    is_declared: bool,
    pool: Pool,
    of_name: &'a mut MergedName,
}

impl Merging<'_> {
    fn merge(&mut self, offers: &[NameContribution], shared: SharedNamePolicy) {
        let kept = self.kept(offers, shared);
        self.set_fields(&kept);
        let scale = scale_of(&kept);
        for offer in kept.iter().filter(|offer| offer.lease_weight > Permille::default()) {
            for cluster in self.clusters_of(offer) {
                self.add(offer, cluster, scale);
            }
        }
        // A pool needs a member in tier 1: if no contribution has one, the smallest tier becomes 1.
        let first = self.pool.members.iter().map(|member| member.tier).min();
        if !self.is_declared
            && let Some(first) = first.filter(|first| *first > Tier::FIRST)
        {
            let own = self.pool.members.iter_mut().filter(|member| member.tier == first);
            own.for_each(|member| member.tier = Tier::FIRST);
        }
    }

    /// Returns the contributions to use: of those without a set identifier only one owner's, unless they are merged.
    fn kept<'o>(&mut self, offers: &'o [NameContribution], shared: SharedNamePolicy) -> Vec<&'o NameContribution> {
        let first = offers.iter().find(|offer| offer.set.is_empty()).map(|offer| &offer.owner);
        let mut kept = Vec::with_capacity(offers.len());
        for offer in offers {
            match first {
                Some(owner) if shared == SharedNamePolicy::Refuse && offer.set.is_empty() && offer.owner != *owner => {
                    let what = format!(
                        "{owner} contributed {} first; give each owner a set identifier, or set webhook.shared to merge",
                        self.name
                    );
                    self.of_name.reject(self.name, offer, what);
                }
                _ => kept.push(offer),
            }
        }
        kept
    }

    /// Sets policy, TTL and number of answers of the pool.
    fn set_fields(&mut self, kept: &[&NameContribution]) {
        let (mut policy, mut answers): (Option<&NameContribution>, Option<&NameContribution>) = (None, None);
        for offer in kept {
            let wanted = &offer.spec;
            if self.is_declared {
                let differs = wanted.policy.as_ref().is_some_and(|policy| *policy != self.pool.policy)
                    || wanted.ttl.is_some_and(|ttl| ttl != self.pool.ttl)
                    || wanted.answers.is_some_and(|answers| answers != self.pool.answers);
                if differs {
                    let what = format!(
                        "{} is declared with pool {}, whose settings take precedence",
                        self.name, self.pool.name
                    );
                    self.of_name.reject(self.name, offer, what);
                }
                continue;
            }
            if wanted.policy.is_some() {
                let first = *policy.get_or_insert(offer);
                self.differ(first, offer, "policy", first.spec.policy == wanted.policy);
            }
            if wanted.answers.is_some() {
                let first = *answers.get_or_insert(offer);
                self.differ(first, offer, "number of answers", first.spec.answers == wanted.answers);
            }
        }
        if self.is_declared {
            return;
        }
        self.pool.policy = policy.and_then(|offer| offer.spec.policy.clone()).unwrap_or(Policy::WEIGHTED);
        self.pool.answers = answers.and_then(|offer| offer.spec.answers).unwrap_or(self.pool.answers);
        self.pool.ttl = kept.iter().filter_map(|offer| offer.spec.ttl).min().unwrap_or(self.pool.ttl);
    }

    fn differ(&mut self, first: &NameContribution, offer: &NameContribution, what: &str, same: bool) {
        if !same {
            let (owner, set) = (&first.owner, &first.set);
            self.of_name.reject(
                self.name,
                offer,
                format!("{what} differs from that of {owner} (set {set:?}), which is older and takes precedence"),
            );
        }
    }

    /// Returns the clusters of a contribution: the declared one that it names, else those that have its addresses, and undeclared
    /// ones for the other addresses.
    fn clusters_of(&mut self, offer: &NameContribution) -> Vec<ClusterName> {
        if let Some(named) = &offer.spec.cluster {
            if self.clusters.contains(named) {
                return vec![named.clone()];
            }
            self.of_name.reject(
                self.name,
                offer,
                format!("cluster {named} is not declared; its addresses are used instead"),
            );
        }
        let mut found = Vec::new();
        let mut rest = BTreeSet::new();
        for address in &offer.addresses {
            match self.clusters.by_address.get(address) {
                Some(cluster) if !found.contains(cluster) => found.push(cluster.clone()),
                Some(_) => {}
                None => _ = rest.insert(*address),
            }
        }
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = rest.into_iter().partition(IpAddr::is_ipv4);
        let (mut v4, mut v6) = (v4.chunks(Cluster::ADDRESSES_MAX), v6.chunks(Cluster::ADDRESSES_MAX));
        loop {
            let addresses = [v4.next().unwrap_or_default(), v6.next().unwrap_or_default()].concat();
            if addresses.is_empty() || found.len() > Pool::MEMBERS_MAX {
                return found;
            }
            found.push(self.nameless(offer, addresses));
        }
    }

    /// Adds an undeclared cluster with these addresses; returns its name.
    fn nameless(&mut self, offer: &NameContribution, addresses: Vec<IpAddr>) -> ClusterName {
        let name = address_name(&addresses);
        let region = offer.spec.region.as_ref();
        let region = region.map(|region| (Arc::clone(region), Arc::clone(&offer.owner), Arc::clone(&offer.set)));
        let known = self.of_name.clusters.iter_mut().find(|known| known.name == name);
        match (known, region) {
            (None, region) => self.of_name.clusters.push(AnonymousCluster { name: name.clone(), addresses, region }),
            (Some(known), Some(region)) => match &known.region {
                None => known.region = Some(region),
                Some((said, ..)) if *said != region.0 => {
                    let what = format!("these addresses are in region {said} already, by an older contribution");
                    self.of_name.reject(self.name, offer, what);
                }
                Some(_) => {}
            },
            (Some(_), None) => {}
        }
        name
    }

    fn add(&mut self, offer: &NameContribution, cluster: ClusterName, scale: u32) {
        if self.pool.members.iter().any(|member| member.cluster == cluster) {
            return;
        }
        if self.pool.members.len() >= Pool::MEMBERS_MAX {
            let what =
                format!("{} has {} members, which is the limit; {cluster} is not added", self.name, Pool::MEMBERS_MAX);
            return self.of_name.reject(self.name, offer, what);
        }
        let wanted = &offer.spec;
        let whole = u32::from(wanted.weight.unwrap_or_default().0) * scale;
        let weight = whole * u32::from(offer.lease_weight.thousandths()) / 1000;
        // A weight that fades becomes 0 only with the lease weight.
        let weight = if whole > 0 { weight.max(1) } else { 0 };
        if let Some((name, monitor)) = &wanted.monitor
            && !self.of_name.monitors.iter().any(|(known, _)| known == name)
        {
            self.of_name.monitors.push((name.clone(), Arc::clone(monitor)));
        }
        let (owner, set) = (Arc::clone(&offer.owner), Arc::clone(&offer.set));
        self.of_name.origins.push(WeightOrigin { owner, set, weight: wanted.weight, lease_weight: offer.lease_weight });
        self.pool.members.push(Member {
            weight: Weight(u16::try_from(weight).unwrap_or(u16::MAX)),
            tier: wanted.tier.unwrap_or_default(),
            monitor: wanted.monitor.as_ref().map(|(name, _)| name.clone()),
            ..Member::new(cluster)
        });
    }
}

/// Returns the factor of all weights of a pool, so that fading weights change in small steps; 1 if none fades.
fn scale_of(offers: &[&NameContribution]) -> u32 {
    if offers.iter().all(|offer| offer.lease_weight == Permille::WHOLE) {
        return 1;
    }
    let largest = offers.iter().map(|offer| u32::from(offer.spec.weight.unwrap_or_default().0)).max().unwrap_or(1);
    (u32::from(u16::MAX) / largest.max(1)).clamp(1, 1000)
}

/// Returns the name of an undeclared cluster: its first address, the number of the others, and a hash of all.
fn address_name(addresses: &[IpAddr]) -> ClusterName {
    let first = addresses.first().map_or_else(String::new, |address| match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|segment| format!("{segment:x}")).join("-"),
    });
    let more = match addresses.len() {
        0 | 1 => String::new(),
        count => format!("+{}+{:016x}", count - 1, sum(addresses)),
    };
    ClusterName::new(&format!("at+{first}{more}")).expect("digits, dots, dashes and pluses")
}

/// Returns the FNV-1a hash of the addresses, which is the same on every server.
fn sum(addresses: &[IpAddr]) -> u64 {
    let octets = addresses.iter().flat_map(|address| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    });
    octets.fold(0xcbf2_9ce4_8422_2325, |sum: u64, octet| (sum ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
