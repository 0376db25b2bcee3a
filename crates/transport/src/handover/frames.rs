//! Descriptors over a unix stream socket, and the peer at its other end.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    os::unix::net::UnixStream,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use super::invalid;

/// Maximum number of descriptors to hand over: enough for 64 workers on 60 addresses.
pub(super) const DESCRIPTORS_MAX: usize = 4_096;

/// Descriptors per message; the kernel allows 253 (`SCM_MAX_FD`).
const DESCRIPTORS_EACH: usize = 100;

/// The byte that accompanies descriptors: a stream socket sends no control data without a byte.
const CARRIER: u8 = b'F';

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
