//! Sockets and listeners, bound before anything is served. Some may come from the replaced process or from a service manager.

use std::{
    collections::BTreeMap,
    io,
    net::{self, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use tokio::net::{TcpListener, TcpSocket};

use crate::daemon::StartError;
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::Settings;
use fairway_control::lifecycle::Listener;
use fairway_transport::Sockets;

/// Bound sockets and listeners.
pub(crate) struct Bound {
    /// Sockets for DNS.
    pub(crate) sockets: Sockets,
    /// HTTP listeners by name.
    pub(crate) listeners: BTreeMap<&'static str, TcpListener>,
}

/// HTTP listeners from the replaced process, by name.
pub(crate) type HandedOver = BTreeMap<String, OwnedFd>;

impl Bound {
    /// Binds the addresses of the settings, except those that were handed over.
    pub(crate) async fn new(
        settings: &Settings,
        mut sockets: Sockets,
        mut handed_over: HandedOver,
        workers: Option<usize>,
    ) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.or(settings.udp.workers).unwrap_or_else(cores);
        let webhook = settings.webhook.as_ref();
        let addresses = [
            (HTTP, "listen.http", settings.http),
            (WEBHOOK, "webhook.listen", webhook.map(|webhook| webhook.listen)),
            (HEALTH, "listen.health.address", settings.health_listener.as_ref().map(|health| health.address)),
        ];
        // Taken out first, so that `complete` does not treat them as sockets for DNS.
        let inherited = addresses.map(|(.., address)| sockets.take_listener(address?));
        let sockets = sockets.complete(&settings.dns, workers)?;
        let mut listeners = BTreeMap::new();
        for ((name, key, address), inherited) in addresses.into_iter().zip(inherited) {
            let Some(address) = address else { continue };
            // A listener of the replaced process at another address is closed.
            let old = handed_over.remove(name).map(net::TcpListener::from);
            let old = old.filter(|listener| listener.local_addr().ok() == Some(address));
            let bound = listener(address, old.or(inherited)).await;
            listeners.insert(name, bound.map_err(|source| StartError::Http { key, address, source })?);
        }
        Ok(Self { sockets, listeners })
    }

    /// Returns the address of the HTTP listener.
    pub(crate) fn http_address(&self) -> Option<SocketAddr> {
        self.listeners.get(HTTP).and_then(|listener| listener.local_addr().ok())
    }

    /// Returns copies of the HTTP listeners with their names, to hand over.
    pub(crate) fn copies(&self) -> Result<Vec<(&'static str, OwnedFd)>, StartError> {
        let copy = |listener: &TcpListener| listener.as_fd().try_clone_to_owned().map_err(StartError::Threads);
        self.listeners.iter().map(|(name, listener)| Ok((*name, copy(listener)?))).collect()
    }

    /// Returns all listeners, for the state of the API.
    pub(crate) fn state(&self, data_dir: Option<&Path>) -> Vec<Listener> {
        let state = |kind, address: String| Listener { kind, address };
        let dns = self.sockets.addresses().into_iter().map(|address| state("dns", address.to_string()));
        let http = self.listeners.iter().filter_map(|(kind, listener)| {
            let address = listener.local_addr().ok()?;
            Some(state(kind, address.to_string()))
        });
        let control = data_dir.map(|path| state("control", path.join(CONTROL_SOCKET).display().to_string()));
        dns.chain(http).chain(control).collect()
    }
}

/// Returns the given listener, or binds one.
async fn listener(address: SocketAddr, given: Option<net::TcpListener>) -> io::Result<TcpListener> {
    let Some(listener) = given else {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        return socket.listen(BACKLOG);
    };
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Connections that wait to be accepted. The default of tokio, 128, is full after a burst of a few hundred, and a client that connects then waits
/// a second for the kernel's next try. The kernel allows no more than `net.core.somaxconn`, 4096 by default.
const BACKLOG: u32 = 4_096;

/// Name of the API listener in a hand-over and in the state. Names must stay the same in all versions.
pub(crate) const HTTP: &str = "http";
/// Name of the webhook listener.
pub(crate) const WEBHOOK: &str = "webhook";
/// Name of the listener for health probes.
pub(crate) const HEALTH: &str = "health";
