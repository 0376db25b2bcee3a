//! What is wished for, and the records of the zones, to a [`Snapshot`].

mod names;
mod place;
mod sets;
mod steered;

use fairway_model::{Desired, Fault, Place, Rtype};

use self::{
    names::Names,
    place::{Origins, Placed},
    sets::{Mention, Whose},
};
use crate::{
    entries::{EntryWriter, Extra, Head, Node},
    snapshot::{ServerOptions, Snapshot, Zone, ZoneInfo},
    steer::{digest, mix},
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
    let mut compiler = Compiler::new(desired, zones);
    compiler.place_records();
    let steered = compiler.place_steered(previous);
    compiler.names.occlude();
    compiler.refuse_hidden_steered();
    compiler.build_entries();
    compiler.build_zones();
    let extras = compiler.link_extras();
    if compiler.faults.iter().any(Fault::is_error) {
        compiler.faults.sort();
        return Err(compiler.faults);
    }
    Ok(compiler.finish(options, steered, extras))
}

struct Compiler<'a> {
    desired: &'a Desired,
    origins: Origins<'a>,
    names: Names<'a>,
    placed: Vec<Placed>,
    entries: EntryWriter,
    /// The entry of each name.
    numbers: Vec<u32>,
    mentions: Vec<Mention>,
    zones: Vec<Zone>,
    faults: Vec<Fault>,
    /// Sum of hashes of all that was declared.
    id: u64,
}

