//! The latest loads of each cluster by source, and which of them is used. Pure: time is an argument.
//!
//! ```text
//! a valid push ─ before ─ the reading from the cluster's source, for three periods ─ before ─ unknown
//! ```
//! A load that is not used is kept and shown. A gateway that does not answer counts with its last values for three periods;
//! then it counts as removed, as long as another one answers. A cluster changes to a worse signal only if the better one was
//! missing for that long, because numbers of different signals are not comparable.

use std::{collections::BTreeMap, num::NonZeroU64, sync::Arc, time::Duration};

use fairway_model::{
    Cluster, ClusterName, DesiredState, Load, LoadReport, LoadSignal, LoadSource, LoadSourceName, LoadUnit,
    ProbeAddress, ServiceCounts, ServiceReport, closest,
};
use tokio::time::Instant;

use super::{
    error::ReadError,
    gateway::{GatewayMetrics, GatewayWarning},
    read::Gateways,
    services::Services,
    signals::{self, GatewaySignals},
};

/// The result of a reading or a push.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadUpdate {
    /// The cluster.
    pub cluster: ClusterName,
    /// The load, if it is known and used.
    pub report: Option<LoadReport>,
    /// Number of the update among those of this cluster, from all sources; also that of the report.
    pub sequence: u64,
    /// The last statistics of services, if they are known.
    pub services: Option<Arc<ServiceReport>>,
    /// True if all gateways that answered drain or are overloaded, whatever their load; `None` for a push, or if no
    /// gateway answered.
    pub is_exhausted: Option<bool>,
    /// Time until the next result is expected; for a push, a third of its validity. The result is valid for three
    /// periods.
    pub period: Duration,
}

/// The load settings of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLoadSettings {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its capacity, if declared.
    pub capacity: Option<NonZeroU64>,
    /// Its load source; `None` if its load is only pushed.
    pub source: Option<(LoadSourceName, Arc<LoadSource>)>,
    /// Its gateways, for a source that reads each gateway; empty without a source.
    pub gateways: Gateways,
}

impl ClusterLoadSettings {
    /// Returns the settings of all clusters, in order of name.
    pub fn all(desired: &DesiredState) -> Vec<Self> {
        desired.clusters.values().map(|cluster| Self::of(desired, cluster)).collect()
    }

    fn of(desired: &DesiredState, cluster: &Cluster) -> Self {
        let declared = desired.cluster_load_sources.get(&cluster.name);
        let source = declared.and_then(|declared| desired.load_sources.get_key_value(&declared.source));
        let named = declared.map(|declared| declared.gateways.clone()).filter(|gateways| !gateways.is_empty());
        // Only one address family: the other one leads to the same gateways, which would count twice.
        let has_v4 = cluster.addresses.iter().any(|address| address.is_ipv4());
        let own = cluster.addresses.iter().filter(|address| source.is_some() && address.is_ipv4() == has_v4);
        let own: Vec<ProbeAddress> = own.map(|address| cluster.probe_address(*address)).collect();
        let found = declared.filter(|declared| declared.is_found);
        let gateways = Gateways {
            instead: if found.is_some() { own.clone() } else { vec![] },
            all: named.unwrap_or(own),
            status_port: found.and_then(|found| found.status_port),
        };
        Self {
            cluster: cluster.name.clone(),
            capacity: cluster.capacity.and_then(NonZeroU64::new),
            source: source.map(|(name, source)| (name.clone(), Arc::clone(source))),
            gateways,
        }
    }
}

/// A load that is pushed over the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedLoad {
    /// The amount.
    pub amount: LoadAmount,
    /// Sequence number among the pushes of this cluster. A push whose number is not above that of the last valid one is
    /// rejected. `None` skips this check.
    pub sequence: Option<u64>,
    /// Time for which the load is valid.
    pub valid_for: Duration,
}

/// The amount of a cluster's capacity that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAmount {
    /// Permille of the capacity.
    Permille(u32),
    /// A number in the unit of the capacity.
    Used(u64),
}

