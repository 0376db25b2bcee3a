//! What is configured, compiled for answering.
//!
//! Everything a query needs lies in a few flat arrays.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use fairway_model::{ClusterName, MonitorName, Name, Network, PoolName, Schedule, Target, Ttl, TtlBounds, stable_hash};

use crate::{
    chunks::Chunks,
    entries::{Entries, Extra, Node, RrSet, SetDetails, UPPER},
    location::{CompiledRankings, RankingCache},
    shares::ClusterNumbers,
    steer::{SteerPool, TargetTable, TargetUses},
    table::Table,
};

/// Answers to `hostname.bind` and `id.server` and to NSID (RFC 4892, RFC 5001), and `version.bind`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Text of `version.bind` and `version.server`, at most 255 octets; none refuses them.
    pub version: Option<String>,
    /// Text of `hostname.bind`, `id.server`, and NSID, at most 255 octets; none refuses them and leaves NSID out.
    pub id: Option<String>,
}

/// How the server speaks, whatever the zones are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// What it says of itself.
    pub identity: ServerIdentity,
    /// Idle time limit of TCP connections, told to clients that ask (RFC 7828), at most 6553 s.
    pub tcp_idle: Duration,
    /// Largest UDP response, and the size advertised: 512 to 1232 octets, 1232 by default (RFC 9715).
    pub udp_payload: u16,
    /// Who is told how steered names are answered, at `_explain.NAME`; nobody by default. At most
    /// [`ServerOptions::EXPLAIN_MAX`] networks count.
    pub explain: Vec<Network>,
}

impl ServerOptions {
    /// Most networks that may ask for explanations.
    pub const EXPLAIN_MAX: usize = 64;
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            identity: ServerIdentity::default(),
            tcp_idle: Duration::from_secs(10),
            udp_payload: UDP_PAYLOAD_MAX,
            explain: vec![],
        }
    }
}

// With the table, that much fills a second-level cache of 2 MiB.
const OCTETS_IN_CACHE: usize = 1_500_000;
// A pool of three, its name and its counters take about 500 octets.
const POOLS_IN_CACHE: usize = 4_000;

// 1,232 = 1,280 (smallest IPv6 MTU) - 40 - 8, so a reply never needs fragmenting (RFC 9715).
const UDP_PAYLOAD_MAX: u16 = 1_232;

/// One counter of answers: a cluster in a pool. Slots keep their number over reloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The pool.
    pub pool: PoolName,
    /// The cluster answered.
    pub cluster: ClusterName,
}

/// A zone, as status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The apex.
    pub origin: Name,
    /// Serial of its SOA.
    pub serial: u32,
    /// Records from zone text.
    pub records: usize,
    /// Steered names in it.
    pub steered: usize,
}

/// A pool, as status shows it. A pool used under two zones with different default monitors is compiled twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    /// The pool.
    pub name: PoolName,
    /// Its members, in declared order.
    pub clusters: Vec<ClusterName>,
    /// TTL of its answers, where a name does not declare its own.
    pub ttl: Ttl,
    /// Bounds within which that goes by risk.
    pub bounds: Option<TtlBounds>,
    /// Names it answers, in order.
    pub names: Vec<Name>,
    pub(crate) reuse: PoolReuse,
}

/// What a pool was compiled to, for the snapshot that is made of this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolReuse {
    /// The zone's monitor, where it makes another pool of it, and whether the zone hides its internal members.
    pub(crate) monitor: Option<MonitorName>,
    pub(crate) hides: bool,
    /// Its part of the snapshot's id.
    pub(crate) id: u64,
    /// Where its part of the counters begins.
    pub(crate) counters: u32,
    /// What [`Node::steered`] says at names with this TTL, and whether it goes by risk.
    pub(crate) steered: Vec<(Ttl, bool, u32)>,
}

impl PoolInfo {
    /// The largest TTL that the pool answers with.
    pub fn ttl_max(&self) -> Ttl {
        self.bounds.map_or(self.ttl, |bounds| bounds.long)
    }
}

