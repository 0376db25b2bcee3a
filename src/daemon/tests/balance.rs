//! Balancing in the daemon: load that follows the answers, and shares that follow the load.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{daemon::start, *};
use crate::daemon::Daemon;
use fairway_api_types::{
    client::{Client, Reach},
    overrides_wire::{NewOverride, OverrideParameters},
};
use fairway_model::{Shares, SlotTable};

/// Number of client networks. Each has a demand of one unit.
const CLIENTS: usize = 160;
/// Longest wait for stable shares, with a TTL of 1 s.
const BALANCE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Demand of each cluster, from the answers to the clients. The gateways report it as their load.
#[derive(Default)]
struct Traffic {
    carried: [AtomicU64; 2],
}

impl Traffic {
    /// Starts a listener that reports the load of both clusters as JSON. Returns its port.
    async fn report(self: &Arc<Self>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, traffic) = (listener.local_addr().unwrap().port(), Arc::clone(self));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let [eu1, us1] = traffic.loads();
                let body = format!("{{\"eu1\":{eu1},\"us1\":{us1}}}");
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        port
    }

    fn loads(&self) -> [u64; 2] {
        [0, 1].map(|cluster: usize| self.carried[cluster].load(Relaxed))
    }

    /// Sends one query of each client, from an address that has proven itself, and updates the load from the answers.
    fn ask(&self, server: SocketAddr) {
        prove(server);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut carried = [0, 0];
        for client in 0..CLIENTS {
            socket.send_to(&query(client as u8), server).unwrap();
            let mut answer = [0; 1232];
            let length = socket.recv(&mut answer).unwrap();
            let sent_to = |last: u8| answer[..length].windows(4).any(|octets| octets == [127, 0, 0, last]);
            assert!(sent_to(1) != sent_to(2), "a client must get exactly one cluster");
            carried[usize::from(sent_to(2))] += 1;
        }
        for (cluster, count) in self.carried.iter().zip(carried) {
            cluster.store(count, Relaxed);
        }
    }
}

/// Asks over TCP, which shows that this address receives the answers. A restarted server has forgotten it.
fn prove(server: SocketAddr) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let query = query(0);
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat()).unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
}

/// Returns a query for the A records of shop.gslb.example with the ECS option 198.18.`client`.0/24.
fn query(client: u8) -> Vec<u8> {
    let head = b"\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01";
    let question = b"\x04shop\x04gslb\x07example\x00\x00\x01\x00\x01";
    let opt = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 198, 18, client];
    [&head[..], question, &opt].concat()
}

fn balanced(port: u16, policy: &str) -> String {
    let members = "members: [ { cluster: eu1 }, { cluster: us1 } ]";
    let load = format!(
        "load: [ {{ name: feed, type: json, url: \"http://127.0.0.1:{port}/\", pointer: \"/{{cluster}}\", period: 300ms }} ]\n"
    );
    config("type: always")
        .replace("[127.0.0.1]", "[127.0.0.1], capacity: 150, load: feed")
        .replace("[127.0.0.2]", "[127.0.0.2], capacity: 150, load: feed")
        .replace("policy: failover", &format!("policy: {policy}, ttl: 1s"))
        .replace(members, "members: [ { cluster: eu1 }, { cluster: us1, tier: 2 } ]")
        + "evidence: { challenge: false }\n"
        + &load
}

