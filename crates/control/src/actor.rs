//! The one task that changes anything: flips, commands, readings and the clock come in, views and state files go out.
//!
//! While it waits for the disk, for the checker or for a compilation, flips go on being applied (`during`): nothing that
//! is slow stands between a verdict and the answers.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use fairway_health::{HealthTransition, load::LoadUpdate};
use fairway_telemetry::logs::{Logs, Trace};
use fairway_zones::{RuntimeState, ServingState, give_back_memory};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::MissedTickBehavior,
};

use super::{
    balance::Balance,
    command::{Command, Trigger},
    configured::{Reader, Reading, What},
    drains::{DrainWatch, forced_out},
    keeper::Keeper,
    pace::Pacer,
    retired::Retired,
    shared::{Clock, CurrentState, Published, Shared},
    trial::Trials,
    truth::Minute,
};
use fairway_config::watch::Fingerprint;
use fairway_store::Leadership;

/// The control task.
pub struct Actor {
    pub shared: Arc<Shared>,
    pub commands: mpsc::Receiver<Command>,
    pub transitions: mpsc::Receiver<HealthTransition>,
    /// Flips taken from the channel and not applied yet.
    pub waiting: Vec<HealthTransition>,
    pub reader: Reader,
    pub trials: Arc<Trials>,
    /// The reading that runs now.
    pub reading: Option<Running>,
    /// Who waits for the reading that runs now.
    pub askers: Askers,
    /// Who asked after it began: files may have changed since, so they wait for another one.
    pub later: Askers,
    /// What the files of the last reading looked like, for the watcher.
    pub fingerprint: watch::Sender<Fingerprint>,
    /// What is forced on each target, in the order of the snapshot that serves.
    pub forced: Vec<Option<fairway_model::OverrideAction>>,
    pub keeper: Keeper,
    pub retired: Retired,
    pub clock: Clock,
    pub logs: Option<Logs>,
    /// Reports of load.
    pub news: broadcast::Receiver<LoadUpdate>,
    pub balance: Balance,
    /// What was answered in the last minute.
    pub minute: Minute,
    pub drains: DrainWatch,
    /// Which TTLs hold.
    pub pacer: Pacer,
}

/// A reading under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Reading>> + Send>>;

/// Who asked for a reading.
#[derive(Debug, Default)]
pub struct Askers {
    /// Ties the log lines of the reading together.
    pub trace: Trace,
    /// The most that any of them wants to be read.
    pub what: What,
    /// What asked first; `None` if nothing did.
    pub asked_by: Option<Trigger>,
    /// Who wants to hear of it.
    pub replies: Vec<tokio::sync::oneshot::Sender<fairway_api_types::state_wire::ReloadReport>>,
}

