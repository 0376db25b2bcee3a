//! From the file's structs to model types, with every fault of meaning in its place.
//!
//! Structure and single values are sound here: the schema saw to it. What is left are bounds, what excludes what, and
//! files that are named. Rules across objects are the model's ([`Desired::problems`]); here they get their places.

mod monitors;
mod objects;
mod settings;
mod zones;

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::{Desired, Fault, Place, Severity, Subject};
use fairway_zones::text::ZoneData;

use super::{OverrideSpec, Settings, files::Files, reader::Reader, tree::Node, v1, values::show, values_wire::As};

pub(super) use self::{
    settings::{FILTER_WAY_OUT, filter_fault},
    zones::{check as check_zone_data, read as read_zone_file},
};

/// What a configuration means.
pub(super) struct Converted {
    pub(super) settings: Settings,
    pub(super) desired: Desired,
    pub(super) zones: Vec<ZoneData>,
    pub(super) overrides: Vec<OverrideSpec>,
}

/// Converts a whole configuration. Faults go to the reader; the result counts only if none is an error.
///
/// If the reader holds an error already, what is converted is only a part, and nothing is said across objects: what
/// seems missing may stand in the part that is left out.
pub(super) fn convert(config: v1::Config, tree: &Node, names: &[Arc<str>], reader: &mut Reader<'_>) -> Converted {
    let whole = !reader.refused;
    let mut meaning = Meaning { tree, names, reader, whole, subjects: BTreeMap::new() };
    let settings = settings::settings(&mut meaning, &config);
    let mut desired = Desired {
        monitors: monitors::monitors(&mut meaning, config.monitors),
        clusters: objects::clusters(&mut meaning, config.clusters),
        pools: objects::pools(&mut meaning, config.pools),
        names: objects::names(&mut meaning, config.names),
        ..Desired::default()
    };
    let overrides = objects::overrides(&mut meaning, config.overrides, &desired);
    let zones = zones::zones(&mut meaning, config.zones, &mut desired);
    if whole {
        meaning.problems(&desired);
    }
    Converted { settings, desired, zones, overrides }
}

/// The place of everything while it is converted.
struct Meaning<'a, 'r> {
    tree: &'a Node,
    /// Names of the files, by the index in a spot.
    names: &'a [Arc<str>],
    reader: &'a mut Reader<'r>,
    /// Whether nothing was left out.
    whole: bool,
    /// Where each object was declared.
    subjects: BTreeMap<Subject, Place>,
}

impl Meaning<'_, '_> {
    /// Records an error at a JSON pointer.
    fn error(&mut self, pointer: &str, what: impl AsRef<str>, way_out: impl Into<String>) {
        self.fault(Severity::Error, pointer, what.as_ref(), way_out.into());
    }

    /// Records a warning at a JSON pointer.
    fn warn(&mut self, pointer: &str, what: impl AsRef<str>, way_out: impl Into<String>) {
        self.fault(Severity::Warning, pointer, what.as_ref(), way_out.into());
    }

    fn fault(&mut self, severity: Severity, pointer: &str, what: &str, way_out: String) {
        let located = self.tree.locate(pointer);
        let what = format!("{}: {what}", located.path);
        self.reader.fault(Fault { place: located.spot.place(self.names), severity, what, way_out });
    }

    fn place(&self, pointer: &str) -> Place {
        self.tree.locate(pointer).spot.place(self.names)
    }

    /// Declares an object; one of the same name before it is a fault. Tells whether it is the first.
    fn declare(&mut self, subject: Subject, pointer: &str, kind: &str, name: &str) -> bool {
        let place = self.place(pointer);
        if let Some(first) = self.subjects.get(&subject) {
            let what = format!("{kind} {name} is declared in {first} already");
            self.error(&format!("{pointer}/name"), what, "rename or remove one of both");
            return false;
        }
        self.subjects.insert(subject, place);
        true
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

    /// A path of the configuration: relative ones begin at the folder of the file that names them.
    fn path(&self, pointer: &str, path: &str) -> PathBuf {
        let file = Path::new(&*self.names[usize::from(self.tree.locate(pointer).spot.file)]);
        file.parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    fn files(&mut self) -> &mut Files {
        &mut self.reader.files
    }

    /// Puts the problems of the whole in their places. Every object was declared, so every subject has one.
    fn problems(&mut self, desired: &Desired) {
        for problem in desired.problems() {
            let place = self.subjects.get(&problem.subject).cloned();
            let place = place.unwrap_or_else(|| self.place(""));
            let (severity, what, way_out) = (problem.severity, problem.what, problem.way_out);
            self.reader.fault(Fault { place, severity, what, way_out });
        }
    }
}