/// What is configured, compiled: what the zones' text says, and above it what pools answer.
///
/// Both are layers of names. A name of the upper one takes the place of the same name of the lower one, whose records it
/// holds too, so that a change of pools leaves the lower one as it is, however many names that has.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) id: u64,
    pub(crate) options: ServerOptions,
    pub(crate) text: Arc<TextLayer>,
    /// Steered names, and what exists because of them. Its numbers have [`UPPER`] set.
    pub(crate) upper: Layer,
    pub(crate) steered: Box<[Steered]>,
    /// Numbers of the record sets that pools answer with, in the upper layer.
    pub(crate) answers: Box<[u32]>,
    pub(crate) pools: Chunks<SteerPool>,
    pub(crate) pool_infos: Chunks<PoolInfo>,
    /// Places of pools by the hash of their name.
    pub(crate) pools_by_name: Table,
    /// Answer counters of all pools' members.
    pub(crate) counters: Box<[u16]>,
    pub(crate) slots: Arc<Slots>,
    /// Targets, clusters that are balanced and schedules, by their numbers.
    pub(crate) targets: TargetTable,
    pub(crate) target_uses: TargetUses,
    /// Placements by shape, for the next snapshot.
    pub(crate) ranking_cache: Arc<RankingCache>,
    /// The placement of each pool that goes by place.
    pub(crate) placed: Box<[Option<Arc<CompiledRankings>>]>,
    /// Steered names of each zone.
    pub(crate) steered_in: Box<[usize]>,
    /// Names of clusters that pools answer by name, where they are of the upper layer.
    pub(crate) cluster_names: Arc<BTreeSet<Name>>,
    /// Labels of the deepest node: names deeper than that need no look-up of their own.
    pub(crate) labels_max: usize,
    /// How much there was of what a revision adds to when all was compiled last.
    pub(crate) whole: Sizes,
}

/// The answer counters there are. They keep their number over reloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// From slot 1 on.
    pub(crate) list: Vec<Slot>,
    pub(crate) numbers: HashMap<Slot, u16>,
    /// Pools some of whose members have one.
    pub(crate) pools: HashSet<PoolName>,
}

/// How much there is of what is written behind the rest when a part is compiled anew; what was there before stays, unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Octets of the upper layer's entries.
    pub(crate) octets: usize,
    /// Of everything else that is numbered.
    pub(crate) numbered: [usize; 7],
}

impl Sizes {
    /// Whether so much was added since that compiling all anew is due: a quarter, and some.
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

/// Names that can be looked up.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) table: Table,
    pub(crate) entries: Entries,
}

impl Layer {
    /// The number of the node with exactly this name, in any case.
    #[inline]
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.find_node(hash, name).map(|(number, _)| number)
    }

    /// The same with the node itself.
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

    /// The number alone, where the first node with the tag of the hash may have another name: one look-up in 2^32. A loop around the
    /// comparison of names would cost all the others their registers.
    #[cold]
    #[inline(never)]
    fn find_among(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| self.entries.node(number).is_called(name))
    }
}

/// What the text of all zones says.
#[derive(Debug)]
pub(crate) struct TextLayer {
    pub(crate) layer: Layer,
    pub(crate) extras: Box<[Extra]>,
    /// Those with fewer labels first.
    pub(crate) zones: Box<[Zone]>,
    pub(crate) labels_max: usize,
    /// Sum of hashes of all records.
    pub(crate) id: u64,
}

/// A zone.
#[derive(Debug)]
pub(crate) struct Zone {
    /// The apex.
    pub(crate) origin: Name,
    /// Serial of its SOA.
    pub(crate) serial: u32,
    /// Records of its text.
    pub(crate) records: usize,
    /// Octets of the apex name.
    pub(crate) origin_len: u8,
    /// Number of the SOA for negative answers, its TTL the smaller of SOA TTL and MINIMUM (RFC 2308 section 5).
    pub(crate) negative: u32,
    /// Number of the whole answer that denies a name or type in it.
    pub(crate) denial: u32,
    /// The zone above it that is served here too.
    pub(crate) parent: Option<u16>,
}

/// How a steered name is answered: a pool, and which record sets its answers stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered {
    pub(crate) pool: u32,
    pub(crate) cname: bool,
    /// Whether its answers are explained to some in the answer itself.
    pub(crate) noted: bool,
    /// Whether `cname` or `noted` holds, so that the short way looks at one of them only.
    pub(crate) special: bool,
    /// Whether the TTL goes by risk: then the same with the long TTL and with the short one follow.
    pub(crate) is_adaptive: bool,
    /// Where the sets of A, of AAAA, of member CNAMEs begin in `answers`.
    pub(crate) v4: u32,
    pub(crate) v6: u32,
    pub(crate) members: u32,
    /// Where the fallback CNAME stands in `answers`; [`Steered::NONE`] if there is none.
    pub(crate) fallback: u32,
    /// Where the pool's part of `counters` begins.
    pub(crate) counters: u32,
}

