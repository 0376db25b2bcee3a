//! Incremental compilation: compiles some pools, names and records of a snapshot again and keeps the rest.
//!
//! ```text
//! before   names of changed pools ─┐     free the changed     steer the names     write changed     remove names that    close the
//!          changed names ──────────┴──►  pools' numbers  ──►  again            ──► records again ──► have no data    ──► gaps of pools
//! ```
//! The result is that of [`super::upper`], which compiles everything. Both exist for the cost: that of a full
//! compilation depends on all pools and names, that of an incremental one on the changed ones and on copies of flat
//! tables. A case that depends on everything else returns `None`.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use fairway_model::{AnswerMode, DesiredState, Name, PoolName, Rtype, SteeredName};

use super::{
    ChangedItems,
    declared::{self, AtName},
    names::{is_wildcard, parent_of},
    steered::Pools,
    upper::{self, Names, PoolConflict, ZonePosition},
};
use crate::{
    entries::{EntryWriter, Head, Node, RrSet, UPPER},
    snapshot::{Snapshot, TextLayer},
    table::Table,
    wire::{name_end, name_hash},
};

/// An incremental compilation.
pub(super) struct IncrementalCompiler<'a> {
    before: &'a DesiredState,
    after: &'a DesiredState,
    previous: &'a Snapshot,
    text: &'a TextLayer,
    table: Table,
    entries: EntryWriter,
    pools: Pools<'a>,
    steered_in: Vec<usize>,
    labels_max: usize,
}

impl<'a> IncrementalCompiler<'a> {
    pub(super) fn new(before: &'a DesiredState, after: &'a DesiredState, previous: &'a Snapshot) -> Self {
        Self {
            before,
            after,
            previous,
            text: &previous.text,
            table: previous.upper.table.clone(),
            entries: EntryWriter::after(&previous.upper.entries),
            pools: Pools::after(after, previous),
            steered_in: previous.steered_in.to_vec(),
            labels_max: previous.labels_max,
        }
    }

    pub(super) fn make(mut self, touched: &ChangedItems) -> Option<Snapshot> {
        if touched.records.iter().any(|name| self.is_for_all(name)) {
            return None;
        }
        if self.names_clusters_otherwise(&touched.pools) {
            return None;
        }
        let numbers: Vec<u32> = touched.pools.iter().flat_map(|name| self.pools.numbers_of(name)).collect();
        let mut names = touched.names.clone();
        names.extend(numbers.iter().flat_map(|number| self.pools.names_of(*number)).cloned());
        if names.iter().any(|name| self.previous.cluster_names.contains(name)) {
            return None;
        }
        let mut left = BTreeSet::new();
        for name in names.iter().filter_map(|name| self.before.names.get(name)) {
            left.insert(self.unsteer(name, self.before)?);
        }
        for number in &numbers {
            left.remove(number);
            self.pools.free(*number);
        }
        for name in names.iter().filter_map(|name| self.after.names.get(name)) {
            self.steer(name)?;
        }
        for name in &touched.records {
            self.write_records(name)?;
        }
        // Names below others follow them in order and are removed first.
        names.extend(touched.records.iter().cloned());
        for name in names.iter().rev() {
            self.prune(name)?;
        }
        for number in left {
            if self.pools.is_idle(number) {
                self.pools.free(number);
            }
        }
        self.pools.close_gaps();
        self.take_out_idle_targets()?;
        self.finish()
    }

    /// Removes unused targets. The last targets take their numbers, and the pools with those are compiled again.
    ///
    /// Returns `None` if there are too many such pools.
    fn take_out_idle_targets(&mut self) -> Option<()> {
        let (idle, moved) = self.pools.idle_targets();
        if moved.len() > MOVED_MAX {
            return None;
        }
        let names = moved.iter().flat_map(|number| self.pools.names_of(*number));
        let names: Vec<&'a SteeredName> = names.map(|name| self.after.names.get(name)).collect::<Option<_>>()?;
        for name in &names {
            self.unsteer(name, self.after)?;
        }
        moved.iter().for_each(|number| self.pools.free(*number));
        if !idle.is_empty() {
            self.pools.take_out_targets(&idle);
        }
        for name in names {
            self.steer(name)?;
        }
        self.pools.close_gaps();
        Some(())
    }

    fn finish(self) -> Option<Snapshot> {
        let Self { previous, table, entries, pools, steered_in, labels_max, .. } = self;
        let compiled = pools.finish();
        let is_due = compiled.sizes(&entries).have_outgrown(&previous.whole);
        if is_due || compiled.uses.has_idle_cluster() || !compiled.faults.is_empty() {
            return None;
        }
        let cluster_names = Arc::clone(&previous.cluster_names);
        let names = Names { table, entries, steered_in, labels_max, cluster_names };
        Some(upper::assemble(&previous.options, &previous.text, names, compiled, Some(previous.whole)))
    }

