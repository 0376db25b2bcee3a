//! Services, EndpointSlices, Ingresses, DNSEndpoints and annotations.

use super::*;

fn ingress(path: &str, spec: Value) -> Value {
    object("Ingress", path, json!({"spec": spec, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}))
}

fn rule(host: &str, services: &[&str]) -> Value {
    let paths: Vec<_> =
        services.iter().map(|name| json!({"path": "/", "backend": {"service": {"name": name}}})).collect();
    json!({"host": host, "http": {"paths": paths}})
}

#[test]
fn annotated_load_balancer_is_exposed_at_its_own_addresses() {
    let mut scene = Scene::new([
        annotated(load_balancer("shop/web", &["2001:db8::1", "192.0.2.1"]), &[("hostname", "Web.test, *.web.test.")]),
        slice("shop/web-1", "web", &["10.0.0.1", "10.0.0.2"]),
        annotated(service("shop/internal"), &[("hostname", "internal.test")]),
        load_balancer("shop/other", &["192.0.2.2"]),
    ]);
    assert_eq!(
        scene.exposures(),
        [
            "*.web.test Service shop/web web 192.0.2.1,2001:db8::1 2",
            "web.test Service shop/web web 192.0.2.1,2001:db8::1 2"
        ]
    );
    assert_eq!(scene.remove("Service shop/web"), ["*.web.test", "web.test"]);
    assert_eq!(scene.names(), [""; 0]);
}

#[test]
fn addresses_of_a_service_are_external_ips_else_those_of_its_load_balancer() {
    let with = |spec: Value, ingress: Value| {
        let rest = json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}});
        let scene = Scene::new([annotated(object("Service", "shop/web", rest), &[("hostname", "web.test")])]);
        let gateways = scene.graph.gateways();
        assert!(gateways.len() <= 1);
        gateways.first().map(|gateway| shown(&gateway.targets)).unwrap_or_default()
    };
    let status =
        json!([{"ip": "192.0.2.1"}, {"hostname": "LB.example.com"}, {"ip": "", "hostname": "lb2.example.com"}]);
    assert_eq!(with(json!({"type": "LoadBalancer"}), status.clone()), "192.0.2.1,lb.example.com,lb2.example.com");
    assert_eq!(with(json!({"type": "LoadBalancer", "externalIPs": ["198.51.100.1"]}), status.clone()), "198.51.100.1");
    assert_eq!(with(json!({"type": "ClusterIP", "externalIPs": ["198.51.100.1"]}), json!([])), "198.51.100.1");
    assert_eq!(with(json!({"type": "ClusterIP"}), status), "");
    assert_eq!(with(json!({"type": "LoadBalancer"}), json!([])), "");
}

#[test]
fn ready_endpoints_are_unique_addresses_of_the_larger_family() {
    let endpoint = |address: &str, conditions: Value| json!({"addresses": [address], "conditions": conditions});
    let with_endpoints = |path: &str, endpoints: &[Value]| {
        let mut slice = slice(path, "web", &[]);
        slice["endpoints"] = json!(endpoints);
        slice
    };
    let mut scene = Scene::new([
        annotated(load_balancer("shop/web", &["192.0.2.1"]), &[("hostname", "web.test")]),
        with_endpoints(
            "shop/web-4",
            &[
                endpoint("10.0.0.1", json!({"ready": true})),
                endpoint("10.0.0.2", json!({})),
                endpoint("10.0.0.3", json!({"ready": false, "serving": true})),
                endpoint("10.0.0.4", json!({"ready": true, "terminating": true})),
                endpoint("web.example", json!({})),
            ],
        ),
        with_endpoints(
            "shop/web-6",
            &[endpoint("2001:db8::1", json!({"ready": true})), endpoint("2001:db8::2", json!(null))],
        ),
        with_endpoints("other/web-1", &[endpoint("10.0.0.9", json!({}))]),
    ]);
    assert_eq!(scene.ready("web.test"), [Some(2)]);
    // The same pod in a second slice, and a further one there.
    assert_eq!(scene.apply([slice("shop/web-5", "web", &["10.0.0.2", "10.0.0.5"])]), ["web.test"]);
    assert_eq!(scene.ready("web.test"), [Some(3)]);
    assert_eq!(scene.apply([slice("shop/web-5", "another", &["10.0.0.5"])]), ["web.test"]);
    assert_eq!(scene.remove("EndpointSlice shop/web-4"), [""; 0], "two endpoints of IPv6 are left");
    assert_eq!(scene.remove("EndpointSlice shop/web-6"), ["web.test"]);
    assert_eq!(scene.ready("web.test"), [Some(0)]);
}

