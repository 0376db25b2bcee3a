//! Places that are published to.

use std::time::Duration;

use fairway_etcd::{Settings, Source};
use fairway_http::Tls;
use fairway_providers::publish::{Ownership, Weights};

use super::{
    sources::{CERTIFICATE, KEY},
    *,
};
use crate::{Destination, PublishTo};

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
fn an_etcd_is_reached_as_it_is_told() {
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
        panic!("it is an etcd by its other name")
    };
    let (name, password) = etcd.user.unwrap();
    assert_eq!((&*prefix, &*name), ("/dns/", "ann"));
    assert!(matches!(password, Source::Text(password) if password.expose().trim() == "open"));
    assert!(etcd.ca.is_some() && etcd.identity.is_some());
}

#[test]
fn a_webhook_and_a_folder_of_objects_are_told() {
    let Destination::Webhook { authorization, weights, .. } =
        published("webhook: { url: \"http://a:8888/base\", token: { file: word }, weights: aws }").destination
    else {
        panic!("it is a webhook")
    };
    assert_eq!((authorization.unwrap().expose(), weights), ("Bearer open", Some(Weights::Aws)));
    let to = published("dnsendpoint: { folder: objects }");
    assert_eq!(to.rules.ownership, Ownership::Whole);
    assert!(
        matches!(to.destination, Destination::DnsEndpoints { namespace, weights: None, .. } if namespace == "default")
    );
}

#[test]
fn each_fault_has_its_place_and_a_way_out() {
    for (section, part) in [
        ("auto: true", "publish.providers[0]: it says no place to publish to; give it rfc2136"),
        ("file: a\n      dnsendpoint: { folder: b }", "several places"),
        ("etcd: { endpoints: [\"a:2379\"] }", "etcd.endpoints[0]: a:2379: not a URL: no scheme"),
        ("etcd: { endpoints: [\"http://a:2379/v3\"] }", "etcd.endpoints[0]: http://a:2379/v3: the URL has a path"),
        ("etcd: { endpoints: [\"http://a:2379\"], prefix: \"/ü/\" }", "not printable ASCII"),
        ("etcd: { endpoints: [\"http://a:2379\"], user: ann }", "without each other"),
        ("etcd: { endpoints: [\"https://a:2379\"], tls: { cert: { file: ca.pem } } }", "etcd.tls: cert and key"),
        ("etcd: { endpoints: [\"https://a:2379\"], tls: { ca: { file: word } } }", "no certificate in it"),
        ("etcd: { endpoints: [\"http://a:2379\"], tls: { ca: { file: ca.pem } } }", "without TLS"),
        ("webhook: { url: \"ftp://a\" }", "webhook.url: the scheme is neither http nor https; write http://HOST:PORT"),
        ("webhook: { url: \"http://a\", token: { file: nowhere } }", "webhook.token.file: "),
        ("webhook: { url: \"http://a\", timeout: 10m }", "webhook.timeout: "),
        ("dnsendpoint: { folder: a, namespace: Up }", "no name of a namespace"),
        ("dnsendpoint: { folder: a }\n      registry: { type: txt }", "registry: the objects in the folder"),
    ] {
        let told = folder(section).check("f.yaml");
        assert!(told.iter().any(|fault| fault.contains(part)), "{section}: {told:?}");
    }
}
