//! Limits error responses over UDP: FORMERR and NOTIMP.
//!
//! A datagram with a forged source makes this server send an error to a service that answers whatever it gets. Its answer is no
//! query either, and so on: without a limit, one datagram starts an endless exchange of more than 10,000 packets a second.
//! A client of DNS does not depend on these errors.

use std::net::IpAddr;

use fairway_model::mix;
use fairway_zones::Now;

/// Errors that an address gets per second from one worker. Enough to debug a client by hand.
pub(super) const ERRORS_PER_SECOND: u32 = 5;

/// Counts of a worker: 8 KiB. A power of two.
const SLOTS: usize = 1024;

/// Errors sent in the current second, by the hash of the address.
///
/// Addresses with the same slot share its limit, so a flood from forged addresses gets at most 5 × 1,024 errors per second and
/// worker. The hash has a random seed, so nobody can choose addresses that use up the errors of another one.
pub(super) struct ErrorLimit {
    seed: u64,
    slots: Box<[Slot; SLOTS]>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Low bits of the second that `sent` belongs to.
    second: u32,
    sent: u32,
}

impl ErrorLimit {
    /// Returns a limit that has counted nothing.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, slots: Box::new([Slot::default(); SLOTS]) }
    }

    /// Counts an error to an address. Returns false if it must not be sent.
    #[cold]
    pub(super) fn admits(&mut self, address: IpAddr, Now(second): Now) -> bool {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let hash = mix(mix(self.seed ^ (bits >> 64) as u64) ^ bits as u64);
        let slot = &mut self.slots[hash as usize % SLOTS];
        // Any other second begins anew, so a clock that was set back stops nothing.
        if slot.second != second as u32 {
            *slot = Slot { second: second as u32, sent: 0 };
        }
        if slot.sent == ERRORS_PER_SECOND {
            return false;
        }
        slot.sent += 1;
        true
    }
}
