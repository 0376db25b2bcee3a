//! Objects that were declared over the API, and what they wish for together.
//!
//! Each was sound by itself when it was taken; whether it fits what else is there is seen anew at every reading. One that does not
//! fit is left out with its reasons, so that no object keeps another one, or a file, from being served.

mod intents;
mod many;

use std::{collections::BTreeMap, sync::Arc};

use fairway_model::{
    Cluster, Conflict, DesiredState, Diagnostic, Name, Permille, SharedMap, SharedSet, SteeredName, Subject, Timestamp,
};
use fairway_providers::webhook_server::Scope;

use self::intents::Claim;
pub use self::intents::exposed;
use crate::{
    affected::Affected,
    contributed::{ReadRow, Rows, Strengths, read_part, read_seen, scope_of, scope_word, seen_key},
};
use fairway_api_types::objects_wire::{ExportedObject, ObjectsExport};
use fairway_config::ObjectError;
use fairway_intents::StoredIntent;
use fairway_store::objects::{Author, Event, Key, Kind, Object};

/// All declared objects of one revision.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Of the store.
    pub revision: u64,
    objects: SharedMap<Key, Arc<Wish>>,
    /// The names that intents among them want to be answered at.
    claims: SharedSet<Claim>,
    /// What is left of what silent clients of the webhook brought.
    strengths: Arc<Strengths>,
}

/// One object, and what it wishes for.
#[derive(Debug)]
pub struct Wish {
    /// As it is kept.
    pub object: Object,
    says: Result<Says, Vec<ObjectError>>,
}

/// What an object says.
#[derive(Debug)]
enum Says {
    /// It is an element of a configuration.
    Element(Box<DesiredState>),
    /// It is an intent: what that comes to depends on those that claim the same name, and on the clusters.
    Intent(Box<StoredIntent>),
    /// It is a part of what a client of the webhook contributes: what that comes to depends on all that is declared.
    Rows(Box<[ReadRow]>),
    /// It says when a client of the webhook was heard of, in seconds since 1970.
    Seen(u64),
}

/// Objects that are not heeded, with the reasons.
pub type LeftOut = SharedMap<Key, Vec<ObjectError>>;

/// The section of a configuration that objects of a kind are elements of; none for those that are more than that.
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

impl Wish {
    fn new(object: Object) -> Self {
        let says = match section(object.key.kind()) {
            Some(section) => {
                let text = String::from_utf8_lossy(&object.value);
                fairway_config::object(section, &text).map(|own| Says::Element(own.into()))
            }
            None if object.key.kind() == Kind::Contribution => read_part(&object.value).map(Says::Rows).map_err(whole),
            None if object.key.kind() == Kind::Contributor => read_seen(&object.value).map(Says::Seen).map_err(whole),
            None => StoredIntent::read(&object).map(|intent| Says::Intent(intent.into())).map_err(whole),
        };
        Self { object, says }
    }

