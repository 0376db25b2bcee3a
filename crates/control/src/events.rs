//! Applies events to the runtime state: health transitions, overrides, time, reports of load, decisions of the leader.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Instant, SystemTime},
};

use fairway_health::{HealthTransition, load::LoadUpdate};
use fairway_model::{HealthStatus, listed};
use fairway_store::Leadership;
use fairway_zones::{RuntimeState, ScheduleChange, ServingState};
use tokio::sync::broadcast;

use super::{
    actor::Actor, balance::Balance, drains::fully_overridden, fence::DeniedTargets, lifecycle::Moment, runtime::Event,
    served::Published, shared::AppliedTransition,
};

impl Actor {
    /// Returns the time now.
    pub(crate) fn now(&self) -> Moment {
        Moment { monotonic: Instant::now(), wall: (self.clock)() }
    }

    /// Applies an event: publishes the runtime state that follows from it.
    pub(crate) fn apply(&mut self, event: Event<'_>) {
        let (state, now) = (self.shared.serving.load(), self.now());
        // Clients that asked until now were answered from the previous state.
        self.take_demand(&state, now);
        let (is_second, is_frequent) =
            (matches!(event, Event::Second), matches!(event, Event::Health(_) | Event::Demand));
        if let Some(runtime) = self.inputs.next(&state, event, now) {
            let before = Arc::clone(&state.runtime);
            let serving = ServingState { snapshot: Arc::clone(&state.snapshot), runtime: Arc::new(runtime) };
            let runtime = Arc::clone(&serving.runtime);
            self.deferred.push(self.shared.serving.swap(serving, Arc::clone(&state.published)));
            self.shared.counts.runtime_states.fetch_add(1, Relaxed);
            if is_second {
                self.log_schedules(&state, &before, &runtime);
            }
        }
        if self.inputs.balance.take_stepped() {
            self.publish_evidence(now);
        }
        if !is_frequent {
            self.publish_drains(now);
            self.offer_shares(now);
        }
    }

    /// Folds all waiting health transitions into one runtime state, then logs and publishes each.
    pub(crate) fn apply_transitions(&mut self) {
        let transitions = std::mem::take(&mut self.waiting);
        let published = self.shared.serving.published();
        let uses = &published.configured.uses;
        // Targets that a reload has dropped have no index.
        let statuses: Vec<_> = transitions.iter().filter_map(|of| Some((uses.number_of(&of.target)?, of.to))).collect();
        if !statuses.is_empty() {
            self.apply(Event::Health(&statuses));
        }
        let (applied, mut is_denied_changed) = (SystemTime::now(), false);
        for transition in transitions {
            self.shared.counts.count_transition(transition.to);
            let target = uses.number_of(&transition.target);
            let event = AppliedTransition {
                clusters: target.map(|target| uses.clusters(target)).unwrap_or_default(),
                pools: target.map(|target| uses.pools(target).clone()).unwrap_or_default(),
                transition,
                applied,
            };
            is_denied_changed |= self.note_permission(&event.transition);
            if event.transition.is_allowed && event.transition.from != event.transition.to {
                log_transition(&event);
            }
            // Sending fails if there is no receiver, which is no error.
            let _ = self.shared.probes.transitions.send(event);
        }
        if is_denied_changed {
            self.apply_overrides();
        }
        self.writer.is_health_due = true;
    }

    /// Notes if a target may be probed, as its probe found. Returns true if that changed.
    fn note_permission(&mut self, transition: &HealthTransition) -> bool {
        let HealthTransition { target, cause, is_allowed, .. } = transition;
        let was_allowed = !self.denied.contains_key(target);
        match (was_allowed, *is_allowed) {
            (true, false) => {
                tracing::warn!(event = "health", address = %target.address, monitor = %target.label, %cause, "target not allowed");
                self.denied.insert(target.clone(), cause.to_string());
            }
            (false, true) => {
                tracing::info!(event = "health", address = %target.address, monitor = %target.label, "target allowed");
                self.denied.remove(target);
            }
            _ => return false,
        }
        true
    }

    /// Applies the override table to the targets, and takes out those that this server may not connect to.
    pub(crate) fn apply_overrides(&mut self) {
        let state = self.shared.serving.load();
        let Published { configured, overrides, .. } = &*state.published;
        let rules = self.shared.probes.fence.rules();
        let denied = DeniedTargets::new(&rules, &state.snapshot, &configured.uses, &self.denied);
        let actions = denied.restrict(overrides.actions(&configured.uses));
        if *state.published.denied != denied {
            self.publish(|published| published.denied = Arc::new(denied));
        }
        self.apply(Event::Overrides(actions));
    }

    /// Collects the demand that the worker threads sampled.
    pub(crate) fn take_demand(&mut self, state: &ServingState, now: Moment) {
        for tally in self.shared.queries.by_thread() {
            tally.take_demand_samples(|asked| self.inputs.balance.add_demand(&asked, &state.snapshot, now.monotonic));
        }
    }

    /// Publishes what load control knows after a step, and has it written to disk when it is time.
    fn publish_evidence(&mut self, now: Moment) {
        if self.inputs.balance.is_keeping_due(now.monotonic)
            && let Some(balance) = self.inputs.balance.keep(now.wall)
        {
            self.writer.balance = Some(balance);
        }
        if let Some(evidence) = self.inputs.balance.evidence_status() {
            self.shared.balance.evidence.store(Arc::new(evidence));
            self.shared.balance.plans.store(Arc::new(self.inputs.balance.plans()));
        }
    }

