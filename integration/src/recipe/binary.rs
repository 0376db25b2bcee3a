//! Plays recipes on the real binary: over loopback, with a listener for each cluster that its monitor connects to.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use fairway_model::Rtype;
use fairway_zones::Transport;

use super::{Recipe, Stage, State};
use crate::{message::Header, query::Query, real::Fairway};

/// Timeout of an answer: far more than it takes on a busy machine.
const REPLY_MAX: Duration = Duration::from_secs(5);

/// Interval between two checks of answers that a health transition should change.
const PAUSE: Duration = Duration::from_millis(20);

/// A running server with a recipe's configuration, and its probe targets.
pub struct Binary {
    server: Fairway,
    /// By cluster: its port, and the listener while it is up.
    gateways: BTreeMap<String, (u16, Option<TcpListener>)>,
    /// A query that is always answered. An answer before its own belongs to the query before it.
    sentinel: Vec<u8>,
    /// Last octet of the address that asked last. A single address would exceed the limit of error responses.
    sender: u8,
}

impl Binary {
    /// Starts the server; every cluster is up.
    pub fn start(recipe: &Recipe) -> Result<Self, String> {
        let mut gateways = BTreeMap::new();
        for cluster in recipe.probed_clusters() {
            let listener = listen(0).map_err(|e| format!("a listener for {cluster}: {e}"))?;
            let port = listener.local_addr().map_err(|e| e.to_string())?.port();
            gateways.insert(cluster, (port, Some(listener)));
        }
        let config = recipe.config_with(|cluster| format!("127.0.0.1:{}", gateways[cluster].0));
        let files = recipe.zone_files();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let server = Fairway::start(&config, &files);
        let (apex, _) = recipe.zones.first().ok_or("a recipe needs a zone")?;
        let sentinel = Query { id: 0x5e47, ..Query::new(apex.clone(), Rtype::SOA) }.encode();
        Ok(Self { server, gateways, sentinel, sender: 0 })
    }

    /// Closes the connections of probes, so that no backlog fills up.
    fn take_probes(&self) {
        let up = self.gateways.values().filter_map(|(_, listener)| listener.as_ref());
        up.for_each(|listener| while listener.accept().is_ok() {});
    }

    /// Sends one query over UDP. If it should get no answer, the sentinel follows from the same socket: both reach the
    /// same thread of the server, in order.
    fn over_udp(&self, octets: &[u8], from: SocketAddr, expect_reply: bool) -> io::Result<Option<Vec<u8>>> {
        let socket = UdpSocket::bind((from.ip(), 0))?;
        socket.connect(self.server.dns)?;
        socket.set_read_timeout(Some(REPLY_MAX))?;
        socket.send(octets)?;
        if !expect_reply {
            socket.send(&self.sentinel)?;
        }
        let mut reply = vec![0; 65_535];
        match socket.recv(&mut reply) {
            Ok(length) => reply.truncate(length),
            Err(error) if is_silence(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(reply).filter(|reply| expect_reply || !self.is_sentinel(reply)))
    }

    /// Sends one query over its own TCP connection. A connection that the server closes without an answer counts as no answer.
    fn over_tcp(&self, octets: &[u8], expect_reply: bool) -> io::Result<Option<Vec<u8>>> {
        let mut stream = TcpStream::connect_timeout(&self.server.dns, REPLY_MAX)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        let mut sent = framed(octets);
        if !expect_reply {
            sent.extend(framed(&self.sentinel));
        }
        match stream.write_all(&sent).and_then(|()| read_framed(&mut stream)) {
            Ok(reply) => Ok(Some(reply).filter(|reply| expect_reply || !self.is_sentinel(reply))),
            Err(error) if is_silence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_sentinel(&self, reply: &[u8]) -> bool {
        Header::read(reply).map(|h| h.id) == Header::read(&self.sentinel).map(|h| h.id)
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn framed(octets: &[u8]) -> Vec<u8> {
    let length = u16::try_from(octets.len()).expect("recipes stay under 65536 octets");
    [&length.to_be_bytes()[..], octets].concat()
}

fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

/// True for a timeout or a closed connection.
fn is_silence(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | UnexpectedEof | ConnectionReset | BrokenPipe)
}

impl Stage for Binary {
    fn exchange(
        &mut self,
        octets: &[u8],
        transport: Transport,
        from: Option<SocketAddr>,
        expect_reply: bool,
    ) -> Result<Option<Vec<u8>>, String> {
        self.take_probes();
        self.sender = self.sender % 254 + 1;
        let from = from.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, self.sender], 0)));
        let outcome = match transport {
            Transport::Udp => self.over_udp(octets, from, expect_reply),
            // std cannot choose the source address of a connection: `can_ask_from` excludes such steps.
            Transport::Tcp => self.over_tcp(octets, expect_reply),
        };
        outcome.map_err(|error| format!("{transport:?}: {error}"))
    }

    fn set_health(&mut self, cluster: &str, state: State) -> Result<bool, String> {
        let gateway = self.gateways.get_mut(cluster);
        let (port, listener) = gateway.ok_or_else(|| format!("no member is probed at \"{{{cluster}}}\""))?;
        match state {
            State::Up if listener.is_none() => {
                let end = Instant::now() + REPLY_MAX;
                *listener = loop {
                    match listen(*port) {
                        Ok(bound) => break Some(bound),
                        Err(error) if Instant::now() >= end => return Err(format!("port {port}: {error}")),
                        Err(_) => std::thread::park_timeout(PAUSE),
                    }
                };
            }
            State::Up => {}
            State::Down => *listener = None,
            // States that probes cannot cause are played on the code in this process.
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn can_ask_from(&self, from: SocketAddr, transport: Transport) -> bool {
        let loopback = matches!(from.ip(), IpAddr::V4(address) if address.is_loopback());
        loopback && from.port() != 0 && transport == Transport::Udp
    }

    fn pause(&mut self) -> bool {
        self.take_probes();
        std::thread::park_timeout(PAUSE);
        true
    }
}
