//! Some pools and names of a snapshot compiled anew, beside all that stays as it is.
//!
//! ```text
//! before   names of touched pools ─┐     free the touched     steer the names     prune names that are     close the gaps
//!          touched names ──────────┴──►  pools' numbers  ──►  again            ──► no more             ──► of pools
//! ```
//! It writes what [`super::upper`] would write. Whatever it cannot be sure of it leaves to the whole compilation, by giving nothing.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use fairway_model::{Desired, Mode, Name, PoolName, SteeredName};

use super::{
    Touched,
    names::{is_wildcard, parent_of},
    steered::Pools,
    upper::{self, Mixed, Names, Spot},
};
use crate::{
    entries::{EntryWriter, Head, Node, RrSet, UPPER},
    snapshot::{Snapshot, TextLayer},
    table::Table,
    wire::{name_end, name_hash},
};

/// A snapshot being revised.
pub(super) struct Reviser<'a> {
    before: &'a Desired,
    after: &'a Desired,
    previous: &'a Snapshot,
    text: &'a TextLayer,
    table: Table,
    entries: EntryWriter,
    pools: Pools<'a>,
    steered_in: Vec<usize>,
    labels_max: usize,
}

impl<'a> Reviser<'a> {
    pub(super) fn new(before: &'a Desired, after: &'a Desired, previous: &'a Snapshot) -> Self {
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

    pub(super) fn make(mut self, touched: &Touched) -> Option<Snapshot> {
        let numbers = self.pools_to_free(&touched.pools)?;
        let mut names = touched.names.clone();
        names.extend(numbers.iter().flat_map(|number| self.pools.names_of(*number)).cloned());
        if names.iter().any(|name| self.previous.cluster_names.contains(name)) {
            return None;
        }
        let mut left = BTreeSet::new();
        for name in names.iter().filter_map(|name| self.before.names.get(name)) {
            left.insert(self.unsteer(name)?);
        }
        for number in &numbers {
            left.remove(number);
            self.pools.free(*number);
        }
        for name in names.iter().filter_map(|name| self.after.names.get(name)) {
            self.steer(name)?;
        }
        // Those below others come behind them in order, and go first.
        for name in names.iter().rev().filter(|name| !self.after.names.contains_key(name)) {
            self.prune(name.as_wire())?;
        }
        for number in left {
            if self.pools.is_idle(number) {
                self.pools.free(number);
            }
        }
        self.pools.close_gaps();
        self.finish()
    }

    fn finish(self) -> Option<Snapshot> {
        let Self { previous, table, entries, pools, steered_in, labels_max, .. } = self;
        let compiled = pools.finish();
        let is_due = compiled.sizes(&entries).have_outgrown(&previous.whole);
        if is_due || compiled.uses.has_idle() || !compiled.faults.is_empty() {
            return None;
        }
        let cluster_names = Arc::clone(&previous.cluster_names);
        let names = Names { table, entries, steered_in, labels_max, cluster_names };
        Some(upper::assemble(&previous.options, &previous.text, names, compiled, Some(previous.whole)))
    }

    /// The numbers of these pools; none where one of them gives names to clusters, which others may do too.
    fn pools_to_free(&self, touched: &BTreeSet<PoolName>) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        for name in touched {
            let versions = [self.before, self.after].map(|wish| wish.pools.get(name));
            if versions.into_iter().flatten().any(|pool| pool.mode == Mode::Cname) {
                return None;
            }
            numbers.extend(self.pools.numbers_of(name));
        }
        Some(numbers)
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.table.find(name_hash(name), |number| self.entries.node(number).is_called(name))
    }

    /// The node of a name that the text has.
    fn below(&self, name: &[u8]) -> Option<Node<'a>> {
        self.text.layer.find(name_hash(name), name).map(|number| self.text.layer.entries.node(number))
    }

    /// Whether the one name is there because of the other one, which is its child.
    fn holds_up_parent(&self, child: &[u8], parent: &[u8]) -> bool {
        let below = self.below(child);
        if is_wildcard(child) && !below.is_some_and(|node| node.is(Node::APEX)) {
            return true;
        }
        below.is_none() && self.below(parent).is_none()
    }

    /// Leaves a name without a pool; gives the number of the one that it had.
    fn unsteer(&mut self, name: &SteeredName) -> Option<u32> {
        let entry = self.find(name.name.as_wire())?;
        let node = self.entries.node(entry);
        let (zone, steered) = (usize::from(node.zone()), node.steered());
        self.steered_in[zone] -= 1;
        self.entries.steer(entry, 0);
        self.pools.unsteer(name, self.before.pools.get(&name.pool)?, steered)
    }

    fn steer(&mut self, name: &'a SteeredName) -> Option<()> {
        let pool = self.after.pools.get(&name.pool)?;
        let Spot { zone, hider: None } = Spot::of(self.text, &name.name)? else { return None };
        self.steered_in[usize::from(zone)] += 1;
        let number = self.pools.steered(name, pool, &mut self.entries);
        let entry = self.intern(name.name.as_wire(), zone);
        self.entries.steer(entry, number);
        let (steered, _) = self.pools.of(number)?;
        let mut types = self.below(name.name.as_wire()).into_iter().flat_map(Node::sets).map(RrSet::rtype);
        (!types.any(|rtype| Mixed::of(rtype, &steered).is_some())).then_some(())
    }

    /// Makes a name of a zone known, with every name that exists because of it.
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

    /// Takes a name away that is not steered, and those that were there because of it; not if others hold it up.
    fn prune(&mut self, name: &[u8]) -> Option<()> {
        let Some(entry) = self.find(name) else { return Some(()) };
        if self.entries.node(entry).steered() != 0 || self.is_held_up(name)? {
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
        self.prune(parent)
    }

    /// Whether a name exists in the upper layer because of others; none where that is not plain to see.
    fn is_held_up(&self, name: &[u8]) -> Option<bool> {
        let owner = Name::from_wire(name).ok()?;
        if self.previous.cluster_names.contains(&owner) {
            return Some(true);
        }
        if self.below(name).is_some() {
            let wildcard = [b"\x01*", name].concat();
            return Some(self.find(&wildcard).is_some() && self.holds_up_parent(&wildcard, name));
        }
        let (steered, clusters) = (&self.after.names, &self.previous.cluster_names);
        let steered = steered.after(&owner).next().map(|(below, _)| below);
        let clusters = clusters.range((Excluded(&owner), Unbounded)).next();
        let mut within = [steered, clusters].into_iter().flatten().filter(|below| below.is_within(&owner)).peekable();
        if within.peek().is_none() {
            return Some(false);
        }
        // A zone further down may stand between: then another one below may hold it up, or none.
        within.any(|below| self.holds_up(below.as_wire(), name)).then_some(true)
    }

    /// Whether a name exists because of one below it, and each name between the two as well.
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
