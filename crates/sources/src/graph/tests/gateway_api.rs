//! Rules of the Gateway API.

use super::*;

/// A Gateway with these listeners, and a backend with two endpoints.
fn scene(listeners: &[Value], further: impl IntoIterator<Item = Value>) -> Scene {
    let base = [
        gateway("infra/gw", listeners, &["192.0.2.1", "lb.example.com"]),
        service("shop/web"),
        slice("shop/web-1", "web", &["10.0.0.1", "10.0.0.2"]),
    ];
    Scene::new(base.into_iter().chain(further))
}

fn http(host: Option<&str>) -> Value {
    listener("web", "HTTPS", host)
}

fn http_route(hosts: &[&str]) -> Value {
    route("HTTPRoute", "shop/web", &[parent("infra/gw")], hosts, &[backend("web")])
}

#[test]
fn names_are_the_intersection_of_route_and_listener() {
    for (of_listener, of_route, names) in [
        (Some("*.test"), &["a.test", "b.c.test", "test.example"][..], &["a.test", "b.c.test"][..]),
        (Some("a.test"), &["*.test"], &["a.test"]),
        (Some("*.b.test"), &["*.test"], &["*.b.test"]),
        (None, &["a.test", "*.b.test"], &["*.b.test", "a.test"]),
        (Some("a.test"), &[], &["a.test"]),
        (Some("*.test"), &[], &["*.test"]),
        (Some("*.test"), &["test.other"], &[]),
        (None, &[], &[]),
    ] {
        let scene = scene(&[http(of_listener)], [http_route(of_route)]);
        assert_eq!(scene.names(), names, "{of_listener:?} {of_route:?}");
        assert_eq!(scene.problems().len(), usize::from(names.is_empty()), "{of_listener:?} {of_route:?}");
    }
}

#[test]
fn accepted_route_is_exposed_at_the_addresses_of_its_gateway() {
    let mut scene = scene(&[http(None)], [http_route(&["a.test"])]);
    assert_eq!(scene.exposures(), ["a.test HTTPRoute shop/web gw 192.0.2.1,lb.example.com 2"]);
    let gateways = scene.graph.gateways();
    assert_eq!((gateways[0].key.to_string(), gateways[0].hosts), ("Gateway infra/gw".to_owned(), 1));
    assert_eq!(scene.apply([gateway("infra/gw", &[http(None)], &[])]), ["a.test"]);
    scene.assert_problem("HTTPRoute shop/web: its names are not exposed: Gateway infra/gw has no address yet");
    assert!(scene.graph.gateways().is_empty());
}

#[test]
fn parent_counts_only_if_it_is_accepted() {
    let mut route = http_route(&["a.test"]);
    for (status, is_exposed) in [
        (
            json!([{"parentRef": {"name": "gw", "namespace": "infra"}, "conditions": [{"type": "Accepted", "status": "False"}]}]),
            false,
        ),
        (json!([{"parentRef": {"name": "gw"}, "conditions": [{"type": "Accepted", "status": "True"}]}]), false),
        (
            json!([{"parentRef": {"name": "gw", "namespace": "infra"}, "conditions": [{"type": "Ready", "status": "True"}]}]),
            false,
        ),
        (json!([]), false),
        (
            json!([{"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw", "namespace": "infra"},
            "conditions": [{"type": "ResolvedRefs", "status": "False"}, {"type": "Accepted", "status": "True"}]}]),
            true,
        ),
    ] {
        route["status"]["parents"] = status.clone();
        let scene = scene(&[http(None)], [route.clone()]);
        assert_eq!(scene.names().len(), usize::from(is_exposed), "{status}");
        assert_eq!(scene.problems().len(), usize::from(!is_exposed), "{status}");
    }
    route["spec"]["parentRefs"] = json!([{"kind": "Service", "group": "", "name": "web"}]);
    let scene = scene(&[http(None)], [route]);
    assert_eq!((scene.names().len(), scene.problems().len()), (0, 0), "a route of a mesh");
}

