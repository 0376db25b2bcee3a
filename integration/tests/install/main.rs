//! Tests of everything in `deploy/` with the programs that read it: the Helm chart by helm and a real Kubernetes API, the Pod of the chart by the
//! image's files, its rolling update under queries, alerts and dashboard by a real Prometheus, the Debian package by dpkg and systemd.
#![cfg(feature = "real")]

mod chart;
mod monitoring;
mod package;
mod pod;
mod rollout;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use fairway_integration::{
    cluster::Cluster,
    real::{program, root},
};
use serde_json::Value;

/// Longest wait for an event that takes a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a file of `deploy/`.
fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

/// Returns the text of a file in the repository.
fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program; returns its output, or output and error if it fails.
fn run(mut command: Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    if output.status.success() { Ok(printed) } else { Err(printed + &text(&output.stderr)) }
}

/// Runs helm.
fn helm(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program("helm", "helm"));
    command.args(arguments);
    run(command)
}

/// Renders the chart for a namespace, with further arguments such as `--set`.
fn template(namespace: &str, arguments: &[&str]) -> Result<String, String> {
    let chart = deploy("helm/fairway");
    let fixed = ["template", "fairway", chart.to_str().expect("UTF-8"), "--namespace", namespace];
    helm(&[&fixed[..], arguments].concat())
}

/// Returns the objects that the Kubernetes API makes of a manifest, without storing them; its error if it refuses one.
fn dry_run(cluster: &Cluster, manifest: &str) -> Result<Vec<Value>, String> {
    let file = cluster.folder.path().join("dry-run.yaml");
    fs::write(&file, manifest).expect("the folder can be written");
    let file = file.to_str().expect("UTF-8");
    let text = cluster.try_kubectl(&["apply", "--dry-run=server", "-o", "json", "-f", file])?;
    let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
    Ok(list["items"].as_array().cloned().unwrap_or_else(|| vec![list]))
}

/// Returns the only object of a kind. Panics if there is none, or another one.
fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "several objects of kind {kind}");
    object
}

/// Returns the Pod that a Deployment, DaemonSet or StatefulSet creates.
fn pod_of(workload: &Value) -> Value {
    let mut spec = workload["spec"]["template"]["spec"].clone();
    // The controller adds the volumes of the claims.
    let claims = workload["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    for claim in &claims {
        let name = &claim["metadata"]["name"];
        let volume = serde_json::json!({ "name": name, "persistentVolumeClaim": { "claimName": "of-the-pod" } });
        spec["volumes"].as_array_mut().expect("volumes").push(volume);
    }
    let namespace = &workload["metadata"]["namespace"];
    serde_json::json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pod", "namespace": namespace }, "spec": spec })
}
