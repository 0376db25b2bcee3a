//! What is wished for, and the records of the zones, to a [`Snapshot`].

mod names;
mod place;
mod sets;
mod steered;

use fairway_model::{Desired, Fault, Place, Rtype};

use self::{
    names::Names,
    place::{Origins, Placed},
    sets::{Mention, Sets},
};
use crate::{
    snapshot::{Extra, Node, ServerOptions, Snapshot, Zone, ZoneInfo},
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
    compiler.build_sets();
    compiler.build_zones();
    compiler.link_extras();
    if compiler.faults.iter().any(Fault::is_error) {
        compiler.faults.sort();
        return Err(compiler.faults);
    }
    Ok(compiler.finish(options, steered))
}

struct Compiler<'a> {
    desired: &'a Desired,
    origins: Origins<'a>,
    names: Names,
    placed: Vec<Placed>,
    sets: Sets,
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
            sets: Sets::default(),
            mentions: Vec::new(),
            zones: Vec::new(),
            faults: Vec::new(),
            id: 0,
        }
    }

    /// Groups the placed records by node and type, and writes each group.
    fn build_sets(&mut self) {
        self.placed.sort_by_key(|p| (p.node, p.rtype, p.zone, p.record));
        let placed = std::mem::take(&mut self.placed);
        for group in placed.chunk_by(|a, b| (a.node, a.rtype) == (b.node, b.rtype)) {
            self.build_set(group);
        }
        self.placed = placed;
    }

    fn build_set(&mut self, group: &[Placed]) {
        let Placed { node, rtype, .. } = group[0];
        let Self { origins, names, sets, mentions, faults, .. } = self;
        // The zone the name is in; a parent's DS has no names in it.
        let zone = origins.zones[usize::from(names.nodes[node as usize].zone)];
        let records = || group.iter().map(|p| origins.record(p));
        // One TTL a set, the smallest (RFC 2181 section 5.2); the check of the text has warned.
        let ttl = records().map(|r| r.ttl.secs()).min().unwrap_or(0);
        match sets.add(rtype, ttl, records().map(|r| &*r.rdata), &zone.origin, mentions) {
            Ok(number) => {
                let first = origins.record(&group[0]);
                sets.sets[number as usize].alias = names.alias(rtype, &first.rdata);
                self.attach(node, number);
                self.add_to_id(node, number);
            }
            Err(sets::TooLarge(octets)) => {
                let what = format!("the {rtype} records of {} take {octets} octets", origins.record(&group[0]).owner);
                let way_out = format!("a message holds {}; give fewer or shorter records", Sets::OCTETS_MAX);
                faults.push(Fault::error(origins.place(&group[0]), what, way_out));
            }
        }
    }

    /// Sets of one node lie next to each other: groups come sorted by node.
    fn attach(&mut self, node: u32, set: u32) {
        let node = &mut self.names.nodes[node as usize];
        if node.set_count == 0 {
            node.sets = set;
        }
        node.set_count += 1;
    }

    fn add_to_id(&mut self, node: u32, set: u32) {
        let blob = self.sets.blob(&self.sets.sets[set as usize]);
        self.id = self.id.wrapping_add(mix(digest(blob) ^ self.names.hashes[node as usize]));
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
            let Ok(negative) = self.sets.add(Rtype::SOA, ttl, rdata, &zone.origin, &mut self.mentions) else {
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
    fn link_extras(&mut self) {
        if self.mentions.is_empty() {
            return;
        }
        let mut owners = vec![Names::NONE; self.sets.sets.len()];
        for (number, node) in self.names.nodes.iter().enumerate() {
            owners[node.sets as usize..][..usize::from(node.set_count)].fill(number as u32);
        }
        let mentions = std::mem::take(&mut self.mentions);
        for group in mentions.chunk_by(|a, b| a.set == b.set) {
            let owner = owners[group[0].set as usize];
            if owner == Names::NONE {
                continue;
            }
            let extras = self.extras_of(owner, group);
            let set = &mut self.sets.sets[group[0].set as usize];
            (set.extras, set.extra_count) = (self.sets.extras.len() as u32, extras.len() as u32);
            self.sets.extras.extend(extras);
        }
    }

    fn extras_of(&self, owner: u32, mentions: &[Mention]) -> Vec<Extra> {
        let node = self.names.nodes[owner as usize];
        let owner_name = &self.names.arena[node.name as usize..][..usize::from(node.name_len)];
        let delegation = node.is(Node::CUT);
        let mut extras: Vec<Extra> = Vec::new();
        for mention in mentions {
            let number = mention.target.as_ref().map_or(Some(owner), |target| self.names.find(target));
            let Some(target) = number.map(|n| self.names.nodes[n as usize]) else { continue };
            let is_ns = self.sets.sets[mention.set as usize].rtype == Rtype::NS;
            // At an apex, NS needs nothing with it: whoever asks got here. Steered addresses are asked for by themselves.
            if target.zone != node.zone || target.steered != 0 || is_ns != delegation {
                continue;
            }
            if !delegation && target.occluder != 0 {
                continue;
            }
            let below = mention.target.as_ref().is_some_and(|t| t.to_lowercase().as_wire().ends_with(owner_name));
            for set in target.sets..target.sets + u32::from(target.set_count) {
                let rtype = self.sets.sets[set as usize].rtype;
                // A service record's target may have one of its own: AliasMode leads there (RFC 9460 section 4.1).
                let same = rtype == self.sets.sets[mention.set as usize].rtype && mention.service && set != mention.set;
                if (matches!(rtype, Rtype::A | Rtype::AAAA) || same) && !extras.iter().any(|e| e.set == set) {
                    extras.push(Extra { at: mention.at, set, required: delegation && below });
                }
            }
        }
        extras.sort_by_key(|e| !e.required);
        extras
    }

    fn finish(self, options: &ServerOptions, steered: steered::Compiled) -> (Snapshot, Vec<Fault>) {
        let id = self.id.wrapping_add(steered.id);
        let snapshot = Snapshot {
            id,
            options: options.clone(),
            table: self.names.table,
            nodes: self.names.nodes.into(),
            names: self.names.arena.into(),
            sets: self.sets.sets.into(),
            blobs: self.sets.blobs.into(),
            patches: self.sets.patches.into(),
            extras: self.sets.extras.into(),
            aliases: self.names.aliases.into(),
            zones: self.zones.into(),
            steered: steered.steered.into(),
            pools: steered.pools.into(),
            pool_infos: steered.infos.into(),
            pool_slots: steered.pool_slots.into(),
            slots: steered.slots,
            slot_numbers: steered.slot_numbers,
            targets: steered.targets,
            labels_max: self.names.labels_max,
        };
        (snapshot, self.faults)
    }
}

/// Most zones: their numbers have 16 bits, and one number is taken.
const ZONES_MAX: usize = Placed::MADE as usize;
