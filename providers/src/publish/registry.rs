//! Owners of record sets: the TXT registry of ExternalDNS, Fairway's own notes, or none.
//!
//! Each owned set has a registry TXT record with our owner id (`registry/txt`, `endpoint/labels.go` of ExternalDNS). Every ExternalDNS
//! honours it, as Fairway honours theirs. A set whose registry record is encrypted with another key counts as unowned and is never changed.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Ttl, Update};

use super::{
    affix::Affix,
    mark::{Mark, SealKey},
};

/// The registry of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// TXT records at the provider.
    Txt {
        /// Their names.
        affix: Affix,
        /// Our owner id.
        owner: String,
        /// Key for encryption; `None` for plain text. Plain records are read in both cases.
        key: Option<SealKey>,
    },
    /// Notes of this server about the sets that it wrote.
    Store,
    /// The provider shows only owned sets.
    Whole,
    /// No registry: wanted sets count as owned, and nothing is deleted.
    Unknown,
}

/// Owner of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This server.
    Us,
    /// The owner with this id.
    Other(String),
    /// A handover from this owner to this server is in progress; neither changes the set until it is finished.
    Coming(String),
    /// No owner in the registry: a person or another program.
    Nobody,
}

/// A set at the provider, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentSet {
    /// The set as it was read.
    pub set: ProviderRecordSet,
    /// Its owner.
    pub owner: Owner,
}

/// Notes about the sets that this server wrote or was about to write. They are made before each change, so that an interrupted change is
/// recognised.
///
/// With a TXT registry, a note counts only for a set without a registry record whose records are exactly the noted ones. A set that another
/// client created in the meantime keeps its records. With the registry `store` the same holds until the provider has accepted the set.
pub type Claims = BTreeMap<RecordSetKey, Claim>;

/// A note about one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The records that were written, or were about to be.
    pub records: Vec<Box<[u8]>>,
    /// True if they are those of a new set that the provider has not accepted yet.
    pub is_pending: bool,
}

impl Claim {
    fn is_of(&self, set: &ProviderRecordSet) -> bool {
        self.records[..] == set.set.rdatas[..]
    }
}

/// The sets that were read, with their owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// All sets except registry records.
    pub sets: BTreeMap<RecordSetKey, CurrentSet>,
    /// All TXT sets, including registry records.
    pub(super) texts: BTreeMap<RecordSetKey, ProviderRecordSet>,
    /// Our registry records without a set: the rest of an interrupted change.
    orphans: Vec<RecordSetKey>,
}

impl Current {
    /// Returns true if the set is a registry record.
    pub(super) fn is_registry(&self, key: &RecordSetKey) -> bool {
        self.texts.contains_key(key) && !self.sets.contains_key(key)
    }

    /// Returns the number of owned sets.
    pub fn owned(&self) -> usize {
        self.sets.values().filter(|set| set.owner == Owner::Us).count()
    }

    /// Keeps registry records without a set, for a policy without deletions.
    pub fn keep_orphans(&mut self) {
        self.orphans.clear();
    }
}

/// Changes that must be applied together: the sets of a name and their registry records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The name.
    pub name: Name,
    /// The changes.
    pub changes: Changes,
}

impl Ownership {
    /// Finds the owners of the sets that were read. `wanted` is used only without a registry.
    pub fn sort(&self, read: Vec<ProviderRecordSet>, claims: &Claims, wanted: &BTreeSet<RecordSetKey>) -> Current {
        let mut current = Current::default();
        for set in read.iter().filter(|set| set.set.rtype == Rtype::TXT) {
            current.texts.insert(set.key(), set.clone());
        }
        let is_registry = |set: &ProviderRecordSet| {
            let is_txt = matches!(self, Self::Txt { .. }) && set.set.rtype == Rtype::TXT && !set.set.rdatas.is_empty();
            is_txt && set.set.rdatas.iter().all(|rdata| self.mark(rdata).is_some())
        };
        for set in read.into_iter().filter(|set| !is_registry(set)) {
            let key = set.key();
            let owner = match self {
                Self::Txt { affix, owner, .. } => self.owner_of(&set, (affix, owner), &current.texts, claims),
                Self::Store if claims.get(&key).is_some_and(|claim| !claim.is_pending || claim.is_of(&set)) => {
                    Owner::Us
                }
                Self::Unknown if wanted.contains(&key) => Owner::Us,
                Self::Whole => Owner::Us,
                Self::Store | Self::Unknown => Owner::Nobody,
            };
            current.sets.insert(key, CurrentSet { set, owner });
        }
        if let Self::Txt { affix, .. } = self {
            current.orphans = self.orphans(&current, affix);
        }
        current
    }

