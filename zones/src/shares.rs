//! Tables of load control, compiled for one snapshot: the number of the cluster of each slot.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fairway_model::{Backend, Demand, Shares, SlotTable, mix, stable_hash};

use crate::steer::LoadClasses;

/// Numbers of the backends of pools that balance by load.
pub(crate) type BackendNumbers = HashMap<Backend, u16>;

/// Number of a cluster that is not balanced.
pub(crate) const UNBALANCED: u16 = u16::MAX;

/// Number of the cluster of each slot of a location class; [`UNBALANCED`] for none.
pub(crate) type SlotClusters = [u16; Demand::SLOTS];

/// The result of load control, compiled for one snapshot.
#[derive(Debug)]
pub(crate) struct CompiledShares {
    /// As load control gave it, for the next snapshot.
    pub(crate) shares: Arc<Shares>,
    classes: Arc<LoadClasses>,
    /// By class. Empty without tables.
    tables: Box<[SlotClusters]>,
    /// Part of the tables in the id of the runtime state.
    pub(crate) id: u64,
}

impl CompiledShares {
    /// Compiles the tables. A class takes that of the most similar one: after a change of the configuration, none may have the
    /// same one.
    pub(crate) fn new(numbers: &BackendNumbers, classes: &Arc<LoadClasses>, shares: Arc<Shares>) -> Self {
        let mut by_cluster: HashMap<&Backend, Vec<usize>> = HashMap::new();
        for (number, table) in shares.tables.iter().enumerate() {
            table.costs.iter().for_each(|(cluster, _)| by_cluster.entry(cluster).or_default().push(number));
        }
        let mut compiled = Vec::with_capacity(classes.count());
        for group in classes.groups().iter().filter(|_| !shares.tables.is_empty()) {
            let known = group.clusters.iter().filter_map(|cluster| by_cluster.get(cluster)).flatten();
            let known: BTreeSet<usize> = known.copied().collect();
            compiled.extend((0..group.costs.len()).map(|class| {
                let nearest = known.iter().min_by_key(|table| shares.tables[**table].distance(group.costs_of(class)));
                let number = |slot: usize| {
                    let table = &shares.tables[*nearest?];
                    let (cluster, _) = table.costs.get(usize::from(*table.slots.get(slot)?))?;
                    numbers.get(cluster).copied()
                };
                std::array::from_fn(|slot| number(slot).unwrap_or(UNBALANCED))
            }));
        }
        let id = shares.tables.iter().fold(0, |id: u64, table| id.wrapping_add(table_id(table)));
        Self { classes: Arc::clone(classes), tables: compiled.into(), id, shares }
    }

    /// Returns the clusters of the slots of a location class, of a pool whose first class has the number `begin`; `None` without a table.
    #[inline]
    pub(crate) fn table(&self, begin: u32, class: u16) -> Option<&SlotClusters> {
        self.tables.get(self.classes.number(begin, class))
    }
}

/// Returns the part of a table in the id of the runtime state.
fn table_id(table: &SlotTable) -> u64 {
    let costs = table.costs.iter().map(|(cluster, of)| stable_hash(&(cluster, of.cost, of.weight)));
    let names: Vec<u64> = table.costs.iter().map(|(cluster, _)| stable_hash(cluster)).collect();
    let slots = table.slots.iter().map(|slot| names.get(usize::from(*slot)).copied().unwrap_or_default());
    costs.chain(slots).fold(0, |id, part| mix(id ^ part))
}
