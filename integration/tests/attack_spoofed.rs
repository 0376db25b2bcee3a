//! A flood with forged sources on the real binary with `rateLimit: {}`: the victim's network gets less than was sent in its name, and
//! real clients of the same network are answered over TCP and with a cookie.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use fairway_integration::{
    message::Message,
    query::{COOKIE, Opt, Query},
    real::{Fairway, wait_until},
};
use fairway_model::Rtype;

/// Longest wait for an event that must come.
const LIMIT: Duration = Duration::from_secs(30);
/// Forged sources, in one /24.
const SOURCES: u8 = 200;
/// Queries of each source.
const ROUNDS: u16 = 100;

/// A zone whose TXT answer has some 1,000 octets.
fn config(further: &str) -> String {
    let text = format!("\"{}\" ", "x".repeat(240)).repeat(4);
    format!(
        "zones: [{{ name: example.test, ns: [ns1.example.net] }}]\n\
         records: [{{ name: big.example.test, sets: [{{ type: TXT, ttl: 60s, data: ['{}'] }}] }}]\n{further}",
        text.trim_end()
    )
}

fn query(id: u16, cookie: Option<&[u8]>) -> Vec<u8> {
    let options = cookie.map(|cookie| (COOKIE, cookie.to_vec())).into_iter().collect();
    let edns = Some(Opt { size: 1232, options, ..Opt::default() });
    Query { id, edns, ..Query::new("big.example.test".parse().expect("a name"), Rtype::TXT) }.encode()
}

/// Returns a socket at an address of the victim's network, 127.66.0.0/24.
fn socket(last: u8, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::new(127, 66, 0, last)), 0)).expect("loopback has the address");
    socket.connect(to).expect("a route");
    socket
}

/// Octets sent in the name of others, and octets that they get.
#[derive(Default)]
struct Flood {
    asked: usize,
    got: usize,
}

impl Flood {
    /// Sends a query from each source, and receives what has arrived.
    fn round(&mut self, sources: &[UdpSocket], number: u16) {
        let query = query(number, None);
        for source in sources {
            self.asked += source.send(&query).expect("the query is sent");
        }
        self.receive(sources);
    }

    fn receive(&mut self, sources: &[UdpSocket]) {
        let mut buffer = [0; 2048];
        for source in sources {
            while let Ok(length) = source.recv(&mut buffer) {
                self.got += length;
            }
        }
    }
}

fn sources(to: SocketAddr) -> Vec<UdpSocket> {
    let sources: Vec<_> = (1..=SOURCES).map(|last| socket(last, to)).collect();
    sources.iter().for_each(|source| source.set_nonblocking(true).expect("a socket can be non-blocking"));
    sources
}

/// A client in the victim's network that sends a cookie.
struct CookieHolder {
    socket: UdpSocket,
    cookie: Vec<u8>,
}

impl CookieHolder {
    fn new(to: SocketAddr) -> Self {
        let socket = socket(250, to);
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket takes a timeout");
        Self { socket, cookie: b"\x01\x02\x03\x04\x05\x06\x07\x08".to_vec() }
    }

    /// Asks, and keeps the cookie of the response. True if the response is whole.
    fn ask(&mut self, id: u16) -> bool {
        self.socket.send(&query(id, Some(&self.cookie))).expect("the query is sent");
        let mut buffer = [0; 2048];
        let Ok(length) = self.socket.recv(&mut buffer) else { return false };
        let response = Message::decode(&buffer[..length]).expect("a sound message");
        self.cookie = response.option(COOKIE).expect("a cookie").to_vec();
        response.sections[0].len() == 1
    }
}

/// Asks over TCP. True if the response is whole.
fn ask_over_tcp(stream: &mut TcpStream, id: u16) -> bool {
    let query = query(id, None);
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    let mut length = [0; 2];
    let exchanged = stream.write_all(&framed).and_then(|()| stream.read_exact(&mut length));
    let mut response = vec![0; u16::from_be_bytes(length).into()];
    let response = exchanged.and_then(|()| stream.read_exact(&mut response)).map(|()| response);
    response.is_ok_and(|response| Message::decode(&response).expect("a sound message").sections[0].len() == 1)
}

