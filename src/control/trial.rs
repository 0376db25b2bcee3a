//! A trial of objects that may come true: what it compiled is taken over if it does, so that a write is compiled once.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{
    configured::{Configured, Previous},
    declared::Declared,
    narrow::Narrow,
};

/// What one trial compiled. Whoever asked for it holds it until its objects are kept, or not.
#[derive(Debug)]
pub(crate) struct Trial {
    /// What it was compiled beside.
    before: Weak<Configured>,
    narrow: Mutex<Option<Narrow>>,
}

impl Trial {
    /// What was tried, if that is what has come true beside the same configuration: these objects, whatever their revisions are.
    pub(super) fn take(&self, previous: &Previous, objects: &Declared) -> Option<Narrow> {
        let mut slot = self.narrow.lock().unwrap_or_else(PoisonError::into_inner);
        let is_beside = std::ptr::eq(self.before.as_ptr(), Arc::as_ptr(&previous.configured));
        slot.take_if(|narrow| is_beside && narrow.configured.objects.says_the_same(objects))
    }
}

/// The last trial. Of those before it nothing is kept: each has a version of what is served, which takes memory.
#[derive(Debug, Default)]
pub(super) struct LastTrial(Mutex<Weak<Trial>>);

impl LastTrial {
    /// The last one, as long as whoever asked for it waits.
    pub(super) fn get(&self) -> Option<Arc<Trial>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Keeps what a trial compiled.
    pub(super) fn keep(&self, narrow: Narrow, before: &Arc<Configured>) -> Arc<Trial> {
        let trial = Arc::new(Trial { before: Arc::downgrade(before), narrow: Mutex::new(Some(narrow)) });
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *last, Arc::downgrade(&trial)).upgrade() {
            old.narrow.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        trial
    }
}
