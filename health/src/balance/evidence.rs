//! What reports say of one cluster, and what is learnt from them about the demands that it serves.

use super::demands::Demands;

/// A report of less than this part of what is known to be there is not believed.
const DOUBTFUL: f64 = 0.15;

#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) sequence: u64,
    /// The last report: when it was measured, and the load.
    pub(super) last: Option<(f64, f64)>,
    /// How many caches were there then.
    pub(super) caches: f64,
    /// Variance of the level that is predicted, as a part of it.
    level: f64,
    /// Variance of reports, as a part of the load.
    pub(super) noise: f64,
    /// The last surprise, as a part of the load.
    surprise: f64,
    /// Reports in a row that nobody can believe.
    pub(super) disbelieved: u32,
}

impl Default for Evidence {
    fn default() -> Self {
        Self { sequence: 0, last: None, caches: 0.0, level: 1.0, noise: 0.005, surprise: 0.0, disbelieved: 0 }
    }
}

impl Evidence {
    pub(super) fn hear(&mut self, cluster: usize, load: f64, at: f64, expected: Option<f64>, demands: &mut Demands) {
        let ttl = demands.ttl;
        let known: f64 =
            demands.iter().filter(|(_, it)| it.measured).map(|(_, it)| it.part(cluster, at, ttl) * it.load).sum();
        if expected.is_some_and(|expected| load < DOUBTFUL * expected) || load < DOUBTFUL * known {
            self.disbelieved += 1;
            return;
        }
        self.disbelieved = 0;
        demands.measure(cluster, at);
        if let Some((before, load_before)) = self.last {
            self.learn_moves(cluster, (before, load_before), (at, load), demands);
        }
        let predicted: f64 = demands.iter().map(|(_, it)| it.part(cluster, at, ttl) * it.load).sum();
        self.last = Some((at, load));
        self.caches = demands.caches_at(cluster, at);
        if predicted > 0.0 {
            self.learn_level(cluster, load, at, predicted, demands);
        }
        demands.guess();
    }

    /// What a report differs from the one before is due to the demands that moved in between.
    fn learn_moves(&mut self, cluster: usize, before: (f64, f64), now: (f64, f64), demands: &mut Demands) {
        let ttl = demands.ttl;
        let (mut expected, mut doubt) = (0.0, 0.0);
        for (_, it) in demands.iter() {
            let step = it.step(cluster, before.0, now.0, ttl);
            expected += step * it.load;
            doubt += step * step * it.doubt;
        }
        if doubt <= 0.0 {
            return;
        }
        let noise = 2.0 * (self.noise.max(1e-5)) * now.1.max(before.1).powi(2);
        let surprise = now.1 - before.1 - expected;
        // One of them is far larger than was thought: which one will show when they part.
        let inflate = if surprise * surprise > 9.0 * (noise + doubt) {
            ((surprise * surprise - noise) / doubt).min(1e4)
        } else {
            1.0
        };
        for it in demands.iter_mut() {
            let step = it.step(cluster, before.0, now.0, ttl);
            if step == 0.0 {
                continue;
            }
            it.doubt *= inflate;
            let gain = it.doubt * step / (doubt * inflate + noise);
            it.load = (it.load + gain * surprise).max(0.1 * it.load);
            it.doubt *= 1.0 - gain * step;
        }
    }

    fn learn_level(&mut self, cluster: usize, load: f64, at: f64, predicted: f64, demands: &mut Demands) {
        let ttl = demands.ttl;
        let error = (load - predicted) / predicted;
        let jump = error - self.surprise;
        if self.level < 0.1 {
            self.noise += 0.1 * ((jump * jump / 2.0).min(4.0 * self.noise) - self.noise);
        }
        let noise = self.noise + 0.0001;
        if error * self.surprise > 0.0 && error * error > 9.0 * (self.level + noise) {
            self.level += error * error / 2.0;
        }
        self.surprise = error;
        self.level += 0.0004;
        let gain = self.level / (self.level + noise);
        self.level *= 1.0 - gain;
        let open = |it: &super::demands::Tracked| {
            it.load * it.doubt / (it.doubt + it.load * it.load / 16.0 + f64::MIN_POSITIVE)
        };
        let whole: f64 = demands.iter().map(|(_, it)| it.part(cluster, at, ttl) * open(it)).sum();
        if whole <= 0.0 {
            return;
        }
        let factor = (gain * (load - predicted) / whole).max(-0.8);
        for it in demands.iter_mut() {
            let part = it.part(cluster, at, ttl);
            if part > 0.0 {
                let grown = 1.0 + factor * part * open(it) / it.load;
                it.load *= grown;
                it.doubt = it.doubt * grown * grown;
                it.doubt = it.doubt.max(0.0004 * it.load * it.load);
            }
        }
    }
}
