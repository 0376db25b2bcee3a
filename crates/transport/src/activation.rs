//! Sockets that a service manager opened and passed on (`LISTEN_FDS`, sd_listen_fds(3)).

use std::io;

use listenfd::ListenFd;

use super::{Sockets, sockets::gather};

/// A passed descriptor that is none of ours.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Neither an Internet stream listener nor an Internet datagram socket.
    #[error(
        "socket {index} of LISTEN_FDS is neither a TCP listener nor a UDP socket ({source}); keep only ListenStream= and \
         ListenDatagram= lines with ports in the socket unit"
    )]
    WrongKind {
        /// Its place, from 0.
        index: usize,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The kernel does not tell the address.
    #[error("the sockets of LISTEN_FDS cannot be used: {0}")]
    Unusable(io::Error),
}

impl Sockets {
    /// The sockets that a service manager passed to this process; empty if there is no service manager that does.
    ///
    /// To be called before other threads start, since it clears `LISTEN_FDS` from the environment.
    pub fn inherited() -> Result<Self, ActivationError> {
        let mut passed = ListenFd::from_env();
        let (mut udp, mut tcp) = (vec![], vec![]);
        for index in 0..passed.len() {
            if let Ok(Some(listener)) = passed.take_tcp_listener(index) {
                tcp.push(listener);
                continue;
            }
            match passed.take_udp_socket(index) {
                Ok(socket) => udp.extend(socket),
                Err(source) => return Err(ActivationError::WrongKind { index, source }),
            }
        }
        gather(udp, tcp, true).map_err(ActivationError::Unusable)
    }
}
