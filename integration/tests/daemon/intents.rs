//! Intents on a running server: their status, and dry runs.

use fairway_integration::{
    load::{Reply, connect, prove_source, receive, resolve},
    query::{ECS, Opt, Query},
    real::{Fairway, free_port, wait_until},
};
use fairway_model::Rtype;
use serde_json::{Value, json};

use super::{LIMIT, once::ask, said, serve_again, watch::Watcher};

const SCENE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net], monitor: unchecked }]
clusters:
  - { name: eu1, addresses: [192.0.2.1], services: [shop] }
  - { name: us1, addresses: [192.0.2.2], services: [pay] }
monitors: [{ name: unchecked, type: always }]
pools: [{ name: other, policy: failover, monitor: unchecked, members: [{ cluster: us1 }] }]
names: [{ name: other.gslb.example, pool: other }]
";
const W: &str = "/v2/projects/p/composite-apps/a/v1/traffic-intent-set/inbound-intents";
const E: &str =
    "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/default/traffic-group-intents/default/inbound-intents";

fn intent(name: &str, service: &str, external: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {"app": "a", "serviceName": service, "externalSupport": true,
        "externalName": external}})
    .to_string()
}

fn request(server: &Fairway, method: &str, path: &str, body: &str, status: u16) -> Value {
    let (code, _, text) = ask(server, method, path, "", body);
    assert_eq!(code, status, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns status and reason of a condition.
fn condition<'a>(intent: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let all = intent["status"]["conditions"].as_array().expect("an intent has conditions");
    let of = all.iter().find(|of| of["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {all:?}"));
    let text = |key: &str| of[key].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn intent_status_has_answers_members_and_conflicts() {
    let server = Fairway::start(SCENE, &[]);
    let dry =
        request(&server, "PUT", &format!("{W}/shop?dryRun=true"), &intent("shop", "shop", "shop.gslb.example"), 200);
    assert_eq!(dry["created"], json!(["inbound/p/a/v1/default/default/shop"]), "{dry}");
    assert!(dry["dryRun"] == true && !dry["effect"].as_array().unwrap().is_empty(), "{dry}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.rcode == 3), "nothing was written");

    let made = request(&server, "POST", W, &intent("shop", "shop", "shop.gslb.example"), 201);
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    assert_eq!(condition(&made, "Accepted"), ("True", "Valid", ""));
    assert_eq!(condition(&made, "Conflict"), ("False", "NoConflict", ""));
    assert_eq!(condition(&made, "Ready"), ("True", "Served", ""));
    let status = &made["status"];
    assert_eq!((&status["observedGeneration"], &status["answered"]["name"]), (&json!(1), &json!("shop.gslb.example.")));
    let member = json!({"cluster": "eu1", "eligible": true, "reason": "up", "tier": 1, "share": 100.0,
        "weight": {"effective": 1, "source": "services"}});
    assert_eq!(status["members"], json!([member]), "{status}");

    // A newer intent with the same name, created with the other path family: members are merged, and both report it.
    let newer = request(&server, "POST", E, &intent("late", "pay", "shop.gslb.example"), 201);
    let (is, why, words) = condition(&newer, "Conflict");
    assert!((is, why) == ("True", "Shadowed") && words.contains("/shop, which is older"), "{words}");
    assert_eq!(condition(&newer, "Accepted"), ("True", "JoinedAnother", ""));
    let older = request(&server, "GET", &format!("{E}/shop"), "", 200);
    let (is, why, words) = condition(&older, "Conflict");
    assert!((is, why) == ("True", "Holds") && words.contains("default/late claim"), "{words}");
    let sources = older["status"]["members"].as_array().unwrap().iter();
    let sources: Vec<_> = sources.map(|of| (of["cluster"].clone(), of["weight"]["source"].clone())).collect();
    assert_eq!(sources, [(json!("eu1"), json!("services")), (json!("us1"), json!("another intent"))]);
    let listed = request(&server, "GET", W, "", 200);
    assert_eq!(listed[1]["status"], older["status"], "a list says it too");

    // An intent without effect reports the reason, also before it is written.
    for (name, service, external, why) in
        [("none", "nobody", "none.gslb.example", "no declared cluster"), ("far", "shop", "far.example.org", "zone")]
    {
        let body = intent(name, service, external);
        let dry = request(&server, "POST", &format!("{W}?dryRun=true"), &body, 200);
        assert!(dry["rejected"][0].as_str().is_some_and(|text| text.contains(why)), "{dry}");
        let made = request(&server, "POST", W, &body, 201);
        let (is, reason, words) = condition(&made, "Accepted");
        assert!((is, reason) == ("False", "Invalid") && words.contains(why), "{words}");
        assert_eq!(condition(&made, "Ready").1, "Rejected");
        assert!(made["status"].get("answered").is_none());
    }
    let inner = json!({"metadata": {"name": "in"}, "spec": {"app": "a", "serviceName": "shop"}}).to_string();
    assert_eq!(condition(&request(&server, "POST", W, &inner, 201), "Ready").1, "NotExternal");
    let dry = request(&server, "DELETE", &format!("{W}/shop?dryRun=true"), "", 200);
    assert_eq!(dry["deleted"], json!(["inbound/p/a/v1/default/default/shop"]), "{dry}");
    // PUT accepts the body of GET.
    request(&server, "PUT", &format!("{W}/shop"), &older.to_string(), 200);
}

/// Returns Fairway's own path of the intent that ONAP names `NAME`.
fn own(name: &str) -> String {
    format!("/v1/intents/inbound/p/a/v1/default/default/{name}")
}

#[test]
fn intents_of_all_projects_are_listed_and_changed_by_key() {
    let server = Fairway::start(SCENE, &[]);
    let mut watcher = Watcher::at(server.http, "/v1/intents?watch=true&project=p", "");
    assert_eq!(watcher.status(), "200 OK");
    let body = intent("shop", "shop", "shop.gslb.example");
    let (code, _, text) = ask(&server, "PUT", &format!("{}?reason=it+opens", own("shop")), "", &body);
    assert_eq!(code, 201, "{text}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    let other = W.replace("/p/", "/q/");
    request(&server, "POST", &other, &intent("pay", "pay", "pay.gslb.example"), 201);
    request(&server, "POST", W, &intent("mail", "pay", "mail.gslb.example"), 201);

    let keys = |query: &str| {
        let list = request(&server, "GET", &format!("/v1/intents{query}"), "", 200);
        let keys = list["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned());
        (keys.collect::<Vec<_>>(), list["next"].clone())
    };
    let key = |project: &str, name: &str| format!("inbound/{project}/a/v1/default/default/{name}");
    let all = vec![key("p", "mail"), key("p", "shop"), key("q", "pay")];
    assert_eq!(keys(""), (all.clone(), Value::Null));
    assert_eq!(keys("?limit=2"), (all[..2].to_vec(), json!(all[1])));
    assert_eq!(keys(&format!("?after={}", all[1])), (all[2..].to_vec(), Value::Null));
    assert_eq!(keys("?project=q"), (all[2..].to_vec(), Value::Null));
    assert_eq!(keys("?project="), (all.clone(), Value::Null), "no project");
    request(&server, "GET", "/v1/intents?project=%C2%84", "", 400);
    assert_eq!(keys("?contains=Shop.gslb"), (vec![all[1].clone()], Value::Null), "by the name that is answered");
    request(&server, "GET", "/v1/intents?limit=0", "", 400);

    let list = request(&server, "GET", "/v1/intents?contains=shop", "", 200);
    let item = &list["items"][0];
    let one = request(&server, "GET", &own("shop"), "", 200);
    assert_eq!((&item["intent"], &item["metadata"]["reason"]), (&one, &json!("it opens")));
    assert_eq!(request(&server, "GET", &format!("{W}/shop"), "", 200), one, "the same object as on the other paths");

    let (_, made) = watcher.event("changed");
    assert_eq!((&made["key"], condition(&made["intent"], "Ready").0), (&json!(all[1]), "True"));
    request(&server, "DELETE", &own("shop"), "", 204);
    // Changes of another project in between are not sent to this watcher.
    assert_eq!(watcher.event("changed").1["key"], all[0]);
    assert_eq!(watcher.event("deleted").1["name"], all[1]);
}

#[test]
fn intent_created_by_post_has_a_history() {
    let server = Fairway::start(SCENE, &[]);
    let key = "inbound/p/a/v1/default/default/shop";
    let spec = |external: &str| serde_json::from_str::<Value>(&intent("shop", "shop", external)).expect("it is JSON");
    let item = |external: &str| json!({"key": key, "metadata": {}, "intent": spec(external)}).to_string();
    let dry = request(&server, "POST", "/v1/intents?dryRun=true", &item("shop.gslb.example"), 200);
    assert_eq!((&dry["created"], &dry["differences"][0]["object"]), (&json!([key]), &json!(key)), "{dry}");
    let (code, head, text) = ask(&server, "POST", "/v1/intents?reason=it+opens", "", &item("shop.gslb.example"));
    assert!(code == 201 && head.contains(&format!("location: /v1/intents/{key}")), "{code} {head} {text}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    request(&server, "POST", "/v1/intents", &item("shop.gslb.example"), 409);
    let (no_text, other) = (
        item("shop.gslb.example").replace("\"externalSupport\":true", "\"port\":99999"),
        item("shop.gslb.example").replace("default/shop", "default/other"),
    );
    for (body, status, why) in [
        ("", 400, "empty"),
        ("{\"key\": 1", 422, "line 1"),
        ("{\"key\": \"inbound/p\", \"intent\": {}}", 422, "TRAFFIC-GROUP"),
        ("{\"intent\": {}}", 422, "key"),
        (no_text.as_str(), 422, "/intent/spec/port"),
        (other.as_str(), 400, "in the path; use one name"),
    ] {
        let refused = request(&server, "POST", "/v1/intents", body, status).to_string();
        assert!(refused.contains(why), "{body}: {refused}");
    }

    request(&server, "PUT", &own("shop"), &intent("shop", "pay", "shop.gslb.example"), 200);
    request(&server, "DELETE", &format!("{}?reason=it+closes", own("shop")), "", 204);
    let history = request(&server, "GET", &format!("{}/history", own("shop")), "", 200);
    let entries: Vec<_> = history.as_array().expect("a list").iter().collect();
    let service = |entry: &Value| entry["object"]["spec"]["serviceName"].clone();
    assert_eq!(
        entries.iter().map(|entry| service(entry)).collect::<Vec<_>>(),
        [json!(null), json!("pay"), json!("shop")]
    );
    assert_eq!((&entries[0]["reason"], &entries[2]["reason"]), (&json!("it closes"), &json!("it opens")));
    assert!(entries[0]["object"].is_null(), "{history}");
    request(&server, "GET", &format!("{}/history", own("never")), "", 404);
}

#[test]
fn repeated_intent_write_with_idempotency_key_is_done_once() {
    let server = Fairway::start(SCENE, &[]);
    let without_status = |(code, head, text): (u16, String, String)| {
        let mut body: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        (code, head, body)
    };
    let send = |method: &str, path: &str, key: &str, body: &str| without_status(ask(&server, method, path, key, body));
    let body = intent("shop", "shop", "shop.gslb.example");
    let item = json!({"key": "inbound/p/a/v1/default/default/mail", "intent": {"metadata": {"name": "mail"},
        "spec": {"app": "a", "serviceName": "pay"}}});
    let one = format!("{W}/shop");
    let made = send("POST", W, "a", &body);
    assert!(made.0 == 201 && made.1.contains(&one), "{made:?}");
    let by_key = send("POST", "/v1/intents", "b", &item.to_string());
    assert_eq!(by_key.0, 201, "{by_key:?}");
    let changed = send("PUT", &one, "c", &intent("shop", "pay", "shop.gslb.example"));
    assert_eq!(changed.0, 200, "{changed:?}");
    let same = send("PUT", &one, "d", &intent("shop", "pay", "shop.gslb.example"));
    assert_eq!((same.0, &same.1), (200, &changed.1), "it is no change");
    // The repeated request gets the first answer, independent of later changes, and is not executed again.
    assert_eq!(send("POST", W, "a", &body), made);
    assert_eq!(send("POST", "/v1/intents", "b", &item.to_string()), by_key);
    assert_eq!(send("PUT", &one, "c", &intent("shop", "pay", "shop.gslb.example")), changed);
    assert_eq!(send("PUT", &one, "d", &intent("shop", "pay", "shop.gslb.example")), same);
    assert_eq!(send("PUT", &one, "a", &body).0, 422, "the key is of another request");
    assert_eq!(send("PUT", &one, "a b", &body).0, 400);
    let gone = send("DELETE", &one, "e", "");
    assert_eq!((gone.0, send("DELETE", &one, "e", ""), send("DELETE", &one, "", "").0), (204, gone, 404));
    assert_eq!(send("POST", W, "a", &body), made, "it is not made again");
    let history = request(&server, "GET", &format!("{}/history", own("shop")), "", 200);
    assert_eq!(history.as_array().map(Vec::len), Some(3), "{history}");
}

#[test]
fn apply_of_intents_prints_the_change_before() {
    let server = Fairway::start(SCENE, &[]);
    let file = server.folder.path().join("intents.yaml");
    let write = |service: &str| {
        let text = format!(
            "intents:
- key: inbound/p/a/v1/default/default/shop
  intent: {{ metadata: {{ name: shop }}, spec: {{ app: a, service-name: {service}, externalSupport: true, externalName: shop.gslb.example }} }}
"
        );
        std::fs::write(&file, text).expect("the folder can be written");
    };
    let run = |arguments: &[&str]| {
        let output = server.command(arguments);
        let output_text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), output_text)
    };
    let path = file.to_str().expect("a plain path");
    write("shop");
    let (code, output_text) = run(&["diff", "-f", path]);
    assert!(
        code == Some(4) && output_text.contains("+ {") && output_text.contains("shop.gslb.example"),
        "{output_text}"
    );
    let (code, output_text) = run(&["apply", "-f", path]);
    assert!(code == Some(0) && output_text.contains("created  inbound/p/a/v1/default/default/shop"), "{output_text}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    assert_eq!(run(&["diff", "-f", path]), (Some(0), String::new()));
    write("pay");
    let (code, output_text) = run(&["diff", "-f", path]);
    let lines: Vec<&str> = output_text.lines().map(str::trim).collect();
    let wanted =
        ["inbound/p/a/v1/default/default/shop", "- /spec/serviceName: \"shop\"", "+ /spec/serviceName: \"pay\""];
    assert_eq!((code, &lines[..]), (Some(4), &wanted[..]), "{output_text}");
    assert!(
        resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])),
        "nothing was changed"
    );
    assert_eq!(run(&["apply", "-f", path, "--prune"]).0, Some(0));
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.2"])), "it was");
    let (_, output_text) = run(&["get", "intents"]);
    assert!(output_text.contains("inbound/p/a/v1/default/default/shop  api     served"), "{output_text}");
    let (_, output_text) = run(&["get", "intents", "inbound/p/a/v1/default/default/shop", "--json"]);
    assert!(output_text.contains("\"serviceName\": \"pay\""), "{output_text}");
    // Without the parent, and at an invalid path.
    for (key, why) in [
        ("compound-inbound/p/a/v1/default/default/c/shop", "no compound"),
        ("inbound/p/shop", "is not the key of an intent"),
    ] {
        let text = format!(
            "intents: [{{ key: {key}, intent: {{ metadata: {{ name: shop }}, spec: {{ app: a, serviceName: a }} }} }}]\n"
        );
        std::fs::write(&file, text).expect("the folder can be written");
        let (code, output_text) = run(&["apply", "-f", path]);
        assert!(code == Some(1) && output_text.contains(why), "{output_text}");
    }
    assert_eq!(run(&["apply", "-f", path, "--prune", "--dry-run"]).0, Some(1));
    assert_eq!(run(&["delete", "intents", "inbound/p/a/v1/default/default/shop"]).0, Some(0));
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.rcode == 3), "it is gone");
}

