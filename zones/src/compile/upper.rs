//! Full compilation of the upper layer: the names of the desired state above the zones' text.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{
    AnswerMode, DesiredState, Diagnostic, FileLocation, Name, Pool, PoolName, RecordSet, Rtype, StableMap, SteeredName,
    Subject, Ttl, Visibility, mix,
};
use fairway_zonefile::ZoneData;

use super::{
    declared::{self, AtName},
    names::{is_wildcard, parent_of, same_name},
    sets::{self, TooLarge},
    steered::{Compiled, Pools, octets},
};
use crate::{
    entries::{EntryWriter, Head, Node, RrSet, UPPER},
    hash::digest,
    snapshot::{Layer, ServerOptions, Sizes, Snapshot, Steered, TextLayer},
    table::Table,
    wire::{ancestors, name_end, name_hash},
};

/// Compiles a desired state above the text of the zones. Returns errors with the other diagnostics.
///
/// `zones` are read only to locate the records of errors.
pub(super) fn compile(
    desired: &DesiredState,
    text: &Arc<TextLayer>,
    zones: &[ZoneData],
    options: &ServerOptions,
    previous: Option<&Snapshot>,
) -> (Snapshot, Vec<Diagnostic>) {
    let mut upper = Upper::new(desired, text, options, previous);
    upper.place_steered();
    upper.place_records();
    upper.place_cluster_names();
    upper.place_faults(zones);
    let numbers = upper.build_entries();
    let Upper { mut table, entries, pools, steered_in, labels_max, id, mut faults, cluster_names, .. } = upper;
    table.renumber(&numbers);
    let mut compiled = pools.finish();
    faults.append(&mut compiled.faults);
    compiled.id = compiled.id.wrapping_add(id).wrapping_add(text.id);
    let names = Names { table, entries, steered_in, labels_max, cluster_names: Arc::new(cluster_names) };
    (assemble(options, text, names, compiled, None), faults)
}

/// The compiled names of the upper layer.
pub(super) struct Names {
    pub(super) table: Table,
    pub(super) entries: EntryWriter,
    pub(super) steered_in: Vec<usize>,
    pub(super) labels_max: usize,
    pub(super) cluster_names: Arc<BTreeSet<Name>>,
}

/// Builds a snapshot from its parts. `whole` has the sizes at the last full compilation, or is `None` if this is one.
pub(super) fn assemble(
    options: &ServerOptions,
    text: &Arc<TextLayer>,
    names: Names,
    compiled: Compiled,
    whole: Option<Sizes>,
) -> Snapshot {
    let sizes = compiled.sizes(&names.entries);
    Snapshot {
        id: compiled.id,
        options: options.clone(),
        text: Arc::clone(text),
        upper: Layer { table: names.table, entries: names.entries.finish() },
        steered: compiled.steered.into(),
        answers: compiled.answers.into(),
        pools: compiled.pools.finish(),
        pool_infos: compiled.infos.finish(),
        pools_by_name: compiled.by_name,
        counters: compiled.counters.into(),
        slots: compiled.slots,
        targets: compiled.targets,
        target_uses: compiled.uses,
        ranking_cache: compiled.ranking_cache,
        placed: compiled.placed.into(),
        steered_in: names.steered_in.into(),
        cluster_names: names.cluster_names,
        labels_max: names.labels_max.max(text.labels_max),
        whole: whole.unwrap_or(sizes),
    }
}

struct Upper<'a> {
    desired: &'a DesiredState,
    /// Pools by name. Lookups are several times as fast as in an ordered map.
    declared: StableMap<&'a PoolName, &'a Pool>,
    text: &'a TextLayer,
    table: Table,
    drafts: Vec<Draft<'a>>,
    /// Declared sets with the index of their draft.
    records: Vec<(u32, &'a RecordSet)>,
    entries: EntryWriter,
    pools: Pools<'a>,
    steered_in: Vec<usize>,
    cluster_names: BTreeSet<Name>,
    labels_max: usize,
    id: u64,
    faults: Vec<Diagnostic>,
    /// Indices of the diagnostics about a record of a zone, whose location is found later.
    unplaced: HashMap<(u16, Name, Rtype), Vec<usize>>,
}

