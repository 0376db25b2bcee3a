//! Location classes: rankings of the clusters of a group, merged until there are few.

/// Maximum number of location classes of a group.
pub const CLASSES_MAX: usize = 64;
/// Maximum number of rankings that are merged pair by pair. Others first join the most similar of these, so the work stays bounded.
const MERGED_MAX: usize = 1_024;

/// A ranking of the clusters by the clients that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Cost of a unit of demand at each cluster: the rank by distance, from 0.
    pub costs: Vec<f64>,
    /// Part of the weights that each cluster has, from 0 to 1.
    pub weights: Vec<f64>,
    /// Demand of its clients, or any number in proportion to it; at least 0.
    pub demand: f64,
}

/// Location classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// Costs and weights of each class: the mean of its rankings, by demand. Its demand is their sum.
    pub rankings: Vec<Ranking>,
    /// Class of each ranking, in the order in which they were given.
    pub of: Vec<usize>,
}

/// Rankings that are merged.
#[derive(Clone, Debug)]
struct Group {
    ranking: Ranking,
    /// The most similar later group, and how much is lost by merging with it.
    nearest: (usize, f64),
    /// Number of the group that it was merged into.
    merged: Option<usize>,
}

impl Classes {
    /// Merges rankings until at most [`CLASSES_MAX`] are left: each time the two with the least sum of squared differences from their common
    /// mean, by demand and nearness.
    pub fn of(rankings: &[Ranking]) -> Self {
        let mut order: Vec<usize> = (0..rankings.len()).collect();
        order.sort_by(|a, b| rankings[*b].demand.total_cmp(&rankings[*a].demand).then(a.cmp(b)));
        let (large, small) = order.split_at(order.len().min(MERGED_MAX));
        let group = |number: &usize| {
            let mut ranking = rankings[*number].clone();
            // Clients that nothing is known of are no reason to forget their ranking.
            ranking.demand = ranking.demand.max(f64::MIN_POSITIVE);
            Group { ranking, nearest: (0, f64::INFINITY), merged: None }
        };
        let mut groups: Vec<Group> = large.iter().map(group).collect();
        let mut of = vec![0; rankings.len()];
        large.iter().enumerate().for_each(|(place, number)| of[*number] = place);
        for number in small {
            let distance = |place: &usize| groups[*place].ranking.square(&rankings[*number]);
            let nearest = (0..groups.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default();
            groups[nearest].ranking.add(&rankings[*number]);
            of[*number] = nearest;
        }
        merge(&mut groups);
        let mut classes = vec![None; groups.len()];
        let left = (0..groups.len()).filter(|place| groups[*place].merged.is_none());
        let left = left.enumerate().map(|(class, place)| {
            classes[place] = Some(class);
            groups[place].ranking.clone()
        });
        let left = left.collect();
        let class = |mut place: usize| loop {
            match groups[place].merged {
                Some(into) => place = into,
                None => return classes[place].unwrap_or_default(),
            }
        };
        Self { rankings: left, of: of.into_iter().map(class).collect() }
    }
}

/// Clusters that are joined to groups.
#[derive(Clone, Debug)]
pub struct Joined(Vec<u16>);

impl Joined {
    /// Returns this many clusters, each a group of its own.
    pub fn new(count: usize) -> Self {
        Self((0..=u16::MAX).take(count).collect())
    }

    /// Returns the first cluster of the group.
    pub fn group(&mut self, cluster: u16) -> u16 {
        let mut at = cluster;
        while self.0[usize::from(at)] != at {
            let above = self.0[usize::from(self.0[usize::from(at)])];
            self.0[usize::from(at)] = above;
            at = above;
        }
        at
    }

    /// Joins the groups of two clusters.
    pub fn join(&mut self, a: u16, b: u16) {
        let (a, b) = (self.group(a), self.group(b));
        self.0[usize::from(a.max(b))] = a.min(b);
    }
}

impl Ranking {
    fn add(&mut self, other: &Self) {
        let part = other.demand / (self.demand + other.demand);
        let mean = |own: &mut [f64], other: &[f64]| {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += part * (other - *own));
        };
        mean(&mut self.costs, &other.costs);
        mean(&mut self.weights, &other.weights);
        self.demand += other.demand;
    }

    /// Returns the square of the differences that merging with another one makes, by demand.
    fn loss(&self, other: &Self) -> f64 {
        self.demand * other.demand / (self.demand + other.demand) * self.square(other)
    }

    /// Returns how much two rankings differ. Each rank counts half as much as the one before: most demand is at the nearest clusters.
    fn square(&self, other: &Self) -> f64 {
        let nearness = |cost: &f64| (-cost).exp2();
        let costs = self.costs.iter().zip(&other.costs).map(|(a, b)| nearness(a) - nearness(b));
        let weights = self.weights.iter().zip(&other.weights).map(|(a, b)| a - b);
        costs.chain(weights).map(|difference| difference.powi(2)).sum()
    }
}

