//! DNS over TCP (RFC 7766, RFC 9210): one thread with its own runtime, one task per connection. A flood of connections therefore delays
//! neither UDP nor probes nor the API, and every counter has one writer.
//!
//! * `table`: which connections exist, and which one is evicted when the table is full; pure.
//! * `frame`: messages in a stream of octets; pure.
//! * `accept`: accepts connections, also when descriptors run out.
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

use fairway_zones::{ProvenNetworks, Tally};
use tokio::{net::TcpListener, runtime::Builder, sync::Notify, task::LocalSet};

pub use self::close::CloseReason;
use self::{connection::ThreadState, table::Table};
use super::{
    Responder, priority,
    sockets::Shared,
    stats::TcpCounters,
    stop::{Phase, Stop},
};

/// Limits of DNS over TCP. They keep any number of clients from taking the service away from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Open connections, at least 1; default 1,000. One more evicts the idlest. Each needs a file descriptor.
    pub connections: usize,
    /// Open connections of one client (an IPv4 address or an IPv6 /64), at least 1; default 100. One more evicts that client's idlest.
    pub per_client: usize,
    /// A connection without a message is closed after this time; default 10 s (RFC 7766 section 6.2.3).
    pub idle: Duration,
    /// Time from the first octet of a message until it must be complete; default 5 s.
    pub message: Duration,
    /// Time within which the client must read its answers; default 10 s.
    pub write: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { connections: 1_000, per_client: 100, idle: 10 * second, message: 5 * second, write: 10 * second }
    }
}

/// Returns the work of the TCP thread, which serves until the server stops and every connection has ended, or until the phase is `End`.
/// What can fail is done here, so that errors reach the caller; nothing is accepted before the work begins.
pub(super) fn prepare<R: Responder>(
    listeners: Vec<(std::net::TcpListener, Shared)>,
    responder: R,
    (tally, counters): (Arc<Tally>, Arc<TcpCounters>),
    proven: Arc<ProvenNetworks>,
    settings: TcpSettings,
    mut stop: Stop,
) -> io::Result<impl FnOnce() + Send> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let context = runtime.enter();
    let listeners = listeners
        .into_iter()
        .map(|(listener, shared)| Ok((TcpListener::from_std(listener)?, shared)))
        .collect::<io::Result<Vec<_>>>()?;
    drop(context);
    Ok(move || {
        priority::raise();
        let state = Rc::new(ThreadState {
            buffers: RefCell::new(connection::Buffers::new(responder)),
            table: RefCell::new(Table::new(settings.connections, settings.per_client)),
            phase: Cell::new(Phase::Run),
            listeners: Cell::new(listeners.len()),
            closed: Notify::new(),
            tally,
            counters,
            proven,
            settings,
        });
        let tasks = LocalSet::new();
        runtime.block_on(tasks.run_until(async {
            for (listener, shared) in listeners {
                tokio::task::spawn_local(accept::accept(listener, shared, Rc::clone(&state), stop.clone()));
            }
            let mut refresh = tokio::time::interval(REFRESH_EVERY);
            while state.phase.get() != Phase::End && !state.is_done() {
                tokio::select! {
                    phase = stop.changed() => state.enter(phase),
                    () = state.closed.notified() => {}
                    // Without queries nothing else would release the last serving state, which may be old and large.
                    _ = refresh.tick() => state.buffers.borrow_mut().release_old_state(),
                }
            }
        }));
    })
}

/// Interval at which a thread without queries releases an old serving state.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
