//! Conversion of the file's types to model types, with a location for every error.
//!
//! Structure and single values are already valid: their types ensure it. Checked here are limits, keys that exclude
//! each other, and files that are named. Rules across objects are in the model ([`DesiredState::violations`]); here
//! they get their locations.

mod access;
mod cookies;
mod load;
mod locations;
mod monitors;
mod objects;
mod plain_http;
mod policy;
mod publish;
mod publish_to;
mod rate_limit;
mod records;
mod schedule;
mod settings;
mod store;
mod tenants;
mod traces;
mod webhook;
mod zones;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::{Arguments, Display},
    mem,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::{
    DesiredState, Diagnostic, FileLocation, Member, MonitorName, Name, Severity, SteeredName, Subject, Ttl,
};

use super::{
    Loaded,
    bounds_wire::As,
    context::{Input, LoadContext},
    environment::data_dir_of,
    files::Files,
    maps::MapCache,
    reason::Reason,
    tree::Tree,
    v1,
    values::{TextValue, show},
    words::Words,
};

pub(super) use self::{
    access::listener_error,
    settings::check_filter,
    zones::{check as check_zone_data, read as read_zone_file},
};
pub use self::{policy::parse as parse_policy, store::store_keys};

/// Converts a whole configuration. Errors go to the context; the result is valid only if there are none. It lacks the
/// files, variables and warnings, which are in the context.
///
/// Objects may be missing from the input: elements with structural errors are left out, and an object of the API comes
/// alone. No error is reported that a missing object would resolve.
pub(super) fn convert(mut config: v1::Config, tree: &Tree<'_>, context: &mut LoadContext<'_>) -> Loaded {
    let objects = config.monitors.len()
        + config.clusters.len()
        + config.pools.len()
        + config.names.len()
        + config.records.len()
        + config.zones.len();
    let mut converter =
        Converter { tree, context, subjects: HashMap::with_capacity(objects), access_names: HashMap::new() };
    let mut settings = settings::settings(&mut converter, &mut config);
    let names = config.access.as_mut().map(|access| mem::take(&mut access.names)).unwrap_or_default();
    let mut access = access::access(&mut converter, config.access);
    let zones: Vec<Name> = config.zones.iter().map(|zone| zone.name.0.clone()).collect();
    access.names = tenants::names(&mut converter, names, &access, settings.webhook.as_ref(), &zones);
    settings.access = Arc::new(access);
    let data_dir = match converter.context.input {
        Input::Files => data_dir_of(settings.data_dir.clone(), converter.context),
        Input::ApiObject | Input::Memory => None,
    };
    let mut desired = DesiredState {
        load_sources: converter.objects("load", config.load, Subject::LoadSource, load::source),
        monitors: converter.objects("monitors", config.monitors, Subject::Monitor, monitors::monitor),
        pools: converter.objects("pools", config.pools, Subject::Pool, objects::pool),
        names: converter.objects("names", config.names, Subject::Name, objects::name),
        records: records::records(&mut converter, config.records),
        ..DesiredState::default()
    };
    objects::clusters(&mut converter, config.clusters, &mut desired);
    settings.publish =
        publish::publish(&mut converter, config.publish.providers, &settings.publish_owner, &desired.clusters);
    let mut map_cache = MapCache::default();
    locations::maps(&mut converter, config.maps, &mut map_cache, &mut desired);
    locations::latencies(&mut converter, config.latencies, data_dir.as_deref(), &mut map_cache, &mut desired);
    let overrides = objects::overrides(&mut converter, config.overrides, &desired);
    settings.override_rules = objects::override_rules(&mut converter, config.override_rules, &desired);
    let (zones, zone_cache) = zones::zones(&mut converter, config.zones, &mut desired);
    if converter.context.input != Input::ApiObject {
        converter.report_violations(&desired);
    }
    Loaded {
        settings,
        desired,
        zones_unchanged: zones.is_none(),
        zones: zones.unwrap_or_default(),
        zone_cache,
        map_cache,
        overrides,
        ..Loaded::default()
    }
}

