//! The open database: opened again after a disk failure, closed for good after damage. Panics of redb become errors.
//!
//! After an I/O error redb rejects every call until the file is closed and opened again.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{PoisonError, RwLock},
};

use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::{
    super::{StoreError, ValueOptions},
    tables::{Tables, begin},
};

/// Opens the file: called at the start, and after each failure.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// The database, or the reason why it is not open.
pub(super) struct SharedDatabase {
    opener: Opener,
    pub(super) values: ValueOptions,
    slot: RwLock<Slot>,
}

struct Slot {
    database: Result<Database, StoreError>,
    /// Number of times the file was opened. Several callers that see one failure name the same number, so that the file is opened once.
    generation: u64,
}

impl SharedDatabase {
    pub(super) fn new(opener: Opener, values: ValueOptions) -> Result<Self, StoreError> {
        let database = catch_panic(&opener)?;
        Ok(Self { opener, values, slot: RwLock::new(Slot { database: Ok(database), generation: 1 }) })
    }

    /// Begins a read transaction. Returns it with the generation it belongs to.
    pub(super) fn read(&self) -> (u64, Result<ReadTransaction, StoreError>) {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let database = slot.database.as_ref().map_err(Clone::clone);
        (slot.generation, database.and_then(|database| Ok(database.begin_read()?)))
    }

    /// Opens the tables for reading.
    pub(super) fn tables(&self) -> Result<Tables, StoreError> {
        Tables::open(&self.read().1?, &self.values.keys)
    }

    /// Begins a write transaction. Only the writer thread calls this.
    pub(super) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        begin(slot.database.as_ref().map_err(Clone::clone)?)
    }

    /// Opens the file again, unless another caller did so after the generation that failed, or the file is damaged.
    pub(super) fn reopen(&self, failed: u64) -> Result<(), StoreError> {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        match &slot.database {
            Ok(_) if slot.generation != failed => return Ok(()),
            Err(e @ StoreError::Damaged(_)) => return Err(e.clone()),
            _ => {}
        }
        let closed = Err(StoreError::Unavailable("it is being opened again".to_owned()));
        close(std::mem::replace(&mut slot.database, closed));
        slot.database = catch_panic(&self.opener);
        slot.generation += 1;
        slot.database.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Returns the number of times the file was opened.
    pub(super) fn generation(&self) -> u64 {
        self.slot.read().unwrap_or_else(PoisonError::into_inner).generation
    }

    /// Closes the file. Every later call fails with this reason.
    pub(super) fn close(&self, reason: StoreError) {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        close(std::mem::replace(&mut slot.database, Err(reason)));
    }
}

fn close(database: Result<Database, StoreError>) {
    let Ok(database) = database else { return };
    // A failed close loses nothing: acknowledged changes are on disk, and the next start repairs the rest.
    if let Err(error) = catch_panic(|| Ok(database.close()?)) {
        tracing::warn!(%error, "store file was not closed cleanly");
    }
}

/// Runs work on a file that may be damaged: redb panics on some damage.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

/// Returns the error for a panic of redb.
pub(super) fn panic_error(panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    StoreError::Damaged(format!("the file is inconsistent: {:.300}", text.unwrap_or("no reason is known")))
}
