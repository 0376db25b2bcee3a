//! The task of one provider: it alone waits where its provider hangs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use fairway_model::{Name, RecordSetKey};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use super::{
    apply::apply,
    handover::{Handed, Handover, HandoverError},
    notes_wire::Notes,
    pacing::Pacing,
    plan::{Obstacle, Wanted},
    provider::{Limits, Provider, ProviderError},
    registry::{Claims, Ownership},
    sync::{Draft, Outcome, Rules, carry_out, claimed, settled},
};

/// What is wanted, as it changes; none until it is known.
pub type Wishes = watch::Receiver<Option<Arc<Wanted>>>;

/// How a publisher is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name in the configuration.
    pub name: String,
    /// What it may do.
    pub rules: Rules,
    /// How often it does.
    pub pacing: Pacing,
    /// Whether it carries out by itself what it finds; else an operator tells it to.
    pub auto: bool,
}

/// How it stands with a wanted set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It was there at the last reading, or was written after it.
    Published,
    /// It is to be written, and was not yet.
    Waiting,
    /// It cannot be published.
    Hindered(Obstacle),
    /// The provider refused it; in its words.
    Refused(String),
    /// It is wanted no more and stands there still.
    Leaving,
}

impl Condition {
    /// It in a word, and why in another: one of few, where it is refused.
    pub fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Published => ("published", ""),
            Self::Waiting => ("waiting", ""),
            Self::Hindered(obstacle) => ("refused", obstacle.word()),
            Self::Refused(_) => ("refused", "provider"),
            Self::Leaving => ("leaving", ""),
        }
    }
}

/// How a provider stands.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// When the last sync ended.
    pub synced_at: Option<SystemTime>,
    /// When the last one that ended well did.
    pub succeeded_at: Option<SystemTime>,
    /// Since when what is wanted is not there; none where all of it is.
    pub behind_since: Option<SystemTime>,
    /// When the next sync is due, unless what is wanted changes before; none before the first one.
    pub due_at: Option<SystemTime>,
    /// Why the last sync failed, or what it held back.
    pub error: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// Sets of ours there, and of others.
    pub owned: usize,
    /// Sets of others in its zones.
    pub foreign: usize,
    /// Counts since the start: syncs, failed ones, sets changed, deletions held back, sets that differed without a new wish.
    pub counts: Counts,
    /// How it stands with each set.
    pub conditions: BTreeMap<RecordSetKey, Standing>,
}

impl Status {
    /// How it stands in a word: `starting`, `failing`, `behind` or `ok`.
    pub fn word(&self) -> &'static str {
        match (self.synced_at, self.failures, self.behind_since) {
            (None, ..) => "starting",
            (_, 1.., _) => "failing",
            (_, 0, Some(_)) => "behind",
            (_, 0, None) => "ok",
        }
    }
}

/// How it stands with a set, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How it stands.
    pub condition: Condition,
    /// Since when it has; for a set that is published, since its records are these.
    pub since: SystemTime,
}

/// What is counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Syncs that ended.
    pub syncs: u64,
    /// Those that failed.
    pub failed: u64,
    /// Record sets that were written or deleted, the registry's counted.
    pub changed: u64,
    /// Deletions that were held back.
    pub deletions_refused: u64,
    /// Record sets that were not as they had been left.
    pub drifted: u64,
}

/// What an operator asks for.
#[derive(Debug)]
enum Order {
    /// A sync now, that may delete so many sets.
    Sync { deletions: usize, reply: oneshot::Sender<Result<Outcome, ProviderError>> },
    /// A step of a handover, between two syncs.
    HandOver { handover: Handover, reply: oneshot::Sender<Result<HandedOver, TakeError>> },
}

/// What became of a step of a handover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// What was to be done.
    pub handed: Handed,
    /// Names that the provider refused, and why.
    pub refused: BTreeMap<Name, String>,
    /// Why it ended early; the same step again does the rest.
    pub broken: Option<ProviderError>,
}

