//! Conversion of the file's types to model types, with a location for every error.
//!
//! Structure and single values are already valid: their types ensure it. Checked here are limits, keys that exclude
//! each other, and
//! files that are named. Rules across objects are in the model ([`DesiredState::violations`]); here they get their
//! locations.

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

/// A converted configuration.
pub(super) struct Converted {
    pub(super) settings: Settings,
    pub(super) desired: DesiredState,
    /// Records of the zones; `None` if they did not change.
    pub(super) zones: Option<Vec<ZoneData>>,
    pub(super) kept: KeptZones,
    pub(super) kept_maps: KeptMaps,
    pub(super) overrides: Vec<OverrideSpec>,
}

/// Converts a whole configuration. Errors go to the reader; the result is valid only if there are none.
///
/// If the reader already has an error, or reads a single object of the API, some objects are missing from the input.
/// Then rules across
/// objects are not checked, since they would report what is missing.
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

/// State of a conversion.
///
/// Locations are given as JSON pointers, which are formatted only for an error.
struct Meaning<'a, 'r> {
    tree: &'a Tree<'a>,
    reader: &'a mut Reader<'r>,
    /// True if no object is missing from the input.
    whole: bool,
    /// Index of the element that declares each object, in its section.
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

    /// Declares an object. Reports an error and returns false if its name is already declared.
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
                let what = format!("{kind} {name} is already declared in {first}");
                self.error(format_args!("/{section}/{index}/name"), what, "rename or remove one of them");
                false
            }
        }
    }

    /// Returns the location at which an object is declared.
    fn place_of(&self, subject: &Subject) -> FileLocation {
        let (object, member) = match subject {
            Subject::Member(pool, member) => (&Subject::Pool(pool.clone()), format!("/members/{member}")),
            object => (object, String::new()),
        };
        let (section, ..) = described(object);
        let pointer = self.subjects.get(object).map(|index| format!("/{section}/{index}{member}"));
        self.place(&pointer.unwrap_or_default())
    }

    /// Returns a duration if it is within limits, or the default after reporting an error.
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

    /// Returns the name of the file that contains a pointer.
    fn file(&self, pointer: &str) -> Arc<str> {
        Arc::clone(&self.tree.files[usize::from(self.tree.known_spot(pointer).file)])
    }

    /// Resolves a path of the configuration. Relative paths start at the folder of the file that names them.
    fn path(&self, pointer: &str, path: &str) -> PathBuf {
        let file = self.file(pointer);
        Path::new(&*file).parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    fn files(&mut self) -> &mut Files {
        &mut self.reader.files
    }

    /// Reports violated rules at the locations of their objects. Every object is declared, so each has a location.
    fn problems(&mut self, desired: &DesiredState) {
        for problem in desired.violations() {
            let place = self.place_of(&problem.subject);
            self.reader.fault(problem.at(place));
        }
    }
}

/// Returns the section of an object, its kind in words, and its name.
fn described(subject: &Subject) -> (&'static str, &'static str, String) {
    match subject {
        Subject::Cluster(name) => ("clusters", "cluster", name.to_string()),
        Subject::LoadSource(name) => ("load", "load source", name.to_string()),
        Subject::Monitor(name) => ("monitors", "monitor", name.to_string()),
        Subject::Map(name) => ("maps", "map", name.to_string()),
        Subject::Latencies(name) => ("latencies", "latency table", name.to_string()),
        Subject::Pool(name) | Subject::Member(name, _) => ("pools", "pool", name.to_string()),
        Subject::Name(name) => ("names", "name", name.to_string()),
        Subject::Records(name, rtype) => ("records", "record set", format!("{name} {rtype}")),
        Subject::Zone(name) => ("zones", "zone", name.to_string()),
    }
}
