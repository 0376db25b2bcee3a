//! Balances clusters by load: reports of load, demand and health go in, tables of slots come out and into the runtime state.
//!
//! `fairway_steering::balancer` decides. Balancing runs only if the policy of a pool has `load` and a load is reported for one of its
//! clusters. Otherwise such pools use the other steps of their policy.
//!
//! If several servers share a store, the leader decides for all of them (`leader`). The others learn and decide as well, so that they can
//! take over, or go on alone.

mod clusters;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::load::LoadUpdate;
use fairway_model::{Backend, ClusterName, DesiredState, LoadReport, Shares, Timestamp};
use fairway_steering::{
    balancer::{Balancer, Counted, Declared, Drain, Group, Outcome, Plan, RiskLevel, Saved},
    evidence::{Query, Source},
};
use fairway_store::{LeaderStatus, Leadership, Role, SavedBalance, encode_decision, encode_evidence};
use fairway_zones::{BalancedPools, DemandSample, Draw, RuntimeState, Slot, Snapshot};

use self::clusters::{Clusters, groups};
use super::{answers::Answered, served::CurrentState};

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
    /// Earliest time at which the leader gets evidence again.
    next_evidence: Option<Instant>,
    role: Role,
    /// Number of load reports that were rejected.
    rejected: u64,
    /// Time of the last warning about one.
    warned: Option<Instant>,
    /// A step ended, and its result was not published.
    has_stepped: bool,
}

/// Load reports that were rejected, client networks that demand is known of, and decisions that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceStatus {
    /// Rejected load reports since the start.
    pub rejected_reports: u64,
    /// Sources that are proven to receive answers.
    pub sources: usize,
    /// Client networks of these sources.
    pub networks: usize,
    /// Client networks that other servers have evidence of.
    pub networks_elsewhere: usize,
    /// Decisions that failed since the start, or took too long, so that the tables stayed.
    pub failed_decisions: u64,
}

/// Balancing that runs.
struct Running {
    balancer: Balancer,
    clusters: Clusters,
    pools: BalancedPools,
    /// Shortest time between two reports of a cluster.
    period: Duration,
    next_step: Instant,
    risk_level: RiskLevel,
    /// Time of the last report.
    last_report: Option<Instant>,
}

impl Balance {
    /// Continues from the state of a previous process, if there is one and it is recent. `now` is the time of the start.
    pub(crate) fn after(past: Option<SavedBalance>, now: Timestamp) -> Self {
        Self { past: past.map(|past| (past, now)), ..Self::default() }
    }

    /// Follows a configuration. What was learnt is kept.
    pub(crate) fn follow(&mut self, desired: &DesiredState, snapshot: &Snapshot, now: Instant) {
        // Intents are balanced by default, so there may be many pools, and no load of any.
        let may_run = snapshot.uses_load() && (self.is_reported || !desired.cluster_load_sources.is_empty());
        let mut pools = self.running.as_mut().map(|running| std::mem::take(&mut running.pools)).unwrap_or_default();
        if may_run {
            pools.follow(snapshot);
        }
        let groups = if may_run { groups(desired, snapshot, &pools) } else { Vec::new() };
        let mut clusters = groups.iter().flat_map(|group| &group.clusters);
        // Pods that were found need not be reachable, and without any report the declared split holds.
        let is_read =
            |of: &Declared| desired.cluster_load_sources.get(&of.name.cluster).is_some_and(|load| !load.is_found);
        if groups.is_empty() || !(self.is_reported || clusters.any(is_read)) {
            self.running = None;
            return;
        }
        let mut running = match self.running.take() {
            Some(before) if before.balancer.groups().eq(&groups) => before,
            Some(before) => before.with_groups(groups, now),
            None => {
                let past = self.past.take().and_then(|(past, started)| recent(past, started, &groups));
                Running::new(groups, past.as_ref(), now)
            }
        };
        running.pools = pools;
        running.balancer.set_elsewhere(self.role.evidence());
        self.running = Some(running);
    }

