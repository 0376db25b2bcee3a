//! Binds sockets that were not inherited, and sets the options of all. Overlapping addresses are found before the kernel finds them,
//! for a clearer error.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    time::Duration,
};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, SockRef, Socket, Type};

use super::{
    BindError, BindErrorKind, BindErrors, Protocol, Sockets, batch,
    sockets::{Bound, Shared},
};

/// Receive timeout, so that a worker without queries sees a stop.
pub(super) const RECEIVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Bytes of receive and send buffer to request. The kernel counts at least 768 bytes for the smallest packet: its default of 208 KiB
/// overflows in a burst of some 250 queries, 4 MiB hold about 5,000.
const SOCKET_BUFFER: usize = 4 << 20;

/// Bytes of unsent answers that the kernel buffers per connection (`TCP_NOTSENT_LOWAT`).
const UNSENT_MAX: u32 = 64 << 10;

/// Backlog of connections that wait to be accepted; the kernel caps it at `net.core.somaxconn` (4,096 by default).
const BACKLOG: i32 = 4_096;

/// Attempts to find a port that is free for both TCP and UDP, where port 0 is configured.
const PORT_TRIES: usize = 32;

/// Implements [`Sockets::complete`].
pub(super) fn complete(have: Sockets, addresses: &[SocketAddr], workers: usize) -> Result<Sockets, BindErrors> {
    let mut errors = overlaps(addresses);
    let (mut have, mut bound) = (have.bound, vec![]);
    if errors.is_empty() {
        for &address in addresses {
            let inherited = have.iter().position(|b| matches(address, b.address)).map(|index| have.swap_remove(index));
            match complete_one(inherited, address, addresses, workers.max(1)) {
                Ok(one) => bound.push(one),
                Err(kind) => errors.push(BindError { address, kind }),
            }
        }
    }
    for left in have {
        tracing::warn!(address = %left.address, "inherited sockets closed: address is not in listen.dns");
    }
    if errors.is_empty() { Ok(Sockets { bound }) } else { Err(BindErrors(errors)) }
}

/// True if a bound address is the configured one. Port 0 matches any port.
fn matches(configured: SocketAddr, bound: SocketAddr) -> bool {
    same_ip(configured, bound) && (configured.port() == bound.port() || configured.port() == 0)
}

/// True for the same IP address on the same link; flow labels are ignored.
fn same_ip(a: SocketAddr, b: SocketAddr) -> bool {
    let scope = |address| match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    };
    a.ip() == b.ip() && scope(a) == scope(b)
}

/// Returns each address that is listed twice, or is covered by a listed wildcard.
fn overlaps(addresses: &[SocketAddr]) -> Vec<BindError> {
    let mut found = vec![];
    for (index, &address) in addresses.iter().enumerate().filter(|(_, address)| address.port() != 0) {
        let rivals = addresses.iter().enumerate().filter(|(_, rival)| rival.port() == address.port());
        for (other, &rival) in rivals {
            let kind = if other < index && same_ip(address, rival) {
                BindErrorKind::Duplicate
            } else if other != index && covers(rival, address, addresses) {
                BindErrorKind::Covered { by: rival }
            } else {
                continue;
            };
            found.push(BindError { address, kind });
        }
    }
    found
}

/// True if a socket on `wide` would receive the packets for `narrow`. The two differ and have the same port.
fn covers(wide: SocketAddr, narrow: SocketAddr, addresses: &[SocketAddr]) -> bool {
    if !wide.ip().is_unspecified() || narrow.ip().is_unspecified() {
        return false;
    }
    wide.is_ipv4() == narrow.is_ipv4() || (wide.is_ipv6() && !only_v6(wide, addresses))
}

/// True if the socket must be IPv6-only. `[::]` also serves IPv4, unless the IPv4 wildcard with the same port is listed too.
fn only_v6(address: SocketAddr, addresses: &[SocketAddr]) -> bool {
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
    !address.ip().is_unspecified() || addresses.contains(&v4)
}

