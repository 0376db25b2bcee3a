//! Publishers of records of each provider, and each error.

use std::{net::SocketAddr, path::Path, time::Duration};

use fairway_etcd::Settings;
use fairway_http::{Tls, Url};
use fairway_model::{
    Name, Secret,
    intent::{Intent, IntentSpec},
};
use fairway_providers::{
    publish::{Affix, Bounds, Ownership, Pacing, Policy, Rules, Weights},
    rfc2136::{TsigAlgorithm, TsigKey},
};
use serde_json::{Value, json};

use super::{PublisherContext, instance, publish_to};
use crate::{
    body::{read, read_stored, to_public, to_stored},
    error::InvalidBody,
};
use fairway_config::{Destination, ObjectPlace, PublishTo, Steered};
use fairway_store::objects::Kind;

const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0cy0zMi1vY3RldHMhIQ==";

fn body(provider: &str, parameters: &Value) -> Vec<u8> {
    let spec = json!({"provider": provider, "external-dns-parameters": parameters});
    json!({"metadata": {"name": "r"}, "spec": spec}).to_string().into_bytes()
}

fn context() -> PublisherContext<'static> {
    PublisherContext { project: "shop", record: "r", owner: "us", data_dir: Some(Path::new("/data")), zones: Some(&[]) }
}

fn run(intent: &Intent, context: &PublisherContext<'_>) -> Option<Result<PublishTo, InvalidBody>> {
    let IntentSpec::DnsUpdateRecord(record) = &intent.spec else { panic!("{intent:?}") };
    publish_to(record, context)
}

fn accepted(provider: &str, parameters: Value) -> PublishTo {
    let intent = read(Kind::DnsUpdateRecord, &body(provider, &parameters), None);
    let intent = intent.unwrap_or_else(|refused| panic!("{parameters}: {refused}"));
    run(&intent, &context()).unwrap().unwrap_or_else(|refused| panic!("{parameters}: {refused}"))
}

fn refused(provider: &str, parameters: Value) -> Vec<(String, String)> {
    let read = read(Kind::DnsUpdateRecord, &body(provider, &parameters), None);
    let Err(InvalidBody { errors, .. }) = read else { panic!("{provider} {parameters} was accepted") };
    errors.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
}

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn url(text: &str) -> Url {
    Url::parse_base(text).unwrap()
}

