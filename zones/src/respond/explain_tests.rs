//! `_explain.NAME`: explanations for allowed clients, and unchanged answers for all others.

use std::{net::IpAddr, sync::Arc};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, Demand, DesiredState, Health, HealthStatus, Member, Name, Network, Policy, Pool,
    PoolName, Rtype, Shares, SlotTable, SteeredName, ZoneSpec,
};
use fairway_zonefile::read_zone;

use crate::{
    client::{Client, Draw, Now, Request, Transport},
    compile, decode,
    explain::question,
    respond::{Outcome, respond},
    runtime::RuntimeState,
    serving::ServingState,
    snapshot::ServerOptions,
    steer::LoadGroup,
    tally::{Tallies, Tally},
};

const ZONE: &[u8] = b"$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\nwww IN A 192.0.2.1\n\
    _explain.said IN TXT mine\n*.txt IN TXT star\n";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Returns a pool with this number of members, every fourth one down, and its names. `c1` accepts little.
fn serving(explain: &[&str], members: u16, adjust: impl FnOnce(&mut Pool)) -> ServingState {
    let mut desired = DesiredState::default();
    let policy = Policy { load: true, ..Policy::FAILOVER };
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), policy);
    for number in 0..members {
        let [high, low] = number.to_be_bytes();
        let cluster = ClusterName::new(&format!("c{number}")).unwrap();
        pool.members.push(Member::new(cluster.clone()));
        let reuse = Cluster {
            dns_name: Some(name(&format!("c{number}.other.test"))),
            capacity: Some(1_000),
            ..Cluster::new(cluster.clone(), vec![[10, 0, high, low].into()])
        };
        desired.clusters.insert(cluster, reuse);
    }
    adjust(&mut pool);
    // A name that is an alias has no text of its own.
    let both = if pool.mode == AnswerMode::Cname { "other.a.test" } else { "*.txt.a.test" };
    for owner in ["shop.a.test", "said.a.test", "*.wild.a.test", both] {
        let steered = SteeredName { name: name(owner), pool: pool.name.clone(), ttl: None };
        desired.names.insert(steered.name.clone(), steered);
    }
    desired.pools.insert(pool.name.clone(), pool);
    let zone = ZoneSpec::new(name("a.test"));
    desired.zones.insert(zone.name.clone(), zone);
    let explain: Vec<Network> = explain.iter().map(|text| text.parse().unwrap()).collect();
    let (zone, _) = read_zone(&name("a.test"), "a.zone", ZONE, &mut |_| Err("none".into()));
    let (snapshot, _) =
        compile(&desired, &[zone], &ServerOptions { explain, ..ServerOptions::default() }, None).unwrap();
    let status = |number: u32| if number % 4 == 3 { HealthStatus::Down } else { HealthStatus::Up };
    let runtime = RuntimeState::new(&snapshot, |target| Health::new(status(target.0), None));
    let table = |group: &LoadGroup| {
        let costs: Vec<_> = group.costs_of(0).filter_map(|(name, cost)| Some((name.clone(), cost?))).collect();
        let third = costs.iter().position(|(name, _)| name.to_string() == "c2").map_or(SlotTable::NONE, |at| at as u16);
        SlotTable { costs, slots: vec![third; Demand::SLOTS] }
    };
    let tables = snapshot.load_classes().groups().iter().map(table).collect();
    let shares = Shares { epoch: 9, tables, ..Shares::default() };
    let runtime = runtime.with_shares(&snapshot, &Arc::new(shares));
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

struct Asked {
    octets: Vec<u8>,
    tallies: Tallies,
}

fn ask(serving: &ServingState, from: &str, owner: &str, subnet: Option<&str>, transport: Transport) -> Asked {
    let address: IpAddr = from.parse().unwrap();
    let packet = question(&name(owner), Rtype::TXT, subnet.map(|text| text.parse().unwrap()));
    let (mut out, tally) = (vec![0; 65_535], Tally::default());
    let client = Client::new(address, 4242, transport);
    let Outcome::Reply(length) =
        respond(serving, &Request { client: &client, packet: &packet, now: Now(1), draw: Draw(7) }, &tally, &mut out)
    else {
        panic!("no reply")
    };
    let mut tallies = Tallies::default();
    tally.add_to(&mut tallies);
    Asked { octets: out[..length].to_vec(), tallies }
}

