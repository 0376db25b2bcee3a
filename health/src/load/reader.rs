//! The tasks around the load table: they read, record the results and publish the reports that are used.
//!
//! Each job has a task of its own, which reads with a timeout and once at a time, so a gateway that hangs delays no other one.
//! Results are ignored if this process was stalled meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use fairway_model::{ClusterName, Durations, ExposedServices, LoadQuery, LoadSourceName, ServiceReports};
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    error::ReadError,
    gateway::GatewayMetrics,
    read::{PreparedRead, ReadJob, ReadLimits, ReadResult, ReadScope},
    state::ClusterLoad,
    table::{ClusterLoadSettings, ClusterRow, LoadEvent, LoadTable, LoadUpdate, PushError, PushedLoad, TableUpdate},
};
use crate::{
    fence::Fence,
    observer::{LagMeter, tolerance},
    probe::TlsConfigs,
    schedule::{self, ProbeSchedule},
};

/// Counts of readings since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// By source: number of gateways or URLs read, and of failures by [`ReadError::REASONS`].
    pub sources: BTreeMap<String, (u64, [u64; ReadError::REASONS.len()])>,
    /// Durations of the readings.
    pub took: Durations,
}

/// The handle of the tasks that read load. Dropping it ends them.
pub struct LoadReader(Arc<Mutex<ReaderState>>);

/// Largest number of reports that wait for a slow receiver before it loses the oldest ones. Only the newest report of each
/// cluster matters, and there are fewer clusters than this.
const UPDATES_MAX: usize = 1024;

impl LoadReader {
    /// Returns a reader on the current runtime; nothing is read yet. `fence` is asked before each connection.
    pub fn start(fence: Arc<Fence>) -> Self {
        Self(Arc::new(Mutex::new(ReaderState::new(fence))))
    }

    /// Replaces the settings of all clusters. Unchanged readings keep their due times and loads; new ones begin at once,
    /// spread as first probes are.
    pub fn set(&self, settings: Vec<ClusterLoadSettings>) {
        let mut guard = lock(&self.0);
        let state = &mut *guard;
        let mut before = std::mem::take(&mut state.reads);
        let mut new = Vec::new();
        for read in jobs(&settings) {
            match before.remove(&read) {
                Some(task) => drop(state.reads.insert(read, task)),
                None => new.push(read),
            }
        }
        let (now, count) = (Instant::now(), new.len());
        let mut configs = TlsConfigs::new();
        for (name, job) in new {
            let prepared = Arc::new(PreparedRead::new(job.clone(), &state.limits, &mut configs));
            let mut schedule = ProbeSchedule::new(RandomState::new().hash_one(0));
            schedule.spread((), now, schedule::first_spread(count, job.source.period));
            let read = (name, job);
            let mut task = JoinSet::new();
            task.spawn(read_regularly(Arc::downgrade(&self.0), read.clone(), prepared, schedule));
            state.reads.insert(read, task);
        }
        if state.reads.is_empty() {
            state.ticker = JoinSet::new();
        } else if state.ticker.is_empty() {
            state.meter = LagMeter::new(now);
            state.ticker.spawn(tick(Arc::downgrade(&self.0)));
        }
        let sources: BTreeSet<String> = state.reads.keys().map(|(name, _)| name.to_string()).collect();
        state.totals.sources.retain(|name, _| sources.contains(name));
        for name in sources {
            state.totals.sources.entry(name).or_default();
        }
        state.table.set(settings);
        state.publish_services();
    }

    /// Collects the statistics of these services of each cluster from now on.
    pub fn set_exposed(&self, exposed: impl IntoIterator<Item = (ClusterName, ExposedServices)>) {
        lock(&self.0).exposed = exposed.into_iter().collect();
    }

    /// Returns a receiver of the statistics of services.
    pub fn services(&self) -> watch::Receiver<ServiceReports> {
        lock(&self.0).services.subscribe()
    }

    /// Records a pushed load; an error changes nothing.
    pub fn push(&self, cluster: &str, push: PushedLoad) -> Result<(), PushError> {
        let mut state = lock(&self.0);
        let update = state.table.push(cluster, push, Instant::now())?;
        state.publish(cluster, "push", update);
        Ok(())
    }

    /// Returns a receiver of all reports that are used from now on.
    pub fn updates(&self) -> broadcast::Receiver<LoadUpdate> {
        lock(&self.0).updates.subscribe()
    }

    /// Returns the loads of all clusters that have a source, and the counts of readings.
    pub fn states(&self) -> (Vec<ClusterLoad>, LoadTotals) {
        let state = lock(&self.0);
        (state.table.states(Instant::now()), state.totals.clone())
    }
}

