//! Maps, latency tables and location rules of pools.

use std::sync::Arc;

use super::*;
use crate::maps::mmdb_writer::{Mmdb, Value};

const GOOD: &str = "version: 1
maps:
- name: world
  databases: [city.mmdb, asn.mmdb]
  networks:
  - {network: 10.0.0.0/8, region: office}
  - {network: 10.1.0.0/16, subdivision: US-CA, latitude: 34.05, longitude: -118.24}
  - {network: \"2001:db8::/32\", asn: 64500}
latencies: [{name: rtt, file: rtt.csv}]
clusters:
- {name: eu1, addresses: [192.0.2.1], location: {latitude: 1, longitude: 2, region: eu, bias: -20}}
- {name: us1, addresses: [192.0.2.2], location: {latitude: 1, longitude: 2, region: us}}
pools:
- name: p
  policy: [geo, nearest, latency, weighted]
  map: world
  geo: {prefer: [{where: {country: de}, regions: [eu, us]}, {where: {continent: EU}, regions: [eu]}], default: [us]}
  nearest: {tolerance: 50km}
  latency: {table: rtt, tolerance: 5ms}
  members: [{cluster: eu1, bias: 30}, {cluster: us1}]
";

fn city() -> Mmdb {
    Mmdb::new(&[("192.0.2.0/24", Value::city("DE", Some((50.11, 8.68)))), ("10.0.0.0/8", Value::city("FR", None))])
}

fn folder() -> Folder {
    let folder = Folder::new(&[("f.yaml", GOOD), ("rtt.csv", "network,eu1\n192.0.2.0/24,12\n")]);
    folder.write("city.mmdb", city().octets());
    folder.write("asn.mmdb", Mmdb::new(&[("192.0.2.0/24", Value::asn(64_496))]).octets());
    folder
}

#[test]
fn maps_tables_and_location_rules_are_converted() {
    let loaded = folder().load("f.yaml").unwrap();
    let desired = &loaded.desired;
    let map = desired.maps.values().next().unwrap();
    let shown = |address: &str| {
        let entry = map.entry(address.parse().unwrap());
        let from = |source: Option<&fairway_model::MapSource>| source.map_or_else(String::new, ToString::to_string);
        format!("{} | {} | {}", entry.location, from(entry.location_source), from(entry.asn_source))
    };
    assert_eq!(
        shown("192.0.2.1"),
        "country DE, continent EU, 50.1100 N 8.6800 E, AS 64496 | database city.mmdb | database asn.mmdb"
    );
    assert_eq!(
        shown("10.1.2.3"),
        "subdivision US-CA, country US, continent NA, 34.0500 N 118.2400 W | network 10.1.0.0/16 of the map | "
    );
    assert_eq!(shown("10.2.0.1"), "region office | network 10.0.0.0/8 of the map | ");
    assert_eq!(shown("2001:db8::1"), "AS 64500 |  | network 2001:db8::/32 of the map");
    let table = desired.latencies.values().next().unwrap();
    assert_eq!(table.entry("192.0.2.1".parse().unwrap()).1[0].unwrap().to_string(), "12 ms");
    let pool = desired.pools.values().next().unwrap();
    assert_eq!((pool.location.tolerance_metres, pool.location.geo.prefer.len()), (50_000, 2));
    assert_eq!(pool.location.geo.prefer[0].clients.country.unwrap().to_string(), "DE");
    assert_eq!(pool.members[0].bias.unwrap().hundredths(), 30);
    let location = desired.clusters.values().next().unwrap().location.as_ref().unwrap();
    assert_eq!(location.bias.hundredths(), -20);
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.fingerprint.files().count(), 4, "all files are watched: {:?}", loaded.fingerprint);
}

