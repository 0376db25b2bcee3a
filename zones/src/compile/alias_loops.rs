//! Finds steered names that lead back to themselves through CNAMEs and DNAMEs of zone files, or through a wildcard.
//!
//! Loops among declared objects alone are found earlier, with their location, by
//! [`DesiredState::violations`](fairway_model::DesiredState::violations).

use std::collections::BTreeSet;

use fairway_model::{Name, Rtype, alias_loop, describe_alias_loop};

use super::faults::{Faults, RecordKey};
use crate::{
    entries::Node,
    lookup::{Found, locate},
    snapshot::{Snapshot, Steered},
};

/// Reports every loop at each of its steered names, located at a record of a zone file if the loop has one.
pub(super) fn report(snapshot: &Snapshot, faults: &mut Faults) {
    let mut reported = BTreeSet::new();
    for info in snapshot.pool_infos.iter() {
        let steered = info.steered.first().map(|(.., first)| &snapshot.steered[*first as usize - 1]);
        // A pool has many names. If none of its targets is an alias, none of its names is in a loop.
        let is_alias = |name: &Name| !targets(snapshot, name).is_empty();
        if !steered.is_some_and(|steered| pool_targets(snapshot, steered).any(|target| is_alias(&target))) {
            continue;
        }
        for name in &info.names {
            if reported.contains(name) {
                continue;
            }
            if let Some(chain) = find(snapshot, name) {
                let (what, hint) = describe_alias_loop(&chain);
                let record = chain.iter().find_map(|name| record_of(snapshot, name));
                for name in chain.iter().filter_map(|name| steered_name(snapshot, name)) {
                    match &record {
                        Some(record) => faults.at_record(&name, record.clone(), what.clone(), hint),
                        None => faults.about_name(&name, what.clone(), hint),
                    }
                    reported.insert(name);
                }
            }
        }
    }
}

/// Returns the steered name that answers a name: itself, or a wildcard.
fn steered_name(snapshot: &Snapshot, name: &Name) -> Option<Name> {
    let node = snapshot.node(node_of(snapshot, name)?);
    Name::from_wire(node.name()).ok().filter(|_| node.steered() != 0)
}

/// Returns the CNAME or DNAME that answers a name that is not steered.
fn record_of(snapshot: &Snapshot, name: &Name) -> Option<RecordKey> {
    let node = snapshot.node(node_of(snapshot, name)?);
    let rtype = [Rtype::CNAME, Rtype::DNAME].into_iter().find(|rtype| node.set(*rtype).is_some())?;
    Some((node.zone(), Name::from_wire(node.name()).ok()?, rtype)).filter(|_| node.steered() == 0)
}

fn node_of(snapshot: &Snapshot, name: &Name) -> Option<u32> {
    match look_up(snapshot, name) {
        Found::Exact(number) | Found::Wildcard(number) | Found::Dname(number) => Some(number),
        Found::Cut(_) | Found::Nothing(_) | Found::Outside => None,
    }
}

fn look_up(snapshot: &Snapshot, name: &Name) -> Found {
    let wire = name.as_wire();
    locate(snapshot, wire, name.label_count() as u8, snapshot.key().hash(wire))
}

/// Returns the loop that contains this name, or a name that this wildcard answers.
pub(super) fn find(snapshot: &Snapshot, name: &Name) -> Option<Vec<Name>> {
    let targets = |name: &Name| targets(snapshot, name);
    // A name that a wildcard answers is an alias of the wildcard's targets, so a loop through it contains one of these.
    let further = if name.is_wildcard() { targets(name) } else { Vec::new() };
    [name.clone()].into_iter().chain(further).find_map(|start| alias_loop(&start, targets))
}

/// Returns the names that a name may be answered with a CNAME to.
fn targets(snapshot: &Snapshot, name: &Name) -> Vec<Name> {
    let wire = name.as_wire();
    match look_up(snapshot, name) {
        Found::Exact(number) | Found::Wildcard(number) => {
            let node = snapshot.node(number);
            let steered = node.steered().checked_sub(1).map(|number| &snapshot.steered[number as usize]);
            let by_pool = steered.into_iter().flat_map(|steered| pool_targets(snapshot, steered));
            by_pool.chain(target_of(node, Rtype::CNAME)).collect()
        }
        Found::Dname(number) => {
            let node = snapshot.node(number);
            let prefix = &wire[..wire.len() - node.name_len()];
            let target = target_of(node, Rtype::DNAME);
            target.and_then(|target| Name::from_wire(&[prefix, target.as_wire()].concat()).ok()).into_iter().collect()
        }
        Found::Cut(_) | Found::Nothing(_) | Found::Outside => Vec::new(),
    }
}

