//! Rules of Istio's Gateways and VirtualServices.

use super::*;

/// A Service of gateway pods, a backend with two endpoints, and a Gateway with these hosts.
fn base(hosts: &[&str]) -> Vec<Value> {
    vec![
        load_balancer("istio-system/ingress", &["192.0.2.1"]),
        service("shop/web"),
        slice("shop/web-1", "web", &["10.0.0.1", "10.0.0.2"]),
        istio_gateway("istio-system/gw", hosts),
    ]
}

fn scene(hosts: &[&str], further: impl IntoIterator<Item = Value>) -> Scene {
    Scene::new(base(hosts).into_iter().chain(further))
}

const GW: &[&str] = &["istio-system/gw"];

#[test]
fn host_of_gateway_and_virtual_service_is_exposed_through_the_selected_service() {
    let mut scene = scene(&["*.test"], [virtual_service("shop/web", GW, &["a.test"], &["web"])]);
    assert_eq!(scene.exposures(), ["a.test VirtualService shop/web ingress 192.0.2.1 2"]);
    assert_eq!(scene.problems(), [""; 0]);
    let gateways = scene.graph.gateways();
    assert_eq!((gateways.len(), gateways[0].hosts, gateways[0].is_istio), (1, 1, true));
    assert_eq!(scene.remove("IstioGateway istio-system/gw"), ["a.test"]);
    scene.assert_problem("VirtualService shop/web: IstioGateway istio-system/gw does not exist");
    assert_eq!(scene.apply([istio_gateway("istio-system/gw", &["b.test"])]), [""; 0]);
    scene.assert_problem("VirtualService shop/web: IstioGateway istio-system/gw has no host in common");
}

#[test]
fn hosts_of_servers_may_name_a_namespace() {
    for (host, names) in [
        ("a.test", &["a.test"][..]),
        ("*/a.test", &["a.test"]),
        ("shop/*", &["a.test"]),
        ("*", &["a.test"]),
        ("other/a.test", &[]),
        ("./a.test", &[]),
    ] {
        let scene = scene(&[host], [virtual_service("shop/web", GW, &["a.test"], &["web"])]);
        assert_eq!(scene.names(), names, "{host}");
    }
    let own = virtual_service("istio-system/web", &["gw"], &["a.test"], &["web.shop"]);
    assert_eq!(scene(&["./a.test"], [own]).names(), ["a.test"]);
}

#[test]
fn gateways_are_named_with_or_without_namespace_and_mesh_is_ignored() {
    let with = |gateways: &[&str]| {
        let scene = scene(
            &["*"],
            [virtual_service("shop/web", gateways, &["a.test"], &["web"]), istio_gateway("shop/gw", &["*"])],
        );
        (scene.exposures().len(), scene.problems().len())
    };
    assert_eq!(with(&["gw"]), (1, 0));
    assert_eq!(with(&["mesh", "istio-system/gw", "gw"]), (2, 0));
    assert_eq!(with(&["mesh"]), (0, 0));
    assert_eq!(with(&[]), (0, 0));
    assert_eq!(with(&["other/gw"]), (0, 1));
}

#[test]
fn export_to_must_include_the_namespace_of_the_gateway() {
    let with = |export_to: Value| {
        let mut service = virtual_service("shop/web", GW, &["a.test"], &["web"]);
        service["spec"]["exportTo"] = export_to;
        scene(&["*"], [service])
    };
    for (export_to, is_exposed) in [
        (json!(null), true),
        (json!([]), true),
        (json!(["*"]), true),
        (json!(["other", "istio-system"]), true),
        (json!(["."]), false),
        (json!(["shop"]), false),
    ] {
        let scene = with(export_to.clone());
        assert_eq!(scene.names().len(), usize::from(is_exposed), "{export_to}");
        assert_eq!(scene.problems().len(), usize::from(!is_exposed), "{export_to}");
    }
    let mut own = virtual_service("istio-system/web", &["gw"], &["a.test"], &["web.shop"]);
    own["spec"]["exportTo"] = json!(["."]);
    assert_eq!(scene(&["*"], [own]).names(), ["a.test"]);
}

