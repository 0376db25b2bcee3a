//! Gathers the names that exist, empty non-terminals included (RFC 4592 section 2.2.2).

use crate::{
    snapshot::Node,
    table::Table,
    wire::{Key, ROOT_HASH},
};

/// Names under construction. A parent always has a smaller number than its children, zone apexes apart.
pub(super) struct Names {
    pub(super) table: Table,
    pub(super) hashes: Vec<u64>,
    /// Lower-case wire forms, one behind the other.
    pub(super) arena: Vec<u8>,
    pub(super) nodes: Vec<Node>,
    /// Number of the parent; [`Names::NONE`] for an apex.
    pub(super) parents: Vec<u32>,
    pub(super) labels_max: usize,
    /// The parent of the name that was made known last: names mostly come in runs below one.
    last_parent: u32,
}

impl Names {
    pub(super) const NONE: u32 = u32::MAX;

    pub(super) fn with_room(count: usize) -> Self {
        Self {
            table: Table::with_room(count),
            hashes: Vec::with_capacity(count),
            arena: Vec::with_capacity(count * 24),
            nodes: Vec::with_capacity(count),
            parents: Vec::with_capacity(count),
            labels_max: 0,
            last_parent: Self::NONE,
        }
    }

    /// The number of a name, if it is known.
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.find_suffix(key, key.labels(), key.hash())
    }

    fn find_suffix(&self, key: &Key, labels: usize, hash: u64) -> Option<u32> {
        let wanted = key.suffix(labels);
        self.table.find(hash, |number| self.name(number) == wanted)
    }

    /// Has the places of names in the table brought from memory, all at the same time, before they are asked for.
    pub(super) fn fetch<const N: usize>(&self, keys: &[Key; N]) {
        // All hashes first, so that nothing stands between the looks into memory.
        let hashes = keys.each_ref().map(Key::hash);
        std::hint::black_box(hashes.map(|hash| self.table.find(hash, |_| false)));
    }

    /// Makes the apex of a zone known, without what lies above it.
    pub(super) fn apex(&mut self, key: &Key, zone: u16) -> u32 {
        let number = self.insert(key, key.labels(), key.hash(), zone, Self::NONE);
        self.nodes[number as usize].flags |= Node::APEX;
        number
    }

    /// Makes a name known, with every name between it and the apex of its zone, which has `apex_labels` labels.
    pub(super) fn intern(&mut self, key: &Key, apex_labels: usize, zone: u16) -> u32 {
        let labels = key.labels();
        let parent = self.last_parent;
        if labels > apex_labels && parent != Self::NONE && self.name(parent) == key.suffix(labels - 1) {
            let hash = key.step(self.hashes[parent as usize], labels);
            let known = self.find_suffix(key, labels, hash);
            return known.unwrap_or_else(|| self.insert(key, labels, hash, zone, parent));
        }
        let number = self.intern_from_apex(key, apex_labels, zone);
        self.last_parent = self.parents[number as usize];
        number
    }

    /// The wire form of a known name.
    fn name(&self, number: u32) -> &[u8] {
        let node = &self.nodes[number as usize];
        &self.arena[node.name as usize..][..usize::from(node.name_len)]
    }

    fn intern_from_apex(&mut self, key: &Key, apex_labels: usize, zone: u16) -> u32 {
        let mut hashes = [ROOT_HASH; 128];
        for labels in 1..=key.labels() {
            hashes[labels] = key.step(hashes[labels - 1], labels);
        }
        // Most names are new under a known parent, so the search goes from the deepest up.
        let mut labels = key.labels();
        let mut number = loop {
            match self.find_suffix(key, labels, hashes[labels]) {
                Some(number) => break number,
                None if labels == apex_labels => unreachable!("apexes are made known first"),
                None => labels -= 1,
            }
        };
        while labels < key.labels() {
            labels += 1;
            number = self.insert(key, labels, hashes[labels], zone, number);
        }
        number
    }

    fn insert(&mut self, key: &Key, labels: usize, hash: u64, zone: u16, parent: u32) -> u32 {
        if self.nodes.len() == self.table.room() {
            self.grow();
        }
        let number = self.nodes.len() as u32;
        let wire = key.suffix(labels);
        self.nodes.push(Node {
            name: self.arena.len() as u32,
            name_len: wire.len() as u8,
            flags: 0,
            zone,
            sets: 0,
            set_count: 0,
            steered: 0,
            occluder: 0,
        });
        self.arena.extend_from_slice(wire);
        self.hashes.push(hash);
        self.parents.push(parent);
        self.table.place(hash, number);
        self.labels_max = self.labels_max.max(labels);
        if wire.starts_with(b"\x01*") && parent != Self::NONE {
            self.nodes[parent as usize].flags |= Node::WILDCARD_BELOW;
        }
        number
    }

    fn grow(&mut self) {
        let mut table = Table::with_room(self.table.room() * 2);
        for (number, hash) in self.hashes.iter().enumerate() {
            table.place(*hash, number as u32);
        }
        self.table = table;
    }

    /// Marks every name that a delegation or a DNAME above it hides, with the topmost one that does.
    pub(super) fn occlude(&mut self) {
        for number in 0..self.nodes.len() {
            let parent = self.parents[number];
            if parent == Self::NONE {
                continue;
            }
            let above = self.nodes[parent as usize];
            let hides = above.is(Node::CUT) || above.is(Node::DNAME);
            self.nodes[number].occluder =
                if above.occluder != 0 { above.occluder } else { u32::from(hides) * (parent + 1) };
        }
    }
}
