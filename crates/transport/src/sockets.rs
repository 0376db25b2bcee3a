//! The listening sockets: bound here, inherited from a service manager, or handed over by an old process.

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
    /// Bound address; a configured port 0 is replaced by the assigned port.
    pub(super) address: SocketAddr,
    /// One per worker. All must be served, because the kernel distributes clients over them.
    pub(super) udp: Vec<UdpSocket>,
    /// One, unless a service manager passed more.
    pub(super) tcp: Vec<TcpListener>,
    /// Processes that hold the sockets too.
    pub(super) shared: Shared,
}

/// Other processes that hold a socket and will serve it: a service manager (permanently), or a process that prepares to replace this one.
/// The queue of the socket then outlives this process, and the socket must not be changed when this process ends. Clones share the state.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// Held by a service manager.
    is_held_by_service_manager: bool,
    /// Held by a process that replaces this one.
    is_lent: Arc<AtomicBool>,
}

impl Shared {
    /// Returns the state of a socket that no other process took over yet.
    pub(super) fn new(is_held_by_service_manager: bool) -> Self {
        Self { is_held_by_service_manager, is_lent: Arc::default() }
    }

    /// True if a service manager holds the socket.
    pub(super) fn is_held_by_service_manager(&self) -> bool {
        self.is_held_by_service_manager
    }

    /// True if any other process holds the socket now.
    pub(super) fn is_shared(&self) -> bool {
        self.is_held_by_service_manager || self.is_lent.load(Ordering::Acquire)
    }

    /// Records that a replacing process holds the socket, or has ended.
    pub(super) fn set_lent(&self, is_lent: bool) {
        self.is_lent.store(is_lent, Ordering::Release);
    }
}

impl Sockets {
    /// Binds UDP (`workers` sockets, SO_REUSEPORT) and TCP on each address.
    ///
    /// Port 0 chooses a free port, the same for UDP and TCP. An address in use by another process is an error, even if that process is
    /// also fairway. All errors are returned together, and then nothing stays bound.
    pub fn bind(addresses: &[SocketAddr], workers: usize) -> Result<Self, BindErrors> {
        Self::default().complete(addresses, workers)
    }

    /// Keeps the sockets that match `addresses`, closes the others, and binds what is missing.
    ///
    /// An address with fewer UDP sockets than workers gets duplicates, which share one queue.
    pub fn complete(self, addresses: &[SocketAddr], workers: usize) -> Result<Self, BindErrors> {
        bind::complete(self, addresses, workers)
    }

    /// Returns the bound addresses in the configured order; a port 0 is replaced by the assigned port.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|bound| bound.address).collect()
    }

    /// True if there are no sockets.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Removes and returns the listener of an address without UDP sockets: it serves HTTP, not DNS.
    pub fn take_listener(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.bound.iter().position(|bound| bound.address == address && bound.udp.is_empty())?;
        self.bound.remove(at).tcp.pop()
    }

    /// Adds a UDP socket to those of its address and owner.
    pub(super) fn add_udp(&mut self, socket: UdpSocket, is_held_by_service_manager: bool) -> io::Result<()> {
        let address = socket.local_addr()?;
        self.at(address, is_held_by_service_manager).udp.push(socket);
        Ok(())
    }

    /// Adds a TCP listener to those of its address and owner.
    pub(super) fn add_tcp(&mut self, listener: TcpListener, is_held_by_service_manager: bool) -> io::Result<()> {
        let address = listener.local_addr()?;
        self.at(address, is_held_by_service_manager).tcp.push(listener);
        Ok(())
    }

    fn at(&mut self, address: SocketAddr, is_held: bool) -> &mut Bound {
        let is_same = |b: &Bound| b.address == address && b.shared.is_held_by_service_manager == is_held;
        let index = self.bound.iter().position(is_same).unwrap_or_else(|| {
            self.bound.push(Bound { address, udp: vec![], tcp: vec![], shared: Shared::new(is_held) });
            self.bound.len() - 1
        });
        &mut self.bound[index]
    }

    /// Returns duplicates of all sockets, for a hand-over.
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
