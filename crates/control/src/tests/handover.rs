//! Names of the operator that tenants claimed in advance.

use std::sync::Arc;

use fairway_contributions::part_key;
use fairway_model::{Name, Timestamp};
use fairway_providers::{plain_name, webhook_server::Scope};
use fairway_store::objects::{Author, Batch, Change, Event, Expect, Key, Kind, Object};
use serde_json::{Value, json};

use super::*;
use crate::{
    configured::{Configured, Previous},
    declared::Declared,
};

/// The zone, the rules and a cluster of the operator.
const HEAD: &str = "version: 1
listen: { dns: [\"127.0.0.1:0\"] }
zones: [ { name: gslb.example, ns: [ns1.example.net], contact: a@gslb.example } ]
monitors: [ { name: none, type: always } ]
clusters: [ { name: c0, addresses: [192.0.2.1], services: [shop] } ]
webhook: { owners: [ { name: evil, token: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad } ] }
access: { names: [ { to: [\"owner:evil\", \"project:evil\"], domains: [gslb.example] } ] }
";
const CLOSED: &str = "pools: [ { name: p0, policy: failover, ttl: 60s, monitor: none, members: [ { cluster: c0 } ] } ]
";
const NAMES: &str = "names: [ { name: n0.gslb.example, pool: p0 }, { name: n1.gslb.example, pool: p0 } ]
";

/// Time of the claims, in seconds.
const CLAIMED: u64 = 100;
/// Time of the changes, in seconds.
const START: u64 = 1_000;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn name(number: usize) -> Name {
    format!("n{number}.gslb.example").parse().unwrap()
}

fn object(key: &Key, time: Timestamp, value: &Value) -> Object {
    let (created, changed, value) = (time, time, value.to_string().into_bytes().into());
    Object { key: key.clone(), value, revision: 1, generation: 1, created, changed, by: Author::default() }
}

/// Claims two names as a webhook owner.
fn claim_by_webhook(declared: &mut Declared) {
    for number in 0..2 {
        let text = plain_name(&name(number).to_string());
        let key = part_key(&Scope::owner("evil").unwrap(), &text);
        let endpoint = json!({"dnsName": text, "recordType": "A", "targets": ["198.51.100.66"], "setIdentifier": "x"});
        let row = json!({"since": CLAIMED, "endpoint": endpoint});
        let part = declared.all().find(|object| object.key == key);
        let part = part.map(|object| serde_json::from_slice::<Value>(&object.value).unwrap()["rows"].clone());
        let mut rows: Vec<Value> = part.and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
        rows.push(row);
        declared.put(&key, Some(object(&key, at(CLAIMED), &json!({"rows": rows}))));
    }
}

/// Claims two names as a project.
fn claim_by_intents(declared: &mut Declared) {
    for number in 0..2 {
        let own = format!("i{number}");
        let key = Key::new(Kind::Inbound, &["evil", "a", "v1", "default", "default", &own]).unwrap();
        let spec = json!({"app": "a", "serviceName": "shop", "externalSupport": true,
            "externalName": plain_name(&name(number).to_string())});
        declared.put(&key, Some(object(&key, at(CLAIMED), &json!({"metadata": {"name": own}, "spec": spec}))));
    }
}

fn declare(declared: &mut Declared, kind: Kind, own: &str, value: &Value) -> Key {
    let key = Key::new(kind, &[own]).unwrap();
    declared.put(&key, Some(object(&key, at(CLAIMED), value)));
    key
}

fn read(reader: &Reader, scope: ReloadScope, previous: Option<&Previous>, now: Timestamp) -> Compiled {
    reader.read_here(scope, previous, now).outcome.unwrap()
}

fn previous(compiled: Compiled) -> Previous {
    Previous::new(Arc::new(compiled.configured), Arc::new(compiled.snapshot))
}

/// Returns a reader of a configuration with declared objects, and the state that it read.
fn started(scene: &Scene, declared: &Declared) -> (Reader, Previous) {
    let reader = scene.reader();
    reader.declared.store(Arc::new(declared.clone()));
    let compiled = read(&reader, ReloadScope::Files, None, at(CLAIMED));
    (reader, previous(compiled))
}

fn is_served(of: &Configured) -> bool {
    of.merged.desired.names.contains_key(&name(0))
}

fn claimed() -> [(&'static str, Declared); 2] {
    let mut claims = [("webhook", Declared::default()), ("intents", Declared::default())];
    claim_by_webhook(&mut claims[0].1);
    claim_by_intents(&mut claims[1].1);
    claims
}

#[test]
fn names_of_files_that_only_a_tenant_claimed_in_advance_count_as_removed() {
    for (way, declared) in claimed() {
        // Without a TTL no claim waits, so that the names are still served.
        let scene = Scene::new(&format!("{HEAD}{}{NAMES}", CLOSED.replace("60s", "0s")));
        let (reader, before) = started(&scene, &declared);
        scene.write(HEAD);
        let removals = read(&reader, ReloadScope::Files, Some(&before), at(START)).removals;
        let text = format!("{removals:?}");
        assert!(text.contains("no longer declare any of the 2 names of zone gslb.example."), "{way}: {text}");
    }
}

#[test]
fn names_that_an_open_pool_shared_or_an_operator_declares_are_not_removed() {
    let (mut shared, mut moved) = (Declared::default(), Declared::default());
    claim_by_webhook(&mut shared);
    claim_by_webhook(&mut moved);
    let pool = json!({"name": "p1", "policy": "failover", "monitor": "none", "members": [{"cluster": "c0"}]});
    declare(&mut moved, Kind::Pool, "p1", &pool);
    for number in 0..2 {
        let own = plain_name(&name(number).to_string());
        declare(&mut moved, Kind::Name, &own, &json!({"name": own, "pool": "p1"}));
    }
    let open = |number| {
        format!(
            "{{ name: p{number}, policy: weighted, monitor: none, contributions: allow, members: [ {{ cluster: c0 }} ] }}"
        )
    };
    let open = format!("pools: [ {}, {} ]\n", open(0), open(1));
    let names = NAMES.replace("n1.gslb.example, pool: p0", "n1.gslb.example, pool: p1");
    for (config, declared) in [(format!("{HEAD}{open}{names}"), shared), (format!("{HEAD}{CLOSED}{NAMES}"), moved)] {
        let scene = Scene::new(&config);
        let (reader, before) = started(&scene, &declared);
        scene.write(HEAD);
        let compiled = read(&reader, ReloadScope::Files, Some(&before), at(START));
        assert!(compiled.removals.is_empty(), "{:?}", compiled.removals);
        assert!(is_served(&compiled.configured), "nobody waits for what was in the answers before");
    }
}

#[test]
fn name_of_the_files_passes_to_a_tenant_after_its_ttl() {
    for (way, declared) in claimed() {
        let scene = Scene::new(&format!("{HEAD}{CLOSED}{NAMES}"));
        let (reader, before) = started(&scene, &declared);
        scene.write(&format!("{HEAD}{CLOSED}{}", NAMES.replace("{ name: n0.gslb.example, pool: p0 }, ", "")));
        let compiled = read(&reader, ReloadScope::Files, Some(&before), at(START));
        assert!(compiled.removals.is_empty(), "one name is never too much");
        let until = at(START).plus(Duration::from_secs(60));
        assert!(!is_served(&compiled.configured), "{way}");
        assert_eq!(compiled.configured.merged.take_overs.get(&name(0)), Some(&until), "{way}");
        let waiting = previous(compiled);
        let later = Timestamp::from_secs(until.secs() - 1);
        let still = previous(read(&reader, ReloadScope::Objects, Some(&waiting), later));
        assert!(!is_served(&still.configured), "{way}: also after a reload of objects");
        let over = read(&reader, ReloadScope::Objects, Some(&still), until).configured;
        assert!(is_served(&over) && over.merged.take_overs.is_empty(), "{way}: the TTL is over");
        // The files take it back meanwhile.
        scene.write(&format!("{HEAD}{CLOSED}{NAMES}"));
        let back = read(&reader, ReloadScope::Files, Some(&still), later).configured;
        assert!(is_served(&back) && back.merged.take_overs.is_empty(), "{way}: the files declare it again");
    }
}

#[test]
fn name_of_an_operators_object_passes_to_a_tenant_after_its_ttl() {
    for (way, mut declared) in claimed() {
        let scene = Scene::new(&format!("{HEAD}{CLOSED}"));
        let own = plain_name(&name(0).to_string());
        let key = declare(&mut declared, Kind::Name, &own, &json!({"name": own, "pool": "p0", "ttl": "90s"}));
        let sets = json!({"name": own, "sets": [{"type": "TXT", "ttl": "30s", "data": ["of-the-operator"]}]});
        let records = declare(&mut declared, Kind::Records, &own, &sets);
        let (reader, mut before) = started(&scene, &declared);
        // It is the operator's as long as one of the two objects is left.
        for (key, until) in [(records, None), (key, Some(at(START).plus(Duration::from_secs(90))))] {
            let deletion = Change { key, expect: Expect::Anything, value: None };
            let batch = Batch { changes: vec![deletion], by: Author::default(), at: at(START) };
            let batch = declared.with_removed_names(batch, Some(&before.configured.merged));
            let events = batch.changes.into_iter().map(|Change { key, value, .. }| {
                let value = value.map(|value| serde_json::from_slice(&value).unwrap());
                Event { revision: 2, object: value.map(|value: Value| object(&key, at(START), &value)), key }
            });
            declared.apply(&events.collect::<Vec<_>>());
            reader.declared.store(Arc::new(declared.clone()));
            let compiled = read(&reader, ReloadScope::Objects, Some(&before), at(START));
            assert_eq!(compiled.configured.merged.take_overs.get(&name(0)).copied(), until, "{way}");
            assert_eq!(is_served(&compiled.configured), until.is_none(), "{way}");
            before = previous(compiled);
        }
        let over = read(&reader, ReloadScope::Objects, Some(&before), at(START).plus(Duration::from_secs(90)));
        assert!(is_served(&over.configured), "{way}: the TTL is over");
    }
}
