//! Compiles the records of zones to a layer of names.

use std::collections::BTreeMap;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, mix};
use fairway_zonefile::ZoneData;

use super::{
    names::Names,
    nodes::{Origins, RecordAtNode},
    sets::{self, Mention, SetContext, TooLarge},
};
use crate::{
    entries::{EntryWriter, Extra, Head, Node},
    hash::digest,
    snapshot::{Layer, TextLayer, Zone},
    tally::OTHER_ZONES,
    wire::{NameKey, ancestors},
};

/// Compiles the text of zones with a key for the hashes of its names. Returns errors with the other diagnostics, or `None`
/// if the key spreads the names badly.
pub(super) fn compile(zones: &[ZoneData], key: NameKey) -> Option<(TextLayer, Vec<Diagnostic>)> {
    let mut compiler = Compiler::new(zones, key);
    compiler.place_records();
    if compiler.names.table.is_crowded() {
        return None;
    }
    compiler.names.occlude();
    compiler.build_entries();
    compiler.build_zones();
    let extras = compiler.link_extras();
    compiler.build_answers(&extras);
    Some(compiler.finish(extras))
}

/// Zones under compilation.
pub(super) struct Compiler<'a> {
    pub(super) origins: Origins<'a>,
    pub(super) names: Names<'a>,
    pub(super) at_nodes: Vec<RecordAtNode>,
    pub(super) entries: EntryWriter,
    /// Entry of each name.
    pub(super) numbers: Vec<u32>,
    mentions: Vec<Mention>,
    pub(super) zones: Vec<Zone>,
    pub(super) faults: Vec<Diagnostic>,
    /// Sum of the hashes of all records.
    id: u64,
}

impl<'a> Compiler<'a> {
    fn new(zones: &'a [ZoneData], key: NameKey) -> Self {
        let records: usize = zones.iter().map(|z| z.records.len()).sum();
        let mut names = Names::with_room(key, records + 16);
        let origins = Origins::new(zones);
        for (number, zone) in origins.zones.iter().enumerate() {
            names.apex(&zone.origin, number as u16);
        }
        Self {
            origins,
            names,
            at_nodes: Vec::with_capacity(records),
            entries: EntryWriter::default(),
            numbers: Vec::new(),
            mentions: Vec::new(),
            zones: Vec::new(),
            faults: Vec::new(),
            id: 0,
        }
    }

    /// Writes each name with its record sets.
    fn build_entries(&mut self) {
        self.at_nodes.sort_by_key(|p| (p.node, p.rtype, p.zone, p.record));
        let at_nodes = std::mem::take(&mut self.at_nodes);
        self.entries.reserve(self.names.drafts.len() * OCTETS_USUAL);
        self.numbers.reserve_exact(self.names.drafts.len());
        let mut rest = &at_nodes[..];
        for node in 0..self.names.drafts.len() as u32 {
            let own = rest.iter().take_while(|p| p.node == node).count();
            let (own, others) = rest.split_at(own);
            rest = others;
            self.build_entry(node, own);
        }
        self.at_nodes = at_nodes;
        self.link_entries();
    }

    /// Links each name with its wildcard or with the node that hides it, and each CNAME with its target.
    fn link_entries(&mut self) {
        for (draft, number) in self.names.drafts.iter().zip(&self.numbers) {
            if let Some(to) = draft.link() {
                self.entries.link(*number, self.numbers[to as usize]);
            }
            if draft.is(Node::ALIAS)
                && let Some((set, target)) = self.alias_of(*number)
            {
                self.entries.set_target(set, target);
            }
        }
    }

    /// Returns the CNAME of an entry, and the entry of its target if that is open.
    fn alias_of(&self, entry: u32) -> Option<(u32, u32)> {
        let (number, set) = self.entries.sets_of(entry).find(|(_, set)| set.rtype() == Rtype::CNAME)?;
        let alias = set.details()?.alias()?;
        let target = self.names.find_hashed(alias.name, alias.hash)? as usize;
        self.names.drafts[target].is(Node::OPEN).then_some((number, self.numbers[target]))
    }

    fn build_entry(&mut self, node: u32, at_nodes: &[RecordAtNode]) {
        let draft = &self.names.drafts[node as usize];
        let head = Head { flags: draft.flags, zone: draft.zone, steered: 0 };
        let number = self.entries.begin_entry(draft.name, head);
        let name_id = digest(self.entries.node(number).name());
        self.numbers.push(number);
        for group in at_nodes.chunk_by(|a, b| a.rtype == b.rtype) {
            if let Some(set) = self.build_set(node, group) {
                self.entries.count_set(number);
                self.id = self.id.wrapping_add(mix(digest(self.entries.set(set).records()) ^ name_id));
            }
        }
    }

    fn build_set(&mut self, node: u32, group: &[RecordAtNode]) -> Option<u32> {
        let Self { origins, names, entries, mentions, faults, .. } = self;
        let rtype = group[0].rtype;
        let records = || group.iter().map(|p| origins.record(p));
        // A set has one TTL, the smallest (RFC 2181 section 5.2). Loading the zone has warned of others.
        let ttl = records().map(|r| r.ttl.secs()).min().unwrap_or(0);
        // Zone of the name. A parent's DS contains no names of it.
        let origin = &origins.zones[usize::from(names.drafts[node as usize].zone)].origin;
        let context = SetContext { key: &names.key, origin, node: Some(node) };
        match sets::write(entries, rtype, ttl, records().map(|r| &*r.rdata), context, mentions) {
            Ok(number) => Some(number),
            Err(too_large) => {
                let what = too_large.message(&origins.record(&group[0]).owner, rtype);
                faults.push(Diagnostic::error(origins.place(&group[0]), what, TooLarge::hint()));
                None
            }
        }
    }

