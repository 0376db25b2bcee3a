//! The configuration, compiled for answering into a few flat arrays.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairway_model::{ClusterName, MonitorName, Name, Network, PoolName, Target, Ttl, TtlBounds};

use crate::{
    chunks::Chunks,
    cookie::CookieKeys,
    entries::{Entries, Extra, Node, RrSet, SetDetails, UPPER},
    location::{CompiledRankings, RankingCache},
    lookup::Found,
    rate_limit::RateLimits,
    steer::{LoadClasses, SteerPool, TargetTable, TargetUses},
    table::Table,
    tally::OUTSIDE,
    target::TargetIndex,
    wire::NameKey,
};

/// Texts for `hostname.bind`, `id.server` and NSID (RFC 4892, RFC 5001), and for `version.bind`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Text of `version.bind` and `version.server`, at most 255 octets. `None` refuses these queries.
    pub version: Option<String>,
    /// Text of `hostname.bind`, `id.server` and NSID, at most 255 octets. `None` refuses the queries and omits NSID.
    pub id: Option<String>,
}

/// Settings of responses that do not depend on the zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Identity of the server.
    pub identity: ServerIdentity,
    /// Idle timeout of TCP connections, sent to clients that ask for it (RFC 7828). At most 6,553 s.
    pub tcp_idle: Duration,
    /// Largest UDP response, and the advertised size: 512 to 1,232 octets. Default: 1,232 (RFC 9715).
    pub udp_payload: u16,
    /// True if sources of load-balanced pools that have proven nothing are asked now and then to come over TCP. Default: false.
    pub challenge: bool,
    /// Networks that may query `_explain.NAME`. Default: none. At most [`ServerOptions::EXPLAIN_MAX`] networks count.
    pub explain: Vec<Network>,
    /// Keys of DNS cookies. Default: no cookies.
    pub cookies: CookieKeys,
    /// Limits of responses over UDP. Default: none.
    pub rate_limits: Option<RateLimits>,
}

impl ServerOptions {
    /// Maximum number of networks that may query explanations.
    pub const EXPLAIN_MAX: usize = 64;
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            identity: ServerIdentity::default(),
            tcp_idle: Duration::from_secs(10),
            udp_payload: UDP_PAYLOAD_MAX,
            challenge: false,
            explain: vec![],
            cookies: CookieKeys::Off,
            rate_limits: None,
        }
    }
}

// 1.5 MB of entries and the table fill a second-level cache of 2 MiB.
const OCTETS_IN_CACHE: usize = 1_500_000;
// A pool of three members takes about 500 bytes with its name and counters, so 4,000 pools fill that cache.
const POOLS_IN_CACHE: usize = 4_000;

// 1,232 = 1,280 (smallest IPv6 MTU) - 40 - 8, so a reply never needs fragmenting (RFC 9715).
const UDP_PAYLOAD_MAX: u16 = 1_232;

/// An answer counter: a cluster in a pool. A slot keeps its number over reloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The pool.
    pub pool: PoolName,
    /// The cluster answered.
    pub cluster: ClusterName,
}

/// A zone, for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The apex.
    pub origin: Name,
    /// Serial of its SOA.
    pub serial: u32,
    /// Number of records read from zone files.
    pub records: usize,
    /// Steered names in it.
    pub steered: usize,
}

/// A pool, for the status. A pool that is used in two zones with different default monitors is compiled twice.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// The pool.
    pub name: PoolName,
    /// TTL of its answers, unless a name declares its own.
    pub ttl: Ttl,
    /// Bounds of the adaptive TTL.
    pub bounds: Option<TtlBounds>,
    /// Names that it answers, sorted.
    pub names: Vec<Name>,
    /// Monitor and visibility of the zone, if they make a variant of the pool.
    pub(crate) monitor: Option<MonitorName>,
    pub(crate) hides: bool,
    /// Part of the pool in the id of the snapshot.
    pub(crate) id: u64,
    /// Index of the pool's first answer counter.
    pub(crate) counters: u32,
    /// Value of [`Node::steered`] for names with this TTL, and true if the TTL is adaptive.
    pub(crate) steered: Vec<(Ttl, bool, u32)>,
    /// Location rankings. `None` if the pool does not rank by location.
    pub(crate) rankings: Option<Arc<CompiledRankings>>,
}