/// Returns the publisher with the defaults of the section `publish`.
fn default_publisher(zones: &[&str], destination: Destination) -> PublishTo {
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
fn record_without_options_has_the_defaults_of_section_publish() {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let key =
        TsigKey { name: "fairway".parse().unwrap(), algorithm: TsigAlgorithm::Sha256, secret: Secret::new(SECRET) };
    let server: SocketAddr = "192.0.2.53:53".parse().unwrap();
    let zone = &["example.com"];
    let to = |destination| default_publisher(zone, destination);
    assert_eq!(
        accepted("rfc2136", rfc2136(json!({}))),
        to(Destination::Rfc2136 { server, key: Some(key), timeout: TIMEOUT })
    );
    assert_eq!(
        accepted(
            "rfc2136",
            json!({"host": "[2001:db8::53]", "--port": 5353, "domain-filter": "example.com", "insecure": true})
        ),
        to(Destination::Rfc2136 { server: "[2001:db8::53]:5353".parse().unwrap(), key: None, timeout: TIMEOUT })
    );
    let powerdns = json!({"pdns-server": "http://192.0.2.53:8081", "pdns-api-key": "hush", "domain-filter": "example.com",
        "allow-plain-http": true, "pdns-server-id": "localhost", "pdns-skip-tls-verify": false});
    let destination =
        Destination::PowerDns { url: url("http://192.0.2.53:8081"), key: Secret::new("hush"), timeout: TIMEOUT };
    assert_eq!(accepted("pdns", powerdns), to(destination));
    let endpoints = ["http://a:2379", "http://b:2379"].map(|url| url.parse().unwrap()).into();
    let user = Some(("root".to_owned(), Secret::new("hush")));
    let destination = Destination::Etcd {
        prefix: "/skydns/".to_owned(),
        etcd: Settings::new(endpoints, Tls::default(), user, TIMEOUT),
    };
    let etcd = json!({"etcd-urls": "http://a:2379, http://b:2379", "etcd-username": "root", "etcd-password": "hush",
        "coredns-prefix": "skydns", "domain-filter": "example.com", "allow-plain-http": "true"});
    assert_eq!(accepted("coredns", etcd), to(destination));
    let destination = |authorization: Option<&str>, weights, timeout| Destination::Webhook {
        url: url("http://a:8888/owners/p"),
        authorization: authorization.map(Secret::new),
        tls: Tls::default(),
        weights,
        timeout,
    };
    let mut webhook = json!({"webhook-provider-url": "http://a:8888/owners/p", "domain-filter": "example.com"});
    assert_eq!(accepted("webhook", webhook.clone()), to(destination(None, None, TIMEOUT)));
    let more = json!({"webhook-provider-read-timeout": "50s", "token": "t0ken", "weights": "fairway",
        "allow-plain-http": true});
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (weights, timeout) = (Some(Weights::Fairway), Duration::from_secs(60));
    assert_eq!(accepted("webhook", webhook), to(destination(Some("Bearer t0ken"), weights, timeout)));
}

#[test]
fn files_of_a_record_stay_below_its_own_folder() {
    let zone = json!({"domain-filter": "example.com"});
    let file = |path: &str| default_publisher(&["example.com"], Destination::File(path.into()));
    assert_eq!(accepted("file", zone.clone()), file("/data/published/shop/r/records.zone"));
    let deeper = json!({"domain-filter": "example.com", "path": "zones/example.com_1.zone"});
    assert_eq!(accepted("file", deeper), file("/data/published/shop/r/zones/example.com_1.zone"));
    let objects =
        accepted("dnsendpoint", json!({"domain-filter": "example.com", "namespace": "dns", "weights": "aws"}));
    assert_eq!(objects.rules.ownership, Ownership::Whole);
    let place = ObjectPlace::Folder("/data/published/shop/r/objects".into());
    let destination = Destination::DnsEndpoints { place, namespace: "dns".to_owned(), weights: Some(Weights::Aws) };
    assert_eq!(objects.destination, destination);
    // Labels of two records differ even if the names look alike, and fit into a label of Kubernetes.
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
        for (provider, name) in [("file", "path"), ("dnsendpoint", "folder")] {
            let errors = refused(provider, json!({"domain-filter": "example.com", name: path}));
            let pointer = format!("/spec/external-dns-parameters/{name}");
            assert!(errors[0].0 == pointer && errors[0].1.contains("the record's own folder"), "{path}: {errors:?}");
        }
    }
    // A server without a data folder rejects the record when it would run.
    let intent = read(Kind::DnsUpdateRecord, &body("file", &zone), None).unwrap();
    let errors = run(&intent, &PublisherContext { data_dir: None, ..context() }).unwrap().unwrap_err().to_string();
    assert!(errors.contains("no data folder"), "{errors}");
}

