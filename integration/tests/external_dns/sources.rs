//! Sources of external-dns other than Services: Ingress, Istio's Gateway and VirtualService, DNSEndpoint objects.

use fairway_integration::{
    cluster::{Cluster, LIMIT, annotated, dig, server},
    real::{Fairway, wait_until},
};

/// Returns an Ingress for a host.
fn ingress(name: &str, host: &str) -> String {
    let lines = annotated(&[("webhook-gslb-health-scheme", "none"), ("webhook-gslb-weight", "7")]);
    format!(
        "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {name}
  annotations:
{lines}spec:
  rules:
    - host: {host}
      http: {{ paths: [ {{ path: /, pathType: Prefix, backend: {{ service: {{ name: web, port: {{ number: 80 }} }} }} }} ] }}
"
    )
}

/// The Service of an istio-ingressgateway, a Gateway on it, and a VirtualService of another gateway, which external-dns skips itself.
fn istio() -> String {
    let lines = annotated(&[("webhook-gslb-health-scheme", "none")]);
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{ name: istio-system }}
---
apiVersion: v1
kind: Service
metadata: {{ name: istio-ingressgateway, namespace: istio-system, labels: {{ istio: ingressgateway }} }}
spec: {{ type: LoadBalancer, selector: {{ istio: ingressgateway }}, ports: [ {{ port: 443 }} ] }}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata:
  name: edge
  namespace: istio-system
  annotations:
{lines}spec:
  selector: {{ istio: ingressgateway }}
  servers: [ {{ port: {{ number: 80, name: http, protocol: HTTP }}, hosts: [ edge.gslb.example ] }} ]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata:
  name: quiet
  namespace: istio-system
  annotations: {{ external-dns.alpha.kubernetes.io/controller: nobody }}
spec:
  selector: {{ istio: ingressgateway }}
  servers: [ {{ port: {{ number: 80, name: http, protocol: HTTP }}, hosts: [ cart.gslb.example ] }} ]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: cart
  namespace: istio-system
  annotations:
{lines}spec:
  hosts: [ cart.gslb.example ]
  gateways: [ istio-system/quiet ]
  http: [ {{ route: [ {{ destination: {{ host: cart }} }} ] }} ]
"
    )
}

/// Records of several types, and a steered name.
const ENDPOINTS: &str = "apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: { name: others }
spec:
  endpoints:
    - dnsName: pay.gslb.example
      recordType: A
      recordTTL: 20
      targets: [203.0.113.40]
      providerSpecific: [ { name: webhook/gslb-health-scheme, value: none } ]
    - { dnsName: pay.gslb.example, recordType: AAAA, targets: [\"2001:db8::40\"], providerSpecific: [ { name: webhook/gslb-health-scheme, value: none } ] }
    - { dnsName: alias.gslb.example, recordType: CNAME, targets: [elsewhere.example.net] }
    - { dnsName: mail.gslb.example, recordType: MX, targets: [\"10 mx.example.net\"] }
    - { dnsName: note.gslb.example, recordType: TXT, targets: [\"v=spf1 -all\"] }
";

#[test]
fn ingress_istio_and_dnsendpoint_objects_appear_and_disappear_in_answers() {
    let (server, webhook) = server();
    let cluster = Cluster::start("east");
    cluster.apply_kinds("istio.yaml");
    cluster.apply_kinds("external-dns-dnsendpoints.yaml");
    cluster.apply(&ingress("web", "web.gslb.example"));
    cluster.give_address("ingress", "default", "web", "203.0.113.10");
    cluster.apply(&istio());
    cluster.give_address("service", "istio-system", "istio-ingressgateway", "203.0.113.20");
    cluster.apply(ENDPOINTS);
    let sources =
        ["ingress", "istio-gateway", "istio-virtualservice", "crd"].map(|source| format!("--source={source}"));
    let types = ["A", "AAAA", "CNAME", "MX", "TXT"].map(|rtype| format!("--managed-record-types={rtype}"));
    let arguments: Vec<&str> = sources.iter().chain(&types).map(String::as_str).collect();
    let mut client = cluster.external_dns(&format!("http://{webhook}/owners/east"), "east", &arguments, &[]);

    let is = |server: &Fairway, name: &str, rtype: &str, expected: &str| {
        wait_until(&format!("{name} {rtype} is {expected}"), LIMIT, || dig(server, name, rtype) == [expected]);
    };
    is(&server, "web.gslb.example", "A", "203.0.113.10");
    is(&server, "edge.gslb.example", "A", "203.0.113.20");
    is(&server, "cart.gslb.example", "A", "203.0.113.20");
    is(&server, "pay.gslb.example", "A", "203.0.113.40");
    is(&server, "pay.gslb.example", "AAAA", "2001:db8::40");
    is(&server, "alias.gslb.example", "CNAME", "elsewhere.example.net.");
    is(&server, "mail.gslb.example", "MX", "10 mx.example.net.");
    is(&server, "note.gslb.example", "TXT", "\"v=spf1 -all\"");

    let settled = server.metric("fairway_webhook_changes_total", "");
    let loops = || server.metric("fairway_webhook_calls_total", "call=\"records\",code=\"200\"");
    let before = loops();
    wait_until("loops are made", LIMIT, || loops() >= before + 5.0);
    assert_eq!(server.metric("fairway_webhook_changes_total", ""), settled, "{}", client.output());

    let gone = |name: &str, rtype: &str| {
        wait_until(&format!("{name} {rtype} is gone"), LIMIT, || dig(&server, name, rtype).is_empty());
    };
    cluster.kubectl(&["delete", "ingress", "web"]);
    gone("web.gslb.example", "A");
    cluster.kubectl(&["-n", "istio-system", "delete", "virtualservices.networking.istio.io", "cart"]);
    gone("cart.gslb.example", "A");
    is(&server, "edge.gslb.example", "A", "203.0.113.20");
    cluster.kubectl(&["delete", "dnsendpoint", "others"]);
    gone("pay.gslb.example", "AAAA");
    gone("mail.gslb.example", "MX");
    is(&server, "edge.gslb.example", "A", "203.0.113.20");
    assert!(client.is_running(), "{}", client.output());
}
