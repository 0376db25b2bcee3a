//! Conversion of valid configurations.

use std::{net::IpAddr, time::Duration};

use fairway_model::{
    AnswerMode, Check, ClientPrefix, DownAnswer, Name, Policy, ProbeAddress, Rtype, Spread, StatusSet,
};

use super::*;
use crate::{LogFormat, QueryLogSink, Settings};

pub(super) const EVERYTHING: &str = r#"
version: 1
listen: { dns: ["127.0.0.1:5353", "[::1]:5353"], http: off }
dataDir: state
user: fairway
log: { level: "info,fairway_health=debug", format: json }
identity: { version: "none of yours", id: ns1 }
explain: { networks: [10.0.0.0/8, "2001:db8::/32", 192.0.2.7] }
tcp: { connectionsMax: 50, perClientMax: 5, idleTimeout: 3s, queryTimeout: 1500ms }
udp: { workers: 3, payloadMax: 1000 }
health: { socketsMax: 7, firstRound: 0s }
ready: { callback: "https://lb.example:8443/ready?server=ns1" }
queryLog: { sample: 1/10, file: log/queries }
drainTimeout: 1m
zones:
  - name: gslb.example
    ns: [ns1.other.example, { name: ns2.gslb.example, addresses: [192.0.2.53, "2001:db8::53"] }]
    contact: host.master@example.com
    serial: 7
    ttl: 2h
    negativeTtl: 30s
    monitor: tcp
clusters:
  - { name: eu1, addresses: [203.0.113.10, "2001:db8::10"], dnsName: eu1.gslb.example, capacity: 800, services: ["*"],
      location: { latitude: 53.3, longitude: -6, region: eu } }
  - { name: us1, addresses: [203.0.113.20] }
monitors:
  - { name: tcp, type: tcp }
  - { name: gateway, type: http, port: 15021, path: /healthz/ready, method: HEAD, host: shop.example,
      headers: { x-probe: fairway }, status: [200, 2xx], responseHeader: { name: server, contains: envoy },
      period: 1s, rise: 1, fall: 2 }
  - { name: grpc, type: grpc, port: 50051, service: shop.v1, interval: 500ms, timeout: 200ms }
  - { name: off, type: always }
pools:
  - name: shop
    policy: weighted
    mode: cname
    ttl: 20s
    answers: 1
    down: { fallback: centre.example }
    spread: query
    clientPrefix: /20
    panicThreshold: 0.3
    minHealthy: 50%
    monitor: gateway
    members: [{ cluster: eu1, weight: 60, tier: 1, monitor: grpc, probe: "gw.internal:15021" }]
  - name: centre
    policy: failover
    down: { fallback: [192.0.2.1, "2001:db8::1"] }
    clientPrefix: { v6: 48 }
    members: [{ cluster: us1 }]
names:
  - { name: shop.gslb.example, pool: shop, ttl: 1m }
  - { name: "*.gslb.example", pool: centre }
overrides:
  - { match: "eu*", action: drain, reason: disks are swapped, until: 2030-01-31T18:00:00Z }
overrideRules:
  - { pools: ["*", shop], minClusters: 2 }
"#;

#[test]
fn settings_are_read_with_paths_relative_to_the_file() {
    let folder = Folder::new(&[("f.yaml", EVERYTHING)]);
    let loaded = folder.load("f.yaml").unwrap();
    let settings = loaded.settings;
    assert_eq!(settings.dns, ["127.0.0.1:5353", "[::1]:5353"].map(|address| address.parse().unwrap()));
    assert_eq!((settings.http, settings.user.as_deref()), (None, Some("fairway")));
    assert_eq!(settings.data_dir, Some(folder.path().join("state")));
    assert_eq!((settings.log.filter.as_str(), settings.log.format), ("info,fairway_health=debug", LogFormat::Json));
    assert_eq!(settings.identity.id.as_deref(), Some("ns1"));
    let networks: Vec<_> = settings.explain.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7/32"]);
    assert_eq!((settings.tcp.connections_max, settings.tcp.query_timeout), (50, Duration::from_millis(1500)));
    assert_eq!((settings.udp.workers, settings.udp.payload_max), (Some(3), 1000));
    assert_eq!((settings.health.sockets_max, settings.health.first_round), (7, Duration::ZERO));
    let callback = settings.callback.unwrap();
    let parts = (callback.is_https(), callback.host(), callback.port(), callback.path_and_query());
    assert_eq!(parts, (true, "lb.example", 8443, "/ready?server=ns1"));
    let query_log = settings.query_log.unwrap();
    assert_eq!((query_log.one_in.get(), query_log.sink), (10, QueryLogSink::File(folder.path().join("log/queries"))));
    assert_eq!(settings.drain_timeout, Duration::from_secs(60));
    assert_eq!(loaded.fingerprint.files().collect::<Vec<_>>(), [folder.path().join("f.yaml")]);
    assert!(loaded.fingerprint.is_current());
}

