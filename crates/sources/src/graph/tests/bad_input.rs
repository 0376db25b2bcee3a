//! Input that is wrong, circular or strange.

use super::*;

const GW: &[&str] = &["istio-system/gw"];

fn ingress_gateway(hosts: &[&str]) -> [Value; 2] {
    [load_balancer("istio-system/ingress", &["192.0.2.1"]), istio_gateway("istio-system/gw", hosts)]
}

#[test]
fn listener_set_that_refers_to_itself_has_no_gateway() {
    let to_set = json!({"kind": "ListenerSet", "name": "set"});
    let spec = json!({"parentRef": to_set, "listeners": [listener("l", "HTTP", None)]});
    let status = json!({"conditions": [{"type": "Accepted", "status": "True"}]});
    let scene = Scene::new([
        object("ListenerSet", "shop/set", json!({"spec": spec, "status": status})),
        route("HTTPRoute", "shop/web", &[to_set], &["a.test"], &[]),
    ]);
    assert_eq!(scene.names(), [""; 0]);
    scene.assert_problem("ListenerSet shop/set: its parentRef is no Gateway");
    scene.assert_problem("HTTPRoute shop/web: no Gateway has accepted ListenerSet shop/set");
}

#[test]
fn delegates_that_refer_to_each_other_end() {
    let delegate = |path: &str, to: &str, hosts: &[&str]| {
        let http = json!([{"delegate": {"name": to}}]);
        object("VirtualService", path, json!({"spec": {"gateways": GW, "hosts": hosts, "http": http}}))
    };
    let all = [
        delegate("shop/root", "a", &["a.test"]),
        delegate("shop/a", "b", &[]),
        delegate("shop/b", "a", &[]),
        delegate("shop/self", "self", &["s.test"]),
    ];
    let scene = Scene::new(ingress_gateway(&["*"]).into_iter().chain(all));
    assert_eq!((scene.ready("a.test"), scene.ready("s.test")), (vec![Some(0)], vec![Some(0)]));
    assert_eq!(
        scene.problems(),
        ["VirtualService shop/self: delegate VirtualService shop/self has hosts, so it is no delegate"]
    );
}

#[test]
fn all_names_are_no_name() {
    let mut scene =
        Scene::new(ingress_gateway(&["*"]).into_iter().chain([virtual_service("shop/web", GW, &["*"], &[])]));
    assert_eq!(scene.names(), [""; 0]);
    scene.assert_problem("VirtualService shop/web: host \"*\" stands for all names");
    scene.apply([annotated(virtual_service("shop/web", GW, &["*"], &[]), &[("hostname", "a.test")])]);
    assert_eq!((scene.names(), scene.problems().len()), (vec!["a.test"], 0));
    scene.apply([annotated(load_balancer("istio-system/ingress", &["192.0.2.1"]), &[("hostname", "*")])]);
    scene.assert_problem("Service istio-system/ingress: host \"*\" stands for all names");
}

#[test]
fn invalid_hosts_are_problems_and_others_are_exposed() {
    let hosts = ["bücher.test", "a b.test", "192.0.2.1", "web", "a..test", "ok.test"];
    let scene = Scene::new(ingress_gateway(&["*", "shop/ü.test"]).into_iter().chain([virtual_service(
        "shop/web",
        GW,
        &hosts,
        &[],
    )]));
    assert_eq!(scene.names(), ["ok.test"]);
    assert_eq!(scene.problems().len(), 6);
    scene.assert_problem("IstioGateway istio-system/gw: host \"ü.test\" is no name in DNS");
    scene.assert_problem("VirtualService shop/web: host \"bücher.test\" is no name in DNS");
}

#[test]
fn problems_of_one_object_are_bounded() {
    let hosts: Vec<_> = (0..10_000).map(|number| format!("ü{number}.test")).collect();
    let hosts: Vec<_> = hosts.iter().map(|host| &**host).collect();
    let scene = Scene::new(ingress_gateway(&["*"]).into_iter().chain([virtual_service("shop/web", GW, &hosts, &[])]));
    assert_eq!(scene.problems().len(), 9);
    assert_eq!(scene.problems()[8], "VirtualService shop/web: 9993 further problems");
}

#[test]
fn problems_of_all_objects_are_bounded() {
    let scene = Scene::new((0..1_200).map(|number| virtual_service(&format!("shop/v{number}"), GW, &["a.test"], &[])));
    assert_eq!(scene.problems().len(), Graph::PROBLEMS_MAX);
}

#[test]
fn service_without_endpoints_has_none_ready() {
    let of = |name: &str, ips: &[&str]| {
        annotated(load_balancer(&format!("shop/{name}"), ips), &[("hostname", &format!("{name}.test"))])
    };
    let scene = Scene::new([
        of("none", &["192.0.2.1"]),
        of("v6", &["2001:db8::1"]),
        slice("shop/v6-1", "v6", &["2001:db8:1::1", "2001:db8:1::2"]),
        of("both", &["192.0.2.1", "2001:db8::1"]),
        slice("shop/both-4", "both", &["10.0.0.1"]),
        slice("shop/both-6", "both", &["2001:db8:1::3"]),
        of("pending", &[]),
    ]);
    assert_eq!(
        scene.exposures(),
        [
            "both.test Service shop/both both 192.0.2.1,2001:db8::1 1",
            "none.test Service shop/none none 192.0.2.1 0",
            "v6.test Service shop/v6 v6 2001:db8::1 2",
        ]
    );
    assert_eq!(scene.problems(), ["Service shop/pending: its names are not exposed: it has no address yet"]);
}

#[test]
fn wrong_shapes_lose_their_element_only() {
    let mut scene = Scene::default();
    let kinds = Kind::ALL.map(Kind::as_str);
    for rest in [
        json!({}),
        json!({"spec": null, "status": null, "endpoints": null}),
        json!({"spec": "text", "status": 1, "endpoints": {}}),
        json!({"spec": [], "status": [], "endpoints": [1, null, {"addresses": "x"}, {"addresses": [1]}]}),
        json!({"spec": {"hosts": [1], "servers": [[], {"hosts": {}}], "rules": [null, {"http": 1, "backendRefs": [7]}],
            "parentRefs": [0, {}], "listeners": [[], {"port": 99_999}], "endpoints": ["x"], "selector": {"a": 1},
            "http": [{"route": [{"destination": 1, "weight": "x"}], "delegate": []}], "from": [{}], "to": [{}]},
            "status": {"parents": [{"parentRef": 1}], "addresses": ["x"], "conditions": {}, "loadBalancer": {"ingress": 5}}}),
    ] {
        scene.apply(kinds.map(|kind| object(kind, "shop/web", rest.clone())));
    }
    assert_eq!((scene.names(), scene.graph.counts().len()), (vec![], Kind::ALL.len()));
    let mut one = virtual_service("shop/web", GW, &["a.test"], &[]);
    one["spec"]["hosts"].as_array_mut().unwrap().push(json!({"not": "a host"}));
    scene.apply(ingress_gateway(&["*"]).into_iter().chain([one]));
    assert_eq!(scene.names(), ["a.test"]);
}

#[test]
fn object_without_name_or_namespace_is_skipped() {
    for metadata in [json!({}), json!({"name": "web"}), json!({"namespace": "shop"})] {
        let wire: crd::Service = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        assert_eq!(crd::read(wire), None);
    }
}
