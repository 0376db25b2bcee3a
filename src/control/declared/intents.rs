//! The intents among declared objects: who claims which name, and what they come to with clusters; all of them, or those that a change
//! concerns.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use fairway_model::{
    Cluster, Desired, Monitor, MonitorName, Name, Pool, PoolName, SteeredName, Subject, Timestamp,
    intent::{DnsUpdateRecord, Intent},
};

use super::{Declared, LeftOut, Says, Wish, key_of, section, whole};
use crate::control::Configured;
use fairway_config::ObjectFault;
use fairway_intents::{Clusters, Elements, StoredIntent, object_name, runs, wishes};
use fairway_store::objects::{Key, Kind, Prefix};

/// That an intent wants to be answered at a name. In order, the oldest of a name comes first.
pub(super) type Claim = (Name, Timestamp, Key);

/// Whether objects of a kind are intents, or what belongs to them.
pub(in crate::control) const fn is_of_intents(kind: Kind) -> bool {
    section(kind).is_none() && !matches!(kind, Kind::Contribution | Kind::Contributor | Kind::Receipt)
}

impl Wish {
    pub(super) fn stored(&self) -> Option<&StoredIntent> {
        match &self.says {
            Ok(Says::Intent(stored)) => Some(stored),
            _ => None,
        }
    }

    pub(super) fn claim(&self) -> Option<Claim> {
        let stored = self.stored().filter(|stored| is_exposed(&stored.key))?;
        Some((stored.answered.clone()?, stored.created, stored.key.clone()))
    }
}

impl Declared {
    /// The intent at a key, if there is one.
    pub(crate) fn intent(&self, key: &Key) -> Option<&Intent> {
        self.stored(key).map(|stored| &stored.intent)
    }

    /// All intents, and what belongs to them.
    pub(crate) fn all_intents(&self) -> impl Iterator<Item = &StoredIntent> {
        self.objects.values().filter_map(|wish| wish.stored())
    }

    /// The intents that claim a name, the oldest first.
    pub(in crate::control) fn claimants(&self, name: &Name) -> impl Iterator<Item = &Key> {
        let lowest = Key::new(Kind::AccessPoint, &["!"; 8]).expect("no intent that is exposed comes before it");
        let own = self.claims.after(&(name.clone(), Timestamp::from_secs(0), lowest)).map(|(claim, ())| claim);
        let name = name.clone();
        own.take_while(move |(claimed, ..)| *claimed == name).map(|(.., key)| key)
    }

    fn stored(&self, key: &Key) -> Option<&StoredIntent> {
        self.objects.get(key)?.stored()
    }