impl PoolInfo {
    /// Returns the largest TTL that the pool answers with.
    pub fn ttl_max(&self) -> Ttl {
        self.bounds.map_or(self.ttl, |bounds| bounds.long)
    }
}

/// The compiled configuration: a lower layer with the names of the zone files, and an upper layer with the names of
/// pools.
///
/// A name in the upper layer replaces the same name in the lower one and holds its records too. So a change of pools
/// leaves the lower layer as it is, however many names it has.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) id: u64,
    pub(crate) options: ServerOptions,
    pub(crate) text: Arc<TextLayer>,
    /// Steered names, and names that exist because of them. Their numbers have the bit [`UPPER`].
    pub(crate) upper: Layer,
    pub(crate) steered: Box<[Steered]>,
    /// Numbers of the record sets that pools answer with, in the upper layer.
    pub(crate) answers: Box<[u32]>,
    pub(crate) pools: Chunks<SteerPool>,
    pub(crate) pool_infos: Chunks<PoolInfo>,
    /// Indices of pools by the hash of their name, which [`NameKey::text`] returns.
    pub(crate) pools_by_name: Table,
    /// Answer counters of the members of all pools.
    pub(crate) counters: Box<[u16]>,
    pub(crate) slots: Arc<Slots>,
    /// Numbers of targets, balanced clusters and schedules.
    pub(crate) targets: TargetTable,
    pub(crate) target_uses: TargetUses,
    /// Location rankings by their inputs, for the next snapshot.
    pub(crate) ranking_cache: Arc<RankingCache>,
    /// Number of steered names in each zone.
    pub(crate) steered_in: Box<[usize]>,
    /// Names of clusters that pools answer with, as far as the upper layer has them.
    pub(crate) cluster_names: Arc<BTreeSet<Name>>,
    /// Labels of the deepest node. A deeper name needs no lookup of its own.
    pub(crate) labels_max: usize,
    /// Sizes at the last full compilation, which bound how much incremental ones may add.
    pub(crate) whole: Sizes,
    /// Location classes of load control, once they are needed.
    pub(crate) load_classes: OnceLock<Arc<LoadClasses>>,
}

/// All answer counters. They keep their numbers over reloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// Slots from slot 1 on.
    pub(crate) list: Vec<Slot>,
    pub(crate) numbers: HashMap<Slot, u16>,
    /// Pools with at least one counter.
    pub(crate) pools: HashSet<PoolName>,
}

/// Sizes of what an incremental compilation appends to. The parts that it replaces stay in memory, unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes of the upper layer's entries.
    pub(crate) octets: usize,
    /// Counts of all other numbered items.
    pub(crate) numbered: [usize; 8],
}

impl Sizes {
    /// True if incremental compilations have appended more than a quarter plus a margin, so that a full one is due.
    pub(crate) fn have_outgrown(&self, whole: &Self) -> bool {
        let outgrown = |now: usize, then: usize, spare: usize| now > then + then / 4 + spare;
        let numbered = self.numbered.iter().zip(&whole.numbered);
        outgrown(self.octets, whole.octets, OCTETS_SPARE)
            || numbered.into_iter().any(|(now, then)| outgrown(*now, *then, NUMBERS_SPARE))
    }
}

// 1 MiB, about 10,000 names, and some thousand pools: copied in a fraction of a millisecond.
const OCTETS_SPARE: usize = 1 << 20;
const NUMBERS_SPARE: usize = 16_384;

/// Names with a table to look them up.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) table: Table,
    pub(crate) entries: Entries,
}

impl Layer {
    /// Returns the number of the node with this name. The case of letters is ignored.
    #[inline]
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.find_node(hash, name).map(|(number, _)| number)
    }

    /// Returns the number of the node with this name, and the node.
    #[inline(always)]
    fn find_node(&self, hash: u64, name: &[u8]) -> Option<(u32, Node<'_>)> {
        let number = self.table.guess(hash)?;
        let node = self.entries.node(number);
        if node.is_called(name) {
            return Some((number, node));
        }
        let number = self.find_among(hash, name)?;
        Some((number, self.entries.node(number)))
    }

    /// Returns the number alone. Called if the first node with a matching tag has another name, one lookup in 2^32.
    ///
    /// It is a function of its own because a loop around the comparison would spill the registers of all other lookups.
    #[cold]
    #[inline(never)]
    fn find_among(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| self.entries.node(number).is_called(name))
    }
}

