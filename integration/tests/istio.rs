//! A real istio-ingressgateway: istiod, pilot-agent and Envoy with a real kube-apiserver. Its pods are found in the API and read, services
//! without a healthy endpoint leave the answers, its readiness port is probed, and the answers follow its drain and its return.
#![cfg(feature = "real")]

use std::{
    env, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{Load, Reply, wait_answer},
    query::{ECS, Opt, Query},
    real::{Fairway, ask, free_port, http_get, http_json, parts, program, root, used, wait_until},
};
use fairway_model::Rtype;
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for an event; seconds are usual, the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The queried name, and the addresses of its clusters: they are answered, and probed elsewhere.
const NAME: &str = "shop.gslb.example";
const EU: &str = "203.0.113.10";
const US: &str = "203.0.113.20";

/// Address of the gateway's pod, and its port for requests.
const POD: &str = "10.77.0.21";
const HTTP: u16 = 18_081;

/// Runs a script of `integration/realparts`; its children keep running, so its output goes to a file.
fn script(name: &str, log: &Path, arguments: &[&str], variables: &[(&str, &str)]) {
    let file = fs::File::create(log).expect("the folder can be written");
    let both = file.try_clone().expect("a descriptor is free");
    let mut command = Command::new(root().join("integration/realparts").join(name));
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).stdout(file).stderr(both);
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{name}: {}", fs::read_to_string(log).unwrap_or_default());
}

/// A Kubernetes API, istiod and ingress gateways; all end when it is dropped.
struct Mesh {
    folder: TempDir,
}

