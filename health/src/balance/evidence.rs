//! What reports say of one cluster, and what is learnt from them about the demands that it serves.
//!
//! A report at time `t` is held against the demands that were at the cluster at `t`. Two things are learnt from it. The
//! *step* from one report to the next is laid to the demands that moved in between, each by how little is known of it: so
//! a large demand behind one cache shows when it moves. The *level* that is left is laid to all that are there.

use super::{
    DemandKind,
    age::Age,
    demands::{Demands, Tracked},
};

/// A report of less than this part of what is known to be there is not believed: the gateway's clients went on asking, so
/// they went on sending.
const BELIEVABLE: f64 = 0.15;
/// By how many standard deviations a step must surprise to say that one of those that moved is of another size.
const SURPRISING: f64 = 3.0;
/// What the level drifts by from one report to the next: 1 % of it, squared. What drifts faster shows in the trend.
const DRIFT: f64 = 0.0001;
/// What no demand is known better than: to 2 % of it, squared.
const KNOWN: f64 = 0.0004;
/// Part of each error that goes into the trend: the mean of about the last five.
const TREND: f64 = 0.2;
/// Error of the model itself, as a part of the level, squared.
const COARSE: f64 = 0.0001;

/// What is known from the reports of one cluster. Variances are relative: as a part of the load, squared.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    sequence: Option<u64>,
    /// When the last report that was believed was taken.
    heard: f64,
    /// That report: of when what it shows is, the load, and how many typical demands were there.
    last: Option<(f64, f64, f64)>,
    /// How old what reports show is.
    age: Age,
    /// Variance of the level that is expected.
    level: f64,
    /// Variance of reports.
    noise: f64,
    /// By what part of it the last report was off what was expected.
    surprise: f64,
    /// The same of the last few reports in the mean.
    trend: f64,
}

/// What the others' reports let expect of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    /// What as many clients carry at the others.
    pub(super) load: f64,
    /// How far this cluster's clients are taken for such, 0 to 1: see [`super::budgets::Means::forgotten`].
    pub(super) forgotten: f64,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            sequence: None,
            heard: 0.0,
            last: None,
            age: Age::default(),
            level: 1.0,
            noise: 0.005,
            surprise: 0.0,
            trend: 0.0,
        }
    }
}

impl Evidence {
    /// When the last report that was believed was measured, as it says; the start where there was none.
    pub(super) fn heard(&self) -> f64 {
        self.heard
    }

    /// How much older what reports show is than they say, in seconds.
    pub(super) fn age(&self) -> f64 {
        self.age.secs()
    }

    /// The last load, and how many typical demands were there.
    pub(super) fn told(&self) -> Option<(f64, f64)> {
        self.last.map(|(_, load, count)| (load, count))
    }

    /// Whether a report is newer than the last one; it is the last one from now on.
    pub(super) fn is_new(&mut self, sequence: u64, at: f64) -> bool {
        let new = self.sequence.is_none_or(|last| sequence > last) && (self.last.is_none() || at > self.heard);
        if new {
            self.sequence = Some(sequence);
        }
        new
    }

    /// Learns from a report; whether it is believed. `alike` is there where others tell.
    pub(super) fn hear(
        &mut self,
        cluster: usize,
        load: f64,
        at: f64,
        alike: Option<Alike>,
        demands: &mut Demands,
    ) -> bool {
        let ttl = demands.ttl;
        let before = at - self.age();
        let measured = demands.iter().map(|(_, it)| it).filter(|it| it.measured && it.kind == DemandKind::Proven);
        let (known, doubt) = measured.fold((0.0, 0.0), |(known, doubt), it| {
            let part = it.part(cluster, before, ttl);
            (known + part * it.load, doubt + part * part * it.doubt)
        });
        let sure = known - doubt.sqrt();
        // What is sure beyond what others carry, as far as it is not forgotten.
        let known = alike.map_or(sure, |alike| alike.load + (1.0 - alike.forgotten) * (sure - alike.load).max(0.0));
        if load < BELIEVABLE * known {
            return false;
        }
        self.heard = at;
        let at = at - self.age.learn((cluster, at, load), demands);
        demands.measure(cluster, at);
        if let Some((before, load_before, _)) = self.last {
            self.learn_step(cluster, (before, load_before), (at, load), demands);
        }
        let predicted: f64 = demands.iter().map(|(_, it)| it.part(cluster, at, ttl) * it.load).sum();
        if predicted > 0.0 {
            self.learn_level(cluster, (at, load), predicted, demands);
        }
        self.last = Some((at, load, demands.count_at(cluster, at)));
        demands.guess(at);
        true
    }

