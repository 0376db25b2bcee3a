//! Load control of several servers on one etcd: one decides for all.

use std::time::Duration;

use fairway_integration::{
    load::{connect, prove_source, receive, resolve},
    query::{Opt, Query},
    real::{Fairway, wait_until},
};
use fairway_model::Rtype;
use serde_json::{Value, json};

use super::{Etcd, LIMIT, NAME, apply, done, put, said, state};

/// Longest time for several steps of load control, one every ten seconds.
pub(super) const STEPS: Duration = Duration::from_secs(180);
/// Returns two clusters of one pool that is balanced by pushed load.
pub(super) const BALANCED: &str = "clusters:
  - { name: eu1, addresses: [192.0.2.1], capacity: 100 }
  - { name: us1, addresses: [192.0.2.2], capacity: 100 }
monitors: [{ name: unchecked, type: always }]
pools: [{ name: shop, policy: [load, weighted], ttl: 1s, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: www.gslb.example, pool: shop }]
";

/// Pushes the loads of both clusters, and queries the name from many networks.
pub(super) fn push(server: &Fairway, sequence: u64, [eu1, us1]: [u32; 2]) {
    for (cluster, used) in [("eu1", eu1), ("us1", us1)] {
        let body = format!(r#"{{"used": {used}, "sequence": {sequence}, "validFor": "30s"}}"#);
        let said = put(server, &format!("/v1/load/{cluster}"), &body);
        assert!(said.starts_with("HTTP/1.1 2"), "{said}");
    }
    ask(server);
}

/// Queries the name from many networks.
fn ask(server: &Fairway) {
    // The networks stand for honest ones, behind a resolver that has come over TCP before.
    prove_source(server.dns, [127, 0, 0, 1].into(), NAME);
    let socket = connect(server.dns);
    for client in 0..=u8::MAX {
        let edns = Some(Opt { options: vec![(8, vec![0, 1, 24, 0, 198, 18, client])], ..Opt::default() });
        let id = u16::from(client);
        let packet = Query { id, edns, ..Query::new(NAME.parse().expect("a name"), Rtype::A) }.encode();
        socket.send(&packet).expect("the server listens");
        receive(&socket, id).expect("an answer");
    }
}

/// Returns the leader as a server sees it, its term, and the shares of each cluster.
pub(super) fn lead(server: &Fairway) -> (String, u64, Vec<Value>) {
    let state = state(server);
    let clusters = state["clusters"].as_array().cloned().unwrap_or_default();
    let taken = clusters.iter().map(|cluster| cluster["share"].clone()).collect();
    let lead = state["balance"]["role"].as_str().unwrap_or_default().to_owned();
    (lead, state["balance"]["epoch"].as_u64().unwrap_or_default(), taken)
}

#[test]
fn balance_leader_decides_for_all_and_is_replaced() {
    let mut etcd = Etcd::start();
    let servers = [(); 3].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&apply(&servers[0], BALANCED));
    servers.iter().for_each(|server| wait_until("it is served", LIMIT, || resolve(server.dns, NAME).is_some()));
    let mut sequence = 0;
    // One server gets load reports with eu1 over its capacity: it leads, and its decision holds on all servers.
    wait_until("all send less to eu1", STEPS, || {
        sequence += 1;
        push(&servers[0], sequence, [150, 10]);
        let all = servers.each_ref().map(lead);
        let words = all.each_ref().map(|(word, ..)| word.as_str());
        words == ["leads", "follows", "follows"]
            && all.iter().all(|(_, epoch, taken)| *epoch == all[0].1 && *taken == all[0].2)
            && all[0].2[0].as_f64().is_some_and(|near| near < 100.0)
    });
    assert_eq!(servers[1].metric("fairway_balance_role", r#"state="follows""#), 1.0);
    assert!(said(&servers[2].command(&["status"])).contains("follower: "));
    let ids = servers.each_ref().map(|server| state(server)["config"]["runtimeState"].clone());
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");

    // Clients of another server count, too.
    let elsewhere = |server: &Fairway| server.metric("fairway_demand_networks_elsewhere", "");
    assert_eq!(elsewhere(&servers[0]), 0.0, "only the leader was queried");
    wait_until("the leader knows clients of a follower", STEPS, || {
        sequence += 1;
        push(&servers[0], sequence, [150, 10]);
        ask(&servers[1]);
        elsewhere(&servers[0]) > 200.0
    });
    assert_eq!(elsewhere(&servers[1]), 0.0, "it does not decide");

    // The leader is killed. The next server with load reports takes over when the lease has expired.
    let [mut gone, second, third] = servers;
    gone.process.signal("KILL");
    gone.process.ended(LIMIT);
    wait_until("the second leads", STEPS, || {
        sequence += 1;
        push(&second, sequence, [10, 150]);
        let (all, other) = (lead(&second), lead(&third));
        all.0 == "leads"
            && other.0 == "follows"
            && all.2 == other.2
            && all.2[1].as_f64().is_some_and(|near| near < 100.0)
    });

    // Without etcd each server decides alone, and keeps answering.
    etcd.kill();
    for server in [&second, &third] {
        wait_until("it is by itself", LIMIT, || lead(server).0 == "local");
        // The reason is in the status and in the log.
        let (why, endpoint) = (state(server)["balance"]["reason"].to_string(), format!("127.0.0.1:{}", etcd.ports[0]));
        assert!(why.contains(&endpoint), "{why}");
        assert!(said(&server.command(&["status"])).contains(&endpoint));
        let log = server.process.output();
        assert!(log.lines().any(|line| line.contains("balance leader changed") && line.contains(&endpoint)), "{log}");
        assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.rcode == 0));
    }
    etcd.again();
    wait_until("the second leads again", STEPS, || {
        sequence += 1;
        push(&second, sequence, [10, 150]);
        lead(&second).0 == "leads" && lead(&third).0 == "follows"
    });
}