impl Mesh {
    fn start() -> Self {
        used("kube-apiserver");
        used("istio-ingressgateway");
        let mesh = Self { folder: TempDir::new().expect("a temporary folder") };
        let parts = parts();
        let parts = parts.to_str().expect("it is UTF-8");
        assert!(Path::new(parts).join("bin/pilot-agent").is_file(), "no Istio in {parts}; integration/run gets it");
        let (api, etcd) = (free_port().to_string(), "23890");
        script("kube-up.sh", &mesh.at("kube-up.log"), &[parts, mesh.text("kube").as_str(), &api, etcd], &[]);
        for file in fs::read_dir(Path::new(parts).join("crd")).expect("the parts have CRDs") {
            let file = file.expect("a folder can be read").path();
            mesh.kubectl(&["apply", "--server-side", "-f", file.to_str().expect("it is UTF-8")]);
        }
        mesh.gateway("eu", 0);
        mesh
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).to_str().expect("it is UTF-8").to_owned()
    }

    fn kubectl(&self, arguments: &[&str]) {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.at("kube/kubeconfig")).args(arguments);
        let output = command.output().expect("kubectl is on the machine");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn apply(&self, manifest: &str) {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.at("kube/kubeconfig")).args(["apply", "--server-side", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("kubectl is on the machine");
        child.stdin.take().expect("a pipe").write_all(manifest.as_bytes()).expect("kubectl reads it");
        assert!(child.wait().expect("it ends").success(), "{manifest}");
    }

    /// Starts the gateway with this offset of ports; the first call also starts istiod.
    fn gateway(&self, name: &str, offset: u16) {
        let only = if self.at("eu/istiod.pid").exists() { vec![("GATEWAY_ONLY", "1")] } else { vec![] };
        let envoy = program("envoy", "envoy");
        let parts = parts();
        let paths = [parts.as_path(), &envoy].map(|path| path.to_str().expect("it is UTF-8"));
        let (folder, config, offset) = (self.text(name), self.text("kube/kubeconfig"), offset.to_string());
        let arguments = [paths[0], paths[1], &folder, &config, &offset];
        script("istio-up.sh", &self.at(&format!("{name}-up.log")), &arguments, &only);
    }

    /// Asks a gateway to end, as the kubelet does.
    fn terminate(&self, name: &str) {
        let pid = fs::read_to_string(self.at(name).join("gateway.pid")).expect("it was started");
        let status = Command::new("kill").args(["-s", "TERM", pid.trim()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {pid}");
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        for part in ["us", "eu", "kube"] {
            let script = root().join("integration/realparts/kube-down.sh");
            let _ = Command::new(script).arg(self.at(part)).status();
        }
    }
}

/// Objects of the cluster: the gateway with a pod, and the services `web` and `pay` with one endpoint each. Endpoints of `pay` that answer
/// with an error are ejected by the gateway.
fn objects(web: SocketAddr, pay: SocketAddr) -> String {
    let service = |name: &str, at: SocketAddr| {
        format!(
            "---
apiVersion: v1
kind: Service
metadata: {{ name: {name}, namespace: shop }}
spec: {{ ports: [ {{ name: http, port: 80, targetPort: {port} }} ] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: {name}-1, namespace: shop, labels: {{ kubernetes.io/service-name: {name} }} }}
addressType: IPv4
ports: [ {{ name: http, port: {port}, protocol: TCP }} ]
endpoints: [ {{ addresses: [ {ip} ], conditions: {{ ready: true }} }} ]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{ name: {name}, namespace: shop }}
spec: {{ hosts: [ {name}.gslb.example ], gateways: [ istio-system/all ], http: [ {{ route: [ {{ destination: {{ host: {name} }} }} ] }} ] }}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{ name: {name}, namespace: shop }}
spec:
  host: {name}
  trafficPolicy: {{ outlierDetection: {{ consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 300s, maxEjectionPercent: 100 }} }}
",
            port = at.port(),
            ip = at.ip(),
        )
    };
    format!(
        "apiVersion: v1
kind: Service
metadata: {{ name: istio-ingressgateway, namespace: istio-system, labels: {{ istio: ingressgateway }} }}
spec: {{ type: LoadBalancer, selector: {{ istio: ingressgateway }}, ports: [ {{ name: status, port: 15021 }}, {{ name: http, port: {HTTP} }} ] }}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{ name: all, namespace: istio-system }}
spec: {{ selector: {{ istio: ingressgateway }}, servers: [ {{ port: {{ number: {HTTP}, name: http, protocol: HTTP }}, hosts: [ \"*\" ] }} ] }}
{}{}{}",
        pods(&[POD]),
        service("web", web),
        service("pay", pay)
    )
}

/// The slice of the gateway's pods.
fn pods(addresses: &[&str]) -> String {
    let endpoints = addresses.iter().map(|ip| format!("{{ addresses: [ {ip} ], conditions: {{ ready: true }} }}"));
    format!(
        "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: gateway-1, namespace: istio-system, labels: {{ kubernetes.io/service-name: istio-ingressgateway }} }}
addressType: IPv4
ports: [ {{ name: http, port: {HTTP}, protocol: TCP }} ]
endpoints: [ {} ]
",
        endpoints.collect::<Vec<_>>().join(", ")
    )
}

/// A back end: `web` keeps requests, `pay` fails them. Both answer 200 to `/fine`.
fn back_end(is_failing: bool) -> SocketAddr {
    let listener = TcpListener::bind("10.77.0.31:0").expect("a free port");
    let at = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = [0; 2_048];
                let length = stream.read(&mut head).unwrap_or(0);
                let is_fine = head[..length].starts_with(b"GET /fine ");
                let status = if is_failing && !is_fine { "503 Service Unavailable" } else { "200 OK" };
                if is_fine || is_failing {
                    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                } else {
                    // Until the client leaves.
                    let _ = stream.read(&mut head);
                }
            });
        }
    });
    at
}

/// Sends a request through the gateway; the connection has it until it is dropped.
fn send(host: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect((POD, HTTP)).expect("the gateway listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").expect("it is sent");
    stream
}

/// Returns the status of the gateway's response.
fn status(host: &str, path: &str) -> Option<u16> {
    let mut stream = std::panic::catch_unwind(|| send(host, path)).ok()?;
    let mut head = [0; 64];
    let length = stream.read(&mut head).ok()?;
    std::str::from_utf8(&head[..length]).ok()?.split(' ').nth(1)?.parse().ok()
}

