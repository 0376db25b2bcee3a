//! Collects the names that exist, with empty non-terminals (RFC 4592 section 2.2.2).

use fairway_model::Name;

use crate::{
    entries::Node,
    table::Table,
    wire::{NameKey, ancestors},
};

/// Names under construction. Apart from apexes, a parent has a smaller number than its children.
pub(super) struct Names<'a> {
    pub(super) key: NameKey,
    pub(super) table: Table,
    pub(super) drafts: Vec<Draft<'a>>,
    pub(super) labels_max: usize,
    /// Parent of the last added name, since most names follow siblings.
    last_parent: u32,
}

/// A node under construction.
pub(super) struct Draft<'a> {
    /// Name in wire form, case as written.
    pub(super) name: &'a [u8],
    pub(super) hash: u64,
    /// Number of the parent, or [`Names::NONE`] for an apex.
    parent: u32,
    /// Number of the child `*` plus one, or 0.
    wildcard: u32,
    /// Number of the topmost delegation or DNAME above this name plus one, or 0.
    occluder: u32,
    pub(super) zone: u16,
    /// Flags for [`Node::is`].
    pub(super) flags: u8,
}

impl Draft<'_> {
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number of the topmost delegation or DNAME above this name.
    pub(super) fn occluder(&self) -> Option<u32> {
        self.occluder.checked_sub(1)
    }

    /// Returns the value for [`Node::wildcard`] or [`Node::occluder`].
    pub(super) fn link(&self) -> Option<u32> {
        if self.is(Node::OPEN) { self.wildcard.checked_sub(1) } else { self.occluder() }
    }
}

impl<'a> Names<'a> {
    pub(super) const NONE: u32 = u32::MAX;
    /// Number of names that are loaded together.
    pub(super) const TOGETHER: usize = 16;

    pub(super) fn with_room(key: NameKey, count: usize) -> Self {
        Self {
            key,
            table: Table::with_room(count),
            drafts: Vec::with_capacity(count),
            labels_max: 0,
            last_parent: Self::NONE,
        }
    }

    /// Returns the number of a name.
    pub(super) fn find(&self, name: &Name) -> Option<u32> {
        self.find_hashed(name.as_wire(), self.key.hash(name.as_wire()))
    }

    /// Returns the number of a name in wire form, by its hash. Length octets are at most 63, so case folding leaves them alone.
    pub(super) fn find_hashed(&self, wanted: &[u8], hash: u64) -> Option<u32> {
        self.table.find(hash, |number| self.drafts[number as usize].name.eq_ignore_ascii_case(wanted))
    }

    /// Loads the slots of names, so that their cache misses overlap.
    pub(super) fn fetch<'n>(&self, names: impl Iterator<Item = &'n Name>) {
        let mut hashes = [0; Self::TOGETHER];
        // Hashes first, so that nothing is computed between the loads.
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = self.key.hash(name.as_wire());
        }
        std::hint::black_box(hashes.map(|hash| self.table.find(hash, |_| false)));
    }

    /// Adds the apex of a zone, without the names above it.
    pub(super) fn apex(&mut self, name: &'a Name, zone: u16) -> u32 {
        let number = self.insert(name.as_wire(), self.key.hash(name.as_wire()), zone, Self::NONE);
        self.labels_max = self.labels_max.max(name.label_count());
        self.drafts[number as usize].flags |= Node::APEX;
        number
    }

    /// Adds a name with `labels` labels, and every name between it and the apex of its zone.
    pub(super) fn intern(&mut self, name: &'a [u8], labels: usize, apex_labels: usize, zone: u16) -> u32 {
        self.labels_max = self.labels_max.max(labels);
        let parent = self.last_parent;
        let is_sibling = || parent_of(name).eq_ignore_ascii_case(self.drafts[parent as usize].name);
        if labels > apex_labels && parent != Self::NONE && is_sibling() {
            let hash = self.key.hash(name);
            let known = self.find_hashed(name, hash);
            return known.unwrap_or_else(|| self.insert(name, hash, zone, parent));
        }
        let number = self.intern_from_apex(name, labels, apex_labels, zone);
        self.last_parent = self.drafts[number as usize].parent;
        number
    }

    fn intern_from_apex(&mut self, name: &'a [u8], labels: usize, apex_labels: usize, zone: u16) -> u32 {
        let mut missing = Vec::new();
        // Most names are new below a known parent, so the search begins at the deepest one.
        for (labels, start) in [(labels, 0)].into_iter().chain(ancestors(name, labels)) {
            let (name, hash) = (&name[start..], self.key.hash(&name[start..]));
            if let Some(known) = self.find_hashed(name, hash) {
                let add = |parent, (name, hash)| self.insert(name, hash, zone, parent);
                return missing.into_iter().rev().fold(known, add);
            }
            assert!(labels > apex_labels, "apexes are added first");
            missing.push((name, hash));
        }
        unreachable!("an apex is an ancestor of every name of its zone")
    }

    fn insert(&mut self, name: &'a [u8], hash: u64, zone: u16, parent: u32) -> u32 {
        let number = self.drafts.len() as u32;
        self.drafts.push(Draft { name, hash, parent, wildcard: 0, occluder: 0, zone, flags: 0 });
        self.table.add(hash, number, |number| self.drafts[number as usize].hash);
        if is_wildcard(name)
            && let Some(parent) = self.drafts.get_mut(parent as usize)
        {
            parent.wildcard = number + 1;
        }
        number
    }

    /// Marks every name with the topmost delegation or DNAME that hides it, and the names that are open.
    pub(super) fn occlude(&mut self) {
        for number in 0..self.drafts.len() {
            let parent = self.drafts[number].parent;
            if let Some(above) = self.drafts.get(parent as usize) {
                let hides = above.is(Node::CUT) || above.is(Node::DNAME);
                self.drafts[number].occluder =
                    if above.occluder != 0 { above.occluder } else { u32::from(hides) * (parent + 1) };
            }
            let draft = &mut self.drafts[number];
            if draft.occluder == 0 && !draft.is(Node::CUT) {
                draft.flags |= Node::OPEN;
            }
        }
    }
}

/// True if the first label is `*` (RFC 4592 section 2.1.1).
pub(super) fn is_wildcard(name: &[u8]) -> bool {
    name.starts_with(b"\x01*")
}

/// Returns the name without its first label, or an empty slice for the root.
pub(super) fn parent_of(name: &[u8]) -> &[u8] {
    name.split_first().and_then(|(length, rest)| rest.get(usize::from(*length)..)).unwrap_or_default()
}
