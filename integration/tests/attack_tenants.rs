//! Tenants that reach for names of others: projects of the API, and owners of the webhook, each with a token of its own.

use std::{
    net::SocketAddr,
    time::{Duration, Instant, SystemTime},
};

use fairway_access::TokenHash;
use fairway_integration::{
    load::{Reply, resolve, wait_answer},
    query::{ECS, Opt, Query},
    real::{self, Fairway, Process, ask, free_port, serve, wait_until},
};
use fairway_model::Rtype;
use serde_json::{Value, json};

/// Longest wait for an event that must come.
const LIMIT: Duration = Duration::from_secs(30);
/// A DS record with an invented digest.
const DS: &str = "12345 13 2 5253543132333435363738393031323334353637383930313233343536373839";
const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";
/// Names of the configuration, which nobody else may change.
const SCENE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net], monitor: unchecked }]
monitors: [{ name: unchecked, type: always }]
clusters:
  - { name: c1, addresses: [192.0.2.1], services: [shop] }
  - { name: c2, addresses: [192.0.2.2], services: [evil] }
";

/// A server whose tenants are `bank` and `evil`, projects and webhook owners.
struct Server {
    fairway: Fairway,
    webhook: SocketAddr,
}

/// Returns the configuration with grants of names, and `more` at its end.
fn config(webhook: SocketAddr, names: &str, more: &str) -> String {
    let hash = |who: &str| TokenHash::of(who);
    let tokens = ["bank", "evil", "ops"].map(|who| format!("{{ name: {who}, sha256: {} }}", hash(who))).join(", ");
    format!(
        "{SCENE}{more}
webhook:
  listen: \"{webhook}\"
  shared: merge
  owners: [{{ name: bank, token: {} }}, {{ name: evil, token: {} }}]
access:
  tokens: [{tokens}]
  limits: {{ perSecond: 10000, burst: 10000, failuresPerMinute: 10000 }}
  grants:
    - {{ role: editor, to: [\"token:bank\"], projects: [bank] }}
    - {{ role: editor, to: [\"token:evil\"], projects: [evil] }}
    - {{ role: admin, to: [\"token:ops\"] }}
  names:
{names}
",
        hash("owner-bank"),
        hash("owner-evil")
    )
}

/// Grants of each tenant for a domain of its own.
const SEPARATE: &str = "    - { to: [\"project:bank\", \"owner:bank\"], domains: [bank.gslb.example] }
    - { to: [\"project:evil\", \"owner:evil\"], domains: [evil.gslb.example] }";
/// Both tenants share one domain.
const SHARED: &str =
    "    - { to: [\"project:bank\", \"project:evil\", \"owner:bank\", \"owner:evil\"], domains: [gslb.example] }";

impl Server {
    fn start(names: &str, more: &str) -> Self {
        let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let server = Self { fairway: Fairway::start(&config(webhook, names, more), &[]), webhook };
        wait_until("the webhook is open", LIMIT, || server.records("bank", "owner-bank").0 == 200);
        server
    }

    /// Kills the server, and starts it on the same folder.
    fn restart(&mut self) {
        let fairway = &mut self.fairway;
        fairway.process.signal("KILL");
        fairway.process.ended(LIMIT);
        let folder = fairway.folder.path();
        fairway.process = Process::start(&mut serve(folder), &folder.join("fairway.log"));
        fairway.wait_ready();
    }

    /// Puts an intent of a project, with the project's token.
    fn put(&self, project: &str, name: &str, external: &str, gslb: &Value) -> Value {
        let spec = json!({"app": "a", "serviceName": "shop", "externalSupport": true, "externalName": external,
            "gslb": gslb});
        let body = json!({"metadata": {"name": name}, "spec": spec}).to_string();
        let (status, text) =
            call(self.fairway.http, "PUT", &intent_path(project, name), project, "application/json", &body);
        assert!(matches!(status, 200 | 201), "{status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Returns an intent, read with the token of the operator.
    fn intent(&self, project: &str, name: &str) -> Value {
        let (_, text) = call(self.fairway.http, "GET", &intent_path(project, name), "ops", "application/json", "");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Calls the webhook at a base path with a token.
    fn apply(&self, owner: &str, token: &str, changes: &Value) -> u16 {
        let path = format!("/owners/{owner}/records");
        call(self.webhook, "POST", &path, token, MEDIA_TYPE, &changes.to_string()).0
    }

    fn records(&self, owner: &str, token: &str) -> (u16, String) {
        call(self.webhook, "GET", &format!("/owners/{owner}/records"), token, MEDIA_TYPE, "")
    }

    /// Creates endpoints of an owner, with the owner's token.
    fn create(&self, owner: &str, endpoints: &[Value]) {
        assert_eq!(self.apply(owner, &format!("owner-{owner}"), &json!({"create": endpoints})), 204);
    }

    /// Returns the contributions of an owner, by set identifier.
    fn contributions(&self, owner: &str) -> Vec<Value> {
        let (status, text) = call(self.fairway.http, "GET", "/v1/contributions", "ops", "application/json", "");
        assert_eq!(status, 200, "{text}");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let of_owner = all["items"].as_array().expect("items").iter().filter(|item| item["owner"] == owner);
        of_owner.cloned().collect()
    }

    /// Returns the warnings of an owner.
    fn warnings(&self, owner: &str) -> String {
        self.contributions(owner).iter().map(|item| item["warnings"].to_string()).collect()
    }

    /// Returns status, reason and message of the condition `Conflict` of an owner with one contribution.
    fn owner_conflict(&self, owner: &str) -> (String, String, String) {
        let [contribution] = &self.contributions(owner)[..] else { panic!("{owner} has several contributions") };
        condition(&json!({ "status": contribution }), "Conflict")
    }

    /// Asks for the address of a name as a client network.
    fn ask_from(&self, name: &str, network: [u8; 3]) -> Reply {
        let subnet = [&[0, 1, 24, 0], &network[..]].concat();
        let edns = Opt { options: vec![(ECS, subnet)], ..Opt::default() };
        let query = Query { id: 7, edns: Some(edns), ..Query::new(name.parse().expect("a name"), Rtype::A) };
        Reply::read(&ask(self.fairway.dns, &query.encode()).expect("an answer")).expect("a response")
    }

    /// Checks that every one of 200 client networks gets one address.
    fn expect_for_all(&self, name: &str, address: &str) {
        let networks = (0..200).map(|number| [198, 18, number]);
        let others = networks.filter(|network| !self.ask_from(name, *network).is(&[address])).count();
        assert_eq!(others, 0, "of 200 client networks get another address for {name}");
    }
}

fn intent_path(project: &str, name: &str) -> String {
    format!("/v2/projects/{project}/composite-apps/a/v1/traffic-intent-set/inbound-intents/{name}")
}

fn endpoint(name: &str, rtype: &str, target: &str, owner: &str) -> Value {
    json!({"dnsName": name, "recordType": rtype, "targets": [target], "recordTTL": 30, "setIdentifier": owner})
}

/// Returns status, reason and message of a condition.
fn condition(intent: &Value, kind: &str) -> (String, String, String) {
    let all = intent["status"]["conditions"].as_array().expect("an intent has conditions");
    let of = all.iter().find(|of| of["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {all:?}"));
    let text = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Sends a request with a token; returns status and body.
fn call(server: SocketAddr, method: &str, path: &str, token: &str, media_type: &str, body: &str) -> (u16, String) {
    real::call(server, &format!("{method} {path}"), (token, media_type), body, LIMIT).unwrap_or_default()
}

const HEAVY: &str = r#"{"members": [{"cluster": "c2", "weight": 65535}]}"#;

fn heavy() -> Value {
    serde_json::from_str(HEAVY).expect("JSON")
}

#[test]
fn project_takes_no_client_and_no_name_of_another_project() {
    let server = Server::start(SEPARATE, "");
    let made = server.put("bank", "shop", "shop.bank.gslb.example", &json!({}));
    assert_eq!(condition(&made, "Ready").1, "Served", "{made}");
    for (number, name) in
        ["shop.bank.gslb.example", "*.bank.gslb.example", "gslb.example", "ns1.gslb.example"].into_iter().enumerate()
    {
        let stolen = server.put("evil", &format!("e{number}"), name, &heavy());
        let (is, reason, message) = condition(&stolen, "Accepted");
        assert!((is.as_str(), reason.as_str()) == ("False", "NotGranted"), "{name}: {stolen}");
        assert!(message.contains(&format!("domains: [{name}]")), "{message}");
        let (is, reason, _) = condition(&stolen, "Ready");
        assert_eq!((is.as_str(), reason.as_str()), ("False", "NotGranted"));
        assert!(!stolen["status"].to_string().contains("bank/"), "it learns nothing of the other tenant: {stolen}");
    }
    server.expect_for_all("shop.bank.gslb.example", "192.0.2.1");
    let bank = server.intent("bank", "shop");
    assert_eq!(condition(&bank, "Conflict").1, "NoConflict", "{bank}");
    assert!(resolve(server.fairway.dns, "ns1.gslb.example").is_some_and(|reply| reply.rcode == 3));
    // What is granted works.
    server.put("evil", "own", "own.evil.gslb.example", &heavy());
    wait_answer(server.fairway.dns, "own.evil.gslb.example", &["192.0.2.2"], LIMIT);
}

#[test]
fn older_intent_without_a_grant_does_not_keep_a_name_from_its_tenant() {
    let server = Server::start(SEPARATE, "");
    server.put("evil", "first", "shop.bank.gslb.example", &heavy());
    server.put("bank", "shop", "shop.bank.gslb.example", &json!({}));
    server.expect_for_all("shop.bank.gslb.example", "192.0.2.1");
}

#[test]
fn projects_that_are_both_granted_a_name_share_it() {
    let server = Server::start(SHARED, "");
    server.put("bank", "shop", "shop.gslb.example", &json!({}));
    let joined = server.put("evil", "shop", "shop.gslb.example", &json!({"members": [{"cluster": "c2"}]}));
    assert_eq!(condition(&joined, "Accepted").1, "JoinedAnother", "{joined}");
    let is_shared = |server: &Server| server.intent("bank", "shop")["status"]["members"].as_array().map(Vec::len);
    assert_eq!(is_shared(&server), Some(2));
    // Once the grant is gone, the members are gone too.
    server.fairway.write_config(&config(server.webhook, &SHARED.replace("\"project:evil\", ", ""), ""));
    wait_until("the other project's member is gone", LIMIT, || is_shared(&server) == Some(1));
    server.expect_for_all("shop.gslb.example", "192.0.2.1");
    assert_eq!(condition(&server.intent("evil", "shop"), "Ready").1, "NotGranted");
}

#[test]
fn owner_reads_writes_and_deletes_its_own_rows_only() {
    let server = Server::start(SHARED, "");
    let row = endpoint("db.gslb.example", "A", "192.0.2.77", "bank");
    server.create("bank", std::slice::from_ref(&row));
    wait_answer(server.fairway.dns, "db.gslb.example", &["192.0.2.77"], LIMIT);
    for token in ["owner-evil", "evil", "ops", ""] {
        assert_eq!(server.records("bank", token).0, 401, "{token:?} reads");
        assert_eq!(server.apply("bank", token, &json!({"delete": [row]})), 401, "{token:?} deletes");
        let create = json!({"create": [endpoint("x.gslb.example", "A", "192.0.2.66", "")]});
        assert_eq!(server.apply("bank", token, &create), 401, "{token:?} writes");
    }
    // Neither at another base path, nor without one.
    assert_eq!(server.records("north", "owner-evil").0, 401);
    assert_eq!(call(server.webhook, "GET", "/records", "owner-evil", MEDIA_TYPE, "").0, 401);
    for path in ["/owners/bank/", "//owners/bank/records", "/owners/b%61nk/records", "/owners/evil/../bank/records"] {
        let (status, body) = call(server.webhook, "GET", path, "owner-evil", MEDIA_TYPE, "");
        assert!(status >= 400 && !body.contains("192.0.2.77"), "{path}: {status} {body}");
    }
    // The row is not the other owner's to delete at its own path either.
    assert_eq!(server.apply("evil", "owner-evil", &json!({"delete": [row]})), 204);
    assert!(!server.records("evil", "owner-evil").1.contains("db.gslb.example"));
    assert!(server.records("bank", "owner-bank").1.contains("192.0.2.77"));
    assert!(resolve(server.fairway.dns, "db.gslb.example").is_some_and(|reply| reply.is(&["192.0.2.77"])));
}

#[test]
fn owner_claims_only_granted_names_and_types() {
    let server = Server::start(SEPARATE, "");
    server.create("bank", &[endpoint("db.bank.gslb.example", "A", "192.0.2.77", "bank")]);
    server.create(
        "evil",
        &[
            endpoint("db.bank.gslb.example", "A", "192.0.2.66", "evil"),
            endpoint("bank.gslb.example", "NS", "ns.evil.example", "evil"),
            endpoint("bank.gslb.example", "DNAME", "evil.gslb.example", "evil"),
            endpoint("bank.gslb.example", "DS", DS, "evil"),
            endpoint("_acme-challenge.db.bank.gslb.example", "TXT", "stolen", "evil"),
            endpoint("_acme-challenge.evil.gslb.example", "TXT", "own", "evil"),
            endpoint("evil.gslb.example", "NS", "ns.evil.example", "evil"),
            endpoint("evil.gslb.example", "DS", DS, "evil"),
            endpoint("own.evil.gslb.example", "A", "192.0.2.65", "evil"),
        ],
    );
    wait_answer(server.fairway.dns, "own.evil.gslb.example", &["192.0.2.65"], LIMIT);
    server.expect_for_all("db.bank.gslb.example", "192.0.2.77");
    let warnings = server.warnings("evil");
    for claim in [
        "owner:evil may not claim db.bank.gslb.example. A",
        "owner:evil may not claim bank.gslb.example. NS",
        "owner:evil may not claim bank.gslb.example. DNAME",
        "owner:evil may not claim bank.gslb.example. DS",
        "owner:evil may not claim _acme-challenge.db.bank.gslb.example. TXT",
        "owner:evil may not claim _acme-challenge.evil.gslb.example. TXT",
        "owner:evil may not claim evil.gslb.example. NS",
        "owner:evil may not claim evil.gslb.example. DS",
    ] {
        assert!(warnings.contains(claim), "{claim} is not in {warnings}");
    }
    assert!(warnings.contains("types: [TXT, _acme-challenge]"), "{warnings}");
    let (_, domains) = call(server.webhook, "GET", "/owners/evil", "owner-evil", MEDIA_TYPE, "");
    assert!(domains.contains("evil.gslb.example") && !domains.contains("bank"), "{domains}");
}

#[test]
fn check_names_grants_that_grant_nothing() {
    let server = Server::start(SEPARATE, "");
    let names = "    - { to: [\"project:bank\"], domains: [bank.gslb.example] }";
    server.fairway.write_config(&config(server.webhook, names, ""));
    let config = server.fairway.folder.path().join("fairway.yaml");
    let output = std::process::Command::new(real::fairway_binary()).arg("check").arg(config).output().expect("it runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    for wanted in [
        "project:evil may claim no name",
        "access.names: { to: [\"project:evil\"], domains: [gslb.example] }",
        "owner:bank may claim no name",
        "owner:evil may claim no name",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
    assert!(!text.contains("project:bank may"), "{text}");
}

/// A name of the configuration with a pool of its own.
const SITE: &str = "pools: [{ name: site, policy: weighted, monitor: unchecked, members: [{ cluster: c1 }] }]
names: [{ name: site.gslb.example, pool: site }]";

#[test]
fn name_of_the_configuration_takes_members_only_if_its_pool_allows_it() {
    let server = Server::start(SHARED, SITE);
    server.create("evil", &[endpoint("site.gslb.example", "A", "192.0.2.66", "evil")]);
    let pool = json!({"name": "site", "policy": "weighted", "members": [{"cluster": "c2", "weight": 65535}]});
    let http = server.fairway.http;
    let (status, text) = call(http, "PUT", "/v1/pools/site", "ops", "application/json", &pool.to_string());
    assert!(status == 201 && text.contains("takes no members from elsewhere"), "{status} {text}");
    server.expect_for_all("site.gslb.example", "192.0.2.1");
    let warnings = server.warnings("evil");
    assert!(warnings.contains("pool site of site.gslb.example. takes no members from elsewhere"), "{warnings}");
    let open = SITE.replace("members:", "contributions: allow, members:");
    server.fairway.write_config(&config(server.webhook, SHARED, &open));
    wait_until("the members are used", LIMIT, || !server.warnings("evil").contains("takes no members"));
    let answers: Vec<Reply> = (0..200).map(|number| server.ask_from("site.gslb.example", [198, 18, number])).collect();
    assert!(answers.iter().any(|reply| reply.is(&["192.0.2.2"])), "the heaviest member is answered");
}

/// Waits until records are younger than those before: their age has seconds.
fn wait_for_the_next_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let begun = second();
    wait_until("the next second", LIMIT, || second() > begun);
}

/// Checks the conditions of both owners, and that the command line shows them.
fn expect_conflicts(server: &Server) {
    let (is, reason, message) = server.owner_conflict("evil");
    assert!((is.as_str(), reason.as_str()) == ("True", "RecordsRejected"), "{is} {reason} {message}");
    assert!(message.contains("rejected: bank.gslb.example. NS would hide other records"), "{message}");
    let (is, reason, message) = server.owner_conflict("bank");
    assert!((is.as_str(), reason.as_str()) == ("True", "HidingRejected"), "{is} {reason} {message}");
    assert!(message.contains("db.bank.gslb.example: NS records that another owner contributes"), "{message}");
    let listed = server.fairway.command(&["contributions"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for shown in ["evil : rejected: ", "bank : db.bank.gslb.example: NS records that another owner"] {
        assert!(listed.contains(shown), "{shown} is not in {listed}");
    }
}

#[test]
fn record_that_would_hide_names_of_others_is_rejected_with_a_condition_on_both_sides() {
    let names = format!(
        "{SHARED}\n    - {{ to: [\"owner:evil\"], domains: [gslb.example], types: [A, CNAME, NS, DNAME, TXT] }}"
    );
    let server = Server::start(&names, SITE);
    server.put("bank", "shop", "shop.bank.gslb.example", &json!({}));
    // Without set identifiers: a CNAME with one is a member.
    server.create(
        "bank",
        &[
            endpoint("db.bank.gslb.example", "A", "192.0.2.77", ""),
            endpoint("alias.gslb.example", "CNAME", "db.bank.gslb.example", ""),
        ],
    );
    wait_answer(server.fairway.dns, "db.bank.gslb.example", &["192.0.2.77"], LIMIT);
    assert_eq!(server.owner_conflict("bank"), ("False".to_owned(), "NoConflict".to_owned(), String::new()));
    wait_for_the_next_second();
    server.create(
        "evil",
        &[
            endpoint("bank.gslb.example", "NS", "ns.evil.example", ""),
            endpoint("bank.gslb.example", "DNAME", "evil.example", ""),
            endpoint("db.bank.gslb.example", "NS", "ns.evil.example", ""),
            endpoint("db.bank.gslb.example", "CNAME", "www.evil.example", ""),
            endpoint("site.gslb.example", "CNAME", "www.evil.example", ""),
            endpoint("shop.bank.gslb.example", "NS", "ns.evil.example", ""),
            endpoint("alias.gslb.example", "A", "192.0.2.66", ""),
            endpoint("own.gslb.example", "A", "192.0.2.65", ""),
        ],
    );
    wait_answer(server.fairway.dns, "own.gslb.example", &["192.0.2.65"], LIMIT);
    server.expect_for_all("db.bank.gslb.example", "192.0.2.77");
    server.expect_for_all("shop.bank.gslb.example", "192.0.2.1");
    server.expect_for_all("site.gslb.example", "192.0.2.1");
    server.expect_for_all("alias.gslb.example", "192.0.2.77");
    let (evil, bank) = (server.warnings("evil"), server.warnings("bank"));
    for wanted in [
        "bank.gslb.example. NS would hide other records",
        "bank.gslb.example. DNAME would hide other records",
        "db.bank.gslb.example. NS would hide other records",
        "other records are contributed to the name",
        "bank contributed a CNAME first",
    ] {
        assert!(evil.contains(wanted), "{wanted} is not in {evil}");
    }
    for wanted in [
        "contributes to db.bank.gslb.example. are rejected, because they would hide this name",
        "a CNAME of evil is rejected",
        "younger records of evil at the name are rejected",
    ] {
        assert!(bank.contains(wanted), "{wanted} is not in {bank}");
    }
    expect_conflicts(&server);
    let shop = server.intent("bank", "shop");
    let (is, reason, message) = condition(&shop, "Conflict");
    assert!((is.as_str(), reason.as_str()) == ("True", "HidingRejected"), "{shop}");
    assert!(message.contains("shop.bank.gslb.example"), "{message}");
    let log = std::fs::read_to_string(server.fairway.folder.path().join("fairway.log")).expect("a log");
    assert!(log.contains("contributed records rejected"), "{log}");
}

#[test]
fn intent_says_what_nothing_enforces() {
    let server = Server::start(SEPARATE, "");
    let made = server.put("bank", "shop", "shop.bank.gslb.example", &json!({}));
    assert!(!made["status"].to_string().contains("Enforced"), "{made}");
    let http = server.fairway.http;
    let put = |path: &str, body: &Value| call(http, "PUT", path, "bank", "application/json", &body.to_string());
    let client = format!("{}/clients/c", intent_path("bank", "shop"));
    let spec = json!({"app": "a", "serviceName": "x", "namespaces": ["n"]});
    let (status, text) = put(&client, &json!({"metadata": {"name": "c"}, "spec": spec}));
    assert!(status == 201 && text.contains("NotRendered") && text.contains("spec.namespaces"), "{status} {text}");
    let point = json!({"metadata": {"name": "p"}, "spec": {"action": "DENY", "url": ["/admin"]}});
    let path = format!("{client}/access-points/p");
    let (status, text) = put(&path, &point);
    assert!(status == 422 && text.contains("/spec/action") && text.contains("?inert=true"), "{status} {text}");
    let (status, text) = put(&format!("{path}?inert=true"), &point);
    assert!(status == 201 && text.contains("\"Enforced\"") && text.contains("NotRendered"), "{status} {text}");
}

#[test]
fn name_in_use_changes_hands_after_its_ttl_also_if_the_server_restarts() {
    let mut server = Server::start(SHARED, "");
    let dns = server.fairway.dns;
    server.put("bank", "shop", "shop.gslb.example", &json!({"ttl": "20s"}));
    let row = json!({"dnsName": "db.gslb.example", "recordType": "A", "targets": ["192.0.2.77"], "recordTTL": 20});
    server.create("bank", std::slice::from_ref(&row));
    wait_answer(dns, "db.gslb.example", &["192.0.2.77"], LIMIT);
    let begun = Instant::now();
    let path = intent_path("bank", "shop");
    assert_eq!(call(server.fairway.http, "DELETE", &path, "bank", "application/json", "").0, 204);
    assert_eq!(server.apply("bank", "owner-bank", &json!({"delete": [row]})), 204);
    let taken = server.put("evil", "shop", "shop.gslb.example", &heavy());
    let (is, reason, message) = condition(&taken, "Ready");
    assert!((is.as_str(), reason.as_str()) == ("False", "TakeOver"), "{taken}");
    assert!(message.contains("was in use by another tenant"), "{message}");
    server.create("evil", &[endpoint("db.gslb.example", "A", "192.0.2.66", "evil")]);
    wait_until("the owner is warned", LIMIT, || server.warnings("evil").contains("was in use by another tenant"));
    let is_answered = |name: &str| resolve(dns, name).is_none_or(|reply| reply.rcode == 0);
    assert!(!is_answered("shop.gslb.example") && !is_answered("db.gslb.example"), "neither is answered yet");
    server.restart();
    assert!(begun.elapsed() < Duration::from_secs(18), "the restart took too long to show anything");
    assert!(
        !is_answered("shop.gslb.example") && !is_answered("db.gslb.example"),
        "neither is answered after a restart"
    );
    assert_eq!(condition(&server.intent("evil", "shop"), "Ready").1, "TakeOver");
    wait_answer(dns, "shop.gslb.example", &["192.0.2.2"], LIMIT);
    wait_answer(dns, "db.gslb.example", &["192.0.2.66"], LIMIT);
    // The times have seconds.
    assert!(begun.elapsed() >= Duration::from_secs(19), "{:?}", begun.elapsed());
    assert_eq!(condition(&server.intent("evil", "shop"), "Ready").1, "Served");
    assert!(!server.warnings("evil").contains("was in use"));
}
