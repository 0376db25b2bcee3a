//! Stage two: from a name to what the zones say about it (RFC 1034 section 4.3.2, RFC 4592, RFC 6672).

use crate::{
    snapshot::{Node, Snapshot},
    wire::{Key, step},
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

/// Says what there is at the name. `exact` is the node of that very name, if there is one.
#[inline]
pub(crate) fn locate(snapshot: &Snapshot, key: &Key, exact: Option<u32>) -> Found {
    match exact {
        Some(number) => {
            let node = snapshot.node(number);
            if node.occluder == 0 && !node.is(Node::CUT) {
                return Found::Exact(number);
            }
            hidden(snapshot, number, node)
        }
        None => below(snapshot, key),
    }
}

/// A name at a delegation, or hidden by something above it.
fn hidden(snapshot: &Snapshot, number: u32, node: &Node) -> Found {
    match node.occluder.checked_sub(1) {
        None => Found::Cut(number),
        Some(above) if snapshot.node(above).is(Node::CUT) => Found::Cut(above),
        Some(above) => Found::Dname(above),
    }
}

/// A name that does not exist: its closest encloser decides.
fn below(snapshot: &Snapshot, key: &Key) -> Found {
    let Some((labels, hash, number)) = closest_encloser(snapshot, key) else { return Found::Outside };
    let node = snapshot.node(number);
    if node.occluder != 0 || node.is(Node::CUT) {
        return hidden(snapshot, number, node);
    }
    if node.is(Node::DNAME) {
        return Found::Dname(number);
    }
    if node.is(Node::WILDCARD_BELOW) {
        let is_it = |number| is_wildcard_of(snapshot.node_name(snapshot.node(number)), key.suffix(labels));
        if let Some(wildcard) = snapshot.table.find(step(hash, b"*"), is_it) {
            return Found::Wildcard(wildcard);
        }
    }
    Found::Nothing(node.zone)
}

/// The deepest existing ancestor: how many labels it has, its hash, its node.
///
/// Walks at most as many labels as the deepest name of all zones has, so a flood of deep names costs no more than hits.
fn closest_encloser(snapshot: &Snapshot, key: &Key) -> Option<(usize, u64, u32)> {
    let deepest = (key.labels().saturating_sub(1)).min(snapshot.labels_max);
    let mut hashes = [0u64; 128];
    hashes[0] = ROOT;
    for labels in 1..=deepest {
        hashes[labels] = key.step(hashes[labels - 1], labels);
    }
    (0..=deepest).rev().find_map(|labels| {
        snapshot.find(hashes[labels], key.suffix(labels)).map(|number| (labels, hashes[labels], number))
    })
}

fn is_wildcard_of(name: &[u8], parent: &[u8]) -> bool {
    name.strip_prefix(b"\x01*") == Some(parent)
}

/// The hash of the root's name.
const ROOT: u64 = crate::wire::ROOT_HASH;
