//! Names of a snapshot, to find those that a new configuration no longer has.

use std::sync::Arc;

use fairway_model::Name;

use crate::{entries::Node, snapshot::Snapshot};

impl Snapshot {
    /// Returns true if a name in wire form has records, or a pool answers it.
    pub fn has_name(&self, name: &[u8]) -> bool {
        let found = self.find(self.key().hash(name), name);
        found.is_some_and(|(_, node)| node.set_count() > 0 || node.steered() > 0)
    }

    /// Returns true if zone files have records of a name in wire form.
    pub fn has_text_name(&self, name: &[u8]) -> bool {
        let layer = &self.text.layer;
        let found = layer.find(self.key().hash(name), name);
        found.is_some_and(|number| layer.entries.node(number).set_count() > 0)
    }

    /// Returns true if both snapshots have the same zone files, which were not read again in between.
    pub fn has_text_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
    }

    /// Returns the names of zone files that have records, in no order and without apexes: the apex of the zone, and the name in wire form
    /// and lower case.
    pub fn text_names(&self) -> impl Iterator<Item = (&Name, &[u8])> {
        let layer = &self.text.layer;
        let nodes = layer.table.numbers().map(|number| layer.entries.node(number));
        let named = nodes.filter(|node| node.set_count() > 0 && !node.is(Node::APEX));
        named.map(|node| (&self.zone(node.zone()).origin, node.name()))
    }
}
