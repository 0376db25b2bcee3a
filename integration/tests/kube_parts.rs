//! The clusters of the other tests: a real kube-apiserver with real controllers, whose EndpointSlices follow Deployments and their Pods.
#![cfg(feature = "real")]

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use fairway_integration::{
    cluster::{Cluster, LIMIT},
    real::wait_until,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

const NAMESPACE: &str = "shop";
const NAME: &str = "web";

/// Waits until the Service has this number of ready endpoints; returns their addresses.
fn wait_ready(cluster: &Cluster, count: usize) -> Vec<String> {
    let mut addresses = Vec::new();
    wait_until(&format!("{count} ready endpoints"), LIMIT, || {
        addresses = cluster.ready_addresses(NAMESPACE, NAME);
        addresses.len() == count
    });
    addresses
}

/// Sets the annotation `test/ready` of all Pods.
fn annotate(cluster: &Cluster, ready: &str) {
    let annotation = format!("test/ready={ready}");
    cluster.kubectl(&["-n", NAMESPACE, "annotate", "pods", "-l", "app=web", "--overwrite", &annotation]);
}

#[test]
fn endpoint_slices_follow_replicas_and_readiness() {
    let cluster = Cluster::start_with_controllers("east");
    cluster.deploy(NAMESPACE, NAME, 2);
    let addresses = wait_ready(&cluster, 2);
    assert_ne!(addresses[0], addresses[1]);
    assert!(addresses.iter().all(|address| address.starts_with("10.244.")), "{addresses:?}");

    annotate(&cluster, "false");
    wait_ready(&cluster, 0);
    annotate(&cluster, "true");
    assert_eq!(wait_ready(&cluster, 2), addresses);

    cluster.scale(NAMESPACE, NAME, 0);
    wait_ready(&cluster, 0);
    let pods = ["-n", NAMESPACE, "get", "pods", "-o", "name"];
    wait_until("all Pods are gone", LIMIT, || cluster.kubectl(&pods).is_empty());
}

#[test]
fn objects_and_controllers_survive_an_outage_of_the_api() {
    let mut cluster = Cluster::start_with_controllers("east");
    cluster.deploy(NAMESPACE, NAME, 2);
    let addresses = wait_ready(&cluster, 2);

    cluster.stop_api();
    let refused = cluster.try_kubectl(&["get", "namespaces"]).expect_err("no API runs");
    assert!(refused.contains("refused"), "{refused}");
    cluster.start_api();
    assert_eq!(cluster.ready_addresses(NAMESPACE, NAME), addresses);

    cluster.pause_api();
    cluster.try_kubectl(&["--request-timeout=1s", "get", "namespaces"]).expect_err("a stopped process does not answer");
    cluster.resume_api();

    cluster.scale(NAMESPACE, NAME, 3);
    let more = wait_ready(&cluster, 3);
    assert!(addresses.iter().all(|address| more.contains(address)), "{addresses:?} {more:?}");
}

#[test]
fn user_fairway_has_no_rights_until_rbac_gives_them() {
    let cluster = Cluster::start("east");
    let kubeconfig = cluster.token_kubeconfig();
    let kubeconfig = kubeconfig.to_str().expect("it is UTF-8");
    let list = ["--kubeconfig", kubeconfig, "get", "services"];
    let refused = cluster.try_kubectl(&list).expect_err("RBAC gives it no right");
    assert!(refused.contains("system:serviceaccount:fairway:fairway\" cannot list resource \"services\""), "{refused}");

    cluster.kubectl(&["create", "clusterrole", "reader", "--verb=list", "--resource=services"]);
    let account = "--serviceaccount=fairway:fairway";
    cluster.kubectl(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", account]);
    // The authorizer learns of the binding from a watch.
    wait_until("the role is in force", LIMIT, || cluster.try_kubectl(&list).is_ok());
}

#[test]
fn rustls_accepts_the_certificate_of_the_api() {
    let cluster = Cluster::start("east");
    let config = cluster.kubectl(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster}"]);
    let cluster_entry: serde_json::Value = serde_json::from_str(&config).expect("kubectl prints JSON");
    let text = |key: &str| cluster_entry[key].as_str().unwrap_or_else(|| panic!("no {key}: {config}"));
    let certificates = CertificateDer::pem_file_iter(text("certificate-authority")).expect("it is a file");
    let mut authorities = RootCertStore::empty();
    let (added, _) = authorities.add_parsable_certificates(certificates.map(|certificate| certificate.expect("PEM")));
    assert_eq!(added, 2, "the certificate of the server, and its CA");

    let client = ClientConfig::builder().with_root_certificates(authorities).with_no_client_auth();
    let api: SocketAddr = text("server").trim_start_matches("https://").parse().expect("an address");
    let connection = ClientConnection::new(Arc::new(client), ServerName::from(api.ip())).expect("it is valid");
    let mut stream = StreamOwned::new(connection, TcpStream::connect(api).expect("the API listens"));
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: t\r\n\r\n").expect("the certificate is accepted");
}
