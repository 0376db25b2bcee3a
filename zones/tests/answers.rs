//! Answers as a resolver sees them, from [`fairway_zones::respond`]. The recipes of the integration crate test single
//! rules. This file tests limits of the writer, counters, samples and explanations.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
use std::{net::Ipv4Addr, sync::Arc};

use fairway_model::{
    Cluster, ClusterName, DesiredState, Health, HealthStatus, Member, Name, OverrideAction, Policy, Pool, PoolName,
    Rtype, SteeredName, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{
    Client, Draw, Dropped, NodeKind, Now, Outcome, Request, RuntimeState, ServerOptions, ServingState, Tallies, Tally,
    Transport, compile, decode, explain, respond,
};

const ZONE: &str = "\
$ORIGIN example.test.
$TTL 300
@ IN SOA ns1 hostmaster 7 3600 600 86400 60
@ IN NS ns1
ns1 IN A 192.0.2.53
www IN A 192.0.2.1
www IN A 192.0.2.2
www IN TXT \"hello\"
alias IN CNAME www
far IN CNAME www.elsewhere.test.
loop1 IN CNAME loop2
loop2 IN CNAME loop1
a.b.ent IN A 192.0.2.3
*.wild IN A 192.0.2.4
sub IN NS ns.sub
sub IN NS ns.other
ns.sub IN A 192.0.2.5
ns.other IN A 192.0.2.6
sub IN DS 1 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
old IN DNAME new
x.new IN A 192.0.2.7
_sip._udp IN SRV 0 0 5060 www
shop IN TXT \"beside the pool\"
";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn desired() -> DesiredState {
    let zone = name("example.test");
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::FAILOVER);
    let mut desired = DesiredState { zones: [(zone.clone(), ZoneSpec::new(zone))].into(), ..DesiredState::default() };
    for (cluster, address) in [("eu1", "203.0.113.1"), ("us1", "203.0.113.2")] {
        let cluster = ClusterName::new(cluster).unwrap();
        pool.members.push(Member::new(cluster.clone()));
        let addresses = vec![address.parse().unwrap()];
        let reuse = Cluster::new(cluster.clone(), addresses);
        desired.clusters.insert(cluster, reuse);
    }
    for steered in ["shop.example.test", "*.pool.example.test"] {
        let steered = SteeredName { name: name(steered), pool: pool.name.clone(), ttl: None };
        desired.names.insert(steered.name.clone(), steered);
    }
    desired.pools.insert(pool.name.clone(), pool);
    desired
}

fn serving(text: &str, desired: &DesiredState, health: Health) -> ServingState {
    let (zone, faults) = read_zone(&name("example.test"), "test.zone", text.as_bytes(), &mut |_| Err("none".into()));
    assert!(faults.iter().all(|f| !f.is_error()), "{faults:?}");
    let (snapshot, _) = compile(desired, &[zone], &ServerOptions::default(), None).unwrap();
    let runtime = RuntimeState::new(&snapshot, |_| health);
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

fn up() -> ServingState {
    serving(ZONE, &desired(), Health::new(HealthStatus::Up, None))
}

fn packet(owner: &str, rtype: Rtype, opt: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!opt.is_empty())];
    packet.extend_from_slice(name(owner).as_wire());
    packet.extend_from_slice(&rtype.0.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet.extend_from_slice(opt);
    packet
}

fn client(transport: Transport) -> Client {
    Client { address: "198.51.100.7".parse().unwrap(), port: 4242, transport }
}

fn send(serving: &ServingState, packet: &[u8], transport: Transport, tally: &Tally) -> Vec<u8> {
    let mut out = vec![0xee; 65_535];
    let request = Request { client: &client(transport), packet, now: Now(1), draw: Draw(0) };
    let length = respond(serving, &request, tally, &mut out).length();
    out[..length.unwrap_or(0)].to_vec()
}

