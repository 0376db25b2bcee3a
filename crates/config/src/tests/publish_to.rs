//! Providers that records are published to.

use std::time::Duration;

use fairway_etcd::{Settings, Source};
use fairway_http::Tls;
use fairway_providers::publish::{Ownership, Weights};

use super::{
    sources::{CERTIFICATE, KEY},
    *,
};
use crate::{Destination, ObjectPlace, PublishTo};

fn text(section: &str) -> String {
    format!("version: 1\npublish:\n  providers:\n    - name: p\n      zones: [example.com]\n      {section}\n")
}

fn folder(section: &str) -> Folder {
    let files = [("f.yaml", &*text(section)), ("ca.pem", CERTIFICATE), ("key.pem", KEY), ("word", "open\n")];
    Folder::new(&files)
}

fn published(section: &str) -> PublishTo {
    let publish = folder(section).load("f.yaml").unwrap().settings.publish;
    publish.into_iter().next().unwrap()
}

#[test]
fn etcd_settings_are_converted() {
    let plain = published("etcd: { endpoints: [\"http://a:2379\", \"http://[::1]:2379/\"] }").destination;
    let endpoints = ["http://a:2379", "http://[::1]:2379"].map(|url| url.parse().unwrap()).into();
    let etcd = Settings::new(endpoints, Tls::default(), None, Duration::from_secs(30));
    assert_eq!((etcd.endpoint_timeout, etcd.call_timeout), (Duration::from_secs(15), Duration::from_secs(30)));
    assert_eq!(plain, Destination::Etcd { prefix: "/skydns/".to_owned(), etcd });
    let Destination::Etcd { prefix, etcd } = published(
        "coredns: { endpoints: [\"https://a:2379\"], prefix: dns, user: ann, password: { file: word }, \
         tls: { ca: { file: ca.pem }, cert: { file: ca.pem }, key: { file: key.pem } } }",
    )
    .destination
    else {
        panic!("coredns must be an alias of etcd")
    };
    let (name, password) = etcd.user.unwrap();
    assert_eq!((&*prefix, &*name), ("/dns/", "ann"));
    assert!(matches!(password, Source::Text(password) if password.expose().trim() == "open"));
    assert!(etcd.ca.is_some() && etcd.identity.is_some());
}

#[test]
fn webhook_and_dnsendpoint_settings_are_converted() {
    let Destination::Webhook { authorization, weights, .. } =
        published("webhook: { url: \"https://a:8888/base\", token: { file: word }, weights: aws }").destination
    else {
        panic!("expected a webhook")
    };
    assert_eq!((authorization.unwrap().expose(), weights), ("Bearer open", Some(Weights::Aws)));
    let to = published("dnsendpoint: { folder: objects }");
    assert_eq!(to.rules.ownership, Ownership::Whole);
    assert!(
        matches!(to.destination, Destination::DnsEndpoints { namespace, weights: None, place: ObjectPlace::Folder(_) } if namespace == "default")
    );
}

#[test]
fn objects_are_written_to_a_cluster_with_kubernetes() {
    let clusters =
        "    - { name: old, addresses: [192.0.2.1] }\n    - { name: eu1, kubernetes: { inCluster: true } }\n";
    let load = |section: &str| {
        let text = format!("{}clusters:\n{clusters}", text(section));
        Folder::new(&[("f.yaml", &*text)])
    };
    let publish = load("dnsendpoint: { cluster: eu1, namespace: dns }").load("f.yaml").unwrap().settings.publish;
    let Destination::DnsEndpoints { place: ObjectPlace::Cluster(name, api), .. } = &publish[0].destination else {
        panic!("{publish:?}")
    };
    assert!(name.as_str() == "eu1" && api.in_cluster);
    for (section, part) in [
        (
            "dnsendpoint: { cluster: old }",
            "dnsendpoint.cluster: cluster old has no Kubernetes API; add kubernetes to it",
        ),
        (
            "dnsendpoint: { cluster: us1 }",
            "dnsendpoint.cluster: cluster us1 is not declared in the configuration; add it",
        ),
        ("dnsendpoint: { cluster: eu1, folder: a }", "dnsendpoint: cluster and folder are both given; remove one"),
        ("dnsendpoint: { namespace: dns }", "dnsendpoint: the objects have no place; add cluster or folder"),
        (
            "dnsendpoint: { cluster: eu1 }\n      registry: { type: txt }",
            "registry: DNSEndpoint objects have no registry",
        ),
    ] {
        let shown = load(section).check("f.yaml");
        assert!(shown.iter().any(|error| error.contains(part)), "{section}: {shown:?}");
    }
}

