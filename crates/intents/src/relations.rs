//! What objects need of each other: parents that must be there, children and sets that hold on to them.
//!
//! Projects, composite apps and deployment-intent-groups are the orchestrator's: they need not be declared, nor the traffic
//! group `default`.

use std::fmt;

use fairway_model::intent::{Intent, IntentName, SetEntry, TrafficSet};

use super::{
    body,
    fault::{Fault, Refused},
    paths::{DEFAULT, Place, What},
    wish::StoredIntent,
};
use fairway_store::objects::{Key, Kind, Object, ObjectStore, Prefix, StoreError};

/// Why an object cannot be created, replaced or deleted next to those that exist.
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
    NoSuchIntents(Refused),
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

/// The object right above a place, if it has to be there.
fn parent(place: &Place) -> Option<Key> {
    above(place.kind, &place.names.iter().map(IntentName::as_str).collect::<Vec<_>>())
}

/// The object right above one of a kind, if it has to be there; of the one's names, all but its own are needed.
fn above(kind: Kind, names: &[&str]) -> Option<Key> {
    let kind = match kind {
        Kind::AccessPoint => Kind::Client,
        Kind::Client => Kind::Inbound,
        Kind::InboundOfCompound => Kind::Compound,
        Kind::OutboundServer => Kind::Outbound,
        Kind::Inbound | Kind::Outbound | Kind::Compound if names[4] != DEFAULT => Kind::TrafficGroup,
        _ => return None,
    };
    Some(Key::new(kind, &names[..kind.names()]).expect("an object has the names of those above it"))
}

/// What must be there for an intent to be there.
pub fn lacks(key: &Key) -> Option<Key> {
    above(key.kind(), &key.names().collect::<Vec<_>>())
}

/// What must stay for a stored object to stay as it is: what it lies below, and the intents that a set names.
pub fn needs(stored: &StoredIntent) -> Vec<Key> {
    let named = match &stored.intent {
        Intent::TrafficSet(set) => &set.set[..],
        _ => &[],
    };
    let named = named.iter().map(intent_of).map(|(kind, _, name)| sibling(stored.key.names(), kind, name.as_str()));
    lacks(&stored.key).into_iter().chain(named).collect()
}

/// Fails if the object that the place is below does not exist.
pub async fn has_parent(store: &dyn ObjectStore, place: &Place) -> Result<(), RelationError> {
    match parent(place) {
        Some(parent) if store.read(&parent).await?.is_none() => Err(RelationError::NoParent(parent)),
        _ => Ok(()),
    }
}

/// Fails if a traffic set names intents that do not exist.
pub async fn refers(store: &dyn ObjectStore, place: &Place, set: &TrafficSet) -> Result<(), RelationError> {
    let mut faults = Vec::new();
    for (at, entry) in set.set.iter().enumerate() {
        let (kind, word, name) = intent_of(entry);
        let key = sibling(place.names.iter().map(IntentName::as_str), kind, name.as_str());
        if store.read(&key).await?.is_none() {
            let detail =
                format!("there is no {word} intent {:?}; create it first, or ask with ?defer=true", name.as_str());
            faults.push(Fault::new(format!("/set/{at}/{word}"), detail));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(RelationError::NoSuchIntents(Refused { faults, nameless: false })) }
}

/// Fails if other objects refer to this one, so that it cannot be deleted.
pub async fn is_free(store: &dyn ObjectStore, key: &Key) -> Result<(), RelationError> {
    let names: Vec<&str> = key.names().collect();
    for kind in below(key.kind()) {
        let under = Prefix::new(*kind, &names).expect("children have more names");
        let listing = store.list(&under, None, 1).await?;
        if let Some(child) = listing.objects.first() {
            return Err(held(key, &child.key));
        }
    }
    if key.kind() == Kind::Outbound {
        let server = Key::new(Kind::OutboundServer, &names).expect("the server has the names of its intent");
        if store.read(&server).await?.is_some() {
            return Err(held(key, &server));
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
            return Err(held(key, &set.key));
        }
        after = listing.objects.last().map(|object| object.key.clone());
        if !listing.more || after.is_none() {
            return Ok(());
        }
    }
}

/// Whether a set names an intent; one that cannot be read names nothing.
fn names_intent(object: &Object, key: &Key) -> bool {
    let Ok(Intent::TrafficSet(set)) = body::read_kept(Kind::TrafficSet, &object.value) else { return false };
    set.set.iter().map(intent_of).any(|(kind, _, name)| kind == key.kind() && name.as_str() == key.name())
}

fn held(key: &Key, by: &Key) -> RelationError {
    RelationError::InUse { key: key.clone(), by: by.clone() }
}

fn intent_of(entry: &SetEntry) -> (Kind, &'static str, &IntentName) {
    match entry {
        SetEntry::Compound(name) => (Kind::Compound, "compound", name),
        SetEntry::Inbound(name) => (Kind::Inbound, "inbound", name),
        SetEntry::Outbound(name) => (Kind::Outbound, "outbound", name),
    }
}

/// An intent of the composite app that a set belongs to.
fn sibling<'a>(names: impl Iterator<Item = &'a str>, kind: Kind, name: &'a str) -> Key {
    let names: Vec<&str> = names.take(3).chain([DEFAULT, DEFAULT, name]).collect();
    Key::new(kind, &names).expect("an intent has the names of its app, two groups and its own")
}

/// Kinds that lie below a kind, whose names begin with its own.
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

/// Whether a body's name must be that of the path, and is not.
pub fn is_named_otherwise(place: &Place, intent: &Intent) -> Option<String> {
    let own = intent.metadata().name.as_str();
    let mut given = vec![own];
    if let Intent::CompositeApp(app) = intent {
        given.push(app.version.as_str());
    }
    let names: Vec<&str> = place.names.iter().map(IntentName::as_str).collect();
    let named = place.what == What::Object && !names.ends_with(&given);
    named.then(|| {
        format!(
            "the body is about {:?}, the path about {:?}; let both say the same",
            given.join("/"),
            names[names.len() - given.len()..].join("/")
        )
    })
}

/// Sets that are read at once.
const PAGE: usize = 1_000;
