//! The one thread that writes: many batches a transaction, each acknowledged when the disk has it; watchers hear of it first.
//!
//! While the disk flushes, batches queue up; whatever waits then shares the next flush. A batch that is refused leaves the
//! others of its transaction alone. A fault of the disk fails all of them, and the file is opened anew.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use redb::WriteTransaction;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    super::{Batch, Committed, Event, StoreError, WATCH_MAX},
    commit::{Fault, Ledger, Outcome},
    copy,
    opened::{Opened, contained},
    tables::{REVISION, Tables, told},
    upstream::{Appended, Carried, Group, Part, Tip, Upstream},
};

/// What the thread is asked for.
pub(super) enum Job {
    /// To close the file and end.
    Close(oneshot::Sender<()>),
    /// To carry out a batch.
    Commit(Wanted),
    /// To fetch what others added to the store that the file is a copy of.
    Fetch(oneshot::Sender<Result<(), StoreError>>),
    /// To open the file anew after the opening with this number had a fault.
    Reopen(u64, oneshot::Sender<()>),
    /// To tell every batch from now on.
    Watch(oneshot::Sender<Result<Subscribed, StoreError>>),
}

/// A batch and who waits for it.
pub(super) struct Wanted {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Every batch after a revision.
pub(super) struct Subscribed {
    pub(super) after: u64,
    pub(super) live: mpsc::Receiver<Arc<[Event]>>,
}

/// What the thread owns.
pub(super) struct Writer {
    opened: Arc<Opened>,
    remembered: (usize, usize, u64),
    /// The last revision that watchers were told.
    revision: u64,
    watchers: Vec<mpsc::Sender<Arc<[Event]>>>,
    /// The store that the file is a copy of, if it is one.
    upstream: Option<Box<dyn Upstream>>,
    /// The same revision, for whoever asks.
    shown: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn new(
        opened: Arc<Opened>,
        remembered: (usize, usize, u64),
        mut upstream: Option<Box<dyn Upstream>>,
        shown: Arc<AtomicU64>,
    ) -> Result<Self, StoreError> {
        let revision = contained(|| revision(&opened)).flatten()?;
        shown.store(revision, Ordering::Relaxed);
        if let (Some(upstream), Some(tip)) = (&mut upstream, contained(|| tip(&opened)).flatten()?) {
            upstream.holds(tip);
        }
        Ok(Self { opened, remembered, revision, watchers: Vec::new(), upstream, shown })
    }

