//! Objects are given as JSON, so that the wire format and the rules are tested together.

mod bad_input;
mod core;
mod gateway_api;
mod incremental;
mod istio;
mod random;
mod size;
mod splits;

use fairway_model::{Name, RuleBackends};
use serde_json::{Value, json};

use super::*;
use crate::crd::{self, Wire};

/// A graph whose objects are given as JSON.
#[derive(Default)]
struct Scene {
    graph: Graph,
}

impl Scene {
    fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut scene = Self::default();
        scene.apply(objects);
        scene
    }

    /// Applies objects. Returns the changed names.
    fn apply(&mut self, objects: impl IntoIterator<Item = Value>) -> Vec<String> {
        for value in objects {
            let (key, object) = read(value);
            self.graph.apply(key, Some(object));
        }
        self.take_changed()
    }

    /// Removes an object. Returns the changed names.
    fn remove(&mut self, key: &str) -> Vec<String> {
        self.graph.apply(key.parse().unwrap(), None);
        self.take_changed()
    }

    fn take_changed(&mut self) -> Vec<String> {
        self.graph.take_changed().iter().map(ToString::to_string).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.graph.names().map(|name| &**name).collect()
    }

    /// Returns each exposure as `name object gateway targets ready`, with `-` for what is unknown.
    fn exposures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for name in self.graph.names() {
            for exposure in self.graph.exposures(name) {
                let declared = match &exposure.declared {
                    Declared::Endpoint(endpoint) => format!("{} {:?}", endpoint.record_type, endpoint.targets),
                    Declared::Gateway { gateway, targets } => {
                        let gateway = gateway.as_ref().map_or_else(|| "-".to_owned(), |key| key.name.to_string());
                        format!("{gateway} {}", shown(targets))
                    }
                };
                let ready = exposure.ready.map_or_else(|| "-".to_owned(), |ready| ready.to_string());
                lines.push(format!("{name} {} {declared} {ready}", exposure.object));
            }
        }
        lines
    }

    /// Returns the numbers of ready endpoints of a name.
    fn ready(&self, name: &str) -> Vec<Option<u32>> {
        self.graph.exposures(name).iter().map(|exposure| exposure.ready).collect()
    }

    /// Returns the problems as `Kind namespace/name: text`.
    fn problems(&self) -> Vec<String> {
        self.graph.problems().iter().map(|problem| format!("{}: {}", problem.object, problem.message)).collect()
    }

    /// Asserts that one problem has this beginning.
    #[track_caller]
    fn assert_problem(&self, start: &str) {
        let problems = self.problems();
        assert!(problems.iter().any(|problem| problem.starts_with(start)), "{start:?} is not among {problems:#?}");
    }
}

fn shown(targets: &Targets) -> String {
    let addresses = targets.addresses.iter().map(ToString::to_string);
    addresses.chain(targets.hosts.iter().map(Name::to_plain)).collect::<Vec<_>>().join(",")
}

fn read(value: Value) -> (ObjectKey, Object) {
    fn of<W: Wire>(value: Value) -> Option<(ObjectKey, Object)> {
        crd::read(serde_json::from_value::<W>(value).unwrap())
    }
    let kind = value["kind"].as_str().unwrap().to_owned();
    let reader = match &*kind {
        "Service" => of::<crd::Service>,
        "EndpointSlice" => of::<crd::EndpointSlice>,
        "Ingress" => of::<crd::Ingress>,
        "IstioGateway" => of::<crd::IstioGateway>,
        "VirtualService" => of::<crd::VirtualService>,
        "Gateway" => of::<crd::Gateway>,
        "ListenerSet" => of::<crd::ListenerSet>,
        "HTTPRoute" => of::<crd::HttpRoute>,
        "GRPCRoute" => of::<crd::GrpcRoute>,
        "TLSRoute" => of::<crd::TlsRoute>,
        "TCPRoute" => of::<crd::TcpRoute>,
        "UDPRoute" => of::<crd::UdpRoute>,
        "ReferenceGrant" => of::<crd::ReferenceGrant>,
        "DNSEndpoint" => of::<crd::DnsEndpoint>,
        "TrafficSplit" => of::<crd::TrafficSplit>,
        _ => panic!("{kind}"),
    };
    reader(value).unwrap()
}

