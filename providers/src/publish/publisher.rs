//! The task of one provider. A provider that hangs blocks only its own task.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use fairway_model::RecordSetKey;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use super::{
    apply::{Applied, apply},
    handover::{Handover, HandoverError, HandoverPlan},
    notes_wire::Notes,
    pacing::{LOOK_AGAIN, Pacing, SETTLE},
    plan::Wanted,
    provider::{Leadership, Limits, Provider, ProviderError},
    registry::{Claims, Ownership},
    status::{Condition, SetCondition, Status},
    sync::{Draft, Outcome, PlanId, Rules, claimed, settled},
};

/// The wanted state and its changes; `None` until the first round of probes has ended.
pub type WantedUpdates = watch::Receiver<Option<Arc<Wanted>>>;

/// Settings of a publisher.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name in the configuration.
    pub name: String,
    /// Rules of publishing.
    pub rules: Rules,
    /// Rate of syncs and calls.
    pub pacing: Pacing,
    /// True if it applies changes itself; otherwise an operator does with `fairway publish apply`.
    pub auto: bool,
}

/// An order of an operator.
#[derive(Debug)]
enum Order {
    /// A sync with this number of granted deletions, if its plan is this one.
    Sync { deletions: usize, plan: Option<PlanId>, reply: oneshot::Sender<Result<Outcome, ProviderError>> },
    /// A step of a handover, between two syncs.
    HandOver { handover: Handover, reply: oneshot::Sender<Result<HandoverOutcome, HandoverError>> },
}

/// Result of a step of a handover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverOutcome {
    /// The plan.
    pub plan: HandoverPlan,
    /// The changes that were applied, and the reasons why others were not.
    pub applied: Applied,
}

/// Handle of a publisher; clones share it.
#[derive(Clone)]
pub struct Publisher {
    inner: Arc<Inner>,
    orders: mpsc::Sender<Order>,
    status: watch::Receiver<Arc<Status>>,
}

struct Inner {
    setup: Setup,
    provider: Box<dyn Provider>,
    wanted: WantedUpdates,
    claims: Mutex<Claims>,
}

impl Publisher {
    /// Returns a publisher and its task, which ends when the sender of `wanted` is dropped.
    pub fn new(
        setup: Setup,
        provider: Box<dyn Provider>,
        wanted: WantedUpdates,
        notes: Notes,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let claims = Mutex::new(notes.read());
        let inner = Arc::new(Inner { setup, provider, wanted: wanted.clone(), claims });
        let (orders, orders_in) = mpsc::channel(ORDERS_MAX);
        let (status_out, status) = watch::channel(Arc::new(Status::default()));
        let wait = inner.setup.pacing.resync;
        let (own, leadership) = (Arc::clone(&inner), inner.provider.leadership());
        let task =
            Task { inner: own, wanted, orders: orders_in, leadership, status: status_out, notes, last: None, wait };
        (Self { inner, orders, status }, task.run())
    }

    /// Returns the settings.
    pub fn setup(&self) -> &Setup {
        &self.inner.setup
    }

    /// Returns the limits of the provider.
    pub fn limits(&self) -> Limits {
        self.inner.provider.limits()
    }

    /// Returns the status.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.borrow())
    }

    /// Lets another server publish at once. Waits until the call in progress has ended.
    pub async fn resign(&self) {
        self.inner.provider.resign().await;
    }

    /// Plans a sync without applying it.
    pub async fn draft(&self, deletions: usize) -> Result<Draft, ProviderError> {
        let wanted = self.inner.wanted().ok_or_else(not_known)?;
        let claims = self.inner.claims();
        self.inner.setup.rules.draft(&*self.inner.provider, &wanted, &claims, deletions).await
    }

    /// Syncs now and waits for the result. `deletions` are allowed beyond the bounds.
    pub async fn apply(&self, deletions: usize) -> Result<Outcome, ProviderError> {
        self.order(|reply| Order::Sync { deletions, plan: None, reply }).await?
    }

    /// Syncs now if that is this plan, and waits for the result. Fails with [`ProviderError::OutdatedPlan`] otherwise, and changes nothing.
    pub async fn apply_plan(&self, deletions: usize, plan: PlanId) -> Result<Outcome, ProviderError> {
        self.order(|reply| Order::Sync { deletions, plan: Some(plan), reply }).await?
    }

    /// Plans a step of a handover without applying it.
    pub async fn draft_hand_over(&self, handover: &Handover) -> Result<HandoverPlan, HandoverError> {
        self.inner.plan_hand_over(handover).await
    }

    /// Applies a step of a handover between two syncs, and waits for the result.
    pub async fn hand_over(&self, handover: Handover) -> Result<HandoverOutcome, HandoverError> {
        self.order(|reply| Order::HandOver { handover, reply }).await?
    }

    /// Sends an order to the task, and waits for its result.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, ProviderError> {
        let (reply, outcome) = oneshot::channel();
        let ended = || ProviderError::Unavailable("the publisher is stopping".to_owned());
        self.orders.send(order(reply)).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())
    }
}

