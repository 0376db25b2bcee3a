//! The demands that are known one by one: what each carries, where its last answer sent it, how often it asks.

use std::collections::BTreeMap;

use fairway_model::Demand;

/// One demand.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    /// What it carries, in the unit of the capacities.
    pub(super) load: f64,
    /// Variance of that.
    pub(super) doubt: f64,
    /// Where it was sent last.
    pub(super) at: Option<usize>,
    /// Where it was before that.
    pub(super) from: Option<usize>,
    /// When it was first sent there.
    pub(super) moved: f64,
    /// When it asked last.
    pub(super) asked: f64,
    /// Mean time between its queries.
    pub(super) gap: f64,
    /// The longest time between two of the last queries.
    pub(super) pause: f64,
    /// Whether a report told what it carries; until then it is taken for a typical one.
    pub(super) measured: bool,
}

impl Tracked {
    /// How many caches ask for it.
    pub(super) fn caches(&self, ttl: f64) -> f64 {
        (ttl / self.gap.max(1e-3)).max(1.0)
    }

    /// Which part of it was at a cluster at a time.
    pub(super) fn part(&self, cluster: usize, at: f64, ttl: f64) -> f64 {
        let caches = self.caches(ttl);
        let arrived = if at < self.moved {
            0.0
        } else if caches < 1.5 {
            1.0
        } else {
            ((at - self.moved) / ttl + 1.0 / caches).min(1.0)
        };
        let mut part = 0.0;
        if self.at == Some(cluster) {
            part += arrived;
        }
        if self.from == Some(cluster) {
            part += 1.0 - arrived;
        }
        part
    }
}

#[derive(Debug)]
pub(super) struct Demands {
    tracked: BTreeMap<Demand, Tracked>,
    pub(super) ttl: f64,
    /// What a cache carries in the mean.
    pub(super) typical: f64,
}

impl Demands {
    pub(super) fn new(ttl: f64) -> Self {
        Self { tracked: BTreeMap::new(), ttl, typical: 0.0 }
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

    pub(super) fn restore(&mut self, demand: Demand, load: f64, doubt: f64, at: usize) {
        let ttl = self.ttl;
        let tracked =
            Tracked { load, doubt, at: Some(at), from: None, moved: -1e9, asked: 0.0, gap: ttl, pause: ttl, measured: true };
        self.tracked.insert(demand, tracked);
    }

    pub(super) fn asked(&mut self, demand: Demand, cluster: usize, at: f64) {
        let (ttl, typical) = (self.ttl, self.typical.max(1e-9));
        let new = || Tracked {
            load: typical,
            doubt: typical * typical,
            at: None,
            from: None,
            moved: at,
            asked: at,
            gap: ttl,
            pause: ttl,
            measured: false,
        };
        let it = self.tracked.entry(demand).or_insert_with(new);
        if at > it.asked {
            let before = it.caches(ttl);
            it.gap += 0.2 * (at - it.asked - it.gap);
            it.pause = (it.pause * 0.9).max(at - it.asked);
            let now = it.caches(ttl);
            // Until it was seen to move, only its queries tell how large it is.
            let known = it.load * it.load / (it.load * it.load + it.doubt);
            let factor = (now / before).powf(1.0 - known.min(1.0));
            it.load *= factor;
            it.doubt *= factor * factor;
        }
        it.asked = at;
        if it.at != Some(cluster) {
            it.from = it.at;
            it.at = Some(cluster);
            it.moved = at;
        }
    }

    /// Those at a cluster whose report is believed are known by it from now on.
    pub(super) fn measure(&mut self, cluster: usize, at: f64) {
        let ttl = self.ttl;
        for it in self.tracked.values_mut().filter(|it| !it.measured) {
            it.measured = it.part(cluster, at, ttl) > 0.0;
        }
    }

    /// Takes those that no report told of for typical ones.
    pub(super) fn guess(&mut self) {
        let ttl = self.ttl;
        let measured = self.tracked.values().filter(|it| it.measured);
        let sum = measured.fold((0.0, 0.0), |sum, it| (sum.0 + it.load, sum.1 + it.caches(ttl)));
        self.typical = if sum.1 > 0.0 { sum.0 / sum.1 } else { 0.0 };
        for it in self.tracked.values_mut().filter(|it| !it.measured) {
            it.load = self.typical * it.caches(ttl);
            it.doubt = it.load * it.load;
        }
    }

    /// How many caches were at a cluster at a time.
    pub(super) fn caches_at(&self, cluster: usize, at: f64) -> f64 {
        self.tracked.values().map(|it| it.part(cluster, at, self.ttl) * it.caches(self.ttl)).sum()
    }

    /// Forgets those that ask no more.
    pub(super) fn expire(&mut self, now: f64) {
        let ttl = self.ttl;
        self.tracked.retain(|_, it| now - it.asked < 3.0 * it.pause.max(ttl));
    }

    /// When the last demand has left a cluster that gets no answers any more, and what is left there.
    pub(super) fn left(&self, cluster: usize, now: f64) -> (f64, f64) {
        let here = self.tracked.values().filter(|it| it.at == Some(cluster));
        let over = here.clone().map(|it| it.asked + it.pause.max(self.ttl)).fold(now, f64::max);
        (over, here.map(|it| it.load).sum())
    }
}
