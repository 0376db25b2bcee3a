//! Slots without clients.

use super::{Controller, SLOTS, score};

impl Controller {
    /// Divides slots without clients as the best division divides their class, so that new clients arrive where others leave. Clusters that
    /// a new client may overload get none.
    pub(super) fn place_empty(&mut self, parts: &[Vec<f64>], demand: f64) {
        let most = self.estimate.largest_new(demand);
        let clusters = &self.settings.clusters;
        let has_room: Vec<bool> =
            clusters.iter().map(|cluster| 0.5 * (cluster.capacity - cluster.target) >= most).collect();
        for number in 0..self.estimate.slots.len() {
            if !self.estimate.slots[number].is_empty() {
                continue;
            }
            let costs = &self.settings.costs[number / SLOTS];
            let possible = |cluster: &usize| self.available[*cluster].is_some() && costs[*cluster].is_finite();
            let part = |cluster: usize| if has_room[cluster] { parts[number / SLOTS][cluster] } else { 0.0 };
            let all = || (0..clusters.len()).filter(possible);
            let score = |cluster: usize| score(number, cluster, part(cluster));
            let divided = all().filter(|cluster| part(*cluster) > 0.0).max_by(|a, b| score(*a).total_cmp(&score(*b)));
            let cheapest = || all().filter(|c| has_room[*c]).min_by(|a, b| costs[*a].total_cmp(&costs[*b]));
            let largest = || all().max_by(|a, b| clusters[*a].capacity.total_cmp(&clusters[*b].capacity));
            if let Some(cluster) = divided.or_else(cheapest).or_else(largest) {
                self.estimate.slots[number].cluster = cluster;
            }
        }
    }
}