    /// Those of objects of one kind. Many pools or names are read together, as long as all of them are sound.
    fn all(objects: Vec<Object>) -> Vec<Self> {
        let kind = objects[0].key.kind();
        let Some(section) = section(kind).filter(|_| matches!(kind, Kind::Name | Kind::Pool)) else {
            return objects.into_iter().map(Self::new).collect();
        };
        let texts: Vec<_> = objects.iter().map(|object| String::from_utf8_lossy(&object.value)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let all = fairway_config::objects(section, &texts).unwrap_or_default();
        let own = |key: &Key| {
            let mut own = DesiredState::default();
            match kind {
                Kind::Pool => own.pools.extend(all.pools.get(key.name()).map(|pool| (pool.name.clone(), pool.clone()))),
                _ => {
                    let name = all.names.get(&key.name().parse::<Name>().ok()?);
                    own.names.extend(name.map(|name| (name.name.clone(), name.clone())));
                }
            }
            (own != DesiredState::default()).then_some(own)
        };
        let wish = |object: Object| match own(&object.key) {
            Some(own) => Self { object, says: Ok(Says::Element(own.into())) },
            None => Self::new(object),
        };
        objects.into_iter().map(wish).collect()
    }

    /// True if its key tells all that it declares: one pool, one steered name or the records of one name. True for intents and
    /// what clients of the webhook contribute, too, and for what cannot be read and declares nothing.
    fn is_local(&self) -> bool {
        let own = match &self.says {
            Ok(Says::Element(own)) => own,
            Ok(Says::Intent(_) | Says::Rows(_) | Says::Seen(_)) => return true,
            Err(_) => return !matches!(self.object.key.kind(), Kind::Cluster | Kind::Monitor),
        };
        let pools = own.pools.keys().map(|name| key_of(&Subject::Pool(name.clone())));
        let names = own.names.keys().map(|name| key_of(&Subject::Name(name.clone())));
        let records = own.records.keys().map(|(name, rtype)| key_of(&Subject::Records(name.clone(), *rtype)));
        let mut keys: Vec<_> = pools.chain(names).chain(records).collect();
        keys.dedup();
        keys == [Some(self.object.key.clone())] && has_only_many(own)
    }
}

impl Wish {
    /// Adds what it declares, unless it is rejected. Rejects it if it cannot be read.
    fn add_to(&self, desired: &mut DesiredState, key: &Key, rejected: &mut LeftOut) {
        match &self.says {
            _ if rejected.contains_key(key) => {}
            Ok(Says::Intent(_) | Says::Rows(_) | Says::Seen(_)) => {}
            Ok(Says::Element(own)) => {
                desired.clusters.extend(own.clusters.clone());
                desired.cluster_load_sources.extend(own.cluster_load_sources.clone());
                desired.load_bounds.extend(own.load_bounds.clone());
                desired.monitors.extend(own.monitors.clone());
                desired.pools.extend(own.pools.clone());
                desired.names.extend(own.names.clone());
                desired.records.extend(own.records.clone());
            }
            Err(faults) => _ = rejected.insert(key.clone(), faults.clone()),
        }
    }

    fn element(&self) -> Option<&DesiredState> {
        match &self.says {
            Ok(Says::Element(own)) => Some(own),
            _ => None,
        }
    }

    /// Whether it is a cluster as it was before but for its services, which intents alone go by.
    fn differs_in_services_alone(&self, before: &Self) -> bool {
        let but_services = |wish: &Self| {
            let mut own = wish.element().filter(|_| wish.object.key.kind() == Kind::Cluster)?.clone();
            own.clusters.values_mut().for_each(|cluster| cluster.services.clear());
            Some(own)
        };
        but_services(self).is_some_and(|own| Some(own) == but_services(before))
    }
}

/// Some objects of a store, read.
#[derive(Debug)]
pub struct Part {
    wishes: Vec<(Key, Arc<Wish>)>,
    claims: Vec<Claim>,
}

impl Part {
    /// Reads objects that come in the order of their keys, on all cores where they are many.
    pub fn read(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut parts = Vec::new();
        let mut objects = objects.into_iter().filter(|object| is_wish(&object.key)).peekable();
        while let Some(first) = objects.next() {
            let mut alike = vec![first];
            while let Some(next) =
                objects.next_if(|next| next.key.kind() == alike[0].key.kind() && alike.len() < TOGETHER)
            {
                alike.push(next);
            }
            parts.push(alike);
        }
        let read = many::on_all_cores(parts, |alike| {
            let wishes = Wish::all(alike);
            let claims: Vec<_> = wishes.iter().filter_map(Wish::claim).collect();
            let wishes = wishes.into_iter().map(|wish| (wish.object.key.clone(), Arc::new(wish)));
            (wishes.collect::<Vec<_>>(), claims)
        });
        let (wishes, claims): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        Self { wishes: wishes.into_iter().flatten().collect(), claims: claims.into_iter().flatten().collect() }
    }
}

impl Declared {
    /// All objects of a store.
    pub fn new(revision: u64, objects: impl IntoIterator<Item = Object>) -> Self {
        Self::of_parts(revision, [Part::read(objects)])
    }

