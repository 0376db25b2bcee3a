//! What is bound before anything is served: DNS sockets and the HTTP listener, whoever opened them.

use std::{
    io,
    net::{self, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use tokio::net::TcpListener;

use super::StartError;
use crate::{
    api::{client::CONTROL_SOCKET, state_wire::ListenerState},
    config::Settings,
    serve::Sockets,
};

/// What is bound.
pub(super) struct Bound {
    pub(super) sockets: Sockets,
    pub(super) http: Option<TcpListener>,
}

impl Bound {
    /// Binds what the settings name, except what was passed on already and fits.
    pub(super) async fn new(
        settings: &Settings,
        passed: Sockets,
        http: Option<net::TcpListener>,
        workers: Option<usize>,
    ) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.or(settings.udp.workers).unwrap_or_else(cores);
        let sockets = passed.complete(&settings.dns, workers)?;
        let http = match (settings.http, http) {
            (None, _) => None,
            (Some(address), Some(listener)) => {
                let fault = |source| StartError::Http { address, source };
                listener.set_nonblocking(true).map_err(fault)?;
                Some(TcpListener::from_std(listener).map_err(fault)?)
            }
            (Some(address), None) => {
                let fault = |source| StartError::Http { address, source };
                Some(TcpListener::bind(address).await.map_err(fault)?)
            }
        };
        Ok(Self { sockets, http })
    }

    /// The address of the HTTP listener.
    pub(super) fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The HTTP listener once more, to hand over.
    pub(super) fn http_copy(&self) -> io::Result<Option<OwnedFd>> {
        self.http.as_ref().map(|listener| listener.as_fd().try_clone_to_owned()).transpose()
    }

    /// All of it, as status shows it.
    pub(super) fn listeners(&self, data_dir: Option<&Path>) -> Vec<ListenerState> {
        let state = |kind: &str, address: String| ListenerState { kind: kind.to_owned(), address };
        let mut listeners: Vec<_> =
            self.sockets.addresses().iter().map(|address| state("dns", address.to_string())).collect();
        listeners.extend(self.http_address().map(|address| state("http", address.to_string())));
        listeners.extend(data_dir.map(|path| state("control", path.join(CONTROL_SOCKET).display().to_string())));
        listeners
    }
}
