//! Dry runs of objects. If the objects are committed, the compiled result is applied, so that a write is compiled once.
//!
//! ```text
//! write of one object ── waits while a dry run runs ── runs together with all that wait ──┬── valid: so is each
//! many objects, a question ──────────────────────────────────────────────── runs alone ◄──┴── else: each alone
//! ```
//! Writes that arrive faster than a dry run takes share one, on one thread. Dry runs that may take long are not part of this queue.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;

use super::{
    actor::Actor,
    changes,
    compile::Compiled,
    configured::{Configured, Previous, Reader, Reading, What},
    declared::{Declared, LeftOut},
    shared::{Clock, Shared},
};
use fairway_store::objects::Key;

/// Objects of which somebody wants to know what would come of them.
#[derive(Debug)]
pub struct Attempt {
    /// All that would be declared.
    pub declared: Declared,
    /// Where that is one object that is written, and only whether it fits is asked: it may be tried together with others.
    pub written: Option<Key>,
}

/// What would become of objects.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Those that would not be heeded, with the reasons.
    pub left_out: LeftOut,
    /// What would be other than it is, in words; of all writes that were tried together.
    pub changes: Vec<String>,
    /// Why all of them would be refused; empty where they would not.
    pub faults: Vec<String>,
    /// What was compiled; it is taken over if the objects come true while this is held.
    pub trial: Option<Arc<Trial>>,
}

impl Tried {
    /// All of them would be refused.
    fn refused(faults: Vec<String>) -> Self {
        Self { left_out: LeftOut::new(), changes: vec![], faults, trial: None }
    }
}

/// What one trial compiled. Whoever asked for it holds it until its objects are kept, or not.
#[derive(Debug)]
pub struct Trial {
    /// What it was compiled beside.
    before: Weak<Configured>,
    compiled: Mutex<Option<Compiled>>,
}

impl Trial {
    /// What was tried, if that is what has come true beside the same configuration: these objects, whatever their revisions are.
    pub fn take(&self, previous: &Previous, objects: &Declared) -> Option<Compiled> {
        let mut slot = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let is_beside = std::ptr::eq(self.before.as_ptr(), Arc::as_ptr(&previous.configured));
        slot.take_if(|compiled| is_beside && compiled.configured.objects.says_the_same(objects))
    }
}

/// Trials of one server.
#[derive(Debug, Default)]
pub struct Trials {
    /// The last one. Of those before it nothing is kept: each has a version of what is served, which takes memory.
    last: Mutex<Weak<Trial>>,
    line: Mutex<Line>,
}

/// Writes that wait to be tried.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Asked>,
    /// Whether somebody tries those that wait.
    is_served: bool,
}

/// A write, and who wants to know of it.
#[derive(Debug)]
struct Asked {
    /// All that would be declared.
    declared: Declared,
    /// What is written.
    key: Key,
    reply: oneshot::Sender<Tried>,
}

impl Trials {
    /// The last one, as long as whoever asked for it waits.
    pub fn last(&self) -> Option<Arc<Trial>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Keeps what a trial compiled.
    pub fn keep(&self, compiled: Compiled, before: &Arc<Configured>) -> Arc<Trial> {
        let trial = Arc::new(Trial { before: Arc::downgrade(before), compiled: Mutex::new(Some(compiled)) });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *last, Arc::downgrade(&trial)).upgrade() {
            old.compiled.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        trial
    }

    /// Puts a write at the end of the line; whether nobody tries those that wait, which is then the caller's to do.
    fn line_up(&self, asked: Asked) -> bool {
        let mut line = self.line();
        line.waiting.push_back(asked);
        !std::mem::replace(&mut line.is_served, true)
    }