impl Inner {
    fn wanted(&self) -> Option<Arc<Wanted>> {
        self.wanted.borrow().clone()
    }

    async fn plan_hand_over(&self, handover: &Handover) -> Result<HandoverPlan, HandoverError> {
        let wanted = self.wanted().ok_or_else(not_known)?;
        let rules = &self.setup.rules;
        let current = rules.read(&*self.provider, &wanted, &self.claims()).await?;
        rules.ownership.hand_over(handover, &current, &wanted)
    }

    fn claims(&self) -> Claims {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn not_known() -> ProviderError {
    ProviderError::Unavailable("the wanted records are not known before the first round of probes has ended".to_owned())
}

/// True changes, those of one plan, or a plan for the status only.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Apply,
    ApplyPlan(PlanId),
    PlanOnly,
}

struct Task {
    inner: Arc<Inner>,
    wanted: WantedUpdates,
    orders: mpsc::Receiver<Order>,
    /// Result of the leader election, if the provider has one.
    leadership: Option<watch::Receiver<Leadership>>,
    status: watch::Sender<Arc<Status>>,
    notes: Notes,
    /// The wanted state of the last sync that found or made everything as wanted.
    last: Option<Arc<Wanted>>,
    /// Pause after the last sync.
    wait: Duration,
}

impl Task {
    async fn run(mut self) {
        let mut due = Instant::now();
        loop {
            let is_known = self.wanted.borrow().is_some() && self.leadership() != Leadership::Pending;
            tokio::select! {
                biased;
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // Changes must not shorten the back-off of a failing provider.
                    if self.status.borrow().failures == 0 {
                        due = due.min(Instant::now() + SETTLE);
                    }
                }
                order = self.orders.recv() => {
                    let Some(order) = order else { return };
                    due = self.carry_out(order).await;
                }
                () = changed(&mut self.leadership) => due = Instant::now(),
                () = sleep_until(due), if is_known => {
                    // The result is in the status.
                    let mode = if self.is_applied() { Mode::Apply } else { Mode::PlanOnly };
                    let _ = self.sync(0, mode).await;
                    due = Instant::now() + self.wait;
                }
            }
        }
    }

    /// Carries out an order and returns the time of the next sync. The caller may be gone, so a failed reply is ignored.
    async fn carry_out(&mut self, order: Order) -> Instant {
        match order {
            Order::Sync { deletions, plan, reply } => {
                let outcome = self.sync(deletions, plan.map_or(Mode::Apply, Mode::ApplyPlan)).await;
                // A refused order is no sync, so the next one must not wait.
                let wait = if is_refused(&outcome) { SETTLE } else { self.wait };
                let due = Instant::now() + wait;
                let _ = reply.send(outcome);
                due
            }
            Order::HandOver { handover, reply } => {
                let _ = reply.send(self.hand_over(&handover).await);
                // The sets that are owned now may differ from the wanted ones.
                Instant::now() + SETTLE
            }
        }
    }

    async fn hand_over(&self, handover: &Handover) -> Result<HandoverOutcome, HandoverError> {
        let plan = self.inner.plan_hand_over(handover).await?;
        let applied = apply(&*self.inner.provider, &plan.units, self.inner.setup.pacing.call_gap).await;
        Ok(HandoverOutcome { plan, applied })
    }

    /// Returns the result of the leader election; a provider without one has this server as its leader.
    fn leadership(&self) -> Leadership {
        self.leadership.as_ref().map_or(Leadership::Leader, |leadership| leadership.borrow().clone())
    }

