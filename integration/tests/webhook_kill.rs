//! A client of the webhook, and a server that is killed between an acknowledgement and the next read: nothing is lost,
//! nothing is invented.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use fairway_integration::real::{Fairway, Process, free_port, serve, wait_until};
use serde_json::{Value, json};

const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";
const LIMIT: Duration = Duration::from_secs(30);

/// Sends one call; returns status and body, or `None` if the connection was refused or broken.
fn call(server: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n{body}")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Returns the records of an owner, by name.
fn kept(webhook: SocketAddr, owner: &str) -> Option<BTreeMap<String, Value>> {
    let (status, body) = call(webhook, "GET", &format!("/owners/{owner}/records"), "")?;
    let rows: Vec<Value> = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
    Some(rows.into_iter().map(|row| (row["dnsName"].as_str().unwrap_or_default().to_owned(), row)).collect())
}

/// Returns an endpoint of a round; every third name is used again and changes.
fn endpoint(round: usize) -> Value {
    json!({
        "dnsName": format!("n{}.gslb.example", round % 3 + round / 9),
        "recordType": "A",
        "targets": [format!("192.0.2.{}", round % 250 + 1)],
        "recordTTL": round + 1,
        "providerSpecific": [{"name": "webhook/gslb-health-scheme", "value": "none"}],
    })
}

/// Returns the number of kills.
fn kills() -> usize {
    std::env::var("FAIRWAY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

#[test]
fn only_acknowledged_writes_survive_kills() {
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config =
        format!("zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nwebhook: {{ listen: \"{webhook}\" }}\n");
    let mut server = Fairway::start(&config, &[]);
    wait_open(webhook);
    let mut expected: [BTreeMap<String, Value>; 2] = Default::default();
    for round in 0..kills() {
        let (side, owner) = (round % 2, ["east", "west"][round % 2]);
        let row = endpoint(round);
        let name = row["dnsName"].as_str().expect("it has a name").to_owned();
        let body = json!({ "create": [row] }).to_string();
        let path = format!("/owners/{owner}/records");
        // Every fifth kill comes during a call, which then must be complete or without effect.
        let is_amid = round % 5 == 4;
        if is_amid {
            let caller = std::thread::spawn(move || call(webhook, "POST", &path, &body));
            std::thread::park_timeout(Duration::from_millis((round % 7) as u64));
            server.process.signal("KILL");
            let acknowledged = caller.join().expect("it does not panic").is_some_and(|(status, _)| status == 204);
            restart(&mut server, webhook);
            let found = kept(webhook, owner).expect("it answers");
            if acknowledged || found.get(&name) == Some(&row) {
                expected[side].insert(name, row);
            }
        } else {
            assert_eq!(call(webhook, "POST", &path, &body).map(|(status, _)| status), Some(204), "round {round}");
            expected[side].insert(name, row);
            server.process.signal("KILL");
            restart(&mut server, webhook);
        }
        for (owner, expected) in ["east", "west"].iter().zip(&expected) {
            assert_eq!(kept(webhook, owner).as_ref(), Some(expected), "round {round}, {owner}");
        }
    }
}

/// Starts the server again on its folder, and waits until it answers the webhook.
fn restart(server: &mut Fairway, webhook: SocketAddr) {
    server.process.ended(LIMIT);
    server.process = Process::start(&mut serve(server.folder.path()), &server.folder.path().join("fairway.log"));
    wait_open(webhook);
}

/// Waits until the webhook accepts calls: during the start it asks clients to retry.
fn wait_open(webhook: SocketAddr) {
    wait_until("the webhook is open", LIMIT, || call(webhook, "GET", "/", "").is_some_and(|(status, _)| status == 200));
}
