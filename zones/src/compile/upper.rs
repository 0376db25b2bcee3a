//! Compiles the upper layer: the names of the desired state above the zones' text.
//!
//! A full compilation writes every name to an empty layer. An incremental one (`incremental.rs`) continues the layer of
//! the previous snapshot and writes the changed names with the same functions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use fairway_model::{
    AnswerMode, DesiredState, Diagnostic, Name, Pool, PoolName, RecordSet, Rtype, SteeredName, Ttl, Visibility, mix,
};
use fairway_zonefile::ZoneData;

use super::{
    alias_loops,
    declared::{self, AtName},
    faults::Faults,
    names::{is_wildcard, parent_of},
    sets::{SetContext, TooLarge},
    steered::{Pools, octets},
};
use crate::{
    entries::{EntryWriter, Head, Node, RrSet, UPPER},
    hash::digest,
    snapshot::{Layer, ServerOptions, Sizes, Snapshot, Steered, TextLayer},
    table::Table,
    wire::{ancestors, name_end},
};

/// Compiles a desired state above the text of the zones. Returns errors with the other diagnostics.
///
/// `zones` are read only to locate the records of errors. Returns `None` if the key spreads the names badly.
pub(super) fn compile(
    desired: &DesiredState,
    text: &Arc<TextLayer>,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> Option<(Snapshot, Vec<Diagnostic>)> {
    let mut upper = Upper::new(desired, text, options, previous);
    upper.write_names();
    if upper.table.is_crowded() {
        return None;
    }
    let mut faults = std::mem::take(&mut upper.faults);
    let mut of_pools = std::mem::take(&mut upper.pools.faults);
    let snapshot = upper.finish(None);
    alias_loops::report(&snapshot, &mut faults);
    let mut faults = faults.located(text, zones);
    faults.append(&mut of_pools);
    Some((snapshot, faults))
}

/// The upper layer under compilation.
pub(super) struct Upper<'a> {
    pub(super) desired: &'a DesiredState,
    /// Pools by name, in a full compilation. Lookups are several times as fast as in an ordered map.
    declared: HashMap<&'a PoolName, &'a Pool>,
    pub(super) text: &'a Arc<TextLayer>,
    options: &'a ServerOptions,
    pub(super) table: Table,
    pub(super) entries: EntryWriter,
    pub(super) pools: Pools<'a>,
    pub(super) steered_in: Vec<usize>,
    pub(super) cluster_names: Arc<BTreeSet<Name>>,
    labels_max: usize,
    pub(super) faults: Faults,
}

/// Position of a name in the zones' text.
pub(super) struct ZonePosition {
    pub(super) zone: u16,
    /// Delegation or DNAME that hides the name.
    pub(super) hidden_by: Option<u32>,
}

impl ZonePosition {
    /// Returns the position of a name. `None` if it is in no zone.
    pub(super) fn of(text: &TextLayer, name: &Name) -> Option<Self> {
        let (wire, labels) = (name.as_wire(), name.label_count());
        let mut known = [(labels, 0)].into_iter().chain(ancestors(wire, labels));
        let (start, number) = known.find_map(|(labels, start)| {
            let looked_up = (labels <= text.labels_max).then(|| &wire[start..])?;
            Some((start, text.layer.find(text.key.hash(looked_up), looked_up)?))
        })?;
        let node = text.layer.entries.node(number);
        let hidden = !node.is(Node::OPEN) || (start > 0 && node.is(Node::DNAME));
        Some(Self { zone: node.zone(), hidden_by: hidden.then(|| node.occluder().unwrap_or(number)) })
    }
}

/// True if a record of this type cannot be at a steered name. The name owns its address types, and a CNAME, of which
/// the pool may be one, owns all types.
pub(super) fn conflicts(rtype: Rtype, steered: &Steered) -> bool {
    let may_be_alias = steered.cname || steered.fallback != Steered::NONE;
    may_be_alias || matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME)
}

impl<'a> Upper<'a> {
    /// Returns a layer without names.
    fn new(
        desired: &'a DesiredState,
        text: &'a Arc<TextLayer>,
        options: &'a ServerOptions,
        previous: Option<&'a Snapshot>,
    ) -> Self {
        Self {
            desired,
            declared: desired.pools.iter().collect(),
            text,
            options,
            table: Table::with_room(desired.names.len() + desired.records.len()),
            entries: EntryWriter::default(),
            pools: Pools::new(desired, options, text, previous),
            steered_in: vec![0; text.zones.len()],
            cluster_names: Arc::default(),
            labels_max: 0,
            faults: Faults::default(),
        }
    }

