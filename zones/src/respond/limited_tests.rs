//! A flood with a forged source next to clients that show that they receive.

use std::sync::Arc;

use fairway_model::{DesiredState, Health, HealthStatus, Name, Network, Secret, ZoneSpec};
use fairway_zonefile::read_zone;

use super::*;
use crate::{
    client::{Client, Now, Transport},
    compile,
    cookie::{CookieKey, CookieKeys},
    proven::ProvenNetworks,
    rate_limit::RateLimits,
    runtime::RuntimeState,
    snapshot::ServerOptions,
    tally::{LimitCounts, Tallies},
};

const ZONE: &str = "$TTL 60\n@ SOA ns1 hostmaster 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.53\nwww A 192.0.2.1\nwww A 192.0.2.2\n\
                    www A 192.0.2.3\n*.wild A 192.0.2.4\nsub NS ns.sub\nns.sub A 192.0.2.5\nalias CNAME www\n";
const VICTIM: &str = "198.51.100.7";
/// OPT with a client cookie of eight octets.
const WITH_COOKIE: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
const PLAIN_OPT: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];

/// A server with one worker.
struct Server {
    serving: ServingState,
    tally: Tally,
    proven: Arc<ProvenNetworks>,
    rates: RateTable,
    draw: u64,
}

impl Server {
    fn new(limits: RateLimits) -> Self {
        let origin: Name = "example.test".parse().unwrap();
        let (zone, errors) = read_zone(&origin, "test.zone", ZONE.as_bytes(), &mut |_| Err("none".into()));
        assert!(errors.iter().all(|error| !error.is_error()), "{errors:?}");
        let zones = [(origin.clone(), ZoneSpec::new(origin))].into();
        let desired = DesiredState { zones, ..DesiredState::default() };
        let key = CookieKey::from_hex(&Secret::new("000102030405060708090a0b0c0d0e0f"));
        let cookies = CookieKeys::Listed(key.into_iter().collect());
        let options = ServerOptions { cookies, rate_limits: Some(limits), ..ServerOptions::default() };
        let (snapshot, _) = compile(&desired, &[zone], &options, None).unwrap();
        let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
        let serving = ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) };
        let proven = Arc::<ProvenNetworks>::default();
        Self { serving, tally: Tally::default(), rates: RateTable::new(Arc::clone(&proven), 1), proven, draw: 0 }
    }

    fn ask(&mut self, from: &str, packet: &[u8]) -> Option<Vec<u8>> {
        self.draw += 1;
        let client = Client::new(from.parse().unwrap(), 4242, Transport::Udp);
        let request = Request { client: &client, packet, now: Now(1_700_000_000), draw: Draw(self.draw) };
        let query = Query::located(&self.serving.snapshot, packet);
        let mut out = [0; 1232];
        let outcome = write_limited(&self.serving, &request, &query, &self.tally, &self.rates, &mut out);
        outcome.length().map(|length| out[..length].to_vec())
    }

    fn counts(&self) -> Tallies {
        let mut counts = Tallies::default();
        self.tally.add_to(&mut counts);
        counts
    }
}

fn packet(owner: &str, rtype: Rtype, opt: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!opt.is_empty())];
    packet.extend_from_slice(owner.parse::<Name>().unwrap().as_wire());
    packet.extend_from_slice(&rtype.0.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet.extend_from_slice(opt);
    packet
}

fn is_truncated(response: &[u8]) -> bool {
    response[2] & 2 != 0
}

