//! Intents on a running server: what their answers say of them, and what a dry run tells.

use fairway_integration::{load::resolve, real::Fairway};
use serde_json::{Value, json};

use super::{once::ask, watch::Watcher};

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

fn told(server: &Fairway, method: &str, path: &str, body: &str, status: u16) -> Value {
    let (code, _, text) = ask(server, method, path, "", body);
    assert_eq!(code, status, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// What is said of a condition: its status and reason.
fn condition<'a>(intent: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let all = intent["status"]["conditions"].as_array().expect("an intent has conditions");
    let of = all.iter().find(|of| of["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {all:?}"));
    let text = |key: &str| of[key].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn an_intent_says_where_it_is_answered_by_whom_and_who_else_claims_its_name() {
    let server = Fairway::start(SCENE, &[]);
    let dry = told(&server, "PUT", &format!("{W}/shop?dryRun=true"), &intent("shop", "shop", "shop.gslb.example"), 200);
    assert_eq!(dry["created"], json!(["inbound/p/a/v1/default/default/shop"]), "{dry}");
    assert!(dry["dryRun"] == true && !dry["effect"].as_array().unwrap().is_empty(), "{dry}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.rcode == 3), "nothing was written");

    let made = told(&server, "POST", W, &intent("shop", "shop", "shop.gslb.example"), 201);
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    assert_eq!(condition(&made, "Accepted"), ("True", "Fits", ""));
    assert_eq!(condition(&made, "Conflict"), ("False", "None", ""));
    assert_eq!(condition(&made, "Ready"), ("True", "InTheAnswers", ""));
    let status = &made["status"];
    assert_eq!((&status["observedGeneration"], &status["answered"]["name"]), (&json!(1), &json!("shop.gslb.example.")));
    let member = json!({"cluster": "eu1", "eligible": true, "reason": "up", "tier": 1, "share": 100.0,
        "weight": {"effective": 1, "source": "services"}});
    assert_eq!(status["members"], json!([member]), "{status}");

    // A younger one with the same name, seen over the other family of paths: its members join, and both say so.
    let younger = told(&server, "POST", E, &intent("late", "pay", "shop.gslb.example"), 201);
    let (is, why, words) = condition(&younger, "Conflict");
    assert!((is, why) == ("True", "Overruled") && words.contains("/shop, which is older"), "{words}");
    assert_eq!(condition(&younger, "Accepted"), ("True", "JoinedAnother", ""));
    let older = told(&server, "GET", &format!("{E}/shop"), "", 200);
    let (is, why, words) = condition(&older, "Conflict");
    assert!((is, why) == ("True", "Holds") && words.contains("default/late claim"), "{words}");
    let sources = older["status"]["members"].as_array().unwrap().iter();
    let sources: Vec<_> = sources.map(|of| (of["cluster"].clone(), of["weight"]["source"].clone())).collect();
    assert_eq!(sources, [(json!("eu1"), json!("services")), (json!("us1"), json!("another intent"))]);
    let listed = told(&server, "GET", W, "", 200);
    assert_eq!(listed[1]["status"], older["status"], "a list says it too");

    // What comes to nothing says why, also before it is written.
    for (name, service, external, why) in
        [("none", "nobody", "none.gslb.example", "no declared cluster"), ("far", "shop", "far.example.org", "zone")]
    {
        let body = intent(name, service, external);
        let dry = told(&server, "POST", &format!("{W}?dryRun=true"), &body, 200);
        assert!(dry["notAccepted"][0].as_str().is_some_and(|text| text.contains(why)), "{dry}");
        let made = told(&server, "POST", W, &body, 201);
        let (is, reason, words) = condition(&made, "Accepted");
        assert!((is, reason) == ("False", "DoesNotFit") && words.contains(why), "{words}");
        assert_eq!(condition(&made, "Ready").1, "LeftOut");
        assert!(made["status"].get("answered").is_none());
    }
    let inner = json!({"metadata": {"name": "in"}, "spec": {"app": "a", "serviceName": "shop"}}).to_string();
    assert_eq!(condition(&told(&server, "POST", W, &inner, 201), "Ready").1, "NotExternal");
    let dry = told(&server, "DELETE", &format!("{W}/shop?dryRun=true"), "", 200);
    assert_eq!(dry["deleted"], json!(["inbound/p/a/v1/default/default/shop"]), "{dry}");
    // What GET gives, PUT takes.
    told(&server, "PUT", &format!("{W}/shop"), &older.to_string(), 200);
}

/// Fairway's own path of the intent that W calls by `NAME`.
fn own(name: &str) -> String {
    format!("/v1/intents/inbound/p/a/v1/default/default/{name}")
}

#[test]
fn intents_of_all_projects_are_listed_by_their_keys_and_changed_there() {
    let server = Fairway::start(SCENE, &[]);
    let mut watcher = Watcher::at(server.http, "/v1/intents?watch=true&project=p", "");
    assert_eq!(watcher.status(), "200 OK");
    let body = intent("shop", "shop", "shop.gslb.example");
    let (code, _, text) = ask(&server, "PUT", &format!("{}?reason=it+opens", own("shop")), "", &body);
    assert_eq!(code, 201, "{text}");
    assert!(resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    let other = W.replace("/p/", "/q/");
    told(&server, "POST", &other, &intent("pay", "pay", "pay.gslb.example"), 201);
    told(&server, "POST", W, &intent("mail", "pay", "mail.gslb.example"), 201);

    let keys = |query: &str| {
        let list = told(&server, "GET", &format!("/v1/intents{query}"), "", 200);
        let keys = list["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned());
        (keys.collect::<Vec<_>>(), list["next"].clone())
    };
    let key = |project: &str, name: &str| format!("inbound/{project}/a/v1/default/default/{name}");
    let all = vec![key("p", "mail"), key("p", "shop"), key("q", "pay")];
    assert_eq!(keys(""), (all.clone(), Value::Null));
    assert_eq!(keys("?limit=2"), (all[..2].to_vec(), json!(all[1])));
    assert_eq!(keys(&format!("?after={}", all[1])), (all[2..].to_vec(), Value::Null));
    assert_eq!(keys("?project=q"), (all[2..].to_vec(), Value::Null));
    assert_eq!(keys("?contains=Shop.gslb"), (vec![all[1].clone()], Value::Null), "by the name that is answered");
    told(&server, "GET", "/v1/intents?limit=0", "", 400);

    let list = told(&server, "GET", "/v1/intents?contains=shop", "", 200);
    let item = &list["items"][0];
    let one = told(&server, "GET", &own("shop"), "", 200);
    assert_eq!((&item["intent"], &item["metadata"]["reason"]), (&one, &json!("it opens")));
    assert_eq!(told(&server, "GET", &format!("{W}/shop"), "", 200), one, "the same object as on the other paths");

    let (_, made) = watcher.event("changed");
    assert_eq!((&made["key"], condition(&made["intent"], "Ready").0), (&json!(all[1]), "True"));
    told(&server, "DELETE", &own("shop"), "", 204);
    // What another project has made in between is none of this watcher's.
    assert_eq!(watcher.event("changed").1["key"], all[0]);
    assert_eq!(watcher.event("deleted").1["name"], all[1]);
}
