//! Clients that ask at a steady rate, with a valid cookie and over TCP, while others attack the server. Prints one JSON object.
//!
//! They wait for each response and never poll, so that they take little of the core that the attack is sent from.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use fairway_bench::{Histogram, add_cookie, add_edns, ask_for_cookie, question};

/// Asks with a cookie and over TCP, and reports the share of whole answers.
#[derive(Parser)]
struct Options {
    /// Address of the server.
    #[arg(long)]
    server: SocketAddr,
    /// Name of the query. Its answer has at least one record.
    #[arg(long)]
    name: String,
    /// Type of the query, as a number.
    #[arg(long, default_value_t = 1)]
    rtype: u16,
    /// Queries per second with a cookie.
    #[arg(long, default_value_t = 500.0)]
    cookie_rate: f64,
    /// Queries per second over TCP, each on a new connection.
    #[arg(long, default_value_t = 100.0)]
    tcp_rate: f64,
    /// Seconds.
    #[arg(long, default_value_t = 5.0)]
    dur: f64,
}

/// Clients of each kind. One that waits for a lost answer does not delay the others.
const CLIENTS: usize = 10;
/// A query without a response for so long is lost; for TCP, a connection too. SYNs are sent again after 1 s.
const UDP_TIMEOUT: Duration = Duration::from_millis(500);
const TCP_TIMEOUT: Duration = Duration::from_secs(5);
/// Tries to get the first cookie, before the measurement.
const COOKIE_TRIES: usize = 100;

/// Results of one client.
#[derive(Default)]
struct Count {
    asked: u64,
    answered_ns: Vec<u64>,
}

fn main() {
    let options = Options::parse();
    let [with_cookie, over_tcp] = thread::scope(|scope| {
        let udp: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| ask_with_cookie(&options))).collect();
        let tcp: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| ask_over_tcp(&options))).collect();
        [udp, tcp].map(|clients| clients.into_iter().map(|client| client.join().expect("a client ends")).collect())
    });
    println!("{}", serde_json::json!({ "cookie": report(with_cookie), "tcp": report(over_tcp) }));
}

fn report(counts: Vec<Count>) -> serde_json::Value {
    let asked: u64 = counts.iter().map(|count| count.asked).sum();
    let mut histogram = Histogram::default();
    let times: Vec<u64> = counts.into_iter().flat_map(|count| count.answered_ns).collect();
    times.iter().for_each(|ns| histogram.add(*ns));
    let us = |quantile| histogram.quantile(quantile) as f64 / 1e3;
    serde_json::json!({ "asked": asked, "answered": times.len(), "p50_us": us(0.5), "p99_us": us(0.99) })
}

/// Sends queries at a steady rate. A query that is not answered whole is lost.
fn steadily(options: &Options, rate: f64, mut ask: impl FnMut(u16) -> io::Result<bool>) -> Count {
    let (begun, mut count) = (Instant::now(), Count::default());
    let period = Duration::from_secs_f64(CLIENTS as f64 / rate);
    let mut next = begun;
    while begun.elapsed().as_secs_f64() < options.dur {
        while let Some(rest) = next.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            thread::park_timeout(rest);
        }
        let asked = Instant::now();
        next = asked + period;
        count.asked += 1;
        if ask(count.asked as u16).unwrap_or(false) {
            count.answered_ns.push(asked.elapsed().as_nanos() as u64);
        }
    }
    count
}

fn ask_with_cookie(options: &Options) -> Count {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
    socket.connect(options.server).expect("a route to the server");
    socket.set_read_timeout(Some(UDP_TIMEOUT)).expect("a socket takes a timeout");
    let cookie = (0..COOKIE_TRIES).find_map(|_| ask_for_cookie(&socket).ok()).expect("the server gives a cookie");
    let mut query = question(&options.name, options.rtype);
    add_cookie(&mut query, &cookie);
    let mut response = [0; 4096];
    steadily(options, options.cookie_rate, |id| {
        query[..2].copy_from_slice(&id.to_be_bytes());
        socket.send(&query)?;
        loop {
            let length = socket.recv(&mut response)?;
            // A late response to an earlier query, which counts as lost, is skipped.
            if response[..2] == query[..2] {
                return Ok(is_whole(&response[..length]));
            }
        }
    })
}

fn ask_over_tcp(options: &Options) -> Count {
    let mut query = question(&options.name, options.rtype);
    add_edns(&mut query);
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    steadily(options, options.tcp_rate, |_| {
        let mut stream = TcpStream::connect_timeout(&options.server, TCP_TIMEOUT)?;
        stream.set_read_timeout(Some(TCP_TIMEOUT))?;
        stream.write_all(&framed)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut response = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut response)?;
        Ok(is_whole(&response))
    })
}

/// True for NOERROR with at least one record and without TC.
fn is_whole(response: &[u8]) -> bool {
    response.first_chunk::<12>().is_some_and(|head| head[2] & 2 == 0 && head[3] & 15 == 0 && head[6..8] != [0, 0])
}
