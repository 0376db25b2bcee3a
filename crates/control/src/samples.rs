//! Sampled clients, to estimate the effect of a change on all clients.

use std::net::Ipv4Addr;

use fairway_model::SplitMix;
use fairway_zones::Draw;

/// Returns addresses that represent all client networks, spread evenly over unicast IPv4, each with a random number for pools that draw.
pub fn samples(count: usize) -> impl Iterator<Item = (Ipv4Addr, Draw)> {
    let step = (u64::from(LAST) - u64::from(FIRST)) / count.max(1) as u64;
    (0..count as u64).map(move |n| {
        // Random, so that the address within its step has no pattern in common with networks.
        let draw = SplitMix::new(n).bits();
        let address = u64::from(FIRST) + n * step + (draw >> 16) % step.max(1);
        (Ipv4Addr::from(address as u32), Draw(draw))
    })
}

/// Unicast addresses are 1.0.0.0 to 223.255.255.255 (RFC 6890).
const FIRST: u32 = 0x0100_0000;
const LAST: u32 = 0xe000_0000;
