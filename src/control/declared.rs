//! Objects that were declared over the API, and what they wish for together.
//!
//! Each was sound by itself when it was taken; whether it fits what else is there is seen anew at every reading. One that does not
//! fit is left out with its reasons, so that no object keeps another one, or a file, from being served.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{Conflict, Contribution, Desired, Fault, Name, SourceKind, Subject, Timestamp};

use crate::{
    api::objects_wire::{ExportedObject, ObjectsExport},
    config::{self, ObjectFault},
    store::objects::{Author, Event, Key, Kind, Object},
};

/// All declared objects of one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    /// Of the store.
    pub(crate) revision: u64,
    objects: BTreeMap<Key, Arc<Wish>>,
}

/// One object, and what it wishes for.
#[derive(Debug)]
pub(crate) struct Wish {
    /// As it is kept.
    pub(crate) object: Object,
    desired: Result<Desired, Vec<ObjectFault>>,
}

/// Objects that are not heeded, with the reasons.
pub(crate) type LeftOut = BTreeMap<Key, Vec<ObjectFault>>;

/// The section of a configuration that objects of a kind are elements of; none for those that are more than that.
pub(crate) const fn section(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Cluster => Some("clusters"),
        Kind::Monitor => Some("monitors"),
        Kind::Name => Some("names"),
        Kind::Pool => Some("pools"),
        _ => None,
    }
}

impl Wish {
    fn new(object: Object) -> Self {
        let desired = match (section(object.key.kind()), std::str::from_utf8(&object.value)) {
            (Some(section), Ok(text)) => config::object(section, text),
            // Of kinds that wish for nothing by themselves.
            _ => Ok(Desired::default()),
        };
        Self { object, desired }
    }
}

impl Declared {
    /// All objects of a store.
    pub(crate) fn new(revision: u64, objects: impl IntoIterator<Item = Object>) -> Self {
        let wish = |object: Object| (object.key.clone(), Arc::new(Wish::new(object)));
        Self { revision, objects: objects.into_iter().map(wish).collect() }
    }

    /// What another process of this server tells.
    pub(crate) fn of_export(told: ObjectsExport) -> Self {
        let object = |told: ExportedObject| {
            let (at, by) = (Timestamp::from_secs(0), Author::default());
            let (revision, generation) = (told.revision, told.generation);
            let value = told.value.to_string().into_bytes().into();
            Some(Object { key: Key::parse(&told.key).ok()?, value, revision, generation, created: at, changed: at, by })
        };
        Self::new(told.revision, told.objects.into_iter().filter_map(object))
    }

    /// What is told to another process of this server.
    pub(crate) fn export(&self) -> ObjectsExport {
        let told = |object: &Object| {
            let value = serde_json::from_slice(&object.value).unwrap_or_default();
            let (revision, generation) = (object.revision, object.generation);
            ExportedObject { key: object.key.to_string(), value, revision, generation }
        };
        ObjectsExport {
            revision: self.revision,
            objects: self.objects.values().map(|wish| told(&wish.object)).collect(),
        }
    }

    /// Takes what happened.
    pub(crate) fn apply(&mut self, events: &[Event]) {
        for event in events {
            self.revision = self.revision.max(event.revision);
            match &event.object {
                Some(object) => self.objects.insert(event.key.clone(), Arc::new(Wish::new(object.clone()))),
                None => self.objects.remove(&event.key),
            };
        }
    }

    /// Puts an object in, or takes it away, to try what would come of it.
    pub(crate) fn suppose(&mut self, key: &Key, object: Option<Object>) {
        match object {
            Some(object) => self.objects.insert(key.clone(), Arc::new(Wish::new(object))),
            None => self.objects.remove(key),
        };
    }

