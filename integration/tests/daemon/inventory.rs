//! `GET /v1/KIND` and `fairway get KIND` list everything that is served, with its source.

use std::{fs, process::Command};

use fairway_integration::real::{Fairway, call, fairway_binary, free_port, http_get};
use serde_json::Value;

use super::{LIMIT, said};

/// A name of the files with its pool, and a webhook.
fn config(webhook: u16) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors:
  - {{ name: gateway, type: http, headers: {{ Authorization: Bearer s3cret }} }}
clusters:
  - {{ name: eu1, addresses: [192.0.2.1] }}
pools:
  - {{ name: shop, policy: [tier, weighted], monitor: gateway, members: [ {{ edge: eu1, weight: 7 }} ] }}
names: [ {{ name: Shop.gslb.example, pool: shop }} ]
webhook: {{ listen: \"127.0.0.1:{webhook}\", lease: 10m }}
"
    )
}

/// Returns the items of a kind by name.
fn items(server: &Fairway, kind: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let (status, body) = http_get(server.http, &format!("/v1/{kind}?limit=1&after={after}")).expect("an answer");
        assert_eq!(status, 200, "{body}");
        let page: Value = serde_json::from_str(&body).expect("JSON");
        let items = page["items"].as_array().expect("items");
        all.extend(items.iter().map(|item| (item["name"].as_str().expect("a name").to_owned(), item.clone())));
        match page["next"].as_str() {
            Some(next) => after = next.replace('+', "%2B"),
            None => return all,
        }
    }
}

/// Returns name, kind of source, and the end of the first origin of each item.
fn sources(server: &Fairway, kind: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
    let line = |(name, item): (String, Value)| {
        let source = &item["metadata"]["source"];
        format!("{name} {} {}", text(&source["kind"]), text(&source["from"][0])).trim_end().to_owned()
    };
    items(server, kind).into_iter().map(line).collect()
}

#[test]
fn lists_have_everything_that_is_served_with_its_source() {
    let webhook = free_port();
    let server = Fairway::start(&config(webhook), &[]);
    let file = server.folder.path().join("api.yaml");
    fs::write(
        &file,
        "pools: [ { name: pay, policy: failover, monitor: gateway, members: [ { cluster: eu1 } ] } ]
names: [ { name: pay.gslb.example, pool: pay } ]
intents: [ { key: inbound/web/shop/v1/default/default/blog, intent: { metadata: { name: blog }, spec: { app: blog, serviceName: blog,
  externalName: blog.gslb.example, externalSupport: true, gslb: { members: [ { cluster: eu1 } ] } } } } ]
",
    )
    .expect("the folder can be written");
    let applied = server.command(&["apply", "-f", file.to_str().expect("UTF-8")]);
    assert!(applied.status.success(), "{}", said(&applied));
    let records = "{\"create\": [
        {\"dnsName\": \"news.gslb.example\", \"recordType\": \"A\", \"targets\": [\"192.0.2.1\"]},
        {\"dnsName\": \"mail.gslb.example\", \"recordType\": \"MX\", \"targets\": [\"10 mx.example.net\"], \"recordTTL\": 90}]}";
    let media = ("", "application/external.dns.webhook+json;version=1");
    let made = call(([127, 0, 0, 1], webhook).into(), "POST /records", media, records, LIMIT);
    assert_eq!(made.map(|reply| reply.0), Some(204));

    assert_eq!(
        sources(&server, "names"),
        [
            "blog.gslb.example intent blog",
            "news.gslb.example webhook default",
            "pay.gslb.example api",
            "Shop.gslb.example file fairway.yaml:10",
        ]
    );
    assert_eq!(
        sources(&server, "pools"),
        [
            "contributed+news.gslb.example webhook default",
            "inbound+web+shop+v1+default+default+blog intent blog",
            "pay api",
            "shop file fairway.yaml:9",
        ]
    );
    assert_eq!(sources(&server, "records"), ["mail.gslb.example webhook default"]);
    assert_eq!(sources(&server, "monitors"), ["gateway file fairway.yaml:5"]);
    let mail = &items(&server, "records")[0].1;
    assert_eq!(mail["sets"], serde_json::json!([{"type": "MX", "ttl": "1m30s", "data": ["10 mx.example.net."]}]));

    // As the file has it, with canonical keys; without a revision, since no write of the API has made it.
    let (status, shop) = http_get(server.http, "/v1/pools/shop").expect("an answer");
    let shop: Value = serde_json::from_str(&shop).expect("JSON");
    assert_eq!((status, &shop["members"][0]["cluster"], &shop["policy"][0]), (200, &"eu1".into(), &"tier".into()));
    assert_eq!(
        (&shop["metadata"]["revision"], shop["status"]["conditions"][2]["status"].as_str()),
        (&Value::Null, Some("True"))
    );
    assert_eq!(http_get(server.http, "/v1/names/SHOP.gslb.example.").map(|reply| reply.0), Some(200));
    assert_eq!(http_get(server.http, "/v1/pools/none").map(|reply| reply.0), Some(404));

    let listed = said(&server.command(&["get", "names"]));
    assert!(listed.contains("file ") && listed.contains("fairway.yaml:10"), "{listed}");
    // What `get` prints of the files is taken by `apply`, and is equal.
    let printed = server.command(&["get", "pools", "--source", "file", "-o", "yaml"]);
    fs::write(&file, &printed.stdout).expect("the folder can be written");
    let applied = server.command(&["apply", "-f", file.to_str().expect("UTF-8")]);
    assert!(applied.status.success() && said(&applied).contains("created  pools/shop"), "{}", said(&applied));
    assert_eq!(sources(&server, "pools").last().map(String::as_str), Some("shop api"));
    let printed = said(&server.command(&["get", "names", "-o", "yaml"]));
    assert!(printed.contains("pay.gslb.example") && !printed.contains("news"), "{printed}");
}

#[test]
fn headers_of_monitors_of_files_need_the_verb_operate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let token = |name: &str| {
        let file = folder.path().join(name);
        let made = Command::new(fairway_binary()).args(["token", "create", name, "--out"]).arg(&file).output();
        let made = String::from_utf8(made.expect("it runs").stdout).expect("text");
        let entry = made.lines().find(|line| line.contains("sha256:")).expect("an entry").trim();
        (entry.trim_start_matches("- ").to_owned(), fs::read_to_string(&file).expect("a token").trim().to_owned())
    };
    let [(viewer, as_viewer), (admin, as_admin)] = ["viewer", "admin"].map(token);
    let access = format!(
        "access: {{ tokens: [{viewer}, {admin}], grants: [{{ role: viewer, to: [\"token:viewer\"] }}, {{ role: admin, to: [\"token:admin\"] }}] }}\n"
    );
    let server = Fairway::start(&(access + &config(free_port())), &[]);
    let get = |token: &str| {
        call(server.http, "GET /v1/monitors", (token, "application/json"), "", LIMIT).expect("an answer").1
    };
    assert!(get(&as_admin).contains("Bearer s3cret"));
    let shown = get(&as_viewer);
    assert!(shown.contains("requires the verb operate") && !shown.contains("s3cret"), "{shown}");
}
