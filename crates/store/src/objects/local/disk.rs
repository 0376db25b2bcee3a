//! A disk that fails when a test wants it to, under the store's file.

use std::{
    io,
    ops::Bound,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
};

use redb::{BackendError, StorageBackend, backends::FileBackend};

use super::{
    opened::Opener,
    tables::{self, STEPS},
};

/// What the disk does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Does {
    /// Neither takes nor flushes anything.
    Fails,
    /// Takes everything and cannot flush it.
    FailsToFlush,
    /// Takes nothing beyond the end of the file.
    IsFull,
    /// Flushes nothing until it does something else.
    Waits,
    /// What it should.
    #[default]
    Works,
}

/// A disk, and how many flushes it lets wait.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<(Does, u64)>,
    changed: Condvar,
}

impl Disk {
    pub(super) fn will(&self, does: Does) {
        self.state.lock().unwrap().0 = does;
        self.changed.notify_all();
    }

    /// Returns once it lets a flush wait.
    pub(super) fn is_asked(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(_, waiting)| *waiting == 0).unwrap());
    }

    /// Opens the store's file on this disk.
    pub(super) fn opener(self: &Arc<Self>, path: PathBuf) -> Opener {
        let disk = self.clone();
        Box::new(move || tables::open(OnDisk { disk: disk.clone(), file: tables::file(&path)? }, STEPS))
    }
}

#[derive(Debug)]
struct OnDisk {
    disk: Arc<Disk>,
    file: FileBackend,
}

impl OnDisk {
    fn takes(&self, end: u64) -> io::Result<()> {
        match self.disk.state.lock().unwrap().0 {
            Does::Fails => Err(io::Error::other("the disk failed")),
            Does::IsFull if end > self.file.len()? => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl StorageBackend for OnDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.takes(len)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock().unwrap();
        state.1 += 1;
        self.disk.changed.notify_all();
        let mut state = self.disk.changed.wait_while(state, |(does, _)| *does == Does::Waits).unwrap();
        state.1 -= 1;
        if matches!(state.0, Does::Fails | Does::FailsToFlush) {
            return Err(io::Error::other("the disk failed"));
        }
        drop(state);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.takes(0)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
