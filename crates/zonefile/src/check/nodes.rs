//! Index of the records of a zone by owner.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use fairway_model::{Name, Rtype};

use crate::{Record, ZoneData};

/// A name in wire form with case-insensitive comparison and hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded<'z>(pub(super) &'z [u8]);

impl PartialEq for Folded<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Folded<'_> {}

impl Hash for Folded<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One write of the whole name is several times as fast as one per octet.
        let mut lower = [0; Name::OCTETS_MAX];
        let lower = &mut lower[..self.0.len().min(Name::OCTETS_MAX)];
        lower.copy_from_slice(&self.0[..lower.len()]);
        lower.make_ascii_lowercase();
        state.write(lower);
    }
}

/// Set of the kinds of records that a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const ADDRESS: Self = Self(1);
    pub(super) const CNAME: Self = Self(2);
    pub(super) const DNAME: Self = Self(4);
    pub(super) const NS: Self = Self(8);
    /// Types that may exist next to a CNAME (RFC 2181 section 10.1, RFC 4034 section 4, RFC 2535 section 2.3.5).
    pub(super) const SIGNING: Self = Self(16);
    pub(super) const OTHER: Self = Self(32);

    const fn of(rtype: Rtype) -> Self {
        match rtype {
            Rtype::A | Rtype::AAAA => Self::ADDRESS,
            Rtype::CNAME => Self::CNAME,
            Rtype::DNAME => Self::DNAME,
            Rtype::NS => Self::NS,
            Rtype::RRSIG | Rtype::NSEC | Rtype::SIG | Rtype::KEY | Rtype::NXT => Self::SIGNING,
            _ => Self::OTHER,
        }
    }

    /// True if the set contains any of these kinds.
    pub(super) const fn any(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Returns the union of both sets.
    pub(super) const fn and(self, kinds: Self) -> Self {
        Self(self.0 | kinds.0)
    }
}

/// One owner with its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Index of the first record, whose owner is used for the node.
    first: u32,
    /// Start of its records in [`Nodes::order`].
    start: u32,
    count: u32,
    pub(super) kinds: Kinds,
}

/// All owners of a zone, in the order of first appearance.
///
/// The names of a million owners do not fit the caches. The hash table therefore is one array with 8 bytes per slot, which causes one cache
/// miss per owner, and indices have 4 bytes.
pub(super) struct Nodes<'z> {
    pub(super) zone: &'z ZoneData,
    nodes: Vec<Node>,
    /// Record indices, grouped by node, in the order of the text.
    order: Vec<u32>,
    /// Hash table with open addressing. A free slot is 0; others have the upper half of the hash, and the node index plus 1.
    slots: Vec<u64>,
    hashing: RandomState,
    /// True if any name is delegated or has a DNAME; otherwise no name can hide another.
    has_covers: bool,
}

impl<'z> Nodes<'z> {
    pub(super) fn new(zone: &'z ZoneData) -> Self {
        // At most half full, so that probe sequences stay short.
        let slots = vec![0; (2 * zone.records.len() + 2).next_power_of_two()];
        let nodes = Vec::with_capacity(zone.records.len());
        let mut all = Self { zone, nodes, order: vec![], slots, hashing: RandomState::new(), has_covers: false };
        let node_of = all.gather();
        all.sort_records(&node_of);
        let has_covers = all.iter().any(|node| all.is_cut(node) || node.kinds.any(Kinds::DNAME));
        all.has_covers = has_covers;
        all
    }

    /// Creates the nodes. Returns the node index of each record.
    fn gather(&mut self) -> Vec<u32> {
        let records = &self.zone.records;
        let mut node_of: Vec<u32> = Vec::with_capacity(records.len());
        for together in records.chunks(PREFETCHED) {
            let hashes = self.fetch(together);
            for (record, hash) in together.iter().zip(hashes) {
                let index = node_of.len();
                // Records of one owner usually follow each other.
                let before =
                    index.checked_sub(1).filter(|before| records[*before].owner.as_wire() == record.owner.as_wire());
                let node = match before {
                    Some(before) => node_of[before],
                    None => self.find_or_insert(record, index, hash),
                };
                let node_entry = &mut self.nodes[widen(node)];
                node_entry.count += 1;
                node_entry.kinds = node_entry.kinds.and(Kinds::of(record.rtype));
                node_of.push(node);
            }
        }
        node_of
    }