    /// Returns true if there is anything to balance.
    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Notes that a load was reported. Returns true if balancing may begin, so that the configuration is to be followed again.
    pub(crate) fn note_report(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true) && self.running.is_none()
    }

    /// Returns what an update reports of clusters and services.
    pub(crate) fn reports(update: &LoadUpdate, state: &CurrentState) -> Vec<LoadReport> {
        clusters::reports(update, &state.snapshot, &state.published.configured.merged.desired)
    }

    /// Adds a report of load.
    pub(crate) fn add_report(&mut self, report: &LoadReport, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let outcome = running.balancer.add_report(report, now);
        if outcome != Outcome::Ignored {
            running.last_report = Some(now);
        }
        if outcome == Outcome::Rejected {
            self.rejected += 1;
            if self.warned.is_none_or(|warned| now.saturating_duration_since(warned) >= WARNING_PERIOD) {
                self.warned = Some(now);
                tracing::warn!(
                    cluster = %report.backend, load = %report.load,
                    "load report rejected: far below the load sent to the cluster; further ones are counted in \
                     fairway_load_reports_rejected_total"
                );
            }
        }
    }

    /// Adds the demand of one answer.
    pub(crate) fn add_demand(&mut self, answer: &DemandSample, snapshot: &Snapshot, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Some(pool) = running.pools.number(answer.pool).map(|number| &snapshot.steer_pools()[number]) else {
            return;
        };
        let Some(cluster) = pool.clusters().nth(usize::from(answer.member)) else { return };
        let cluster = &pool.backend(cluster);
        let client = pool.client_net(answer.client.address());
        let Some(class) = snapshot.load_classes().class(pool, client.class()) else { return };
        let demand = pool.demand(client, Draw(0));
        let query = Query { source: Source::of(answer.source), proof: answer.proof, demand };
        running.balancer.count_query(&Counted { class, query, cluster, at: now });
    }

    /// Replaces counts of answers by the load behind them, in pools that are balanced: each cluster's load is divided in the proportion of
    /// its answers.
    pub(crate) fn replace_by_demand(&self, answered: &mut Answered, snapshot: &Snapshot) {
        let Some(running) = &self.running else { return };
        let loads: BTreeMap<&Backend, f64> = running.balancer.expected_loads().collect();
        let backend = |slot: &Slot| {
            let mut pools = snapshot.indices_of(&slot.pool).map(|number| &snapshot.steer_pools()[number]);
            pools.find(|pool| pool.is_balanced()).map(|pool| pool.backend(&slot.cluster))
        };
        let mut counts: BTreeMap<Backend, f64> = BTreeMap::new();
        for (backend, count) in answered.iter().filter_map(|(slot, count)| Some((backend(slot)?, count))) {
            *counts.entry(backend).or_default() += count;
        }
        for (backend, count) in answered.iter_mut().filter_map(|(slot, count)| Some((backend(slot)?, count))) {
            if let (Some(load), Some(all)) = (loads.get(&backend), counts.get(&backend)) {
                *count *= load / all.max(f64::MIN_POSITIVE);
            }
        }
    }

    /// Follows the availability of clusters under a runtime state, and decides anew if it changed or a period is over. Returns true if it
    /// decided.
    pub(crate) fn advance(&mut self, runtime: &RuntimeState, now: Instant) -> bool {
        let Some(running) = &mut self.running else { return false };
        let changed = running.clusters.update(&running.pools, runtime);
        for (cluster, is_available) in &changed {
            running.balancer.set_available(cluster, *is_available, now);
        }
        if changed.is_empty() && now < running.next_step {
            return false;
        }
        let failures = running.balancer.failures();
        running.step(&self.role, now);
        if failures == 0 && running.balancer.failures() > 0 {
            tracing::warn!(
                "load balancing found no decision and keeps its tables; more are counted in fairway_balance_failures_total"
            );
        }
        self.has_stepped = true;
        true
    }

    /// Returns true if a decision was made since the last call.
    pub(crate) fn take_stepped(&mut self) -> bool {
        std::mem::take(&mut self.has_stepped)
    }

    /// Returns the risk level of the last decision, which TTLs depend on; ordinary if nothing is balanced.
    pub(crate) fn risk_level(&self) -> RiskLevel {
        match (&self.role, &self.running) {
            (_, None) => RiskLevel::Ordinary,
            (Role::Follows(_, level), _) => *level,
            (_, Some(running)) => running.risk_level,
        }
    }

    /// Takes the leadership among the servers that share the store. Returns true if balancing may begin, so that the configuration is to be
    /// followed again.
    pub(crate) fn follow_leader(&mut self, leadership: &Leadership, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.role, Role::of(leadership));
        if before.evidence() != self.role.evidence() {
            self.running.iter_mut().for_each(|running| running.balancer.set_elsewhere(self.role.evidence()));
        }
        let Role::Follows(leader, _) = &self.role else { return false };
        self.running.iter_mut().for_each(|running| running.balancer.take_tables(leader, now));
        self.note_report()
    }

    /// Returns the evidence of the queries of this server, for the leader: once per TTL while another server is it.
    pub(crate) fn evidence_for_leader(&mut self, now: Instant) -> Option<Arc<[u8]>> {
        let running = self.running.as_ref().filter(|_| matches!(self.role, Role::Follows(..)))?;
        if self.next_evidence.is_some_and(|next| now < next) {
            return None;
        }
        let ttl = running.balancer.groups().map(|group| group.ttl).max()?;
        self.next_evidence = Some(now + ttl);
        Some(encode_evidence(&running.balancer.demand_evidence()).into())
    }

    /// Returns the role of this server.
    pub(crate) fn leader_status(&self) -> LeaderStatus {
        self.role.status()
    }

    /// Returns the decision for servers that follow this one; `None` without a recent report.
    pub(crate) fn offer(&self, now: Instant) -> Option<Arc<[u8]>> {
        let running = self.running.as_ref()?;
        let oldest = running.period * OFFER_PERIODS;
        running.last_report.filter(|last| now.saturating_duration_since(*last) < oldest)?;
        Some(encode_decision(running.balancer.shares(), running.risk_level).into())
    }

    /// Returns the progress of a cluster's drain; `None` if it is not balanced.
    pub(crate) fn drain(&self, cluster: &ClusterName, now: Instant) -> Option<Drain> {
        self.running.as_ref()?.balancer.drain(cluster, now)
    }

    /// Returns what the last decision found for each location class; nothing if another server decides.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let running = self.running.as_ref().filter(|_| !matches!(self.role, Role::Follows(..)));
        running.map_or_else(Vec::new, |running| running.balancer.plans().cloned().collect())
    }

    /// Returns the status of the evidence; `None` if nothing is balanced.
    pub(crate) fn evidence_status(&self) -> Option<EvidenceStatus> {
        let balancer = &self.running.as_ref()?.balancer;
        let evidence = balancer.evidence();
        Some(EvidenceStatus {
            rejected_reports: self.rejected,
            sources: evidence.proven_sources(),
            networks: evidence.networks(),
            networks_elsewhere: balancer.networks_elsewhere(),
            failed_decisions: balancer.failures(),
        })
    }

    /// Returns the state for a later process; `None` if nothing is balanced.
    pub(crate) fn keep(&self, now: Timestamp) -> Option<SavedBalance> {
        let running = self.running.as_ref()?;
        Some(SavedBalance { written: now, state: running.balancer.save() })
    }

    /// Returns true if it is time to write the state: once per report period, and at most every ten seconds.
    pub(crate) fn is_keeping_due(&mut self, now: Instant) -> bool {
        let Some(running) = &self.running else { return false };
        if self.next_keep.is_some_and(|next| now < next) {
            return false;
        }
        self.next_keep = Some(now + running.period.max(KEEP_PERIOD));
        true
    }

    /// Returns the runtime state with the tables in force, or `None` if it has them already.
    pub(crate) fn with_shares(&self, snapshot: &Snapshot, runtime: &RuntimeState) -> Option<RuntimeState> {
        let none = Shares::default();
        let shares = match (&self.role, &self.running) {
            // Tables of an earlier configuration are void.
            (_, None) => &none,
            (Role::Follows(shares, _), Some(_)) => shares,
            (_, Some(running)) => running.balancer.shares(),
        };
        let is_same = runtime.shares().map_or_else(|| *shares == none, |before| **before == *shares);
        (!is_same).then(|| runtime.with_shares(snapshot, &Arc::new(shares.clone())))
    }
}

