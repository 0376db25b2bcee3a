//! Tests of the pools, names and monitors of intents.

use std::collections::BTreeMap;

use fairway_model::{AnswerMode, Check, Cluster, ClusterName, DownAnswer, Policy, Timestamp};
use serde_json::{Value, json};

use crate::{Exposed, Exposure, NotServed, StoredIntent, body::read, object_name};
use fairway_store::objects::{Key, Kind};

fn cluster(name: &str, services: &[&str]) -> (ClusterName, Cluster) {
    let name = ClusterName::new(name).unwrap();
    let services = services.iter().map(|of| (*of).to_owned()).collect();
    let cluster = Cluster { services, ..Cluster::new(name.clone(), vec!["192.0.2.1".parse().unwrap()]) };
    (name, cluster)
}

fn clusters() -> BTreeMap<ClusterName, Cluster> {
    [cluster("ap1", &["shop", "shop-v2"]), cluster("eu1", &["*"]), cluster("us1", &["shop"]), cluster("us2", &[])]
        .into()
}

fn stored(kind: Kind, names: &[&str], created: u64, body: &Value) -> StoredIntent {
    let names: Vec<&str> = ["p", "a", "v1", "default", "default"].iter().chain(names).copied().collect();
    let intent = read(kind, body.to_string().as_bytes(), None).unwrap_or_else(|refused| panic!("{body}: {refused}"));
    StoredIntent::new(Key::new(kind, &names).unwrap(), Timestamp::from_secs(created), intent)
}

fn inbound(name: &str, spec: Value) -> StoredIntent {
    stored(Kind::Inbound, &[name], 1, &inbound_body(name, spec))
}