/// A node under construction.
struct Draft<'a> {
    name: &'a [u8],
    hash: u64,
    /// Node of this name in the zones' text.
    below: Option<u32>,
    zone: u16,
    /// See [`Node::steered`].
    steered: u32,
    /// Child `*` in this layer.
    wildcard: Option<u32>,
    /// Addresses of the cluster with this name.
    addresses: Option<(&'a [IpAddr], Ttl)>,
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
            Some((start, text.layer.find(name_hash(looked_up), looked_up)?))
        })?;
        let node = text.layer.entries.node(number);
        let hidden = !node.is(Node::OPEN) || (start > 0 && node.is(Node::DNAME));
        Some(Self { zone: node.zone(), hidden_by: hidden.then(|| node.occluder().unwrap_or(number)) })
    }
}

/// Conflict between a record and the pool of a steered name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolConflict {
    /// The pool answers addresses.
    Address,
    /// The record is a CNAME.
    Alias,
    /// The pool may answer with a CNAME, and nothing can be next to that.
    NextToAlias,
}

impl PoolConflict {
    /// Returns the conflict. A steered name owns its address types, and an alias owns all types.
    pub(super) fn of(rtype: Rtype, steered: &Steered) -> Option<Self> {
        match rtype {
            Rtype::A | Rtype::AAAA => Some(Self::Address),
            Rtype::CNAME => Some(Self::Alias),
            _ => (steered.cname || steered.fallback != Steered::NONE).then_some(Self::NextToAlias),
        }
    }
}

impl<'a> Upper<'a> {
    fn new(
        desired: &'a DesiredState,
        text: &'a TextLayer,
        options: &ServerOptions,
        previous: Option<&'a Snapshot>,
    ) -> Self {
        Self {
            desired,
            declared: desired.pools.iter().collect(),
            text,
            table: Table::with_room(desired.names.len()),
            drafts: Vec::with_capacity(desired.names.len()),
            records: Vec::with_capacity(desired.records.len()),
            entries: EntryWriter::default(),
            pools: Pools::new(desired, options, previous),
            steered_in: vec![0; text.zones.len()],
            cluster_names: BTreeSet::new(),
            labels_max: 0,
            id: 0,
            faults: Vec::new(),
            unplaced: HashMap::new(),
        }
    }

    fn place_steered(&mut self) {
        for name in self.desired.names.values() {
            let Some(pool) = self.declared.get(&name.pool).copied() else {
                let what = format!("{}: pool {} is not declared", name.name, name.pool);
                self.fault(&name.name, what, "declare it");
                continue;
            };
            let Some(ZonePosition { zone, hidden_by }) = ZonePosition::of(self.text, &name.name) else {
                let what = format!("{} is in no declared zone", name.name);
                let hint = "declare its zone, or fix the name";
                self.fault(&name.name, what, hint);
                continue;
            };
            self.steered_in[usize::from(zone)] += 1;
            if let Some(hidden_by) = hidden_by {
                self.reject_hidden(name, hidden_by);
                continue;
            }
            let steered = self.pools.steered(name, pool, &mut self.entries);
            let number = self.intern(name.name.as_wire(), zone);
            self.drafts[number as usize].steered = steered;
            self.reject_conflicts(number);
        }
    }

    /// Assigns declared sets to their names.
    fn place_records(&mut self) {
        let desired = self.desired;
        for set in desired.records.values() {
            if let Err((what, hint)) = self.place_record_set(set) {
                self.faults.push(declared::fault(set, what, hint));
            }
        }
        // In the order of the drafts, and by type within a name.
        self.records.sort_by_key(|(number, set)| (*number, set.rtype));
    }

    fn place_record_set(&mut self, set: &'a RecordSet) -> Result<(), (String, &'static str)> {
        let (name, rtype) = (&set.name, set.rtype);
        let Some(ZonePosition { zone, hidden_by }) = ZonePosition::of(self.text, name) else {
            return Err((format!("{name} {rtype} is in no declared zone"), "declare its zone, or fix the name"));
        };
        if hidden_by.is_some() {
            let what = format!("{name} {rtype} is hidden by a delegation or DNAME of the zone file");
            return Err((what, "remove one of the two"));
        }
        let hash = name_hash(name.as_wire());
        let steered = self.find(hash, name.as_wire()).map_or(0, |number| self.drafts[number as usize].steered);
        let text = self.text.layer.find(hash, name.as_wire()).map(|number| self.text.layer.entries.node(number));
        let at_name = AtName { text, steered: self.pools.of(steered) };
        if let Some(refusal) = declared::refusal(self.desired, set, &at_name) {
            return Err(refusal);
        }
        let number = self.intern(name.as_wire(), zone);
        self.records.push((number, set));
        Ok(())
    }

