//! The upgrade of September 2026: external-dns 0.22 dropped its annotation prefix without a fallback. The newest one sees no name of the objects
//! that 0.21 served, and with `--policy=sync` deletes all of its records.

use std::net::{SocketAddr, TcpListener};

use fairway_integration::{
    cluster::{Cluster, LIMIT, annotated},
    load::resolve,
    real::{Fairway, free_port, http_get, wait_until},
};

/// Number of names of each cluster: 1,000, in Services of 100.
const NAMES: usize = 1_000;
const SERVICE_NAMES: usize = 100;
const CLUSTERS: [(&str, &str); 2] = [("old-east", "127.0.0.10"), ("old-west", "127.0.0.20")];

fn name(cluster: &str, number: usize) -> String {
    format!("n{number}.{cluster}.gslb.example")
}

/// Returns the Services of a cluster, with the annotations of external-dns 0.21.
fn services(cluster: &str, address: &str) -> String {
    let service = |first: usize| {
        let names: Vec<_> = (first..first + SERVICE_NAMES).map(|number| name(cluster, number)).collect();
        let lines = annotated(&[("hostname", &names.join(",")), ("target", address), ("ttl", "30")]);
        format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: s{first}\n  annotations:\n{lines}spec:\n  type: LoadBalancer\n  ports: [{{ port: 443 }}]\n---\n"
        )
    };
    (0..NAMES).step_by(SERVICE_NAMES).map(service).collect()
}

/// Returns the number of names that are not answered with the address of their cluster.
fn wrong_answers(server: &Fairway) -> usize {
    let all = CLUSTERS.iter().flat_map(|of| (0..NAMES).map(move |number| (of, number)));
    let is_wrong = |((cluster, address), number): &(&(&str, &str), usize)| {
        !resolve(server.dns, &name(cluster, *number)).is_some_and(|reply| reply.is(&[address]))
    };
    all.filter(is_wrong).count()
}

#[test]
fn upgrade_that_deletes_every_record_changes_no_answer() {
    let (webhook, port) = (SocketAddr::from(([127, 0, 0, 1], free_port())), free_port());
    let _gateways = CLUSTERS.map(|(_, address)| TcpListener::bind((address, port)).expect("loopback has the port"));
    let server = Fairway::start(
        &format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: gateway }}]
monitors: [{{ name: gateway, type: tcp, port: {port}, period: 1s, timeout: 500ms }}]
health: {{ networks: {{ allow: [127.0.0.0/8] }} }}
webhook: {{ listen: \"{webhook}\" }}\n"
        ),
        &[],
    );
    let mut clusters = CLUSTERS.map(|(name, address)| {
        let cluster = Cluster::start(name);
        cluster.apply(&services(name, address));
        cluster
    });
    for (cluster, (owner, _)) in clusters.iter_mut().zip(CLUSTERS) {
        cluster.bring_to(webhook, &format!("/owners/{owner}"));
    }
    wait_until("all names are answered", LIMIT, || wrong_answers(&server) == 0);

    for (cluster, (owner, _)) in clusters.iter_mut().zip(CLUSTERS) {
        cluster.upgrade(webhook, &format!("/owners/{owner}"));
    }
    // Two rows of each name: the address, and the record of the registry.
    let rows = (2 * 2 * NAMES) as f64;
    wait_until("both have deleted everything", LIMIT, || {
        assert_eq!(wrong_answers(&server), 0, "a name is no longer answered as before");
        server.metric("fairway_withdrawals_held_endpoints", "") == rows
    });
    let loops = || server.metric("fairway_webhook_calls_total", "call=\"records\",code=\"200\"");
    let (before, changes) = (loops(), server.metric("fairway_webhook_changes_total", ""));
    wait_until("more loops are made", LIMIT, || loops() >= before + 6.0);
    assert_eq!(server.metric("fairway_webhook_changes_total", ""), changes, "the clients repeat their change");
    assert_eq!(wrong_answers(&server), 0, "a name is no longer answered as before");
    for cluster in &mut clusters {
        cluster.still_runs();
    }
    let (_, body) = http_get(server.http, "/v1/contributions").expect("it answers");
    assert_eq!(body.matches("\"reason\":\"manyNames\"").count(), 2, "one condition per owner: {body:.2000}");
}
