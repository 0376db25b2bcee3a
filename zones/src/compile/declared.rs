//! Declared record sets: which of them can be served with the zones' text and the steered names, and their compiled
//! form.

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, PoolName, RecordSet, Rtype, Subject};

use super::{
    names::is_wildcard,
    sets::{self, SetContext, TooLarge},
    upper::{CONFIGURATION, conflicts},
};
use crate::{
    entries::{EntryWriter, Node},
    snapshot::Steered,
};

/// Other data at the name of a declared set.
pub(super) struct AtName<'a> {
    /// Node of the name in the zones' text.
    pub(super) text: Option<Node<'a>>,
    /// Pool that steers the name.
    pub(super) steered: Option<(Steered, &'a PoolName)>,
}

/// Returns why a declared set cannot be served, and a hint. `None` if it can.
///
/// The zones' text and steered names win over declared sets, and names below a declared delegation or DNAME win over
/// it. So a later declaration never removes a set that is served.
pub(super) fn refusal(desired: &DesiredState, set: &RecordSet, at_name: &AtName<'_>) -> Option<(String, &'static str)> {
    let (name, rtype) = (&set.name, set.rtype);
    let refuse = |what: String, hint| Some((what, hint));
    if !rtype.is_declarable() {
        return refuse(format!("{name} {rtype}: records of this type cannot be declared"), "remove it");
    }
    let in_text = |wanted: Rtype| at_name.text.is_some_and(|node| node.set(wanted).is_some());
    if in_text(rtype) {
        return refuse(format!("{name} {rtype}: the zone itself has one, with precedence"), "change it there");
    }
    if in_text(Rtype::CNAME) {
        let what = format!("{name} has a CNAME in the zone file, and a CNAME excludes other records");
        return refuse(what, "remove one of the two (RFC 1034 section 3.6.2)");
    }
    if let Some((steered, pool)) = &at_name.steered
        && conflicts(rtype, steered)
    {
        let what = format!("{name} {rtype}: pool {pool} answers this name");
        return refuse(what, "remove the record, or the name from the steered names");
    }
    let others = desired.records_at(name).map(|set| set.rtype).filter(|other| *other != rtype);
    let has_text = at_name.text.is_some_and(|node| node.set_count() > 0);
    if rtype == Rtype::CNAME && (has_text || at_name.steered.is_some() || others.clone().next().is_some()) {
        let what = format!("{name} has other records, and a CNAME excludes other records");
        return refuse(what, "remove one of the two (RFC 1034 section 3.6.2)");
    }
    if !hides(set) {
        return None;
    }
    let is_delegation = rtype == Rtype::NS;
    let mut hidden = others.filter(|other| is_delegation && *other != Rtype::DS);
    if at_name.text.is_some() || at_name.steered.is_some() || hidden.next().is_some() || has_names_below(desired, name)
    {
        let what = format!("{name} {rtype} would hide other records at or below the name");
        return refuse(what, "remove those first, or put the record into the zone file");
    }
    None
}

/// True if a set hides the names below it: a delegation or a DNAME. At a wildcard, NS is data (RFC 4592 section 4.2).
pub(super) fn hides(set: &RecordSet) -> bool {
    set.rtype == Rtype::DNAME || (set.rtype == Rtype::NS && !is_wildcard(set.name.as_wire()))
}

/// True if a declared delegation or DNAME is above a name.
pub(super) fn is_below_declared(desired: &DesiredState, name: &Name) -> bool {
    let mut above = std::iter::successors(name.parent(), Name::parent);
    !desired.records.is_empty() && above.any(|above| desired.records_at(&above).any(hides))
}

/// True if something is declared below a name. Names below it follow it in order.
fn has_names_below(desired: &DesiredState, name: &Name) -> bool {
    let last = (name.clone(), Rtype(u16::MAX));
    let records = desired.records.after(&last).next().map(|((below, _), _)| below);
    let steered = desired.names.after(name).next().map(|(below, _)| below);
    [records, steered].into_iter().flatten().any(|below| below.is_within(name))
}

/// Returns the flags of a node with these sets.
pub(super) fn flags<'a>(flags: u8, sets: impl Iterator<Item = &'a RecordSet>) -> u8 {
    sets.fold(flags, |flags, set| match set.rtype {
        Rtype::CNAME => flags | Node::ALIAS,
        Rtype::DNAME => flags | Node::DNAME,
        _ if hides(set) => (flags | Node::CUT) & !Node::OPEN,
        _ => flags,
    })
}

/// Appends a set to an entry and returns its number.
pub(super) fn write(
    entries: &mut EntryWriter,
    entry: u32,
    set: &RecordSet,
    context: SetContext<'_>,
) -> Result<u32, TooLarge> {
    let rdatas = set.rdatas.iter().map(|rdata| &**rdata);
    let number = sets::write(entries, set.rtype, set.ttl.secs(), rdatas, context, &mut Vec::new())?;
    entries.count_set(entry);
    Ok(number)
}

/// Returns an error about a declared set.
pub(super) fn fault(set: &RecordSet, what: String, hint: &str) -> Diagnostic {
    let fault = Diagnostic::error(FileLocation::file(CONFIGURATION), what, hint);
    fault.about(Subject::Records(set.name.clone(), set.rtype))
}
