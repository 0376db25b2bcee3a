//! The intents among declared objects: which names they claim, and what they declare on the clusters there are.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use fairway_model::{
    Cluster, DesiredState, Monitor, MonitorName, Name, Pool, PoolName, SteeredName, Subject, Timestamp,
    intent::{DnsUpdateRecord, Intent},
};

use super::{Declared, LeftOut, Says, Wish, key_of, whole};
use fairway_config::ObjectError;
use fairway_intents::{Clusters, Elements, StoredIntent, is_of_intent, object_name, runs, wishes};
use fairway_store::objects::{Key, Kind, Prefix};

/// That an intent wants to be answered at a name. In order, the oldest of a name comes first.
pub(super) type Claim = (Name, Timestamp, Key);

impl Wish {
    pub(crate) fn stored(&self) -> Option<&StoredIntent> {
        match &self.says {
            Ok(Says::Intent(stored)) => Some(stored),
            _ => None,
        }
    }

    pub(crate) fn claim(&self) -> Option<Claim> {
        let stored = self.stored().filter(|stored| is_exposed(&stored.key))?;
        Some((stored.answered.clone()?, stored.created, stored.key.clone()))
    }
}

impl Declared {
    /// The intent at a key, if there is one.
    pub fn intent(&self, key: &Key) -> Option<&Intent> {
        self.stored(key).map(|stored| &stored.intent)
    }

    /// All intents, and what belongs to them.
    pub fn all_intents(&self) -> impl Iterator<Item = &StoredIntent> {
        self.objects.values().filter_map(|wish| wish.stored())
    }

    /// The intents that claim a name, the oldest first.
    pub fn claimants(&self, name: &Name) -> impl Iterator<Item = &Key> {
        let lowest = Key::new(Kind::AccessPoint, &["!"; 8]).expect("no intent that is exposed comes before it");
        let own = self.claims.after(&(name.clone(), Timestamp::from_secs(0), lowest)).map(|(claim, ())| claim);
        let name = name.clone();
        own.take_while(move |(claimed, ..)| *claimed == name).map(|(.., key)| key)
    }

    fn stored(&self, key: &Key) -> Option<&StoredIntent> {
        self.objects.get(key)?.stored()
    }

    pub(crate) fn claimed_by(&self, key: &Key) -> Option<Name> {
        self.objects.get(key)?.claim().map(|(name, ..)| name)
    }

