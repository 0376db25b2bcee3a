//! Merges the addresses that several owners contribute to one name into one pool.
//!
//! Pure. A contribution is identified by source, owner and set identifier: withdrawing one withdraws nothing of another.

mod cluster_name;
mod merged;
mod rivals;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    Cluster, ClusterName, Member, Monitor, MonitorName, Name, Permille, Policy, Pool, PoolName, SteeredName, Tier, Ttl,
    Weight,
};

use self::cluster_name::{address_name, host_name};
pub use self::merged::{ContributedName, MergedNames};

/// The contribution of one owner to one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NameContribution {
    /// The owner.
    pub owner: Arc<str>,
    /// The set identifier; empty without one.
    pub set: Arc<str>,
    /// The Kubernetes cluster that it was read in; `None` for those of webhook clients, which come first.
    pub read_in: Option<Arc<str>>,
    /// Time it was first seen, in seconds since 1970: of two that conflict, the older one wins.
    pub since: u64,
    /// The addresses, both families.
    pub addresses: Vec<IpAddr>,
    /// Host names that stand for further addresses.
    pub hosts: Vec<Name>,
    /// The settings that come with the addresses.
    pub spec: Arc<ContributedSpec>,
    /// Lease weight: the fraction of its weight that is in effect. It falls below 1 while its writer is silent; 0 removes it.
    pub lease_weight: Permille,
    /// True if its writer withdrew it and the withdrawal is held. It then keeps no other owner out of the name.
    pub is_held: bool,
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
    /// True if weights are multiplied by numbers of ready endpoints.
    pub weight_by_pods: Option<bool>,
    /// Requests in flight that one ready endpoint carries.
    pub capacity_per_pod: Option<u64>,
}

/// Handling of several owners that contribute to a name without set identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedNamePolicy {
    /// All contributions are merged.
    Merge,
    /// The oldest one is used; the others are rejected with a message.
    #[default]
    Refuse,
}

/// The reason why a contribution, or a part of it, is not in the answers.
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
    /// True if the contribution is not in the answers to the name; false if a part of it is not, or the contribution of another owner.
    pub is_refused: bool,
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
    /// True if it was read in a Kubernetes cluster.
    pub is_read: bool,
}

/// A cluster that is not declared and is identified by its addresses or its host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousCluster {
    /// Its name, derived from the addresses or the host name.
    pub name: ClusterName,
    /// Its addresses; empty with a host name.
    pub addresses: Vec<IpAddr>,
    /// Its host name.
    pub host: Option<Name>,
    /// Its region, with the owner and the set identifier that contribute it.
    pub region: Option<(Arc<str>, Arc<str>, Arc<str>)>,
}

/// Objects that sources of higher rank declare, which take precedence.
pub struct DeclaredObjects<'a> {
    /// The declared clusters.
    pub clusters: &'a DeclaredClusters,
    /// The declared steered name and its pool.
    pub steered: Option<(&'a SteeredName, &'a Pool)>,
    /// True if the pool answers other names, too.
    pub is_shared: bool,
    /// True if the pool takes no members from elsewhere.
    pub is_closed: bool,
}

/// The declared clusters by name and by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredClusters {
    names: BTreeSet<ClusterName>,
    /// The cluster of each address that only one cluster has.
    by_address: BTreeMap<IpAddr, ClusterName>,
    /// The cluster of each host name that only one cluster has.
    by_host: BTreeMap<Name, ClusterName>,
}

impl DeclaredClusters {
    /// Returns the index of these clusters.
    pub fn new<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Self {
        let mut declared = Self::default();
        let (mut ambiguous, mut ambiguous_hosts) = (BTreeSet::new(), BTreeSet::new());
        for cluster in clusters {
            declared.names.insert(cluster.name.clone());
            for address in &cluster.addresses {
                let other = declared.by_address.insert(*address, cluster.name.clone());
                if other.is_some_and(|other| other != cluster.name) {
                    ambiguous.insert(*address);
                }
            }
            for host in &cluster.hosts {
                let other = declared.by_host.insert(host.name.clone(), cluster.name.clone());
                if other.is_some_and(|other| other != cluster.name) {
                    ambiguous_hosts.insert(host.name.clone());
                }
            }
        }
        declared.by_address.retain(|address, _| !ambiguous.contains(address));
        declared.by_host.retain(|host, _| !ambiguous_hosts.contains(host));
        declared
    }