fn complete_one(
    inherited: Option<Bound>,
    address: SocketAddr,
    addresses: &[SocketAddr],
    workers: usize,
) -> Result<Bound, BindErrorKind> {
    let only_v6 = only_v6(address, addresses);
    let mut bound = match inherited {
        Some(bound) => complete_inherited(bound, only_v6, workers)?,
        None => match bind_both(address, only_v6, workers) {
            // A kernel without IPv6 still serves the default of `[::]:53`: by IPv4.
            Err(BindErrorKind::Other { source, .. }) if has_no_ipv6(&source) && !only_v6 => {
                tracing::warn!(%address, "IPv6 unavailable: listening on the IPv4 wildcard instead");
                bind_both(SocketAddr::from(([0, 0, 0, 0], address.port())), false, workers)?
            }
            result => result?,
        },
    };
    while bound.udp.len() < workers {
        let copy = bound.udp[0].try_clone().map_err(|e| BindErrorKind::new(Protocol::Udp, address.port(), e))?;
        bound.udp.push(copy);
    }
    for socket in &bound.udp {
        prepare_udp(socket).map_err(|e| BindErrorKind::new(Protocol::Udp, address.port(), e))?;
    }
    for listener in &bound.tcp {
        prepare_tcp(listener).map_err(|e| BindErrorKind::new(Protocol::Tcp, address.port(), e))?;
    }
    Ok(bound)
}

fn has_no_ipv6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// Binds the protocol that a service manager did not pass for an address.
fn complete_inherited(mut bound: Bound, only_v6: bool, workers: usize) -> Result<Bound, BindErrorKind> {
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

fn bind_both(address: SocketAddr, only_v6: bool, workers: usize) -> Result<Bound, BindErrorKind> {
    if address.port() != 0 {
        let tcp = bind_tcp(address, only_v6)?;
        let udp = bind_udp(address, only_v6, workers)?;
        return Ok(Bound { address, udp, tcp: vec![tcp], shared: Shared::new(false) });
    }
    for _ in 0..PORT_TRIES {
        let tcp = bind_tcp(address, only_v6)?;
        let given = tcp.local_addr().map_err(|e| BindErrorKind::new(Protocol::Tcp, 0, e))?;
        match bind_udp(given, only_v6, workers) {
            Ok(udp) => return Ok(Bound { address: given, udp, tcp: vec![tcp], shared: Shared::new(false) }),
            Err(BindErrorKind::InUse { .. }) => {}
            Err(kind) => return Err(kind),
        }
    }
    Err(BindErrorKind::NoPort)
}

fn bind_tcp(address: SocketAddr, only_v6: bool) -> Result<TcpListener, BindErrorKind> {
    let bind = || {
        let socket = new_socket(address, Type::STREAM, only_v6)?;
        // Without it, connections of an earlier process in TIME_WAIT would block the port. A listener still does.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    bind().map_err(|e| BindErrorKind::new(Protocol::Tcp, address.port(), e))
}

fn bind_udp(address: SocketAddr, only_v6: bool, workers: usize) -> Result<Vec<UdpSocket>, BindErrorKind> {
    let bind = || {
        // With SO_REUSEPORT a second process of the same user would silently receive part of the queries. A socket without it can be
        // bound only if no other process has the port, so this one is the check.
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
    bind().map_err(|e| BindErrorKind::new(Protocol::Udp, address.port(), e))
}

fn new_socket(address: SocketAddr, kind: Type, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    Ok(socket)
}

/// Sets the options of a listener; connections inherit them. Idempotent.
fn prepare_tcp(listener: &TcpListener) -> io::Result<()> {
    // Accepting must never block: another process may already have accepted the connection.
    listener.set_nonblocking(true)?;
    // Sends each answer at once, not after the acknowledgement of the one before.
    sockopt::set_tcp_nodelay(listener, true)?;
    // Bounds what a client that does not read costs in kernel memory.
    SockRef::from(listener).set_tcp_notsent_lowat(UNSENT_MAX)
}

/// Sets the options of a UDP socket. Idempotent.
fn prepare_udp(socket: &UdpSocket) -> io::Result<()> {
    let address = socket.local_addr()?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    // The buffers may exceed `net.core.rmem_max` only with CAP_NET_ADMIN. Otherwise the kernel grants what it allows.
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER)?;
    }
    // Don't fragment (RFC 9715). PROBE ignores a path MTU learned from ICMP messages, which anyone can forge. Answers have at most
    // 1,232 octets, so that they fit the smallest MTU of IPv6.
    let v4 = address.is_ipv4() || !SockRef::from(socket).only_v6()?;
    if v4 {
        sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    if address.ip().is_unspecified() { batch::ask_for_destination(socket, address.is_ipv6()) } else { Ok(()) }
}
