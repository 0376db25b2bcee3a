//! An answer as a cache sees it: the clusters in it, and where its clients go.

/// Clusters in an answer by their index in the scenario, the preferred one first. Empty if the answer has no address of a cluster.
///
/// Answers with the same clusters in another order are equal: clients use any of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    clusters: [u8; Self::MAX],
    count: u8,
}

impl Answer {
    /// Largest number of clusters in an answer.
    const MAX: usize = fairway_model::Pool::ANSWERS_MAX as usize;

    /// Returns the number of clusters.
    pub(super) fn len(self) -> usize {
        usize::from(self.count)
    }

    /// Returns the preferred cluster.
    pub(super) fn first(self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns all clusters.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.clusters.into_iter().take(usize::from(self.count)).map(usize::from)
    }

    /// True if the answer has a cluster, and `is_up` is true for all of its clusters.
    pub fn is_usable(self, is_up: impl Fn(usize) -> bool) -> bool {
        self.count > 0 && self.iter().all(is_up)
    }

    /// Returns the clusters that clients reach: those that serve, since a client tries the next address if one fails. If none
    /// serves, it is all of them.
    pub(super) fn reached(self, serves: impl Fn(usize) -> bool) -> Self {
        let serving: Self = self.iter().filter(|cluster| serves(*cluster)).collect();
        if serving.count == 0 { self } else { serving }
    }

    /// Returns the mean of a figure over the clusters; 0 if there is none.
    pub(super) fn mean(self, figure: impl Fn(usize) -> f64) -> f64 {
        if self.count == 0 { 0.0 } else { self.iter().map(figure).sum::<f64>() / f64::from(self.count) }
    }

    /// Returns a set of the clusters with one bit each. A scenario has at most 64.
    fn bits(self) -> u64 {
        self.iter().fold(0, |bits, cluster| bits | 1 << (cluster % 64))
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl FromIterator<usize> for Answer {
    /// Takes as many clusters as fit into an answer.
    fn from_iter<I: IntoIterator<Item = usize>>(clusters: I) -> Self {
        let mut answer = Self::default();
        for cluster in clusters.into_iter().take(Self::MAX) {
            answer.clusters[answer.len()] = cluster as u8;
            answer.count += 1;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_reach_serving_clusters_or_all_if_none_serves() {
        let answer: Answer = [3, 1].into_iter().collect();
        assert_eq!(answer.first(), Some(3));
        assert_eq!(answer.reached(|cluster| cluster != 3).iter().collect::<Vec<_>>(), [1]);
        assert_eq!(answer.reached(|_| false).iter().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(Answer::default().reached(|_| true).len(), 0);
    }

    #[test]
    fn answers_with_the_same_clusters_are_equal() {
        let [answer, reversed, other] = [[3, 1], [1, 3], [1, 2]].map(|list| list.into_iter().collect::<Answer>());
        assert_eq!(answer, reversed);
        assert_ne!(answer, other);
        assert_ne!(answer, Answer::default());
    }

    #[test]
    fn mean_is_over_the_clusters_of_the_answer() {
        let answer: Answer = [0, 2].into_iter().collect();
        assert_eq!(answer.mean(|cluster| cluster as f64), 1.0);
        assert_eq!(Answer::default().mean(|_| 1.0), 0.0);
    }
}
