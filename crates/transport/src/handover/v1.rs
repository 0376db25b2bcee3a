//! What two processes of different versions say to each other while one replaces the other. Fields are only ever added, and
//! those unknown are ignored; anything else is a new protocol number.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The protocol spoken here.
pub(super) const PROTOCOL: u32 = 1;

/// The first words of the new process.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hello {
    /// The protocol it speaks.
    pub(super) protocol: u32,
    /// Its version.
    pub(super) version: String,
}

/// What the old process says.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Say {
    /// The descriptors that follow, in order.
    Offer {
        /// Its version.
        version: String,
        /// What each descriptor is.
        descriptors: Vec<Descriptor>,
    },
    /// No, and why.
    Refused {
        /// For the operator.
        reason: String,
    },
    /// The new process took too long.
    Withdrawn {
        /// For the operator.
        reason: String,
    },
    /// The old process uses nothing of it any more but its open TCP connections.
    Released,
}

/// What the new process says after [`Hello`].
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Answer {
    /// It serves.
    Ready,
}

/// One descriptor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Descriptor {
    /// A UDP socket.
    Udp {
        /// Where it is bound.
        address: SocketAddr,
        /// A service manager holds it too.
        shared: bool,
    },
    /// A TCP listener.
    Tcp {
        /// Where it is bound.
        address: SocketAddr,
        /// A service manager holds it too.
        shared: bool,
    },
    /// Anything else.
    Other {
        /// What both versions call it.
        name: String,
    },
}
