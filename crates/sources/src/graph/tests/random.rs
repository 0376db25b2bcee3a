//! Random histories: after each step, the graph is the one that is built from nothing with the same objects.

use std::env;

use fairway_model::SplitMix;

use super::*;

/// Number of histories, unless `FAIRWAY_RANDOM_HISTORIES` is set.
const HISTORIES: u64 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };
const STEPS: u64 = 24;
const NAMESPACES: &[&str] = &["a", "b"];
const HOSTS: &[&str] = &["x.test", "*.test", "y.x.test", "*.x.test", "*", "ü.test", "other.example"];
const SERVICES: &[&str] = &["s", "t", "s.b", "t.a.svc", "s.a.svc.cluster.local", "api.example.com"];

/// A source of small random objects.
struct Draw(SplitMix);

impl Draw {
    fn is(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn some<'a>(&mut self, of: &[&'a str]) -> Vec<&'a str> {
        of.iter().filter(|_| self.0.below(3) == 0).copied().collect()
    }

    fn path(&mut self, names: &[&str]) -> String {
        format!("{}/{}", self.one(NAMESPACES), self.one(names))
    }

    fn addresses(&mut self) -> Vec<&'static str> {
        self.some(&["192.0.2.1", "192.0.2.2", "2001:db8::1", "lb.example.com"])
    }

    fn object(&mut self) -> Value {
        let object = match self.0.below(12) {
            0 => self.service(),
            1 | 2 => self.slice(),
            3 => self.ingress(),
            4 => self.istio_gateway(),
            5 | 6 => self.virtual_service(),
            7 => self.gateway(),
            8 => self.listener_set(),
            9 => self.route(),
            10 => self.traffic_split(),
            _ => self.rest(),
        };
        self.with_annotations(object)
    }

    fn with_annotations(&mut self, object: Value) -> Value {
        let mut pairs = Vec::new();
        if self.is(10) {
            pairs.push(("hostname", self.one(HOSTS)));
        }
        if self.is(5) {
            pairs.push(("target", self.one(&["198.51.100.1", "lb.example.com", "/"])));
        }
        if self.is(5) {
            pairs.push(("ttl", self.one(&["1", "2"])));
        }
        if self.is(3) {
            pairs.push(("controller", "other"));
        }
        let minute = self.0.below(2) as u32;
        created(annotated(object, &pairs), minute)
    }

    fn service(&mut self) -> Value {
        let ingress: Vec<_> = self.addresses().iter().map(|ip| json!({"ip": ip})).collect();
        let kind = self.one(&["ClusterIP", "LoadBalancer", "LoadBalancer", "ExternalName"]);
        let mut selector = json!({});
        for label in self.some(&["app", "istio"]) {
            selector[label] = json!(self.one(&["1", "2"]));
        }
        let external_ips = if self.is(10) { vec!["198.51.100.9"] } else { vec![] };
        let (ports, host) = (self.some(&["80", "81"]), self.one(&["gw.example.com", "Gw.example.com.", "/"]));
        let ports: Vec<_> = ports.iter().map(|port| json!({"port": port.parse::<u16>().unwrap()})).collect();
        let mut spec = json!({"type": kind, "selector": selector, "externalIPs": external_ips, "ports": ports});
        if kind == "ExternalName" {
            spec["externalName"] = json!(host);
        }
        let path = self.path(&["s", "t"]);
        object("Service", &path, json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}))
    }

    fn slice(&mut self) -> Value {
        let path = self.path(&["1", "2"]);
        let ready = self.some(&["10.0.0.1", "10.0.0.2", "2001:db8::1"]);
        let mut slice = slice(&path, self.one(&["s", "t"]), &ready);
        if self.is(20) && !ready.is_empty() {
            slice["endpoints"][0]["conditions"] = json!({"ready": false});
        }
        slice
    }

    fn traffic_split(&mut self) -> Value {
        let mut backends = Vec::new();
        for name in self.some(&["s", "t", "t", "gone"]) {
            backends.push((name, self.0.below(4) as i64 - 1));
        }
        let path = self.path(&["s", "u"]);
        let mut split = traffic_split(&path, self.one(&["s", "t"]), &backends);
        if self.is(15) {
            split["spec"]["matches"] = json!([{"kind": "HTTPRouteGroup", "name": "canary"}]);
        }
        split
    }

    fn ingress(&mut self) -> Value {
        let mut rules = Vec::new();
        for host in self.some(HOSTS) {
            let name = self.one(&["s", "t", "gone"]);
            rules.push(json!({"host": host, "http": {"paths": [{"backend": {"service": {"name": name}}}]}}));
        }
        let ingress: Vec<_> = self.addresses().iter().map(|ip| json!({"ip": ip})).collect();
        let path = self.path(&["i"]);
        object("Ingress", &path, json!({"spec": {"rules": rules}, "status": {"loadBalancer": {"ingress": ingress}}}))
    }

    fn istio_gateway(&mut self) -> Value {
        let path = self.path(&["g", "h"]);
        let mut hosts = self.some(HOSTS);
        hosts.extend(self.some(&["a/x.test", "./*.test", "b/*"]));
        let mut gateway = istio_gateway(&path, &hosts);
        let mut selector = json!({});
        for label in self.some(&["app", "istio"]) {
            selector[label] = json!(self.one(&["1", "2"]));
        }
        gateway["spec"]["selector"] = selector;
        gateway
    }

    fn virtual_service(&mut self) -> Value {
        let path = self.path(&["v", "w"]);
        let gateways = self.some(&["a/g", "b/g", "g", "h", "mesh"]);
        let hosts = if self.is(25) { vec![] } else { self.some(HOSTS) };
        let mut service = virtual_service(&path, &gateways, &hosts, &self.some(SERVICES));
        for route in service["spec"]["http"][0]["route"].as_array_mut().unwrap() {
            route["weight"] = json!(self.0.below(3));
        }
        if self.is(30) {
            let (name, namespace) = (self.one(&["v", "w"]), self.one(NAMESPACES));
            service["spec"]["http"][0]["delegate"] = json!({"name": name, "namespace": namespace});
        }
        if self.is(20) {
            service["spec"]["exportTo"] = json!(self.some(&["*", ".", "a", "b"]));
        }
        service
    }

    fn listeners(&mut self) -> Vec<Value> {
        let names = self.some(&["l", "m"]);
        let of = names.into_iter().map(|name| {
            let protocol = self.one(&["HTTP", "HTTPS", "TLS", "TCP"]);
            let host = self.one(HOSTS);
            let mut listener = listener(name, protocol, self.is(50).then_some(host));
            if self.is(30) {
                listener["allowedRoutes"] = json!({"namespaces": {"from": "Same"}});
            }
            listener
        });
        of.collect()
    }

    fn gateway(&mut self) -> Value {
        let path = self.path(&["k"]);
        gateway(&path, &self.listeners(), &self.addresses())
    }

    fn listener_set(&mut self) -> Value {
        let path = self.path(&["k"]);
        let parent = json!({"namespace": self.one(NAMESPACES), "name": "k"});
        let conditions = json!([{"type": "Accepted", "status": self.one(&["True", "True", "False"])}]);
        let spec = json!({"parentRef": parent, "listeners": self.listeners()});
        object("ListenerSet", &path, json!({"spec": spec, "status": {"conditions": conditions}}))
    }

    fn route(&mut self) -> Value {
        let kind = self.one(&["HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"]);
        let path = self.path(&["r", "q"]);
        let mut parents = Vec::new();
        for namespace in self.some(NAMESPACES) {
            let kind = self.one(&["Gateway", "ListenerSet"]);
            parents.push(json!({"kind": kind, "namespace": namespace, "name": "k"}));
        }
        let mut backends = Vec::new();
        for name in self.some(&["s", "t", "gone"]) {
            backends.push(json!({"name": name, "namespace": self.one(NAMESPACES), "weight": self.0.below(2)}));
        }
        let mut route = route(kind, &path, &parents, &self.some(HOSTS), &backends);
        if self.is(20) {
            route["status"] = json!({});
        }
        route
    }

    fn rest(&mut self) -> Value {
        if self.is(50) {
            let from =
                json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": self.one(NAMESPACES)});
            let to = json!({"group": "", "kind": "Service", "name": self.one(&["", "s"])});
            let path = self.path(&["grant", "second"]);
            return object("ReferenceGrant", &path, json!({"spec": {"from": [from], "to": [to]}}));
        }
        let endpoint = |name: &str| json!({"dnsName": name, "recordType": "A", "targets": ["192.0.2.3"]});
        let endpoints: Vec<_> = self.some(HOSTS).into_iter().map(endpoint).collect();
        let path = self.path(&["d"]);
        object("DNSEndpoint", &path, json!({"spec": {"endpoints": endpoints}}))
    }
}

