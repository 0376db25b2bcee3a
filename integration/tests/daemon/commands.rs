//! Commands against a running server, and their exit status.

use std::{fs, net::SocketAddr, process::Command, time::Duration};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, Process, fairway_binary, free_port, http, http_get},
};

use super::{LIMIT, NAME, answering, failing_over, run, said, state};

#[test]
fn check_exit_status_distinguishes_valid_invalid_and_usage_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("fairway.yaml");
    let path = file.to_str().expect("it is UTF-8");
    let good = format!("version: 1\n{}", answering(&["192.0.2.1"]));
    fs::write(&file, &good).expect("the folder can be written");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    // Two errors, and both are reported.
    fs::write(&file, good.replace("failover", "fastest").replace("192.0.2.1", "192.0.2.256")).expect("as before");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(1));
    let text = said(&checked);
    assert!(text.contains("fastest") && text.contains("192.0.2.256"), "{text}");
    // All weights 0 is a warning; `--strict` makes it an error.
    let zero = good.replace("{ cluster: eu1 }", "{ cluster: eu1, weight: 0 }");
    fs::write(&file, zero).expect("as before");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    assert!(said(&checked).contains("warning"), "{}", said(&checked));
    assert_eq!(run(&["check", "--strict", path]).status.code(), Some(1));
    assert_eq!(run(&["check", "--no-such-flag", path]).status.code(), Some(2));
    let missing = run(&["check", "/does/not/exist.yaml"]);
    assert_eq!(missing.status.code(), Some(1), "{}", said(&missing));
}

#[test]
fn check_warns_about_kubeconfigs_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("the folder can be written");
        folder.path().join(name).display().to_string()
    };
    let context = "contexts: [{name: eu, context: {cluster: eu, user: eu}}]\nusers: [{name: eu, user: {token: t}}]\ncurrent-context: eu\n";
    let clusters = "clusters: [{name: eu, cluster: {server: https://192.0.2.1}}]\n";
    file("good", &format!("{clusters}{context}"));
    file("broken", "clusters: [");
    file("unread", &format!("{}{context}", clusters.replace("{server", "{certificate-authority: none.crt, server")));
    let cases = [
        ("kubeconfig: good", ": ok"),
        ("kubeconfig: none", "fairway.yaml:4:5: warning: cluster eu1: kubeconfig "),
        ("kubeconfig: broken", "fairway.yaml:4:5: warning: cluster eu1: kubeconfig "),
        ("kubeconfig: unread", "none.crt"),
        ("kubeconfig: good, context: us", "fairway.yaml:4:5: warning: cluster eu1: kubeconfig "),
    ];
    for (kubernetes, expected) in cases {
        let text = format!(
            "version: 1\nzones: [{{ name: gslb.example, ns: [ns1.example.net] }}]\nclusters:\n  - {{ name: eu1, kubernetes: {{ {kubernetes} }} }}\n"
        );
        let checked = run(&["check", &file("fairway.yaml", &text)]);
        let text = said(&checked);
        assert!(checked.status.success() && text.contains(expected), "{kubernetes}: {text}");
        assert_eq!(text.contains("kubeconfig"), expected != ": ok", "{kubernetes}: {text}");
    }
}

#[test]
fn override_drains_a_cluster_at_once_and_expires() {
    let config = failing_over(&[("eu1", "192.0.2.1"), ("us1", "192.0.2.2")], "type: always");
    let server = Fairway::start(&config, &[]);
    let load = Load::start(server.dns, 4, NAME, |reply| reply.is(&["192.0.2.1"]) || reply.is(&["192.0.2.2"]));
    wait_answer(server.dns, NAME, &["192.0.2.1"], LIMIT);
    let added = server.command(&["override", "add", "eu1", "drain", "--reason", "kernel update", "--for", "10s"]);
    assert!(added.status.success(), "{}", said(&added));
    // The override is in force when the command returns: the next answer shows it.
    let reply = resolve(server.dns, NAME);
    assert!(reply.as_ref().is_some_and(|reply| reply.is(&["192.0.2.2"])), "{reply:?}");
    assert_eq!(state(server.http)["overrides"][0]["reason"], "kernel update");
    let listed = server.command(&["override", "list"]);
    assert!(said(&listed).contains("kernel update"), "{}", said(&listed));
    wait_answer(server.dns, NAME, &["192.0.2.1"], Duration::from_secs(10) + LIMIT);
    assert_eq!(state(server.http)["overrides"].as_array().map(Vec::len), Some(0));
    load.wait_for(50);
    load.stop().expect_whole(50);
}

