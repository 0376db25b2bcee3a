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
        let text = Text::of(value);
        let content = text.bytes * BYTE + text.keys * KEY;
        match key.kind() {
            // The former are read from the disk when they are needed; the latter are few and must not be refused.
            Kind::IdempotencyRecord | Kind::Overrides => Self::default(),
            Kind::Contributor => Self { memory: OBJECT, ..Self::default() },
            Kind::RemovedNames => Self { memory: OBJECT + content, ..Self::default() },
            Kind::Contribution => {
                let memory = OBJECT + text.rows * ROW + text.steered * STEERED + content;
                Self { memory, objects: text.rows, owners: 0 }
            }
            _ => Self { memory: OBJECT + STEERED + content, objects: 1, owners: 0 },
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

/// Measures of the JSON text of a value.
#[derive(Default)]
struct Text {
    bytes: u64,
    /// Keys of objects, and texts in lists but the first: each becomes a value of its own in memory.
    keys: u64,
    /// Endpoints.
    rows: u64,
    /// Endpoints that are addresses of a steered name.
    steered: u64,
}

impl Text {
    fn of(value: &[u8]) -> Self {
        let (mut text, mut held) = (Self { bytes: value.len() as u64, ..Self::default() }, 0);
        // A key follows a comma or a bracket. Within a text, quotation marks are escaped.
        for at in (1..value.len()).filter(|at| value[*at] == b'"' && matches!(value[*at - 1], b',' | b'{')) {
            let begins = |part: &str| u64::from(value[at..].starts_with(part.as_bytes()));
            text.keys += 1;
            text.rows += begins("\"endpoint\":{");
            text.steered += begins("\"recordType\":\"A");
            held += begins("\"held\":{");
        }
        // A withdrawal that is held marks endpoints, and must not count as growth.
        text.bytes = text.bytes.saturating_sub(held * HELD_BYTES);
        text.keys = text.keys.saturating_sub(held * HELD_KEYS);
        text
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
            // One for each owner, which is counted, and a limited number of removed names. Calls and removals must not be refused.
            if !declares(&change.key) || matches!(change.key.kind(), Kind::Contributor | Kind::RemovedNames) {
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

// Chosen from the resident memory of a release build; docs/operations/limits.md has the measurements.

/// Bytes of memory of an object, besides its content.
const OBJECT: u64 = 1_000;
/// Bytes of memory of an endpoint, besides its content.
const ROW: u64 = 2_000;
/// Bytes of memory of a steered name with its pool, its target and its compiled answers.
const STEERED: u64 = 4_000;
/// Bytes of memory for each key or text of a list.
const KEY: u64 = 200;
/// Bytes of memory for each byte of a stored value.
const BYTE: u64 = 3;
/// Bytes and keys that mark an endpoint as held: `,"held":{"at":1764169028,"rule":"lastHealthyMember"}`.
const HELD_BYTES: u64 = 56;
const HELD_KEYS: u64 = 3;
