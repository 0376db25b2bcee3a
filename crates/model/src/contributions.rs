//! Addresses that several contributors offer for one name, joined into one pool.
//!
//! Pure. A contribution is told by source, owner and set identifier: what one of them takes back takes nothing of another along.

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
/// What one contribution offers for one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NameContribution {
    /// Who offers.
    pub owner: Arc<str>,
    /// The set identifier; empty where there is none.
    pub set: Arc<str>,
    /// Since when, in seconds since 1970: of two that differ, the older one holds.
    pub since: u64,
    /// The addresses, both families.
    pub addresses: Vec<IpAddr>,
    /// What is wished for beside them.
    pub wanted: Arc<ContributedSpec>,
    /// How much of its weight is left: less than all while its writer is not heard of; nothing takes it out.
    pub lease_weight: Permille,
}

/// What a contribution says about how its addresses are used. What is not said is left to others, or to the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContributedSpec {
    /// The declared cluster that the addresses stand for.
    pub cluster: Option<ClusterName>,
    /// The member's weight.
    pub weight: Option<Weight>,
    /// The member's tier.
    pub tier: Option<Tier>,
    /// Where a cluster that is not declared stands.
    pub region: Option<Arc<str>>,
    /// How the member is checked.
    pub monitor: Option<(MonitorName, Arc<Monitor>)>,
    /// How the pool chooses.
    pub policy: Option<Policy>,
    /// TTL of the answers; of several the smallest holds.
    pub ttl: Option<Ttl>,
    /// How many clusters an answer names, 1 to 8.
    pub answers: Option<u8>,
}

/// What is to be done with a name that several owners offer without set identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedNamePolicy {
    /// All are members.
    Merge,
    /// The oldest holds; the others are told.
    #[default]
    Refuse,
}

/// Why something of a contribution is not in the answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContributionProblem {
    /// The name, as it was offered.
    pub name: Arc<str>,
    /// Who offered.
    pub owner: Arc<str>,
    /// The set identifier.
    pub set: Arc<str>,
    /// What is wrong, and what to do about it.
    pub what: String,
}

/// What the offers of one name come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedName {
    /// How the name is steered; none where there is nothing to answer it with.
    pub steered: Option<(SteeredName, Pool)>,
    /// Where the weight of each member of that pool comes from.
    pub origins: Vec<WeightOrigin>,
    /// The members' clusters that nobody declared.
    pub clusters: Vec<AnonymousCluster>,
    /// The monitors that members ask for.
    pub monitors: Vec<(MonitorName, Arc<Monitor>)>,
    /// What is not heeded.
    pub conditions: Vec<ContributionProblem>,
}

/// Where the weight of a member comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightOrigin {
    /// Who offers it.
    pub owner: Arc<str>,
    /// The set identifier.
    pub set: Arc<str>,
    /// The weight that is wished for; none where nothing is said, which counts as 1.
    pub said: Option<Weight>,
    /// How much of it is left.
    pub lease_weight: Permille,
}

/// A cluster that nobody declared: it is its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousCluster {
    /// What it is called.
    pub name: ClusterName,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Where it is said to stand, with the owner and the set identifier that say it.
    pub region: Option<(Arc<str>, Arc<str>, Arc<str>)>,
}

/// What others declared already: their word holds, and members join them.
pub struct DeclaredObjects<'a> {
    /// Clusters.
    pub clusters: &'a DeclaredClusters,
    /// How the name is steered, and by which pool.
    pub steered: Option<(&'a SteeredName, &'a Pool)>,
    /// True if that pool answers other names, too.
    pub is_shared: bool,
}

/// The clusters that are declared, by name and by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredClusters {
    names: BTreeSet<ClusterName>,
    /// The cluster of each address that but one has.
    by_address: BTreeMap<IpAddr, ClusterName>,
}

impl DeclaredClusters {
    /// These clusters.
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

    /// Returns true if there is one of this name.
    pub fn contains(&self, name: &ClusterName) -> bool {
        self.names.contains(name)
    }
}

