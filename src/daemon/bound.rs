//! Sockets and listeners, bound before anything is served. Some may come from the replaced process or from a service manager.

use std::{
    net::{self, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use tokio::net::TcpListener;

use crate::daemon::StartError;
use fairway_api_types::client::CONTROL_SOCKET;
use fairway_config::Settings;
use fairway_control::lifecycle::Listener;
use fairway_transport::Sockets;

/// Bound sockets and listeners.
pub(crate) struct Bound {
    /// Sockets for DNS.
    pub(crate) sockets: Sockets,
    /// Listener of the API.
    pub(crate) http: Option<TcpListener>,
    /// Listener of the webhook for ExternalDNS.
    pub(crate) webhook: Option<TcpListener>,
    /// Listener for health and metrics of the webhook.
    pub(crate) health: Option<TcpListener>,
}

/// HTTP listeners from the replaced process, with the fields of [`Bound`].
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    pub(crate) http: Option<net::TcpListener>,
    pub(crate) webhook: Option<net::TcpListener>,
    pub(crate) health: Option<net::TcpListener>,
}

impl Bound {
    /// Binds the addresses of the settings, except those that were handed over.
    pub(crate) async fn new(
        settings: &Settings,
        sockets: Sockets,
        handed_over: HandedOver,
        workers: Option<usize>,
    ) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.or(settings.udp.workers).unwrap_or_else(cores);
        let webhook = settings.webhook.as_ref();
        let addresses = [settings.http, webhook.map(|of| of.listen), webhook.and_then(|of| of.metrics)];
        let mut sockets = sockets;
        // Taken out in any case, so that `complete` does not treat them as sockets for DNS.
        let [http, hook, health] = addresses.map(|address| sockets.take_listener(address?));
        let HandedOver { http: old_http, webhook: old_hook, health: old_health } = handed_over;
        Ok(Self {
            sockets: sockets.complete(&settings.dns, workers)?,
            http: listener("listen.http", addresses[0], old_http.or(http)).await?,
            webhook: listener("webhook.listen", addresses[1], old_hook.or(hook)).await?,
            health: listener("webhook.metrics", addresses[2], old_health.or(health)).await?,
        })
    }

    /// Returns the address of the HTTP listener.
    pub(crate) fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Returns copies of the HTTP listeners with their names, to hand over.
    pub(crate) fn copies(&self) -> Result<Vec<(&'static str, OwnedFd)>, StartError> {
        let all = [(HTTP, &self.http), (WEBHOOK, &self.webhook), (HEALTH, &self.health)];
        let bound = all.into_iter().filter_map(|(name, listener)| Some((name, listener.as_ref()?)));
        let copy = |listener: &TcpListener| listener.as_fd().try_clone_to_owned().map_err(StartError::Threads);
        bound.map(|(name, listener)| Ok((name, copy(listener)?))).collect()
    }

    /// Returns all listeners, for the state of the API.
    pub(crate) fn listeners(&self, data_dir: Option<&Path>) -> Vec<Listener> {
        let state = |kind, address: String| Listener { kind, address };
        let mut listeners: Vec<_> =
            self.sockets.addresses().iter().map(|address| state("dns", address.to_string())).collect();
        listeners.extend(self.http_address().map(|address| state("http", address.to_string())));
        for (kind, listener) in [("webhook", &self.webhook), ("webhook-metrics", &self.health)] {
            let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
            listeners.extend(address.map(|address| state(kind, address.to_string())));
        }
        listeners.extend(data_dir.map(|path| state("control", path.join(CONTROL_SOCKET).display().to_string())));
        listeners
    }
}

/// Returns the given listener, or binds one. Returns `None` without an address.
async fn listener(
    key: &'static str,
    address: Option<SocketAddr>,
    given: Option<net::TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let error = |source| StartError::Http { key, address, source };
    match given {
        Some(listener) => {
            listener.set_nonblocking(true).map_err(error)?;
            TcpListener::from_std(listener).map(Some).map_err(error)
        }
        None => TcpListener::bind(address).await.map(Some).map_err(error),
    }
}

/// Name of the API listener in a hand-over. Names must stay the same in all versions.
pub(crate) const HTTP: &str = "http";
/// Name of the webhook listener in a hand-over.
pub(crate) const WEBHOOK: &str = "webhook";
/// Name of the listener for health and metrics of the webhook in a hand-over.
pub(crate) const HEALTH: &str = "webhook-metrics";
