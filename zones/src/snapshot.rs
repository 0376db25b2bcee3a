//! What is configured, compiled for answering.
//!
//! Everything a query needs lies in a few flat arrays; record sets are kept as the octets that go on the wire.

use std::{collections::HashMap, time::Duration};

use fairway_model::{ClusterName, Name, PoolName, Rtype, Target, Ttl};

use crate::{steer::SteerPool, table::Table, wire::same_name};

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
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { identity: ServerIdentity::default(), tcp_idle: Duration::from_secs(10), udp_payload: UDP_PAYLOAD_MAX }
    }
}

// Nodes, names, sets and records of so many names, about 100 octets each, fill a second-level cache of 2 MiB.
const NODES_IN_CACHE: usize = 20_000;
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
    /// Names it answers.
    pub names: Vec<Name>,
}

/// What is configured, compiled.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) id: u64,
    pub(crate) options: ServerOptions,
    pub(crate) table: Table,
    pub(crate) nodes: Box<[Node]>,
    /// Lower-case names of nodes, and targets of CNAME and DNAME as written.
    pub(crate) names: Box<[u8]>,
    pub(crate) sets: Box<[RrSet]>,
    pub(crate) blobs: Box<[u8]>,
    /// Places in a blob, from its start, where a pointer to the zone's apex is due.
    pub(crate) patches: Box<[u32]>,
    pub(crate) extras: Box<[Extra]>,
    pub(crate) aliases: Box<[Alias]>,
    pub(crate) zones: Box<[Zone]>,
    pub(crate) steered: Box<[Steered]>,
    pub(crate) pools: Box<[SteerPool]>,
    pub(crate) pool_infos: Box<[PoolInfo]>,
    /// Answer counter of each pool's members.
    pub(crate) pool_slots: Box<[Box<[u16]>]>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) slot_numbers: HashMap<Slot, u16>,
    pub(crate) targets: Vec<Target>,
    /// Labels of the deepest node: names deeper than that need no look-up of their own.
    pub(crate) labels_max: usize,
}

/// A name that exists: in a zone's text, steered, or as the parent of one that does (an empty non-terminal).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) name: u32,
    pub(crate) name_len: u8,
    pub(crate) flags: u8,
    pub(crate) zone: u16,
    pub(crate) sets: u32,
    pub(crate) set_count: u16,
    /// Index into `steered` plus one; 0 for a static name.
    pub(crate) steered: u32,
    /// Number plus one of the child `*`; 0 if there is none.
    pub(crate) wildcard: u32,
    /// Number plus one of the topmost cut or DNAME above this name; 0 if nothing hides it.
    pub(crate) occluder: u32,
}

impl Node {
    /// The apex of a zone.
    pub(crate) const APEX: u8 = 1;
    /// A delegation: NS records below an apex.
    pub(crate) const CUT: u8 = 2;
    /// Has a DNAME, which hides everything below.
    pub(crate) const DNAME: u8 = 4;

    /// Nothing hides it, and it is no delegation: it is answered from itself.
    pub(crate) const OPEN: u8 = 8;

    #[inline]
    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A record set in wire form.
///
/// Its blob holds whole records whose owner is a pointer to the question's name (0xc00c); any other owner is patched in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RrSet {
    pub(crate) rtype: Rtype,
    pub(crate) count: u16,
    pub(crate) ttl: u32,
    pub(crate) blob: u32,
    pub(crate) len: u32,
    pub(crate) patches: u32,
    pub(crate) patch_count: u32,
    pub(crate) extras: u32,
    pub(crate) extra_count: u32,
    /// Where a CNAME or DNAME leads; [`RrSet::NO_ALIAS`] for other types.
    pub(crate) alias: u32,
}

impl RrSet {
    /// Leads nowhere.
    pub(crate) const NO_ALIAS: u32 = u32::MAX;
}