    /// Works until it is told to close, or nobody is left to tell it anything.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let (mut next, mut closed) = (None, None);
        while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
            match job {
                Job::Close(done) => {
                    closed = Some(done);
                    break;
                }
                Job::Commit(first) => {
                    let group;
                    (group, next) = gather(first, &mut jobs);
                    self.commit(group);
                }
                Job::Fetch(done) => {
                    let _ = done.send(self.fetch());
                }
                Job::Reopen(fault_of, done) => {
                    self.reopen(fault_of);
                    let _ = done.send(());
                }
                Job::Watch(answer) => {
                    let _ = answer.send(self.subscribe());
                }
            }
        }
        self.opened.shut(StoreError::Unavailable("it is closed".to_owned()));
        drop(jobs);
        // Whoever closed the store may go by now.
        closed.map(|done| done.send(()));
    }

    fn commit(&mut self, mut group: Vec<Wanted>) {
        // Whoever waits may have gone; nothing was promised to them, and nobody would learn what became of it.
        group.retain(|wanted| !wanted.answer.is_closed());
        if group.is_empty() {
            return;
        }
        let fault_of = self.opened.times();
        let told = match contained(|| self.transact(&group)) {
            Ok(Ok(outcomes)) => return self.tell(group, outcomes),
            Ok(Err(Fault::Upstream(told))) => told,
            Ok(Err(Fault::Batch(told) | Fault::Store(told))) => {
                self.reopen(fault_of);
                told
            }
            Err(damaged) => {
                tracing::error!(error = %damaged, "store closed: its file is damaged");
                self.opened.shut(damaged.clone());
                damaged
            }
        };
        if group.len() > 1 && matches!(told, StoreError::Damaged(_)) {
            // What is damaged may concern one of them only.
            return group.into_iter().for_each(|wanted| self.commit(vec![wanted]));
        }
        tracing::warn!(batches = group.len(), error = %told, "store batches failed");
        for wanted in group {
            let _ = wanted.answer.send(Err(told.clone()));
        }
    }

    /// What became of each batch, on disk if any changed something.
    fn transact(&mut self, group: &[Wanted]) -> Result<Vec<Result<Outcome, StoreError>>, Fault> {
        for _ in 0..RACES_MAX {
            if let Some(outcomes) = self.attempt(group)? {
                return Ok(outcomes);
            }
            self.fetch().map_err(Fault::Upstream)?;
        }
        let what = format!("other servers were faster {RACES_MAX} times");
        Err(Fault::Upstream(StoreError::Unavailable(what)))
    }

    /// One transaction; none where others added to the store that the file is a copy of, and nothing is done.
    fn attempt(&mut self, group: &[Wanted]) -> Result<Option<Vec<Result<Outcome, StoreError>>>, Fault> {
        let writing = self.begin().map_err(Fault::Store)?;
        let mut ledger = Ledger::open(&writing, self.remembered, self.upstream.is_some()).map_err(Fault::Store)?;
        let (before, _) = ledger.revisions();
        let mut outcomes = Vec::with_capacity(group.len());
        for wanted in group {
            match ledger.carry_out(&wanted.batch) {
                Ok(outcome) => outcomes.push(Ok(outcome)),
                Err(Fault::Batch(refused)) => outcomes.push(Err(refused)),
                Err(fault) => return Err(fault),
            }
        }
        let mut holds = None;
        if let Some(upstream) = &mut self.upstream {
            let Some(tip) = contained(|| tip(&self.opened)).flatten().map_err(Fault::Store)? else { return Ok(None) };
            match append(&mut **upstream, tip, before, &mut ledger)? {
                Appended::Behind => return Ok(None),
                Appended::Done(tip) => holds = Some(tip),
            }
        }
        if outcomes.iter().flatten().any(|outcome| !outcome.events.is_empty()) {
            ledger.close().map_err(Fault::Store)?;
            writing.commit().map_err(|e| Fault::Store(told(e)))?;
        }
        // Whoever is told so reads in the file.
        if let (Some(tip), Some(upstream)) = (holds, &mut self.upstream) {
            upstream.holds(tip);
        }
        Ok(Some(outcomes))
    }

    fn begin(&self) -> Result<WriteTransaction, StoreError> {
        match self.opened.write() {
            Err(StoreError::Unavailable(_)) => {
                self.opened.reopen(self.opened.times())?;
                self.opened.write()
            }
            begun => begun,
        }
    }

    /// Brings a copy to what the store elsewhere holds now, and tells watchers.
    fn fetch(&mut self) -> Result<(), StoreError> {
        let fetched = contained(|| self.fetch_here()).flatten();
        if let Err(e @ StoreError::Damaged(_)) = &fetched {
            tracing::error!(error = %e, "changes of other servers not applied");
        }
        fetched
    }

    fn fetch_here(&mut self) -> Result<(), StoreError> {
        let Some(mut upstream) = self.upstream.take() else { return Ok(()) };
        let fetched = self.fetch_from(&mut *upstream);
        if let Ok(Some(tip)) = fetched {
            upstream.holds(tip);
        }
        self.upstream = Some(upstream);
        fetched.map(|_| ())
    }

    /// The tip, if it is another one.
    fn fetch_from(&mut self, upstream: &mut dyn Upstream) -> Result<Option<Tip>, StoreError> {
        let had = tip(&self.opened)?;
        let writing = self.begin()?;
        let mut ledger = Ledger::open(&writing, self.remembered, true)?;
        let (mut is_anew, mut until) = (false, None);
        upstream.fetch(had, &mut |part| {
            match part {
                Part::Anew => {
                    (is_anew, until) = (true, None);
                    return ledger.clear();
                }
                Part::Group(group) => return ledger.take(&group),
                Part::Until(tip, oldest) => {
                    // Whoever watched what was here before must not go on in what is here now.
                    let oldest = if is_anew && had.is_some() { tip.revision } else { oldest };
                    ledger.until(tip.revision, oldest);
                    until = Some(tip);
                }
            }
            Ok(())
        })?;
        let Some(tip) = until else { return Ok(None) };
        if let Some(copied) = &mut ledger.copied {
            copied.stamp = Some(tip.stamp);
        }
        ledger.close()?;
        writing.commit().map_err(told)?;
        if is_anew {
            self.watchers.clear();
            self.revision = tip.revision;
            self.shown.store(self.revision, Ordering::Relaxed);
        }
        self.catch_up()?;
        Ok(Some(tip))
    }

    fn tell(&mut self, group: Vec<Wanted>, outcomes: Vec<Result<Outcome, StoreError>>) {
        for (wanted, outcome) in group.into_iter().zip(outcomes) {
            let answer = outcome.map(|outcome| {
                self.broadcast(outcome.events);
                outcome.committed
            });
            let _ = wanted.answer.send(answer);
        }
    }

    fn broadcast(&mut self, events: Arc<[Event]>) {
        let Some(first) = events.first() else { return };
        self.revision = first.revision;
        self.shown.store(self.revision, Ordering::Relaxed);
        // A reader that is too far behind is closed: it watches again from what it saw last.
        self.watchers.retain(|watcher| match watcher.try_send(events.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        });
    }

    fn subscribe(&mut self) -> Result<Subscribed, StoreError> {
        // After a fault there may be more in the log than was told.
        let caught_up = match contained(|| self.catch_up()).flatten() {
            Err(StoreError::Unavailable(_)) => {
                self.reopen(self.opened.times());
                contained(|| self.catch_up()).flatten()
            }
            said => said,
        };
        caught_up?;
        self.watchers.retain(|watcher| !watcher.is_closed());
        if self.watchers.len() >= WATCHERS_MAX {
            return Err(StoreError::Unavailable(format!("{WATCHERS_MAX} watch it, which is the most")));
        }
        let (watcher, live) = mpsc::channel(WATCH_MAX);
        self.watchers.push(watcher);
        Ok(Subscribed { after: self.revision, live })
    }

    /// Opens the file anew, and tells watchers what was carried out although its flush was said to have failed.
    fn reopen(&mut self, fault_of: u64) {
        match self.opened.reopen(fault_of) {
            Ok(()) => tracing::info!("store file reopened"),
            Err(e) => return tracing::error!(error = %e, "store file not reopened"),
        }
        if let Err(e) = contained(|| self.catch_up()).flatten() {
            tracing::error!(error = %e, "missed changes not readable: watches closed");
            self.watchers.clear();
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        let until = revision(&self.opened)?;
        while self.revision < until {
            let tables = Tables::open(&self.opened.read().1?)?;
            let page = tables.events(self.revision, until)?;
            if page.is_empty() {
                self.revision = until;
            }
            page.into_iter().for_each(|events| self.broadcast(events));
        }
        Ok(())
    }
}

