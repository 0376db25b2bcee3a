//! What intents wish for: from stored objects and declared clusters to pools, steered names and monitors.
//!
//! Pure. `control` joins the outcome with the configuration. An inbound or compound intent becomes one pool and one name:
//!
//! * its members are the clusters that run its service, or those that `gslb.members` lists;
//! * the children of a compound bring their members, which share by the children's weights, each tier for itself;
//! * networks of its clients (`cidrs`) hide its members from everybody else.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, Member, Monitor, MonitorName, Name, Network, Policy, Pool, PoolName, SteeredName,
    Tier, Timestamp, Weight,
    intent::{Client, Compound, Gslb, Inbound, Intent},
};

use super::{body, certificates::sha256, probe, shares};
use fairway_store::objects::{Key, Kind, Object};

/// A stored object that was read.
#[derive(Clone, Debug)]
pub struct StoredIntent {
    /// Where it is.
    pub key: Key,
    /// When it was made: of two that claim one name, the older has it.
    pub created: Timestamp,
    /// What it says.
    pub intent: Intent,
    /// The name that it claims, if any.
    pub answered: Option<Name>,
}

impl StoredIntent {
    /// Reads a stored object; the reason, where it is none of the intent API or cannot be read.
    pub fn read(object: &Object) -> Result<Self, String> {
        let intent = body::read_kept(object.key.kind(), &object.value).map_err(|refused| refused.to_string())?;
        Ok(Self::new(object.key.clone(), object.created, intent))
    }

    /// What somebody stored at a key.
    pub fn new(key: Key, created: Timestamp, intent: Intent) -> Self {
        Self { key, created, answered: answered_name(&intent), intent }
    }

    /// The name that it is answered at, once it is known to be for the outside.
    fn name(&self, external: &str, public_domain: &str) -> Result<Name, Unanswered> {
        self.answered.clone().map_or_else(|| answered_at(external, public_domain), Ok)
    }
}

/// What one intent wishes for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// The inbound or compound intent.
    pub key: Key,
    /// What it comes to, or why it is not answered.
    pub outcome: Result<Elements, Unanswered>,
}

/// Elements of Fairway's own configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// The name and its pool.
    pub name: SteeredName,
    /// The pool.
    pub pool: Pool,
    /// The monitor of the pool's members; none: the zone's.
    pub monitor: Option<(MonitorName, Monitor)>,
}

/// Why an intent is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// An older intent has the name; members of this one joined it.
    #[error("{name} is declared by {with}, which is older: its fields hold, and the members join it")]
    Conflict {
        /// The name.
        name: Name,
        /// Whose fields hold.
        with: Key,
    },
    /// It does not say where it is answered.
    #[error("there is no name to answer at: externalName {0:?} is empty, an address, or a prefix without publicDomain")]
    AnonymousCluster(String),
    /// No cluster runs it.
    #[error("no declared cluster runs it; list it in `services` of a cluster, or name clusters in gslb.members")]
    NoMember,
    /// It is for its clusters alone.
    #[error("externalSupport is false; say true to have it answered")]
    NotExternal,
    /// More than a pool holds.
    #[error("{0}; take some out")]
    TooMany(String),
}

/// The clusters that are declared.
pub type Clusters<'a> = BTreeMap<&'a ClusterName, &'a Cluster>;

/// What the stored intents wish for, in the order of their keys; those of other kinds wish for nothing by themselves.
///
/// What comes of an intent depends on what lies right below it, and on those that claim the same name: where these are all among
/// those given, others change nothing.
pub fn wishes(stored: &[&StoredIntent], clusters: &Clusters<'_>) -> Vec<Wish> {
    let below = Below::of(stored);
    let mut by_age: Vec<usize> = (0..stored.len()).collect();
    by_age.sort_by(|a, b| (stored[*a].created, &stored[*a].key).cmp(&(stored[*b].created, &stored[*b].key)));
    // Where they were given, which is mostly in the order of their keys: wishes are large, and would be moved often to be sorted.
    let mut wishes: Vec<Option<Wish>> = Vec::new();
    wishes.resize_with(stored.len(), || None);
    let mut owners: HashMap<Name, usize> = HashMap::new();
    for at in by_age {
        let of = stored[at];
        let outcome = match (&of.intent, of.key.kind()) {
            (Intent::Inbound(inbound), Kind::Inbound) => self::inbound(of, inbound, &below, clusters),
            (Intent::Compound(compound), _) => self::compound(of, compound, &below, clusters),
            _ => continue,
        };
        let outcome = match outcome {
            Ok(elements) => match owners.entry(elements.name.name.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(at);
                    Ok(elements)
                }
                Entry::Occupied(entry) => {
                    let older = wishes[*entry.get()].as_mut().expect("who owns a name came before");
                    Err(join(older, elements))
                }
            },
            refused => refused,
        };
        wishes[at] = Some(Wish { key: of.key.clone(), outcome });
    }
    let mut wishes: Vec<Wish> = wishes.into_iter().flatten().collect();
    wishes.sort_by(|a, b| a.key.cmp(&b.key));
    wishes
}

