//! What is wished for, and the records of the zones, to a [`Snapshot`].

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

/// Compiles a wish and its zones. All faults come together, and nothing is compiled if one is an error; the warnings of
/// a compiled wish come with it.
///
/// `previous` lends its answer counters, so that a cluster in a pool keeps its slot.
pub fn compile(
    desired: &DesiredState,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> Result<(Snapshot, Vec<Diagnostic>), Vec<Diagnostic>> {
    if zones.len() > ZONES_MAX {
        let what = format!("{} zones are declared; {ZONES_MAX} is the most", zones.len());
        return Err(vec![Diagnostic::error(
            FileLocation::file("configuration"),
            what,
            "spread them over several servers",
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

/// Compiles another wish over the zones of a snapshot, whose text is the same: the cost is that of the wish alone.
///
/// Where something is at fault, [`compile`] says in which record, with the text at hand.
pub fn recompile(
    desired: &DesiredState,
    options: &ServerOptions,
    previous: &Snapshot,
) -> Result<(Snapshot, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (snapshot, faults) = upper::compile(desired, &previous.text, &[], options, Some(previous));
    if faults.iter().any(Diagnostic::is_error) { Err(faults) } else { Ok((snapshot, faults)) }
}

/// What a wish has changed, added or removed since it was compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedItems {
    /// Pools.
    pub pools: BTreeSet<PoolName>,
    /// Steered names.
    pub names: BTreeSet<Name>,
    /// Names that have other declared records.
    pub records: BTreeSet<Name>,
}

/// Compiles those pools, names and records anew in which `after` differs from `before`, of which a snapshot was compiled, and shares
/// the rest with it: the answers, the targets and the id are those of [`recompile`].
///
/// Everything but these must be the same in both. None where only the whole compilation can tell: something is at fault or
/// doubtful, what the names of clusters answer changes, a delegation or DNAME is declared, a balanced cluster is used no
/// more, targets of many pools would get other numbers, or so much was changed since the last whole compilation that one is due.
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
    incremental::IncrementalCompiler::new(before, after, previous).make(touched)
}

/// Most zones: their numbers have 16 bits.
const ZONES_MAX: usize = u16::MAX as usize;
