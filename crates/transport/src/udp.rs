//! A UDP worker: receive a batch, answer it, send it, without a lock, an allocation or a channel between.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use fairway_zones::{Now, Outcome, Request, Tally};

use super::{
    Responder,
    batch::{BATCH, Batch, Exchange},
    draws::Draws,
    share,
    sockets::Shared,
    standby::{REST, STANDBY},
    stats::{LateTally, UdpCounters},
    stop::{Phase, Stop},
};

/// How long the last receive of a drain waits: what was on its way into the queue when the socket was closed to newcomers
/// has arrived by then.
const LAST_WAIT: Duration = Duration::from_millis(10);

/// How long a socket that others serve on is emptied, if its queue never runs empty.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A worker whose socket fails again and again tries so often.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// What a worker works with.
pub(super) struct Worker<'a> {
    /// Its socket, blocking, with a receive timeout.
    pub(super) socket: &'a UdpSocket,
    /// Whether its socket outlives this process.
    pub(super) shared: &'a Shared,
    /// Counters of what was asked and answered.
    pub(super) tally: &'a LateTally,
    /// Counters of the transport.
    pub(super) counters: &'a UdpCounters,
    /// Tells when to end.
    pub(super) stop: &'a Stop,
}

/// What a worker works on: one batch, reused for all.
struct Table<'a, R: Responder> {
    tally: &'a Tally,
    batch: Batch,
    /// The queries between the stages, in the order of the batch.
    queries: Box<[R::Query]>,
    draws: Draws,
}

impl Worker<'_> {
    /// Serves until told to stop.
    ///
    /// A panic is a fault of ours, not a reason to fall silent: it costs the batch in which it happened.
    pub(super) fn run<R: Responder>(&self, mut responder: R) {
        share::answer_first();
        self.survive_panics(|| self.serve(&mut responder, false));
    }

    /// Serves whenever threads are to stand by, until told to stop.
    pub(super) fn stand_by<R: Responder>(&self, responder: impl Fn() -> R) {
        share::answer_first();
        while STANDBY.wait(self.stop) {
            // What it answers from goes with it: nobody is to hold on to what is of the past.
            let mut responder = responder();
            self.survive_panics(|| self.serve(&mut responder, true));
            drop(responder);
            // A full batch: the core is taken by answering, and more threads that answer would take it from all else.
            if STANDBY.is_needed() {
                std::thread::park_timeout(REST);
            }
        }
    }

    fn survive_panics(&self, mut serve: impl FnMut()) {
        while catch_unwind(AssertUnwindSafe(&mut serve)).is_err() {
            self.counters.panics.add(1);
        }
    }

    /// Serves until told to stop; one that `stands_by`, as long as it is needed and finds no full batch.
    fn serve<R: Responder>(&self, responder: &mut R, stands_by: bool) {
        let mut table = Table::<R> {
            tally: self.tally.get_or_init(Arc::default),
            batch: Batch::new(self.socket.local_addr().is_ok_and(|a| a.ip().is_unspecified())),
            queries: (0..BATCH).map(|_| R::Query::default()).collect(),
            draws: Draws::new(),
        };
        let mut last = 0;
        while !self.stop.asked() && !(stands_by && (last == BATCH || !STANDBY.is_needed())) {
            match table.batch.receive(self.socket, true) {
                Ok(count) => {
                    self.answer(responder, &mut table, count);
                    last = count;
                }
                Err(error) => {
                    last = 0;
                    // Nobody asks, perhaps: what was served last may be of the past by now, and large.
                    responder.serving();
                    self.survive(&error);
                }
            }
        }
        if self.stop.phase() == Phase::Drain {
            self.drain(responder, &mut table);
        }
    }

    /// Answers a batch: reads all its queries, then ahead of them what they will need, then finds and writes each answer, then sends all.
    fn answer<R: Responder>(&self, responder: &mut R, table: &mut Table<'_, R>, count: usize) {
        let Table { tally, batch, queries, draws } = table;
        let serving = responder.serving();
        let now = Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let (mut dropped, mut failed, mut cut) = (0, 0, 0);
        for (index, query) in queries[..count].iter_mut().enumerate() {
            R::read(batch.query(index), query);
        }
        R::read_ahead(serving, &mut queries[..count]);
        for (index, query) in queries[..count].iter_mut().enumerate() {
            let Exchange { client, query: packet, cut: is_cut, answer } = batch.exchange(index);
            cut += u64::from(is_cut);
            R::find(serving, packet, query);
            let request = Request { client: &client, packet, now, draw: draws.next() };
            match R::write(serving, &request, query, tally, answer) {
                Outcome::Reply(length) => batch.reply(index, length),
                Outcome::Drop => dropped += 1,
            }
        }
        batch.send(self.socket, |_| failed += 1);
        self.count(count as u64, dropped, failed, cut);
    }

    fn count(&self, received: u64, dropped: u64, failed: u64, cut: u64) {
        self.counters.batches.add(1);
        self.counters.received.add(received);
        self.counters.answered.add(received - dropped - failed);
        if dropped + failed + cut > 0 {
            self.counters.dropped.add(dropped);
            self.counters.send_errors.add(failed);
            self.counters.cut.add(cut);
        }
    }

    /// Goes on after a receive that failed: the timeout is how a stop is noticed, ICMP errors belong to no query of ours,
    /// and whatever else there is must not become a busy loop.
    fn survive(&self, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => return,
            _ => self.counters.receive_errors.add(1),
        }
        if !is_icmp(error) {
            std::thread::park_timeout(FAILURE_PAUSE);
        }
    }

    /// Answers what is queued. A socket that is ours alone is closed to newcomers first, who learn at once that nobody
    /// listens: nobody else will answer what is left in it, and its queue only becomes shorter. One that others serve on is
    /// emptied for a while.
    fn drain<R: Responder>(&self, responder: &mut R, table: &mut Table<'_, R>) {
        let closed = !self.shared.now() && close_to_newcomers(self.socket).is_ok();
        let wait = closed && self.socket.set_read_timeout(Some(LAST_WAIT)).is_ok();
        let until = Instant::now() + DRAIN_MAX;
        while self.stop.phase() == Phase::Drain && (closed || Instant::now() < until) {
            match table.batch.receive(self.socket, wait) {
                Ok(count) => self.answer(responder, table, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_icmp(&error) => {}
                Err(_) => break,
            }
        }
    }
}

fn is_icmp(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Connects a socket to itself. The kernel then gives it only what comes from its own address and port, which is nothing,
/// and keeps what is queued; other sockets of its SO_REUSEPORT group still get theirs. Closing it would lose the queue.
fn close_to_newcomers(socket: &UdpSocket) -> io::Result<()> {
    let mut address = socket.local_addr()?;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    socket.connect(address)
}
