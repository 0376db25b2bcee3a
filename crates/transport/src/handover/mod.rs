//! Replaces a running process without losing a query: the old one gives its sockets to the new one (SCM_RIGHTS over a unix
//! socket in the data folder), so that whatever is queued in them is answered by one or the other.
//!
//! ```text
//! old                                   new
//! Offer::listen                         take
//!   <------------------- hello: version ---
//!   --- what there is, descriptors ------->   loads, compiles, probes, starts serving
//!   <-------------------------- ready -----   complete() ...
//! Successor: stops receiving at once, brings its state to rest
//!   --- released ------------------------->   ... returns: the data folder is the new one's
//! serves open TCP connections, exits
//! ```
//! Until `ready`, the old process serves as if nothing happened, whatever becomes of the new one. From then on it is going,
//! and the new one never waits for it to serve: both serve the same sockets for that moment. A second replacer is refused
//! while there is a first.
//!
//! What the sockets and other descriptors are for is their owner's matter; serving is [`super::Server`]'s.

mod descriptors;
mod frames;
mod offer;
mod take;
mod v1;

use std::{io, os::fd::OwnedFd, path::PathBuf};

pub use offer::{Offer, Successor};
pub use take::{Release, Taken, take};

use super::Sockets;

/// Everything that changes hands.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The sockets DNS is served on.
    pub sockets: Sockets,
    /// Other descriptors, each with a name that both versions know: the data folder's lock, the HTTP listener.
    pub others: Vec<(String, OwnedFd)>,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process, as the kernel tells it.
    pub pid: i32,
    /// Its version, as it tells itself.
    pub version: String,
}

/// Why sockets could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The socket for replacers cannot be made.
    #[error(
        "{path}: cannot listen for a process that replaces this one: {source}; replacing will cost queries until then"
    )]
    Listen {
        /// The unix socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The running process does not speak.
    #[error("{path}: the running process did not hand over its sockets: {source}; stop it first, then start this one")]
    Broken {
        /// The unix socket.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The running process refuses.
    #[error("{path}: the running process refuses to be replaced: {reason}")]
    Refused {
        /// The unix socket.
        path: PathBuf,
        /// Its words.
        reason: String,
    },
    /// The unix socket is somebody else's.
    #[error(
        "{path}: belongs to a process of user {uid}, from whom this process takes no sockets; run both as one user"
    )]
    Stranger {
        /// The unix socket.
        path: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The old process took its offer back.
    #[error("the running process took its sockets back ({reason}) and serves on; end this one and try again")]
    Withdrawn {
        /// Its words.
        reason: String,
    },
}
