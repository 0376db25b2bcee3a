//! Messages between the old and the new process, which may have different versions. Fields may be added, and unknown ones are ignored;
//! any other change needs a new protocol number.
//!
//! The peer was checked to be of the same user, but may have another version, or hang: size and time of a message are bounded.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::net::UnixStream,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::invalid;

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

/// Sends a message: its length in 4 bytes, then JSON.
pub(super) fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| invalid("message to send exceeds 4 GiB"))?;
    stream.write_all(&[&length.to_be_bytes()[..], &body].concat())
}

/// Receives a message. Fails with `UnexpectedEof` if the stream ends before it.
pub(super) fn receive<T: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        return Err(invalid("message exceeds 1 MiB"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Maximum bytes of a message: the descriptions of 4,096 descriptors, at some 100 bytes each, fit twice.
const MESSAGE_MAX: usize = 1 << 20;
