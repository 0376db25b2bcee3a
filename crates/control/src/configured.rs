//! The configuration in force, and the reader that makes it from files and declared objects.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_model::{DesiredState, Diagnostic, FileLocation, Member, Name, Override, Pool, Timestamp, WeightOrigin};
use fairway_zonefile::ZoneData;
use fairway_zones::{Snapshot, give_back_memory};
use tokio::sync::oneshot;

use super::{
    compile::{Compiled, Job, Stop},
    contributed::LeftNames,
    declared::{Declared, LeftOut},
    merge::{MergedState, Sources},
    trial::Trial,
    uses::Uses,
};
use fairway_config::Environment;
use fairway_config::{Loaded, MapCache, OverrideSpec, PreviousLoad, Settings, Source, ZoneCache, watch::Fingerprint};
use fairway_transport::lower_priority_of_computation;

/// A configuration that was accepted, apart from its snapshot.
#[derive(Clone, Debug)]
pub struct Configured {
    /// How the process runs.
    pub settings: Settings,
    /// What the files declare.
    pub files: Arc<Files>,
    /// The declared objects that it was made from.
    pub objects: Arc<Declared>,
    /// Files, objects and contributions, merged.
    pub merged: MergedState,
    /// Declared objects that do not fit, with the reasons. Each reload tries them again.
    pub rejected: LeftOut,
    /// Contributed names that do not fit, with the reasons. Each reload tries them again.
    pub left_names: LeftNames,
    /// Declared objects that are not served: rejected ones, and intents without a cluster, say.
    pub left_out: LeftOut,
    /// The overrides of the files that have not ended.
    pub overrides: Vec<Override>,
    /// Which target is probed for whom.
    pub uses: Uses,
    /// All warnings.
    pub warnings: Vec<Diagnostic>,
    /// Those of the compilation alone: a later one that compiles only a part would lose them.
    pub compile_warnings: Vec<Diagnostic>,
}

/// The last state, which serves while a new one is made.
#[derive(Clone)]
pub struct Previous {
    pub(crate) configured: Arc<Configured>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The last dry run from this state.
    pub tried: Option<Arc<Trial>>,
}

impl Previous {
    /// A state from which no dry run was made.
    pub fn new(configured: Arc<Configured>, snapshot: Arc<Snapshot>) -> Self {
        Self { configured, snapshot, tried: None }
    }
}

/// The result of one reload.
#[derive(Debug)]
pub struct Reading {
    /// The files read, and what they looked like; `None` if they were not read.
    pub fingerprint: Option<Fingerprint>,
    /// How long it took.
    pub took: Duration,
    /// The new configuration, or all errors.
    pub outcome: Outcome,
}

/// A compiled configuration, or all its errors.
pub type Outcome = Result<Compiled, Vec<Diagnostic>>;

/// Reads and compiles configurations.
#[derive(Clone)]
pub struct Reader {
    /// Where the configuration comes from.
    pub source: Source,
    /// The environment.
    pub environment: Environment,
    /// Objects of the API.
    pub declared: Arc<ArcSwap<Declared>>,
}

/// What a reload reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The objects of the API; the files stay as they were read last.
    #[default]
    Objects,
    /// The files, and the objects.
    Files,
}

impl Reader {
    /// Reads and compiles on a thread of its own, at low priority: answers and probes come first.
    ///
    /// Returns `None` only if the thread cannot be started.
    pub async fn read(&self, what: What, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        on_a_thread(move || Some(reader.read_here(what, Some(&previous), now))).await
    }

    /// The same for objects. Returns `None`, too, if anything is rejected, or if everything has to be merged: that may take long.
    pub async fn read_briefly(&self, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        on_a_thread(move || {
            let begun = Instant::now();
            let outcome = reader.compile(&previous.configured.files, Some(&previous), now, true);
            let outcome = Ok(outcome.ok()?);
            Some(Reading { fingerprint: None, took: begun.elapsed(), outcome })
        })
        .await
    }

    /// Reads and compiles on this thread.
    pub fn read_here(&self, what: What, previous: Option<&Previous>, now: Timestamp) -> Reading {
        let begun = Instant::now();
        let (fingerprint, outcome) = match previous {
            Some(previous) if what == What::Objects => {
                (None, self.compile_all(&previous.configured.files, Some(previous), now))
            }
            _ => {
                let (fingerprint, outcome) = self.read_files(previous, now);
                (Some(fingerprint), outcome)
            }
        };
        Reading { fingerprint, took: begun.elapsed(), outcome }
    }

    fn read_files(&self, previous: Option<&Previous>, now: Timestamp) -> (Fingerprint, Outcome) {
        let before = previous.map(|previous| {
            let Configured { files, merged, .. } = &*previous.configured;
            let (zones, maps) = (&files.kept, &files.kept_maps);
            PreviousLoad { zones, maps, names: &merged.desired.names, not_in_files: &merged.beside }
        });
        if let (fingerprint, Some(outcome)) = self.attempt(before, previous, now) {
            return (fingerprint, outcome);
        }
        // With the text of all zones at hand, an error tells the line of the record it is about.
        let (fingerprint, outcome) = self.attempt(None, previous, now);
        (fingerprint, outcome.unwrap_or_else(|| unreachable!("all zones were read")))
    }

