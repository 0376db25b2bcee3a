//! Parts the measuring programs share: clocks, batches of datagrams, a histogram, the query file.
//!
//! Nothing here is shipped. System calls without a safe wrapper are in `sys`, the only file of this crate with `unsafe`.

mod histogram;
mod queries;
mod sys;

pub use histogram::Histogram;
pub use queries::{Queries, QueryForm};
pub use sys::{Batch, Segments, cpu_ns_of, monotonic_ns, pin_to, process_cpu_ns, ticks_of};

/// A question in wire form: ID 0, one question, class IN, no EDNS.
pub fn question(name: &str, rtype: u16) -> Vec<u8> {
    let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&rtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet
}