    /// All objects of a store that were read in parts, in the order of these.
    pub fn of_parts(revision: u64, parts: impl IntoIterator<Item = Part>) -> Self {
        let (wishes, claims): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.wishes, part.claims)).unzip();
        let claims = claims.into_iter().flatten().map(|claim| (claim, ())).collect();
        Self { revision, objects: wishes.into_iter().flatten().collect(), claims, strengths: Arc::default() }
    }

    /// What another process of this server tells.
    pub fn of_export(told: ObjectsExport) -> Self {
        let object = |told: ExportedObject| {
            let (at, by) = (Timestamp::from_secs(0), Author::default());
            let (revision, generation) = (told.revision, told.generation);
            let value = told.value.to_string().into_bytes().into();
            Some(Object { key: Key::parse(&told.key).ok()?, value, revision, generation, created: at, changed: at, by })
        };
        Self::new(told.revision, told.objects.into_iter().filter_map(object))
    }

    /// What is told to another process of this server.
    pub fn export(&self) -> ObjectsExport {
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
    pub fn apply(&mut self, events: &[Event]) {
        for event in events {
            self.revision = self.revision.max(event.revision);
            match &event.object {
                _ if !is_wish(&event.key) => continue,
                object => self.put(&event.key, object.clone()),
            }
        }
    }

    /// Inserts or removes an object, for a dry run.
    pub fn suppose(&mut self, key: &Key, object: Option<Object>) {
        self.put(key, object);
    }

    /// Takes what others have at a key, or that they have nothing there.
    pub fn take_from(&mut self, others: &Self, key: &Key) {
        self.put_wish(key, others.objects.get(key).cloned());
    }

    /// True if the object at a key, if any, affects only what its key tells, or is an intent.
    pub fn is_local_at(&self, key: &Key) -> bool {
        self.objects.get(key).is_none_or(|wish| wish.is_local())
    }

    fn put(&mut self, key: &Key, object: Option<Object>) {
        self.put_wish(key, object.map(|object| Arc::new(Wish::new(object))));
    }

    fn put_wish(&mut self, key: &Key, wish: Option<Arc<Wish>>) {
        let claim = wish.as_ref().and_then(|wish| wish.claim());
        let before = match wish {
            Some(wish) => self.objects.insert(key.clone(), wish),
            None => self.objects.remove(key),
        };
        let claimed = before.and_then(|wish| wish.claim());
        if claimed != claim {
            claimed.into_iter().for_each(|claim| _ = self.claims.remove(&claim));
            claim.into_iter().for_each(|claim| _ = self.claims.insert(claim, ()));
        }
    }

    /// Returns the keys whose objects differ from an earlier state. Returns `None` if the weights of webhook leases changed,
    /// which affects all contributions.
    pub fn changed_since(&self, before: &Self) -> Option<Vec<Key>> {
        let changed = self.objects.differences(&before.objects, Arc::ptr_eq).into_iter();
        (self.strengths == before.strengths).then(|| changed.map(|(key, ..)| key.clone()).collect())
    }

    /// Returns both versions of the cluster at a key if they differ in their services alone, which only intents depend on.
    pub fn other_services<'a>(&'a self, before: &'a Self, key: &Key) -> Option<(&'a Cluster, &'a Cluster)> {
        let (then, now) = (before.objects.get(key)?, self.objects.get(key)?);
        let cluster = |wish: &'a Wish| wish.element()?.clusters.values().next();
        now.differs_in_services_alone(then).then(|| cluster(then).zip(cluster(now)))?
    }

    /// Whether others are there at the same keys and with the same values, and intents of the same age, whatever their revisions are.
    pub fn says_the_same(&self, others: &Self) -> bool {
        let is_same = |ours: &Arc<Wish>, theirs: &Arc<Wish>| {
            let is_as_old = || ours.stored().is_none() || ours.object.created == theirs.object.created;
            Arc::ptr_eq(ours, theirs) || (ours.object.value == theirs.object.value && is_as_old())
        };
        self.objects.differences(&others.objects, is_same).is_empty()
    }

    /// The steered name, as it is declared.
    pub fn name(&self, name: &Name) -> Option<&SteeredName> {
        self.element(&key_of(&Subject::Name(name.clone()))?)?.names.get(name)
    }

    /// What the object at a key wishes for, where it is an element of a configuration.
    pub fn element(&self, key: &Key) -> Option<&DesiredState> {
        self.objects.get(key)?.element()
    }

    /// What the clients of the webhook contribute, each by itself.
    pub fn contributed_rows(&self) -> Vec<Rows<'_>> {
        let mut clients: Vec<Rows<'_>> = Vec::new();
        for (key, wish) in self.parts_from("!") {
            let (Ok(Says::Rows(rows)), Some(scope)) = (&wish.says, scope_of(key)) else { continue };
            match clients.last_mut() {
                Some((last, all)) if *last == scope => all.extend(rows),
                _ => clients.push((scope, rows.iter().collect())),
            }
        }
        clients
    }

    /// What one client of the webhook contributes.
    pub fn rows_of(&self, scope: &Scope) -> impl Iterator<Item = &ReadRow> {
        self.parts_of(scope).flat_map(|wish| match &wish.says {
            Ok(Says::Rows(rows)) => &rows[..],
            _ => &[],
        })
    }

    /// The rows of one part.
    pub fn rows_at(&self, key: &Key) -> &[ReadRow] {
        match self.objects.get(key).map(|wish| &wish.says) {
            Some(Ok(Says::Rows(rows))) => rows,
            _ => &[],
        }
    }

    /// How many octets one client's rows have as they are kept.
    pub fn octets_of(&self, scope: &Scope) -> usize {
        self.parts_of(scope).map(|wish| wish.object.value.len()).sum()
    }

    fn parts_of(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Wish>> {
        let own = self.parts_from(scope_word(scope));
        own.take_while(|(key, _)| key.names().next() == Some(scope_word(scope))).map(|(_, wish)| wish)
    }

    /// The parts of what is contributed, from a client on.
    fn parts_from<'a>(&'a self, word: &str) -> impl Iterator<Item = (&'a Key, &'a Arc<Wish>)> + use<'a> {
        let first = Key::new(Kind::Contribution, &[word, "!"]).expect("a client's word is a name");
        self.objects.after(&first).take_while(|(key, _)| key.kind() == Kind::Contribution)
    }

    /// The clients of the webhook that contribute anything, in the order of their keys.
    pub fn scopes(&self) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = Vec::new();
        let mut next = self.parts_from("!").next();
        while let Some(scope) = next.and_then(|(key, _)| scope_of(key)) {
            // No part comes behind this.
            let last = Key::new(Kind::Contribution, &[scope_word(&scope), "~"]).expect("a client's word is a name");
            next = self.objects.after(&last).next().filter(|(key, _)| key.kind() == Kind::Contribution);
            scopes.push(scope);
        }
        scopes
    }

    /// When a client was last heard of, as far as it is kept; in seconds since 1970.
    pub fn seen(&self, scope: &Scope) -> Option<u64> {
        match self.objects.get(&seen_key(scope))?.says {
            Ok(Says::Seen(seen)) => Some(seen),
            _ => None,
        }
    }

    /// What is left of what a client brought.
    pub fn lease_weight(&self, scope: &Scope) -> Permille {
        self.strengths.get(scope).copied().unwrap_or(Permille::WHOLE)
    }

    /// What is left of what silent clients brought.
    pub fn strengths(&self) -> &Strengths {
        &self.strengths
    }

    /// The same with other strengths.
    pub fn with_strengths(&self, strengths: Strengths) -> Self {
        Self { strengths: Arc::new(strengths), ..self.clone() }
    }

    /// The object at a key.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key).map(|wish| &wish.object)
    }

    /// The objects of a kind, in order.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|wish| &wish.object).filter(move |object| object.key.kind() == kind)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns what the affected objects declare that are not rejected, and the valid intents that are not served, with the
    /// reason. Objects that cannot be read are rejected.
    pub fn contribution(
        &self,
        affected: &Affected,
        files: &DesiredState,
        rejected: &mut LeftOut,
    ) -> (DesiredState, LeftOut) {
        let mut desired = DesiredState::default();
        match affected.part() {
            None => self.objects.iter().for_each(|(key, wish)| wish.add_to(&mut desired, key, rejected)),
            Some(part) => {
                for (key, wish) in part.object_keys().iter().filter_map(|key| self.objects.get_key_value(key)) {
                    wish.add_to(&mut desired, key, rejected);
                }
            }
        }
        let intents: Vec<&StoredIntent> = match affected.part() {
            None => self.all_intents().collect(),
            Some(part) => self.with_children(&part.intents),
        };
        let unanswered = self.add_intents(&intents, files, &mut desired, rejected);
        (desired, unanswered)
    }

    /// Leaves out every object that is not yet: what errors are about is found again without them, or is their fault together. False if
    /// none was left to be left out.
    pub fn leave_all(&self, faults: &[Diagnostic], left_out: &mut LeftOut) -> bool {
        let errors = faults.iter().filter(|fault| fault.is_error()).take(FAULTS_TOLD);
        let why: Vec<ObjectError> = errors.map(|fault| told(fault, String::new())).collect();
        let is_own = |key: &&Key| !left_out.contains_key(*key) && key.kind() != Kind::Contribution;
        let rest: Vec<Key> = self.objects.keys().filter(is_own).cloned().collect();
        let any = !rest.is_empty();
        left_out.extend(rest.into_iter().map(|key| (key, why.clone())));
        any
    }

    /// Leaves out the objects that errors are about; false if they are about none that was not.
    pub fn leave_out(&self, faults: &[Diagnostic], files: &DesiredState, left_out: &mut LeftOut) -> bool {
        let subjects = faults.iter().filter(|fault| fault.is_error()).filter_map(|fault| fault.about.as_ref());
        let owners = self.owners(subjects, files, left_out);
        let mut blamed = BTreeMap::<Key, Vec<ObjectError>>::new();
        for fault in faults.iter().filter(|fault| fault.is_error()) {
            let owner = |subject: &Subject| match subject {
                Subject::Member(pool, _) => owners.get(&Subject::Pool(pool.clone())).cloned(),
                subject => owners.get(subject).cloned(),
            };
            let key = fault.about.as_ref().and_then(|subject| owner(subject).or_else(|| key_of(subject)));
            let key = key.filter(|key| self.objects.contains_key(key) && !left_out.contains_key(key));
            let pointer = match &fault.about {
                // Members of a pool that files declare too stand behind those of the files.
                Some(Subject::Member(pool, place)) if !files.pools.contains_key(pool) => format!("/members/{place}"),
                _ => String::new(),
            };
            key.into_iter().for_each(|key| blamed.entry(key).or_default().push(told(fault, pointer.clone())));
        }
        let any = !blamed.is_empty();
        left_out.extend(blamed);
        any
    }
}