#[test]
fn map_errors_are_reported_at_their_keys() {
    let text = "version: 1
maps:
- {name: a}
- name: b
  networks:
  - {network: 10.0.0.1/8, country: UK}
- name: c
  networks: [{network: 10.0.0.0/8, asn: 1}, {network: 10.0.0.0/8, region: x}, {network: 11.0.0.0/8}, {network: 12.0.0.0/8, latitude: 1}]
- {name: c, databases: [none.mmdb]}
pools: [{name: p, policy: weighted, members: [{cluster: e, bias: 100}], nearest: {tolerance: 5}, geo: {prefer: [{where: {}, regions: [eu]}]}}]
";
    let errors = errors_of(text);
    let expected = [
        "f.yaml:6:15: maps[1].networks[0].network: \"10.0.0.1/8\" has bits set past its length; write 10.0.0.0/8",
        "f.yaml:6:36: maps[1].networks[0].country: \"UK\" is not the code of a country; give its two letters (ISO 3166-1), like DE",
        "f.yaml:10:66: pools[0].members[0].bias: 100 is over 99; give -99 to 99",
        "f.yaml:10:94: pools[0].nearest.tolerance: 5 has no unit; write 5km or 5m",
    ];
    for (number, expected) in expected.iter().enumerate() {
        assert!(errors.iter().any(|error| error == expected), "{number} {errors:#?}");
    }
    let expected = [
        "f.yaml:3:3: maps[0]: map a has no databases and no networks; add databases or networks",
        "f.yaml:8:55: maps[2].networks[1].network: 10.0.0.0/8 is repeated in this map; remove one",
        "f.yaml:8:79: maps[2].networks[2]: 11.0.0.0/8 has no location; give region, country, continent, subdivision, coordinates or asn",
        "f.yaml:8:102: maps[2].networks[3]: latitude and longitude must be given together; add the missing one, or remove the other one",
        "f.yaml:9:10: maps[3].name: map c is already declared in f.yaml:7:3; rename or remove one of them",
    ];
    let fixed = text.replace("10.0.0.1/8, country: UK", "10.0.0.0/8, country: GB").replace("pools:", "#");
    assert_eq!(errors_of(&fixed), expected);
}

#[test]
fn empty_or_repeated_preference_is_rejected() {
    let text = "version: 1
clusters: [{name: eu1, addresses: [192.0.2.1], location: {latitude: 1, longitude: 2, region: eu}}]
maps: [{name: m, networks: [{network: 10.0.0.0/8, region: x}]}]
pools:
- name: p
  policy: geo
  members: [{cluster: eu1}]
  geo: {prefer: [{where: {}, regions: [eu]}, {where: {asn: 1}, regions: [eu]}, {where: {asn: 1}, regions: [eu]}]}
";
    let expected = [
        "f.yaml:8:26: pools[0].geo.prefer[0].where: where has no key; give a location, or write its regions as default",
        "f.yaml:8:88: pools[0].geo.prefer[2].where: an earlier preference has the same clients; merge them",
    ];
    assert_eq!(errors_of(text), expected);
}

#[test]
fn invalid_map_file_is_reported_where_it_is_named() {
    let folder = folder();
    let complete = city().octets();
    folder.write("city.mmdb", &complete[..complete.len() / 2]);
    fs::remove_file(folder.path().join("asn.mmdb")).unwrap();
    folder.write("rtt.csv", "network,eu1\n192.0.2.0/24,soon\n");
    let errors = folder.load("f.yaml").unwrap_err();
    assert!(
        errors[0].starts_with("f.yaml:4:15: maps[0].databases[0]: city.mmdb is not an MMDB database, or is damaged: "),
        "{errors:#?}"
    );
    assert_eq!(
        errors[1..],
        [
            "f.yaml:4:26: maps[0].databases[1]: asn.mmdb does not exist; fix the path; relative paths start at the configuration file's folder",
            "rtt.csv:2: \"soon\" is not a latency from 0 to 60000 milliseconds; write milliseconds like 12 or 12.5, or leave the cell empty",
        ]
    );
}

