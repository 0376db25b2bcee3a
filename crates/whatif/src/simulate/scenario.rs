//! What is played: clusters, clients, how reports come in, what happens when, and which figures must be reached.

use std::{ops::RangeInclusive, time::Duration};

use fairway_model::{ClientLocation, ClusterName, Coordinates, Permille, Policy, Pool, Rank, Timestamp};

/// A scenario, checked: every name in it is declared, every part is in its range.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows, in a line.
    pub title: String,
    /// TTL of the answers.
    pub ttl: Duration,
    /// How long it runs.
    pub length: Duration,
    /// Demand, as a part of the capacity of all clusters.
    pub offered: f64,
    /// The clusters.
    pub clusters: Vec<SimulatedCluster>,
    /// The pool at the beginning, then those that [`Event::Pool`] puts in its place.
    pub pools: Vec<Pool>,
    /// The time of day and year at the beginning, for windows of members.
    pub begins: Timestamp,
    /// Latencies, where there is a table of them.
    pub latencies: Option<Detour>,
    /// Who asks.
    pub clients: Clients,
    /// How gateways tell of their load.
    pub reports: Reports,
    /// How gateways are probed.
    pub probes: Probes,
    /// What happens, in order of time.
    pub events: Vec<(Duration, Event)>,
    /// What must be reached.
    pub marks: Vec<Mark>,
    /// Seeds that are played where the command line names none.
    pub seeds: Vec<u64>,
}

/// One cluster and its gateway.
#[derive(Clone, Debug)]
pub struct SimulatedCluster {
    /// Its name.
    pub name: ClusterName,
    /// What it can carry, in any unit.
    pub capacity: u64,
    /// Load it is kept under.
    pub soft: Permille,
    /// Where it stands.
    pub at: Coordinates,
    /// The region it is in.
    pub region: Option<String>,
    /// What a map says of the clients that are nearest to it, beside their coordinates.
    pub clients: ClientLocation,
}

/// How latencies differ from distances: the round trip takes 1 ms for each 100 km, and up to this part more, for each
/// network and cluster drawn evenly. At least 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detour(pub f64);

impl Scenario {
    /// What the pool of a scenario that says nothing of it does.
    pub fn default_policy() -> Policy {
        Policy { ranks: vec![Rank::Nearest], load: true, ..Policy::WEIGHTED }
    }
}

/// The networks that ask, each behind a resolver of one or several caches.
#[derive(Clone, Debug)]
pub struct Clients {
    /// How many.
    pub networks: u32,
    /// Exponent of Zipf's law: demand of the n-th largest is proportional to n^-zipf.
    pub zipf: f64,
    /// Part of the demand that is nearest to each cluster, in the clusters' order; adds up to 1.
    pub near: Vec<f64>,
    /// Part of the networks whose demand comes through caches in proportion to it (a carrier's resolvers); all others are
    /// behind one.
    pub many_caches: f64,
    /// Part of the networks that keep answers for longer than the TTL allows.
    pub abusers: f64,
    /// For how many TTLs those keep them.
    pub abuse: f64,
    /// Part of the networks that ask before the TTL is over.
    pub prefetchers: f64,
}

/// How gateways tell of their load.
#[derive(Clone, Debug)]
pub struct Reports {
    /// From one to the next.
    pub every: Duration,
    /// From the measurement until it is known.
    pub late: Duration,
    /// Most relative error, both ways, evenly distributed.
    pub noise: f64,
    /// Part of the reports that get lost.
    pub loss: f64,
    /// One query in so many is sampled.
    pub sample: u32,
}

/// How gateways are probed.
#[derive(Clone, Debug)]
pub struct Probes {
    /// From one to the next.
    pub period: Duration,
    /// Failures in a row until a gateway is down.
    pub fall: u8,
    /// Passes in a row until it is up again.
    pub rise: u8,
}

/// Something that happens. Clusters go by their place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A gateway stops serving: what is sent to it fails.
    Dies(usize),
    /// It serves again.
    Returns(usize),
    /// The demand near one cluster changes so that the whole is this part of all capacity.
    Demand(usize, f64),
    /// No report comes in any more, from anyone.
    ReportsLost,
    /// Reports come in again.
    ReportsBack,
    /// A gateway reports that it has no load.
    Lies(usize),
    /// It tells the truth again.
    Honest(usize),
    /// An operator drains a cluster.
    Drain(usize),
    /// An operator lets a cluster take part again.
    Undrain(usize),
    /// Neither probes nor reports of a cluster reach the server; clients reach it as before.
    Partition(usize),
    /// They reach it again.
    Heal(usize),
    /// The server restarts with the state it kept.
    Restart,
    /// The server restarts and has lost its state.
    RestartBlank,
    /// An operator changes the pool, to one of [`Scenario::pools`].
    Pool(usize),
    /// A new table of latencies comes, in which each one is off by up to this part.
    Measured(f64),
}

/// What must be reached in a part of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What is measured.
    pub figure: Figure,
    /// From when to when.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// What it must be in.
    pub within: RangeInclusive<f64>,
}

/// What is measured over a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// 99th percentile of the load of the fullest cluster.
    Peak,
    /// The highest load of any cluster.
    Highest,
    /// Part of the time in which a cluster is over its capacity.
    Overload,
    /// Part of the answers that changed while the former could have stayed.
    Churn,
    /// Part of the demand that is answered with the client's nearest cluster.
    Near,
    /// Part of the demand that is answered with the client's nearest cluster, or its next best.
    Nearby,
    /// Most that the load of a cluster changes within a TTL.
    Slope,
    /// Farthest that a cluster's part of the demand is from its part of the capacity, at the end.
    OffSplit,
    /// How often a load that had settled turns round by more than 0.05.
    Turns,
    /// By what part the first statement on when a drain is over was wrong.
    DrainError,
    /// Mean load of one cluster, by its place.
    Load(usize),
    /// Part of the demand that comes to no gateway that serves.
    Lost,
    /// By how many milliseconds the demand is answered slower than by its fastest cluster; the mean.
    Slower,
}

impl Figure {
    /// Every figure that is not of one cluster.
    pub const ALL: [Self; 12] = [
        Self::Peak,
        Self::Highest,
        Self::Overload,
        Self::Churn,
        Self::Near,
        Self::Nearby,
        Self::Slope,
        Self::OffSplit,
        Self::Turns,
        Self::DrainError,
        Self::Lost,
        Self::Slower,
    ];

    /// What it is called in files and tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Highest => "highest",
            Self::Overload => "overload",
            Self::Churn => "churn",
            Self::Near => "near",
            Self::Nearby => "nearby",
            Self::Slope => "slope",
            Self::OffSplit => "offSplit",
            Self::Turns => "turns",
            Self::DrainError => "drainError",
            Self::Load(_) => "load",
            Self::Lost => "lost",
            Self::Slower => "slower",
        }
    }

    /// Its word, with the cluster that it is of.
    pub fn shown(self, scenario: &Scenario) -> String {
        match self {
            Self::Load(place) => format!("{} {}", self.word(), scenario.clusters[place].name),
            other => other.word().to_owned(),
        }
    }
}