/// Joins the offers of one name; their order does not matter. `pool` is what its pool is called where nobody declared one.
///
/// Of what can be said only once, the oldest word holds, then owner and set identifier in order.
pub fn unite(
    name: &Name,
    mut offers: Vec<NameContribution>,
    shared: SharedNamePolicy,
    held: &DeclaredObjects<'_>,
    pool: PoolName,
) -> MergedName {
    offers.sort_by(|a, b| (a.since, &a.owner, &a.set).cmp(&(b.since, &b.owner, &b.set)));
    let mut of_name = MergedName::default();
    if let Some((steered, _)) = held.steered.filter(|_| held.is_shared) {
        let what = format!("pool {} answers other names, too; give {name} a pool of its own", steered.pool);
        offers.iter().for_each(|offer| of_name.tell(name, offer, &what));
        return of_name;
    }
    let pool = match held.steered {
        Some((_, declared)) => Pool { members: vec![], ..declared.clone() },
        None => Pool::new(pool, Policy::WEIGHTED),
    };
    let is_declared = held.steered.is_some();
    let mut joining = Joining { name, clusters: held.clusters, is_declared, pool, of_name: &mut of_name };
    joining.join(&offers, shared);
    let Joining { pool, .. } = joining;
    if !pool.members.is_empty() {
        let own = || SteeredName { name: name.clone(), pool: pool.name.clone(), ttl: None };
        let steered = held.steered.map_or_else(own, |(steered, _)| steered.clone());
        of_name.steered = Some((steered, pool));
    }
    of_name
}

impl MergedName {
    fn tell(&mut self, name: &Name, offer: &NameContribution, what: impl Into<String>) {
        let (owner, set) = (Arc::clone(&offer.owner), Arc::clone(&offer.set));
        self.conditions.push(ContributionProblem { name: name.to_string().into(), owner, set, what: what.into() });
    }
}

/// One name, while its offers are joined.
struct Joining<'a> {
    name: &'a Name,
    clusters: &'a DeclaredClusters,
    /// True if somebody of higher rank steers the name.
    is_declared: bool,
    pool: Pool,
    of_name: &'a mut MergedName,
}

