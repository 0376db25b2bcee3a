//! The intents among declared objects: the names they claim, and what they declare.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fairway_access::{NameGrants, NotGranted, Tenant};
use fairway_intents::{Clusters, Exposed, Exposure, OBJECT_NAME_MAX, StoredIntent, expose, object_name, runs};
use fairway_model::{
    Cluster, DesiredState, Monitor, Name, SharedSet, SteeredName, Subject, Timestamp,
    intent::{DnsUpdateRecord, Intent, IntentSpec},
};
use fairway_store::objects::{Key, Kind};

use super::{
    ClaimRules, Declared, ObjectErrors,
    object::{DeclaredObject, whole},
    waiting,
};

/// The claim of an intent to a name. Of several claims to one name, the oldest holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    pub(super) name: Name,
    pub(super) since: Timestamp,
    key: Key,
}

/// All claims by name, the oldest first.
pub(super) type Claims = SharedSet<Claim>;

impl DeclaredObject {
    /// Returns the claim of an intent.
    pub(super) fn claim(&self) -> Option<Claim> {
        let intent = self.intent().filter(|intent| is_exposed(&intent.key))?;
        Some(Claim { name: intent.answered.clone()?, since: intent.created, key: intent.key.clone() })
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
        let claims = self.claims.starting_at(&|claim| claim.name < *name).map(|(claim, ())| claim);
        let name = name.clone();
        claims.take_while(move |claim| claim.name == name).map(|claim| &claim.key)
    }

    /// Returns why an intent may not have the name that it claims, or not yet.
    fn refusal(&self, intent: &StoredIntent, claims: &ClaimRules<'_>) -> Option<String> {
        if let Err(refused) = check_grant(claims.names, intent) {
            return Some(refused.to_string());
        }
        let (name, project) = (intent.answered.as_ref()?, intent.key.names().next()?);
        if !claims.names.is_enforced || !is_exposed(&intent.key) {
            return None;
        }
        let claim = (&Tenant::Project(project.to_owned()), name, intent.created.secs());
        self.take_over(claims, claim).map(|until| waiting(name, until))
    }

    /// Checks that an intent is granted the name that it claims.
    pub fn check_grant(&self, names: &NameGrants, key: &Key) -> Result<(), NotGranted> {
        self.stored(key).map_or(Ok(()), |intent| check_grant(names, intent))
    }

    fn stored(&self, key: &Key) -> Option<&StoredIntent> {
        self.objects.get(key)?.intent()
    }

    /// Returns the name that an intent claims.
    pub(crate) fn claimed_by(&self, key: &Key) -> Option<Name> {
        self.objects.get(key)?.claim().map(|claim| claim.name)
    }

    /// Returns the names that the object at a key declares.
    pub(crate) fn names_at(&self, key: &Key) -> Vec<Name> {
        let of_element = self.element(key).into_iter().flat_map(|element| {
            element.names.keys().cloned().chain(element.records.keys().map(|(name, _)| name.clone()))
        });
        of_element.chain(self.claimed_by(key)).collect()
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
        self.under(Kind::DnsUpdateRecord, &[]).filter_map(|object| {
            let stored = object.intent()?;
            match &stored.intent.spec {
                IntentSpec::DnsUpdateRecord(record) => Some((&stored.key, record)),
                _ => None,
            }
        })
    }