/// The compiled text of all zones.
#[derive(Debug)]
pub(crate) struct TextLayer {
    /// Key of the hashes of all names, also of those in the layers above.
    pub(crate) key: NameKey,
    pub(crate) layer: Layer,
    pub(crate) extras: Box<[Extra]>,
    /// Zones with fewer labels come first.
    pub(crate) zones: Box<[Zone]>,
    /// Rows of counters of all zones since the start. They stay over reloads.
    pub(crate) rows: BTreeMap<Name, u8>,
    pub(crate) labels_max: usize,
    /// Labels of the zone with the fewest.
    pub(crate) labels_min: usize,
    /// Sum of the hashes of all records.
    pub(crate) id: u64,
}

/// A zone.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Apex of the zone.
    pub(crate) origin: Name,
    /// Serial of its SOA.
    pub(crate) serial: u32,
    /// Number of records in the zone file.
    pub(crate) records: usize,
    /// Octets of the apex name.
    pub(crate) origin_len: u8,
    /// Number of the SOA for negative answers. Its TTL is the smaller of SOA TTL and MINIMUM (RFC 2308 section 5).
    pub(crate) negative: u32,
    /// Number of the whole answer that denies a name or type.
    pub(crate) denial: u32,
    /// Parent zone, if this server has it too.
    pub(crate) parent: Option<u16>,
    /// Row of its counters of questions.
    pub(crate) row: u8,
}

/// Answer data of a steered name: its pool, and the record sets for the answers of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered {
    pub(crate) pool: u32,
    pub(crate) cname: bool,
    /// True if some clients get an explanation in the answer.
    pub(crate) noted: bool,
    /// True if `cname` or `noted` is, so that the fast path tests one flag.
    pub(crate) special: bool,
    /// True if the TTL is adaptive. Then the same record sets follow with the long TTL, and then with the short one.
    pub(crate) is_adaptive: bool,
    /// Indices in `answers` of the first A set, AAAA set and member CNAME.
    pub(crate) v4: u32,
    pub(crate) v6: u32,
    pub(crate) members: u32,
    /// Index of the fallback CNAME in `answers`, or [`Steered::NONE`].
    pub(crate) fallback: u32,
    /// Index of the pool's first answer counter.
    pub(crate) counters: u32,
    /// TTL of the record sets in seconds, which is also the longest of a negative answer.
    pub(crate) ttl: u32,
}

impl Steered {
    /// Stands for a record set that does not exist.
    pub(crate) const NONE: u32 = u32::MAX;
}

impl Snapshot {
    /// Returns every target of the members, by index.
    pub fn targets(&self) -> &[Target] {
        self.targets.targets()
    }

    /// Returns the index of each target.
    pub fn target_indexes(&self) -> &Arc<HashMap<Target, TargetIndex>> {
        self.targets.indexes()
    }

    /// Returns the indices of the pools of a name in [`Snapshot::pool_infos`].
    ///
    /// There are several if zones make variants of the pool, and none if no name uses it.
    pub fn indices_of(&self, name: &PoolName) -> impl Iterator<Item = usize> {
        let candidates = self.pools_by_name.candidates(self.key().text(name)).map(|place| place as usize);
        candidates.filter(move |place| self.pool_infos[*place].name == *name)
    }

    /// Returns the index of a pool of this snapshot.
    pub(crate) fn index_of(&self, pool: &SteerPool) -> Option<usize> {
        self.indices_of(pool.name()).find(|place| std::ptr::eq(&raw const self.pools[*place], pool))
    }

    /// Returns the id, a sum of hashes of everything declared. Equal ids of snapshot and runtime state give equal
    /// answers on every server.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the zones. Those with fewer labels come first.
    pub fn zones(&self) -> impl Iterator<Item = ZoneInfo> {
        self.text.zones.iter().zip(&self.steered_in).map(|(zone, steered)| ZoneInfo {
            origin: zone.origin.clone(),
            serial: zone.serial,
            records: zone.records,
            steered: *steered,
        })
    }

