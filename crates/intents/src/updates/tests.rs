//! What records come to: each provider, each flaw, and what none of them can have.

use std::{net::SocketAddr, path::Path, time::Duration};

use fairway_etcd::Settings;
use fairway_http::{Tls, Url};
use fairway_model::{Name, Secret, intent::Intent};
use fairway_providers::{
    publish::{Affix, Bounds, Ownership, Pacing, Policy, Rules, Weights},
    rfc2136::{TsigAlgorithm, TsigKey},
};
use serde_json::{Value, json};

use super::{Site, instance, publish_to};
use crate::{
    body::{read, read_kept},
    fault::Refused,
};
use fairway_config::{Destination, PublishTo, Steered};
use fairway_store::objects::Kind;

const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0cy0zMi1vY3RldHMhIQ==";

fn body(provider: &str, parameters: &Value) -> Vec<u8> {
    let spec = json!({"provider": provider, "external-dns-parameters": parameters});
    json!({"metadata": {"name": "r"}, "spec": spec}).to_string().into_bytes()
}

/// The server that runs what is declared.
fn site() -> Site<'static> {
    Site { project: "shop", owner: "us", data_dir: Some(Path::new("/data")) }
}

fn run(intent: &Intent, site: &Site<'_>) -> Option<Result<PublishTo, Refused>> {
    let Intent::DnsUpdateRecord(record) = intent else { panic!("{intent:?}") };
    publish_to(record, site)
}

fn taken(provider: &str, parameters: Value) -> PublishTo {
    let intent = read(Kind::DnsUpdateRecord, &body(provider, &parameters), None);
    let intent = intent.unwrap_or_else(|refused| panic!("{parameters}: {refused}"));
    run(&intent, &site()).unwrap().unwrap_or_else(|refused| panic!("{parameters}: {refused}"))
}

fn refused(provider: &str, parameters: Value) -> Vec<(String, String)> {
    let read = read(Kind::DnsUpdateRecord, &body(provider, &parameters), None);
    let Err(Refused { faults, .. }) = read else { panic!("{provider} {parameters} is taken") };
    faults.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
}

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn url(text: &str) -> Url {
    Url::parse_base(text).unwrap()
}

/// What a record comes to that says no more than it must: what `publish` of a configuration has by default.
fn plain(zones: &[&str], destination: Destination) -> PublishTo {
    let owner = "us/shop/r".to_owned();
    PublishTo {
        name: "shop/r".to_owned(),
        rules: Rules {
            zones: names(zones),
            policy: Policy::Sync,
            ownership: Ownership::Txt { affix: Affix::default(), owner, key: None },
            bounds: Bounds::default(),
        },
        pacing: Pacing::default(),
        auto: true,
        destination,
        steered: Steered::OfProject { project: "shop".to_owned(), within: vec![], without: vec![] },
        records: false,
        aliases: vec![],
        fixed: vec![],
        served: vec![],
    }
}

