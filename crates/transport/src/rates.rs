//! Table of the responses of a socket per client network.

use std::{hash::RandomState, sync::OnceLock};

use fairway_zones::RateTable;

/// Table of one socket, which its worker and its spare workers share. Allocated for the first batch while responses are limited: it
/// takes 512 KiB.
#[derive(Debug)]
pub(super) struct LateRates {
    /// Sockets of the same address, among which the kernel distributes clients.
    sockets: u32,
    table: OnceLock<RateTable>,
}

impl LateRates {
    /// Returns the table of one of `sockets` sockets of an address.
    pub(super) fn new(sockets: usize) -> Self {
        Self { sockets: u32::try_from(sockets).unwrap_or(u32::MAX), table: OnceLock::new() }
    }

    /// Returns the table, whose hash has a random key.
    pub(super) fn table(&self) -> &RateTable {
        self.table.get_or_init(|| RateTable::new(RandomState::new(), self.sockets))
    }
}
