//! Reads files and declared objects, and compiles them.

use std::{
    any::Any,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_config::{Attempt, Environment, PreviousLoad, Settings, Source, watch::Fingerprint};
use fairway_model::{Diagnostic, FileLocation, HostAddresses, Override, Timestamp};
use fairway_sources::Found;
use fairway_store::SavedOverride;
use fairway_zones::{ServerCookieKey, give_back_memory};
use tokio::sync::{oneshot, watch};

use super::{
    changes,
    compile::{Job, Stop},
    configured::{Compiled, Configured, Files, LookedUp, Previous},
    declared::Declared,
    reloads::ReloadScope,
    removals,
};

/// The result of one reload.
#[derive(Debug)]
pub struct Reading {
    /// The files that were read; `None` if none were.
    pub fingerprint: Option<Fingerprint>,
    /// Time that reading and compiling took.
    pub took: Duration,
    /// The new configuration, or all errors.
    pub outcome: Outcome,
}

/// A compiled configuration, or all errors.
pub type Outcome = Result<Compiled, Vec<Diagnostic>>;

/// Lowers the priority of the calling thread for as long as the returned value is held.
pub type LowerPriority = fn() -> Box<dyn Any>;

/// Returns the folders that settings need to write and that this process may not write, because it has restricted itself.
pub type Unwritable = Arc<dyn Fn(&Settings) -> Vec<PathBuf> + Send + Sync>;

/// Reads and compiles configurations.
#[derive(Clone)]
pub struct Reader {
    /// The files.
    pub source: Source,
    /// The environment variables.
    pub environment: Environment,
    /// The declared objects.
    pub declared: Arc<ArcSwap<Declared>>,
    /// The overrides that were added to this server. Some of them change the policies of pools.
    pub kept: Arc<ArcSwap<Vec<SavedOverride>>>,
    /// The addresses that host names of clusters were resolved to.
    pub hosts: watch::Receiver<HostAddresses>,
    /// Findings in Kubernetes clusters.
    pub found: watch::Receiver<Found>,
    /// The key of cookies, if the files list none.
    pub cookie_key: ServerCookieKey,
    /// Returns the folders that settings need to write and that this process may not write.
    pub unwritable: Unwritable,
    /// Called on each thread that compiles, so that answers and probes come first.
    pub lower_priority: LowerPriority,
}

impl Reader {
    /// Returns a reader without declared objects, whose threads keep their priority.
    pub fn new(source: Source, environment: Environment) -> Self {
        Self {
            source,
            environment,
            declared: Arc::default(),
            kept: Arc::default(),
            hosts: watch::channel(HostAddresses::new()).1,
            found: watch::channel(Found::new()).1,
            cookie_key: ServerCookieKey::default(),
            unwritable: Arc::new(|_| Vec::new()),
            lower_priority: || Box::new(()),
        }
    }

    /// Reads and compiles on a separate thread of low priority.
    ///
    /// Returns `None` if the thread cannot be started.
    pub async fn read(&self, scope: ReloadScope, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        self.on_thread(move || Some(reader.read_here(scope, Some(&previous), now))).await
    }

    /// Reads and compiles declared objects on a separate thread, if that is quick.
    ///
    /// Also returns `None` if an object is rejected, or if everything has to be merged, which may take long.
    pub async fn read_briefly(&self, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        self.on_thread(move || {
            let begun = Instant::now();
            let compiled = reader.compile(&previous.configured.files, Some(&previous), now, true).ok()?;
            Some(Reading { fingerprint: None, took: begun.elapsed(), outcome: Ok(compiled) })
        })
        .await
    }

    /// Reads and compiles on this thread.
    pub fn read_here(&self, scope: ReloadScope, previous: Option<&Previous>, now: Timestamp) -> Reading {
        let begun = Instant::now();
        let (fingerprint, outcome) = match previous {
            Some(previous) if scope == ReloadScope::Objects => {
                (None, self.compile_all(&previous.configured.files, Some(previous), now))
            }
            _ => {
                let before = previous.map(|previous| {
                    let Configured { files, merged, .. } = &*previous.configured;
                    let (zones, maps) = (&files.kept, &files.kept_maps);
                    PreviousLoad { zones, maps, names: &merged.desired.names, not_in_files: &merged.not_in_files }
                });
                let (fingerprint, outcome) = self.read_files(before, previous, now);
                (Some(fingerprint), outcome)
            }
        };
        Reading { fingerprint, took: begun.elapsed(), outcome }
    }

    /// Reads and compiles files. Zones that did not change since `before` are not read again.
    fn read_files(
        &self,
        before: Option<PreviousLoad<'_>>,
        previous: Option<&Previous>,
        now: Timestamp,
    ) -> (Fingerprint, Outcome) {
        let load = || fairway_config::attempt(&self.source, &*self.environment, before);
        let mut attempt = load();
        for _ in 1..ATTEMPTS {
            if attempt.fingerprint.is_current() {
                break;
            }
            attempt = load();
        }
        let Attempt { fingerprint, outcome: loaded } = attempt;
        if !fingerprint.is_current() {
            let changing = fingerprint.changed().map(|file| {
                let location = FileLocation::file(&file.to_string_lossy());
                Diagnostic::error(location, "the file changed while it was read", "reload again when it is complete")
            });
            let errors = changing.collect();
            return (fingerprint, Err(errors));
        }
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(errors) => return (fingerprint, Err(errors)),
        };
        let unwritable = (self.unwritable)(&loaded.settings);
        if !unwritable.is_empty() {
            let errors = unwritable.iter().map(|folder| unwritable_error(folder, &self.source)).collect();
            return (fingerprint, Err(errors));
        }
        let is_complete = !loaded.zones_unchanged;
        let mut outcome = self.compile_all(&Arc::new(Files::from(loaded)), previous, now);
        if let (Ok(compiled), Some(previous)) = (&mut outcome, previous) {
            compiled.removals = removals::errors(previous, compiled, &describe(&self.source));
            compiled.text_changes = changes::of_zone_files(&previous.snapshot, &compiled.snapshot);
        }
        if outcome.is_err() && !is_complete {
            // With the text of all zones, an error has the line of its record.
            return self.read_files(None, previous, now);
        }
        (fingerprint, outcome)
    }

    fn compile_all(&self, files: &Arc<Files>, previous: Option<&Previous>, now: Timestamp) -> Outcome {
        self.compile(files, previous, now, false).map_err(|stop| match stop {
            Stop::Errors(errors) => errors,
            Stop::NotBrief => unreachable!("the job has no time limit"),
        })
    }

    fn compile(
        &self,
        files: &Arc<Files>,
        previous: Option<&Previous>,
        now: Timestamp,
        is_brief: bool,
    ) -> Result<Compiled, Stop> {
        let (objects, owner) = (self.declared.load_full(), describe(&self.source));
        let before = previous.map(|previous| &previous.configured.load_off[..]);
        let load_off = load_off((files, &objects, &self.kept.load()), before.unwrap_or_default(), now);
        let looked_up = LookedUp { hosts: self.hosts.borrow().clone(), found: self.found.borrow().clone() };
        let (load_off, looked_up, cookie_key) = (&load_off, &looked_up, &self.cookie_key);
        Job { previous, files, objects: &objects, load_off, looked_up, cookie_key, owner: &owner, now, is_brief }.run()
    }

    /// Runs work on a separate thread of low priority. Returns `None` if the thread cannot be started.
    async fn on_thread(&self, work: impl FnOnce() -> Option<Reading> + Send + 'static) -> Option<Reading> {
        let (reply, reading) = oneshot::channel();
        let lower_priority = self.lower_priority;
        let work = move || {
            let _low_priority = lower_priority();
            let reading = work();
            let outcome = reading.as_ref().map(|reading| &reading.outcome);
            let is_small = outcome.is_none_or(|outcome| outcome.as_ref().is_ok_and(|compiled| compiled.is_incremental));
            let _ = reply.send(reading);
            if !is_small {
                give_back_memory();
            }
        };
        if let Err(error) = thread::Builder::new().name("fairway-compile".to_owned()).spawn(work) {
            tracing::error!(%error, "cannot start the thread that loads the configuration");
            return None;
        }
        reading.await.ok().flatten()
    }
}