/// Returns the texts of the answer and their TTLs.
fn texts(serving: &ServingState, from: &str, owner: &str, subnet: Option<&str>) -> Vec<String> {
    let message = decode(&ask(serving, from, owner, subnet, Transport::Tcp).octets).unwrap();
    assert!(message.answer.iter().all(|record| record.ttl.secs() == 0 && record.owner == name(owner)));
    message.answer.into_iter().map(|record| record.rdata).collect()
}

#[test]
fn allowed_client_gets_explanation_per_member() {
    let serving = serving(&["192.0.2.0/24"], 4, |_| {});
    let texts = texts(&serving, "192.0.2.9", "_explain.shop.a.test", Some("198.51.100.0/24"));
    let (snapshot, runtime) = (serving.snapshot.id(), serving.runtime.id());
    assert_eq!(
        texts,
        [
            format!("\"snapshot {snapshot:016x}, runtime state {runtime:016x}, shares of epoch 9\""),
            "\"pool shop, policy [load, failover], client 198.51.100.0/24\"".to_owned(),
            "\"answer: c2; live members; slot: load control assigns the client's slot to this cluster\"".to_owned(),
            "\"c2 in: chosen, 256 of 256 slots\"".to_owned(),
            "\"c0 out: load control assigns this client to another cluster, 0 of 256 slots\"".to_owned(),
            "\"c1 out: load control assigns this client to another cluster, 0 of 256 slots\"".to_owned(),
            "\"c3 out: down, 0 of 256 slots\"".to_owned(),
        ]
    );
}

#[test]
fn explained_client_is_the_answered_client() {
    let serving = serving(&["192.0.2.0/24"], 4, |pool| pool.policy = Policy::WEIGHTED);
    for third in 0..40 {
        let subnet = format!("198.51.{third}.0/24");
        let texts = texts(&serving, "192.0.2.9", "_Explain.SHOP.a.test", Some(&subnet));
        let packet = question(&name("shop.a.test"), Rtype::A, Some(subnet.parse().unwrap()));
        let mut out = vec![0; 65_535];
        let client = Client::new([192, 0, 2, 9].into(), 4242, Transport::Udp);
        let outcome = respond(
            &serving,
            &Request { client: &client, packet: &packet, now: Now(1), draw: Draw(0) },
            &Tally::default(),
            &mut out,
        );
        let Outcome::Reply(length) = outcome else { panic!("no reply") };
        let answered = decode(&out[..length]).unwrap().answer[0].rdata.clone();
        let chosen = answered.rsplit('.').next().unwrap();
        assert!(texts[2].contains(&format!("answer: c{chosen};")), "{answered}: {texts:?}");
        assert!(texts[3].contains(&format!("c{chosen} in: chosen")), "{texts:?}");
    }
}

#[test]
fn other_clients_get_unchanged_answers() {
    let (off, on) = (serving(&[], 4, |_| {}), serving(&["192.0.2.0/24", "2001:db8::/32"], 4, |_| {}));
    let owners = "_explain.shop _explain.said _explain.x.wild _explain.x.txt _explain.www _explain.nx _explain \
        x._explain.shop __explain.shop _explain.wild _explain._explain.shop shop";
    for owner in owners.split_whitespace().map(|label| format!("{label}.a.test")) {
        for from in ["192.0.3.1", "2001:db9::1", "127.0.0.1"] {
            for transport in [Transport::Udp, Transport::Tcp] {
                let [off, on] = [&off, &on].map(|serving| ask(serving, from, &owner, Some("192.0.2.0/24"), transport));
                assert_eq!(off.octets, on.octets, "{owner} from {from}");
                assert_eq!(off.tallies, on.tallies);
            }
        }
    }
    // Names with data in the zone or without a steered name are not explained.
    for owner in ["_explain.said", "_explain.x.txt", "_explain.www", "_explain.nx", "_explain.wild", "x._explain.shop"]
    {
        let owner = format!("{owner}.a.test");
        let [off, on] = [&off, &on].map(|serving| ask(serving, "192.0.2.9", &owner, None, Transport::Udp));
        assert_eq!(off.octets, on.octets, "{owner}");
    }
}

