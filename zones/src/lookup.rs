//! Stage two: from a name to what the zones say about it (RFC 1034 section 4.3.2, RFC 4592, RFC 6672).

use crate::{
    entries::Node,
    snapshot::Snapshot,
    wire::{ancestors, name_hash},
};

/// What there is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The name itself, with authority.
    Exact(u32),
    /// Nothing at the name, but this wildcard stands for it.
    Wildcard(u32),
    /// At or below this delegation.
    Cut(u32),
    /// Below this DNAME.
    Dname(u32),
    /// In this zone, and no such name.
    Nothing(u16),
    /// In none of our zones.
    Outside,
}

/// Says what there is at a name with this hash and so many labels.
#[inline]
pub(crate) fn locate(snapshot: &Snapshot, name: &[u8], labels: u8, hash: u64) -> Found {
    match snapshot.find(hash, name) {
        Some(number) => {
            let node = snapshot.node(number);
            if node.is(Node::OPEN) { Found::Exact(number) } else { hidden(snapshot, number, node) }
        }
        None => below(snapshot, name, labels),
    }
}

/// A name at a delegation, or hidden by something above it.
#[inline(never)]
fn hidden(snapshot: &Snapshot, number: u32, node: Node<'_>) -> Found {
    match node.occluder() {
        None => Found::Cut(number),
        Some(above) if snapshot.node(above).is(Node::CUT) => Found::Cut(above),
        Some(above) => Found::Dname(above),
    }
}

/// A name that does not exist: its closest encloser decides.
#[inline(never)]
fn below(snapshot: &Snapshot, name: &[u8], labels: u8) -> Found {
    let Some(number) = closest_encloser(snapshot, name, labels) else { return Found::Outside };
    let node = snapshot.node(number);
    if !node.is(Node::OPEN) {
        return hidden(snapshot, number, node);
    }
    if node.is(Node::DNAME) {
        return Found::Dname(number);
    }
    node.wildcard().map_or_else(|| Found::Nothing(node.zone()), Found::Wildcard)
}

/// The deepest existing ancestor.
///
/// Looks up at most as many labels as the deepest name of all zones has, so a flood of deep names costs no more than hits.
fn closest_encloser(snapshot: &Snapshot, name: &[u8], labels: u8) -> Option<u32> {
    let mut known = ancestors(name, labels.into()).filter(|(labels, _)| *labels <= snapshot.labels_max);
    known.find_map(|(_, start)| snapshot.find(name_hash(&name[start..]), &name[start..]))
}