type Exposures = BTreeMap<Arc<str>, Vec<Exposure>>;

fn exposures(graph: &Graph) -> Exposures {
    let of = |name: &Arc<str>| (Arc::clone(name), graph.exposures(name).into_iter().cloned().collect());
    graph.names().map(of).collect()
}

/// Plays a history. Returns the number of names that changed, and of exposures with backends that may stand for other clusters.
fn play(seed: u64) -> (usize, usize) {
    let mut draw = Draw(SplitMix::new(seed));
    let mut graph = Graph::new();
    let mut objects = BTreeMap::<ObjectKey, Object>::new();
    let mut without_endpoint = BTreeSet::new();
    let mut before = Exposures::new();
    let (mut count, mut splits) = (0, 0);
    for step in 0..STEPS {
        for _ in 0..=draw.0.below(4) {
            let (key, object) = read(draw.object());
            let object = (!draw.is(25)).then_some(object);
            match object.clone() {
                Some(object) => _ = objects.insert(key.clone(), object),
                None => _ = objects.remove(&key),
            }
            graph.apply(key, object);
        }
        if draw.is(5) {
            let kind = Kind::ALL[draw.0.below(Kind::ALL.len() as u64) as usize];
            let keys: HashSet<_> = objects.keys().filter(|key| key.kind == kind && draw.is(60)).cloned().collect();
            objects.retain(|key, _| key.kind != kind || keys.contains(key));
            graph.retain(kind, &keys);
        }
        if draw.is(20) {
            without_endpoint =
                draw.some(&["a/s", "a/t", "b/s", "b/none", "wrong"]).into_iter().map(Arc::from).collect();
            graph.set_without_endpoint(&without_endpoint);
        }
        let changed = graph.take_changed();
        let now = exposures(&graph);
        let differs = |name: &&Arc<str>| before.get(*name) != now.get(*name);
        let expected: BTreeSet<_> = before.keys().chain(now.keys()).filter(differs).cloned().collect();
        assert_eq!(changed, expected, "seed {seed}, step {step}: changed names");
        let mut fresh = Graph::new();
        fresh.set_without_endpoint(&without_endpoint);
        // The order of the objects does not matter, so those of the second graph come backwards.
        objects.iter().rev().for_each(|(key, object)| fresh.apply(key.clone(), Some(object.clone())));
        fresh.take_changed();
        assert_eq!(now, exposures(&fresh), "seed {seed}, step {step}: exposures");
        assert_eq!(graph.problems(), fresh.problems(), "seed {seed}, step {step}: problems");
        assert_eq!(graph.gateways(), fresh.gateways(), "seed {seed}, step {step}: gateways");
        assert!(graph.exposed() == fresh.exposed(), "seed {seed}, step {step}: exposed services");
        assert_eq!(graph.counts(), fresh.counts(), "seed {seed}, step {step}: counts");
        assert_eq!(graph.dependents, fresh.dependents, "seed {seed}, step {step}: dependencies");
        count += changed.len();
        splits += now.values().flatten().filter(|exposure| exposure.split.is_some()).count();
        before = now;
    }
    (count, splits)
}

#[test]
fn graph_after_any_history_is_the_one_built_from_nothing() {
    let histories = env::var("FAIRWAY_RANDOM_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let played = (0..histories).map(play).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let (changed, splits) = (played.0 as u64, played.1 as u64);
    assert!(changed >= histories, "histories that change {changed} names test nothing");
    assert!(splits >= histories / 10, "histories with {splits} splits test none");
}