#[test]
fn wildcard_and_alias_are_explained() {
    let serving = serving(&["2001:db8::/32"], 4, |pool| pool.mode = AnswerMode::Cname);
    for owner in ["_explain.shop.a.test", "_explain.any.wild.a.test"] {
        assert!(texts(&serving, "2001:db8::9", owner, None)[2].contains("answer: c"), "{owner}");
    }
}

#[test]
fn largest_pool_is_explained_in_part_and_truncated_over_udp() {
    let serving = serving(&["192.0.2.9"], 255, |_| {});
    let texts = texts(&serving, "192.0.2.9", "_explain.shop.a.test", None);
    assert_eq!(texts.len(), 3 + 60 + 1);
    assert_eq!(texts[63], "\"and 195 more members; fairway explain shows all\"");
    let udp = ask(&serving, "192.0.2.9", "_explain.shop.a.test", None, Transport::Udp);
    assert_eq!(udp.octets[2] & 2, 2, "TC");
    assert!(udp.octets.len() <= 512);
    assert!(udp.tallies.answers.iter().all(|count| *count == 0), "an explanation is no answer of a pool");
}

#[test]
fn networks_past_the_maximum_are_ignored() {
    let mut networks = vec!["203.0.113.0/24"; ServerOptions::EXPLAIN_MAX];
    networks.push("192.0.2.0/24");
    let serving = serving(&networks, 4, |_| {});
    let rcode = |from| decode(&ask(&serving, from, "_explain.shop.a.test", None, Transport::Udp).octets).unwrap().rcode;
    assert_eq!((rcode("203.0.113.1"), rcode("192.0.2.9")), ("NOERROR", "NXDOMAIN"));
}

/// Returns the response to a query for addresses, and code and text of its extended error.
fn noted(
    serving: &ServingState,
    from: &str,
    rtype: Rtype,
    payload: Option<u16>,
    transport: Transport,
) -> (Vec<u8>, Option<(u16, String)>) {
    let mut packet = question(&name("shop.a.test"), rtype, Some("198.51.100.0/24".parse().unwrap()));
    let question_end = 12 + name("shop.a.test").as_wire().len() + 4;
    match payload {
        // Behind the root's octet and the type.
        Some(payload) => packet[question_end + 3..question_end + 5].copy_from_slice(&payload.to_be_bytes()),
        None => {
            packet.truncate(question_end);
            packet[11] = 0;
        }
    }
    let client = Client::new(from.parse().unwrap(), 4242, transport);
    let mut out = vec![0; 65_535];
    let Outcome::Reply(length) = respond(
        serving,
        &Request { client: &client, packet: &packet, now: Now(1), draw: Draw(7) },
        &Tally::default(),
        &mut out,
    ) else {
        panic!("no reply")
    };
    out.truncate(length);
    // The option is the last one of the last record, OPT: 15, its length, a code, a text that begins with `snapshot`.
    let at = out.windows(8).position(|octets| octets == b"snapshot");
    let error = at.map(|at| {
        assert_eq!(out[at - 6..at - 4], [0, 15]);
        assert_eq!(usize::from(u16::from_be_bytes([out[at - 4], out[at - 3]])), 2 + length - at);
        (u16::from_be_bytes([out[at - 2], out[at - 1]]), String::from_utf8(out[at..].to_vec()).unwrap())
    });
    (out, error)
}

