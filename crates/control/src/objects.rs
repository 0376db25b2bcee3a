//! Opens the store of declared objects, and gives the API access to it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use fairway_config::{Settings, StoreBackend, StoreSettings};
use fairway_model::Timestamp;
use fairway_store::{
    DataFolder, Leadership,
    objects::{Author, EtcdStore, Listing, LocalStore, ObjectStore, StoreError, StoreFile, StoreKeys, ValueOptions},
};
use fairway_zones::Snapshot;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::{
    Control, ControlError,
    command::Command,
    configured::{Compiled, Configured, Previous},
    contributed::{ContributionLedger, EndpointFilter},
    declared::Declared,
    dry_run::{DryRunRequest, DryRunResult},
    object_store::Objects,
    reader::Reader,
    reloads::ReloadScope,
};

/// Opens the store: the one in the data folder, or the one that several servers share. If that fails, files and all objects that can be
/// read are served nevertheless, and nothing can be declared. Returns the reason.
pub async fn open(
    folder: &DataFolder,
    settings: &StoreSettings,
    declared: &Arc<ArcSwap<Declared>>,
) -> Result<Objects, String> {
    let loaded = load(Some(folder.path()), settings, declared).await;
    if let Err(error) = &loaded {
        tracing::error!(error, "store not available: API writes are refused");
        peek(settings, folder.path(), declared).await;
    }
    loaded
}

/// Checks that this version reads the store, and that the stored values can be decrypted with the keys of the settings: a server that has
/// none of its objects would deny their names. A store that a crash left unclean is repaired first, if its folder is locked for this process.
///
/// # Errors
/// A key is missing, or a newer version wrote the store. Other errors are found when the store is opened.
pub fn check_store(settings: &Settings, locked: Option<&DataFolder>) -> Result<(), StoreError> {
    let Some(folder) = &settings.data_dir else { return Ok(()) };
    let path = objects_file(&settings.store, folder);
    if !path.exists() {
        return Ok(());
    }
    let check = || StoreFile::open(&path, &store_keys(&settings.store)?)?.check_keys();
    let checked = match (check(), locked) {
        (Err(StoreError::Unavailable(_)), Some(locked)) => StoreFile::repair(locked, &path).and_then(|_| check()),
        (checked, _) => checked,
    };
    let is_copy = matches!(settings.store.backend, StoreBackend::Etcd { .. });
    match checked {
        Err(StoreError::Keys(_)) => checked,
        Err(StoreError::Newer { .. }) if !is_copy => checked,
        _ => Ok(()),
    }
}

/// Returns the keys of the settings, which the configuration has checked.
fn store_keys(settings: &StoreSettings) -> Result<StoreKeys, StoreError> {
    StoreKeys::new(&settings.keys).map_err(|error| StoreError::Keys(error.to_string()))
}

async fn load(
    folder: Option<&Path>,
    settings: &StoreSettings,
    declared: &Arc<ArcSwap<Declared>>,
) -> Result<Objects, String> {
    let (folder, settings) = (folder.map(Path::to_owned), settings.clone());
    let opened = tokio::task::spawn_blocking(move || open_store(folder.as_deref(), settings)).await;
    let store = opened.map_err(|error| error.to_string())??;
    Objects::load(store, Arc::clone(declared)).await.map_err(|error| error.to_string())
}

/// Returns the file with the objects of a store: the store itself, or the copy of a shared one.
fn objects_file(settings: &StoreSettings, folder: &Path) -> PathBuf {
    match settings.backend {
        StoreBackend::Embedded => StoreFile::path_in(folder),
        StoreBackend::Etcd { .. } => StoreFile::copy_in(folder),
    }
}