/// Locks the state. A panic while it was locked is a bug that must not end all readings.
fn lock(state: &Mutex<ReaderState>) -> MutexGuard<'_, ReaderState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job with the name of its source.
type NamedJob = (LoadSourceName, ReadJob);

/// State shared by the handle and the tasks.
struct ReaderState {
    table: LoadTable,
    /// The task of each job, which ends when it is removed.
    reads: HashMap<NamedJob, JoinSet<()>>,
    /// Measures stalls of this process, which matter only while something is read.
    ticker: JoinSet<()>,
    meter: LagMeter,
    limits: ReadLimits,
    totals: LoadTotals,
    updates: broadcast::Sender<LoadUpdate>,
    /// Statistics of services.
    services: watch::Sender<ServiceReports>,
    /// The exposed services of each cluster.
    exposed: HashMap<ClusterName, ExposedServices>,
}

/// A reading that ended.
#[derive(Debug)]
struct FinishedRead {
    started: Instant,
    ended: Instant,
    /// Total duration of stalls of this process before the start.
    stalled_before: Duration,
    result: ReadResult,
}

async fn tick(state: Weak<Mutex<ReaderState>>) {
    loop {
        sleep(LagMeter::TICK).await;
        let Some(state) = state.upgrade() else { return };
        lock(&state).meter.tick(Instant::now());
    }
}

/// Reads one job whenever it is due.
async fn read_regularly(
    state: Weak<Mutex<ReaderState>>,
    read: NamedJob,
    prepared: Arc<PreparedRead>,
    mut schedule: ProbeSchedule<()>,
) {
    let period = read.1.source.period;
    let mut is_settled = false;
    while let Some(due) = schedule.next() {
        sleep_until(due).await;
        let started = Instant::now();
        schedule.pop(started);
        if let Some(next) = schedule::missed(due, started, period) {
            schedule.at((), next);
            continue;
        }
        let begin = |state: Arc<Mutex<ReaderState>>| {
            let state = lock(&state);
            (state.meter.stalled_for(started), state.exposed_of(&read.1))
        };
        let Some((stalled_before, exposed)) = state.upgrade().map(begin) else { return };
        // A task of its own, so that a panic ends only this reading.
        let mut reading = JoinSet::new();
        reading.spawn(Arc::clone(&prepared).run(exposed));
        let result = reading.join_next().await;
        let ended = Instant::now();
        let Some(state) = state.upgrade() else { return };
        let mut state = lock(&state);
        match result {
            // The job may have been removed just now.
            Some(Ok(_)) if !state.reads.contains_key(&read) => return,
            Some(Ok(result)) => state.finish(&read, FinishedRead { started, ended, stalled_before, result }),
            _ => tracing::error!("load reader panicked; please report it"),
        }
        if std::mem::replace(&mut is_settled, true) {
            schedule.regular((), due, ended, period);
        } else {
            // First readings are close together. Later ones are spread, but none is later than a period, and none so soon that a counter
            // has hardly grown.
            schedule.spread((), started + period / 2, period / 2);
        }
    }
}

impl ReaderState {
    fn new(fence: Arc<Fence>) -> Self {
        Self {
            table: LoadTable::default(),
            reads: HashMap::new(),
            ticker: JoinSet::new(),
            meter: LagMeter::new(Instant::now()),
            limits: ReadLimits::new(fence),
            totals: LoadTotals::default(),
            updates: broadcast::channel(UPDATES_MAX).0,
            services: watch::Sender::default(),
            exposed: HashMap::new(),
        }
    }

    /// Records a result, unless this process was stalled meanwhile. A failure may then have been caused here, and the time
    /// by which to divide the growth of a counter is unknown.
    fn finish(&mut self, (name, job): &NamedJob, read: FinishedRead) {
        let timeout = job.source.timeout;
        let took = read.ended - read.started;
        let stalled_for = self.meter.stalled_for(read.ended).saturating_sub(read.stalled_before);
        let lost = stalled_for.max(took.saturating_sub(timeout));
        if lost > tolerance(timeout) {
            self.totals.count_results(name, [Some(ReadError::OBSERVER)]);
            tracing::debug!(source = %name, ?lost, "load reading ignored: prober stalled");
            return;
        }
        self.totals.took.note(took);
        self.record(name, &job.scope, read.result, read.started, read.ended);
    }

