//! From the file's structs to model types, with every fault of meaning in its place.
//!
//! Structure and single values are sound here: their types saw to it. What is left are bounds, what excludes what, and
//! files that are named. Rules across objects are the model's ([`DesiredState::violations`]); here they get their places.

mod access;
mod load;
mod monitors;
mod objects;
mod places;
mod policy;
mod publish;
mod publish_to;
mod records;
mod schedule;
mod settings;
mod store;
mod traces;
mod webhook;
mod zones;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Display,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Severity, Subject};
use fairway_zonefile::ZoneData;

use super::{
    OverrideSpec, Settings, environment::data_dir_of, files::Files, kept::KeptZones, maps::KeptMaps, reader::Reader,
    tree::Tree, v1, values::show, values_wire::As,
};

pub(super) use self::policy::of_words as policy_of_words;
pub(super) use self::{
    access::check_listener,
    settings::{FILTER_WAY_OUT, filter_fault},
    zones::{check as check_zone_data, read as read_zone_file},
};

/// What a configuration means.
pub(super) struct Converted {
    pub(super) settings: Settings,
    pub(super) desired: DesiredState,
    /// None if they are as before.
    pub(super) zones: Option<Vec<ZoneData>>,
    pub(super) kept: KeptZones,
    pub(super) kept_maps: KeptMaps,
    pub(super) overrides: Vec<OverrideSpec>,
}

/// Converts a whole configuration. Faults go to the reader; the result counts only if none is an error.
///
/// If the reader holds an error already, or reads an object apart, what is converted is only a part, and nothing is said across
/// objects: what seems missing may stand in the part that is left out.
pub(super) fn convert(config: v1::Config, tree: &Tree<'_>, reader: &mut Reader<'_>) -> Converted {
    let whole = !reader.refused && !reader.apart;
    let objects = config.monitors.len()
        + config.clusters.len()
        + config.pools.len()
        + config.names.len()
        + config.records.len()
        + config.zones.len();
    let mut meaning = Meaning { tree, reader, whole, subjects: HashMap::with_capacity(objects) };
    let mut settings = settings::settings(&mut meaning, &config);
    settings.access = Arc::new(access::access(&mut meaning, config.access));
    let data_dir = data_dir_of(settings.data_dir.clone(), meaning.reader);
    let places::Maps { maps, latencies, kept: kept_maps } =
        places::maps(&mut meaning, config.maps, config.latencies, data_dir.as_deref());
    let mut desired = DesiredState {
        cluster_load_sources: load::feeds(&mut meaning, &config.clusters),
        load_bounds: load::aims(&mut meaning, &config.clusters),
        load_sources: load::sources(&mut meaning, config.load),
        maps,
        latencies,
        monitors: monitors::monitors(&mut meaning, config.monitors),
        clusters: objects::clusters(&mut meaning, config.clusters),
        pools: objects::pools(&mut meaning, config.pools),
        names: objects::names(&mut meaning, config.names),
        records: records::records(&mut meaning, config.records),
        ..DesiredState::default()
    };
    let overrides = objects::overrides(&mut meaning, config.overrides, &desired);
    let (zones, kept) = zones::zones(&mut meaning, config.zones, &mut desired);
    if whole {
        meaning.problems(&desired);
    }
    Converted { settings, desired, zones, kept, kept_maps, overrides }
}

/// The place of everything while it is converted.
///
/// Places are JSON pointers, written out only for what is at fault.
struct Meaning<'a, 'r> {
    tree: &'a Tree<'a>,
    reader: &'a mut Reader<'r>,
    /// Whether nothing was left out.
    whole: bool,
    /// Which element of its section declares each object.
    subjects: HashMap<Subject, usize>,
}

impl Meaning<'_, '_> {
    /// Records an error at a JSON pointer.
    fn error(&mut self, pointer: impl Display, what: impl AsRef<str>, hint: impl Into<String>) {
        self.fault(Severity::Error, &pointer.to_string(), what.as_ref(), hint.into());
    }

