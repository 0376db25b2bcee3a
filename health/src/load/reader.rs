//! The loop around the board: who is due is read, what was brought goes to the board, what changed is told.
//!
//! One task owns the board; the handle talks to it by commands. A reading runs by itself, within its timeout, and at most once
//! at a time: one that hangs delays nobody else's. What is brought while this process itself was held up does not count.

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
    board::{Board, Change, ClusterLoadSettings, Effect, LoadUpdate, PushError, PushedLoad},
    failure::ReadError,
    gateway::GatewayMetrics,
    state::ClusterLoad,
    work::{Brought, Errand, Shared, Whom, Work},
};
use crate::{
    ProbeTotals,
    observer::{LagMeter, tolerance},
    probe::get::TlsConfigs,
    schedule::{self, Schedule},
};

/// What readings came to since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// By source: places that were read well, and those that were not by [`ReadError::REASONS`].
    pub sources: BTreeMap<String, (u64, [u64; ReadError::REASONS.len()])>,
    /// Readings that took at most [`ProbeTotals::BOUNDS`] of the same place, and longer than the one before.
    pub took: [u64; ProbeTotals::BOUNDS.len()],
    /// How many there were.
    pub count: u64,
    /// Time that they took altogether.
    pub time: Duration,
}

/// Handle of the task that reads load. Dropping it ends the task, and the readings that run.
pub struct LoadReader {
    commands: mpsc::Sender<Command>,
    news: broadcast::Sender<LoadUpdate>,
}

#[derive(Debug)]
enum Command {
    Push(String, PushedLoad, oneshot::Sender<Result<(), PushError>>),
    Set(Vec<ClusterLoadSettings>, oneshot::Sender<()>),
    States(oneshot::Sender<(Vec<ClusterLoad>, LoadTotals)>),
}

/// Commands that wait for the task; further callers wait.
const COMMANDS_MAX: usize = 16;
/// Reports that a slow reader may be behind before it loses the oldest; the newest of each cluster is what matters.
const NEWS_MAX: usize = 1024;

impl LoadReader {
    /// Starts the task on the current runtime; nothing is read yet.
    pub fn start() -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let news = broadcast::channel(NEWS_MAX).0;
        tokio::spawn(Reader::new(news.clone()).run(inbox));
        Self { commands, news }
    }

    /// Makes these the clusters whose load is known: readings that are as before keep their times and what they brought,
    /// new ones are first due at once, spread as first probes are. Returns when that is in force.
    pub async fn set(&self, feeds: Vec<ClusterLoadSettings>) {
        let (done, wait) = oneshot::channel();
        if self.commands.send(Command::Set(feeds, done)).await.is_ok() {
            // An error means that the task ended with its runtime: nothing is read any more.
            let _ = wait.await;
        }
    }

    /// Takes a load that somebody reports, or refuses it and changes nothing.
    pub async fn push(&self, cluster: &str, push: PushedLoad) -> Result<(), PushError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Push(cluster.to_owned(), push, reply)).await;
        sent.map_err(|_| PushError::Stopped)?;
        answer.await.map_err(|_| PushError::Stopped)?
    }

    /// Returns every report that counts, from now on.
    pub fn updates(&self) -> broadcast::Receiver<LoadUpdate> {
        self.news.subscribe()
    }

    /// What is known of every cluster that anybody speaks of, and what readings came to.
    pub async fn states(&self) -> (Vec<ClusterLoad>, LoadTotals) {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(Command::States(reply)).await.is_err() {
            return Default::default();
        }
        answer.await.unwrap_or_default()
    }
}

impl fmt::Debug for LoadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadReader").finish_non_exhaustive()
    }
}

/// One errand in the schedule.
#[derive(Debug)]
struct Slot {
    name: LoadSourceName,
    errand: Errand,
    work: Arc<Work>,
    /// True if the first reading is over.
    is_settled: bool,
    running: Option<AbortHandle>,
}

/// A reading that ended.
#[derive(Debug)]
struct Ended {
    due: Instant,
    started: Instant,
    ended: Instant,
    /// Time that the observer had lost when it started.
    stalled_before: Duration,
    brought: Brought,
}

/// Everything the task owns.
struct Reader {
    board: Board,
    slots: HashMap<u64, Slot>,
    next_key: u64,
    schedule: Schedule<u64>,
    running: JoinSet<Ended>,
    whose: HashMap<Id, u64>,
    meter: LagMeter,
    shared: Shared,
    totals: LoadTotals,
    news: broadcast::Sender<LoadUpdate>,
}

