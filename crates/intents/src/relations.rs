//! Relations between stored objects: required parents, and children and sets that prevent a deletion.
//!
//! Projects, composite apps, deployment intent groups and the traffic group `default` belong to the orchestrator and need not be declared.

use std::fmt;

use fairway_model::intent::{Intent, IntentName, IntentSpec, SetEntry, TrafficSet};

use super::{
    body,
    error::{BodyError, InvalidBody},
    exposure::StoredIntent,
    paths::{DEFAULT, IntentPath},
};
use fairway_store::objects::{Key, Kind, Object, ObjectStore, Prefix, StoreError};

/// Reason why an object cannot be created, replaced or deleted, given the existing ones.
#[derive(Debug, thiserror::Error)]
pub enum RelationError {
    /// Another object refers to this one.
    #[error("the {} is in use by the {}; delete or change that first", Named(.key), Named(.by))]
    InUse {
        /// The object to delete.
        key: Key,
        /// The object that refers to it.
        by: Key,
    },
    /// The object that it would be below does not exist.
    #[error("there is no {}; create it first", Named(.0))]
    NoParent(Key),
    /// A traffic set names intents that do not exist.
    #[error("{0}")]
    NoSuchIntents(InvalidBody),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An object in an error text: its kind and its name.
struct Named<'a>(&'a Key);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.0.kind().word(), self.0.name())
    }
}

/// Returns the required parent of an object of a kind. Of its names, the last one is not needed.
fn parent_of(kind: Kind, names: &[&str]) -> Option<Key> {
    let kind = match kind {
        Kind::AccessPoint => Kind::Client,
        Kind::Client => Kind::Inbound,
        Kind::InboundOfCompound => Kind::Compound,
        Kind::OutboundServer => Kind::Outbound,
        Kind::Inbound | Kind::Outbound | Kind::Compound if names[4] != DEFAULT => Kind::TrafficGroup,
        _ => return None,
    };
    Some(Key::new(kind, &names[..kind.names()]).expect("an object has the names of its parents"))
}

/// Returns the object that must exist for another one to exist.
pub fn required_parent(key: &Key) -> Option<Key> {
    parent_of(key.kind(), &key.names().collect::<Vec<_>>())
}

/// Returns the objects that must exist as long as a stored intent: its parent, and the intents of a set.
pub fn required_objects(stored: &StoredIntent) -> Vec<Key> {
    let named = match &stored.intent.spec {
        IntentSpec::TrafficSet(set) => &set.set[..],
        _ => &[],
    };
    let named = named.iter().map(intent_of).map(|(kind, _, name)| sibling(stored.key.names(), kind, name.as_str()));
    required_parent(&stored.key).into_iter().chain(named).collect()
}

/// Fails if the parent of the place does not exist.
pub async fn has_parent(store: &dyn ObjectStore, place: &IntentPath) -> Result<(), RelationError> {
    let names: Vec<&str> = place.names.iter().map(IntentName::as_str).collect();
    match parent_of(place.kind, &names) {
        Some(parent) if store.read(&parent).await?.is_none() => Err(RelationError::NoParent(parent)),
        _ => Ok(()),
    }
}

