//! Transports on loopback, with a responder that echoes queries.

mod activation;
mod bind;
mod error_limit;
mod handover;
mod landlock;
mod notify;
mod privileges;
mod tcp;
mod tcp_bounds;
mod udp;
mod units;
mod zones;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use fairway_zones::{Outcome, Request, Tally};

use super::{CloseReason, ComputeGuard, Responder, Server, Sockets, TcpSettings};

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(10);

/// Echoes every packet with the QR bit set. The text after the header can change that: `DROP` gets no answer, `SLOW` one after 10 ms,
/// `FILL` and a number one of that many octets, `ERROR` one that is an error, `PANIC` panics.
#[derive(Debug)]
struct Echo;

impl Responder for Echo {
    type State = ();
    type Query = ();

    fn serving(&mut self) -> &() {
        &()
    }

    fn read((): &(), _: &[u8], (): &mut ()) {}

    fn read_ahead((): &(), _: &mut [()]) {}

    fn find((): &(), _: &[u8], (): &mut ()) {}

    fn write((): &(), request: &Request<'_>, (): &(), _: &Tally, out: &mut [u8]) -> Outcome {
        let packet = request.packet;
        let text = packet.get(12..).unwrap_or_default();
        assert!(text != b"PANIC", "a panic that the test asked for");
        if text == b"DROP" || packet.len() < 12 {
            return Outcome::Drop;
        }
        if text == b"SLOW" {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let fill = text.strip_prefix(b"FILL").and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
        let length = fill.unwrap_or(packet.len()).min(out.len());
        out[..length].fill(b'.');
        let copied = packet.len().min(length);
        out[..copied].copy_from_slice(&packet[..copied]);
        out[2] |= 0x80;
        if text == b"ERROR" { Outcome::ErrorReply(length) } else { Outcome::Reply(length) }
    }
}

/// Runs one test again in a child process, with an environment variable set.
fn run_in_child_process(name: &str, variable: &str) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(variable, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{printed}");
    // A wrong name would run no test and succeed.
    assert!(printed.contains("1 passed"), "no test of the child ran under the name {name}: {printed}");
}

/// Returns a packet with an ID and a text after the header.
fn packet(id: u16, text: &str) -> Vec<u8> {
    let mut packet = vec![0; 12];
    packet[..2].copy_from_slice(&id.to_be_bytes());
    packet.extend_from_slice(text.as_bytes());
    packet
}

/// Returns the ID of a message.
fn id(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[0], packet[1]])
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Starts an echo server on one address.
fn echo_on(text: &str, workers: usize) -> (Server, SocketAddr) {
    let sockets = Sockets::bind(&[address(text)], workers).unwrap();
    let bound = sockets.addresses()[0];
    (Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap(), bound)
}

/// Returns a UDP client with a receive timeout.
fn client(text: &str) -> UdpSocket {
    let socket = UdpSocket::bind(text).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Waits until a condition holds. Counters are written after the answer was sent, so tests must wait for them.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "did not come: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Starts an echo server on 127.0.0.1 with the given TCP limits.
fn echo_with(tcp: TcpSettings) -> (Server, SocketAddr) {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let bound = sockets.addresses()[0];
    (Server::start_with(sockets, tcp, || Echo).unwrap(), bound)
}

/// Returns a TCP client with a receive timeout.
fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns a TCP client that connects from the given loopback address.
fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&address(from).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}

/// Returns a message with its length field.
fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// Reads the next message of a stream. Returns `None` if the stream ends or breaks.
fn next_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// Sends a query and returns the ID of the answer.
fn ask_stream(stream: &mut TcpStream, number: u16) -> Option<u16> {
    stream.write_all(&framed(&packet(number, "ask"))).ok()?;
    next_message(stream).map(|answer| id(&answer))
}

/// True if the server closes or resets the stream.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
