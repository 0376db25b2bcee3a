//! From files to a compiled configuration, on a thread that may take its time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_model::{
    Contribution, DeclaredClusters, Desired, Fault, Member, Merged, Name, Origin, Override, Place, Pool, PoolName,
    Severity, SharedSet, SourceKind, Timestamp, merge,
};
use fairway_zonefile::ZoneData;
use fairway_zones::{ServerOptions, Snapshot, Touched, compile, give_back_memory, recompile};
use tokio::sync::oneshot;

use super::{
    Environment,
    contributed::{Beside, Contributed, LeftNames, contributed},
    declared::{Declared, LeftOut, is_of_intents, names_beside, overruled},
    narrow::{self, Narrow},
    trial::Trial,
    uses::Uses,
};
use fairway_config::{Before, KeptMaps, KeptZones, Loaded, OverrideSpec, Settings, Source, watch::Fingerprint};
use fairway_store::objects::Key;
use fairway_transport::let_all_others_first;

/// A configuration that was accepted, apart from what is compiled of it.
#[derive(Debug)]
pub(crate) struct Configured {
    /// How the process runs.
    pub(crate) settings: Settings,
    /// What the files wish for.
    pub(super) files: Arc<Desired>,
    /// Names that others steer, and the files do not.
    pub(super) beside: SharedSet<Name>,
    /// What is wished for, all contributions joined.
    pub(crate) desired: Arc<Desired>,
    /// The revision of the declared objects in it.
    pub(crate) revision: u64,
    /// Those objects.
    pub(crate) objects: Arc<Declared>,
    /// Whether no object but intents is left out, and nothing that was compiled is doubtful: then a change of pools, names and intents
    /// changes nothing else.
    pub(super) is_plain: bool,
    /// Intents that are left out because something is wrong with what they come to: other records, or other names of clusters, may
    /// mend that.
    pub(super) at_fault: BTreeSet<Key>,
    /// Declared objects that are not heeded.
    pub(crate) left_out: LeftOut,
    /// Declared objects that files declare otherwise, and what of it holds.
    pub(crate) conflicts: BTreeMap<Key, String>,
    /// What clients of the webhook contribute.
    pub(crate) contributed: Arc<Contributed>,
    /// The clusters that are declared beside that.
    pub(super) clusters: Arc<DeclaredClusters>,
    /// What is forced by configuration.
    pub(crate) overrides: Vec<Override>,
    /// The same as it was declared.
    pub(super) specs: Vec<OverrideSpec>,
    /// Who is judged by which target.
    pub(crate) uses: Uses,
    /// Faults that let it through.
    pub(crate) warnings: Vec<Fault>,
    /// Those of the files alone.
    pub(super) doubts: Vec<Fault>,
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
    /// What was tried last beside it.
    pub(super) tried: Option<Arc<Trial>>,
}

impl Previous {
    /// Nothing was tried yet.
    pub(super) fn new(configured: Arc<Configured>, snapshot: Arc<Snapshot>) -> Self {
        Self { configured, snapshot, tried: None }
    }
}

/// What one reading gave.
#[derive(Debug)]
pub(super) struct Reading {
    /// The files looked at, and what they looked like; none where they were left alone.
    pub(super) fingerprint: Option<Fingerprint>,
    /// How long it took.
    pub(super) took: Duration,
    /// All that differs from the configuration before, where that is known.
    pub(super) touched: Option<Touched>,
    /// Whether only that was compiled, which leaves little behind.
    pub(super) is_revised: bool,
    /// What it gave.
    pub(super) outcome: Outcome,
}

