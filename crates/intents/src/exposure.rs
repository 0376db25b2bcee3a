//! Derives pools, steered names and monitors from stored intents and declared clusters.
//!
//! Pure. `control` merges the result with the configuration. An inbound or compound intent becomes one pool and one name:
//!
//! * its members are the clusters that run its service, or those in `gslb.members`;
//! * a compound has the members of its children, weighted by the children's weights, in each tier separately;
//! * networks of its clients (`cidrs`) hide its members from all other clients;
//! * without a policy it is weighted, and balanced by load if that can be compared: if all its clusters have a capacity.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, Contributions, Member, Monitor, MonitorName, Name, Network, Policy, Pool,
    PoolName, SteeredName, Tier, Timestamp, Weight,
    intent::{Client, Compound, Gslb, Inbound, Intent, IntentSpec, WeightBy},
};

use super::{
    body,
    certificates::sha256,
    probe::{self, IntentMonitor},
    shares,
};
use fairway_store::objects::{Key, Kind, Object};

/// A stored intent.
#[derive(Clone, Debug)]
pub struct StoredIntent {
    /// Key.
    pub key: Key,
    /// Time of its creation. The older of two intents that claim one name has it.
    pub created: Timestamp,
    /// Parsed value.
    pub intent: Intent,
    /// Name that it claims, if any.
    pub answered: Option<Name>,
}

impl StoredIntent {
    /// Parses a stored object. Fails if it is not an object of the intent API.
    pub fn read(object: &Object) -> Result<Self, String> {
        let intent = body::read_stored(object.key.kind(), &object.value).map_err(|invalid| invalid.to_string())?;
        Ok(Self::new(object.key.clone(), object.created, intent))
    }

    /// Returns the intent that is stored at a key.
    pub fn new(key: Key, created: Timestamp, intent: Intent) -> Self {
        Self { key, created, answered: answered_name(&intent), intent }
    }

    /// Returns the name of an intent that is to be exposed.
    fn name(&self, external: &str, public_domain: &str) -> Result<Name, NotServed> {
        self.answered.clone().map_or_else(|| answered_at(external, public_domain), Ok)
    }
}

/// Result for one intent.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Key of the inbound or compound intent.
    pub key: Key,
    /// Pool and name, or the reason why the intent is not served.
    pub outcome: Result<Exposed, NotServed>,
}

/// Pool, name and monitor of an intent.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposed {
    /// Steered name.
    pub name: SteeredName,
    /// Pool.
    pub pool: Pool,
    /// Monitor of the members. `None`: the monitor of the zone.
    pub monitor: Option<(MonitorName, Monitor)>,
}

/// Reason why an intent is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// An older intent has the name; the members of this one are merged into its pool.
    #[error("{name} is declared by {with}, which is older: its fields are used, and the members are merged")]
    Conflict {
        /// Name.
        name: Name,
        /// The older intent.
        with: Key,
    },
    /// It has no valid name.
    #[error("there is no name to serve: externalName {0:?} is empty, an address, or a prefix without publicDomain")]
    NoName(String),
    /// No cluster runs its service.
    #[error("no declared cluster runs it; add it to `services` of a cluster, or list clusters in gslb.members")]
    NoMember,
    /// It is not exposed outside its clusters.
    #[error("externalSupport is false; set it to true to serve the name")]
    NotExternal,
    /// It has more members or networks than a pool may have.
    #[error("{0}; remove some")]
    TooMany(String),
}

/// Declared clusters by name.
pub type Clusters<'a> = BTreeMap<&'a ClusterName, &'a Cluster>;

