//! Changes, lists of all objects, and summaries.

use super::*;

#[test]
fn unchanged_object_changes_nothing() {
    let web = annotated(load_balancer("shop/web", &["192.0.2.1", "192.0.2.2"]), &[("hostname", "a.test")]);
    let mut scene = Scene::default();
    assert_eq!(scene.apply([web.clone()]), ["a.test"]);
    assert_eq!(scene.apply([web.clone()]), [""; 0]);
    let mut other = web.clone();
    other["metadata"]["resourceVersion"] = json!("7");
    other["status"]["loadBalancer"]["ingress"] = json!([{"ip": "192.0.2.2"}, {"ip": "192.0.2.1", "ports": []}]);
    assert_eq!(scene.apply([other]), [""; 0], "neither the version nor the order of addresses matters");
    let there_and_back = [load_balancer("shop/web", &[]), web];
    assert_eq!(scene.apply(there_and_back), [""; 0], "changes between two calls cancel out");
}

#[test]
fn objects_that_a_list_lacks_are_removed() {
    let of = |name: &str| {
        annotated(load_balancer(&format!("shop/{name}"), &["192.0.2.1"]), &[("hostname", &format!("{name}.test"))])
    };
    let mut scene = Scene::new([of("a"), of("b"), slice("shop/a-1", "a", &["10.0.0.1"])]);
    scene.graph.retain(Kind::Service, &HashSet::from(["Service shop/b".parse().unwrap()]));
    assert_eq!(scene.take_changed(), ["a.test"]);
    assert_eq!(scene.graph.counts(), BTreeMap::from([(Kind::Service, 1), (Kind::EndpointSlice, 1)]));
    scene.graph.retain(Kind::Service, &HashSet::new());
    assert_eq!(scene.take_changed(), ["b.test"]);
    assert!(!scene.graph.contains(&"Service shop/b".parse().unwrap()));
}

#[test]
fn nothing_is_left_once_all_objects_are_removed() {
    let objects = [
        load_balancer("istio-system/ingress", &["192.0.2.1"]),
        istio_gateway("istio-system/gw", &["*"]),
        service("shop/web"),
        slice("shop/web-1", "web", &["10.0.0.1"]),
        virtual_service("shop/web", &["istio-system/gw"], &["a.test"], &["web", "gone"]),
    ];
    let mut scene = Scene::new(objects.clone());
    for object in objects {
        let (key, _) = read(object);
        scene.graph.apply(key, None);
    }
    assert_eq!(scene.take_changed(), ["a.test"]);
    assert_eq!(format!("{:?}", scene.graph), format!("{:?}", Graph::new()));
}

#[test]
fn gateways_are_listed_with_the_number_of_their_names() {
    let scene = Scene::new([
        load_balancer("istio-system/ingress", &["192.0.2.1"]),
        load_balancer("istio-system/pending", &[]),
        istio_gateway("istio-system/gw", &["*"]),
        istio_gateway("istio-system/second", &["*"]),
        virtual_service("a/web", &["istio-system/gw", "istio-system/second"], &["a.test", "b.test"], &[]),
        virtual_service("b/web", &["istio-system/gw"], &["b.test"], &[]),
        object("Service", "db/external", json!({"spec": {"externalIPs": ["198.51.100.1"]}})),
        gateway("infra/gw", &[], &["192.0.2.8"]),
        object(
            "Gateway",
            "infra/istio",
            json!({"spec": {"gatewayClassName": "istio"}, "status": {"addresses": [{"value": "lb.example.com"}]}}),
        ),
    ]);
    let lines: Vec<_> = scene
        .graph
        .gateways()
        .iter()
        .map(|of| format!("{} {} {} {}", of.key, of.is_istio, shown(&of.targets), of.hosts))
        .collect();
    assert_eq!(
        lines,
        [
            "Service db/external false 198.51.100.1 0",
            "Service istio-system/ingress true 192.0.2.1 2",
            "Gateway infra/gw false 192.0.2.8 0",
            "Gateway infra/istio true lb.example.com 0",
        ]
    );
}
