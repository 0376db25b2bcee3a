//! Pools compiled once each, their numbered answers written out.

use std::{
    collections::{HashMap, HashSet},
    iter,
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{
    ClusterName, Desired, DownAnswer, Fault, Mode, Name, Place, Pool, PoolName, Rtype, Schedule, SteeredName, Target,
    Ttl, TtlBounds, ZoneSpec,
};

use super::{sets, upper::CONFIGURATION};
use crate::{
    balanced::BalancedClusters,
    entries::EntryWriter,
    place::{Placed, Placements, TooLarge},
    snapshot::{PoolInfo, Slot, Snapshot, Steered},
    steer::{Family, MemberSet, Placement, StableMap, SteerPool, TargetTable, Territory, Variant, stable_hash},
    tally::SLOTS_MAX,
};

/// What comes out of the wish, beside names.
#[derive(Default)]
pub(super) struct Compiled {
    pub(super) steered: Vec<Steered>,
    pub(super) pools: Vec<SteerPool>,
    pub(super) infos: Vec<PoolInfo>,
    /// Numbers of the record sets that pools answer with.
    pub(super) answers: Vec<u32>,
    /// Answer counters of all pools' members.
    pub(super) counters: Vec<u16>,
    pub(super) slots: Vec<Slot>,
    pub(super) slot_numbers: HashMap<Slot, u16>,
    pub(super) targets: Vec<Target>,
    pub(super) balanced: BalancedClusters,
    pub(super) schedules: Vec<Schedule>,
    pub(super) placements: Placements,
    /// The placement of each pool that goes by place.
    pub(super) placed: Vec<Option<Arc<Placed>>>,
    pub(super) faults: Vec<Fault>,
    /// Sum of hashes of all that is steered.
    pub(super) id: u64,
}

/// Pools under compilation. What is compiled only once, however many names use it, is found again.
pub(super) struct Pools<'a> {
    desired: &'a Desired,
    /// Names find their pools many times as fast here as in an ordered map.
    declared: StableMap<&'a PoolName, &'a Pool>,
    /// A pool whose members take their zone's monitor is another pool in another zone, and so is one with internal members
    /// in a public zone and in a private one.
    numbers: StableMap<(&'a PoolName, Variant<'a>), u32>,
    /// Where the counters of each pool begin.
    first_counters: Vec<u32>,
    /// A pool's answers, by TTL and the bounds of it.
    by_ttl: StableMap<(u32, Ttl, Option<TtlBounds>), u32>,
    /// Record sets of answers: many pools answer with the same clusters.
    sets: StableMap<Shape<'a>, Steered>,
    targets: TargetTable,
    /// Placements of the snapshot before.
    previous: Option<&'a Placements>,
    /// Pools some of whose members have a counter.
    counted: HashSet<PoolName>,
    compiled: Compiled,
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
    /// Whose addresses are answered together when everything is down, IPv4 first.
    everyone: [Box<[MemberSet]>; 2],
}

impl<'a> Pools<'a> {
    pub(super) fn new(desired: &'a Desired, previous: Option<&'a Snapshot>) -> Self {
        let mut compiled = Compiled::default();
        let mut counted = HashSet::new();
        if let Some(previous) = previous {
            compiled.slots.clone_from(&previous.slots);
            compiled.slot_numbers.clone_from(&previous.slot_numbers);
            counted.extend(previous.slots.iter().map(|slot| slot.pool.clone()));
        }
        Self {
            desired,
            declared: desired.pools.iter().collect(),
            numbers: StableMap::default(),
            first_counters: Vec::new(),
            by_ttl: StableMap::default(),
            sets: StableMap::default(),
            targets: TargetTable::default(),
            previous: previous.map(|previous| &previous.placements),
            counted,
            compiled,
        }
    }

