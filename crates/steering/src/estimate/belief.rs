//! Reports that do not fit to what is known of other clusters.

use super::{Estimate, FADE_TTLS};

impl Estimate {
    /// Lets slots at silent clusters become as others are, if the last report was of a load that is quite unlike theirs: no client may have
    /// caused it, and it may have ended.
    pub(super) fn fade_unlike(&mut self, now: f64, period: f64) {
        let silences: Vec<f64> = (0..self.levels.len()).map(|cluster| self.silence(cluster, now, period)).collect();
        let (mut demand, mut weights) = (0.0, vec![0.0; silences.len()]);
        for slot in self.slots.iter().filter(|slot| slot.is_known) {
            weights[slot.cluster] += slot.prior;
            demand += if silences[slot.cluster] > 0.0 { 0.0 } else { slot.demand };
        }
        let weight: f64 = weights.iter().zip(&silences).filter(|(_, s)| **s <= 0.0).map(|(weight, _)| weight).sum();
        if demand <= 0.0 || weight <= 0.0 {
            return;
        }
        let typical = demand / weight;
        let step = period / (FADE_TTLS * self.ttl);
        for cluster in (0..silences.len()).filter(|cluster| silences[*cluster] > 0.0) {
            let alike = typical * weights[cluster];
            let load = self.levels[cluster].as_ref().map_or(alike, |level| level.load);
            if load <= UNLIKE * alike && alike <= UNLIKE * load {
                continue;
            }
            let part = step / (1.0 - silences[cluster] + step);
            for slot in self.slots.iter_mut().filter(|slot| slot.is_known && slot.cluster == cluster) {
                slot.demand += part * (typical * slot.prior - slot.demand);
            }
        }
    }

    /// Forgets first reports that are far below those of clusters with as much evidence: they were not comparable before.
    pub(super) fn reject_first(&mut self, now: f64) {
        let is_far_below = |cluster: usize| {
            let (level, alike) = (self.levels[cluster].as_ref(), self.alike(cluster, now));
            level.zip(alike).is_some_and(|(level, alike)| level.load < BELIEVABLE * alike)
        };
        let rejected: Vec<usize> = (0..self.levels.len()).filter(|cluster| is_far_below(*cluster)).collect();
        for cluster in rejected {
            self.levels[cluster] = None;
            self.slots.iter_mut().filter(|slot| slot.cluster == cluster).for_each(|slot| slot.is_known = false);
        }
    }

    /// Returns true if a report is not far below the load that is known to be there: the estimate, but at most what as much evidence has at
    /// the other clusters. Load that no client caused may have ended.
    pub(crate) fn is_believable(&self, cluster: usize, load: f64, arrived: f64) -> bool {
        let at = arrived - self.age();
        let known = self.levels[cluster].as_ref();
        let known = known.map(|level| self.load_at(cluster, at).min(level.load - level.variance.sqrt()));
        let least = [known, self.alike(cluster, at)].into_iter().flatten().reduce(f64::min);
        least.is_none_or(|least| load >= BELIEVABLE * least)
    }

    /// Returns the load that as much evidence as a cluster has at a time has at the other clusters; `None` if no other one reports.
    fn alike(&self, cluster: usize, at: f64) -> Option<f64> {
        let weight = |cluster: usize| -> f64 {
            self.slots.iter().map(|slot| slot.part_at(cluster, at, self.ttl) * slot.evidence()).sum()
        };
        let others = (0..self.levels.len()).filter(|other| *other != cluster);
        let others = others.filter_map(|other| Some((self.levels[other].as_ref()?.load, weight(other))));
        let (load, all) = others.fold((0.0, 0.0), |sum, (load, weight)| (sum.0 + load, sum.1 + weight));
        (all > 0.0).then(|| load / all * weight(cluster))
    }
}

/// Factor by which the load of a silent cluster is more, or less, than that of as many clients elsewhere for it to be forgotten.
const UNLIKE: f64 = 2.0;
/// Part of the known load that a report must have to be believed.
const BELIEVABLE: f64 = 0.15;
