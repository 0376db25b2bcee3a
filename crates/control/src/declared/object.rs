//! One declared object, parsed.

use std::{borrow::Cow, sync::Arc};

use fairway_config::ObjectError;
use fairway_contributions::{ReadPart, ReadRow, read_seen};
use fairway_intents::StoredIntent;
use fairway_model::{DesiredState, Name, Subject};
use fairway_store::{
    SavedOverride,
    objects::{Key, Kind, Object},
};

use super::{
    Claim, ObjectErrors, Usage, key_of,
    removed_wire::{self, RemovedNames},
    section,
};
use crate::on_all_cores;

/// A declared object with what it declares.
#[derive(Debug)]
pub(crate) struct DeclaredObject {
    /// The stored object; without its value if the content has all of it.
    pub(crate) object: Object,
    /// Bytes of its value.
    pub(super) bytes: usize,
    /// Its use of the limits.
    pub(super) usage: Usage,
    pub(crate) content: Result<Content, Vec<ObjectError>>,
}

/// The content of an object.
#[derive(Debug)]
pub(crate) enum Content {
    /// An element of a configuration.
    Element(Box<DesiredState>),
    /// An intent. What it declares also depends on the clusters, and on the other intents that claim its name.
    Intent(Box<StoredIntent>),
    /// A part of a webhook client's rows. What they declare also depends on everything else that is declared.
    Rows(ReadPart),
    /// Time of a webhook client's last call, in seconds since 1970.
    Seen(u64),
    /// Overrides of all servers on the store.
    Overrides(Vec<SavedOverride>),
    /// Names that were removed a short time ago.
    Removed(RemovedNames),
}

impl DeclaredObject {
    /// Parses an object. `before` is its last version, with which it shares what is the same.
    pub(crate) fn new(object: Object, before: Option<&Self>) -> Self {
        let content = match (section(object.key.kind()), object.key.kind()) {
            (Some(section), _) => {
                let text = String::from_utf8_lossy(&object.value);
                fairway_config::object(section, &text).map(|element| Content::Element(element.into()))
            }
            (None, Kind::Contribution) => {
                ReadPart::read(&object.value, before.and_then(Self::part)).map(Content::Rows).map_err(whole)
            }
            (None, Kind::Contributor) => read_seen(&object.value).map(Content::Seen).map_err(whole),
            (None, Kind::RemovedNames) => removed_wire::read(&object.value).map(Content::Removed).map_err(whole),
            (None, Kind::Overrides) => SavedOverride::decode(&object.value).map(Content::Overrides).map_err(whole),
            (None, _) => StoredIntent::read(&object).map(|intent| Content::Intent(intent.into())).map_err(whole),
        };
        Self::with(object, content)
    }

    fn with(mut object: Object, content: Result<Content, Vec<ObjectError>>) -> Self {
        let (usage, bytes) = (Usage::of(&object.key, &object.value), object.value.len());
        if matches!(content, Ok(Content::Rows(_))) {
            object.value = Arc::default();
        }
        Self { object, bytes, usage, content }
    }