impl Actor {
    /// Runs until it is told to end, or until every handle is gone.
    pub async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut balance_tick = tokio::time::interval(BALANCE_TICK);
        balance_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = self.transitions.recv_many(&mut self.waiting, FOLD_MAX), if !self.transitions.is_closed() => self.apply_flips(),
                reading = ended(&mut self.reading) => self.finish(reading).await,
                command = self.commands.recv() => {
                    let Some(command) = command else { break };
                    if self.carry_out(command).await == ControlFlow::Break(()) {
                        break;
                    }
                }
                _ = tick.tick() => self.tick().await,
                news = self.news.recv() => self.hear(news),
                () = self.balance.stepped() => self.share(),
                _ = balance_tick.tick(), if self.balance.runs() => self.rebalance(),
            }
        }
        self.keep_health().await;
    }

    /// Waits for `work`; applies flips and follows schedules meanwhile.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = self.transitions.recv_many(&mut self.waiting, FOLD_MAX), if !self.transitions.is_closed() => self.apply_flips(),
                done = &mut work => return done,
                _ = tick.tick() => self.follow_schedules(),
            }
        }
    }

    /// What is due once a second: members that open or close, ended overrides, state to keep, views to free.
    async fn tick(&mut self) {
        self.follow_schedules();
        self.end_overrides().await;
        self.keeper.tick(&self.shared);
        self.count_answers();
        self.watch_drains();
        self.keep_pace();
        self.offer();
        self.free_retired();
    }

    /// Publishes the runtime state with the TTLs of now, where these changed.
    pub fn keep_pace(&mut self) {
        let view = self.shared.serving.load();
        if let Some(paced) =
            self.pacer.pace(&view.snapshot, &view.runtime, &self.balance, (Instant::now(), (self.clock)()))
        {
            self.publish_runtime(&view, paced);
        }
    }

    /// Publishes until when clients are still sent to clusters that are taken out.
    pub fn watch_drains(&mut self) {
        let published = self.shared.serving.published();
        let mut out = forced_out(&self.forced, &published.configured.uses);
        out.extend(self.balance.exhausted().filter(|cluster| !out.contains(cluster)).cloned().collect::<Vec<_>>());
        let now = Instant::now();
        self.drains.follow(&out, &published.configured.merged.desired, (now, (self.clock)()));
        // While a step runs, nobody can say what is left: it is told when that ends.
        if self.balance.is_stepping() {
            return;
        }
        let drains = self.drains.look(|cluster| self.balance.drain(cluster, now));
        if **self.shared.drains.load() != drains {
            self.shared.drains.store(Arc::new(drains));
        }
    }

    /// Publishes what was answered lately, by counters; of what is balanced, by the demand that was found.
    fn count_answers(&mut self) {
        let now = Instant::now();
        // While a step runs, it is not known who has which demand.
        if self.minute.is_due(now) && !self.balance.is_stepping() {
            let view = self.shared.serving.load();
            let mut answered = self.minute.look(self.shared.transports.tallies().answers, &view.snapshot, now);
            self.balance.weigh(&mut answered, &view.snapshot, &view.runtime);
            self.shared.answered.store(Arc::new(answered));
        }
    }

    /// Takes a report of load.
    fn hear(&mut self, news: Result<LoadUpdate, broadcast::error::RecvError>) {
        // Of reports that were lost, later ones say what counts now.
        let Ok(news) = news else { return };
        let now = Instant::now();
        if self.balance.note_told() {
            let (published, view) = (self.shared.serving.published(), self.shared.serving.load());
            self.balance.follow(&published.configured.merged.desired, &view.snapshot, now);
        }
        self.balance.hear(news, now);
    }

    /// Takes who asked, and begins to decide anew where it is time.
    fn rebalance(&mut self) {
        if self.balance.is_stepping() {
            return;
        }
        let (view, now) = (self.shared.serving.load(), Instant::now());
        self.take_asked(&view, now);
        if let Some(runtime) = self.balance.look(&view.snapshot, &view.runtime, now) {
            self.publish_runtime(&view, runtime);
        }
    }

    /// Takes who asked lately; while a step runs, they wait where they are.
    pub fn take_asked(&mut self, view: &ServingState, now: Instant) {
        if self.balance.is_stepping() {
            return;
        }
        for tally in self.shared.transports.counters().tallies_by_thread() {
            tally.take_asked(|asked| self.balance.asked(&asked, &view.snapshot, now));
        }
    }

    /// Publishes what a step decided.
    fn share(&mut self) {
        let (view, now) = (self.shared.serving.load(), Instant::now());
        if self.balance.is_keeping_due(now) {
            self.balance.keep((self.clock)()).into_iter().for_each(|kept| self.keeper.balance_changed(kept));
        }
        if let Some(runtime) = self.balance.share(&view.snapshot, &view.runtime) {
            self.publish_runtime(&view, runtime);
        }
        self.offer();
        self.watch_drains();
    }

    /// Goes by what is on the board of those that share the store.
    pub fn take_posted(&mut self, posted: &Leadership) {
        let (view, now) = (self.shared.serving.load(), Instant::now());
        if self.balance.take_posted(posted) {
            self.balance.follow(&self.shared.serving.published().configured.merged.desired, &view.snapshot, now);
        }
        let (before, now) = (self.shared.decides.load_full(), self.balance.lead().told());
        if *before != now {
            let reason = now.reason.as_deref();
            tracing::info!(before = before.lead, now = now.lead, reason, "balance leader changed");
            self.shared.decides.store(Arc::new(now));
        }
        if let Some(runtime) = self.balance.share(&view.snapshot, &view.runtime) {
            self.publish_runtime(&view, runtime);
        }
    }

    /// Offers what was decided to those that share the store.
    fn offer(&self) {
        let objects = self.shared.objects.get().and_then(|objects| objects.as_ref().ok());
        if let Some(election) = objects.and_then(|objects| objects.store().election()) {
            election.set_decision(self.balance.offer(Instant::now()));
        }
    }

    /// Writes what is known of targets, and waits for it.
    async fn keep_health(&mut self) {
        let shared = Arc::clone(&self.shared);
        let states = self.during(async move { shared.checker.states().await }).await;
        let shared = Arc::clone(&self.shared);
        self.balance.rest().await;
        let balance = self.balance.keep((self.clock)());
        self.keeper.write_last(&shared, states, balance).await;
    }

    /// Publishes a view and keeps the one it replaces.
    pub fn publish_state(&mut self, view: ServingState) {
        self.retire(self.shared.serving.swap_serving(view));
    }

    /// Keeps a replaced state until nobody reads it any more.
    pub fn retire(&mut self, old: Arc<CurrentState>) {
        self.retired.keep(old);
        if self.retired.len() > RETIRED_EAGER {
            self.free_retired();
        }
    }

    /// Publishes another runtime state of the snapshot that serves.
    pub fn publish_runtime(&mut self, view: &ServingState, runtime: impl Into<Arc<RuntimeState>>) {
        self.publish_state(ServingState { snapshot: Arc::clone(&view.snapshot), runtime: runtime.into() });
        self.shared.counts.conditions.fetch_add(1, Relaxed);
    }

    /// Publishes something else about the view that serves.
    pub fn publish(&mut self, change: impl FnOnce(&mut Published)) {
        let current = self.shared.serving.load();
        let mut published = Published::clone(&current.published);
        change(&mut published);
        self.retire(self.shared.serving.swap(current.serving.clone(), Arc::new(published)));
    }

    fn free_retired(&mut self) {
        let free = self.retired.take_free();
        // The last share of a large snapshot takes a while to free: not on a thread that flips wait for.
        if free.iter().any(|view| Arc::strong_count(&view.snapshot) == 1) {
            tokio::task::spawn_blocking(move || {
                drop(free);
                give_back_memory();
            });
        }
    }
}

/// Waits for the reading that runs; for ever where none does.
async fn ended(reading: &mut Option<Running>) -> Option<Reading> {
    match reading {
        Some(running) => {
            let outcome = running.await;
            *reading = None;
            outcome
        }
        None => std::future::pending().await,
    }
}

/// How often the clock is looked at: members open and close, overrides end, state is kept and views are freed this soon after they could be.
const TICK: Duration = Duration::from_secs(1);
/// How often it is looked at who asked for what is balanced: how long they keep answers is known no better, and a drain's end follows
/// from it. What is asked meanwhile waits in rings of 4,096 a worker.
const BALANCE_TICK: Duration = Duration::from_millis(50);
/// Most flips folded into one change of runtime state; more are taken at once after.
const FOLD_MAX: usize = 4096;
/// Serving states kept before they are looked through out of turn: a storm of flips makes thousands a second.
const RETIRED_EAGER: usize = 64;
