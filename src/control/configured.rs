//! From files to a compiled configuration, on a thread that may take its time.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use fairway_model::{Contribution, Desired, Fault, Override, SourceKind, Timestamp, merge};
use fairway_zones::{ServerOptions, Snapshot, compile, give_back_memory, recompile};
use tokio::sync::oneshot;

use super::{Environment, uses::Uses};
use crate::config::{self, Before, KeptMaps, KeptZones, Loaded, OverrideSpec, Settings, Source, watch::Fingerprint};

/// A configuration that was accepted, apart from what is compiled of it.
#[derive(Debug)]
pub(crate) struct Configured {
    /// How the process runs.
    pub(crate) settings: Settings,
    /// What is wished for, all contributions joined.
    pub(crate) desired: Desired,
    /// What was said twice and differently, for people.
    pub(crate) conflicts: Vec<String>,
    /// What is forced by configuration.
    pub(crate) overrides: Vec<Override>,
    /// Who is judged by which target.
    pub(crate) uses: Uses,
    /// Faults that let it through.
    pub(crate) warnings: Vec<Fault>,
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
    /// The files looked at, and what they looked like.
    pub(super) fingerprint: Fingerprint,
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
    /// What other sources wish for.
    pub(super) others: Vec<Contribution>,
}

impl Reader {
    /// Reads and compiles on a thread of its own; at low priority where one serves already: answers and probes come
    /// first.
    ///
    /// The reading is lost only if the thread cannot be started.
    pub(super) async fn read(&self, previous: Option<Previous>, now: Timestamp) -> Option<Reading> {
        let (reply, reading) = oneshot::channel();
        let reader = self.clone();
        let work = move || {
            if previous.is_some() {
                // Being nice is a courtesy; a system that refuses it still gets its configuration.
                let _ = rustix::process::setpriority_process(None, NICENESS);
            }
            let _ = reply.send(reader.read_here(previous.as_ref(), now));
            give_back_memory();
        };
        if let Err(error) = thread::Builder::new().name("fairway-compile".to_owned()).spawn(work) {
            tracing::error!(%error, "no thread to read the configuration on");
            return None;
        }
        reading.await.ok()
    }

    /// Reads and compiles on this thread. Zones that are as they were stay compiled.
    pub(super) fn read_here(&self, previous: Option<&Previous>, now: Timestamp) -> Reading {
        let begun = Instant::now();
        let before = previous.map(|previous| {
            let Configured { zones, maps, desired, .. } = &*previous.configured;
            Before { zones, maps, names: &desired.names }
        });
        let snapshot = previous.map(|previous| &*previous.snapshot);
        let mut reading = self.attempt(before, snapshot, now);
        if reading.1.is_none() {
            reading = self.attempt(None, snapshot, now);
        }
        let (fingerprint, outcome) = reading;
        let outcome = outcome.unwrap_or_else(|| unreachable!("all zones were read"));
        Reading { fingerprint, took: begun.elapsed(), outcome }
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
                let place = fairway_model::Place::file(&file.to_string_lossy());
                Fault::error(place, "the file changed while it was read", "reload again when it is complete")
            });
            loaded = Err(moving.collect());
        }
        let outcome = match loaded {
            Ok(loaded) => self.compile(loaded, previous, now),
            Err(faults) => Some(Err(faults)),
        };
        (fingerprint, outcome)
    }

    fn load(&self, before: Option<Before<'_>>) -> (Fingerprint, Result<Loaded, Vec<Fault>>) {
        let attempt = config::attempt_after(before, &self.source, &*self.environment);
        (attempt.fingerprint, attempt.outcome)
    }

    /// Nothing if the zones were left unread, and what stands above them is at fault.
    fn compile(&self, loaded: Loaded, previous: Option<&Snapshot>, now: Timestamp) -> Option<Outcome> {
        let Loaded { settings, desired, zones, zones_as_before, kept, kept_maps, overrides, mut warnings, .. } = loaded;
        let file = Contribution {
            source: SourceKind::Config,
            owner: describe(&self.source),
            set: String::new(),
            created: 0,
            desired,
        };
        let merged = merge(std::iter::once(file).chain(self.others.iter().cloned()));
        let overrides = check_overrides(overrides, now, &mut warnings);
        let options = ServerOptions {
            identity: settings.identity.clone(),
            tcp_idle: settings.tcp.idle_timeout,
            udp_payload: settings.udp.payload_max,
            explain: settings.explain.clone(),
        };
        let compiled = if zones_as_before {
            Ok(recompile(&merged.desired, &options, previous?)?)
        } else {
            compile(&merged.desired, &zones, &options, previous)
        };
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
        let uses = Uses::new(&merged.desired, snapshot.targets());
        let conflicts = merged.conflicts.iter().map(conflict).collect();
        let desired = merged.desired;
        Some(Ok((
            Configured { settings, desired, conflicts, overrides, uses, warnings, zones: kept, maps: kept_maps },
            snapshot,
        )))
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