#[test]
fn victim_gets_less_than_was_sent_and_real_clients_are_answered() {
    let server = Fairway::start(&config("rateLimit: {}\n"), &[]);
    let (sources, mut flood) = (sources(server.dns), Flood::default());
    let mut holder = CookieHolder::new(server.dns);
    let mut stream = TcpStream::connect(server.dns).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket takes a timeout");
    assert!(holder.ask(0), "the first answer, with a cookie");
    let (mut by_cookie, mut by_tcp) = (0, 0);
    for round in 1..=ROUNDS {
        flood.round(&sources, round);
        by_cookie += u32::from(holder.ask(round));
        by_tcp += u32::from(ask_over_tcp(&mut stream, round));
    }
    let sent = f64::from(ROUNDS) * f64::from(SOURCES);
    wait_until("every query is counted", LIMIT, || {
        let whole = server.metric("fairway_queries_total", "\"udp\"");
        whole >= sent + f64::from(ROUNDS) + 1.0
    });
    flood.receive(&sources);
    let ratio = flood.got as f64 / flood.asked as f64;
    println!("octets: {} asked, {} got, ratio {ratio:.2}", flood.asked, flood.got);
    assert!(ratio <= 1.2, "{ratio}");
    let enough = u32::from(ROUNDS) * 99 / 100;
    assert!(by_cookie >= enough && by_tcp >= enough, "{by_cookie} with a cookie and {by_tcp} over TCP of {ROUNDS}");
    // A network that was not named in the flood notices nothing.
    let other = UdpSocket::bind("127.67.0.1:0").and_then(|other| other.connect(server.dns).map(|()| other));
    let mut other = CookieHolder { socket: other.expect("loopback has the address"), ..holder };
    other.cookie.truncate(8);
    other.socket.set_read_timeout(Some(LIMIT)).expect("a socket takes a timeout");
    assert!(other.ask(7));

    let limited = server.metric("fairway_responses_limited_total", "");
    assert!(limited >= sent * 0.9, "{limited} of {sent}");
    let dropped = server.metric("fairway_queries_dropped_total", "\"rate_limit\"");
    assert_eq!(dropped, server.metric("fairway_responses_limited_total", "\"drop\""));
    assert!(server.metric("fairway_rate_limit_exempt_total", "\"cookie\"") >= f64::from(enough));
    wait_until("the log names the network", LIMIT, || server.process.output().contains("responses rate limited"));
    let log = server.process.output();
    assert!(log.contains("127.66.0.0/24") && log.matches("responses rate limited").count() == 1, "{log}");
}

/// Asks over UDP without a cookie, like a resolver several times: the query may find the queue of the socket full. True if the response is
/// whole.
fn ask_plainly(client: &UdpSocket, id: u16) -> bool {
    client.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket takes a timeout");
    let mut buffer = [0; 2048];
    for _ in 0..10 {
        client.send(&query(id, None)).expect("the query is sent");
        while let Ok(length) = client.recv(&mut buffer) {
            if buffer[..2] == id.to_be_bytes() {
                return Message::decode(&buffer[..length]).expect("a sound message").sections[0].len() == 1;
            }
        }
    }
    panic!("no response is dropped, since the network is within its limits")
}

#[test]
fn flood_from_many_networks_truncates_a_resolver_until_it_came_over_tcp() {
    let server = Fairway::start(&config("rateLimit: { excessBytesPerSecond: 2000 }\n"), &[]);
    let of_network = |network: u8| {
        let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::new(127, 70, network, 1)), 0)).expect("loopback has it");
        socket.set_nonblocking(true).and_then(|()| socket.connect(server.dns)).expect("a route");
        socket
    };
    let (sources, mut flood) = ((1..=SOURCES).map(of_network).collect::<Vec<_>>(), Flood::default());
    let client = |address: &str| {
        let client = UdpSocket::bind((address, 0)).expect("loopback has the address");
        client.connect(server.dns).map(|()| client).expect("a route")
    };
    let (resolver, other) = (client("127.0.0.1"), client("127.67.0.1"));
    let mut round = 0;
    wait_until("a truncated answer to the resolver", LIMIT, || {
        round += 1;
        flood.round(&sources, round);
        !ask_plainly(&resolver, round)
    });
    let mut stream = TcpStream::connect(server.dns).expect("it listens, and the client is 127.0.0.1");
    assert!(ask_over_tcp(&mut stream, 0));
    let mut truncated = 0;
    for round in 0..20 {
        flood.round(&sources, round);
        truncated += u32::from(!ask_plainly(&other, round));
        assert!(ask_plainly(&resolver, round), "round {round}");
    }
    assert!(truncated > 0, "the flood uses the limit up");
}

#[test]
fn limit_follows_a_reload() {
    let server = Fairway::start(&config(""), &[]);
    let sources = sources(server.dns);
    let whole = |flood: &Flood| flood.got > 5 * flood.asked;
    let mut flood = Flood::default();
    flood.round(&sources, 1);
    wait_until("whole answers without a limit", LIMIT, || {
        flood.receive(&sources);
        whole(&flood)
    });
    server.write_config(&config("rateLimit: { responsesPerSecond: 1, slip: 0, allowlist: [127.67.0.0/24] }\n"));
    wait_until("the limit", LIMIT, || {
        Flood::default().round(&sources, 2);
        server.metric("fairway_responses_limited_total", "\"drop\"") > 0.0
    });
    server.write_config(&config(""));
    wait_until("no limit", LIMIT, || {
        let mut flood = Flood::default();
        flood.round(&sources, 3);
        whole(&flood)
    });
}
