//! A UDP worker: receives a batch, answers it, sends it, without locks, allocations or channels.

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
    draws::DrawSource,
    error_limit::ErrorLimit,
    priority,
    rates::LateRates,
    sockets::Shared,
    spare::{FULL_BATCH_PAUSE, SPARE_WORKERS},
    stats::{LateTally, UdpCounters},
    stop::{Phase, Stop},
};

/// Longest drain of a socket that another process also serves, in case its queue never becomes empty.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// One batch of so many is timed. The clock is read twice for it, which costs about 50 ns: 3 ns a batch.
const TIMED: u64 = 16;

/// Pause after a failed receive, so that a socket that always fails causes no busy loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// A UDP worker and what it uses.
pub(super) struct Worker<'a> {
    /// Blocking socket with a receive timeout.
    pub(super) socket: &'a UdpSocket,
    /// Processes that hold the socket too.
    pub(super) shared: &'a Shared,
    /// Responses of the socket per client network.
    pub(super) rates: &'a LateRates,
    /// Counters of queries and answers.
    pub(super) tally: &'a LateTally,
    /// Counters of the transport.
    pub(super) counters: &'a UdpCounters,
    /// Signal to end.
    pub(super) stop: &'a Stop,
}

/// Buffers of a worker, reused for every batch.
struct Buffers<'a, R: Responder> {
    tally: &'a Tally,
    batch: Batch,
    /// Parsed queries, in the order of the batch.
    queries: Box<[R::Query]>,
    draws: DrawSource,
    errors: &'a mut ErrorLimit,
}

/// Datagrams of a batch with something to count besides their number.
#[derive(Default)]
struct Lost {
    dropped: u64,
    limited: u64,
    failed: u64,
    cut: u64,
    /// Bytes of the queued answers.
    bytes: u64,
}