    /// What lies right below an intent and is part of it, in the order of the keys.
    fn below<'a>(&'a self, key: &Key) -> impl Iterator<Item = &'a StoredIntent> + use<'a> {
        let kind = if key.kind() == Kind::Compound { Kind::InboundOfCompound } else { Kind::Client };
        let names: Vec<&str> = key.names().collect();
        self.under(kind, &names).filter_map(|wish| wish.stored())
    }

    /// The names that intents of a project claim, and as what they are steered; those that somebody else has left out. One whose intent
    /// does not fit now is not steered.
    pub fn names_of<'a>(
        &'a self,
        project: &str,
        desired: &'a DesiredState,
    ) -> impl Iterator<Item = (Name, Option<&'a SteeredName>)> + use<'a> {
        let all = self.under(Kind::Compound, &[project]).chain(self.under(Kind::Inbound, &[project]));
        all.filter_map(move |wish| {
            let (name, _, key) = wish.claim()?;
            match desired.names.get(&name) {
                None => Some((name, None)),
                Some(steered) => (steered.pool.as_str() == object_name(&key)).then_some((name, Some(steered))),
            }
        })
    }

    /// The records of where to publish, in the order of their keys.
    pub fn updates(&self) -> impl Iterator<Item = (&Key, &DnsUpdateRecord)> {
        self.under(Kind::DnsUpdateRecord, &[]).filter_map(|wish| match wish.stored()? {
            StoredIntent { key, intent: Intent::DnsUpdateRecord(record), .. } => Some((key, record)),
            _ => None,
        })
    }

    /// The objects of a kind whose outer names are these, which must be fewer than it has.
    fn under<'a>(&'a self, kind: Kind, names: &[&str]) -> impl Iterator<Item = &'a Wish> + use<'a> {
        let prefix = Prefix::new(kind, names).expect("it has more names, and these are of a key");
        // No name comes before `!`.
        let lowest: Vec<&str> = (0..kind.names()).map(|at| names.get(at).copied().unwrap_or("!")).collect();
        let first = Key::new(kind, &lowest).expect("it has as many names as its kind");
        let (at, behind) = (self.objects.get_key_value(&first), self.objects.after(&first));
        at.into_iter().chain(behind).take_while(move |(key, _)| prefix.holds(key)).map(|(_, wish)| &**wish)
    }

    /// Adds what these intents declare, without rejected ones. Returns the intents that are not served, with the reason.
    ///
    /// A rejected intent keeps its claim to its name: no other intent takes its place.
    pub fn add_intents(
        &self,
        intents: &[&StoredIntent],
        files: &DesiredState,
        desired: &mut DesiredState,
        rejected: &LeftOut,
    ) -> LeftOut {
        let (mut unanswered, mut made) = (Vec::new(), Made::default());
        for wish in self.evaluated(intents, files, rejected) {
            match answered(wish, |name| desired.names.contains_key(name)) {
                Ok((_, elements)) => made.push(elements),
                Err(why) => unanswered.push(why),
            }
        }
        made.add_to(desired);
        unanswered.into_iter().collect()
    }

    /// Returns what intents declare on the clusters of files and objects, without rejected ones.
    fn evaluated(
        &self,
        intents: &[&StoredIntent],
        files: &DesiredState,
        rejected: &LeftOut,
    ) -> Vec<fairway_intents::Wish> {
        if intents.is_empty() {
            return vec![];
        }
        let own = self.under(Kind::Cluster, &[]).filter(|wish| !rejected.contains_key(&wish.object.key));
        let own = own.flat_map(|wish| wish.element().into_iter().flat_map(|own| &own.clusters));
        let clusters: Clusters<'_> = own.chain(&files.clusters).collect();
        let mut evaluated = wishes(intents, &clusters);
        evaluated.retain(|wish| !rejected.contains_key(&wish.key));
        evaluated
    }

    /// These intents, each with what lies right below it.
    pub fn with_children<'a>(&'a self, keys: &BTreeSet<Key>) -> Vec<&'a StoredIntent> {
        keys.iter().flat_map(|key| self.stored(key).into_iter().chain(self.below(key))).collect()
    }

    /// Returns which of the subjects belong to intents that are not rejected, with these.
    pub fn owners<'a>(
        &self,
        subjects: impl Iterator<Item = &'a Subject>,
        files: &DesiredState,
        rejected: &LeftOut,
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
        for wish in self.evaluated(&self.with_children(&keys), files, rejected) {
            if let Ok((key, Elements { name, pool, monitor })) = answered(wish, |name| self.has_name(name, rejected)) {
                owners.insert(Subject::Name(name.name), key.clone());
                owners.insert(Subject::Pool(pool.name), key.clone());
                owners.extend(monitor.map(|(name, _)| (Subject::Monitor(name), key)));
            }
        }
        owners
    }

    /// The intent whose pool and monitor have this name.
    pub fn intent_called(&self, name: &str) -> Option<Key> {
        let key = Key::parse(&name.replace('+', "/")).ok().filter(|key| object_name(key) == name);
        // A name that is too long ends in a hash, and tells no key.
        let found = || self.all_intents().map(|stored| &stored.key).find(|key| object_name(key) == name).cloned();
        key.filter(is_exposed).or_else(|| is_of_intent(&PoolName::new(name).ok()?).then(found)?)
    }

    /// The intents that run on a cluster since its services changed, or no longer do. All intents are looked at: clusters are
    /// few, and change rarely.
    pub fn moved_intents(&self, was: &Cluster, is: &Cluster) -> Vec<Key> {
        let is_moved = |stored: &&StoredIntent| match &stored.intent {
            Intent::Inbound(inbound) if inbound.gslb.members.is_empty() => {
                runs(was, &inbound.service_name) != runs(is, &inbound.service_name)
            }
            _ => false,
        };
        self.all_intents().filter(is_moved).filter_map(|stored| exposed(&stored.key)).collect()
    }

    /// Whether a name is declared by itself, and is not left out.
    fn has_name(&self, name: &Name, left_out: &LeftOut) -> bool {
        let key = key_of(&Subject::Name(name.clone()));
        self.name(name).is_some() && key.is_some_and(|key| !left_out.contains_key(&key))
    }
}

/// What an intent comes to where its name is not declared by itself; else the reason.
fn answered(
    wish: fairway_intents::Wish,
    is_named: impl Fn(&Name) -> bool,
) -> Result<(Key, Elements), (Key, Vec<ObjectError>)> {
    match wish.outcome {
        Err(why) => Err((wish.key, whole(why.to_string()))),
        Ok(Elements { name, .. }) if is_named(&name.name) => {
            let what = format!("{} is declared in /v1/names, which holds; take one of the two out", name.name);
            Err((wish.key, whole(what)))
        }
        Ok(elements) => Ok((wish.key, elements)),
    }
}

/// What intents come to, until all of it is there: a wish takes over many at once for far less than one by one.
#[derive(Default)]
struct Made {
    names: Vec<(Name, SteeredName)>,
    pools: Vec<(PoolName, Pool)>,
    monitors: Vec<(MonitorName, Arc<Monitor>)>,
    /// Most intents probe alike. What is one in memory is found to be one target without being hashed for each pool.
    alike: HashSet<Arc<Monitor>>,
}

impl Made {
    fn push(&mut self, Elements { name, pool, monitor }: Elements) {
        self.names.push((name.name.clone(), name));
        self.pools.push((pool.name.clone(), pool));
        if let Some((name, monitor)) = monitor {
            let known = self.alike.get(&monitor).cloned();
            let monitor = known.unwrap_or_else(|| {
                let new = Arc::new(monitor);
                self.alike.insert(Arc::clone(&new));
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

/// Whether an intent is answered by itself, and is not part of another one.
fn is_exposed(key: &Key) -> bool {
    matches!(key.kind(), Kind::Inbound | Kind::Compound)
}

/// The intent that an object is, or is part of.
pub fn exposed(key: &Key) -> Option<Key> {
    let kind = match key.kind() {
        Kind::Inbound | Kind::Compound => return Some(key.clone()),
        Kind::Client => Kind::Inbound,
        Kind::InboundOfCompound => Kind::Compound,
        _ => return None,
    };
    let names: Vec<&str> = key.names().take(kind.names()).collect();
    Some(Key::new(kind, &names).expect("an object has the names of the one above it"))
}