impl Steered {
    /// No such set.
    pub(crate) const NONE: u32 = u32::MAX;
}

impl Snapshot {
    /// Every target that members are judged by, in the order of their index.
    pub fn targets(&self) -> &[Target] {
        self.targets.targets()
    }

    /// Schedules of members by their number.
    pub(crate) fn schedules(&self) -> &[Schedule] {
        self.targets.schedules()
    }

    /// Places of the pools of a name among [`Snapshot::pool_infos`]: several where zones make different ones of it, none where no
    /// name uses it.
    pub fn indices_of(&self, name: &PoolName) -> impl Iterator<Item = usize> {
        let candidates = self.pools_by_name.candidates(stable_hash(name)).map(|place| place as usize);
        candidates.filter(move |place| self.pool_infos[*place].name == *name)
    }

    /// The place of a pool of this snapshot.
    pub(crate) fn index_of(&self, pool: &SteerPool) -> Option<usize> {
        self.indices_of(pool.name()).find(|place| std::ptr::eq(&raw const self.pools[*place], pool))
    }

    /// Equal ids of snapshot and runtime state give equal answers on every server. A sum of hashes of all that is declared.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The zones, those with fewer labels first.
    pub fn zones(&self) -> impl Iterator<Item = ZoneInfo> {
        self.text.zones.iter().zip(&self.steered_in).map(|(zone, steered)| ZoneInfo {
            origin: zone.origin.clone(),
            serial: zone.serial,
            records: zone.records,
            steered: *steered,
        })
    }

    /// The numbers of the clusters that pools balance.
    pub(crate) fn balanced_clusters(&self) -> &ClusterNumbers {
        self.targets.balanced()
    }

    /// The compiled pools; [`Snapshot::pool_infos`] names them in the same order.
    pub fn steer_pools(&self) -> &Chunks<SteerPool> {
        &self.pools
    }

    /// The same, where any of them remembers who was the last to be up.
    pub(crate) fn remembering_pools(&self) -> Option<&Chunks<SteerPool>> {
        let [memory, _] = self.targets.words();
        (memory > 0).then_some(&self.pools)
    }

    /// Whether any pool heeds load: else none is balanced.
    pub fn uses_load(&self) -> bool {
        !self.balanced_clusters().is_empty()
    }

    /// What each compiled pool is called and serves.
    pub fn pool_infos(&self) -> &Chunks<PoolInfo> {
        &self.pool_infos
    }

    /// Answer counters by slot, from slot 1 on: `slots()[0]` is what `Tallies::answers[1]` counts.
    pub fn slots(&self) -> &[Slot] {
        &self.slots.list
    }

    /// Where clients of a pool are told apart by place, if they are.
    pub(crate) fn placed(&self, pool: &PoolName) -> Option<&CompiledRankings> {
        self.placed.get(self.indices_of(pool).next()?)?.as_deref()
    }

    /// Whether what a query reads is likely not in the processor's cache.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        let octets = self.text.layer.entries.octets.len() + self.upper.entries.octets.len();
        octets > OCTETS_IN_CACHE || self.pools.len() > POOLS_IN_CACHE
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

    /// A record set that a pool answers with.
    #[inline(always)]
    pub(crate) fn answer(&self, place: u32) -> RrSet<'_> {
        self.upper.entries.set(self.answers[place as usize])
    }

    /// The node with exactly this name, in any case, and its number.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<(u32, Node<'_>)> {
        if let Some((number, node)) = self.upper.find_node(hash, name) {
            return Some((number | UPPER, node));
        }
        self.text.layer.find_node(hash, name)
    }

    /// The node that a name with this hash most likely has, without a look at the name.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        let upper = || self.upper.table.guess(hash).map(|number| number | UPPER);
        self.text.layer.table.guess(hash).or_else(upper)
    }

    /// The node that a set of the zones' text leads to, where that is known and open.
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
