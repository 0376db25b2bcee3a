//! From files to a compiled configuration, on a thread that may take its time.

use std::{
    collections::BTreeSet,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_model::{Contribution, Desired, Fault, Name, Override, Place, Severity, SourceKind, Timestamp, merge};
use fairway_zones::{ServerOptions, Snapshot, compile, give_back_memory, recompile, text::ZoneData};
use tokio::sync::oneshot;

use super::{
    Environment,
    declared::{Declared, LeftOut, names_beside},
    uses::Uses,
};
use crate::config::{self, Before, KeptMaps, KeptZones, Loaded, OverrideSpec, Settings, Source, watch::Fingerprint};

/// A configuration that was accepted, apart from what is compiled of it.
#[derive(Debug)]
pub(crate) struct Configured {
    /// How the process runs.
    pub(crate) settings: Settings,
    /// What the files wish for.
    files: Arc<Desired>,
    /// Names that others steer, and the files do not.
    beside: BTreeSet<Name>,
    /// What is wished for, all contributions joined.
    pub(crate) desired: Arc<Desired>,
    /// The revision of the declared objects in it.
    pub(crate) revision: u64,
    /// Declared objects that are not heeded.
    pub(crate) left_out: LeftOut,
    /// What was said twice and differently, for people.
    pub(crate) conflicts: Vec<String>,
    /// What is forced by configuration.
    pub(crate) overrides: Vec<Override>,
    /// The same as it was declared.
    specs: Vec<OverrideSpec>,
    /// Who is judged by which target.
    pub(crate) uses: Uses,
    /// Faults that let it through.
    pub(crate) warnings: Vec<Fault>,
    /// Those of the files alone.
    doubts: Vec<Fault>,
    /// Its zones, for the next reading.
    pub(crate) zones: KeptZones,
    /// Its maps, likewise.
    pub(crate) maps: KeptMaps,
}

/// What serves while a new configuration is read.
#[derive(Clone)]
pub(super) struct Previous {
    pub(super) configured: Arc<Configured>,
    pub(super) snapshot: Arc<Snapshot>,
}

/// What one reading gave.
#[derive(Debug)]
pub(super) struct Reading {
    /// The files looked at, and what they looked like; none where they were left alone.
    pub(super) fingerprint: Option<Fingerprint>,
    /// How long it took.
    pub(super) took: Duration,
    /// What it gave.
    pub(super) outcome: Outcome,
}

/// A configuration, compiled, or all its faults.
type Outcome = Result<(Configured, Snapshot), Vec<Fault>>;

/// What a reading needs.
#[derive(Clone)]
pub(super) struct Reader {
    /// Where the configuration comes from.
    pub(super) source: Source,
    /// The environment.
    pub(super) environment: Environment,
    /// Objects of the API.
    pub(super) declared: Arc<ArcSwap<Declared>>,
}

/// What is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The objects of the API; what the files said before holds.
    #[default]
    Objects,
    /// The files, and the objects.
    Files,
}

impl Reader {
    /// Reads and compiles on a thread of its own; at low priority where one serves already: answers and probes come
    /// first.
    ///
    /// The reading is lost only if the thread cannot be started.
    pub(super) async fn read(&self, what: What, previous: Option<Previous>, now: Timestamp) -> Option<Reading> {
        let (reply, reading) = oneshot::channel();
        let reader = self.clone();
        let work = move || {
            if previous.is_some() {
                // Being nice is a courtesy; a system that refuses it still gets its configuration.
                let _ = rustix::process::setpriority_process(None, NICENESS);
            }
            let _ = reply.send(reader.read_here(what, previous.as_ref(), now));
            give_back_memory();
        };
        if let Err(error) = thread::Builder::new().name("fairway-compile".to_owned()).spawn(work) {
            tracing::error!(%error, "no thread to read the configuration on");
            return None;
        }
        reading.await.ok()
    }

