//! What is bound before anything is served: DNS sockets and the HTTP listener, whoever opened them.

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

/// What is bound.
pub(crate) struct Bound {
    pub(crate) sockets: Sockets,
    pub(crate) http: Option<TcpListener>,
    /// What ExternalDNS speaks to.
    pub(crate) webhook: Option<TcpListener>,
    /// Health and metrics beside it.
    pub(crate) health: Option<TcpListener>,
}

/// HTTP listeners that the process before passed on.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) http: Option<net::TcpListener>,
    pub(crate) webhook: Option<net::TcpListener>,
    pub(crate) health: Option<net::TcpListener>,
}

impl Bound {
    /// Binds what the settings name, except what was passed on already and fits.
    pub(crate) async fn new(
        settings: &Settings,
        sockets: Sockets,
        passed: Passed,
        workers: Option<usize>,
    ) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.or(settings.udp.workers).unwrap_or_else(cores);
        let webhook = settings.webhook.as_ref();
        let addresses = [settings.http, webhook.map(|of| of.listen), webhook.and_then(|of| of.metrics)];
        // Where no process handed one over, a service manager may have.
        let mut sockets = sockets;
        let mut held = addresses.map(|address| sockets.take_listener(address?));
        let mut pick = |at: usize, passed: Option<net::TcpListener>| passed.or_else(|| held[at].take());
        let [http, hook, health] = [pick(0, passed.http), pick(1, passed.webhook), pick(2, passed.health)];
        Ok(Self {
            sockets: sockets.complete(&settings.dns, workers)?,
            http: listener("listen.http", addresses[0], http).await?,
            webhook: listener("webhook.listen", addresses[1], hook).await?,
            health: listener("webhook.metrics", addresses[2], health).await?,
        })
    }

    /// The address of the HTTP listener.
    pub(crate) fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The HTTP listeners once more, by name, to hand over.
    pub(crate) fn copies(&self) -> Result<Vec<(&'static str, OwnedFd)>, StartError> {
        let all = [(HTTP, &self.http), (WEBHOOK, &self.webhook), (HEALTH, &self.health)];
        let bound = all.into_iter().filter_map(|(name, listener)| Some((name, listener.as_ref()?)));
        let copy = |listener: &TcpListener| listener.as_fd().try_clone_to_owned().map_err(StartError::Threads);
        bound.map(|(name, listener)| Ok((name, copy(listener)?))).collect()
    }

    /// All of it, as status shows it.
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

/// A listener at an address: the one that was passed on, or a new one.
async fn listener(
    key: &'static str,
    address: Option<SocketAddr>,
    passed: Option<net::TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let fault = |source| StartError::Http { key, address, source };
    match passed {
        Some(listener) => {
            listener.set_nonblocking(true).map_err(fault)?;
            TcpListener::from_std(listener).map(Some).map_err(fault)
        }
        None => TcpListener::bind(address).await.map(Some).map_err(fault),
    }
}

/// What HTTP listeners are called between a process and the one that replaces it.
pub(crate) const HTTP: &str = "http";
pub(crate) const WEBHOOK: &str = "webhook";
pub(crate) const HEALTH: &str = "webhook-metrics";