    /// Parses a registry record. Returns `None` if it is another TXT record, or the registry is not of type txt.
    pub(super) fn mark(&self, rdata: &[u8]) -> Option<Mark> {
        let Self::Txt { key, .. } = self else { return None };
        Mark::read(rdata, key.as_ref())
    }

    /// Returns the key of a set's registry record. Returns `None` if the registry is not of type txt, or the name would be invalid.
    pub(super) fn companion_key(&self, key: &RecordSetKey) -> Option<RecordSetKey> {
        let Self::Txt { affix, .. } = self else { return None };
        let name = affix.companion(&key.name, key.rtype).ok()?;
        Some(RecordSetKey { name, rtype: Rtype::TXT, set_identifier: key.set_identifier.clone() })
    }

    /// Returns the owner of other TXT records at the name of a set's registry record, which keep it from being written.
    pub(super) fn companion_taken(&self, key: &RecordSetKey, current: &Current) -> Option<Owner> {
        let Self::Txt { owner, .. } = self else { return None };
        let text = current.texts.get(&self.companion_key(key)?)?;
        let mut marks = text.set.rdatas.iter().filter_map(|rdata| self.mark(rdata)).peekable();
        if marks.peek().is_none() {
            return Some(Owner::Nobody);
        }
        marks.find(|mark| mark.owner != *owner).map(|mark| Owner::Other(mark.owner))
    }

    /// Adds registry records to changes, and groups them by name. Missing registry records of `kept` sets are written too.
    pub fn units(&self, changes: Changes, kept: &[RecordSetKey], current: &Current) -> Vec<Unit> {
        let mut units: BTreeMap<Name, Changes> = BTreeMap::new();
        for key in kept {
            self.claim(key, &BTreeMap::new(), current, &mut units);
        }
        for orphan in &current.orphans {
            if !changes.create.iter().any(|set| set.key() == *orphan) {
                self.release(orphan, current, &mut units);
            }
        }
        for set in changes.create {
            self.claim(&set.key(), &set.properties, current, &mut units);
            units.entry(set.set.name.clone()).or_default().create.push(set);
        }
        for update in changes.update {
            self.claim(&update.to.key(), &update.to.properties, current, &mut units);
            units.entry(update.to.set.name.clone()).or_default().update.push(update);
        }
        for set in changes.delete {
            self.release(&set.key(), current, &mut units);
            units.entry(set.set.name.clone()).or_default().delete.push(set);
        }
        for key in kept {
            if let (Some(changes), Some(current)) = (units.get_mut(&key.name), current.sets.get(key)) {
                bind_deletions(changes, &current.set);
            }
        }
        units.into_iter().map(|(name, changes)| Unit { name, changes }).filter(|u| !u.changes.is_empty()).collect()
    }

    /// Adds the registry record with our owner id for a set that lacks it.
    fn claim(
        &self,
        key: &RecordSetKey,
        properties: &BTreeMap<String, String>,
        current: &Current,
        units: &mut BTreeMap<Name, Changes>,
    ) {
        let (Self::Txt { owner, key: seal, .. }, Some(place)) = (self, self.companion_key(key)) else { return };
        let text = || Mark::of(owner).rdata(seal.as_ref(), &place.name);
        let is_said = |rdata: &[u8]| self.mark(rdata).is_some_and(|mark| mark.owner == *owner && mark.from.is_none());
        let changes = units.entry(key.name.clone()).or_default();
        match current.texts.get(&place) {
            None => {
                let set = RecordSet::new(place.name.clone(), Rtype::TXT, text_ttl(), [text()]);
                let properties = properties.clone();
                changes.create.push(ProviderRecordSet { set, set_identifier: place.set_identifier, properties });
            }
            Some(there) if there.set.rdatas.iter().any(|rdata| is_said(rdata)) => {}
            Some(there) => {
                let others = there.set.rdatas.iter().filter(|rdata| !self.is_ours(rdata)).cloned();
                let set = RecordSet::new(place.name.clone(), Rtype::TXT, there.set.ttl, others.chain([text()]));
                changes.update.push(Update { from: there.clone(), to: ProviderRecordSet { set, ..there.clone() } });
            }
        }
    }