    /// Returns the files looked at, and the result: `None` if there are errors and unchanged zones were not read again.
    fn attempt(
        &self,
        before: Option<PreviousLoad<'_>>,
        previous: Option<&Previous>,
        now: Timestamp,
    ) -> (Fingerprint, Option<Outcome>) {
        let (mut fingerprint, mut loaded) = self.load(before);
        for _ in 1..ATTEMPTS {
            if fingerprint.is_current() {
                break;
            }
            (fingerprint, loaded) = self.load(before);
        }
        if !fingerprint.is_current() {
            let moving = fingerprint.changed().map(|file| {
                let place = FileLocation::file(&file.to_string_lossy());
                Diagnostic::error(place, "the file changed while it was read", "reload again when it is complete")
            });
            loaded = Err(moving.collect());
        }
        let outcome = match loaded {
            Ok(loaded) => {
                let is_whole = !loaded.zones_unchanged;
                let outcome = self.compile_all(&Arc::new(Files::from(loaded)), previous, now);
                (outcome.is_ok() || is_whole).then_some(outcome)
            }
            Err(faults) => Some(Err(faults)),
        };
        (fingerprint, outcome)
    }

    fn load(&self, before: Option<PreviousLoad<'_>>) -> (Fingerprint, Result<Loaded, Vec<Diagnostic>>) {
        let attempt = fairway_config::attempt(&self.source, &*self.environment, before);
        (attempt.fingerprint, attempt.outcome)
    }

    fn compile_all(&self, files: &Arc<Files>, previous: Option<&Previous>, now: Timestamp) -> Outcome {
        self.compile(files, previous, now, false).map_err(|stop| match stop {
            Stop::Errors(errors) => errors,
            Stop::NotBrief => unreachable!("it may take as long as it needs"),
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
        let sources = Sources { previous, files, objects: &objects, owner: &owner };
        Job { sources, files, objects: &objects, now, is_brief }.run()
    }
}

/// Does work on a thread of its own, at low priority. Returns `None` if the thread cannot be started.
async fn on_a_thread(work: impl FnOnce() -> Option<Reading> + Send + 'static) -> Option<Reading> {
    let (reply, reading) = oneshot::channel();
    let work = move || {
        let _computing = lower_priority_of_computation();
        let reading = work();
        let leaves_little = reading
            .as_ref()
            .is_none_or(|reading| reading.outcome.as_ref().is_ok_and(|compiled| compiled.is_incremental));
        let _ = reply.send(reading);
        if !leaves_little {
            give_back_memory();
        }
    };
    if let Err(error) = thread::Builder::new().name("fairway-compile".to_owned()).spawn(work) {
        tracing::error!(%error, "cannot start the thread that loads the configuration");
        return None;
    }
    reading.await.ok().flatten()
}

/// A member that a client of the webhook brings, and where its weight comes from.
pub struct Contributor<'a> {
    pub(crate) name: &'a Name,
    pub(crate) pool: &'a Pool,
    /// As it counts.
    pub member: &'a Member,
    pub(crate) origin: &'a WeightOrigin,
}

impl Configured {
    /// The members that clients of the webhook bring and nobody declares, by name.
    pub fn origins(&self) -> impl Iterator<Item = Contributor<'_>> {
        let MergedState { contributed, desired, declared, .. } = &self.merged;
        let of_names = contributed.united().names();
        of_names.flat_map(move |(name, of_name)| {
            let offered = of_name.steered.as_ref().map_or(&[][..], |(_, pool)| &pool.members);
            let pool = of_name.steered.as_ref().and_then(|(_, pool)| desired.pools.get(&pool.name));
            offered.iter().zip(&of_name.origins).filter_map(move |(member, origin)| {
                let pool = pool?;
                let counted = pool.members.iter().find(|counted| counted.cluster == member.cluster)?;
                let mut others = declared.pools.get(&pool.name).into_iter().flat_map(|pool| &pool.members);
                let is_declared = others.any(|other| other.cluster == member.cluster);
                (!is_declared).then_some(Contributor { name, pool, member: counted, origin })
            })
        })
    }
}

/// What the files declare.
#[derive(Clone, Debug)]
pub struct Files {
    pub(crate) settings: Settings,
    pub(crate) desired: Arc<DesiredState>,
    /// The text of all zones; `None` if they are as before.
    pub zones: Option<Vec<ZoneData>>,
    /// What the next reading needs to know of the zones.
    pub kept: ZoneCache,
    /// The same of maps and latency tables.
    pub kept_maps: MapCache,
    pub(crate) overrides: Vec<OverrideSpec>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Files {
    /// The same without the text of zones.
    pub fn without_text(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            desired: Arc::clone(&self.desired),
            zones: None,
            kept: self.kept.clone(),
            kept_maps: self.kept_maps.clone(),
            overrides: self.overrides.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

impl From<Loaded> for Files {
    fn from(loaded: Loaded) -> Self {
        Self {
            settings: loaded.settings,
            desired: Arc::new(loaded.desired),
            zones: (!loaded.zones_unchanged).then_some(loaded.zones),
            kept: loaded.zone_cache,
            kept_maps: loaded.map_cache,
            overrides: loaded.overrides,
            warnings: loaded.warnings,
        }
    }
}

/// Returns the name of a configuration, for messages.
pub fn describe(source: &Source) -> String {
    match source {
        Source::Path(path) => path.display().to_string(),
        Source::Flags { .. } => "command line".to_owned(),
    }
}

/// How often files that keep changing are read before the reload is refused.
const ATTEMPTS: usize = 3;
