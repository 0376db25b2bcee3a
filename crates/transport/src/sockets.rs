//! The sockets that are served, whoever made them: bound here, inherited from a service manager, or handed over.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{BindErrors, bind};

/// All listening sockets, grouped by address.
#[derive(Debug, Default)]
pub struct Sockets {
    pub(super) bound: Vec<Bound>,
}

/// The sockets of one address.
#[derive(Debug)]
pub(super) struct Bound {
    /// The address they are bound to, with the port that was given for port 0.
    pub(super) address: SocketAddr,
    /// One a worker; all are served, since the kernel spreads clients over them.
    pub(super) udp: Vec<UdpSocket>,
    /// One, unless a service manager gave more.
    pub(super) tcp: Vec<TcpListener>,
    /// Whether they outlive this process.
    pub(super) shared: Shared,
}

/// Whether somebody outside this process holds a socket too and will serve it on: a service manager for good, a process
/// that takes it over while it prepares. What is queued in the socket then outlives this process, and the socket must not
/// be changed at the end. Copies speak of the same socket.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// By a service manager.
    for_good: bool,
    /// By a process that takes over.
    lent: Arc<AtomicBool>,
}

impl Shared {
    /// Held by a service manager or not, and by nobody else yet.
    pub(super) fn new(for_good: bool) -> Self {
        Self { for_good, lent: Arc::default() }
    }

    /// Whether a service manager holds the socket.
    pub(super) fn for_good(&self) -> bool {
        self.for_good
    }

    /// Whether anybody else holds the socket now.
    pub(super) fn now(&self) -> bool {
        self.for_good || self.lent.load(Ordering::Acquire)
    }

    /// Notes that a process that takes over has it, or has died.
    pub(super) fn lend(&self, lent: bool) {
        self.lent.store(lent, Ordering::Release);
    }
}

impl Sockets {
    /// Binds UDP (`workers` sockets, SO_REUSEPORT) and TCP on each address.
    ///
    /// Port 0 gives UDP and TCP the same free port. An address used by another process is an error, also if that process
    /// is another fairway; all faults come together and leave nothing bound.
    pub fn bind(addresses: &[SocketAddr], workers: usize) -> Result<Self, BindErrors> {
        Self::default().complete(addresses, workers)
    }

    /// These sockets, as far as they match `addresses`, and newly bound ones for the rest.
    ///
    /// What matches none of `addresses` is closed. An address with fewer UDP sockets than workers gets duplicates, which
    /// share one queue.
    pub fn complete(self, addresses: &[SocketAddr], workers: usize) -> Result<Self, BindErrors> {
        bind::complete(self, addresses, workers)
    }

    /// The addresses bound, in the order configured, with the port that was given for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|bound| bound.address).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Takes out the listener of an address at which no datagrams are received: it is there for something else than DNS.
    pub fn take_listener(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.bound.iter().position(|bound| bound.address == address && bound.udp.is_empty())?;
        self.bound.remove(at).tcp.pop()
    }

    fn at(&mut self, address: SocketAddr, shared: bool) -> &mut Bound {
        let index = self.bound.iter().position(|b| b.address == address).unwrap_or_else(|| {
            self.bound.push(Bound { address, udp: vec![], tcp: vec![], shared: Shared::new(shared) });
            self.bound.len() - 1
        });
        &mut self.bound[index]
    }

    /// More descriptors of the same sockets, to hand over.
    pub fn try_clone(&self) -> io::Result<Self> {
        let bound = self.bound.iter().map(Bound::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { bound })
    }
}

impl Bound {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            address: self.address,
            udp: self.udp.iter().map(UdpSocket::try_clone).collect::<io::Result<_>>()?,
            tcp: self.tcp.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?,
            shared: self.shared.clone(),
        })
    }
}

/// Single sockets grouped by their own address, in order of first use.
pub(super) fn gather(udp: Vec<UdpSocket>, tcp: Vec<TcpListener>, shared: bool) -> io::Result<Sockets> {
    let mut all = Sockets::default();
    for socket in udp {
        let address = socket.local_addr()?;
        all.at(address, shared).udp.push(socket);
    }
    for listener in tcp {
        let address = listener.local_addr()?;
        all.at(address, shared).tcp.push(listener);
    }
    Ok(all)
}