/// Whether what is at a key wishes for anything; what was done for requests does not.
fn is_wish(key: &Key) -> bool {
    key.kind() != Kind::IdempotencyRecord
}

/// A fault as it is told of an object.
fn told(fault: &Diagnostic, pointer: String) -> ObjectError {
    let hint = if fault.hint.is_empty() { String::new() } else { format!("; {}", fault.hint) };
    ObjectError { pointer, what: format!("{}{hint}", fault.fact) }
}

/// Whether nothing is wished for but pools, names and records.
fn has_only_many(wish: &DesiredState) -> bool {
    let DesiredState {
        zones,
        clusters,
        monitors,
        maps,
        latencies,
        pools: _,
        names: _,
        records: _,
        load_sources,
        cluster_load_sources,
        load_bounds,
    } = wish;

    let of_places = maps.is_empty() && latencies.is_empty();
    let of_load = load_sources.is_empty() && cluster_load_sources.is_empty() && load_bounds.is_empty();
    zones.is_empty() && of_places && of_load && clusters.is_empty() && monitors.is_empty()
}

/// Most objects that are read together: their text is some hundred KiB.
const TOGETHER: usize = 1_000;

/// What is wrong with an object as a whole.
fn whole(what: String) -> Vec<ObjectError> {
    vec![ObjectError { pointer: String::new(), what }]
}