fn inbound_body(name: &str, more: Value) -> Value {
    let mut spec =
        json!({"app": "shop", "serviceName": "shop", "externalName": "shop.gslb.example", "externalSupport": true});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn expose(stored: &[StoredIntent]) -> Vec<Exposure> {
    let clusters = clusters();
    crate::expose(&stored.iter().collect::<Vec<_>>(), &clusters.iter().collect())
}

fn only(stored: &[StoredIntent]) -> Result<Exposed, NotServed> {
    let mut expose = expose(stored);
    assert_eq!(expose.len(), 1, "{expose:?}");
    expose.remove(0).outcome
}

fn members(elements: &Exposed) -> Vec<(&str, u16, u8)> {
    elements.pool.members.iter().map(|of| (of.cluster.as_str(), of.weight.0, of.tier.number())).collect()
}

#[test]
fn members_are_the_clusters_that_run_the_service() {
    let elements = only(&[inbound("n", json!({}))]).unwrap();
    assert_eq!(members(&elements), [("ap1", 1, 1), ("eu1", 1, 1), ("us1", 1, 1)]);
    assert_eq!(elements.name.name.to_string(), "shop.gslb.example.");
    assert_eq!(elements.pool.name.as_str(), "inbound+p+a+v1+default+default+n");
    assert_eq!((elements.pool.ttl.secs(), &elements.pool.policy), (30, &Policy::WEIGHTED));
    let listed = json!({"gslb": {"members": [{"cluster": "us2", "weight": 0, "tier": 2}, {"edge": "eu1", "weight": 60}, {"cluster": "none"}]}});
    assert_eq!(members(&only(&[inbound("n", listed)]).unwrap()), [("us2", 0, 2), ("eu1", 60, 1)]);
}

#[test]
fn pool_has_the_steering_fields_of_the_body() {
    let spec = json!({"gslb": {"ttl": "1m", "mode": "address", "policy": ["tier", "failover"], "downResponse": {"type": "FALLBACK_IP", "fallback": ["192.0.2.9"]}, "weightBy": "pods", "capacityPerPod": 50}});
    let pool = only(&[inbound("n", spec)]).unwrap().pool;
    assert_eq!((pool.ttl.secs(), pool.mode), (60, AnswerMode::Address));
    assert_eq!(pool.policy.to_string(), "tier, failover");
    assert_eq!((pool.weight_by_pods, pool.capacity_per_pod), (true, Some(50)));
    assert_eq!(pool.down, DownAnswer::FallbackAddresses(vec!["192.0.2.9".parse().unwrap()]));
}

#[test]
fn intent_without_policy_is_balanced_by_load_if_all_its_clusters_have_a_capacity() {
    let policies = |stored: &[StoredIntent], without: &str| {
        let mut clusters = clusters();
        for (name, cluster) in &mut clusters {
            cluster.capacity = (name.as_str() != without).then_some(1_000);
        }
        let exposures = crate::expose(&stored.iter().collect::<Vec<_>>(), &clusters.iter().collect());
        let policy = |of: &Exposure| of.outcome.as_ref().ok().map(|exposed| exposed.pool.policy.to_string());
        exposures.iter().filter_map(policy).collect::<Vec<_>>()
    };
    let named =
        |name: &str, created: u64, spec: Value| stored(Kind::Inbound, &[name], created, &inbound_body(name, spec));
    let [eu1, us2] = ["eu1", "us2"].map(|cluster| json!({"gslb": {"members": [{"cluster": cluster}]}}));
    assert_eq!(policies(&[named("n", 1, json!({}))], ""), ["load, weighted"]);
    assert_eq!(policies(&[named("n", 1, json!({}))], "us1"), ["weighted"]);
    assert_eq!(policies(&[named("n", 1, eu1.clone())], "us1"), ["load, weighted"], "us1 is no member");
    assert_eq!(policies(&[named("n", 1, eu1.clone()), named("m", 2, us2)], "us2"), ["weighted"], "us2 joined later");
    for policy in ["weighted", "failover"] {
        assert_eq!(policies(&[named("n", 1, json!({"gslb": {"policy": policy}}))], ""), [policy]);
    }
    let child = stored(Kind::InboundOfCompound, &["all", "n"], 1, &inbound_body("n", eu1));
    let body = json!({"metadata": {"name": "all"}, "spec": {"externalName": "all.gslb.example"}});
    let compound = stored(Kind::Compound, &["all"], 1, &body);
    assert_eq!(policies(&[child.clone(), compound.clone()], ""), ["load, weighted"]);
    assert_eq!(policies(&[child, compound], "eu1"), ["weighted"]);
}

#[test]
fn intent_that_is_not_served_has_a_reason() {
    for (spec, part) in [
        (json!({"externalSupport": false}), "externalSupport is false"),
        (json!({"externalName": ""}), "there is no name to serve"),
        (json!({"externalName": "192.0.2.1"}), "there is no name to serve"),
        (json!({"externalName": "shop"}), "there is no name to serve"),
        (json!({"gslb": {"members": [{"cluster": "none"}]}}), "no declared cluster runs it"),
        (json!({"gslb": {"mode": "cname"}}), "no declared cluster runs it"),
    ] {
        let why = only(&[inbound("n", spec.clone())]).unwrap_err().to_string();
        assert!(why.contains(part), "{spec}: {why}");
    }
    let prefix = only(&[inbound("n", json!({"externalName": "shop", "publicDomain": "gslb.example."}))]).unwrap();
    assert_eq!(prefix.name.name.to_string(), "shop.gslb.example.");
}

#[test]
fn children_of_a_compound_share_by_weight() {
    let child = |name: &str, cluster: &str, weight: Value| {
        let spec = json!({"externalName": "", "weight": weight, "gslb": {"members": [{"cluster": cluster}]}});
        stored(Kind::InboundOfCompound, &["all", name], 1, &inbound_body(name, spec))
    };
    let compound = stored(
        Kind::Compound,
        &["all"],
        1,
        &json!({"metadata": {"name": "all"}, "spec": {"externalName": "all.example", "ttl": 5}}),
    );
    let three =
        [compound.clone(), child("x", "ap1", json!(20)), child("y", "eu1", json!(80)), child("z", "us1", json!(0))];
    let elements = only(&three).unwrap();
    assert_eq!(members(&elements), [("ap1", 1, 1), ("eu1", 4, 1), ("us1", 0, 1)]);
    assert_eq!((elements.name.name.to_string().as_str(), elements.pool.ttl.secs()), ("all.example.", 5));
    let shared =
        [compound.clone(), child("x", "ap1", json!(50)), child("y", "eu1", json!("")), child("z", "ap1", json!(""))];
    assert_eq!(members(&only(&shared).unwrap()), [("ap1", 3, 1), ("eu1", 1, 1)]);
    assert_eq!(only(&[compound]).unwrap_err(), NotServed::NoMember);
}

#[test]
fn each_tier_of_a_child_has_its_whole_share() {
    let compound = stored(
        Kind::Compound,
        &["all"],
        1,
        &json!({"metadata": {"name": "all"}, "spec": {"externalName": "all.example"}}),
    );
    let one = json!({"weight": 25, "gslb": {"members": [{"cluster": "ap1", "weight": 3}, {"cluster": "eu1", "weight": 1}, {"cluster": "us2", "tier": 2}]}});
    let other = json!({"weight": 75, "gslb": {"members": [{"cluster": "us1"}]}});
    let child = |name: &str, spec| stored(Kind::InboundOfCompound, &["all", name], 1, &inbound_body(name, spec));
    let elements = only(&[compound, child("x", one), child("y", other)]).unwrap();
    assert_eq!(members(&elements), [("ap1", 3, 1), ("eu1", 1, 1), ("us1", 12, 1), ("us2", 4, 2)]);
}

#[test]
fn networks_of_clients_hide_members_from_other_clients() {
    let client = |name: &str, cidrs: Value| {
        stored(Kind::Client, &["n", name], 1, &json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}}))
    };
    let all = [
        inbound("n", json!({})),
        client("a", json!(["198.51.100.0/24", "203.0.113.0/24"])),
        client("b", json!(["198.51.100.0/24"])),
        client("c", json!([])),
    ];
    let pool = only(&all).unwrap().pool;
    let networks: Vec<String> = pool.members[0].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["198.51.100.0/24", "203.0.113.0/24"]);
}