    /// Returns the stored object.
    pub(super) fn stored(&self) -> Cow<'_, Object> {
        match self.part() {
            Some(part) => Cow::Owned(Object { value: part.to_bytes().into(), ..self.object.clone() }),
            None => Cow::Borrowed(&self.object),
        }
    }

    /// Returns true if another version has the same value.
    pub(super) fn has_value_of(&self, other: &Self) -> bool {
        self.object.value == other.object.value && self.part() == other.part()
    }

    /// Parses objects of one kind. Pools and names are parsed together, which is faster, unless one of them is invalid.
    fn all(objects: Vec<Object>) -> Vec<Self> {
        let kind = objects[0].key.kind();
        let Some(section) = section(kind).filter(|_| matches!(kind, Kind::Name | Kind::Pool)) else {
            return objects.into_iter().map(|object| Self::new(object, None)).collect();
        };
        let texts: Vec<_> = objects.iter().map(|object| String::from_utf8_lossy(&object.value)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let all = fairway_config::objects(section, &texts).unwrap_or_default();
        let element = |key: &Key| {
            let mut element = DesiredState::default();
            if kind == Kind::Pool {
                let pool = all.pools.get(key.name())?;
                element.pools.insert(pool.name.clone(), pool.clone());
            } else {
                let steered = all.names.get(&key.name().parse::<Name>().ok()?)?;
                element.names.insert(steered.name.clone(), steered.clone());
            }
            Some(element)
        };
        let parse = |object: Object| match element(&object.key) {
            Some(element) => Self::with(object, Ok(Content::Element(element.into()))),
            None => Self::new(object, None),
        };
        objects.into_iter().map(parse).collect()
    }

    /// Returns true if the object declares only what its key names: one pool, one steered name, or the records of one name.
    /// Intents and contributions are local, too, and so are objects that cannot be parsed and declare nothing.
    pub(crate) fn is_local(&self) -> bool {
        let element = match &self.content {
            Ok(Content::Element(element)) => element,
            Ok(_) => return true,
            Err(_) => return !matches!(self.object.key.kind(), Kind::Cluster | Kind::Monitor),
        };
        let pools = element.pools.keys().map(|name| key_of(&Subject::Pool(name.clone())));
        let names = element.names.keys().map(|name| key_of(&Subject::Name(name.clone())));
        let records = element.records.keys().map(|(name, rtype)| key_of(&Subject::Records(name.clone(), *rtype)));
        let mut keys: Vec<_> = pools.chain(names).chain(records).collect();
        keys.dedup();
        keys == [Some(self.object.key.clone())] && element.without_names() == DesiredState::default()
    }

    /// Adds what the object declares, unless it is rejected. Rejects it if it cannot be parsed.
    pub(crate) fn add_to(&self, desired: &mut DesiredState, rejected: &mut ObjectErrors) {
        let key = &self.object.key;
        if rejected.contains_key(key) {
            return;
        }
        match &self.content {
            Ok(Content::Element(element)) => desired.extend_served(DesiredState::clone(element)),
            Ok(_) => {}
            Err(errors) => _ = rejected.insert(key.clone(), errors.clone()),
        }
    }

    pub(crate) fn element(&self) -> Option<&DesiredState> {
        match &self.content {
            Ok(Content::Element(element)) => Some(element),
            _ => None,
        }
    }

    pub(crate) fn intent(&self) -> Option<&StoredIntent> {
        match &self.content {
            Ok(Content::Intent(intent)) => Some(intent),
            _ => None,
        }
    }

    /// Returns the rows of a webhook client in it.
    pub(crate) fn rows(&self) -> &[Arc<ReadRow>] {
        self.part().map_or(&[], |part| &part.rows)
    }

    /// Returns the part of a webhook client's rows that it is.
    pub(crate) fn part(&self) -> Option<&ReadPart> {
        match &self.content {
            Ok(Content::Rows(part)) => Some(part),
            _ => None,
        }
    }

    /// Returns true if the object is a cluster that differs from another version in its services alone. Only intents depend on these.
    pub(crate) fn differs_in_services_alone(&self, before: &Self) -> bool {
        let without_services = |of: &Self| {
            let mut element = of.element().filter(|_| of.object.key.kind() == Kind::Cluster)?.clone();
            element.clusters.values_mut().for_each(|cluster| cluster.services.clear());
            Some(element)
        };
        without_services(self).is_some_and(|element| Some(element) == without_services(before))
    }
}

/// Some objects of a store, parsed.
#[derive(Debug)]
pub struct ParsedObjects {
    pub(super) objects: Vec<(Key, Arc<DeclaredObject>)>,
    pub(super) claims: Vec<Claim>,
}

impl ParsedObjects {
    /// Parses objects in the order of their keys, on all cores if there are many.
    pub fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut batches = Vec::new();
        let mut objects = objects.into_iter().filter(|object| declares(&object.key)).peekable();
        while let Some(first) = objects.next() {
            let mut batch = vec![first];
            while let Some(next) =
                objects.next_if(|next| next.key.kind() == batch[0].key.kind() && batch.len() < BATCH_MAX)
            {
                batch.push(next);
            }
            batches.push(batch);
        }
        let parsed = on_all_cores(batches, |batch| {
            let objects = DeclaredObject::all(batch);
            let claims: Vec<_> = objects.iter().filter_map(DeclaredObject::claim).collect();
            let objects = objects.into_iter().map(|object| (object.object.key.clone(), Arc::new(object)));
            (objects.collect::<Vec<_>>(), claims)
        });
        let (objects, claims): (Vec<_>, Vec<_>) = parsed.into_iter().unzip();
        Self { objects: objects.into_iter().flatten().collect(), claims: claims.into_iter().flatten().collect() }
    }
}

/// Returns true if the object at a key declares anything. Idempotency records do not.
pub(super) fn declares(key: &Key) -> bool {
    key.kind() != Kind::IdempotencyRecord
}

/// Returns an error about an object as a whole.
pub(super) fn whole(what: String) -> Vec<ObjectError> {
    vec![ObjectError { pointer: String::new(), what }]
}

/// Number of objects that are parsed together: their text is some hundred KiB.
const BATCH_MAX: usize = 1_000;