/// Returns the result of each inbound and compound intent, in key order. Objects of other kinds have no result of their own.
///
/// A result depends on the objects directly below the intent and on the intents that claim the same name: if all of these are passed,
/// other intents make no difference.
pub fn expose(stored: &[&StoredIntent], clusters: &Clusters<'_>) -> Vec<Exposure> {
    let below = Below::of(stored);
    let mut by_age: Vec<usize> = (0..stored.len()).collect();
    by_age.sort_by(|a, b| (stored[*a].created, &stored[*a].key).cmp(&(stored[*b].created, &stored[*b].key)));
    // Results stay at the index of their intent, which is usually in key order already: they are large, and sorting would move them.
    let mut exposures: Vec<Option<Exposure>> = Vec::new();
    exposures.resize_with(stored.len(), || None);
    let mut owners: HashMap<Name, usize> = HashMap::new();
    for at in by_age {
        let of = stored[at];
        let outcome = match (&of.intent.spec, of.key.kind()) {
            (IntentSpec::Inbound(inbound), Kind::Inbound) => self::inbound(of, inbound, &below, clusters),
            (IntentSpec::Compound(compound), _) => self::compound(of, compound, &below, clusters),
            _ => continue,
        };
        let outcome = match outcome {
            Ok(elements) => match owners.entry(elements.name.name.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(at);
                    Ok(elements)
                }
                Entry::Occupied(entry) => {
                    let older = exposures[*entry.get()].as_mut().expect("the owner of a name has a result");
                    Err(merge(older, elements))
                }
            },
            not_served => not_served,
        };
        exposures[at] = Some(Exposure { key: of.key.clone(), outcome });
    }
    for (of, exposure) in stored.iter().zip(&mut exposures) {
        if let Some(Exposure { outcome: Ok(exposed), .. }) = exposure
            && has_no_policy(&of.intent)
        {
            let has_capacity = |member: &Member| clusters.get(&member.cluster).is_some_and(|of| of.capacity.is_some());
            exposed.pool.policy.load = exposed.pool.members.iter().all(has_capacity);
        }
    }
    let mut exposures: Vec<Exposure> = exposures.into_iter().flatten().collect();
    exposures.sort_by(|a, b| a.key.cmp(&b.key));
    exposures
}

fn has_no_policy(intent: &Intent) -> bool {
    match &intent.spec {
        IntentSpec::Inbound(inbound) => inbound.gslb.policy.is_none(),
        IntentSpec::Compound(compound) => compound.gslb.policy.is_none(),
        _ => false,
    }
}

/// Merges the members of a younger intent into the pool of the older one.
fn merge(older: &mut Exposure, younger: Exposed) -> NotServed {
    if let Ok(elements) = &mut older.outcome {
        let known: BTreeSet<_> = elements.pool.members.iter().map(|member| member.cluster.clone()).collect();
        let free = Pool::MEMBERS_MAX.saturating_sub(known.len());
        let new = younger.pool.members.into_iter().filter(|member| !known.contains(&member.cluster)).take(free);
        elements.pool.members.extend(new);
    }
    NotServed::Conflict { name: younger.name.name, with: older.key.clone() }
}

/// Objects below inbound and compound intents.
struct Below<'a> {
    /// Children of compounds, by the names of the compound, in key order.
    children: HashMap<&'a str, Vec<&'a Inbound>>,
    /// Clients of inbound intents, likewise.
    clients: HashMap<&'a str, Vec<&'a Client>>,
}