    /// Returns the only cluster with an address.
    pub fn with_address(&self, address: &IpAddr) -> Option<&ClusterName> {
        self.by_address.get(address)
    }

    /// Returns the only cluster with a host name.
    pub fn with_host(&self, host: &Name) -> Option<&ClusterName> {
        self.by_host.get(host)
    }

    /// Returns true if a cluster of this name is declared.
    pub fn contains(&self, name: &ClusterName) -> bool {
        self.names.contains(name)
    }
}

/// Merges the contributions to one name; the result does not depend on their order. `pool` is the name of the pool if none is
/// declared.
///
/// Of a setting with only one value, the oldest contribution of a webhook client wins, then the oldest one that was read in Kubernetes, then
/// owner and set identifier in alphabetical order.
pub fn merge_name(
    name: &Name,
    mut contributions: Vec<NameContribution>,
    shared: SharedNamePolicy,
    declared: &DeclaredObjects<'_>,
    pool: PoolName,
) -> MergedName {
    let order = |of: &NameContribution| (of.read_in.is_some(), of.since, Arc::clone(&of.owner), Arc::clone(&of.set));
    contributions.sort_by_cached_key(order);
    let mut merged = MergedName::default();
    if let Some((steered, _)) = declared.steered.filter(|_| declared.is_shared || declared.is_closed) {
        let pool = &steered.pool;
        let message = match declared.is_closed {
            true => format!("pool {pool} of {name} takes no members from elsewhere; set contributions: allow there"),
            false => format!("pool {pool} answers other names, too; give {name} its own pool"),
        };
        for contribution in &contributions {
            merged.reject(name, contribution, &message);
        }
        return merged;
    }
    let pool = match declared.steered {
        Some((_, pool)) => Pool { members: vec![], ..pool.clone() },
        None => Pool::new(pool, Policy::WEIGHTED),
    };
    let is_declared = declared.steered.is_some();
    let older = BTreeMap::new();
    let mut merging = Merging { name, clusters: declared.clusters, is_declared, pool, older, merged: &mut merged };
    merging.merge(&contributions, shared);
    let Merging { pool, .. } = merging;
    if !pool.members.is_empty() {
        let new = || SteeredName { name: name.clone(), pool: pool.name.clone(), ttl: None };
        let steered = declared.steered.map_or_else(new, |(steered, _)| steered.clone());
        merged.steered = Some((steered, pool));
    }
    merged
}

impl MergedName {
    /// Reports that a contribution is not used.
    fn reject(&mut self, name: &Name, contribution: &NameContribution, message: impl Into<String>) {
        self.warn(name, contribution, message);
        self.problems.iter_mut().next_back().into_iter().for_each(|problem| problem.is_refused = true);
    }

    /// Reports that a part of a contribution is not used, or not the one of another owner.
    fn warn(&mut self, name: &Name, NameContribution { owner, set, .. }: &NameContribution, what: impl Into<String>) {
        let (owner, set, message) = (Arc::clone(owner), Arc::clone(set), what.into());
        let name = name.to_string().into();
        self.problems.push(ContributionProblem { name, owner, set, message, is_refused: false });
    }
}

/// Owner and set identifier of a contribution.
type OwnerAndSet = (Arc<str>, Arc<str>);

/// The state of merging one name.
struct Merging<'a> {
    name: &'a Name,
    clusters: &'a DeclaredClusters,
    /// True if a source of higher rank declares the name.
    is_declared: bool,
    pool: Pool,
    /// Contributions that are used in place of those of younger owners, with these owners.
    older: BTreeMap<OwnerAndSet, BTreeSet<Arc<str>>>,
    merged: &'a mut MergedName,
}

