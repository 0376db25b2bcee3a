//! What is to change at a DNS provider: record sets as it holds them, and the difference of two states of it.

use std::collections::BTreeMap;

use crate::{Name, RecordSet, Rtype};

/// A record set as a DNS provider holds it. Providers that weight hold several of one name and type, which their set
/// identifiers tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRecordSet {
    /// Its records. One of a type that the provider's reader cannot put into wire form has none: it is there, and that is known of it.
    pub set: RecordSet,
    /// Empty for the only set of its name and type.
    pub set_identifier: String,
    /// Further fields as ExternalDNS carries them (`providerSpecific`), such as a weight.
    pub properties: BTreeMap<String, String>,
}

impl ProviderRecordSet {
    /// The only set of its name and type, without further fields.
    pub fn plain(set: RecordSet) -> Self {
        Self { set, set_identifier: String::new(), properties: BTreeMap::new() }
    }

    /// By what it is told from others.
    pub fn key(&self) -> RecordSetKey {
        RecordSetKey { name: self.set.name.clone(), rtype: self.set.rtype, set_identifier: self.set_identifier.clone() }
    }
}

/// What tells sets at a provider apart.
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

/// One set, before and after; both have one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// As it was read.
    pub from: ProviderRecordSet,
    /// As it is wanted.
    pub to: ProviderRecordSet,
}

/// What is to be done at a provider. Each key stands in it once at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sets that are not there.
    pub create: Vec<ProviderRecordSet>,
    /// Sets that are there and differ.
    pub update: Vec<Update>,
    /// Sets that are there and wanted no more.
    pub delete: Vec<ProviderRecordSet>,
}

impl Changes {
    /// How many sets change.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in what another one says.
    pub fn extend(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
    }
}