/// Members of a younger intent join the older one's pool.
fn join(older: &mut Wish, younger: Elements) -> Unanswered {
    if let Ok(elements) = &mut older.outcome {
        let known: BTreeSet<_> = elements.pool.members.iter().map(|member| member.cluster.clone()).collect();
        let room = Pool::MEMBERS_MAX.saturating_sub(known.len());
        let new = younger.pool.members.into_iter().filter(|member| !known.contains(&member.cluster)).take(room);
        elements.pool.members.extend(new);
    }
    Unanswered::Conflict { name: younger.name.name, with: older.key.clone() }
}

/// What lies below inbound and compound intents.
struct Below<'a> {
    /// Children of a compound, by the text of its names, in the order of their keys.
    children: HashMap<&'a str, Vec<&'a Inbound>>,
    /// Clients of an inbound intent, likewise.
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
            match &of.intent {
                Intent::Inbound(child) => below.children.entry(above).or_default().push(child),
                Intent::Client(client) => below.clients.entry(above).or_default().push(client),
                _ => {}
            }
        }
        below
    }

    /// Networks of the clients of an inbound intent; empty: everybody.
    fn networks(&self, key: &Key) -> Vec<Network> {
        let clients = self.clients.get(names(key));
        let cidrs = clients.into_iter().flatten().flat_map(|client| &client.cidrs);
        cidrs.copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The names of a key, as its text has them.
fn names(key: &Key) -> &str {
    key.as_str().split_once('/').map_or("", |(_, names)| names)
}

fn inbound(
    of: &StoredIntent,
    inbound: &Inbound,
    below: &Below<'_>,
    clusters: &Clusters<'_>,
) -> Result<Elements, Unanswered> {
    if !inbound.external_support {
        return Err(Unanswered::NotExternal);
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
) -> Result<Elements, Unanswered> {
    let name = of.name(&compound.external_name, "")?;
    let children = below.children.get(names(&of.key));
    // The compound is what is exposed; a child that is not for the outside takes no part.
    let children: Vec<&Inbound> =
        children.into_iter().flatten().copied().filter(|child| child.external_support).collect();
    let weights: Vec<Option<u8>> = children.iter().map(|child| child.traffic_weight).collect();
    let parts = shares::apportion(&shares::shares(&weights), WHOLE);
    let mut taken: BTreeMap<ClusterName, (u64, Tier)> = BTreeMap::new();
    for (child, part) in children.iter().zip(parts) {
        let members = members(child, &child.gslb, clusters);
        let tiers: BTreeSet<Tier> = members.iter().map(|(_, _, tier)| *tier).collect();
        for tier in tiers {
            let of_tier: Vec<_> = members.iter().filter(|(_, _, of)| *of == tier).collect();
            let weights: Vec<u64> = of_tier.iter().map(|(_, weight, _)| u64::from(weight.0)).collect();
            let weights = if weights.iter().all(|weight| *weight == 0) { vec![1; weights.len()] } else { weights };
            for ((cluster, _, _), share) in of_tier.into_iter().zip(shares::apportion(&weights, part)) {
                let entry = taken.entry(cluster.clone()).or_insert((0, tier));
                // A cluster that two children bring takes both shares, as early as the earlier of both.
                *entry = (entry.0 + share, entry.1.min(tier));
            }
        }
    }
    let weights = shares::to_weights(&taken.values().map(|(share, _)| *share).collect::<Vec<_>>());
    let members = taken.into_iter().zip(weights);
    let members = members.map(|((cluster, (_, tier)), weight)| member(cluster, Weight(weight), tier, Vec::new()));
    let hint = children.first().map(|child| probe::of_inbound(child));
    let monitor = probe::of_compound(compound, hint.flatten());
    elements(&of.key, name, &compound.gslb, members.collect(), monitor)
}

/// The clusters that take part for an inbound intent.
fn members(inbound: &Inbound, gslb: &Gslb, clusters: &Clusters<'_>) -> Vec<(ClusterName, Weight, Tier)> {
    // A cname leads to the cluster's own name: one without cannot be answered.
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
    monitor: Option<Monitor>,
) -> Result<Elements, Unanswered> {
    if members.is_empty() {
        return Err(Unanswered::NoMember);
    }
    if members.len() > Pool::MEMBERS_MAX {
        return Err(Unanswered::TooMany(format!(
            "{} clusters run it; a pool holds {}",
            members.len(),
            Pool::MEMBERS_MAX
        )));
    }
    let networks: usize = members.iter().map(|member| member.networks.len()).sum();
    if networks > NETWORKS_MAX {
        return Err(Unanswered::TooMany(format!(
            "its members have {networks} networks of clients; {NETWORKS_MAX} is the most"
        )));
    }
    let object = object_name(key);
    let pool = PoolName::new(&object).expect("an object's name is made of what a pool's may have");
    let monitor = monitor.map(|monitor| {
        let name = MonitorName::new(&object).expect("an object's name is made of what a monitor's may have");
        (name, monitor)
    });
    let default = Pool::new(pool.clone(), gslb.policy.clone().unwrap_or(Policy::WEIGHTED));
    let pool = Pool {
        mode: gslb.mode.unwrap_or_default(),
        ttl: gslb.ttl.unwrap_or(default.ttl),
        down: gslb.down.clone().unwrap_or_default(),
        monitor: monitor.as_ref().map(|(name, _)| name.clone()),
        members,
        ..default
    };
    Ok(Elements { name: SteeredName { name, pool: pool.name.clone(), ttl: None }, pool, monitor })
}

/// The name that an intent claims; none of one that is not for the outside, or has none.
pub fn answered_name(intent: &Intent) -> Option<Name> {
    match intent {
        Intent::Inbound(inbound) if inbound.external_support => {
            answered_at(&inbound.external_name, &inbound.public_domain).ok()
        }
        Intent::Compound(compound) => answered_at(&compound.external_name, "").ok(),
        _ => None,
    }
}

/// What says the weight of a cluster in the pool of an intent.
pub fn weight_source(intent: &Intent, name: &ClusterName, cluster: Option<&Cluster>) -> &'static str {
    match intent {
        Intent::Compound(_) => "trafficWeight",
        Intent::Inbound(inbound) if inbound.gslb.members.iter().any(|member| member.cluster == *name) => "gslb.members",
        Intent::Inbound(inbound)
            if inbound.gslb.members.is_empty() && cluster.is_some_and(|of| runs(of, &inbound.service_name)) =>
        {
            "services"
        }
        _ => "another intent",
    }
}

/// Whether a cluster runs a service.
pub fn runs(cluster: &Cluster, service: &str) -> bool {
    cluster.services.iter().any(|of| of == "*" || of == service)
}

/// The name that is answered: the external name, completed where it is a prefix.
fn answered_at(external: &str, public_domain: &str) -> Result<Name, Unanswered> {
    let nameless = || Unanswered::AnonymousCluster(external.to_owned());
    let external_ = external.trim_end_matches('.');
    if external_.is_empty() || external_.parse::<std::net::IpAddr>().is_ok() {
        return Err(nameless());
    }
    let domain = public_domain.trim_matches('.');
    let whole = match (external_.contains('.'), domain) {
        (true, _) => external_.to_owned(),
        (false, "") => return Err(nameless()),
        (false, domain) => format!("{external_}.{domain}"),
    };
    whole.parse().map_err(|_| nameless())
}

/// What the pool and the monitor of an intent are called: its kind and names, and a hash of them where that is too long.
pub fn object_name(key: &Key) -> String {
    // Names have no `+`, so that no two keys are called alike.
    let whole = key.as_str().replace('/', "+");
    if whole.len() <= NAME_MAX {
        return whole;
    }
    let hash = &sha256(&whole)[..16];
    format!("{}+{hash}", &whole[..NAME_MAX - 1 - hash.len()])
}

/// Whether a pool is that of an intent, by its name.
pub fn is_of_intent(pool: &PoolName) -> bool {
    [Kind::Inbound, Kind::Compound]
        .iter()
        .any(|kind| pool.as_str().strip_prefix(kind.word()).is_some_and(|rest| rest.starts_with('+')))
}

/// Most characters of an object's name.
const NAME_MAX: usize = 128;
/// As a pool's networks.
const NETWORKS_MAX: usize = 4_096;
/// What a compound's children share: the least common multiple of 1 to 16, times a million, so that the weights people write divide
/// it without a remainder.
const WHOLE: u64 = 720_720 * 1_000_000;
