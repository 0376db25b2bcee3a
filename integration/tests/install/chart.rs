//! The Helm chart: its values, its objects in a Kubernetes API with Pod Security, its rights, and the plain manifests.

use std::{fs, process::Command};

use fairway_integration::{
    cluster::Cluster,
    real::{fairway_binary, root},
};
use serde_json::Value;

use crate::{deploy, dry_run, helm, only, pod_of, run, template, text_of};

/// Namespace where Pod Security enforces the level `restricted`.
const RESTRICTED: &str = "fairway";
/// The same with `privileged`, which hostPort needs.
const PRIVILEGED: &str = "edge";

/// Starts a Kubernetes API with the kinds of prometheus-operator and both namespaces.
fn cluster() -> Cluster {
    let cluster = Cluster::start("eu1");
    for kind in ["servicemonitors", "prometheusrules"] {
        cluster.apply_kinds(&format!("prometheus-operator-{kind}.yaml"));
    }
    for (name, level) in [(RESTRICTED, "restricted"), (PRIVILEGED, "privileged")] {
        let label = format!("pod-security.kubernetes.io/enforce: {level}");
        cluster
            .apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, labels: {{ {label} }} }}\n"));
    }
    cluster
}

/// Asks the Kubernetes API for a Pod.
fn try_pod(cluster: &Cluster, pod: &Value) -> Result<(), String> {
    dry_run(cluster, &pod.to_string()).map(drop)
}

#[test]
fn plain_manifests_are_the_chart_with_default_values() {
    let rendered = template(RESTRICTED, &[]).expect("the default values are valid");
    let file = deploy("kubernetes/fairway.yaml");
    if std::env::var_os("FAIRWAY_UPDATE_DOCS").is_some() {
        fs::write(&file, &rendered).expect("the tree can be written");
    }
    assert!(
        text_of(&file) == rendered,
        "deploy/kubernetes/fairway.yaml is old: run this test with FAIRWAY_UPDATE_DOCS=1"
    );
}

#[test]
fn chart_and_changelog_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = text_of(&deploy("helm/fairway/Chart.yaml"));
    assert!(chart.contains(&format!("\nversion: {version}\nappVersion: {version}\n")), "{version}: {chart}");
    let changes = text_of(&root().join("CHANGELOG.md"));
    let released = changes.lines().filter_map(|line| line.strip_prefix("## ")).find(|heading| *heading != "Unreleased");
    assert!(released.is_some_and(|heading| heading.starts_with(&format!("{version} - "))), "{version}: {released:?}");
}

#[test]
fn values_that_cannot_work_are_rejected_by_name() {
    let chart = deploy("helm/fairway");
    helm(&["lint", "--strict", chart.to_str().expect("UTF-8")]).expect("the chart is clean");
    for (value, error) in [
        ("config=", "'/config': minLength"),
        ("config=version: 1\nlisten: {}", "the section listen belongs to the chart"),
        ("config=fairway.yaml", "config: the text is no YAML mapping; give that of a file by --set-file"),
        ("config=version: 1\nzones: [", "config: the text is no YAML mapping"),
        ("kind=Job", "'/kind': value must be one of"),
        ("replica=3", "additional properties 'replica' not allowed"),
        ("metrics.enabled=true", "'/metrics/networks': minItems"),
        ("metrics.serviceMonitor.enabled=true", "'/metrics/serviceMonitor/enabled'"),
        ("ports[0].name=x,ports[0].port=53", "'/ports/0/port'"),
        ("ports[0].name=WEBHOOK_1,ports[0].port=8888", "'/ports/0/name': 'WEBHOOK_1' does not match pattern"),
        ("ports[0].name=health,ports[0].port=8888", "'/ports/0/name': 'not' failed"),
        ("preStopSeconds=30", "preStopSeconds: 30 leaves no time to stop within terminationGracePeriodSeconds, 30"),
        ("files.fairway\\.yaml=x", "invalid propertyName 'fairway.yaml'"),
    ] {
        let rejected = template(RESTRICTED, &["--set", value]).expect_err(value);
        assert!(rejected.contains(error), "{value}: {rejected}");
    }
}

#[test]
fn notes_name_the_example_and_missing_runbooks() {
    let chart = deploy("helm/fairway");
    let chart = chart.to_str().expect("UTF-8");
    let notes = |values: &[&str]| {
        let printed = helm(&[&["install", "fairway", chart, "--dry-run=client"], values].concat());
        let printed = printed.unwrap_or_else(|error| panic!("{values:?}: {error}"));
        printed.split_once("\nNOTES:\n").unwrap_or_else(|| panic!("no notes: {printed}")).1.to_owned()
    };
    let example = "the example of the chart";
    assert!(notes(&[]).contains(example), "{}", notes(&[]));
    // That of the README has names of the example, too.
    let other = ["--set", "config=version: 1\nzones: [ { name: gslb.example\\, ns: [ns1.gslb.example] } ]"];
    assert!(!notes(&other).contains(example), "{}", notes(&other));

    let rules = "metrics.prometheusRule.enabled=true";
    let warning = "set metrics.prometheusRule.runbookBase";
    assert!(notes(&["--set", rules]).contains(warning), "{}", notes(&["--set", rules]));
    for values in
        ["metrics.prometheusRule.enabled=false", &format!("{rules},metrics.prometheusRule.runbookBase=https://a/")]
    {
        assert!(!notes(&["--set", values]).contains(warning), "{}", notes(&["--set", values]));
    }
}

