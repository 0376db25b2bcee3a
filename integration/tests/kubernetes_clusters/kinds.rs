//! The objects in the examples of the pages about sources.

use std::net::IpAddr;

use fairway_integration::{
    cluster::{Cluster, LIMIT, dig},
    real::{Fairway, wait_until},
};
use serde_json::{Value, json};

use crate::{GATEWAYS, NAMESPACE, answer, config, example, explain, gateways, kubeconfig, kubernetes, wait_answered};

/// Replaces a part of the status of an object, as its controller would.
fn set_status(cluster: &Cluster, kind: &str, name: &str, status: &Value) {
    let status = json!({ "status": status }).to_string();
    cluster.kubectl(&["-n", NAMESPACE, "patch", kind, name, "--subresource=status", "--type=merge", "-p", &status]);
}

#[test]
fn route_of_the_gateway_api_is_answered_with_the_address_of_its_gateway() {
    let eu = Cluster::start_with_controllers("eu1");
    for kind in ["httproutes", "gateways"] {
        eu.apply_kinds(&format!("gateway-api-gateway.networking.k8s.io_{kind}.yaml"));
    }
    eu.deploy(NAMESPACE, "web", 1);
    eu.apply(&example("gateway-api"));
    set_status(&eu, "gateway", "gw", &json!({ "addresses": [{ "type": "IPAddress", "value": GATEWAYS[0] }] }));
    let port = gateways();
    let server = Fairway::start(&config(&[("eu1", &kubeconfig(&eu))], port, ""), &[]);
    wait_until("the missing acceptance is shown", LIMIT, || kubernetes(&server, "eu1")["problems"] != json!([]));
    assert!(answer(&server, "shop.gslb.example", 1).is_empty(), "no controller has accepted the route");
    let condition = json!({ "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let parent =
        json!({ "parentRef": { "name": "gw" }, "controllerName": "test.example/gateway", "conditions": [condition] });
    set_status(&eu, "httproute", "web", &json!({ "parents": [parent] }));
    wait_answered(&server, &GATEWAYS[..1]);
    wait_until("no problem is left", LIMIT, || kubernetes(&server, "eu1")["problems"] == json!([]));
    assert_eq!(kubernetes(&server, "eu1")["gateway"], "Gateway shop/gw");
}

#[test]
fn services_ingresses_and_dnsendpoints_of_the_example_are_answered() {
    let eu = Cluster::start_with_controllers("eu1");
    eu.apply_kinds("external-dns-dnsendpoints.yaml");
    eu.deploy(NAMESPACE, "web", 1);
    eu.apply(&example("services"));
    let address = |address: &str| json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
    set_status(&eu, "service", "web", &address(GATEWAYS[0]));
    set_status(&eu, "ingress", "pay", &address(GATEWAYS[1]));
    let port = gateways();
    let server = Fairway::start(&config(&[("eu1", &kubeconfig(&eu))], port, ""), &[]);
    for (name, expected) in [("shop", GATEWAYS[0]), ("pay", GATEWAYS[1]), ("mail", "192.0.2.25")] {
        let expected: IpAddr = expected.parse().expect("an address");
        wait_until(name, LIMIT, || answer(&server, &format!("{name}.gslb.example"), 1) == [expected]);
    }
    assert_eq!(dig(&server, "mail.gslb.example", "TXT"), ["\"v=spf1 -all\""]);
    eu.scale(NAMESPACE, "web", 0);
    wait_until("shop has no endpoint", LIMIT, || explain(&server).contains("no ready endpoint"));
}
