//! Declared dns-update-records over the control socket: publishers that start, change, end and restart.

use std::fs;

use serde_json::{Value, json};

use super::{
    objects::{Reply, Server},
    until,
};

/// Configuration with a zone whose members are always up, and two clusters that run every service.
const CONFIG: &str = "version: 1
listen: { dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\" }
zones: [ { name: gslb.example, ns: [ { name: ns1.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example, monitor: unchecked } ]
monitors: [ { name: unchecked, type: always } ]
clusters: [ { name: eu1, addresses: [192.0.2.1] }, { name: us1, addresses: [192.0.2.2] } ]
";

fn records(project: &str) -> String {
    format!("/v2/projects/{project}/dns-update-records")
}

/// Declares an intent of a project for `NAME.gslb.example`.
fn intend(server: &Server, project: &str, name: &str) {
    let body = json!({"metadata": {"name": name}, "spec": {"app": "a", "serviceName": "all", "externalSupport": true,
        "externalName": format!("{name}.gslb.example")}});
    server.put(&intent(project, name), &body).expect(201);
}

fn intent(project: &str, name: &str) -> String {
    format!("/v1/intents/inbound/{project}/a/v1/default/default/{name}")
}

fn file(parameters: &Value) -> Value {
    let mut all = json!({"domain-filter": "gslb.example", "txt-owner-id": "us"});
    all.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
    json!({"metadata": {"name": "zone"}, "spec": {"provider": "file", "external-dns-parameters": all}})
}

/// Returns the names with addresses that the record `zone` of a project has published.
fn names(server: &Server, project: &str) -> Vec<String> {
    let path = server.scene.data().join("published").join(project).join("zone/records.zone");
    let text = fs::read_to_string(path).unwrap_or_default();
    let addresses = text.lines().filter(|line| line.contains("\tIN\tA\t"));
    let mut names: Vec<_> = addresses.map(|line| line.split('.').next().unwrap().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns status and reason of a condition.
fn condition(reply: &Reply, kind: &str) -> (String, String) {
    let all = reply.body["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|condition| condition["type"] == kind).unwrap_or_else(|| panic!("{all:?}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Returns the names of all publishers.
fn publishers(server: &Server) -> Vec<String> {
    let state = server.get("/v1/publishing").expect(200);
    state.body["providers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_publisher_starts_changes_restarts_and_ends() {
    let of_file = "publish: { providers: [ { name: p, file: all.zone, zones: [gslb.example] } ] }\n";
    let server = Server::new(&format!("{CONFIG}{of_file}")).await;
    for (project, name) in [("p", "shop"), ("p", "mail"), ("q", "pay")] {
        intend(&server, project, name);
    }
    let one = format!("{}/zone", records("p"));
    server.send("POST", &records("p"), "", &file(&json!({}))).expect(201);
    until("names of the project", async || names(&server, "p") == ["mail", "shop"]).await;
    until("condition Published", async || {
        condition(&server.get(&one), "Published") == ("True".to_owned(), "Published".to_owned())
    })
    .await;
    assert_eq!(condition(&server.get(&one), "Accepted").1, "Valid");
    assert_eq!(publishers(&server), ["p", "p/zone"], "publishers of configuration and objects, in order of name");
    server.get("/v1/publishing/p%2Fzone/plan").expect(200);
    assert!(server.scene.data().join("publish/declared/p/zone.json").exists(), "notes of the publisher");
    // A record of the same name in another project has its own folder and owner.
    server.send("POST", &records("q"), "", &file(&json!({}))).expect(201);
    until("names of the other project", async || names(&server, "q") == ["pay"]).await;

    server.put(&one, &file(&json!({"exclude-domains": "mail.gslb.example"}))).expect(200);
    until("changed exclusion", async || names(&server, "p") == ["shop"]).await;
    intend(&server, "p", "late");
    until("name of a later intent", async || names(&server, "p") == ["late", "shop"]).await;

    let server = server.restart().await;
    assert_eq!(names(&server, "p"), ["late", "shop"]);
    server.send("DELETE", &intent("p", "late"), "", &Value::Null).expect(204);
    until("publishing after a restart", async || names(&server, "p") == ["shop"]).await;

    server.send("DELETE", &one, "", &Value::Null).expect(204);
    until("end of the publisher", async || publishers(&server) == ["p", "q/zone"]).await;
    intend(&server, "p", "never");
    intend(&server, "q", "after");
    until("publishing of the other project", async || names(&server, "q") == ["after", "pay"]).await;
    assert_eq!(names(&server, "p"), ["shop"], "published names must stay unchanged");
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_publisher_has_a_reason_and_does_not_affect_others() {
    let server = Server::new(CONFIG).await;
    intend(&server, "p", "shop");
    let aws =
        json!({"metadata": {"name": "r53"}, "spec": {"provider": "aws", "parameters": {"aws-zone-type": "public"}}});
    let reply = server.send("POST", &records("p"), "", &aws).expect(201);
    assert_eq!(condition(&reply, "Published"), ("False".to_owned(), "Rendered".to_owned()));
    let message = reply.body["status"]["conditions"][1]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("fairway publish flags p/r53"), "{message}");
    let unreachable = json!({"metadata": {"name": "away"}, "spec": {"provider": "pdns", "parameters": {
        "pdns-server": "http://127.0.0.1:9", "pdns-api-key": "secret-of-the-tests", "domain-filter": "gslb.example"}}});
    server.send("POST", &records("p"), "", &unreachable).expect(201);
    server.send("POST", &records("p"), "", &file(&json!({}))).expect(201);
    until("names of the working publisher", async || names(&server, "p") == ["shop"]).await;
    let one = format!("{}/away", records("p"));
    until("condition of the failing publisher", async || condition(&server.get(&one), "Published").1 == "Failing")
        .await;
    let message = server.get(&one).body["status"]["conditions"][1]["message"].as_str().unwrap().to_owned();
    assert!(!message.is_empty() && !message.contains("secret"), "{message}");
    // A dry run shows no secrets and writes nothing.
    let dry = server.put(&format!("{}/dry?dryRun=true", records("p")), &{
        let mut dry = unreachable;
        dry["metadata"]["name"] = "dry".into();
        dry
    });
    let dry = dry.expect(200).body;
    assert_eq!(dry["created"], json!(["dns-update-record/p/dry"]));
    assert!(!dry.to_string().contains("secret"), "{dry}");
    assert_eq!(publishers(&server), ["p/away", "p/zone"]);
    server.daemon.stop().await;
}