    pub(super) fn find(&self, name: &PoolName) -> Option<&'a Pool> {
        self.declared.get(name).copied()
    }

    /// How a name is steered, as its node says it.
    pub(super) fn steered(&mut self, name: &'a SteeredName, pool: &'a Pool, entries: &mut EntryWriter) -> u32 {
        let number = self.compile_pool(pool, self.desired.zone_of(&name.name));
        let ttl = name.ttl.unwrap_or(pool.ttl);
        let compiled = &mut self.compiled;
        compiled.infos[number as usize].names.push(name.name.clone());
        compiled.id = compiled.id.wrapping_add(stable_hash(&(&name.name, &pool.name, ttl)));
        // Who declares a TTL at a name wants that one.
        let bounds = pool.ttl_bounds.filter(|_| name.ttl.is_none());
        if let Some(steered) = self.by_ttl.get(&(number, ttl, bounds)) {
            return *steered;
        }
        let counters = self.first_counters[number as usize];
        let paces = bounds.into_iter().flat_map(|bounds| [bounds.long, bounds.short]);
        let first = self.compiled.steered.len() as u32 + 1;
        for ttl in iter::once(ttl).chain(paces) {
            let answers = self.answers(number, pool, ttl, entries);
            self.compiled.steered.push(Steered { pool: number, paced: bounds.is_some(), counters, ..answers });
        }
        self.by_ttl.insert((number, ttl, bounds), first);
        first
    }

    /// What [`Pools::steered`] gave, and the name of the pool.
    pub(super) fn of(&self, steered: u32) -> Option<(Steered, &PoolName)> {
        let steered = self.compiled.steered[steered.checked_sub(1)? as usize];
        Some((steered, self.compiled.pools[steered.pool as usize].name()))
    }

    pub(super) fn finish(self) -> Compiled {
        let (targets, balanced, schedules) = self.targets.into_parts();
        Compiled { targets, balanced, schedules, ..self.compiled }
    }

    fn compile_pool(&mut self, pool: &'a Pool, zone: Option<&'a ZoneSpec>) -> u32 {
        let variant = Variant::of(pool, zone);
        let number = self.compiled.pools.len() as u32;
        let known = *self.numbers.entry((&pool.name, variant)).or_insert(number);
        if known != number {
            return known;
        }
        let placed = self.place(pool);
        let nowhere = Placement::none();
        let placement = placed.as_ref().map_or(&nowhere, |placed| &placed.placement);
        let steer = SteerPool::build(self.desired, pool, zone, placement, &mut self.targets);
        let clusters: Vec<_> = steer.clusters().cloned().collect();
        let compiled = &mut self.compiled;
        if steer.lost_its_place() {
            compiled.faults.push(too_many_rows(pool));
        }
        self.first_counters.push(compiled.counters.len() as u32);
        if compiled.slots_are_full() && !self.counted.contains(&pool.name) {
            compiled.counters.extend(clusters.iter().map(|_| 0));
        } else {
            self.counted.insert(pool.name.clone());
            for cluster in &clusters {
                let slot = compiled.slot(&pool.name, cluster);
                compiled.counters.push(slot);
            }
        }
        let of: Vec<_> = clusters
            .iter()
            .filter_map(|c| self.desired.clusters.get(c))
            .map(|c| (&c.name, &c.addresses, &c.dns_name))
            .collect();
        let digest = placed.as_ref().map_or(0, |placed| placed.digest);
        compiled.id = compiled.id.wrapping_add(stable_hash(&(pool, of, variant.hides, digest)));
        compiled.placed.push(placed);
        compiled.infos.push(PoolInfo {
            name: pool.name.clone(),
            clusters,
            ttl: pool.ttl,
            bounds: pool.ttl_bounds,
            names: Vec::new(),
        });
        compiled.pools.push(steer);
        number
    }

    /// Where the pool's clients are told apart by place, and how its members stand there.
    fn place(&mut self, pool: &Pool) -> Option<Arc<Placed>> {
        let compiled = &mut self.compiled;
        let place = || Place::file(CONFIGURATION);
        let known = compiled.placements.count();
        let placed = compiled.placements.of(self.desired, pool, self.previous).unwrap_or_else(|TooLarge| {
            let most = Placements::OCTETS_MAX >> 20;
            let what =
                format!("the places that pools tell apart, down to pool {}, take more than {most} MiB", pool.name);
            let way_out = "let pools share rankings and members, or take a coarser map";
            compiled.faults.push(Fault::error(place(), what, way_out));
            None
        });
        let is_new = compiled.placements.count() > known;
        if let Some(depth) = placed.as_ref().filter(|_| is_new).and_then(|placed| placed.depth) {
            let what = format!(
                "pool {}: its members stand in more than {} different orders, so that only the first {depth} are put in order",
                pool.name,
                Territory::ROWS_MAX
            );
            let way_out = "give nearest or latency a tolerance, or the pool fewer members";
            compiled.faults.push(Fault::warning(place(), what, way_out));
        }
        placed
    }

    /// The numbered answers of a pool with one TTL, written if no pool before it has the same; whose they are is left open.
    fn answers(&mut self, number: u32, pool: &'a Pool, ttl: Ttl, entries: &mut EntryWriter) -> Steered {
        let everyone = self.compiled.pools[number as usize].answered_together().map(Box::from);
        let shape = Shape {
            everyone,
            mode: pool.mode,
            answers: pool.answers,
            down: &pool.down,
            ttl,
            members: pool.members.iter().map(|member| (&member.cluster, member.probe.is_some())).collect(),
        };
        let Compiled { pools, answers, .. } = &mut self.compiled;
        let steer = &pools[number as usize];
        *self.sets.entry(shape).or_insert_with(|| write_answers(self.desired, pool, ttl, steer, answers, entries))
    }
}

fn too_many_rows(pool: &Pool) -> Fault {
    let what = format!(
        "pool {}: networks of members and places of clients make over 65535 rows together, so that places do not count",
        pool.name
    );
    Fault::warning(Place::file(CONFIGURATION), what, "give members fewer networks, or take a coarser map")
}

/// Writes every numbered answer of a pool with one TTL.
fn write_answers(
    desired: &Desired,
    pool: &Pool,
    ttl: Ttl,
    steer: &SteerPool,
    answers: &mut Vec<u32>,
    entries: &mut EntryWriter,
) -> Steered {
    let mut addresses = |family: Family, rtype: Rtype| {
        let first = answers.len() as u32;
        for list in steer.sets(family) {
            let rdatas: Vec<Vec<u8>> = list.iter().map(octets).collect();
            answers.push(sets::write_small(entries, rtype, ttl, rdatas.iter().map(Vec::as_slice)));
        }
        first
    };
    let v4 = addresses(Family::V4, Rtype::A);
    let v6 = addresses(Family::V6, Rtype::AAAA);
    let members = answers.len() as u32;
    let mut alias = |target: &Name| {
        answers.push(sets::write_small(entries, Rtype::CNAME, ttl, iter::once(target.as_wire())));
        answers.len() as u32 - 1
    };
    if pool.mode == Mode::Cname {
        let root = Name::root();
        for cluster in steer.clusters() {
            let name = desired.clusters.get(cluster).and_then(|c| c.dns_name.as_ref());
            alias(name.unwrap_or(&root));
        }
    }
    let fallback = match &pool.down {
        DownAnswer::FallbackCname(target) => alias(target),
        _ => Steered::NONE,
    };
    let cname = pool.mode == Mode::Cname;
    Steered { pool: 0, cname, noted: false, special: cname, paced: false, v4, v6, members, fallback, counters: 0 }
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

/// An address as RDATA.
pub(super) fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
