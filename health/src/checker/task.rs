//! The checking task: starts due probes, evaluates their results and sends transitions.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use fairway_model::{Cause, HealthStatus, ProbeAddress};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    HealthTransition, Observer, ProbeTotals,
    observation::{ProbeReport, observe_report},
    outbox::Outbox,
    sockets::{Lane, Sockets},
    table::{CheckedTarget, NewTarget, StatesPage, TargetKey, TargetTable},
};
use crate::{
    observer::{LagMeter, ReachedTargets},
    probe::{PreparedMonitor, ProbeResult},
    schedule::{self, ProbeSchedule},
};

/// A function that probes an address with a prepared monitor; tests replace it.
pub(super) trait Probe: Fn(Arc<PreparedMonitor>, ProbeAddress) -> Self::Running + Send + 'static {
    /// The running probe.
    type Running: Future<Output = ProbeResult> + Send + 'static;
}

impl<P, F> Probe for P
where
    P: Fn(Arc<PreparedMonitor>, ProbeAddress) -> F + Send + 'static,
    F: Future<Output = ProbeResult> + Send + 'static,
{
    type Running = F;
}

/// A command from the handle.
#[derive(Debug)]
pub(super) enum CheckerCommand {
    /// Replaces the targets.
    SetTargets(Vec<NewTarget>, oneshot::Sender<()>),
    /// Returns the states from a position on.
    States {
        /// Position in the order that was set.
        from: usize,
        /// Receives one page of them.
        reply: oneshot::Sender<StatesPage>,
    },
    /// Returns the state of the checker itself.
    Observer(oneshot::Sender<Observer>),
}

/// Largest number of states in one page: about 100 µs of work, during which no probe starts.
const STATES_PER_PAGE: usize = 256;

/// The state of the checking task.
pub(super) struct CheckerTask<P> {
    table: TargetTable,
    schedule: ProbeSchedule<TargetKey>,
    probe: P,
    sockets: Sockets<TargetKey>,
    running: JoinSet<ProbeReport>,
    /// Target and socket lane of each running probe.
    probes: HashMap<Id, (TargetKey, Lane)>,
    outbox: Outbox<TargetKey>,
    unevaluated: watch::Sender<usize>,
    meter: Arc<Mutex<LagMeter>>,
    totals: ProbeTotals,
    reach: ReachedTargets<TargetKey>,
    /// The next time at which stale statuses are expired.
    next_expiry: Instant,
    expiry_period: Duration,
}

impl<P: Probe> CheckerTask<P> {
    pub(super) fn new(
        sockets_max: usize,
        transitions: mpsc::Sender<HealthTransition>,
        unevaluated: watch::Sender<usize>,
        seed: u64,
        probe: P,
    ) -> Self {
        let now = Instant::now();
        Self {
            table: TargetTable::default(),
            schedule: ProbeSchedule::new(seed),
            probe,
            sockets: Sockets::new(sockets_max),
            running: JoinSet::new(),
            probes: HashMap::new(),
            outbox: Outbox::new(transitions),
            unevaluated,
            meter: Arc::new(Mutex::new(LagMeter::new(now))),
            totals: ProbeTotals::default(),
            reach: ReachedTargets::new(),
            next_expiry: now + EXPIRY_MAX,
            expiry_period: EXPIRY_MAX,
        }
    }