/// Returns a part of `/v1/state`.
fn state(server: &Fairway, pointer: &str) -> Value {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    state.pointer(pointer).cloned().unwrap_or_default()
}

/// Creates the services and the gateway's Service, with its address.
fn create_objects(mesh: &Mesh) {
    mesh.kubectl(&["create", "namespace", "shop"]);
    mesh.apply(&objects(back_end(false), back_end(true)));
    let address = format!("{{\"status\":{{\"loadBalancer\":{{\"ingress\":[{{\"ip\":\"{POD}\"}}]}}}}}}");
    let service = ["-n", "istio-system", "patch", "service", "istio-ingressgateway"];
    mesh.kubectl(&[&service[..], &["--subresource=status", "--type=merge", "-p", &address]].concat());
}

/// Number of client networks whose answers are counted.
const CLIENTS: u8 = 240;

/// Returns the part of the client networks that a name answers with the gateway, in per cent.
fn share(server: &Fairway, name: &str) -> f64 {
    let is_gateway = |client: &u8| {
        let edns = Some(Opt { options: vec![(ECS, vec![0, 1, 24, 0, 198, 18, *client])], ..Opt::default() });
        let name = format!("{name}.gslb.example").parse().expect("a name");
        let packet = Query { id: u16::from(*client), edns, ..Query::new(name, Rtype::A) }.encode();
        let reply = ask(server.dns, &packet).and_then(|octets| Reply::read(&octets));
        reply.expect("an answer").is(&[POD])
    };
    (0..CLIENTS).filter(is_gateway).count() as f64 / f64::from(CLIENTS) * 100.0
}