impl Reader {
    fn new(news: broadcast::Sender<LoadUpdate>) -> Self {
        Self {
            board: Board::default(),
            slots: HashMap::new(),
            next_key: 0,
            schedule: Schedule::new(RandomState::new().hash_one(0)),
            running: JoinSet::new(),
            whose: HashMap::new(),
            meter: LagMeter::new(Instant::now()),
            shared: Shared::new(),
            totals: LoadTotals::default(),
            news,
        }
    }

    /// Runs until the handle is dropped.
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut tick = interval(LagMeter::TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.schedule.next();
            tokio::select! {
                biased;
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(ended) = self.running.join_next_with_id() => self.finish(ended),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.start_due(),
                // Whoever reads nothing need not know how late it is.
                _ = tick.tick(), if !self.slots.is_empty() => drop(self.meter.tick(Instant::now())),
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Push(cluster, push, reply) => {
                let outcome = self.board.push(&cluster, push, Instant::now());
                let outcome = outcome.map(|effect| self.tell(&cluster, "push", effect));
                // The caller may have given up waiting; the push holds all the same.
                let _ = reply.send(outcome);
            }
            Command::Set(feeds, done) => {
                self.set(feeds);
                let _ = done.send(());
            }
            Command::States(reply) => {
                let _ = reply.send((self.board.states(Instant::now()), self.totals.clone()));
            }
        }
    }

    fn set(&mut self, feeds: Vec<ClusterLoadSettings>) {
        if self.slots.is_empty() {
            self.meter = LagMeter::new(Instant::now());
        }
        let keyed = |(key, slot): (u64, Slot)| ((slot.name.clone(), slot.errand.clone()), (key, slot));
        let mut before: HashMap<_, _> = self.slots.drain().map(keyed).collect();
        let mut configs = TlsConfigs::new();
        let mut new = Vec::new();
        for (name, errand) in errands(&feeds) {
            let wanted = (name, errand);
            if let Some((key, slot)) = before.remove(&wanted) {
                self.slots.insert(key, slot);
                continue;
            }
            let (name, errand) = wanted;
            self.next_key += 1;
            let work = Arc::new(Work::new(errand.clone(), &self.shared, &mut configs));
            new.push((self.next_key, errand.source.period));
            self.slots.insert(self.next_key, Slot { name, errand, work, is_settled: false, running: None });
        }
        before.into_values().filter_map(|(_, slot)| slot.running).for_each(|reading| reading.abort());
        let slots = &self.slots;
        self.schedule.retain(|key| slots.contains_key(&key));
        let (now, count) = (Instant::now(), new.len());
        new.into_iter().for_each(|(key, period)| self.schedule.spread(key, now, schedule::first_spread(count, period)));
        let sources: BTreeSet<String> = self.slots.values().map(|slot| slot.name.to_string()).collect();
        self.totals.sources.retain(|name, _| sources.contains(name));
        for name in sources {
            self.totals.sources.entry(name).or_default();
        }
        self.board.set(feeds);
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while let Some((due, key)) = self.schedule.pop(now) {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if let Some(next) = schedule::missed(due, now, slot.errand.source.period) {
                self.schedule.at(key, next);
                continue;
            }
            let (work, stalled_before) = (Arc::clone(&slot.work), self.meter.stalled_for(now));
            let reading = self.running.spawn(async move {
                let brought = work.run().await;
                Ended { due, started: now, ended: Instant::now(), stalled_before, brought }
            });
            self.whose.insert(reading.id(), key);
            slot.running = Some(reading);
        }
    }

