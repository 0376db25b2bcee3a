//! Waits until a server answers a name with an address. Prints the milliseconds since `--since`, and the longest time without an answer
//! after the first one.

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
    /// Prints the time for `--since`, and ends.
    #[arg(long)]
    clock: bool,
    /// Address of the server.
    #[arg(long, default_value = "127.0.0.1:5300")]
    server: SocketAddr,
    /// Name to query.
    #[arg(long, default_value = "n0000001.bench.test")]
    name: String,
    /// Expected address; default any.
    #[arg(long)]
    addr: Option<Ipv4Addr>,
    /// Start of the measured time, in nanoseconds of CLOCK_MONOTONIC; default now.
    #[arg(long)]
    since: Option<u64>,
    /// Seconds until it gives up.
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
            let is_expected = |w: &[u8]| w[..2] == [0, 4] && options.addr.is_none_or(|a| w[2..] == a.octets());
            if reply[3] & 15 == 0 && reply[question_len..].windows(6).any(is_expected) {
                println!("{:.2} {:.2}", (now - start) as f64 / 1e6, gap as f64 / 1e6);
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    println!("timeout {:.2}", gap as f64 / 1e6);
    Ok(ExitCode::FAILURE)
}

/// Sends a query, and waits 20 ms for the answer. Uses a new socket each time, since a refused connection leaves an error on the socket.
fn ask(server: SocketAddr, packet: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    socket.connect(server)?;
    let _ = socket.send(packet);
    let mut reply = vec![0; 4096];
    match socket.recv(&mut reply) {
        Ok(len) if len >= packet.len() && reply[..2] == packet[..2] => Ok(Some(reply[..len].to_vec())),
        _ => {
            // The query is refused at once while the server does not listen. So there is a pause before the next try.
            std::thread::park_timeout(Duration::from_millis(1));
            Ok(None)
        }
    }
}
