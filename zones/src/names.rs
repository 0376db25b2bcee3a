//! Names of a snapshot, to find those that a new configuration no longer has.

use std::{collections::BTreeMap, sync::Arc};

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
        self.text_node(name).is_some()
    }

    /// Returns the node of zone files of a name in wire form, if it has records.
    fn text_node(&self, name: &[u8]) -> Option<Node<'_>> {
        let layer = &self.text.layer;
        let number = layer.find(self.key().hash(name), name)?;
        Some(layer.entries.node(number)).filter(|node| node.set_count() > 0)
    }

    fn text_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let layer = &self.text.layer;
        layer.table.numbers().map(|number| layer.entries.node(number))
    }

    /// Returns true if both snapshots have the same zone files, which were not read again in between.
    pub fn has_text_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
    }

    /// Returns the names of zone files that have records, in no order and without apexes: the apex of the zone, and the name in wire form
    /// and lower case.
    pub fn text_names(&self) -> impl Iterator<Item = (&Name, &[u8])> {
        let named = self.text_nodes().filter(|node| node.set_count() > 0 && !node.is(Node::APEX));
        named.map(|node| (&self.zone(node.zone()).origin, node.name()))
    }

    /// Returns for each zone how many record sets of its file another snapshot has not, has otherwise, and has alone.
    pub fn text_changes(&self, before: &Self) -> BTreeMap<Name, [usize; 3]> {
        let mut changes = BTreeMap::<_, [usize; 3]>::new();
        for (of, other, alone) in [(self, before, 0), (before, self, 2)] {
            for (node, set) in of.text_nodes().flat_map(|node| node.sets().map(move |set| (node, set))) {
                let found = other.text_node(node.name()).and_then(|node| node.set(set.rtype()));
                let is_changed = alone == 0 && found.is_some_and(|found| found.records() != set.records());
                if found.is_none() || is_changed {
                    changes.entry(of.zone(node.zone()).origin.clone()).or_default()
                        [if is_changed { 1 } else { alone }] += 1;
                }
            }
        }
        changes
    }
}
