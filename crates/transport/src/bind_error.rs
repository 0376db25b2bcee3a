//! Errors of binding an address, each with what the operator can do.

use std::{io, net::SocketAddr};

/// Transport protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// Reason why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindErrorKind {
    /// Another process has the port.
    #[error(
        "{protocol} port {port} is in use by another process; stop it (`ss -lnp 'sport = :{port}'` shows it), \
         listen on another address, or replace a running fairway instead of starting a second one"
    )]
    InUse {
        /// The protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
    },
    /// Ports below 1024 need a capability.
    #[error(
        "permission denied for port {port}; give CAP_NET_BIND_SERVICE, or use socket activation \
         (deploy/systemd/fairway.socket), or start as root with `user` set"
    )]
    Denied {
        /// The port.
        port: u16,
    },
    /// No interface has the address.
    #[error("no interface of this machine has this address; correct it, or listen on a wildcard such as [::]:{port}")]
    NotLocal {
        /// The port.
        port: u16,
    },
    /// The same address is configured twice.
    #[error("listed twice; remove one")]
    Duplicate,
    /// A listed wildcard address already receives the packets of this address.
    #[error("covered by {by}, which is listed too; remove one of the two")]
    Covered {
        /// The wildcard.
        by: SocketAddr,
    },
    /// No port was free for both UDP and TCP.
    #[error("no port found that is free for both UDP and TCP; give a port instead of 0")]
    NoPort,
    /// Any other error of the system.
    #[error("{protocol}: {source}")]
    Other {
        /// The protocol.
        protocol: Protocol,
        /// Error of the system.
        source: io::Error,
    },
}

impl BindErrorKind {
    /// Converts an error of the system.
    pub(super) fn new(protocol: Protocol, port: u16, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { protocol, port },
            io::ErrorKind::PermissionDenied => Self::Denied { port },
            io::ErrorKind::AddrNotAvailable => Self::NotLocal { port },
            _ => Self::Other { protocol, source },
        }
    }
}

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("listen.dns {address}: {kind}")]
pub struct BindError {
    /// The address as configured.
    pub address: SocketAddr,
    /// Reason.
    pub kind: BindErrorKind,
}

/// All addresses that cannot be bound; never empty. After this error, nothing is bound.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(BindError::to_string).collect::<Vec<_>>().join("\n"))]
pub struct BindErrors(pub Vec<BindError>);
