//! Client networks with their last answers: which of them count as evidence, and which may still have the answers of a cluster.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use fairway_model::Demand;

use crate::evidence::NETWORKS_MAX;

/// Part of the TTL that a client may send its query later than its answer expires: it waits a little, and queries are counted later.
const LATE: f64 = 0.05;
/// TTLs without a query after which a network is forgotten.
const FORGET_TTLS: u32 = 10;

/// The last answers of client networks.
#[derive(Debug, Default)]
pub(crate) struct Residence {
    networks: HashMap<Demand, Answered>,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    cluster: usize,
    at: Instant,
    /// The longest time between two queries lately.
    pause: Duration,
    /// Time at which it counted as evidence.
    counted: Instant,
}

impl Residence {
    /// Notes an answer. Returns true if it counts as evidence: once per TTL, however often the network sends queries. Of more than
    /// [`NETWORKS_MAX`], those that were seen first count.
    pub(crate) fn note(&mut self, demand: Demand, cluster: usize, at: Instant, ttl: Duration) -> bool {
        if self.networks.len() >= NETWORKS_MAX && !self.networks.contains_key(&demand) {
            let oldest = ttl * FORGET_TTLS;
            self.networks.retain(|_, answered| at.saturating_duration_since(answered.at) < oldest);
            if self.networks.len() >= NETWORKS_MAX {
                return false;
            }
        }
        let Some(answered) = self.networks.get_mut(&demand) else {
            self.networks.insert(demand, Answered { cluster, at, pause: ttl, counted: at });
            return true;
        };
        let pause = at.saturating_duration_since(answered.at);
        let is_counted = at.saturating_duration_since(answered.counted) >= ttl.mul_f64(COUNTED_TTLS);
        let counted = if is_counted { at } else { answered.counted };
        *answered = Answered { cluster, at, pause: answered.pause.mul_f64(PAUSE_PART).max(pause).max(ttl), counted };
        is_counted
    }

    /// Returns the time at which the last client of a cluster should have left it, and the part of all networks that are still there; `None`
    /// if no network is known.
    pub(crate) fn left(&self, cluster: usize, ttl: Duration, now: Instant) -> Option<(Instant, f64)> {
        let end = |answered: &Answered| answered.at + answered.pause + ttl.mul_f64(LATE);
        let here = || self.networks.values().filter(|answered| answered.cluster == cluster).map(end);
        let part = here().filter(|end| *end > now).count() as f64 / self.networks.len() as f64;
        (!self.networks.is_empty()).then(|| (here().max().unwrap_or(now), part))
    }
}

/// TTLs after which a network counts again: its cache may send the next query a little early.
const COUNTED_TTLS: f64 = 0.9;
/// Part of the longest pause that is kept with each query, so that a single long one is forgotten.
const PAUSE_PART: f64 = 0.9;