/// Applies intents (key and body) with the command; returns its exit status and output.
fn applied(server: &Fairway, intents: &[Value], arguments: &[&str]) -> (Option<i32>, String) {
    let file = server.folder.path().join("applied.yaml");
    std::fs::write(&file, json!({"intents": intents}).to_string()).expect("the folder can be written");
    let path = file.to_str().expect("a plain path");
    let output = server.command(&[&arguments[..1], &["-f", path], &arguments[1..]].concat());
    (output.status.code(), said(&output))
}

/// Returns an intent of `shop` with its key.
fn item(name: &str) -> Value {
    let said: Value = serde_json::from_str(&intent(name, "shop", &format!("{name}.gslb.example"))).expect("it is JSON");
    json!({"key": key(name), "intent": said})
}

fn key(name: &str) -> String {
    format!("inbound/p/a/v1/default/default/{name}")
}

#[test]
fn prune_removes_only_intents_of_the_same_identity() {
    let mut server = Fairway::start(SCENE, &[]);
    let all = ["stays", "goes", "edited", "again"].map(item);
    assert_eq!(applied(&server, &all, &["apply"]).0, Some(0));
    // Over HTTP the identity differs: with ONAP's path, with the page's path, and with `apply`.
    request(&server, "POST", W, &intent("ordered", "shop", "ordered.gslb.example"), 201);
    request(&server, "PUT", &own("edited"), &intent("edited", "pay", "edited.gslb.example"), 200);
    let theirs = json!({"intents": [item("theirs"), item("mended")]}).to_string();
    request(&server, "POST", "/v1/apply", &theirs, 200);
    request(&server, "PUT", &own("mended"), &intent("mended", "pay", "mended.gslb.example"), 200);
    // An equivalent intent changes nothing and keeps its owner.
    request(&server, "PUT", &own("again"), &intent("again", "shop", "again.gslb.example"), 200);
    let list = request(&server, "GET", "/v1/intents", "", 200);
    let is_applied = |item: &Value| item["metadata"]["applied"] == true;
    let noted: Vec<_> = list["items"].as_array().expect("a list").iter().filter(|item| is_applied(item)).collect();
    let noted: Vec<_> = noted.iter().map(|item| item["key"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(noted, ["again", "goes", "stays", "theirs"].map(key));
    // The owner survives a restart.
    server.process.signal("KILL");
    server.process.ended(LIMIT);
    server.process = serve_again(&server, "again.log");
    server.wait_ready();

    let rest = ["stays", "again"].map(item);
    let (code, text) = applied(&server, &rest, &["diff", "--prune"]);
    let of: Vec<&str> = text.lines().filter(|line| line.starts_with("inbound/")).collect();
    assert!(code == Some(4) && of == [key("goes")] && text.contains("  - {"), "{text}");
    let (code, text) = applied(&server, &rest, &["apply", "--prune", "--dry-run"]);
    assert!(code == Some(0) && text.contains(&format!("deleted  {}", key("goes"))), "{text}");
    let is_answered = |name: &str| {
        let reply = resolve(server.dns, &format!("{name}.gslb.example"));
        reply.expect("an answer").rcode == 0
    };
    assert!(is_answered("goes"), "nothing was changed");
    let (code, text) = applied(&server, &rest, &["apply", "--prune"]);
    assert!(code == Some(0) && text.matches("deleted").count() == 1, "{text}");
    let names = ["stays", "goes", "edited", "again", "ordered", "theirs", "mended"];
    assert_eq!(names.map(is_answered), [true, false, true, true, true, true, true]);
    assert_eq!(applied(&server, &rest, &["diff", "--prune"]), (Some(0), String::new()));

    // The other identity prunes its own intents.
    let pruned = request(&server, "POST", "/v1/apply?prune=true", "{}", 200);
    assert_eq!(pruned["deleted"], json!([key("theirs")]), "{pruned}");
    assert_eq!(names.map(is_answered), [true, false, true, true, true, false, true]);
}

#[test]
fn referenced_intent_is_not_pruned() {
    let server = Fairway::start(SCENE, &[]);
    let compound = json!({"key": "compound/p/a/v1/default/default/all",
        "intent": {"metadata": {"name": "all"}, "spec": {"externalName": "all.gslb.example"}}});
    let child = json!({"key": "compound-inbound/p/a/v1/default/default/all/part", "intent": item("part")["intent"]});
    let both = [compound, child];
    assert_eq!(applied(&server, &[&both[..], &["shop", "mail"].map(item)].concat(), &["apply"]).0, Some(0));
    let client = json!({"metadata": {"name": "office"}, "spec": {"cidrs": ["198.51.100.0/24"]}}).to_string();
    request(&server, "POST", &format!("{W}/mail/clients"), &client, 201);
    let set = json!({"name": "front", "set": [{"inbound": "shop"}]}).to_string();
    request(&server, "POST", W.trim_end_matches("/inbound-intents"), &set, 201);

    for (rest, held, by) in [
        (vec![&both[1]], "compound/p/a/v1/default/default/all", "compound-inbound/p/a/v1/default/default/all/part"),
        (vec![], "inbound/p/a/v1/default/default/mail", "client/p/a/v1/default/default/mail/office"),
        (vec![], "inbound/p/a/v1/default/default/shop", "traffic-set/p/a/v1/front"),
    ] {
        let rest: Vec<Value> = rest.into_iter().cloned().collect();
        for arguments in [&["apply", "--prune"][..], &["apply", "--prune", "--dry-run"], &["diff", "--prune"]] {
            let (code, text) = applied(&server, &rest, arguments);
            assert!(code == Some(1) && text.contains(&format!("{held} is in use by {by}")), "{text}");
        }
    }
    // Parent and child together are referenced by nothing else.
    let rest = ["shop", "mail"].map(item);
    let (code, text) = applied(&server, &rest, &["apply", "--prune"]);
    assert!(code == Some(0) && text.matches("deleted").count() == 2, "{text}");
    assert!(resolve(server.dns, "all.gslb.example").is_some_and(|reply| reply.rcode == 3), "it is gone");
}

#[test]
fn intents_without_policy_leave_an_overloaded_cluster_and_others_keep_their_weights() {
    // Nothing listens there: the source only sets the period, and the loads are pushed.
    let load = format!("services: [shop], capacity: 1000, load: gw, scrape: [\"127.0.0.1:{}\"]", free_port());
    let config = format!(
        "evidence: {{ challenge: false }}
zones: [{{ name: gslb.example, ns: [ns1.example.net], monitor: unchecked }}]
load: [{{ name: gw, type: prometheus, period: 1s }}]
clusters:
  - {{ name: eu1, addresses: [192.0.2.1], {load} }}
  - {{ name: us1, addresses: [192.0.2.2], {load} }}
monitors: [{{ name: unchecked, type: always }}]
"
    );
    let server = Fairway::start(&config, &[]);
    for (name, policy) in [("any", Value::Null), ("fixed", json!("weighted"))] {
        let members = json!([{"cluster": "eu1", "weight": 90}, {"cluster": "us1", "weight": 10}]);
        let gslb = json!({"ttl": 1, "policy": policy, "members": members});
        let spec = json!({"app": "a", "serviceName": "shop", "externalSupport": true,
            "externalName": format!("{name}.gslb.example"), "gslb": gslb});
        let made = request(&server, "POST", W, &json!({"metadata": {"name": name}, "spec": spec}).to_string(), 201);
        let shown = if policy.is_null() { "load, weighted" } else { "weighted" };
        assert_eq!(made["status"]["answered"]["policy"], shown, "{made}");
    }
    prove_source(server.dns, [127, 0, 0, 1].into(), "any.gslb.example");
    let socket = connect(server.dns);
    // Of 60 client networks, the percentage that is answered with eu1.
    let part = |name: &str| {
        let is_first = |network: &u8| {
            let edns = Some(Opt { options: vec![(ECS, vec![0, 1, 24, 0, 198, 18, *network])], ..Opt::default() });
            let name = format!("{name}.gslb.example").parse().expect("a name");
            let id = u16::from(*network);
            socket.send(&Query { id, edns, ..Query::new(name, Rtype::A) }.encode()).expect("loopback takes it");
            let reply = receive(&socket, id).and_then(|octets| Reply::read(&octets)).expect("it is answered");
            reply.is(&["192.0.2.1"])
        };
        (0..60).filter(is_first).count() * 100 / 60
    };
    let (any, fixed) = (part("any"), part("fixed"));
    assert!(any > 80 && fixed > 80, "{any} and {fixed} % without a load");
    // Together 75 % of what both clusters carry, of which the weights give the first one 135 %.
    let mut sequence = 0;
    let mut report = |percent: usize| {
        sequence += 1;
        for (cluster, used) in [("eu1", 15 * percent), ("us1", 15 * (100 - percent))] {
            let body = json!({"used": used, "sequence": sequence, "validFor": "60s"}).to_string();
            let (status, _, text) = ask(&server, "PUT", &format!("/v1/load/{cluster}"), "", &body);
            assert!(status < 300, "{status}: {text}");
        }
    };
    wait_until("the first cluster is below its capacity", 2 * LIMIT, || {
        let percent = part("any");
        report(percent);
        percent < 66
    });
    assert_eq!(part("fixed"), fixed, "by weight as before");
}
