//! The loop around the load table: starts due readings, records their results and publishes the reports that are used.
//!
//! One task owns the table; the handle sends commands to it. Each reading is a task of its own with a timeout, and at most one
//! runs per job, so a gateway that hangs delays no other one. Results are ignored if this process was stalled meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairway_model::{ClusterName, LoadQuery, LoadSourceName};
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    error::ReadError,
    gateway::GatewayMetrics,
    read::{PreparedRead, ReadJob, ReadLimits, ReadResult, ReadScope},
    state::ClusterLoad,
    table::{ClusterLoadSettings, LoadEvent, LoadTable, LoadUpdate, PushError, PushedLoad, TableUpdate},
};
use crate::{
    ProbeTotals,
    observer::{LagMeter, tolerance},
    probe::TlsConfigs,
    schedule::{self, ProbeSchedule},
};

/// Counts of readings since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// By source: number of gateways or URLs read, and of failures by [`ReadError::REASONS`].
    pub sources: BTreeMap<String, (u64, [u64; ReadError::REASONS.len()])>,
    /// Readings by duration: each counts at the first of [`ProbeTotals::BOUNDS`] that it does not exceed.
    pub took: [u64; ProbeTotals::BOUNDS.len()],
    /// Number of readings.
    pub count: u64,
    /// Total duration of the readings.
    pub time: Duration,
}

/// The handle of the task that reads load. Dropping it ends the task and the running readings.
pub struct LoadReader {
    commands: mpsc::Sender<ReaderCommand>,
    updates: broadcast::Sender<LoadUpdate>,
}

#[derive(Debug)]
enum ReaderCommand {
    Push(String, PushedLoad, oneshot::Sender<Result<(), PushError>>),
    Set(Vec<ClusterLoadSettings>, oneshot::Sender<()>),
    States(oneshot::Sender<(Vec<ClusterLoad>, LoadTotals)>),
}

/// Largest number of queued commands; further callers wait.
const COMMANDS_MAX: usize = 16;
/// Largest number of reports that wait for a slow receiver before it loses the oldest ones. Only the newest report of each
/// cluster matters, and there are fewer clusters than this.
const UPDATES_MAX: usize = 1024;

impl LoadReader {
    /// Starts the task on the current runtime; nothing is read yet.
    pub fn start() -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let updates = broadcast::channel(UPDATES_MAX).0;
        tokio::spawn(ReaderTask::new(updates.clone()).run(inbox));
        Self { commands, updates }
    }

    /// Replaces the settings of all clusters. Unchanged readings keep their due times and loads; new ones begin at once,
    /// spread as first probes are. Returns when the change is in effect.
    pub async fn set(&self, settings: Vec<ClusterLoadSettings>) {
        let (done, wait) = oneshot::channel();
        if self.commands.send(ReaderCommand::Set(settings, done)).await.is_ok() {
            // An error means that the task ended with its runtime: nothing is read any longer.
            let _ = wait.await;
        }
    }

    /// Records a pushed load; an error changes nothing.
    pub async fn push(&self, cluster: &str, push: PushedLoad) -> Result<(), PushError> {
        let (reply, response) = oneshot::channel();
        let sent = self.commands.send(ReaderCommand::Push(cluster.to_owned(), push, reply)).await;
        sent.map_err(|_| PushError::Stopped)?;
        response.await.map_err(|_| PushError::Stopped)?
    }

    /// Returns a receiver of all reports that are used from now on.
    pub fn updates(&self) -> broadcast::Receiver<LoadUpdate> {
        self.updates.subscribe()
    }

    /// Returns the loads of all clusters that have a source, and the counts of readings.
    pub async fn states(&self) -> (Vec<ClusterLoad>, LoadTotals) {
        let (reply, response) = oneshot::channel();
        if self.commands.send(ReaderCommand::States(reply)).await.is_err() {
            return Default::default();
        }
        response.await.unwrap_or_default()
    }
}

impl fmt::Debug for LoadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadReader").finish_non_exhaustive()
    }
}

/// A job in the schedule.
#[derive(Debug)]
struct ScheduledRead {
    name: LoadSourceName,
    job: ReadJob,
    prepared: Arc<PreparedRead>,
    /// True after the first reading.
    is_settled: bool,
    running: Option<AbortHandle>,
}

