//! The sockets of DNS: UDP in batches with one thread per worker, TCP on a thread of its own. Every transport calls the stages of
//! [`fairway_zones::respond()`]; this crate knows the length of a packet and nothing of its content.
//!
//! ```text
//!              Sockets (bound | from systemd | handed over)
//!                 |  one UDP socket per worker       |  TCP listeners
//!          fairway-udp-0 .. n, spare           fairway-tcp
//!          recvmmsg > respond > sendmmsg       accept > table > connection tasks
//!                 \____________ serving state, loaded once per batch or read ____/
//! ```
//!
//! While the process runs a long computation, spare workers also serve each UDP socket ([`ComputeGuard`]).
//! Each thread has its own counters and one answer buffer. Threads share only the pointer to the serving state; spare workers also share
//! the socket of their worker.
//! The crate also has what belongs to sockets: dropping privileges, notifications of the service manager, and the hand-over of all
//! sockets to a process that replaces this one. DNS over TLS, HTTPS and QUIC do not exist yet.

mod activation;
mod batch;
mod bind;
mod bind_error;
mod draws;
mod error_limit;
pub mod handover;
mod landlock;
mod notify;
mod priority;
mod privileges;
mod rates;
mod responder;
mod server;
mod sockets;
mod spare;
mod stats;
mod stop;
mod tcp;
mod udp;

pub use activation::ActivationError;
pub use bind_error::{BindError, BindErrorKind, BindErrors, Protocol};
pub use landlock::{FileAccess, FileRestriction};
pub use notify::Notifier;
pub use priority::{lower_priority, lower_priority_of_computation};
pub use privileges::{
    PrivilegeError, become_owner, drop_to, give_up_new_privileges, has_given_up_new_privileges, is_root,
    raise_open_files,
};
pub use responder::{Responder, Zones};
pub use server::Server;
pub use sockets::Sockets;
pub use spare::ComputeGuard;
pub use stats::{ANSWER_BOUNDS, AnswerTimes, Counters, Stats, TcpStats, UdpStats};
pub use tcp::{CloseReason, TcpSettings};

#[cfg(test)]
mod tests;