    /// Adds what these intents declare, without rejected ones. Returns the intents that are not served, with the reason.
    ///
    /// A rejected intent keeps its claim to its name: no other intent takes its place.
    pub(crate) fn add_intents(
        &self,
        intents: &[&StoredIntent],
        files: &DesiredState,
        claims: &ClaimRules<'_>,
        desired: &mut DesiredState,
        rejected: &ObjectErrors,
    ) -> ObjectErrors {
        let mut unserved = Vec::new();
        // An intent without a grant holds no name: a younger one that is granted it gets it.
        let mut granted = Vec::with_capacity(intents.len());
        for intent in intents {
            match self.refusal(intent, claims) {
                None => granted.push(*intent),
                Some(_) if rejected.contains_key(&intent.key) => {}
                Some(why) => unserved.push((intent.key.clone(), whole(why))),
            }
        }
        // All are added at once, which costs far less than one by one.
        let (mut steered, mut pools, mut monitors) = (Vec::new(), Vec::new(), Vec::new());
        // Most intents have the same monitor. One value in memory is found to be one target without hashing it for each pool.
        let mut known_monitors = HashMap::<Monitor, Arc<Monitor>>::new();
        if intents.is_empty() {
            return ObjectErrors::new();
        }
        let objects = self.under(Kind::Cluster, &[]).filter(|object| !rejected.contains_key(&object.object.key));
        let declared = objects.filter_map(|object| object.element()).flat_map(|element| &element.clusters);
        let clusters: Clusters<'_> = declared.chain(&files.clusters).collect();
        for Exposure { key, outcome } in expose(&granted, &clusters) {
            match outcome {
                _ if rejected.contains_key(&key) => {}
                Err(why) => unserved.push((key, whole(why.to_string()))),
                Ok(Exposed { name, .. }) if desired.names.contains_key(&name.name) => {
                    let name = name.name;
                    let what = format!("{name} is declared in /v1/names, which has precedence; remove one of the two");
                    unserved.push((key, whole(what)));
                }
                Ok(Exposed { name, pool, monitor }) => {
                    steered.push((name.name.clone(), name));
                    pools.push((pool.name.clone(), pool));
                    if let Some((name, monitor)) = monitor {
                        let known = known_monitors.entry(monitor).or_insert_with_key(|new| Arc::new(new.clone()));
                        monitors.push((name, Arc::clone(known)));
                    }
                }
            }
        }
        desired.names.extend(steered);
        desired.pools.extend(pools);
        desired.monitors.extend(monitors);
        unserved.into_iter().collect()
    }

    /// Returns these intents, each followed by its parts.
    pub(crate) fn with_children<'a>(&'a self, keys: &BTreeSet<Key>) -> Vec<&'a StoredIntent> {
        keys.iter().flat_map(|key| self.stored(key).into_iter().chain(self.parts_of_intent(key))).collect()
    }

    /// Returns the intent that a name, a pool or a monitor of a desired state belongs to, if it belongs to one.
    pub(super) fn intent_of(&self, subject: &Subject, desired: &DesiredState) -> Option<Key> {
        match subject {
            Subject::Name(name) => self.intent_called(desired.names.get(name)?.pool.as_str()),
            Subject::Pool(pool) | Subject::Member(pool, _) => self.intent_called(pool.as_str()),
            Subject::Monitor(monitor) => self.intent_called(monitor.as_str()),
            _ => None,
        }
    }

    /// Returns the intent whose pool and monitor have this name.
    pub fn intent_called(&self, name: &str) -> Option<Key> {
        let is_called = |key: &Key| is_exposed(key) && object_name(key) == name;
        // A name that was too long ends in a hash, from which no key follows.
        if name.len() == OBJECT_NAME_MAX {
            return self.all_intents().map(|stored| &stored.key).find(|key| is_called(key)).cloned();
        }
        Key::parse(&name.replace('+', "/")).ok().filter(is_called)
    }

    /// Returns the intents that begin or cease to run on a cluster whose services changed. This visits all intents: clusters are few, and
    /// change rarely.
    pub(crate) fn moved_intents(&self, was: &Cluster, is: &Cluster) -> Vec<Key> {
        let is_moved = |stored: &&StoredIntent| match &stored.intent.spec {
            IntentSpec::Inbound(inbound) if inbound.gslb.members.is_empty() => {
                runs(was, &inbound.service_name) != runs(is, &inbound.service_name)
            }
            _ => false,
        };
        self.all_intents().filter(is_moved).filter_map(|stored| exposed(&stored.key)).collect()
    }
}

/// Checks that the project of an intent is granted the name that the intent claims.
fn check_grant(names: &NameGrants, intent: &StoredIntent) -> Result<(), NotGranted> {
    match (&intent.answered, intent.key.names().next()) {
        (Some(name), Some(project)) if names.is_enforced && is_exposed(&intent.key) => {
            names.check_steered(&Tenant::Project(project.to_owned()), name)
        }
        _ => Ok(()),
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