/// The reason why a push is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The amount is in the unit of a capacity that is not declared.
    #[error("cluster {0} has no capacity, so `used` has no meaning; declare its capacity, or push `load` in permille")]
    NoCapacity(ClusterName),
    /// The sequence number is not above the last one.
    #[error(
        "sequence {given} is not above {last}, that of the valid push; increase it, or wait until that push expires"
    )]
    Sequence {
        /// The number of the rejected push.
        given: u64,
        /// The number of the last valid push.
        last: u64,
    },
    /// The cluster does not exist.
    #[error("cluster {0} is not declared; {1}")]
    Unknown(String, String),
}

/// The effect of a reading or a push.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TableUpdate {
    /// The result for control, if there is any.
    pub(super) load: Option<LoadUpdate>,
    /// Changes to log.
    pub(super) events: Vec<LoadEvent>,
}

/// A change in the readings of a cluster, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadEvent {
    /// The number of gateways that answer changed.
    AnsweringGateways {
        /// Gateways that answer.
        answering: usize,
        /// All gateways.
        total: usize,
    },
    /// Load was read for the first time, after a failure, or by another signal.
    Succeeded(LoadSignal, Load),
    /// Load can no longer be read, for this reason.
    Failed(String),
    /// The warnings changed to these.
    WarningsChanged(Vec<GatewayWarning>),
}

/// The loads of all clusters.
#[derive(Debug, Default)]
pub(super) struct LoadTable {
    rows: BTreeMap<ClusterName, ClusterRow>,
}

/// The loads of one cluster.
#[derive(Debug)]
pub(super) struct ClusterRow {
    pub(super) settings: ClusterLoadSettings,
    pub(super) gateways: Vec<GatewayState>,
    /// The last load read.
    pub(super) read: Option<TimedLoad>,
    /// The last push.
    pub(super) pushed: Option<(TimedLoad, PushedLoad)>,
    /// The reason why the last reading gave no load.
    pub(super) failure: Option<String>,
    pub(super) warnings: Vec<GatewayWarning>,
    /// True if addresses are read instead of the gateways.
    pub(super) is_instead: bool,
    /// The last statistics of services.
    services: Option<Arc<ServiceReport>>,
    /// Number of updates so far.
    updates: u64,
}

/// The state of one gateway of a cluster, or of the one URL of its source.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayState {
    /// The last metrics, with the time of the request.
    last: Option<(GatewayMetrics, Instant)>,
    /// The signals in these metrics and those before.
    signals: GatewaySignals,
    /// The reason why the last reading failed.
    failure: Option<String>,
}

/// A load with its signal and the time of its measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedLoad {
    pub(super) load: Load,
    pub(super) signal: LoadSignal,
    pub(super) at: Instant,
}

impl TimedLoad {
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

impl LoadTable {
    /// Replaces the settings of all clusters. Clusters with the same settings keep their loads.
    pub(super) fn set(&mut self, all: Vec<ClusterLoadSettings>) {
        let mut before = std::mem::take(&mut self.rows);
        let row = |settings: ClusterLoadSettings| match before.remove(&settings.cluster) {
            Some(row) if row.settings == settings => row,
            // The push stays, although its permille may refer to an earlier capacity. The count of updates goes on.
            Some(row) => ClusterRow { updates: row.updates, pushed: row.pushed, ..ClusterRow::new(settings) },
            None => ClusterRow::new(settings),
        };
        // A map that is made at once has no half-empty nodes.
        self.rows = all.into_iter().map(row).map(|row| (row.settings.cluster.clone(), row)).collect();
    }

    /// Records the results of a reading that began at `at`: one per gateway in their order, or (`true`) per address that was read instead, or
    /// one for a source with a URL.
    /// The caller drops readings during which this process was stalled.
    pub(super) fn record(
        &mut self,
        cluster: &ClusterName,
        results: (Vec<Result<GatewayMetrics, ReadError>>, bool),
        at: Instant,
        now: Instant,
    ) -> TableUpdate {
        self.rows.get_mut(cluster).map(|row| row.record(results, at, now)).unwrap_or_default()
    }

