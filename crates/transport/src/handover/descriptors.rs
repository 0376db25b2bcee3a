//! A parcel as a list of descriptors and what each is, and back.

use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use socket2::{Domain, SockRef, Type};

use super::{Parcel, frames::invalid, v1::Descriptor};
use crate::{Sockets, sockets::gather};

/// Takes a parcel apart: what each descriptor is, and the descriptors in the same order.
pub(super) fn pack(parcel: &Parcel) -> (Vec<Descriptor>, Vec<BorrowedFd<'_>>) {
    let (mut what, mut descriptors) = (vec![], vec![]);
    for bound in &parcel.sockets.bound {
        let (address, shared) = (bound.address, bound.shared.for_good());
        for socket in &bound.udp {
            what.push(Descriptor::Udp { address, shared });
            descriptors.push(socket.as_fd());
        }
        for listener in &bound.tcp {
            what.push(Descriptor::Tcp { address, shared });
            descriptors.push(listener.as_fd());
        }
    }
    for (name, descriptor) in &parcel.others {
        what.push(Descriptor::Other { name: name.clone() });
        descriptors.push(descriptor.as_fd());
    }
    (what, descriptors)
}

/// Puts a parcel together; a descriptor that is not what it is said to be is an error.
pub(super) fn unpack(what: Vec<Descriptor>, descriptors: Vec<OwnedFd>) -> io::Result<Parcel> {
    let (mut ours, mut managers) = (Kinds::default(), Kinds::default());
    let mut others = vec![];
    for (what, descriptor) in what.into_iter().zip(descriptors) {
        match what {
            Descriptor::Udp { address, shared } => {
                let socket = UdpSocket::from(of_kind(descriptor, Type::DGRAM)?);
                expect_at(address, socket.local_addr()?)?;
                if shared { &mut managers } else { &mut ours }.udp.push(socket);
            }
            Descriptor::Tcp { address, shared } => {
                let listener = TcpListener::from(of_kind(descriptor, Type::STREAM)?);
                expect_at(address, listener.local_addr()?)?;
                if shared { &mut managers } else { &mut ours }.tcp.push(listener);
            }
            Descriptor::Other { name } => others.push((name, descriptor)),
        }
    }
    let mut sockets: Sockets = gather(ours.udp, ours.tcp, false)?;
    sockets.bound.extend(gather(managers.udp, managers.tcp, true)?.bound);
    Ok(Parcel { sockets, others })
}

/// Sockets of one owner.
#[derive(Default)]
struct Kinds {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
}

fn of_kind(descriptor: OwnedFd, kind: Type) -> io::Result<OwnedFd> {
    let socket = SockRef::from(&descriptor);
    let internet = [Domain::IPV4, Domain::IPV6].contains(&socket.domain()?);
    let is_so = internet && socket.r#type()? == kind && socket.is_listener()? == (kind == Type::STREAM);
    if is_so { Ok(descriptor) } else { Err(invalid("a socket that is not of the kind announced")) }
}

fn expect_at(announced: std::net::SocketAddr, actual: std::net::SocketAddr) -> io::Result<()> {
    if announced == actual { Ok(()) } else { Err(invalid("a socket that is not bound to the address announced")) }
}
