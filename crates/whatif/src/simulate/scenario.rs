//! A scenario: clusters, clients, load reports, events, and the goals for its figures.

use std::{ops::RangeInclusive, time::Duration};

use fairway_model::{
    ClientLocation, Cluster, ClusterName, Coordinates, Monitor, Permille, Policy, Pool, Rank, SharedMap, Timestamp,
};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

pub use super::scenario_wire::Clients;

/// Samples of a run per TTL.
pub const SAMPLES_PER_TTL: u32 = 40;

/// A valid scenario: every name in it is declared, and every number is in its range.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// One line about its purpose.
    pub title: String,
    /// TTL of the answers.
    pub ttl: Duration,
    /// Length of a run.
    pub length: Duration,
    /// Demand, as a part of the capacity of all clusters.
    pub offered: f64,
    /// The clusters. Everything else refers to them by index.
    pub clusters: Vec<SimulatedCluster>,
    /// The clusters as the server reads them from its configuration.
    pub configured: SharedMap<ClusterName, Cluster>,
    /// The pool at the start, then those that replace it ([`Event::Pool`]).
    pub pools: Vec<Pool>,
    /// Time of the clock at the start, for schedules.
    pub begins: Timestamp,
    /// Difference between latencies and distances, at least 0: a round trip takes 1 ms per 100 km, and up to this part more, drawn for each
    /// network and cluster. `None` without a latency table.
    pub detour: Option<f64>,
    /// The clients.
    pub clients: Clients,
    /// Period in which the demand swings: an hour, unless the time of the scenario is scaled.
    pub swing_period: Duration,
    /// State of load control at the start.
    pub start: Start,
    /// Part of the client networks that query each server, relative to the sum. Networks are drawn. Default: one server.
    pub servers: Vec<f64>,
    /// True if the servers share a store: the first one leads, and the others answer with its tables.
    pub shared_store: bool,
    /// True if load control knows all demand of clients at once, instead of learning it from reports. It does not know load from elsewhere.
    pub is_informed: bool,
    /// Load reports.
    pub reports: Reports,
    /// Period and thresholds of the probes of gateways.
    pub probes: Monitor,
    /// Events in order of time.
    pub events: Vec<(Duration, Event)>,
    /// Goals.
    pub goals: Vec<Goal>,
    /// Seeds that are used if the command line gives none.
    pub seeds: Vec<u64>,
}

/// A cluster with one gateway.
#[derive(Clone, Debug)]
pub struct SimulatedCluster {
    /// Its name.
    pub name: ClusterName,
    /// Its capacity, in any unit.
    pub capacity: u64,
    /// Its load target.
    pub soft: Permille,
    /// Its position.
    pub at: Coordinates,
    /// Its region.
    pub region: Option<String>,
    /// Location of the clients nearest to it in the map, without coordinates: each network has its own.
    pub clients: ClientLocation,
}

impl Scenario {
    /// Returns the scenario with another TTL. All other times keep their ratio to it.
    #[must_use]
    pub fn scaled(&self, ttl: Duration) -> Self {
        let factor = ttl.div_duration_f64(self.ttl);
        let time = |time: Duration| time.mul_f64(factor);
        let mut scaled = Self {
            ttl,
            length: time(self.length),
            swing_period: time(self.swing_period),
            reports: Reports { every: time(self.reports.every), late: time(self.reports.late), ..self.reports },
            ..self.clone()
        };
        scaled.probes.period = time(self.probes.period);
        for (at, _) in &mut scaled.events {
            *at = time(*at);
        }
        for goal in &mut scaled.goals {
            (goal.from, goal.to) = (time(goal.from), time(goal.to));
        }
        scaled
    }

    /// Returns the policy of a scenario without a pool.
    pub fn default_policy() -> Policy {
        Policy { ranks: vec![Rank::Nearest], load: true, ..Policy::WEIGHTED }
    }

    /// Returns the capacity of all clusters.
    pub fn capacity(&self) -> f64 {
        self.clusters.iter().map(|cluster| cluster.capacity as f64).sum()
    }

    /// Returns the time between two changes of the demand in the course of an hour.
    pub fn demand_period(&self) -> Duration {
        self.ttl / 10
    }

    /// Returns the time between two samples.
    pub fn sample_period(&self) -> Duration {
        self.ttl / SAMPLES_PER_TTL
    }
}

/// State that load control starts with. What it says of the demand is wrong, as in the state of another server for other clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Start {
    /// None: the declared split.
    #[default]
    Cold,
    /// All clients are answered with one cluster, which is drawn.
    One,
    /// The mirror image of the optimum: clients are answered with their farthest clusters, as far as the targets allow.
    Mirror,
}