    fn finish(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, Some(ended)),
            Err(error) => (error.id(), None),
        };
        let Some(key) = self.whose.remove(&id) else { return };
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.running = None;
        let (now, period) = (Instant::now(), slot.errand.source.period);
        let due = ended.as_ref().map_or(now, |ended| ended.due);
        if std::mem::replace(&mut slot.is_settled, true) {
            self.schedule.regular(key, due, now, period);
        } else {
            // First readings came close together; from here on they are spread over the whole period.
            self.schedule.spread(key, now + period / 2, period);
        }
        match ended {
            Some(ended) => self.weigh(key, ended, now),
            None => tracing::error!("load reader panicked; please report it"),
        }
    }

    /// Brings what was read to the board, unless this process was held up meanwhile: whose fault it then is that it took
    /// so long is not known, nor is what a counter's growth is to be divided by.
    fn weigh(&mut self, key: u64, ended: Ended, now: Instant) {
        let Some(Slot { name, errand, .. }) = self.slots.get(&key) else { return };
        let (name, whom, timeout) = (name.clone(), errand.whom.clone(), errand.source.timeout);
        let took = ended.ended - ended.started;
        let stalled_for = self.meter.stalled_for(now).saturating_sub(ended.stalled_before);
        let lost = stalled_for.max(took.saturating_sub(timeout));
        if lost > tolerance(timeout) {
            self.totals.note(&name, [Some(ReadError::OBSERVER)]);
            tracing::debug!(source = %name, ?lost, "load reading ignored: prober stalled");
            return;
        }
        self.time(took);
        self.bring(&name, whom, ended.brought, ended.started, now);
    }

    /// Puts on the board what was brought.
    fn bring(&mut self, name: &LoadSourceName, whom: Whom, brought: Brought, at: Instant, now: Instant) {
        match (brought, whom) {
            (Brought::Looks(looks), Whom::Cluster(cluster, _)) => {
                self.totals.note(name, looks.iter().map(|look| look.as_ref().err().map(ReadError::reason)));
                let effect = self.board.looked(&cluster, looks, at, now);
                self.tell(cluster.as_str(), name.as_str(), effect);
            }
            (Brought::Values(values), _) => {
                self.totals.note(name, [values.as_ref().err().map(ReadError::reason)]);
                let clusters: Vec<ClusterName> = self.board.clusters_of(name).cloned().collect();
                for cluster in clusters {
                    let look = match &values {
                        Ok(values) => values.get(cluster.as_str()).copied().ok_or_else(|| unnamed(&cluster)),
                        Err(error) => Err(error.clone()),
                    };
                    let look = look.map(|value| GatewayMetrics { declared: Some(value), ..GatewayMetrics::default() });
                    let effect = self.board.looked(&cluster, vec![look], at, now);
                    self.tell(cluster.as_str(), name.as_str(), effect);
                }
            }
            // Looks are brought for a cluster only.
            (Brought::Looks(_), Whom::All) => {}
        }
    }

    fn time(&mut self, took: Duration) {
        let totals = &mut self.totals;
        totals.count += 1;
        totals.time += took;
        if let Some(place) = ProbeTotals::BOUNDS.iter().position(|bound| took <= *bound) {
            totals.took[place] += 1;
        }
    }

    fn tell(&self, cluster: &str, source: &str, effect: Effect) {
        for change in effect.changes {
            log(cluster, source, &change);
        }
        if let Some(news) = effect.news {
            // Nobody listening is no fault.
            let _ = self.news.send(news);
        }
    }
}

impl LoadTotals {
    /// Counts what became of some places of a source.
    fn note(&mut self, source: &LoadSourceName, outcomes: impl IntoIterator<Item = Option<usize>>) {
        let (read, failed) = self.sources.entry(source.to_string()).or_default();
        for outcome in outcomes {
            match outcome {
                None => *read += 1,
                Some(reason) => failed[reason] += 1,
            }
        }
    }
}

fn unnamed(cluster: &ClusterName) -> ReadError {
    ReadError::Content(format!("the answer has no value for {cluster}"))
}

/// What has to be read at a time of its own, with the name of its source: each cluster, or a query for all of them.
fn errands(feeds: &[ClusterLoadSettings]) -> Vec<(LoadSourceName, Errand)> {
    let (mut errands, mut queries) = (Vec::new(), HashSet::new());
    for feed in feeds {
        let Some((name, source)) = &feed.source else { continue };
        let whom = match source.query {
            LoadQuery::Promql { .. } => Whom::All,
            _ => Whom::Cluster(feed.cluster.clone(), feed.gateways.clone()),
        };
        if whom != Whom::All || queries.insert(name) {
            errands.push((name.clone(), Errand { source: Arc::clone(source), whom }));
        }
    }
    errands
}

/// One line a change.
fn log(cluster: &str, source: &str, change: &Change) {
    match change {
        Change::Answering(some, all) => {
            tracing::warn!(cluster, source, answering = some, total = all, "number of answering gateways changed")
        }
        Change::Read(signal, load) => {
            tracing::info!(cluster, source, %signal, load = load.0, "load reading succeeded");
        }
        Change::Unread(cause) => tracing::warn!(cluster, source, cause, "load reading failed"),
        Change::Warned(warnings) if warnings.is_empty() => {
            tracing::info!(cluster, source, "gateway warnings cleared");
        }
        Change::Warned(warnings) => {
            let warnings = warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(cluster, source, warnings, "gateway warnings changed");
        }
    }
}

#[cfg(test)]
#[path = "tests/reader.rs"]
mod tests;