    /// The object at a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key).map(|wish| &wish.object)
    }

    /// The objects of a kind, in order.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|wish| &wish.object).filter(move |object| object.key.kind() == kind)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What the objects wish for that are not left out; those that cannot be read any more are from now on.
    pub(crate) fn contribution(&self, left_out: &mut LeftOut) -> Contribution {
        let mut desired = Desired::default();
        for (key, wish) in &self.objects {
            match &wish.desired {
                _ if left_out.contains_key(key) => {}
                Ok(own) => {
                    desired.clusters.extend(own.clusters.clone());
                    desired.load_feeds.extend(own.load_feeds.clone());
                    desired.load_aims.extend(own.load_aims.clone());
                    desired.monitors.extend(own.monitors.clone());
                    desired.pools.extend(own.pools.clone());
                    desired.names.extend(own.names.clone());
                }
                Err(faults) => {
                    left_out.insert(key.clone(), faults.clone());
                }
            }
        }
        Contribution { source: SourceKind::Api, owner: "api".to_owned(), set: String::new(), created: 0, desired }
    }

    /// Leaves out the objects that errors are about. Where errors are about something else alone, all are left out: what is wrong
    /// then is found again without them, or is their fault together. False if none was left to be left out.
    pub(crate) fn leave_out(&self, faults: &[Fault], files: &Desired, left_out: &mut LeftOut) -> bool {
        let told = |fault: &Fault| {
            let way_out = if fault.way_out.is_empty() { String::new() } else { format!("; {}", fault.way_out) };
            let pointer = match &fault.about {
                // Members of a pool that files declare too stand behind those of the files.
                Some(Subject::Member(pool, place)) if !files.pools.contains_key(pool) => format!("/members/{place}"),
                _ => String::new(),
            };
            ObjectFault { pointer, what: format!("{}{way_out}", fault.what) }
        };
        let mut blamed = LeftOut::new();
        for fault in faults.iter().filter(|fault| fault.is_error()) {
            let key = fault.about.as_ref().and_then(key_of);
            let key = key.filter(|key| self.objects.contains_key(key) && !left_out.contains_key(key));
            key.into_iter().for_each(|key| blamed.entry(key).or_default().push(told(fault)));
        }
        if blamed.is_empty() {
            let why: Vec<ObjectFault> =
                faults.iter().filter(|fault| fault.is_error()).take(FAULTS_TOLD).map(told).collect();
            let rest = self.objects.keys().filter(|key| !left_out.contains_key(key));
            blamed.extend(rest.map(|key| (key.clone(), why.clone())));
        }
        let any = !blamed.is_empty();
        left_out.extend(blamed);
        any
    }
}

/// Faults that are told of each object where it is not known which of them is at fault.
const FAULTS_TOLD: usize = 3;

/// Objects whose word does not hold beside that of files, and what does.
pub(crate) fn overruled(conflicts: &[Conflict], files: &str) -> BTreeMap<Key, String> {
    let told = |conflict: &Conflict| {
        let key = key_of(&conflict.subject)?;
        let holds = match key.kind() {
            Kind::Pool => "its members count beside those there, for the rest the file holds",
            _ => "the file holds",
        };
        Some((key.clone(), format!("{key} is declared over the API and otherwise in {files}: {holds}")))
    };
    conflicts.iter().filter_map(told).collect()
}

/// Names that a contribution of objects steers and the files do not.
pub(crate) fn names_beside(files: &Desired, objects: &Desired) -> BTreeSet<Name> {
    objects.names.keys().filter(|name| !files.names.contains_key(*name)).cloned().collect()
}

/// The key of the object that a fault is about; none for kinds that the API has not.
fn key_of(subject: &Subject) -> Option<Key> {
    let (kind, name) = match subject {
        Subject::Cluster(name) => (Kind::Cluster, name.to_string()),
        Subject::Monitor(name) => (Kind::Monitor, name.to_string()),
        Subject::Name(name) => (Kind::Name, key_name(name)),
        Subject::Pool(name) | Subject::Member(name, _) => (Kind::Pool, name.to_string()),
        Subject::Latencies(_) | Subject::LoadSource(_) | Subject::Map(_) | Subject::Zone(_) => return None,
    };
    Key::new(kind, &[&name]).ok()
}

/// A domain name as it stands in keys: in lower case, without its final dot.
pub(crate) fn key_name(name: &Name) -> String {
    let text = name.to_string().to_ascii_lowercase();
    text.strip_suffix('.').filter(|short| !short.is_empty()).map_or_else(|| text.clone(), str::to_owned)
}