    /// Fails if this server may not do this now.
    fn check_leadership(&self, mode: Mode) -> Result<(), ProviderError> {
        match self.leadership() {
            Leadership::Leader => Ok(()),
            Leadership::Standby(_) if mode == Mode::PlanOnly => Ok(()),
            Leadership::Standby(leader) => Err(ProviderError::Standby(leader)),
            Leadership::Failing(why) => Err(ProviderError::Unavailable(why)),
            Leadership::Pending => Err(ProviderError::Unavailable("the leader election has not ended".to_owned())),
        }
    }

    /// Returns true if a sync applies its changes, and false if an operator or another server does.
    fn is_applied(&self) -> bool {
        self.inner.setup.auto && !matches!(self.leadership(), Leadership::Standby(_))
    }

    /// Returns the pause after a sync with this status.
    fn pause(&self, status: &Status) -> Duration {
        let pacing = &self.inner.setup.pacing;
        match status.failures {
            0 if status.behind_since.is_some() && self.inner.setup.auto => pacing.resync.min(LOOK_AGAIN),
            0 => pacing.resync,
            failures => pacing.after_failure(failures, chance()),
        }
    }

    async fn sync(&mut self, deletions: usize, mode: Mode) -> Result<Outcome, ProviderError> {
        let wanted = self.wanted.borrow_and_update().clone().ok_or_else(not_known)?;
        let result = self.attempt(&wanted, deletions, mode).await;
        if !is_refused(&result) {
            self.report(&wanted, &result);
        }
        result
    }

    async fn attempt(&mut self, wanted: &Arc<Wanted>, deletions: usize, mode: Mode) -> Result<Outcome, ProviderError> {
        self.check_leadership(mode)?;
        let inner = Arc::clone(&self.inner);
        let rules = &inner.setup.rules;
        let claims = inner.claims();
        let draft = rules.draft(&*inner.provider, wanted, &claims, deletions).await?;
        if matches!(mode, Mode::ApplyPlan(plan) if plan != draft.id()) {
            return Err(ProviderError::OutdatedPlan);
        }
        if mode == Mode::PlanOnly {
            return Ok(Outcome { draft, ..Outcome::default() });
        }
        if draft.units.is_empty() {
            self.save(claimed(&claims, &draft))?;
            return Ok(Outcome { draft, ..Outcome::default() });
        }
        self.save(claimed(&claims, &draft))?;
        let gap = inner.setup.pacing.call_gap;
        let applied = apply(&*inner.provider, &draft.units, gap).await;
        let outcome = Outcome { draft, applied };
        self.save(settled(&inner.claims(), &outcome, &rules.ownership))?;
        Ok(outcome)
    }

    /// Saves the notes. With the registry `store` an error stops the sync, since only the notes hold the owners.
    fn save(&self, claims: Claims) -> Result<(), ProviderError> {
        let mut saved = self.inner.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if *saved == claims {
            return Ok(());
        }
        if let Err(error) = self.notes.write(&claims) {
            if self.inner.setup.rules.ownership == Ownership::Store {
                return Err(ProviderError::Unavailable(format!(
                    "cannot save the notes about owned record sets: {error}"
                )));
            }
            tracing::warn!(provider = self.inner.setup.name, %error, "publisher state not written");
        }
        *saved = claims;
        Ok(())
    }

    fn report(&mut self, wanted: &Arc<Wanted>, result: &Result<Outcome, ProviderError>) {
        let now = SystemTime::now();
        let name = &*self.inner.setup.name;
        let mut status = Status::clone(&self.status.borrow());
        let was_well = status.failures == 0;
        let is_applied = self.is_applied();
        status.standby = match self.leadership() {
            Leadership::Standby(leader) => Some(leader),
            _ => None,
        };
        status.synced_at = Some(now);
        status.counts.syncs += 1;
        let failure = match result {
            Err(error) => Some(error.clone()),
            Ok(outcome) => {
                // The leader may see other clusters fail than this server.
                let is_drift = status.standby.is_none() && self.last.as_ref().is_some_and(|last| last == wanted);
                if is_drift && !outcome.draft.changes.is_empty() {
                    let sets = outcome.draft.changes.len();
                    status.counts.drifted += sets as u64;
                    tracing::warn!(
                        event = "publishing",
                        provider = name,
                        sets,
                        "published records had been changed by others"
                    );
                }
                update(&mut status, outcome, is_applied, now);
                if outcome.applied.sets > 0 {
                    let (changed, owned) = (outcome.applied.sets, status.owned);
                    tracing::info!(event = "publishing", provider = name, changed, owned, "published");
                }
                outcome.applied.broken.clone()
            }
        };
        let is_complete = result.as_ref().is_ok_and(|outcome| is_complete(outcome, is_applied)) && failure.is_none();
        self.last = (is_complete && status.standby.is_none()).then(|| Arc::clone(wanted));
        status.behind_since = if is_complete { None } else { status.behind_since.or(Some(now)) };
        match failure {
            Some(error) => {
                status.failures += 1;
                status.counts.failed += 1;
                if was_well {
                    tracing::warn!(event = "publishing", provider = name, %error, "publishing failed; retrying");
                }
                status.error = Some(error.to_string());
            }
            None => {
                status.failures = 0;
                status.succeeded_at = Some(now);
                if !was_well {
                    tracing::info!(event = "publishing", provider = name, "publishing recovered");
                }
            }
        }
        self.wait = self.pause(&status);
        status.due_at = Some(now + self.wait);
        self.status.send_replace(Arc::new(status));
    }
}