/// A configuration, compiled, or all its faults.
pub(super) type Outcome = Result<(Configured, Snapshot), Vec<Fault>>;

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
    /// Reads and compiles on a thread of its own, at low priority: answers and probes come first.
    ///
    /// The reading is lost only if the thread cannot be started.
    pub(super) async fn read(&self, what: What, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        on_a_thread(move || Some(reader.read_here(what, Some(&previous), now))).await
    }

    /// The same for objects, where the narrow way is all that it takes; none where it is not.
    pub(super) async fn read_narrow(&self, previous: Previous, now: Timestamp) -> Option<Reading> {
        let reader = self.clone();
        on_a_thread(move || reader.narrow_here(&previous, now)).await
    }

    /// Reads and compiles on this thread. Zones that are as they were stay compiled.
    pub(super) fn read_here(&self, what: What, previous: Option<&Previous>, now: Timestamp) -> Reading {
        let begun = Instant::now();
        if let (What::Objects, Some(previous)) = (what, previous) {
            if let Some(reading) = self.narrow_here(previous, now) {
                return reading;
            }
            let outcome = self.compile(previous.configured.files_again(), Some(&previous.snapshot), now);
            return Reading { fingerprint: None, took: begun.elapsed(), touched: None, is_revised: false, outcome };
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
        Reading { fingerprint: Some(fingerprint), took: begun.elapsed(), touched: None, is_revised: false, outcome }
    }

    fn narrow_here(&self, previous: &Previous, now: Timestamp) -> Option<Reading> {
        let (begun, objects) = (Instant::now(), self.declared.load_full());
        let Narrow { configured, snapshot, touched, is_revised } =
            narrow::read(previous, &objects, &describe(&self.source), now)?;
        let (touched, outcome) = (Some(touched), Ok((configured, snapshot)));
        Some(Reading { fingerprint: None, took: begun.elapsed(), touched, is_revised, outcome })
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
            Ok(loaded) => {
                let is_whole = !loaded.zones_as_before;
                let outcome = self.compile(Files::from(loaded), previous, now);
                (outcome.is_ok() || is_whole).then_some(outcome)
            }
            Err(faults) => Some(Err(faults)),
        };
        (fingerprint, outcome)
    }

    fn load(&self, before: Option<Before<'_>>) -> (Fingerprint, Result<Loaded, Vec<Fault>>) {
        let attempt = fairway_config::attempt_after(before, &self.source, &*self.environment);
        (attempt.fingerprint, attempt.outcome)
    }

    /// Joins the files with the objects and compiles. Objects that do not fit are left out, so that what is refused is at fault in
    /// the files; in which record of a zone is told only if the zones are at hand.
    pub(super) fn compile(&self, files: Files, previous: Option<&Snapshot>, now: Timestamp) -> Outcome {
        let objects = self.declared.load_full();
        let mut warnings = files.doubts.clone();
        let overrides = check_overrides(files.overrides.clone(), now, &mut warnings);
        let fitted = self.fit(&files, &objects, previous);
        let (overrides, Fitted { joined, left_out, at_fault, is_sure, left_names, snapshot, doubts }) =
            match (overrides, fitted) {
                (Ok(overrides), Ok(fitted)) => (overrides, fitted),
                (overrides, fitted) => {
                    return Err([overrides.err(), fitted.err()].into_iter().flatten().flatten().collect());
                }
            };
        let is_complete = left_names.is_empty() && left_out.keys().all(|key| is_of_intents(key.kind()));
        let is_plain = doubts.is_empty() && is_sure && is_complete;
        warnings.extend(doubts);
        let configured = Configured {
            uses: Uses::new(&joined.desired, &snapshot),
            is_plain,
            at_fault,
            conflicts: joined.conflicts,
            contributed: Arc::new(joined.contributed),
            clusters: Arc::new(joined.clusters),
            desired: joined.desired,
            beside: joined.beside,
            revision: objects.revision,
            objects,
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
        Ok((configured, snapshot))
    }

    /// Compiles the files with the objects that fit them; refused where the files alone would be.
    fn fit(&self, files: &Files, objects: &Declared, previous: Option<&Snapshot>) -> Result<Fitted, Vec<Fault>> {
        let options = options(&files.settings);
        let (mut left_out, mut left_names, mut is_sure) = (LeftOut::new(), LeftNames::new(), true);
        loop {
            let joined = self.join(files, objects, &mut left_out, &left_names);
            let faults = match compile_joined(&joined.desired, files, !objects.is_empty(), &options, previous) {
                Ok((snapshot, doubts)) => {
                    let at_fault = left_out.keys().filter(|key| objects.intent(key).is_some()).cloned().collect();
                    left_out.extend(joined.unanswered.clone());
                    return Ok(Fitted { joined, left_out, at_fault, is_sure, left_names, snapshot, doubts });
                }
                Err(faults) => faults,
            };
            // Each time at least one more is left out, those of the lowest rank first: in the end the files stand alone.
            let contributed = &joined.contributed;
            let is_found = contributed.leave_out(&faults, &mut left_names)
                || objects.leave_out(&faults, &files.desired, &mut left_out);
            is_sure &= is_found;
            let is_less = is_found
                || contributed.leave_all(&faults, &mut left_names)
                || objects.leave_all(&faults, &mut left_out);
            if !is_less {
                return Err(faults);
            }
        }
    }

    /// What the files, the objects and the clients of the webhook wish for together.
    fn join(&self, files: &Files, objects: &Declared, left_out: &mut LeftOut, left_names: &LeftNames) -> Joined {
        if objects.is_empty() {
            let desired = Arc::clone(&files.desired);
            let clusters = DeclaredClusters::new(desired.clusters.values());
            return Joined { desired, clusters, ..Joined::default() };
        }
        let owner = describe(&self.source);
        let of = Contribution::of;
        let of_files = of(SourceKind::Config, &owner, Desired::clone(&files.desired));
        let (of_objects, unanswered) = objects.contribution(&files.desired, left_out);
        let mut beside_names = names_beside(&files.desired, &of_objects.desired);
        let Merged { mut desired, conflicts } = merge([of_files, of_objects]);
        let clusters = DeclaredClusters::new(desired.clusters.values());
        let clients = objects.contributed_rows();
        let mut contributed = Contributed::default();
        if !clients.is_empty() {
            let mut uses: HashMap<&PoolName, usize> = HashMap::new();
            desired.names.values().for_each(|steered| *uses.entry(&steered.pool).or_default() += 1);
            let steered = |name: &Name| {
                let steered = desired.names.get(name)?;
                Some((steered, desired.pools.get(&steered.pool)?, uses[&steered.pool] > 1))
            };
            let shared = files.settings.shared_names();
            let beside = Beside { zones: &desired, clusters: &clusters, steered: &steered, shared, left: left_names };
            contributed = self::contributed(&clients, &beside, |scope| objects.strength(scope));
            let wished = contributed.desired();
            beside_names.extend(names_beside(&files.desired, &wished));
            // Fields of what is declared were taken over, so that nothing is said otherwise.
            let of_clients = of(SourceKind::Webhook, "webhook", wished);
            desired = merge([of(SourceKind::Config, &owner, desired), of_clients]).desired;
        }
        let conflicts = overruled(&conflicts, &owner);
        Joined { desired: Arc::new(desired), beside: beside_names, conflicts, contributed, clusters, unanswered }
    }
}

