//! The real external-dns of two clusters, each over a real kube-apiserver, bringing one name to the webhook.
#![cfg(feature = "real")]

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use fairway_integration::real::{Fairway, Process, free_port, parts, program, root, used, wait_until};
use tempfile::TempDir;

/// Longest time for anything to happen; seconds are usual, the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const SHOP: &str = "shop.gslb.example";
/// Where a Service says what external-dns makes of it.
const PREFIX: &str = "external-dns.alpha.kubernetes.io";

/// A cluster: a Kubernetes API of its own, and the external-dns that reads it.
struct Cluster {
    name: &'static str,
    folder: TempDir,
    external_dns: Option<Process>,
}

impl Cluster {
    fn start(name: &'static str) -> Self {
        used("kube-apiserver");
        let cluster = Self { name, folder: TempDir::new().expect("a temporary folder"), external_dns: None };
        // Two ports in a row for etcd, apart from those of other clusters.
        static NEXT: AtomicU16 = AtomicU16::new(24_100);
        let etcd = NEXT.fetch_add(10, Ordering::Relaxed).to_string();
        let mut script = Command::new(root().join("integration/realparts/kube-up.sh"));
        let log = fs::File::create(cluster.folder.path().join("up.log")).expect("the folder can be written");
        let both = log.try_clone().expect("a descriptor is free");
        script.arg(parts()).arg(cluster.kube()).arg(free_port().to_string()).arg(etcd);
        let status = script.stdin(std::process::Stdio::null()).stdout(log).stderr(both).status();
        let told = || fs::read_to_string(cluster.folder.path().join("up.log")).unwrap_or_default();
        assert!(status.is_ok_and(|status| status.success()), "kube-up.sh: {}", told());
        cluster
    }

    fn kube(&self) -> PathBuf {
        self.folder.path().join("kube")
    }