    /// Runs until the handle is dropped.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<CheckerCommand>) {
        let mut ticker = JoinSet::new();
        ticker.spawn(tick(Arc::clone(&self.meter)));
        let transitions = self.outbox.channel();
        let mut timer = std::pin::pin!(sleep_until(self.next_expiry));
        loop {
            let wake = self.schedule.next().map_or(self.next_expiry, |due| due.min(self.next_expiry));
            if timer.deadline() != wake {
                timer.as_mut().reset(wake);
            }
            tokio::select! {
                biased;
                command = inbox.recv() => match command {
                    Some(command) => self.execute(command),
                    None => return,
                },
                Some(ended) = self.running.join_next_with_id() => self.finish_all(ended),
                permit = transitions.reserve(), if self.outbox.len() > 0 => match permit {
                    Ok(permit) => self.outbox.send(permit),
                    Err(_) => self.outbox.clear(),
                },
                () = &mut timer => {}
            }
            self.start_due();
        }
    }

    fn execute(&mut self, command: CheckerCommand) {
        match command {
            CheckerCommand::SetTargets(entries, done) => {
                self.set(entries);
                // The receiver may be gone; the change is in effect all the same.
                let _ = done.send(());
            }
            CheckerCommand::States { from, reply } => {
                let _ = reply.send(self.table.states(from, STATES_PER_PAGE));
            }
            CheckerCommand::Observer(reply) => {
                let meter = lock(&self.meter);
                let (stalled_for, stalls) = (meter.stalled_for(Instant::now()), meter.stalls());
                drop(meter);
                let _ = reply.send(Observer {
                    probes_running: self.running.len(),
                    probes_waiting: self.sockets.waiting(),
                    transitions_waiting: self.outbox.len(),
                    stalls,
                    stalled_for,
                    totals: self.totals,
                });
            }
        }
    }

    fn set(&mut self, entries: Vec<NewTarget>) {
        let now = Instant::now();
        let awake = lock(&self.meter).awake(now);
        let (added, gone) = self.table.set(entries, awake, SystemTime::now());
        for key in &gone {
            self.outbox.remove(*key);
            if let Some(probe) = self.table.targets.remove(key).and_then(|slot| slot.probe) {
                probe.abort();
            }
        }
        if !gone.is_empty() {
            self.schedule.retain(|key| self.table.targets.contains_key(&key));
            self.sockets.retain(|key| self.table.targets.contains_key(&key));
        }
        for key in &added {
            let Some(slot) = self.table.targets.get(key) else { continue };
            let period = slot.period();
            let over = match (slot.prepared.fixed().is_some(), slot.settled) {
                (true, _) => Duration::ZERO,
                (false, true) => period,
                (false, false) => schedule::first_spread(added.len(), period),
            };
            self.schedule.spread(*key, now, over);
        }
        let slots = || self.table.targets.values();
        let shortest = slots().map(|slot| slot.monitor().period).min().unwrap_or(EXPIRY_MAX);
        self.expiry_period = shortest.clamp(EXPIRY_MIN, EXPIRY_MAX);
        self.next_expiry = self.next_expiry.min(now + self.expiry_period);
        self.unevaluated.send_replace(slots().filter(|slot| !slot.evaluator.is_evaluated()).count());
    }

    /// Starts due probes as long as sockets are free, and expires stale statuses.
    fn start_due(&mut self) {
        let now = Instant::now();
        if now >= self.next_expiry {
            self.expire_all(now);
        }
        while let Some((due, key)) = self.schedule.pop(now) {
            let Some(slot) = self.table.targets.get(&key) else { continue };
            if let Some(next) = schedule::missed(due, now, slot.period()) {
                self.schedule.at(key, next);
            } else if let Some(result) = slot.prepared.fixed() {
                self.finish(key, ProbeReport { due, started: now, ended: now, stalled_for: Duration::ZERO, result });
            } else {
                self.sockets.queue(slot.lane(), due, key);
            }
        }
        while let Some((lane, due, key)) = self.sockets.take() {
            self.start(lane, due, key, now);
        }
    }

    fn start(&mut self, lane: Lane, due: Instant, key: TargetKey, started: Instant) {
        let Some(slot) = self.table.targets.get_mut(&key) else { return self.sockets.release(lane) };
        let probe = (self.probe)(Arc::clone(&slot.prepared), slot.target().address.clone());
        let meter = Arc::clone(&self.meter);
        let before = lock(&meter).stalled_for(started);
        let running = self.running.spawn(async move {
            let result = probe.await;
            let ended = Instant::now();
            let stalled_for = lock(&meter).stalled_for(ended).saturating_sub(before);
            ProbeReport { due, started, ended, stalled_for, result }
        });
        self.probes.insert(running.id(), (key, lane));
        slot.probe = Some(running);
    }

    /// Finishes a probe that has ended, and all others that have ended in the meantime.
    fn finish_all(&mut self, ended: Result<(Id, ProbeReport), JoinError>) {
        let mut next = Some(ended);
        while let Some(ended) = next {
            let (id, report) = match ended {
                Ok((id, report)) => (id, Some(report)),
                Err(error) => (error.id(), None),
            };
            if let Some((key, lane)) = self.probes.remove(&id) {
                self.sockets.release(lane);
                // Without a report, the probe was aborted with its target, or its task panicked.
                let report = report.unwrap_or_else(|| ProbeReport::broken(Instant::now()));
                self.finish(key, report);
            }
            next = self.running.try_join_next_with_id();
        }
    }

    /// Evaluates a report and schedules the next probe.
    fn finish(&mut self, key: TargetKey, report: ProbeReport) {
        let awake = lock(&self.meter).awake(report.ended);
        let Some(slot) = self.table.targets.get_mut(&key) else { return };
        slot.probe = None;
        let ProbeReport { due, started, ended, .. } = report;
        if let ProbeResult::NotAllowed(denied) = report.result {
            return self.deny(key, due, ended, Cause(denied.to_string()));
        }
        let was_denied = !std::mem::replace(&mut slot.is_allowed, true);
        let outcome = observe_report(slot, key, &mut self.reach, report);
        if slot.prepared.fixed().is_none() {
            self.totals.note(&outcome, ended - started);
        }
        let before = slot.evaluator.status();
        let change = slot.observe(outcome, ended - started, awake, SystemTime::now());
        let period = slot.period();
        if slot.inconclusive_streak > 0 {
            self.schedule.at(key, schedule::retry(started, ended, period, slot.inconclusive_streak));
        } else if slot.evaluator.is_wavering() {
            self.schedule.at(key, schedule::confirmation(started, ended, period));
        } else if std::mem::replace(&mut slot.settled, true) {
            self.schedule.regular(key, due, ended, period);
        } else {
            // First probes are close together; later ones are spread over the whole period.
            self.schedule.spread(key, ended, period);
        }
        match change {
            Some((to, cause)) => self.transition(key, before, to, cause),
            None if was_denied => self.send(key, before, before, Cause::new("the target is allowed now")),
            None => {}
        }
    }

    /// Records that a target may not be probed, and looks again after its period: the rules or its addresses may change.
    fn deny(&mut self, key: TargetKey, due: Instant, ended: Instant, cause: Cause) {
        let Some(slot) = self.table.targets.get_mut(&key) else { return };
        let (before, was_allowed, period) = (slot.evaluator.status(), slot.is_allowed, slot.period());
        slot.settled = true;
        slot.deny(&cause, SystemTime::now());
        self.schedule.regular(key, due, ended, period);
        match before {
            HealthStatus::Down if was_allowed => self.send(key, before, before, cause),
            HealthStatus::Down => {}
            _ => self.transition(key, before, HealthStatus::Down, cause),
        }
    }

    fn expire_all(&mut self, now: Instant) {
        self.next_expiry = now + self.expiry_period;
        let awake = lock(&self.meter).awake(now);
        let expire = |(key, slot): (&TargetKey, &mut Box<CheckedTarget>)| {
            let before = slot.evaluator.status();
            slot.expire(awake).map(|(to, cause)| (*key, before, to, cause))
        };
        let expired: Vec<_> = self.table.targets.iter_mut().filter_map(expire).collect();
        for (key, before, to, cause) in expired {
            self.transition(key, before, to, cause);
        }
    }

    /// Records a transition and sends it.
    fn transition(&mut self, key: TargetKey, from: HealthStatus, to: HealthStatus, cause: Cause) {
        let Some(slot) = self.table.targets.get_mut(&key) else { return };
        slot.changed(to, cause.clone(), SystemTime::now());
        self.send(key, from, to, cause);
        let evaluated = |status| matches!(status, HealthStatus::Up | HealthStatus::Down);
        match (evaluated(from), evaluated(to)) {
            (false, true) => self.unevaluated.send_modify(|count| *count = count.saturating_sub(1)),
            (true, false) => self.unevaluated.send_modify(|count| *count += 1),
            _ => {}
        }
    }

    /// Sends a transition.
    fn send(&mut self, key: TargetKey, from: HealthStatus, to: HealthStatus, cause: Cause) {
        let Some(slot) = self.table.targets.get(&key) else { return };
        let (target, is_allowed) = (slot.target().clone(), slot.is_allowed);
        self.outbox.push(key, HealthTransition { target, from, to, cause, at: SystemTime::now(), is_allowed });
    }
}