#[test]
fn flood_gets_its_rate_and_then_short_truncated_responses_or_none() {
    let mut server = Server::new(RateLimits::default());
    let query = packet("www.example.test", Rtype::A, PLAIN_OPT);
    let responses: Vec<_> = (0..10_000).map(|_| server.ask(VICTIM, &query)).collect();
    let (whole, over) = responses.split_at(50);
    assert!(whole.iter().flatten().filter(|response| !is_truncated(response)).count() == 50);
    let truncated: Vec<_> = over.iter().flatten().collect();
    assert!(truncated.iter().all(|response| is_truncated(response) && response.len() == query.len()));
    // One in two.
    assert!((4_500..5_500).contains(&truncated.len()), "{} truncated", truncated.len());
    let counts = server.counts();
    let sent = truncated.len() as u64;
    assert_eq!(counts.limits.of(LimitAction::Truncate), sent);
    assert_eq!(counts.limits.of(LimitAction::Drop), over.len() as u64 - sent);
    // The limit of all responses is the one that stops the rest.
    let of_kind = |kind: ResponseKind| counts.limits.limited[kind as usize].iter().sum::<u64>();
    assert_eq!([ResponseKind::Answer, ResponseKind::All].map(of_kind), [950, 9_000]);
    assert_eq!(counts.queries.iter().sum::<u64>(), counts.rcodes.iter().chain(&counts.drops).sum::<u64>());
    let network = server.tally.take_limited_network(&server.serving.snapshot).unwrap();
    assert_eq!(network.to_string(), "198.51.100.0/24");
    assert_eq!(server.tally.take_limited_network(&server.serving.snapshot), None);
}

#[test]
fn cookie_from_a_truncated_response_ends_the_limit() {
    let mut server = Server::new(RateLimits { slip: 1, ..RateLimits::default() });
    let query = packet("www.example.test", Rtype::A, WITH_COOKIE);
    let responses: Vec<_> = (0..200).filter_map(|_| server.ask(VICTIM, &query)).collect();
    assert_eq!(responses.iter().filter(|response| is_truncated(response)).count(), 150);
    let cookie = responses.last().unwrap().split_last_chunk::<24>().unwrap().1;
    let mut proven = query[..query.len() - 14].to_vec();
    proven.extend_from_slice(&[0, 28, 0, 10, 0, 24]);
    proven.extend_from_slice(cookie);
    let whole = |response: Option<Vec<u8>>| response.is_some_and(|response| !is_truncated(&response));
    assert!((0..1_000).all(|_| whole(server.ask(VICTIM, &proven))));
    assert_eq!(server.counts().limits.exempt, [0, 1_000]);
    // A forged one proves nothing.
    *proven.last_mut().unwrap() ^= 1;
    assert!((0..100).all(|_| !whole(server.ask(VICTIM, &proven))));
    // Of another address, neither.
    *proven.last_mut().unwrap() ^= 1;
    let others = (0..100).filter(|_| whole(server.ask("203.0.113.9", &proven))).count();
    assert_eq!(others, 50);
}

#[test]
fn allowlist_has_no_limit_and_does_not_count() {
    let resolver: Network = "198.51.100.53/32".parse().unwrap();
    let mut server = Server::new(RateLimits { allowlist: vec![resolver], ..RateLimits::default() });
    let query = packet("www.example.test", Rtype::A, &[]);
    assert!((0..1_000).all(|_| server.ask("198.51.100.53", &query).is_some_and(|response| !is_truncated(&response))));
    assert!((0..50).all(|_| server.ask(VICTIM, &query).is_some_and(|response| !is_truncated(&response))));
    assert_eq!(server.counts().limits, LimitCounts { exempt: [1_000, 0], ..LimitCounts::default() });
}

#[test]
fn each_kind_of_response_has_its_limit_and_errors_are_never_truncated() {
    let kinds = [
        ("www.example.test", Rtype::A, ResponseKind::Answer),
        ("alias.example.test", Rtype::A, ResponseKind::Answer),
        ("x.wild.example.test", Rtype::A, ResponseKind::Answer),
        ("x.sub.example.test", Rtype::A, ResponseKind::Referral),
        ("www.example.test", Rtype::TXT, ResponseKind::NoData),
        ("none.example.test", Rtype::A, ResponseKind::NxDomain),
        ("www.example.com", Rtype::A, ResponseKind::Error),
        ("www.example.test", Rtype::AXFR, ResponseKind::Error),
    ];
    for (name, rtype, kind) in kinds {
        let mut server = Server::new(RateLimits { slip: 1, ..RateLimits::default() });
        let responses: Vec<_> = (0..60).filter_map(|_| server.ask(VICTIM, &packet(name, rtype, &[]))).collect();
        let truncated = responses.iter().filter(|response| is_truncated(response)).count();
        assert_eq!((responses.len(), truncated), (60, if kind == ResponseKind::Error { 0 } else { 10 }), "{name}");
        assert_eq!(server.counts().limits.limited[kind as usize], [0, 10], "{name} {rtype}");
    }
}