/// Why a step of a handover was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// It cannot be.
    #[error(transparent)]
    Impossible(#[from] HandoverError),
    /// The provider did not do its part.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// What others hold of a publisher.
#[derive(Clone)]
pub struct Publisher {
    inner: Arc<Inner>,
    orders: mpsc::Sender<Order>,
    status: watch::Receiver<Arc<Status>>,
}

struct Inner {
    setup: Setup,
    provider: Box<dyn Provider>,
    wishes: Wishes,
    claims: Mutex<Claims>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Publisher").field(&self.inner.setup.name).finish()
    }
}

impl Publisher {
    /// A publisher and its task, which ends when the wishes do. `notes` are kept where they survive a restart.
    pub fn new(
        setup: Setup,
        provider: Box<dyn Provider>,
        wishes: Wishes,
        notes: Notes,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let claims = Mutex::new(notes.read());
        let inner = Arc::new(Inner { setup, provider, wishes: wishes.clone(), claims });
        let (orders, orders_in) = mpsc::channel(ORDERS_MAX);
        let (status_out, status) = watch::channel(Arc::new(Status::default()));
        let wait = inner.setup.pacing.resync;
        let own = Arc::clone(&inner);
        let task = Task { inner: own, wishes, orders: orders_in, status: status_out, notes, last: None, wait };
        (Self { inner, orders, status }, task.run())
    }

    /// How it is set up.
    pub fn setup(&self) -> &Setup {
        &self.inner.setup
    }

    /// What its provider can take.
    pub fn limits(&self) -> Limits {
        self.inner.provider.limits()
    }

    /// How it stands.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.borrow())
    }

    /// What a sync would do now. Nothing is changed, and nobody is waited for but the provider.
    pub async fn draft(&self, deletions: usize) -> Result<Draft, ProviderError> {
        let wanted = self.inner.wanted().ok_or_else(not_known)?;
        let claims = self.inner.claims();
        self.inner.setup.rules.draft(&*self.inner.provider, &wanted, &claims, deletions).await
    }

    /// Has it sync now, and waits for it. It may delete `deletions` sets, whatever the bounds say.
    pub async fn apply(&self, deletions: usize) -> Result<Outcome, ProviderError> {
        let (reply, outcome) = oneshot::channel();
        let ended = || ProviderError::Unavailable("the publisher ends".to_owned());
        self.orders.send(Order::Sync { deletions, reply }).await.map_err(|_| ended())?;
        outcome.await.unwrap_or_else(|_| Err(ended()))
    }

    /// What a step of a handover would write now. Nothing is changed.
    pub async fn draft_hand_over(&self, handover: &Handover) -> Result<Handed, TakeError> {
        self.inner.handed(handover).await
    }

    /// Takes a step of a handover, between two syncs, and waits for it.
    pub async fn hand_over(&self, handover: Handover) -> Result<HandedOver, TakeError> {
        let (reply, outcome) = oneshot::channel();
        let ended = || ProviderError::Unavailable("the publisher ends".to_owned());
        self.orders.send(Order::HandOver { handover, reply }).await.map_err(|_| ended())?;
        outcome.await.unwrap_or_else(|_| Err(ended().into()))
    }
}

impl Inner {
    fn wanted(&self) -> Option<Arc<Wanted>> {
        self.wishes.borrow().clone()
    }

    async fn handed(&self, handover: &Handover) -> Result<Handed, TakeError> {
        let wanted = self.wanted().ok_or_else(not_known)?;
        let rules = &self.setup.rules;
        let current = rules.read(&*self.provider, &wanted, &self.claims()).await?;
        Ok(rules.ownership.hand_over(handover, &current, &wanted)?)
    }