    /// Adds a result of reading load, or a push.
    pub(crate) fn add_load(&mut self, update: Result<LoadUpdate, broadcast::error::RecvError>) {
        // Lost results are outdated by those that follow.
        let Ok(update) = update else { return };
        let now = self.now();
        if self.inputs.exhausted.note(&update, now.monotonic) {
            self.apply_exhausted();
        }
        let state = self.shared.serving.load();
        let reports = Balance::reports(&update, &state);
        if reports.is_empty() {
            return;
        }
        if self.inputs.balance.note_report() {
            self.follow_balance(now.monotonic);
        }
        // Else a load would be known before the queries that caused it.
        self.take_demand(&state, now);
        for report in &reports {
            self.inputs.balance.add_report(report, now.monotonic);
        }
    }

    /// Ends the exhaustion of clusters that was not reported again.
    pub(crate) fn expire_exhausted(&mut self) {
        if self.inputs.exhausted.expire(Instant::now()) {
            self.apply_exhausted();
        }
    }

    /// Takes exhausted clusters out of the pools that have another member, and the others back in.
    fn apply_exhausted(&mut self) {
        let published = self.shared.serving.published();
        self.apply(Event::Exhausted(self.inputs.exhausted.targets(&published.configured.uses)));
    }

    /// Follows the leader among the servers that share the store, and its decision.
    pub(crate) fn follow_leader(&mut self, leadership: &Leadership) {
        let now = Instant::now();
        if self.inputs.balance.follow_leader(leadership, now) {
            self.follow_balance(now);
        }
        let (before, now) = (self.shared.balance.leader.load_full(), self.inputs.balance.leader_status());
        if *before != now {
            let reason = now.reason.as_deref();
            tracing::info!(event = "load", before = before.role, now = now.role, reason, "balance leader changed");
            self.shared.balance.leader.store(Arc::new(now));
        }
        self.apply(Event::Shares);
    }

    /// Starts balancing if the configuration in force has something to balance.
    fn follow_balance(&mut self, now: Instant) {
        let state = self.shared.serving.load();
        self.inputs.balance.follow(&state.published.configured.merged.desired, &state.snapshot, now);
    }

    /// Offers the decided shares to the servers that share the store, or the evidence of this server to the leader.
    fn offer_shares(&mut self, now: Moment) {
        let objects = self.shared.declarations.objects.get().and_then(|objects| objects.as_ref().ok());
        if let Some(election) = objects.and_then(|objects| objects.store().election()) {
            election.set_decision(self.inputs.balance.offer(now.monotonic));
            if let Some(evidence) = self.inputs.balance.evidence_for_leader(now.monotonic) {
                election.set_evidence(evidence);
            }
        }
    }

    /// Publishes the answers of the last minute; of load-balanced pools, the demand behind them.
    pub(crate) fn publish_answers(&mut self) {
        let now = Instant::now();
        if self.answers.is_due(now) {
            let state = self.shared.serving.load();
            let mut answered = self.answers.add(self.shared.queries.sums().answers, &state.snapshot, now);
            self.inputs.balance.replace_by_demand(&mut answered, &state.snapshot);
            self.shared.balance.answered.store(Arc::new(answered));
        }
    }

    /// Publishes for each drained cluster when the last client should have left.
    fn publish_drains(&mut self, now: Moment) {
        let published = self.shared.serving.published();
        let mut drained = fully_overridden(&self.inputs.overrides, &published.denied, &published.configured.uses);
        let exhausted = self.inputs.exhausted.clusters().filter(|cluster| !drained.contains(cluster));
        drained.extend(exhausted.cloned().collect::<Vec<_>>());
        self.drains.follow(&drained, &published.configured.merged.desired, now);
        let drains = self.drains.progress(|cluster| self.inputs.balance.drain(cluster, now.monotonic));
        if **self.shared.balance.drains.load() != drains {
            self.shared.balance.drains.store(Arc::new(drains));
        }
    }

    /// Logs and counts the members that schedules opened or closed.
    fn log_schedules(&self, state: &ServingState, before: &RuntimeState, after: &RuntimeState) {
        let counts = &self.shared.counts;
        for ScheduleChange { pool, cluster, status } in after.schedule_changes(&state.snapshot, before) {
            let (to, counter) = match status.state.open {
                true => ("open", &counts.schedules_opened),
                false => ("closed", &counts.schedules_closed),
            };
            counter.fetch_add(1, Relaxed);
            let until = status.until.as_deref().unwrap_or_default();
            tracing::info!(event = "schedule", %pool, %cluster, to, until, "schedule transition");
        }
    }
}

/// Logs a health transition. The first evaluation of a healthy target is not logged.
fn log_transition(event: &AppliedTransition) {
    let AppliedTransition { transition: HealthTransition { target, from, to, cause, .. }, clusters, pools, .. } = event;
    let (clusters, pools) = (listed(clusters, ","), listed(pools.keys(), ","));
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                event = "health", address = %target.address, monitor = %target.label, clusters, pools, %from, %to, %cause, "health changed"
            )
        };
    }
    match (from, to) {
        (HealthStatus::Pending, HealthStatus::Up) => line!(debug),
        (_, HealthStatus::Up) => line!(info),
        _ => line!(warn),
    }
}
