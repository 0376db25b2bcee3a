//! Large clusters and large objects.

use std::time::{Duration, Instant};

use super::*;

/// Time that a step may take in a debug build on a busy machine. A step of quadratic cost takes minutes.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn ten_thousand_hosts_of_one_object_are_exposed_quickly() {
    let hosts: Vec<_> = (0..10_000).map(|number| format!("h{number}.test")).collect();
    let hosts: Vec<_> = hosts.iter().map(|host| &**host).collect();
    let rules: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
    let ingress = json!({"spec": {"rules": rules}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}});
    let endpoints: Vec<_> = hosts.iter().map(|host| json!({"dnsName": host, "recordType": "A"})).collect();
    let begun = Instant::now();
    let mut scene = Scene::new([
        load_balancer("istio-system/ingress", &["192.0.2.1"]),
        istio_gateway("istio-system/gw", &hosts),
        virtual_service("shop/web", &["istio-system/gw"], &hosts, &["web"]),
        gateway("infra/gw", &[listener("l", "HTTP", Some("*.test"))], &["192.0.2.2"]),
        route("HTTPRoute", "shop/web", &[parent("infra/gw")], &hosts, &[]),
        object("Ingress", "shop/web", ingress),
        object("DNSEndpoint", "shop/web", json!({"spec": {"endpoints": endpoints}})),
    ]);
    assert_eq!((scene.names().len(), scene.exposures().len()), (10_000, 40_000));
    assert_eq!(scene.remove("VirtualService shop/web").len(), 10_000);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

#[test]
fn one_name_of_ten_thousand_objects_is_exposed_quickly() {
    let begun = Instant::now();
    let of =
        |number: usize| annotated(load_balancer(&format!("shop/s{number}"), &["192.0.2.1"]), &[("hostname", "a.test")]);
    let mut scene = Scene::new((0..10_000).map(of));
    assert_eq!(scene.ready("a.test").len(), 10_000);
    scene.graph.retain(Kind::Service, &HashSet::new());
    assert_eq!(scene.take_changed(), ["a.test"]);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

#[test]
fn start_with_twenty_thousand_objects_is_evaluated_once() {
    let begun = Instant::now();
    let of = |number: usize| {
        let (path, name) = (format!("n{}/s{number}", number % 50), format!("s{number}"));
        let [first, second] = [0, 1].map(|part| {
            slice(&format!("{path}-{part}"), &name, &[&format!("10.{part}.{}.{}", number / 256, number % 256)])
        });
        [
            service(&path),
            first,
            second,
            virtual_service(&path, &["istio-system/gw"], &[&format!("{name}.test")], &[&name]),
        ]
    };
    let mut scene = Scene::new((0..5_000).flat_map(of));
    let base = [load_balancer("istio-system/ingress", &["192.0.2.1"]), istio_gateway("istio-system/gw", &["*.test"])];
    assert_eq!(scene.apply(base).len(), 5_000);
    assert_eq!(scene.ready("s77.test"), [Some(2)]);
    assert_eq!(scene.apply([slice("n27/s77-1", "s77", &[])]), ["s77.test"]);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

#[test]
fn objects_over_the_limits_are_left_out() {
    let unlimited = Limits { objects: usize::MAX, memory: usize::MAX };
    let of = |path: &str, hosts: &[&str]| read(virtual_service(path, &[], hosts, &["web"]));
    let (key, small) = of("shop/a", &["a.test"]);
    let (other, large) = of("shop/b", &["a.test", "b.test"]);
    let mut graph = Graph::new();
    graph.apply(key.clone(), Some(small.clone()));
    let one = graph.memory();
    let two = one + large.memory(&other);
    assert!((300..3_000).contains(&one) && large.memory(&other) > one, "{one}");
    for (limits, is_over) in [
        (unlimited, false),
        (Limits { objects: 2, memory: two }, false),
        (Limits { objects: 1, ..unlimited }, true),
        (Limits { memory: two - 1, ..unlimited }, true),
    ] {
        assert_eq!(graph.is_over(limits, &other, &large), is_over, "{limits:?}");
    }
    // A known object may change, and become smaller also over the limit.
    for (limits, key, object, is_over) in [
        (Limits { objects: 1, ..unlimited }, &key, &large, false),
        (Limits { objects: 0, memory: 1 }, &key, &large, true),
        (Limits { objects: 0, memory: 1 }, &key, &small, false),
    ] {
        assert_eq!(graph.is_over(limits, key, object), is_over, "{limits:?}");
    }
    graph.apply(other.clone(), Some(large.clone()));
    graph.apply(other.clone(), Some(large));
    assert_eq!(graph.memory(), two);
    graph.apply(other.clone(), Some(small.clone()));
    assert_eq!(graph.memory(), one + small.memory(&other));
    graph.retain(Kind::VirtualService, &HashSet::new());
    assert_eq!(graph.memory(), 0);
}

#[test]
fn memory_of_an_object_is_about_that_of_its_texts() {
    let long = "x".repeat(10_000);
    let hosts: Vec<_> = (0..1_000).map(|number| format!("h{number}.test")).collect();
    let hosts: Vec<_> = hosts.iter().map(|host| &**host).collect();
    let rule = json!({"host": format!("{}.test", "a.".repeat(120)), "http": {"paths": []}});
    for (object, least) in [
        (
            object("DNSEndpoint", "shop/a", json!({"spec": {"endpoints": [{"dnsName": "a.test", "targets": [long]}]}})),
            10_000,
        ),
        (
            object(
                "DNSEndpoint",
                "shop/a",
                json!({"spec": {"endpoints": [{"dnsName": "a.test", "labels": {"x": long}, "providerSpecific": [{"name": long}]}]}}),
            ),
            20_000,
        ),
        (object("Ingress", "shop/a", json!({"spec": {"rules": vec![rule; 100]}})), 200),
        (istio_gateway("shop/a", &hosts), 10_000),
        (annotated(service("shop/a"), &[("target", &*long)]), 10_000),
        (slice("shop/a", "a", &["192.0.2.1"; 1_000]), 1_000 * size_of::<(IpAddr, bool)>()),
        (traffic_split("shop/a", "a", &[(&*long, 1)]), 10_000),
    ] {
        let (key, object) = read(object);
        let memory = object.memory(&key);
        assert!((least..8 * least + 2_000).contains(&memory), "{key}: {memory} of {least}");
    }
}
