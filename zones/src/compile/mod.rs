//! Compiles the desired state and the records of zones to a [`Snapshot`].

mod answers;
mod declared;
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

use crate::snapshot::{ServerOptions, Snapshot};

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
    let (text, mut faults) = records::compile(zones);
    let (snapshot, more) = upper::compile(desired, &Arc::new(text), zones, options, previous);
    faults.extend(more);
    if faults.iter().any(Diagnostic::is_error) {
        faults.sort();
        return Err(faults);
    }
    Ok((snapshot, faults))
}

/// Compiles another desired state with the zones of a snapshot, whose text has not changed. The zones cost nothing.
///
/// Errors lack the location of a zone's record, since the text is not given. [`compile`] reports them with it.
pub fn recompile(
    desired: &DesiredState,
    options: &ServerOptions,
    previous: &Snapshot,
) -> Result<(Snapshot, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (snapshot, faults) = upper::compile(desired, &previous.text, &[], options, Some(previous));
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

/// Maximum number of zones, whose numbers have 16 bits.
const ZONES_MAX: usize = u16::MAX as usize;
