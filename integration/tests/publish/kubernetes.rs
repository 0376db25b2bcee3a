//! Objects in a folder and in a cluster, a real kube-apiserver that accepts them, and a real external-dns that publishes them to a real BIND.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fairway_integration::{
    cluster,
    query::Query,
    real::{Process, ask, free_port, parts, program, root, used, wait_until},
};
use fairway_model::{Changes, ClusterName, KubernetesApi, ProviderRecordSet, Rtype};
use fairway_providers::{
    dnsendpoint::{DnsEndpoints, Objects},
    publish::{Leadership, Limits, Provider, ProviderError, Weights},
};
use fairway_sources::ClusterDnsEndpoints;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::{
    contract,
    servers::{SECRET, bind, start},
    set,
};

const LIMIT: Duration = Duration::from_secs(120);
/// First of two ports for its etcd, different from those of other tests.
const ETCD_PORT: &str = "24410";

/// A Kubernetes API with the CRD of DNSEndpoint.
struct Cluster(TempDir);

impl Cluster {
    fn start() -> Self {
        used("kube-apiserver");
        let cluster = Self(TempDir::new().expect("a temporary folder"));
        let mut script = Command::new(root().join("integration/realparts/kube-up.sh"));
        script.arg(parts()).arg(cluster.kube()).arg(free_port().to_string()).arg(ETCD_PORT);
        let status = script.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "kube-up.sh failed");
        cluster.kubectl(&["apply", "--server-side", "-f"], &parts().join("crd/external-dns-dnsendpoints.yaml"));
        wait_until("the API knows DNSEndpoints", LIMIT, || cluster.try_kubectl(&["get", "dnsendpoints"], None).is_ok());
        cluster
    }

    fn kube(&self) -> PathBuf {
        self.0.path().join("kube")
    }

    fn kubectl(&self, arguments: &[&str], path: &Path) -> String {
        self.try_kubectl(arguments, Some(path)).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn try_kubectl(&self, arguments: &[&str], path: Option<&Path>) -> Result<String, String> {
        let mut command = Command::new(program("kubectl", "kubectl"));
        command
            .env("KUBECTL_APPLYSET", "true")
            .arg("--kubeconfig")
            .arg(self.kube().join("kubeconfig"))
            .args(arguments)
            .args(path);
        let output = command.output().expect("kubectl is among the parts");
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(root().join("integration/realparts/kube-down.sh")).arg(self.kube()).status();
    }
}

fn endpoints(folder: &Path) -> DnsEndpoints {
    let (name, namespace) = ("corporate".to_owned(), "default".to_owned());
    DnsEndpoints { folder: folder.to_owned(), objects: Objects { name, namespace, weights: Some(Weights::Aws) } }
}

#[tokio::test]
async fn dnsendpoint_folder_keeps_the_contract() {
    let folder = TempDir::new().expect("a temporary folder");
    contract(endpoints(folder.path())).await;
}

/// Objects in a cluster. Clones share them, and their Lease.
#[derive(Clone)]
struct InCluster(Arc<ClusterDnsEndpoints>);

#[async_trait::async_trait]
impl Provider for InCluster {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        self.0.read().await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        self.0.apply(changes).await
    }

    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        self.0.leadership()
    }
}

#[tokio::test]
async fn dnsendpoint_objects_of_a_cluster_keep_the_contract() {
    let cluster = cluster::Cluster::start("eu1");
    cluster.apply_kinds("external-dns-dnsendpoints.yaml");
    let api = KubernetesApi { kubeconfig: Some(cluster.kubeconfig()), ..KubernetesApi::default() };
    let objects = endpoints(Path::new("")).objects;
    let name = ClusterName::new("eu1").expect("a name");
    let provider = InCluster(Arc::new(ClusterDnsEndpoints::start(name, Arc::new(api), objects, "test".to_owned())));
    let mut leadership = provider.leadership().expect("it has a leader election");
    let leads = leadership.wait_for(|now| *now == Leadership::Leader);
    tokio::time::timeout(LIMIT, leads).await.expect("no other server").expect("the election goes on");
    contract(provider.clone()).await;
    provider.0.resign().await;
    let change = Changes { create: vec![set("late", Rtype::A, &["203.0.113.1"])], ..Changes::default() };
    assert!(matches!(provider.apply(&change).await, Err(ProviderError::Standby(_))), "it does not lead");
}