/// Faults that are told of each object where it is not known which of them is at fault.
const FAULTS_TOLD: usize = 3;

/// Objects whose word does not hold beside that of files, and what does.
pub fn overruled(conflicts: &[Conflict], files: &str) -> BTreeMap<Key, String> {
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

/// The key of the object that a fault is about; none for kinds that the API has not.
pub fn key_of(subject: &Subject) -> Option<Key> {
    let (kind, name) = match subject {
        Subject::Cluster(name) => (Kind::Cluster, name.to_string()),
        Subject::Monitor(name) => (Kind::Monitor, name.to_string()),
        Subject::Name(name) => (Kind::Name, key_name(name)),
        Subject::Pool(name) | Subject::Member(name, _) => (Kind::Pool, name.to_string()),
        Subject::Records(name, _) => (Kind::Records, key_name(name)),
        Subject::Latencies(_) | Subject::LoadSource(_) | Subject::Map(_) | Subject::Zone(_) => return None,
    };
    Key::new(kind, &[&name]).ok()
}

/// A domain name as it stands in keys: in lower case, without its final dot.
pub fn key_name(name: &Name) -> String {
    let text = name.to_string().to_ascii_lowercase();
    text.strip_suffix('.').filter(|short| !short.is_empty()).map_or_else(|| text.clone(), str::to_owned)
}
