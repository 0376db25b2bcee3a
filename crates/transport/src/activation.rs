//! Sockets that a service manager opened and passed on (`LISTEN_FDS`, sd_listen_fds(3)).

use std::io;

use listenfd::ListenFd;

use super::Sockets;

/// Reason why passed descriptors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Neither an Internet stream listener nor an Internet datagram socket.
    #[error(
        "socket {index} of LISTEN_FDS is neither a TCP listener nor a UDP socket ({source}); keep only ListenStream= and \
         ListenDatagram= lines with ports in the socket unit"
    )]
    WrongKind {
        /// Index in `LISTEN_FDS`, from 0.
        index: usize,
        /// Error of the system.
        source: io::Error,
    },
    /// The address of a socket cannot be read.
    #[error("cannot read the address of a socket of LISTEN_FDS: {0}")]
    Unusable(io::Error),
}

impl Sockets {
    /// Returns the sockets that a service manager passed to this process; empty if it passed none.
    ///
    /// Call it before other threads start, because it removes `LISTEN_FDS` from the environment.
    pub fn inherited() -> Result<Self, ActivationError> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Self::default();
        for index in 0..passed.len() {
            let added = match passed.take_tcp_listener(index) {
                Ok(Some(listener)) => sockets.add_tcp(listener, true),
                _ => match passed.take_udp_socket(index) {
                    Ok(Some(socket)) => sockets.add_udp(socket, true),
                    Ok(None) => Ok(()),
                    Err(source) => return Err(ActivationError::WrongKind { index, source }),
                },
            };
            added.map_err(ActivationError::Unusable)?;
        }
        Ok(sockets)
    }
}
