//! Balances clusters by load: reports of load, demand and health go in, shares come out and into the runtime state.
//!
//! `fairway_health::balance` decides. To find the cluster that a client would get under other shares, it asks the code that answers
//! queries. Balancing runs only if the policy of a pool has `load` and a load is reported for one of its clusters. Otherwise such pools use
//! the other steps of their policy.
//!
//! If several servers share a store, the leader decides for all of them (`leader`). The others learn and decide as well, so that they can
//! take over, or go on alone.
//!
//! ```text
//!             ┌── idle ◄──────────── step_ended ─────────────┐
//!  reports ──►│ demand, health ──── begin_due_step ──► a step, on a separate thread
//!             └── reports during a step wait
//! ```

mod clusters;
mod leader;
mod learnt;
mod past;
mod stand_ins;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::{
    balance::{Balancer, Caution, Drain, Settings},
    load::LoadUpdate,
};
use fairway_model::{ClusterName, DesiredState, PoolName, Shares, Timestamp};
use fairway_store::{Leadership, SavedBalance, encode_decision};
use fairway_zones::{DemandSample, RuntimeState, ServingState, Snapshot};
use tokio::task::{JoinHandle, spawn_blocking};

pub use self::leader::LeaderStatus;
use self::{
    clusters::{Clusters, balanced_pools, settings},
    leader::Role,
    learnt::{Learnt, Numbers},
    past::Past,
};
use super::answers::Answered;

/// Balances the clusters of load-balanced pools, if there are any.
#[derive(Default)]
pub(crate) struct Balance {
    running: Option<Running>,
    /// True if a load was reported since the start. Pushed loads do not appear in the configuration.
    is_reported: bool,
    /// State of a previous process, and the time when this one started.
    past: Option<(SavedBalance, Timestamp)>,
    /// Earliest time of the next write of the state.
    next_keep: Option<Instant>,
    role: Role,
    /// Number of load reports that were rejected.
    rejected: u64,
}

/// Load reports that were rejected, and client networks that demand is known of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceStatus {
    /// Rejected load reports since the start.
    pub rejected_reports: u64,
    /// Sources that are proven to receive answers.
    pub sources: usize,
    /// Client networks of these sources.
    pub networks: usize,
}

/// Balancing that runs.
struct Running {
    settings: Settings,
    numbers: Arc<Numbers>,
    clusters: Clusters,
    work: Work,
    /// Reports that came during a step, with their times.
    waiting: Vec<(LoadUpdate, Instant)>,
    /// Decision of the last step.
    decided: Shares,
    next_step: Instant,
    risk_level: Caution,
    /// Time of the last report.
    last_report: Option<Instant>,
}

/// Owner of what was learnt: this, or a running step.
enum Work {
    Idle(Box<Learnt>),
    Stepping(JoinHandle<Box<Learnt>>),
    /// In transition between the two.
    Changing,
}

impl Balance {
    /// Continues from the state of a previous process, if there is one and it is recent. `now` is the time of the start.
    pub(crate) fn after(past: Option<SavedBalance>, now: Timestamp) -> Self {
        Self { past: past.map(|past| (past, now)), ..Self::default() }
    }

    /// Follows a configuration. What was learnt is kept if the clusters are the same. No step may run: see [`Balance::finish_step`].
    pub(crate) fn follow(&mut self, desired: &DesiredState, snapshot: &Snapshot, now: Instant) {
        let settings = settings(desired, snapshot);
        let is_read =
            |settings: &Settings| settings.clusters.iter().any(|c| desired.cluster_load_sources.contains_key(&c.name));
        let Some(settings) = settings.filter(|settings| self.is_reported || is_read(settings)) else {
            self.running = None;
            return;
        };
        let mut running = match self.running.take() {
            Some(before) if before.settings == settings => before,
            Some(before) => Running::new(settings, before.past(), snapshot, now),
            None => {
                let past = self.past.take().and_then(|(kept, now)| Past::of(kept, now, &settings, snapshot));
                Running::new(settings, past, snapshot, now)
            }
        };
        running.renumber(snapshot);
        self.running = Some(running);
    }

