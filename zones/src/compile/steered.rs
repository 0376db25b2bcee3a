//! Steered names: pools compiled once each, their numbered answers written out, the clusters' own names filled in.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use fairway_model::{
    Cluster, ClusterName, DownAnswer, Fault, Mode, MonitorName, Name, Place, Pool, PoolName, Rtype, Target, Ttl,
    ZoneSpec,
};

use super::{Compiler, place::Placed};
use crate::{
    snapshot::{Node, PoolInfo, Slot, Snapshot, Steered},
    steer::{Family, StableMap, SteerPool, TargetTable, stable_hash},
    tally::SLOTS_MAX,
    text::Record,
};

/// What comes out of the wish, beside names and sets.
#[derive(Default)]
pub(super) struct Compiled {
    pub(super) steered: Vec<Steered>,
    pub(super) pools: Vec<SteerPool>,
    pub(super) infos: Vec<PoolInfo>,
    pub(super) pool_slots: Vec<Box<[u16]>>,
    pub(super) slots: Vec<Slot>,
    pub(super) slot_numbers: HashMap<Slot, u16>,
    pub(super) targets: Vec<Target>,
    pub(super) id: u64,
}

/// What is compiled only once, however many names use it.
#[derive(Default)]
struct Shared<'a> {
    /// A pool whose members take their zone's monitor is another pool in another zone.
    pools: StableMap<(&'a PoolName, Option<&'a MonitorName>), u32>,
    /// A pool's answers, by TTL.
    answers: StableMap<(u32, Ttl), u32>,
    /// Record sets of answers: many pools answer with the same clusters.
    sets: StableMap<Shape<'a>, Steered>,
    targets: TargetTable,
    /// Pools some of whose members have a counter.
    counted: HashSet<PoolName>,
}

