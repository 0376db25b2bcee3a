//! The open file: opened anew after a fault, shut for good after damage, and panics of the library kept to the call they are in.
//!
//! After an error of the disk the library refuses everything until the file is closed and opened again, so that is what is done.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{PoisonError, RwLock},
};

use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::{
    super::StoreError,
    tables::{begin, told},
};

/// Opens the file: once at the start, and after each fault.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// The file, or why it is not open.
pub(super) struct Opened {
    opener: Opener,
    slot: RwLock<Slot>,
}

struct Slot {
    database: Result<Database, StoreError>,
    /// How often it was opened, so that a fault has it opened once, however many saw it.
    times: u64,
}

impl Opened {
    pub(super) fn new(opener: Opener) -> Result<Self, StoreError> {
        let database = contained(&opener)??;
        Ok(Self { opener, slot: RwLock::new(Slot { database: Ok(database), times: 1 }) })
    }

    /// Everything as it is now, with the opening it was read from.
    pub(super) fn read(&self) -> (u64, Result<ReadTransaction, StoreError>) {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let database = slot.database.as_ref().map_err(Clone::clone);
        (slot.times, database.and_then(|database| database.begin_read().map_err(told)))
    }

    /// Begins to write, which one thread does.
    pub(super) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        begin(slot.database.as_ref().map_err(Clone::clone)?)
    }

    /// Opens the file anew, unless that was done since the opening that had a fault, or the file is damaged.
    pub(super) fn reopen(&self, fault_of: u64) -> Result<(), StoreError> {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        match &slot.database {
            Ok(_) if slot.times != fault_of => return Ok(()),
            Err(e @ StoreError::Damaged(_)) => return Err(e.clone()),
            _ => {}
        }
        let shut = Err(StoreError::Unavailable("it is being opened anew".to_owned()));
        close(std::mem::replace(&mut slot.database, shut));
        slot.database = contained(|| (self.opener)()).flatten();
        slot.times += 1;
        slot.database.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// How often it was opened.
    pub(super) fn times(&self) -> u64 {
        self.slot.read().unwrap_or_else(PoisonError::into_inner).times
    }

    /// Closes the file; from now on everything is refused with this reason.
    pub(super) fn shut(&self, why: StoreError) {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        close(std::mem::replace(&mut slot.database, Err(why)));
    }
}

fn close(database: Result<Database, StoreError>) {
    let Ok(database) = database else { return };
    // Nothing is lost by a close that fails: what was acknowledged is on disk, and the next start repairs the rest.
    match contained(|| database.close().map_err(told)).flatten() {
        Ok(()) => {}
        Err(e) => tracing::warn!(error = %e, "store file was not closed cleanly"),
    }
}

/// Runs what may meet a damaged file: the library panics on some damage.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| damaged(&*panic))
}

/// What a panic says, as an error of the store.
pub(super) fn damaged(panic: &(dyn Any + Send)) -> StoreError {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    StoreError::Damaged(format!("the file holds what cannot be: {:.300}", said.unwrap_or("no reason is known")))
}