#[test]
fn pools_monitors_and_overrides_are_converted() {
    let loaded = loaded(EVERYTHING);
    assert_eq!(loaded.warnings, []);
    let pools: Vec<_> = loaded.desired.pools.values().collect();
    let [centre, shop] = &pools[..] else { panic!("two pools") };
    assert_eq!((&shop.policy, shop.mode, shop.spread), (&Policy::WEIGHTED, AnswerMode::Cname, Spread::Query));
    assert_eq!((shop.panic_threshold.thousandths(), shop.min_healthy.thousandths()), (300, 500));
    assert_eq!(shop.client_prefix, ClientPrefix { v4: 20, v6: 56 });
    assert_eq!(shop.down, DownAnswer::FallbackCname("centre.example".parse().unwrap()));
    assert_eq!(shop.members[0].probe, Some(ProbeAddress::Host("gw.internal".into(), 15021)));
    assert_eq!((shop.members[0].weight.0, shop.ttl.secs()), (60, 20));
    let addresses: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap()).into();
    assert_eq!((&centre.down, centre.client_prefix.v6), (&DownAnswer::FallbackAddresses(addresses), 48));
    let monitors: Vec<_> = loaded.desired.monitors.values().collect();
    let [gateway, grpc, off, tcp] = &monitors[..] else { panic!("four monitors") };
    let Check::Http(http) = &gateway.check else { panic!("http") };
    assert_eq!((http.port, http.method.as_str(), http.tls.is_none()), (15021, "HEAD", true));
    assert_eq!(http.status, "200,2xx".parse::<StatusSet>().unwrap());
    assert_eq!((gateway.timeout, gateway.rise, gateway.fall), (Duration::from_secs(1), 1, 2));
    assert_eq!((grpc.period, grpc.timeout), (Duration::from_millis(500), Duration::from_millis(200)));
    assert_eq!((&off.check, &tcp.check), (&Check::Always, &Check::Tcp { port: 443 }));
    let drain = &loaded.overrides[0];
    assert_eq!((drain.kind.to_string().as_str(), drain.reason.as_str()), ("drain eu*", "disks are swapped"));
    assert_eq!(drain.location.line, 56);
    let [rule] = &loaded.settings.override_rules[..] else { panic!("one rule") };
    assert_eq!(
        (rule.pools.iter().map(ToString::to_string).collect::<Vec<_>>(), rule.min_clusters),
        (vec!["*".to_owned(), "shop".to_owned()], 2)
    );
}

#[test]
fn zone_without_file_has_soa_and_name_servers() {
    let loaded = loaded(EVERYTHING);
    let zone = &loaded.zones[0];
    let types: Vec<_> = zone.records.iter().map(|record| record.rtype).collect();
    assert_eq!(types, [Rtype::SOA, Rtype::NS, Rtype::NS, Rtype::A, Rtype::AAAA]);
    let soa = &zone.records[0];
    let primary: Name = "ns1.other.example".parse().unwrap();
    let rest = soa.rdata.strip_prefix(primary.as_wire()).unwrap();
    let mailbox = Name::from_wire(rest).unwrap();
    assert_eq!(mailbox.to_string(), "host\\.master.example.com.");
    let numbers = &rest[mailbox.as_wire().len()..];
    assert_eq!((&numbers[..4], &numbers[16..]), (&[0, 0, 0, 7][..], &[0, 0, 0, 30][..]));
    assert_eq!((soa.ttl.secs(), zone.place(soa).line), (7200, 16));
}

#[test]
fn smallest_configuration_has_every_default() {
    let settings = loaded("version: 1\n").settings;
    let data_dir = super::super::data_dir(&|name| variable(&[], name));
    assert_eq!(settings, Settings { data_dir, ..Settings::default() });
}