impl<'a> Below<'a> {
    fn of(stored: &[&'a StoredIntent]) -> Self {
        let mut below = Self { children: HashMap::new(), clients: HashMap::new() };
        let is_below = |of: &&StoredIntent| matches!(of.key.kind(), Kind::InboundOfCompound | Kind::Client);
        let mut sorted: Vec<&StoredIntent> = stored.iter().copied().filter(is_below).collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for of in sorted {
            let names = names(&of.key);
            let above = names.rsplit_once('/').map_or("", |(above, _)| above);
            match &of.intent.spec {
                IntentSpec::Inbound(child) => below.children.entry(above).or_default().push(child),
                IntentSpec::Client(client) => below.clients.entry(above).or_default().push(client),
                _ => {}
            }
        }
        below
    }

    /// Returns the networks of the clients of an inbound intent. Empty: all clients.
    fn networks(&self, key: &Key) -> Vec<Network> {
        let clients = self.clients.get(names(key));
        let cidrs = clients.into_iter().flatten().flat_map(|client| &client.cidrs);
        cidrs.copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Returns the names of a key as text.
fn names(key: &Key) -> &str {
    key.as_str().split_once('/').map_or("", |(_, names)| names)
}

fn inbound(
    of: &StoredIntent,
    inbound: &Inbound,
    below: &Below<'_>,
    clusters: &Clusters<'_>,
) -> Result<Exposed, NotServed> {
    if !inbound.external_support {
        return Err(NotServed::NotExternal);
    }
    let name = of.name(&inbound.external_name, &inbound.public_domain)?;
    let networks = below.networks(&of.key);
    let members = members(inbound, &inbound.gslb, clusters).into_iter();
    let members = members.map(|(cluster, weight, tier)| member(cluster, weight, tier, networks.clone()));
    elements(&of.key, name, &inbound.gslb, members.collect(), probe::of_inbound(inbound))
}

fn compound(
    of: &StoredIntent,
    compound: &Compound,
    below: &Below<'_>,
    clusters: &Clusters<'_>,
) -> Result<Exposed, NotServed> {
    let name = of.name(&compound.external_name, "")?;
    let children = below.children.get(names(&of.key));
    // A child without externalSupport is not a part of the exposed compound.
    let children: Vec<&Inbound> =
        children.into_iter().flatten().copied().filter(|child| child.external_support).collect();
    let weights: Vec<Option<u8>> = children.iter().map(|child| child.traffic_weight).collect();
    let parts = shares::apportion(&shares::shares(&weights), WHOLE);
    let mut shares_of: BTreeMap<ClusterName, (u64, Tier)> = BTreeMap::new();
    for (child, part) in children.iter().zip(parts) {
        let members = members(child, &child.gslb, clusters);
        let tiers: BTreeSet<Tier> = members.iter().map(|(_, _, tier)| *tier).collect();
        for tier in tiers {
            let of_tier: Vec<_> = members.iter().filter(|(_, _, of)| *of == tier).collect();
            let weights: Vec<u64> = of_tier.iter().map(|(_, weight, _)| u64::from(weight.0)).collect();
            let weights = if weights.iter().all(|weight| *weight == 0) { vec![1; weights.len()] } else { weights };
            for ((cluster, _, _), share) in of_tier.into_iter().zip(shares::apportion(&weights, part)) {
                let entry = shares_of.entry(cluster.clone()).or_insert((0, tier));
                // A cluster of two children gets both shares, in the first tier of both.
                *entry = (entry.0 + share, entry.1.min(tier));
            }
        }
    }
    let weights = shares::to_weights(&shares_of.values().map(|(share, _)| *share).collect::<Vec<_>>());
    let members = shares_of.into_iter().zip(weights);
    let members = members.map(|((cluster, (_, tier)), weight)| member(cluster, Weight(weight), tier, Vec::new()));
    let hint = children.first().map(|child| probe::of_inbound(child));
    let monitor = probe::of_compound(compound, hint.flatten());
    elements(&of.key, name, &compound.gslb, members.collect(), monitor)
}

/// Returns the clusters that serve an inbound intent.
fn members(inbound: &Inbound, gslb: &Gslb, clusters: &Clusters<'_>) -> Vec<(ClusterName, Weight, Tier)> {
    // A CNAME points to the name of the cluster: a cluster without a name cannot be served.
    let answerable = |cluster: &Cluster| gslb.mode != Some(AnswerMode::Cname) || cluster.dns_name.is_some();
    if gslb.members.is_empty() {
        let found = clusters.values().filter(|cluster| runs(cluster, &inbound.service_name) && answerable(cluster));
        return found.map(|cluster| (cluster.name.clone(), Weight::default(), Tier::FIRST)).collect();
    }
    let declared = gslb.members.iter().filter(|member| clusters.get(&member.cluster).is_some_and(|of| answerable(of)));
    declared.map(|member| (member.cluster.clone(), member.weight, member.tier)).collect()
}

fn member(cluster: ClusterName, weight: Weight, tier: Tier, networks: Vec<Network>) -> Member {
    Member { weight, tier, networks, ..Member::new(cluster) }
}

fn elements(
    key: &Key,
    name: Name,
    gslb: &Gslb,
    members: Vec<Member>,
    monitor: Option<IntentMonitor>,
) -> Result<Exposed, NotServed> {
    if members.is_empty() {
        return Err(NotServed::NoMember);
    }
    if members.len() > Pool::MEMBERS_MAX {
        return Err(NotServed::TooMany(format!(
            "{} clusters run it; a pool holds {}",
            members.len(),
            Pool::MEMBERS_MAX
        )));
    }
    let networks: usize = members.iter().map(|member| member.networks.len()).sum();
    if networks > NETWORKS_MAX {
        return Err(NotServed::TooMany(format!(
            "its members have {networks} networks of clients; the limit is {NETWORKS_MAX}"
        )));
    }
    let object = object_name(key);
    let pool = PoolName::new(&object).expect("characters of keys and '+' are valid in names of pools");
    let is_fallback = monitor.as_ref().is_some_and(|of| of.is_fallback);
    let monitor = monitor.map(|IntentMonitor { monitor, .. }| {
        let name = MonitorName::new(&object).expect("characters of keys and '+' are valid in names of monitors");
        (name, monitor)
    });
    let default = Pool::new(pool.clone(), gslb.policy.clone().unwrap_or(Policy::WEIGHTED));
    let pool = Pool {
        mode: gslb.mode.unwrap_or_default(),
        ttl: gslb.ttl.unwrap_or(default.ttl),
        down: gslb.down.clone().unwrap_or_default(),
        weight_by_pods: gslb.weight_by == Some(WeightBy::Pods),
        capacity_per_pod: gslb.capacity_per_pod,
        monitor: monitor.as_ref().filter(|_| !is_fallback).map(|(name, _)| name.clone()),
        fallback_monitor: monitor.as_ref().filter(|_| is_fallback).map(|(name, _)| name.clone()),
        // Others share the name only if it is granted to them as well.
        contributions: Some(Contributions::Allow),
        members,
        ..default
    };
    Ok(Exposed { name: SteeredName { name, pool: pool.name.clone(), ttl: None }, pool, monitor })
}

/// Returns the name that an intent claims; `None` if it is not exposed or has no valid name.
pub fn answered_name(intent: &Intent) -> Option<Name> {
    match &intent.spec {
        IntentSpec::Inbound(inbound) if inbound.external_support => {
            answered_at(&inbound.external_name, &inbound.public_domain).ok()
        }
        IntentSpec::Compound(compound) => answered_at(&compound.external_name, "").ok(),
        _ => None,
    }
}

/// Returns the source of the weight of a cluster in the pool of an intent.
pub fn weight_source(intent: &Intent, name: &ClusterName, cluster: Option<&Cluster>) -> &'static str {
    match &intent.spec {
        IntentSpec::Compound(_) => "trafficWeight",
        IntentSpec::Inbound(inbound) if inbound.gslb.members.iter().any(|member| member.cluster == *name) => {
            "gslb.members"
        }
        IntentSpec::Inbound(inbound)
            if inbound.gslb.members.is_empty() && cluster.is_some_and(|of| runs(of, &inbound.service_name)) =>
        {
            "services"
        }
        _ => "another intent",
    }
}

/// True if a cluster runs a service.
pub fn runs(cluster: &Cluster, service: &str) -> bool {
    cluster.services.iter().any(|of| of == "*" || of == service)
}

/// Returns the name to serve: the external name, with the public domain appended if it is a single label.
fn answered_at(external: &str, public_domain: &str) -> Result<Name, NotServed> {
    let nameless = || NotServed::NoName(external.to_owned());
    let name = external.trim_end_matches('.');
    if name.is_empty() || name.parse::<std::net::IpAddr>().is_ok() {
        return Err(nameless());
    }
    let domain = public_domain.trim_matches('.');
    let whole = match (name.contains('.'), domain) {
        (true, _) => name.to_owned(),
        (false, "") => return Err(nameless()),
        (false, domain) => format!("{name}.{domain}"),
    };
    whole.parse().map_err(|_| nameless())
}

/// Returns the name of the pool and the monitor of an intent: kind and names, or a prefix of them with a hash if that is too long.
pub fn object_name(key: &Key) -> String {
    // Names have no `+`, so that two keys have different names.
    let whole = key.as_str().replace('/', "+");
    if whole.len() <= OBJECT_NAME_MAX {
        return whole;
    }
    let hash = &sha256(&whole)[..16];
    format!("{}+{hash}", &whole[..OBJECT_NAME_MAX - 1 - hash.len()])
}

/// Maximum length of the name of a pool and of a monitor. A name with a hash has this length.
pub const OBJECT_NAME_MAX: usize = 128;
/// Maximum number of networks of a pool.
const NETWORKS_MAX: usize = 4_096;
/// Sum of the shares of a compound's children: the least common multiple of 1 to 16, times a million, which the weights that people
/// write divide without remainder.
const WHOLE: u64 = 720_720 * 1_000_000;