/// Returns the answer as one line with the sections: `RCODE aa | answer | authority | additional`.
fn ask(serving: &ServingState, owner: &str, rtype: Rtype) -> String {
    let reply = send(serving, &packet(owner, rtype, &[]), Transport::Udp, &Tally::default());
    let read = decode(&reply).expect("well-formed");
    let section = |records: &[fairway_zones::ExplainedRecord]| {
        records
            .iter()
            .map(|r| format!("{} {} {} {}", r.owner, r.ttl.secs(), r.rtype, r.rdata))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let aa = if read.authoritative { " aa" } else { "" };
    format!(
        "{}{aa} | {} | {} | {}",
        read.rcode,
        section(&read.answer),
        section(&read.authority),
        section(&read.additional)
    )
}

const SOA: &str = "example.test. 60 SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60";
/// With the TTL of the pool, which is smaller.
const POOL_SOA: &str = "example.test. 30 SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60";

#[test]
fn records_of_zone_are_answered() {
    let serving = up();
    let www = "www.example.test. 300 A 192.0.2.1, www.example.test. 300 A 192.0.2.2";
    assert_eq!(ask(&serving, "www.example.test", Rtype::A), format!("NOERROR aa | {www} |  | "));
    assert_eq!(ask(&serving, "WWW.example.TEST", Rtype::TXT), "NOERROR aa | WWW.example.TEST. 300 TXT \"hello\" |  | ");
    let alias = format!("NOERROR aa | alias.example.test. 300 CNAME www.example.test., {www} |  | ");
    assert_eq!(ask(&serving, "alias.example.test", Rtype::A), alias);
    assert_eq!(
        ask(&serving, "_sip._udp.example.test", Rtype::SRV),
        format!("NOERROR aa | _sip._udp.example.test. 300 SRV 0 0 5060 www.example.test. |  | {www}")
    );
}

#[test]
fn missing_names_are_denied_with_soa() {
    let serving = up();
    assert_eq!(ask(&serving, "nope.example.test", Rtype::A), format!("NXDOMAIN aa |  | {SOA} | "));
    assert_eq!(ask(&serving, "www.example.test", Rtype::AAAA), format!("NOERROR aa |  | {SOA} | "));
    assert_eq!(ask(&serving, "ent.example.test", Rtype::A), format!("NOERROR aa |  | {SOA} | "));
    assert_eq!(ask(&serving, "x.b.ent.example.test", Rtype::A), format!("NXDOMAIN aa |  | {SOA} | "));
    assert_eq!(ask(&serving, "elsewhere.test", Rtype::A), "REFUSED |  |  | ");
}

#[test]
fn chain_ends_are_answered_with_what_was_found() {
    let serving = up();
    assert_eq!(
        ask(&serving, "far.example.test", Rtype::A),
        "NOERROR aa | far.example.test. 300 CNAME www.elsewhere.test. |  | "
    );
    assert!(
        ask(&serving, "loop1.example.test", Rtype::A).starts_with("NOERROR aa | loop1.example.test. 300 CNAME loop2")
    );
}

#[test]
fn wildcards_delegations_and_dnames_are_followed() {
    let serving = up();
    assert_eq!(
        ask(&serving, "a.b.wild.example.test", Rtype::A),
        "NOERROR aa | a.b.wild.example.test. 300 A 192.0.2.4 |  | "
    );
    assert_eq!(
        ask(&serving, "x.y.sub.example.test", Rtype::A),
        "NOERROR |  | sub.example.test. 300 NS ns.sub.example.test., sub.example.test. 300 NS ns.other.example.test. | \
         ns.sub.example.test. 300 A 192.0.2.5, ns.other.example.test. 300 A 192.0.2.6"
    );
    assert!(ask(&serving, "sub.example.test", Rtype::DS).starts_with("NOERROR aa | sub.example.test. 300 DS 1 13 2"));
    assert_eq!(
        ask(&serving, "x.old.example.test", Rtype::A),
        "NOERROR aa | old.example.test. 300 DNAME new.example.test., x.old.example.test. 300 CNAME x.new.example.test., \
         x.new.example.test. 300 A 192.0.2.7 |  | "
    );
}

#[test]
fn pool_answers_addresses_and_zone_file_the_rest() {
    let serving = up();
    assert_eq!(ask(&serving, "shop.example.test", Rtype::A), "NOERROR aa | shop.example.test. 30 A 203.0.113.1 |  | ");
    assert_eq!(
        ask(&serving, "shop.example.test", Rtype::TXT),
        "NOERROR aa | shop.example.test. 300 TXT \"beside the pool\" |  | "
    );
    assert_eq!(ask(&serving, "shop.example.test", Rtype::AAAA), format!("NOERROR aa |  | {POOL_SOA} | "));
    assert_eq!(
        ask(&serving, "any.pool.example.test", Rtype::A),
        "NOERROR aa | any.pool.example.test. 30 A 203.0.113.1 |  | "
    );
}

#[test]
fn health_transition_changes_answer_without_rebuild() {
    let mut serving = up();
    let runtime = serving
        .runtime
        .with(&serving.snapshot, &[(fairway_zones::TargetIndex(0), Health::new(HealthStatus::Down, None))]);
    serving.runtime = Arc::new(runtime);
    assert_eq!(ask(&serving, "shop.example.test", Rtype::A), "NOERROR aa | shop.example.test. 30 A 203.0.113.2 |  | ");
}

#[test]
fn drained_pool_is_no_data_and_never_nxdomain() {
    let serving = serving(ZONE, &desired(), Health::new(HealthStatus::Up, Some(OverrideAction::Drain)));
    assert_eq!(ask(&serving, "shop.example.test", Rtype::A), format!("NOERROR aa |  | {POOL_SOA} | "));
}

#[test]
fn address_record_at_steered_name_is_rejected_with_location() {
    let text = format!("{ZONE}shop IN A 192.0.2.9\n");
    let (zone, _) = read_zone(&name("example.test"), "test.zone", text.as_bytes(), &mut |_| Err("none".into()));
    let faults = compile(&desired(), &[zone], &ServerOptions::default(), None).unwrap_err();
    assert_eq!(faults.len(), 1);
    let line = text.lines().count();
    assert!(
        faults[0].to_string().starts_with(&format!("test.zone:{line}:1: shop.example.test. A is in the zone file"))
    );
}

#[test]
fn counters_add_up_and_samples_are_kept() {
    let (serving, tally) = (up(), Tally::default());
    tally.sample_every(2);
    for owner in ["shop.example.test", "www.example.test", "nope.example.test", "elsewhere.test"] {
        send(&serving, &packet(owner, Rtype::A, &[]), Transport::Udp, &tally);
    }
    let sum = sums(&tally);
    assert_eq!((sum.rcodes[0], sum.rcodes[3], sum.rcodes[5], sum.drops), (2, 1, 1, [0; 6]));
    assert_eq!(sum.answers[1], 1);
    assert_eq!(serving.snapshot.slots()[0].cluster.as_str(), "eu1");
    let mut samples = vec![];
    tally.take_samples(|s| samples.push(s));
    assert_eq!(samples.len(), 2);
    assert!(samples[0].response[12..].starts_with(b"\x03www"));
}

#[test]
fn dropped_packets_are_counted_by_reason() {
    let (serving, tally) = (up(), Tally::default());
    let question = packet("www.example.test", Rtype::A, &[]);
    let mut response = question.clone();
    response[2] |= 0x80;
    let send = |packet: &[u8], port: u16, room: usize| {
        let client = Client::new(Ipv4Addr::LOCALHOST.into(), port, Transport::Udp);
        respond(
            &serving,
            &Request { client: &client, packet, now: Now(1_700_000_000), draw: Draw(1) },
            &tally,
            &mut vec![0; room],
        )
    };
    let mut noise = question.clone();
    noise.pop();
    let mut expected = [0; Dropped::ALL.len()];
    for (packet, port, room, why) in [
        (&question[..11], 53, 1232, Dropped::Short),
        (&[][..], 0, 1232, Dropped::Short),
        (&response, 53, 1232, Dropped::Response),
        (&response, 0, 1232, Dropped::Response),
        (&question, 0, 1232, Dropped::PortZero),
        (&question, 53, 511, Dropped::NoRoom),
        (&noise, 19, 1232, Dropped::ServicePort),
    ] {
        assert_eq!(send(packet, port, room), Outcome::Drop, "{why:?}");
        expected[why as usize] += 1;
        assert_eq!(sums(&tally).drops, expected, "{why:?}");
    }
    assert!(matches!(send(&question, 53, 1232), Outcome::Reply(_)));
    assert!(matches!(send(&question, 19, 1232), Outcome::Reply(_)));
    assert!(matches!(send(&noise, 53, 1232), Outcome::ErrorReply(_)));
    assert_eq!(sums(&tally).drops, expected);
}

/// Returns the counters of one thread. Each received packet was answered or dropped.
fn sums(tally: &Tally) -> Tallies {
    let mut sum = Tallies::default();
    tally.add_to(&mut sum);
    let dropped: u64 = sum.drops.iter().sum();
    assert_eq!(sum.queries.iter().sum::<u64>(), sum.rcodes.iter().sum::<u64>() + dropped);
    sum
}

#[test]
fn large_answer_is_truncated_over_udp_and_whole_over_tcp() {
    let many: String = (0..200).map(|i| format!("big IN A 10.0.{}.{}\n", i / 250, i % 250)).collect();
    let serving = serving(&format!("{ZONE}{many}"), &desired(), Health::PENDING);
    let question = packet("big.example.test", Rtype::A, &[]);
    let udp = send(&serving, &question, Transport::Udp, &Tally::default());
    assert_eq!((udp.len(), udp[2] & 2, udp[7]), (question.len(), 2, 0));
    let tcp = send(&serving, &question, Transport::Tcp, &Tally::default());
    assert_eq!((decode(&tcp).unwrap().answer.len(), tcp[2] & 2), (200, 0));
}

#[test]
fn explanation_names_zone_node_pool_and_ttl() {
    let serving = up();
    let explained = explain(&serving, &name("x.pool.example.test"), Rtype::A, Some("192.0.2.0/24".parse().unwrap()));
    let wildcard = NodeKind::Wildcard { name: name("*.pool.example.test"), steered: true };
    assert_eq!(
        (explained.message.rcode, &explained.steps[0].node, explained.message.scope),
        ("NOERROR", &wildcard, Some(0))
    );
    assert_eq!(explained.steps[0].zone, Some(name("example.test")));
    assert_eq!(explained.steps[0].pool.as_ref().unwrap().members.len(), 2);
    assert_eq!(explained.ttl_reason, "30 s: of pool shop");
    let negative = explain(&serving, &name("nope.example.test"), Rtype::A, None);
    assert_eq!(negative.steps[0].node, NodeKind::Nothing);
}
