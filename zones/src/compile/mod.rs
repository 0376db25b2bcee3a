//! What is wished for, and the records of the zones, to a [`Snapshot`].

mod answers;
mod names;
mod place;
mod records;
mod sets;
mod steered;
mod upper;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use fairway_model::{Desired, Fault, Place};

use crate::{
    snapshot::{ServerOptions, Snapshot},
    text::ZoneData,
};

/// Compiles a wish and its zones. All faults come together, and nothing is compiled if one is an error; the warnings of
/// a compiled wish come with it.
///
/// `previous` lends its answer counters, so that a cluster in a pool keeps its slot.
pub fn compile(
    desired: &Desired,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> Result<(Snapshot, Vec<Fault>), Vec<Fault>> {
    if zones.len() > ZONES_MAX {
        let what = format!("{} zones are declared; {ZONES_MAX} is the most", zones.len());
        return Err(vec![Fault::error(Place::file("configuration"), what, "spread them over several servers")]);
    }
    let (text, mut faults) = records::compile(zones);
    let (snapshot, more) = upper::compile(desired, &Arc::new(text), zones, options, previous);
    faults.extend(more);
    if faults.iter().any(Fault::is_error) {
        faults.sort();
        return Err(faults);
    }
    Ok((snapshot, faults))
}

/// Compiles another wish over the zones of a snapshot, whose text is the same: the cost is that of the wish alone.
///
/// Where something is at fault, [`compile`] says in which record, with the text at hand.
pub fn recompile(
    desired: &Desired,
    options: &ServerOptions,
    previous: &Snapshot,
) -> Result<(Snapshot, Vec<Fault>), Vec<Fault>> {
    let (snapshot, faults) = upper::compile(desired, &previous.text, &[], options, Some(previous));
    if faults.iter().any(Fault::is_error) { Err(faults) } else { Ok((snapshot, faults)) }
}

/// Most zones: their numbers have 16 bits.
const ZONES_MAX: usize = u16::MAX as usize;
