//! What was seen in a run, and the figures that are read from it.

use std::time::Duration;

use super::scenario::{Figure, Scenario};

/// How things stood at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub at: Duration,
    /// Load of each cluster, 1 = its capacity.
    pub loads: Vec<f64>,
    /// Demand that is at the nearest cluster, then as a part of the whole.
    pub near: f64,
    /// The same of the nearest and the next.
    pub nearby: f64,
    /// The same of what comes to no gateway that serves.
    pub lost: f64,
    /// Sum over the demand of the milliseconds by which it is answered slower than by its fastest cluster, then the mean;
    /// 0 without latencies.
    pub slower: f64,
}

/// A cluster whose windows opened or closed it.
#[derive(Clone, Debug)]
pub struct Turned {
    /// When.
    pub at: Duration,
    /// The cluster.
    pub place: usize,
    /// Whether it is open now.
    pub open: bool,
}

/// A drain, what was said of its end when it began, and when it really ended.
#[derive(Clone, Debug)]
pub struct Drained {
    /// The cluster.
    pub place: usize,
    /// When it began.
    pub at: Duration,
    /// When it was said to be over.
    pub stated: Duration,
    /// When nothing was left.
    pub over: Option<Duration>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// 40 a TTL.
    pub samples: Vec<Sample>,
    /// Answers and changed ones that could have stayed, up to each sample.
    pub answers: Vec<(u64, u64)>,
    /// The drains.
    pub drained: Vec<Drained>,
    /// Clusters that opened and closed.
    pub turned: Vec<Turned>,
    /// All demand, in the unit of the capacities.
    pub whole: f64,
    counts: (u64, u64),
    capacities: Vec<f64>,
    ttl: Duration,
}

impl Recording {
    /// Nothing seen yet.
    pub fn new(scenario: &Scenario) -> Self {
        let capacities: Vec<f64> = scenario.clusters.iter().map(|c| c.capacity as f64).collect();
        Self {
            samples: Vec::new(),
            answers: Vec::new(),
            drained: Vec::new(),
            turned: Vec::new(),
            whole: scenario.offered * capacities.iter().sum::<f64>(),
            counts: (0, 0),
            capacities,
            ttl: scenario.ttl,
        }
    }

    /// An answer came; whether it is another one than before, which could have stayed.
    pub fn answered(&mut self, changed: bool) {
        self.counts.0 += 1;
        self.counts.1 += u64::from(changed);
    }

    /// Takes how things stand, with demand at the nearest cluster in the unit of the capacities, and what clusters that are
    /// drained carry still.
    pub fn sample(&mut self, mut sample: Sample, carried_by_drained: &[Option<f64>]) {
        sample.near /= self.whole;
        sample.nearby /= self.whole;
        sample.lost /= self.whole;
        sample.slower /= self.whole;
        for drain in self.drained.iter_mut().filter(|drain| drain.over.is_none()) {
            if carried_by_drained[drain.place].is_some_and(|carried| carried < 1e-6 * self.whole) {
                drain.over = Some(sample.at);
            }
        }
        self.samples.push(sample);
        self.answers.push(self.counts);
    }

    /// A figure over a part of the run; none where nothing was seen of it.
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
            Figure::Load(place) => mean(part, |s| s.loads[place]),
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
                let drain = self.drained.iter().find(|d| d.at >= from && d.at <= to)?;
                let real = (drain.over? - drain.at).as_secs_f64();
                ((drain.stated.saturating_sub(drain.at)).as_secs_f64() / real - 1.0).abs()
            }
        })
    }

    /// Each cluster's part of the demand.
    fn parts(&self, loads: &[f64]) -> Vec<f64> {
        let carried: Vec<f64> = loads.iter().zip(&self.capacities).map(|(load, c)| load * c).collect();
        let whole: f64 = carried.iter().sum();
        carried.iter().map(|c| c / whole.max(f64::MIN_POSITIVE)).collect()
    }

    fn slope(&self, part: &[Sample]) -> f64 {
        let mut most: f64 = 0.0;
        for (i, sample) in part.iter().enumerate() {
            let before = part[..i].iter().rfind(|s| s.at + self.ttl <= sample.at);
            let Some(before) = before else { continue };
            most = before.loads.iter().zip(&sample.loads).map(|(a, b)| (a - b).abs()).fold(most, f64::max);
        }
        most
    }

    /// Swings of more than 0.05 against the direction of before, of all clusters.
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

fn mean(part: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    part.iter().map(of).sum::<f64>() / part.len() as f64
}

fn percentile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(0.0)
}