#[test]
fn each_section_is_accepted_alone() {
    let listeners = [listener("web", "HTTPS", Some("a.test")), listener("other", "HTTPS", Some("b.test"))];
    let sections = ["web", "other"].map(|section| json!({"name": "gw", "namespace": "infra", "sectionName": section}));
    let mut of = route("HTTPRoute", "shop/web", &sections, &[], &[backend("web")]);
    of["status"]["parents"][1]["conditions"][0]["status"] = json!("False");
    assert_eq!(scene(&listeners, [of]).names(), ["a.test"]);
}

#[test]
fn section_and_port_choose_listeners() {
    let mut other = listener("other", "HTTP", Some("b.test"));
    other["port"] = json!(80);
    let listeners = [listener("web", "HTTPS", Some("a.test")), other];
    for (reference, names) in [
        (json!({}), &["a.test", "b.test"][..]),
        (json!({"sectionName": "web"}), &["a.test"]),
        (json!({"port": 80}), &["b.test"]),
        (json!({"sectionName": "web", "port": 80}), &[]),
        (json!({"sectionName": "gone"}), &[]),
    ] {
        let mut to = parent("infra/gw");
        merge(&mut to, reference.clone());
        let scene = scene(&listeners, [route("HTTPRoute", "shop/web", &[to], &[], &[backend("web")])]);
        assert_eq!(scene.names(), names, "{reference}");
        assert_eq!(scene.problems().len(), usize::from(names.is_empty()), "{reference}");
    }
    let both = ["web", "other"].map(|section| json!({"name": "gw", "namespace": "infra", "sectionName": section}));
    let scene = scene(&listeners, [route("HTTPRoute", "shop/web", &both, &[], &[backend("web")])]);
    assert_eq!(scene.exposures().len(), 2, "one exposure per name, though two references lead to one Gateway");
}

#[test]
fn listener_allows_routes_of_namespaces() {
    for (from, shop, infra) in [
        (json!({"namespaces": {"from": "All"}}), 1, 1),
        (json!({"namespaces": {"from": "Selector", "selector": {}}}), 1, 1),
        (json!({"namespaces": {"from": "Same"}}), 0, 1),
        (json!({"namespaces": {"from": "None"}}), 0, 0),
        (json!({}), 0, 1),
        (json!(null), 0, 1),
    ] {
        let mut of = http(None);
        of["allowedRoutes"] = from.clone();
        assert_eq!(scene(&[of.clone()], [http_route(&["a.test"])]).names().len(), shop, "{from}");
        let own = route("HTTPRoute", "infra/web", &[json!({"name": "gw"})], &["a.test"], &[]);
        assert_eq!(scene(&[of], [own]).names().len(), infra, "{from}");
    }
}

#[test]
fn protocol_of_the_listener_fits_the_kind_of_route() {
    let kinds = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];
    for (protocol, fitting) in [
        ("HTTP", &["HTTPRoute", "GRPCRoute"][..]),
        ("HTTPS", &["HTTPRoute", "GRPCRoute"]),
        ("TLS", &["TLSRoute", "TCPRoute"]),
        ("TCP", &["TCPRoute"]),
        ("UDP", &["UDPRoute"]),
        ("example.com/own", &[]),
    ] {
        let exposed = kinds.into_iter().filter(|kind| {
            let of = annotated(route(kind, "shop/web", &[parent("infra/gw")], &[], &[]), &[("hostname", "x.test")]);
            !scene(&[listener("l", protocol, None)], [of]).names().is_empty()
        });
        assert_eq!(exposed.collect::<Vec<_>>(), fitting, "{protocol}");
    }
}

#[test]
fn route_of_bytes_has_the_names_of_its_annotation_only() {
    let tcp = route("TCPRoute", "shop/web", &[parent("infra/gw")], &[], &[backend("web")]);
    let mut scene = scene(&[listener("l", "TCP", Some("a.test"))], [tcp.clone()]);
    assert_eq!(scene.names(), [""; 0]);
    assert_eq!(scene.apply([annotated(tcp, &[("hostname", "db.test")])]), ["db.test"]);
    assert_eq!(scene.exposures(), ["db.test TCPRoute shop/web gw 192.0.2.1,lb.example.com 2"]);
}

