//! The demands that are known one by one: what each carries, where its last answer sent it, how often it asks.
//!
//! Bounded: the table holds [`TRACKED_MAX`]. Where there are more, the large ones stay and of the others an even sample,
//! by their hash, each of which stands for those that are left out. What asks often is counted beside the table, so that
//! a large one that the sample passes over comes in. When fewer ask again, the sample grows back.

use std::collections::{BTreeMap, HashMap};

use fairway_model::Demand;

use super::DemandKind;

/// Most demands that are known one by one.
pub(super) const TRACKED_MAX: usize = 4_096;
/// Most demands outside of the table whose queries are counted.
const COUNTED_MAX: usize = 1_024;
/// How much longer than the TTL a pause may be, as a part of it and in seconds beside, before it says that an answer was kept: a
/// client may wait a little, and queries are not seen at once.
const JITTER: (f64, f64) = (0.1, 0.5);
/// Maximum number of caches of a demand. It says how fast the demand follows an answer, not how large it is.
const CACHES_MAX: f64 = 256.0;
/// Maximum load of the demands that no report covers yet, as a part of the measured load.
const NEW_MAX: f64 = 0.1;
/// TTLs after the first demand from which on that holds.
const SETTLED_TTLS: f64 = 3.0;
/// Caches that make a demand one of the large ones.
const MANY_CACHES: f64 = 8.0;

/// One demand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tracked {
    /// What it and those it stands for carry, in the unit of the capacities.
    pub(super) load: f64,
    /// Variance of that.
    pub(super) doubt: f64,
    /// Where it was sent last.
    pub(super) at: Option<usize>,
    /// Where it was before that.
    pub(super) from: Option<usize>,
    /// When it was first sent there, in seconds.
    pub(super) moved: f64,
    /// When it asked last.
    pub(super) asked: f64,
    /// Mean time between its queries.
    pub(super) gap: f64,
    /// The longest time between two queries of late.
    pub(super) pause: f64,
    /// How many demands it stands for: more than one where only a sample of the small ones is known.
    pub(super) stands: f64,
    /// Part of the weight of a source, which all its demands share.
    pub(super) weight: f64,
    /// Whether a report told of it; until then it is taken for a typical one.
    pub(super) measured: bool,
    /// Who asks for it.
    pub(super) kind: DemandKind,
}

impl Tracked {
    fn new(load: f64, stands: f64, at: f64, ttl: f64) -> Self {
        let load = load.max(1e-9) * stands;
        Self {
            load,
            doubt: load * load,
            at: None,
            from: None,
            moved: at,
            asked: at,
            gap: ttl,
            pause: ttl,
            stands,
            weight: 1.0,
            measured: false,
            kind: DemandKind::Proven,
        }
    }

    /// Number of typical demands that it counts for until a report covers it.
    fn count(&self) -> f64 {
        self.stands * self.weight
    }

    /// How many caches ask for it: each asks once a TTL.
    pub(super) fn caches(&self, ttl: f64) -> f64 {
        (ttl / self.gap.max(1e-3)).clamp(1.0, CACHES_MAX)
    }

    /// Which part of it was at a cluster at a time. One cache moves as a whole, many over a TTL.
    pub(super) fn part(&self, cluster: usize, at: f64, ttl: f64) -> f64 {
        if self.at != Some(cluster) && self.from != Some(cluster) {
            return 0.0;
        }
        let caches = self.caches(ttl);
        let arrived = if at < self.moved {
            0.0
        } else if caches < 1.5 {
            1.0
        } else {
            ((at - self.moved) / ttl + 1.0 / caches).min(1.0)
        };
        let here = if self.at == Some(cluster) { arrived } else { 0.0 };
        here + if self.from == Some(cluster) { 1.0 - arrived } else { 0.0 }
    }

    /// How the part of it at a cluster changed between two times, if it had been known where it was.
    pub(super) fn step(&self, cluster: usize, before: f64, now: f64, ttl: f64) -> f64 {
        if self.from.is_none() || self.moved + ttl <= before {
            return 0.0;
        }
        self.part(cluster, now, ttl) - self.part(cluster, before, ttl)
    }