#[test]
fn destination_errors_have_location_and_hint() {
    for (section, part) in [
        ("auto: true", "publish.providers[0]: the provider has no destination; add rfc2136"),
        ("file: a\n      dnsendpoint: { folder: b }", "several destinations"),
        ("etcd: { endpoints: [\"a:2379\"] }", "etcd.endpoints[0]: a:2379: not a URL: no scheme"),
        ("etcd: { endpoints: [\"http://a:2379/v3\"] }", "etcd.endpoints[0]: http://a:2379/v3: the URL has a path"),
        ("etcd: { endpoints: [\"http://a:2379\"], prefix: \"/ü/\" }", "not printable ASCII"),
        ("etcd: { endpoints: [\"http://a:2379\"], user: ann }", "must be given together"),
        ("etcd: { endpoints: [\"https://a:2379\"], tls: { cert: { file: ca.pem } } }", "etcd.tls: cert and key"),
        ("etcd: { endpoints: [\"https://a:2379\"], tls: { ca: { file: word } } }", "no certificate in the text"),
        ("etcd: { endpoints: [\"http://a:2379\"], tls: { ca: { file: ca.pem } } }", "no effect on an http URL"),
        ("webhook: { url: \"ftp://a\" }", "webhook.url: the scheme is neither http nor https; write http://HOST:PORT"),
        ("webhook: { url: \"http://a\", token: { file: nowhere } }", "webhook.token.file: "),
        (
            "powerdns: { url: \"http://a\", key: { file: word } }",
            "powerdns.key: it would be sent to a without encryption; use https, or add allowPlainHttp: true",
        ),
        ("webhook: { url: \"http://a\", token: { file: word } }", "webhook.token: it would be sent to a without"),
        (
            "etcd: { endpoints: [\"https://a\", \"http://b\"], user: ann, password: { file: word } }",
            "etcd.password: it would be sent to b without",
        ),
        ("webhook: { url: \"http://a\", timeout: 10m }", "webhook.timeout: "),
        ("dnsendpoint: { folder: a, namespace: Up }", "not the name of a namespace"),
        ("dnsendpoint: { folder: a }\n      registry: { type: txt }", "registry: DNSEndpoint objects"),
    ] {
        let shown = folder(section).check("f.yaml");
        assert!(shown.iter().any(|error| error.contains(part)), "{section}: {shown:?}");
    }
}

#[test]
fn secret_over_plain_http_is_accepted_on_loopback_or_if_the_section_allows_it() {
    for section in [
        "powerdns: { url: \"http://127.0.0.1:8081\", key: { file: word } }",
        "powerdns: { url: \"http://a\", key: { file: word }, allowPlainHttp: true }",
        "webhook: { url: \"http://[::1]:8888\", token: { file: word } }",
        "webhook: { url: \"http://a\", token: { file: word }, allowPlainHttp: true }",
        "webhook: { url: \"http://a\" }",
        "etcd: { endpoints: [\"http://localhost:2379\"], user: ann, password: { file: word } }",
        "etcd: { endpoints: [\"http://a\"], user: ann, password: { file: word }, allowPlainHttp: true }",
    ] {
        assert_eq!(folder(section).check("f.yaml"), Vec::<String>::new(), "{section}");
    }
}