#[test]
fn override_without_reason_or_expiry_is_rejected() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let bare = server.command(&["override", "add", "eu1", "drain"]);
    assert_eq!(bare.status.code(), Some(2), "{}", said(&bare));
    let endless = server.command(&["override", "add", "eu1", "drain", "--reason", "x", "--for", "31d"]);
    assert!(!endless.status.success());
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
}

#[test]
fn explain_and_status_query_the_running_server() {
    let config = failing_over(&[("eu1", "192.0.2.1"), ("us1", "192.0.2.2")], "type: always");
    let server = Fairway::start(&config, &[]);
    wait_answer(server.dns, NAME, &["192.0.2.1"], LIMIT);
    // The output contains state that only the running server has.
    let added = server.command(&["override", "add", "eu1", "down", "--reason", "a drill", "--for", "1h"]);
    assert!(added.status.success(), "{}", said(&added));
    let explained = server.command(&["explain", NAME, "--type", "A", "--client", "198.51.100.0/24"]);
    let text = said(&explained);
    assert_eq!(explained.status.code(), Some(0), "{text}");
    assert!(text.contains("192.0.2.2") && text.contains("eu1") && text.contains("us1"), "{text}");
    let status = server.command(&["status"]);
    let text = said(&status);
    assert_eq!(status.status.code(), Some(0), "{text}");
    assert!(text.contains("eu1") && text.contains("a drill"), "{text}");
}

#[test]
fn static_zones_are_served_without_a_configuration_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(fairway_binary());
    command.arg("serve");
    let listens = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for listen in listens {
        command.args(["--listen", &listen.to_string()]);
    }
    for (zone, address) in [("one.test", "192.0.2.1"), ("two.test", "192.0.2.2")] {
        let file = folder.path().join(zone);
        let text = format!(
            "$TTL 60\n@ IN SOA ns1 admin 1 1h 15m 2w 5m\n@ IN NS ns1\nns1 IN A {address}\nwww IN A {address}\n"
        );
        fs::write(&file, text).expect("the folder can be written");
        command.arg("--zone").arg(format!("{zone}={}", file.display()));
    }
    let mut server = Process::start(&mut command, &folder.path().join("fairway.log"));
    for listen in listens {
        wait_answer(listen, "www.one.test", &["192.0.2.1"], LIMIT);
        wait_answer(listen, "www.two.test", &["192.0.2.2"], LIMIT);
    }
    server.signal("INT");
    assert!(server.ended(LIMIT).success(), "{}", server.output());
}

#[test]
fn every_route_of_the_openapi_document_exists() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let (status, text) = http_get(server.http, "/openapi.json").expect("/openapi.json answers");
    assert_eq!(status, 200);
    let document: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let paths = document["paths"].as_object().expect("it has paths");
    assert!(paths.len() > 60, "both families of intents, objects and the server itself: {}", paths.len());
    for (path, item) in paths.iter().filter(|(path, _)| *path != "/v1/watch") {
        let steps = path.split('/').map(|step| if step.starts_with('{') { "app.js" } else { step });
        let asked = steps.collect::<Vec<_>>().join("/");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let is_documented = item.get(method.to_ascii_lowercase()).is_some();
            if is_documented && method != "GET" && *path == "/v1/reload" {
                continue;
            }
            let (status, said) = http(server.http, method, &asked).expect("an answer");
            assert_eq!(status == 405, !is_documented, "{method} {asked}: {status} {said}");
            assert!(!said.contains("there is no route at "), "{method} {asked}: {said}");
        }
    }
}