/// Returns an object with `spec` and `status` in `rest`.
fn object(kind: &str, path: &str, rest: Value) -> Value {
    let (namespace, name) = path.split_once('/').unwrap();
    let mut object = json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}});
    merge(&mut object, rest);
    object
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Returns the object with annotations of ExternalDNS.
fn annotated(mut object: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        object["metadata"]["annotations"][format!("external-dns.alpha.kubernetes.io/{name}")] = json!(value);
    }
    object
}

/// Returns the object with a time of creation, a minute of 2024.
fn created(mut object: Value, minute: u32) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2024-01-01T00:{minute:02}:00Z"));
    object
}

fn service(path: &str) -> Value {
    object("Service", path, json!({"spec": {"type": "ClusterIP", "selector": {"app": "x"}}}))
}

/// Returns a Service of type LoadBalancer with the selector `istio: ingress`.
fn load_balancer(path: &str, ips: &[&str]) -> Value {
    let ingress: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let spec = json!({"type": "LoadBalancer", "selector": {"istio": "ingress", "app": "gateway"}});
    object("Service", path, json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}))
}

/// Returns a slice of a Service with ready endpoints.
fn slice(path: &str, service: &str, ready: &[&str]) -> Value {
    let endpoints: Vec<_> = ready.iter().map(|address| json!({"addresses": [address]})).collect();
    let labels = json!({"kubernetes.io/service-name": service});
    object("EndpointSlice", path, json!({"metadata": {"labels": labels}, "endpoints": endpoints}))
}

/// Returns a Gateway of Istio with the selector `istio: ingress` and one server.
fn istio_gateway(path: &str, hosts: &[&str]) -> Value {
    let spec = json!({"selector": {"istio": "ingress"}, "servers": [{"port": {"number": 443}, "hosts": hosts}]});
    object("IstioGateway", path, json!({"spec": spec}))
}

/// Returns a VirtualService with one HTTP route.
fn virtual_service(path: &str, gateways: &[&str], hosts: &[&str], destinations: &[&str]) -> Value {
    let route: Vec<_> = destinations.iter().map(|host| json!({"destination": {"host": host}, "weight": 1})).collect();
    object("VirtualService", path, json!({"spec": {"gateways": gateways, "hosts": hosts, "http": [{"route": route}]}}))
}

fn listener(name: &str, protocol: &str, host: Option<&str>) -> Value {
    let all = json!({"namespaces": {"from": "All"}});
    json!({"name": name, "protocol": protocol, "port": 443, "hostname": host, "allowedRoutes": all})
}

fn gateway(path: &str, listeners: &[Value], addresses: &[&str]) -> Value {
    let address = |value: &&str| {
        let kind = if value.parse::<IpAddr>().is_ok() { "IPAddress" } else { "Hostname" };
        json!({"type": kind, "value": value})
    };
    let addresses: Vec<_> = addresses.iter().map(address).collect();
    object("Gateway", path, json!({"spec": {"listeners": listeners}, "status": {"addresses": addresses}}))
}

/// Returns a route that its parents have accepted.
fn route(kind: &str, path: &str, parents: &[Value], hosts: &[&str], backends: &[Value]) -> Value {
    let accepted =
        |parent: &Value| json!({"parentRef": parent, "conditions": [{"type": "Accepted", "status": "True"}]});
    let status: Vec<_> = parents.iter().map(accepted).collect();
    let spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": [{"backendRefs": backends}]});
    object(kind, path, json!({"spec": spec, "status": {"parents": status}}))
}

/// Returns a reference `namespace/name` to a Gateway.
fn parent(path: &str) -> Value {
    let (namespace, name) = path.split_once('/').unwrap();
    json!({"namespace": namespace, "name": name})
}

fn backend(name: &str) -> Value {
    json!({"name": name, "port": 80})
}

/// Returns a TrafficSplit of a Service with backends `(Service, weight)`.
fn traffic_split(path: &str, service: &str, backends: &[(&str, i64)]) -> Value {
    let backend = |(service, weight): &(&str, i64)| json!({"service": service, "weight": weight});
    let backends: Vec<_> = backends.iter().map(backend).collect();
    object("TrafficSplit", path, json!({"spec": {"service": service, "backends": backends}}))
}
