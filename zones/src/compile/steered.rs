//! Steered names: pools compiled once each, their numbered answers written out, the clusters' own names filled in.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::BuildHasherDefault,
    iter,
    net::IpAddr,
};

use fairway_model::{
    Cluster, DownAnswer, Fault, Mode, MonitorName, Name, Place, Pool, PoolName, Rtype, Target, Ttl, ZoneSpec,
};

use super::{
    Compiler,
    place::Placed,
    sets::{self, Whose},
};
use crate::{
    entries::Node,
    snapshot::{PoolInfo, Slot, Snapshot, Steered},
    steer::{Family, StableHasher, SteerPool, TargetTable, stable_hash},
    tally::SLOTS_MAX,
    text::Record,
};

/// What comes out of the wish, beside names and sets.
#[derive(Default)]
pub(super) struct Compiled {
    pub(super) steered: Vec<Steered>,
    pub(super) pools: Vec<SteerPool>,
    pub(super) infos: Vec<PoolInfo>,
    /// Numbers of the record sets that pools answer with.
    pub(super) answers: Vec<u32>,
    /// Answer counters of all pools' members, and where those of each pool begin.
    pub(super) counters: Vec<u16>,
    firsts: Vec<u32>,
    pub(super) slots: Vec<Slot>,
    pub(super) slot_numbers: HashMap<Slot, u16>,
    pub(super) targets: Vec<Target>,
    pub(super) id: u64,
}

/// What is compiled only once, however many names use it.
#[derive(Default)]
struct Shared {
    /// A pool whose members take their zone's monitor is another pool in another zone.
    pools: HashMap<(PoolName, Option<MonitorName>), u32>,
    /// Its answers, by TTL.
    answers: HashMap<(u32, Ttl), u32>,
    /// Where the record sets of these addresses begin: many pools answer with the same clusters.
    addresses: HashMap<AddressSets, u32, BuildHasherDefault<StableHasher>>,
    targets: TargetTable,
}

/// Type, TTL, and the addresses of each set.
type AddressSets = (Rtype, Ttl, Vec<Vec<IpAddr>>);

impl<'a> Compiler<'a> {
    pub(super) fn place_steered(&mut self, previous: Option<&Snapshot>) -> Compiled {
        let mut compiled = Compiled::default();
        if let Some(previous) = previous {
            compiled.slots.clone_from(&previous.slots);
            compiled.slot_numbers.clone_from(&previous.slot_numbers);
        }
        let mut shared = Shared::default();
        let desired = self.desired;
        for name in desired.names.values() {
            let Some(pool) = desired.pools.get(&name.pool) else {
                let what = format!("{}: pool {} is not declared", name.name, name.pool);
                self.faults.push(Fault::error(Place::file("configuration"), what, "declare it"));
                continue;
            };
            let Some(zone) = self.origins.of(&name.name) else {
                let what = format!("{} lies in none of the zones", name.name);
                self.faults.push(Fault::error(
                    Place::file("configuration"),
                    what,
                    "declare its zone, or mend the name",
                ));
                continue;
            };
            let number = self.compile_pool(pool, desired.zone_of(&name.name), &mut shared, &mut compiled);
            let ttl = name.ttl.unwrap_or(pool.ttl);
            let steered = match shared.answers.get(&(number, ttl)) {
                Some(steered) => *steered,
                None => {
                    let answers = self.write_answers(number, pool, ttl, &mut compiled, &mut shared);
                    compiled.steered.push(answers);
                    let steered = compiled.steered.len() as u32;
                    shared.answers.insert((number, ttl), steered);
                    steered
                }
            };
            let apex_labels = self.origins.zones[usize::from(zone)].origin.label_count();
            let node = self.names.intern(name.name.as_wire(), name.name.label_count(), apex_labels, zone);
            self.names.drafts[node as usize].steered = steered;
            compiled.infos[number as usize].names.push(name.name.clone());
            compiled.id = compiled.id.wrapping_add(stable_hash(&(&name.name, &pool.name, ttl)));
        }
        self.place_cluster_names();
        self.refuse_mixed(&compiled);
        compiled.targets = shared.targets.into_targets();
        compiled
    }