    /// Removes our owner id from a registry record.
    fn release(&self, key: &RecordSetKey, current: &Current, units: &mut BTreeMap<Name, Changes>) {
        let Some(place) = self.companion_key(key) else { return };
        let Some(there) = current.texts.get(&place) else { return };
        let rest: Vec<_> = there.set.rdatas.iter().filter(|rdata| !self.is_ours(rdata)).cloned().collect();
        let changes = units.entry(key.name.clone()).or_default();
        if rest.is_empty() {
            changes.delete.push(there.clone());
        } else if rest.len() < there.set.rdatas.len() {
            let set = RecordSet { rdatas: rest.into(), ..there.set.clone() };
            changes.update.push(Update { from: there.clone(), to: ProviderRecordSet { set, ..there.clone() } });
        }
    }

    fn is_ours(&self, rdata: &[u8]) -> bool {
        let Self::Txt { owner, .. } = self else { return false };
        self.mark(rdata).is_some_and(|mark| mark.owner == *owner)
    }

    fn owner_of(
        &self,
        set: &ProviderRecordSet,
        (affix, us): (&Affix, &String),
        texts: &BTreeMap<RecordSetKey, ProviderRecordSet>,
        claims: &Claims,
    ) -> Owner {
        let mark_at = |name: Name| {
            let key = RecordSetKey { name, rtype: Rtype::TXT, set_identifier: set.set_identifier.clone() };
            let text = texts.get(&key)?;
            let marks: Vec<_> = text.set.rdatas.iter().filter_map(|rdata| self.mark(rdata)).collect();
            // If two owners claim a set, the other one has it: its records must not change.
            marks.iter().find(|mark| mark.owner != *us).or_else(|| marks.first()).cloned()
        };
        let typed = affix.companion(&set.set.name, set.set.rtype).ok().and_then(mark_at);
        // A name without a type may also be a typed name for another set. It protects sets of others, and never makes a set ours.
        // ExternalDNS never wrote it for AAAA.
        let untyped = || {
            let name = affix.companion_without_type(&set.set.name).ok().filter(|_| set.set.rtype != Rtype::AAAA)?;
            mark_at(name).filter(|mark| mark.owner != *us)
        };
        match typed.or_else(untyped) {
            Some(Mark { owner, from: Some((from, _)), .. }) if owner == *us => Owner::Coming(from),
            Some(Mark { owner, .. }) if owner == *us => Owner::Us,
            Some(Mark { owner, .. }) => Owner::Other(owner),
            None if claims.get(&set.key()).is_some_and(|claim| claim.is_of(set)) => Owner::Us,
            None => Owner::Nobody,
        }
    }

    /// Returns the sets of our registry records that do not exist.
    fn orphans(&self, current: &Current, affix: &Affix) -> Vec<RecordSetKey> {
        let ours = current.texts.values().filter(|text| text.set.rdatas.iter().any(|rdata| self.is_ours(rdata)));
        let mut orphans = Vec::new();
        for text in ours {
            let keys = affix.sets_of(&text.set.name).into_iter();
            let keys =
                keys.map(|(name, rtype)| RecordSetKey { name, rtype, set_identifier: text.set_identifier.clone() });
            let keys: Vec<_> = keys.collect();
            if !keys.iter().any(|key| current.sets.contains_key(key)) {
                orphans.extend(keys.into_iter().next());
            }
        }
        orphans
    }
}

/// Makes the deletions at a name depend on a set that stays there, by an update that changes nothing. Otherwise two servers that each delete
/// the set which the other one keeps leave the name without records.
fn bind_deletions(changes: &mut Changes, kept: &ProviderRecordSet) {
    let is_at_name = |set: &ProviderRecordSet| set.set.name == kept.set.name;
    let is_replaced = changes.puts().any(is_at_name);
    if changes.delete.iter().any(is_at_name) && !is_replaced {
        changes.update.push(Update { from: kept.clone(), to: kept.clone() });
    }
}

/// Returns the TTL of registry records, which only publishers read.
pub(super) fn text_ttl() -> Ttl {
    Ttl::from_secs(300).unwrap_or(Ttl::STEERED)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
