//! Counters of the transports. Each thread writes its own counters; a reader adds them up.

use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fairway_zones::{Tallies, Tally};

use super::tcp::CloseReason;

/// Counters of one thread, allocated when it first serves: they take 352 KiB, and spare workers may never serve.
pub(super) type LateTally = OnceLock<Arc<Tally>>;

/// Counters of all threads of a server. They stay readable while it drains and after it has ended.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub(super) tallies: Vec<Arc<LateTally>>,
    pub(super) udp: Vec<Arc<UdpCounters>>,
    pub(super) tcp: Arc<TcpCounters>,
}

impl Counters {
    /// Returns the sum of the query counters of all threads.
    pub fn tallies(&self) -> Tallies {
        let mut sum = Tallies::default();
        self.tallies_by_thread().for_each(|tally| tally.add_to(&mut sum));
        sum
    }

    /// Returns the query counters of each thread that has served. Samples of queries are read per thread.
    pub fn tallies_by_thread(&self) -> impl Iterator<Item = &Arc<Tally>> {
        self.tallies.iter().filter_map(|tally| tally.get())
    }

    /// Returns the sum of the transport counters of all threads.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats { tcp: self.tcp.read(), ..Stats::default() };
        self.udp.iter().for_each(|counters| counters.add_to(&mut sum.udp));
        sum
    }
}

/// Counter with one writer, which therefore needs no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only the thread that owns the counter may call this.
    pub(super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Returns the current value.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts since the transports started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// UDP.
    pub udp: UdpStats,
    /// TCP.
    pub tcp: TcpStats,
}

/// Counts of the UDP workers. `received` = `answered` + `dropped` + `send_errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats<C = u64> {
    /// Datagrams received.
    pub received: C,
    /// Datagrams sent.
    pub answered: C,
    /// Datagrams that get no answer: responses, incomplete headers, source port 0, and those over the limit of errors.
    pub dropped: C,
    /// Errors (FORMERR, NOTIMP) over the limit per address; also counted in `dropped`.
    pub limited: C,
    /// Datagrams that the kernel truncated to the receive buffer; also counted in the other fields.
    pub cut: C,
    /// Answers that the kernel refused to send.
    pub send_errors: C,
    /// Receives that failed for a reason other than the timeout.
    pub receive_errors: C,
    /// Batches received; `received` / `batches` is the mean batch size, at most 32.
    pub batches: C,
    /// Panics caught. Any value but 0 is a bug to report.
    pub panics: C,
    /// Bytes of the answers, including those that the kernel refused.
    pub bytes: C,
    /// Times of the answers of sampled batches.
    pub times: AnswerTimes<C>,
}

/// Answers of the sampled batches by the time from receiving the batch to the end of its last send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTimes<C = u64> {
    /// Answers up to each of [`ANSWER_BOUNDS`] and over the bound before.
    pub between: [C; ANSWER_BOUNDS.len()],
    /// Number of answers, with those over the last bound.
    pub count: C,
    /// Sum of their times in nanoseconds.
    pub nanos: C,
}

/// Upper bounds of [`AnswerTimes::between`]. A batch of one takes some 10 µs, mostly in the kernel, a full one of 32 some 100 µs; the
/// last bounds show workers that wait for a core.
pub const ANSWER_BOUNDS: [Duration; 10] = [
    Duration::from_micros(10),
    Duration::from_micros(25),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(10),
    Duration::from_millis(50),
];

impl AnswerTimes<Counter> {
    /// Counts the answers of a batch. Only the thread that owns the counters may call this.
    pub(super) fn add(&self, took: Duration, answers: u64) {
        if let Some(place) = ANSWER_BOUNDS.iter().position(|bound| took <= *bound) {
            self.between[place].add(answers);
        }
        self.count.add(answers);
        self.nanos.add(took.as_nanos() as u64 * answers);
    }

    /// Adds these counters to a sum.
    fn add_to(&self, sum: &mut AnswerTimes) {
        sum.between.iter_mut().zip(&self.between).for_each(|(sum, counter)| *sum += counter.get());
        sum.count += self.count.get();
        sum.nanos += self.nanos.get();
    }
}

/// Counts of the TCP thread. `accepted` = open connections + the sum of `closed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats<C = u64> {
    /// Connections accepted.
    pub accepted: C,
    /// Complete messages received.
    pub messages: C,
    /// Failed accepts: out of file descriptors or memory, or the connection broke before.
    pub accept_errors: C,
    /// Closed connections by reason, in the order of [`CloseReason::ALL`].
    pub closed: [C; CloseReason::ALL.len()],
}

impl TcpStats {
    /// Returns the number of connections that closed for one reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }

    /// Returns the number of connections that are open.
    pub fn active(&self) -> u64 {
        self.accepted.saturating_sub(self.closed.iter().sum())
    }
}

/// Counters of one thread. Aligned, so that no two threads share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Aligned<T>(T);

/// Counters of the TCP thread.
pub(super) type TcpCounters = Aligned<TcpStats<Counter>>;

impl TcpCounters {
    /// Returns the current counts.
    fn read(&self) -> TcpStats {
        // Read before `accepted`: a connection must not count as closed before it counts as accepted.
        let closed = self.closed.each_ref().map(Counter::get);
        TcpStats {
            accepted: self.accepted.get(),
            messages: self.messages.get(),
            accept_errors: self.accept_errors.get(),
            closed,
        }
    }
}

/// Counters of one UDP worker.
pub(super) type UdpCounters = Aligned<UdpStats<Counter>>;

impl UdpCounters {
    /// Adds this worker's counters to a sum.
    fn add_to(&self, sum: &mut UdpStats) {
        sum.received += self.received.get();
        sum.answered += self.answered.get();
        sum.dropped += self.dropped.get();
        sum.limited += self.limited.get();
        sum.cut += self.cut.get();
        sum.send_errors += self.send_errors.get();
        sum.receive_errors += self.receive_errors.get();
        sum.batches += self.batches.get();
        sum.panics += self.panics.get();
        sum.bytes += self.bytes.get();
        self.times.add_to(&mut sum.times);
    }
}

impl<T> Deref for Aligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