impl Running {
    fn new(groups: Vec<Group>, past: Option<&Saved>, now: Instant) -> Self {
        let period = shortest_period(&groups);
        Self {
            clusters: Clusters::new(&groups),
            balancer: Balancer::new(groups, now, past),
            pools: BalancedPools::default(),
            period,
            next_step: now,
            risk_level: RiskLevel::Ordinary,
            last_report: None,
        }
    }

    /// Goes on with other groups.
    fn with_groups(self, groups: Vec<Group>, now: Instant) -> Self {
        let period = shortest_period(&groups);
        Self {
            clusters: Clusters::new(&groups),
            balancer: self.balancer.with_groups(groups),
            period,
            next_step: now,
            ..self
        }
    }

    fn step(&mut self, role: &Role, now: Instant) {
        self.next_step = now + self.period;
        match role {
            Role::Follows(leader, _) => self.balancer.learn(leader, now),
            _ => self.balancer.step(now),
        }
        self.risk_level = self.balancer.risk_level(now);
    }
}

/// Returns the shortest report period.
fn shortest_period(groups: &[Group]) -> Duration {
    groups.iter().map(|group| group.period).min().unwrap_or_default()
}

/// Returns the state of a previous process, or `None` if it is too old at `now`: after that time, a cluster without reports has returned to
/// its declared share, too. A clock that was set back by as much also makes it too old.
fn recent(past: SavedBalance, now: Timestamp, groups: &[Group]) -> Option<Saved> {
    let age = now.since(past.written).max(past.written.since(now));
    let oldest = groups.iter().map(|group| HOLD_PERIODS * group.period + FADE_TTLS * group.ttl).max()?;
    if age > oldest {
        tracing::info!(?age, ?oldest, "saved balance state ignored: too old");
        return None;
    }
    tracing::info!(?age, classes = past.state.classes.len(), "balance state restored");
    Some(past.state)
}

/// Report periods for which a report counts in full, as in the balancer.
const HOLD_PERIODS: u32 = 3;
/// TTLs over which a report then fades, as in the balancer.
const FADE_TTLS: u32 = 10;
/// Number of report periods without a report after which a server offers no decision: a report counts for that long.
const OFFER_PERIODS: u32 = 3;
/// Shortest time between two writes of the state.
const KEEP_PERIOD: Duration = Duration::from_secs(10);
/// Shortest time between two warnings about rejected reports.
const WARNING_PERIOD: Duration = Duration::from_secs(60);