#[test]
fn kubernetes_accepts_the_objects_and_pod_security_the_pods() {
    let cluster = cluster();
    let full = [
        "--set",
        "metrics.enabled=true,metrics.networks={10.0.0.0/8}", //
        "--set",
        "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.release=prometheus",
        "--set",
        "metrics.prometheusRule.enabled=true,metrics.prometheusRule.runbookBase=https://manual.example/",
        "--set",
        "rbac.create=true,rbac.events=true,secrets={tokens},files.a\\.zone=x,service.type=NodePort",
        "--set",
        "ports[0].name=webhook,ports[0].port=8888,env[0].name=FAIRWAY_LOG,env[0].value=debug",
        "--set",
        "networkPolicy.from[0].namespaceSelector.matchLabels.name=monitoring,priorityClassName=dns",
    ];
    let sets: [(&str, &str, &[&str]); 5] = [
        (RESTRICTED, "Deployment", &[]),
        (RESTRICTED, "Deployment", &full),
        (RESTRICTED, "StatefulSet", &["--set", "kind=StatefulSet,persistence.storageClassName=fast"]),
        (RESTRICTED, "DaemonSet", &["--set", "kind=DaemonSet"]),
        (PRIVILEGED, "DaemonSet", &["--set", "kind=DaemonSet,hostPort=true,service.type=none"]),
    ];
    for (namespace, kind, values) in sets {
        let manifest = template(namespace, values).unwrap_or_else(|error| panic!("{values:?}: {error}"));
        let objects = dry_run(&cluster, &manifest).unwrap_or_else(|error| panic!("{values:?}: {error}"));
        let workload = only(&objects, kind);
        let mut pod = pod_of(workload);
        // The API refuses a Pod of a class that is not there; the class is no object of the chart.
        pod["spec"].as_object_mut().expect("a spec").remove("priorityClassName");
        try_pod(&cluster, &pod).unwrap_or_else(|error| panic!("{values:?}: {error}"));
        check_times(workload);
        if namespace == PRIVILEGED {
            pod["metadata"]["namespace"] = RESTRICTED.into();
            let refused = try_pod(&cluster, &pod).expect_err("hostPort is not restricted");
            assert!(refused.contains("violates PodSecurity \"restricted") && refused.contains("hostPort"), "{refused}");
        }
    }
    // The level would see each of these.
    let objects = dry_run(&cluster, &template(RESTRICTED, &[]).expect("valid")).expect("accepted");
    let service = objects.iter().find(|of| of["kind"] == "Service" && of["metadata"]["name"] == "fairway");
    let spec = &service.expect("a Service")["spec"];
    assert_eq!(spec["externalTrafficPolicy"], "Local");
    let ports: Vec<_> =
        spec["ports"].as_array().expect("ports").iter().map(|of| (&of["port"], &of["protocol"])).collect();
    assert_eq!(ports, [(&Value::from(53), &Value::from("UDP")), (&Value::from(53), &Value::from("TCP"))]);
    let pod = pod_of(only(&objects, "Deployment"));
    for (pointer, value) in [
        ("/spec/securityContext/runAsNonRoot", Value::from(false)),
        ("/spec/securityContext/seccompProfile", Value::Null),
        ("/spec/containers/0/securityContext/allowPrivilegeEscalation", Value::from(true)),
        ("/spec/containers/0/securityContext/capabilities", Value::Null),
    ] {
        let mut pod = pod.clone();
        *pod.pointer_mut(pointer).expect(pointer) = value;
        let refused = try_pod(&cluster, &pod).expect_err(pointer);
        assert!(refused.contains("violates PodSecurity \"restricted"), "{pointer}: {refused}");
    }
}

/// Checks that an update leaves no gap, as far as the fields say so.
fn check_times(workload: &Value) {
    let number =
        |pointer: &str| workload.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"));
    // Defaults of health.firstRound and drainTimeout.
    let (first_round, drain) = (5, 5);
    assert!(number("/spec/minReadySeconds") >= first_round);
    let pre_stop = number("/spec/template/spec/containers/0/lifecycle/preStop/sleep/seconds");
    assert!(number("/spec/template/spec/terminationGracePeriodSeconds") > pre_stop + drain);
    let has_host_port = !workload["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostPort"].is_null();
    let update =
        workload["spec"].get("strategy").or_else(|| workload["spec"].get("updateStrategy")).expect("a strategy");
    let unavailable = &update["rollingUpdate"]["maxUnavailable"];
    assert!(workload["kind"] == "StatefulSet" || *unavailable == u64::from(has_host_port), "{update}");
}

#[test]
fn rights_of_the_chart_are_those_that_fairway_prints() {
    let cluster = cluster();
    let config = cluster.folder.path().join("fairway.yaml");
    for events in [false, true] {
        let api = format!("kubernetes: {{ inCluster: true, events: {events} }}");
        fs::write(&config, format!("version: 1\nclusters: [ {{ name: eu1, {api} }} ]\n"))
            .expect("the folder can be written");
        let mut command = Command::new(fairway_binary());
        command.args(["rbac", "eu1", "--config"]).arg(&config);
        let printed = dry_run(&cluster, &run(command).expect("it prints them")).expect("accepted");
        let values = format!("rbac.create=true,rbac.events={events}");
        let of_chart = dry_run(&cluster, &template(RESTRICTED, &["--set", &values]).expect("valid")).expect("accepted");
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let rights = |objects: &[Value]| {
                let object = only(objects, kind);
                [&object["metadata"]["name"], &object["rules"], &object["roleRef"], &object["subjects"]]
                    .map(Clone::clone)
            };
            assert_eq!(rights(&of_chart), rights(&printed), "{kind}, events {events}");
        }
        assert_eq!(only(&of_chart, "ServiceAccount")["metadata"]["name"], "fairway");
    }
}