    fn compile_pool(&self, pool: &Pool, zone: Option<&ZoneSpec>, shared: &mut Shared, compiled: &mut Compiled) -> u32 {
        let of_zone = zone.and_then(|z| z.monitor.clone());
        let takes_it = pool.monitor.is_none() && pool.members.iter().any(|m| m.monitor.is_none());
        let monitor = of_zone.filter(|_| takes_it);
        let number = compiled.pools.len() as u32;
        let known = *shared.pools.entry((pool.name.clone(), monitor)).or_insert(number);
        if known != number {
            return known;
        }
        let steer = SteerPool::build(self.desired, pool, zone, &mut shared.targets);
        let clusters: Vec<_> = steer.clusters().cloned().collect();
        let slot = |cluster| {
            compiled_slot(&mut compiled.slots, &mut compiled.slot_numbers, Slot { pool: pool.name.clone(), cluster })
        };
        compiled.firsts.push(compiled.counters.len() as u32);
        compiled.counters.extend(clusters.iter().cloned().map(slot));
        let of: Vec<_> = clusters
            .iter()
            .filter_map(|c| self.desired.clusters.get(c))
            .map(|c| (&c.name, &c.addresses, &c.dns_name))
            .collect();
        compiled.id = compiled.id.wrapping_add(stable_hash(&(pool, of)));
        compiled.infos.push(PoolInfo { name: pool.name.clone(), clusters, ttl: pool.ttl, names: Vec::new() });
        compiled.pools.push(steer);
        number
    }

    /// Writes every numbered answer of a pool with one TTL.
    fn write_answers(
        &mut self,
        number: u32,
        pool: &Pool,
        ttl: Ttl,
        compiled: &mut Compiled,
        shared: &mut Shared,
    ) -> Steered {
        let Compiled { pools, answers, firsts, .. } = compiled;
        let steer = &pools[number as usize];
        let mut addresses = |family: Family, rtype: Rtype| {
            let written = shared.addresses.entry((rtype, ttl, steer.sets(family)));
            *written.or_insert_with_key(|(.., lists)| {
                let first = answers.len() as u32;
                for list in lists {
                    let octets: Vec<Vec<u8>> = list.iter().map(octets).collect();
                    answers.push(self.write_set(rtype, ttl, octets.iter().map(Vec::as_slice)));
                }
                first
            })
        };
        let v4 = addresses(Family::V4, Rtype::A);
        let v6 = addresses(Family::V6, Rtype::AAAA);
        let members = answers.len() as u32;
        if pool.mode == Mode::Cname {
            let root = Name::root();
            for cluster in steer.clusters() {
                let name = self.desired.clusters.get(cluster).and_then(|c| c.dns_name.as_ref());
                answers.push(self.write_set(Rtype::CNAME, ttl, iter::once(name.unwrap_or(&root).as_wire())));
            }
        }
        let mut fallback = Steered::NONE;
        if let DownAnswer::FallbackCname(target) = &pool.down {
            fallback = answers.len() as u32;
            answers.push(self.write_set(Rtype::CNAME, ttl, iter::once(target.as_wire())));
        }
        let cname = pool.mode == Mode::Cname;
        Steered { pool: number, cname, v4, v6, members, fallback, counters: firsts[number as usize] }
    }

