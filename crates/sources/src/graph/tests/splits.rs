//! Backends that may stand for other clusters, and TrafficSplits.

use super::*;

/// Returns a Service without a selector, whose slice has addresses.
fn written(path: &str, addresses: &[&str]) -> [Value; 2] {
    let name = path.split_once('/').unwrap().1;
    let spec = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
    [object("Service", path, json!({"spec": spec})), slice(&format!("{path}-1"), name, addresses)]
}

/// Returns a Service of pods with two endpoints.
fn of_pods(path: &str, port: u16) -> [Value; 2] {
    let name = path.split_once('/').unwrap().1;
    let spec = json!({"selector": {"app": name}, "ports": [{"port": port}]});
    [object("Service", path, json!({"spec": spec})), slice(&format!("{path}-1"), name, &["10.0.0.1", "10.0.0.2"])]
}

/// A Gateway, the Services `web` and `blue` of pods, `us` and `host` for other clusters, and these objects.
fn scene(further: impl IntoIterator<Item = Value>) -> Scene {
    let host = json!({"spec": {"type": "ExternalName", "externalName": "GW.us.example."}});
    let base = [of_pods("shop/web", 80), of_pods("shop/blue", 80), written("shop/us", &["192.0.2.2"])];
    let gateways = [gateway("infra/gw", &[listener("l", "HTTPS", None)], &["192.0.2.1"])];
    let base = base.into_iter().flatten().chain(gateways).chain([object("Service", "shop/host", host)]);
    Scene::new(base.chain(further))
}

fn http_route(backends: &[(&str, Option<i64>)]) -> Value {
    let backend = |(name, weight): &(&str, Option<i64>)| json!({"name": name, "weight": weight});
    let backends: Vec<_> = backends.iter().map(backend).collect();
    route("HTTPRoute", "shop/web", &[parent("infra/gw")], &["a.test"], &backends)
}

/// Returns the only split of `a.test` as its object and each backend's weight, ready endpoints and place; `-` without one.
fn shown_split(scene: &Scene) -> String {
    let exposures = scene.graph.exposures("a.test");
    let Some(split) = &exposures[0].split else { return "-".to_owned() };
    let part = |part: &crate::splits::SplitPart| {
        let ready = part.ready.map_or_else(|| "?".to_owned(), |ready| ready.to_string());
        let place = match &part.place {
            None => "here".to_owned(),
            Some(crate::splits::Place::Addresses(addresses)) => format!("{addresses:?}"),
            Some(crate::splits::Place::Host(host)) => host.to_string(),
        };
        format!("{} {ready} {place}", part.weight)
    };
    let parts: Vec<_> = split.parts.iter().map(part).collect();
    format!("{}: {}", split.object, parts.join(", "))
}

#[test]
fn weights_of_a_route_are_those_of_its_backends() {
    for (backends, expected) in [
        (&[("web", Some(75)), ("us", Some(25))][..], "HTTPRoute shop/web: 25 1 [192.0.2.2], 75 2 here"),
        (&[("web", None), ("host", None)], "HTTPRoute shop/web: 1 ? gw.us.example., 1 2 here"),
        (&[("web", Some(0)), ("us", Some(5)), ("us", Some(6))], "HTTPRoute shop/web: 11 1 [192.0.2.2], 0 2 here"),
        (&[("us", Some(-1)), ("web", Some(99_000_000))], "HTTPRoute shop/web: 0 1 [192.0.2.2], 1000000 2 here"),
        (&[("us", None), ("gone", Some(3))], "HTTPRoute shop/web: 1 1 [192.0.2.2], 3 0 here"),
        (&[("web", Some(75)), ("blue", Some(25))], "-"),
    ] {
        assert_eq!(shown_split(&scene([http_route(backends)])), expected);
    }
}

#[test]
fn weights_of_a_virtual_service_are_those_of_its_destinations() {
    let destination = |host: &str, weight: Option<i64>| json!({"destination": {"host": host}, "weight": weight});
    for (http, expected) in [
        (
            json!([{"route": [destination("web", Some(75)), destination("us", Some(25))]}]),
            "VirtualService shop/web: 25 1 [192.0.2.2], 75 2 here",
        ),
        (
            json!([{"route": [destination("web", Some(75)), destination("us.shop.svc.cluster.local", Some(25))]},
                {"route": [destination("us", None)]}]),
            "VirtualService shop/web: 125 1 [192.0.2.2], 75 2 here",
        ),
        (
            json!([{"route": [destination("us", Some(25)), destination("api.example.com", Some(5)), destination("web", None)]}]),
            "VirtualService shop/web: 25 1 [192.0.2.2], 0 2 here, 5 ? here",
        ),
        (json!([{"route": [destination("web", Some(1)), destination("api.example.com", Some(5))]}]), "-"),
    ] {
        let spec = json!({"gateways": ["istio-system/gw"], "hosts": ["a.test"], "http": http});
        let scene = scene([
            load_balancer("istio-system/ingress", &["192.0.2.1"]),
            istio_gateway("istio-system/gw", &["*"]),
            object("VirtualService", "shop/web", json!({"spec": spec})),
        ]);
        assert_eq!(shown_split(&scene), expected);
    }
}