    fn claimed_by(&self, key: &Key) -> Option<Name> {
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
    pub(in crate::control) fn names_of<'a>(
        &'a self,
        project: &str,
        desired: &'a Desired,
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
    pub(in crate::control) fn updates(&self) -> impl Iterator<Item = (&Key, &DnsUpdateRecord)> {
        self.under(Kind::DnsUpdateRecord, &[]).filter_map(|wish| match wish.stored()? {
            StoredIntent { key, intent: Intent::DnsUpdateRecord(record), .. } => Some((key, record)),
            _ => None,
        })
    }

    /// The declared clusters.
    fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        let own = self.under(Kind::Cluster, &[]);
        own.flat_map(|wish| wish.element().into_iter().flat_map(|own| own.clusters.values()))
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

    /// Adds what the intents come to that are not left out; gives those that come to nothing, with the reason.
    ///
    /// One that is left out keeps its claim: others of the name do not take its place.
    pub(super) fn add_intents(&self, files: &Desired, desired: &mut Desired, left_out: &LeftOut) -> LeftOut {
        let (mut unanswered, mut made) = (Vec::new(), Made::default());
        let all = self.intents(files, desired).into_iter().filter(|wish| !left_out.contains_key(&wish.key));
        for wish in all {
            match answered(wish, |name| desired.names.contains_key(name)) {
                Ok((_, elements)) => made.push(elements),
                Err(why) => unanswered.push(why),
            }
        }
        made.add_to(desired);
        unanswered.into_iter().collect()
    }

    /// What all intents come to, on the clusters of files and of `objects`.
    fn intents(&self, files: &Desired, objects: &Desired) -> Vec<fairway_intents::Wish> {
        let stored: Vec<&StoredIntent> = self.all_intents().collect();
        if stored.is_empty() {
            return vec![];
        }
        let clusters: Clusters<'_> = objects.clusters.iter().chain(&files.clusters).collect();
        wishes(&stored, &clusters)
    }

    /// The intents that are not left out, by what they wish for.
    pub(super) fn owners(&self, files: &Desired, left_out: &LeftOut) -> HashMap<Subject, Key> {
        let mut owners = HashMap::new();
        let mut objects = Desired::default();
        for wish in self.objects.values() {
            if let Ok(Says::Element(own)) = &wish.says {
                objects.clusters.extend(own.clusters.clone());
            }
        }
        for wish in self.intents(files, &objects).into_iter().filter(|wish| !left_out.contains_key(&wish.key)) {
            if let Ok((key, Elements { name, pool, monitor })) = answered(wish, |name| self.has_name(name, left_out)) {
                owners.insert(Subject::Name(name.name), key.clone());
                owners.insert(Subject::Pool(pool.name), key.clone());
                owners.extend(monitor.map(|(name, _)| (Subject::Monitor(name), key)));
            }
        }
        owners
    }

    /// Whether a name is declared by itself, and is not left out.
    fn has_name(&self, name: &Name, left_out: &LeftOut) -> bool {
        let key = key_of(&Subject::Name(name.clone()));
        self.name(name).is_some() && key.is_some_and(|key| !left_out.contains_key(&key))
    }
}

/// What the intents that a change concerns come to now: those that changed, and all that claim the names of these.
#[derive(Debug, Default)]
pub(in crate::control) struct Concerned {
    keys: BTreeSet<Key>,
    /// What they claim, before or now.
    pub(in crate::control) names: BTreeSet<Name>,
    /// What they come to.
    pub(in crate::control) made: Desired,
    unanswered: LeftOut,
}

impl Concerned {
    /// Those of changed objects, those that run on other clusters now, and those that claim these names; none where they are more than
    /// `most`, or share what they make with something that was declared otherwise.
    pub(in crate::control) fn of<'a>(
        before: &Configured,
        now: &Declared,
        changed: &[Key],
        names: impl IntoIterator<Item = &'a Name>,
        most: usize,
    ) -> Option<Self> {
        let versions = [&*before.objects, now];
        let mut keys: BTreeSet<Key> = changed.iter().filter_map(exposed).collect();
        keys.extend(moved(before, now, changed));
        let is_claimed = |name: &&Name| versions.iter().any(|of| of.claimants(name).next().is_some());
        let mut claimed: BTreeSet<Name> = names.into_iter().filter(is_claimed).cloned().collect();
        claimed.extend(keys.iter().flat_map(|key| versions.map(|of| of.claimed_by(key))).flatten());
        for of in versions {
            for name in &claimed {
                keys.extend(of.claimants(name).take(most + 1).cloned());
                if keys.len() > most {
                    return None;
                }
            }
        }
        let mut concerned = Self { keys, names: claimed, ..Self::default() };
        if concerned.pools().any(|pool| versions.iter().any(|of| of.pool(&pool).is_some()))
            || concerned.monitors().any(|monitor| is_declared_beside(before, now, &monitor))
        {
            return None;
        }
        concerned.make(&before.files, now);
        Some(concerned)
    }

