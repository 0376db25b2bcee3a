//! Takes connections. The loop neither spins nor gives up, whatever `accept` says.

use std::{io, rc::Rc, time::Duration};

use tokio::{net::TcpListener, time};

use super::connection::{self, Desk};
use crate::{
    Responder,
    sockets::Shared,
    stop::{Phase, Stop},
};

/// The pause after `accept` failed for want of descriptors or memory; each failure in a row doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a drain waits for one more connection to come out of the backlog.
const LAST_WAIT: Duration = Duration::from_millis(10);

/// Accepts until told to stop. A drain then takes what the kernel has accepted already, unless others serve the socket on.
pub(super) async fn accept<R: Responder>(listener: TcpListener, shared: Shared, desk: Rc<Desk<R>>, mut stop: Stop) {
    let _listening = Listening(&desk);
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
                if connection::open(&desk, stream, from) {
                    // Lets the connection that had to go close its descriptor before the next one takes one.
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                desk.counters.accept_errors.add(1);
                if !is_of_one_connection(&error) {
                    tracing::debug!(%error, ?pause, "TCP accept failed");
                    make_room(&desk);
                    tokio::select! { () = time::sleep(pause) => {}, _ = stop.changed() => {} }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
    if stop.phase() == Phase::Drain && !shared.now() {
        while let Ok(Ok((stream, from))) = time::timeout(LAST_WAIT, listener.accept()).await {
            connection::open(&desk, stream, from);
        }
    }
}

/// A listener that is open; dropped, it counts as closed.
struct Listening<'a, R>(&'a Desk<R>);

impl<R> Drop for Listening<'_, R> {
    fn drop(&mut self) {
        self.0.listeners.update(|count| count - 1);
        self.0.less.notify_one();
    }
}

/// Out of descriptors, a newcomer is worth more than the idlest connection.
fn make_room<R: Responder>(desk: &Desk<R>) {
    let idlest = desk.table.borrow_mut().evict_idlest();
    if let Some(idlest) = idlest {
        idlest.evict();
    }
}

/// Errors that Linux passes on from a connection which broke before it was accepted (accept(2)); the next one may be sound.
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