    /// Writes the SOA of each zone as in negative answers (RFC 2308 section 5).
    fn build_zones(&mut self) {
        for number in 0..self.origins.zones.len() {
            let zone = self.origins.zones[number];
            let soa = zone.records.iter().find(|r| r.rtype == Rtype::SOA && r.owner == zone.origin);
            if soa.is_none() {
                let file = zone.files.first().map_or("", |f| f);
                let what = format!("zone {} has no SOA record at its apex", zone.origin);
                self.faults.push(Diagnostic::error(
                    FileLocation::file(file),
                    what,
                    "add an SOA record (RFC 1035 section 3.3.13)",
                ));
            }
            let rdata: &[u8] = soa.map_or(&[], |soa| &soa.rdata);
            let field = |from_end: usize| {
                let at = rdata.len().checked_sub(from_end)?;
                Some(u32::from_be_bytes(rdata[at..at + 4].try_into().ok()?))
            };
            let ttl = soa.map_or(0, |soa| soa.ttl.secs()).min(field(4).unwrap_or(0));
            let context = SetContext { key: &self.names.key, origin: &zone.origin, node: None };
            let rdatas = std::iter::once(rdata);
            let negative = sets::write(&mut self.entries, Rtype::SOA, ttl, rdatas, context, &mut self.mentions);
            self.zones.push(Zone {
                origin: zone.origin.clone(),
                serial: field(20).unwrap_or(0),
                records: zone.records.len(),
                origin_len: zone.origin.as_wire().len() as u8,
                negative: negative
                    .unwrap_or_else(|_| unreachable!("an SOA is two names and five numbers: it always fits")),
                denial: 0, // given with the other whole answers
                parent: self.parent_of(&zone.origin),
                row: OTHER_ZONES, // given later
            });
        }
    }

    /// Returns the zone of a zone's delegation: the closest one above, unless it delegates a name between the two.
    fn parent_of(&self, origin: &Name) -> Option<u16> {
        let wire = origin.as_wire();
        let mut above = ancestors(wire, origin.label_count()).map(|(_, start)| &wire[start..]);
        let closest = above.find_map(|name| self.names.find_hashed(name, self.names.key.hash(name)))?;
        let draft = &self.names.drafts[closest as usize];
        (draft.is(Node::OPEN) && !draft.is(Node::DNAME)).then_some(draft.zone)
    }

    /// Links each mentioned name with its address sets in the same zone, never with other data.
    fn link_extras(&mut self) -> Vec<Extra> {
        let mut all = Vec::new();
        let mentions = std::mem::take(&mut self.mentions);
        for group in mentions.chunk_by(|a, b| a.set == b.set) {
            let extras = self.extras_of(group);
            // A set of 65,535 octets mentions fewer names, and each has at most three sets.
            self.entries.set_extras(group[0].set, all.len() as u32, extras.len() as u16);
            all.extend(extras);
        }
        all
    }

    fn extras_of(&self, mentions: &[Mention]) -> Vec<Extra> {
        let Mention { node: owner, rtype, .. } = mentions[0];
        let draft = &self.names.drafts[owner as usize];
        let owner_name = Name::from_wire(draft.name).expect("a name of a zone");
        let delegation = draft.is(Node::CUT);
        let mut extras: Vec<Extra> = Vec::new();
        for mention in mentions {
            let number = mention.target.as_ref().map_or(Some(owner), |target| self.names.find(target));
            let Some((number, target)) = number.map(|n| (n, &self.names.drafts[n as usize])) else { continue };
            // NS at an apex needs no addresses, since the client has reached us.
            if target.zone != draft.zone || (rtype == Rtype::NS) != delegation {
                continue;
            }
            if !delegation && target.occluder().is_some() {
                continue;
            }
            let below = mention.target.as_ref().is_some_and(|target| target.is_within(&owner_name));
            let entry = self.numbers[number as usize];
            for (set, found) in self.entries.sets_of(entry) {
                // The target of a service record may have one itself, to which AliasMode leads (RFC 9460 section 4.1).
                let service = matches!(rtype, Rtype::SVCB | Rtype::HTTPS);
                let same = service && found.rtype() == rtype && set != mention.set;
                let wanted = matches!(found.rtype(), Rtype::A | Rtype::AAAA) || same;
                if wanted && !extras.iter().any(|e| e.set == set) {
                    extras.push(Extra { at: mention.at, set, required: delegation && below });
                }
            }
        }
        extras.sort_by_key(|e| !e.required);
        extras
    }

    fn finish(mut self, extras: Vec<Extra>) -> (TextLayer, Vec<Diagnostic>) {
        self.names.table.renumber(&self.numbers);
        let layer = TextLayer {
            key: self.names.key,
            layer: Layer { table: self.names.table, entries: self.entries.finish() },
            extras: extras.into(),
            zones: self.zones.into(),
            rows: BTreeMap::new(), // given later
            labels_max: self.names.labels_max,
            labels_min: self.origins.zones.first().map_or(0, |zone| zone.origin.label_count()),
            id: self.id,
        };
        (layer, self.faults)
    }
}

/// Bytes of most entries: a name of at most 24 octets and one record of 16.
const OCTETS_USUAL: usize = 64;