    fn make(&mut self, files: &Desired, now: &Declared) {
        let of_key = |key| now.stored(key).into_iter().chain(now.below(key));
        let stored: Vec<&StoredIntent> = self.keys.iter().flat_map(of_key).collect();
        let own = now.clusters().map(|cluster| (&cluster.name, cluster));
        let clusters: Clusters<'_> = own.chain(&files.clusters).collect();
        let mut made = Made::default();
        for wish in wishes(&stored, &clusters) {
            match answered(wish, |name| now.name(name).is_some()) {
                Ok((_, elements)) => made.push(elements),
                Err((key, why)) => _ = self.unanswered.insert(key, why),
            }
        }
        made.add_to(&mut self.made);
    }

    /// Their pools, also of those that are no more.
    pub(in crate::control) fn pools(&self) -> impl Iterator<Item = PoolName> {
        self.keys.iter().filter_map(|key| PoolName::new(&object_name(key)).ok())
    }

    /// Their monitors, likewise.
    pub(in crate::control) fn monitors(&self) -> impl Iterator<Item = MonitorName> {
        self.keys.iter().filter_map(|key| MonitorName::new(&object_name(key)).ok())
    }

    /// What is left out because of them now.
    pub(in crate::control) fn left_out(&self, before: &LeftOut) -> LeftOut {
        let mut left_out = before.clone();
        self.keys.iter().for_each(|key| _ = left_out.remove(key));
        left_out.extend(self.unanswered.clone());
        left_out
    }

    /// Those at fault that are not among these.
    pub(in crate::control) fn others(&self, at_fault: &BTreeSet<Key>) -> BTreeSet<Key> {
        at_fault.difference(&self.keys).cloned().collect()
    }
}

/// The intents that changed clusters run and did not, or did and do not. All intents are looked at: clusters are few, and change rarely.
fn moved(before: &Configured, now: &Declared, changed: &[Key]) -> BTreeSet<Key> {
    let versions = changed.iter().filter(|key| key.kind() == Kind::Cluster).filter_map(|key| {
        let [was, is] = [&*before.objects, now].map(|of| of.element(key)?.clusters.values().next());
        // Of one that files declare, too, their word holds.
        Some((was.filter(|was| !before.files.clusters.contains_key(&was.name))?, is?))
    });
    let versions: Vec<(&Cluster, &Cluster)> = versions.collect();
    if versions.is_empty() {
        return BTreeSet::new();
    }
    let is_moved = |stored: &&StoredIntent| match &stored.intent {
        Intent::Inbound(inbound) if inbound.gslb.members.is_empty() => {
            let service = &inbound.service_name;
            versions.iter().any(|(was, is)| runs(was, service) != runs(is, service))
        }
        _ => false,
    };
    now.all_intents().filter(is_moved).filter_map(|stored| exposed(&stored.key)).collect()
}

/// Whether somebody else declares a monitor of this name.
fn is_declared_beside(before: &Configured, now: &Declared, monitor: &MonitorName) -> bool {
    let subject = Subject::Monitor(monitor.clone());
    let of_clients = before.contributed.united().desired();
    [&*before.objects, now].iter().any(|of| of.declares(&subject))
        || before.files.monitors.contains_key(monitor)
        || of_clients.monitors.contains_key(monitor)
}

/// What an intent comes to where its name is not declared by itself; else the reason.
fn answered(
    wish: fairway_intents::Wish,
    is_named: impl Fn(&Name) -> bool,
) -> Result<(Key, Elements), (Key, Vec<ObjectFault>)> {
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

    fn add_to(self, desired: &mut Desired) {
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
fn exposed(key: &Key) -> Option<Key> {
    let kind = match key.kind() {
        Kind::Inbound | Kind::Compound => return Some(key.clone()),
        Kind::Client => Kind::Inbound,
        Kind::InboundOfCompound => Kind::Compound,
        _ => return None,
    };
    let names: Vec<&str> = key.names().take(kind.names()).collect();
    Some(Key::new(kind, &names).expect("an object has the names of the one above it"))
}