#[test]
fn destinations_are_services_in_four_forms() {
    for host in ["web", "web.shop", "web.shop.svc", "web.shop.svc.cluster.local"] {
        let scene = scene(&["*"], [virtual_service("shop/web", GW, &["a.test"], &[host])]);
        assert_eq!(scene.ready("a.test"), [Some(2)], "{host}");
    }
    for (host, problems) in [("web", 1), ("web.other", 0), ("api.example.com", 0), ("gone.shop.svc.cluster.local", 1)] {
        let mut scene = scene(&["*"], [virtual_service("other/web", GW, &["a.test"], &[host])]);
        assert_eq!((scene.ready("a.test"), scene.problems().len()), (vec![None], problems), "{host}");
        scene.apply([virtual_service("other/web", GW, &["a.test"], &[host, "web.shop", "web.shop.svc"])]);
        assert_eq!(scene.ready("a.test"), [Some(2)], "{host}: a known one is ready");
    }
}

#[test]
fn destinations_of_weight_zero_do_not_count() {
    let with = |routes: Value| {
        let spec = json!({"hosts": ["a.test"], "gateways": GW, "http": routes});
        let further = [service("shop/two"), slice("shop/two-1", "two", &["10.0.1.1"])];
        let scene =
            scene(&["*"], further.into_iter().chain([object("VirtualService", "shop/web", json!({"spec": spec}))]));
        scene.ready("a.test")[0]
    };
    let to = |host: &str, weight: Value| json!({"destination": {"host": host}, "weight": weight});
    assert_eq!(with(json!([{"route": [to("web", json!(90)), to("two", json!(10))]}])), Some(3));
    assert_eq!(with(json!([{"route": [to("web", json!(0)), to("two", json!(100))]}])), Some(1));
    assert_eq!(with(json!([{"route": [to("web", json!(null)), to("two", json!(100))]}])), Some(1), "missing means 0");
    assert_eq!(with(json!([{"route": [to("web", json!(0))]}])), Some(2), "the only one gets all traffic");
    assert_eq!(with(json!([{"route": [to("web", json!(null))]}, {"route": [to("two", json!(null))]}])), Some(3));
    assert_eq!(with(json!([{"redirect": {"uri": "/"}}])), None, "the gateway itself answers");
}

#[test]
fn destinations_of_tls_and_tcp_count() {
    for protocol in ["tls", "tcp"] {
        let routes = json!([{"route": [{"destination": {"host": "web"}}]}]);
        let mut spec = json!({"hosts": ["a.test"], "gateways": GW});
        spec[protocol] = routes;
        let scene = scene(&["*"], [object("VirtualService", "shop/web", json!({"spec": spec}))]);
        assert_eq!(scene.ready("a.test"), [Some(2)], "{protocol}");
    }
}

#[test]
fn destinations_of_delegates_count_one_level_deep() {
    let root = |delegates: Value| {
        let http = json!([{"delegate": delegates}]);
        object("VirtualService", "shop/root", json!({"spec": {"hosts": ["a.test"], "gateways": GW, "http": http}}))
    };
    let mut delegate = virtual_service("team/paths", &[], &[], &["web", "web.shop"]);
    delegate["spec"]["http"][0]["delegate"] = json!({"name": "deeper"});
    let deeper = virtual_service("team/deeper", &[], &[], &["web.shop"]);
    let further = [service("team/web"), slice("team/web-1", "web", &["10.0.2.1"]), deeper, delegate];
    let mut scene = scene(&["*"], further);
    scene.apply([root(json!({"name": "paths", "namespace": "team"}))]);
    assert_eq!(scene.ready("a.test"), [Some(3)], "a short name is of the namespace of the delegate");
    assert_eq!(scene.remove("VirtualService team/paths"), ["a.test"]);
    assert_eq!(scene.ready("a.test"), [Some(0)]);
    scene.assert_problem("VirtualService shop/root: delegate VirtualService team/paths does not exist");
    scene.apply([root(json!({"name": "paths"}))]);
    assert_eq!(scene.apply([virtual_service("shop/paths", &[], &[], &["web"])]), ["a.test"]);
    assert_eq!(scene.ready("a.test"), [Some(2)], "the own namespace is the default");
    let mut hidden = virtual_service("shop/paths", &[], &[], &["web"]);
    hidden["spec"]["exportTo"] = json!(["team"]);
    assert_eq!(scene.apply([hidden]), ["a.test"]);
    scene.assert_problem("VirtualService shop/root: exportTo of delegate VirtualService shop/paths excludes");
    scene.apply([virtual_service("shop/paths", &[], &["b.test"], &["web"])]);
    scene.assert_problem("VirtualService shop/root: delegate VirtualService shop/paths has hosts");
}

