//! The listener for health probes, from the configuration file or the environment.

use std::net::{IpAddr, SocketAddr};

use fairway_model::Network;

use super::reason::Reason;

/// Listener for health probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthListenerSettings {
    /// Its address.
    pub address: SocketAddr,
    /// True if it serves metrics too. Default false.
    pub metrics: bool,
    /// Networks whose clients may connect, in addition to loopback addresses; all if empty.
    pub networks: Vec<Network>,
}

impl HealthListenerSettings {
    /// Returns the error if everybody would get the metrics.
    pub(super) fn exposed_metrics(&self) -> Option<Reason> {
        let is_exposed = self.metrics && self.networks.is_empty() && !self.address.ip().to_canonical().is_loopback();
        let what =
            || format!("{} can be reached from other machines, which requires networks for metrics", self.address);
        is_exposed.then(|| Reason::new(what(), "add networks with the addresses of the scrapers, or remove metrics"))
    }

    /// Returns true if a client may connect.
    pub fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.networks.is_empty() || client.is_loopback() || self.networks.iter().any(|network| network.contains(client))
    }
}
