//! Compiles the desired state and the records of zones to a [`Snapshot`].

mod alias_loops;
mod answers;
mod declared;
mod faults;
mod incremental;
mod names;
mod nodes;
mod records;
mod sets;
mod steered;
mod upper;

#[cfg(test)]
mod declared_tests;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, PoolName};
use fairway_zonefile::ZoneData;

use crate::{
    snapshot::{ServerOptions, Snapshot},
    table::RUN_MAX,
    wire::NameKey,
};

/// Compiles a desired state and its zones. Returns the warnings with the snapshot, or all diagnostics together if one
/// is an error.
///
/// `previous` passes on its answer counters, so that a cluster in a pool keeps its slot.
pub fn compile(
    desired: &DesiredState,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> Result<(Snapshot, Vec<Diagnostic>), Vec<Diagnostic>> {
    if zones.len() > ZONES_MAX {
        let what = format!("{} zones are declared; the maximum is {ZONES_MAX}", zones.len());
        return Err(vec![Diagnostic::error(
            FileLocation::file("configuration"),
            what,
            "distribute them over several servers",
        )]);
    }
    let mut keys = (0..KEYS_TRIED).map(|_| NameKey::random());
    let compiled = keys.find_map(|key| compile_with(key, desired, zones, options, previous));
    let (snapshot, mut faults) = compiled.ok_or_else(crowded)?;
    if faults.iter().any(Diagnostic::is_error) {
        faults.sort();
        return Err(faults);
    }
    Ok((snapshot, faults))
}

/// Compiles with a key for the hashes of names. Returns `None` if more of them share slots than lookups may read.
fn compile_with(
    key: NameKey,
    desired: &DesiredState,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> Option<(Snapshot, Vec<Diagnostic>)> {
    let (mut text, mut faults) = records::compile(zones, key)?;
    text.number_rows(previous.map(|previous| &*previous.text));
    let (snapshot, more) = upper::compile(desired, &Arc::new(text), zones, options, previous)?;
    faults.extend(more);
    Some((snapshot, faults))
}

/// Returns the error about names that no key spreads well.
fn crowded() -> Vec<Diagnostic> {
    let what = format!("more than {RUN_MAX} names have neighbouring hashes");
    let hint = "restart the server, which draws another key for the hashes";
    vec![Diagnostic::error(FileLocation::file("configuration"), what, hint)]
}

/// Compiles another desired state with the zones of a snapshot, whose text has not changed. The zones cost nothing.
///
/// Errors lack the location of a zone's record, since the text is not given. [`compile`] reports them with it.
pub fn recompile(
    desired: &DesiredState,
    options: &ServerOptions,
    previous: &Snapshot,
) -> Result<(Snapshot, Vec<Diagnostic>), Vec<Diagnostic>> {
    let compiled = upper::compile(desired, &previous.text, &[], options, Some(previous));
    let (snapshot, faults) = compiled.ok_or_else(crowded)?;
    if faults.iter().any(Diagnostic::is_error) { Err(faults) } else { Ok((snapshot, faults)) }
}

/// Items of the desired state that were changed, added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedItems {
    /// Pools.
    pub pools: BTreeSet<PoolName>,
    /// Steered names.
    pub names: BTreeSet<Name>,
    /// Names with changed declared records.
    pub records: BTreeSet<Name>,
}

/// Incremental compilation: compiles only the items that differ between `before`, of which `previous` was compiled, and
/// `after`.
///
/// Answers, targets and id are those of [`recompile`]. Everything else must be equal in both states. Returns `None` if
/// a full compilation is needed: for an error or warning, changed names of clusters, a declared delegation or DNAME, a
/// balanced cluster without further use, targets of many pools that change their number, or too many changes since the
/// last full compilation.
pub fn revise(
    before: &DesiredState,
    after: &DesiredState,
    touched: &ChangedItems,
    options: &ServerOptions,
    previous: &Snapshot,
) -> Option<Snapshot> {
    if *options != previous.options {
        return None;
    }
    incremental::revise(before, after, touched, previous)
}

/// Keys that a full compilation tries. The first is enough but for one start in 10^12 with 10^9 names (see [`RUN_MAX`]).
const KEYS_TRIED: usize = 4;

/// Maximum number of zones, whose numbers have 16 bits.
const ZONES_MAX: usize = u16::MAX as usize;