    /// Returns the layer of a snapshot, to write some names again.
    pub(super) fn after(desired: &'a DesiredState, previous: &'a Snapshot) -> Self {
        Self {
            desired,
            declared: HashMap::default(),
            text: &previous.text,
            options: &previous.options,
            table: previous.upper.table.clone(),
            entries: EntryWriter::after(&previous.upper.entries),
            pools: Pools::after(desired, previous),
            steered_in: previous.steered_in.to_vec(),
            cluster_names: Arc::clone(&previous.cluster_names),
            labels_max: previous.labels_max,
            faults: Faults::default(),
        }
    }

    /// Builds the snapshot. `whole` has the sizes at the last full compilation, or is `None` if this is one.
    pub(super) fn finish(self, whole: Option<Sizes>) -> Snapshot {
        let Self { pools, entries, .. } = self;
        let sizes = pools.sizes(&entries);
        Snapshot {
            id: pools.id,
            options: self.options.clone(),
            text: Arc::clone(self.text),
            upper: Layer { table: self.table, entries: entries.finish() },
            steered: pools.steered.into(),
            answers: pools.answers.into(),
            pools: pools.pools.finish(),
            pool_infos: pools.infos.finish(),
            pools_by_name: pools.by_name,
            counters: pools.counters.into(),
            slots: pools.slots,
            targets: pools.targets.finish(),
            target_uses: pools.uses,
            ranking_cache: pools.ranking_cache,
            steered_in: self.steered_in.into(),
            cluster_names: self.cluster_names,
            labels_max: self.labels_max.max(self.text.labels_max),
            whole: whole.unwrap_or(sizes),
            load_classes: OnceLock::new(),
        }
    }

    /// Writes all names of the desired state. Names with records come first, so that each is written once.
    ///
    /// Ends early if the table is crowded, since the result is then discarded.
    fn write_names(&mut self) {
        let desired = self.desired;
        let clusters = self.cluster_sets();
        for (name, (zone, sets)) in &clusters {
            let sets: Vec<_> = sets.iter().chain(desired.records_at(name)).collect();
            self.write_entry(name.as_wire(), *zone, &sets);
        }
        let mut last = None;
        for name in desired.records.values().map(|set| &set.name) {
            if self.table.is_crowded() {
                return;
            }
            if last.replace(name) != Some(name) && !clusters.contains_key(name) {
                self.write_records(name);
            }
        }
        self.cluster_names = Arc::new(clusters.into_keys().cloned().collect());
        for name in desired.names.values() {
            if self.table.is_crowded() {
                return;
            }
            self.steer(name);
        }
        for set in desired.records.values() {
            self.check(set);
        }
    }

