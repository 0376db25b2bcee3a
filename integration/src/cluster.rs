//! Clusters: a real kube-apiserver each, on request with real controllers, and the real external-dns that reads it.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use crate::real::{Fairway, Process, free_port, head, http_json, parts, program, root, serve, used, wait_until};

/// Longest wait for an event of a cluster; seconds are usual, the rest is for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Annotation that overrides the target of an object.
const PREFIX: &str = "external-dns.alpha.kubernetes.io";

/// A cluster: a Kubernetes API, and the external-dns that reads it.
#[derive(Debug)]
pub struct Cluster {
    name: &'static str,
    /// Folder of its files and logs.
    pub folder: TempDir,
    api_port: u16,
    etcd_port: u16,
    has_controllers: bool,
    external_dns: Option<Process>,
}

impl Cluster {
    /// Starts its kube-apiserver; waits until that is ready.
    pub fn start(name: &'static str) -> Self {
        Self::start_parts(name, false)
    }

    /// Starts it with the controllers of Deployments and EndpointSlices, and with a node whose Pods run no containers: they become ready
    /// at once unless their annotation `test/ready` is "false". There is no garbage collector: the EndpointSlices of a deleted Service
    /// stay.
    pub fn start_with_controllers(name: &'static str) -> Self {
        used("kube-controller-manager");
        Self::start_parts(name, true)
    }

    fn start_parts(name: &'static str, has_controllers: bool) -> Self {
        used("kube-apiserver");
        let folder = TempDir::new().expect("a temporary folder");
        let (api_port, etcd_port) = (free_port(), two_free_ports());
        let cluster = Self { name, folder, api_port, etcd_port, has_controllers, external_dns: None };
        cluster.run_kube_up();
        cluster
    }

    /// Starts those of its programs that have no pid file; waits until the kube-apiserver is ready.
    fn run_kube_up(&self) {
        let mut script = Command::new(root().join("integration/realparts/kube-up.sh"));
        let log = fs::File::create(self.folder.path().join("up.log")).expect("the folder can be written");
        let both = log.try_clone().expect("a descriptor is free");
        script.arg(parts()).arg(self.kube()).arg(self.api_port.to_string()).arg(self.etcd_port.to_string());
        script.env("CONTROLLERS", if self.has_controllers { "1" } else { "" });
        let status = script.stdin(std::process::Stdio::null()).stdout(log).stderr(both).status();
        let log = || fs::read_to_string(self.folder.path().join("up.log")).unwrap_or_default();
        assert!(status.is_ok_and(|status| status.success()), "kube-up.sh: {}", log());
    }

    fn kube(&self) -> PathBuf {
        self.folder.path().join("kube")
    }