/// Does work on a thread of its own, at low priority; nothing, too, if that cannot be started.
async fn on_a_thread(work: impl FnOnce() -> Option<Reading> + Send + 'static) -> Option<Reading> {
    let (reply, reading) = oneshot::channel();
    let work = move || {
        let _computing = let_all_others_first();
        let reading = work();
        let leaves_little = reading.as_ref().is_none_or(|reading| reading.is_revised);
        let _ = reply.send(reading);
        if !leaves_little {
            give_back_memory();
        }
    };
    if let Err(error) = thread::Builder::new().name("fairway-compile".to_owned()).spawn(work) {
        tracing::error!(%error, "no thread to read the configuration on");
        return None;
    }
    reading.await.ok().flatten()
}

fn compile_joined(
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

/// A member that a client of the webhook brings, and where its weight comes from.
pub(super) struct Contributor<'a> {
    pub(super) name: &'a Name,
    pub(super) pool: &'a Pool,
    /// As it counts.
    pub(super) member: &'a Member,
    pub(super) origin: &'a Origin,
}

impl Configured {
    /// The members that clients of the webhook bring and nobody declares, by name.
    pub(super) fn origins(&self) -> impl Iterator<Item = Contributor<'_>> {
        let of_names = self.contributed.united().names();
        of_names.flat_map(move |(name, of_name)| {
            let offered = of_name.steered.as_ref().map_or(&[][..], |(_, pool)| &pool.members);
            let pool = of_name.steered.as_ref().and_then(|(_, pool)| self.desired.pools.get(&pool.name));
            offered.iter().zip(&of_name.origins).filter_map(move |(member, origin)| {
                let pool = pool?;
                let counted = pool.members.iter().find(|counted| counted.cluster == member.cluster)?;
                let declared = [self.files.pools.get(&pool.name), self.objects.pool(&pool.name)];
                let mut declared = declared.into_iter().flatten().flat_map(|pool| &pool.members);
                let is_declared = declared.any(|other| other.cluster == member.cluster);
                (!is_declared).then_some(Contributor { name, pool, member: counted, origin })
            })
        })
    }

    /// What the files said, for a reading that leaves them alone.
    pub(super) fn files_again(&self) -> Files {
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
pub(super) struct Files {
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
#[derive(Default)]
struct Joined {
    desired: Arc<Desired>,
    /// Names that only objects steer.
    beside: SharedSet<Name>,
    conflicts: BTreeMap<Key, String>,
    contributed: Contributed,
    /// Those of files and objects.
    clusters: DeclaredClusters,
    /// Intents that come to nothing.
    unanswered: LeftOut,
}

/// One wish out of all that fits, compiled.
struct Fitted {
    joined: Joined,
    left_out: LeftOut,
    at_fault: BTreeSet<Key>,
    /// Whether all that is left out is what faults were about.
    is_sure: bool,
    left_names: LeftNames,
    snapshot: Snapshot,
    /// Faults that let it through.
    doubts: Vec<Fault>,
}

pub(super) fn options(settings: &Settings) -> ServerOptions {
    ServerOptions {
        identity: settings.identity.clone(),
        tcp_idle: settings.tcp.idle_timeout,
        udp_payload: settings.udp.payload_max,
        explain: settings.explain.clone(),
    }
}

/// Takes the declared overrides into the model; all faults at once. One that has ended is a warning.
pub(super) fn check_overrides(
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
