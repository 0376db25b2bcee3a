//! Incremental reloads: the state after any sequence of changes is the state computed from nothing.

mod content;

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use fairway_access::NameGrants;
use fairway_contributions::part_key;
use fairway_model::{DesiredState, HostAddresses, PoolName, SplitMix, Timestamp};
use fairway_providers::{plain_name, webhook_server::Scope};
use fairway_zones::{BalancedPools, ChangedItems};
use serde_json::{Value, json};
use tokio::sync::watch;

use self::content::{content, differences};
use super::{kubernetes::edit_found, *};
use crate::{
    adaptive_ttl::AdaptiveTtls,
    configured::{Configured, LookedUp, Previous},
    declared::{ClaimRules, Declared, Releases},
};
use fairway_sources::Found;
use fairway_store::objects::{Author, Key, Kind, Object};

/// Clusters, and a pool and names that objects declare too. The second zone has its own monitor.
const FILES: &str = "version: 1
listen: { dns: [\"127.0.0.1:0\"] }
zones:
  - { name: gslb.example, ns: [ { name: ns1.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example }
  - { name: in.gslb.example, ns: [ { name: ns1.in.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example, monitor: second }
monitors: [ { name: first, type: tcp, port: 81 }, { name: second, type: tcp, port: 82 } ]
clusters:
  - { name: c0, addresses: [192.0.2.1], dnsName: c0.gslb.example, capacity: 100 }
  - { name: c1, addresses: [192.0.2.2, \"2001:db8::2\"], dnsName: c1.in.gslb.example, capacity: 100 }
  - { name: c2, addresses: [192.0.2.3, lb2.elb.example], dnsName: c2.example.net, services: [shop], capacity: 100 }
  - { name: c3, addresses: [lb3.elb.example, lb2.elb.example], dnsName: c3.gslb.example, services: [mail] }
  - { name: k0, kubernetes: {}, services: [] }
pools: [ { name: p0, policy: failover, monitor: first, members: [ { cluster: c0 }, { cluster: c1 }, { cluster: c2 } ] } ]
names: [ { name: n0.gslb.example, pool: p0 }, { name: n0.in.gslb.example, pool: p0 } ]
records: [ { name: t0.gslb.example, sets: [ { type: TXT, data: [of-the-file] } ] } ]
";

/// Returns a reader of these files, and the state that it read.
fn read(scene: &Scene) -> (Reader, Previous) {
    let reader = scene.reader();
    let Compiled { configured, snapshot, .. } =
        reader.read_here(ReloadScope::Files, None, scene.now()).outcome.unwrap();
    (reader, Previous::new(Arc::new(configured), Arc::new(snapshot)))
}

fn change(declared: &mut Declared, kind: Kind, name: &str, value: Option<Value>) {
    change_at(declared, kind, &[name], value);
}

fn change_at(declared: &mut Declared, kind: Kind, names: &[&str], value: Option<Value>) {
    change_of(declared, kind, names, Timestamp::from_secs(1), value);
}

fn change_of(declared: &mut Declared, kind: Kind, names: &[&str], at: Timestamp, value: Option<Value>) {
    let key = Key::new(kind, names).unwrap();
    let object = |value: Value| Object {
        key: key.clone(),
        value: value.to_string().into_bytes().into(),
        revision: 1,
        generation: 1,
        created: at,
        changed: at,
        by: Author::default(),
    };
    declared.put(&key, value.map(object));
}

#[test]
fn objects_read_together_are_what_each_is_alone_even_if_one_is_invalid() {
    let (mut one_by_one, mut all) = (Declared::default(), Vec::new());
    for number in 0..30 {
        let pool = format!("p{number}");
        let members = json!([{"cluster": if number == 7 { "no such name" } else { "c0" }}]);
        change(
            &mut one_by_one,
            Kind::Pool,
            &pool,
            Some(json!({"name": pool, "policy": "failover", "members": members})),
        );
        let name = format!("n{number}.gslb.example");
        let spelled = name.to_uppercase();
        change(&mut one_by_one, Kind::Name, &name, Some(json!({"name": spelled, "pool": pool})));
    }
    change(&mut one_by_one, Kind::Cluster, "c9", Some(json!({"name": "c9", "addresses": ["192.0.2.9"]})));
    for kind in [Kind::Name, Kind::Pool, Kind::Cluster] {
        all.extend(one_by_one.of(kind).cloned());
    }
    let together = Declared::new(3, all);
    let files = DesiredState::default();
    let claims = ClaimRules {
        names: &NameGrants::default(),
        released_by_files: &Releases::default(),
        now: Timestamp::from_secs(0),
    };
    let (mut ours, mut theirs) = Default::default();
    let [together, one_by_one] = [(together, &mut ours), (one_by_one, &mut theirs)]
        .map(|(declared, rejected)| declared.contribution(None, &files, &claims, rejected));
    assert_eq!(together, one_by_one);
    assert_eq!((ours.len(), &ours), (1, &theirs));
}

#[tokio::test]
async fn dry_run_result_is_applied_once_if_its_objects_are_committed_to_the_same_state() {
    // The scene begins five seconds before its expiry.
    let drain = "overrides: [ { match: c0, action: drain, reason: work, until: \"1970-01-12T13:46:45Z\" } ]\n";
    let scene = Scene::new(&format!("{FILES}{drain}"));
    let (reader, before) = read(&scene);
    let pool =
        |weight: u64| json!({"name": "p1", "policy": "weighted", "members": [{"cluster": "c0", "weight": weight}]});
    let declared = |weight: u64, revision: u64| {
        let mut declared = Declared::default();
        change(&mut declared, Kind::Pool, "p1", Some(pool(weight)));
        declared.revision = revision;
        Arc::new(declared)
    };
    let reading = |objects: &Arc<Declared>, previous: &Previous| {
        reader.declared.store(Arc::clone(objects));
        reader.read_here(ReloadScope::Objects, Some(previous), scene.now()).outcome.unwrap()
    };
    let (_control, actor) = scene.actor().await;
    let dry_runs = &actor.dry_runs;
    let held = dry_runs.keep(reading(&declared(5, 0), &before), &before.configured);
    let state = |configured: &Arc<Configured>| Previous {
        configured: Arc::clone(configured),
        snapshot: Arc::clone(&before.snapshot),
        dry_run: dry_runs.last(),
    };
    let none = (&[][..], &LookedUp::default());
    assert!(held.take(&state(&before.configured), &declared(6, 9), none).is_none(), "the committed objects differ");
    let (_, other) = read(&scene);
    assert!(held.take(&state(&other.configured), &declared(5, 9), none).is_none(), "the configuration differs");
    let committed = declared(5, 9);
    scene.advance(Duration::from_secs(10));
    let taken = reading(&committed, &state(&before.configured));
    assert!(Arc::ptr_eq(&taken.configured.objects, &committed) && taken.configured.objects.revision == 9);
    assert_eq!(
        (taken.configured.overrides.len(), taken.configured.warnings.len()),
        (0, 2),
        "the override expired meanwhile"
    );
    let again = reading(&committed, &Previous::new(Arc::clone(&before.configured), Arc::clone(&before.snapshot)));
    assert_eq!(content(&taken.configured, &taken.snapshot), content(&again.configured, &again.snapshot));
    assert!(held.take(&state(&before.configured), &committed, none).is_none(), "the result is taken once");

    let first = dry_runs.keep(again, &before.configured);
    let second = dry_runs.keep(taken, &before.configured);
    assert!(first.take(&state(&before.configured), &committed, none).is_none(), "only the last result is kept");
    assert!(second.take(&state(&before.configured), &committed, none).is_some());
    drop(second);
    assert!(dry_runs.last().is_none(), "a result is freed with its caller");
}

#[test]
fn many_changes_at_once_are_a_full_reload() {
    let scene = Scene::new(FILES);
    let (reader, before) = read(&scene);
    for (count, is_part) in [(1_001, true), (1_002, false)] {
        let mut declared = Declared::default();
        for number in 0..count {
            let name = format!("m{number}.gslb.example");
            change(&mut declared, Kind::Name, &name, Some(json!({"name": name, "pool": "p0"})));
        }
        reader.declared.store(Arc::new(declared));
        let reading = reader.read_here(ReloadScope::Objects, Some(&before), scene.now());
        let compiled = reading.outcome.unwrap();
        assert_eq!(compiled.touched.is_some(), is_part, "{count}");
        assert_eq!(compiled.configured.merged.desired.names.len(), 2 + count);
    }
}

/// Adds or removes a row of a client, at names that are declared too and at others.
fn edit_rows(declared: &mut Declared, dice: &mut SplitMix) {
    let scope = ["@", "a", "a", "b", "b"][dice.below(5) as usize];
    let name = ["n1", "n2", "t0", "t1", "w1", "w2", "a-w1", "*.w3", "x.w1"][dice.below(9) as usize];
    let zone = if dice.below(40) == 0 { "elsewhere.example" } else { "gslb.example" };
    let text = format!("{name}.{zone}");
    let (rtype, target) = match dice.below(12) {
        0 => ("TXT", format!("\"heritage=external-dns,external-dns/owner=o{}\"", dice.below(2))),
        1 => ("CNAME", "else.example".to_owned()),
        2 => ("MX", "5 mx.example".to_owned()),
        3 => ("A", "no address".to_owned()),
        _ => ("A", format!("192.0.2.{}", 1 + dice.below(8))),
    };
    let mut properties = vec![json!({"name": "webhook/gslb-weight", "value": dice.below(3).to_string()})];
    if dice.below(8) == 0 {
        let region = ["eu", "us"][dice.below(2) as usize];
        properties.push(json!({"name": "webhook/gslb-region", "value": region}));
    }
    if dice.below(3) == 0 {
        properties.push(json!({"name": "webhook/gslb-health-port", "value": (80 + dice.below(2)).to_string()}));
    }
    let set = ["", "x", "y"][dice.below(3) as usize];
    let labels = if dice.below(2) == 0 { json!({"owner": format!("o{}", dice.below(2))}) } else { json!({}) };
    let spelled = if dice.below(100) == 0 { text.replacen('n', "\\110", 1) } else { text.clone() };
    let row = json!({"since": dice.below(3), "endpoint": {"dnsName": spelled, "recordType": rtype, "targets": [target],
        "setIdentifier": set, "labels": labels, "providerSpecific": properties}});
    let key = part_key(&if scope == "@" { Scope::Root } else { Scope::owner(scope).unwrap() }, &plain_name(&spelled));
    let object = declared.all().find(|object| object.key == key);
    let rows = object.map(|object| serde_json::from_slice::<Value>(&object.value).unwrap()["rows"].clone());
    let mut rows: Vec<Value> = rows.and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
    let of = |row: &Value| ["dnsName", "recordType", "setIdentifier"].map(|field| row["endpoint"][field].clone());
    rows.retain(|other| of(other) != of(&row));
    if dice.below(3) > 0 {
        rows.push(row);
        rows.sort_by_key(|row| of(row).map(|part| part.to_string()));
    }
    let names: Vec<_> = key.names().map(str::to_owned).collect();
    let value = (!rows.is_empty()).then(|| json!({"rows": rows}));
    change_at(declared, Kind::Contribution, &names.iter().map(String::as_str).collect::<Vec<_>>(), value);
}

/// Adds or removes a pool, a name or records; some of them invalid.
fn edit(declared: &mut Declared, dice: &mut SplitMix) {
    if dice.below(2) == 0 {
        return edit_rows(declared, dice);
    }
    if dice.below(4) == 0 {
        let name = ["t0", "t1", "n1", "x.t1", "*.t2"][dice.below(5) as usize].to_owned() + ".gslb.example";
        let (rtype, data) = [("TXT", "text"), ("A", "192.0.2.7"), ("MX", "5 mx.example"), ("CNAME", "a.example")]
            [dice.below(4) as usize];
        let sets = json!([{"type": rtype, "ttl": format!("{}s", 60 + dice.below(2)), "data": [data]}]);
        let value = (dice.below(4) != 0).then(|| json!({"name": name, "sets": sets}));
        return change(declared, Kind::Records, &name, value);
    }
    let pool = format!("p{}", dice.below(5));
    let zone = ["gslb.example", "in.gslb.example", "deep.gslb.example"][dice.below(3) as usize];
    // Also the apex.
    let name = if dice.below(8) == 0 { zone.to_owned() } else { format!("n{}.{zone}", dice.below(4)) };
    if dice.below(60) == 0 {
        let addresses = json!([format!("192.0.2.{}", 4 + dice.below(2))]);
        return change(declared, Kind::Cluster, "c4", Some(json!({"name": "c4", "addresses": addresses})));
    }
    match dice.below(6) {
        0..=2 => {
            let (first, count) = (dice.below(4), 1 + dice.below(3));
            let mut cluster = |number: u64| {
                if dice.below(29) == 0 { "nowhere".to_owned() } else { format!("c{}", (first + number) % 4) }
            };
            let members: Vec<Value> =
                (0..count).map(|number| json!({"cluster": cluster(number), "weight": 1 + number})).collect();
            let policy = if dice.below(2) == 0 { json!(["load", "weighted"]) } else { json!("weighted") };
            let mut value = json!({"name": pool, "policy": policy, "members": members});
            if dice.below(4) == 0 {
                (value["ttlMin"], value["ttlMax"]) = (json!("5s"), json!("1h"));
            }
            if dice.below(8) == 0 {
                value["mode"] = json!("cname");
            }
            if dice.below(12) == 0 {
                value["down"] = json!({"fallback": "centre.example"});
            }
            if dice.below(2) == 0 {
                value["monitor"] = json!(["first", "second"][dice.below(2) as usize]);
            }
            change(declared, Kind::Pool, &pool, Some(value));
        }
        3 | 4 => change(declared, Kind::Name, &name, Some(json!({"name": name, "pool": pool}))),
        _ if dice.below(2) == 0 => change(declared, Kind::Pool, &pool, None),
        _ => change(declared, Kind::Name, &name, None),
    }
}

/// Project, application, version and groups of all intents.
const ABOVE: [&str; 5] = ["p", "a", "v1", "default", "default"];

/// Adds or removes an intent of some age, a part of a compound intent or a client; some of them cannot be served.
fn edit_intents(declared: &mut Declared, dice: &mut SplitMix) {
    let name = ["n1", "n2", "i1", "i2", "i3", "w1"][dice.below(6) as usize];
    let zone = match dice.below(60) {
        0 => "elsewhere.example",
        1..=9 => "in.gslb.example",
        _ => "gslb.example",
    };
    let own = format!("o{}", dice.below(6));
    let service = ["shop", "mail", "none"][dice.below(3) as usize];
    let mut spec = json!({"app": "a", "serviceName": service, "externalName": format!("{name}.{zone}"),
        "externalSupport": dice.below(12) != 0});
    if dice.below(3) == 0 {
        spec["gslb"] = json!({"ttl": format!("{}s", 5 + dice.below(2)), "members":
            [{"cluster": format!("c{}", dice.below(5)), "weight": 1 + dice.below(3)}, {"cluster": "c0", "tier": 2}]});
        spec["gslb"]["members"].as_array_mut().unwrap().dedup_by(|a, b| a["cluster"] == b["cluster"]);
        if dice.below(3) == 0 {
            spec["gslb"]["mode"] = json!("cname");
        }
    }
    if dice.below(2) == 0 {
        spec["protocol"] = json!((["HTTP", "TCP"][dice.below(2) as usize]));
        spec["port"] = json!(80 + dice.below(2));
    }
    let (kind, above) = match dice.below(8) {
        0 | 1 => (Kind::Compound, None),
        2 => (Kind::InboundOfCompound, Some(format!("o{}", dice.below(6)))),
        3 => (Kind::Client, Some(format!("o{}", dice.below(6)))),
        4 => (Kind::Outbound, None),
        _ => (Kind::Inbound, None),
    };
    match kind {
        Kind::Compound => spec = json!({"externalName": spec["externalName"]}),
        Kind::Client => spec = json!({"cidrs": [format!("198.51.{}.0/24", dice.below(3))]}),
        Kind::Outbound => spec = json!({"serviceName": "mail"}),
        _ => {}
    }
    let names: Vec<&str> = ABOVE.into_iter().chain(above.as_deref()).chain([own.as_str()]).collect();
    let value = (dice.below(4) != 0).then(|| json!({"metadata": {"name": own}, "spec": spec}));
    let age = declared.get(&Key::new(kind, &names).unwrap()).map(|object| object.created);
    let created = age.unwrap_or_else(|| Timestamp::from_secs(dice.below(50)));
    change_of(declared, kind, &names, created, value);
}

/// Changes the services of a cluster, sometimes its address, or removes it. One of the clusters is declared by the files, too.
fn edit_cluster(declared: &mut Declared, dice: &mut SplitMix) {
    let (name, address) = [("c2", "192.0.2.3"), ("c4", "192.0.2.4"), ("c5", "192.0.2.5")][dice.below(3) as usize];
    let services = [&[][..], &["shop"], &["mail"], &["shop", "mail"], &["*"]][dice.below(5) as usize];
    let (address, is_there) = match dice.below(24) {
        0 => ("192.0.2.6", true),
        1 => (address, false),
        _ => (address, true),
    };
    let value =
        json!({"name": name, "addresses": [address], "dnsName": format!("{name}.gslb.example"), "services": services});
    change(declared, Kind::Cluster, name, is_there.then_some(value));
}

/// Changes the addresses of a host name. Some are declared addresses, or those of another host name.
fn edit_host(hosts: &mut HostAddresses, dice: &mut SplitMix) {
    let name = ["lb2.elb.example", "lb3.elb.example", "else.example"][dice.below(3) as usize].parse().unwrap();
    let count = dice.below(4);
    let address =
        |n| if n == 3 { [0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into() } else { IpAddr::from([192, 0, 2, n as u8]) };
    let addresses: BTreeSet<IpAddr> = (0..count).map(|_| address(1 + dice.below(12) as u16)).collect();
    match count {
        0 => _ = hosts.remove(&name),
        _ => _ = hosts.insert(name, addresses.into_iter().collect()),
    }
}

/// Returns an intent that is exposed under its own name.
fn exposed(name: &str, service: &str, gslb: &Value) -> Value {
    let external = format!("{name}.gslb.example");
    json!({"metadata": {"name": name}, "spec": {"app": "a", "serviceName": service, "externalName": external,
        "externalSupport": true, "gslb": gslb}})
}

/// Reloads objects. Returns what was touched, if the reload was incremental.
fn revised(reader: &Reader, before: &mut Previous, declared: &Declared, now: Timestamp) -> Option<ChangedItems> {
    reader.declared.store(Arc::new(declared.clone()));
    let Compiled { configured, snapshot, touched, is_incremental, .. } =
        reader.read_here(ReloadScope::Objects, Some(&*before), now).outcome.unwrap();
    *before = Previous::new(Arc::new(configured), Arc::new(snapshot));
    touched.filter(|_| is_incremental)
}

#[test]
fn changed_services_of_a_cluster_recompile_only_the_intents_they_move() {
    let scene = Scene::new(FILES);
    let (reader, mut before) = read(&scene);
    let mut declared = Declared::default();
    let cluster = |service: &str| json!({"name": "c5", "addresses": ["192.0.2.9"], "services": [service]});
    change(&mut declared, Kind::Cluster, "c5", Some(cluster("shop")));
    let listed = json!({"members": [{"cluster": "c5"}]});
    for (name, service, gslb) in [("a", "shop", &json!({})), ("b", "mail", &json!({})), ("c", "shop", &listed)] {
        let names = [&ABOVE[..], &[name]].concat();
        change_at(&mut declared, Kind::Inbound, &names, Some(exposed(name, service, gslb)));
    }
    assert!(revised(&reader, &mut before, &declared, scene.now()).is_none(), "a new cluster may affect every object");
    change(&mut declared, Kind::Cluster, "c5", Some(cluster("mail")));
    let touched = revised(&reader, &mut before, &declared, scene.now()).expect("the reload is incremental");
    let pools: Vec<String> = touched.pools.iter().map(ToString::to_string).collect();
    assert_eq!(pools, ["a", "b"].map(|name| format!("inbound+{}+{name}", ABOVE.join("+"))));
    let members = |name: &str| {
        let pool = PoolName::new(&format!("inbound+{}+{name}", ABOVE.join("+"))).unwrap();
        let pool = before.configured.merged.desired.pools.get(&pool).unwrap();
        pool.members.iter().map(|member| member.cluster.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((members("a"), members("b")), ("c0 c1 c2".to_owned(), "c0 c1 c3 c5".to_owned()));
}

#[test]
fn intent_in_cname_mode_is_incremental_unless_cluster_names_change() {
    let scene = Scene::new(FILES);
    let (reader, mut before) = read(&scene);
    let mut declared = Declared::default();
    let mut put = |name: &str, weight: u64, ttl: &str| {
        let members = json!([{"cluster": "c0"}, {"cluster": "c1", "weight": weight}]);
        let gslb = json!({"mode": "cname", "ttl": ttl, "members": members});
        let names = [&ABOVE[..], &[name]].concat();
        change_at(&mut declared, Kind::Inbound, &names, Some(exposed(name, "shop", &gslb)));
        revised(&reader, &mut before, &declared, scene.now()).is_some()
    };
    assert!(!put("a", 1, "20s"), "clusters get names for the first time");
    assert!(put("b", 1, "20s") && put("b", 2, "30s") && put("a", 3, "20s"));
    assert!(!put("a", 3, "10s"), "the TTL of the cluster names changed");
}

#[test]
fn intents_with_own_probes_are_added_and_removed_incrementally() {
    let scene = Scene::new(FILES);
    let (reader, mut before) = read(&scene);
    let mut declared = Declared::default();
    for (name, port) in [("a", Some(8_441)), ("b", Some(8_442)), ("c", Some(8_441)), ("a", None), ("b", None)] {
        let probed = |port: u64| {
            let mut intent = exposed(name, "shop", &json!({}));
            intent["spec"]["protocol"] = json!("TCP");
            intent["spec"]["port"] = json!(port);
            intent
        };
        change_at(&mut declared, Kind::Inbound, &[&ABOVE[..], &[name]].concat(), port.map(probed));
        let touched = revised(&reader, &mut before, &declared, scene.now());
        assert!(touched.is_some_and(|touched| touched.pools.len() == 1), "{name} {port:?}");
    }
    let probed = before.snapshot.targets().iter().map(|target| format!("{:?}", target.monitor.check));
    let probed: Vec<String> = probed.filter(|check| check.contains("844")).collect();
    assert!(
        probed.len() == 4 && probed.iter().all(|check| check.contains("8441")),
        "only the monitor of c is left: {probed:?}"
    );
}

#[test]
fn state_after_random_changes_is_the_state_from_nothing() {
    let scene = Scene::new(FILES);
    let incremental: u32 = (0..40).map(|seed| play(&scene, seed, edit)).sum();
    assert!(incremental > 300, "{incremental} of 1200 were incremental");
}

#[test]
fn state_after_random_intent_changes_is_the_state_from_nothing() {
    let scene = Scene::new(FILES);
    let incremental: u32 = (0..40).map(|seed| play(&scene, seed, edit_intents)).sum();
    assert!(incremental > 600, "{incremental} of 1200 were incremental");
    let mixed = |declared: &mut Declared, dice: &mut SplitMix| match dice.below(3) {
        0 => edit(declared, dice),
        _ => edit_intents(declared, dice),
    };
    let incremental: u32 = (100..140).map(|seed| play(&scene, seed, mixed)).sum();
    assert!(incremental > 200, "{incremental} of 1200 were incremental");
    let on_clusters = |declared: &mut Declared, dice: &mut SplitMix| match dice.below(3) {
        0 => edit_cluster(declared, dice),
        _ => edit_intents(declared, dice),
    };
    let incremental: u32 = (200..240).map(|seed| play(&scene, seed, on_clusters)).sum();
    assert!(incremental > 600, "{incremental} of 1200 were incremental");
}

/// Makes random changes and compares each state with the one computed from nothing. Returns how many reloads were incremental.
fn play(scene: &Scene, seed: u64, edit: impl Fn(&mut Declared, &mut SplitMix)) -> u32 {
    let (mut reader, mut before) = read(scene);
    let (hosts, resolved) = watch::channel(HostAddresses::new());
    reader.hosts = resolved;
    let (clusters, found) = watch::channel(Found::new());
    reader.found = found;
    let mut of_hosts = SplitMix::new(!seed);
    let (mut declared, mut dice, mut ttls) = (Declared::default(), SplitMix::new(seed), AdaptiveTtls::default());
    let mut balanced = BalancedPools::default();
    let mut incremental = 0;
    for step in 0..30 {
        (0..dice.below(4)).for_each(|_| edit(&mut declared, &mut dice));
        (0..of_hosts.below(3)).for_each(|_| hosts.send_modify(|hosts| edit_host(hosts, &mut of_hosts)));
        (0..of_hosts.below(3)).for_each(|_| clusters.send_modify(|found| edit_found(found, &mut of_hosts)));
        reader.declared.store(Arc::new(declared.clone()));
        let state = |previous, scope| reader.read_here(scope, previous, scene.now()).outcome.unwrap();
        let ours = state(Some(&before), ReloadScope::Objects);
        let theirs = state(None, ReloadScope::Files);
        let context = format!("seed {seed}, step {step}");
        incremental += u32::from(ours.touched.is_some());
        let (Compiled { configured: ours, snapshot, .. }, Compiled { configured: theirs, snapshot: expected, .. }) =
            (ours, theirs);
        assert_eq!(differences(&ours.merged, &theirs.merged), [""; 0], "{context}");
        assert_eq!((&ours.not_served, &ours.rejected), (&theirs.not_served, &theirs.rejected), "{context}");
        assert_eq!(format!("{:?}", ours.warnings), format!("{:?}", theirs.warnings), "{context}");
        assert_eq!(content(&ours, &snapshot), content(&theirs, &expected), "{context}");
        let mut new_ttls = AdaptiveTtls::default();
        new_ttls.follow(&snapshot);
        ttls.follow(&snapshot);
        assert_eq!(ttls.pools, new_ttls.pools, "{context}");
        let mut new_balanced = BalancedPools::default();
        new_balanced.follow(&snapshot);
        balanced.follow(&snapshot);
        assert_eq!(balanced, new_balanced, "{context}");
        before = Previous::new(Arc::new(ours), Arc::new(snapshot));
    }
    incremental
}