/// A reading that ended.
#[derive(Debug)]
struct FinishedRead {
    due: Instant,
    started: Instant,
    ended: Instant,
    /// Total duration of stalls of this process before the start.
    stalled_before: Duration,
    result: ReadResult,
}

/// The state of the reading task.
struct ReaderTask {
    table: LoadTable,
    reads: HashMap<u64, ScheduledRead>,
    next_key: u64,
    schedule: ProbeSchedule<u64>,
    running: JoinSet<FinishedRead>,
    /// Key of the job of each running reading.
    jobs: HashMap<Id, u64>,
    meter: LagMeter,
    limits: ReadLimits,
    totals: LoadTotals,
    updates: broadcast::Sender<LoadUpdate>,
}

impl ReaderTask {
    fn new(updates: broadcast::Sender<LoadUpdate>) -> Self {
        Self {
            table: LoadTable::default(),
            reads: HashMap::new(),
            next_key: 0,
            schedule: ProbeSchedule::new(RandomState::new().hash_one(0)),
            running: JoinSet::new(),
            jobs: HashMap::new(),
            meter: LagMeter::new(Instant::now()),
            limits: ReadLimits::new(),
            totals: LoadTotals::default(),
            updates,
        }
    }

    /// Runs until the handle is dropped.
    async fn run(mut self, mut inbox: mpsc::Receiver<ReaderCommand>) {
        let mut tick = interval(LagMeter::TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.schedule.next();
            tokio::select! {
                biased;
                command = inbox.recv() => match command {
                    Some(command) => self.execute(command),
                    None => return,
                },
                Some(ended) = self.running.join_next_with_id() => self.finish(ended),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.start_due(),
                // Stalls matter only while something is read.
                _ = tick.tick(), if !self.reads.is_empty() => drop(self.meter.tick(Instant::now())),
            }
        }
    }

    fn execute(&mut self, command: ReaderCommand) {
        match command {
            ReaderCommand::Push(cluster, push, reply) => {
                let outcome = self.table.push(&cluster, push, Instant::now());
                let outcome = outcome.map(|update| self.publish(&cluster, "push", update));
                // The caller may be gone; the push is in effect all the same.
                let _ = reply.send(outcome);
            }
            ReaderCommand::Set(settings, done) => {
                self.set(settings);
                let _ = done.send(());
            }
            ReaderCommand::States(reply) => {
                let _ = reply.send((self.table.states(Instant::now()), self.totals.clone()));
            }
        }
    }

    fn set(&mut self, settings: Vec<ClusterLoadSettings>) {
        if self.reads.is_empty() {
            self.meter = LagMeter::new(Instant::now());
        }
        let keyed = |(key, read): (u64, ScheduledRead)| ((read.name.clone(), read.job.clone()), (key, read));
        let mut before: HashMap<_, _> = self.reads.drain().map(keyed).collect();
        let mut configs = TlsConfigs::new();
        let mut new = Vec::new();
        for (name, job) in jobs(&settings) {
            let wanted = (name, job);
            if let Some((key, read)) = before.remove(&wanted) {
                self.reads.insert(key, read);
                continue;
            }
            let (name, job) = wanted;
            self.next_key += 1;
            let prepared = Arc::new(PreparedRead::new(job.clone(), &self.limits, &mut configs));
            new.push((self.next_key, job.source.period));
            self.reads.insert(self.next_key, ScheduledRead { name, job, prepared, is_settled: false, running: None });
        }
        for running in before.into_values().filter_map(|(_, read)| read.running) {
            running.abort();
        }
        let reads = &self.reads;
        self.schedule.retain(|key| reads.contains_key(&key));
        let (now, count) = (Instant::now(), new.len());
        for (key, period) in new {
            self.schedule.spread(key, now, schedule::first_spread(count, period));
        }
        let sources: BTreeSet<String> = self.reads.values().map(|read| read.name.to_string()).collect();
        self.totals.sources.retain(|name, _| sources.contains(name));
        for name in sources {
            self.totals.sources.entry(name).or_default();
        }
        self.table.set(settings);
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while let Some((due, key)) = self.schedule.pop(now) {
            let Some(read) = self.reads.get_mut(&key) else { continue };
            if let Some(next) = schedule::missed(due, now, read.job.source.period) {
                self.schedule.at(key, next);
                continue;
            }
            let (prepared, stalled_before) = (Arc::clone(&read.prepared), self.meter.stalled_for(now));
            let reading = self.running.spawn(async move {
                let result = prepared.run().await;
                FinishedRead { due, started: now, ended: Instant::now(), stalled_before, result }
            });
            self.jobs.insert(reading.id(), key);
            read.running = Some(reading);
        }
    }