/// The batches that share a transaction: those that wait by now, within bounds; and the job after them.
fn gather(first: Wanted, jobs: &mut mpsc::Receiver<Job>) -> (Vec<Wanted>, Option<Job>) {
    let mut octets = size(&first.batch);
    let mut group = vec![first];
    while group.len() < GROUP_MAX && octets < GROUP_OCTETS {
        match jobs.try_recv() {
            Ok(Job::Commit(more)) => {
                octets += size(&more.batch);
                group.push(more);
            }
            Ok(other) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

fn size(batch: &Batch) -> usize {
    batch.changes.iter().map(|change| 256 + change.value.as_ref().map_or(0, Vec::len)).sum()
}

/// Adds what a ledger wrote to the store elsewhere. Where nothing was written, what the batches were told must still be true there.
fn append(upstream: &mut dyn Upstream, tip: Tip, before: u64, ledger: &mut Ledger<'_>) -> Result<Appended, Fault> {
    let (revision, oldest) = ledger.revisions();
    let Some(copied) = &mut ledger.copied else { return Ok(Appended::Done(tip)) };
    let rows = std::mem::take(&mut copied.rows);
    let group = Group { revisions: (before + 1, revision), rows };
    if !group.rows.is_empty() {
        copied.add(group.revisions).map_err(Fault::Store)?;
    }
    let carried = Carried { group: &group, oldest, emptied: &copied.emptied };
    let appended = upstream.append(tip, &carried).map_err(Fault::Upstream)?;
    if let Appended::Done(tip) = appended {
        copied.stamp = Some(tip.stamp);
    }
    Ok(appended)
}

fn tip(opened: &Opened) -> Result<Option<Tip>, StoreError> {
    copy::tip(&Tables::open(&opened.read().1?)?)
}

fn revision(opened: &Opened) -> Result<u64, StoreError> {
    Tables::open(&opened.read().1?)?.number(REVISION)
}

/// Most batches a transaction, and with how many octets one is full: what is acknowledged late bounds both.
const GROUP_MAX: usize = 256;
const GROUP_OCTETS: usize = 8 << 20;
/// How often a group is carried out anew because others were faster.
const RACES_MAX: usize = 64;
/// Most watchers at a time.
pub(super) const WATCHERS_MAX: usize = 1_024;