    /// Reads and compiles on this thread. Zones that are as they were stay compiled.
    pub(super) fn read_here(&self, what: What, previous: Option<&Previous>, now: Timestamp) -> Reading {
        let begun = Instant::now();
        if let (What::Objects, Some(previous)) = (what, previous)
            && let Some(outcome) = self.compile(previous.configured.files_again(), Some(&previous.snapshot), now)
        {
            return Reading { fingerprint: None, took: begun.elapsed(), outcome };
        }
        let before = previous.map(|previous| {
            let Configured { zones, maps, desired, beside, .. } = &*previous.configured;
            Before { zones, maps, names: &desired.names, beside }
        });
        let snapshot = previous.map(|previous| &*previous.snapshot);
        let mut reading = self.attempt(before, snapshot, now);
        if reading.1.is_none() {
            reading = self.attempt(None, snapshot, now);
        }
        let (fingerprint, outcome) = reading;
        let outcome = outcome.unwrap_or_else(|| unreachable!("all zones were read"));
        Reading { fingerprint: Some(fingerprint), took: begun.elapsed(), outcome }
    }

    /// What was looked at, and what came of it: nothing, if something above zones that stayed unread is at fault, which is told
    /// with their text at hand.
    fn attempt(
        &self,
        before: Option<Before<'_>>,
        previous: Option<&Snapshot>,
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
                let place = Place::file(&file.to_string_lossy());
                Fault::error(place, "the file changed while it was read", "reload again when it is complete")
            });
            loaded = Err(moving.collect());
        }
        let outcome = match loaded {
            Ok(loaded) => self.compile(Files::from(loaded), previous, now),
            Err(faults) => Some(Err(faults)),
        };
        (fingerprint, outcome)
    }

    fn load(&self, before: Option<Before<'_>>) -> (Fingerprint, Result<Loaded, Vec<Fault>>) {
        let attempt = config::attempt_after(before, &self.source, &*self.environment);
        (attempt.fingerprint, attempt.outcome)
    }

    /// Joins the files with the objects and compiles. Objects that do not fit are left out. Nothing if the zones were left unread,
    /// and what stands above them in the files is at fault.
    fn compile(&self, files: Files, previous: Option<&Snapshot>, now: Timestamp) -> Option<Outcome> {
        let objects = self.declared.load_full();
        let options = options(&files.settings);
        let mut left_out = LeftOut::new();
        let (merged, beside, compiled) = loop {
            let (merged, beside) = self.merge(&files, &objects, &mut left_out);
            let faults = match self.compile_merged(&merged.desired, &files, !objects.is_empty(), &options, previous) {
                Ok(compiled) => break (merged, beside, Ok(compiled)),
                Err(faults) => faults,
            };
            match objects.blamed(&faults).filter(|blamed| blamed.keys().any(|key| !left_out.contains_key(key))) {
                Some(blamed) => left_out.extend(blamed),
                None if files.zones.is_none() => return None,
                None => break (merged, beside, Err(faults)),
            }
        };
        let mut warnings = files.doubts.clone();
        let overrides = check_overrides(files.overrides.clone(), now, &mut warnings);
        let (overrides, (snapshot, more)) = match (overrides, compiled) {
            (Ok(overrides), Ok(compiled)) => (overrides, compiled),
            (overrides, compiled) => {
                return Some(Err([overrides.err(), compiled.err()].into_iter().flatten().flatten().collect()));
            }
        };
        warnings.extend(more);
        let conflict = |c: &fairway_model::Conflict| {
            format!("{:?}: {:?} {} is heard, {:?} {} is not", c.subject, c.winner.0, c.winner.1, c.loser.0, c.loser.1)
        };
        let configured = Configured {
            uses: Uses::new(&merged.desired, snapshot.targets()),
            conflicts: merged.conflicts.iter().map(conflict).collect(),
            desired: merged.desired,
            beside,
            revision: objects.revision,
            left_out,
            overrides,
            warnings,
            settings: files.settings,
            files: files.desired,
            specs: files.overrides,
            doubts: files.doubts,
            zones: files.kept,
            maps: files.kept_maps,
        };
        Some(Ok((configured, snapshot)))
    }

    /// What the files and the objects wish for together, and the names that only objects steer.
    fn merge(&self, files: &Files, objects: &Declared, left_out: &mut LeftOut) -> (Joined, BTreeSet<Name>) {
        if objects.is_empty() {
            return (Joined { desired: Arc::clone(&files.desired), conflicts: vec![] }, BTreeSet::new());
        }
        let of_files = Contribution {
            source: SourceKind::Config,
            owner: describe(&self.source),
            set: String::new(),
            created: 0,
            desired: Desired::clone(&files.desired),
        };
        let of_objects = objects.contribution(left_out);
        let beside = names_beside(&files.desired, &of_objects.desired);
        let merged = merge([of_files, of_objects]);
        (Joined { desired: Arc::new(merged.desired), conflicts: merged.conflicts }, beside)
    }

    fn compile_merged(
        &self,
        desired: &Desired,
        files: &Files,
        has_objects: bool,
        options: &ServerOptions,
        previous: Option<&Snapshot>,
    ) -> Result<(Snapshot, Vec<Fault>), Vec<Fault>> {
        if has_objects {
            // The files were looked through by themselves; what comes to them may not fit.
            let problems = desired.problems().into_iter().filter(|problem| problem.severity == Severity::Error);
            let faults: Vec<Fault> = problems.map(|problem| problem.at(Place::file("objects of the API"))).collect();
            if !faults.is_empty() {
                return Err(faults);
            }
        }
        match (&files.zones, previous) {
            (None, Some(previous)) => recompile(desired, options, previous),
            (zones, previous) => compile(desired, zones.as_deref().unwrap_or_default(), options, previous),
        }
    }
}

