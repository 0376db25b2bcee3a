//! Recording of a run, and the figures that are computed from it.

use std::time::Duration;

use super::{
    optimum::Optimum,
    scenario::{Figure, Scenario},
};

/// Figures at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time since the start of the run.
    pub at: Duration,
    /// Load of each cluster; 1 is its capacity.
    pub loads: Vec<f64>,
    /// Demand at the nearest cluster of its clients. In a recording it is a part of all demand, as are the next two.
    pub near: f64,
    /// Demand at the nearest cluster or the next one.
    pub nearby: f64,
    /// Demand that reaches no serving gateway.
    pub lost: f64,
    /// Milliseconds above the fastest cluster, summed over the demand; in a recording the mean. 0 without latencies.
    pub slower: f64,
}

/// A cluster that its schedule opened or closed.
#[derive(Clone, Debug)]
pub struct ScheduleChange {
    /// Time since the start of the run.
    pub at: Duration,
    /// Index of the cluster.
    pub cluster: usize,
    /// True if it is open now.
    pub is_open: bool,
}

/// A drain, with its predicted and its actual end.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Index of the cluster.
    pub cluster: usize,
    /// Start of the drain.
    pub at: Duration,
    /// End that was predicted at the start.
    pub predicted: Duration,
    /// Time at which no demand was left.
    pub end: Option<Duration>,
}

/// Recording of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// [`SAMPLES_PER_TTL`](super::scenario::SAMPLES_PER_TTL) samples per TTL.
    pub samples: Vec<Sample>,
    /// Number of answers, and of unnecessarily changed ones, up to each sample.
    pub answers: Vec<(u64, u64)>,
    /// Drains, in order of time.
    pub drains: Vec<Drain>,
    /// Clusters that opened and closed, in order of time.
    pub schedule_changes: Vec<ScheduleChange>,
    /// Optimum at several times, if it was asked for.
    pub optima: Vec<(Duration, Optimum)>,
    /// All demand, in the unit of the capacities.
    pub demand: f64,
    counts: (u64, u64),
    capacities: Vec<f64>,
    ttl: Duration,
}

impl Recording {
    /// Returns an empty recording. `demand` is all demand at the start.
    pub fn new(scenario: &Scenario, demand: f64) -> Self {
        let capacities: Vec<f64> = scenario.clusters.iter().map(|c| c.capacity as f64).collect();
        Self {
            samples: Vec::new(),
            answers: Vec::new(),
            drains: Vec::new(),
            schedule_changes: Vec::new(),
            optima: Vec::new(),
            demand,
            counts: (0, 0),
            capacities,
            ttl: scenario.ttl,
        }
    }

    /// Counts an answer. `is_churn` is true if it differs from the previous one, although that could have stayed.
    pub fn count_answer(&mut self, is_churn: bool) {
        self.counts.0 += 1;
        self.counts.1 += u64::from(is_churn);
    }

    /// Adds a sample whose demands are in the unit of the capacities. `drained` has the remaining demand of each drained cluster.
    pub fn add(&mut self, mut sample: Sample, drained: &[Option<f64>]) {
        sample.near /= self.demand;
        sample.nearby /= self.demand;
        sample.lost /= self.demand;
        sample.slower /= self.demand;
        for drain in self.drains.iter_mut().filter(|drain| drain.end.is_none()) {
            // Sums of demands that were added and removed do not end at exactly 0.
            if drained[drain.cluster].is_some_and(|left| left < 1e-6 * self.demand) {
                drain.end = Some(sample.at);
            }
        }
        self.samples.push(sample);
        self.answers.push(self.counts);
    }

    /// Computes a figure over a part of the run. Returns `None` if the part has no samples, or no drain with an end.
    pub fn figure(&self, figure: Figure, from: Duration, to: Duration) -> Option<f64> {
        let begin = self.samples.partition_point(|s| s.at <= from);
        let end = self.samples.partition_point(|s| s.at <= to);
        let part = &self.samples[begin..end];
        let last = part.last()?;
        let highest = part.iter().map(|s| s.loads.iter().copied().fold(0.0, f64::max));
        Some(match figure {
            Figure::Peak => percentile(highest.collect(), 0.99),
            Figure::Highest => highest.fold(0.0, f64::max),
            Figure::Overload => highest.filter(|load| *load > 1.0).count() as f64 / part.len() as f64,
            Figure::Near => mean(part, |s| s.near),
            Figure::Nearby => mean(part, |s| s.nearby),
            Figure::Load(cluster) => mean(part, |s| s.loads[cluster]),
            Figure::Lost => mean(part, |s| s.lost),
            Figure::Slower => mean(part, |s| s.slower),
            Figure::Churn => {
                let before = begin.checked_sub(1).map_or((0, 0), |at| self.answers[at]);
                let after = self.answers[end - 1];
                (after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64
            }
            Figure::Slope => self.slope(part),
            Figure::OffSplit => {
                let whole: f64 = self.capacities.iter().sum();
                let parts = self.parts(&last.loads);
                parts.iter().zip(&self.capacities).map(|(part, c)| (part - c / whole).abs()).fold(0.0, f64::max)
            }
            Figure::Turns => self.turns(part),
            Figure::DrainError => {
                let drain = self.drains.iter().find(|d| d.at >= from && d.at <= to)?;
                let actual = (drain.end? - drain.at).as_secs_f64();
                (drain.predicted.saturating_sub(drain.at).as_secs_f64() / actual - 1.0).abs()
            }
        })
    }

    /// Returns each cluster's part of the demand.
    fn parts(&self, loads: &[f64]) -> Vec<f64> {
        let carried: Vec<f64> = loads.iter().zip(&self.capacities).map(|(load, c)| load * c).collect();
        let whole: f64 = carried.iter().sum();
        carried.iter().map(|c| c / whole.max(f64::MIN_POSITIVE)).collect()
    }

    /// Returns the largest change of a load within a TTL.
    fn slope(&self, part: &[Sample]) -> f64 {
        let mut most: f64 = 0.0;
        for (i, sample) in part.iter().enumerate() {
            let before = part[..i].iter().rfind(|s| s.at + self.ttl <= sample.at);
            let Some(before) = before else { continue };
            most = before.loads.iter().zip(&sample.loads).map(|(a, b)| (a - b).abs()).fold(most, f64::max);
        }
        most
    }

    /// Counts how often a load changes its direction by more than 0.05, over all clusters.
    fn turns(&self, part: &[Sample]) -> f64 {
        let mut turns = 0;
        for cluster in 0..self.capacities.len() {
            let (mut low, mut high, mut direction) = (f64::MAX, f64::MIN, 0);
            for load in part.iter().map(|s| s.loads[cluster]) {
                if load < high - 0.05 && direction >= 0 {
                    turns += i32::from(direction > 0);
                    (direction, low) = (-1, load);
                } else if load > low + 0.05 && direction <= 0 {
                    turns += i32::from(direction < 0);
                    (direction, high) = (1, load);
                }
                low = low.min(load);
                high = high.max(load);
            }
        }
        f64::from(turns)
    }
}

fn mean(part: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    part.iter().map(figure).sum::<f64>() / part.len() as f64
}

fn percentile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(0.0)
}
