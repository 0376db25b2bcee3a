//! Counters of the transports. Each thread writes its own; a reader sums them.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use fairway_zones::{Tallies, Tally};

use super::tcp::Close;

/// The counters of a thread, once it serves: they take a quarter of a MiB, and some threads never do.
pub(super) type LateTally = OnceLock<Arc<Tally>>;

/// The counters of all threads of a server: the same ones while it runs, while it drains and when it has ended.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub(super) tallies: Vec<Arc<LateTally>>,
    pub(super) udp: Vec<Arc<UdpCounters>>,
    pub(super) tcp: Arc<TcpCounters>,
}

impl Counters {
    /// What was asked and answered, summed now.
    pub fn tallies(&self) -> Tallies {
        let mut sum = Tallies::default();
        self.tallies_by_thread().for_each(|tally| tally.add_to(&mut sum));
        sum
    }

    /// The counters of each thread that has served: samples of queries are taken thread by thread.
    pub fn tallies_by_thread(&self) -> impl Iterator<Item = &Arc<Tally>> {
        self.tallies.iter().filter_map(|tally| tally.get())
    }

    /// What the transports did, summed now.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats { tcp: self.tcp.read(), ..Stats::default() };
        self.udp.iter().for_each(|counters| counters.add_to(&mut sum.udp));
        sum
    }
}

/// A counter with one writer: a plain load and store, no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only ever called by the one thread that owns the counter.
    pub(super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The value now.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the transports did since they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams.
    pub udp: UdpStats,
    /// Streams.
    pub tcp: TcpStats,
}

/// What the UDP workers did. `received` = `answered` + `dropped` + `send_errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Datagrams taken from the sockets.
    pub received: u64,
    /// Datagrams sent.
    pub answered: u64,
    /// Datagrams that deserve no answer: responses, fragments of headers, source port 0.
    pub dropped: u64,
    /// Datagrams longer than a slot, cut by the kernel; they are among the others too.
    pub cut: u64,
    /// Answers that the kernel refused to send.
    pub send_errors: u64,
    /// Receives that failed otherwise than by the timeout.
    pub receive_errors: u64,
    /// Batches received; `received` / `batches` tells how busy the workers are (32 = full).
    pub batches: u64,
    /// Panics survived; anything but 0 is a fault of this program worth reporting.
    pub panics: u64,
}

/// What the TCP thread did. `accepted` = `active` + the sum of `closed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// Connections taken.
    pub accepted: u64,
    /// Connections open now.
    pub active: u64,
    /// Messages received whole.
    pub messages: u64,
    /// Connections that could not be taken: out of descriptors or memory, or broken before they were.
    pub accept_errors: u64,
    /// Connections ended, in the order of [`Close::ALL`].
    pub closed: [u64; Close::ALL.len()],
}

impl TcpStats {
    /// Connections ended for one reason.
    pub fn closed(&self, why: Close) -> u64 {
        self.closed[why as usize]
    }
}

/// The counters of the TCP thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct TcpCounters {
    /// See [`TcpStats::accepted`].
    pub(super) accepted: Counter,
    /// See [`TcpStats::messages`].
    pub(super) messages: Counter,
    /// See [`TcpStats::accept_errors`].
    pub(super) accept_errors: Counter,
    /// See [`TcpStats::closed`].
    pub(super) closed: [Counter; Close::ALL.len()],
}

impl TcpCounters {
    /// The counters now.
    pub(super) fn read(&self) -> TcpStats {
        // Read before `accepted`, so that no connection seems closed before it was accepted.
        let closed = std::array::from_fn(|why| self.closed[why].get());
        let accepted = self.accepted.get();
        TcpStats {
            accepted,
            active: accepted.saturating_sub(closed.iter().sum()),
            messages: self.messages.get(),
            accept_errors: self.accept_errors.get(),
            closed,
        }
    }
}

/// The counters of one UDP worker, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct UdpCounters {
    /// See [`UdpStats::received`].
    pub(super) received: Counter,
    /// See [`UdpStats::answered`].
    pub(super) answered: Counter,
    /// See [`UdpStats::dropped`].
    pub(super) dropped: Counter,
    /// See [`UdpStats::cut`].
    pub(super) cut: Counter,
    /// See [`UdpStats::send_errors`].
    pub(super) send_errors: Counter,
    /// See [`UdpStats::receive_errors`].
    pub(super) receive_errors: Counter,
    /// See [`UdpStats::batches`].
    pub(super) batches: Counter,
    /// See [`UdpStats::panics`].
    pub(super) panics: Counter,
}

impl UdpCounters {
    /// Adds this worker's counters to a sum.
    pub(super) fn add_to(&self, sum: &mut UdpStats) {
        sum.received += self.received.get();
        sum.answered += self.answered.get();
        sum.dropped += self.dropped.get();
        sum.cut += self.cut.get();
        sum.send_errors += self.send_errors.get();
        sum.receive_errors += self.receive_errors.get();
        sum.batches += self.batches.get();
        sum.panics += self.panics.get();
    }
}