/// State of a conversion.
///
/// Locations are given as JSON pointers, which are formatted only for an error.
struct Converter<'a, 'r> {
    tree: &'a Tree<'a>,
    context: &'a mut LoadContext<'r>,
    /// Index of the element that declares each object, in its section.
    subjects: HashMap<Subject, usize>,
    /// Index of each named element of access control, by its section.
    access_names: HashMap<(&'static str, String), usize>,
}

impl Converter<'_, '_> {
    /// Records an error at a JSON pointer.
    fn error(&mut self, pointer: impl Display, what: impl AsRef<str>, hint: impl Into<String>) {
        self.report(Severity::Error, &pointer.to_string(), what.as_ref(), hint.into());
    }

    /// Records a warning at a JSON pointer.
    fn warn(&mut self, pointer: impl Display, what: impl AsRef<str>, hint: impl Into<String>) {
        self.report(Severity::Warning, &pointer.to_string(), what.as_ref(), hint.into());
    }

    /// Warns about a TTL of 0: resolvers keep no answer for the next client (RFC 1035 section 3.2.1).
    fn warn_if_uncached(&mut self, pointer: impl Display, ttl: Option<Ttl>) {
        if ttl.is_some_and(|ttl| ttl.secs() == 0) {
            let what = "resolvers do not cache answers with TTL 0, and send the query of every client to this server";
            self.warn(pointer, what, "give a few seconds at least");
        }
    }

    /// Records that something at a JSON pointer cannot be used.
    fn reject(&mut self, pointer: impl Display, why: impl Into<Reason>) {
        let Reason { what, hint } = why.into();
        self.error(pointer, what, hint);
    }

    fn report(&mut self, severity: Severity, pointer: &str, what: &str, hint: String) {
        let located = self.tree.locate(pointer);
        let what = format!("{}: {what}", if self.context.input == Input::ApiObject { pointer } else { &located.path });
        self.context.report(Diagnostic {
            severity,
            ..Diagnostic::error(located.position.location(self.tree.files), what, hint)
        });
    }

    fn location(&self, pointer: &str) -> FileLocation {
        self.tree.locate(pointer).position.location(self.tree.files)
    }

    /// Converts the elements of a section with one object each. Of several objects with the same name, the first one
    /// counts.
    fn objects<W, K: Clone, V, C: FromIterator<(K, V)>>(
        &mut self,
        section: &str,
        list: Vec<W>,
        subject: impl Fn(K) -> Subject,
        convert: impl Fn(&mut Self, Arguments<'_>, W) -> (K, V),
    ) -> C {
        // Collected first: building a map from a list is several times as fast as inserting, and most lists are sorted.
        let mut objects = Vec::with_capacity(list.len());
        for (index, wire) in list.into_iter().enumerate() {
            let (name, object) = convert(self, format_args!("/{section}/{index}"), wire);
            if self.declare(subject(name.clone()), index) {
                objects.push((name, object));
            }
        }
        objects.into_iter().collect()
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
                let first = self.location(&format!("/{section}/{first}"));
                let what = format!("{kind} {name} is already declared in {first}");
                self.error(format_args!("/{section}/{index}/name"), what, "rename or remove one of them");
                false
            }
        }
    }

    /// Returns the location at which a field of an object is declared.
    fn location_of(&self, subject: &Subject, field: &str) -> FileLocation {
        let (object, member) = match subject {
            Subject::Member(pool, member) => (&Subject::Pool(pool.clone()), format!("/members/{member}")),
            object => (object, String::new()),
        };
        let (section, ..) = described(object);
        let pointer = self.subjects.get(object).map(|index| format!("/{section}/{index}{member}{field}"));
        self.location(&pointer.unwrap_or_default())
    }

    /// Returns a duration if it is within limits, or the default after reporting an error.
    fn bounded(
        &mut self,
        pointer: impl Display,
        given: Option<As<Duration>>,
        bounds: RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        let Some(As(duration)) = given else { return default };
        if !bounds.contains(&duration) {
            let what =
                format!("{} is not between {} and {}", show(duration), show(*bounds.start()), show(*bounds.end()));
            self.error(pointer, what, format!("the default is {}", show(default)));
        }
        duration
    }

