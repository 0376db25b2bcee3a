//! Replaces a running process without losing a query. The old process passes its sockets to the new one (SCM_RIGHTS over a unix socket
//! in the data folder), so that one of the two answers every queued query.
//!
//! ```text
//! old                                   new
//! Offer::listen                         take
//!   <------------------- hello: version ---
//!   --- descriptions, descriptors -------->   loads, compiles, probes, starts serving
//!   <-------------------------- ready -----   complete() ...
//! Successor: stops receiving at once, saves its state
//!   --- released ------------------------->   ... returns: the data folder is the new one's
//! serves open TCP connections, exits
//! ```
//! Until `ready`, the old process serves as before, even if the new one fails. From then on it only ends; the new process already
//! serves, and both serve the same sockets for that moment. A second new process is refused while there is a first.
//!
//! [`super::Server`] serves the sockets; the caller knows the purpose of the other descriptors.

mod descriptors;
mod frames;
mod offer;
mod take;
mod v1;

use std::{io, os::fd::OwnedFd, path::PathBuf};

pub use offer::{Offer, Successor};
pub use take::{Release, Taken, take};

use super::Sockets;

/// All descriptors to hand over.
#[derive(Debug, Default)]
pub struct HandoverSet {
    /// Sockets of DNS.
    pub sockets: Sockets,
    /// Other descriptors, each with a name that both versions know: the lock of the data folder, the HTTP listener.
    pub others: Vec<(String, OwnedFd)>,
}

/// The process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id, as the kernel reports it.
    pub pid: i32,
    /// Version, as the process reports it.
    pub version: String,
}

/// Returns an error about invalid data of the peer.
fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Errors of a hand-over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The unix socket for new processes cannot be created.
    #[error(
        "{path}: cannot listen for a process that replaces this one: {source}; replacing this process will lose queries"
    )]
    Listen {
        /// The unix socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The running process did not follow the protocol.
    #[error("{path}: the running process did not hand over its sockets: {source}; stop it first, then start this one")]
    Broken {
        /// The unix socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The running process refused.
    #[error("{path}: the running process refuses to be replaced: {reason}")]
    Refused {
        /// The unix socket.
        path: PathBuf,
        /// Its message.
        reason: String,
    },
    /// The unix socket belongs to another user.
    #[error(
        "{path}: belongs to a process of user {uid}; sockets are taken over only from user {owner}, the owner of the data folder; run both as \
         one user"
    )]
    OtherUser {
        /// The unix socket.
        path: PathBuf,
        /// The user.
        uid: u32,
        /// The user that it must belong to.
        owner: u32,
    },
    /// The old process withdrew its offer.
    #[error("the running process withdrew its sockets ({reason}) and keeps serving; end this one and try again")]
    Withdrawn {
        /// Its message.
        reason: String,
    },
}
