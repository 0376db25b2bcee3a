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
    /// In the zone of this number, and no such name. As wide as the others, so that all travel in two registers.
    Nothing(u32),
    /// In none of our zones.
    Outside,
}

/// Says what there is at a name with this hash and so many labels. A call of its own, as are those below: what it works with stays
/// in registers.
#[inline(never)]
pub(crate) fn locate(snapshot: &Snapshot, name: &[u8], labels: u8, hash: u64) -> Found {
    match snapshot.find(hash, name) {
        Some((number, node)) if node.is(Node::OPEN) => Found::Exact(number),
        Some((number, node)) => hidden(snapshot, number, node),
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

/// A name that does not exist: its closest encloser decides, the deepest existing ancestor. Most often that is the parent.
#[inline(never)]
fn below(snapshot: &Snapshot, name: &[u8], labels: u8) -> Found {
    if let Some(labels) = labels.checked_sub(1)
        && usize::from(labels) <= snapshot.labels_max
    {
        let parent = &name[usize::from(name[0]) + 1..];
        if let Some((number, node)) = snapshot.find(name_hash(parent), parent) {
            return under(snapshot, number, node);
        }
    }
    far_below(snapshot, name, labels)
}

/// The same where the parent does not exist either.
///
/// Looks up at most as many labels as the deepest name of all zones has, so a flood of deep names costs no more than hits.
#[inline(never)]
fn far_below(snapshot: &Snapshot, name: &[u8], labels: u8) -> Found {
    for (labels, start) in ancestors(name, labels.into()).skip(1) {
        if labels > snapshot.labels_max {
            continue;
        }
        let above = &name[start..];
        if let Some((number, node)) = snapshot.find(hash_of(above), above) {
            return under(snapshot, number, node);
        }
    }
    Found::Outside
}

/// The hash of a name. A call of its own, so that a loop around it keeps its registers.
#[inline(never)]
fn hash_of(name: &[u8]) -> u64 {
    name_hash(name)
}

/// What there is to say of names that do not exist right below this one.
#[inline(always)]
fn under(snapshot: &Snapshot, number: u32, node: Node<'_>) -> Found {
    if !node.is(Node::OPEN) {
        return hidden(snapshot, number, node);
    }
    if node.is(Node::DNAME) {
        return Found::Dname(number);
    }
    match node.wildcard() {
        Some(wildcard) => Found::Wildcard(wildcard),
        None => Found::Nothing(node.zone().into()),
    }
}