    /// Rejects given keys of other types: they would have no effect, which the user does not expect.
    fn reject_foreign_keys<T: Words>(
        &mut self,
        pointer: Arguments<'_>,
        table: &KeysByType<T>,
        kind: &T,
        given: &[(&str, bool)],
    ) {
        let Some((_, own)) = table.iter().find(|(of, _)| of == kind) else { return };
        for (key, _) in given.iter().filter(|(key, is_given)| *is_given && !own.contains(key)) {
            let others = table.iter().filter(|(_, own)| own.contains(key)).map(|(of, _)| of.word());
            let hint = format!("remove it; it belongs to type {}", others.collect::<Vec<_>>().join(" and "));
            let what = format!("{key} is not valid for type {}", kind.word());
            self.error(format_args!("{pointer}/{key}"), what, hint);
        }
    }

    /// Returns the name of the file that contains a pointer.
    fn file(&self, pointer: &str) -> Arc<str> {
        Arc::clone(&self.tree.files[usize::from(self.tree.parsed_position(pointer).file)])
    }

    /// Resolves a path of the configuration. Relative paths start at the folder of the file that names them.
    fn path(&self, pointer: impl Display, path: &str) -> PathBuf {
        let file = self.file(&pointer.to_string());
        Path::new(&*file).parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    fn files(&mut self) -> &mut Files {
        &mut self.context.files
    }

    /// True if all elements of a section are in the input.
    fn is_complete(&self, section: &str) -> bool {
        self.context.input != Input::ApiObject && self.context.left_out.is_complete(section)
    }

    /// Reports violated rules at the locations of their objects. Every object is declared, so each has a location.
    fn report_violations(&mut self, desired: &DesiredState) {
        for violation in desired.violations() {
            if !self.refers_to_left_out(desired, &violation.subject) {
                let location = self.location_of(&violation.subject, violation.field);
                self.context.report(violation.at(location));
            }
        }
    }

    /// True if an object refers to one that is not declared, but may have been left out because of an error in it.
    fn refers_to_left_out(&self, desired: &DesiredState, subject: &Subject) -> bool {
        let left_out = &self.context.left_out;
        let missing = |is_declared: bool, section, name: &str| !is_declared && left_out.may_include(section, name);
        let monitor = |name: Option<&MonitorName>| {
            name.is_some_and(|name| missing(desired.monitors.contains_key(name), "monitors", name.as_str()))
        };
        let cluster = |Member { cluster, .. }: &Member| {
            missing(desired.clusters.contains_key(cluster), "clusters", cluster.as_str())
        };
        let zone = |name: &Name| desired.zone_of(name).is_none() && !left_out.is_complete("zones");
        match subject {
            Subject::LoadSource(_) | Subject::Monitor(_) | Subject::Map(_) | Subject::Latencies(_) => false,
            Subject::Zone(name) => monitor(desired.zones.get(name).and_then(|zone| zone.monitor.as_ref())),
            Subject::Records(name, _) => zone(name),
            Subject::Cluster(name) => desired.cluster_load_sources.get(name).is_some_and(|load| {
                missing(desired.load_sources.contains_key(&load.source), "load", load.source.as_str())
            }),
            Subject::Name(name) => desired.names.get(name).is_some_and(|SteeredName { name, pool, .. }| {
                zone(name) || missing(desired.pools.contains_key(pool), "pools", pool.as_str())
            }),
            Subject::Member(pool, index) => desired.pools.get(pool).is_some_and(|pool| {
                let member = &pool.members[*index];
                cluster(member) || monitor(member.monitor.as_ref())
            }),
            Subject::Pool(name) => desired.pools.get(name).is_some_and(|pool| {
                let by_location = pool.policy.location_rankings().next().is_some();
                monitor(pool.monitor.as_ref())
                    || by_location && (!left_out.is_complete("maps") || !left_out.is_complete("latencies"))
                    || by_location && pool.members.iter().any(cluster)
            }),
        }
    }
}

/// Returns a URL in place of a missing one, so that the other keys are checked as well. It is never used, since the missing one is an error.
fn placeholder_url<T: TextValue>() -> T {
    T::parse("http://placeholder.invalid").expect("a valid literal")
}

/// Types of an object, each with the keys that are allowed for it and not for all types.
type KeysByType<T> = [(T, &'static [&'static str])];

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
