//! Objects that were declared over the API, and what they declare together.
//!
//! Each was valid alone when it was accepted. Whether it is valid together with the others is checked by each reload. An object that is not
//! is rejected with the reasons, so that it keeps no other object or file from being served.

mod contributions;
mod intents;
mod object;
pub(crate) mod removed;
pub(crate) mod removed_wire;
mod takeovers;
mod usage;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fairway_access::NameGrants;
use fairway_config::ObjectError;
use fairway_contributions::LeaseWeights;
use fairway_intents::StoredIntent;
use fairway_model::{Cluster, DesiredState, Diagnostic, Name, PoolName, SharedMap, SteeredName, Subject, Timestamp};
use fairway_store::{
    SavedOverride,
    objects::{Event, Key, Kind, Object, Prefix},
};

pub(crate) use self::takeovers::{Releases, waiting};
pub(crate) use self::usage::Growth;
pub use self::{intents::exposed, object::ParsedObjects, takeovers::TakeOvers, usage::Usage};
use self::{
    intents::{Claim, Claims},
    object::{Content, DeclaredObject, declares},
};
use crate::affected::AffectedParts;

/// All declared objects of one revision.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// The revision of the store.
    pub revision: u64,
    objects: SharedMap<Key, Arc<DeclaredObject>>,
    /// Use of the limits by all objects.
    pub usage: Usage,
    /// Names that intents among them claim.
    claims: Claims,
    /// Names that tenants among them gave up a short time ago.
    releases: Releases,
    /// Weights of webhook clients whose lease has expired.
    pub(crate) lease_weights: Arc<LeaseWeights>,
}

/// Rules about who may claim a name.
#[derive(Clone, Copy)]
pub(crate) struct ClaimRules<'a> {
    /// Grants of names.
    pub(crate) names: &'a NameGrants,
    /// Names that the files gave up a short time ago.
    pub(crate) released_by_files: &'a Releases,
    /// The time, for names that change hands.
    pub(crate) now: Timestamp,
}

/// Returns the key of the object with the overrides of all servers on the store.
pub(crate) fn overrides_key() -> Key {
    Key::new(Kind::Overrides, &["all"]).expect("a valid name")
}

/// Objects with their errors.
pub type ObjectErrors = SharedMap<Key, Vec<ObjectError>>;

/// Returns the section of a configuration that objects of a kind are elements of; `None` for intents and contributions.
pub const fn section(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Cluster => Some("clusters"),
        Kind::Monitor => Some("monitors"),
        Kind::Name => Some("names"),
        Kind::Pool => Some("pools"),
        Kind::Records => Some("records"),
        _ => None,
    }
}

impl Declared {
    /// Returns all objects of a store.
    pub fn new(revision: u64, objects: impl IntoIterator<Item = Object>) -> Self {
        Self::of_parts(revision, [ParsedObjects::new(objects)])
    }

