//! Accepts connections. The loop neither spins nor ends, whatever error `accept` returns.

use std::{io, rc::Rc, time::Duration};

use tokio::{net::TcpListener, time};

use super::connection::{self, ThreadState};
use crate::{
    Responder,
    sockets::Shared,
    stop::{Phase, Stop},
};

/// First pause after `accept` failed for lack of descriptors or memory; each failure in a row doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Time that a drain waits for another connection from the backlog.
const LAST_WAIT: Duration = Duration::from_millis(10);

/// Accepts until the server stops. A drain then accepts the connections of the backlog, unless another process also has the socket.
pub(super) async fn accept<R: Responder>(
    listener: TcpListener,
    shared: Shared,
    state: Rc<ThreadState<R>>,
    mut stop: Stop,
) {
    let _listening = Listening(&state);
    let mut pause = PAUSE_MIN;
    while stop.phase() == Phase::Run {
        let accepted = tokio::select! {
            biased;
            _ = stop.changed() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                pause = PAUSE_MIN;
                if connection::open(&state, stream, from) {
                    // Lets the evicted connection close its descriptor before the next one needs one.
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                state.counters.accept_errors.add(1);
                if !is_of_one_connection(&error) {
                    tracing::debug!(%error, ?pause, "TCP accept failed");
                    evict_idlest(&state);
                    tokio::select! { () = time::sleep(pause) => {}, _ = stop.changed() => {} }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
    if stop.phase() == Phase::Drain && !shared.is_shared() {
        while let Ok(Ok((stream, from))) = time::timeout(LAST_WAIT, listener.accept()).await {
            connection::open(&state, stream, from);
        }
    }
}

/// Counts a listener as open until it is dropped.
struct Listening<'a, R>(&'a ThreadState<R>);

impl<R> Drop for Listening<'_, R> {
    fn drop(&mut self) {
        self.0.listeners.update(|count| count - 1);
        self.0.closed.notify_one();
    }
}

/// Evicts the idlest connection: without free descriptors, a new connection is worth more.
fn evict_idlest<R: Responder>(state: &ThreadState<R>) {
    let idlest = state.table.borrow_mut().evict_idlest();
    if let Some(idlest) = idlest {
        idlest.evict();
    }
}

/// True for errors of a connection that broke before it was accepted, which Linux reports through accept(2). The next connection may
/// work.
fn is_of_one_connection(error: &io::Error) -> bool {
    let of_one = [
        libc::ECONNABORTED,
        libc::ECONNRESET,
        libc::EPERM,
        libc::EPROTO,
        libc::ENETDOWN,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
        libc::ENETUNREACH,
        libc::EINTR,
    ];
    error.raw_os_error().is_some_and(|code| of_one.contains(&code))
}
