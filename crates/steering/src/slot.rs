//! A slot: where its clients are, and its demand.

/// State of a slot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    /// Cluster that it is answered with.
    pub(crate) cluster: usize,
    /// Its last move.
    pub(crate) moved: Option<Moved>,
    /// Demand, in the unit of the capacities.
    pub(crate) demand: f64,
    /// Variance of the demand.
    pub(crate) variance: f64,
    /// Number of caches: each sends one query per TTL. It says how its clients follow a move.
    pub(crate) caches: f64,
    /// Queries in the present TTL.
    pub(crate) queries: u32,
    /// Evidence of demand: the number of client networks, or the parts of one that their sources' weight allows.
    pub(crate) weight: f64,
    /// The same of other servers.
    pub(crate) elsewhere: f64,
    /// Expected number of client networks: the evidence, and those that nothing is known of.
    pub(crate) prior: f64,
    /// Evidence in the present TTL.
    pub(crate) counted: f64,
    /// False until a report says something about it.
    pub(crate) is_known: bool,
}

/// The last move of a slot. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moved {
    pub(crate) from: usize,
    pub(crate) at: f64,
    /// First query after it.
    pub(crate) first_query: Option<f64>,
}

impl Slot {
    pub(crate) fn new(cluster: usize) -> Self {
        Self {
            cluster,
            moved: None,
            demand: 0.0,
            variance: 0.0,
            caches: 0.0,
            queries: 0,
            weight: 0.0,
            elsewhere: 0.0,
            prior: 0.0,
            counted: 0.0,
            is_known: false,
        }
    }

    /// Returns which part of the slot is at a cluster at a time. The caches follow a move within a TTL, a single one with its first query.
    pub(crate) fn part_at(&self, cluster: usize, at: f64, ttl: f64) -> f64 {
        let Some(moved) = self.moved else { return if self.cluster == cluster { 1.0 } else { 0.0 } };
        let arrived = if (0.5..1.5).contains(&self.caches) && self.elsewhere < 0.5 {
            if moved.first_query.is_some_and(|first| first <= at) { 1.0 } else { 0.0 }
        } else {
            ((at - moved.at) / ttl).clamp(0.0, 1.0)
        };
        let here = if self.cluster == cluster { arrived } else { 0.0 };
        here + if moved.from == cluster { 1.0 - arrived } else { 0.0 }
    }

    /// True while caches may still have the answer from before its last move.
    pub(crate) fn is_moving(&self, now: f64, ttl: f64) -> bool {
        self.moved.is_some_and(|moved| now < moved.at + MOVE_TTLS * ttl)
    }

    /// Returns the evidence of all servers.
    pub(crate) fn evidence(&self) -> f64 {
        self.weight + self.elsewhere
    }

    /// True if it has no clients.
    pub(crate) fn is_empty(&self) -> bool {
        self.demand == 0.0
    }

    /// Bounds the variance to that of a slot of its demand, or of its weight if that is more, of which nothing is known.
    pub(crate) fn bound_variance(&mut self, typical: f64) {
        let size = self.demand.max(typical * self.prior);
        self.variance = self.variance.min(SPREAD * size * size / self.evidence().max(1.0));
    }

    pub(crate) fn set_typical(&mut self, typical: f64) {
        self.demand = typical * self.prior;
        self.variance = SPREAD * self.demand * self.demand / self.prior.max(1.0);
        self.is_known = self.demand > 0.0;
    }
}

/// Knowledge of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlotState {
    /// Demand, in the unit of the capacities.
    pub demand: f32,
    /// Variance of the demand.
    pub variance: f32,
    /// Evidence of demand: number of client networks.
    pub weight: f32,
}

/// TTLs within which nearly every cache has sent a query: they may do so a little late.
pub(crate) const MOVE_TTLS: f64 = 1.1;
/// Variance of the demand of a cache, relative to the square of the mean. By Zipf's law, 1,000 caches have 2 with an exponent of 0.6 and
/// 8 with 0.8. Nearness was about the same from 1 to 16.
pub(crate) const SPREAD: f64 = 4.0;
