//! Binds what is not inherited, and sets what every socket needs. Overlaps between addresses are found before the kernel
//! would find them, for a clearer error.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    time::Duration,
};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, SockRef, Socket, Type};

use super::{
    BindError, BindErrors, BindFault, Protocol, Sockets, batch,
    sockets::{Bound, Shared},
};

/// A receive that finds nothing returns after this long, so that a worker sees that it is to stop.
pub(super) const RECEIVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Octets of receive and send buffer asked for. The kernel's default of 208 KiB drops a burst of some 250 queries, since it
/// counts 768 octets or more for the smallest packet; 4 MiB holds about 5,000.
const SOCKET_BUFFER: usize = 4 << 20;

/// Octets of a connection's answers that the kernel keeps before they are sent.
const UNSENT_MAX: u32 = 64 << 10;

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// Port 0 asks TCP for a free port and then UDP for the same one; so many times before it gives up.
const PORT_TRIES: usize = 32;

/// See [`Sockets::complete`].
pub(super) fn complete(have: Sockets, addresses: &[SocketAddr], workers: usize) -> Result<Sockets, BindErrors> {
    let mut faults = overlaps(addresses);
    let (mut have, mut bound) = (have.bound, vec![]);
    if faults.is_empty() {
        for &address in addresses {
            let inherited = have.iter().position(|b| matches(address, b.address)).map(|index| have.swap_remove(index));
            match complete_one(inherited, address, addresses, workers.max(1)) {
                Ok(one) => bound.push(one),
                Err(fault) => faults.push(BindError { address, fault }),
            }
        }
    }
    for left in have {
        tracing::warn!(address = %left.address, "inherited sockets closed: address is not in listen.dns");
    }
    if faults.is_empty() { Ok(Sockets { bound }) } else { Err(BindErrors(faults)) }
}

/// A configured address with port 0 matches any port of that address.
fn matches(configured: SocketAddr, bound: SocketAddr) -> bool {
    same_place(configured, bound) && (configured.port() == bound.port() || configured.port() == 0)
}

/// Same IP address on the same link; flow labels do not count.
fn same_place(a: SocketAddr, b: SocketAddr) -> bool {
    let scope = |address| match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    };
    a.ip() == b.ip() && scope(a) == scope(b)
}

/// Every address that is listed twice or taken in by a wildcard that is listed too.
fn overlaps(addresses: &[SocketAddr]) -> Vec<BindError> {
    let mut found = vec![];
    for (index, &address) in addresses.iter().enumerate().filter(|(_, address)| address.port() != 0) {
        let rivals = addresses.iter().enumerate().filter(|(_, rival)| rival.port() == address.port());
        for (other, &rival) in rivals {
            let fault = if other < index && same_place(address, rival) {
                BindFault::Twice
            } else if other != index && covers(rival, address, addresses) {
                BindFault::Covered { by: rival }
            } else {
                continue;
            };
            found.push(BindError { address, fault });
        }
    }
    found
}

/// Whether a socket on `wide` would get what is sent to `narrow`; the two have one port and are not the same.
fn covers(wide: SocketAddr, narrow: SocketAddr, addresses: &[SocketAddr]) -> bool {
    if !wide.ip().is_unspecified() || narrow.ip().is_unspecified() {
        return false;
    }
    wide.is_ipv4() == narrow.is_ipv4() || (wide.is_ipv6() && !only_v6(wide, addresses))
}

/// `[::]` serves IPv4 too, unless the IPv4 wildcard of the same port is listed as well.
fn only_v6(address: SocketAddr, addresses: &[SocketAddr]) -> bool {
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
    !address.ip().is_unspecified() || addresses.contains(&v4)
}

fn complete_one(
    inherited: Option<Bound>,
    address: SocketAddr,
    addresses: &[SocketAddr],
    workers: usize,
) -> Result<Bound, BindFault> {
    let only_v6 = only_v6(address, addresses);
    let mut bound = match inherited {
        Some(bound) => complete_inherited(bound, only_v6, workers)?,
        None => match bind_both(address, only_v6, workers) {
            // A kernel without IPv6 still serves the default of `[::]:53`: by IPv4.
            Err(BindFault::Other { source, .. }) if has_no_ipv6(&source) && !only_v6 => {
                tracing::warn!(%address, "IPv6 unavailable: listening on the IPv4 wildcard instead");
                bind_both(SocketAddr::from(([0, 0, 0, 0], address.port())), false, workers)?
            }
            result => result?,
        },
    };
    while bound.udp.len() < workers {
        let copy = bound.udp[0].try_clone().map_err(|e| BindFault::new(Protocol::Udp, address.port(), e))?;
        bound.udp.push(copy);
    }
    for socket in &bound.udp {
        prepare_udp(socket).map_err(|e| BindFault::new(Protocol::Udp, address.port(), e))?;
    }
    for listener in &bound.tcp {
        prepare_tcp(listener).map_err(|e| BindFault::new(Protocol::Tcp, address.port(), e))?;
    }
    Ok(bound)
}