/// Merges groups into earlier ones until few are left.
fn merge(groups: &mut [Group]) {
    let mut count = groups.len();
    (0..groups.len()).for_each(|place| find_nearest(groups, place));
    while count > CLASSES_MAX {
        let left = (0..groups.len()).filter(|place| groups[*place].merged.is_none());
        let Some(place) = left.min_by(|a, b| groups[*a].nearest.1.total_cmp(&groups[*b].nearest.1)) else { return };
        let other = groups[place].nearest.0;
        let ranking = groups[other].ranking.clone();
        groups[place].ranking.add(&ranking);
        groups[other].merged = Some(place);
        count -= 1;
        for changed in 0..groups.len() {
            let nearest = groups[changed].nearest.0;
            if changed == place || groups[changed].merged.is_none() && (nearest == place || nearest == other) {
                find_nearest(groups, changed);
            } else if changed < place && groups[changed].merged.is_none() {
                let loss = groups[changed].ranking.loss(&groups[place].ranking);
                if loss < groups[changed].nearest.1 {
                    groups[changed].nearest = (place, loss);
                }
            }
        }
    }
}

fn find_nearest(groups: &mut [Group], place: usize) {
    let later = (place + 1..groups.len()).filter(|other| groups[*other].merged.is_none());
    let losses = later.map(|other| (other, groups[place].ranking.loss(&groups[other].ranking)));
    groups[place].nearest = losses.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((place, f64::INFINITY));
}

#[cfg(test)]
mod tests {
    use fairway_model::SplitMix;

    use super::*;

    /// Draws rankings of clusters.
    fn draw(count: usize, clusters: usize, seed: u64) -> Vec<Ranking> {
        let mut random = SplitMix::new(seed);
        let mut ranking = || {
            let mut order: Vec<usize> = (0..clusters).collect();
            (1..clusters).for_each(|place| order.swap(place, random.below(place as u64 + 1) as usize));
            let mut costs = vec![0.0; clusters];
            order.iter().enumerate().for_each(|(rank, cluster)| costs[*cluster] = rank as f64);
            Ranking { costs, weights: vec![1.0 / clusters as f64; clusters], demand: random.below(1_000) as f64 }
        };
        (0..count).map(|_| ranking()).collect()
    }

    #[test]
    fn few_rankings_are_their_own_classes() {
        let rankings = draw(CLASSES_MAX, 7, 1);
        let classes = Classes::of(&rankings);
        assert_eq!(classes.rankings.len(), CLASSES_MAX);
        for (ranking, class) in rankings.iter().zip(&classes.of) {
            assert_eq!(ranking.costs, classes.rankings[*class].costs);
        }
    }

    #[test]
    fn costs_of_a_class_are_the_mean_of_its_rankings() {
        for (seed, count) in [(1, 65), (2, 500), (3, 3_000)] {
            let rankings = draw(count, 9, seed);
            let classes = Classes::of(&rankings);
            assert_eq!((classes.rankings.len(), classes.of.len()), (CLASSES_MAX, count), "seed {seed}");
            for (class, Ranking { costs, .. }) in classes.rankings.iter().enumerate() {
                let own = || rankings.iter().zip(&classes.of).filter(|(_, of)| **of == class).map(|(own, _)| own);
                let demand: f64 = own().map(|own| own.demand).sum();
                for (cluster, cost) in costs.iter().enumerate() {
                    let mean = own().map(|own| own.demand * own.costs[cluster]).sum::<f64>() / demand;
                    assert!((mean - cost).abs() < 1e-9, "seed {seed}: {mean} and {cost}");
                }
            }
        }
    }

    #[test]
    fn rankings_that_differ_in_far_clusters_only_are_merged_first() {
        // 40 pairs that differ in their two farthest clusters, in other places each.
        let mut rankings = draw(40, 12, 4);
        for number in 0..40 {
            let mut other = rankings[number].clone();
            let at = |rank: f64| other.costs.iter().position(|cost| *cost == rank).expect("each rank occurs");
            let (last, before) = (at(11.0), at(10.0));
            other.costs.swap(last, before);
            rankings.push(other);
        }
        let classes = Classes::of(&rankings);
        let nearest = |costs: &[f64]| (0..costs.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b]));
        for (ranking, class) in rankings.iter().zip(&classes.of) {
            assert_eq!(nearest(&ranking.costs), nearest(&classes.rankings[*class].costs));
        }
    }

    #[test]
    fn rankings_with_other_weights_are_merged_last() {
        let mut rankings = draw(CLASSES_MAX - 1, 12, 5);
        let mut other = Ranking { demand: 1_000.0, ..rankings[0].clone() };
        (other.weights[0], other.weights[1]) = (1.0, 0.0);
        let mut farther = rankings[1].clone();
        let at = |rank: f64| farther.costs.iter().position(|cost| *cost == rank).expect("each rank occurs");
        let (last, before) = (at(11.0), at(10.0));
        farther.costs.swap(last, before);
        rankings.extend([other, farther]);
        let classes = Classes::of(&rankings);
        assert_ne!(classes.of[0], classes.of[CLASSES_MAX - 1], "they differ in weights");
        assert_eq!(classes.of[1], classes.of[CLASSES_MAX], "they differ in the two farthest clusters");
    }

    #[test]
    fn no_ranking_has_no_class() {
        assert_eq!(Classes::of(&[]), Classes::default());
    }
}
