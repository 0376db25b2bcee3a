//! What the board holds, as status and metrics show it: every load with its source and age, and which one counts and why.

use std::time::Duration;

use fairway_model::{ClusterName, Load, LoadSignal, LoadSource};
use tokio::time::Instant;

use super::{
    board::{Board, Row},
    gateway::GatewayWarning,
};

/// The load of one cluster, from all that speak of it; nothing if nobody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLoad {
    /// The cluster.
    pub cluster: ClusterName,
    /// What was said, the most trusted first.
    pub sources: Vec<SourceLoad>,
    /// What its gateways warn of, in order.
    pub warnings: Vec<GatewayWarning>,
    /// True if all gateways that answered drain or are overloaded.
    pub is_exhausted: bool,
}

/// What one source says of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLoad {
    /// The source's name; none for a push.
    pub source: Option<String>,
    /// The load, and what it was read from; none if there was none yet.
    pub load: Option<(Load, LoadSignal)>,
    /// Since when that is known.
    pub age: Option<Duration>,
    /// How it counts.
    pub status: LoadStatus,
    /// Why it cannot be read now.
    pub failure: Option<String>,
    /// Gateways that answered last, and all of them; none where gateways are not asked.
    pub gateways: Option<(usize, usize)>,
}

/// How one word on a load counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStatus {
    /// A better one counts: a push that is valid.
    Unused,
    /// It counts.
    Used,
    /// It is older than three periods, or its time is over: it is unknown now.
    Stale,
    /// There was none yet.
    Unknown,
}

impl LoadStatus {
    /// In one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Used => "used",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }
}

impl Board {
    /// What is known of every cluster that anybody speaks of, in order of name.
    pub(super) fn states(&self, now: Instant) -> Vec<ClusterLoad> {
        self.rows().map(|row| row.state(now)).filter(|state| !state.sources.is_empty()).collect()
    }
}

impl Row {
    fn state(&self, now: Instant) -> ClusterLoad {
        let words = self.pushed_word(now).into_iter().chain(self.read_word(now)).collect();
        ClusterLoad {
            cluster: self.feed.cluster.clone(),
            sources: words,
            warnings: self.warnings.clone(),
            is_exhausted: self.is_exhausted(),
        }
    }

    fn pushed_word(&self, now: Instant) -> Option<SourceLoad> {
        let (kept, _) = self.pushed?;
        Some(SourceLoad {
            source: None,
            load: Some((kept.load, kept.signal)),
            age: Some(kept.age(now)),
            status: if self.is_pushed(now) { LoadStatus::Used } else { LoadStatus::Stale },
            failure: None,
            gateways: None,
        })
    }

    fn read_word(&self, now: Instant) -> Option<SourceLoad> {
        let (name, source) = self.feed.source.as_ref()?;
        let held = source.period * LoadSource::PERIODS_VALID;
        let answering = self.gateways.iter().filter(|gateway| gateway.fault.is_none()).count();
        Some(SourceLoad {
            source: Some(name.to_string()),
            load: self.read.map(|kept| (kept.load, kept.signal)),
            age: self.read.map(|kept| kept.age(now)),
            status: match self.read {
                None => LoadStatus::Unknown,
                Some(kept) if kept.age(now) > held => LoadStatus::Stale,
                Some(_) if self.is_pushed(now) => LoadStatus::Unused,
                Some(_) => LoadStatus::Used,
            },
            failure: self.failing.clone(),
            gateways: source.is_per_gateway().then_some((answering, self.gateways.len())),
        })
    }
}
