//! Writes entries and record sets while a snapshot is compiled.

use fairway_model::Rtype;

use super::{Alias, Entries, NODE_HEAD, Node, RrSet, UPPER, WORD, whole_words};

/// Builder of [`Entries`].
#[derive(Default)]
pub(crate) struct EntryWriter {
    pub(super) octets: Vec<u8>,
    /// Patches of the current set.
    pub(super) patches: Vec<u16>,
    /// Offset of the current set's head.
    pub(super) set_at: usize,
}

/// Fields of an entry's head.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) flags: u8,
    pub(crate) zone: u16,
    /// See [`Node::steered`].
    pub(crate) steered: u32,
}

impl EntryWriter {
    pub(super) fn next_number(&self) -> u32 {
        let number = u32::try_from(self.octets.len() / WORD).ok();
        number.filter(|number| number & UPPER == 0).expect("at most 16 GiB of names and records")
    }

    /// Returns a writer that appends to a copy of previous entries.
    pub(crate) fn after(before: &Entries) -> Self {
        // Most changes add a few entries and sets, which fit; others move the copy once.
        let mut octets = Vec::with_capacity(before.octets.len() + CHANGE);
        octets.extend_from_slice(&before.octets);
        Self { octets, ..Self::default() }
    }

    /// Returns the number of bytes written.
    pub(crate) fn octet_count(&self) -> usize {
        self.octets.len()
    }