fn open_store(folder: Option<&Path>, settings: StoreSettings) -> Result<Arc<dyn ObjectStore>, String> {
    let message = |error: StoreError| error.to_string();
    let keys = store_keys(&settings).map_err(message)?;
    let values = ValueOptions { keys, redact: fairway_intents::without_secrets };
    match (settings.backend, folder) {
        (StoreBackend::Embedded, Some(folder)) => {
            // `fairway store` must not take the copy of another store for this one.
            if let Some(aside) = StoreFile::move_copy_aside(folder).map_err(message)? {
                let aside = aside.display();
                tracing::warn!(%aside, "store changed from etcd to the data folder; copy of the etcd objects moved aside");
            }
            Ok(Arc::new(LocalStore::open(folder, values).map_err(message)?))
        }
        (StoreBackend::Embedded, None) => {
            Err("there is no data folder; start fairway with one (--data-dir)".to_owned())
        }
        (StoreBackend::Etcd { prefix, etcd }, folder) => {
            Ok(Arc::new(EtcdStore::open(etcd, &prefix, values, folder).map_err(message)?))
        }
    }
}

/// Reads declared objects without opening the store: another process has it, or it cannot be written.
async fn peek(settings: &StoreSettings, folder: &Path, declared: &ArcSwap<Declared>) {
    let (path, keys) = (objects_file(settings, folder), store_keys(settings));
    let read = move || if path.exists() { StoreFile::open(&path, &keys?)?.list() } else { Ok(Listing::default()) };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Listing { objects, revision, .. })) => declared.store(Arc::new(Declared::new(revision, objects))),
        Ok(Err(error)) => tracing::error!(event = "change", %error, "declared objects not served"),
        Err(error) => tracing::error!(event = "change", %error, "declared objects not served"),
    }
}

/// Returns the declared objects at a start, or the reason why there are none.
pub async fn at_start(
    settings: &Settings,
    folder: Option<&DataFolder>,
    declared: &Arc<ArcSwap<Declared>>,
) -> Result<Objects, String> {
    if let Some(folder) = folder {
        return open(folder, &settings.store, declared).await;
    }
    peek_at_start(settings, declared).await;
    match (&settings.store.backend, &settings.data_dir) {
        (StoreBackend::Embedded, Some(path)) => Err(format!("the data folder {} cannot be written to", path.display())),
        // A shared store needs no data folder.
        _ => load(None, &settings.store, declared).await,
    }
}

/// Reads the declared objects of a process that runs on the same data folder, and did not return them itself.
pub async fn peek_at_start(settings: &Settings, declared: &ArcSwap<Declared>) {
    if let Some(path) = &settings.data_dir {
        peek(&settings.store, path, declared).await;
    }
}

/// Returns the first configuration with the declared objects, the overrides of this server and the last known addresses of host names. If
/// the objects are invalid, the files alone are used.
pub fn with_objects(
    reader: &Reader,
    configured: Configured,
    snapshot: Snapshot,
    now: Timestamp,
) -> (Configured, Snapshot) {
    let has_read = !reader.hosts.borrow().is_empty() || !reader.found.borrow().is_empty();
    if reader.declared.load().is_empty() && reader.kept.load().is_empty() && !has_read {
        return (configured, snapshot);
    }
    let previous = Previous::new(Arc::new(configured), Arc::new(snapshot));
    let reading = reader.read_here(ReloadScope::Objects, Some(&previous), now);
    match reading.outcome {
        Ok(Compiled { configured, snapshot, .. }) => (configured, snapshot),
        Err(errors) => {
            errors.iter().for_each(|error| tracing::error!(event = "change", %error, "declared objects not served"));
            let Previous { configured, snapshot, .. } = previous;
            let proof = "this function has the only reference";
            (Arc::into_inner(configured).expect(proof), Arc::into_inner(snapshot).expect(proof))
        }
    }
}