/// As the manual says.
const APPLY: &[&str] =
    &["apply", "--server-side", "--validate=strict", "--prune", "--applyset=fairway-dns", "-n", "default", "-f"];

#[tokio::test]
async fn kube_apiserver_accepts_the_objects_and_external_dns_publishes_them() {
    let (cluster, server) = (Cluster::start(), start(bind));
    let folder = cluster.0.path().join("objects");
    let provider = endpoints(&folder);
    let mut weighted = set("cloud", Rtype::A, &["203.0.113.7"]);
    weighted.set_identifier = "eu".to_owned();
    weighted.properties.insert("aws/weight".to_owned(), "7".to_owned());
    let sets = vec![
        set("shop", Rtype::A, &["203.0.113.1", "203.0.113.2"]),
        set("shop", Rtype::AAAA, &["2001:db8::1"]),
        set("lead", Rtype::CNAME, &["shop.gslb.example."]),
        set("text", Rtype::TXT, &["\"a text; with \\\"quotes\\\"\""]),
        set("_web._tcp", Rtype::SRV, &["5 100 443 shop.pub.example."]),
        weighted,
    ];
    provider.apply(&Changes { create: sets.clone(), ..Changes::default() }).await.expect("the folder is ours");
    let mut second = endpoints(&folder);
    second.objects.name = "second".to_owned();
    let other = Changes { create: vec![set("other", Rtype::A, &["203.0.113.8"])], ..Changes::default() };
    second.apply(&other).await.expect("each has files of its own");
    let applied = cluster.kubectl(APPLY, &folder);
    assert!(applied.contains("dnsendpoint.externaldns.k8s.io/fairway-corporate-all serverside-applied"), "{applied}");
    let stored = cluster.try_kubectl(&["get", "dnsendpoints", "-o", "json"], None).expect("it can be read");
    for part in ["\"setIdentifier\": \"eu\"", "\"aws/weight\"", "\"recordTTL\": 30"] {
        assert!(stored.contains(part), "{stored}");
    }
    let mut external_dns = Command::new(program("external-dns", "external-dns"));
    external_dns
        .arg(format!("--kubeconfig={}", cluster.kube().join("kubeconfig").display()))
        .arg(format!("--rfc2136-port={}", server.at.port()))
        .arg(format!("--rfc2136-tsig-secret={SECRET}"))
        .arg(format!("--metrics-address=127.0.0.1:{}", free_port()))
        .args(["--source=crd", "--provider=rfc2136", "--rfc2136-host=127.0.0.1", "--rfc2136-zone=pub.example"])
        .args(["--rfc2136-tsig-keyname=fairway", "--rfc2136-tsig-secret-alg=hmac-sha256", "--rfc2136-tsig-axfr"])
        .args(["--registry=txt", "--txt-owner-id=crd", "--policy=sync", "--interval=1s"]);
    let mut process = Process::start(&mut external_dns, &cluster.0.path().join("external-dns.log"));
    let mut published = |name: &str, rtype, count: u8| {
        let query = Query::new(format!("{name}.pub.example.").parse().expect("a name"), rtype).encode();
        wait_until(&format!("{count} {rtype} at {name}: {}", process.output()), LIMIT, || {
            assert!(process.is_running(), "it ended: {}", process.output());
            ask(server.at, &query).is_some_and(|reply| reply[7] == count)
        });
    };
    published("shop", Rtype::A, 2);
    published("shop", Rtype::AAAA, 1);
    published("lead", Rtype::CNAME, 1);
    published("other", Rtype::A, 1);
    // A name that is no longer wanted disappears the same way, and an object disappears with its last name.
    second.apply(&Changes { delete: other.create, ..Changes::default() }).await.expect("it is there");
    provider.apply(&Changes { delete: vec![sets[2].clone()], ..Changes::default() }).await.expect("it is there");
    cluster.kubectl(APPLY, &folder);
    published("lead", Rtype::CNAME, 0);
    published("other", Rtype::A, 0);
    drop(process);
    let rest = [&sets[..2], &sets[3..]].concat();
    provider.apply(&Changes { delete: rest, ..Changes::default() }).await.expect("they are there");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0);
}