    /// Records a warning at a JSON pointer.
    fn warn(&mut self, pointer: impl Display, what: impl AsRef<str>, hint: impl Into<String>) {
        self.fault(Severity::Warning, &pointer.to_string(), what.as_ref(), hint.into());
    }

    fn fault(&mut self, severity: Severity, pointer: &str, what: &str, hint: String) {
        let located = self.tree.locate(pointer);
        let what = format!("{}: {what}", located.path);
        self.reader
            .fault(Diagnostic { severity, ..Diagnostic::error(located.spot.place(self.tree.files), what, hint) });
    }

    fn place(&self, pointer: &str) -> FileLocation {
        self.tree.locate(pointer).spot.place(self.tree.files)
    }

    /// Declares an object; one of the same name before it is a fault. Tells whether it is the first.
    fn declare(&mut self, subject: Subject, index: usize) -> bool {
        match self.subjects.entry(subject) {
            Entry::Vacant(entry) => {
                entry.insert(index);
                true
            }
            Entry::Occupied(entry) => {
                let (subject, first) = (entry.key().clone(), *entry.get());
                let (section, kind, name) = described(&subject);
                let first = self.place(&format!("/{section}/{first}"));
                let what = format!("{kind} {name} is declared in {first} already");
                self.error(format_args!("/{section}/{index}/name"), what, "rename or remove one of both");
                false
            }
        }
    }

    /// Where an object was declared.
    fn place_of(&self, subject: &Subject) -> FileLocation {
        let (object, member) = match subject {
            Subject::Member(pool, member) => (&Subject::Pool(pool.clone()), format!("/members/{member}")),
            object => (object, String::new()),
        };
        let (section, ..) = described(object);
        let pointer = self.subjects.get(object).map(|index| format!("/{section}/{index}{member}"));
        self.place(&pointer.unwrap_or_default())
    }

    /// A duration within bounds, or its default.
    fn bounded(
        &mut self,
        pointer: &str,
        given: Option<&As<Duration>>,
        bounds: &RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        let Some(As(duration)) = given else { return default };
        if !bounds.contains(duration) {
            let what =
                format!("{} is not between {} and {}", show(*duration), show(*bounds.start()), show(*bounds.end()));
            self.error(pointer, what, format!("the default is {}", show(default)));
        }
        *duration
    }

    /// The file that holds what a pointer leads to.
    fn file(&self, pointer: &str) -> Arc<str> {
        Arc::clone(&self.tree.files[usize::from(self.tree.known_spot(pointer).file)])
    }

    /// A path of the configuration: relative ones begin at the folder of the file that names them.
    fn path(&self, pointer: &str, path: &str) -> PathBuf {
        let file = self.file(pointer);
        Path::new(&*file).parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    fn files(&mut self) -> &mut Files {
        &mut self.reader.files
    }

    /// Puts the problems of the whole in their places. Every object was declared, so every subject has one.
    fn problems(&mut self, desired: &DesiredState) {
        for problem in desired.violations() {
            let place = self.place_of(&problem.subject);
            self.reader.fault(problem.at(place));
        }
    }
}

/// The section an object stands in, its kind in words, and its name.
fn described(subject: &Subject) -> (&'static str, &'static str, String) {
    match subject {
        Subject::Cluster(name) => ("clusters", "cluster", name.to_string()),
        Subject::LoadSource(name) => ("load", "source of load", name.to_string()),
        Subject::Monitor(name) => ("monitors", "monitor", name.to_string()),
        Subject::Map(name) => ("maps", "map", name.to_string()),
        Subject::Latencies(name) => ("latencies", "table of latencies", name.to_string()),
        Subject::Pool(name) | Subject::Member(name, _) => ("pools", "pool", name.to_string()),
        Subject::Name(name) => ("names", "name", name.to_string()),
        Subject::Records(name, rtype) => ("records", "record set", format!("{name} {rtype}")),
        Subject::Zone(name) => ("zones", "zone", name.to_string()),
    }
}