    /// One more query. How often a demand is asked for does not tell how large it is: anybody can repeat a query.
    fn ask(&mut self, at: f64) {
        self.gap += 0.2 * (at - self.asked - self.gap);
        self.pause = (self.pause * 0.9).max(at - self.asked);
        self.asked = at;
    }
}

/// All that are known.
#[derive(Debug)]
pub(super) struct Demands {
    tracked: BTreeMap<Demand, Tracked>,
    /// Queries of others, by demand, since the last time they were forgotten.
    counted: HashMap<Demand, u32>,
    counted_since: f64,
    /// Of the small ones, one in two to the power of this is known.
    thinned: u32,
    /// Seconds from one query of a cache to the next, as they are sampled.
    pub(super) ttl: f64,
    /// Mean load of a demand of weight 1; while none is known, the last one.
    typical: f64,
    /// Since when it is known who asks, in seconds: from the start on, and after all were forgotten, from the first query on. None
    /// between.
    pub(super) since: Option<f64>,
    /// When the first of the known demands of proven sources came.
    first: Option<f64>,
    /// True [`SETTLED_TTLS`] after that: all clients have sent queries by then, and all clusters reports.
    is_settled: bool,
}

impl Demands {
    pub(super) fn new(ttl: f64) -> Self {
        Self {
            tracked: BTreeMap::new(),
            counted: HashMap::new(),
            counted_since: 0.0,
            thinned: 0,
            ttl,
            typical: 0.0,
            since: Some(0.0),
            first: None,
            is_settled: false,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Demand, &Tracked)> {
        self.tracked.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tracked> {
        self.tracked.values_mut()
    }

    pub(super) fn get(&self, demand: Demand) -> Option<&Tracked> {
        self.tracked.get(&demand)
    }

    /// Whether every client has asked at a time, and so much longer: each asks once a TTL. Before, most of the load is where nobody
    /// knows. Where nobody is known, nothing is to be waited for.
    pub(super) fn have_all_asked(&self, at: f64, longer: f64) -> bool {
        self.since.is_none_or(|since| at >= since + self.ttl + longer)
    }

    /// Takes over what was known before a restart.
    pub(super) fn restore(&mut self, demand: Demand, load: f64, doubt: f64, at: usize) {
        if self.tracked.len() < TRACKED_MAX {
            let new = Tracked::new(load, 1.0, 0.0, self.ttl);
            let long_ago = -1e9;
            self.tracked.insert(demand, Tracked { doubt, at: Some(at), moved: long_ago, measured: true, ..new });
            (self.since, self.first) = (Some(long_ago), Some(long_ago));
        }
    }

    /// One query of a proven source, and where its answer leads.
    #[cfg(test)]
    pub(super) fn asked(&mut self, demand: Demand, cluster: usize, at: f64) {
        self.asked_as((DemandKind::Proven, 1.0), demand, cluster, at);
    }

    /// Adds a query: the kind of its source, the demand's weight there, and the cluster of the answer.
    pub(super) fn asked_as(&mut self, (kind, weight): (DemandKind, f64), demand: Demand, cluster: usize, at: f64) {
        if !self.tracked.contains_key(&demand) && !self.admit(kind, demand, at) {
            return;
        }
        let Some(it) = self.tracked.get_mut(&demand) else { return };
        match (kind, it.kind) {
            (DemandKind::Proven, _) => it.kind = kind,
            // What is known of it is better.
            (DemandKind::StandIn, DemandKind::Proven) => return,
            (DemandKind::StandIn, DemandKind::StandIn) => {}
        }
        it.weight = weight;
        if at > it.asked {
            it.ask(at);
        }
        if it.at != Some(cluster) {
            it.from = it.at;
            it.at = Some(cluster);
            it.moved = at;
        }
    }

    /// Lets a new demand into the table; whether it is in.
    fn admit(&mut self, kind: DemandKind, demand: Demand, at: f64) -> bool {
        if kind == DemandKind::StandIn {
            return self.admit_stand_in(demand, at);
        }
        let stands = if self.is_in_sample(demand) { f64::from(1u32 << self.thinned.min(31)) } else { 1.0 };
        if !self.is_in_sample(demand) && !self.asks_often(demand, at) {
            return false;
        }
        self.since.get_or_insert(at);
        self.first.get_or_insert(at);
        while self.tracked.len() >= TRACKED_MAX {
            self.thin();
        }
        if self.thinned > 0 && stands > 1.0 && !self.is_in_sample(demand) {
            return false;
        }
        self.tracked.insert(demand, Tracked::new(0.0, stands, at, self.ttl));
        true
    }

    /// Lets a demand into the table that no proven source asks for, as long as there is room; whether it is in.
    fn admit_stand_in(&mut self, demand: Demand, at: f64) -> bool {
        if self.tracked.len() >= TRACKED_MAX {
            return false;
        }
        let new = Tracked::new(0.0, 1.0, at, self.ttl);
        self.tracked.insert(demand, Tracked { kind: DemandKind::StandIn, ..new });
        true
    }

    /// Forgets a demand that no proven source asks for. The others at its cluster carry what it carried: the load is still there. Before
    /// most clients are known, reports tell better which of them carry it.
    pub(super) fn forget(&mut self, demand: Demand) {
        if self.get(demand).is_none_or(|it| it.kind == DemandKind::Proven) {
            return;
        }
        let Some(gone) = self.tracked.remove(&demand) else { return };
        let here = |it: &&mut Tracked| it.at == gone.at;
        let others: f64 = self.tracked.values_mut().filter(here).map(|it| it.load).sum();
        let factor = if self.is_settled && others > 0.0 { 1.0 + gone.load / others } else { 1.0 };
        for it in self.tracked.values_mut().filter(here) {
            it.load *= factor;
            it.doubt *= factor * factor;
        }
    }

    /// Whether a demand is in the sample of the small ones.
    fn is_in_sample(&self, demand: Demand) -> bool {
        // A hash that is even in all bits; the multiplication makes it so for any caller (Fibonacci hashing).
        let even = demand.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        even.leading_zeros() >= self.thinned
    }

    /// Counts a query of a demand outside of the table; whether it has as many caches as the large ones.
    fn asks_often(&mut self, demand: Demand, at: f64) -> bool {
        if at - self.counted_since > self.ttl {
            self.counted.clear();
            self.counted_since = at;
        }
        if self.counted.len() >= COUNTED_MAX && !self.counted.contains_key(&demand) {
            return false;
        }
        let count = self.counted.entry(demand).or_insert(0);
        *count += 1;
        f64::from(*count) >= MANY_CACHES
    }

    /// Halves the sample of the small ones. The largest quarter of the table stays whatever its hash.
    fn thin(&mut self) {
        self.thinned += 1;
        let mut loads: Vec<f64> = self.tracked.values().map(|it| it.load / it.stands).collect();
        loads.sort_unstable_by(|a, b| b.total_cmp(a));
        let large = loads.get(TRACKED_MAX / 4).copied().unwrap_or(0.0);
        let sampled: Vec<Demand> = self.tracked.keys().copied().filter(|d| self.is_in_sample(*d)).collect();
        self.tracked.retain(|demand, it| {
            let is_large = it.load / it.stands > large;
            let stays = sampled.binary_search(demand).is_ok();
            if is_large {
                (it.load, it.doubt, it.stands) = (it.load / it.stands, it.doubt / it.stands / it.stands, 1.0);
            } else if stays {
                (it.load, it.doubt, it.stands) = (it.load * 2.0, it.doubt * 4.0, it.stands * 2.0);
            }
            is_large || stays
        });
    }

    /// Those at a cluster whose report is believed are known by it from now on.
    pub(super) fn measure(&mut self, cluster: usize, at: f64) {
        let ttl = self.ttl;
        for it in self.tracked.values_mut().filter(|it| !it.measured) {
            it.measured = it.part(cluster, at, ttl) > 0.0;
        }
    }

    /// Sets demands that no report covers to the typical load. Once settled, together to [`NEW_MAX`] of the measured load at most: more would
    /// have been reported.
    pub(super) fn guess(&mut self, now: f64) {
        self.is_settled = self.first.is_some_and(|first| now >= first + SETTLED_TTLS * self.ttl);
        let limit = if self.is_settled { NEW_MAX } else { f64::INFINITY };
        let (measured, new): (Vec<&Tracked>, Vec<&Tracked>) = self.tracked.values().partition(|it| it.measured);
        let count = |them: &[&Tracked]| them.iter().map(|it| it.count()).sum::<f64>();
        let (load, known) = (measured.iter().map(|it| it.load).sum::<f64>(), count(&measured));
        let mut typical = self.typical;
        if known > 0.0 {
            self.typical = load / known;
            typical = self.typical.min(limit * load / count(&new));
        }
        // Until a report told of anybody, each is as much as any other.
        if typical <= 0.0 {
            return;
        }
        for it in self.tracked.values_mut().filter(|it| !it.measured) {
            it.load = typical * it.count();
            it.doubt = it.load * it.load;
        }
    }

    /// What each carries. Where that is forgotten, it is taken for as much as its caches carry elsewhere in the mean;
    /// `forgotten` says of each cluster, 0 to 1, how far it is.
    pub(super) fn loads(&self, forgotten: &[f64]) -> Vec<f64> {
        let left = |it: &Tracked| 1.0 - it.at.and_then(|place| forgotten.get(place)).copied().unwrap_or(0.0);
        let count = Tracked::count;
        let mean = |weight: &dyn Fn(&Tracked) -> f64| {
            let add = |sum: (f64, f64), it: &Tracked| (sum.0 + weight(it) * it.load, sum.1 + weight(it) * count(it));
            let (load, caches) = self.tracked.values().fold((0.0, 0.0), add);
            (caches > 0.0).then(|| load / caches)
        };
        let typical = mean(&left).or_else(|| mean(&|_| 1.0)).unwrap_or(0.0);
        let load = |it: &Tracked| it.load + (1.0 - left(it)) * (typical * count(it) - it.load);
        self.tracked.values().map(load).collect()
    }

    /// How many typical demands were at a cluster at a time, of those that are proven to be there.
    pub(super) fn count_at(&self, cluster: usize, at: f64) -> f64 {
        let here = |it: &Tracked| it.part(cluster, at, self.ttl) * it.count();
        self.tracked.values().filter(|it| it.kind == DemandKind::Proven).map(here).sum()
    }

    /// Forgets those that ask no more.
    pub(super) fn expire(&mut self, now: f64) {
        let ttl = self.ttl;
        self.tracked.retain(|_, it| now - it.asked < 3.0 * it.pause.max(ttl));
        let is_any_asking = self.tracked.values().any(|it| it.kind != DemandKind::StandIn);
        self.since = self.since.filter(|_| is_any_asking);
        self.first = self.first.filter(|_| is_any_asking);
        self.thicken();
    }

    /// Undoes [`Demands::thin`] once the table would be a quarter full without it, so that no burst halves the sample
    /// for ever.
    fn thicken(&mut self) {
        let before = self.thinned;
        let full = |thinned: u32| self.tracked.len() << (before - thinned);
        while self.thinned > 0 && full(self.thinned - 1) <= TRACKED_MAX / 4 {
            self.thinned -= 1;
        }
        let part = 0.5f64.powi((before - self.thinned) as i32);
        for it in self.tracked.values_mut().filter(|it| it.stands > 1.0) {
            let part = part.max(1.0 / it.stands);
            (it.load, it.doubt, it.stands) = (it.load * part, it.doubt * part * part, it.stands * part);
        }
    }

    /// When the last demand will have left a cluster that is not answered any more, and what is left there.
    pub(super) fn left(&self, cluster: usize, now: f64) -> (f64, f64) {
        // Stand-ins move at once; the clients that they stand for follow within a TTL.
        let leaves =
            |it: &&Tracked| it.kind == DemandKind::StandIn && it.from == Some(cluster) && now < it.moved + self.ttl;
        let leaving = self.tracked.values().filter(leaves);
        let (last, leaving) =
            leaving.fold((now, 0.0), |(last, load), it| (it.moved.max(last - self.ttl) + self.ttl, load + it.load));
        let here = self.tracked.values().filter(|it| it.at == Some(cluster));
        let usual = (1.0 + JITTER.0) * self.ttl + JITTER.1;
        let kept = |it: &Tracked| if it.pause > usual { it.pause } else { self.ttl };
        let over = here.clone().map(|it| it.asked + kept(it)).fold(last, f64::max);
        (over, leaving + here.map(|it| it.load).sum::<f64>())
    }
}
