//! A real istio-ingressgateway: istiod, pilot-agent and Envoy with a real kube-apiserver. Its readiness port is probed, and the
//! answers follow its drain and its return.
#![cfg(feature = "real")]

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use fairway_integration::{
    load::{Load, wait_answer},
    real::{Fairway, free_port, http_get, parts, program, root, used, wait_until},
};
use tempfile::TempDir;

/// Longest wait for an event; seconds are usual, the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The queried name, and the addresses of its clusters: they are answered, and probed elsewhere.
const NAME: &str = "shop.gslb.example";
const EU: &str = "203.0.113.10";
const US: &str = "203.0.113.20";

/// Runs a script of `integration/realparts`; its children keep running, so its output goes to a file.
fn script(name: &str, log: &Path, arguments: &[&str], variables: &[(&str, &str)]) {
    let file = fs::File::create(log).expect("the folder can be written");
    let both = file.try_clone().expect("a descriptor is free");
    let mut command = Command::new(root().join("integration/realparts").join(name));
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .stdout(file)
        .stderr(both);
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{name}: {}", fs::read_to_string(log).unwrap_or_default());
}

/// A Kubernetes API, istiod and two ingress gateways; all end when it is dropped.
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
        mesh.gateway("us", 1_000);
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

#[test]
fn draining_istio_gateway_is_not_answered_until_it_returns() {
    let mesh = Mesh::start();
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