/// A full etcd refuses the first request of the leader election: it grants no lease.
#[test]
fn servers_decide_alone_while_a_full_etcd_grants_no_lease() {
    let etcd = Etcd::start_with(&["--quota-backend-bytes", "4194304"]);
    let servers = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&apply(&servers[0], BALANCED));
    let reason = |server: &Fairway| state(server)["balance"]["reason"].as_str().unwrap_or_default().to_owned();
    for server in &servers {
        wait_until("it is served", LIMIT, || resolve(server.dns, NAME).is_some_and(|reply| reply.rcode == 0));
        wait_until("nobody leads", LIMIT, || reason(server).contains("no server holds the lease"));
    }
    etcd.fill();
    let refused = etcd.gateway("/v3/lease/grant", &json!({"TTL": "6"})).expect_err("it is full");
    assert!(refused.contains("database space exceeded"), "{refused}");

    let mut sequence = 0;
    wait_until("it uses its own decisions and shows the reason", STEPS, || {
        sequence += 1;
        push(&servers[0], sequence, [150, 10]);
        let (word, _, taken) = lead(&servers[0]);
        let takes_less = taken[0].as_f64().is_some_and(|near| near < 100.0);
        word == "local" && takes_less && reason(&servers[0]).contains("is full")
    });
    let (why, endpoint) = (reason(&servers[0]), format!("127.0.0.1:{}", etcd.ports[0]));
    assert!(why.contains(&endpoint) && why.contains("disarm its alarm"), "{why}");
    assert!(said(&servers[0].command(&["status"])).contains("is full"));
    let log = servers[0].process.output();
    assert!(log.lines().any(|line| line.contains("balance leader changed") && line.contains("is full")), "{log}");
    assert_eq!(servers[0].metric("fairway_balance_role", r#"state="local""#), 1.0);
    assert_eq!(lead(&servers[1]).0, "local", "nobody leads it");
    let cluster = r#"{"name": "ap1", "addresses": ["192.0.2.3"]}"#;
    let refused = put(&servers[1], "/v1/clusters/ap1", cluster);
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("is full"), "{refused}");
    assert!(servers.iter().all(|server| resolve(server.dns, NAME).is_some_and(|reply| reply.rcode == 0)));

    etcd.free();
    wait_until("it leads", STEPS, || {
        sequence += 1;
        push(&servers[0], sequence, [150, 10]);
        lead(&servers[0]).0 == "leads" && lead(&servers[1]).0 == "follows"
    });
    assert_eq!(reason(&servers[0]), "");
    // The alarm of a full etcd may end a moment later for writes than for leases.
    wait_until("it stores", STEPS, || put(&servers[1], "/v1/clusters/ap1", cluster).starts_with("HTTP/1.1 201"));
}
