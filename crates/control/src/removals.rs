//! Changed files that remove so many names that it looks like a mistake: a file that was emptied or truncated, or the wrong folder.
//!
//! Names are counted in each zone and in all together, without apexes. A name that is still served, since an object or a webhook client
//! declares it, is not removed. With access rules it is, if only a tenant declares it whose claim was not in the answers before: a tenant
//! could claim the operator's names in advance, and get all their clients with the files' next mistake.

use std::collections::BTreeMap;

use fairway_contributions::are_many;
use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, RecordSet, SteeredName};
use fairway_store::ZoneSizes;
use fairway_zones::Snapshot;

use super::configured::{Compiled, Configured, Previous};

/// Names that the files declare in a zone.
#[derive(Debug, Default)]
struct Names {
    /// Number of names that are no longer served.
    gone: usize,
    /// Number of names afterwards.
    kept: usize,
    /// One that is no longer served.
    example: Option<Name>,
}

impl Names {
    fn remove(&mut self, name: &Name) {
        self.gone += 1;
        self.example.get_or_insert_with(|| name.clone());
    }

    /// Returns the error if too many names are removed; `of` is the zone.
    fn error(&self, owner: &str, of: &str) -> Option<Diagnostic> {
        let Self { gone, kept, example } = self;
        let example = example.as_ref().filter(|_| are_many(*gone, *kept, usize::MAX))?;
        let fact = match kept {
            0 => format!("the files no longer declare any of the {gone} names of {of}, among them {example}"),
            _ => format!(
                "the files no longer declare {gone} names of {of}, among them {example}, and declare {kept}; more than 10 and more than a \
                 fifth look like a mistake"
            ),
        };
        let hint = "if they are meant to go, run `fairway reload --allow-removals`";
        Some(Diagnostic::error(FileLocation::file(owner), fact, hint))
    }
}

/// Returns an error for each zone that loses too many names of the files, or else one for all zones; none if the change looks intended.
pub(crate) fn errors(before: &Previous, after: &Compiled, owner: &str) -> Vec<Diagnostic> {
    let (mut zones, mut all) = (BTreeMap::<Name, Names>::new(), Names::default());
    let files = &before.configured.files.desired;
    if !after.snapshot.has_text_of(&before.snapshot) {
        for (zone, name) in before.snapshot.text_names().filter(|(_, name)| !after.snapshot.has_text_name(name)) {
            let Ok(name) = Name::from_wire(name) else { continue };
            if !is_kept(before, after, &name) {
                zones.entry(zone.clone()).or_default().remove(&name);
                all.remove(&name);
            }
        }
    }
    for (zone, name) in declared_names(files, &before.snapshot) {
        if !is_kept(before, after, name) {
            zones.entry(zone.clone()).or_default().remove(name);
            all.remove(name);
        }
    }
    // Counting what is left reads every name, and a single name is never too much.
    if all.gone < 2 {
        return vec![];
    }
    let mut keep = |zone: &Name| {
        all.kept += 1;
        if let Some(names) = zones.get_mut(zone) {
            names.kept += 1;
        }
    };
    after.snapshot.text_names().for_each(|(zone, _)| keep(zone));
    declared_names(&after.configured.files.desired, &after.snapshot).for_each(|(zone, _)| keep(zone));
    let errors: Vec<_> = zones.iter().filter_map(|(zone, names)| names.error(owner, &format!("zone {zone}"))).collect();
    if errors.is_empty() { all.error(owner, "all zones").into_iter().collect() } else { errors }
}

/// Returns true if a name is served by the files, by an operator's object, or by contributions that were in its answers before.
fn is_kept(before: &Previous, after: &Compiled, name: &Name) -> bool {
    if !after.snapshot.has_name(name.as_wire()) {
        return false;
    }
    let Configured { files, objects, merged, rejected, .. } = &after.configured;
    let [was_enforced, is_enforced] =
        [&before.configured, &after.configured].map(|of| of.settings.access.names.is_enforced);
    let is_declared = || {
        let files = &files.desired;
        files.names.contains_key(name) || files.records_at(name).next().is_some()
    };
    let is_shared = || {
        let was = &before.configured.merged.contributed.merged_names;
        [was, &merged.contributed.merged_names].iter().all(|of| of.of_name(name).is_some_and(|of| of.pool.is_some()))
    };
    !(was_enforced || is_enforced)
        || after.snapshot.has_text_name(name.as_wire())
        || is_declared()
        || objects.is_operators(name, &rejected.objects)
        || is_shared()
}

/// Returns the number of records of each zone's file and of the other names that the files declare in it.
pub(crate) fn sizes(files: &DesiredState, snapshot: &Snapshot) -> ZoneSizes {
    let mut sizes: ZoneSizes = snapshot.zones().map(|zone| (zone.origin.to_string(), zone.records)).collect();
    for (zone, _) in declared_names(files, snapshot) {
        *sizes.entry(zone.to_string()).or_default() += 1;
    }
    sizes
}

/// Logs the zones that are much smaller than when they were last served. Nothing is served at a start that could stay in use.
pub(crate) fn log_shrunk(before: Option<&ZoneSizes>, now: &ZoneSizes) {
    for (zone, before) in before.into_iter().flatten() {
        let now = now.get(zone).copied().unwrap_or_default();
        if are_many(before.saturating_sub(now), now, usize::MAX) {
            tracing::warn!(zone, before, now, "zone has far fewer records and names than when it was last served");
        }
    }
}

/// Returns the steered names and the names with record sets of a configuration that its zone files do not have, each with its zone.
fn declared_names<'a>(files: &'a DesiredState, snapshot: &Snapshot) -> impl Iterator<Item = (&'a Name, &'a Name)> {
    let steered = files.names.values().map(|SteeredName { name, .. }| name);
    let mut last = None;
    let records = files.records.values().map(|RecordSet { name, .. }| name);
    let records = records.filter(move |name| last.replace(*name) != Some(*name) && !files.names.contains_key(*name));
    let names = steered.chain(records).filter(|name| !snapshot.has_text_name(name.as_wire()));
    let zoned = names.filter_map(|name| Some((&files.zone_of(name)?.name, name)));
    zoned.filter(|(zone, name)| zone != name)
}
