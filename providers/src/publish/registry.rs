//! Whose a record set is: the TXT registry of ExternalDNS, Fairway's own notes, or nobody's knowledge.
//!
//! Beside each set that is ours stands a TXT record with our owner id (`registry/txt`, `endpoint/labels.go` of ExternalDNS), which every
//! ExternalDNS heeds, and we heed theirs. A set under a record that is sealed with another key is nobody's, and left alone.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Ttl, Update};

use super::{
    affix::Affix,
    mark::{Mark, SealKey},
};

/// How it is known whose a set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// By TXT records at the provider.
    Txt {
        /// How they are named.
        affix: Affix,
        /// Our id in them.
        owner: String,
        /// What they are sealed with; none: they are plain. Plain ones are read all the same.
        key: Option<SealKey>,
    },
    /// By what this server noted that it wrote.
    Store,
    /// All that is read there is ours: the provider shows nothing else.
    Whole,
    /// It is not known: what is wanted is taken for ours, and nothing is deleted.
    Unknown,
}

/// Whose a set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Ours.
    Us,
    /// Of whoever goes by this id.
    Other(String),
    /// On its way from this owner to us: neither touches it until that is finished.
    Coming(String),
    /// Of nobody that says so: of a person, or of another program.
    Nobody,
}

/// A set at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As it was read.
    pub set: ProviderRecordSet,
    /// Whose it is.
    pub owner: Owner,
}

/// What this server wrote, or was about to: noted before each change, so that a change that broke off is known for what it is.
///
/// With TXT records, a note counts only for a set that has none and is exactly what was to be written: whoever put another one there
/// meanwhile keeps it.
pub type Claims = BTreeMap<RecordSetKey, Vec<Box<[u8]>>>;

/// What was read, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// All sets but the registry's.
    pub sets: BTreeMap<RecordSetKey, Standing>,
    /// All TXT sets, the registry's among them.
    pub(super) texts: BTreeMap<RecordSetKey, ProviderRecordSet>,
    /// Registry records of ours that speak of no set: the rest of a change that broke off.
    orphans: Vec<RecordSetKey>,
}

impl Current {
    /// Whether a registry record stands at this key.
    pub(super) fn is_registry(&self, key: &RecordSetKey) -> bool {
        self.texts.contains_key(key) && !self.sets.contains_key(key)
    }

    /// How many sets are ours.
    pub fn owned(&self) -> usize {
        self.sets.values().filter(|standing| standing.owner == Owner::Us).count()
    }

    /// Leaves registry records that speak of nothing where they are, for a policy that deletes nothing.
    pub fn keep_orphans(&mut self) {
        self.orphans.clear();
    }
}

/// What must be carried out together: a name's sets with the registry records that speak of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The name.
    pub name: Name,
    /// What is to be done.
    pub changes: Changes,
}

impl Ownership {
    /// Sorts what was read. `wanted` matters only where it is not known whose a set is.
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
                Self::Store if claims.contains_key(&key) => Owner::Us,
                Self::Unknown if wanted.contains(&key) => Owner::Us,
                Self::Whole => Owner::Us,
                Self::Store | Self::Unknown => Owner::Nobody,
            };
            current.sets.insert(key, Standing { set, owner });
        }
        if let Self::Txt { affix, .. } = self {
            current.orphans = self.orphans(&current, affix);
        }
        current
    }

    /// What a TXT record says as one of the registry; none where it is no such record, or there is no registry.
    pub(super) fn mark(&self, rdata: &[u8]) -> Option<Mark> {
        let Self::Txt { key, .. } = self else { return None };
        Mark::read(rdata, key.as_ref())
    }

    /// The key of the registry record of a set; none where there is no registry, or no name for it.
    pub(super) fn companion_key(&self, key: &RecordSetKey) -> Option<RecordSetKey> {
        let Self::Txt { affix, .. } = self else { return None };
        let name = affix.companion(&key.name, key.rtype).ok()?;
        Some(RecordSetKey { name, rtype: Rtype::TXT, set_identifier: key.set_identifier.clone() })
    }

    /// What stands where the registry record of `key` would have to, if that keeps us from writing it.
    pub(super) fn companion_taken(&self, key: &RecordSetKey, current: &Current) -> Option<Owner> {
        let Self::Txt { owner, .. } = self else { return None };
        let text = current.texts.get(&self.companion_key(key)?)?;
        let mut marks = text.set.rdatas.iter().filter_map(|rdata| self.mark(rdata)).peekable();
        if marks.peek().is_none() {
            return Some(Owner::Nobody);
        }
        marks.find(|mark| mark.owner != *owner).map(|mark| Owner::Other(mark.owner))
    }

    /// Adds to changes what the registry needs, and orders them by name. `kept` are sets of ours that stay: where their registry
    /// record is missing, it is written.
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
        units.into_iter().map(|(name, changes)| Unit { name, changes }).filter(|u| !u.changes.is_empty()).collect()
    }

    /// Writes our owner id beside a set, where it is not there.
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

    /// Takes our owner id away.
    fn release(&self, key: &RecordSetKey, current: &Current, units: &mut BTreeMap<Name, Changes>) {
        let Some(place) = self.companion_key(key) else { return };
        let Some(there) = current.texts.get(&place) else { return };
        let rest: Vec<_> = there.set.rdatas.iter().filter(|rdata| !self.is_ours(rdata)).cloned().collect();
        let changes = units.entry(key.name.clone()).or_default();
        if rest.is_empty() {
            changes.delete.push(there.clone());
        } else if rest.len() < there.set.rdatas.len() {
            let set = RecordSet { rdatas: rest, ..there.set.clone() };
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
        let said = |name: Name| {
            let key = RecordSetKey { name, rtype: Rtype::TXT, set_identifier: set.set_identifier.clone() };
            let text = texts.get(&key)?;
            let marks: Vec<_> = text.set.rdatas.iter().filter_map(|rdata| self.mark(rdata)).collect();
            // Where two claim it, it is the other's: nothing of his is touched.
            marks.iter().find(|mark| mark.owner != *us).or_else(|| marks.first()).cloned()
        };
        let typed = affix.companion(&set.set.name, set.set.rtype).ok().and_then(said);
        // The name without a type may also be a typed one of another name: it protects what others have, and makes nothing ours.
        // ExternalDNS never wrote it for AAAA.
        let untyped = || {
            let name = affix.companion_without_type(&set.set.name).ok().filter(|_| set.set.rtype != Rtype::AAAA)?;
            said(name).filter(|mark| mark.owner != *us)
        };
        match typed.or_else(untyped) {
            Some(Mark { owner, from: Some((from, _)), .. }) if owner == *us => Owner::Coming(from),
            Some(Mark { owner, .. }) if owner == *us => Owner::Us,
            Some(Mark { owner, .. }) => Owner::Other(owner),
            None if claims.get(&set.key()).is_some_and(|meant| *meant == set.set.rdatas) => Owner::Us,
            None => Owner::Nobody,
        }
    }

    /// The sets that our registry records speak of and that are not there.
    fn orphans(&self, current: &Current, affix: &Affix) -> Vec<RecordSetKey> {
        let ours = current.texts.values().filter(|text| text.set.rdatas.iter().any(|rdata| self.is_ours(rdata)));
        let mut orphans = Vec::new();
        for text in ours {
            let keys = affix.spoken_of(&text.set.name).into_iter();
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

/// TTL of the registry's records: nobody but publishers reads them.
pub(super) fn text_ttl() -> Ttl {
    Ttl::from_secs(300).unwrap_or(Ttl::STEERED)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