    /// Returns true if there is anything to balance.
    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Returns true if a step runs. Until it ends, what was learnt is not available.
    pub(crate) fn is_stepping(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.work, Work::Stepping(_)))
    }

    /// Notes that a load was reported. Returns true if balancing may begin, so that the configuration is to be followed again.
    pub(crate) fn note_report(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true) && self.running.is_none()
    }

    /// Adds a report of load.
    pub(crate) fn add_report(&mut self, report: LoadUpdate, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Some(cluster) = running.numbers.clusters.get(&report.report.cluster) else { return };
        running.clusters.add_report(*cluster, &report, now);
        running.last_report = Some(now);
        match &mut running.work {
            Work::Idle(learnt) => learnt.add_report(&report, now),
            // A step takes a part of a period, in which each cluster sends a report or two.
            _ if running.waiting.len() < WAITING_MAX => running.waiting.push((report, now)),
            _ => {}
        }
    }

    /// Adds the demand of one answer. No step may run.
    pub(crate) fn add_demand(&mut self, answer: &DemandSample, snapshot: &Snapshot, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if let Work::Idle(learnt) = &mut running.work {
            learnt.add_demand(answer, &running.numbers, snapshot, now);
        }
    }

    /// Replaces counts of answers by the demand behind them, in pools that are balanced. No step may run.
    pub(crate) fn replace_by_demand(&self, answered: &mut Answered, snapshot: &Snapshot, runtime: &RuntimeState) {
        let Some(Running { work: Work::Idle(learnt), numbers, .. }) = &self.running else { return };
        let demand = learnt.demand_by_member(numbers, snapshot, runtime);
        let pools: BTreeSet<PoolName> = demand.keys().map(|slot| slot.pool.clone()).collect();
        answered.retain(|slot, _| !pools.contains(&slot.pool));
        answered.extend(demand);
    }

    /// Finds the clusters that became available or unavailable under a runtime state. Returns true if there are any; then a step is due.
    pub(crate) fn update_availability(&mut self, snapshot: &Snapshot, runtime: &RuntimeState, now: Instant) -> bool {
        let Some(running) = &mut self.running else { return false };
        let changed = running.clusters.update(snapshot, runtime, now);
        if let Work::Idle(learnt) = &mut running.work {
            for (cluster, is_available) in &changed {
                learnt.balancer.available(*cluster, *is_available, now);
            }
        }
        if !changed.is_empty() {
            running.next_step = now;
        }
        !changed.is_empty()
    }

    /// Begins a step if one is due and none runs. `state` is what is served from now on.
    pub(crate) fn begin_due_step(&mut self, state: &ServingState, now: Instant) {
        if let Some(running) = self.running.as_mut().filter(|running| now >= running.next_step) {
            running.begin_step(state, now);
        }
    }

    /// Returns the clusters whose gateways drain or are overloaded.
    pub(crate) fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.running.iter().flat_map(|running| running.clusters.exhausted())
    }

    /// Returns the risk level of the last decision, which TTLs depend on; ordinary if nothing is balanced.
    pub(crate) fn risk_level(&self) -> Caution {
        match (&self.role, &self.running) {
            (_, None) => Caution::Ordinary,
            (Role::Follows(_, level), _) => *level,
            (_, Some(running)) => running.risk_level,
        }
    }

    /// Takes the leadership among the servers that share the store. Returns true if balancing may begin, so that the configuration is to be
    /// followed again.
    pub(crate) fn follow_leader(&mut self, leadership: &Leadership) -> bool {
        self.role = Role::of(leadership);
        matches!(self.role, Role::Follows(..)) && self.note_report()
    }

    /// Returns the role of this server.
    pub(crate) fn leader_status(&self) -> LeaderStatus {
        self.role.status()
    }

    /// Returns the decision for servers that follow this one; `None` without a recent report.
    pub(crate) fn offer(&self, now: Instant) -> Option<Arc<[u8]>> {
        let running = self.running.as_ref()?;
        let oldest = running.settings.period * OFFER_PERIODS;
        running.last_report.filter(|last| now.saturating_duration_since(*last) < oldest)?;
        Some(encode_decision(&running.decided, running.risk_level).into())
    }

    /// Returns the progress of a cluster's drain; `None` if it is not balanced, or during a step.
    pub(crate) fn drain(&self, cluster: &ClusterName, now: Instant) -> Option<Drain> {
        let Some(Running { work: Work::Idle(learnt), numbers, .. }) = &self.running else { return None };
        numbers.clusters.get(cluster).map(|cluster| learnt.balancer.drain(*cluster, now))
    }

    /// Returns the status of the evidence. During a step, that is not known.
    pub(crate) fn evidence_status(&mut self) -> Option<EvidenceStatus> {
        let Some(Running { work: Work::Idle(learnt), .. }) = &mut self.running else { return None };
        self.rejected += learnt.take_rejected();
        let evidence = &learnt.evidence;
        Some(EvidenceStatus {
            rejected_reports: self.rejected,
            sources: evidence.proven_sources(),
            networks: evidence.networks(),
        })
    }

    /// Returns the state for a later process; `None` if nothing is balanced, or during a step.
    pub(crate) fn keep(&self, now: Timestamp) -> Option<SavedBalance> {
        let Some(Running { work: Work::Idle(learnt), .. }) = &self.running else { return None };
        Some(past::keep(learnt, now))
    }

    /// Returns true if it is time to write the state: once per report period, and at most every ten seconds.
    pub(crate) fn is_keeping_due(&mut self, now: Instant) -> bool {
        let Some(running) = &self.running else { return false };
        if self.next_keep.is_some_and(|next| now < next) {
            return false;
        }
        self.next_keep = Some(now + running.settings.period.max(KEEP_PERIOD));
        true
    }

    /// Waits for the end of the running step, forever if none runs. Cancel-safe.
    pub(crate) async fn step_ended(&mut self) {
        let Some(Running { work: Work::Stepping(step), .. }) = &mut self.running else {
            return std::future::pending().await;
        };
        let ended = step.await;
        if let Some(running) = &mut self.running {
            running.end_step(ended.ok());
        }
    }

    /// Waits for the end of the running step, if there is one.
    pub(crate) async fn finish_step(&mut self) {
        if self.is_stepping() {
            self.step_ended().await;
        }
    }

    /// Returns the runtime state with the shares in force, or `None` if it has them already.
    pub(crate) fn with_shares(&self, snapshot: &Snapshot, runtime: &RuntimeState) -> Option<RuntimeState> {
        let shares = match (&self.role, &self.running) {
            // Shares of an earlier configuration are void.
            (_, None) => Shares::default(),
            (Role::Follows(shares, _), Some(running)) => running.clusters.without_unavailable(shares),
            (_, Some(running)) => running.clusters.without_unavailable(&running.decided),
        };
        let is_same = runtime.shares().map_or_else(|| shares == Shares::default(), |before| **before == shares);
        (!is_same).then(|| runtime.with_shares(snapshot, &Arc::new(shares)))
    }
}

