//! Taking over from a running daemon, and giving way to one: what changes hands besides the sockets of DNS.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::daemon::{
    StartError,
    bound::{HEALTH, HTTP, Passed, WEBHOOK},
};
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

/// Name of the socket in the data folder that a replacing process connects to.
const HANDOVER_SOCKET: &str = "handover.sock";
/// Descriptors that both versions know by name.
const LOCK: &str = "lock";

/// What a running daemon gave to this one, which serves nothing yet.
#[derive(Debug)]
pub(crate) struct Predecessor {
    taken: Taken,
    folder: PathBuf,
    lock: Option<OwnedFd>,
}

impl Predecessor {
    /// Asks the daemon on this data folder for its sockets: they, its HTTP listeners where they have the wanted addresses, and
    /// the daemon itself, which serves on until [`Predecessor::end`]. None if none runs.
    pub(crate) async fn ask(folder: &Path, settings: &Settings) -> Result<Option<(Self, Sockets, Passed)>, StartError> {
        let path = folder.join(HANDOVER_SOCKET);
        let asked = tokio::task::spawn_blocking(move || take(&path)).await;
        let taken = asked.map_err(|error| StartError::Threads(io::Error::other(error)))??;
        let Some(mut taken) = taken else { return Ok(None) };
        let (mut lock, mut passed) = (None, Passed::default());
        let webhook = settings.webhook.as_ref();
        let wanted = |descriptor: OwnedFd, at: Option<SocketAddr>| {
            let listener = TcpListener::from(descriptor);
            Some(listener).filter(|listener| at.is_some() && listener.local_addr().ok() == at)
        };
        for (name, descriptor) in taken.set.others.drain(..) {
            match name.as_str() {
                LOCK => lock = Some(descriptor),
                HTTP => passed.http = wanted(descriptor, settings.http),
                WEBHOOK => passed.webhook = wanted(descriptor, webhook.map(|webhook| webhook.listen)),
                HEALTH => passed.health = wanted(descriptor, webhook.and_then(|webhook| webhook.metrics)),
                // A newer version gave what this one does not know: it closes with the value.
                _ => {}
            }
        }
        let sockets = std::mem::take(&mut taken.set.sockets);
        let folder = folder.to_owned();
        Ok(Some((Self { taken, folder, lock }, sockets, passed)))
    }

    /// Tells the other daemon that this one serves, waits until it has let go, and takes its data folder.
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
        // A control task that has ended keeps nothing; the end of the daemon is near and told elsewhere.
        let _ = control.commands.send(Command::Adopt(Arc::clone(&folder))).await;
        Ok(folder)
    }
}

/// Takes the declared objects of the daemon that is replaced: as it returns them, or else from its file.
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

/// Lets a later process take over: its wish is waited for from now on.
pub(crate) fn offer(
    folder: &DataFolder,
    server: &Server,
    listeners: &[(&str, OwnedFd)],
) -> Result<Offer, HandoverError> {
    let path = folder.path().join(HANDOVER_SOCKET);
    let set = || -> io::Result<HandoverSet> {
        let mut others = vec![(LOCK.to_owned(), folder.lock_copy()?)];
        for (name, listener) in listeners {
            others.push(((*name).to_owned(), listener.as_fd().try_clone_to_owned()?));
        }
        Ok(HandoverSet { sockets: server.sockets()?, others })
    };
    match set() {
        Ok(set) => Offer::listen(&path, set),
        Err(source) => Err(HandoverError::Listen { path, source }),
    }
}
