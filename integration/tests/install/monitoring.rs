//! Alerts and dashboard: every alert is tested by promtool and has a runbook, and every expression has a result in a Prometheus that
//! scrapes a server.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path, process::Command};

use fairway_integration::real::{Fairway, Process, call, free_port, program, root, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::{LIMIT, deploy, run, text_of};

/// A server with every kind of metric that alerts and dashboard use. The Kubernetes API does not answer.
const CONFIG: &str = r#"zones: [{ name: gslb.example, ns: [ns1.example.net] }]
clusters:
  - { name: eu1, addresses: [127.0.7.1], capacity: 1000 }
  - { name: us1, addresses: [127.0.7.2], capacity: 1000, kubernetes: { kubeconfig: kubeconfig } }
monitors: [{ name: gateway, type: tcp, port: 1, period: 1s, timeout: 500ms }]
pools: [{ name: shop, policy: [load, weighted], monitor: gateway, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: shop.gslb.example, pool: shop }]
publish:
  providers:
    - { name: file, zones: [pub.example], file: pub.zone, aliases: [{ name: shop.pub.example, of: shop.gslb.example, as: addresses }] }
"#;

/// A metric of listeners with TLS, which this server has not; `metrics.rs` tests it.
const OF_TLS: &str = "fairway_tls_certificate_not_after_timestamp_seconds";

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: \"https://127.0.0.1:1\" } }]
users: [{ name: u, user: {} }]
contexts: [{ name: c, context: { cluster: c, user: u } }]
current-context: c
";

/// Returns the alerts: name, expression and runbook.
fn alerts() -> Vec<[String; 3]> {
    let text = text_of(&deploy("prometheus/alerts.yaml"));
    let mut alerts = Vec::<[String; 3]>::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push([name.to_owned(), String::new(), String::new()]);
        }
        for (field, key) in [(1, "expr: "), (2, "runbook_url: ")] {
            if let (Some(value), Some(alert)) = (line.strip_prefix(key), alerts.last_mut()) {
                alert[field] = value.to_owned();
            }
        }
    }
    assert!(alerts.len() > 10 && alerts.iter().flatten().all(|field| !field.is_empty()), "{alerts:?}");
    alerts
}

/// Returns title and expression of each query of the dashboard, with its variables replaced.
fn panels() -> Vec<[String; 2]> {
    let dashboard: Value = serde_json::from_str(&text_of(&deploy("grafana/fairway.json"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row");
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().expect("queries").clone();
        targets.into_iter().map(move |target| {
            let text = target["expr"].as_str().expect("an expression");
            let text = text.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*");
            assert!(!text.contains('$'), "{title}: {text}");
            [title.clone(), text]
        })
    };
    panels.flat_map(of_panel).collect()
}

/// Returns the names of Fairway's and the process's metrics in an expression.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("fairway_") || word.starts_with("process_"))
}

fn promtool(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program("promtool", "promtool"));
    command.args(arguments);
    run(command)
}

/// Starts a Prometheus that scrapes a server every second and evaluates the alerts.
fn start_prometheus(folder: &Path, server: SocketAddr) -> (Process, String) {
    let address = format!("127.0.0.1:{}", free_port());
    let (alerts, scraped) =
        (deploy("prometheus/alerts.yaml"), format!("static_configs: [{{ targets: [\"{server}\"] }}]"));
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [ \"{}\" ]\nscrape_configs: [ {{ job_name: \
         fairway, {scraped} }} ]\n",
        alerts.display()
    );
    fs::write(folder.join("prometheus.yml"), config).expect("the folder can be written");
    let mut command = Command::new(program("prometheus", "prometheus"));
    command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address={address}"));
    (Process::start(&mut command, &folder.join("log")), format!("http://{address}"))
}

/// Returns the series of an expression now.
fn query(prometheus: &str, expression: &str) -> Result<Vec<Value>, String> {
    let text = promtool(&["query", "instant", "-o", "json", prometheus, expression])?;
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}

#[test]
fn every_alert_is_tested_and_has_a_runbook() {
    let (rules, tests) = (deploy("prometheus/alerts.yaml"), deploy("prometheus/alerts_test.yaml"));
    promtool(&["check", "rules", rules.to_str().expect("UTF-8")]).unwrap_or_else(|error| panic!("{error}"));
    promtool(&["test", "rules", tests.to_str().expect("UTF-8")]).unwrap_or_else(|error| panic!("{error}"));
    let tests = text_of(&tests);
    for [name, _, runbook] in alerts() {
        let expected = format!("{{ labels: '{{alertname=\"{name}\"}}', value: ");
        assert!(tests.contains(&expected), "alerts_test.yaml does not expect {name}");
        let (page, anchor) = runbook.split_once('#').expect("PAGE#ANCHOR");
        let manual = text_of(&root().join(page));
        let mut headings = manual.lines().filter_map(|line| line.strip_prefix("## "));
        assert!(anchor == name.to_lowercase() && headings.any(|heading| heading == name), "{page} has no part {name}");
    }
}

#[test]
fn every_expression_has_a_result_in_prometheus() {
    let files = [("pub.zone", "@ SOA ns a 1 2 3 4 5\n"), ("kubeconfig", KUBECONFIG)];
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Fairway::start(&format!("{CONFIG}webhook: {{ listen: \"{webhook}\" }}\n"), &files);
    let changes = r#"{"create": [{"dnsName": "web.gslb.example", "recordType": "A", "targets": ["192.0.2.1"]}]}"#;
    let media_type = "application/external.dns.webhook+json;version=1";
    let contributed = call(webhook, "POST /owners/east/records", ("", media_type), changes, LIMIT);
    assert!(contributed.as_ref().is_some_and(|(status, _)| *status == 204), "{contributed:?}");
    let load = r#"{"used": 580, "sequence": 17, "validFor": "5m"}"#;
    let pushed = call(server.http, "PUT /v1/load/eu1", ("", "application/json"), load, LIMIT);
    assert!(pushed.as_ref().is_some_and(|(status, _)| (200..300).contains(status)), "{pushed:?}");
    let folder = TempDir::new().expect("a temporary folder");
    let (mut process, prometheus) = start_prometheus(folder.path(), server.http);
    // A rate needs two scrapes.
    wait_until("two scrapes", LIMIT, || {
        assert!(process.is_running(), "{}", process.output());
        let counted =
            query(&prometheus, "count_over_time(fairway_ready[1m]) >= 2 and on () count(fairway_publish_owned) >= 1");
        counted.is_ok_and(|series| !series.is_empty())
    });
    let mut absent = BTreeSet::new();
    for [title, expression] in panels() {
        let series = query(&prometheus, &expression).unwrap_or_else(|error| panic!("{title}: {error}"));
        if series.is_empty() {
            absent.insert(title);
        }
    }
    let metrics = server.metrics();
    assert!(absent.is_empty(), "panels without a series: {absent:?} {metrics}");

    let exported: BTreeSet<_> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for [name, expression, _] in alerts() {
        for metric in metrics_in(&expression) {
            assert!(metric == OF_TLS || exported.contains(metric), "{name}: the server has no metric {metric}");
        }
        query(&prometheus, &expression).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