/// Measures stalls of this process and logs long ones.
async fn tick(meter: Arc<Mutex<LagMeter>>) {
    let mut logged = None;
    loop {
        sleep_until(Instant::now() + LagMeter::TICK).await;
        let now = Instant::now();
        let Some(late) = lock(&meter).tick(now) else { continue };
        let is_quiet = logged.is_some_and(|logged| now - logged < STALL_LOG_PAUSE);
        if late >= STALL_LOGGED && !is_quiet {
            logged = Some(now);
            tracing::warn!(event = "health", duration = ?late, "process stalled; probes that failed meanwhile do not count");
        }
    }
}

/// Locks the meter. Its numbers are valid even if a thread panicked while it held the lock.
fn lock(meter: &Mutex<LagMeter>) -> std::sync::MutexGuard<'_, LagMeter> {
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bounds of the time between two expiries of stale statuses, which is otherwise the shortest period of a monitor. An expiry
/// visits all targets: 10 times per second at most, and at least once per second so that a status expires in time.
const EXPIRY_MIN: Duration = Duration::from_millis(100);
const EXPIRY_MAX: Duration = Duration::from_secs(1);
/// Shortest stall that is logged: the shortest period that the manual shows. Logged at most once per [`STALL_LOG_PAUSE`].
const STALL_LOGGED: Duration = Duration::from_millis(200);
const STALL_LOG_PAUSE: Duration = Duration::from_secs(10);
