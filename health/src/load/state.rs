//! The load table as status and metrics show it: every load with its source and age, and which one is used.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fairway_model::{ClusterName, Load, LoadSignal, LoadSource, ServiceReport};
use tokio::time::Instant;

use super::{
    gateway::GatewayWarning,
    table::{ClusterRow, LoadTable},
};

/// The loads of one cluster from all its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLoad {
    /// The cluster.
    pub cluster: ClusterName,
    /// The loads by precedence: a push, then the load source.
    pub sources: Vec<SourceLoad>,
    /// Warnings of its gateways, sorted.
    pub warnings: Vec<GatewayWarning>,
    /// True if all gateways that answered drain or are overloaded.
    pub is_exhausted: bool,
    /// The last statistics of its services; `None` if its gateways have none.
    pub services: Option<Arc<ServiceReport>>,
    /// True if statistics of services were not requested from a gateway, since all of them are too many bytes.
    pub is_reduced: bool,
    /// Versions of the gateways that answered, sorted, each once.
    pub versions: Vec<String>,
    /// True if addresses of the cluster are read instead of its gateways, which cannot be reached.
    pub is_instead: bool,
}

/// The load of a cluster from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLoad {
    /// The name of the source; `None` for a push.
    pub source: Option<String>,
    /// The load and its signal; `None` if it was never read.
    pub load: Option<(Load, LoadSignal)>,
    /// Age of the load.
    pub age: Option<Duration>,
    /// Use of the load.
    pub status: LoadStatus,
    /// The reason why the last reading failed.
    pub failure: Option<String>,
    /// Number of gateways that answered the last reading, and of all; `None` for a source with a URL.
    pub gateways: Option<(usize, usize)>,
}

/// The use of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStatus {
    /// A valid push takes precedence.
    Unused,
    /// It is used.
    Used,
    /// It is older than three periods, or the push expired.
    Stale,
    /// It was never read.
    Unknown,
}

impl LoadStatus {
    /// Returns the name that API and metrics use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Used => "used",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }
}

impl LoadTable {
    /// Returns the loads of all clusters that have a source, in order of name.
    pub(super) fn states(&self, now: Instant) -> Vec<ClusterLoad> {
        self.rows().map(|row| row.state(now)).filter(|state| !state.sources.is_empty()).collect()
    }
}

impl ClusterRow {
    fn state(&self, now: Instant) -> ClusterLoad {
        let sources = self.pushed_load(now).into_iter().chain(self.read_load(now)).collect();
        ClusterLoad {
            cluster: self.settings.cluster.clone(),
            sources,
            warnings: self.warnings.clone(),
            is_exhausted: self.is_exhausted() == Some(true),
            services: self.services().cloned(),
            is_reduced: self.is_reduced(),
            versions: self.versions(),
            is_instead: self.is_instead,
        }
    }

    /// Returns the versions of the gateways that answered, sorted, each once.
    fn versions(&self) -> Vec<String> {
        let versions: BTreeSet<&String> = self.answered().filter_map(|metrics| metrics.version.as_ref()).collect();
        versions.into_iter().cloned().collect()
    }

    fn pushed_load(&self, now: Instant) -> Option<SourceLoad> {
        let (pushed, _) = self.pushed?;
        Some(SourceLoad {
            source: None,
            load: Some((pushed.load, pushed.signal)),
            age: Some(pushed.age(now)),
            status: if self.is_pushed(now) { LoadStatus::Used } else { LoadStatus::Stale },
            failure: None,
            gateways: None,
        })
    }

    fn read_load(&self, now: Instant) -> Option<SourceLoad> {
        let (name, source) = self.settings.source.as_ref()?;
        let validity = source.period * LoadSource::PERIODS_VALID;
        Some(SourceLoad {
            source: Some(name.to_string()),
            load: self.read.map(|read| (read.load, read.signal)),
            age: self.read.map(|read| read.age(now)),
            status: match self.read {
                None => LoadStatus::Unknown,
                Some(read) if read.age(now) > validity => LoadStatus::Stale,
                Some(_) if self.is_pushed(now) => LoadStatus::Unused,
                Some(_) => LoadStatus::Used,
            },
            failure: self.failure.clone(),
            gateways: source.is_per_gateway().then_some((self.answering(), self.gateways.len())),
        })
    }
}