impl<'a> Compiler<'a> {
    fn new(desired: &'a Desired, zones: &'a [ZoneData]) -> Self {
        let records: usize = zones.iter().map(|z| z.records.len()).sum();
        let mut names = Names::with_room(records + desired.names.len() + 16);
        let origins = Origins::new(zones);
        for (number, zone) in origins.zones.iter().enumerate() {
            names.apex(&zone.origin, number as u16);
        }
        Self {
            desired,
            origins,
            names,
            placed: Vec::with_capacity(records),
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
        self.placed.sort_by_key(|p| (p.node, p.rtype, p.zone, p.record));
        let placed = std::mem::take(&mut self.placed);
        self.entries.reserve(self.names.drafts.len() * OCTETS_USUAL);
        self.numbers.reserve_exact(self.names.drafts.len());
        let mut rest = &placed[..];
        for node in 0..self.names.drafts.len() as u32 {
            let own = rest.iter().take_while(|p| p.node == node).count();
            let (own, others) = rest.split_at(own);
            rest = others;
            self.build_entry(node, own);
        }
        self.placed = placed;
        self.link_entries();
    }

    /// Joins each name with its wildcard or with what hides it, and each CNAME with the node it leads to.
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

    /// The CNAME of an entry, and the entry it leads to if that is an open one.
    fn alias_of(&self, entry: u32) -> Option<(u32, u32)> {
        let (number, set) = self.entries.sets_of(entry).find(|(_, set)| set.rtype() == Rtype::CNAME)?;
        let alias = set.rest()?.alias()?;
        let target = self.names.find_hashed(alias.name, alias.hash)? as usize;
        self.names.drafts[target].is(Node::OPEN).then_some((number, self.numbers[target]))
    }

    fn build_entry(&mut self, node: u32, placed: &[Placed]) {
        let draft = &self.names.drafts[node as usize];
        let head = Head { flags: draft.flags, zone: draft.zone, steered: draft.steered };
        let (hash, number) = (draft.hash, self.entries.begin_entry(draft.name, head));
        self.numbers.push(number);
        for group in placed.chunk_by(|a, b| a.rtype == b.rtype) {
            if let Some(set) = self.build_set(node, group) {
                self.entries.count_set(number);
                self.id = self.id.wrapping_add(mix(digest(self.entries.set(set).records()) ^ hash));
            }
        }
    }

    fn build_set(&mut self, node: u32, group: &[Placed]) -> Option<u32> {
        let Self { origins, names, entries, mentions, faults, .. } = self;
        let rtype = group[0].rtype;
        let records = || group.iter().map(|p| origins.record(p));
        // One TTL a set, the smallest (RFC 2181 section 5.2); the check of the text has warned.
        let ttl = records().map(|r| r.ttl.secs()).min().unwrap_or(0);
        // The zone the name is in; a parent's DS has no names in it.
        let origin = &origins.zones[usize::from(names.drafts[node as usize].zone)].origin;
        let whose = Whose { origin, node: Some(node) };
        match sets::write(entries, rtype, ttl, records().map(|r| &*r.rdata), whose, mentions) {
            Ok(number) => Some(number),
            Err(sets::TooLarge(octets)) => {
                let what = format!("the {rtype} records of {} take {octets} octets", origins.record(&group[0]).owner);
                let way_out = format!("a message holds {}; give fewer or shorter records", sets::OCTETS_MAX);
                faults.push(Fault::error(origins.place(&group[0]), what, way_out));
                None
            }
        }
    }

    /// The SOA of each zone, as negative answers give it (RFC 2308 section 5).
    fn build_zones(&mut self) {
        let mut steered = vec![0; self.origins.zones.len()];
        for zone in self.desired.names.keys().filter_map(|name| self.origins.of(name)) {
            steered[usize::from(zone)] += 1;
        }
        for (number, steered) in steered.into_iter().enumerate() {
            let zone = self.origins.zones[number];
            let Some(soa) = zone.records.iter().find(|r| r.rtype == Rtype::SOA && r.owner == zone.origin) else {
                let file = zone.files.first().map_or("", |f| f);
                let what = format!("zone {} has no SOA record at its apex", zone.origin);
                self.faults.push(Fault::error(Place::file(file), what, "give it one (RFC 1035 section 3.3.13)"));
                continue;
            };
            let field = |from_end: usize| {
                let at = soa.rdata.len().checked_sub(from_end)?;
                Some(u32::from_be_bytes(soa.rdata[at..at + 4].try_into().ok()?))
            };
            let ttl = soa.ttl.secs().min(field(4).unwrap_or(0));
            let rdata = std::iter::once(&*soa.rdata);
            // An SOA is two names and five numbers: it always fits.
            let whose = Whose { origin: &zone.origin, node: None };
            let Ok(negative) = sets::write(&mut self.entries, Rtype::SOA, ttl, rdata, whose, &mut self.mentions) else {
                continue;
            };
            self.zones.push(Zone {
                info: ZoneInfo {
                    origin: zone.origin.clone(),
                    serial: field(20).unwrap_or(0),
                    records: zone.records.len(),
                    steered,
                },
                origin_len: zone.origin.as_wire().len() as u8,
                negative,
                parent: zone.origin.parent().and_then(|above| self.origins.of(&above)),
            });
        }
    }

    /// Joins each mentioned name with its address sets: those of the same zone only, never foreign data.
    fn link_extras(&mut self) -> Vec<Extra> {
        let mut all = Vec::new();
        let mentions = std::mem::take(&mut self.mentions);
        for group in mentions.chunk_by(|a, b| a.set == b.set) {
            let extras = self.extras_of(group);
            // A set of at most 65,535 octets mentions fewer names, and each has three kinds of sets at most.
            self.entries.set_extras(group[0].set, all.len() as u32, extras.len() as u16);
            all.extend(extras);
        }
        all
    }

    fn extras_of(&self, mentions: &[Mention]) -> Vec<Extra> {
        let Mention { node: owner, rtype, .. } = mentions[0];
        let draft = &self.names.drafts[owner as usize];
        let owner_name = draft.name.to_ascii_lowercase();
        let delegation = draft.is(Node::CUT);
        let mut extras: Vec<Extra> = Vec::new();
        for mention in mentions {
            let number = mention.target.as_ref().map_or(Some(owner), |target| self.names.find(target));
            let Some((number, target)) = number.map(|n| (n, &self.names.drafts[n as usize])) else { continue };
            // At an apex, NS needs nothing with it: whoever asks got here. Steered addresses are asked for by themselves.
            if target.zone != draft.zone || target.steered != 0 || (rtype == Rtype::NS) != delegation {
                continue;
            }
            if !delegation && target.occluder().is_some() {
                continue;
            }
            let below = mention.target.as_ref().is_some_and(|t| t.to_lowercase().as_wire().ends_with(&owner_name));
            let entry = self.numbers[number as usize];
            for (set, found) in self.entries.sets_of(entry) {
                // A service record's target may have one of its own: AliasMode leads there (RFC 9460 section 4.1).
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

    fn finish(
        mut self,
        options: &ServerOptions,
        steered: steered::Compiled,
        extras: Vec<Extra>,
    ) -> (Snapshot, Vec<Fault>) {
        self.names.table.renumber(&self.numbers);
        let id = self.id.wrapping_add(steered.id);
        let snapshot = Snapshot {
            id,
            options: options.clone(),
            table: self.names.table,
            entries: self.entries.finish(),
            extras: extras.into(),
            zones: self.zones.into(),
            steered: steered.steered.into(),
            answers: steered.answers.into(),
            pools: steered.pools.into(),
            pool_infos: steered.infos.into(),
            counters: steered.counters.into(),
            slots: steered.slots,
            slot_numbers: steered.slot_numbers,
            targets: steered.targets,
            labels_max: self.names.labels_max,
        };
        (snapshot, self.faults)
    }
}

/// Octets of the entry of most names: a name of 24 octets at most, one record of 16.
const OCTETS_USUAL: usize = 64;

/// Most zones: their numbers have 16 bits, and one number is taken.
const ZONES_MAX: usize = Placed::MADE as usize;