    fn claims(&self) -> Claims {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn not_known() -> ProviderError {
    ProviderError::Unavailable("what is wanted is not known yet: the first round of probes runs".to_owned())
}

struct Task {
    inner: Arc<Inner>,
    wishes: Wishes,
    orders: mpsc::Receiver<Order>,
    status: watch::Sender<Arc<Status>>,
    notes: Notes,
    /// What was wanted when all of it was last seen to be there.
    last: Option<Arc<Wanted>>,
    /// How long after the last sync the next one is due.
    wait: Duration,
}

impl Task {
    async fn run(mut self) {
        let mut due = Instant::now();
        loop {
            let is_known = self.wishes.borrow().is_some();
            tokio::select! {
                biased;
                changed = self.wishes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // Who fails is not asked more often because more changes.
                    if self.status.borrow().failures == 0 {
                        due = due.min(Instant::now() + SETTLE);
                    }
                }
                order = self.orders.recv() => {
                    let Some(order) = order else { return };
                    due = self.obey(order).await;
                }
                () = sleep_until(due), if is_known => {
                    // What became of it is in the status.
                    let _ = self.sync(0, self.inner.setup.auto).await;
                    due = Instant::now() + self.wait;
                }
            }
        }
    }

    /// Does as an operator says; tells when it is due next. Whoever asked may be gone.
    async fn obey(&mut self, order: Order) -> Instant {
        match order {
            Order::Sync { deletions, reply } => {
                let outcome = self.sync(deletions, true).await;
                let due = Instant::now() + self.wait;
                let _ = reply.send(outcome);
                due
            }
            Order::HandOver { handover, reply } => {
                let _ = reply.send(self.hand_over(&handover).await);
                // What is ours now is made what is wanted.
                Instant::now() + SETTLE
            }
        }
    }

    async fn hand_over(&self, handover: &Handover) -> Result<HandedOver, TakeError> {
        let handed = self.inner.handed(handover).await?;
        let applied = apply(&*self.inner.provider, &handed.units, self.inner.setup.pacing.call_gap).await;
        let refused = applied.refused.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        Ok(HandedOver { handed, refused, broken: applied.broken })
    }

    /// How long after a sync that left this status the next one is due.
    fn pause(&self, status: &Status) -> Duration {
        let pacing = &self.inner.setup.pacing;
        match status.failures {
            0 if status.behind_since.is_some() && self.inner.setup.auto => pacing.resync.min(LOOK_AGAIN),
            0 => pacing.resync,
            failures => pacing.after_failure(failures, chance()),
        }
    }

    async fn sync(&mut self, deletions: usize, carries_out: bool) -> Result<Outcome, ProviderError> {
        let wanted = self.wishes.borrow_and_update().clone().ok_or_else(not_known)?;
        let result = self.attempt(&wanted, deletions, carries_out).await;
        self.tell(&wanted, &result);
        result
    }

    async fn attempt(
        &mut self,
        wanted: &Arc<Wanted>,
        deletions: usize,
        carries_out: bool,
    ) -> Result<Outcome, ProviderError> {
        let inner = Arc::clone(&self.inner);
        let rules = &inner.setup.rules;
        let claims = inner.claims();
        let draft = rules.draft(&*inner.provider, wanted, &claims, deletions).await?;
        if !carries_out || draft.units.is_empty() {
            return Ok(Outcome { draft, ..Outcome::default() });
        }
        self.keep(claimed(&claims, &draft))?;
        let gap = inner.setup.pacing.call_gap;
        let outcome = carry_out(&*inner.provider, draft, gap).await;
        self.keep(settled(&inner.claims(), &outcome, &rules.ownership))?;
        Ok(outcome)
    }

    /// Notes what is about to be written. Where the notes alone say whose a set is, nothing is written without them.
    fn keep(&self, claims: Claims) -> Result<(), ProviderError> {
        let mut kept = self.inner.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept == claims {
            return Ok(());
        }
        if let Err(error) = self.notes.write(&claims) {
            if self.inner.setup.rules.ownership == Ownership::Store {
                return Err(ProviderError::Unavailable(format!("what is ours there cannot be noted: {error}")));
            }
            tracing::warn!(provider = self.inner.setup.name, %error, "publisher state not written");
        }
        *kept = claims;
        Ok(())
    }

    fn tell(&mut self, wanted: &Arc<Wanted>, result: &Result<Outcome, ProviderError>) {
        let now = SystemTime::now();
        let name = &*self.inner.setup.name;
        let mut status = Status::clone(&self.status.borrow());
        let was_well = status.failures == 0;
        status.synced_at = Some(now);
        status.counts.syncs += 1;
        let failure = match result {
            Err(error) => Some(error.clone()),
            Ok(outcome) => {
                let unasked = self.last.as_ref().is_some_and(|last| last == wanted);
                if unasked && !outcome.draft.changes.is_empty() {
                    status.counts.drifted += outcome.draft.changes.len() as u64;
                    tracing::warn!(
                        provider = name,
                        sets = outcome.draft.changes.len(),
                        "published records had been changed by others"
                    );
                }
                read(&mut status, outcome, self.inner.setup.auto, now);
                if outcome.changed > 0 {
                    tracing::info!(provider = name, changed = outcome.changed, owned = status.owned, "published");
                }
                outcome.broken.clone()
            }
        };
        let is_whole =
            result.as_ref().is_ok_and(|outcome| is_whole(outcome, self.inner.setup.auto)) && failure.is_none();
        self.last = is_whole.then(|| Arc::clone(wanted));
        status.behind_since = if is_whole { None } else { status.behind_since.or(Some(now)) };
        match failure {
            Some(error) => {
                status.failures += 1;
                status.counts.failed += 1;
                if was_well {
                    tracing::warn!(provider = name, %error, "publishing failed; retrying");
                }
                status.error = Some(error.to_string());
            }
            None => {
                status.failures = 0;
                status.succeeded_at = Some(now);
                if !was_well {
                    tracing::info!(provider = name, "publishing recovered");
                }
            }
        }
        self.wait = self.pause(&status);
        status.due_at = Some(now + self.wait);
        self.status.send_replace(Arc::new(status));
    }
}

/// Whether all that is wanted is there, as far as it can be.
fn is_whole(outcome: &Outcome, auto: bool) -> bool {
    let carried_out = auto || outcome.changed > 0 || outcome.draft.units.is_empty();
    carried_out && outcome.broken.is_none() && outcome.refused.is_empty() && outcome.draft.deletions.is_none()
}

/// Takes a sync into the status.
fn read(status: &mut Status, outcome: &Outcome, auto: bool, now: SystemTime) {
    let draft = &outcome.draft;
    let carried_out = auto || outcome.changed > 0;
    status.counts.changed += outcome.changed as u64;
    status.foreign = draft.foreign;
    let (created, deleted) = (draft.changes.create.len(), draft.changes.delete.len());
    status.owned = if carried_out { (draft.owned + created).saturating_sub(deleted) } else { draft.owned };
    let mut conditions: BTreeMap<RecordSetKey, Condition> = BTreeMap::new();
    conditions.extend(draft.kept.iter().map(|key| (key.clone(), Condition::Published)));
    let written = draft.changes.create.iter().map(|set| set.key());
    for key in written.chain(draft.changes.update.iter().map(|update| update.to.key())) {
        let condition = match outcome.refused.get(&key.name) {
            Some(why) => Condition::Refused(why.clone()),
            None if carried_out && outcome.broken.is_none() => Condition::Published,
            None => Condition::Waiting,
        };
        conditions.insert(key, condition);
    }
    if !carried_out || outcome.broken.is_some() {
        conditions.extend(draft.changes.delete.iter().map(|set| (set.key(), Condition::Leaving)));
    }
    conditions.extend(draft.refused.iter().map(|(key, why)| (key.clone(), Condition::Hindered(why.clone()))));
    let updates = draft.changes.update.iter().map(|update| update.to.key());
    let fresh: BTreeSet<_> = updates.filter(|_| carried_out).collect();
    let before = std::mem::take(&mut status.conditions);
    let standing = |(key, condition): (RecordSetKey, Condition)| {
        let same = before.get(&key).filter(|before| before.condition == condition && !fresh.contains(&key));
        let since = same.map_or(now, |before| before.since);
        (key, Standing { condition, since })
    };
    status.conditions = conditions.into_iter().map(standing).collect();
    status.error = draft.deletions.map(|refused| refused.to_string());
    if let Some(refused) = draft.deletions {
        status.counts.deletions_refused += refused.wanted as u64;
    }
}

/// A number below 1000 that is another one for each process and call.
fn chance() -> u16 {
    use std::hash::{BuildHasher, Hasher};
    (std::hash::RandomState::new().build_hasher().finish() % 1_000) as u16
}

/// How long changes of what is wanted are gathered: a cluster that dies changes many names at once.
const SETTLE: Duration = Duration::from_millis(200);
/// How soon it is looked again where something was refused or held back.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Most orders that wait.
const ORDERS_MAX: usize = 16;

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
