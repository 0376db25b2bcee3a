//! Gathers the names that exist, empty non-terminals included (RFC 4592 section 2.2.2).

use fairway_model::{Name, Rtype};

use crate::{
    snapshot::{Alias, Node, RrSet},
    table::Table,
    wire::{ancestors, name_hash, same_name},
};

/// Names under construction. A parent always has a smaller number than its children, zone apexes apart.
pub(super) struct Names {
    pub(super) table: Table,
    pub(super) hashes: Vec<u64>,
    /// Lower-case wire forms, one behind the other, and the targets of aliases.
    pub(super) arena: Vec<u8>,
    pub(super) aliases: Vec<Alias>,
    pub(super) nodes: Vec<Node>,
    /// Number of the parent; [`Names::NONE`] for an apex.
    pub(super) parents: Vec<u32>,
    pub(super) labels_max: usize,
    /// The parent of the name that was made known last: names mostly come in runs below one.
    last_parent: u32,
}

impl Names {
    pub(super) const NONE: u32 = u32::MAX;
    /// How many names are fetched together.
    pub(super) const TOGETHER: usize = 16;

    pub(super) fn with_room(count: usize) -> Self {
        Self {
            table: Table::with_room(count),
            hashes: Vec::with_capacity(count),
            arena: Vec::with_capacity(count * 24),
            aliases: Vec::new(),
            nodes: Vec::with_capacity(count),
            parents: Vec::with_capacity(count),
            labels_max: 0,
            last_parent: Self::NONE,
        }
    }

    /// The number of a name, if it is known.
    pub(super) fn find(&self, name: &Name) -> Option<u32> {
        self.find_hashed(name.as_wire(), name_hash(name.as_wire()))
    }

    fn find_hashed(&self, wanted: &[u8], hash: u64) -> Option<u32> {
        self.table.find(hash, |number| same_name(wanted, self.name(number)))
    }

    /// Has the places of names in the table brought from memory, all at the same time, before they are asked for.
    pub(super) fn fetch<'n>(&self, names: impl Iterator<Item = &'n Name>) {
        let mut hashes = [0; Self::TOGETHER];
        // All hashes first, so that nothing stands between the looks into memory.
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = name_hash(name.as_wire());
        }
        std::hint::black_box(hashes.map(|hash| self.table.find(hash, |_| false)));
    }

    /// Makes the apex of a zone known, without what lies above it.
    pub(super) fn apex(&mut self, name: &Name, zone: u16) -> u32 {
        let number = self.insert(name.as_wire(), name_hash(name.as_wire()), zone, Self::NONE);
        self.labels_max = self.labels_max.max(name.label_count());
        self.nodes[number as usize].flags |= Node::APEX;
        number
    }

    /// Makes a name known, with every name between it and the apex of its zone, which has `apex_labels` labels.
    pub(super) fn intern(&mut self, name: &Name, apex_labels: usize, zone: u16) -> u32 {
        let labels = name.label_count();
        self.labels_max = self.labels_max.max(labels);
        let parent = self.last_parent;
        if labels > apex_labels && parent != Self::NONE && same_name(parent_of(name.as_wire()), self.name(parent)) {
            let hash = name_hash(name.as_wire());
            let known = self.find_hashed(name.as_wire(), hash);
            return known.unwrap_or_else(|| self.insert(name.as_wire(), hash, zone, parent));
        }
        let number = self.intern_from_apex(name, apex_labels, zone);
        self.last_parent = self.parents[number as usize];
        number
    }

    /// The wire form of a known name, in lower case.
    fn name(&self, number: u32) -> &[u8] {
        let node = &self.nodes[number as usize];
        &self.arena[node.name as usize..][..usize::from(node.name_len)]
    }

    fn intern_from_apex(&mut self, name: &Name, apex_labels: usize, zone: u16) -> u32 {
        let (wire, labels) = (name.as_wire(), name.label_count());
        let mut missing = Vec::new();
        // Most names are new under a known parent, so the search goes from the deepest up.
        for (labels, start) in [(labels, 0)].into_iter().chain(ancestors(wire, labels)) {
            let (wire, hash) = (&wire[start..], name_hash(&wire[start..]));
            if let Some(known) = self.find_hashed(wire, hash) {
                let add = |parent, (wire, hash)| self.insert(wire, hash, zone, parent);
                return missing.into_iter().rev().fold(known, add);
            }
            assert!(labels > apex_labels, "apexes are made known first");
            missing.push((wire, hash));
        }
        unreachable!("an apex is an ancestor of every name of its zone")
    }

    fn insert(&mut self, wire: &[u8], hash: u64, zone: u16, parent: u32) -> u32 {
        if self.nodes.len() == self.table.room() {
            self.grow();
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node {
            name: self.arena.len() as u32,
            name_len: wire.len() as u8,
            flags: 0,
            zone,
            sets: 0,
            set_count: 0,
            steered: 0,
            wildcard: 0,
            occluder: 0,
        });
        self.arena.extend(wire.iter().map(u8::to_ascii_lowercase));
        self.hashes.push(hash);
        self.parents.push(parent);
        self.table.place(hash, number);
        if wire.starts_with(b"\x01*") && parent != Self::NONE {
            self.nodes[parent as usize].wildcard = number + 1;
        }
        number
    }

    /// Keeps the target of a CNAME or DNAME, to be followed; gives its number.
    pub(super) fn alias(&mut self, rtype: Rtype, target: &[u8]) -> u32 {
        if !matches!(rtype, Rtype::CNAME | Rtype::DNAME) {
            return RrSet::NO_ALIAS;
        }
        let name = self.arena.len() as u32;
        self.arena.extend_from_slice(target);
        self.aliases.push(Alias { hash: name_hash(target), name, name_len: target.len() as u8 });
        self.aliases.len() as u32 - 1
    }

    fn grow(&mut self) {
        let mut table = Table::with_room(self.table.room() * 2);
        for (number, hash) in self.hashes.iter().enumerate() {
            table.place(*hash, number as u32);
        }
        self.table = table;
    }

    /// Marks every name that a delegation or a DNAME above it hides, with the topmost one that does, and those that are open.
    pub(super) fn occlude(&mut self) {
        for number in 0..self.nodes.len() {
            if let Some(above) = self.nodes.get(self.parents[number] as usize) {
                let hides = above.is(Node::CUT) || above.is(Node::DNAME);
                self.nodes[number].occluder =
                    if above.occluder != 0 { above.occluder } else { u32::from(hides) * (self.parents[number] + 1) };
            }
            let node = &mut self.nodes[number];
            if node.occluder == 0 && !node.is(Node::CUT) {
                node.flags |= Node::OPEN;
            }
        }
    }
}

/// The name without its first label; nothing for the root.
fn parent_of(name: &[u8]) -> &[u8] {
    name.split_first().and_then(|(length, rest)| rest.get(usize::from(*length)..)).unwrap_or_default()
}
