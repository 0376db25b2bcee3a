//! Compiles pools and writes the record sets of their numbered answers.

use std::{collections::HashMap, iter, net::IpAddr, sync::Arc};

use fairway_model::{
    AnswerMode, ClientPartition, ClusterName, DesiredState, Diagnostic, DownAnswer, FileLocation, LocationRankings,
    Name, Pool, PoolName, Rtype, SteeredName, Ttl, ZoneSpec, stable_hash,
};

use super::{sets, upper::CONFIGURATION};
use crate::{
    chunks::ChunkWriter,
    entries::EntryWriter,
    location::{CompiledRankings, RankingCache, TooLarge},
    snapshot::{PoolInfo, ServerOptions, Sizes, Slot, Slots, Snapshot, Steered, TextLayer},
    steer::{Family, MemberSet, SteerPool, TargetTable, TargetUses, Variant},
    table::Table,
    tally::SLOTS_MAX,
    target::TargetIndex,
    wire::NameKey,
};

/// Pools under compilation. A pool is compiled once for all its names.
pub(super) struct Pools<'a> {
    desired: &'a DesiredState,
    /// Key of the hashes of names.
    key: &'a NameKey,
    /// Record sets of answers, which pools with the same clusters share.
    sets: HashMap<AnswerSetKey<'a>, Steered>,
    /// Location rankings of the previous snapshot.
    previous: Option<&'a RankingCache>,
    /// Unused numbers of pools.
    free: Vec<u32>,
    /// True if some clients get explanations in answers.
    noted: bool,
    pub(super) steered: Vec<Steered>,
    pub(super) pools: ChunkWriter<SteerPool>,
    pub(super) infos: ChunkWriter<PoolInfo>,
    /// Numbers of pools by the hash of their name.
    pub(super) by_name: Table,
    /// Numbers of the record sets that pools answer with.
    pub(super) answers: Vec<u32>,
    /// Answer counters of all pools' members.
    pub(super) counters: Vec<u16>,
    pub(super) slots: Arc<Slots>,
    pub(super) targets: TargetTable,
    pub(super) uses: TargetUses,
    pub(super) ranking_cache: Arc<RankingCache>,
    pub(super) faults: Vec<Diagnostic>,
    /// Sum of the hashes of the zones' text, pools, steered names, and record sets.
    pub(super) id: u64,
}