#[test]
fn selector_of_the_gateway_is_a_subset_of_that_of_the_service() {
    let mut scene = scene(&["*"], [virtual_service("shop/web", GW, &["a.test"], &["web"])]);
    let mut gateway = istio_gateway("istio-system/gw", &["*"]);
    let mut select = |labels: Value| {
        gateway["spec"]["selector"] = labels;
        scene.apply([gateway.clone()]);
        scene.exposures().len()
    };
    assert_eq!(select(json!({"istio": "ingress", "app": "gateway"})), 1);
    assert_eq!(select(json!({"istio": "ingress", "zone": "x"})), 0);
    assert_eq!(select(json!({"istio": "egress"})), 0);
    assert_eq!(select(json!({})), 1);
    scene.apply([istio_gateway("istio-system/gw", &["*"])]);
    assert_eq!(scene.remove("Service istio-system/ingress"), ["a.test"]);
    scene.assert_problem("VirtualService shop/web: its names are not exposed: no Service of type LoadBalancer");
    assert_eq!(scene.apply([load_balancer("anywhere/in", &["192.0.2.7"])]), ["a.test"]);
    assert_eq!(scene.exposures(), ["a.test VirtualService shop/web in 192.0.2.7 2"]);
}

#[test]
fn each_selected_service_with_addresses_is_an_exposure() {
    let further = [
        load_balancer("istio-system/internal", &["10.9.9.9"]),
        load_balancer("istio-system/new", &[]),
        virtual_service("shop/web", GW, &["a.test"], &["web"]),
    ];
    let mut scene = scene(&["*"], further);
    assert_eq!(
        scene.exposures(),
        ["a.test VirtualService shop/web ingress 192.0.2.1 2", "a.test VirtualService shop/web internal 10.9.9.9 2"]
    );
    scene.remove("Service istio-system/internal");
    scene.remove("Service istio-system/ingress");
    assert_eq!(
        scene.problems(),
        ["VirtualService shop/web: its names are not exposed: Service istio-system/new has no address yet"]
    );
}

#[test]
fn annotations_of_the_gateway_complete_those_of_the_virtual_service() {
    let gateway = annotated(
        istio_gateway("istio-system/gw", &["*.test"]),
        &[("target", "198.51.100.7"), ("ttl", "60"), ("hostname", "gateway.example.com")],
    );
    let own = annotated(
        virtual_service("shop/web", GW, &["a.test"], &["web"]),
        &[("hostname", "b.example.com"), ("ttl", "5")],
    );
    let mut scene = scene(&[], [gateway, own]);
    assert_eq!(
        scene.exposures(),
        [
            "a.test VirtualService shop/web ingress 198.51.100.7 2",
            "b.example.com VirtualService shop/web ingress 198.51.100.7 2",
            "gateway.example.com IstioGateway istio-system/gw ingress 198.51.100.7 -",
        ]
    );
    assert_eq!(scene.graph.exposures("a.test")[0].dns.as_ref().unwrap().ttl.as_deref(), Some("5"));
    scene.remove("Service istio-system/ingress");
    assert_eq!(scene.exposures()[0], "a.test VirtualService shop/web - 198.51.100.7 2", "the target needs no Service");
    let own = annotated(virtual_service("shop/web", GW, &["a.test"], &["web"]), &[("target", "lb.example.com")]);
    scene.apply([own]);
    assert_eq!(scene.exposures()[0], "a.test VirtualService shop/web - lb.example.com 2");
}

#[test]
fn endpoints_of_the_gateway_pods_change_no_name() {
    let mut scene = scene(&["*"], [virtual_service("shop/web", GW, &["a.test"], &["web"])]);
    let of_gateway = |addresses: &[&str]| slice("istio-system/ingress-1", "ingress", addresses);
    assert_eq!(scene.apply([of_gateway(&["10.3.0.1"])]), [""; 0]);
}