#[test]
fn each_host_of_an_ingress_has_its_own_backends() {
    let spec = json!({
        "defaultBackend": {"service": {"name": "fallback"}},
        "rules": [
            rule("a.test", &["one", "two"]),
            rule("b.test", &["two"]),
            rule("a.test", &["one"]),
            {"host": "c.test"},
            {"http": {"paths": [{"backend": {"service": {"name": "three"}}}]}},
            {"host": "d.test", "http": {"paths": [{"backend": {"resource": {"kind": "Bucket", "name": "x"}}}]}},
            rule("e.test", &["gone"]),
        ],
    });
    let services = ["one", "two", "three", "fallback"].map(|name| service(&format!("shop/{name}")));
    let mut scene = Scene::new(services.into_iter().chain([
        slice("shop/one-1", "one", &["10.0.0.1"]),
        slice("shop/two-1", "two", &["10.0.0.2", "10.0.0.3"]),
        slice("shop/three-1", "three", &["10.0.0.4"]),
        slice("shop/fallback-1", "fallback", &["10.0.0.5"]),
        annotated(ingress("shop/web", spec), &[("hostname", "x.test")]),
    ]));
    assert_eq!(
        scene.exposures(),
        [
            "a.test Ingress shop/web - 192.0.2.9 3",
            "b.test Ingress shop/web - 192.0.2.9 2",
            "c.test Ingress shop/web - 192.0.2.9 1",
            "d.test Ingress shop/web - 192.0.2.9 -",
            "e.test Ingress shop/web - 192.0.2.9 0",
            "x.test Ingress shop/web - 192.0.2.9 5",
        ]
    );
    assert_eq!(
        scene.problems(),
        ["Ingress shop/web: backend Service shop/gone does not exist, so it has no ready endpoint"]
    );
    assert_eq!(scene.apply([slice("shop/two-1", "two", &[])]), ["a.test", "b.test", "x.test"]);
    assert_eq!((scene.ready("a.test"), scene.ready("b.test")), (vec![Some(1)], vec![Some(0)]));
}

#[test]
fn service_of_type_external_name_is_of_unknown_readiness() {
    let external =
        object("Service", "shop/ext", json!({"spec": {"type": "ExternalName", "externalName": "x.example"}}));
    let rules =
        json!({"rules": [rule("a.test", &["ext"]), rule("b.test", &["ext", "web"]), rule("c.test", &["ext", "gone"])]});
    let mut scene = Scene::new([external, service("shop/web"), ingress("shop/in", rules)]);
    let ready = |scene: &Scene| ["a.test", "b.test", "c.test"].map(|name| scene.ready(name)[0]);
    assert_eq!(ready(&scene), [None, None, None], "an unknown backend may be ready");
    scene.apply([slice("shop/web-1", "web", &["10.0.0.1"])]);
    assert_eq!(ready(&scene), [None, Some(1), None]);
}

#[test]
fn endpoints_of_a_dns_endpoint_are_exposures_at_their_names() {
    let endpoints = json!([
        {"dnsName": "A.test.", "recordType": "A", "targets": ["192.0.2.1"], "setIdentifier": "x"},
        {"dnsName": "a.test", "recordType": "A", "targets": ["192.0.2.2"], "setIdentifier": "y"},
        {"dnsName": "_x._tcp.b.test", "recordType": "TXT", "targets": ["text"], "recordTTL": 60},
        {"dnsName": "c.test", "recordTTL": "wrong"},
        {"dnsName": "", "recordType": "A"},
    ]);
    let record = object("DNSEndpoint", "shop/records", json!({"spec": {"endpoints": endpoints}}));
    let mut scene = Scene::new([record.clone()]);
    assert_eq!(
        scene.exposures(),
        [
            "_x._tcp.b.test DNSEndpoint shop/records TXT [\"text\"] -",
            "a.test DNSEndpoint shop/records A [\"192.0.2.1\"] -",
            "a.test DNSEndpoint shop/records A [\"192.0.2.2\"] -",
        ]
    );
    scene.assert_problem("DNSEndpoint shop/records: host \"\" is no name");
    let mut fewer = record;
    fewer["spec"]["endpoints"].as_array_mut().unwrap().remove(0);
    assert_eq!(scene.apply([fewer]), ["a.test"]);
    assert_eq!(scene.exposures()[1], "a.test DNSEndpoint shop/records A [\"192.0.2.2\"] -");
}

#[test]
fn annotation_target_replaces_the_addresses() {
    let spec = json!({"rules": [rule("a.test", &["web"])]});
    let with = |target: &str| {
        Scene::new([service("shop/web"), annotated(ingress("shop/in", spec.clone()), &[("target", target)])])
    };
    let scene = with("198.51.100.1, lb.example.com,2001:db8::1");
    assert_eq!(scene.exposures(), ["a.test Ingress shop/in - 198.51.100.1,2001:db8::1,lb.example.com 0"]);
    let scene = with("not/a target");
    assert_eq!(scene.exposures(), [""; 0]);
    scene.assert_problem("Ingress shop/in: annotation target: \"not/a target\" is neither");
    scene.assert_problem("Ingress shop/in: its names are not exposed");
}