    /// Returns all objects of a store that were parsed in parts, in the order of their keys.
    pub fn of_parts(revision: u64, parts: impl IntoIterator<Item = ParsedObjects>) -> Self {
        let (objects, claims): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.objects, part.claims)).unzip();
        let claims = claims.into_iter().flatten().map(|claim| (claim, ())).collect();
        let objects = objects.into_iter().flatten().collect();
        let usage = Usage::of_all(&objects);
        let mut declared = Self { revision, objects, usage, claims, ..Self::default() };
        declared.releases = declared.all_releases();
        declared
    }

    /// Returns all objects, in the order of their keys.
    pub fn all(&self) -> impl Iterator<Item = Cow<'_, Object>> {
        self.objects.values().map(|object| object.stored())
    }

    /// Applies events of the store.
    pub fn apply(&mut self, events: &[Event]) {
        for event in events {
            self.revision = self.revision.max(event.revision);
            if declares(&event.key) {
                self.put(&event.key, event.object.clone());
            }
        }
    }

    /// Inserts an object, or removes it if it is `None`.
    pub fn put(&mut self, key: &Key, object: Option<Object>) {
        let before = self.objects.get(key).map(|before| &**before);
        let object = object.map(|object| Arc::new(DeclaredObject::new(object, before)));
        self.put_parsed(key, object);
    }

    /// Takes the object at a key, or its absence, from another state.
    pub fn take_from(&mut self, others: &Self, key: &Key) {
        self.put_parsed(key, others.objects.get(key).cloned());
    }

    fn put_parsed(&mut self, key: &Key, object: Option<Arc<DeclaredObject>>) {
        let claim = object.as_ref().and_then(|object| object.claim());
        let had_owner = self.has_owner_of(key);
        if let Some(object) = &object {
            self.usage += object.usage;
            self.add_releases(object);
        }
        let before = match object {
            Some(object) => self.objects.insert(key.clone(), object),
            None => self.objects.remove(key),
        };
        if let Some(before) = &before {
            self.usage -= before.usage;
            self.remove_releases(before);
        }
        match (had_owner, self.has_owner_of(key)) {
            (false, true) => self.usage.owners += 1,
            (true, false) => self.usage.owners -= 1,
            _ => {}
        }
        let claim_before = before.and_then(|object| object.claim());
        if claim_before != claim {
            if let Some(before) = claim_before {
                self.claims.remove(&before);
            }
            if let Some(claim) = claim {
                self.claims.insert(claim, ());
            }
        }
    }

    /// Returns true if the object at a key, if any, declares only what its key names, or is an intent.
    pub fn is_local_at(&self, key: &Key) -> bool {
        self.objects.get(key).is_none_or(|object| object.is_local())
    }

    /// Returns the keys whose objects differ from an earlier state, or `None` if lease weights changed, which affects all contributions.
    pub fn changed_since(&self, before: &Self) -> Option<Vec<Key>> {
        let changed = self.objects.differences(&before.objects, Arc::ptr_eq).into_iter();
        (self.lease_weights == before.lease_weights).then(|| changed.map(|(key, ..)| key.clone()).collect())
    }

    /// Returns both versions of the cluster at a key if they differ in their services alone, which only intents depend on.
    pub fn other_services<'a>(&'a self, before: &'a Self, key: &Key) -> Option<(&'a Cluster, &'a Cluster)> {
        let (then, now) = (before.objects.get(key)?, self.objects.get(key)?);
        let cluster = |object: &'a DeclaredObject| object.element()?.clusters.values().next();
        now.differs_in_services_alone(then).then(|| cluster(then).zip(cluster(now)))?
    }

    /// Returns true if others have the same values at the same keys, and intents of the same age. Revisions may differ.
    pub fn is_equivalent(&self, others: &Self) -> bool {
        let is_same = |ours: &Arc<DeclaredObject>, theirs: &Arc<DeclaredObject>| {
            let is_as_old = || ours.intent().is_none() || ours.object.created == theirs.object.created;
            Arc::ptr_eq(ours, theirs) || (ours.has_value_of(theirs) && is_as_old())
        };
        self.objects.differences(&others.objects, is_same).is_empty()
    }

    /// Returns a steered name that is declared as an object.
    pub fn name(&self, name: &Name) -> Option<&SteeredName> {
        self.element(&key_of(&Subject::Name(name.clone()))?)?.names.get(name)
    }

    /// Returns true if objects of the operator, in `/v1/names` or `/v1/records`, declare a name and are not rejected.
    pub(crate) fn is_operators(&self, name: &Name, rejected: &ObjectErrors) -> bool {
        let keys = [key_of(&Subject::Name(name.clone())), records_key(name)];
        keys.iter().flatten().any(|key| self.element(key).is_some() && !rejected.contains_key(key))
    }

    /// Returns what the object at a key declares, if it is an element of a configuration.
    pub fn element(&self, key: &Key) -> Option<&DesiredState> {
        self.objects.get(key)?.element()
    }

    /// Returns the object at a key; without its value if it holds webhook contributions.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key).map(|object| &object.object)
    }

    /// Returns the objects of a kind, in order.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.under(kind, &[]).map(|object| &object.object)
    }

    /// Returns the objects of a kind whose first names are these, fewer than the kind has, in the order of their keys.
    fn under<'a>(&'a self, kind: Kind, names: &[&str]) -> impl Iterator<Item = &'a DeclaredObject> + use<'a> {
        let prefix = Prefix::new(kind, names).expect("fewer names than the kind has, taken from keys");
        let objects = self.objects.starting_at(&|key| key.as_str() < prefix.as_str());
        objects.take_while(move |(key, _)| prefix.holds(key)).map(|(_, object)| &**object)
    }

    /// Returns the overrides of all servers on the store; `None` if they cannot be read.
    pub fn shared_overrides(&self) -> Option<&[SavedOverride]> {
        match self.objects.get(&overrides_key()).map(|object| &object.content) {
            None => Some(&[]),
            Some(Ok(Content::Overrides(overrides))) => Some(overrides),
            Some(_) => None,
        }
    }

    /// Returns true if there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns what objects declare that are not rejected, and the valid intents that are not served, with the reasons. Objects that cannot
    /// be parsed are rejected.
    ///
    /// `affected` limits this to some objects.
    pub(crate) fn contribution(
        &self,
        affected: Option<&AffectedParts<'_>>,
        files: &DesiredState,
        claims: &ClaimRules<'_>,
        rejected: &mut ObjectErrors,
    ) -> (DesiredState, ObjectErrors) {
        let mut desired = DesiredState::default();
        let intents: Vec<&StoredIntent> = match affected {
            None => {
                self.objects.values().for_each(|object| object.add_to(&mut desired, rejected));
                self.all_intents().collect()
            }
            Some(part) => {
                for object in part.object_keys().iter().filter_map(|key| self.objects.get(key)) {
                    object.add_to(&mut desired, rejected);
                }
                self.with_children(&part.intents)
            }
        };
        let unserved = self.add_intents(&intents, files, claims, &mut desired, rejected);
        (desired, unserved)
    }

    /// Rejects all objects, since it is not known which of them the errors are about. The next reload tries them again. Returns false if
    /// all were rejected before.
    pub(crate) fn reject_all(&self, errors: &[Diagnostic], rejected: &mut ObjectErrors) -> bool {
        let first = errors.iter().filter(|error| error.is_error()).take(REASONS_MAX);
        let reasons: Vec<ObjectError> = first.map(|error| reason(error, String::new())).collect();
        let is_new = |key: &&Key| !rejected.contains_key(*key) && key.kind() != Kind::Contribution;
        let new: Vec<Key> = self.objects.keys().filter(is_new).cloned().collect();
        let is_any = !new.is_empty();
        rejected.extend(new.into_iter().map(|key| (key, reasons.clone())));
        is_any
    }

    /// Rejects the objects that errors are about. Returns false if there is no such object that was not rejected before. `desired` is the
    /// merged state with the errors.
    pub(crate) fn reject(
        &self,
        errors: &[Diagnostic],
        files: &DesiredState,
        desired: &DesiredState,
        rejected: &mut ObjectErrors,
    ) -> bool {
        let mut found = BTreeMap::<Key, Vec<ObjectError>>::new();
        for error in errors.iter().filter(|error| error.is_error()) {
            let Some(subject) = &error.about else { continue };
            let intent = self.intent_of(subject, desired).filter(|key| self.objects.contains_key(key));
            let is_intent = intent.is_some();
            let Some(key) = intent.or_else(|| key_of(subject)) else { continue };
            if !self.objects.contains_key(&key) || rejected.contains_key(&key) {
                continue;
            }
            let pointer = match subject {
                // If files declare the pool too, the members of the object come after those of the files.
                Subject::Member(pool, _) if is_intent || files.pools.contains_key(pool) => String::new(),
                Subject::Member(_, number) => format!("/members/{number}{}", error.field),
                _ if is_intent => String::new(),
                _ => error.field.to_owned(),
            };
            found.entry(key).or_default().push(reason(error, pointer));
        }
        let is_any = !found.is_empty();
        rejected.extend(found);
        is_any
    }
}