    /// Returns the hashes of the records' owners. Reads their slots, so that the cache misses of all of them overlap.
    fn fetch(&self, records: &[Record]) -> [u64; PREFETCHED] {
        let mut hashes = [0; PREFETCHED];
        for (hash, record) in hashes.iter_mut().zip(records) {
            *hash = self.hash(record.owner.as_wire());
        }
        std::hint::black_box(hashes.iter().fold(0, |all, hash| all ^ self.slots[self.slot_of(*hash)]));
        hashes
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hashing.hash_one(Folded(name))
    }

    /// Returns the first slot of a hash.
    fn slot_of(&self, hash: u64) -> usize {
        widen(narrow_slot(hash)) & (self.slots.len() - 1)
    }

    fn find_or_insert(&mut self, record: &Record, index: usize, hash: u64) -> u32 {
        let slot = match self.find(record.owner.as_wire(), hash) {
            Ok(node) => return node,
            Err(slot) => slot,
        };
        let node = narrow(self.nodes.len());
        self.slots[slot.place] = slot.tag | u64::from(node + 1);
        self.nodes.push(Node { first: narrow(index), start: 0, count: 0, kinds: Kinds::default() });
        node
    }

    /// Returns the node of a name, or the free slot for it.
    fn find(&self, name: &[u8], hash: u64) -> Result<u32, FreeSlot> {
        let tag = hash & !u64::from(u32::MAX);
        let mut place = self.slot_of(hash);
        // Terminates, because at least half of the slots are free.
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return Err(FreeSlot { place, tag });
            }
            let node = narrow_slot(slot) - 1;
            let same_tag = slot & !u64::from(u32::MAX) == tag;
            if same_tag && self.owner(&self.nodes[widen(node)]).as_wire().eq_ignore_ascii_case(name) {
                return Ok(node);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Sorts record indices by node (counting sort).
    fn sort_records(&mut self, node_of: &[u32]) {
        let mut start = 0;
        let mut next = Vec::with_capacity(self.nodes.len());
        for node in &mut self.nodes {
            node.start = start;
            next.push(start);
            start += node.count;
        }
        self.order = vec![0; node_of.len()];
        for (index, node) in node_of.iter().enumerate() {
            let place = &mut next[widen(*node)];
            self.order[widen(*place)] = narrow(index);
            *place += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub(super) fn owner(&self, node: &Node) -> &'z Name {
        &self.zone.records[widen(node.first)].owner
    }

    /// Returns the indices of a node's records, in the order of the text.
    pub(super) fn indices(&self, node: &Node) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.order[widen(node.start)..widen(node.start + node.count)].iter().map(|index| widen(*index))
    }

    /// Returns a node's records, in the order of the text.
    pub(super) fn records(&self, node: &Node) -> impl Iterator<Item = &'z Record> {
        self.indices(node).map(|index| &self.zone.records[index])
    }

    /// Returns the node of a name in wire form.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Node> {
        self.find(name, self.hash(name)).ok().map(|node| &self.nodes[widen(node)])
    }

    /// True if the node is the apex.
    pub(super) fn is_apex(&self, node: &Node) -> bool {
        self.owner(node) == &self.zone.origin
    }

    /// True if the node is a zone cut.
    pub(super) fn is_cut(&self, node: &Node) -> bool {
        node.kinds.any(Kinds::NS) && !self.is_apex(node)
    }

    /// Returns the highest node strictly above `name` that hides it: a zone cut, or the owner of a DNAME.
    pub(super) fn cover(&self, name: &[u8]) -> Option<&Node> {
        if !self.has_covers {
            return None;
        }
        let above = ancestors(name, &self.zone.origin).filter_map(|ancestor| self.get(ancestor));
        above.filter(|node| self.is_cut(node) || node.kinds.any(Kinds::DNAME)).last()
    }
}

/// Number of records whose slots are prefetched together.
const PREFETCHED: usize = 16;

/// Free slot for a name that is not in the table.
struct FreeSlot {
    place: usize,
    /// Upper half of the hash, which the slot stores.
    tag: u64,
}

/// Converts an index of a record or node.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("2^32 records would take 300 GB of memory")
}

const fn widen(number: u32) -> usize {
    number as usize
}

/// Returns the lower half.
const fn narrow_slot(slot: u64) -> u32 {
    (slot & u32::MAX as u64) as u32
}

/// Returns the names strictly above `name`, up to `origin`, in wire form.
pub(super) fn ancestors<'n>(name: &'n [u8], origin: &Name) -> impl Iterator<Item = &'n [u8]> {
    let shortest = origin.as_wire().len();
    let mut rest = name;
    std::iter::from_fn(move || {
        if rest.len() <= shortest {
            return None;
        }
        rest = rest.get(1 + usize::from(rest[0])..)?;
        Some(rest)
    })
}
