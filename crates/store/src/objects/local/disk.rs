//! A disk under the store's file that tests make fail.

use std::{
    io,
    ops::Bound,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
};

use redb::{BackendError, StorageBackend, backends::FileBackend};

use super::{
    database::Opener,
    tables::{self, MIGRATIONS},
};

/// Behaviour of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DiskMode {
    /// Writes and syncs fail.
    Fails,
    /// Syncs fail.
    FailsToSync,
    /// Writes beyond the end of the file fail.
    Full,
    /// Syncs block until the mode changes.
    Blocks,
    /// Everything succeeds.
    #[default]
    Works,
}

/// A disk: its mode, and the number of blocked syncs.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<(DiskMode, u64)>,
    changed: Condvar,
}

impl Disk {
    pub(super) fn set(&self, mode: DiskMode) {
        self.state.lock().unwrap().0 = mode;
        self.changed.notify_all();
    }

    /// Returns once a sync is blocked.
    pub(super) fn wait_for_sync(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(_, blocked)| *blocked == 0).unwrap());
    }

    /// Opens the store's file on this disk.
    pub(super) fn opener(self: &Arc<Self>, path: PathBuf) -> Opener {
        let disk = self.clone();
        Box::new(move || tables::open(OnDisk { disk: disk.clone(), file: tables::file(&path)? }, MIGRATIONS))
    }
}

#[derive(Debug)]
struct OnDisk {
    disk: Arc<Disk>,
    file: FileBackend,
}

impl OnDisk {
    fn check(&self, end: u64) -> io::Result<()> {
        match self.disk.state.lock().unwrap().0 {
            DiskMode::Fails => Err(io::Error::other("the disk failed")),
            DiskMode::Full if end > self.file.len()? => Err(io::ErrorKind::StorageFull.into()),
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
        self.check(len)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock().unwrap();
        state.1 += 1;
        self.disk.changed.notify_all();
        let mut state = self.disk.changed.wait_while(state, |(mode, _)| *mode == DiskMode::Blocks).unwrap();
        state.1 -= 1;
        if matches!(state.0, DiskMode::Fails | DiskMode::FailsToSync) {
            return Err(io::Error::other("the disk failed"));
        }
        drop(state);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(0)?;
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
