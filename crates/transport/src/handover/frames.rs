//! Messages and descriptors over a unix stream socket, all of bounded size and time. Whoever is at the other end was checked
//! to be the same user, but may be of another version, or half dead.

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

/// Octets of the longest message: descriptions of [`DESCRIPTORS_MAX`] descriptors of some 100 octets each.
const MESSAGE_MAX: usize = 1 << 20;

/// Descriptors that change hands at most: 64 workers on 60 addresses.
pub(super) const DESCRIPTORS_MAX: usize = 4_096;

/// Descriptors a message; the kernel takes at most 253.
const DESCRIPTORS_EACH: usize = 100;

/// The octet that descriptors travel with.
const CARRIER: u8 = b'F';

/// Sends a message: its length, then JSON.
pub(super) fn send(mut stream: &UnixStream, message: Value) -> io::Result<()> {
    let body = message.to_string();
    let length = u32::try_from(body.len()).map_err(|_| invalid("a message too long to send"))?;
    stream.write_all(&[&length.to_be_bytes(), body.as_bytes()].concat())
}

/// Receives a message. An end before it is `UnexpectedEof`.
pub(super) fn receive(mut stream: &UnixStream) -> io::Result<Value> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        return Err(invalid("a message longer than any that is sent"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Sends copies of descriptors, in order.
pub(super) fn send_descriptors(stream: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    for some in descriptors.chunks(DESCRIPTORS_EACH) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_EACH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(some)) {
            return Err(invalid("more descriptors than there is space for"));
        }
        sendmsg(stream, &[IoSlice::new(&[CARRIER])], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives so many descriptors, none of which a child process inherits.
pub(super) fn receive_descriptors(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    if count > DESCRIPTORS_MAX {
        return Err(invalid("more descriptors announced than are ever sent"));
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
    if received.len() > count { Err(invalid("more descriptors than announced")) } else { Ok(received) }
}

/// The process and user at the other end, as the kernel tells them.
pub(super) fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let peer = sockopt::socket_peercred(stream)?;
    Ok((peer.pid.as_raw_nonzero().get(), peer.uid.as_raw()))
}

/// An error about what came, not about the kernel.
pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
