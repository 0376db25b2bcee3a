//! Clients that stand for all others where the effect of a change is estimated.

use std::net::Ipv4Addr;

use fairway_model::SplitMix;
use fairway_zones::Draw;

/// Addresses that stand for all client networks: evenly over IPv4 as far as clients come from there, each with a draw for
/// pools that draw.
pub fn samples(count: usize) -> impl Iterator<Item = (Ipv4Addr, Draw)> {
    let step = (u64::from(LAST) - u64::from(FIRST)) / count.max(1) as u64;
    (0..count as u64).map(move |n| {
        // A place within the step that has no pattern in common with networks.
        let draw = SplitMix::new(n).bits();
        let address = u64::from(FIRST) + n * step + (draw >> 16) % step.max(1);
        (Ipv4Addr::from(address as u32), Draw(draw))
    })
}

/// The unicast addresses, 1.0.0.0 to 223.255.255.255.
const FIRST: u32 = 0x0100_0000;
const LAST: u32 = 0xe000_0000;