/// Fails if a traffic set names intents that do not exist.
pub async fn refers(store: &dyn ObjectStore, place: &IntentPath, set: &TrafficSet) -> Result<(), RelationError> {
    let mut errors = Vec::new();
    for (at, entry) in set.set.iter().enumerate() {
        let (kind, word, name) = intent_of(entry);
        let key = sibling(place.names.iter().map(IntentName::as_str), kind, name.as_str());
        if store.read(&key).await?.is_none() {
            let detail = format!("there is no {word} intent {:?}; create it first, or send ?defer=true", name.as_str());
            errors.push(BodyError::new(format!("/set/{at}/{word}"), detail));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(RelationError::NoSuchIntents(InvalidBody { errors, nameless: false })) }
}

/// Fails if other objects refer to this one, so that it cannot be deleted.
pub async fn is_free(store: &dyn ObjectStore, key: &Key) -> Result<(), RelationError> {
    let names: Vec<&str> = key.names().collect();
    for kind in below(key.kind()) {
        let under = Prefix::new(*kind, &names).expect("children have more names");
        let listing = store.list(&under, None, 1).await?;
        if let Some(child) = listing.objects.first() {
            return Err(in_use(key, &child.key));
        }
    }
    if key.kind() == Kind::Outbound {
        let server = Key::new(Kind::OutboundServer, &names).expect("the server has the names of its intent");
        if store.read(&server).await?.is_some() {
            return Err(in_use(key, &server));
        }
    }
    if matches!(key.kind(), Kind::Inbound | Kind::Outbound | Kind::Compound) && names[3..5] == [DEFAULT; 2] {
        return is_in_no_set(store, key, &names[..3]).await;
    }
    Ok(())
}

async fn is_in_no_set(store: &dyn ObjectStore, key: &Key, app: &[&str]) -> Result<(), RelationError> {
    let under = Prefix::new(Kind::TrafficSet, app).expect("sets lie below a composite app");
    let mut after: Option<Key> = None;
    loop {
        let listing = store.list(&under, after.as_ref(), PAGE).await?;
        if let Some(set) = listing.objects.iter().find(|object| names_intent(object, key)) {
            return Err(in_use(key, &set.key));
        }
        after = listing.objects.last().map(|object| object.key.clone());
        if !listing.more || after.is_none() {
            return Ok(());
        }
    }
}

/// True if a set names an intent. A set that cannot be parsed names none.
fn names_intent(object: &Object, key: &Key) -> bool {
    let read = body::read_stored(Kind::TrafficSet, &object.value);
    let Ok(Intent { spec: IntentSpec::TrafficSet(set), .. }) = read else { return false };
    set.set.iter().map(intent_of).any(|(kind, _, name)| kind == key.kind() && name.as_str() == key.name())
}

fn in_use(key: &Key, by: &Key) -> RelationError {
    RelationError::InUse { key: key.clone(), by: by.clone() }
}

fn intent_of(entry: &SetEntry) -> (Kind, &'static str, &IntentName) {
    match entry {
        SetEntry::Compound(name) => (Kind::Compound, "compound", name),
        SetEntry::Inbound(name) => (Kind::Inbound, "inbound", name),
        SetEntry::Outbound(name) => (Kind::Outbound, "outbound", name),
    }
}

/// Returns the key of an intent of the composite app of a set.
fn sibling<'a>(names: impl Iterator<Item = &'a str>, kind: Kind, name: &'a str) -> Key {
    let names: Vec<&str> = names.take(3).chain([DEFAULT, DEFAULT, name]).collect();
    Key::new(kind, &names).expect("an intent has the names of its app, two groups and its own")
}

/// Returns the kinds below a kind, whose names begin with its own.
fn below(kind: Kind) -> &'static [Kind] {
    use Kind::{
        AccessPoint, Client, CompositeApp, Compound, DeploymentGroup, DnsUpdateRecord, Inbound, InboundOfCompound,
        Outbound, Project, TrafficGroup, TrafficSet,
    };
    match kind {
        Project => {
            &[CompositeApp, DnsUpdateRecord, DeploymentGroup, TrafficGroup, TrafficSet, Inbound, Outbound, Compound]
        }
        CompositeApp => &[DeploymentGroup, TrafficGroup, TrafficSet, Inbound, Outbound, Compound],
        DeploymentGroup => &[TrafficGroup, Inbound, Outbound, Compound],
        TrafficGroup => &[Inbound, Outbound, Compound],
        Inbound => &[Client],
        Client => &[AccessPoint],
        Compound => &[InboundOfCompound],
        _ => &[],
    }
}

/// Number of sets that are read at once.
const PAGE: usize = 1_000;
