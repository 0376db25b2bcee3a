//! Counters of one worker thread, and bounded rings with samples for the query log and for demand.
//!
//! Each tally has one writer. An addition is a relaxed load and a relaxed store: no locked instruction, and no cache
//! line shared between writers. `queries` is the sum of responses and drops, and the response codes add up to the
//! responses.

mod challenges;
mod demand;
mod limits;
mod questions;
mod ring;
mod samples;

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    client::{Client, Transport},
    cookie::CookieStatus,
    wire::{HEADER, Rcode},
};

pub(crate) use challenges::is_drawn;
use demand::DemandRing;
pub use demand::DemandSample;
use limits::LimitTally;
pub use limits::{Exempt, LimitAction, LimitCounts};
pub use questions::COUNTED_TYPES;
use questions::Questions;
pub(crate) use questions::{OTHER_ZONES, OUTSIDE};
pub use samples::Sample;
use samples::Samples;

/// Maximum number of answer counters (a cluster in a pool each). Further ones are counted in slot 0, "other".
pub const SLOTS_MAX: usize = 4096;
/// Response codes with a counter, up to BADCOOKIE (23). Others do not occur.
pub const RCODES: usize = 24;

/// One counter, written by one thread.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }
}

/// Counters of one worker thread. Only that thread writes, and any thread may read.
#[derive(Debug)]
pub struct Tally {
    queries: [Counter; 4],
    rcodes: [Counter; RCODES],
    drops: [Counter; Dropped::ALL.len()],
    cookies: [Counter; CookieStatus::ALL.len()],
    limits: LimitTally,
    /// Responses by [`AnswerKind`], so that one addition counts all flags.
    kinds: [Counter; AnswerKind::COUNT],
    slots: Box<[Counter]>,
    questions: Questions,
    samples: Samples,
    demand_samples: DemandRing,
    challenged: Counter,
}

impl Default for Tally {
    fn default() -> Self {
        let slots = (0..SLOTS_MAX).map(|_| Counter::default()).collect();
        Self {
            queries: Default::default(),
            rcodes: Default::default(),
            drops: Default::default(),
            cookies: Default::default(),
            limits: LimitTally::default(),
            kinds: Default::default(),
            slots,
            questions: Questions::default(),
            samples: Samples::default(),
            demand_samples: DemandRing::default(),
            challenged: Counter::default(),
        }
    }
}

/// Reason why a packet was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Dropped {
    /// It is shorter than a header of 12 octets.
    Short,
    /// It is a response. Answering it could make a loop.
    Response,
    /// It came from port 0, which cannot receive.
    PortZero,
    /// It is no query that can be answered and came over UDP from the port of a service that answers anything. An
    /// error could make a loop.
    ServicePort,
    /// The transport gave too small a buffer for the response.
    NoRoom,
    /// Its network gets too many responses.
    RateLimit,
}

impl Dropped {
    /// All reasons, in declared order.
    pub const ALL: [Self; 6] =
        [Self::Short, Self::Response, Self::PortZero, Self::ServicePort, Self::NoRoom, Self::RateLimit];

    /// Returns the first reason that applies to a packet that is no query, has no port, or has no room for a response.
    pub(crate) fn reason(client: &Client, packet: &[u8], no_room: bool) -> Option<Self> {
        match packet.get(2) {
            _ if packet.len() < HEADER => Some(Self::Short),
            Some(flags) if flags & 0x80 != 0 => Some(Self::Response),
            _ if client.port == 0 => Some(Self::PortZero),
            _ if no_room => Some(Self::NoRoom),
            _ if client.transport == Transport::Udp && SERVICE_PORTS.contains(&client.port) => Some(Self::ServicePort),
            _ => None,
        }
    }
}

/// Ports of echo, daytime, qotd and chargen (IANA), which answer any datagram. No resolver asks from them.
const SERVICE_PORTS: [u16; 4] = [7, 13, 17, 19];

/// Flags of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerKind {
    pub(crate) truncated: bool,
    pub(crate) edns: bool,
    pub(crate) ecs: bool,
    pub(crate) down: bool,
}

impl AnswerKind {
    const COUNT: usize = 16;

