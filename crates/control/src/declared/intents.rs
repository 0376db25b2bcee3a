//! The intents among declared objects: the names they claim, and what they declare.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use fairway_config::ObjectError;
use fairway_intents::{Clusters, Exposed, StoredIntent, expose, is_of_intent, object_name, runs};
use fairway_model::{
    Cluster, DesiredState, Monitor, MonitorName, Name, Pool, PoolName, SharedSet, SteeredName, Subject, Timestamp,
    intent::{DnsUpdateRecord, Intent},
};
use fairway_store::objects::{Key, Kind, Prefix};

use super::{
    Declared, ObjectErrors, key_of,
    object::{DeclaredObject, whole},
    ranges::before_all,
};

/// The claim of an intent to a name. Of several claims to one name, the oldest holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    name: Name,
    since: Timestamp,
    /// `None` in the lower bound of a search, which is before all claims of its name.
    key: Option<Key>,
}

/// All claims by name, the oldest first.
pub(super) type Claims = SharedSet<Claim>;

impl DeclaredObject {
    /// Returns the claim of an intent.
    pub(super) fn claim(&self) -> Option<Claim> {
        let intent = self.intent().filter(|intent| is_exposed(&intent.key))?;
        Some(Claim { name: intent.answered.clone()?, since: intent.created, key: Some(intent.key.clone()) })
    }
}

impl Declared {
    /// Returns the intent at a key.
    pub fn intent(&self, key: &Key) -> Option<&Intent> {
        self.stored(key).map(|stored| &stored.intent)
    }

    /// Returns all intents and their parts.
    pub fn all_intents(&self) -> impl Iterator<Item = &StoredIntent> {
        self.objects.values().filter_map(|object| object.intent())
    }

    /// Returns the intents that claim a name, the oldest first.
    pub fn claimants(&self, name: &Name) -> impl Iterator<Item = &Key> {
        let first = Claim { name: name.clone(), since: Timestamp::from_secs(0), key: None };
        let name = name.clone();
        let claims = self.claims.after(&first).map(|(claim, ())| claim);
        claims.take_while(move |claim| claim.name == name).filter_map(|claim| claim.key.as_ref())
    }

    fn stored(&self, key: &Key) -> Option<&StoredIntent> {
        self.objects.get(key)?.intent()
    }

    /// Returns the name that an intent claims.
    pub(crate) fn claimed_by(&self, key: &Key) -> Option<Name> {
        self.objects.get(key)?.claim().map(|claim| claim.name)
    }

