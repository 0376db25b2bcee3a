//! Moves packets: UDP in batches on a thread a worker, TCP on a thread of its own. Every transport calls
//! [`fairway_zones::respond()`]; nothing here knows what is in a packet beyond its length.
//!
//! ```text
//!              Sockets (bound | from systemd | handed over)
//!                 |  one UDP socket a worker        |  TCP listeners
//!          fairway-udp-0 .. n, standby         fairway-tcp
//!          recvmmsg > respond > sendmmsg       accept > table > connection tasks
//!                 \____________ Serving state, loaded once a batch or a read ____/
//! ```
//!
//! Where something computes beside, more threads stand by at each UDP socket ([`Computing`]).
//! Each thread has its own counters and one answer buffer; threads share nothing but the pointer to the serving state, and those that stand by their socket.
//! Beside the transports stand what surrounds them: privileges, the service manager's notifications, and the hand-over of
//! all sockets to a process that replaces this one. DNS over TLS, HTTPS and QUIC are not here.

mod activation;
mod batch;
mod bind;
mod bind_error;
mod draws;
pub mod handover;
mod notify;
mod privileges;
mod responder;
mod server;
mod share;
mod sockets;
mod standby;
mod stats;
mod stop;
mod tcp;
mod udp;

pub use activation::ActivationError;
pub use bind_error::{BindError, BindErrors, BindFault, Protocol};
pub use notify::Notifier;
pub use privileges::{PrivilegeError, drop_to, raise_open_files};
pub use responder::{Responder, Zones};
pub use server::Server;
pub use share::{let_all_others_first, let_answers_first};
pub use sockets::Sockets;
pub use standby::Computing;
pub use stats::{Counters, Stats, TcpStats, UdpStats};
pub use tcp::{Close, TcpSettings};

#[cfg(test)]
mod tests;
