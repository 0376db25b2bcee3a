//! Messages between the old and the new process, which may have different versions. Fields may be added, and unknown ones are ignored;
//! any other change needs a new protocol number.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Protocol number of this version.
pub(super) const PROTOCOL: u32 = 1;

/// First message of the new process.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hello {
    /// Its protocol number.
    pub(super) protocol: u32,
    /// Its version.
    pub(super) version: String,
}

/// Messages of the old process.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum OldProcessMessage {
    /// The descriptors that follow, in order.
    Offer {
        /// Its version.
        version: String,
        /// Descriptions of the descriptors.
        descriptors: Vec<Descriptor>,
    },
    /// The hand-over is refused.
    Refused {
        /// Reason, for the operator.
        reason: String,
    },
    /// The new process was not ready in time.
    Withdrawn {
        /// Reason, for the operator.
        reason: String,
    },
    /// The old process no longer uses the descriptors, except for open TCP connections.
    Released,
}

/// Messages of the new process after [`Hello`].
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum NewProcessMessage {
    /// It serves.
    Ready,
}

/// Description of one descriptor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Descriptor {
    /// A UDP socket.
    Udp {
        /// Bound address.
        address: SocketAddr,
        /// True if a service manager holds it too.
        shared: bool,
    },
    /// A TCP listener.
    Tcp {
        /// Bound address.
        address: SocketAddr,
        /// True if a service manager holds it too.
        shared: bool,
    },
    /// Anything else.
    Other {
        /// Name that both versions know.
        name: String,
    },
}