impl Control {
    /// Sets the declared objects, or the reason why there are none. Returns the task that follows them.
    pub fn set_objects(&self, objects: Result<Objects, String>) -> Option<JoinHandle<()>> {
        let objects = objects.map(|objects| objects.guarded(&self.shared));
        let following = objects.as_ref().ok().map(|objects| {
            let election = objects.store().election();
            let (objects, commands) = (objects.clone().follow(self.commands.clone()), self.commands.clone());
            let leader = async move {
                if let Some(election) = election {
                    follow_leader(election.leadership(), commands).await;
                }
            };
            tokio::spawn(async { _ = tokio::join!(objects, leader) })
        });
        // Called once: at the start, or when the previous process has released the store.
        let _ = self.shared.declarations.objects.set(objects);
        following
    }

    /// Closes the store.
    pub async fn close_objects(&self) {
        if let Ok(objects) = self.objects() {
            objects.store().close().await;
        }
    }

    /// Returns the declared objects.
    pub fn objects(&self) -> Result<&Objects, ControlError> {
        match self.shared.declarations.objects.get() {
            Some(Ok(objects)) => Ok(objects),
            Some(Err(why)) => Err(ControlError::NoStore(why.clone())),
            None => {
                let what = "the previous process still holds the data folder; try again in a moment";
                Err(ControlError::NoStore(what.to_owned()))
            }
        }
    }

    /// Releases what an owner withdrew and is held: a client of the webhook, or a namespace of a cluster, `kubernetes:CLUSTER/NAMESPACE`.
    /// Returns the number of endpoints, or of names.
    pub async fn confirm_withdrawals(&self, filter: EndpointFilter<'_>, by: Author) -> Result<usize, ControlError> {
        let EndpointFilter { owner, path: None, set: None } = filter else {
            return self.ledger()?.confirm(filter, by).await;
        };
        let names = self.shared.probes.sources.confirm(owner).await;
        if names > 0 {
            tracing::info!(event = "hold", owner, names, by = %by.identity, reason = %by.reason, "held withdrawal confirmed");
            return Ok(names);
        }
        self.ledger()?.confirm(filter, by).await
    }

    /// Returns the ledger of webhook contributions.
    pub fn ledger(&self) -> Result<Arc<ContributionLedger>, ControlError> {
        let ledger = self.shared.declarations.webhook.get().map(|(ledger, _)| Arc::clone(ledger));
        ledger.ok_or_else(|| ControlError::NoStore("the server is starting".to_owned()))
    }

    /// Waits at most `limit` until the objects of a revision are in the answers. Returns true if they are.
    pub async fn served(&self, revision: u64, limit: Duration) -> bool {
        let mut served = self.shared.declarations.served.subscribe();
        tokio::time::timeout(limit, served.wait_for(|served| *served >= revision)).await.is_ok_and(|it| it.is_ok())
    }

    /// Compiles objects as if they were the declared ones. Nothing changes.
    pub async fn dry_run(&self, request: DryRunRequest) -> Result<DryRunResult, ControlError> {
        let result = self.ask(|reply| Command::DryRun(Box::new(request), reply));
        let Some(work) = self.shared.traces.below("try") else { return result.await };
        let result = result.await;
        match &result {
            Ok(result) => {
                work.number("fairway.try.rejected", result.not_served.len());
                work.number("fairway.try.errors", result.errors.len());
            }
            Err(error) => work.fail(error.to_string()),
        }
        result
    }
}

/// Forwards the leader's decisions to the control task.
async fn follow_leader(mut leadership: watch::Receiver<Leadership>, commands: mpsc::Sender<Command>) {
    loop {
        let now = leadership.borrow_and_update().clone();
        if commands.send(Command::Leadership(now)).await.is_err() || leadership.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn copy_of_a_store_that_is_no_longer_shared_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(StoreFile::copy_in(folder.path()), "the last copy").unwrap();
        for _ in 0..2 {
            drop(open_store(Some(folder.path()), StoreSettings::default()).unwrap());
            assert!(!StoreFile::copy_in(folder.path()).exists());
            let aside = folder.path().join("objects-copy.redb.aside");
            assert_eq!(fs::read_to_string(aside).unwrap(), "the last copy");
        }
    }
}