    fn kubectl(&self, arguments: &[&str]) {
        let mut command = Command::new(parts().join("bin/kubectl"));
        let output = command.arg("--kubeconfig").arg(self.kube().join("kubeconfig")).args(arguments).output();
        let output = output.expect("kubectl is among the parts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A Service of type LoadBalancer that has an address, with these annotations.
    fn expose(&self, service: &str, address: &str, annotations: &[(&str, &str)]) {
        let lines: String =
            annotations.iter().map(|(key, value)| format!("    {PREFIX}/{key}: \"{value}\"\n")).collect();
        let manifest = format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: {service}\n  annotations:\n{lines}spec:\n  type: LoadBalancer\n  ports: [{{ port: 443 }}]\n"
        );
        let file = self.folder.path().join("service.yaml");
        fs::write(&file, manifest).expect("the folder can be written");
        self.kubectl(&["apply", "-f", file.to_str().expect("it is UTF-8")]);
        let status = format!("{{\"status\":{{\"loadBalancer\":{{\"ingress\":[{{\"ip\":\"{address}\"}}]}}}}}}");
        self.kubectl(&["patch", "service", service, "--subresource=status", "--type=merge", "-p", &status]);
    }

    /// Starts its external-dns, which asks each second at this base path.
    fn bring_to(&mut self, webhook: SocketAddr, base: &str) {
        let mut command = Command::new(program("external-dns", "external-dns"));
        command
            .arg(format!("--kubeconfig={}", self.kube().join("kubeconfig").display()))
            .arg(format!("--webhook-provider-url=http://{webhook}{base}"))
            .arg(format!("--txt-owner-id={}", self.name))
            .arg(format!("--metrics-address=127.0.0.1:{}", free_port()))
            .args(["--provider=webhook", "--source=service", "--registry=txt", "--policy=sync", "--interval=1s"]);
        self.external_dns = Some(Process::start(&mut command, &self.folder.path().join("external-dns.log")));
    }

    #[track_caller]
    fn still_runs(&mut self) {
        let external_dns = self.external_dns.as_mut().expect("it was started");
        assert!(external_dns.is_running(), "{}: external-dns ended: {}", self.name, external_dns.output());
    }

    /// Hard errors end the process; soft ones are lines of its log.
    fn errors(&self) -> usize {
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

/// A server with the webhook, and where that listens.
fn server() -> (Fairway, SocketAddr) {
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nwebhook: {{ listen: \"{webhook}\", metrics: off }}\n"
    );
    (Fairway::start(&config, &[]), webhook)
}

/// What dig is answered, sorted.
fn dig(server: &Fairway, name: &str, rtype: &str) -> Vec<String> {
    let mut dig = Command::new(program("dig", "dig"));
    dig.args(["+short", "+tries=1", "+time=2", "@127.0.0.1", "-p", &server.dns.port().to_string(), name, rtype]);
    let output = dig.output().expect("dig runs");
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Loops that clients made, and endpoints that they changed.
fn counted(server: &Fairway) -> (f64, f64) {
    let loops = server.metric("fairway_webhook_calls_total", "call=\"records\",code=\"200\"");
    (loops, server.metric("fairway_webhook_changes_total", ""))
}

/// How many loops are watched for changes that nobody made.
fn loops() -> f64 {
    std::env::var("FAIRWAY_LOOPS").ok().and_then(|text| text.parse().ok()).unwrap_or(20.0)
}

/// Annotations of the shop in a cluster: two members an answer, and nothing is probed.
fn shop<'a>(set: &'a str, weight: &'a str) -> Vec<(&'a str, &'a str)> {
    let named = [("hostname", SHOP), ("ttl", "45"), ("webhook-gslb-weight", weight)];
    let steered = [("webhook-gslb-answers", "2"), ("webhook-gslb-health-scheme", "none")];
    let set = Some(("set-identifier", set)).filter(|(_, set)| !set.is_empty());
    named.into_iter().chain(steered).chain(set).collect()
}

#[test]
fn two_clusters_share_a_name_by_base_paths_and_each_takes_its_own_along() {
    let (server, webhook) = server();
    let (mut east, mut west) = (Cluster::start("east"), Cluster::start("west"));
    east.expose("shop", "203.0.113.10", &shop("east", "60"));
    west.expose("shop", "203.0.113.20", &shop("west", "40"));
    east.bring_to(webhook, "/owners/east");
    west.bring_to(webhook, "/owners/west");
    wait_until("both are members", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10", "203.0.113.20"]);

    let registry = dig(&server, "a-shop.gslb.example", "TXT");
    let owners = ["owner=east,", "owner=west,"].map(|own| registry.iter().any(|line| line.contains(own)));
    assert_eq!((owners, registry.len()), ([true, true], 2), "{registry:?}");

    // Settled: from here on each loop finds what it wants.
    let (before, changes) = counted(&server);
    wait_until("the loops are made", LIMIT + Duration::from_secs(2) * loops() as u32, || {
        counted(&server).0 >= before + 2.0 * loops()
    });
    assert_eq!(counted(&server).1, changes, "a loop changed something that nobody changed");
    assert_eq!((east.errors(), west.errors()), (0, 0));
    east.still_runs();
    west.still_runs();

    east.kubectl(&["delete", "service", "shop"]);
    wait_until("the other's member is left", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.20"]);
    east.expose("shop", "203.0.113.11", &shop("east", "60"));
    wait_until("it is back", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.11", "203.0.113.20"]);
    east.still_runs();
    west.still_runs();
}

#[test]
fn two_owners_at_the_root_share_a_name_by_set_identifiers() {
    let (server, webhook) = server();
    let (mut east, mut west) = (Cluster::start("east"), Cluster::start("west"));
    east.expose("shop", "203.0.113.10", &shop("east", "1"));
    west.expose("shop", "203.0.113.20", &shop("west", "1"));
    east.bring_to(webhook, "");
    wait_until("the first is a member", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    west.bring_to(webhook, "");
    wait_until("both are members", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10", "203.0.113.20"]);
    let (before, changes) = counted(&server);
    wait_until("loops are made", LIMIT, || counted(&server).0 >= before + 10.0);
    assert_eq!(counted(&server).1, changes, "a loop changed something that nobody changed");
    west.kubectl(&["delete", "service", "shop"]);
    wait_until("the other's member is left", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    east.still_runs();
    west.still_runs();
}

#[test]
fn external_dns_lives_through_every_replacement_of_the_server() {
    let (mut server, webhook) = server();
    let mut east = Cluster::start("east");
    east.expose("shop", "203.0.113.10", &shop("", "1"));
    east.bring_to(webhook, "/owners/east");
    wait_until("it is a member", LIMIT, || dig(&server, SHOP, "A") == ["203.0.113.10"]);
    for round in 0..5 {
        let next = server.start_beside(&["--replace"]);
        let ended = server.process.ended(LIMIT);
        assert!(ended.success(), "round {round}: {ended}");
        server.process = next;
        server.wait_ready();
        let (before, _) = counted(&server);
        wait_until("it is asked again", LIMIT, || {
            east.still_runs();
            counted(&server).0 >= before + 3.0
        });
        assert_eq!(dig(&server, SHOP, "A"), ["203.0.113.10"]);
        assert_eq!(counted(&server).1, 0.0, "nothing was lost that would have to be made again");
    }
    east.still_runs();
}