fn rfc2136(more: Value) -> Value {
    let mut all = json!({"rfc2136-host": "192.0.2.53", "rfc2136-zone": "example.com", "rfc2136-tsig-keyname": "fairway",
        "rfc2136-tsig-secret": SECRET});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

#[test]
fn a_record_comes_to_what_the_section_publish_has_by_default() {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let key =
        TsigKey { name: "fairway".parse().unwrap(), algorithm: TsigAlgorithm::Sha256, secret: Secret::new(SECRET) };
    let server: SocketAddr = "192.0.2.53:53".parse().unwrap();
    let zone = &["example.com"];
    let to = |destination| plain(zone, destination);
    assert_eq!(
        taken("rfc2136", rfc2136(json!({}))),
        to(Destination::Rfc2136 { server, key: Some(key), timeout: TIMEOUT })
    );
    assert_eq!(
        taken(
            "rfc2136",
            json!({"host": "[2001:db8::53]", "--port": 5353, "domain-filter": "example.com", "insecure": true})
        ),
        to(Destination::Rfc2136 { server: "[2001:db8::53]:5353".parse().unwrap(), key: None, timeout: TIMEOUT })
    );
    let powerdns = json!({"pdns-server": "http://192.0.2.53:8081", "pdns-api-key": "hush", "domain-filter": "example.com",
        "pdns-server-id": "localhost", "pdns-skip-tls-verify": false});
    let destination =
        Destination::PowerDns { url: url("http://192.0.2.53:8081"), key: Secret::new("hush"), timeout: TIMEOUT };
    assert_eq!(taken("pdns", powerdns), to(destination));
    let endpoints = ["http://a:2379", "http://b:2379"].map(|url| url.parse().unwrap()).into();
    let user = Some(("root".to_owned(), Secret::new("hush")));
    let destination = Destination::Etcd {
        prefix: "/skydns/".to_owned(),
        etcd: Settings::new(endpoints, Tls::default(), user, TIMEOUT),
    };
    let etcd = json!({"etcd-urls": "http://a:2379, http://b:2379", "etcd-username": "root", "etcd-password": "hush",
        "coredns-prefix": "skydns", "domain-filter": "example.com"});
    assert_eq!(taken("coredns", etcd), to(destination));
    let destination = |authorization: Option<&str>, weights, timeout| Destination::Webhook {
        url: url("http://a:8888/owners/p"),
        authorization: authorization.map(Secret::new),
        tls: Tls::default(),
        weights,
        timeout,
    };
    let mut webhook = json!({"webhook-provider-url": "http://a:8888/owners/p", "domain-filter": "example.com"});
    assert_eq!(taken("webhook", webhook.clone()), to(destination(None, None, TIMEOUT)));
    let more = json!({"webhook-provider-read-timeout": "50s", "token": "t0ken", "weights": "fairway"});
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (weights, timeout) = (Some(Weights::Fairway), Duration::from_secs(60));
    assert_eq!(taken("webhook", webhook), to(destination(Some("Bearer t0ken"), weights, timeout)));
}

#[test]
fn files_of_a_record_lie_in_a_folder_of_its_own() {
    let zone = json!({"domain-filter": "example.com"});
    let file = |path: &str| plain(&["example.com"], Destination::File(path.into()));
    assert_eq!(taken("file", zone.clone()), file("/data/published/shop/r/records.zone"));
    let deeper = json!({"domain-filter": "example.com", "path": "zones/example.com_1.zone"});
    assert_eq!(taken("file", deeper), file("/data/published/shop/r/zones/example.com_1.zone"));
    let objects = taken("dnsendpoint", json!({"domain-filter": "example.com", "namespace": "dns", "weights": "aws"}));
    assert_eq!(objects.rules.ownership, Ownership::Whole);
    let folder = "/data/published/shop/r/objects".into();
    let destination = Destination::DnsEndpoints { folder, namespace: "dns".to_owned(), weights: Some(Weights::Aws) };
    assert_eq!(objects.destination, destination);
    // Names of one record are not those of another that only reads alike, and they fit into a label.
    let [one, other] = ["a/b-c", "a-b/c"].map(instance);
    assert!(one != other && one.starts_with("a-b-c-") && instance(&"x".repeat(300)).len() == 57, "{one}");
    let long = "a/".repeat(8) + "a";
    for path in [
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "./x",
        ".hidden",
        "a//b",
        "a/",
        "a\\..\\b",
        "a b",
        "%2e%2e/x",
        long.as_str(),
    ] {
        for (provider, flag) in [("file", "path"), ("dnsendpoint", "folder")] {
            let told = refused(provider, json!({"domain-filter": "example.com", flag: path}));
            let pointer = format!("/spec/external-dns-parameters/{flag}");
            assert!(told[0].0 == pointer && told[0].1.contains("the record's own folder"), "{path}: {told:?}");
        }
    }
    // A server without a data folder says so where it would be run.
    let intent = read(Kind::DnsUpdateRecord, &body("file", &zone), None).unwrap();
    let told = run(&intent, &Site { data_dir: None, ..site() }).unwrap().unwrap_err().to_string();
    assert!(told.contains("no data folder"), "{told}");
}

#[test]
fn flags_of_all_providers_come_to_settings() {
    let to = taken(
        "rfc2136",
        rfc2136(json!({
            "rfc2136-zone": "example.com,example.org", "rfc2136-tsig-secret-alg": "hmac-sha512", "rfc2136-tsig-axfr": true,
            "rfc2136-use-tls": false, "rfc2136-load-balancing-strategy": "disabled", "domain-filter": "shop.example.com, example.org",
            "exclude-domains": "x.shop.example.com", "policy": "upsert-only", "interval": "1m0s", "batch-change-interval": "1s",
            "dry-run": "true", "txt-owner-id": "me", "txt-prefix": "%{record_type}.", "txt-wildcard-replacement": "any",
            "txt-encrypt-enabled": "true", "txt-encrypt-aes-key": "passphrasewhichneedstobe32bytes!", "registry": "txt",
            "managed-record-types": "A,AAAA,CNAME", "events": "true", "min-event-sync-interval": "5s", "provider-cache-time": "1m",
            "txt-cache-interval": "1h", "min-ttl": "5m", "once": "false", "create-ptr": "false",
        })),
    );
    assert_eq!((to.rules.zones, to.rules.policy), (names(&["example.com", "example.org"]), Policy::UpsertOnly));
    let steered = Steered::OfProject {
        project: "shop".to_owned(),
        within: names(&["shop.example.com", "example.org"]),
        without: names(&["x.shop.example.com"]),
    };
    assert_eq!((to.steered, to.auto), (steered, false));
    let pacing = Pacing { resync: Duration::from_secs(60), call_gap: Duration::from_secs(1) };
    assert_eq!(to.pacing, pacing);
    let Ownership::Txt { affix, owner, key: Some(_) } = to.rules.ownership else { panic!("no sealed registry") };
    assert_eq!((affix, owner.as_str()), (Affix::new("%{record_type}.", "", "any").unwrap(), "me"));
    let Destination::Rfc2136 { key: Some(key), .. } = to.destination else { panic!("no key") };
    assert_eq!(key.algorithm, TsigAlgorithm::Sha512);
    for (word, ownership) in [("noop", Ownership::Unknown), ("store", Ownership::Store)] {
        assert_eq!(taken("rfc2136", rfc2136(json!({"registry": word}))).rules.ownership, ownership);
    }
}

/// A flag of rfc2136 with a value, and what is told of it.
const FLAWS: &[(&str, &str, &str)] = &[
    ("rfc2136-host", "ns1.example.com", "names are not looked up"),
    ("rfc2136-host", "192.0.2.1,192.0.2.2", "make a record of each"),
    ("rfc2136-port", "0", "not within 1 to 65535"),
    ("rfc2136-port", "dns", "no whole number"),
    ("rfc2136-zone", "a..b", "no domain name"),
    ("rfc2136-insecure", "perhaps", "give true, false"),
    ("rfc2136-tsig-keyname", "a..b", "no domain name"),
    ("rfc2136-tsig-secret", "***", "no base64"),
    ("rfc2136-tsig-secret-alg", "hmac-md5", "give hmac-sha256, hmac-sha384, hmac-sha512"),
    ("rfc2136-tsig-axfr", "false", "can only be true here"),
    ("rfc2136-gss-tsig", "true", "can only be false here"),
    ("rfc2136-use-tls", "true", "can only be false here"),
    ("rfc2136-kerberos-realm", "X", "has no meaning here"),
    ("rfc2136-min-ttl", "1m", "gslb.ttl"),
    ("rfc2136-batch-change-size", "50", "has no meaning here"),
    ("rfc2136-load-balancing-strategy", "random", "can only be disabled here"),
    ("rfc2136-hots", "x", "is rfc2136-host meant?"),
    ("pdns-server", "http://a", "is no parameter of the provider rfc2136"),
    ("domain-filter", "example.net", "lies in no zone of rfc2136-zone"),
    ("exclude-domains", "*..", "no domain name"),
    ("policy", "replace", "give sync, upsert-only, create-only"),
    ("interval", "1s", "not within 10s to 1d"),
    ("interval", "soon", "write it like 30s"),
    ("batch-change-interval", "2m", "not within 0s to 1m"),
    ("dry-run", "1", "give true, false"),
    ("managed-record-types", "A,CNAME", "leaves out A or AAAA"),
    ("registry", "dynamodb", "give txt, store, noop"),
    ("txt-owner-id", "a,b", "cannot stand in a registry record"),
    ("txt-prefix", "a..", "no name can be made with it"),
    ("txt-encrypt-aes-key", "short", "seals nothing without txt-encrypt-enabled"),
    ("migrate-from-txt-owner", "x", "fairway publish take"),
    ("once", "true", "can only be false here"),
    ("label-filter", "a=b", "those of the project's intents"),
    ("log-level", "debug", "a process of external-dns"),
    ("regex-domain-filter", ".*", "list domains in domain-filter"),
    ("host", "192.0.2.54", "keep one"),
];

#[test]
fn what_has_no_meaning_or_does_not_fit_is_told_where_it_stands() {
    for (flag, value, part) in FLAWS {
        let told = refused("rfc2136", rfc2136(json!({*flag: value})));
        let [(pointer, detail)] = &told[..] else { panic!("{flag}: {told:?}") };
        // Of two that mean one flag, the second in the order of their names is at fault.
        let at = if *flag == "host" { "rfc2136-host" } else { flag };
        assert_eq!(*pointer, format!("/spec/external-dns-parameters/{at}"), "{detail}");
        assert!(detail.contains(part), "{flag}: {detail}");
    }
}

#[test]
fn what_is_missing_is_told_at_all_of_them() {
    for (provider, parameters, wanted) in [
        (
            "rfc2136",
            json!({"rfc2136-host": "192.0.2.1"}),
            vec!["rfc2136-zone", "rfc2136-tsig-keyname", "rfc2136-tsig-secret"],
        ),
        ("rfc2136", json!({"rfc2136-insecure": true}), vec!["rfc2136-zone", "rfc2136-host"]),
        ("pdns", json!({}), vec!["domain-filter", "pdns-server", "pdns-api-key"]),
        ("coredns", json!({"coredns-prefix": "/x/"}), vec!["domain-filter", "etcd-urls"]),
        ("webhook", json!({}), vec!["domain-filter", "webhook-provider-url"]),
        ("file", json!({}), vec!["domain-filter"]),
        ("dnsendpoint", json!({}), vec!["domain-filter"]),
    ] {
        let told = refused(provider, parameters);
        assert!(told.iter().all(|(pointer, _)| pointer == "/spec/external-dns-parameters"), "{told:?}");
        let flags: Vec<_> = told.iter().map(|(_, detail)| detail.split(':').next().unwrap()).collect();
        assert_eq!(flags, wanted, "{told:?}");
    }
    let nothing = json!({"metadata": {"name": "r"}, "spec": {"provider": "file"}}).to_string();
    let Err(Refused { faults, .. }) = read(Kind::DnsUpdateRecord, nothing.as_bytes(), None) else { panic!() };
    assert_eq!(faults[0].pointer, "/spec/parameters");
}

#[test]
fn fields_that_belong_together_are_asked_for_together() {
    let etcd = |more: Value| {
        let mut all = json!({"etcd-urls": "https://a:2379", "domain-filter": "x.example"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused("coredns", all).remove(0)
    };
    let webhook = |more: Value| {
        let mut all = json!({"webhook-provider-url": "http://a:8888", "domain-filter": "x.example"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused("webhook", all).remove(0)
    };
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    for ((pointer, detail), flag, part) in [
        (etcd(json!({"etcd-username": "root"})), "etcd-username", "give both or none"),
        (etcd(json!({"etcd-urls": "a:2379"})), "etcd-urls", "write http://"),
        (etcd(json!({"etcd-ca-file": "/etc/ssl/ca.pem"})), "etcd-ca-file", "names no file of the server"),
        (etcd(json!({"etcd-cert-file": pem})), "etcd-cert-file", "give both or none"),
        (etcd(json!({"etcd-ca-file": pem})), "etcd-ca-file", "all in PEM"),
        (etcd(json!({"etcd-tls-insecure": "true"})), "etcd-tls-insecure", "always checked"),
        (webhook(json!({"tls-ca": pem})), "tls-ca", "without TLS"),
        (webhook(json!({"webhook-provider-read-timeout": "119s"})), "webhook-provider-read-timeout", "together"),
        (webhook(json!({"webhook-provider-url": "http://u:hush@a"})), "webhook-provider-url", "holds a user"),
        (webhook(json!({"weights": "even"})), "weights", "give aws, fairway"),
        (webhook(json!({"token": "hush\nhush"})), "token", "several lines"),
    ] {
        assert_eq!(pointer, format!("/spec/external-dns-parameters/{flag}"), "{detail}");
        assert!(detail.contains(part) && !detail.contains("hush"), "{flag}: {detail}");
    }
    for (registry, flag) in [("noop", "txt-owner-id"), ("store", "txt-encrypt-aes-key")] {
        let told = refused("rfc2136", rfc2136(json!({"registry": registry, flag: "x"})));
        assert!(told[0].0.ends_with(flag) && told[0].1.contains("without the registry txt"), "{told:?}");
    }
    let told = refused("rfc2136", rfc2136(json!({"rfc2136-insecure": "true"})));
    assert!(told.len() == 2 && told[0].1.contains("signs nothing"), "{told:?}");
    let told = refused("dnsendpoint", json!({"domain-filter": "x.example", "namespace": "No", "registry": "txt"}));
    assert!(told.len() == 2 && told.iter().any(|(_, detail)| detail.contains("no name of a namespace")), "{told:?}");
}

#[test]
fn secrets_are_in_no_text_that_is_shown() {
    let intent = read(Kind::DnsUpdateRecord, &body("rfc2136", &rfc2136(json!({"txt-prefix": "x"}))), None).unwrap();
    let to = run(&intent, &site()).unwrap().unwrap();
    let shown = String::from_utf8(crate::body::to_show(&intent).to_text()).unwrap();
    for text in [format!("{intent:?}"), format!("{to:?}"), shown] {
        assert!(!text.contains(SECRET), "{text}");
    }
    // A secret of a provider that only external-dns speaks to, and one that nobody knows.
    let other = json!({"akamai-client-token": "hush-1", "some-api-key": "hush-2", "akamai-edgerc-path": "/x"});
    let intent = read(Kind::DnsUpdateRecord, &body("akamai", &other), None).unwrap();
    assert!(run(&intent, &site()).is_none());
    let shown = String::from_utf8(crate::body::to_show(&intent).to_text()).unwrap();
    assert!(!shown.contains("hush") && shown.contains("\"/x\""), "{shown}");
    for value in [json!(["hush"]), json!("hush\u{1}"), json!(null), json!(true)] {
        let told = refused("rfc2136", rfc2136(json!({"rfc2136-tsig-secret": value})));
        assert!(!told[0].1.contains("hush") && !told[0].1.contains("true"), "{told:?}");
    }
}

#[test]
fn what_an_earlier_version_kept_is_read_and_says_what_keeps_it_from_being_run() {
    let before = body("rfc2136", &json!({"rfc2136-host": "192.0.2.53", "some-flag": "x"}));
    assert!(read(Kind::DnsUpdateRecord, &before, None).is_err());
    let intent = read_kept(Kind::DnsUpdateRecord, &before).unwrap();
    let told = run(&intent, &site()).unwrap().unwrap_err().to_string();
    assert!(told.contains("some-flag"), "{told}");
}