#[test]
fn unchanged_map_is_cached_and_changed_file_is_read() {
    let folder = folder();
    let before = folder.load("f.yaml").unwrap();
    let after = |before: &Loaded| folder.load_after("f.yaml", before);
    let same = |a: &Loaded, b: &Loaded| {
        let map = |loaded: &Loaded| Arc::clone(loaded.desired.maps.values().next().unwrap());
        let table = |loaded: &Loaded| Arc::clone(loaded.desired.latencies.values().next().unwrap());
        (Arc::ptr_eq(&map(a), &map(b)), Arc::ptr_eq(&table(a), &table(b)))
    };
    assert_eq!(same(&before, &after(&before)), (false, false), "a file written just now may change without showing it");
    let mut settled = folder.load("f.yaml").unwrap();
    settled.map_cache.settle();
    folder.write("f.yaml", GOOD.replace("bias: 30", "bias: 31"));
    let second = after(&settled);
    assert_eq!(same(&settled, &second), (true, true));
    assert!(second.fingerprint.files().eq(settled.fingerprint.files()), "cached files are watched as well");
    folder.write("rtt.csv", "network,eu1\n192.0.2.0/24,13\n");
    assert_eq!(same(&settled, &after(&second)), (true, false));
    folder.write("f.yaml", GOOD.replace("region: office", "region: home"));
    assert_eq!(same(&settled, &after(&second)), (false, false));
}

/// Returns the diagnostics of a pool with this policy and these location rules.
fn problems(policy: &str, rules: &str, maps: &str) -> Vec<String> {
    let text = format!(
        "version: 1\n{maps}clusters:
- {{name: eu1, addresses: [192.0.2.1], location: {{latitude: 1, longitude: 2, region: eu}}}}
- {{name: us1, addresses: [192.0.2.2]}}
pools: [{{name: p, policy: {policy}, members: [{{cluster: eu1}}, {{cluster: us1}}]{rules}}}]
"
    );
    let folder = Folder::new(&[("f.yaml", &text)]);
    let errors = match folder.load("f.yaml") {
        Ok(loaded) => folder.lines(&loaded.warnings),
        Err(errors) => errors,
    };
    errors.iter().map(|error| error.split_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn incomplete_location_policy_is_reported() {
    let map = |name: &str| format!("{{name: {name}, networks: [{{network: 10.0.0.0/8, region: eu}}]}}");
    let (one, two) = (format!("maps: [{}]\n", map("world")), format!("maps: [{}, {}]\n", map("world"), map("office")));
    let geo = ", geo: {default: [eu]}";
    assert_eq!(problems("geo", geo, &one), Vec::<String>::new());
    assert_eq!(problems("geo", geo, ""), ["pool p: its policy needs a map, and none is declared; declare a map"]);
    assert_eq!(
        problems("geo", geo, &two),
        ["pool p: its policy needs a map, and 2 are declared; name the map in the pool"]
    );
    assert_eq!(
        problems("geo", ", map: wrold, geo: {default: [eu]}", &two),
        ["pool p: map wrold is not declared; did you mean world?"]
    );
    assert_eq!(
        problems("latency", "", &one),
        ["pool p: its policy needs a latency table, and none is declared; declare a latency table"]
    );
    assert_eq!(
        problems("geo", "", &one),
        [
            "pool p has geo in its policy, but no preference; give geo.prefer or geo.default, or remove geo from the policy"
        ]
    );
    assert_eq!(
        problems("geo", ", geo: {default: [ue, eu]}", &one),
        ["warning: pool p prefers region ue, but none of its members is there; did you mean eu?"]
    );
    assert_eq!(
        problems("nearest", "", &one),
        [
            "warning: pool p has nearest in its policy, but cluster us1 has no location; give the cluster a location; until then it is ranked last"
        ]
    );
    let unused = problems("weighted", geo, &one);
    assert_eq!(
        unused,
        [
            "warning: pools[0].geo: the policy does not rank by geo, so this has no effect; remove it, or add geo to the policy"
        ]
    );
}
