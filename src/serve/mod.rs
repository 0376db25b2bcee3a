//! Moves packets: UDP in batches on a thread a core, TCP by tokio. Every transport calls [`fairway_zones::respond()`].

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use fairway_zones::{Tallies, View};

/// Bound sockets: made here, inherited from a service manager, or handed over by the process being replaced.
#[derive(Debug, Default)]
pub struct Sockets {}

impl Sockets {
    /// Binds UDP (one socket a worker, SO_REUSEPORT) and TCP on each address.
    pub fn bind(addresses: &[SocketAddr], workers: usize) -> io::Result<Self> {
        let _ = (addresses, workers);
        Ok(Self {})
    }

    /// The addresses bound, with the port that was given for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        vec![]
    }
}

/// The running transports.
#[derive(Debug)]
pub struct Server {}

impl Server {
    /// Starts a thread a UDP socket and the TCP tasks. Every batch and every message reads `view` anew.
    pub fn start(sockets: Sockets, view: Arc<ArcSwap<View>>) -> io::Result<Self> {
        let _ = (sockets, view);
        Ok(Self {})
    }

    /// The counters of all workers, summed now.
    pub fn tallies(&self) -> Tallies {
        Tallies::default()
    }

    /// Stops taking new work, answers what was accepted, ends; at most `limit`.
    pub async fn drain(self, limit: Duration) {
        let _ = limit;
    }
}
