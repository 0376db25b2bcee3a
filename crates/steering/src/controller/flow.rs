//! Demand that the best division has elsewhere.

use super::{declared::Homes, loads::Loads};

/// Slots that are one source of the best division: those of a class at a cluster that have the same homes, or one large slot.
pub(super) struct Bundle {
    pub(super) class: usize,
    pub(super) cluster: usize,
    pub(super) homes: Homes,
    /// True for one large slot, which goes to one cluster.
    pub(super) is_whole: bool,
    pub(super) slots: Vec<usize>,
    pub(super) demand: f64,
}

/// Demand of a bundle that would be better elsewhere.
pub(super) struct Flow {
    pub(super) bundle: usize,
    pub(super) to: usize,
    pub(super) demand: f64,
    /// Cost that a unit saves.
    pub(super) gain: f64,
    /// True if it is worth changed answers.
    pub(super) is_followed: bool,
}

/// Follows only flows from clusters that are to be relieved, and from those that must make room for what these give away.
pub(super) fn follow_relief(flows: &mut [Flow], bundles: &[Bundle], loads: &Loads) {
    let count = loads.budgets.len();
    let mut gives: Vec<bool> = (0..count).map(|cluster| loads.is_to_be_relieved(cluster)).collect();
    let mut has_grown = true;
    while std::mem::take(&mut has_grown) {
        let mut after = loads.expected.clone();
        let given = flows.iter().filter(|flow| gives[bundles[flow.bundle].cluster]);
        given.for_each(|flow| after[flow.to] += flow.demand);
        for cluster in (0..count).filter(|cluster| after[*cluster] > loads.bounds[*cluster]) {
            has_grown |= !std::mem::replace(&mut gives[cluster], true);
        }
    }
    flows.iter_mut().for_each(|flow| flow.is_followed = gives[bundles[flow.bundle].cluster]);
}