    /// Returns the addresses of clusters that pools answer by name, which follow in the same answer, with their zone.
    ///
    /// The name must be in our zones, without addresses or CNAME in the text or declared. The name of an internal
    /// member exists in a public zone, but without addresses. So does a steered name.
    fn cluster_sets(&self) -> BTreeMap<&'a Name, (u16, Vec<RecordSet>)> {
        let mut clusters = BTreeMap::new();
        for (name, addresses) in cluster_names(self.desired) {
            let Some(ZonePosition { zone, hidden_by: None }) = ZonePosition::of(self.text, name) else { continue };
            if declared::is_below_declared(self.desired, name) {
                continue;
            }
            let is_address_or_alias = |rtype| matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME);
            let in_text = self.below(name.as_wire()).into_iter().flat_map(Node::sets).map(RrSet::rtype);
            let declared = self.desired.records_at(name).map(|set| set.rtype);
            if !in_text.chain(declared).any(is_address_or_alias) {
                let addresses = addresses.filter(|_| !self.desired.names.contains_key(name));
                let sets = addresses.map_or_else(Vec::new, |(addresses, ttl)| address_sets(name, addresses, ttl));
                clusters.insert(name, (zone, sets));
            }
        }
        clusters
    }

    /// Steers a name by its pool.
    pub(super) fn steer(&mut self, name: &'a SteeredName) {
        let known = self.declared.get(&name.pool).copied();
        let Some(pool) = known.or_else(|| self.desired.pools.get(&name.pool)) else {
            let what = format!("{}: pool {} is not declared", name.name, name.pool);
            return self.faults.about_name(&name.name, what, "declare it");
        };
        let Some(ZonePosition { zone, hidden_by }) = ZonePosition::of(self.text, &name.name) else {
            let what = format!("{} is in no declared zone", name.name);
            return self.faults.about_name(&name.name, what, "declare its zone, or fix the name");
        };
        if let Some(hidden_by) = hidden_by {
            return self.reject_hidden(name, hidden_by);
        }
        self.steered_in[usize::from(zone)] += 1;
        let steered = self.pools.steered(name, pool, &mut self.entries);
        let entry = self.intern(name.name.as_wire(), zone);
        self.entries.steer(entry, steered);
        if self.entries.node(entry).set_count() > 0 {
            self.reject_conflicts(name, zone, steered);
        }
    }

    /// Writes a name with the records that are declared for it, unless [`Upper::check`] will reject them.
    pub(super) fn write_records(&mut self, name: &Name) {
        if let Some(ZonePosition { zone, hidden_by: None }) = ZonePosition::of(self.text, name) {
            let sets: Vec<_> = self.desired.records_at(name).collect();
            self.write_entry(name.as_wire(), zone, &sets);
        }
    }

    /// Reports a declared set that cannot be served. Its name was written and steered before.
    pub(super) fn check(&mut self, set: &RecordSet) {
        let (name, rtype) = (&set.name, set.rtype);
        let refusal = match self.find(name.as_wire()) {
            Some(entry) => {
                let steered = self.pools.of(self.entries.node(entry).steered());
                declared::refusal(self.desired, set, &AtName { text: self.below(name.as_wire()), steered })
            }
            None if ZonePosition::of(self.text, name).is_none() => {
                Some((format!("{name} {rtype} is in no declared zone"), "declare its zone, or fix the name"))
            }
            None => {
                let what = format!("{name} {rtype} is hidden by a delegation or DNAME of the zone file");
                Some((what, "remove one of the two"))
            }
        };
        if let Some((what, hint)) = refusal {
            self.faults.push(declared::fault(set, what, hint));
        }
    }

    /// Returns the entry of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        self.table.find(self.text.key.hash(name), |number| self.entries.node(number).is_called(name))
    }

    /// Returns the node of a name in the zones' text.
    pub(super) fn below(&self, name: &[u8]) -> Option<Node<'a>> {
        let text: &'a TextLayer = self.text;
        text.layer.find(text.key.hash(name), name).map(|number| text.layer.entries.node(number))
    }

    /// True if the parent exists because of the child (RFC 4592 section 2.2.2).
    pub(super) fn holds_up_parent(&self, child: &[u8], parent: &[u8]) -> bool {
        let below = self.below(child);
        if is_wildcard(child) && !below.is_some_and(|node| node.is(Node::APEX)) {
            return true;
        }
        below.is_none() && self.below(parent).is_none()
    }

    /// Returns the entry of a name. Writes it if it is new.
    fn intern(&mut self, name: &[u8], zone: u16) -> u32 {
        self.find(name).unwrap_or_else(|| self.write_entry(name, zone, &[]))
    }

    /// Writes a name with its records in the text and these sets, and the names that exist because of it.
    ///
    /// A previous entry of the name passes on its pool and its wildcard.
    fn write_entry(&mut self, name: &[u8], zone: u16, sets: &[&RecordSet]) -> u32 {
        let (key, below, old) = (&self.text.key, self.below(name), self.find(name));
        let (mut steered, mut wildcard) = (0, below.and_then(Node::wildcard));
        if let Some(node) = old.map(|old| self.entries.node(old)) {
            (steered, wildcard) = (node.steered(), node.wildcard());
            let is_own = |set: &RrSet<'_>| below.is_none_or(|below| below.set(set.rtype()).is_none());
            for set in node.sets().filter(is_own) {
                self.pools.sum_id(set_id(set, node).wrapping_neg());
            }
        }
        let flags = declared::flags(below.map_or(Node::OPEN, Node::flags), sets.iter().copied());
        let entry = self.entries.begin_entry(name, Head { flags, zone, steered });
        below.into_iter().for_each(|below| self.entries.copy_sets(entry, below));
        for set in sets {
            let context = SetContext { key, origin: &self.text.zones[usize::from(zone)].origin, node: None };
            match declared::write(&mut self.entries, entry, set, context) {
                Ok(written) => self.pools.sum_id(set_id(self.entries.set(written), self.entries.node(entry))),
                Err(too_large) => {
                    let what = too_large.message(&set.name, set.rtype);
                    self.faults.push(declared::fault(set, what, &TooLarge::hint()));
                }
            }
        }
        wildcard.into_iter().for_each(|wildcard| self.entries.link(entry, wildcard));
        let entries = &self.entries;
        let hash_of = |number: u32| key.hash(entries.node(number).name());
        old.into_iter().for_each(|old| self.table.remove(key.hash(name), old, hash_of));
        self.table.add(key.hash(name), entry, hash_of);
        self.labels_max = self.labels_max.max(name_end(name, 0).map_or(0, |(_, labels)| usize::from(labels)));
        if self.holds_up_parent(name, parent_of(name)) {
            let parent = self.intern(parent_of(name), zone);
            if is_wildcard(name) {
                self.entries.link(parent, entry | UPPER);
            }
        }
        entry
    }

    /// Reports records at a steered name that conflict with its pool.
    fn reject_conflicts(&mut self, name: &SteeredName, zone: u16, steered: u32) {
        let (owner, pool) = (&name.name, &name.pool);
        let Some((steered, _)) = self.pools.of(steered) else { return };
        let in_text = self.below(owner.as_wire()).into_iter().flat_map(Node::sets).map(RrSet::rtype);
        for rtype in in_text.filter(|rtype| conflicts(*rtype, &steered)) {
            let (what, hint) = match rtype {
                Rtype::A | Rtype::AAAA => (
                    format!("{owner} {rtype} is in the zone file, but pool {pool} answers this name's addresses"),
                    "remove the record, or the name from the steered names",
                ),
                Rtype::CNAME => (
                    format!("{owner} has a CNAME in the zone file, but pool {pool} answers this name"),
                    "remove the record, or the name from the steered names",
                ),
                _ => (
                    format!(
                        "{owner} {rtype} is next to the CNAME that pool {pool} answers with (RFC 1034 section 3.6.2)"
                    ),
                    "remove the record, or give the pool mode address and fallback addresses",
                ),
            };
            self.faults.at_record(owner, (zone, owner.clone(), rtype), what, hint);
        }
    }

    /// Reports a steered name at or below a delegation or DNAME, which would never be answered.
    fn reject_hidden(&mut self, name: &SteeredName, hidden_by: u32) {
        let node = self.text.layer.entries.node(hidden_by);
        let owner = Name::from_wire(node.name()).expect("a name of a zone");
        let rtype = if node.is(Node::CUT) { Rtype::NS } else { Rtype::DNAME };
        let what = format!("the steered name {} is hidden by this {rtype} record", name.name);
        self.faults.at_record(&name.name, (node.zone(), owner, rtype), what, "remove one of the two");
    }
}