#[tokio::test(flavor = "multi_thread")]
async fn first_tier_is_filled_to_its_target_and_the_rest_overflows() {
    let traffic = Arc::new(Traffic::default());
    let scene = Scene::new(&balanced(traffic.report().await, "[tier, load, weighted]"));
    let daemon = start(&scene).await;
    let server = daemon.dns_addresses()[0];
    traffic.ask(server);
    // The demand is 160, a capacity 150 and its target 120: eu1 must be used up to about its target, and us1 get the rest.
    let fits = || matches!(traffic.loads(), [eu1, us1] if (100..=130).contains(&eu1) && us1 <= 60);
    let settles = async {
        let mut held = 0;
        while held < 10 {
            traffic.ask(server);
            held = if fits() { held + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let settled = tokio::time::timeout(BALANCE_WAIT_MAX, settles).await;
    assert!(settled.is_ok(), "no stable shares: {:?}", traffic.loads());
    let client = Client::new(Reach::Http(daemon.http_address().unwrap()));
    // Shares are computed every ten seconds.
    until("declared, answered and observed share", async || {
        traffic.ask(server);
        let member = client.state().await.unwrap().pools[0].members[0].clone();
        let near = |part: Option<f64>| part.is_some_and(|part| (60.0..85.0).contains(&part));
        member.share.declared == Some(50.0) && near(member.share.answered) && near(member.share.arrived)
    })
    .await;
    let metrics = client.metrics().await.unwrap();
    for name in [
        "fairway_cluster_share_ratio{cluster=\"eu1\",pool=\"\"} 0.",
        "fairway_member_share_ratio{pool=\"shop\",cluster=\"eu1\",kind=\"arrived\"} 0.",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    assert!(shares(&daemon).epoch > 1, "the split of the start was changed");
    let settled = shares(&daemon).tables;
    daemon.stop().await;
    restart_keeps_the_tables(&scene, &traffic, &settled).await;
    damaged_state_is_set_aside(&scene, &traffic, &settled).await;
    drain_ends_when_no_demand_is_left(&scene, &traffic).await;
}

/// Returns the shares in force.
fn shares(daemon: &Daemon) -> Shares {
    let shares = daemon.control().shared().serving.load().runtime.shares().cloned();
    shares.map(|shares| (*shares).clone()).unwrap_or_default()
}

/// Returns the number of slots that differ.
fn differing(a: &[SlotTable], b: &[SlotTable]) -> usize {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.slots.iter().zip(&b.slots).filter(|(a, b)| a != b).count()).sum()
}

async fn drain_ends_when_no_demand_is_left(scene: &Scene, traffic: &Traffic) {
    // A demand is remembered for three TTLs, so the TTL must be longer than this test.
    scene.write(&fs::read_to_string(scene.file()).unwrap().replace("ttl: 1s", "ttl: 30s"));
    let daemon = start(scene).await;
    let (server, client) = (daemon.dns_addresses()[0], Client::new(Reach::Http(daemon.http_address().unwrap())));
    // Queries count once their source is proven.
    until("all networks", async || {
        traffic.ask(server);
        client.metrics().await.unwrap().contains(&format!("fairway_demand_networks {CLIENTS}\n"))
    })
    .await;
    let drain = async || client.state().await.unwrap().clusters[0].drain.clone();
    assert_eq!(drain().await, None);
    let new = NewOverride {
        scope: "eu1".to_owned(),
        action: "drain".to_owned(),
        reason: "planned work".to_owned(),
        for_secs: 60,
        ..NewOverride::default()
    };
    let socket = Client::new(Reach::of_data_dir(&scene.data()));
    let id = socket.add_override(&new, OverrideParameters::default()).await.unwrap().id.unwrap();
    until("remaining demand", async || {
        drain().await.is_some_and(|drain| drain.left.is_some_and(|left| left > 0.0) && drain.over > drain.since)
    })
    .await;
    traffic.ask(server);
    assert_eq!(traffic.loads()[0], 0);
    until("remaining demand of 0", async || drain().await.is_some_and(|drain| drain.left == Some(0.0))).await;
    socket.remove_override(&id).await.unwrap();
    until("end of the drain", async || drain().await.is_none()).await;
    daemon.stop().await;
}

async fn restart_keeps_the_tables(scene: &Scene, traffic: &Traffic, settled: &[SlotTable]) {
    let daemon = start(scene).await;
    let moved = differing(&shares(&daemon).tables, settled);
    assert!(moved <= 20, "{moved} of 256 slots");
    traffic.ask(daemon.dns_addresses()[0]);
    assert!(traffic.loads().iter().all(|load| *load <= 150), "{:?}", traffic.loads());
    daemon.stop().await;
}

async fn damaged_state_is_set_aside(scene: &Scene, traffic: &Traffic, settled: &[SlotTable]) {
    let file = scene.data().join("balance.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let daemon = start(scene).await;
    let moved = differing(&shares(&daemon).tables, settled);
    assert!(moved > 20, "it begins with the declared split, and not with what it had: {moved} of 256 slots differ");
    assert_eq!(fs::read_to_string(scene.data().join("balance.json.unreadable")).unwrap(), text[..text.len() / 2]);
    traffic.ask(daemon.dns_addresses()[0]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_without_reports_ignores_load_until_a_report_is_pushed() {
    let traffic = Arc::new(Traffic::default());
    let text = balanced(9, "[tier, load, weighted]");
    let text = text.split("load: [").next().unwrap().replace(", load: feed", "");
    let scene = Scene::new(&text);
    let daemon = start(&scene).await;
    let server = daemon.dns_addresses()[0];
    for _ in 0..5 {
        traffic.ask(server);
        assert_eq!(traffic.loads(), [CLIENTS as u64, 0], "all clients must get the first tier");
    }
    let shares = || daemon.control().shared().serving.load().runtime.shares().cloned();
    assert!(shares().is_none());
    let client = Client::new(Reach::of_data_dir(&scene.data()));
    let load = fairway_api_types::load_wire::NewLoad { load: Some(1_600), ..Default::default() };
    client.push_load("eu1", &load).await.unwrap();
    until("shares after a report", async || shares().is_some()).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_without_the_load_step_has_no_shares() {
    let traffic = Arc::new(Traffic::default());
    let scene = Scene::new(&balanced(traffic.report().await, "failover"));
    let daemon = start(&scene).await;
    let server = daemon.dns_addresses()[0];
    for _ in 0..5 {
        traffic.ask(server);
        assert_eq!(traffic.loads(), [CLIENTS as u64, 0]);
    }
    assert!(daemon.control().shared().serving.load().runtime.shares().is_none());
    assert_eq!(IpAddr::V4(Ipv4Addr::LOCALHOST), server.ip());
    daemon.stop().await;
}