impl Worker<'_> {
    /// Serves until the server stops.
    ///
    /// A panic is a bug, but no reason to stop answering: it costs the batch in which it happened.
    pub(super) fn run<R: Responder>(&self, mut responder: R) {
        priority::raise();
        let mut errors = new_error_limit();
        self.survive_panics(|| self.serve(&mut responder, &mut errors, false));
    }

    /// Serves whenever spare workers are needed, until the server stops.
    pub(super) fn run_spare<R: Responder>(&self, responder: impl Fn() -> R) {
        priority::raise();
        // Kept between rounds: there are up to 20 of them a second, and each would begin with no error counted.
        let mut errors = new_error_limit();
        while SPARE_WORKERS.wait(self.stop) {
            // Dropped with each round, so that a parked worker does not keep an old serving state alive.
            let mut responder = responder();
            self.survive_panics(|| self.serve(&mut responder, &mut errors, true));
            drop(responder);
            // The batch was full: answering already uses the core, and more workers would take it from all other threads.
            if SPARE_WORKERS.is_needed() {
                std::thread::park_timeout(FULL_BATCH_PAUSE);
            }
        }
    }

    fn survive_panics(&self, mut serve: impl FnMut()) {
        while catch_unwind(AssertUnwindSafe(&mut serve)).is_err() {
            self.counters.panics.add(1);
        }
    }

    /// Serves until the server stops. A spare worker also returns when it is not needed or after a full batch.
    fn serve<R: Responder>(&self, responder: &mut R, errors: &mut ErrorLimit, is_spare: bool) {
        let mut buffers = Buffers::<R> {
            tally: self.tally.get_or_init(Arc::default),
            batch: Batch::new(self.socket.local_addr().is_ok_and(|a| a.ip().is_unspecified())),
            queries: (0..BATCH).map(|_| R::Query::default()).collect(),
            draws: DrawSource::new(),
            errors,
        };
        let mut last = 0;
        while !self.stop.is_requested() && !(is_spare && (last == BATCH || !SPARE_WORKERS.is_needed())) {
            match buffers.batch.receive(self.socket, true) {
                Ok(count) => {
                    self.answer_timed(responder, &mut buffers, count);
                    last = count;
                }
                Err(error) => {
                    last = 0;
                    // Without queries nothing else would release the last serving state, which may be old and large.
                    responder.serving();
                    self.handle_receive_error(&error);
                }
            }
        }
        if self.stop.phase() == Phase::Drain {
            self.drain(responder, &mut buffers);
        }
    }

    /// Answers a batch. Of one in [`TIMED`], all answers count with the time from receiving it to the end of its last send.
    fn answer_timed<R: Responder>(&self, responder: &mut R, buffers: &mut Buffers<'_, R>, count: usize) {
        let begun = self.counters.batches.get().is_multiple_of(TIMED).then(Instant::now);
        let answered = self.answer(responder, buffers, count);
        if let Some(begun) = begun {
            self.counters.times.add(begun.elapsed(), answered);
        }
    }

    /// Answers a batch and returns the number of answers sent: parses all queries, prefetches what they need, then looks up and writes each answer, then sends all answers.
    fn answer<R: Responder>(&self, responder: &mut R, buffers: &mut Buffers<'_, R>, count: usize) -> u64 {
        let Buffers { tally, batch, queries, draws, errors } = buffers;
        let serving = responder.serving();
        let now = Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let mut lost = Lost::default();
        for (index, query) in queries[..count].iter_mut().enumerate() {
            R::read(serving, batch.query(index), query);
        }
        R::read_ahead(serving, &mut queries[..count]);
        let rates = R::is_limited(serving).then(|| self.rates.table());
        for (index, query) in queries[..count].iter_mut().enumerate() {
            let Exchange { client, query: packet, cut: is_cut, answer } = batch.exchange(index);
            lost.cut += u64::from(is_cut);
            R::find(serving, packet, query);
            let request = Request { client: &client, packet, now, draw: draws.next() };
            let outcome = match rates {
                None => R::write(serving, &request, query, tally, answer),
                Some(rates) => R::write_limited(serving, &request, query, tally, rates, answer),
            };
            let length = match outcome {
                Outcome::Reply(length) => length,
                Outcome::ErrorReply(length) if errors.admits(client.address, now) => length,
                Outcome::ErrorReply(_) => {
                    (lost.dropped, lost.limited) = (lost.dropped + 1, lost.limited + 1);
                    continue;
                }
                Outcome::Drop => {
                    lost.dropped += 1;
                    continue;
                }
            };
            lost.bytes += length as u64;
            batch.reply(index, length);
        }
        batch.send(self.socket, |_| lost.failed += 1);
        self.count(count as u64, lost)
    }

    fn count(&self, received: u64, lost: Lost) -> u64 {
        let Lost { dropped, limited, failed, cut, bytes } = lost;
        let answered = received - dropped - failed;
        self.counters.batches.add(1);
        self.counters.received.add(received);
        self.counters.answered.add(answered);
        self.counters.bytes.add(bytes);
        if dropped + failed + cut > 0 {
            self.counters.dropped.add(dropped);
            self.counters.limited.add(limited);
            self.counters.send_errors.add(failed);
            self.counters.cut.add(cut);
        }
        answered
    }

    /// Handles a failed receive. A timeout is normal (it lets the worker see a stop), ICMP errors concern earlier answers, and any
    /// other error is followed by a pause, to avoid a busy loop.
    fn handle_receive_error(&self, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => return,
            _ => self.counters.receive_errors.add(1),
        }
        if !is_icmp(error) {
            std::thread::park_timeout(FAILURE_PAUSE);
        }
    }

    /// Answers the queued queries. A socket that only this process has is first closed to new clients, which then get "connection
    /// refused" at once; its queue can only become shorter. A socket that another process serves too is emptied for a limited time. No query
    /// is waited for, since meanwhile others would be refused.
    fn drain<R: Responder>(&self, responder: &mut R, buffers: &mut Buffers<'_, R>) {
        let closed = !self.shared.is_shared() && refuse_new_clients(self.socket).is_ok();
        let until = Instant::now() + DRAIN_MAX;
        while self.stop.phase() == Phase::Drain && (closed || Instant::now() < until) {
            match buffers.batch.receive(self.socket, false) {
                Ok(count) => self.answer_timed(responder, buffers, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_icmp(&error) => {}
                Err(_) => break,
            }
        }
    }
}

/// Returns a limit of errors with a random seed.
fn new_error_limit() -> ErrorLimit {
    ErrorLimit::new(DrawSource::new().next().0)
}

fn is_icmp(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Connects a socket to itself. The kernel then delivers only packets from the socket's own address, which do not exist, and keeps the
/// queue; other sockets of its SO_REUSEPORT group still receive. Closing the socket would lose the queue.
fn refuse_new_clients(socket: &UdpSocket) -> io::Result<()> {
    let mut address = socket.local_addr()?;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    socket.connect(address)
}