impl Configured {
    /// What the files said, for a reading that leaves them alone.
    fn files_again(&self) -> Files {
        Files {
            settings: self.settings.clone(),
            desired: Arc::clone(&self.files),
            zones: None,
            kept: self.zones.clone(),
            kept_maps: self.maps.clone(),
            overrides: self.specs.clone(),
            doubts: self.doubts.clone(),
        }
    }
}

/// What the files say.
struct Files {
    settings: Settings,
    desired: Arc<Desired>,
    /// None where they are as before.
    zones: Option<Vec<ZoneData>>,
    kept: KeptZones,
    kept_maps: KeptMaps,
    overrides: Vec<OverrideSpec>,
    doubts: Vec<Fault>,
}

impl From<Loaded> for Files {
    fn from(loaded: Loaded) -> Self {
        Self {
            settings: loaded.settings,
            desired: Arc::new(loaded.desired),
            zones: (!loaded.zones_as_before).then_some(loaded.zones),
            kept: loaded.kept,
            kept_maps: loaded.kept_maps,
            overrides: loaded.overrides,
            doubts: loaded.warnings,
        }
    }
}

/// One wish out of all.
struct Joined {
    desired: Arc<Desired>,
    conflicts: Vec<fairway_model::Conflict>,
}

fn options(settings: &Settings) -> ServerOptions {
    ServerOptions {
        identity: settings.identity.clone(),
        tcp_idle: settings.tcp.idle_timeout,
        udp_payload: settings.udp.payload_max,
        explain: settings.explain.clone(),
    }
}

/// Takes the declared overrides into the model; all faults at once. One that has ended is a warning.
fn check_overrides(
    declared: Vec<OverrideSpec>,
    now: Timestamp,
    warnings: &mut Vec<Fault>,
) -> Result<Vec<Override>, Vec<Fault>> {
    let (mut sound, mut faults) = (Vec::new(), Vec::new());
    for OverrideSpec { pattern, action, reason, until, place } in declared {
        let scope = match pattern.parse() {
            Ok(scope) => scope,
            Err(error) => {
                let error: fairway_model::ScopeError = error;
                faults.push(Fault::error(
                    place,
                    error.to_string(),
                    "health is forced for clusters and their addresses",
                ));
                continue;
            }
        };
        match Override::new(scope, action, &reason, until.into(), now) {
            Ok(said) if said.holds(now) => sound.push(said),
            Ok(said) => {
                let what = format!("the override of {} ended at {}", said.scope, said.expires);
                warnings.push(Fault::warning(place, what, "it does nothing any more: take it out"));
            }
            Err(error) => faults.push(Fault::error(place, error.to_string(), "")),
        }
    }
    if faults.is_empty() { Ok(sound) } else { Err(faults) }
}

/// What a configuration is called, for people.
pub(super) fn describe(source: &Source) -> String {
    match source {
        Source::Path(path) => path.display().to_string(),
        Source::Flags { .. } => "command line".to_owned(),
    }
}

/// How often files that keep changing are read before the reload is refused.
const ATTEMPTS: usize = 3;
/// Priority of the compiling thread, -20 (first) to 19 (last).
const NICENESS: i32 = 10;