    /// What a report differs from the one before is due to the demands that moved in between.
    fn learn_step(&self, cluster: usize, before: (f64, f64), now: (f64, f64), demands: &mut Demands) {
        let ttl = demands.ttl;
        let step = |it: &Tracked| it.step(cluster, before.0, now.0, ttl);
        let (mut expected, mut doubt) = (0.0, 0.0);
        for (step, it) in demands.iter().map(|(_, it)| (step(it), it)) {
            expected += step * it.load;
            doubt += step * step * it.doubt;
        }
        if doubt <= 0.0 {
            return;
        }
        let noise = 2.0 * self.noise.max(1e-5) * now.1.max(before.1).powi(2);
        let surprise = now.1 - before.1 - expected;
        // One of them is of quite another size than was thought: all are doubted, and which one it is shows when they
        // part.
        let square = surprise * surprise;
        let surprising = square > SURPRISING * SURPRISING * (noise + doubt);
        let inflate = if surprising { ((square - noise) / doubt).min(1e4) } else { 1.0 };
        for it in demands.iter_mut() {
            let step = step(it);
            if step != 0.0 {
                it.doubt *= inflate;
                let gain = it.doubt * step / (doubt * inflate + noise);
                it.load = (it.load + gain * surprise).max(0.1 * it.load);
                it.doubt *= (1.0 - gain * step).max(0.0);
            }
        }
    }

    /// What is left over is laid to all that are there, most to those of which least is known.
    fn learn_level(&mut self, cluster: usize, now: (f64, f64), predicted: f64, demands: &mut Demands) {
        let (ttl, (at, load)) = (demands.ttl, now);
        let gain = self.gain((load - predicted) / predicted);
        let open = |it: &Tracked| {
            let known = it.doubt + it.load * it.load / 16.0;
            if known > 0.0 { it.part(cluster, at, ttl) * it.load * it.doubt / known } else { 0.0 }
        };
        let whole: f64 = demands.iter().map(|(_, it)| open(it)).sum();
        if whole <= 0.0 {
            return;
        }
        let factor = (gain * (load - predicted) / whole).max(-0.8);
        for it in demands.iter_mut() {
            let open = open(it);
            if open > 0.0 && it.load > 0.0 {
                let grown = 1.0 + factor * open / it.load;
                it.load *= grown;
                it.doubt = (it.doubt * grown * grown).max(KNOWN * it.load * it.load);
            }
        }
    }

    /// How much of an error of this part of the level is believed: Kalman's gain for a level that drifts.
    ///
    /// The noise is what jumps from one report to the next; a jump counts for four times the noise at most, so that a
    /// step of demand is not taken for noise. Two errors of the same sign far over the noise are such a step, and so is a
    /// trend that chance does not make: then the level is not known any more.
    fn gain(&mut self, error: f64) -> f64 {
        let jump = error - self.surprise;
        if self.level < 0.1 {
            self.noise += 0.1 * ((jump * jump / 2.0).min(4.0 * self.noise) - self.noise);
        }
        let noise = self.noise + COARSE;
        if error * self.surprise > 0.0 && error * error > SURPRISING * SURPRISING * (self.level + noise) {
            self.level += error * error / 2.0;
        }
        self.surprise = error;
        if self.level < 0.1 {
            self.trend += TREND * (error.clamp(-1.0, 1.0) - self.trend);
        }
        let square = self.trend * self.trend;
        // Variance of such a mean of errors that have nothing to do with each other.
        if square > SURPRISING * SURPRISING * TREND / (2.0 - TREND) * (self.level + noise) {
            self.level += square;
            self.trend = 0.0;
        }
        self.level += DRIFT;
        let gain = self.level / (self.level + noise);
        self.level *= 1.0 - gain;
        gain
    }
}