/// Requests in flight of one service move the answers of its name to the other cluster, and those of other names stay.
fn load_of_a_service_moves_its_answers_only(mesh: &Mesh) {
    let config = format!(
        "zones: [ {{ name: gslb.example, ns: [ns1.example.net] }} ]
evidence: {{ challenge: false }}
load: [ {{ name: pods, type: prometheus, period: 1s, timeout: 500ms }} ]
clusters:
  - {{ name: eu1, load: pods, kubernetes: {{ kubeconfig: \"{kubeconfig}\", capacityPerPod: 2000 }} }}
  - {{ name: us1, addresses: [{US}], capacity: 2000 }}
monitors: [ {{ name: off, type: always }} ]
pools:
  - {{ name: web, capacityPerPod: 100, {rest} }}
  - {{ name: pay, capacityPerPod: 100, {rest} }}
  - {{ name: plain, {rest} }}
names: [ {{ name: web.gslb.example, pool: web }}, {{ name: pay.gslb.example, pool: pay }}, {{ name: plain.gslb.example, pool: plain }} ]
",
        kubeconfig = mesh.text("kube/kubeconfig"),
        rest = "policy: [load, weighted], ttl: 3s, monitor: off, members: [ { cluster: eu1 }, { cluster: us1 } ]",
    );
    let server = Fairway::start(&config, &[]);
    wait_until("the gateway routes", LIMIT, || status("web.gslb.example", "/fine") == Some(200));
    // The other cluster reports, too: without a report its load would be unknown.
    let reported = |name: &str| {
        let pushed = http_json(server.http, "PUT", "/v1/load/us1", r#"{"used": 100, "validFor": "10s"}"#);
        assert!(pushed.is_some_and(|(status, _)| status < 300));
        share(&server, name)
    };
    reported("web");
    let number = |name: &str| {
        let pools = state(&server, "/pools");
        pools.as_array().expect("a list").iter().position(|pool| pool["name"] == name).expect("it is there")
    };
    let of = |name: &str, of: &str| state(&server, &format!("/pools/{}/members/0/serviceLoad/{of}", number(name)));
    // Envoy has no gauge of a service before its first request, so the load of `pay` is that of its cluster.
    wait_until("the load of the service is known", LIMIT, || of("web", "load") == 0.0);
    wait_until("they have shares", LIMIT, || of("web", "share").is_number() && of("pay", "share").is_number());
    assert_eq!(of("web", "capacity"), 100);
    let names = ["web", "pay", "plain"];
    let before = names.map(|name| share(&server, name));
    // Load control is slower while it knows its clients for less than some TTLs.
    let settled = Instant::now();
    wait_until("clients are known", LIMIT, || reported("web") >= 0.0 && settled.elapsed() > Duration::from_secs(9));
    let held: Vec<TcpStream> = (0..200).map(|_| send("web.gslb.example", "/held")).collect();
    let begun = Instant::now();
    for points in [1.0, 10.0] {
        wait_until("the answers of the loaded service move", LIMIT, || reported("web") < before[0] - points);
        println!("over {points} points less after {:?}, with a report period of 1 s", begun.elapsed());
    }
    wait_until("its load is shown", LIMIT, || of("web", "load") == 200.0);
    let after = names.map(|name| share(&server, name));
    println!("shares before {before:?}, after {after:?}");
    assert!((1..3).all(|name| (before[name] - after[name]).abs() <= 2.0), "{before:?} {after:?}");
    drop(held);
}

/// The gateway's pods are found, and read one by one; a name leaves the answers when the gateway has no healthy endpoint for it.
fn services_and_load_of_its_pods(mesh: &Mesh) {
    let config = format!(
        "zones: [ {{ name: gslb.example, ns: [ns1.example.net] }} ]
load: [ {{ name: pods, type: prometheus, period: 500ms, timeout: 500ms }} ]
clusters:
  - {{ name: eu1, load: pods, kubernetes: {{ kubeconfig: \"{kubeconfig}\", capacityPerPod: 100 }} }}
  - {{ name: us1, addresses: [{US}] }}
monitors: [ {{ name: off, type: always }} ]
pools:
{web}{pay}names: [ {{ name: web.gslb.example, pool: web }}, {{ name: pay.gslb.example, pool: pay }} ]
",
        kubeconfig = mesh.text("kube/kubeconfig"),
        web = pool("web"),
        pay = pool("pay"),
    );
    let server = Fairway::start(&config, &[]);
    wait_answer(server.dns, "web.gslb.example", &[POD], LIMIT);
    wait_answer(server.dns, "pay.gslb.example", &[POD], LIMIT);
    wait_until("the gateway routes", LIMIT, || status("web.gslb.example", "/fine") == Some(200));
    wait_until("statistics of services", LIMIT, || {
        state(&server, "/pools/0/members/0/services/0/healthy") == 1
            && state(&server, "/pools/1/members/0/services/0/healthy") == 1
    });
    assert_eq!(state(&server, "/clusters/0/capacity"), 100);
    assert_eq!(state(&server, "/clusters/0/kubernetes/gatewayPods"), 1);
    assert_eq!(state(&server, "/clusters/0/kubernetes/noServiceStatistics"), Value::Null);
    // Requests in flight are those of the service, and the load of the cluster.
    let held: Vec<TcpStream> = (0..40).map(|_| send("web.gslb.example", "/held")).collect();
    wait_until("40 requests in flight", LIMIT, || {
        let of = |pool: usize| state(&server, &format!("/pools/{pool}/members/0/services/0/active"));
        let pools = state(&server, "/pools");
        let web = usize::from(pools[0]["name"] != "web");
        of(web) == 40
            && of(1 - web).as_u64().is_none_or(|of| of == 0)
            && state(&server, "/clusters/0/load/0/permille") == 400
    });
    // A second pod, which is the same process, doubles capacity and load without any configuration.
    mesh.apply(&pods(&[POD, "10.77.0.22"]));
    wait_until("two pods are read", LIMIT, || {
        state(&server, "/clusters/0/capacity") == 200 && state(&server, "/clusters/0/load/0/gatewaysAnswering") == 2
    });
    wait_until("load of two pods", LIMIT, || state(&server, "/clusters/0/load/0/permille") == 400);
    // Pods that cannot be reached: the address of the gateway is read instead, which leads to one of two.
    mesh.apply(&pods(&["192.0.2.23", "192.0.2.24"]));
    wait_until("the address is read", LIMIT, || {
        state(&server, "/clusters/0/kubernetes/podsUnreachable") == true
            && state(&server, "/clusters/0/load/0/permille") == 400
    });
    mesh.apply(&pods(&[POD]));
    drop(held);
    wait_until("the pod is read", LIMIT, || state(&server, "/clusters/0/kubernetes/podsUnreachable") == false);
    // The gateway ejects the endpoint of `pay`, which is ready in Kubernetes.
    assert_eq!(status("pay.gslb.example", "/"), Some(503));
    let begun = Instant::now();
    wait_answer(server.dns, "pay.gslb.example", &[US], LIMIT);
    println!(
        "endpoint of a service ejected: {:?} until its cluster is not answered, of a period of 500 ms",
        begun.elapsed()
    );
    wait_answer(server.dns, "web.gslb.example", &[POD], LIMIT);
    let output = server.command(&["status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("eu1: no gateway has a healthy endpoint of shop/pay"), "{text}");
}

fn pool(name: &str) -> String {
    format!(
        "  - {{ name: {name}, policy: failover, members: [ {{ cluster: eu1 }}, {{ cluster: us1, monitor: off }} ] }}\n"
    )
}

#[test]
fn answers_follow_a_real_istio_gateway() {
    if !is_in_namespace() {
        return;
    }
    // Both use the same ports, and a mesh takes a while to start.
    let mesh = Mesh::start();
    create_objects(&mesh);
    load_of_a_service_moves_its_answers_only(&mesh);
    services_and_load_of_its_pods(&mesh);
    // Both gateways have the same listener, so the second one would get a part of the requests above.
    mesh.gateway("us", 1_000);
    draining_gateway_is_not_answered_until_it_returns(&mesh);
}

/// Returns true in a network namespace that has the addresses of pods, since Kubernetes takes none of 127.0.0.0/8. Otherwise runs this test
/// again in one, and fails as it does.
fn is_in_namespace() -> bool {
    if env::var_os("FAIRWAY_TEST_NAMESPACE").is_some() {
        return true;
    }
    let script = "ip link set lo up && for i in 21 22 31; do ip addr add 10.77.0.$i/32 dev lo; done && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--net", "sh", "-c", script, "sh"])
        .arg(env::current_exe().expect("it has a path"));
    command.args(["--exact", "answers_follow_a_real_istio_gateway", "--nocapture"]).env("FAIRWAY_TEST_NAMESPACE", "1");
    assert!(command.status().expect("unshare is there").success(), "it fails in the namespace; see above");
    false
}

fn draining_gateway_is_not_answered_until_it_returns(mesh: &Mesh) {
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{{ name: eu1, addresses: [{EU}] }}, {{ name: us1, addresses: [{US}] }}]
monitors: [{{ name: gateway, type: http, path: /healthz/ready, period: 200ms, timeout: 200ms, rise: 2, fall: 2 }}]
pools:
  - name: shop
    policy: failover
    monitor: gateway
    members:
      - {{ cluster: eu1, probe: \"127.0.0.1:15021\" }}
      - {{ cluster: us1, probe: \"127.0.0.1:16021\" }}
names: [{{ name: {NAME}, pool: shop }}]
"
    );
    let server = Fairway::start(&config, &[]);
    wait_answer(server.dns, NAME, &[EU], LIMIT);
    let load = Load::start(server.dns, 2, NAME, |reply| reply.is(&[EU]) || reply.is(&[US]));
    mesh.terminate("eu");
    wait_answer(server.dns, NAME, &[US], LIMIT);
    let eu = SocketAddr::from(([127, 0, 0, 1], 15_021));
    wait_until("the gateway has ended", LIMIT, || http_get(eu, "/healthz/ready").is_none());
    mesh.gateway("eu", 0);
    wait_answer(server.dns, NAME, &[EU], LIMIT);
    load.wait_for(50);
    load.stop().expect_whole(50);
}