    fn write_set<'r>(&mut self, rtype: Rtype, ttl: Ttl, rdatas: impl Iterator<Item = &'r [u8]>) -> u32 {
        // Names in these sets are left whole: one pool may answer in several zones.
        let whose = Whose { origin: &Name::root(), node: None };
        let written = sets::write(&mut self.entries, rtype, ttl.secs(), rdatas, whose, &mut self.mentions);
        written.unwrap_or_else(|_| unreachable!("at most 255 members of 8 addresses: 57,120 octets"))
    }

    /// Gives the clusters that pools answer by name their addresses, where the name is in our zones and the zone text says
    /// nothing about it (S0-43: the name's addresses follow in the same answer).
    fn place_cluster_names(&mut self) {
        let desired = self.desired;
        let mut wanted: BTreeMap<&'a Name, (&Cluster, Ttl)> = BTreeMap::new();
        for pool in desired.pools.values().filter(|p| p.mode == Mode::Cname) {
            for cluster in pool.members.iter().filter_map(|m| desired.clusters.get(&m.cluster)) {
                let Some(name) = &cluster.dns_name else { continue };
                let entry = wanted.entry(name).or_insert((cluster, pool.ttl));
                entry.1 = entry.1.min(pool.ttl);
            }
        }
        if wanted.is_empty() {
            return;
        }
        let speaks = |p: &&Placed| matches!(p.rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME);
        let spoken_of: HashSet<u32> = self.placed.iter().filter(speaks).map(|p| p.node).collect();
        for (name, (cluster, ttl)) in wanted {
            let Some(zone) = self.origins.of(name) else { continue };
            let apex_labels = self.origins.zones[usize::from(zone)].origin.label_count();
            let node = self.names.intern(name.as_wire(), name.label_count(), apex_labels, zone);
            if spoken_of.contains(&node) || self.names.drafts[node as usize].steered != 0 {
                continue;
            }
            for address in &cluster.addresses {
                let rtype = if address.is_ipv4() { Rtype::A } else { Rtype::AAAA };
                let record = self.origins.made.len() as u32;
                let rdata = octets(address).into();
                self.origins.made.push(Record { owner: name.clone(), rtype, ttl, rdata, file: 0, line: 0 });
                self.placed.push(Placed { node, rtype, zone: Placed::MADE, record });
            }
        }
    }

    /// A steered name owns its address types; an alias owns all of them.
    fn refuse_mixed(&mut self, compiled: &Compiled) {
        for placed in &self.placed {
            let Some(steered) = self.names.drafts[placed.node as usize].steered.checked_sub(1) else { continue };
            let steered = compiled.steered[steered as usize];
            let pool = compiled.pools[steered.pool as usize].name();
            let record = self.origins.record(placed);
            let alias = steered.cname || steered.fallback != Steered::NONE;
            let (what, way_out) = match placed.rtype {
                Rtype::A | Rtype::AAAA => (
                    format!(
                        "{} {} stands in the zone file, but pool {pool} answers this name's addresses",
                        record.owner, placed.rtype
                    ),
                    "take the record out, or the name out of the steered names",
                ),
                Rtype::CNAME => (
                    format!("{} has a CNAME in the zone file, but pool {pool} answers this name", record.owner),
                    "take the record out, or the name out of the steered names",
                ),
                other if alias => (
                    format!(
                        "{} {other} stands beside the CNAME that pool {pool} answers with (RFC 1034 section 3.6.2)",
                        record.owner
                    ),
                    "take the record out, or give the pool mode address and fallback addresses",
                ),
                _ => continue,
            };
            self.faults.push(Fault::error(self.origins.place(placed), what, way_out));
        }
    }

    /// A steered name at or below a delegation would never be answered.
    pub(super) fn refuse_hidden_steered(&mut self) {
        for name in self.desired.names.keys() {
            let Some(number) = self.names.find(name) else { continue };
            let node = &self.names.drafts[number as usize];
            let above = if node.is(Node::CUT) { Some(number) } else { node.occluder() };
            let Some(above) = above else { continue };
            let hides = |p: &&Placed| p.node == above && matches!(p.rtype, Rtype::NS | Rtype::DNAME);
            let Some(placed) = self.placed.iter().find(hides) else { continue };
            let what = format!("the steered name {name} is hidden by this {} record", placed.rtype);
            self.faults.push(Fault::error(self.origins.place(placed), what, "take one of the two out"));
        }
    }
}

/// The counter of a cluster in a pool: the one it had, else the next free one, else 0 ("other").
fn compiled_slot(slots: &mut Vec<Slot>, numbers: &mut HashMap<Slot, u16>, slot: Slot) -> u16 {
    if let Some(number) = numbers.get(&slot) {
        return *number;
    }
    if slots.len() + 1 >= SLOTS_MAX {
        return 0;
    }
    slots.push(slot.clone());
    let number = slots.len() as u16;
    numbers.insert(slot, number);
    number
}

fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
