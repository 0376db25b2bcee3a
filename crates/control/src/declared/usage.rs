//! Use of the limits by declared objects: their number, their owners, and an estimate of the memory that they take.

use std::{
    collections::BTreeSet,
    ops::{AddAssign, SubAssign},
    sync::Arc,
};

use fairway_model::SharedMap;
use fairway_store::objects::{Batch, Key, Kind};

use super::{
    Declared,
    object::{DeclaredObject, declares},
};

/// Use of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Estimated bytes of resident memory: of the object, of what it means, and of the answers that are compiled from it.
    pub memory: u64,
    /// Objects, and endpoints of the webhook.
    pub objects: u64,
    /// Webhook owners that contribute.
    pub owners: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.memory += other.memory;
        self.objects += other.objects;
        self.owners += other.owners;
    }
}

impl SubAssign for Usage {
    fn sub_assign(&mut self, other: Self) {
        self.memory = self.memory.saturating_sub(other.memory);
        self.objects = self.objects.saturating_sub(other.objects);
        self.owners = self.owners.saturating_sub(other.owners);
    }
}

impl Usage {
    /// Returns the use by the object with a value at a key. Its owner is not counted.
    pub(super) fn of(key: &Key, value: &[u8]) -> Self {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let bytes = text.len() as u64;
        match key.kind() {
            // Read from the disk when it is needed.
            Kind::IdempotencyRecord => Self::default(),
            Kind::Contributor => Self { memory: OBJECT, ..Self::default() },
            Kind::Contribution => {
                // Strings cannot contain these texts: their quotation marks are escaped.
                let count = |text: &str, part: &str| text.matches(part).count() as u64;
                let (rows, steered) = (count(text, "\"endpoint\":{"), count(text, "\"recordType\":\"A"));
                // A withdrawal that is held marks rows, and must not count as growth.
                let bytes = bytes.saturating_sub(count(text, "\"held\":{") * HELD);
                Self { memory: OBJECT + rows * ROW + steered * STEERED + bytes * BYTE, objects: rows, owners: 0 }
            }
            _ => Self { memory: OBJECT + STEERED + bytes * BYTE, objects: 1, owners: 0 },
        }
    }

    /// Returns the use by all objects.
    pub(super) fn of_all(objects: &SharedMap<Key, Arc<DeclaredObject>>) -> Self {
        let (mut sum, mut last) = (Self::default(), None);
        for (key, object) in objects.iter() {
            sum += object.usage;
            let owner = key.names().next().filter(|_| key.kind() == Kind::Contribution);
            // The parts of an owner are next to each other.
            if owner.is_some() && owner != last {
                sum.owners += 1;
            }
            last = owner;
        }
        sum
    }
}

/// Changes of the use by a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Use by new values.
    added: Usage,
    /// Use by the values that they replace or delete.
    removed: Usage,
}

impl Growth {
    /// Returns what a batch adds to the objects, and what it removes.
    pub(crate) fn of(batch: &Batch, declared: &Declared) -> Self {
        let mut growth = Self::default();
        let mut owners = BTreeSet::new();
        for change in &batch.changes {
            // One for each owner, which is counted. The time of a call must not be refused.
            if !declares(&change.key) || change.key.kind() == Kind::Contributor {
                continue;
            }
            if let Some(before) = declared.objects.get(&change.key) {
                growth.removed += before.usage;
            }
            if let Some(value) = &change.value {
                growth.added += Usage::of(&change.key, value);
                let owner = change.key.names().next().filter(|_| change.key.kind() == Kind::Contribution);
                owners.extend(owner.filter(|_| !declared.has_owner_of(&change.key)));
            }
        }
        growth.added.owners = owners.len() as u64;
        growth
    }

    /// Returns what it adds after all; zero of what it reduces.
    pub(crate) fn net(self) -> Usage {
        let mut net = self.added;
        net -= self.removed;
        net
    }
}

/// Bytes of memory of an object, besides its content.
const OBJECT: u64 = 1_000;
/// Bytes of memory of an endpoint, besides its text.
const ROW: u64 = 1_500;
/// Bytes of memory of a steered name with its pool, its target and its compiled answers.
const STEERED: u64 = 4_000;
/// Bytes of memory for each byte of a stored value.
const BYTE: u64 = 5;
/// Bytes of the text that marks an endpoint as held.
const HELD: u64 = 56;
