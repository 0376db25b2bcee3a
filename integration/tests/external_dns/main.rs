//! The real external-dns of several clusters, over real kube-apiservers, contributes names over the webhook.
#![cfg(feature = "real")]

mod manual;
mod sources;
mod tls;
mod upgrade;

use std::{net::TcpListener, time::Duration};

use fairway_integration::{
    cluster::{Cluster, LIMIT, dig, server},
    real::{Fairway, Process, free_port, head, serve, wait_until},
};
use tempfile::TempDir;

const SHOP: &str = "shop.gslb.example";

/// Returns the number of sync loops of the clients, and of changed endpoints.
fn counted(server: &Fairway) -> (f64, f64) {
    let loops = server.metric("fairway_webhook_calls_total", "call=\"records\",code=\"200\"");
    (loops, server.metric("fairway_webhook_changes_total", ""))
}

/// Number of sync loops that are watched for spurious changes.
fn loops() -> f64 {
    std::env::var("FAIRWAY_LOOPS").ok().and_then(|text| text.parse().ok()).unwrap_or(20.0)
}

/// Annotations of the shop in a cluster: two members per answer, without probes.
fn shop<'a>(set: &'a str, weight: &'a str) -> Vec<(&'a str, &'a str)> {
    let named = [("hostname", SHOP), ("ttl", "45"), ("webhook-gslb-weight", weight)];
    let steered = [("webhook-gslb-answers", "2"), ("webhook-gslb-health-scheme", "none")];
    let set = Some(("set-identifier", set)).filter(|(_, set)| !set.is_empty());
    named.into_iter().chain(steered).chain(set).collect()
}