    /// Returns its kubeconfig, whose user has all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kube().join("kubeconfig")
    }

    /// Writes a kubeconfig of the user `fairway`, and returns its path. RBAC knows the user as the ServiceAccount `fairway` in the
    /// namespace `fairway`; it has no rights until a test binds a role to it.
    pub fn token_kubeconfig(&self) -> PathBuf {
        self.write_kubeconfig("fairway.kubeconfig", "token: fairway-token")
    }

    /// Writes a kubeconfig of the same user, whose token a command prints, and returns its path.
    pub fn command_kubeconfig(&self) -> PathBuf {
        let (script, version) = (self.folder.path().join("token.sh"), "client.authentication.k8s.io/v1");
        let status =
            format!(r#"{{"apiVersion":"{version}","kind":"ExecCredential","status":{{"token":"fairway-token"}}}}"#);
        fs::write(&script, format!("echo '{status}'\n")).expect("the folder can be written");
        let user = format!(
            "exec: {{ apiVersion: {version}, interactiveMode: Never, command: sh, args: [ \"{}\" ] }}",
            script.display()
        );
        self.write_kubeconfig("command.kubeconfig", &user)
    }

    fn write_kubeconfig(&self, name: &str, user: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        let ca = self.kube().join("certs/apiserver.crt");
        let text = format!(
            "apiVersion: v1
kind: Config
clusters: [{{ name: t, cluster: {{ server: \"https://127.0.0.1:{}\", certificate-authority: \"{}\" }} }}]
users: [{{ name: fairway, user: {{ {user} }} }}]
contexts: [{{ name: fairway, context: {{ cluster: t, user: fairway }} }}]
current-context: fairway
",
            self.api_port,
            ca.display()
        );
        fs::write(&file, text).expect("the folder can be written");
        file
    }

    /// Writes the credentials that a Pod of the ServiceAccount `fairway` in the namespace `fairway` has, by links as the kubelet makes
    /// them, and returns their folder.
    fn pod_credentials(&self) -> PathBuf {
        let folder = self.folder.path().join("serviceaccount");
        let data = folder.join("..2026_11_29");
        fs::create_dir_all(&data).expect("the folder can be written");
        fs::copy(self.kube().join("certs/apiserver.crt"), data.join("ca.crt")).expect("kube-apiserver wrote it");
        fs::write(data.join("token"), "fairway-token").expect("the folder can be written");
        fs::write(data.join("namespace"), "fairway").expect("the folder can be written");
        symlink("..2026_11_29", folder.join("..data")).expect("the folder can be written");
        for file in ["ca.crt", "token", "namespace"] {
            symlink(Path::new("..data").join(file), folder.join(file)).expect("the folder can be written");
        }
        folder
    }

    /// Starts Fairway with this configuration as in a Pod of this cluster: with its credentials and variables.
    pub fn fairway_in_pod(&self, config: &str) -> Fairway {
        let folder = TempDir::new().expect("a temporary folder");
        let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        fs::write(folder.path().join("fairway.yaml"), head(dns, http) + config).expect("the folder can be written");
        // A mount namespace of its own: the path of the credentials is fixed.
        let script = "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && \
                      cp -a \"$1\" /run/secrets/kubernetes.io/ && shift && exec \"$@\"";
        let server = serve(folder.path());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(self.pod_credentials());
        command.arg(server.get_program()).args(server.get_args()).env_remove("FAIRWAY_PARTS");
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", self.api_port.to_string());
        let process = Process::start(&mut command, &folder.path().join("fairway.log"));
        let mut server = Fairway { process, folder, dns, http };
        server.wait_ready();
        server
    }

    /// Kills its kube-apiserver, and waits until connections to it are refused; everything else keeps running.
    pub fn stop_api(&mut self) {
        self.signal_api("KILL");
        fs::remove_file(self.api_pid_file()).expect("kube-up.sh wrote it");
        let api = SocketAddr::from(([127, 0, 0, 1], self.api_port));
        wait_until("kube-apiserver has ended", LIMIT, || TcpStream::connect(api).is_err());
    }

    /// Starts its kube-apiserver again, with the same port, certificate and etcd; waits until that is ready.
    pub fn start_api(&mut self) {
        self.run_kube_up();
    }

    /// Drops all versions of its objects but the current ones, so that watches which are resumed from an earlier one begin anew (410).
    pub fn compact(&self) {
        let etcd = SocketAddr::from(([127, 0, 0, 1], self.etcd_port));
        let call = |path: &str, body: &str| {
            let (status, text) = http_json(etcd, "POST", path, body).expect("etcd answers");
            assert_eq!(status, 200, "{path}: {text}");
            text
        };
        let found = call("/v3/kv/range", r#"{"key":"AA=="}"#);
        let revision =
            found.split(r#""revision":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("a revision");
        call("/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    }

    /// Stops its kube-apiserver without closing connections: requests get no answer until [`Self::resume_api`].
    pub fn pause_api(&self) {
        self.signal_api("STOP");
    }

    /// Lets its kube-apiserver run again after [`Self::pause_api`].
    pub fn resume_api(&self) {
        self.signal_api("CONT");
    }

    fn signal_api(&self, signal: &str) {
        let pid = fs::read_to_string(self.api_pid_file()).expect("kube-apiserver was started");
        let sent = Command::new("kill").args(["-s", signal, pid.trim()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {signal} {pid}");
    }

    fn api_pid_file(&self) -> PathBuf {
        self.kube().join("apiserver.pid")
    }

    /// Runs kubectl, and returns its output; fails with its error.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// Runs kubectl, and returns its output, or its error if the request is refused or the API does not answer. A further
    /// `--kubeconfig` replaces that of the cluster.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(parts().join("bin/kubectl"));
        let output = command.arg("--kubeconfig").arg(self.kubeconfig()).args(arguments).output();
        let output = output.expect("kubectl is among the parts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Applies the objects of a manifest.
    pub fn apply(&self, manifest: &str) {
        let file = self.folder.path().join("manifest.yaml");
        fs::write(&file, manifest).expect("the folder can be written");
        // An API server with new CRDs may let a request hang until it times out.
        let file = file.to_str().expect("it is UTF-8");
        wait_until("the manifest is taken", LIMIT, || {
            self.try_kubectl(&["--request-timeout=10s", "apply", "-f", file]).is_ok()
        });
    }

    /// Installs the CRDs of a file of the parts.
    pub fn apply_kinds(&self, file: &str) {
        let file = parts().join("crd").join(file);
        let file = file.to_str().expect("it is UTF-8");
        self.kubectl(&["apply", "--server-side", "-f", file]);
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", file]);
    }

    /// Sets the address of a Service or Ingress, as its controller would.
    pub fn give_address(&self, kind: &str, namespace: &str, name: &str, address: &str) {
        let status = format!("{{\"status\":{{\"loadBalancer\":{{\"ingress\":[{{\"ip\":\"{address}\"}}]}}}}}}");
        self.kubectl(&["-n", namespace, "patch", kind, name, "--subresource=status", "--type=merge", "-p", &status]);
    }

    /// Installs Istio's kinds, and creates an ingress gateway with this address: a Service, and the Gateway `istio-system/web` for all
    /// hosts.
    pub fn add_gateway(&self, address: &str) {
        self.apply_kinds("istio.yaml");
        self.kubectl(&["create", "namespace", "istio-system"]);
        self.apply(
            "apiVersion: v1
kind: Service
metadata: { name: istio-ingressgateway, namespace: istio-system, labels: { istio: ingressgateway } }
spec: { type: LoadBalancer, selector: { istio: ingressgateway }, ports: [ { port: 80 } ] }
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: { name: web, namespace: istio-system }
spec: { selector: { istio: ingressgateway }, servers: [ { port: { number: 80, name: http, protocol: HTTP }, hosts: [ \"*\" ] } ] }
",
        );
        self.give_address("service", "istio-system", "istio-ingressgateway", address);
    }

    /// Creates a Service of type LoadBalancer with an address and these annotations.
    pub fn expose(&self, service: &str, address: &str, annotations: &[(&str, &str)]) {
        self.expose_in("default", service, address, annotations);
    }

    /// Creates it in a namespace.
    pub fn expose_in(&self, namespace: &str, service: &str, address: &str, annotations: &[(&str, &str)]) {
        let lines = annotated(annotations);
        self.apply(&format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: {service}\n  namespace: {namespace}\n  annotations:\n{lines}spec:\n  type: LoadBalancer\n  ports: [{{ port: 443 }}]\n"
        ));
        self.give_address("service", namespace, service, address);
    }

    /// Creates or replaces a Deployment, and a Service of the same name with port 80 that selects its Pods by the label `app`. Creates
    /// the namespace if it does not exist. Only controllers give it Pods: see [`Self::start_with_controllers`].
    pub fn deploy(&self, namespace: &str, name: &str, replicas: u32) {
        if self.try_kubectl(&["get", "namespace", namespace]).is_err() {
            self.kubectl(&["create", "namespace", namespace]);
        }
        self.apply(&format!(
            "apiVersion: apps/v1
kind: Deployment
metadata: {{ name: {name}, namespace: {namespace} }}
spec:
  replicas: {replicas}
  selector: {{ matchLabels: {{ app: {name} }} }}
  template:
    metadata: {{ labels: {{ app: {name} }} }}
    spec: {{ containers: [{{ name: {name}, image: {name} }}] }}
---
apiVersion: v1
kind: Service
metadata: {{ name: {name}, namespace: {namespace} }}
spec:
  selector: {{ app: {name} }}
  ports: [{{ port: 80 }}]
"
        ));
    }

    /// Sets the number of replicas of a Deployment; does not wait for its Pods.
    pub fn scale(&self, namespace: &str, name: &str, replicas: u32) {
        self.kubectl(&["-n", namespace, "scale", "deployment", name, &format!("--replicas={replicas}")]);
    }

    /// Returns the addresses of the ready endpoints of a Service, sorted, from its EndpointSlices.
    pub fn ready_addresses(&self, namespace: &str, service: &str) -> Vec<String> {
        let label = format!("kubernetes.io/service-name={service}");
        // A jsonpath fails for a slice without endpoints, whose list is null.
        let template = "go-template={{range .items}}{{range .endpoints}}\
            {{if .conditions.ready}}{{index .addresses 0}}{{\"\\n\"}}{{end}}{{end}}{{end}}";
        let output = self.kubectl(&["-n", namespace, "get", "endpointslices", "-l", &label, "-o", template]);
        let mut addresses: Vec<_> = output.lines().map(str::to_owned).collect();
        addresses.sort();
        addresses
    }

    /// Starts its external-dns for Services, which syncs every second at this base path.
    pub fn bring_to(&mut self, webhook: SocketAddr, base: &str) {
        let external_dns = self.external_dns(&format!("http://{webhook}{base}"), self.name, &["--source=service"], &[]);
        self.external_dns = Some(external_dns);
    }

    /// Replaces its external-dns by the newest version, with the same arguments.
    pub fn upgrade(&mut self, webhook: SocketAddr, base: &str) {
        // The previous one ends first, as in a Deployment with the strategy Recreate.
        drop(self.external_dns.take());
        let url = format!("http://{webhook}{base}");
        let newest = Command::new(program("external-dns-next", "external-dns-next"));
        self.external_dns = Some(self.run(newest, &url, self.name, &["--source=service"], &[]));
    }

    /// Starts an external-dns of this cluster that syncs every second.
    pub fn external_dns(&self, url: &str, owner: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        self.run(Command::new(program("external-dns", "external-dns")), url, owner, arguments, variables)
    }

    fn run(
        &self,
        mut command: Command,
        url: &str,
        owner: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Process {
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--webhook-provider-url={url}"))
            .arg(format!("--txt-owner-id={owner}"))
            .arg(format!("--metrics-address=127.0.0.1:{}", free_port()))
            .args(["--provider=webhook", "--registry=txt", "--policy=sync", "--interval=1s"])
            .args(arguments)
            .envs(variables.iter().copied());
        Process::start(&mut command, &self.folder.path().join(format!("external-dns-{owner}.log")))
    }

    /// Fails if its external-dns has ended.
    #[track_caller]
    pub fn still_runs(&mut self) {
        let external_dns = self.external_dns.as_mut().expect("it was started");
        assert!(external_dns.is_running(), "{}: external-dns ended: {}", self.name, external_dns.output());
    }

    /// Counts soft errors, which are lines of the log; hard errors end the process.
    pub fn errors(&self) -> usize {
        let output = self.external_dns.as_ref().map(Process::output).unwrap_or_default();
        output.lines().filter(|line| line.contains("level=error") || line.contains("level=fatal")).count()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.external_dns.take());
        let _ = Command::new(root().join("integration/realparts/kube-down.sh")).arg(self.kube()).status();
    }
}

/// Returns the first of two consecutive free ports: etcd listens for clients and for peers.
fn two_free_ports() -> u16 {
    let mut first = free_port();
    loop {
        match free_port() {
            next if next == first + 1 => return first,
            next => first = next,
        }
    }
}

/// Returns annotations in the form of a manifest.
pub fn annotated(annotations: &[(&str, &str)]) -> String {
    annotations.iter().map(|(key, value)| format!("    {PREFIX}/{key}: \"{value}\"\n")).collect()
}

/// A server with the webhook, and the webhook's address.
pub fn server() -> (Fairway, SocketAddr) {
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config =
        format!("zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nwebhook: {{ listen: \"{webhook}\" }}\n");
    (Fairway::start(&config, &[]), webhook)
}

/// Returns the answer of dig, sorted.
pub fn dig(server: &Fairway, name: &str, rtype: &str) -> Vec<String> {
    let mut dig = Command::new(program("dig", "dig"));
    dig.args(["+short", "+tries=1", "+time=2", "@127.0.0.1", "-p", &server.dns.port().to_string(), name, rtype]);
    let output = dig.output().expect("dig runs");
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