/// Returns the overrides in force that pin pools: of the files, of the shared store and of this server.
fn load_off(
    (files, objects, kept): (&Files, &Declared, &[SavedOverride]),
    before: &[Override],
    now: Timestamp,
) -> Vec<Override> {
    let (declared, _) = fairway_config::overrides(&files.overrides, now);
    let shared = objects.shared_overrides();
    // If the shared ones cannot be read, those in force stay.
    let before = if shared.is_none() { before } else { &[] };
    let added = kept.iter().chain(shared.unwrap_or_default()).map(|added| &added.value);
    let all = declared.iter().chain(added).chain(before);
    all.filter(|spec| spec.kind.pools().is_some() && spec.is_active(now)).cloned().collect()
}

fn unwritable_error(folder: &Path, source: &Source) -> Diagnostic {
    let what = format!("the folder {} is outside of those that this process may write (Landlock)", folder.display());
    let hint = "restart fairway with this configuration, or add the folder to landlock.write before a start";
    Diagnostic::error(FileLocation::file(&describe(source)), what, hint)
}

/// Returns the name of a configuration, for messages.
pub fn describe(source: &Source) -> String {
    match source {
        Source::Path(path) => path.display().to_string(),
        Source::Flags { .. } => "command line".to_owned(),
    }
}

/// Maximum number of attempts to read files that keep changing; then the reload is rejected.
const ATTEMPTS: usize = 3;