#[test]
fn traffic_split_replaces_the_service_that_it_is_about() {
    let mut scene = scene([http_route(&[("web", None)])]);
    assert_eq!((&*shown_split(&scene), scene.ready("a.test")), ("-", vec![Some(2)]));
    let of = |backends: &[(&str, i64)]| traffic_split("shop/web", "web", backends);
    assert_eq!(scene.apply([of(&[("web", 75), ("us", 25)])]), ["a.test"]);
    assert_eq!(shown_split(&scene), "TrafficSplit shop/web: 25 1 [192.0.2.2], 75 2 here");
    assert_eq!(scene.apply([of(&[("blue", 1), ("us", 0)])]), ["a.test"]);
    assert_eq!(shown_split(&scene), "TrafficSplit shop/web: 1 2 here, 0 1 [192.0.2.2]");
    assert_eq!(scene.apply([of(&[("web", 0), ("us", 0)])]), ["a.test"]);
    assert_eq!(shown_split(&scene), "TrafficSplit shop/web: 1 1 [192.0.2.2], 1 2 here");
    scene.assert_problem(
        "HTTPRoute shop/web: the weights of TrafficSplit shop/web are 0, so its backends get equal parts",
    );
    // It is about another Service, and then gone.
    assert_eq!(scene.apply([traffic_split("shop/web", "blue", &[("us", 1)])]), ["a.test"]);
    assert_eq!((&*shown_split(&scene), scene.problems().len()), ("-", 0));
    scene.apply([of(&[("us", 1)])]);
    assert_eq!(shown_split(&scene), "TrafficSplit shop/web: 1 1 [192.0.2.2]");
    assert_eq!(scene.remove("TrafficSplit shop/web"), ["a.test"]);
    assert_eq!(scene.ready("a.test"), [Some(2)]);
}

#[test]
fn weights_of_route_and_traffic_splits_are_multiplied() {
    let scene = scene([
        http_route(&[("web", Some(3)), ("blue", Some(1))]),
        traffic_split("shop/web", "web", &[("web", 1), ("us", 2)]),
        traffic_split("shop/blue", "blue", &[("blue", 1), ("host", 1)]),
    ]);
    // 3/4 × 1/3, 3/4 × 2/3, 1/4 × 1/2 and 1/4 × 1/2.
    assert_eq!(shown_split(&scene), "TrafficSplit shop/blue: 3 2 here, 3 ? gw.us.example., 12 1 [192.0.2.2], 6 2 here");
}

#[test]
fn traffic_split_that_is_not_used_is_a_problem() {
    let with_matches = |mut split: Value| {
        split["spec"]["matches"] = json!([{"name": "canary"}]);
        split
    };
    let us = || created(traffic_split("shop/us", "web", &[("us", 1)]), 1);
    for (splits, expected, problem) in [
        (
            vec![with_matches(us())],
            "-",
            "TrafficSplit shop/us has matches, so it does not split all traffic of Service shop/web",
        ),
        (vec![traffic_split("shop/none", "web", &[])], "-", "TrafficSplit shop/none has no backend; it is left out"),
        (
            vec![us(), created(traffic_split("shop/a", "web", &[("blue", 1)]), 2)],
            "TrafficSplit shop/us: 1 1 [192.0.2.2]",
            "TrafficSplit shop/a is left out, because TrafficSplit shop/us splits Service shop/web already, and takes precedence",
        ),
        (
            vec![us(), created(traffic_split("shop/a", "web", &[("us", 1), ("gone", 1)]), 1)],
            "TrafficSplit shop/a: 1 0 here, 1 1 [192.0.2.2]",
            "backend Service shop/gone of TrafficSplit shop/a does not exist, so it has no ready endpoint",
        ),
        (
            [us()].into_iter().chain(of_pods("shop/us", 81)).collect(),
            "-",
            "backend Service shop/us of TrafficSplit shop/us gets no traffic, because it has no port of Service shop/web",
        ),
    ] {
        let scene = scene([http_route(&[("web", None)])].into_iter().chain(splits));
        assert_eq!(shown_split(&scene), expected);
        scene.assert_problem(&format!("HTTPRoute shop/web: {problem}"));
    }
    // Without a name, nothing is split.
    let scene = scene([with_matches(us()), traffic_split("pay/web", "web", &[("us", 1)])]);
    assert_eq!((scene.names().len(), scene.problems().len()), (0, 0));
    assert_eq!(scene.graph.counts()[&Kind::TrafficSplit], 2);
}

#[test]
fn addresses_of_a_service_without_a_selector_are_followed() {
    let mut scene = scene([http_route(&[("web", Some(1)), ("us", Some(1))])]);
    assert_eq!(scene.apply([slice("shop/us-1", "us", &["192.0.2.3"])]), ["a.test"]);
    assert_eq!(shown_split(&scene), "HTTPRoute shop/web: 1 1 [192.0.2.3], 1 2 here");
    let many: Vec<_> = (0..17).map(|number| format!("192.0.2.{number}")).collect();
    let many: Vec<_> = many.iter().map(|address| &**address).collect();
    assert_eq!(scene.apply([slice("shop/us-1", "us", &many)]), ["a.test"]);
    assert_eq!((&*shown_split(&scene), scene.ready("a.test")), ("-", vec![Some(19)]), "a gateway has fewer addresses");
    assert_eq!(scene.apply(written("shop/us", &[])), ["a.test"]);
    assert_eq!((&*shown_split(&scene), scene.ready("a.test")), ("-", vec![Some(2)]));
}

#[test]
fn paths_of_an_ingress_have_no_weights() {
    let path = |name: &str| json!({"backend": {"service": {"name": name}}});
    let rules = json!([{"host": "a.test", "http": {"paths": [path("web"), path("us")]}}]);
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let ingress = object("Ingress", "shop/web", json!({"spec": {"rules": rules}, "status": status}));
    let mut scene = scene([ingress]);
    let is_weighted = |scene: &Scene| scene.graph.exposures("a.test")[0].split.as_ref().map(|split| split.is_weighted);
    assert_eq!(is_weighted(&scene), Some(false));
    scene.apply([traffic_split("shop/web", "web", &[("blue", 1)])]);
    assert_eq!(is_weighted(&scene), Some(true));
}
