//! The daemon publishes to a real BIND, also when a cluster fails and when another program changes the records.

use std::{fs, net::SocketAddr, process::Command, time::Duration};

use fairway_integration::{
    message::Message,
    query::Query,
    real::{Fairway, ask, http_get, program, wait_until},
};
use fairway_model::Rtype;

use crate::servers::{SECRET, bind, start};

const LIMIT: Duration = Duration::from_secs(60);

fn config(server: SocketAddr, hanging: SocketAddr) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}, {{ name: sub.pub.example, file: sub.zone }}]
monitors: [{{ name: unchecked, type: always }}]
clusters:
  - {{ name: eu1, addresses: [203.0.113.10, \"2001:db8::10\"] }}
  - {{ name: us1, addresses: [203.0.113.20] }}
pools: [{{ name: shop, policy: weighted, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish:
  owner: us
  providers:
    - name: bind
      zones: [pub.example]
      rfc2136: {{ server: \"{server}\", tsig: {{ name: fairway, secret: {{ file: tsig.secret }} }} }}
      resync: 10s
      aliases:
        - {{ name: shop.pub.example, of: shop.gslb.example, as: addresses }}
        - {{ name: lead.pub.example, of: shop.gslb.example }}
        - {{ name: www.pub.example, of: shop.gslb.example }}
      delegations:
        - {{ zone: gslb.pub.example, servers: [{{ name: ns1.gslb.pub.example, addresses: [203.0.113.53] }}] }}
        - {{ zone: sub.pub.example }}
    - name: hangs
      zones: [pub.example]
      rfc2136: {{ server: \"{hanging}\" }}
      aliases: [{{ name: shop.pub.example, of: shop.gslb.example }}]
    - name: file
      zones: [pub.example]
      file: pub.zone
      auto: false
      aliases: [{{ name: shop.pub.example, of: shop.gslb.example, as: addresses }}]
"
    )
}

fn answers(server: SocketAddr, name: &str, rtype: Rtype) -> usize {
    let reply = ask(server, &Query::new(name.parse().expect("a name"), rtype).encode());
    reply.and_then(|reply| Message::decode(&reply).ok()).map_or(0, |reply| reply.sections[0].len())
}

/// Delegation of our zone there: its name server, and its DS.
const SUB: &str = "\
$ORIGIN sub.pub.example.
$TTL 300
@ SOA ns1 admin 1 3600 600 86400 60
@ NS ns1
@ CDS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766
ns1 A 203.0.113.54
ns1 AAAA 2001:db8::54
www A 203.0.113.80
";

/// Returns NS and glue of a server's referral, sorted; empty if there is no referral.
fn referral(server: SocketAddr, name: &str) -> Vec<String> {
    let mut dig = Command::new(program("dig", "dig"));
    dig.args(["+norecurse", "+noall", "+answer", "+authority", "+additional", "+tries=1", "+time=2"]);
    dig.args(["@127.0.0.1", "-p", &server.port().to_string(), name, "A"]);
    let output = dig.output().expect("dig runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (owner, rtype) = (words.next()?, words.nth(2)?);
        let rest: Vec<_> = words.collect();
        ["NS", "A", "AAAA"].contains(&rtype).then(|| format!("{owner} {rtype} {}", rest.join(" ")))
    };
    let mut lines: Vec<_> = text.lines().filter_map(line).collect();
    lines.sort();
    lines
}

#[test]
fn served_addresses_are_published_and_follow_health() {
    let server = start(bind);
    // It accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let hanging = silent.local_addr().expect("it is bound");
    let fairway = Fairway::start(&config(server.at, hanging), &[("tsig.secret", SECRET), ("sub.zone", SUB)]);
    let published = |name: &str, rtype, count| answers(server.at, name, rtype) == count;
    wait_until("the addresses are there", LIMIT, || published("shop.pub.example.", Rtype::A, 2));
    wait_until("both families and the alias", LIMIT, || {
        published("shop.pub.example.", Rtype::AAAA, 1) && published("lead.pub.example.", Rtype::CNAME, 1)
    });
    assert!(published("a-shop.pub.example.", Rtype::TXT, 1), "the registry's record is beside it");
    assert!(published("www.pub.example.", Rtype::A, 1), "somebody else's record stays");

    wait_until("the zone of ours is delegated", LIMIT, || !referral(server.at, "www.sub.pub.example").is_empty());
    assert_eq!(
        referral(server.at, "www.sub.pub.example"),
        [
            "ns1.sub.pub.example. A 203.0.113.54",
            "ns1.sub.pub.example. AAAA 2001:db8::54",
            "sub.pub.example. NS ns1.sub.pub.example.",
        ]
    );
    // A server includes DS in referrals of signed zones only; it answers a query for DS.
    assert!(published("sub.pub.example.", Rtype::DS, 1));

    // One cluster is drained: its address disappears. Both: the last one stays.
    let taken = |cluster: &str| {
        fairway.command(&["override", "add", cluster, "down", "--reason", "test", "--for", "1h", "--yes"])
    };
    assert!(taken("us1").status.success());
    wait_until("the address of us1 goes", LIMIT, || published("shop.pub.example.", Rtype::A, 1));
    assert!(taken("eu1").status.success());
    let syncs = |provider: &str| fairway.metric("fairway_publish_syncs_total", provider);
    let before = syncs("bind");
    wait_until("another sync", LIMIT, || syncs("bind") > before);
    assert!(published("shop.pub.example.", Rtype::A, 1), "a name is never published empty");

    let status = fairway.command(&["publish", "status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("www.pub.example.") && text.contains("CNAME and other records"), "{text}");
    let (code, state) = http_get(fairway.http, "/v1/publishing").expect("it answers");
    assert!(code == 200 && state.contains("\"status\":\"ok\""), "{state}");

    // The publisher that waits for an operator.
    let plan = fairway.command(&["publish", "plan", "file", "--json"]);
    let text = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(text.contains("\"create\": []"), "held, since everything is down: {text}");
    assert!(fairway.command(&["publish", "apply", "nowhere"]).status.code() == Some(1));
    assert!(!fairway.folder.path().join("pub.zone").exists());
    let list = String::from_utf8_lossy(&fairway.command(&["override", "list", "--json"]).stdout).into_owned();
    let ids = list.lines().filter_map(|line| line.trim().strip_prefix("\"id\": \"")?.strip_suffix("\","));
    for id in ids {
        assert!(fairway.command(&["override", "remove", id]).status.success());
    }
    wait_until("both are back", LIMIT, || published("shop.pub.example.", Rtype::A, 2));
    let applied = fairway.command(&["publish", "apply", "file"]);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stdout));
    let text = fs::read_to_string(fairway.folder.path().join("pub.zone")).expect("it is written");
    assert!(text.contains("shop.pub.example.\t30\tIN\tA\t203.0.113.10\n"), "{text}");
    drop(silent);
}