#[test]
fn allowed_client_with_edns_gets_note_in_answer() {
    let on = serving(&["192.0.2.0/24"], 4, |_| {});
    let (octets, error) = noted(&on, "192.0.2.9", Rtype::A, Some(1232), Transport::Udp);
    let (snapshot, runtime) = (on.snapshot.id(), on.runtime.id());
    let text = format!(
        "snapshot {snapshot:016x}, runtime state {runtime:016x}; location class 0 of 1, client 198.51.100.0/24, scope 24; pool shop: live members: c2"
    );
    assert_eq!(error, Some((0, text)));
    assert_eq!(decode(&octets).unwrap().answer[0].rdata, "10.0.0.2");
    let down = serving(&["192.0.2.0/24"], 1, |pool| pool.down = fairway_model::DownAnswer::Refuse);
    let changes = [(crate::TargetIndex(0), Health::new(HealthStatus::Down, None))];
    let down = ServingState { runtime: Arc::new(down.runtime.with(&down.snapshot, &changes)), ..down };
    let (code, text) = noted(&down, "192.0.2.9", Rtype::A, Some(1232), Transport::Udp).1.unwrap();
    assert_eq!((code, text.ends_with("pool shop: down answer: no member is live")), (22, true), "{text}");
}

#[test]
fn other_client_gets_no_note() {
    let (off, on) = (serving(&[], 4, |_| {}), serving(&["192.0.2.0/24"], 4, |_| {}));
    for transport in [Transport::Udp, Transport::Tcp] {
        for rtype in [Rtype::A, Rtype::AAAA, Rtype::TXT] {
            let octets = |serving, from, payload| noted(serving, from, rtype, payload, transport).0;
            assert_eq!(octets(&off, "192.0.3.1", Some(1232)), octets(&on, "192.0.3.1", Some(1232)));
            assert_eq!(octets(&off, "192.0.2.9", None), octets(&on, "192.0.2.9", None), "without EDNS there is no OPT");
        }
    }
    assert_eq!(noted(&on, "192.0.2.9", Rtype::TXT, Some(1232), Transport::Udp).1, None, "a type that no pool answers");
}

#[test]
fn note_never_displaces_answer() {
    // Eight addresses take 16 octets each. The note of about 150 octets fits or not, and the answer stays the same.
    let of = |explain: &[&str], members| {
        let serving = serving(explain, members, |pool| (pool.policy, pool.answers) = (Policy::WEIGHTED, 8));
        ServingState {
            runtime: Arc::new(RuntimeState::new(&serving.snapshot, |_| Health::new(HealthStatus::Up, None))),
            ..serving
        }
    };
    let (off, on) = (of(&[], 8), of(&["192.0.2.9"], 8));
    for payload in [512, 600, 1232] {
        let [(plain, _), (explained, error)] =
            [&off, &on].map(|serving| noted(serving, "192.0.2.9", Rtype::A, Some(payload), Transport::Udp));
        assert!(explained.len() <= usize::from(payload), "{} of {payload}", explained.len());
        let [plain, explained] = [plain, explained].map(|octets| decode(&octets).unwrap());
        assert_eq!((plain.answer, plain.rcode), (explained.answer, explained.rcode));
        assert!(error.is_some());
    }
    // Behind a question of 255 octets the note does not fit and is omitted.
    let label = "x".repeat(60);
    let owner = format!("{label}.{label}.{label}.{}.wild.a.test", &label[..46]);
    let answer = |serving: &ServingState| {
        let packet = question(&name(&owner), Rtype::A, Some("198.51.100.0/24".parse().unwrap()));
        let (client, mut out) = (Client::new([192, 0, 2, 9].into(), 4242, Transport::Udp), vec![0; 512]);
        let request = Request { client: &client, packet: &packet, now: Now(1), draw: Draw(7) };
        let outcome = respond(serving, &request, &Tally::default(), &mut out);
        out[..outcome.length().expect("a reply")].to_vec()
    };
    assert_eq!(decode(&answer(&off)).unwrap().answer.len(), 8);
    assert_eq!(answer(&off), answer(&on));
}
