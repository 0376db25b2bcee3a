//! A UDP worker: receive a batch, answer it, send it, without a lock, an allocation or a channel between.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use fairway_zones::{Client, Now, Outcome, Tally, Transport};

use super::{
    Responder,
    batch::Batch,
    draws::Draws,
    sockets::Shared,
    stats::UdpCounters,
    stop::{Phase, Stop},
};

/// How long the last receive of a drain waits: what was on its way into the queue when the socket was closed to newcomers
/// has arrived by then.
const LAST_WAIT: Duration = Duration::from_millis(10);

/// A drain ends after this long even if the queue never runs empty.
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
    pub(super) tally: &'a Tally,
    /// Counters of the transport.
    pub(super) counters: &'a UdpCounters,
    /// Tells when to end.
    pub(super) stop: &'a Stop,
}

impl Worker<'_> {
    /// Serves until told to stop.
    ///
    /// A panic is a fault of ours, not a reason to fall silent: it costs the batch in which it happened.
    pub(super) fn run<R: Responder>(&self, mut responder: R) {
        while catch_unwind(AssertUnwindSafe(|| self.serve(&mut responder))).is_err() {
            self.counters.panics.add(1);
        }
    }

    fn serve<R: Responder>(&self, responder: &mut R) {
        let mut batch = Batch::new(self.socket.local_addr().is_ok_and(|a| a.ip().is_unspecified()));
        let mut draws = Draws::new();
        while !self.stop.asked() {
            match batch.receive(self.socket, true) {
                Ok(count) => self.answer(responder, &mut batch, count, &mut draws),
                Err(error) => self.survive(&error),
            }
        }
        if self.stop.phase() == Phase::Drain {
            self.drain(responder, &mut batch, &mut draws);
        }
    }

    /// Answers a batch: the one loop over its queries.
    fn answer<R: Responder>(&self, responder: &mut R, batch: &mut Batch, count: usize, draws: &mut Draws) {
        let view = responder.view();
        let now = Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let (mut dropped, mut cut) = (0, 0);
        for index in 0..count {
            let exchange = batch.exchange(index);
            cut += u64::from(exchange.cut);
            let client = Client::new(exchange.from, Transport::Udp);
            let outcome = if client.port == 0 {
                Outcome::Drop
            } else {
                R::respond(view, &client, exchange.query, now, draws.next(), self.tally, exchange.answer)
            };
            match outcome {
                Outcome::Reply(length) => batch.reply(index, length),
                Outcome::Drop => dropped += 1,
            }
        }
        let mut failed = 0;
        batch.send(self.socket, |_| failed += 1);
        let count = count as u64;
        self.counters.batches.add(1);
        self.counters.received.add(count);
        self.counters.answered.add(count - dropped - failed);
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
    /// listens; one that others serve on is only emptied.
    fn drain<R: Responder>(&self, responder: &mut R, batch: &mut Batch, draws: &mut Draws) {
        let closed = !self.shared.now() && close_to_newcomers(self.socket).is_ok();
        let wait = closed && self.socket.set_read_timeout(Some(LAST_WAIT)).is_ok();
        let until = Instant::now() + DRAIN_MAX;
        while Instant::now() < until {
            match batch.receive(self.socket, wait) {
                Ok(count) => self.answer(responder, batch, count, draws),
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
