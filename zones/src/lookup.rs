//! Stage two: finds what the zones have for a name (RFC 1034 section 4.3.2, RFC 4592, RFC 6672).

use crate::{entries::Node, snapshot::Snapshot, wire::ancestors};

/// Result of the lookup of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The name exists, with authority. Number of its node.
    Exact(u32),
    /// The name does not exist, but this wildcard matches.
    Wildcard(u32),
    /// The name is at or below this delegation.
    Cut(u32),
    /// The name is below this DNAME.
    Dname(u32),
    /// The zone of this number has no such name. 32 bits like the others, so that the result fits two registers.
    Nothing(u32),
    /// The name is in none of our zones.
    Outside,
}

/// Finds the name with this hash and number of labels.
///
/// This function and those below are never inlined: each keeps its working set in registers.
#[inline(never)]
pub(crate) fn locate(snapshot: &Snapshot, name: &[u8], labels: u8, hash: u64) -> Found {
    match snapshot.find(hash, name) {
        Some((number, node)) if node.is(Node::OPEN) => Found::Exact(number),
        Some((number, node)) => hidden(snapshot, number, node),
        None => below(snapshot, name, labels),
    }
}

/// Result for a name at a delegation, or below one or a DNAME.
#[inline(never)]
fn hidden(snapshot: &Snapshot, number: u32, node: Node<'_>) -> Found {
    match node.occluder() {
        None => Found::Cut(number),
        Some(above) if snapshot.node(above).is(Node::CUT) => Found::Cut(above),
        Some(above) => Found::Dname(above),
    }
}

/// Result for a name that does not exist. Its closest encloser decides, which usually is the parent.
#[inline(never)]
fn below(snapshot: &Snapshot, name: &[u8], labels: u8) -> Found {
    if let Some(labels) = labels.checked_sub(1)
        && usize::from(labels) <= snapshot.labels_max
    {
        let parent = &name[usize::from(name[0]) + 1..];
        if let Some((number, node)) = snapshot.find(snapshot.key().hash(parent), parent) {
            return under(snapshot, number, node);
        }
    }
    far_below(snapshot, name, labels)
}

/// Result for a name whose parent does not exist either.
///
/// Looks up no more ancestors than the deepest name has labels, and none above all zones, so that a flood of names that
/// do not exist costs little more than hits.
#[inline(never)]
fn far_below(snapshot: &Snapshot, name: &[u8], labels: u8) -> Found {
    for (labels, start) in ancestors(name, labels.into()).skip(1) {
        if labels > snapshot.labels_max {
            continue;
        }
        if labels < snapshot.text.labels_min {
            break;
        }
        let above = &name[start..];
        if let Some((number, node)) = snapshot.find(hash_of(snapshot, above), above) {
            return under(snapshot, number, node);
        }
    }
    Found::Outside
}

/// Returns the hash of a name. Not inlined, so that the loop around it keeps its registers.
#[inline(never)]
fn hash_of(snapshot: &Snapshot, name: &[u8]) -> u64 {
    snapshot.key().hash(name)
}

/// Result for a name that does not exist right below this node.
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