#[test]
fn common_parameters_become_settings() {
    let to = accepted(
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
    let Ownership::Txt { affix, owner, key: Some(_) } = to.rules.ownership else {
        panic!("expected an encrypted registry")
    };
    assert_eq!((affix, owner.as_str()), (Affix::new("%{record_type}.", "", "any").unwrap(), "me"));
    let Destination::Rfc2136 { key: Some(key), .. } = to.destination else { panic!("expected a TSIG key") };
    assert_eq!(key.algorithm, TsigAlgorithm::Sha512);
    for (word, ownership) in [("noop", Ownership::Unknown), ("store", Ownership::Store)] {
        assert_eq!(accepted("rfc2136", rfc2136(json!({"registry": word}))).rules.ownership, ownership);
    }
}

/// A parameter of rfc2136 with a value, and a part of the error.
const ERRORS: &[(&str, &str, &str)] = &[
    ("rfc2136-host", "ns1.example.com", "host names are not looked up"),
    ("rfc2136-host", "192.0.2.1,192.0.2.2", "create one record per server"),
    ("rfc2136-port", "0", "out of range; write an integer from 1 to 65535"),
    ("rfc2136-port", "dns", "not an integer"),
    ("rfc2136-zone", "a..b", "not a domain name"),
    ("rfc2136-insecure", "perhaps", "give true, false"),
    ("rfc2136-tsig-keyname", "a..b", "not a domain name"),
    ("rfc2136-tsig-secret", "***", "not base64"),
    ("rfc2136-tsig-secret-alg", "hmac-md5", "give hmac-sha256, hmac-sha384, hmac-sha512"),
    ("rfc2136-tsig-axfr", "false", "can only be true: "),
    ("rfc2136-gss-tsig", "true", "can only be false: "),
    ("rfc2136-use-tls", "true", "can only be false: "),
    ("rfc2136-kerberos-realm", "X", "is not a parameter"),
    ("rfc2136-min-ttl", "1m", "gslb.ttl"),
    ("rfc2136-batch-change-size", "50", "is not a parameter"),
    ("rfc2136-load-balancing-strategy", "random", "can only be disabled: "),
    ("rfc2136-hots", "x", "did you mean rfc2136-host?"),
    ("pdns-server", "http://a", "is not a parameter of the provider rfc2136"),
    ("domain-filter", "example.net", "is in no zone of rfc2136-zone"),
    ("exclude-domains", "*..", "not a domain name"),
    ("policy", "replace", "give sync, upsert-only, create-only"),
    ("interval", "1s", "out of range; write a duration from 10s to 1d"),
    ("interval", "soon", "write it like 30s"),
    ("batch-change-interval", "2m", "out of range; write a duration from 0s to 1m"),
    ("dry-run", "1", "give true, false"),
    ("managed-record-types", "A,CNAME", "excludes A or AAAA"),
    ("registry", "dynamodb", "give txt, store, noop"),
    ("txt-owner-id", "a,b", "cannot be part of a registry record"),
    ("txt-prefix", "a..", "invalid registry name"),
    ("txt-encrypt-aes-key", "short", "has no effect without txt-encrypt-enabled"),
    ("migrate-from-txt-owner", "x", "fairway publish take"),
    ("once", "true", "can only be false: "),
    ("label-filter", "a=b", "is not a parameter"),
    ("log-level", "debug", "is not a parameter"),
    ("regex-domain-filter", ".*", "list the domains in domain-filter"),
    ("host", "192.0.2.54", "keep one"),
];

#[test]
fn invalid_parameter_is_reported_with_its_pointer() {
    for (name, value, part) in ERRORS {
        let errors = refused("rfc2136", rfc2136(json!({*name: value})));
        let [(pointer, detail)] = &errors[..] else { panic!("{name}: {errors:?}") };
        // Of two names of one parameter, the second in alphabetical order has the error.
        let at = if *name == "host" { "rfc2136-host" } else { name };
        assert_eq!(*pointer, format!("/spec/external-dns-parameters/{at}"), "{detail}");
        assert!(detail.contains(part), "{name}: {detail}");
    }
}

#[test]
fn record_without_zones_has_those_of_the_server() {
    // Appendix A of the requirements, as it stands.
    let record = br#"{"metadata":{"name":"coredns-lab"},"spec":{"provider":"coredns","parameters":
        {"coredns-prefix":"/skydns/","etcd-urls":"http://127.0.0.1:2379"},"bind":[{"cluster":"p1+c1"},{"logicalCloud":"lc1"}]}}"#;
    let intent = read(Kind::DnsUpdateRecord, record, None).unwrap();
    let zones = names(&["a.example", "b.example"]);
    let publisher = run(&intent, &PublisherContext { zones: Some(&zones), ..context() }).unwrap().unwrap();
    assert_eq!(publisher.rules.zones, zones);
    let named = accepted("coredns", json!({"etcd-urls": "http://127.0.0.1:2379", "domain-filter": "c.example"}));
    assert_eq!(named.rules.zones, names(&["c.example"]));
}

