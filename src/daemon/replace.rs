//! Hand-over between a running daemon and its replacement: HTTP listeners and the data folder, in addition to the DNS sockets.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::daemon::{StartError, bound::HandedOver};
use arc_swap::ArcSwap;
use fairway_api_types::{
    client::{Client, Reach},
    objects_wire::{ExportedObject, ObjectsExport},
};
use fairway_config::Settings;
use fairway_control::{Control, command::Command, declared::Declared, objects};
use fairway_model::Timestamp;
use fairway_store::DataFolder;
use fairway_store::objects::{Author, Key, Object};
use fairway_transport::{
    Server, Sockets,
    handover::{HandoverError, HandoverSet, Offer, Release, Taken, take},
};

/// Name of the socket in the data folder that a replacement connects to.
const HANDOVER_SOCKET: &str = "handover.sock";
/// Name of the lock of the data folder in a hand-over.
const LOCK: &str = "lock";

/// The daemon that this one replaces. It serves until [`Predecessor::end`].
#[derive(Debug)]
pub(crate) struct Predecessor {
    taken: Taken,
    folder: PathBuf,
    lock: Option<OwnedFd>,
}

impl Predecessor {
    /// Takes the sockets of the daemon that runs on a data folder, and its HTTP listeners. Returns `None` if no daemon runs.
    ///
    /// `user` is the user that this process will switch to. The folder must be that user's alone: otherwise somebody else may have put another
    /// socket there, and this process may still be root.
    pub(crate) async fn take_sockets(
        folder: &Path,
        user: Option<&str>,
    ) -> Result<Option<(Self, Sockets, HandedOver)>, StartError> {
        if !folder.exists() {
            return Ok(None);
        }
        let (owner, path) = (DataFolder::owner(folder, user)?, folder.join(HANDOVER_SOCKET));
        let taken = tokio::task::spawn_blocking(move || take(&path, owner)).await;
        let taken = taken.map_err(|error| StartError::Threads(io::Error::other(error)))??;
        let Some(mut taken) = taken else { return Ok(None) };
        // Those of a newer version are closed when the listeners are dropped.
        let mut listeners: HandedOver = taken.set.others.drain(..).collect();
        let lock = listeners.remove(LOCK);
        let sockets = std::mem::take(&mut taken.set.sockets);
        let folder = folder.to_owned();
        Ok(Some((Self { taken, folder, lock }, sockets, listeners)))
    }

    /// Reports to the other daemon that this one serves, waits until it has saved its state, and takes over its data folder.
    pub(crate) async fn end(self, control: &Control) -> Result<Arc<DataFolder>, StartError> {
        let (pid, version) = (self.taken.predecessor.pid, self.taken.predecessor.version.clone());
        let release = self.taken.complete().await?;
        let folder = match self.lock {
            Some(lock) => DataFolder::adopt(&self.folder, lock)?,
            None => DataFolder::open(&self.folder)?,
        };
        tracing::info!(
            pid,
            version,
            orderly = release == Release::Orderly,
            "handover completed: took over from the old process"
        );
        let folder = Arc::new(folder);
        // Fails only if the control task has ended, which is handled elsewhere.
        let _ = control.commands.send(Command::Adopt(Arc::clone(&folder))).await;
        Ok(folder)
    }
}

/// Gets the declared objects of the replaced daemon: from its API, else from its store file.
pub(crate) async fn fetch_objects(settings: &Settings, declared: &ArcSwap<Declared>) {
    let Some(folder) = &settings.data_dir else { return };
    match Client::new(Reach::of_data_dir(folder)).objects().await {
        Ok(export) => declared.store(Arc::new(objects_of(export))),
        Err(error) => {
            tracing::warn!(%error, "the replaced process did not return its declared objects; its store file was read");
            objects::peek_at_start(settings, declared).await;
        }
    }
}

fn objects_of(export: ObjectsExport) -> Declared {
    let object = |exported: ExportedObject| {
        let (at, by) = (Timestamp::from_secs(0), Author::default());
        let ExportedObject { key, value, revision, generation } = exported;
        let (key, value) = (Key::parse(&key).ok()?, value.to_string().into_bytes().into());
        Some(Object { key, value, revision, generation, created: at, changed: at, by })
    };
    Declared::new(export.revision, export.objects.into_iter().filter_map(object))
}

/// Starts to wait for a process that takes over.
pub(crate) fn offer(
    folder: &DataFolder,
    server: &Server,
    listeners: &[(&str, OwnedFd)],
) -> Result<Offer, HandoverError> {
    let path = folder.path().join(HANDOVER_SOCKET);
    match handover_set(folder, server, listeners) {
        Ok(set) => Offer::listen(&path, set),
        Err(source) => Err(HandoverError::Listen { path, source }),
    }
}

/// Copies everything that is handed over.
fn handover_set(folder: &DataFolder, server: &Server, listeners: &[(&str, OwnedFd)]) -> io::Result<HandoverSet> {
    let mut others = vec![(LOCK.to_owned(), folder.lock_copy()?)];
    for (name, listener) in listeners {
        others.push(((*name).to_owned(), listener.as_fd().try_clone_to_owned()?));
    }
    Ok(HandoverSet { sockets: server.sockets()?, others })
}
