//! Changes at a DNS provider: record sets as the provider holds them, and what to create, update and delete.

use std::collections::BTreeMap;

use crate::{Name, RecordSet, Rtype};

/// A record set as a DNS provider holds it. A provider with weights holds several sets of one name and type, which differ
/// in their set identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRecordSet {
    /// The records. Empty if the set has a type that the provider's reader cannot convert: only its existence is known.
    pub set: RecordSet,
    /// Empty for the only set of its name and type.
    pub set_identifier: String,
    /// Further fields as ExternalDNS carries them (`providerSpecific`), such as a weight.
    pub properties: BTreeMap<String, String>,
}

impl ProviderRecordSet {
    /// Returns the only set of its name and type, without further fields.
    pub fn plain(set: RecordSet) -> Self {
        Self { set, set_identifier: String::new(), properties: BTreeMap::new() }
    }

    /// Returns the key, which is unique among the sets of a provider.
    pub fn key(&self) -> RecordSetKey {
        RecordSetKey { name: self.set.name.clone(), rtype: self.set.rtype, set_identifier: self.set_identifier.clone() }
    }
}

/// The key of a record set at a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordSetKey {
    /// The owner name.
    pub name: Name,
    /// The type.
    pub rtype: Rtype,
    /// Empty for the only set of its name and type.
    pub set_identifier: String,
}

impl std::fmt::Display for RecordSetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)?;
        if self.set_identifier.is_empty() { Ok(()) } else { write!(f, " ({})", self.set_identifier) }
    }
}

/// One record set before and after a change; both have the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The set as the provider holds it.
    pub from: ProviderRecordSet,
    /// The desired set.
    pub to: ProviderRecordSet,
}

/// The changes to make at a provider. Each key occurs at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sets that the provider lacks.
    pub create: Vec<ProviderRecordSet>,
    /// Sets that the provider holds differently.
    pub update: Vec<Update>,
    /// Sets that are no longer desired.
    pub delete: Vec<ProviderRecordSet>,
}

impl Changes {
    /// Returns the number of sets that change.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the created and changed sets as they become.
    pub fn puts(&self) -> impl Iterator<Item = &ProviderRecordSet> + Clone {
        self.create.iter().chain(self.update.iter().map(|update| &update.to))
    }

    /// Makes the changes to sets by their keys.
    pub fn apply_to(&self, sets: &mut BTreeMap<RecordSetKey, ProviderRecordSet>) {
        for set in &self.delete {
            sets.remove(&set.key());
        }
        sets.extend(self.puts().map(|set| (set.key(), set.clone())));
    }

    /// Adds the changes of another value.
    pub fn extend(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
    }
}