    /// Records a result in the table and publishes the load.
    fn record(&mut self, name: &LoadSourceName, scope: &ReadScope, result: ReadResult, at: Instant, now: Instant) {
        match (result, scope) {
            (ReadResult::Gateways(gateways, is_instead), ReadScope::Cluster(cluster, _)) => {
                self.totals
                    .count_results(name, gateways.iter().map(|reading| reading.as_ref().err().map(ReadError::reason)));
                let update = self.table.record(cluster, (gateways, is_instead), at, now);
                self.publish(cluster.as_str(), name.as_str(), update);
                self.publish_services();
            }
            (ReadResult::Clusters(values), _) => {
                self.totals.count_results(name, [values.as_ref().err().map(ReadError::reason)]);
                let clusters: Vec<ClusterName> = self.table.clusters_of(name).cloned().collect();
                for cluster in clusters {
                    let reading = match &values {
                        Ok(values) => values
                            .get(cluster.as_str())
                            .copied()
                            .ok_or_else(|| ReadError::Content(format!("the response has no value for {cluster}"))),
                        Err(error) => Err(error.clone()),
                    };
                    let reading =
                        reading.map(|value| GatewayMetrics { declared: Some(value), ..GatewayMetrics::default() });
                    let update = self.table.record(&cluster, (vec![reading], false), at, now);
                    self.publish(cluster.as_str(), name.as_str(), update);
                }
            }
            // Gateways are read only for a cluster.
            (ReadResult::Gateways(..), ReadScope::AllClusters) => {}
        }
    }

    /// Returns the exposed services of the cluster of a job.
    fn exposed_of(&self, job: &ReadJob) -> ExposedServices {
        match &job.scope {
            ReadScope::Cluster(cluster, _) => self.exposed.get(cluster).cloned().unwrap_or_default(),
            ReadScope::AllClusters => ExposedServices::new(),
        }
    }

    /// Publishes the statistics of services that changed.
    fn publish_services(&self) {
        let of_row = |row: &ClusterRow| Some((row.settings.cluster.clone(), Arc::clone(row.services()?)));
        let now: ServiceReports = self.table.rows().filter_map(of_row).collect();
        self.services.send_if_modified(|before| {
            let is_same =
                before.keys().eq(now.keys()) && before.values().zip(now.values()).all(|(a, b)| Arc::ptr_eq(a, b));
            *before = now;
            !is_same
        });
    }

    fn publish(&self, cluster: &str, source: &str, update: TableUpdate) {
        for event in update.events {
            log(cluster, source, &event);
        }
        if let Some(load) = update.load {
            // An error means that nobody receives updates, which is allowed.
            let _ = self.updates.send(load);
        }
    }
}

impl LoadTotals {
    /// Counts the results of gateways or URLs of a source: `None` for success, else the index of the reason.
    fn count_results(&mut self, source: &LoadSourceName, outcomes: impl IntoIterator<Item = Option<usize>>) {
        let (read, failed) = self.sources.entry(source.to_string()).or_default();
        for outcome in outcomes {
            match outcome {
                None => *read += 1,
                Some(reason) => failed[reason] += 1,
            }
        }
    }
}

/// Returns the jobs with the names of their sources: one per cluster, or one per query for all clusters.
fn jobs(settings: &[ClusterLoadSettings]) -> Vec<NamedJob> {
    let mut jobs = Vec::new();
    let mut queries = HashSet::new();
    for cluster in settings {
        let Some((name, source)) = &cluster.source else { continue };
        let scope = match source.query {
            LoadQuery::Promql { .. } => ReadScope::AllClusters,
            _ => ReadScope::Cluster(cluster.cluster.clone(), cluster.gateways.clone()),
        };
        if scope != ReadScope::AllClusters || queries.insert(name) {
            jobs.push((name.clone(), ReadJob { source: Arc::clone(source), scope }));
        }
    }
    jobs
}

/// Logs an event in one line.
fn log(cluster: &str, source: &str, event: &LoadEvent) {
    match event {
        LoadEvent::AnsweringGateways { answering, total } => {
            tracing::warn!(cluster, source, answering, total, "number of answering gateways changed")
        }
        LoadEvent::Succeeded(signal, load) => {
            tracing::info!(event = "load", cluster, source, %signal, load = load.0, "load reading succeeded");
        }
        LoadEvent::Failed(cause) => tracing::warn!(event = "load", cluster, source, cause, "load reading failed"),
        LoadEvent::WarningsChanged(warnings) if warnings.is_empty() => {
            tracing::info!(cluster, source, "gateway warnings cleared");
        }
        LoadEvent::WarningsChanged(warnings) => {
            let warnings = warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(cluster, source, warnings, "gateway warnings changed");
        }
    }
}

#[cfg(test)]
#[path = "tests/reader.rs"]
mod tests;
