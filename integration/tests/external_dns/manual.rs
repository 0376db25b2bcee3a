//! The commands of docs/start/external-dns.md that start external-dns, with every version that they are for.

use std::{fs, net::SocketAddr, process::Command};

use fairway_integration::{
    cluster::{Cluster, LIMIT, dig, server},
    real::{Process, free_port, program, root, wait_until},
};

use super::SHOP;

const CLUSTERS: [(&str, &str); 2] = [("east", "203.0.113.10"), ("west", "203.0.113.20")];

/// Returns the words of the command of the page that begins with these words, without those. Lines that end in a backslash go on.
fn words(start: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/start/external-dns.md")).expect("the page");
    let (_, rest) = page.split_once(start).unwrap_or_else(|| panic!("the page has no {start:?}"));
    let joined = rest.replace("\\\n", " ");
    let line = joined.lines().next().expect("the rest of the line");
    line.split_whitespace().filter(|word| *word != "&").map(str::to_owned).collect()
}

/// Starts an external-dns as the page does for this cluster, with the kubeconfig and the ports of the test.
fn start(part: &str, cluster: &Cluster, name: &str, webhook: SocketAddr) -> Process {
    let kubeconfig = format!("--kubeconfig={name}");
    let of_test = |word: String| match word.split_once('=') {
        Some(("--webhook-provider-url", url)) => {
            format!("--webhook-provider-url={}", url.replace("127.0.0.1:8888", &webhook.to_string()))
        }
        Some(("--metrics-address", _)) => format!("--metrics-address=127.0.0.1:{}", free_port()),
        _ => word,
    };
    let mut command = Command::new(program(part, part));
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    command.args(words(&format!("$ external-dns {kubeconfig} ")).into_iter().map(of_test));
    Process::start(&mut command, &cluster.folder.path().join(format!("{part}.log")))
}

#[test]
fn commands_of_the_manual_contribute_and_withdraw_with_each_version() {
    let clusters = CLUSTERS.map(|(name, _)| Cluster::start(name));
    for part in ["external-dns", "external-dns-next"] {
        let (server, webhook) = server();
        let mut running = Vec::new();
        for (cluster, (name, address)) in clusters.iter().zip(CLUSTERS) {
            cluster.expose("shop", address, &[]);
            running.push(start(part, cluster, name, webhook));
            let annotations = words("kubectl --kubeconfig=$cluster annotate service shop ");
            let annotations: Vec<_> = annotations.iter().map(|word| word.replace("$cluster", name)).collect();
            let annotate = ["annotate", "service", "shop"].into_iter().chain(annotations.iter().map(String::as_str));
            cluster.kubectl(&annotate.collect::<Vec<_>>());
        }
        wait_until(&format!("{part}: both are members"), LIMIT, || {
            dig(&server, SHOP, "A") == CLUSTERS.map(|(_, address)| address)
        });
        clusters[0].kubectl(&["delete", "service", "shop"]);
        wait_until(&format!("{part}: only its own address goes"), LIMIT, || dig(&server, SHOP, "A") == [CLUSTERS[1].1]);
        assert!(running.iter_mut().all(Process::is_running), "{part} ended: {}", running[0].output());
        drop(running);
        clusters[1].kubectl(&["delete", "service", "shop"]);
    }
}