    /// Returns an entry.
    pub(crate) fn node(&self, number: u32) -> Node<'_> {
        Node::at(&self.octets, number)
    }

    /// Sets [`Node::steered`] of an entry.
    pub(crate) fn steer(&mut self, entry: u32, steered: u32) {
        self.put(entry as usize * WORD + 8, steered.to_le_bytes());
    }

    /// Removes the link of an entry.
    pub(crate) fn unlink(&mut self, entry: u32) {
        self.put(entry as usize * WORD + 12, [0; 4]);
    }

    /// Reserves space for more bytes.
    pub(crate) fn reserve(&mut self, octets: usize) {
        self.octets.reserve(octets);
    }

    /// Begins an entry, whose sets follow, and returns its number.
    pub(crate) fn begin_entry(&mut self, name: &[u8], head: Head) -> u32 {
        let number = self.next_number();
        let [z0, z1] = head.zone.to_le_bytes();
        self.octets.extend_from_slice(&[name.len() as u8, head.flags, z0, z1, 0, 0, 0, 0]);
        self.octets.extend_from_slice(&u64::from(head.steered).to_le_bytes());
        let name_at = self.octets.len();
        self.octets.extend_from_slice(name);
        self.octets[name_at..].make_ascii_lowercase();
        self.fill_word();
        number
    }

    /// Copies the sets of a node of another layer to an entry that has none.
    pub(crate) fn copy_sets(&mut self, entry: u32, from: Node<'_>) {
        self.octets.extend_from_slice(from.set_octets());
        self.put(entry as usize * WORD + 4, from.set_count().to_le_bytes());
    }

    /// Counts a set as part of an entry.
    pub(crate) fn count_set(&mut self, entry: u32) {
        let count = self.node(entry).set_count() + 1;
        self.put(entry as usize * WORD + 4, count.to_le_bytes());
    }

    /// Sets the link of an entry: [`Node::wildcard`] or [`Node::occluder`].
    pub(crate) fn link(&mut self, entry: u32, to: u32) {
        self.put(entry as usize * WORD + 12, (to + 1).to_le_bytes());
    }

    /// Begins a set and returns its number.
    pub(crate) fn begin_set(&mut self) -> u32 {
        let number = self.next_number();
        self.set_at = self.octets.len();
        self.patches.clear();
        self.octets.extend_from_slice(&[0; WORD]);
        number
    }

    /// Appends octets to the records of the current set.
    pub(crate) fn extend(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// Appends a pointer to the zone's apex.
    pub(crate) fn point_to_apex(&mut self) {
        self.patches.push(self.record_octets() as u16);
        self.octets.extend_from_slice(&[0, 0]);
    }

    /// Returns the octets of the current set's records.
    pub(crate) fn record_octets(&self) -> usize {
        self.octets.len() - self.set_at - WORD
    }

    /// Overwrites two octets of the current set's records.
    pub(crate) fn overwrite(&mut self, at: usize, value: u16) {
        self.put(self.set_at + WORD + at, value.to_be_bytes());
    }

    /// Removes the current set.
    pub(crate) fn drop_set(&mut self) {
        self.octets.truncate(self.set_at);
    }

    /// Ends the current set. `has_extras` reserves space for [`EntryWriter::set_extras`].
    pub(crate) fn end_set(&mut self, rtype: Rtype, count: u16, alias: Option<Alias<'_>>, has_extras: bool) {
        let length = self.record_octets();
        self.fill_word();
        let rest = self.octets.len();
        if has_extras || alias.is_some() || !self.patches.is_empty() {
            let (hash, name) = alias.map_or((0, &[][..]), |alias| (alias.hash, alias.name));
            let counts = self.patches.len() as u64 | (name.len() as u64) << 32;
            for word in [counts, 0, hash, 0] {
                self.octets.extend_from_slice(&word.to_le_bytes());
            }
            self.octets.extend(self.patches.iter().flat_map(|at| at.to_le_bytes()));
            self.octets.extend_from_slice(name);
            self.fill_word();
        }
        let words = (self.octets.len() - rest) / WORD;
        let fields = [u64::from(rtype.0), u64::from(count), length as u64, words as u64];
        let head = fields.iter().rev().fold(0, |head, field| head << 16 | field);
        self.put(self.set_at, head.to_le_bytes());
    }

    /// Sets the extras of a set.
    pub(crate) fn set_extras(&mut self, set: u32, first: u32, count: u16) {
        let at = self.details_at(set);
        self.put(at + 2, count.to_le_bytes());
        self.put(at + WORD, first.to_le_bytes());
    }

    /// Sets the node that an alias leads to.
    pub(crate) fn set_target(&mut self, set: u32, target: u32) {
        self.put(self.details_at(set) + WORD + 4, (target + 1).to_le_bytes());
    }

    /// Sets the first whole answer of a set.
    pub(crate) fn set_answer(&mut self, set: u32, answer: u32) {
        self.put(self.details_at(set) + 3 * WORD, (answer + 1).to_le_bytes());
    }

    /// Returns the offset of a set's details.
    fn details_at(&self, set: u32) -> usize {
        set as usize * WORD + WORD + self.set(set).details_at()
    }

    /// Overwrites octets at an offset.
    pub(super) fn put<const N: usize>(&mut self, at: usize, octets: [u8; N]) {
        self.octets[at..at + N].copy_from_slice(&octets);
    }

    /// Returns the sets of an entry with their numbers.
    pub(crate) fn sets_of(&self, entry: u32) -> impl Iterator<Item = (u32, RrSet<'_>)> {
        let node = Node::at(&self.octets, entry);
        let mut next = entry + ((NODE_HEAD + whole_words(node.name_len())) / WORD) as u32;
        node.sets().map(move |set| {
            let number = next;
            next += ((WORD + set.length()) / WORD) as u32;
            (number, set)
        })
    }

    /// Returns a set.
    pub(crate) fn set(&self, number: u32) -> RrSet<'_> {
        RrSet::at(&self.octets, number)
    }

    pub(super) fn fill_word(&mut self) {
        self.octets.resize(whole_words(self.octets.len()), 0);
    }

    pub(crate) fn finish(self) -> Entries {
        Entries { octets: self.octets.into() }
    }
}

/// Bytes reserved for a change.
const CHANGE: usize = 64 * 1_024;
