//! A real resolver, unbound, finds the server through a delegation and follows steering, failover and restarts.
//!
//! If the test may bind port 53, unbound has root hints and follows the referral of a root zone, which a second server answers.
//! Otherwise stub zones lead it to both servers, because resolvers use no other port for a delegated zone.
#![cfg(feature = "real")]

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use fairway_integration::{
    message::{Message, bit},
    query::Query,
    real::{Process, ask, fairway_binary, free_port, http_get, program, wait_until},
};
use fairway_model::{Name, Rtype};
use tempfile::TempDir;

/// An ingress gateway for TCP probes.
struct Gateway {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Gateway {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let closing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closing);
        let accept = move || while listener.accept().is_ok() && !seen.load(Ordering::SeqCst) {};
        Self { address, closing, accepting: Some(std::thread::spawn(accept)) }
    }

    /// Refuses connections from now on.
    fn close(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.closing.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        accepting.join().expect("accepting does not panic");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.close();
    }
}

/// Root server, Fairway and resolver, each with its own folder and address.
struct World {
    folder: TempDir,
    ours: SocketAddr,
    resolver: SocketAddr,
    unbound: Option<Process>,
    _servers: [Process; 2],
}

impl World {
    /// Starts them with two clusters, probed at these two gateways; `eu1` alone is tier 1.
    fn start(gateways: [&Gateway; 2]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (root, ours) = addresses();
        let glue = ours.ip();
        let root_zone = format!(
            "$TTL 300\n. SOA a.root.test. hostmaster.root.test. 1 3600 900 604800 60\n. NS a.root.test.\n\
             a.root.test. A {}\ngslb.example. NS ns1.gslb.example.\nns1.gslb.example. A {glue}\n",
            root.ip()
        );
        let mut zone =
            format!("$TTL 300\n@ SOA ns1 hostmaster 7 3600 900 604800 60\n@ NS ns1\nns1 A {glue}\nwww A 192.0.2.1\n");
        zone += "a.b.c A 192.0.2.2\n*.wild TXT \"any\"\nalias CNAME shop\n";
        for number in 0..20 {
            zone += &format!("big TXT \"{number:02} {}\"\n", "x".repeat(204));
        }
        let servers = [
            serve(&folder.path().join("root"), root, "zones: [ { name: ., file: zone } ]", &root_zone),
            serve(&folder.path().join("gslb"), ours, &steering(gateways), &zone),
        ];
        let resolver = SocketAddr::from(([127, 0, 0, 1], free_port()));
        write_unbound(folder.path(), resolver, root, ours);
        let mut world = Self { folder, ours, resolver, unbound: None, _servers: servers };
        world.start_unbound();
        world
    }

    fn start_unbound(&mut self) {
        self.unbound = None; // One that runs ends first: it has the port.
        let mut command = Command::new(program("unbound", "unbound"));
        command.arg("-dp").arg("-c").arg(self.folder.path().join("unbound.conf"));
        self.unbound = Some(Process::start(&mut command, &self.folder.path().join("unbound.log")));
        let what = "unbound answers for www.gslb.example";
        wait_until(what, Duration::from_secs(30), || addresses_of(self.resolver, "www.gslb.example") == ["192.0.2.1"]);
    }
}

/// Counter of addresses: parallel tests of one process each have their own pair.
static TAKEN: AtomicU8 = AtomicU8::new(0);

/// Returns addresses of root server and Fairway: port 53 of two addresses that only this process uses, or free ports.
fn addresses() -> (SocketAddr, SocketAddr) {
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = |last| SocketAddr::from((Ipv4Addr::new(127, 64 | high & 63, low, last), 53));
    let may_bind = |at: &SocketAddr| UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok();
    let number = TAKEN.fetch_add(2, Ordering::SeqCst);
    let pair = (own(1 + number), own(2 + number));
    if may_bind(&pair.0) && may_bind(&pair.1) {
        return pair;
    }
    let free = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    (free(), free())
}