#[test]
fn random_names_share_a_limit() {
    for parent in ["example.test", "wild.example.test", "sub.example.test"] {
        let mut server = Server::new(RateLimits { slip: 0, ..RateLimits::default() });
        let ask = |number| server.ask(VICTIM, &packet(&format!("x{number}.{parent}"), Rtype::A, &[]));
        assert_eq!((0..500).filter_map(ask).count(), 50, "{parent}");
    }
}

#[test]
fn packets_without_response_are_counted_as_before() {
    let mut server = Server::new(RateLimits::default());
    let response = [&[0xab, 0xcd, 0x81, 0][..], &packet("www.example.test", Rtype::A, &[])[4..]].concat();
    assert!((0..100).all(|_| server.ask(VICTIM, &response).is_none()));
    assert_eq!(server.counts().limits, LimitCounts::default());
    assert_eq!(server.counts().drops[Dropped::Response as usize], 100);
}

/// Returns the bytes of queries from as many networks, and of the responses to them.
fn flood_from_many_networks(server: &mut Server) -> (usize, usize) {
    let query = packet("www.example.test", Rtype::A, PLAIN_OPT);
    let responses: Vec<_> =
        (0..20_000u32).filter_map(|n| server.ask(&format!("11.{}.{}.1", n >> 8, n & 255), &query)).collect();
    assert_eq!(responses.len(), 20_000, "none is dropped, since each network is within its limits");
    (20_000 * query.len(), responses.iter().map(Vec::len).sum())
}

#[test]
fn flood_from_many_networks_gets_few_more_bytes_than_it_sends() {
    let limits = RateLimits::default();
    let limited = |bytes| {
        let mut per_second = limits.per_second;
        per_second[ResponseKind::Excess as usize] = bytes;
        Server::new(RateLimits { per_second, ..limits.clone() })
    };
    let mut server = limited(100_000);
    let (asked, got) = flood_from_many_networks(&mut server);
    assert!((100_000..=101_232).contains(&(got - asked)), "{asked} bytes asked, {got} got");
    let mut counts = LimitCounts::default();
    server.tally.add_limits_to(&mut counts);
    let truncated = counts.limited[ResponseKind::Excess as usize][LimitAction::Truncate as usize];
    assert_eq!(truncated, counts.of(LimitAction::Truncate));
    assert!(truncated > 15_000, "{truncated}");
    // A client with a valid cookie still gets whole responses, and errors are sent as they are.
    let first = server.ask(VICTIM, &packet("www.example.test", Rtype::A, WITH_COOKIE)).unwrap();
    assert!(is_truncated(&first));
    let mut proven = packet("www.example.test", Rtype::A, &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 28, 0, 10, 0, 24]);
    proven.extend_from_slice(first.split_last_chunk::<24>().unwrap().1);
    assert!(!is_truncated(&server.ask(VICTIM, &proven).unwrap()));
    // So does a network that has sent a query over TCP, and it does not count for the others.
    server.proven.prove(&server.serving.snapshot, "203.0.113.1".parse().unwrap(), Now(1_700_000_000));
    let query = packet("www.example.test", Rtype::A, PLAIN_OPT);
    let truncated = |server: &mut Server, from: &str| is_truncated(&server.ask(from, &query).unwrap());
    assert!(["203.0.113.1", "203.0.113.9"].iter().all(|from| !truncated(&mut server, from)));
    assert!(truncated(&mut server, "203.0.114.1"));
    let refused = server.ask("203.0.113.1", &packet("www.example.org", Rtype::A, PLAIN_OPT)).unwrap();
    assert!(!is_truncated(&refused) && refused[3] & 15 == 5);
    let (asked, got) = flood_from_many_networks(&mut limited(0));
    assert!(got > asked * 2, "{asked} bytes asked, {got} got");
}
