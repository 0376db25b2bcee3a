//! Waits until a server answers a name with an address; prints the milliseconds since `--since`, and the longest time
//! without any answer after the first one.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use fairway_bench::{monotonic_ns, question};

/// Waits for an answer.
#[derive(Parser)]
struct Options {
    /// Prints the clock, for `--since`, and ends.
    #[arg(long)]
    clock: bool,
    /// Server to ask.
    #[arg(long, default_value = "127.0.0.1:5300")]
    server: SocketAddr,
    /// Name to ask for.
    #[arg(long, default_value = "n0000001.bench.test")]
    name: String,
    /// Address the answer must hold; none for any A record.
    #[arg(long)]
    addr: Option<Ipv4Addr>,
    /// Nanoseconds of CLOCK_MONOTONIC to count from; default now.
    #[arg(long)]
    since: Option<u64>,
    /// Gives up after so many seconds.
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
}

fn main() -> io::Result<ExitCode> {
    let options = Options::parse();
    if options.clock {
        println!("{}", monotonic_ns());
        return Ok(ExitCode::SUCCESS);
    }
    let start = options.since.unwrap_or_else(monotonic_ns);
    let mut packet = question(&options.name, 1);
    let question_len = packet.len();
    let (mut last, mut gap, mut id) = (None, 0, 0u16);
    while monotonic_ns() - start < (options.timeout * 1e9) as u64 {
        id = id.wrapping_add(1);
        packet[..2].copy_from_slice(&id.to_be_bytes());
        if let Some(reply) = ask(options.server, &packet)? {
            let now = monotonic_ns();
            gap = last.map_or(0, |l| now - l).max(gap);
            last = Some(now);
            let is_it = |w: &[u8]| w[..2] == [0, 4] && options.addr.is_none_or(|a| w[2..] == a.octets());
            if reply[3] & 15 == 0 && reply[question_len..].windows(6).any(is_it) {
                println!("{:.2} {:.2}", (now - start) as f64 / 1e6, gap as f64 / 1e6);
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    println!("timeout {:.2}", gap as f64 / 1e6);
    Ok(ExitCode::FAILURE)
}

/// One question, one answer to it or none within 20 ms. A socket of its own, since a refused one stays in error.
fn ask(server: SocketAddr, packet: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    socket.connect(server)?;
    let _ = socket.send(packet);
    let mut reply = vec![0; 4096];
    match socket.recv(&mut reply) {
        Ok(len) if len >= packet.len() && reply[..2] == packet[..2] => Ok(Some(reply[..len].to_vec())),
        _ => {
            // Refused at once, as long as nobody listens: a millisecond until the next try.
            std::thread::park_timeout(Duration::from_millis(1));
            Ok(None)
        }
    }
}
