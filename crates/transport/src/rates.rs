//! Table of the responses of a socket per client network.

use std::sync::{Arc, OnceLock};

use fairway_zones::{ProvenNetworks, RateTable};

/// Table of one socket, which its worker and its spare workers share. Allocated for the first batch while responses are limited: it
/// takes 512 KiB.
#[derive(Debug)]
pub(super) struct LateRates {
    /// Sockets of the same address, among which the kernel distributes clients.
    sockets: u32,
    proven: Arc<ProvenNetworks>,
    table: OnceLock<RateTable>,
}

impl LateRates {
    /// Returns the table of one of `sockets` sockets of an address.
    pub(super) fn new(sockets: usize, proven: Arc<ProvenNetworks>) -> Self {
        Self { sockets: u32::try_from(sockets).unwrap_or(u32::MAX), proven, table: OnceLock::new() }
    }

    /// Returns the table.
    pub(super) fn table(&self) -> &RateTable {
        self.table.get_or_init(|| RateTable::new(Arc::clone(&self.proven), self.sockets))
    }
}