/// Returns the names that a pool may answer with: clusters in mode `cname`, and its fallback.
fn pool_targets<'s>(snapshot: &'s Snapshot, steered: &'s Steered) -> impl Iterator<Item = Name> + 's {
    let members = if steered.cname { snapshot.pools[steered.pool as usize].clusters().len() as u32 } else { 0 };
    let fallback = (steered.fallback != Steered::NONE).then_some(steered.fallback);
    let places = (steered.members..steered.members + members).chain(fallback);
    places.filter_map(|place| Name::from_wire(snapshot.answer(place).details()?.alias()?.name).ok())
}

fn target_of(node: Node<'_>, rtype: Rtype) -> Option<Name> {
    Name::from_wire(node.set(rtype)?.details()?.alias()?.name).ok()
}

#[cfg(test)]
mod tests {
    use fairway_model::{DesiredState, DownAnswer, Name};

    use super::super::{
        ChangedItems, compile, revise,
        tests::{desired, zone},
    };
    use crate::snapshot::ServerOptions;

    const HEAD: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    /// Returns a state in which all names share a pool with this fallback.
    fn falling_back(names: &[&str], fallback: &str) -> DesiredState {
        let mut desired = desired(names);
        let target: Name = format!("{fallback}example.test").parse().unwrap();
        desired.pools.values_mut().for_each(|pool| pool.down = DownAnswer::FallbackCname(target.clone()));
        desired
    }

    /// Returns the errors of names above a zone with these records.
    fn errors(names: &[&str], fallback: &str, records: &str) -> Vec<String> {
        let zones = [zone("example.test", &format!("{HEAD}{records}"))];
        let compiled = compile(&falling_back(names, fallback), &zones, &ServerOptions::default(), None);
        compiled.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn loop_through_a_zone_file_is_reported_at_its_record() {
        for (names, fallback, records, place) in [
            (&["shop."][..], "sorry.", "sorry CNAME shop\n", "z:5:1: "),
            (&["shop."], "a.", "a CNAME b\nb CNAME shop\n", "z:5:1: "),
            (&["x.new."], "x.old.", "old DNAME new\n", "z:5:1: "),
            (&["*.shop."], "sorry.shop.", "", "configuration: "),
            (&["*.shop."], "sorry.", "sorry CNAME any.shop\n", "z:5:1: "),
        ] {
            let found = errors(names, fallback, records);
            assert_eq!(found.len(), 1, "{names:?} {found:?}");
            assert!(found[0].starts_with(place), "{found:?}");
            assert!(found[0].contains("a CNAME leads back to its own name: "), "{found:?}");
        }
    }

    #[test]
    fn chain_that_ends_and_loop_without_steered_name_are_accepted() {
        for (names, fallback, records) in [
            (&["shop."][..], "sorry.", "sorry CNAME centre\ncentre A 192.0.2.2\n"),
            (&["shop."], "shop.elsewhere.", ""),
            (&["*.shop."], "sorry.shop.", "sorry.shop A 192.0.2.2\n"),
            (&["shop."], "a.", "a CNAME b\nb CNAME a\n"),
        ] {
            assert_eq!(errors(names, fallback, records), Vec::<String>::new(), "{names:?}");
        }
    }

    #[test]
    fn incremental_compilation_leaves_a_loop_to_the_full_one() {
        let (zones, options) = ([zone("example.test", &format!("{HEAD}sorry CNAME shop\n"))], ServerOptions::default());
        let [before, sound, bad] = ["ns.", "ns.", "sorry."].map(|fallback| falling_back(&["shop."], fallback));
        let (snapshot, _) = compile(&before, &zones, &options, None).unwrap();
        let touched = ChangedItems { pools: before.pools.keys().cloned().collect(), ..ChangedItems::default() };
        assert!(revise(&before, &sound, &touched, &options, &snapshot).is_some());
        assert!(revise(&before, &bad, &touched, &options, &snapshot).is_none());
    }
}