#[test]
fn flag_without_value_is_kept() {
    let intent = read(Kind::DnsUpdateRecord, &body("aws", &json!({"aws-prefer-cname": ""})), None).unwrap();
    let again = read_stored(Kind::DnsUpdateRecord, &to_stored(&intent)).unwrap();
    assert_eq!(again, intent);
    let shown = String::from_utf8(to_public(&again).to_text()).unwrap();
    assert!(shown.contains(r#""parameters":{"aws-prefer-cname":""}"#), "{shown}");
}

#[test]
fn missing_parameters_are_reported_together() {
    for (provider, parameters, wanted) in [
        (
            "rfc2136",
            json!({"rfc2136-host": "192.0.2.1"}),
            vec!["rfc2136-zone", "rfc2136-tsig-keyname", "rfc2136-tsig-secret"],
        ),
        ("rfc2136", json!({"rfc2136-insecure": true}), vec!["rfc2136-zone", "rfc2136-host"]),
        ("pdns", json!({}), vec!["pdns-server", "pdns-api-key"]),
        ("coredns", json!({"coredns-prefix": "/x/"}), vec!["etcd-urls"]),
        ("webhook", json!({}), vec!["webhook-provider-url"]),
    ] {
        let errors = refused(provider, parameters);
        assert!(errors.iter().all(|(pointer, _)| pointer == "/spec/external-dns-parameters"), "{errors:?}");
        let flags: Vec<_> = errors.iter().map(|(_, detail)| detail.split(':').next().unwrap()).collect();
        assert_eq!(flags, wanted, "{errors:?}");
    }
    let nothing = json!({"metadata": {"name": "r"}, "spec": {"provider": "etcd"}}).to_string();
    let Err(InvalidBody { errors, .. }) = read(Kind::DnsUpdateRecord, nothing.as_bytes(), None) else { panic!() };
    assert_eq!(errors[0].pointer, "/spec/parameters");
}

#[test]
fn parameters_that_need_each_other_are_checked() {
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
    for ((pointer, detail), name, part) in [
        (etcd(json!({"etcd-username": "root"})), "etcd-username", "give both or none"),
        (etcd(json!({"etcd-urls": "a:2379"})), "etcd-urls", "write http://"),
        (etcd(json!({"etcd-ca-file": "/etc/ssl/ca.pem"})), "etcd-ca-file", "cannot name a file of the server"),
        (etcd(json!({"etcd-cert-file": pem})), "etcd-cert-file", "give both or none"),
        (etcd(json!({"etcd-ca-file": pem})), "etcd-ca-file", "all in PEM"),
        (etcd(json!({"etcd-tls-insecure": "true"})), "etcd-tls-insecure", "always verified"),
        (webhook(json!({"tls-ca": pem})), "tls-ca", "without TLS"),
        (webhook(json!({"webhook-provider-read-timeout": "119s"})), "webhook-provider-read-timeout", "together"),
        (webhook(json!({"webhook-provider-url": "http://u:hush@a"})), "webhook-provider-url", "holds a user"),
        (webhook(json!({"weights": "even"})), "weights", "give aws, fairway"),
        (webhook(json!({"token": "hush\nhush"})), "token", "line breaks"),
        (webhook(json!({"token": "hush"})), "token", "sent to a without encryption"),
        (webhook(json!({"token": "hush", "allow-plain-http": false})), "token", "add allow-plain-http: true"),
        (
            etcd(
                json!({"etcd-urls": "https://a:2379,http://b:2379", "etcd-username": "root", "etcd-password": "hush"}),
            ),
            "etcd-password",
            "sent to b without encryption",
        ),
    ] {
        assert_eq!(pointer, format!("/spec/external-dns-parameters/{name}"), "{detail}");
        assert!(detail.contains(part) && !detail.contains("hush"), "{name}: {detail}");
    }
    for (registry, name) in [("noop", "txt-owner-id"), ("store", "txt-encrypt-aes-key")] {
        let errors = refused("rfc2136", rfc2136(json!({"registry": registry, name: "x"})));
        assert!(errors[0].0.ends_with(name) && errors[0].1.contains("without the registry txt"), "{errors:?}");
    }
    let errors = refused("rfc2136", rfc2136(json!({"rfc2136-insecure": "true"})));
    assert!(errors.len() == 2 && errors[0].1.contains("has no effect with rfc2136-insecure"), "{errors:?}");
    let errors = refused("dnsendpoint", json!({"domain-filter": "x.example", "namespace": "No", "registry": "txt"}));
    assert!(
        errors.len() == 2 && errors.iter().any(|(_, detail)| detail.contains("not the name of a namespace")),
        "{errors:?}"
    );
}

#[test]
fn secrets_are_in_no_text_that_is_shown() {
    let intent = read(Kind::DnsUpdateRecord, &body("rfc2136", &rfc2136(json!({"txt-prefix": "x"}))), None).unwrap();
    let to = run(&intent, &context()).unwrap().unwrap();
    let shown = String::from_utf8(to_public(&intent).to_text()).unwrap();
    for text in [format!("{intent:?}"), format!("{to:?}"), shown] {
        assert!(!text.contains(SECRET), "{text}");
    }
    // Secrets of a provider that only external-dns supports, one of them unknown.
    let other = json!({"akamai-client-token": "hush-1", "some-api-key": "hush-2", "akamai-edgerc-path": "/x"});
    let intent = read(Kind::DnsUpdateRecord, &body("akamai", &other), None).unwrap();
    assert!(run(&intent, &context()).is_none());
    let shown = String::from_utf8(to_public(&intent).to_text()).unwrap();
    assert!(!shown.contains("hush") && shown.contains("\"/x\""), "{shown}");
    for value in [json!(["hush"]), json!("hush\u{1}"), json!(null), json!(true)] {
        let errors = refused("rfc2136", rfc2136(json!({"rfc2136-tsig-secret": value})));
        assert!(!errors[0].1.contains("hush") && !errors[0].1.contains("true"), "{errors:?}");
    }
}

#[test]
fn stored_record_with_an_unknown_parameter_is_read_but_not_run() {
    let before = body("rfc2136", &json!({"rfc2136-host": "192.0.2.53", "some-name": "x"}));
    assert!(read(Kind::DnsUpdateRecord, &before, None).is_err());
    let intent = read_stored(Kind::DnsUpdateRecord, &before).unwrap();
    let errors = run(&intent, &context()).unwrap().unwrap_err().to_string();
    assert!(errors.contains("some-name"), "{errors}");
}