    /// Adds the addresses of clusters that pools answer by name, so that they follow in the same answer.
    ///
    /// The name must be in our zones, without addresses or CNAME in the text or declared. The name of an internal
    /// member exists in a public zone, but without addresses.
    fn place_cluster_names(&mut self) {
        let desired = self.desired;
        for (name, addresses) in cluster_names(desired) {
            let Some(ZonePosition { zone, hidden_by: None }) = ZonePosition::of(self.text, name) else { continue };
            if declared::is_below_declared(desired, name) {
                continue;
            }
            let wire = name.as_wire();
            let known = self.text.layer.find(name_hash(wire), wire).map(|number| self.text.layer.entries.node(number));
            let speaks = |rtype| matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME);
            let of_text = known.into_iter().flat_map(Node::sets).map(RrSet::rtype);
            let declared = desired.records_at(name).map(|set| set.rtype);
            if !of_text.chain(declared).any(speaks) {
                let number = self.intern(wire, zone) as usize;
                self.cluster_names.insert(name.clone());
                self.drafts[number].addresses = addresses.filter(|_| self.drafts[number].steered == 0);
            }
        }
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| same_name(name, self.drafts[number as usize].name))
    }

    /// Adds a name, with every name between it and the next that exists (RFC 4592 section 2.2.2).
    fn intern(&mut self, name: &'a [u8], zone: u16) -> u32 {
        let hash = name_hash(name);
        if let Some(known) = self.find(hash, name) {
            return known;
        }
        let below = self.text.layer.find(hash, name);
        let is_apex = below.is_some_and(|number| self.text.layer.entries.node(number).is(Node::APEX));
        let parent = parent_of(name);
        let number = self.drafts.len() as u32;
        self.insert(Draft { name, hash, below, zone, steered: 0, wildcard: None, addresses: None });
        if is_wildcard(name) && !is_apex {
            let parent = self.intern(parent, zone);
            self.drafts[parent as usize].wildcard = Some(number);
        } else if below.is_none() && self.text.layer.find(name_hash(parent), parent).is_none() {
            self.intern(parent, zone);
        }
        number
    }

    fn insert(&mut self, draft: Draft<'a>) {
        self.table.make_room(self.drafts.iter().map(|draft| draft.hash));
        self.labels_max = self.labels_max.max(name_end(draft.name, 0).map_or(0, |(_, labels)| usize::from(labels)));
        self.table.place(draft.hash, self.drafts.len() as u32);
        self.drafts.push(draft);
    }

    /// Writes the entries and returns their numbers.
    fn build_entries(&mut self) -> Vec<u32> {
        let Self { text, drafts, records, entries, faults, .. } = self;
        let below = |draft: &Draft<'_>| Some(text.layer.entries.node(draft.below?));
        let mut numbers = Vec::with_capacity(drafts.len());
        let mut records = &records[..];
        for (draft, at) in drafts.iter().zip(0..) {
            let below = below(draft);
            let count = records.iter().take_while(|(number, _)| *number == at).count();
            let (declared, rest) = records.split_at(count);
            records = rest;
            let sets = declared.iter().map(|(_, set)| *set);
            let flags = declared::flags(below.map_or(Node::OPEN, Node::flags), sets.clone());
            let entry = entries.begin_entry(draft.name, Head { flags, zone: draft.zone, steered: draft.steered });
            if let Some(below) = below {
                entries.copy_sets(entry, below);
            }
            let own = draft.addresses.map(|(addresses, ttl)| write_addresses(entries, addresses, ttl));
            for set in own.unwrap_or_default() {
                entries.count_set(entry);
                self.id = self.id.wrapping_add(set_id(entries.set(set), draft.hash));
            }
            for set in sets {
                match declared::write(entries, entry, set, &text.zones[usize::from(draft.zone)].origin) {
                    Ok(written) => self.id = self.id.wrapping_add(set_id(written, draft.hash)),
                    Err(too_large) => {
                        let what = too_large.message(&set.name, set.rtype);
                        faults.push(declared::fault(set, what, &TooLarge::hint()));
                    }
                }
            }
            numbers.push(entry);
        }
        for (draft, number) in drafts.iter().zip(&numbers) {
            let own = draft.wildcard.map(|number| numbers[number as usize] | UPPER);
            if let Some(wildcard) = own.or_else(|| below(draft)?.wildcard()) {
                entries.link(*number, wildcard);
            }
        }
        numbers
    }

    /// Reports records at a steered name that conflict with its pool.
    fn reject_conflicts(&mut self, number: u32) {
        let draft = &self.drafts[number as usize];
        let Some(below) = draft.below.map(|below| self.text.layer.entries.node(below)) else { return };
        let Some((steered, pool)) = self.pools.of(draft.steered) else { return };
        let (zone, owner) = (draft.zone, Name::from_wire(draft.name).expect("a name of the configuration"));
        let mut faults = Vec::new();
        for rtype in below.sets().map(RrSet::rtype) {
            let Some(conflict) = PoolConflict::of(rtype, &steered) else { continue };
            let (what, hint) = match conflict {
                PoolConflict::Address => (
                    format!("{owner} {rtype} is in the zone file, but pool {pool} answers this name's addresses"),
                    "remove the record, or the name from the steered names",
                ),
                PoolConflict::Alias => (
                    format!("{owner} has a CNAME in the zone file, but pool {pool} answers this name"),
                    "remove the record, or the name from the steered names",
                ),
                PoolConflict::NextToAlias => (
                    format!(
                        "{owner} {rtype} is next to the CNAME that pool {pool} answers with (RFC 1034 section 3.6.2)"
                    ),
                    "remove the record, or give the pool mode address and fallback addresses",
                ),
            };
            faults.push((rtype, what, hint));
        }
        for (rtype, what, hint) in faults {
            self.refuse(&owner, (zone, owner.clone(), rtype), what, hint);
        }
    }

    /// Reports a steered name at or below a delegation or DNAME, which would never be answered.
    fn reject_hidden(&mut self, name: &SteeredName, hidden_by: u32) {
        let node = self.text.layer.entries.node(hidden_by);
        let owner = Name::from_wire(node.name()).expect("a name of a zone");
        let rtype = if node.is(Node::CUT) { Rtype::NS } else { Rtype::DNAME };
        let what = format!("the steered name {} is hidden by this {rtype} record", name.name);
        self.refuse(&name.name, (node.zone(), owner, rtype), what, "remove one of the two");
    }

    /// Reports an error about a steered name, at the location of a zone's record.
    fn refuse(&mut self, name: &Name, record: (u16, Name, Rtype), what: String, hint: &str) {
        self.unplaced.entry(record).or_default().push(self.faults.len());
        self.fault(name, what, hint);
    }

    fn fault(&mut self, name: &Name, what: String, hint: &str) {
        let fault = Diagnostic::error(FileLocation::file(CONFIGURATION), what, hint);
        self.faults.push(fault.about(Subject::Name(name.clone())));
    }

    /// Sets the locations of errors about records, in one walk over the text. Without the text they keep theirs.
    fn place_faults(&mut self, zones: &[ZoneData]) {
        if self.unplaced.is_empty() {
            return;
        }
        let numbers: HashMap<&Name, u16> = self.text.zones.iter().map(|zone| &zone.origin).zip(0..).collect();
        for text in zones {
            let Some(&number) = numbers.get(&text.origin) else { continue };
            for record in &text.records {
                if self.unplaced.is_empty() {
                    return;
                }
                for fault in self.unplaced.remove(&(number, record.owner.clone(), record.rtype)).unwrap_or_default() {
                    self.faults[fault].location = text.place(record);
                }
            }
        }
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

/// Returns the part of a set in the id, for a name with this hash.
pub(super) fn set_id(set: RrSet<'_>, name: u64) -> u64 {
    mix(digest(set.records()) ^ name)
}

/// Writes the addresses of a cluster and returns the numbers of their sets.
fn write_addresses(entries: &mut EntryWriter, addresses: &[IpAddr], ttl: Ttl) -> Vec<u32> {
    let mut written = Vec::new();
    for (rtype, v4) in [(Rtype::A, true), (Rtype::AAAA, false)] {
        let rdatas: Vec<_> = addresses.iter().filter(|a| a.is_ipv4() == v4).map(octets).collect();
        if !rdatas.is_empty() {
            let rdatas = rdatas.iter().map(Vec::as_slice);
            written.push(sets::write_small(entries, rtype, ttl, rdatas));
        }
    }
    written
}

/// File name in errors about the desired state.
pub(super) const CONFIGURATION: &str = "configuration";
