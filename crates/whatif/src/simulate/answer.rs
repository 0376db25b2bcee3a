//! What a cache was answered: the clusters that an answer names, and where its clients then go.

/// The clusters that an answer names, by their places, the best one first; none where it names no member.
///
/// Equal are those that name the same clusters, in whichever order: clients take any of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    places: [u8; Self::MAX],
    count: u8,
}

impl Named {
    /// Most that an answer names.
    const MAX: usize = fairway_model::Pool::ANSWERS_MAX as usize;

    /// How many there are.
    pub(super) fn len(self) -> usize {
        usize::from(self.count)
    }

    /// The best one.
    pub(super) fn first(self) -> Option<usize> {
        self.iter().next()
    }

    /// All of them.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        self.places.into_iter().take(usize::from(self.count)).map(usize::from)
    }

    /// Those that clients come to: who serves, since a client tries the next where one does not; all where none does.
    pub(super) fn reached(self, serves: impl Fn(usize) -> bool) -> Self {
        let serving: Self = self.iter().filter(|place| serves(*place)).collect();
        if serving.count == 0 { self } else { serving }
    }

    /// The mean of what is said of each; 0 where nobody is named.
    pub(super) fn mean(self, of: impl Fn(usize) -> f64) -> f64 {
        if self.count == 0 { 0.0 } else { self.iter().map(of).sum::<f64>() / f64::from(self.count) }
    }

    /// A bit a cluster.
    fn bits(self) -> u64 {
        self.iter().fold(0, |bits, place| bits | 1 << (place % 64))
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl FromIterator<usize> for Named {
    /// Those over what an answer can name are left out.
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        let mut named = Self::default();
        for place in places.into_iter().take(Self::MAX) {
            named.places[named.len()] = place as u8;
            named.count += 1;
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_to_those_of_an_answer_that_serve_and_to_all_where_none_does() {
        let named: Named = [3, 1].into_iter().collect();
        assert_eq!(named.first(), Some(3));
        assert_eq!(named.reached(|place| place != 3).iter().collect::<Vec<_>>(), [1]);
        assert_eq!(named.reached(|_| false).iter().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(Named::default().reached(|_| true).len(), 0);
    }

    #[test]
    fn answers_that_name_the_same_clusters_are_equal() {
        let [named, turned, other] = [[3, 1], [1, 3], [1, 2]].map(|places| places.into_iter().collect::<Named>());
        assert_eq!(named, turned);
        assert_ne!(named, other);
        assert_ne!(named, Named::default());
    }

    #[test]
    fn a_mean_is_over_those_that_are_named() {
        let named: Named = [0, 2].into_iter().collect();
        assert_eq!(named.mean(|place| place as f64), 1.0);
        assert_eq!(Named::default().mean(|_| 1.0), 0.0);
    }
}