/// All that a pool's numbered answers follow from.
#[derive(PartialEq, Eq, Hash)]
struct Shape<'a> {
    mode: Mode,
    answers: u8,
    down: &'a DownAnswer,
    ttl: Ttl,
    /// The members' clusters, and whether one probe speaks for all their addresses.
    members: Box<[(&'a ClusterName, bool)]>,
}

impl<'a> Compiler<'a> {
    pub(super) fn place_steered(&mut self, previous: Option<&Snapshot>) -> Compiled {
        let mut compiled = Compiled::default();
        let mut shared = Shared::default();
        if let Some(previous) = previous {
            compiled.slots.clone_from(&previous.slots);
            compiled.slot_numbers.clone_from(&previous.slot_numbers);
            shared.counted.extend(previous.slots.iter().map(|slot| slot.pool.clone()));
        }
        let desired = self.desired;
        // Names find their pools many times as fast here as in an ordered map.
        let pools: StableMap<&PoolName, &Pool> = desired.pools.iter().collect();
        for name in desired.names.values() {
            let Some(pool) = pools.get(&name.pool).copied() else {
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
                    let answers = self.answers(pool, ttl, &compiled.pools[number as usize], &mut shared);
                    compiled.steered.push(Steered { pool: number, ..answers });
                    let steered = compiled.steered.len() as u32;
                    shared.answers.insert((number, ttl), steered);
                    steered
                }
            };
            let apex_labels = self.origins.zones[usize::from(zone)].origin.label_count();
            let node = self.names.intern(&name.name, apex_labels, zone);
            self.names.nodes[node as usize].steered = steered;
            compiled.infos[number as usize].names.push(name.name.clone());
            compiled.id = compiled.id.wrapping_add(stable_hash(&(&name.name, &pool.name, ttl)));
        }
        self.place_cluster_names();
        self.refuse_mixed(&compiled);
        compiled.targets = shared.targets.into_targets();
        compiled
    }

    fn compile_pool(
        &self,
        pool: &'a Pool,
        zone: Option<&'a ZoneSpec>,
        shared: &mut Shared<'a>,
        compiled: &mut Compiled,
    ) -> u32 {
        let of_zone = zone.and_then(|z| z.monitor.as_ref());
        let takes_it = pool.monitor.is_none() && pool.members.iter().any(|m| m.monitor.is_none());
        let monitor = of_zone.filter(|_| takes_it);
        let number = compiled.pools.len() as u32;
        let known = *shared.pools.entry((&pool.name, monitor)).or_insert(number);
        if known != number {
            return known;
        }
        let steer = SteerPool::build(self.desired, pool, zone, &mut shared.targets);
        let clusters: Vec<_> = steer.clusters().cloned().collect();
        let slots = if compiled.slots_are_full() && !shared.counted.contains(&pool.name) {
            vec![0; clusters.len()].into()
        } else {
            shared.counted.insert(pool.name.clone());
            clusters.iter().map(|cluster| compiled.slot(&pool.name, cluster)).collect()
        };
        compiled.pool_slots.push(slots);
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

    /// The numbered answers of a pool with one TTL, written if no pool before it has the same; whose they are is left open.
    fn answers(&mut self, pool: &'a Pool, ttl: Ttl, steer: &SteerPool, shared: &mut Shared<'a>) -> Steered {
        let shape = Shape {
            mode: pool.mode,
            answers: pool.answers,
            down: &pool.down,
            ttl,
            members: pool.members.iter().map(|member| (&member.cluster, member.probe.is_some())).collect(),
        };
        *shared.sets.entry(shape).or_insert_with(|| self.write_answers(pool, ttl, steer))
    }

    fn write_answers(&mut self, pool: &Pool, ttl: Ttl, steer: &SteerPool) -> Steered {
        let mut addresses = |family: Family, rtype: Rtype| {
            let first = self.sets.sets.len() as u32;
            for list in steer.sets(family) {
                let octets: Vec<Vec<u8>> = list.iter().map(octets).collect();
                self.add_set(rtype, ttl, octets.iter().map(Vec::as_slice));
            }
            first
        };
        let v4 = addresses(Family::V4, Rtype::A);
        let v6 = addresses(Family::V6, Rtype::AAAA);
        let members = self.sets.sets.len() as u32;
        if pool.mode == Mode::Cname {
            let root = Name::root();
            for cluster in steer.clusters() {
                let name = self.desired.clusters.get(cluster).and_then(|c| c.dns_name.as_ref());
                self.add_alias(ttl, name.unwrap_or(&root));
            }
        }
        let fallback = match &pool.down {
            DownAnswer::FallbackCname(target) => self.add_alias(ttl, target),
            _ => Steered::NONE,
        };
        Steered { pool: 0, cname: pool.mode == Mode::Cname, v4, v6, members, fallback }
    }

    fn add_set<'r>(&mut self, rtype: Rtype, ttl: Ttl, rdatas: impl Iterator<Item = &'r [u8]>) -> u32 {
        let number = self.sets.sets.len() as u32;
        // Names in these sets are left whole: one pool may answer in several zones. Pools are bounded far under a message.
        let added = self.sets.add(rtype, ttl.secs(), rdatas, &Name::root(), &mut self.mentions);
        debug_assert!(added.is_ok(), "at most 255 members of 8 addresses: 57,120 octets");
        number
    }

    fn add_alias(&mut self, ttl: Ttl, target: &Name) -> u32 {
        let number = self.add_set(Rtype::CNAME, ttl, std::iter::once(target.as_wire()));
        self.sets.sets[number as usize].alias = self.names.alias(Rtype::CNAME, target.as_wire());
        number
    }

    /// Gives the clusters that pools answer by name their addresses, where the name is in our zones and the zone text says
    /// nothing about it (S0-43: the name's addresses follow in the same answer).
    fn place_cluster_names(&mut self) {
        let mut wanted: BTreeMap<Name, (&Cluster, Ttl)> = BTreeMap::new();
        for pool in self.desired.pools.values().filter(|p| p.mode == Mode::Cname) {
            for cluster in pool.members.iter().filter_map(|m| self.desired.clusters.get(&m.cluster)) {
                let Some(name) = &cluster.dns_name else { continue };
                let entry = wanted.entry(name.clone()).or_insert((cluster, pool.ttl));
                entry.1 = entry.1.min(pool.ttl);
            }
        }
        if wanted.is_empty() {
            return;
        }
        let speaks = |p: &&Placed| matches!(p.rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME);
        let spoken_of: HashSet<u32> = self.placed.iter().filter(speaks).map(|p| p.node).collect();
        for (name, (cluster, ttl)) in wanted {
            let Some(zone) = self.origins.of(&name) else { continue };
            let apex_labels = self.origins.zones[usize::from(zone)].origin.label_count();
            let node = self.names.intern(&name, apex_labels, zone);
            if spoken_of.contains(&node) || self.names.nodes[node as usize].steered != 0 {
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
            let Some(steered) = self.names.nodes[placed.node as usize].steered.checked_sub(1) else { continue };
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
        if !self.names.nodes.iter().any(|node| node.is(Node::CUT) || node.is(Node::DNAME)) {
            return;
        }
        for name in self.desired.names.keys() {
            let Some(number) = self.names.find(name) else { continue };
            let node = self.names.nodes[number as usize];
            let above = if node.is(Node::CUT) { Some(number) } else { node.occluder.checked_sub(1) };
            let Some(above) = above else { continue };
            let hides = |p: &&Placed| p.node == above && matches!(p.rtype, Rtype::NS | Rtype::DNAME);
            let Some(placed) = self.placed.iter().find(hides) else { continue };
            let what = format!("the steered name {name} is hidden by this {} record", placed.rtype);
            self.faults.push(Fault::error(self.origins.place(placed), what, "take one of the two out"));
        }
    }
}

impl Compiled {
    fn slots_are_full(&self) -> bool {
        self.slots.len() + 1 >= SLOTS_MAX
    }

    /// The counter of a cluster in a pool: the one it had, else the next free one, else 0 ("other").
    fn slot(&mut self, pool: &PoolName, cluster: &ClusterName) -> u16 {
        let slot = Slot { pool: pool.clone(), cluster: cluster.clone() };
        if let Some(number) = self.slot_numbers.get(&slot) {
            return *number;
        }
        if self.slots_are_full() {
            return 0;
        }
        self.slots.push(slot.clone());
        let number = self.slots.len() as u16;
        self.slot_numbers.insert(slot, number);
        number
    }
}

fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
