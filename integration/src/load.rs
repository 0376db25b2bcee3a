//! Continuous queries while something else happens; each answer is checked.
//!
//! A closed loop over many sockets: each has one query in flight, so the load adapts to the machine and no query is lost for lack
//! of buffers. This measures nothing; it finds lost and wrong answers.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use fairway_model::Rtype;
use socket2::{Domain, Socket, Type};

use crate::{
    message::Message,
    query::Query,
    real::{ask, wait_until},
};

/// Response code and addresses of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reply {
    /// Response code.
    pub rcode: u16,
    /// Addresses of the answer section.
    pub addresses: BTreeSet<IpAddr>,
}

impl Reply {
    /// Reads a response; `None` if the message is invalid.
    pub fn read(octets: &[u8]) -> Option<Self> {
        let message = Message::decode(octets).ok()?;
        let address = |rdata: &[u8]| match *rdata {
            [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
            _ => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        };
        let addresses = message.sections[0].iter().filter(|record| matches!(record.rtype, Rtype::A | Rtype::AAAA));
        Some(Self { rcode: message.rcode(), addresses: addresses.filter_map(|r| address(&r.rdata)).collect() })
    }

    /// True if the answer has exactly these addresses, and no error.
    pub fn is(&self, addresses: &[&str]) -> bool {
        self.rcode == 0 && self.addresses == addresses.iter().map(|text| text.parse().expect("an address")).collect()
    }
}

/// Returns a query for the A records of a name.
pub fn query(name: &str, id: u16) -> Vec<u8> {
    Query { id, ..Query::new(name.parse().expect("a domain name"), Rtype::A) }.encode()
}

/// Queries the A records of a name once over UDP; `None` if no valid answer arrives within a second.
pub fn resolve(server: SocketAddr, name: &str) -> Option<Reply> {
    Reply::read(&ask(server, &query(name, 0x4d5a))?)
}

/// Waits until a name is answered with exactly these addresses.
pub fn wait_answer(server: SocketAddr, name: &str, addresses: &[&str], limit: Duration) {
    let what = format!("{name} is answered with {addresses:?}");
    wait_until(&what, limit, || resolve(server, name).is_some_and(|reply| reply.is(addresses)));
}

/// Result of a load.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Queries sent.
    pub asked: u64,
    /// Queries without an answer within five seconds.
    pub lost: u64,
    /// The first ten wrong answers.
    pub wrong: Vec<String>,
}

impl Tally {
    /// Fails unless there were at least `queries` queries, each with a correct answer.
    pub fn expect_whole(&self, asked_min: u64) {
        assert!(self.asked >= asked_min, "only {} queries were asked", self.asked);
        assert_eq!(self.lost, 0, "{} of {} queries were lost", self.lost, self.asked);
        assert!(self.wrong.is_empty(), "wrong answers: {:?}", self.wrong);
    }
}

/// A thread that sends queries until it is stopped or dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: Option<JoinHandle<Tally>>,
}

impl Load {
    /// Queries `name` at `server` from `sockets` sockets; `right` checks each answer.
    pub fn start(
        server: SocketAddr,
        sockets: usize,
        name: &str,
        right: impl Fn(&Reply) -> bool + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicU64::new(0));
        let sockets: Vec<_> = (0..sockets).map(|_| connect(server)).collect();
        let (name, ending, counter) = (name.to_owned(), Arc::clone(&stop), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let mut tally = Tally::default();
            let mut id = 0;
            while !ending.load(Ordering::Relaxed) {
                round(&sockets, &name, &mut id, &right, &mut tally);
                counter.store(tally.asked, Ordering::Relaxed);
                // Leaves the CPU to the server; no answer depends on it.
                std::thread::park_timeout(Duration::from_millis(1));
            }
            tally
        });
        Self { stop, asked, thread: Some(thread) }
    }

    /// Waits for this many further answers.
    pub fn wait_for(&self, further: u64) {
        let goal = self.asked.load(Ordering::Relaxed) + further;
        let what = format!("{further} further queries");
        wait_until(&what, Duration::from_secs(60), || self.asked.load(Ordering::Relaxed) >= goal);
    }

    /// Stops the load and returns its result.
    pub fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it is taken only here").join().expect("the load does not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns a socket with its own port that receives only from the server.
pub fn connect(server: SocketAddr) -> UdpSocket {
    connect_from([127, 0, 0, 1].into(), server)
}

/// Connects a UDP socket with this source address, with a timeout for answers of five seconds.
pub fn connect_from(source: IpAddr, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((source, 0)).expect("loopback has the address");
    socket.connect(server).expect("loopback has a route");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
    socket
}

/// Queries a steered name over TCP from an address of loopback. That proves to the server that this source receives its answers.
pub fn prove_source(server: SocketAddr, source: IpAddr, name: &str) {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(source, 0).into()).expect("loopback has the address");
    socket.connect(&server.into()).expect("the server listens for TCP");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
    let packet = query(name, 1);
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), &packet[..]].concat()).expect("it reads");
    stream.read_exact(&mut [0; 2]).expect("it answers");
}

/// Sends one query from each socket, then receives one answer on each.
fn round(sockets: &[UdpSocket], name: &str, id: &mut u16, right: &impl Fn(&Reply) -> bool, tally: &mut Tally) {
    let mut sent = Vec::with_capacity(sockets.len());
    for socket in sockets {
        *id = id.wrapping_add(1);
        tally.asked += 1;
        sent.push(socket.send(&query(name, *id)).is_ok().then_some(*id));
    }
    for (socket, id) in sockets.iter().zip(sent) {
        let Some(octets) = id.and_then(|id| receive(socket, id)) else {
            tally.lost += 1;
            continue;
        };
        let reply = Reply::read(&octets);
        if !reply.as_ref().is_some_and(right) && tally.wrong.len() < 10 {
            tally.wrong.push(format!("{reply:?}"));
        }
    }
}

/// Receives the answer with this id; skips answers to queries that were given up.
pub fn receive(socket: &UdpSocket, id: u16) -> Option<Vec<u8>> {
    let mut octets = vec![0; 4_096];
    loop {
        let length = socket.recv(&mut octets).ok()?;
        if octets.get(..2) == Some(&id.to_be_bytes()[..]) {
            octets.truncate(length);
            return Some(octets);
        }
    }
}