fn steering(gateways: [&Gateway; 2]) -> String {
    let [eu1, us1] = gateways.map(|gateway| gateway.address);
    format!(
        "zones: [ {{ name: gslb.example, file: zone }} ]
clusters:
  - {{ name: eu1, addresses: [203.0.113.10], dnsName: eu1.gslb.example }}
  - {{ name: us1, addresses: [203.0.113.20], dnsName: us1.gslb.example }}
monitors: [ {{ name: gateway, type: tcp, port: 443, period: 200ms, timeout: 200ms, rise: 1, fall: 3 }} ]
pools:
  - name: shop
    policy: failover
    ttl: 1s
    monitor: gateway
    members: [ {{ cluster: eu1, tier: 1, probe: \"{eu1}\" }}, {{ cluster: us1, tier: 2, probe: \"{us1}\" }} ]
  - name: named
    policy: failover
    mode: cname
    ttl: 1s
    monitor: gateway
    members: [ {{ cluster: eu1, tier: 1, probe: \"{eu1}\" }}, {{ cluster: us1, tier: 2, probe: \"{us1}\" }} ]
  - {{ name: eu1, policy: failover, ttl: 1s, monitor: gateway, members: [ {{ cluster: eu1, probe: \"{eu1}\" }} ] }}
  - {{ name: us1, policy: failover, ttl: 1s, monitor: gateway, members: [ {{ cluster: us1, probe: \"{us1}\" }} ] }}
names:
  - {{ name: shop.gslb.example, pool: shop }}
  - {{ name: named.gslb.example, pool: named }}
  - {{ name: eu1.gslb.example, pool: eu1 }}
  - {{ name: us1.gslb.example, pool: us1 }}
"
    )
}

fn serve(folder: &Path, dns: SocketAddr, config: &str, zone: &str) -> Process {
    fs::create_dir(folder).expect("the folder can be written");
    let http = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let text = format!("version: 1\nlisten: {{ dns: [\"{dns}\"], http: \"{http}\" }}\n{config}\n");
    fs::write(folder.join("fairway.yaml"), text).expect("the folder can be written");
    fs::write(folder.join("zone"), zone).expect("the folder can be written");
    let mut command = Command::new(fairway_binary());
    command.arg("serve").arg("--config").arg(folder.join("fairway.yaml")).arg("--data-dir").arg(folder.join("data"));
    let mut process = Process::start(&mut command, &folder.join("log"));
    wait_until("the server is ready", Duration::from_secs(30), || {
        assert!(process.is_running(), "fairway ended: {}", process.output());
        http_get(http, "/readyz").is_some_and(|(status, _)| status == 200)
    });
    process
}

fn write_unbound(folder: &Path, resolver: SocketAddr, root: SocketAddr, ours: SocketAddr) {
    let shown = folder.display();
    let port = resolver.port();
    let ways = if root.port() == 53 {
        let hints = format!(". 300 IN NS a.root.test.\na.root.test. 300 IN A {}\n", root.ip());
        fs::write(folder.join("root.hints"), hints).expect("the folder can be written");
        format!("  root-hints: \"{shown}/root.hints\"\n")
    } else {
        let stub = |zone: &str, at: SocketAddr| {
            format!("stub-zone:\n  name: \"{zone}\"\n  stub-addr: {}@{}\n", at.ip(), at.port())
        };
        stub(".", root) + &stub("gslb.example", ours)
    };
    let text = format!(
        "server:\n  directory: \"{shown}\"\n  username: \"\"\n  chroot: \"\"\n  interface: 127.0.0.1@{port}\n  do-ip6: no\n  \
         do-daemonize: no\n  use-syslog: no\n  num-threads: 1\n  module-config: \"iterator\"\n  do-not-query-localhost: no\n  \
         access-control: 127.0.0.0/8 allow\n  outgoing-range: 64\n  local-zone: \"test.\" nodefault\n{ways}\
         remote-control:\n  control-enable: no\n"
    );
    fs::write(folder.join("unbound.conf"), text).expect("the folder can be written");
}

fn resolve(server: SocketAddr, name: &str, rtype: Rtype) -> Option<Message> {
    let name = Name::from_text(name.as_bytes(), Some(&Name::root())).expect("names of this test are names");
    let query = Query { flags: bit::RD, ..Query::new(name, rtype) };
    ask(server, &query.encode()).map(|reply| Message::decode(&reply).expect("a sound message"))
}

/// Returns the A records of the answer, without CNAMEs; empty without an answer.
fn addresses_of(server: SocketAddr, name: &str) -> Vec<String> {
    let reply = resolve(server, name, Rtype::A);
    let records = reply.map(|message| message.sections[0].clone()).unwrap_or_default();
    let addresses = records.iter().filter(|record| record.rtype == Rtype::A);
    addresses.filter_map(|record| record.to_string().split(' ').next_back().map(str::to_owned)).collect()
}

/// Longest time from the server's new answer to the resolver's: a TTL of 1 s, which the resolver counts in whole seconds (so
/// up to 2 s), and 1 s for a busy machine.
const FOLLOWS: Duration = Duration::from_secs(3);

#[test]
fn resolver_gets_every_kind_of_answer_through_the_delegation() {
    let gateways = [Gateway::open(), Gateway::open()];
    let world = World::start([&gateways[0], &gateways[1]]);
    for (name, address) in [
        ("shop.gslb.example", "203.0.113.10"),
        ("named.gslb.example", "203.0.113.10"),
        ("alias.gslb.example", "203.0.113.10"),
        ("a.b.c.gslb.example", "192.0.2.2"),
    ] {
        assert_eq!(addresses_of(world.resolver, name), [address], "{name}");
    }
    let named = resolve(world.resolver, "named.gslb.example", Rtype::A).expect("an answer");
    let cname = named.sections[0][0].to_string();
    assert!(cname.starts_with("named.gslb.example. ") && cname.ends_with(" IN CNAME eu1.gslb.example."), "{cname}");
    for (name, rtype, rcode) in [
        ("none.gslb.example", Rtype::A, 3),
        ("x.y.z.none.gslb.example", Rtype::A, 3),
        ("b.c.gslb.example", Rtype::A, 0),
        ("shop.gslb.example", Rtype::AAAA, 0),
        ("shop.gslb.example", Rtype::HTTPS, 0),
    ] {
        let reply = resolve(world.resolver, name, rtype).expect("an answer");
        assert_eq!((reply.rcode(), reply.sections[0].len()), (rcode, 0), "{name} {rtype}: {:?}", reply.sections);
        let soa = reply.sections[1].iter().find(|record| record.rtype == Rtype::SOA).map(ToString::to_string);
        assert!(soa.as_deref().is_some_and(|soa| soa.starts_with("gslb.example. ")), "{name} {rtype}: {soa:?}");
    }
}

#[test]
fn resolver_retries_truncated_answer_over_tcp() {
    let gateways = [Gateway::open(), Gateway::open()];
    let world = World::start([&gateways[0], &gateways[1]]);
    let mut dig = Command::new(program("dig", "dig"));
    dig.args(["@127.0.0.1", "-p", &world.resolver.port().to_string(), "+tcp", "+short", "big.gslb.example", "TXT"]);
    let output = String::from_utf8(dig.output().expect("dig runs").stdout).expect("the strings are ASCII");
    assert_eq!(output.lines().filter(|line| line.len() > 200).count(), 20, "{output}");
}

#[test]
fn resolver_follows_a_failover_within_the_ttl() {
    let mut eu1 = Gateway::open();
    let us1 = Gateway::open();
    let mut world = World::start([&eu1, &us1]);
    let names = ["shop.gslb.example", "named.gslb.example"];
    for name in names {
        assert_eq!(addresses_of(world.resolver, name), ["203.0.113.10"], "{name}");
    }
    eu1.close();
    for name in names {
        let moved = |server| move || addresses_of(server, name) == ["203.0.113.20"];
        wait_until("our server answers us1", Duration::from_secs(10), moved(world.ours));
        wait_until("the resolver answers us1", FOLLOWS, moved(world.resolver));
    }
    // A resolver with an empty cache gets the same.
    world.start_unbound();
    assert_eq!(addresses_of(world.resolver, "shop.gslb.example"), ["203.0.113.20"]);
    assert_eq!(addresses_of(world.resolver, "none.gslb.example"), [""; 0]);
}