impl Running {
    /// Begins with what was learnt about other clusters or in another process.
    fn new(settings: Settings, past: Option<Past>, snapshot: &Snapshot, now: Instant) -> Self {
        let balancer = Balancer::new(settings.clone(), now, past.as_ref().map(|past| &past.learnt));
        let (clients, evidence) = past.map(|past| (past.clients, past.evidence)).unwrap_or_default();
        let decided = balancer.shares().clone();
        let learnt = Learnt::new(balancer, evidence, clients, &settings, now);
        Self {
            clusters: Clusters::new(&settings, snapshot),
            decided,
            work: Work::Idle(Box::new(learnt)),
            settings,
            numbers: Arc::default(),
            waiting: vec![],
            next_step: now,
            risk_level: Caution::Ordinary,
            last_report: None,
        }
    }

    /// Returns what balancing of other clusters can begin with.
    fn past(self) -> Option<Past> {
        let Work::Idle(learnt) = self.work else { return None };
        Some(Past { learnt: learnt.balancer.keep(), clients: learnt.clients, evidence: Some(learnt.evidence) })
    }

    /// Adopts the numbers of a new snapshot.
    fn renumber(&mut self, snapshot: &Snapshot) {
        let pools = balanced_pools(snapshot).map(|(number, pool)| (pool.key(), number)).collect();
        self.numbers = Arc::new(Numbers { pools, clusters: self.clusters.numbers() });
        self.clusters.find_targets(snapshot);
        if let Work::Idle(learnt) = &mut self.work {
            learnt.find_clients(&self.numbers, snapshot);
        }
    }

    /// Begins a step. If one runs, the next one stays due.
    fn begin_step(&mut self, state: &ServingState, now: Instant) {
        self.work = match std::mem::replace(&mut self.work, Work::Changing) {
            Work::Idle(mut learnt) => {
                self.next_step = now + self.settings.period;
                self.clusters.step_begins();
                let (numbers, state) = (Arc::clone(&self.numbers), state.clone());
                Work::Stepping(spawn_blocking(move || {
                    learnt.step(&numbers, &state, now);
                    learnt
                }))
            }
            stepping => stepping,
        };
    }

    /// Takes the result of a step. If its thread failed, balancing starts over.
    fn end_step(&mut self, learnt: Option<Box<Learnt>>) {
        let now = Instant::now();
        let mut learnt = learnt.unwrap_or_else(|| {
            tracing::error!(
                "load balancing failed and restarts from the declared weights; please report this as a bug"
            );
            let balancer = Balancer::new(self.settings.clone(), now, None);
            Box::new(Learnt::new(balancer, None, HashMap::new(), &self.settings, now))
        });
        for (report, at) in self.waiting.drain(..) {
            learnt.add_report(&report, at);
        }
        // The balancer ignores clusters whose availability did not change.
        for (cluster, is_available) in self.clusters.availability() {
            learnt.balancer.available(cluster, is_available, now);
        }
        self.decided = learnt.balancer.shares().clone();
        self.risk_level = learnt.balancer.caution(now);
        self.clusters.step_ended();
        self.work = Work::Idle(learnt);
    }
}

/// Number of report periods without a report after which a server offers no decision: a report counts for that long.
const OFFER_PERIODS: u32 = 3;
/// Shortest time between two writes of the state.
const KEEP_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of reports that wait for the end of a step. Later reports replace lost ones.
const WAITING_MAX: usize = 4096;
