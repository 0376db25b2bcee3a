//! Shared parts of the measuring programs: clocks, batches of datagrams, a histogram, the query file.
//!
//! Nothing here is shipped. System calls are in `sys`, the only file of this crate with `unsafe`.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
};

pub mod answers;
mod histogram;
mod queries;
mod sys;

pub use histogram::Histogram;
pub use queries::{Queries, QueryForm};
pub use sys::{Batch, SEND_MAX, Segments, cpu_ns_of, monotonic_ns, process_cpu_ns, send_each};

/// Returns a distinct loopback address for each number. None of them is in 127.0.1.0/24, which the shared targets use.
pub fn own_address(number: u64) -> Ipv4Addr {
    let [.., a, b, c] = (number + 1).to_be_bytes();
    Ipv4Addr::new(127, 2 + (a & 127), b, c)
}

/// Returns a distinct loopback address for each number, with one of 20,000 ports. The ports are below the kernel's ephemeral range.
pub fn distinct_target(number: u64) -> SocketAddrV4 {
    SocketAddrV4::new(own_address(number), 10_000 + (number % 20_000) as u16)
}

/// Adds an OPT record with payload size 1,232 to a query (RFC 6891).
pub fn add_edns(packet: &mut Vec<u8>) {
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
}

/// Adds an OPT record with the client subnet A.B.C.0/24 to a query (RFC 7871).
pub fn add_subnet(packet: &mut Vec<u8>, [a, b, c]: [u8; 3]) {
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, a, b, c]);
}

/// Adds an OPT record with a cookie to a query (RFC 7873): the client's eight octets, then the server's, if it is known.
pub fn add_cookie(packet: &mut Vec<u8>, cookie: &[u8]) {
    add_edns(packet);
    let end = packet.len();
    packet[end - 1] = cookie.len() as u8 + 4;
    packet.extend_from_slice(&[0, 10, 0, cookie.len() as u8]);
    packet.extend_from_slice(cookie);
}

/// Asks the server of a connected socket for a cookie. Returns the client's part and the server's; one that is not valid if it sends none.
pub fn ask_for_cookie(socket: &UdpSocket) -> io::Result<Vec<u8>> {
    const CLIENT: [u8; 8] = *b"fairway\0";
    let mut query = question("cookie.bench.test", 1);
    add_cookie(&mut query, &CLIENT);
    socket.send(&query)?;
    let mut reply = [0; 1232];
    let len = socket.recv(&mut reply)?;
    let option = [&[0, 10, 0, 24][..], &CLIENT].concat();
    let at = reply[..len].windows(option.len()).position(|window| window == option);
    let cookie = at.and_then(|at| reply.get(at + 4..at + 28)).map(<[u8]>::to_vec);
    Ok(cookie.unwrap_or_else(|| [CLIENT.as_slice(), &[0; 16]].concat()))
}

/// Returns a query in wire form: ID 0, one question, class IN, no EDNS.
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