    /// Returns the parts of an intent, which are right below it, in the order of their keys.
    fn parts_of_intent<'a>(&'a self, key: &Key) -> impl Iterator<Item = &'a StoredIntent> + use<'a> {
        let kind = if key.kind() == Kind::Compound { Kind::InboundOfCompound } else { Kind::Client };
        let names: Vec<&str> = key.names().collect();
        self.under(kind, &names).filter_map(|object| object.intent())
    }

    /// Returns the names that intents of a project claim, with the steered name if the intent is served. Names that belong to others are left
    /// out.
    pub(crate) fn names_of<'a>(
        &'a self,
        project: &str,
        desired: &'a DesiredState,
    ) -> impl Iterator<Item = (Name, Option<&'a SteeredName>)> + use<'a> {
        let all = self.under(Kind::Compound, &[project]).chain(self.under(Kind::Inbound, &[project]));
        all.filter_map(move |object| {
            let name = object.claim()?.name;
            let key = &object.object.key;
            match desired.names.get(&name) {
                None => Some((name, None)),
                Some(steered) => (steered.pool.as_str() == object_name(key)).then_some((name, Some(steered))),
            }
        })
    }

    /// Returns the DNS update records, in the order of their keys.
    pub(crate) fn updates(&self) -> impl Iterator<Item = (&Key, &DnsUpdateRecord)> {
        self.under(Kind::DnsUpdateRecord, &[]).filter_map(|object| match object.intent()? {
            StoredIntent { key, intent: Intent::DnsUpdateRecord(record), .. } => Some((key, record)),
            _ => None,
        })
    }

    /// Returns the objects of a kind whose first names are these, fewer than the kind has.
    fn under<'a>(&'a self, kind: Kind, names: &[&str]) -> impl Iterator<Item = &'a DeclaredObject> + use<'a> {
        let prefix = Prefix::new(kind, names).expect("fewer names than the kind has, taken from keys");
        let first = before_all(kind, names);
        let (at, after) = (self.objects.get_key_value(&first), self.objects.after(&first));
        at.into_iter().chain(after).take_while(move |(key, _)| prefix.holds(key)).map(|(_, object)| &**object)
    }

    /// Adds what these intents declare, without rejected ones. Returns the intents that are not served, with the reason.
    ///
    /// A rejected intent keeps its claim to its name: no other intent takes its place.
    pub(crate) fn add_intents(
        &self,
        intents: &[&StoredIntent],
        files: &DesiredState,
        desired: &mut DesiredState,
        rejected: &ObjectErrors,
    ) -> ObjectErrors {
        let (mut unserved, mut elements) = (Vec::new(), IntentElements::default());
        for intent in self.evaluated(intents, files, rejected) {
            match answered(intent, |name| desired.names.contains_key(name)) {
                Ok((_, of_intent)) => elements.push(of_intent),
                Err(why) => unserved.push(why),
            }
        }
        elements.add_to(desired);
        unserved.into_iter().collect()
    }

    /// Returns what intents declare on the clusters of files and objects, without rejected ones.
    fn evaluated(
        &self,
        intents: &[&StoredIntent],
        files: &DesiredState,
        rejected: &ObjectErrors,
    ) -> Vec<fairway_intents::Exposure> {
        if intents.is_empty() {
            return vec![];
        }
        let objects = self.under(Kind::Cluster, &[]).filter(|object| !rejected.contains_key(&object.object.key));
        let declared = objects.filter_map(|object| object.element()).flat_map(|element| &element.clusters);
        let clusters: Clusters<'_> = declared.chain(&files.clusters).collect();
        let mut evaluated = expose(intents, &clusters);
        evaluated.retain(|intent| !rejected.contains_key(&intent.key));
        evaluated
    }

    /// Returns these intents, each followed by its parts.
    pub(crate) fn with_children<'a>(&'a self, keys: &BTreeSet<Key>) -> Vec<&'a StoredIntent> {
        keys.iter().flat_map(|key| self.stored(key).into_iter().chain(self.parts_of_intent(key))).collect()
    }

    /// Returns the intents, unless rejected, that names, pools and monitors belong to.
    pub(crate) fn owners<'a>(
        &self,
        subjects: impl Iterator<Item = &'a Subject>,
        files: &DesiredState,
        rejected: &ObjectErrors,
    ) -> HashMap<Subject, Key> {
        let mut keys = BTreeSet::new();
        for subject in subjects {
            let name = match subject {
                Subject::Name(name) => Some(name.clone()),
                Subject::Pool(pool) | Subject::Member(pool, _) => {
                    self.intent_called(pool.as_str()).and_then(|key| self.claimed_by(&key))
                }
                Subject::Monitor(monitor) => self.intent_called(monitor.as_str()).and_then(|key| self.claimed_by(&key)),
                _ => None,
            };
            keys.extend(name.iter().flat_map(|name| self.claimants(name)).cloned());
        }
        let mut owners = HashMap::new();
        for intent in self.evaluated(&self.with_children(&keys), files, rejected) {
            if let Ok((key, Exposed { name, pool, monitor })) = answered(intent, |name| self.has_name(name, rejected)) {
                owners.insert(Subject::Name(name.name), key.clone());
                owners.insert(Subject::Pool(pool.name), key.clone());
                owners.extend(monitor.map(|(name, _)| (Subject::Monitor(name), key)));
            }
        }
        owners
    }

    /// Returns the intent whose pool and monitor have this name.
    pub(crate) fn intent_called(&self, name: &str) -> Option<Key> {
        let key = Key::parse(&name.replace('+', "/")).ok().filter(|key| object_name(key) == name);
        // A name that was too long ends in a hash, from which no key follows.
        let found = || self.all_intents().map(|stored| &stored.key).find(|key| object_name(key) == name).cloned();
        key.filter(is_exposed).or_else(|| is_of_intent(&PoolName::new(name).ok()?).then(found)?)
    }

    /// Returns the intents that begin or cease to run on a cluster whose services changed. This visits all intents: clusters are few, and
    /// change rarely.
    pub(crate) fn moved_intents(&self, was: &Cluster, is: &Cluster) -> Vec<Key> {
        let is_moved = |stored: &&StoredIntent| match &stored.intent {
            Intent::Inbound(inbound) if inbound.gslb.members.is_empty() => {
                runs(was, &inbound.service_name) != runs(is, &inbound.service_name)
            }
            _ => false,
        };
        self.all_intents().filter(is_moved).filter_map(|stored| exposed(&stored.key)).collect()
    }

    /// Returns true if a name is declared as an object that is not rejected.
    fn has_name(&self, name: &Name, rejected: &ObjectErrors) -> bool {
        let key = key_of(&Subject::Name(name.clone()));
        self.name(name).is_some() && key.is_some_and(|key| !rejected.contains_key(&key))
    }
}