fn has_no_ipv6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// An address of which a service manager may have given only one of UDP and TCP.
fn complete_inherited(mut bound: Bound, only_v6: bool, workers: usize) -> Result<Bound, BindFault> {
    let address = bound.address;
    if bound.tcp.is_empty() {
        bound.tcp.push(bind_tcp(address, only_v6)?);
    }
    if bound.udp.is_empty() {
        bound.udp = bind_udp(address, only_v6, workers)?;
    }
    for socket in bound.udp.iter().map(SockRef::from).chain(bound.tcp.iter().map(SockRef::from)) {
        if address.is_ipv6() && address.ip().is_unspecified() && socket.only_v6().unwrap_or(false) && !only_v6 {
            tracing::warn!(%address, "inherited socket is IPv6-only: set BindIPv6Only=both to serve IPv4 on it");
        }
    }
    Ok(bound)
}

fn bind_both(address: SocketAddr, only_v6: bool, workers: usize) -> Result<Bound, BindFault> {
    if address.port() != 0 {
        let tcp = bind_tcp(address, only_v6)?;
        let udp = bind_udp(address, only_v6, workers)?;
        return Ok(Bound { address, udp, tcp: vec![tcp], shared: Shared::new(false) });
    }
    for _ in 0..PORT_TRIES {
        let tcp = bind_tcp(address, only_v6)?;
        let given = tcp.local_addr().map_err(|e| BindFault::new(Protocol::Tcp, 0, e))?;
        match bind_udp(given, only_v6, workers) {
            Ok(udp) => return Ok(Bound { address: given, udp, tcp: vec![tcp], shared: Shared::new(false) }),
            Err(BindFault::InUse { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(BindFault::NoPort)
}

fn bind_tcp(address: SocketAddr, only_v6: bool) -> Result<TcpListener, BindFault> {
    let bind = || {
        let socket = new_socket(address, Type::STREAM, only_v6)?;
        // Connections of an earlier process that wait in TIME_WAIT do not keep the port; one that listens does.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    bind().map_err(|e| BindFault::new(Protocol::Tcp, address.port(), e))
}

fn bind_udp(address: SocketAddr, only_v6: bool, workers: usize) -> Result<Vec<UdpSocket>, BindFault> {
    let bind = || {
        // SO_REUSEPORT would let a second process of this user join in silence and take part of the queries. A socket
        // without it finds that out: it can be bound only if there is none.
        new_socket(address, Type::DGRAM, only_v6)?.bind(&address.into())?;
        let mut sockets = Vec::with_capacity(workers);
        for _ in 0..workers {
            let socket = new_socket(address, Type::DGRAM, only_v6)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            sockets.push(UdpSocket::from(socket));
        }
        Ok(sockets)
    };
    bind().map_err(|e| BindFault::new(Protocol::Udp, address.port(), e))
}

fn new_socket(address: SocketAddr, kind: Type, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    Ok(socket)
}

/// Sets what the TCP thread relies on; connections inherit the two options. Repeating it does no harm.
fn prepare_tcp(listener: &TcpListener) -> io::Result<()> {
    // Accepting must never block: another process may have taken the connection that made it ready.
    listener.set_nonblocking(true)?;
    // An answer leaves at once, not when the one before is acknowledged.
    sockopt::set_tcp_nodelay(listener, true)?;
    // The kernel takes no more than this beyond what is on its way, so a client that does not read costs little there too.
    SockRef::from(listener).set_tcp_notsent_lowat(UNSENT_MAX)
}

/// Sets what a worker relies on. Repeating it does no harm.
fn prepare_udp(socket: &UdpSocket) -> io::Result<()> {
    let address = socket.local_addr()?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    // Only with CAP_NET_ADMIN may the buffers exceed `net.core.rmem_max`; the rest is as much as the kernel grants.
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER)?;
    }
    // Don't-fragment (RFC 9715), with PROBE: a path MTU learned from an ICMP message, which anyone can forge, is not believed.
    // Answers are at most 1,232 octets, so that no path of IPv6's smallest MTU needs to fragment them.
    let v4 = address.is_ipv4() || !SockRef::from(socket).only_v6()?;
    if v4 {
        sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    if address.ip().is_unspecified() { batch::ask_for_destination(socket, address.is_ipv6()) } else { Ok(()) }
}
