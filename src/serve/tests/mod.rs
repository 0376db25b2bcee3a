//! Transports on loopback, with a responder whose answers show which query they belong to.

mod bind;
mod udp;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use fairway_zones::{Client, Draw, Now, Outcome, Tally};

use super::{Responder, Server, Sockets};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers every packet by itself with the QR bit set; `DROP` after the header is not answered, and a number after `FILL`
/// makes the answer so many octets long.
#[derive(Debug)]
struct Echo;

impl Responder for Echo {
    type View = ();

    fn view(&mut self) -> &() {
        &()
    }

    fn respond(_: &(), _: &Client, packet: &[u8], _: Now, _: Draw, _: &Tally, out: &mut [u8]) -> Outcome {
        let text = packet.get(12..).unwrap_or_default();
        assert!(text != b"PANIC", "a panic that the test asked for");
        if text == b"DROP" || packet.len() < 12 {
            return Outcome::Drop;
        }
        let fill = text.strip_prefix(b"FILL").and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
        let length = fill.unwrap_or(packet.len()).min(out.len());
        out[..length].fill(b'.');
        let copied = packet.len().min(length);
        out[..copied].copy_from_slice(&packet[..copied]);
        out[2] |= 0x80;
        Outcome::Reply(length)
    }
}

/// A packet with a number for an ID and text behind the header.
fn packet(id: u16, text: &str) -> Vec<u8> {
    let mut packet = vec![0; 12];
    packet[..2].copy_from_slice(&id.to_be_bytes());
    packet.extend_from_slice(text.as_bytes());
    packet
}

/// The ID of an answer.
fn id(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[0], packet[1]])
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A server that echoes, on one address.
fn echo_on(text: &str, workers: usize) -> (Server, SocketAddr) {
    let sockets = Sockets::bind(&[address(text)], workers).unwrap();
    let bound = sockets.addresses()[0];
    (Server::start_with(sockets, || Echo).unwrap(), bound)
}

/// A UDP client with a receive timeout.
fn client(text: &str) -> UdpSocket {
    let socket = UdpSocket::bind(text).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Waits until a condition holds; counters are written after the answer has left.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "did not come: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
