//! Converts a hand-over set to a list of descriptors with descriptions, and back.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use socket2::{Domain, SockRef, Type};

use super::{HandoverSet, invalid, v1::Descriptor};

/// Returns the descriptions and, in the same order, the descriptors of a set.
pub(super) fn pack(set: &HandoverSet) -> (Vec<Descriptor>, Vec<BorrowedFd<'_>>) {
    let (mut what, mut descriptors) = (vec![], vec![]);
    for bound in &set.sockets.bound {
        let (address, shared) = (bound.address, bound.shared.is_held_by_service_manager());
        for socket in &bound.udp {
            what.push(Descriptor::Udp { address, shared });
            descriptors.push(socket.as_fd());
        }
        for listener in &bound.tcp {
            what.push(Descriptor::Tcp { address, shared });
            descriptors.push(listener.as_fd());
        }
    }
    for (name, descriptor) in &set.others {
        what.push(Descriptor::Other { name: name.clone() });
        descriptors.push(descriptor.as_fd());
    }
    (what, descriptors)
}

/// Builds a set. Fails if a descriptor does not match its description.
pub(super) fn unpack(what: Vec<Descriptor>, descriptors: Vec<OwnedFd>) -> io::Result<HandoverSet> {
    let mut set = HandoverSet::default();
    for (what, descriptor) in what.into_iter().zip(descriptors) {
        match what {
            Descriptor::Udp { address, shared } => {
                set.sockets.add_udp(checked(descriptor, Type::DGRAM, address)?.into(), shared)?;
            }
            Descriptor::Tcp { address, shared } => {
                set.sockets.add_tcp(checked(descriptor, Type::STREAM, address)?.into(), shared)?;
            }
            Descriptor::Other { name } => set.others.push((name, descriptor)),
        }
    }
    Ok(set)
}

/// Returns a descriptor that is a socket of this kind, bound to this address.
fn checked(descriptor: OwnedFd, kind: Type, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = SockRef::from(&descriptor);
    let is_internet = [Domain::IPV4, Domain::IPV6].contains(&socket.domain()?);
    if !is_internet || socket.r#type()? != kind || socket.is_listener()? != (kind == Type::STREAM) {
        return Err(invalid("a socket is not of the announced kind"));
    }
    if socket.local_addr()?.as_socket() != Some(address) {
        return Err(invalid("a socket is not bound to the announced address"));
    }
    Ok(descriptor)
}