/// Returns the names of clusters that pools answer with, and their addresses and TTL unless these are hidden.
pub(super) fn cluster_names(desired: &DesiredState) -> BTreeMap<&Name, Option<(&[IpAddr], Ttl)>> {
    let mut wanted: BTreeMap<&Name, Option<(&[IpAddr], Ttl)>> = BTreeMap::new();
    for pool in desired.pools.values().filter(|pool| pool.mode == AnswerMode::Cname) {
        for member in &pool.members {
            let Some(cluster) = desired.clusters.get(&member.cluster) else { continue };
            let Some(name) = &cluster.dns_name else { continue };
            let entry = wanted.entry(name).or_default();
            let is_public = || desired.zone_of(name).is_none_or(|zone| zone.visibility == Visibility::Public);
            if !(member.internal && is_public()) {
                let (_, ttl) = entry.get_or_insert((&cluster.addresses[..], pool.ttl));
                *ttl = pool.ttl.min(*ttl);
            }
        }
    }
    wanted
}

/// Returns the part of a set in the id, for the name of a node.
pub(super) fn set_id(set: RrSet<'_>, node: Node<'_>) -> u64 {
    mix(digest(set.records()) ^ digest(node.name()))
}

/// Returns the addresses of a cluster as record sets.
fn address_sets(name: &Name, addresses: &[IpAddr], ttl: Ttl) -> Vec<RecordSet> {
    let set = |(rtype, is_v4)| {
        let of_family = addresses.iter().filter(|address| address.is_ipv4() == is_v4);
        let rdatas = of_family.map(|address| octets(address).into()).collect();
        RecordSet { name: name.clone(), rtype, ttl, rdatas }
    };
    let sets = [(Rtype::A, true), (Rtype::AAAA, false)].map(set);
    sets.into_iter().filter(|set| !set.rdatas.is_empty()).collect()
}

/// File name in errors about the desired state.
pub(super) const CONFIGURATION: &str = "configuration";
