//! Homes of slots: which of several clusters of equal cost a slot is to be answered with.

use std::collections::BTreeMap;

use super::{SLOTS, Settings, declared_among};

/// For each set of available clusters of equal cost in its class, the one that the declared split gives a slot.
pub(super) type Homes = Box<[usize]>;

/// Returns the homes of each slot of each class.
pub(super) fn homes(settings: &Settings, available: &[Option<f64>]) -> Vec<Homes> {
    let of_class = |(class, costs): (usize, &Vec<f64>)| {
        let mut sets: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for cluster in (0..costs.len()).filter(|cluster| available[*cluster].is_some() && costs[*cluster].is_finite()) {
            sets.entry(costs[cluster].to_bits()).or_default().push(cluster);
        }
        sets.retain(|_, clusters| clusters.len() > 1);
        let home = |slot: usize, clusters: &[usize]| declared_among(settings, slot, clusters.iter().copied());
        let of_slot = |slot| sets.values().filter_map(|clusters| home(class * SLOTS + slot, clusters)).collect();
        (0..SLOTS).map(of_slot).collect::<Vec<Homes>>()
    };
    settings.costs.iter().enumerate().flat_map(of_class).collect()
}