#[test]
fn annotations_are_those_of_the_exposure() {
    let annotations = [("hostname", "a.test"), ("ttl", "5m"), ("set-identifier", "eu"), ("webhook-gslb-weight", "7")];
    let scene = Scene::new([annotated(load_balancer("shop/web", &["192.0.2.1"]), &annotations)]);
    let dns = scene.graph.exposures("a.test")[0].dns.clone().unwrap();
    assert_eq!((dns.ttl.as_deref(), dns.set_identifier.as_deref()), (Some("5m"), Some("eu")));
    let shown: Vec<_> = dns.properties.iter().map(|of| format!("{}={}", of.name, of.value)).collect();
    assert_eq!(shown, ["webhook/gslb-weight=7"]);
}

#[test]
fn object_of_another_controller_declares_no_names() {
    let objects = || {
        [
            load_balancer("shop/web", &["192.0.2.1"]),
            ingress("shop/in", json!({"rules": [rule("a.test", &["gone"])]})),
            object(
                "DNSEndpoint",
                "shop/dns",
                json!({"spec": {"endpoints": [{"dnsName": "b.test", "recordType": "A"}]}}),
            ),
        ]
    };
    let with = |controller| {
        Scene::new(objects().map(|of| annotated(of, &[("controller", controller), ("hostname", "c.test")])))
    };
    let scene = with("other");
    assert_eq!((scene.exposures().len(), scene.problems().len()), (0, 0));
    assert_eq!(with("dns-controller").names(), ["a.test", "b.test", "c.test"]);
}

#[test]
fn exposures_of_two_namespaces_are_in_order_of_creation_then_key() {
    let of =
        |path: &str, minute| created(annotated(load_balancer(path, &["192.0.2.1"]), &[("hostname", "a.test")]), minute);
    let mut scene = Scene::new([of("c/web", 1), of("b/web", 2), of("a/web", 2)]);
    let order = |scene: &Scene| {
        let exposures = scene.graph.exposures("a.test");
        exposures.iter().map(|exposure| exposure.namespace.to_string()).collect::<String>()
    };
    assert_eq!(order(&scene), "cab");
    assert_eq!(scene.graph.exposures("a.test")[0].created, 1_704_067_260);
    assert_eq!(scene.apply([of("c/web", 3)]), ["a.test"]);
    assert_eq!(order(&scene), "abc");
}

#[test]
fn gateway_uses_sixteen_addresses_and_reports_the_rest() {
    let ips: Vec<_> = (1..=20).map(|number| format!("192.0.2.{number}")).collect();
    let ips: Vec<_> = ips.iter().map(|ip| &**ip).collect();
    let scene = Scene::new([annotated(load_balancer("shop/web", &ips), &[("hostname", "a.test")])]);
    assert_eq!(scene.graph.gateways()[0].targets.addresses.len(), 16);
    assert_eq!(scene.problems(), ["Service shop/web: 4 of its addresses are not used: the limit is 16"]);
}

#[test]
fn service_without_endpoint_at_the_gateways_counts_as_without_a_ready_one() {
    let mut scene = Scene::new([
        load_balancer("istio-system/ingress", &["192.0.2.1"]),
        slice("istio-system/ingress-1", "ingress", &["10.0.0.1", "10.0.0.2"]),
        istio_gateway("istio-system/gw", &["*"]),
        service("shop/web"),
        slice("shop/web-1", "web", &["10.0.1.1"]),
        virtual_service("shop/web", &["istio-system/gw"], &["web.test"], &["web"]),
        service("shop/internal"),
    ]);
    let exposed: Vec<_> = scene.graph.exposed().services.keys().map(|service| &**service).collect();
    assert!(exposed.contains(&"shop/web") && !exposed.contains(&"shop/internal"), "{exposed:?}");
    let services = scene.graph.services_of(&"VirtualService shop/web".parse().unwrap());
    assert_eq!(services, ["shop/web".into()]);
    let gateways = scene.graph.gateways();
    assert_eq!(gateways[0].pods, ["10.0.0.1", "10.0.0.2"].map(|pod| pod.parse::<IpAddr>().unwrap()));
    let mut set = |services: &[&str]| {
        scene.graph.set_without_endpoint(&services.iter().map(|service| Arc::from(*service)).collect());
        (scene.take_changed(), scene.ready("web.test"))
    };
    assert_eq!(set(&["shop/web", "shop/other"]), (vec!["web.test".to_owned()], vec![Some(0)]));
    assert_eq!(set(&["shop/web"]), (vec![], vec![Some(0)]));
    assert_eq!(set(&[]), (vec!["web.test".to_owned()], vec![Some(1)]));
    scene.remove("VirtualService shop/web");
    assert!(scene.graph.exposed().is_empty());
}