/// Inputs of a pool's numbered answers.
#[derive(PartialEq, Eq, Hash)]
struct AnswerSetKey<'a> {
    mode: AnswerMode,
    answers: u8,
    down: &'a DownAnswer,
    ttl: Ttl,
    /// Clusters of the members, and true if one probe stands for all addresses.
    members: Box<[(&'a ClusterName, bool)]>,
    /// Members that are answered together when all are down, IPv4 first.
    everyone: [Box<[MemberSet]>; 2],
}

impl<'a> Pools<'a> {
    /// Returns no pools, above this text. The previous snapshot passes on its counters and rankings.
    pub(super) fn new(
        desired: &'a DesiredState,
        options: &ServerOptions,
        text: &'a TextLayer,
        previous: Option<&'a Snapshot>,
    ) -> Self {
        Self {
            desired,
            key: &text.key,
            sets: HashMap::default(),
            previous: previous.map(|previous| &*previous.ranking_cache),
            free: Vec::new(),
            noted: !options.explain.is_empty(),
            steered: Vec::new(),
            pools: ChunkWriter::default(),
            infos: ChunkWriter::default(),
            by_name: Table::with_room(desired.pools.len()),
            answers: Vec::new(),
            counters: Vec::new(),
            slots: previous.map(|previous| Arc::clone(&previous.slots)).unwrap_or_default(),
            targets: TargetTable::default(),
            uses: TargetUses::default(),
            ranking_cache: Arc::default(),
            faults: Vec::new(),
            id: text.id,
        }
    }

    /// Returns the pools of a snapshot, to compile some of them again.
    pub(super) fn after(desired: &'a DesiredState, previous: &'a Snapshot) -> Self {
        Self {
            steered: with_room(&previous.steered),
            pools: ChunkWriter::after(&previous.pools),
            infos: ChunkWriter::after(&previous.pool_infos),
            by_name: previous.pools_by_name.clone(),
            answers: with_room(&previous.answers),
            counters: with_room(&previous.counters),
            targets: previous.targets.clone(),
            uses: previous.target_uses.clone(),
            ranking_cache: Arc::clone(&previous.ranking_cache),
            id: previous.id,
            ..Self::new(desired, &previous.options, &previous.text, Some(previous))
        }
    }

    /// Steers a name and returns the value for its node.
    pub(super) fn steered(&mut self, name: &'a SteeredName, pool: &'a Pool, entries: &mut EntryWriter) -> u32 {
        let number = self.compile_pool(pool, self.desired.zone_of(&name.name));
        let ttl = name.ttl.unwrap_or(pool.ttl);
        // A TTL declared at a name is not adaptive.
        let bounds = pool.ttl_bounds.filter(|_| name.ttl.is_none());
        self.sum_id(name_id(name, pool));
        let info = self.infos.change(number as usize);
        note_name(&mut info.names, &name.name);
        let known = info.steered.iter();
        let mut known = known.filter(|(of, is_adaptive, _)| (*of, *is_adaptive) == (ttl, bounds.is_some()));
        if let Some((.., first)) = known.next() {
            return *first;
        }
        let (counters, noted) = (info.counters, self.noted);
        let first = self.steered.len() as u32 + 1;
        // As in `note_name`: mostly one.
        info.steered.reserve_exact(1);
        info.steered.push((ttl, bounds.is_some(), first));
        let adaptive_ttls = bounds.into_iter().flat_map(|bounds| [bounds.long, bounds.short]);
        for ttl in iter::once(ttl).chain(adaptive_ttls) {
            let answers = self.answers(number, pool, ttl, entries);
            let special = noted || answers.special;
            let steered = Steered { pool: number, is_adaptive: bounds.is_some(), counters, noted, special, ..answers };
            self.steered.push(steered);
        }
        first
    }

    /// Undoes [`Pools::steered`] for a name as it was declared before.
    ///
    /// Returns the number of the pool, or `None` if the name was not steered.
    pub(super) fn unsteer(&mut self, name: &SteeredName, pool: &Pool, steered: u32) -> Option<u32> {
        let number = self.steered.get(steered.checked_sub(1)? as usize)?.pool;
        let names = &mut self.infos.change(number as usize).names;
        if let Ok(at) = names.binary_search(&name.name) {
            names.remove(at);
        }
        self.id = self.id.wrapping_sub(name_id(name, pool));
        Some(number)
    }

    /// Returns the numbers of the pools with a name.
    pub(super) fn numbers_of(&self, name: &PoolName) -> Vec<u32> {
        let numbers = self.by_name.candidates(self.key.text(name));
        numbers.filter(|number| self.infos[*number as usize].name == *name).collect()
    }

    /// Returns the names that a pool answers.
    pub(super) fn names_of(&self, number: u32) -> &[Name] {
        &self.infos[number as usize].names
    }

    /// Removes a pool. Its number is free for another one.
    pub(super) fn free(&mut self, number: u32) {
        let Self { key, infos, pools, by_name, uses, targets, id, .. } = self;
        let info = &infos[number as usize];
        by_name.remove(key.text(&info.name), number, |other| key.text(&infos[other as usize].name));
        uses.take(&pools[number as usize], targets);
        *id = id.wrapping_sub(info.id);
        self.free.push(number);
    }

    /// Moves the last pools to the free numbers.
    pub(super) fn close_gaps(&mut self) {
        let mut free = std::mem::take(&mut self.free);
        free.sort_unstable();
        while let Some(gap) = free.pop() {
            let last = self.pools.count() as u32 - 1;
            if gap != last {
                self.renumber(last, gap);
            }
            self.pools.swap_remove(gap as usize);
            self.infos.swap_remove(gap as usize);
        }
    }

    /// Returns the unused targets in order, and the pools with targets that would take their numbers.
    pub(super) fn idle_targets(&self) -> (Vec<TargetIndex>, Vec<u32>) {
        let Self { pools, targets, uses, .. } = self;
        let idle = uses.idle_targets();
        let staying = targets.targets().len() - idle.len();
        let moves = |number: &u32| pools[*number as usize].all_targets().any(|target| target.0 as usize >= staying);
        let numbers = 0..pools.count() as u32;
        let moved = if idle.is_empty() { Vec::new() } else { numbers.filter(moves).collect() };
        (idle, moved)
    }

    /// Removes targets. Pools with targets that take their numbers must be free already.
    pub(super) fn take_out_targets(&mut self, idle: &[TargetIndex]) {
        self.targets.take_out(idle);
        self.uses.truncate(self.targets.targets().len());
    }

    /// Adds a value to the id.
    pub(super) fn sum_id(&mut self, change: u64) {
        self.id = self.id.wrapping_add(change);
    }

    /// Returns the result of [`Pools::steered`] and the name of the pool.
    pub(super) fn of(&self, steered: u32) -> Option<(Steered, &PoolName)> {
        let steered = self.steered[steered.checked_sub(1)? as usize];
        Some((steered, self.pools[steered.pool as usize].name()))
    }

    /// Returns the number of a pool for a zone, and compiles it if it is new. Each variant of a pool is a pool of its
    /// own.
    fn compile_pool(&mut self, pool: &'a Pool, zone: Option<&'a ZoneSpec>) -> u32 {
        let (variant, hash) = (Variant::of(pool, zone), self.key.text(&pool.name));
        if let Some(known) = self.find(pool, variant, hash) {
            return known;
        }
        let rankings = self.rankings_of(pool);
        let nowhere = LocationRankings::none();
        let location = rankings.as_ref().map_or(&nowhere, |rankings| &rankings.location);
        let steer = SteerPool::build(self.desired, pool, zone, location, &mut self.targets);
        self.uses.add(&steer, &self.targets);
        if steer.details.ignores_location {
            self.faults.push(too_many_classes(pool));
        }
        let counters = self.counters.len() as u32;
        self.count(&steer);
        let of: Vec<_> = steer
            .clusters()
            .filter_map(|c| self.desired.clusters.get(c))
            .map(|c| (&c.name, &c.addresses, &c.hosts, &c.dns_name))
            .collect();
        let digest = rankings.as_ref().map_or(0, |rankings| rankings.digest);
        let id = stable_hash(&(pool, of, variant.hides, digest));
        self.sum_id(id);
        let info = PoolInfo {
            name: pool.name.clone(),
            ttl: pool.ttl,
            bounds: pool.ttl_bounds,
            names: Vec::new(),
            monitor: variant.monitor.cloned(),
            hides: variant.hides,
            id,
            counters,
            steered: Vec::new(),
            rankings,
        };
        self.put(steer, info, hash)
    }

    /// Stores a compiled pool and returns its number.
    fn put(&mut self, steer: SteerPool, info: PoolInfo, hash: u64) -> u32 {
        let Self { key, pools, infos, by_name, .. } = self;
        let number = self.free.pop().unwrap_or_else(|| pools.count() as u32);
        if (number as usize) < pools.count() {
            *pools.change(number as usize) = steer;
            *infos.change(number as usize) = info;
        } else {
            pools.push(steer);
            infos.push(info);
        }
        by_name.add(hash, number, |other| key.text(&infos[other as usize].name));
        number
    }

    /// Returns the location rankings of a pool.
    fn rankings_of(&mut self, pool: &Pool) -> Option<Arc<CompiledRankings>> {
        let location = || FileLocation::file(CONFIGURATION);
        let known = self.ranking_cache.count();
        let rankings = self.ranking_cache.of(self.desired, pool, self.previous).unwrap_or_else(|TooLarge| {
            let most = RankingCache::OCTETS_MAX >> 20;
            let what = format!("the location rankings of all pools up to pool {} take more than {most} MiB", pool.name);
            let hint = "let pools share rankings and members, or use a coarser map";
            self.faults.push(Diagnostic::error(location(), what, hint));
            None
        });
        let is_new = self.ranking_cache.count() > known;
        if let Some(depth) = rankings.as_ref().filter(|_| is_new).and_then(|rankings| rankings.depth) {
            let what = format!(
                "pool {}: its members have more than {} different orders, so only the first {depth} ranks of each are used",
                pool.name,
                ClientPartition::CLASSES_MAX
            );
            let hint = "give nearest or latency a tolerance, or the pool fewer members";
            self.faults.push(Diagnostic::warning(location(), what, hint));
        }
        rankings
    }

    /// Returns the numbered answers of a pool with one TTL, and writes them unless another pool shares them. The caller
    /// sets the pool.
    fn answers(&mut self, number: u32, pool: &'a Pool, ttl: Ttl, entries: &mut EntryWriter) -> Steered {
        let everyone = self.pools[number as usize].answered_together().map(Box::from);
        let key = AnswerSetKey {
            everyone,
            mode: pool.mode,
            answers: pool.answers,
            down: &pool.down,
            ttl,
            members: pool.members.iter().map(|member| (&member.cluster, member.probe.is_some())).collect(),
        };
        let Self { desired, key: names, pools, answers, .. } = self;
        let steer = &pools[number as usize];
        *self.sets.entry(key).or_insert_with(|| write_answers(names, desired, pool, ttl, steer, answers, entries))
    }
}

/// Returns a copy with space for what most changes add. Others move it once.
fn with_room<T: Clone>(list: &[T]) -> Vec<T> {
    let mut copy = Vec::with_capacity(list.len() + 256);
    copy.extend_from_slice(list);
    copy
}

/// Returns the part of a steered name in the id.
fn name_id(name: &SteeredName, pool: &Pool) -> u64 {
    stable_hash(&(&name.name, &pool.name, name.ttl.unwrap_or(pool.ttl)))
}

/// Inserts a name in order. Names usually come in order.
fn note_name(names: &mut Vec<Name>, name: &Name) {
    // Most pools answer one name, and a vector that grows by itself has room for four.
    if names.is_empty() {
        names.reserve_exact(1);
    }
    if names.last().is_none_or(|last| last < name) {
        names.push(name.clone());
    } else if let Err(at) = names.binary_search(name) {
        names.insert(at, name.clone());
    }
}

fn too_many_classes(pool: &Pool) -> Diagnostic {
    let what = format!(
        "pool {}: networks of members and locations of clients make more than 65535 classes, so locations are ignored",
        pool.name
    );
    Diagnostic::warning(FileLocation::file(CONFIGURATION), what, "give members fewer networks, or use a coarser map")
}

/// Writes every numbered answer of a pool with one TTL.
fn write_answers(
    key: &NameKey,
    desired: &DesiredState,
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
            answers.push(sets::write_small(key, entries, rtype, ttl, rdatas.iter().map(Vec::as_slice)));
        }
        first
    };
    let v4 = addresses(Family::V4, Rtype::A);
    let v6 = addresses(Family::V6, Rtype::AAAA);
    let members = answers.len() as u32;
    let mut alias = |target: &Name| {
        answers.push(sets::write_small(key, entries, Rtype::CNAME, ttl, iter::once(target.as_wire())));
        answers.len() as u32 - 1
    };
    if pool.mode == AnswerMode::Cname {
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
    let cname = pool.mode == AnswerMode::Cname;
    Steered {
        pool: 0,
        cname,
        noted: false,
        special: cname,
        is_adaptive: false,
        v4,
        v6,
        members,
        fallback,
        counters: 0,
        ttl: ttl.secs(),
    }
}

