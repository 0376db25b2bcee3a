//! Why an address could not be bound, and what the operator can do about it.

use std::{error::Error, fmt, io, net::SocketAddr};

/// What a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindFault {
    /// Another socket has the port.
    #[error(
        "{protocol} port {port} is in use by another process; stop it (`ss -lnp 'sport = :{port}'` shows it), \
         listen on another address, or replace a running fairway instead of starting a second one"
    )]
    InUse {
        /// Which of the two it is.
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
    #[error("no interface of this machine has this address; mend it, or listen on a wildcard such as [::]:{port}")]
    NotOurs {
        /// The port.
        port: u16,
    },
    /// The same address is configured twice.
    #[error("listed twice; remove one")]
    Twice,
    /// A wildcard address takes this address' packets already.
    #[error("covered by {by}, which is listed too; remove one of the two")]
    Covered {
        /// The wildcard.
        by: SocketAddr,
    },
    /// No port was free for both UDP and TCP.
    #[error("no port found that is free for both UDP and TCP; give a port instead of 0")]
    NoPort,
    /// Anything else the kernel said.
    #[error("{protocol}: {source}")]
    Other {
        /// Which of the two it is.
        protocol: Protocol,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BindFault {
    /// Gives a kernel's error its meaning.
    pub(super) fn new(protocol: Protocol, port: u16, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { protocol, port },
            io::ErrorKind::PermissionDenied => Self::Denied { port },
            io::ErrorKind::AddrNotAvailable => Self::NotOurs { port },
            _ => Self::Other { protocol, source },
        }
    }
}

/// One address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listen.dns {address}: {fault}")]
pub struct BindError {
    /// The address as configured.
    pub address: SocketAddr,
    /// Why not.
    pub fault: BindFault,
}

/// Every address that cannot be listened on; never empty. Nothing stays bound then.
#[derive(Debug)]
pub struct BindErrors(pub Vec<BindError>);

impl fmt::Display for BindErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for BindErrors {}
