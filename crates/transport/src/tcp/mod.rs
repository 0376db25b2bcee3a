//! DNS over TCP (RFC 7766, RFC 9210): one thread, one task a connection, on a runtime of its own, so that no flood of
//! connections delays UDP, probes or the API, and every counter has one writer.
//!
//! * `table`: who is connected and who goes when it is full; pure.
//! * `frame`: messages in a stream of octets; pure.
//! * `accept`: takes connections, also when descriptors run out.
//! * `connection`: one connection from accept to close.

mod accept;
mod close;
mod connection;
mod frame;
mod table;

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use fairway_zones::Tally;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::Notify,
    task::LocalSet,
};

pub use self::close::Close;
use self::{connection::Desk, table::Table};
use super::{
    Responder, share,
    sockets::Shared,
    stats::TcpCounters,
    stop::{Phase, Stop},
};

/// Bounds of DNS over TCP. Each is there so that no client, and no number of them, can take it from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Connections open at a time, at least 1; default 1,000. One more closes the idlest. Each takes a file descriptor.
    pub connections: usize,
    /// Connections of one client (an IPv4 address, an IPv6 /64) at a time, at least 1; default 100. One more closes that
    /// client's idlest.
    pub per_client: usize,
    /// A connection without a message for this long is closed; default 10 s (RFC 7766 section 6.2.3).
    pub idle: Duration,
    /// A message whose first octet has arrived must be whole after this long; default 5 s.
    pub message: Duration,
    /// Answers that the client does not take for this long close the connection; default 10 s.
    pub write: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { connections: 1_000, per_client: 100, idle: 10 * second, message: 5 * second, write: 10 * second }
    }
}

/// What the TCP thread is made of, built where errors can still be told.
pub(super) struct Thread<R> {
    runtime: Runtime,
    listeners: Vec<(TcpListener, Shared)>,
    responder: R,
    tally: Arc<Tally>,
    counters: Arc<TcpCounters>,
    settings: TcpSettings,
    stop: Stop,
}

impl<R: Responder> Thread<R> {
    /// Prepares everything; nothing is accepted before [`Thread::run`].
    pub(super) fn new(
        listeners: Vec<(std::net::TcpListener, Shared)>,
        responder: R,
        (tally, counters): (Arc<Tally>, Arc<TcpCounters>),
        settings: TcpSettings,
        stop: Stop,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let context = runtime.enter();
        let listeners = listeners
            .into_iter()
            .map(|(listener, shared)| Ok((TcpListener::from_std(listener)?, shared)))
            .collect::<io::Result<_>>()?;
        drop(context);
        Ok(Self { runtime, listeners, responder, tally, counters, settings, stop })
    }

    /// Serves until told to stop and every connection has ended, or until told to end at once.
    pub(super) fn run(self) {
        let Self { runtime, listeners, responder, tally, counters, settings, mut stop } = self;
        share::answer_first();
        let desk = Rc::new(Desk {
            work: RefCell::new(connection::Work::new(responder)),
            table: RefCell::new(Table::new(settings.connections, settings.per_client)),
            phase: Cell::new(Phase::Run),
            listeners: Cell::new(listeners.len()),
            less: Notify::new(),
            tally,
            counters,
            settings,
        });
        let tasks = LocalSet::new();
        runtime.block_on(tasks.run_until(async {
            for (listener, shared) in listeners {
                tokio::task::spawn_local(accept::accept(listener, shared, Rc::clone(&desk), stop.clone()));
            }
            let mut look = tokio::time::interval(LOOK);
            while desk.phase.get() != Phase::End && !desk.is_done() {
                tokio::select! {
                    phase = stop.changed() => desk.enter(phase),
                    () = desk.less.notified() => {}
                    // Nobody asks, perhaps: what was served last may be of the past by now, and large.
                    _ = look.tick() => desk.work.borrow_mut().let_go(),
                }
            }
        }));
    }
}

/// How often a thread that nobody asks looks whether what it would answer from has changed.
const LOOK: Duration = Duration::from_millis(500);