    /// The first of the line, as many as can be tried together: of an object the first write only. None when nobody waits any more.
    fn next(&self) -> Option<Vec<Asked>> {
        let mut line = self.line();
        line.waiting.retain(|asked| !asked.reply.is_closed());
        let mut keys = HashSet::new();
        let most = line.waiting.iter().take(TOGETHER).take_while(|asked| keys.insert(&asked.key)).count();
        line.is_served = most > 0;
        line.is_served.then(|| line.waiting.drain(..most).collect())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actor {
    /// Reads as if these were the declared objects, and tells what would come of it.
    pub fn try_objects(&self, attempt: Attempt, reply: oneshot::Sender<Tried>) {
        let (shared, trials) = (Arc::clone(&self.shared), Arc::clone(&self.trials));
        let trier = Trier { reader: self.reader.clone(), clock: Arc::clone(&self.clock), shared, trials };
        let Attempt { declared, written } = attempt;
        match written {
            Some(key) => {
                if self.trials.line_up(Asked { declared, key, reply }) {
                    tokio::spawn(trier.serve_line());
                }
            }
            // Whoever has gone away needs no answer.
            None => drop(tokio::spawn(async move { reply.send(trier.alone(declared).await) })),
        }
    }
}

/// Who tries those that wait; after a panic, the next one that comes does.
struct Serving<'a>(&'a Trials);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.line().is_served = false;
        }
    }
}

/// What a trial needs.
#[derive(Clone)]
struct Trier {
    reader: Reader,
    clock: Clock,
    shared: Arc<Shared>,
    trials: Arc<Trials>,
}

impl Trier {
    /// Tries what waits until nothing does.
    async fn serve_line(self) {
        let _serving = Serving(&self.trials);
        while let Some(group) = self.trials.next() {
            self.together(group).await;
        }
    }

    /// Tries writes at once; where anything is wrong, each by itself, so that each is told its own faults.
    async fn together(&self, group: Vec<Asked>) {
        let mut declared = Declared::clone(&self.reader.declared.load());
        group.iter().for_each(|asked| declared.take_from(&asked.declared, &asked.key));
        let (reader, previous) = self.beside(declared);
        let before = Arc::clone(&previous.configured);
        if let Some(reading) = reader.read_briefly(previous, (self.clock)()).await {
            let tried = self.told(reading, &before);
            let mut left_out = tried.left_out.differences(&before.left_out, |_, _| true).into_iter();
            if left_out.all(|(_, now, _)| now.is_none()) {
                return group.into_iter().for_each(|asked| drop(asked.reply.send(tried.clone())));
            }
        }
        for Asked { declared, reply, .. } in group {
            let trier = self.clone();
            tokio::spawn(async move { reply.send(trier.alone(declared).await) });
        }
    }

    /// Tries objects by themselves, however long it takes.
    async fn alone(&self, declared: Declared) -> Tried {
        let (reader, previous) = self.beside(declared);
        let before = Arc::clone(&previous.configured);
        match reader.read(What::Objects, previous, (self.clock)()).await {
            Some(reading) => self.told(reading, &before),
            None => Tried::refused(vec!["there is no thread to try it on".to_owned()]),
        }
    }

    /// A reader of these objects, and what they are read beside.
    fn beside(&self, declared: Declared) -> (Reader, Previous) {
        let reader = Reader { declared: Arc::new(ArcSwap::from_pointee(declared)), ..self.reader.clone() };
        let serving = self.shared.serving.load();
        (reader, Previous::new(Arc::clone(&serving.published.configured), Arc::clone(&serving.snapshot)))
    }

    /// What a reading came to beside what was before.
    fn told(&self, reading: Reading, before: &Arc<Configured>) -> Tried {
        let compiled = match reading.outcome {
            Ok(compiled) => compiled,
            Err(faults) => return Tried::refused(faults.iter().map(ToString::to_string).collect()),
        };
        Tried {
            changes: changes::counted(&before.merged.desired, &compiled.configured.merged.desired),
            left_out: compiled.configured.left_out.clone(),
            faults: vec![],
            trial: Some(self.trials.keep(compiled, before)),
        }
    }
}

/// Most writes that are tried together: as many as one fault among them has tried again. As many as one client may have under way, twice.
const TOGETHER: usize = 64;