impl Pools<'_> {
    /// Returns the number of a variant of a pool.
    fn find(&self, pool: &Pool, variant: Variant<'_>, hash: u64) -> Option<u32> {
        self.by_name.find(hash, |number| {
            let PoolInfo { name, monitor, hides, .. } = &self.infos[number as usize];
            *name == pool.name && (monitor.as_ref(), *hides) == (variant.monitor, variant.hides)
        })
    }

    /// Returns the sizes of what incremental compilations append to.
    pub(super) fn sizes(&self, entries: &EntryWriter) -> Sizes {
        let [memory, closed] = self.targets.words();
        let [schedules, ranking_cache] = [self.targets.schedules.len(), self.ranking_cache.count()];
        let [steered, answers, counters] = [self.steered.len(), self.answers.len(), self.counters.len()];
        let load_classes = self.targets.load_classes();
        let numbered = [steered, answers, counters, schedules, ranking_cache, memory, closed, load_classes];
        Sizes { octets: entries.octet_count(), numbered }
    }

    /// Gives the last pool another number.
    fn renumber(&mut self, last: u32, number: u32) {
        let info = &self.infos[last as usize];
        let hash_of = |other: u32| self.key.text(&self.infos[other as usize].name);
        self.by_name.remove(hash_of(last), last, hash_of);
        self.by_name.add(hash_of(last), number, hash_of);
        for (_, is_adaptive, first) in &info.steered {
            let columns = if *is_adaptive { 3 } else { 1 };
            let first = *first as usize - 1;
            self.steered[first..first + columns].iter_mut().for_each(|steered| steered.pool = number);
        }
    }

    /// Assigns answer counters to the members of a pool.
    fn count(&mut self, pool: &SteerPool) {
        let is_counted = self.slots.pools.contains(pool.name());
        if self.slots_are_full() && !is_counted {
            self.counters.extend(pool.clusters().map(|_| 0));
            return;
        }
        if !is_counted {
            Arc::make_mut(&mut self.slots).pools.insert(pool.name().clone());
        }
        for cluster in pool.clusters() {
            let slot = self.slot(pool.name(), cluster);
            self.counters.push(slot);
        }
    }

    fn slots_are_full(&self) -> bool {
        self.slots.list.len() + 1 >= SLOTS_MAX
    }

    /// Returns the counter of a cluster in a pool: the previous one, else the next free one, else 0 ("other").
    fn slot(&mut self, pool: &PoolName, cluster: &ClusterName) -> u16 {
        let slot = Slot { pool: pool.clone(), cluster: cluster.clone() };
        if let Some(number) = self.slots.numbers.get(&slot) {
            return *number;
        }
        if self.slots_are_full() {
            return 0;
        }
        let slots = Arc::make_mut(&mut self.slots);
        slots.list.push(slot.clone());
        let number = slots.list.len() as u16;
        slots.numbers.insert(slot, number);
        number
    }
}

/// Returns an address as RDATA.
pub(super) fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}