/// Servers of a random scenario, and what they know.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// As [`Scenario::servers`].
    pub servers: Vec<f64>,
    /// As [`Scenario::shared_store`].
    pub shared_store: bool,
    /// As [`Scenario::is_informed`].
    pub is_informed: bool,
}

impl Deployment {
    /// Returns the deployment of one server.
    pub fn one_server() -> Self {
        Self { servers: vec![1.0], shared_store: false, is_informed: false }
    }

    /// Writes the servers into the file of a scenario.
    pub(super) fn write(&self, file: &mut Value) {
        file["servers"] = json!(self.servers);
        file["sharedStore"] = json!(self.shared_store);
        file["informed"] = json!(self.is_informed);
    }
}

/// Load reports of gateways.
#[derive(Clone, Debug)]
pub struct Reports {
    /// Time between two reports.
    pub every: Duration,
    /// Time from the measurement to the arrival of the report.
    pub late: Duration,
    /// Largest relative error in either direction, uniformly distributed.
    pub noise: f64,
    /// Part of the reports that is lost.
    pub loss: f64,
}

/// An event of a scenario. Clusters are given by index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A gateway stops serving; requests to it fail.
    Dies(usize),
    /// It serves again.
    Returns(usize),
    /// The demand nearest to a cluster changes, so that all demand is this part of the capacity.
    Demand(usize, f64),
    /// Load reports of all clusters are lost from now on.
    ReportsLost,
    /// Load reports arrive again.
    ReportsBack,
    /// A gateway reports a load of 0.
    Lies(usize),
    /// It reports its load again.
    Honest(usize),
    /// A gateway reports its last load from now on.
    Freeze(usize),
    /// It reports its present load again.
    Thaw(usize),
    /// A cluster carries load that no simulated client causes: this part of its capacity.
    Elsewhere(usize, f64),
    /// An attacker sends queries from now on, or no longer.
    Flood(FloodSpec),
    /// An operator drains a cluster.
    Drain(usize),
    /// An operator ends the drain.
    Undrain(usize),
    /// Neither probes nor reports of a cluster reach the server, but clients reach the cluster.
    Partition(usize),
    /// They reach the server again.
    Heal(usize),
    /// The server restarts with its state.
    Restart,
    /// The server restarts without its state.
    RestartBlank,
    /// An operator replaces the pool by one of [`Scenario::pools`].
    Pool(usize),
    /// A new latency table arrives, with relative errors of at most this part.
    Measured(f64),
}

/// Queries with random client subnets, which cause no load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodSpec {
    /// Cluster that the subnets are nearest to, by index.
    pub near: usize,
    /// Queries per second; 0 ends the flood.
    pub per_second: u32,
    /// Sources that have proven that they receive answers. 0: the source of each query is forged.
    pub sources: u32,
}

/// Range that a figure must be in, over a part of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The figure.
    pub figure: Figure,
    /// Start of the part.
    pub from: Duration,
    /// End of the part.
    pub to: Duration,
    /// The range.
    pub within: RangeInclusive<f64>,
}

/// A figure that is measured over a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum Figure {
    /// 99th percentile of the load of the fullest cluster.
    Peak,
    /// Highest load of any cluster.
    Highest,
    /// Part of the time in which a cluster exceeds its capacity.
    Overload,
    /// Part of the answers that changed, although the previous one could have stayed.
    Churn,
    /// Part of the demand at the nearest cluster of its clients.
    Near,
    /// Part of the demand at the nearest cluster of its clients, or the next one.
    Nearby,
    /// Largest change of a cluster's load within a TTL.
    Slope,
    /// Largest difference at the end between a cluster's part of the demand and its part of the capacity.
    OffSplit,
    /// Number of times that a load changed its direction by more than 0.05.
    Turns,
    /// Relative error of the end of a drain that was predicted at its start.
    DrainError,
    /// Mean load of one cluster, by index.
    Load(usize),
    /// Part of the demand that reaches no serving gateway.
    Lost,
    /// Mean of the milliseconds by which the demand is answered slower than by its fastest cluster.
    Slower,
}

impl Figure {
    /// Returns its name, with the cluster for [`Figure::Load`].
    pub fn label(self, scenario: &Scenario) -> String {
        let name = <&str>::from(self);
        match self {
            Self::Load(cluster) => format!("{name} {}", scenario.clusters[cluster].name),
            _ => name.to_owned(),
        }
    }
}