    /// True if these pools change the records of cluster names, which depend on all pools with mode `cname`.
    fn names_clusters_otherwise(&self, touched: &BTreeSet<PoolName>) -> bool {
        let states = [self.before, self.after];
        let mut versions = touched.iter().flat_map(|name| states.map(|desired| desired.pools.get(name))).flatten();
        versions.any(|pool| pool.mode == AnswerMode::Cname)
            && upper::cluster_names(self.before) != upper::cluster_names(self.after)
    }

    /// True if the declared records of a name affect other names: names below it, or cluster names.
    fn is_for_all(&self, name: &Name) -> bool {
        let mut sets = [self.before, self.after].into_iter().flat_map(|desired| desired.records_at(name));
        let is_clusters = || self.after.clusters.values().any(|cluster| cluster.dns_name.as_ref() == Some(name));
        sets.any(declared::hides) || is_clusters()
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.table.find(name_hash(name), |number| self.entries.node(number).is_called(name))
    }

    /// Returns the node of a name in the zones' text.
    fn below(&self, name: &[u8]) -> Option<Node<'a>> {
        self.text.layer.find(name_hash(name), name).map(|number| self.text.layer.entries.node(number))
    }

    /// True if the parent exists because of the child.
    fn holds_up_parent(&self, child: &[u8], parent: &[u8]) -> bool {
        let below = self.below(child);
        if is_wildcard(child) && !below.is_some_and(|node| node.is(Node::APEX)) {
            return true;
        }
        below.is_none() && self.below(parent).is_none()
    }

    /// Removes the pool from a name of a desired state and returns the number of the pool.
    fn unsteer(&mut self, name: &SteeredName, desired: &DesiredState) -> Option<u32> {
        let entry = self.find(name.name.as_wire())?;
        let node = self.entries.node(entry);
        let (zone, steered) = (usize::from(node.zone()), node.steered());
        self.steered_in[zone] -= 1;
        self.entries.steer(entry, 0);
        self.pools.unsteer(name, desired.pools.get(&name.pool)?, steered)
    }

    fn steer(&mut self, name: &'a SteeredName) -> Option<()> {
        let pool = self.after.pools.get(&name.pool)?;
        let zone = self.zone_of(&name.name)?;
        self.steered_in[usize::from(zone)] += 1;
        let number = self.pools.steered(name, pool, &mut self.entries);
        let entry = self.intern(name.name.as_wire(), zone);
        self.entries.steer(entry, number);
        let text = self.below(name.name.as_wire());
        let steered = self.pools.of(number)?;
        let mut types = text.into_iter().flat_map(Node::sets).map(RrSet::rtype);
        let has_conflict = types.any(|rtype| PoolConflict::of(rtype, &steered.0).is_some());
        (!has_conflict && self.can_stand(&name.name, &AtName { text, steered: Some(steered) })).then_some(())
    }

    /// True if the declared records of a name can be served with this data.
    fn can_stand(&self, name: &Name, at_name: &AtName<'_>) -> bool {
        self.after.records_at(name).all(|set| declared::refusal(self.after, set, at_name).is_none())
    }

    /// Returns the number of a name's zone. `None` if a delegation or DNAME hides the name.
    fn zone_of(&self, name: &Name) -> Option<u16> {
        let ZonePosition { zone, hidden_by: None } = ZonePosition::of(self.text, name)? else { return None };
        (!declared::is_below_declared(self.after, name)).then_some(zone)
    }

    /// Writes a name again with the records that are declared now. `None` if one of them cannot be served.
    fn write_records(&mut self, name: &Name) -> Option<()> {
        let (wire, hash, zone) = (name.as_wire(), name_hash(name.as_wire()), self.zone_of(name)?);
        let (old, below) = (self.intern(wire, zone), self.below(wire));
        let node = self.entries.node(old);
        let (steered, wildcard) = (node.steered(), node.wildcard());
        let is_own = |rtype: Rtype| below.is_none_or(|below| below.set(rtype).is_none());
        for set in node.sets().filter(|set| is_own(set.rtype())) {
            self.pools.sum_id(upper::set_id(set, hash).wrapping_neg());
        }
        if !self.can_stand(name, &AtName { text: below, steered: self.pools.of(steered) }) {
            return None;
        }
        let sets = self.after.records_at(name);
        let flags = declared::flags(below.map_or(Node::OPEN, Node::flags), sets.clone());
        let entry = self.entries.begin_entry(wire, Head { flags, zone, steered });
        below.into_iter().for_each(|below| self.entries.copy_sets(entry, below));
        for set in sets {
            let written = declared::write(&mut self.entries, entry, set, &self.text.zones[usize::from(zone)].origin);
            self.pools.sum_id(upper::set_id(written.ok()?, hash));
        }
        wildcard.into_iter().for_each(|wildcard| self.entries.link(entry, wildcard));
        let entries = &self.entries;
        let hash_of = |number: u32| name_hash(entries.node(number).name());
        self.table.remove(hash, old, hash_of);
        self.table.add(hash, entry, hash_of);
        if is_wildcard(wire) && self.holds_up_parent(wire, parent_of(wire)) {
            let parent = self.find(parent_of(wire))?;
            self.entries.link(parent, entry | UPPER);
        }
        Some(())
    }

    /// Returns the entry of a name. Adds it, with the names that exist because of it, if it is new.
    fn intern(&mut self, name: &[u8], zone: u16) -> u32 {
        if let Some(known) = self.find(name) {
            return known;
        }
        let below = self.below(name);
        let flags = below.map_or(Node::OPEN, Node::flags);
        let entry = self.entries.begin_entry(name, Head { flags, zone, steered: 0 });
        if let Some(below) = below {
            self.entries.copy_sets(entry, below);
            below.wildcard().into_iter().for_each(|wildcard| self.entries.link(entry, wildcard));
        }
        let entries = &self.entries;
        self.table.add(name_hash(name), entry, |number| name_hash(entries.node(number).name()));
        self.labels_max = self.labels_max.max(name_end(name, 0).map_or(0, |(_, labels)| usize::from(labels)));
        let parent = parent_of(name);
        if self.holds_up_parent(name, parent) {
            let parent = self.intern(parent, zone);
            if is_wildcard(name) {
                self.entries.link(parent, entry | UPPER);
            }
        }
        entry
    }

    /// Removes a name without data and the names that existed because of it, unless other names need them.
    fn prune(&mut self, owner: &Name) -> Option<()> {
        let name = owner.as_wire();
        let Some(entry) = self.find(name) else { return Some(()) };
        let is_used = self.entries.node(entry).steered() != 0 || self.after.records_at(owner).next().is_some();
        if is_used || self.is_held_up(owner)? {
            return Some(());
        }
        let entries = &self.entries;
        self.table.remove(name_hash(name), entry, |number| name_hash(entries.node(number).name()));
        let parent = parent_of(name);
        if !self.holds_up_parent(name, parent) {
            return Some(());
        }
        if is_wildcard(name) {
            let above = self.find(parent)?;
            match self.below(parent).and_then(Node::wildcard) {
                Some(of_text) => self.entries.link(above, of_text),
                None => self.entries.unlink(above),
            }
        }
        self.prune(&owner.parent()?)
    }

    /// True if a name in the upper layer exists because of others. `None` if this is not certain.
    fn is_held_up(&self, owner: &Name) -> Option<bool> {
        let name = owner.as_wire();
        if self.previous.cluster_names.contains(owner) {
            return Some(true);
        }
        if self.below(name).is_some() {
            let wildcard = [b"\x01*", name].concat();
            return Some(self.find(&wildcard).is_some() && self.holds_up_parent(&wildcard, name));
        }
        let last = (owner.clone(), Rtype(u16::MAX));
        let steered = self.after.names.after(owner).next().map(|(below, _)| below);
        let declared = self.after.records.after(&last).next().map(|((below, _), _)| below);
        let clusters = self.previous.cluster_names.range((Excluded(owner), Unbounded)).next();
        let nearest = [steered, declared, clusters].into_iter().flatten();
        let mut within = nearest.filter(|below| below.is_within(owner)).peekable();
        if within.peek().is_none() {
            return Some(false);
        }
        // A zone may lie between. Then another name below may be the reason, or none.
        within.any(|below| self.holds_up(below.as_wire(), name)).then_some(true)
    }

    /// True if a name exists because of one below it, and so does each name between the two.
    fn holds_up(&self, below: &[u8], name: &[u8]) -> bool {
        let mut child = below;
        while child.len() > name.len() {
            let parent = parent_of(child);
            if !self.holds_up_parent(child, parent) {
                return false;
            }
            child = parent;
        }
        true
    }
}

/// Maximum number of pools compiled again because targets get other numbers. With more, a full compilation costs
/// about as much.
const MOVED_MAX: usize = 1_000;
