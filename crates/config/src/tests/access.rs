//! Access control: conversion of the section, and rejected input.

use super::{
    sources::{CERTIFICATE, KEY},
    *,
};
use fairway_access::{Identity, LimitSettings, RequiredPermission, Verb};

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Returns a configuration with this section, and the files that it may refer to.
fn folder(http: &str, access: &str) -> Folder {
    let text = format!("version: 1\nlisten: {{ http: \"{http}\" }}\n{access}\n");
    Folder::new(&[("f.yaml", &text), ("cert.pem", CERTIFICATE), ("key.pem", KEY), ("keys.json", "{\"keys\": []}")])
}

const TLS: &str = "tls: { cert: { file: cert.pem }, key: { file: key.pem } }";

#[test]
fn access_without_section_has_no_grants_and_no_limits() {
    let access = loaded("version: 1\n").settings.access;
    assert!(!access.is_enabled() && access.limits.is_none() && access.tls.is_none());
}

#[test]
fn access_section_gives_grants_limits_and_hosts() {
    let access = format!(
        "access:
  {TLS}
  tokens: [ {{ name: ci, sha256: {HASH}, expires: 2030-01-01T00:00:00Z }} ]
  roles: [ {{ name: pusher, verbs: [report] }} ]
  grants:
    - {{ role: pusher, to: [\"token:ci\"] }}
    - {{ role: editor, to: [\"token:ci\"], projects: [shop] }}
  limits: {{ burst: 7 }}
  hosts: [DNS.example]"
    );
    let access = folder("192.0.2.1:8053", &access).load("f.yaml").unwrap().settings.access;
    assert!(access.is_enabled() && access.tls.is_some());
    let ci = Identity::known(["token:ci".parse().unwrap()]);
    let may = |verb: Verb, project: Option<&str>| {
        access.decide(&ci, &RequiredPermission { verbs: verb.into(), project: project.map(str::to_owned) }).is_ok()
    };
    assert!(may(Verb::Report, None) && may(Verb::Write, Some("shop")) && !may(Verb::Write, None));
    let limits = access.limits.unwrap();
    assert_eq!((limits.burst.get(), limits.per_second), (7, LimitSettings::default().per_second));
    assert_eq!(access.hosts, ["dns.example"]);
    assert_eq!(access.identify_token("abc", fairway_model::Timestamp::from_secs(1)), Some(ci));
    assert_eq!(
        access.identify_token("abc", fairway_model::Timestamp::from_secs(4_000_000_000)),
        None,
        "it has expired"
    );
    assert_eq!(access.identify_token("abd", fairway_model::Timestamp::from_secs(1)), None);
}

#[test]
fn certificate_of_an_authority_is_a_warning_for_a_server() {
    let access = format!(
        "access:\n  {TLS}\n  tokens: [ {{ name: ci, sha256: {HASH} }} ]\n  grants: [ {{ role: viewer, to: [anyone] }} ]"
    );
    let found = folder("192.0.2.1:8053", &access).check("f.yaml");
    let expected = "f.yaml:4:16: warning: access.tls.cert: this is the certificate of an authority (CA:TRUE), which \
                    `fairway --server` and other clients refuse; have the authority sign a certificate with CA:FALSE for \
                    the server (docs/access.md)";
    assert_eq!(found, [expected]);
}

#[test]
fn listener_for_other_machines_requires_tls_and_authentication() {
    let tokens = format!("tokens: [ {{ name: ci, sha256: {HASH} }} ]");
    for (http, section, missing) in [
        ("0.0.0.0:8053", String::new(), Some("access.tls, and access.tokens, access.issuers or access.tls.clientCa")),
        ("[::]:8053", format!("access: {{ {TLS} }}"), Some("access.tokens, access.issuers or access.tls.clientCa")),
        ("192.0.2.1:80", format!("access: {{ {tokens} }}"), Some("add access.tls (docs/access.md)")),
        ("192.0.2.1:80", format!("access: {{ {tokens}, {TLS} }}"), None),
        ("127.0.0.9:80", String::new(), None),
        ("[::ffff:127.0.0.1]:80", String::new(), None),
        ("off", String::new(), None),
    ] {
        match (folder(http, &section).load("f.yaml"), missing) {
            (Ok(_), None) => {}
            (Err(errors), Some(missing)) => {
                let error =
                    errors.iter().find(|error| error.starts_with("f.yaml:2:17: listen.http")).expect(&errors[0]);
                assert!(error.contains(missing), "{error}");
            }
            (other, _) => panic!("{http} {section}: {other:?}"),
        }
    }
    let by_variable = folder("off", "").load_with("f.yaml", &[("FAIRWAY_LISTEN_HTTP", "[::]:8053")]).unwrap_err();
    assert!(by_variable[0].starts_with("environment: listen.http: [::]:8053"), "{by_variable:?}");
}

#[test]
fn access_errors_are_reported_together_with_locations() {
    let text = format!(
        "access:
  tls: {{ cert: {{ file: cert.pem }}, key: {{ file: cert.pem }} }}
  tokens:
    - {{ name: ci, sha256: {HASH} }}
    - {{ name: ci, sha256: {HASH} }}
  issuers:
    - {{ name: corp, issuer: corp, audiences: [a] }}
    - {{ name: file, issuer: x, audiences: [a], keysFile: keys.json }}
    - {{ name: both, issuer: y, audiences: [a], keysFile: keys.json, keysUrl: \"https://a.example/\", leeway: 1h }}
  roles: [ {{ name: admin, verbs: [read] }} ]
  grants:
    - {{ role: edito, to: [\"token:cd\", \"jwt:nobody:alice\", \"certificate:a\"] }}
    - {{ role: editor, to: [anyone] }}"
    );
    let errors = folder("off", &text).load("f.yaml").unwrap_err();
    for wanted in [
        ("f.yaml:4:", "access.tls.key: no private key in the text"),
        ("f.yaml:7:", "ci is already declared in access.tokens[0]"),
        ("f.yaml:7:", "access.tokens[0] has the same hash"),
        ("f.yaml:9:", "keys cannot be discovered"),
        ("f.yaml:10:", "no public key for signatures"),
        ("f.yaml:11:", "keysFile and keysUrl exclude each other"),
        ("f.yaml:12:", "admin is a built-in role"),
        ("f.yaml:14:", "role edito is not declared; did you mean editor?"),
        ("f.yaml:14:", "token cd is not declared"),
        ("f.yaml:14:", "issuer nobody is not declared"),
        ("f.yaml:14:", "client certificates are not requested"),
        ("f.yaml:15:", "clients without authentication would get delete, write"),
    ] {
        let is_reported = errors.iter().any(|error| error.starts_with(wanted.0) && error.contains(wanted.1));
        assert!(is_reported, "{wanted:?} is not in {errors:#?}");
    }
}

#[test]
fn invalid_access_values_are_rejected_without_showing_a_token() {
    let errors = errors_of(
        "version: 1
access:
  tokens: [ { name: a, sha256: fairway_0123456789 } ]
  issuers: [ { name: i, issuer: \"https://i.example\", audiences: [a], algorithms: [HS256], keysUrl: \"http://i.example/\" } ]
  roles: [ { name: r, verbs: [wirte] } ]
  grants: [ { role: r, to: [alice] } ]
",
    );
    let shown = errors.join("\n");
    for wanted in [
        "SHA-256 of a token",
        "signature algorithm with a public key",
        "https URL",
        "did you mean write?",
        "token:NAME",
    ] {
        assert!(shown.contains(wanted), "{wanted} is not in {shown}");
    }
    assert!(!shown.contains("fairway_0123456789"), "{shown}");
}

#[test]
fn grants_without_identities_and_identities_without_grants_are_reported() {
    let errors = errors_of("version: 1\naccess: { grants: [ { role: viewer, to: [anyone] } ] }\n");
    assert!(errors[0].contains("grants have no effect without authentication"), "{errors:?}");
    let text = format!("version: 1\naccess: {{ tokens: [ {{ name: ci, sha256: {HASH} }} ] }}\n");
    let warnings = loaded(&text).warnings;
    assert!(warnings.iter().any(|error| error.to_string().contains("every request is denied")), "{warnings:?}");
}