#[test]
fn older_of_two_intents_with_one_name_wins_and_members_are_merged() {
    let older = stored(
        Kind::Inbound,
        &["z"],
        1,
        &inbound_body("z", json!({"gslb": {"ttl": 10, "members": [{"cluster": "eu1"}]}})),
    );
    let younger = stored(
        Kind::Inbound,
        &["a"],
        2,
        &inbound_body(
            "a",
            json!({"gslb": {"ttl": 20, "members": [{"cluster": "us1"}, {"cluster": "eu1", "weight": 9}]}}),
        ),
    );
    let found: Vec<Exposure> = expose(&[younger, older.clone()]);
    let winner = found.iter().find(|exposure| exposure.key == older.key).unwrap().outcome.as_ref().unwrap();
    assert_eq!((winner.pool.ttl.secs(), members(winner)), (10, vec![("eu1", 1, 1), ("us1", 1, 1)]));
    let loser = found.iter().find(|exposure| exposure.key != older.key).unwrap();
    assert!(matches!(&loser.outcome, Err(NotServed::Conflict { with, .. }) if *with == older.key));
}

#[test]
fn monitor_is_derived_from_the_service() {
    let monitor = |spec: Value| only(&[inbound("n", spec)]).unwrap().monitor.map(|(_, monitor)| monitor);
    let kind = |spec: Value| match monitor(spec).map(|monitor| monitor.check) {
        None => "none".to_owned(),
        Some(Check::Tcp { port }) => format!("tcp {port}"),
        Some(Check::Http(http)) => {
            format!("{} {}{}", if http.tls.is_some() { "https" } else { "http" }, http.port, http.path)
        }
        Some(other) => format!("{other:?}"),
    };
    assert_eq!(kind(json!({})), "none");
    assert_eq!(kind(json!({"protocol": "HTTP"})), "http 80/");
    assert_eq!(kind(json!({"protocol": "HTTPS", "port": 8443})), "https 8443/");
    assert_eq!(kind(json!({"protocol": "HTTPS", "mutualTLS": "MUTUAL", "caCertificate": "Q0E="})), "tcp 443");
    assert_eq!(kind(json!({"protocol": "GRPC", "port": 50051})), "tcp 50051");
    assert_eq!(kind(json!({"protocol": "UDP", "port": 53})), "none");
    assert_eq!(
        kind(json!({"protocol": "HTTPS", "gslb": {"probe": {"path": "/healthz/ready", "port": 15021}}})),
        "http 15021/healthz/ready"
    );
    let hinted = monitor(json!({"protocol": "TCP", "port": 5, "sidecarProxy": true,
        "traffic": {"consecutiveErrors": 8, "sweepInterval": "2s", "baseEjectionTime": 15}}))
    .unwrap();
    assert_eq!((hinted.period.as_secs(), hinted.timeout.as_secs(), hinted.fall, hinted.rise), (2, 2, 8, 8));
    let said = monitor(json!({"protocol": "TCP", "port": 5, "sidecarProxy": true, "traffic": {"consecutiveErrors": 8},
        "gslb": {"probe": {"interval": "20s", "timeout": "1s", "rise": 1, "fall": 2}}}))
    .unwrap();
    assert_eq!((said.period.as_secs(), said.timeout.as_secs(), said.fall, said.rise), (20, 1, 2, 1));
}

#[test]
fn long_names_are_cut_and_differ() {
    let key = |last: &str| Key::new(Kind::Inbound, &["p", "a", "v", "default", &"g".repeat(120), last]).unwrap();
    let (one, other) = (object_name(&key("one")), object_name(&key("other")));
    assert!(one.len() == 128 && other.len() == 128 && one != other, "{one} {other}");
}
