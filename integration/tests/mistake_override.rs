//! An operator who overrides the wrong clusters: the last healthy one of a name, a misspelt one, or more than the rules of the
//! configuration leave. Nothing changes until somebody confirms, and everybody can see who did what.

use std::{
    net::SocketAddr,
    process::Output,
    time::{Duration, SystemTime},
};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, Process, http_get, http_json, serve},
};
use fairway_model::Timestamp;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);
const NAME: &str = "shop.gslb.example";
const EU1: &str = "192.0.2.1";
const US1: &str = "192.0.2.2";

/// Two clusters that are always healthy, and a name that prefers the first one.
fn start(more: &str) -> Fairway {
    start_with("", "", more)
}

/// The same with further pools and names.
fn start_with(pools: &str, names: &str, more: &str) -> Fairway {
    let server = Fairway::start(
        &format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{{ name: eu1, addresses: [{EU1}] }}, {{ name: us1, addresses: [{US1}] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}{pools}]
names: [{{ name: {NAME}, pool: shop }}{names}]
{more}"
        ),
        &[],
    );
    wait_answer(server.dns, NAME, &[EU1], LIMIT);
    server
}

/// Runs `override add`, and returns its exit status with all that it printed.
fn add(server: &Fairway, scope: &str, action: &str, more: &[&str]) -> (bool, String) {
    let command = ["override", "add", scope, action, "--reason", "ticket 4711", "--for", "1h"];
    let Output { status, stdout, stderr } = server.command(&[&command, more].concat());
    (status.success(), [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

fn post(server: SocketAddr, query: &str, scope: &str, action: &str) -> (u16, Value) {
    let body = json!({"scope": scope, "action": action, "reason": "ticket 4711", "forSecs": 600}).to_string();
    let (status, body) = http_json(server, "POST", &format!("/v1/overrides{query}"), &body).expect("it answers");
    (status, serde_json::from_str(&body).expect("JSON"))
}

/// Returns the overrides as `GET /v1/overrides` lists them.
fn overrides(server: &Fairway) -> Vec<Value> {
    let (status, body) = http_get(server.http, "/v1/overrides").expect("it answers");
    assert_eq!(status, 200, "{body}");
    let list: Value = serde_json::from_str(&body).expect("JSON");
    list["items"].as_array().expect("items").clone()
}

fn answers(server: &Fairway, expected: &[&str]) -> bool {
    resolve(server.dns, NAME).is_some_and(|reply| reply.is(expected))
}

#[test]
fn override_that_would_empty_a_name_needs_a_confirmation() {
    let server = start("");
    let (done, text) = add(&server, "*", "drain", &[]);
    assert!(!done && text.contains("409") && text.contains(NAME) && text.contains("--yes"), "{text}");
    assert!(answers(&server, &[EU1]) && overrides(&server).is_empty(), "a refused override changes nothing");

    // One of two is no mistake; then the other is the last healthy one.
    let (done, text) = add(&server, "eu1", "drain", &[]);
    assert!(done, "{text}");
    assert!(answers(&server, &[US1]));
    let (status, problem) = post(server.http, "", "us1", "down");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains(NAME) && detail.contains("confirm=true"), "{problem}");
    assert!(answers(&server, &[US1]));

    let (status, added) = post(server.http, "?confirm=true", "us1", "down");
    assert_eq!((status, &added["effect"]["namesWithoutHealthyMember"]), (201, &json!(1)), "{added}");
    assert!(answers(&server, &[]), "no address is left");
    // The end of an override needs no confirmation, and `up` never takes an address out.
    let removed = server.command(&["override", "remove", added["id"].as_str().expect("an id")]);
    assert!(removed.status.success() && answers(&server, &[US1]));
    let (done, text) = add(&server, "*", "up", &[]);
    assert!(done && text.contains("eu1/192.0.2.1: drain of") && text.contains("takes precedence"), "{text}");
    assert!(answers(&server, &[US1]), "drain takes precedence over up");
}

/// Clients outside of 10.0.0.0/8 see the first cluster only.
#[test]
fn override_that_would_empty_a_name_for_some_clients_needs_a_confirmation() {
    let members = "{ cluster: eu1 }, { cluster: us1, networks: [10.0.0.0/8] }";
    let pool = format!(", {{ name: viewed, policy: failover, monitor: unchecked, members: [{members}] }}");
    let server = start_with(&pool, ", { name: viewed.gslb.example, pool: viewed }", "");
    let (status, problem) = post(server.http, "", "eu1", "drain");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains("viewed.gslb.example") && !detail.contains(NAME), "{problem}");
    assert_eq!(post(server.http, "", "us1", "drain").0, 201, "clients of 10.0.0.0/8 still have eu1");
}

#[test]
fn misspelt_scope_is_refused_with_a_suggestion() {
    let server = start("");
    for flags in [&[][..], &["--yes"], &["--dry-run"]] {
        let (done, text) = add(&server, "eu11", "drain", flags);
        assert!(!done && text.contains("404") && text.contains("did you mean eu1?"), "{text}");
    }
    assert!(answers(&server, &[EU1]) && overrides(&server).is_empty());
}

#[test]
fn dry_run_shows_the_effect_and_changes_nothing() {
    let server = start("");
    let (done, text) = add(&server, "*", "down", &["--dry-run"]);
    assert!(done && text.contains("nothing was changed") && text.contains(NAME) && text.contains("us1/"), "{text}");
    let (status, would) = post(server.http, "?dryRun=true&confirm=true", "*", "down");
    let expected = json!({"namesWithoutHealthyMember": 1, "firstNames": [format!("{NAME}.")]});
    assert_eq!((status, &would["id"], &would["effect"]), (200, &Value::Null, &expected), "{would}");
    assert!(answers(&server, &[EU1]) && overrides(&server).is_empty());
    assert!(!server.folder.path().join("data/overrides.json").exists());
}

#[test]
fn rule_keeps_a_cluster_also_against_a_confirmation() {
    let server = start("overrideRules: [{ pools: [\"*\"], minClusters: 1 }]\n");
    let (done, text) = add(&server, "*", "drain", &["--yes"]);
    assert!(!done && text.contains("409") && text.contains("pool shop with 0 of 2 clusters"), "{text}");
    let (done, text) = add(&server, "eu1", "drain", &["--yes"]);
    assert!(done, "{text}");
    let (status, problem) = post(server.http, "?confirm=true", "us1", "down");
    assert!(status == 409 && problem["detail"].as_str().is_some_and(|why| why.contains("overrideRules")), "{problem}");
    assert!(answers(&server, &[US1]), "the rule leaves one cluster");
}

#[test]
fn overrides_show_who_added_them_when_and_from_where() {
    let until = Timestamp::from(SystemTime::now()).plus(Duration::from_secs(3_600));
    let declared = format!("{{ match: us1, action: up, reason: its probe is broken, until: \"{until}\" }}");
    let mut server = start(&format!("overrides: [{declared}]\n"));
    let (done, text) = add(&server, "eu1", "drain", &[]);
    assert!(done, "{text}");
    assert_eq!(post(server.http, "?confirm=true", "us1", "drain").0, 201);
    let shown = |server: &Fairway| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let row = |of: &Value| {
            (text(&of["createdBy"]), of["createdAt"].is_string(), text(&of["createdFrom"]).unwrap_or_default())
        };
        overrides(server).iter().map(row).collect::<Vec<_>>()
    };
    let before = shown(&server);
    let [file, socket, http] = &before[..] else { panic!("three overrides: {before:?}") };
    assert!(file.0.is_none() && !file.1 && file.2.contains("fairway.yaml:"), "{file:?}");
    let by = |(by, is_dated, from): &(Option<String>, bool, String)| {
        (*is_dated).then(|| format!("{} from {from}", by.as_deref().unwrap_or_default()))
    };
    assert!(by(socket).is_some_and(|by| by.starts_with("local user ") && by.ends_with("control socket")), "{socket:?}");
    assert_eq!(by(http).as_deref(), Some("127.0.0.1 without authentication from 127.0.0.1"));
    // The drain takes precedence over the override of the file, and both show it.
    let overlaps: Vec<Value> = overrides(&server).iter().map(|of| of["overlaps"][0]["shadowed"].clone()).collect();
    assert_eq!(overlaps, [json!(true), Value::Null, json!(false)]);
    let list = server.command(&["override", "list"]);
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        ["control socket", "127.0.0.1 without", "fairway.yaml:", " ago"].iter().all(|part| text.contains(part)),
        "{text}"
    );

    server.process.signal("TERM");
    assert!(server.process.ended(LIMIT).success());
    let log = server.folder.path().join("again.log");
    server.process = Process::start(&mut serve(server.folder.path()), &log);
    server.wait_ready();
    assert_eq!(shown(&server), before, "it survives a restart");
}