#[test]
fn accepted_listener_set_adds_listeners_to_its_gateway() {
    let set = |parent: Value, status: &str| {
        let listeners = [listener("more", "HTTPS", Some("*.more.test"))];
        let conditions = json!([{"type": "Accepted", "status": status}]);
        let rest = json!({"spec": {"parentRef": parent, "listeners": listeners}, "status": {"conditions": conditions}});
        object("ListenerSet", "team/set", rest)
    };
    let to_gateway = parent("infra/gw");
    let to_set = json!({"kind": "ListenerSet", "namespace": "team", "name": "set"});
    let of = route("HTTPRoute", "shop/web", &[to_set], &["a.more.test", "b.test"], &[backend("web")]);
    let mut scene = scene(&[http(None)], [of]);
    scene.assert_problem("HTTPRoute shop/web: ListenerSet team/set does not exist");
    assert_eq!(scene.apply([set(to_gateway.clone(), "True")]), ["a.more.test"]);
    assert_eq!(scene.exposures(), ["a.more.test HTTPRoute shop/web gw 192.0.2.1,lb.example.com 2"]);
    assert_eq!(scene.apply([set(to_gateway.clone(), "False")]), ["a.more.test"]);
    scene.assert_problem("HTTPRoute shop/web: no Gateway has accepted ListenerSet team/set");
    scene.assert_problem("ListenerSet team/set: its Gateway has not accepted it");
    scene.apply([set(to_gateway, "True")]);
    assert_eq!(scene.remove("Gateway infra/gw"), ["a.more.test"]);
    scene.assert_problem("HTTPRoute shop/web: Gateway infra/gw of ListenerSet team/set does not exist");
}

#[test]
fn backend_of_another_namespace_needs_a_grant() {
    let grant =
        |from: Value, to: Value| object("ReferenceGrant", "shop/grant", json!({"spec": {"from": [from], "to": [to]}}));
    let from = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "front"});
    let to = json!({"group": "", "kind": "Service"});
    let other = json!({"name": "web", "namespace": "shop"});
    let mut scene =
        scene(&[http(None)], [route("HTTPRoute", "front/web", &[parent("infra/gw")], &["a.test"], &[other])]);
    assert_eq!(scene.ready("a.test"), [Some(0)]);
    scene.assert_problem("HTTPRoute front/web: no ReferenceGrant in shop permits the backend shop/web");
    assert_eq!(scene.apply([grant(from.clone(), to.clone())]), ["a.test"]);
    assert_eq!((scene.ready("a.test"), scene.problems().len()), (vec![Some(2)], 0));
    for (key, value) in [("group", "other"), ("kind", "GRPCRoute"), ("namespace", "shop")] {
        let mut from = from.clone();
        from[key] = json!(value);
        scene.apply([grant(from, to.clone())]);
        assert_eq!(scene.ready("a.test"), [Some(0)], "{key}");
    }
    for (name, ready) in [("web", 2), ("other", 0)] {
        scene.apply([grant(from.clone(), json!({"group": "", "kind": "Service", "name": name}))]);
        assert_eq!(scene.ready("a.test"), [Some(ready)], "{name}");
    }
    scene.apply([grant(from, json!({"group": "", "kind": "Secret"}))]);
    assert_eq!(scene.ready("a.test"), [Some(0)]);
    scene.remove("ReferenceGrant shop/grant");
    assert_eq!(scene.ready("a.test"), [Some(0)]);
}

