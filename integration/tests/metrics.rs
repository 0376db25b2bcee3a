//! `/metrics` of the real binary: sums of counters, the answers of each cluster, and a linter of the format.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use fairway_integration::{
    load::{connect, query, receive, resolve},
    query::Query,
    real::{Fairway, wait_until},
};
use fairway_model::Rtype;

/// Longest wait for an event that is immediate on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

const CONFIG: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]
clusters:
  - { name: eu1, addresses: [192.0.2.1] }
  - { name: us1, addresses: [192.0.2.2] }
monitors: [{ name: unchecked, type: always }]
pools:
  - { name: pay, policy: failover, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }
  - name: shop
    policy: weighted
    spread: query
    monitor: unchecked
    members: [{ cluster: eu1, weight: 70 }, { cluster: us1, weight: 30 }]
names: [{ name: pay.gslb.example, pool: pay }, { name: shop.gslb.example, pool: shop }]
";

/// Publishes into a zone file.
#[cfg(feature = "real")]
const PUBLISHED: &str = "publish:
  providers:
    - name: file
      zones: [pub.example]
      file: pub.zone
      aliases:
        - { name: shop.pub.example, of: shop.gslb.example, as: addresses }
";

/// Sends a query and receives the answer; the id distinguishes it from others.
fn exchange(server: SocketAddr, id: u16, packet: &[u8]) -> Vec<u8> {
    let socket = connect(server);
    socket.send(packet).expect("the server listens");
    receive(&socket, id).expect("an answer")
}

fn over_tcp(server: SocketAddr, packet: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
    let length = u16::try_from(packet.len()).expect("it is short").to_be_bytes();
    stream.write_all(&[&length, packet].concat()).expect("the server reads");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("an answer");
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply).expect("the rest of it");
    reply
}

/// Causes every kind of answer, and packets that get none. Returns the number of messages sent.
fn mix(server: SocketAddr) -> f64 {
    let mut sent = 0.0;
    let mut rcodes = Vec::new();
    let mut id = 0;
    let mut ask = |packet: &dyn Fn(u16) -> Vec<u8>| {
        id += 1;
        sent += 1.0;
        rcodes.push(exchange(server, id, &packet(id))[3] & 0xf);
    };
    for _ in 0..5 {
        ask(&|id| query("pay.gslb.example", id));
        ask(&|id| query("missing.gslb.example", id));
        ask(&|id| query("www.example.org", id));
        ask(&|id| query("gslb.example", id));
    }
    let name = || "pay.gslb.example".parse().expect("a domain name");
    // STATUS (opcode 2) is not implemented; an incomplete question is a format error.
    ask(&|id| Query { id, flags: 2 << 11, ..Query::new(name(), Rtype::A) }.encode());
    ask(&|id| Query { id, cut: Some(20), ..Query::new(name(), Rtype::A) }.encode());
    for rcode in [0, 1, 3, 4, 5] {
        assert!(rcodes.contains(&rcode), "rcode {rcode} is missing among {rcodes:?}");
    }
    over_tcp(server, &query("pay.gslb.example", 7));
    // A response and a packet without a whole header get no answer.
    let silent = UdpSocket::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let response = Query { flags: 0x8000, ..Query::new(name(), Rtype::A) }.encode();
    for packet in [&response[..], &[0; 11], &[]] {
        silent.send_to(packet, server).expect("the server listens");
    }
    sent + 1.0 + 3.0
}

#[test]
fn every_message_is_counted_once_as_response_or_drop() {
    let server = Fairway::start(CONFIG, &[]);
    let sent = mix(server.dns);
    wait_until("all messages are counted", LIMIT, || server.metric("fairway_queries_total", "") >= sent);
    assert_eq!(server.metric("fairway_queries_total", ""), sent);
    let (responses, dropped) =
        (server.metric("fairway_responses_total", ""), server.metric("fairway_queries_dropped_total", ""));
    assert_eq!(responses + dropped, sent, "{responses} responses, {dropped} dropped");
    let drops = |why: &str| server.metric("fairway_queries_dropped_total", why);
    assert_eq!(
        [drops("short"), drops("response"), drops("port_zero"), drops("service_port"), drops("no_room")],
        [2.0, 1.0, 0.0, 0.0, 0.0]
    );
    for (rcode, count) in [("NXDOMAIN", 5.0), ("REFUSED", 5.0), ("FORMERR", 1.0), ("NOTIMP", 1.0), ("NOERROR", 11.0)] {
        assert_eq!(server.metric("fairway_responses_total", &format!("\"{rcode}\"")), count, "{rcode}");
    }
    assert_eq!(server.metric("fairway_queries_total", "tcp"), 1.0);
    assert_eq!(server.metric("fairway_udp_received_total", ""), sent - 1.0);
    assert_eq!(server.metric("fairway_tcp_messages_total", ""), 1.0);
}

#[test]
fn answers_are_counted_by_pool_and_cluster() {
    let server = Fairway::start(CONFIG, &[]);
    let mut seen = [0.0; 2];
    for _ in 0..200 {
        let reply = resolve(server.dns, "shop.gslb.example").expect("an answer");
        let which = usize::from(reply.is(&["192.0.2.2"]));
        assert!(which == 1 || reply.is(&["192.0.2.1"]), "{reply:?}");
        seen[which] += 1.0;
    }
    resolve(server.dns, "pay.gslb.example").expect("an answer");
    let answers = |pool: &str, cluster: &str| {
        let rows = server.metrics();
        let row = rows.lines().find(|line| {
            let part = |word: String| line.contains(&word);
            line.starts_with("fairway_answers_total{")
                && part(format!("pool=\"{pool}\""))
                && part(format!("cluster=\"{cluster}\""))
        });
        row.and_then(|row| row.rsplit(' ').next()?.parse::<f64>().ok()).expect("the row is there")
    };
    assert_eq!([answers("shop", "eu1"), answers("shop", "us1")], seen);
    assert!(seen[0] > seen[1] && seen[1] > 0.0, "70 to 30 became {seen:?}");
    assert_eq!([answers("pay", "eu1"), answers("pay", "us1")], [1.0, 0.0]);
}

/// Prometheus' own linter parses the text as Prometheus does, and checks names, units and help.
#[cfg(feature = "real")]
#[test]
fn promtool_accepts_the_metrics() {
    use std::process::{Command, Stdio};

    let server = Fairway::start(&format!("{CONFIG}{PUBLISHED}"), &[("pub.zone", "@ SOA ns a 1 2 3 4 5\n")]);
    mix(server.dns);
    let sets = |status: &str, reason: &str| {
        let rows = server.metrics();
        let row = format!("fairway_publish_sets{{provider=\"file\",status=\"{status}\",reason=\"{reason}\"}} ");
        rows.lines().find_map(|line| line.strip_prefix(&row)?.parse::<f64>().ok())
    };
    wait_until("it is published", LIMIT, || sets("published", "") == Some(1.0));
    let others = [("waiting", ""), ("leaving", ""), ("refused", "alias")].map(|(word, why)| sets(word, why));
    assert_eq!(others, [Some(0.0), Some(0.0), None], "{}", server.metrics());
    let mut command = Command::new(fairway_integration::real::program("promtool", "promtool"));
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool starts");
    let text = server.metrics();
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("it is our child");
    let said = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o).into_owned()).concat();
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}