impl Joining<'_> {
    fn join(&mut self, offers: &[NameContribution], shared: SharedNamePolicy) {
        let kept = self.kept(offers, shared);
        self.set_fields(&kept);
        let scale = scale_of(&kept);
        for offer in kept.iter().filter(|offer| offer.lease_weight > Permille::default()) {
            for cluster in self.clusters_of(offer) {
                self.add(offer, cluster, scale);
            }
        }
        // A pool needs a first tier: where all that is offered stands further back, the earliest is the first.
        let first = self.pool.members.iter().map(|member| member.tier).min();
        if !self.is_declared
            && let Some(first) = first.filter(|first| *first > Tier::FIRST)
        {
            let own = self.pool.members.iter_mut().filter(|member| member.tier == first);
            own.for_each(|member| member.tier = Tier::FIRST);
        }
    }

    /// Returns the offers that are heeded: of those without a set identifier, one owner's, unless they are to be merged.
    fn kept<'o>(&mut self, offers: &'o [NameContribution], shared: SharedNamePolicy) -> Vec<&'o NameContribution> {
        let first = offers.iter().find(|offer| offer.set.is_empty()).map(|offer| &offer.owner);
        let mut kept = Vec::with_capacity(offers.len());
        for offer in offers {
            match first {
                Some(owner) if shared == SharedNamePolicy::Refuse && offer.set.is_empty() && offer.owner != *owner => {
                    let what = format!(
                        "{owner} has offered {} for longer; give each a set identifier, or set webhook.shared to merge",
                        self.name
                    );
                    self.of_name.tell(self.name, offer, what);
                }
                _ => kept.push(offer),
            }
        }
        kept
    }

    /// What is said of the pool as a whole.
    fn set_fields(&mut self, kept: &[&NameContribution]) {
        let (mut policy, mut answers): (Option<&NameContribution>, Option<&NameContribution>) = (None, None);
        for offer in kept {
            let wanted = &offer.wanted;
            if self.is_declared {
                let differs = wanted.policy.as_ref().is_some_and(|policy| *policy != self.pool.policy)
                    || wanted.ttl.is_some_and(|ttl| ttl != self.pool.ttl)
                    || wanted.answers.is_some_and(|answers| answers != self.pool.answers);
                if differs {
                    let what = format!("{} is declared with pool {}, whose fields hold", self.name, self.pool.name);
                    self.of_name.tell(self.name, offer, what);
                }
                continue;
            }
            if wanted.policy.is_some() {
                let first = *policy.get_or_insert(offer);
                self.differ(first, offer, "policy", first.wanted.policy == wanted.policy);
            }
            if wanted.answers.is_some() {
                let first = *answers.get_or_insert(offer);
                self.differ(first, offer, "number of answers", first.wanted.answers == wanted.answers);
            }
        }
        if self.is_declared {
            return;
        }
        self.pool.policy = policy.and_then(|offer| offer.wanted.policy.clone()).unwrap_or(Policy::WEIGHTED);
        self.pool.answers = answers.and_then(|offer| offer.wanted.answers).unwrap_or(self.pool.answers);
        self.pool.ttl = kept.iter().filter_map(|offer| offer.wanted.ttl).min().unwrap_or(self.pool.ttl);
    }

    fn differ(&mut self, first: &NameContribution, offer: &NameContribution, what: &str, same: bool) {
        if !same {
            let (owner, set) = (&first.owner, &first.set);
            self.of_name.tell(
                self.name,
                offer,
                format!("another {what} holds, which {owner} (set {set:?}) has said for longer"),
            );
        }
    }

    /// Returns the clusters that an offer stands for: the one it names, those that have its addresses, and others without a declaration.
    fn clusters_of(&mut self, offer: &NameContribution) -> Vec<ClusterName> {
        if let Some(named) = &offer.wanted.cluster {
            if self.clusters.contains(named) {
                return vec![named.clone()];
            }
            self.of_name.tell(
                self.name,
                offer,
                format!("cluster {named} is not declared; it is told by its addresses"),
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

    /// Returns a cluster that nobody declared: it is its addresses.
    fn nameless(&mut self, offer: &NameContribution, addresses: Vec<IpAddr>) -> ClusterName {
        let name = address_name(&addresses);
        let region = offer.wanted.region.as_ref();
        let region = region.map(|region| (Arc::clone(region), Arc::clone(&offer.owner), Arc::clone(&offer.set)));
        let known = self.of_name.clusters.iter_mut().find(|known| known.name == name);
        match (known, region) {
            (None, region) => self.of_name.clusters.push(AnonymousCluster { name: name.clone(), addresses, region }),
            (Some(known), Some(region)) => match &known.region {
                None => known.region = Some(region),
                Some((said, ..)) if *said != region.0 => {
                    let what = format!("region {said} holds for these addresses, which was said before");
                    self.of_name.tell(self.name, offer, what);
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
            let what = format!(
                "{} has {} members, the most there can be; {cluster} is left out",
                self.name,
                Pool::MEMBERS_MAX
            );
            return self.of_name.tell(self.name, offer, what);
        }
        let wanted = &offer.wanted;
        let whole = u32::from(wanted.weight.unwrap_or_default().0) * scale;
        let weight = whole * u32::from(offer.lease_weight.thousandths()) / 1000;
        // What fades goes at the end, not before.
        let weight = if whole > 0 { weight.max(1) } else { 0 };
        if let Some((name, monitor)) = &wanted.monitor
            && !self.of_name.monitors.iter().any(|(known, _)| known == name)
        {
            self.of_name.monitors.push((name.clone(), Arc::clone(monitor)));
        }
        let (owner, set) = (Arc::clone(&offer.owner), Arc::clone(&offer.set));
        self.of_name.origins.push(WeightOrigin { owner, set, said: wanted.weight, lease_weight: offer.lease_weight });
        self.pool.members.push(Member {
            weight: Weight(u16::try_from(weight).unwrap_or(u16::MAX)),
            tier: wanted.tier.unwrap_or_default(),
            monitor: wanted.monitor.as_ref().map(|(name, _)| name.clone()),
            ..Member::new(cluster)
        });
    }
}

/// By how much all weights of a pool are multiplied, so that those that fade do so in small steps; 1 while none does.
fn scale_of(offers: &[&NameContribution]) -> u32 {
    if offers.iter().all(|offer| offer.lease_weight == Permille::WHOLE) {
        return 1;
    }
    let largest = offers.iter().map(|offer| u32::from(offer.wanted.weight.unwrap_or_default().0)).max().unwrap_or(1);
    (u32::from(u16::MAX) / largest.max(1)).clamp(1, 1000)
}

/// What a cluster that is nothing but addresses is called: by the first of them, with the number of the others and a sum of all.
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

/// FNV-1a over the octets of addresses: the same on every server.
fn sum(addresses: &[IpAddr]) -> u64 {
    let octets = addresses.iter().flat_map(|address| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    });
    octets.fold(0xcbf2_9ce4_8422_2325, |sum: u64, octet| (sum ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