    #[inline]
    fn number(self) -> usize {
        usize::from(self.truncated)
            | usize::from(self.edns) << 1
            | usize::from(self.ecs) << 2
            | usize::from(self.down) << 3
    }

    fn of(number: usize) -> Self {
        let bit = |place: u32| number >> place & 1 == 1;
        Self { truncated: bit(0), edns: bit(1), ecs: bit(2), down: bit(3) }
    }
}

impl Tally {
    #[inline]
    pub(crate) fn query(&self, client: &Client) {
        let family = usize::from(client.address.is_ipv6());
        let stream = usize::from(client.transport == Transport::Tcp);
        self.queries[stream * 2 + family].add(1);
    }

    #[inline]
    pub(crate) fn drop_one(&self, why: Dropped) {
        self.drops[why as usize].add(1);
    }

    #[inline]
    pub(crate) fn cookie(&self, status: CookieStatus) {
        self.cookies[status as usize].add(1);
    }

    #[inline]
    pub(crate) fn response(&self, rcode: Rcode, kind: AnswerKind) {
        self.rcodes[usize::from(rcode.0).min(RCODES - 1)].add(1);
        self.kinds[kind.number()].add(1);
    }

    #[inline(always)]
    pub(crate) fn answer(&self, slot: u16) {
        self.slots[usize::from(slot) % SLOTS_MAX].add(1);
    }

    /// Adds this thread's counters to a sum.
    pub fn add_to(&self, sum: &mut Tallies) {
        let add = |sums: &mut [u64], counters: &[Counter]| {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.0.load(Relaxed));
        };
        add(&mut sum.queries, &self.queries);
        add(&mut sum.rcodes, &self.rcodes);
        sum.answers.resize(SLOTS_MAX, 0);
        add(&mut sum.answers, &self.slots);
        self.questions.add_to(&mut sum.questions);
        add(&mut sum.drops, &self.drops);
        add(&mut sum.cookies, &self.cookies);
        self.limits.add_to(&mut sum.limits);
        for (number, counter) in self.kinds.iter().enumerate() {
            let (kind, count) = (AnswerKind::of(number), counter.0.load(Relaxed));
            sum.truncated += u64::from(kind.truncated) * count;
            sum.edns += u64::from(kind.edns) * count;
            sum.ecs += u64::from(kind.ecs) * count;
            sum.down_answers += u64::from(kind.down) * count;
        }
        sum.samples_lost += self.samples.ring.lost();
        sum.demand_samples_lost += self.demand_samples.lost();
        sum.challenges += self.challenged.0.load(Relaxed);
    }
}

/// Sum over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Received packets: UDP over IPv4, UDP over IPv6, TCP over IPv4, TCP over IPv6.
    pub queries: [u64; 4],
    /// Responses by code.
    pub rcodes: [u64; RCODES],
    /// Dropped packets, in the order of [`Dropped::ALL`].
    pub drops: [u64; Dropped::ALL.len()],
    /// Queries with a cookie, in the order of [`CookieStatus::ALL`]. 0 if cookies are off.
    pub cookies: [u64; CookieStatus::ALL.len()],
    /// Responses that were limited, and queries without a limit.
    pub limits: LimitCounts,
    /// Responses with TC.
    pub truncated: u64,
    /// Responses with OPT.
    pub edns: u64,
    /// Responses that echo a client subnet.
    pub ecs: u64,
    /// Answers of pools without a live member.
    pub down_answers: u64,
    /// Answers by slot, see [`crate::Snapshot::slots`]. Slot 0 is "other".
    pub answers: Vec<u64>,
    /// Questions that were looked up, by zone and type, see [`crate::Snapshot::question_rows`].
    pub questions: Vec<u64>,
    /// Samples lost because the ring was full.
    pub samples_lost: u64,
    /// Demand samples lost because the ring was full.
    pub demand_samples_lost: u64,
    /// Answers that asked a source to come over TCP.
    pub challenges: u64,
}

/// Returns an address as two words, IPv4 in its IPv4-mapped form.
fn address_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// Returns the address from the two words of [`address_words`].
fn address_of([high, low]: [u64; 2]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))).to_canonical()
}