#[test]
fn ready_endpoints_are_the_sum_of_distinct_backends() {
    let with = |backends: &[Value]| {
        let further = [service("shop/two"), slice("shop/two-1", "two", &["10.0.1.1"])];
        let of = route("HTTPRoute", "shop/web", &[parent("infra/gw")], &["a.test"], backends);
        scene(&[http(None)], further.into_iter().chain([of])).ready("a.test")[0]
    };
    assert_eq!(with(&[backend("web"), backend("two"), backend("web")]), Some(3));
    assert_eq!(with(&[json!({"name": "web", "weight": 0}), json!({"name": "two", "weight": 5})]), Some(1));
    assert_eq!(with(&[json!({"name": "web", "weight": 0})]), Some(0));
    let import = json!({"group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "web"});
    assert_eq!(with(std::slice::from_ref(&import)), None);
    assert_eq!(with(&[import, backend("two")]), Some(1));
    assert_eq!(with(&[backend("gone")]), Some(0));
    assert_eq!(with(&[]), None, "a redirect, which the gateway itself answers");
}

/// Returns the rules of exposed routes as `cluster: services`, with `+` if several backends get traffic.
fn shown_rules(scene: &Scene) -> Vec<String> {
    let rule = |(name, of): (&Arc<str>, &Arc<RuleBackends>)| {
        let services: Vec<_> = of.services.iter().map(|service| service.as_deref().unwrap_or("-")).collect();
        format!("{name}: {}{}", services.join(" "), if of.is_shared { " +" } else { "" })
    };
    scene.graph.exposed().rules.iter().map(rule).collect()
}

#[test]
fn backends_of_each_rule_are_known_by_the_name_of_its_upstream_cluster() {
    let mut of = http_route(&["a.test"]);
    let import = json!({"kind": "ServiceImport", "name": "web"});
    of["spec"]["rules"] = json!([
        {"backendRefs": [backend("web")]},
        {"backendRefs": [backend("web"), {"name": "two", "weight": 0}, {"name": "secret", "namespace": "other"}]},
        {"backendRefs": [backend("web"), {"name": "web", "port": 81}, {"name": "two", "weight": 0}]},
        {"backendRefs": [import, backend("two")]},
        {},
    ]);
    let mut scene = scene(&[http(None)], [of.clone()]);
    let first = "httproute/shop/web/rule/0: shop/web".to_owned();
    assert_eq!(
        shown_rules(&scene),
        [
            &*first,
            "httproute/shop/web/rule/1: shop/web - - +",
            "httproute/shop/web/rule/2: shop/web shop/web -",
            "httproute/shop/web/rule/3: - shop/two +",
            "httproute/shop/web/rule/4: ",
        ]
    );
    of["spec"]["rules"] = json!([{"backendRefs": [backend("web")]}]);
    scene.apply([of.clone()]);
    assert_eq!(shown_rules(&scene), [first]);
    of["spec"]["rules"] = json!([{"backendRefs": [backend("two")]}]);
    scene.apply([of]);
    assert_eq!(shown_rules(&scene), ["httproute/shop/web/rule/0: shop/two"]);
    let bytes = annotated(
        route("TCPRoute", "shop/db", &[parent("infra/bytes")], &[], &[backend("web"), backend("two")]),
        &[("hostname", "db.test")],
    );
    scene.apply([gateway("infra/bytes", &[listener("l", "TCP", None)], &["192.0.2.2"]), bytes]);
    scene.remove("HTTPRoute shop/web");
    assert_eq!(shown_rules(&scene), ["tcproute/shop/db/rule/-1: shop/web shop/two +"]);
    scene.remove("Gateway infra/bytes");
    assert_eq!(shown_rules(&scene), [""; 0], "its names are not exposed");
}

#[test]
fn two_gateways_are_two_exposures() {
    let parents = [parent("infra/gw"), parent("infra/second")];
    let of = route("HTTPRoute", "shop/web", &parents, &["a.test"], &[backend("web")]);
    let second =
        annotated(gateway("infra/second", &[http(None)], &["192.0.2.2"]), &[("target", "198.51.100.2"), ("ttl", "9")]);
    let scene = scene(&[http(None)], [of, second]);
    assert_eq!(
        scene.exposures(),
        ["a.test HTTPRoute shop/web gw 192.0.2.1,lb.example.com 2", "a.test HTTPRoute shop/web second 198.51.100.2 2"]
    );
    let ttl = |at: usize| scene.graph.exposures("a.test")[at].dns.as_ref().and_then(|dns| dns.ttl.as_deref());
    assert_eq!((ttl(0), ttl(1)), (None, Some("9")));
}