    fn finish(&mut self, ended: Result<(Id, FinishedRead), JoinError>) {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, Some(ended)),
            Err(error) => (error.id(), None),
        };
        let Some(key) = self.jobs.remove(&id) else { return };
        let Some(read) = self.reads.get_mut(&key) else { return };
        read.running = None;
        let (now, period) = (Instant::now(), read.job.source.period);
        let due = ended.as_ref().map_or(now, |ended| ended.due);
        if std::mem::replace(&mut read.is_settled, true) {
            self.schedule.regular(key, due, now, period);
        } else {
            // First readings are close together; later ones are spread over the whole period.
            self.schedule.spread(key, now + period / 2, period);
        }
        match ended {
            Some(ended) => self.finish_read(key, ended, now),
            None => tracing::error!("load reader panicked; please report it"),
        }
    }

    /// Records a result, unless this process was stalled meanwhile. A failure may then have been caused here, and the time
    /// by which to divide the growth of a counter is unknown.
    fn finish_read(&mut self, key: u64, ended: FinishedRead, now: Instant) {
        let Some(ScheduledRead { name, job, .. }) = self.reads.get(&key) else { return };
        let (name, scope, timeout) = (name.clone(), job.scope.clone(), job.source.timeout);
        let took = ended.ended - ended.started;
        let stalled_for = self.meter.stalled_for(now).saturating_sub(ended.stalled_before);
        let lost = stalled_for.max(took.saturating_sub(timeout));
        if lost > tolerance(timeout) {
            self.totals.count_results(&name, [Some(ReadError::OBSERVER)]);
            tracing::debug!(source = %name, ?lost, "load reading ignored: prober stalled");
            return;
        }
        self.totals.count_duration(took);
        self.record(&name, scope, ended.result, ended.started, now);
    }

    /// Records a result in the table and publishes the load.
    fn record(&mut self, name: &LoadSourceName, scope: ReadScope, result: ReadResult, at: Instant, now: Instant) {
        match (result, scope) {
            (ReadResult::Gateways(gateways), ReadScope::Cluster(cluster, _)) => {
                self.totals
                    .count_results(name, gateways.iter().map(|reading| reading.as_ref().err().map(ReadError::reason)));
                let update = self.table.record(&cluster, gateways, at, now);
                self.publish(cluster.as_str(), name.as_str(), update);
            }
            (ReadResult::Clusters(values), _) => {
                self.totals.count_results(name, [values.as_ref().err().map(ReadError::reason)]);
                let clusters: Vec<ClusterName> = self.table.clusters_of(name).cloned().collect();
                for cluster in clusters {
                    let reading = match &values {
                        Ok(values) => values.get(cluster.as_str()).copied().ok_or_else(|| missing_value(&cluster)),
                        Err(error) => Err(error.clone()),
                    };
                    let reading =
                        reading.map(|value| GatewayMetrics { declared: Some(value), ..GatewayMetrics::default() });
                    let update = self.table.record(&cluster, vec![reading], at, now);
                    self.publish(cluster.as_str(), name.as_str(), update);
                }
            }
            // Gateways are read only for a cluster.
            (ReadResult::Gateways(_), ReadScope::AllClusters) => {}
        }
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
    fn count_duration(&mut self, took: Duration) {
        self.count += 1;
        self.time += took;
        if let Some(index) = ProbeTotals::BOUNDS.iter().position(|bound| took <= *bound) {
            self.took[index] += 1;
        }
    }

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

fn missing_value(cluster: &ClusterName) -> ReadError {
    ReadError::Content(format!("the response has no value for {cluster}"))
}

/// Returns the jobs with the names of their sources: one per cluster, or one per query for all clusters.
fn jobs(settings: &[ClusterLoadSettings]) -> Vec<(LoadSourceName, ReadJob)> {
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
            tracing::info!(cluster, source, %signal, load = load.0, "load reading succeeded");
        }
        LoadEvent::Failed(cause) => tracing::warn!(cluster, source, cause, "load reading failed"),
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
