//! Location databases of a running server: a new one changes answers, a damaged one changes nothing.

use std::fs;

use fairway_integration::{
    load::{resolve, wait_answer},
    mmdb::{Mmdb, Value},
    real::{Fairway, wait_until},
};

use super::{LIMIT, NAME, said, state};

const EU: [&str; 1] = ["192.0.2.1"];
const US: [&str; 1] = ["192.0.2.2"];

/// Clients in Germany get eu1 first, all others us1; `map` locates the clients.
fn config(map: &str) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
maps: [{{ name: world, {map} }}]
clusters:
- {{ name: eu1, addresses: [{}], location: {{ latitude: 50.1, longitude: 8.7, region: eu }} }}
- {{ name: us1, addresses: [{}], location: {{ latitude: 39, longitude: -77.5, region: us }} }}
monitors: [{{ name: unchecked, type: always }}]
pools:
- name: shop
  policy: [geo, failover]
  monitor: unchecked
  geo: {{ prefer: [{{ where: {{ country: DE }}, regions: [eu] }}], default: [us] }}
  members: [{{ cluster: eu1 }}, {{ cluster: us1 }}]
names: [{{ name: {NAME}, pool: shop }}]
",
        EU[0], US[0]
    )
}

#[test]
fn new_mmdb_changes_answers_and_damaged_one_does_not() {
    let server = Fairway::start(&config("networks: [{ network: 127.0.0.0/8, country: DE }]"), &[]);
    wait_answer(server.dns, NAME, &EU, LIMIT);
    let file = server.folder.path().join("places.mmdb");
    // As tools that write databases do: written next to the file, then renamed.
    let put = |octets: &[u8]| {
        let new = server.folder.path().join("new");
        fs::write(&new, octets).expect("the folder can be written");
        fs::rename(&new, &file).expect("the folder can be written");
    };
    let of = |country: &str| Mmdb::new(&[("127.0.0.0/8", Value::city(country, None))]).octets();
    put(&of("US"));
    server.write_config(&config("databases: [places.mmdb]"));
    wait_answer(server.dns, NAME, &US, LIMIT);

    put(&of("DE")[..100]);
    wait_until("the damaged database is refused", LIMIT, || state(server.http)["config"]["stale"] == true);
    let faults = state(server.http)["config"]["lastReload"]["errors"].clone();
    let text = faults.to_string();
    assert!(text.contains("places.mmdb is not an MMDB database, or is damaged"), "{text}");
    assert_eq!(faults.as_array().map(Vec::len), Some(1), "one clear error: {text}");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&US)));

    put(&of("DE"));
    wait_answer(server.dns, NAME, &EU, LIMIT);
    wait_until("the mark is gone", LIMIT, || state(server.http)["config"]["stale"] == false);
    let explained = said(&server.command(&["explain", NAME, "--client", "127.0.0.0/24"]));
    let place =
        "source: 127.0.0.0 -> country DE, continent EU (127.0.0.0/8, database places.mmdb); geo.prefer[0] applies";
    for part in ["location class 1 of", "for 127.0.0.0/8, shared by 127.0.0.0/8; ECS scope 8:", place] {
        assert!(explained.contains(part), "{part} is not in\n{explained}");
    }
}