    /// Returns the compiled pools, in the order of [`Snapshot::pool_infos`].
    pub fn steer_pools(&self) -> &Chunks<SteerPool> {
        &self.pools
    }

    /// Returns the pools with the down answer `last-good`, with their indices. Costs nothing if there is none.
    pub(crate) fn remembering_pools(&self) -> impl Iterator<Item = (u32, &SteerPool)> {
        let [memory_words, _] = self.targets.words();
        let pools = (0..).zip(self.pools.iter()).take_while(move |_| memory_words > 0);
        pools.filter(|(_, pool)| !pool.memory().is_empty())
    }

    /// Returns the location classes of load control.
    pub fn load_classes(&self) -> &Arc<LoadClasses> {
        self.load_classes.get_or_init(|| Arc::new(LoadClasses::new(&self.targets, self.target_uses.rankings())))
    }

    /// True if a pool balances by load.
    pub fn uses_load(&self) -> bool {
        !self.targets.balanced.is_empty()
    }

    /// Returns name, TTLs and names of each compiled pool.
    pub fn pool_infos(&self) -> &Chunks<PoolInfo> {
        &self.pool_infos
    }

    /// Returns the answer counters from slot 1 on: `Tallies::answers[1]` counts for `slots()[0]`.
    pub fn slots(&self) -> &[Slot] {
        &self.slots.list
    }

    /// Returns the location rankings of a pool, or `None` if it does not rank by location.
    pub(crate) fn rankings(&self, pool: &PoolName) -> Option<&CompiledRankings> {
        self.pool_infos[self.indices_of(pool).next()?].rankings.as_deref()
    }

    /// True if responses over UDP are limited.
    #[inline]
    pub fn is_rate_limited(&self) -> bool {
        self.options.rate_limits.is_some()
    }

    /// True if the data that queries read is too large for the processor's cache.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        let octets = self.text.layer.entries.octets.len() + self.upper.entries.octets.len();
        octets > OCTETS_IN_CACHE || self.pools.len() > POOLS_IN_CACHE
    }

    /// Returns the key of the hashes of names.
    #[inline(always)]
    pub(crate) fn key(&self) -> &NameKey {
        &self.text.key
    }

    #[inline]
    pub(crate) fn node(&self, number: u32) -> Node<'_> {
        let layer = if number & UPPER == 0 { &self.text.layer } else { &self.upper };
        layer.entries.node(number & !UPPER)
    }

    #[inline]
    pub(crate) fn zone(&self, number: u16) -> &Zone {
        &self.text.zones[usize::from(number)]
    }

    /// Returns the row of counters of the zone in which a name was found.
    #[inline]
    pub(crate) fn row(&self, found: Found) -> u8 {
        let zone = match found {
            Found::Exact(node) | Found::Wildcard(node) | Found::Cut(node) | Found::Dname(node) => {
                self.node(node).zone()
            }
            Found::Nothing(zone) => zone as u16,
            Found::Outside => return OUTSIDE,
        };
        self.zone(zone).row
    }

    /// Returns a record set that a pool answers with.
    #[inline(always)]
    pub(crate) fn answer(&self, place: u32) -> RrSet<'_> {
        self.upper.entries.set(self.answers[place as usize])
    }

    /// Returns the node with this name, in any case, and its number.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<(u32, Node<'_>)> {
        if let Some((number, node)) = self.upper.find_node(hash, name) {
            return Some((number | UPPER, node));
        }
        self.text.layer.find_node(hash, name)
    }

    /// Returns the node that a name with this hash most likely has. Does not compare names.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        let upper = || self.upper.table.guess(hash).map(|number| number | UPPER);
        self.text.layer.table.guess(hash).or_else(upper)
    }

    /// Returns the node that an alias in a zone file leads to, if it is known and open.
    #[inline]
    pub(crate) fn target(&self, rest: SetDetails<'_>) -> Option<u32> {
        let target = rest.target()?;
        if self.upper.table.is_empty() {
            return Some(target);
        }
        let alias = rest.alias()?;
        self.upper.find(alias.hash, alias.name).map_or(Some(target), |number| Some(number | UPPER))
    }
}
