//! Messages and descriptors over a unix stream socket, with bounds on size and time. The peer was checked to be of the same user, but
//! may have another version, or hang.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    os::unix::net::UnixStream,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
use serde_json::Value;

/// Bytes of the longest message: the descriptions of [`DESCRIPTORS_MAX`] descriptors, at some 100 bytes each, fit twice.
const MESSAGE_MAX: usize = 1 << 20;

/// Descriptors handed over at most: enough for 64 workers on 60 addresses.
pub(super) const DESCRIPTORS_MAX: usize = 4_096;

/// Descriptors per message; the kernel allows 253 (`SCM_MAX_FD`).
const DESCRIPTORS_EACH: usize = 100;

/// The byte that accompanies descriptors: a stream socket sends no control data without a byte.
const CARRIER: u8 = b'F';

/// Sends a message: its length in 4 bytes, then JSON.
pub(super) fn send(mut stream: &UnixStream, message: Value) -> io::Result<()> {
    let body = message.to_string();
    let length = u32::try_from(body.len()).map_err(|_| invalid("message to send exceeds 4 GiB"))?;
    stream.write_all(&[&length.to_be_bytes(), body.as_bytes()].concat())
}

/// Receives a message. Fails with `UnexpectedEof` if the stream ends before it.
pub(super) fn receive(mut stream: &UnixStream) -> io::Result<Value> {
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

/// Sends duplicates of descriptors, in order.
pub(super) fn send_descriptors(stream: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    for some in descriptors.chunks(DESCRIPTORS_EACH) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_EACH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(some)) {
            return Err(invalid("descriptors exceed the control buffer"));
        }
        sendmsg(stream, &[IoSlice::new(&[CARRIER])], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives `count` descriptors, which child processes do not inherit.
pub(super) fn receive_descriptors(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    if count > DESCRIPTORS_MAX {
        return Err(invalid("more than 4,096 descriptors announced"));
    }
    let mut received = Vec::with_capacity(count);
    while received.len() < count {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_EACH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut carrier = [0];
        let message = recvmsg(stream, &mut [IoSliceMut::new(&mut carrier)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let before = received.len();
        for rights in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = rights {
                received.extend(descriptors);
            }
        }
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if carrier != [CARRIER] || received.len() == before || message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(invalid("descriptors are missing; is the limit of open files (ulimit -n) too low?"));
        }
    }
    if received.len() > count { Err(invalid("more descriptors received than announced")) } else { Ok(received) }
}

/// Returns the process id and user id of the peer, as the kernel reports them.
pub(super) fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let peer = sockopt::socket_peercred(stream)?;
    Ok((peer.pid.as_raw_nonzero().get(), peer.uid.as_raw()))
}

/// Returns an error about invalid data of the peer.
pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