/// Returns an error as the reason of a rejection.
fn reason(error: &Diagnostic, pointer: String) -> ObjectError {
    let hint = if error.hint.is_empty() { String::new() } else { format!("; {}", error.hint) };
    ObjectError { pointer, what: format!("{}{hint}", error.fact) }
}

/// Maximum number of reasons of each object, if it is not known which of the objects the errors are about.
const REASONS_MAX: usize = 3;

/// Returns the objects that files declare differently, with what is in force.
pub(crate) fn shadowed(conflicts: &[Subject], files: &str) -> BTreeMap<Key, String> {
    let message = |subject: &Subject| {
        let key = key_of(subject)?;
        let effect = match key.kind() {
            Kind::Pool => "its members are added to those of the file, all other fields are the file's",
            _ => "the file is used",
        };
        Some((key.clone(), format!("{key} is declared over the API and differently in {files}: {effect}")))
    };
    conflicts.iter().filter_map(message).collect()
}

/// Returns the object whose members a pool of the files does not take, with the reason.
pub(crate) fn closed_pool(pool: PoolName, files: &str) -> Option<(Key, String)> {
    let key = key_of(&Subject::Pool(pool))?;
    let message = format!(
        "{key} is declared over the API and in {files}, whose pool takes no members from elsewhere; set contributions: allow there"
    );
    Some((key, message))
}

/// Returns the key of the object that a subject belongs to; `None` for subjects that cannot be declared over the API.
pub fn key_of(subject: &Subject) -> Option<Key> {
    let (kind, name) = match subject {
        Subject::Cluster(name) => (Kind::Cluster, name.to_string()),
        Subject::Monitor(name) => (Kind::Monitor, name.to_string()),
        Subject::Name(name) => (Kind::Name, name.to_plain()),
        Subject::Pool(name) | Subject::Member(name, _) => (Kind::Pool, name.to_string()),
        Subject::Records(name, _) => return records_key(name),
        Subject::Latencies(_) | Subject::LoadSource(_) | Subject::Map(_) | Subject::Zone(_) => return None,
    };
    Key::new(kind, &[&name]).ok()
}

/// Returns the key of the object with the records of a name.
pub(crate) fn records_key(name: &Name) -> Option<Key> {
    Key::new(Kind::Records, &[&name.to_plain()]).ok()
}