/// Returns what an intent declares, or the reason why it is not served.
fn answered(
    intent: fairway_intents::Exposure,
    is_named: impl Fn(&Name) -> bool,
) -> Result<(Key, Exposed), (Key, Vec<ObjectError>)> {
    match intent.outcome {
        Err(why) => Err((intent.key, whole(why.to_string()))),
        Ok(Exposed { name, .. }) if is_named(&name.name) => {
            let what = format!("{} is declared in /v1/names, which has precedence; remove one of the two", name.name);
            Err((intent.key, whole(what)))
        }
        Ok(elements) => Ok((intent.key, elements)),
    }
}

/// Elements of a desired state that intents declare. They are added to a desired state at once, which costs far less than one by one.
#[derive(Default)]
struct IntentElements {
    names: Vec<(Name, SteeredName)>,
    pools: Vec<(PoolName, Pool)>,
    monitors: Vec<(MonitorName, Arc<Monitor>)>,
    /// Most intents have the same monitor. One value in memory is found to be one target without hashing it for each pool.
    known_monitors: HashSet<Arc<Monitor>>,
}

impl IntentElements {
    fn push(&mut self, Exposed { name, pool, monitor }: Exposed) {
        self.names.push((name.name.clone(), name));
        self.pools.push((pool.name.clone(), pool));
        if let Some((name, monitor)) = monitor {
            let known = self.known_monitors.get(&monitor).cloned();
            let monitor = known.unwrap_or_else(|| {
                let new = Arc::new(monitor);
                self.known_monitors.insert(Arc::clone(&new));
                new
            });
            self.monitors.push((name, monitor));
        }
    }

    fn add_to(self, desired: &mut DesiredState) {
        desired.names.extend(self.names);
        desired.pools.extend(self.pools);
        desired.monitors.extend(self.monitors);
    }
}

/// Returns true if an intent claims a name itself, and is not a part of another intent.
fn is_exposed(key: &Key) -> bool {
    matches!(key.kind(), Kind::Inbound | Kind::Compound)
}

/// Returns the intent that an object is, or is a part of.
pub fn exposed(key: &Key) -> Option<Key> {
    let kind = match key.kind() {
        Kind::Inbound | Kind::Compound => return Some(key.clone()),
        Kind::Client => Kind::Inbound,
        Kind::InboundOfCompound => Kind::Compound,
        _ => return None,
    };
    let names: Vec<&str> = key.names().take(kind.names()).collect();
    Some(Key::new(kind, &names).expect("a part has the names of its intent"))
}