    /// Returns the clusters that are read from a source.
    pub(super) fn clusters_of<'a>(&'a self, source: &'a LoadSourceName) -> impl Iterator<Item = &'a ClusterName> {
        let is_of_source =
            move |row: &&ClusterRow| row.settings.source.as_ref().is_some_and(|(name, _)| name == source);
        self.rows.values().filter(is_of_source).map(|row| &row.settings.cluster)
    }

    /// Records a push; an error changes nothing.
    pub(super) fn push(&mut self, cluster: &str, push: PushedLoad, now: Instant) -> Result<TableUpdate, PushError> {
        let Some(row) = self.rows.get_mut(cluster) else {
            let hint = match closest(cluster, self.rows.keys().map(ClusterName::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "`fairway status` lists clusters".to_owned(),
            };
            return Err(PushError::Unknown(cluster.to_owned(), hint));
        };
        row.push(push, now)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &ClusterRow> {
        self.rows.values()
    }
}

impl ClusterRow {
    fn new(settings: ClusterLoadSettings) -> Self {
        let count = match &settings.source {
            Some((_, source)) if source.is_per_gateway() => settings.gateways.all.len(),
            _ => usize::from(settings.source.is_some()),
        };
        Self {
            settings,
            gateways: vec![GatewayState::default(); count],
            read: None,
            pushed: None,
            failure: None,
            warnings: vec![],
            is_instead: false,
            services: None,
            updates: 0,
        }
    }

    fn record(
        &mut self,
        (results, is_instead): (Vec<Result<GatewayMetrics, ReadError>>, bool),
        at: Instant,
        now: Instant,
    ) -> TableUpdate {
        let Some((_, source)) = self.settings.source.clone() else { return TableUpdate::default() };
        if self.is_instead && !is_instead && results.iter().all(Result::is_err) {
            // The gateways still cannot be reached, which the addresses instead of them make up for.
            return TableUpdate::default();
        }
        if self.is_instead != is_instead {
            (self.gateways, self.is_instead) = (vec![GatewayState::default(); results.len()], is_instead);
        }
        let mut events = Vec::new();
        let before = self.answering();
        for (gateway, mut result) in self.gateways.iter_mut().zip(results) {
            if let (true, Ok(metrics)) = (is_instead, &mut result) {
                // Each reading reaches another gateway, whose counters are not comparable.
                metrics.requests = None;
            }
            gateway.record(result, at, source.metric().is_some_and(|metric| metric.is_rate));
        }
        let (answering, total) = (self.answering(), self.gateways.len());
        if answering != before && answering > 0 && total > 1 {
            events.push(LoadEvent::AnsweringGateways { answering, total });
        }
        self.update_warnings(&mut events);
        self.update_services(&source, at, now);
        let mut load = None;
        match self.current_load(&source, now) {
            Ok(Some((signal, current))) => {
                if self.failure.take().is_some() || self.read.is_none_or(|before| before.signal != signal) {
                    events.push(LoadEvent::Succeeded(signal, current));
                }
                let read = TimedLoad { load: current, signal, at };
                self.read = Some(read);
                if !self.is_pushed(now) {
                    load = Some(read);
                }
            }
            // A counter was read for the first time, which is neither a load nor a failure.
            Ok(None) => {}
            Err(reason) => {
                if self.failure.is_none() {
                    events.push(LoadEvent::Failed(reason.clone()));
                }
                self.failure = Some(reason);
            }
        }
        let is_exhausted = self.is_exhausted();
        let has_result = load.is_some() || is_exhausted.is_some();
        TableUpdate { load: has_result.then(|| self.update(load, is_exhausted, source.period)), events }
    }

    /// Returns the number of gateways that answered the last reading.
    pub(super) fn answering(&self) -> usize {
        self.gateways.iter().filter(|gateway| gateway.failure.is_none()).count()
    }

    /// Returns the load by the best signal; `None` if a counter must be read once more.
    fn current_load(&self, source: &LoadSource, now: Instant) -> Result<Option<(LoadSignal, Load)>, String> {
        if self.answering() == 0 {
            return Err(self.gateways.iter().find_map(|gateway| gateway.failure.clone()).unwrap_or_default());
        }
        let validity = source.period * LoadSource::PERIODS_VALID;
        let recent = self.gateways.iter().filter(|gateway| gateway.is_recent(validity, now));
        let gateways: Vec<GatewaySignals> = recent.map(|gateway| gateway.signals).collect();
        let Some((signal, amount)) = signals::best_signal(&gateways, source.signal(), source.unit) else {
            if gateways.iter().any(GatewaySignals::has_new_counter) {
                return Ok(None);
            }
            return Err("no signal is available from all gateways".to_owned());
        };
        if let Some(better) = self.read.filter(|read| read.signal < signal && read.age(now) <= validity) {
            return Err(format!("signal {} is missing, and {signal} is not comparable", better.signal));
        }
        let amount = match source.unit {
            // Each address leads to one of the gateways, and the others have the same load on average.
            LoadUnit::Capacity if self.is_instead => {
                amount.saturating_mul(self.settings.gateways.all.len() as u64) / (gateways.len() as u64).max(1)
            }
            _ => amount,
        };
        let load = match (source.unit, self.settings.capacity) {
            (LoadUnit::Capacity, Some(capacity)) => Load::of(amount, capacity),
            (LoadUnit::Capacity, None) => return Err(NO_CAPACITY.to_owned()),
            (LoadUnit::Permille, _) => permille(amount),
        };
        Ok(Some((signal, load)))
    }

    fn update_warnings(&mut self, events: &mut Vec<LoadEvent>) {
        let mut warnings: Vec<_> = self.answered().flat_map(|metrics| metrics.warnings.iter().cloned()).collect();
        warnings.sort();
        warnings.dedup();
        // Only the kinds are compared: a pressure that changes by one per cent is not worth a log line.
        let kinds = |warnings: &[GatewayWarning]| {
            let mut kinds: Vec<_> = warnings.iter().map(GatewayWarning::kind).collect();
            kinds.dedup();
            kinds
        };
        if kinds(&warnings) != kinds(&self.warnings) {
            events.push(LoadEvent::WarningsChanged(warnings.clone()));
        }
        self.warnings = warnings;
    }

    /// Adds up the statistics of services. Those of the last reading stay for as long as its load.
    fn update_services(&mut self, source: &LoadSource, at: Instant, now: Instant) {
        let metrics: Vec<&GatewayMetrics> = self.answered().collect();
        let known: Vec<_> = metrics.iter().filter_map(|metrics| metrics.services.as_ref()).collect();
        if !known.is_empty() {
            let mut counts = Services::new();
            // Gateways that did not answer, or without these statistics, have as many requests on average.
            let gateways = self.settings.gateways.all.len().max(known.len()) as u64;
            for (key, of_gateway) in known.iter().flat_map(|services| services.iter()) {
                let sum = counts.entry(Arc::clone(key)).or_default();
                let add = |sum: &mut Option<u64>, more: Option<u64>| {
                    *sum = more.map(|more| sum.unwrap_or_default() + more).or(*sum)
                };
                add(&mut sum.active, of_gateway.active);
                add(&mut sum.healthy, of_gateway.healthy);
                add(&mut sum.total, of_gateway.total);
            }
            for counts in counts.values_mut() {
                counts.active = counts.active.map(|active| active.saturating_mul(gateways) / known.len() as u64);
            }
            // A gateway without statistics may have endpoints.
            let is_all = known.len() == metrics.len() && !self.is_instead;
            let is_without = |(_, counts): &(&Arc<str>, &ServiceCounts)| is_all && counts.healthy == Some(0);
            let without_endpoint = counts.iter().filter(is_without).map(|(key, _)| Arc::clone(key)).collect();
            self.services = Some(Arc::new(ServiceReport { counts, without_endpoint, at: at.into_std() }));
        } else if !metrics.is_empty() || self.services.as_ref().is_some_and(|services| is_over(services, source, now)) {
            self.services = None;
        }
    }

    /// Returns true if statistics of services were not requested from a gateway.
    pub(super) fn is_reduced(&self) -> bool {
        self.gateways.iter().any(|gateway| gateway.last.as_ref().is_some_and(|(metrics, _)| metrics.is_reduced))
    }

    /// Returns the last statistics of services.
    pub(super) fn services(&self) -> Option<&Arc<ServiceReport>> {
        self.services.as_ref()
    }

    fn push(&mut self, push: PushedLoad, now: Instant) -> Result<TableUpdate, PushError> {
        let last = self.pushed.filter(|_| self.is_pushed(now)).and_then(|(_, last)| last.sequence);
        if let (Some(given), Some(last)) = (push.sequence, last)
            && given <= last
        {
            return Err(PushError::Sequence { given, last });
        }
        let load = match (push.amount, self.settings.capacity) {
            (LoadAmount::Permille(load), _) => permille(load.into()),
            (LoadAmount::Used(used), Some(capacity)) => Load::of(used, capacity),
            (LoadAmount::Used(_), None) => return Err(PushError::NoCapacity(self.settings.cluster.clone())),
        };
        let events = if self.is_pushed(now) { vec![] } else { vec![LoadEvent::Succeeded(LoadSignal::Declared, load)] };
        let pushed = TimedLoad { load, signal: LoadSignal::Declared, at: now };
        self.pushed = Some((pushed, push));
        let update = self.update(Some(pushed), None, push.valid_for / LoadSource::PERIODS_VALID);
        Ok(TableUpdate { load: Some(update), events })
    }

    /// Returns true if a push is valid.
    pub(super) fn is_pushed(&self, now: Instant) -> bool {
        self.pushed.is_some_and(|(pushed, push)| pushed.age(now) < push.valid_for)
    }

    /// Returns true if all gateways that answered are exhausted; `None` if none answered.
    pub(super) fn is_exhausted(&self) -> Option<bool> {
        let mut metrics = self.answered().peekable();
        metrics.peek()?;
        Some(metrics.all(|metrics| metrics.warnings.iter().any(GatewayWarning::exhausts)))
    }

    /// Returns the metrics of the gateways that answered the last reading.
    pub(super) fn answered(&self) -> impl Iterator<Item = &GatewayMetrics> {
        let answered = self.gateways.iter().filter(|gateway| gateway.failure.is_none());
        answered.filter_map(|gateway| gateway.last.as_ref()).map(|(metrics, _)| metrics)
    }

    fn update(&mut self, load: Option<TimedLoad>, is_exhausted: Option<bool>, period: Duration) -> LoadUpdate {
        self.updates += 1;
        let (cluster, sequence) = (self.settings.cluster.clone(), self.updates);
        let report = load.map(|load| {
            let (backend, at) = (cluster.clone().into(), load.at.into_std());
            LoadReport { backend, load: load.load, signal: load.signal, sequence, at }
        });
        LoadUpdate { cluster, report, sequence, services: self.services.clone(), is_exhausted, period }
    }
}

impl GatewayState {
    fn record(&mut self, result: Result<GatewayMetrics, ReadError>, at: Instant, is_rate: bool) {
        match result {
            Ok(metrics) => {
                let before = self.last.as_ref().map(|(metrics, then)| (metrics, *then));
                self.signals = GatewaySignals::new((&metrics, at), before, is_rate);
                self.last = Some((metrics, at));
                self.failure = None;
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    fn is_recent(&self, validity: Duration, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|(_, at)| now.saturating_duration_since(*at) <= validity)
    }
}

const NO_CAPACITY: &str = "its capacity is not declared; set capacity, or capacityPerPod of kubernetes";

/// Returns true if statistics of services are too old.
fn is_over(services: &ServiceReport, source: &LoadSource, now: Instant) -> bool {
    now.into_std().saturating_duration_since(services.at) > source.period * LoadSource::PERIODS_VALID
}

fn permille(amount: u64) -> Load {
    Load(u32::try_from(amount).map_or(Load::MAX.0, |amount| amount.min(Load::MAX.0)))
}