/// The target of a CNAME or DNAME.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    /// Its hash, so that following a CNAME hashes nothing.
    pub(crate) hash: u64,
    /// Place in `names`, as written.
    pub(crate) name: u32,
    pub(crate) name_len: u8,
}

/// Addresses of a name that a record set speaks of: glue of a delegation, targets of SRV and SVCB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    /// Where the name stands in the blob of the set it belongs to; [`Extra::OWNER`] for the set's own owner.
    pub(crate) at: u32,
    /// Index of the address set.
    pub(crate) set: u32,
    /// Glue that the delegation does not work without (RFC 9471): if it does not fit, the answer is truncated.
    pub(crate) required: bool,
}

impl Extra {
    /// The addresses belong to the owner itself.
    pub(crate) const OWNER: u32 = u32::MAX;
}

/// A zone.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) info: ZoneInfo,
    /// Octets of the apex name.
    pub(crate) origin_len: u8,
    /// SOA for negative answers, its TTL the smaller of SOA TTL and MINIMUM (RFC 2308 section 5).
    pub(crate) negative: u32,
    /// The zone above it that is served here too.
    pub(crate) parent: Option<u16>,
}

/// How a steered name is answered: a pool, and where its numbered record sets lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered {
    pub(crate) pool: u32,
    pub(crate) cname: bool,
    /// First numbered set of A, of AAAA, of member CNAMEs.
    pub(crate) v4: u32,
    pub(crate) v6: u32,
    pub(crate) members: u32,
    /// The fallback CNAME; [`Steered::NONE`] if there is none.
    pub(crate) fallback: u32,
}

impl Steered {
    /// No such set.
    pub(crate) const NONE: u32 = u32::MAX;
}

impl Snapshot {
    /// Every target that members are judged by, in the order of their index.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Equal ids of snapshot and conditions give equal answers on every server. A sum of hashes of all that is declared.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The zones, those with fewer labels first.
    pub fn zones(&self) -> impl Iterator<Item = &ZoneInfo> {
        self.zones.iter().map(|zone| &zone.info)
    }

    /// The compiled pools; [`Snapshot::pool_infos`] names them in the same order.
    pub fn steer_pools(&self) -> &[SteerPool] {
        &self.pools
    }

    /// What each compiled pool is called and serves.
    pub fn pool_infos(&self) -> &[PoolInfo] {
        &self.pool_infos
    }

    /// Answer counters by slot, from slot 1 on: `slots()[0]` is what `Tallies::answers[1]` counts.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether what a query reads is likely not in the processor's cache.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.nodes.len() > NODES_IN_CACHE || self.pools.len() > POOLS_IN_CACHE
    }

    #[inline]
    pub(crate) fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    /// The name of a node, in lower case.
    #[inline]
    pub(crate) fn node_name(&self, node: &Node) -> &[u8] {
        &self.names[node.name as usize..][..usize::from(node.name_len)]
    }

    #[inline]
    pub(crate) fn sets_of(&self, node: &Node) -> &[RrSet] {
        &self.sets[node.sets as usize..][..usize::from(node.set_count)]
    }

    /// The record set of this type at a node.
    #[inline]
    pub(crate) fn set(&self, node: &Node, rtype: Rtype) -> Option<&RrSet> {
        self.sets_of(node).iter().find(|set| set.rtype == rtype)
    }

    /// The records of a set in wire form.
    #[inline]
    pub(crate) fn blob(&self, set: &RrSet) -> &[u8] {
        &self.blobs[set.blob as usize..][..set.len as usize]
    }

    /// Where a CNAME or DNAME points.
    pub(crate) fn alias(&self, set: &RrSet) -> &Alias {
        &self.aliases[set.alias as usize]
    }

    /// The name of a target.
    pub(crate) fn alias_name(&self, alias: &Alias) -> &[u8] {
        &self.names[alias.name as usize..][..usize::from(alias.name_len)]
    }

    /// The node with exactly this name, in any case.
    #[inline]
    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.table.find(hash, |number| same_name(name, self.node_name(self.node(number))))
    }
}
