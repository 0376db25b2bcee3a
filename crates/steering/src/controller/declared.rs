//! The declared split: the cluster of each slot by weights, and its homes, which decide between clusters of equal cost.

use std::{cmp::Reverse, collections::BTreeMap};

use fairway_model::mix;

use super::{SLOTS, Settings};

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

/// Returns the cluster of a slot by the declared split: the one with the highest score, so that each gets a part that is proportional to its
/// weight.
pub(super) fn declared(settings: &Settings, slot: usize) -> usize {
    let costs = &settings.costs[slot / SLOTS];
    let possible = (0..costs.len()).filter(|cluster| costs[*cluster].is_finite());
    declared_among(settings, slot, possible).unwrap_or_default()
}

/// Returns the cluster of a slot if the declared split is one of some clusters.
pub(super) fn declared_among(settings: &Settings, slot: usize, clusters: impl Iterator<Item = usize>) -> Option<usize> {
    let key = |cluster: &usize| score(slot, *cluster, settings.weights[slot / SLOTS][*cluster]);
    clusters.max_by(|a, b| key(a).total_cmp(&key(b)).then(Reverse(a).cmp(&Reverse(b))))
}

/// Weighted rendezvous hashing: -weight / ln(u), where u is a uniform hash of slot and cluster between 0 and 1.
pub(super) fn score(slot: usize, cluster: usize, weight: f64) -> f64 {
    let hash = mix(mix(slot as u64) ^ (cluster as u64).rotate_left(32));
    let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -weight / uniform.ln()
}