#[test]
fn two_clusters_share_a_name_by_base_path() {
    let (server, webhook) = server();
    let (mut east, mut west) = (Cluster::start("east"), Cluster::start("west"));
    east.expose("shop", "203.0.113.10", &shop("east", "60"));
    west.expose("shop", "203.0.113.20", &shop("west", "40"));
    east.bring_to(webhook, "/owners/east");
    west.bring_to(webhook, "/owners/west");
    wait_until("both are members", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10", "203.0.113.20"]);

    let registry = dig(&server, "a-shop.gslb.example", "TXT");
    let owners = ["owner=east,", "owner=west,"].map(|own| registry.iter().any(|line| line.contains(own)));
    assert_eq!((owners, registry.len()), ([true, true], 2), "{registry:?}");

    // Settled: from now on each loop finds the wanted state.
    let (before, changes) = counted(&server);
    wait_until("the loops are made", LIMIT + Duration::from_secs(2) * loops() as u32, || {
        counted(&server).0 >= before + 2.0 * loops()
    });
    assert_eq!(counted(&server).1, changes, "a loop changed something that nobody changed");
    assert_eq!((east.errors(), west.errors()), (0, 0));
    east.still_runs();
    west.still_runs();

    east.kubectl(&["delete", "service", "shop"]);
    wait_until("the other's member is left", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.20"]);
    east.expose("shop", "203.0.113.11", &shop("east", "60"));
    wait_until("it is back", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.11", "203.0.113.20"]);
    east.still_runs();
    west.still_runs();
}

#[test]
fn two_owners_share_a_name_by_set_identifier() {
    let (server, webhook) = server();
    let (mut east, mut west) = (Cluster::start("east"), Cluster::start("west"));
    east.expose("shop", "203.0.113.10", &shop("east", "1"));
    west.expose("shop", "203.0.113.20", &shop("west", "1"));
    east.bring_to(webhook, "");
    wait_until("the first is a member", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    west.bring_to(webhook, "");
    wait_until("both are members", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10", "203.0.113.20"]);
    let (before, changes) = counted(&server);
    wait_until("loops are made", LIMIT, || counted(&server).0 >= before + 10.0);
    assert_eq!(counted(&server).1, changes, "a loop changed something that nobody changed");
    west.kubectl(&["delete", "service", "shop"]);
    wait_until("the other's member is left", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    east.still_runs();
    west.still_runs();
}

#[test]
fn external_dns_survives_every_replacement_of_the_server() {
    let (mut server, webhook) = server();
    let mut east = Cluster::start("east");
    east.expose("shop", "203.0.113.10", &shop("", "1"));
    east.bring_to(webhook, "/owners/east");
    wait_until("it is a member", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    for round in 0..5 {
        let next = server.start_beside(&["--replace"]);
        let ended = server.process.ended(LIMIT);
        assert!(ended.success(), "round {round}: {ended}");
        server.process = next;
        server.wait_ready();
        let (before, _) = counted(&server);
        wait_until("it is asked again", LIMIT, || {
            east.still_runs();
            counted(&server).0 >= before + 3.0
        });
        assert_eq!(dig(&server, SHOP, "A"), ["203.0.113.10"]);
        assert_eq!(counted(&server).1, 0.0, "nothing was lost that would have to be made again");
    }
    east.still_runs();
}

#[test]
fn external_dns_survives_restarts_with_socket_activation() {
    let folder = TempDir::new().expect("a temporary folder");
    let dns = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"));
    let [http, webhook] = [0, 1].map(|at| held[at].local_addr().expect("it is bound"));
    let config =
        format!("zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nwebhook: {{ listen: \"{webhook}\" }}\n");
    std::fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &config).expect("the folder can be written");
    let activated = |path: &std::path::Path| {
        let passed = held.each_ref().map(|listener| listener.try_clone().expect("a descriptor").into());
        Process::start_activated(&serve(path), passed, &path.join("fairway.log"))
    };
    let process = activated(folder.path());
    let mut server = Fairway { process, folder, dns, http };
    server.wait_ready();
    let mut east = Cluster::start("east");
    east.expose("shop", "203.0.113.10", &shop("", "1"));
    east.bring_to(webhook, "/owners/east");
    wait_until("it is a member", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    for round in 0..3 {
        server.process.signal("TERM");
        assert!(server.process.ended(LIMIT).success(), "round {round}");
        wait_until("a call waits for the next process", LIMIT, || waits(webhook.port()));
        server.process = activated(server.folder.path());
        server.wait_ready();
        wait_until("it is asked again", LIMIT, || {
            east.still_runs();
            counted(&server).0 >= 3.0
        });
        assert_eq!(dig(&server, SHOP, "A"), ["203.0.113.10"]);
    }
    // Calls during the start got a retry, which is a soft error.
    east.still_runs();
}

/// True if a connection waits in the backlog of a port, as the kernel reports (proc_net_tcp: state 0A, its receive queue).
fn waits(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux tells");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.get(1).is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        is_ours && fields.get(3) == Some(&"0A") && fields.get(4).is_some_and(|queues| !queues.ends_with(":00000000"))
    })
}

#[test]
fn owner_that_leaves_a_shared_name_removes_only_its_records() {
    let (server, webhook) = server();
    let cluster = Cluster::start("all");
    let owners: [&'static str; 5] = ["a", "b", "c", "d", "e"];
    let address = |place: usize| format!("203.0.113.{}", 10 + place);
    let annotations = |set| {
        let mut all = shop(set, "1");
        all.retain(|(key, _)| *key != "webhook-gslb-answers");
        all.push(("webhook-gslb-answers", "8"));
        all
    };
    let mut clients: Vec<Process> = Vec::new();
    for (place, owner) in owners.iter().enumerate() {
        cluster.kubectl(&["create", "namespace", owner]);
        cluster.expose_in(owner, "shop", &address(place), &annotations(owner));
        let namespace = format!("--namespace={owner}");
        let url = format!("http://{webhook}/owners/{owner}");
        clients.push(cluster.external_dns(&url, owner, &["--source=service", &namespace], &[]));
    }
    let all: Vec<_> = (0..owners.len()).map(address).collect();
    wait_until("all are members", LIMIT, || dig(&server, SHOP, "A") == all);
    let (before, changes) = counted(&server);
    wait_until("loops are made", LIMIT, || counted(&server).0 >= before + 15.0);
    assert_eq!(counted(&server).1, changes, "a loop changed something that nobody changed");
    for gone in [2, 0] {
        cluster.kubectl(&["-n", owners[gone], "delete", "service", "shop"]);
        let rest = |place: &usize| *place != 2 && (gone == 2 || *place != 0);
        let rest: Vec<_> = (0..owners.len()).filter(rest).map(address).collect();
        wait_until("the others are left", LIMIT, || dig(&server, SHOP, "A") == rest);
    }
    assert!(clients.iter_mut().all(Process::is_running));
}