impl Merging<'_> {
    fn merge(&mut self, contributions: &[NameContribution], shared: SharedNamePolicy) {
        let kept = self.kept(contributions, shared);
        if self.is_declared {
            self.check_fields(&kept);
        } else {
            self.set_fields(&kept);
        }
        let factor = weight_factor(&kept);
        for contribution in kept.iter().filter(|contribution| contribution.lease_weight > Permille::default()) {
            for cluster in self.clusters_of(contribution) {
                self.add(contribution, cluster, factor);
            }
        }
        self.report_older(contributions);
        // A pool needs a member in tier 1: if no contribution has one, the smallest tier becomes 1.
        let first = self.pool.members.iter().map(|member| member.tier).min();
        if !self.is_declared
            && let Some(first) = first.filter(|first| *first > Tier::FIRST)
        {
            for member in self.pool.members.iter_mut().filter(|member| member.tier == first) {
                member.tier = Tier::FIRST;
            }
        }
    }

    fn reject(&mut self, contribution: &NameContribution, message: impl Into<String>) {
        self.merged.reject(self.name, contribution, message);
    }

    fn warn(&mut self, contribution: &NameContribution, message: impl Into<String>) {
        self.merged.warn(self.name, contribution, message);
    }

    /// Sets policy, TTL and number of answers of a pool that is not declared.
    fn set_fields(&mut self, kept: &[&NameContribution]) {
        let mut policy: Option<&NameContribution> = None;
        let mut answers: Option<&NameContribution> = None;
        for contribution in kept {
            let spec = &contribution.spec;
            if spec.policy.is_some() {
                let first = *policy.get_or_insert(contribution);
                if first.spec.policy != spec.policy {
                    self.reject_younger(first, contribution, "policy");
                }
            }
            if spec.answers.is_some() {
                let first = *answers.get_or_insert(contribution);
                if first.spec.answers != spec.answers {
                    self.reject_younger(first, contribution, "number of answers");
                }
            }
        }
        self.pool.policy = policy.and_then(|first| first.spec.policy.clone()).unwrap_or(Policy::WEIGHTED);
        self.pool.answers = answers.and_then(|first| first.spec.answers).unwrap_or(self.pool.answers);
        self.pool.weight_by_pods = kept.iter().any(|contribution| contribution.spec.weight_by_pods == Some(true));
        self.pool.capacity_per_pod = kept.iter().filter_map(|contribution| contribution.spec.capacity_per_pod).min();
        self.pool.ttl = kept.iter().filter_map(|contribution| contribution.spec.ttl).min().unwrap_or(self.pool.ttl);
    }

    /// Reports contributions whose settings differ from those of the declared pool.
    fn check_fields(&mut self, kept: &[&NameContribution]) {
        for contribution in kept {
            let (spec, pool) = (&contribution.spec, &self.pool);
            let differs = spec.policy.as_ref().is_some_and(|policy| *policy != pool.policy)
                || spec.ttl.is_some_and(|ttl| ttl != pool.ttl)
                || spec.answers.is_some_and(|answers| answers != pool.answers);
            if differs {
                let message =
                    format!("{} is declared with pool {}, whose settings take precedence", self.name, pool.name);
                self.warn(contribution, message);
            }
        }
    }

    fn reject_younger(&mut self, first: &NameContribution, contribution: &NameContribution, field: &str) {
        let (owner, set) = (&first.owner, &first.set);
        let message =
            format!("{field} differs from that of {owner} (set {set:?}), which is older and takes precedence");
        self.warn(contribution, message);
    }

    /// Returns the clusters of a contribution: the declared one that it names, else those that have its addresses, and undeclared
    /// ones for the other addresses.
    fn clusters_of(&mut self, contribution: &NameContribution) -> Vec<ClusterName> {
        if let Some(named) = &contribution.spec.cluster {
            if self.clusters.contains(named) {
                return vec![named.clone()];
            }
            self.warn(contribution, format!("cluster {named} is not declared; its addresses are used instead"));
        }
        let mut found = Vec::new();
        let mut rest = BTreeSet::new();
        for address in &contribution.addresses {
            match self.clusters.by_address.get(address) {
                Some(cluster) if !found.contains(cluster) => found.push(cluster.clone()),
                Some(_) => {}
                None => _ = rest.insert(*address),
            }
        }
        for host in &contribution.hosts {
            let cluster = match self.clusters.by_host.get(host) {
                Some(cluster) => cluster.clone(),
                None => self.add_undeclared(contribution, vec![], Some(host.clone())),
            };
            if !found.contains(&cluster) {
                found.push(cluster);
            }
        }
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = rest.into_iter().partition(IpAddr::is_ipv4);
        let (mut v4, mut v6) = (v4.chunks(Cluster::ADDRESSES_MAX), v6.chunks(Cluster::ADDRESSES_MAX));
        loop {
            let addresses = [v4.next().unwrap_or_default(), v6.next().unwrap_or_default()].concat();
            if addresses.is_empty() || found.len() > Pool::MEMBERS_MAX {
                return found;
            }
            found.push(self.add_undeclared(contribution, addresses, None));
        }
    }

    /// Adds an undeclared cluster with these addresses or this host name; returns its name.
    fn add_undeclared(
        &mut self,
        contribution: &NameContribution,
        addresses: Vec<IpAddr>,
        host: Option<Name>,
    ) -> ClusterName {
        let name = host.as_ref().map_or_else(|| address_name(&addresses), host_name);
        let region = contribution.spec.region.as_ref();
        let region =
            region.map(|region| (Arc::clone(region), Arc::clone(&contribution.owner), Arc::clone(&contribution.set)));
        let known = self.merged.clusters.iter_mut().find(|known| known.name == name);
        match (known, region) {
            (None, region) => {
                self.merged.clusters.push(AnonymousCluster { name: name.clone(), addresses, host, region })
            }
            (Some(known), Some(region)) => match &known.region {
                None => known.region = Some(region),
                Some((known, ..)) if *known != region.0 => {
                    let message = format!("these addresses are in region {known} already, by an older contribution");
                    self.warn(contribution, message);
                }
                Some(_) => {}
            },
            (Some(_), None) => {}
        }
        name
    }

    fn add(&mut self, contribution: &NameContribution, cluster: ClusterName, factor: u32) {
        if let Some(at) = self.pool.members.iter().position(|member| member.cluster == cluster) {
            let first = &self.merged.origins[at];
            // Two namespaces of one cluster; what a cluster contributes by the webhook, too, is one member on purpose.
            if first.is_read && contribution.read_in.is_some() && first.owner != contribution.owner {
                let (owner, set) = (Arc::clone(&first.owner), Arc::clone(&first.set));
                self.reject(contribution, format!("{owner} declares {} in {cluster} already, and is older", self.name));
                self.note_older((&owner, &set), contribution);
            }
            return;
        }
        if self.pool.members.len() >= Pool::MEMBERS_MAX {
            let message =
                format!("{} has {} members, which is the limit; {cluster} is not added", self.name, Pool::MEMBERS_MAX);
            return self.reject(contribution, message);
        }
        let spec = &contribution.spec;
        let whole = u32::from(spec.weight.unwrap_or_default().0) * factor;
        let weight = whole * u32::from(contribution.lease_weight.thousandths()) / 1000;
        // A weight that fades becomes 0 only with the lease weight.
        let weight = if whole > 0 { weight.max(1) } else { 0 };
        if let Some((name, monitor)) = &spec.monitor
            && !self.merged.monitors.iter().any(|(known, _)| known == name)
        {
            self.merged.monitors.push((name.clone(), Arc::clone(monitor)));
        }
        let (owner, set) = (Arc::clone(&contribution.owner), Arc::clone(&contribution.set));
        self.merged.origins.push(WeightOrigin {
            owner,
            set,
            weight: spec.weight,
            lease_weight: contribution.lease_weight,
            is_read: contribution.read_in.is_some(),
        });
        self.pool.members.push(Member {
            weight: Weight(u16::try_from(weight).unwrap_or(u16::MAX)),
            tier: spec.tier.unwrap_or_default(),
            monitor: spec.monitor.as_ref().map(|(name, _)| name.clone()),
            ..Member::new(cluster)
        });
    }
}

/// Returns the factor of all weights of a pool, so that fading weights change in small steps; 1 if none fades.
fn weight_factor(contributions: &[&NameContribution]) -> u32 {
    if contributions.iter().all(|contribution| contribution.lease_weight == Permille::WHOLE) {
        return 1;
    }
    let largest = contributions
        .iter()
        .map(|contribution| u32::from(contribution.spec.weight.unwrap_or_default().0))
        .max()
        .unwrap_or(1);
    (u32::from(u16::MAX) / largest.max(1)).clamp(1, 1000)
}

#[cfg(test)]
mod tests;
