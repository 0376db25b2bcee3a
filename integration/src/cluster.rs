//! Clusters: a real kube-apiserver each, and the real external-dns that reads it.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use tempfile::TempDir;

use crate::real::{Fairway, Process, free_port, parts, program, root, used, wait_until};

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
    external_dns: Option<Process>,
}

impl Cluster {
    /// Starts its kube-apiserver; waits until that is ready.
    pub fn start(name: &'static str) -> Self {
        used("kube-apiserver");
        let cluster = Self { name, folder: TempDir::new().expect("a temporary folder"), external_dns: None };
        let etcd = two_free_ports().to_string();
        let mut script = Command::new(root().join("integration/realparts/kube-up.sh"));
        let log = fs::File::create(cluster.folder.path().join("up.log")).expect("the folder can be written");
        let both = log.try_clone().expect("a descriptor is free");
        script.arg(parts()).arg(cluster.kube()).arg(free_port().to_string()).arg(etcd);
        let status = script.stdin(std::process::Stdio::null()).stdout(log).stderr(both).status();
        let log = || fs::read_to_string(cluster.folder.path().join("up.log")).unwrap_or_default();
        assert!(status.is_ok_and(|status| status.success()), "kube-up.sh: {}", log());
        cluster
    }

    fn kube(&self) -> PathBuf {
        self.folder.path().join("kube")
    }

    /// Runs kubectl; fails with its error.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) {
        assert_eq!(self.try_kubectl(arguments), Ok(()), "{arguments:?}");
    }

    /// Sends a request to the API; returns the error if it is refused.
    fn try_kubectl(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(parts().join("bin/kubectl"));
        let output = command.arg("--kubeconfig").arg(self.kube().join("kubeconfig")).args(arguments).output();
        let output = output.expect("kubectl is among the parts");
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
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
            .arg(format!("--kubeconfig={}", self.kube().join("kubeconfig").display()))
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
