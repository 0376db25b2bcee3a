//! The records of a zone by owner.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

use fairway_model::{Name, Rtype};

use crate::text::{Record, ZoneData};

/// A name in wire form that is compared and hashed without regard to case.
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
        // One write of the whole name: several times as fast as one an octet.
        let mut lower = [0; Name::OCTETS_MAX];
        let lower = &mut lower[..self.0.len().min(Name::OCTETS_MAX)];
        lower.copy_from_slice(&self.0[..lower.len()]);
        lower.make_ascii_lowercase();
        state.write(lower);
    }
}

/// Kinds of records that a node has, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const ADDRESS: Self = Self(1);
    pub(super) const CNAME: Self = Self(2);
    pub(super) const DNAME: Self = Self(4);
    pub(super) const NS: Self = Self(8);
    /// What may stand beside a CNAME (RFC 2181 section 10.1, RFC 4034 section 4, RFC 2535 section 2.3.5).
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

    /// Whether any of these kinds is there.
    pub(super) const fn any(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Both together.
    pub(super) const fn and(self, kinds: Self) -> Self {
        Self(self.0 | kinds.0)
    }
}

/// One owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Its first record, whose owner stands for all.
    first: usize,
    /// Its part of the order of records.
    start: usize,
    count: usize,
    pub(super) kinds: Kinds,
}

/// Every owner of a zone, in the order of first appearance.
pub(super) struct Nodes<'z> {
    pub(super) zone: &'z ZoneData,
    by_name: HashMap<Folded<'z>, usize>,
    nodes: Vec<Node>,
    /// Record indices, those of a node together, in the order of the text.
    order: Vec<usize>,
    /// Whether any name is delegated away or has a DNAME: only then can one name hide another.
    any_cover: bool,
}

impl<'z> Nodes<'z> {
    pub(super) fn new(zone: &'z ZoneData) -> Self {
        let mut by_name = HashMap::with_capacity(zone.records.len());
        let mut nodes: Vec<Node> = Vec::with_capacity(zone.records.len());
        let mut node_of = Vec::with_capacity(zone.records.len());
        let mut last: Option<(&Name, usize)> = None;
        for (index, record) in zone.records.iter().enumerate() {
            // Records of one owner mostly follow each other.
            let node = match last {
                Some((owner, node)) if owner.as_wire() == record.owner.as_wire() => node,
                _ => *by_name.entry(Folded(record.owner.as_wire())).or_insert_with(|| {
                    nodes.push(Node { first: index, start: 0, count: 0, kinds: Kinds::default() });
                    nodes.len() - 1
                }),
            };
            last = Some((&record.owner, node));
            nodes[node].count += 1;
            nodes[node].kinds = nodes[node].kinds.and(Kinds::of(record.rtype));
            node_of.push(node);
        }
        let mut start = 0;
        for node in &mut nodes {
            node.start = start;
            start += node.count;
        }
        let mut next: Vec<usize> = nodes.iter().map(|node| node.start).collect();
        let mut order = vec![0; zone.records.len()];
        for (index, node) in node_of.into_iter().enumerate() {
            order[next[node]] = index;
            next[node] += 1;
        }
        let mut all = Self { zone, by_name, nodes, order, any_cover: false };
        let any_cover = all.iter().any(|node| all.is_cut(node) || node.kinds.any(Kinds::DNAME));
        all.any_cover = any_cover;
        all
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub(super) fn owner(&self, node: &Node) -> &'z Name {
        &self.zone.records[node.first].owner
    }

    /// Indices of a node's records, in the order of the text.
    pub(super) fn indices(&self, node: &Node) -> &[usize] {
        &self.order[node.start..node.start + node.count]
    }

    /// A node's records, in the order of the text.
    pub(super) fn records(&self, node: &Node) -> impl Iterator<Item = &'z Record> {
        self.indices(node).iter().map(|index| &self.zone.records[*index])
    }

    /// The node of a name in wire form.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Node> {
        self.by_name.get(&Folded(name)).map(|node| &self.nodes[*node])
    }

    /// Whether the node is the apex.
    pub(super) fn is_apex(&self, node: &Node) -> bool {
        self.owner(node) == &self.zone.origin
    }

    /// Whether the zone delegates the node away.
    pub(super) fn is_cut(&self, node: &Node) -> bool {
        node.kinds.any(Kinds::NS) && !self.is_apex(node)
    }

    /// The highest node strictly above `name` that hides it: a cut, or the owner of a DNAME.
    pub(super) fn cover(&self, name: &[u8]) -> Option<&Node> {
        if !self.any_cover {
            return None;
        }
        let above = ancestors(name, &self.zone.origin).filter_map(|ancestor| self.get(ancestor));
        above.filter(|node| self.is_cut(node) || node.kinds.any(Kinds::DNAME)).last()
    }
}

/// The names strictly above `name`, up to `origin`, in wire form.
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
