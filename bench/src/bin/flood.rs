//! Sends DNS queries with forged sources through a raw socket, at a rate or as fast as it can, and prints one JSON object.
//!
//! It receives nothing: the phase `flood` runs it in a network namespace of its own, so that no packet leaves the machine.

use std::{
    io,
    net::SocketAddrV4,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use fairway_bench::{SEND_MAX, add_edns, question, send_each};
use fairway_model::{SplitMix, mix};
use socket2::{Domain, Protocol, Socket, Type};

/// Sends queries with forged sources.
#[derive(Parser)]
struct Options {
    /// Address of the server.
    #[arg(long)]
    server: SocketAddrV4,
    /// Name of the query.
    #[arg(long)]
    name: String,
    /// Type of the query, as a number.
    #[arg(long, default_value_t = 1)]
    rtype: u16,
    /// Queries per second; 0 for as many as possible.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Seconds.
    #[arg(long, default_value_t = 1.0)]
    dur: f64,
    /// Number of /24 networks that the sources lie in; 0 for 7.6 million.
    #[arg(long, default_value_t = 0)]
    networks: u64,
    /// Seed of the sources, ports and IDs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Octets of the headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// After a longer delay of the sender itself the schedule shifts: a burst would measure the receive buffer and not the rate.
const LATE_MAX: f64 = 0.002;

fn main() -> io::Result<()> {
    let options = Options::parse();
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
    socket.set_send_buffer_size(4 << 20)?;
    socket.connect(&options.server.into())?;
    let packet = packet(&options);
    let each = packet.len();
    let mut packets = packet.repeat(SEND_MAX);
    let mut random = SplitMix::new(options.seed);
    let (begun, mut base, mut sent, mut issued) = (Instant::now(), Instant::now(), 0, 0.0);
    while begun.elapsed().as_secs_f64() < options.dur {
        let mut due = base.elapsed().as_secs_f64() * options.rate - issued;
        if due > (options.rate * LATE_MAX).max(SEND_MAX as f64) {
            (base, issued, due) = (Instant::now(), 0.0, 1.0);
        }
        let count = if options.rate == 0.0 { SEND_MAX } else { (due as usize).min(SEND_MAX) };
        if count == 0 {
            thread::park_timeout(Duration::from_micros(20));
            continue;
        }
        issued += count as f64;
        let batch = &mut packets[..count * each];
        batch.chunks_exact_mut(each).for_each(|packet| forge(packet, random.bits(), options.networks, options.seed));
        // A full buffer of the interface is no error of the flood; the packets are lost.
        sent += send_each(socket.as_fd(), batch, each).unwrap_or(0);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{}", serde_json::json!({ "sent": sent, "seconds": seconds, "rate": sent as f64 / seconds }));
    Ok(())
}

/// Returns a packet with everything but source address, source port and ID. The kernel fills in length and checksum of the IPv4 header;
/// a UDP checksum of 0 means none (RFC 768).
fn packet(options: &Options) -> Vec<u8> {
    let mut query = question(&options.name, options.rtype);
    add_edns(&mut query);
    let length = (query.len() + 8) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0];
    packet.extend_from_slice(&options.server.ip().octets());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&options.server.port().to_be_bytes());
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    debug_assert_eq!(packet.len(), HEADERS, "the headers have no options");
    packet.extend_from_slice(&query);
    packet
}

/// Writes a source and an ID. The sources lie in 11.0.0.0 to 126.255.255.255, where this machine has no address.
fn forge(packet: &mut [u8], random: u64, networks: u64, seed: u64) {
    let [low, high @ ..] = random.to_be_bytes();
    let network = if networks == 0 { random } else { mix(seed.wrapping_add(random % networks)) };
    let [a, b, c, ..] = network.to_le_bytes();
    packet[12..16].copy_from_slice(&[11 + a % 116, b, c, low]);
    packet[20..22].copy_from_slice(&[high[0] | 0x80, high[1]]);
    packet[HEADERS..HEADERS + 2].copy_from_slice(&[high[2], high[3]]);
}