/// Waits for a change of the leader. Never ends if the provider has no leader election, or its task has ended.
async fn changed(leadership: &mut Option<watch::Receiver<Leadership>>) {
    if let Some(leadership) = leadership
        && leadership.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Returns true if nothing was attempted, so that this is no failure of the provider.
fn is_refused(outcome: &Result<Outcome, ProviderError>) -> bool {
    matches!(outcome, Err(ProviderError::OutdatedPlan | ProviderError::Standby(_)))
}

/// Returns true if the provider is as wanted, except for sets that cannot be published.
fn is_complete(outcome: &Outcome, auto: bool) -> bool {
    let carried_out = auto || outcome.applied.sets > 0 || outcome.draft.units.is_empty();
    carried_out
        && outcome.applied.broken.is_none()
        && outcome.applied.refused.is_empty()
        && outcome.draft.deletions.is_none()
}

/// Updates the status with the result of a sync.
fn update(status: &mut Status, outcome: &Outcome, auto: bool, now: SystemTime) {
    let draft = &outcome.draft;
    let carried_out = auto || outcome.applied.sets > 0;
    status.counts.changed += outcome.applied.sets as u64;
    status.foreign = draft.foreign;
    let created = draft.changes.create.len();
    let deleted = draft.changes.delete.len();
    status.owned = if carried_out { (draft.owned + created).saturating_sub(deleted) } else { draft.owned };
    let mut conditions: BTreeMap<RecordSetKey, Condition> =
        draft.kept.iter().map(|key| (key.clone(), Condition::Published)).collect();
    let written = draft.changes.create.iter().map(|set| set.key());
    for key in written.chain(draft.changes.update.iter().map(|update| update.to.key())) {
        let condition = match outcome.applied.refused.get(&key.name) {
            Some(why) => Condition::Refused(why.clone()),
            None if carried_out && outcome.applied.broken.is_none() => Condition::Published,
            None => Condition::Waiting,
        };
        conditions.insert(key, condition);
    }
    if !carried_out || outcome.applied.broken.is_some() {
        conditions.extend(draft.changes.delete.iter().map(|set| (set.key(), Condition::Leaving)));
    }
    conditions.extend(draft.refused.iter().map(|(key, why)| (key.clone(), Condition::Hindered(why.clone()))));
    let updates = draft.changes.update.iter().map(|update| update.to.key());
    let fresh: BTreeSet<_> = updates.filter(|_| carried_out).collect();
    let before = std::mem::take(&mut status.conditions);
    let with_time = |(key, condition): (RecordSetKey, Condition)| {
        let unchanged = before.get(&key).filter(|before| before.condition == condition && !fresh.contains(&key));
        let since = unchanged.map_or(now, |before| before.since);
        (key, SetCondition { condition, since })
    };
    status.conditions = conditions.into_iter().map(with_time).collect();
    status.error = draft.deletions.map(|refused| refused.to_string());
    if let Some(refused) = draft.deletions {
        status.counts.deletions_refused += refused.wanted as u64;
    }
}

/// Returns a random number below 1,000.
fn chance() -> u16 {
    (RandomState::new().hash_one(()) % 1_000) as u16
}

/// Maximum number of waiting orders.
const ORDERS_MAX: usize = 16;

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
