//! Names granted to tenants: conversion, errors, and warnings about grants that grant nothing.

use super::{
    sources::{CERTIFICATE, KEY},
    *,
};
use crate::WebhookSettings;
use fairway_access::{Subject, Tenant};
use fairway_model::{Name, Rtype};

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const OTHER: &str = "aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn config(access: &str, webhook: &str) -> String {
    format!(
        "version: 1
zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
access:
  tokens: [{{ name: ci, sha256: {HASH} }}]
{access}
{webhook}
"
    )
}

fn warnings(text: &str) -> Vec<String> {
    loaded(text).warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn names_are_granted_by_domain_and_type() {
    let access = "  names:
    - { to: [\"project:shop\", \"owner:east\"], domains: [shop.gslb.example] }
    - { to: [\"owner:east\"], domains: [gslb.example], types: [TXT, _acme-challenge] }";
    let webhook = format!("webhook: {{ owners: [{{ name: east, token: {OTHER} }}] }}");
    let settings = loaded(&config(access, &webhook)).settings;
    let check = |tenant: &str, name: &str, rtype| {
        let (tenant, name): (Tenant, Name) = (tenant.parse().unwrap(), name.parse().unwrap());
        settings.access.names.check(&tenant, &name, rtype).is_ok()
    };
    assert!(check("project:shop", "a.shop.gslb.example", Rtype::A));
    assert!(!check("project:shop", "gslb.example", Rtype::A) && !check("project:pay", "shop.gslb.example", Rtype::A));
    assert!(check("owner:east", "_acme-challenge.x.gslb.example", Rtype::TXT));
    assert!(!check("owner:east", "x.gslb.example", Rtype::A) && !check("owner:east", "shop.gslb.example", Rtype::NS));
}

#[test]
fn names_are_enforced_with_access_rules_or_owners_only() {
    let is_enforced = |text: &str| loaded(text).settings.access.names.is_enforced;
    assert!(!is_enforced("version: 1\n"));
    assert!(!is_enforced(&format!("version: 1\nwebhook: {{ token: {HASH} }}\n")));
    assert!(is_enforced(&config("", "")));
    assert!(is_enforced(&format!("version: 1\nwebhook: {{ owners: [{{ name: a, token: {HASH} }}] }}\n")));
    assert!(is_enforced("version: 1\naccess: { names: [{ to: [\"project:a\"], domains: [a.example] }] }\n"));
}

#[test]
fn grants_that_grant_nothing_are_reported_with_the_line_to_add() {
    let grants = "  grants:
    - { role: editor, to: [\"token:ci\"], projects: [shop, pay] }
    - { role: viewer, to: [\"token:ci\"], projects: [quiet] }
  names: [{ to: [\"project:shop\"], domains: [gslb.example, elsewhere.example] }]";
    let webhook = format!("webhook: {{ owners: [{{ name: east, token: {OTHER} }}] }}");
    let found = warnings(&config(grants, &webhook));
    for wanted in [
        "access.grants[0]: project:pay may claim no name, so the grant serves none of its intents",
        "add to access.names: { to: [\"project:pay\"], domains: [gslb.example] }",
        "access.names[0].domains[1]: elsewhere.example. is in no declared zone",
        "webhook.owners: owner:east may claim no name, so its credentials grant nothing",
        "add to access.names: { to: [\"owner:east\"], domains: [gslb.example] }",
    ] {
        assert!(found.iter().any(|warning| warning.contains(wanted)), "{wanted} is not in {found:#?}");
    }
    assert!(!found.iter().any(|warning| warning.contains("quiet") || warning.contains("project:shop")), "{found:#?}");

    let all = "  grants: [{ role: editor, to: [\"token:ci\"] }]";
    let found = warnings(&config(all, "webhook: {}"));
    for wanted in [
        "access.grants[0]: no project may claim a name",
        "{ to: [\"project:*\"], domains: [gslb.example] }",
        "webhook: access is restricted, and no webhook client may claim a name",
        "{ to: [\"owner:/\"], domains: [gslb.example] }",
    ] {
        assert!(found.iter().any(|warning| warning.contains(wanted)), "{wanted} is not in {found:#?}");
    }
    let all = "  grants: [{ role: editor, to: [\"token:ci\"] }]
  names: [{ to: [\"project:*\", \"owner:/\"], domains: [gslb.example] }]";
    assert_eq!(warnings(&config(all, "webhook: {}")), Vec::<String>::new());
}

#[test]
fn owner_without_its_own_token_is_rejected() {
    let names = "  names: [{ to: [\"owner:west\"], domains: [gslb.example] }]";
    let owners = format!(
        "webhook: {{ token: {HASH}, owners: [{{ name: east, token: {OTHER} }}, {{ name: east, token: {HASH} }}, {{ name: a/b, token: {OTHER} }}] }}"
    );
    let errors = errors_of(&config(names, &owners));
    for wanted in [
        "access.names[0].to: owner:west is not declared",
        "webhook.owners[1].token: the token is in use by another owner, or is webhook.token",
        "webhook.owners[1].name: east is already declared",
        "webhook.owners[2].name: \"a/b\" is not the name of an owner",
        "webhook.owners[2].token: the token is in use",
    ] {
        assert!(errors.iter().any(|error| error.contains(wanted)), "{wanted} is not in {errors:#?}");
    }
}

#[test]
fn token_of_an_owner_opens_its_base_path_only() {
    let (root, east, west) = ("abc", "east-token", "west-token");
    let hash = fairway_access::TokenHash::of;
    let owners = |more: &str| {
        let text = format!(
            "version: 1\nwebhook: {{ owners: [{{ name: east, token: {} }}, {{ name: west, token: {} }}]{more} }}\n",
            hash(east),
            hash(west)
        );
        loaded(&text).settings.webhook.unwrap()
    };
    let with_root = owners(&format!(", token: {}", hash(root)));
    let table = [
        (Some("east"), Some(east), true),
        (Some("east"), Some(west), false),
        (Some("east"), Some(root), false),
        (Some("east"), None, false),
        (Some("north"), Some(root), false),
        (Some("north"), Some(east), false),
        (None, Some(root), true),
        (None, Some(east), false),
        (None, None, false),
    ];
    for (owner, token, is_accepted) in table {
        assert_eq!(with_root.accepts(owner, token, &[]), is_accepted, "{owner:?} {token:?}");
    }
    let without_root = owners("");
    assert!(without_root.accepts(Some("west"), Some(west), &[]) && !without_root.accepts(None, None, &[]));
    let open = WebhookSettings::default();
    assert!(open.accepts(None, None, &[]) && open.accepts(Some("x"), None, &[]));
}

/// Returns the result of loading a webhook with this TLS section and these further lines.
fn with_certificates(tls: &str, more: &str) -> Result<WebhookSettings, Vec<String>> {
    let text = format!(
        "version: 1\nwebhook: {{ listen: \"0.0.0.0:8888\", tls: {{ cert: {{ file: c }}, key: {{ file: k }}{tls} }}{more} }}\n"
    );
    let folder = Folder::new(&[("f.yaml", &text), ("c", CERTIFICATE), ("k", KEY)]);
    folder.load("f.yaml").map(|loaded| loaded.settings.webhook.expect("it is declared"))
}

#[test]
fn client_certificate_opens_what_a_token_opens() {
    let names = |name: &str| [Subject::Certificate(name.to_owned()), Subject::Certificate("sha256:00".to_owned())];
    let (east, west) = (names("spiffe://corp/east"), names("spiffe://corp/west"));
    let ca = ", clientCa: { file: c }";
    let all = with_certificates(ca, "").unwrap();
    assert!(all.accepts(None, None, &east) && all.accepts(Some("x"), None, &west));
    assert!(!all.accepts(None, None, &[]) && !all.accepts(Some("x"), Some("t"), &[]));
    let owners = format!(
        ", token: {HASH}, owners: [{{ name: east, certificate: \"spiffe://corp/east\" }}, {{ name: west, token: {}, certificate: \"spiffe://corp/west\" }}]",
        fairway_access::TokenHash::of("west-token")
    );
    let each = with_certificates(ca, &owners).unwrap();
    for (owner, token, certificate, is_accepted) in [
        (Some("east"), None, &east[..], true),
        (Some("east"), None, &west, false),
        (Some("east"), Some("west-token"), &[], false),
        (Some("west"), None, &west, true),
        (Some("west"), Some("west-token"), &east, true),
        (Some("north"), None, &east, false),
        // The certificate of one owner is not that of all.
        (None, None, &east, false),
        (None, Some("abc"), &[], true),
    ] {
        assert_eq!(each.accepts(owner, token, certificate), is_accepted, "{owner:?} {token:?} {certificate:?}");
    }
}

#[test]
fn owner_without_usable_credentials_is_rejected() {
    let east = "{ name: east, certificate: east.corp.example }";
    for (tls, more, wanted) in [
        ("", String::new(), "webhook.listen: 0.0.0.0:8888 can be reached from other machines"),
        ("", format!(", owners: [{east}]"), "webhook.owners[0].certificate: client certificates are not requested"),
        (
            "",
            ", owners: [{ name: east }]".to_owned(),
            "webhook.owners[0]: owner east has neither a token nor a certificate",
        ),
        (
            ", clientCa: { file: c }",
            format!(", owners: [{east}, {{ name: west, certificate: east.corp.example }}]"),
            "webhook.owners[1].certificate: the certificate is in use by another owner",
        ),
    ] {
        let errors = with_certificates(tls, &more).expect_err(wanted);
        assert!(errors.iter().any(|error| error.contains(wanted)), "{wanted} is not in {errors:#?}");
    }
}

#[test]
fn grants_that_could_grant_nothing_are_rejected_with_other_errors() {
    let config = |names: &str| format!("version: 1\nnonsense: true\naccess: {{ names: [{names}] }}\n");
    for (names, wanted) in [
        ("{ to: [\"project:a\"], domains: [a.example], types: [TXTT] }", "\"TXTT\""),
        ("{ to: [\"ownr:east\"], domains: [a.example] }", "\"ownr:east\" is not a tenant"),
        ("{ to: [\"owner:\"], domains: [a.example] }", "\"owner:\" is not a tenant"),
        ("{ to: [\"project:a\"], domains: [a.example], types: [ANY] }", "leave out types"),
    ] {
        let errors = errors_of(&config(names));
        for wanted in [wanted, "nonsense"] {
            assert!(errors.iter().any(|error| error.contains(wanted)), "{wanted} is not in {errors:#?}");
        }
        assert!(!errors.iter().any(|error| error.contains("report this as a bug")), "{errors:#?}");
    }
    let errors =
        errors_of("version: 1\naccess: { names: [{ to: [\"project:a\"], domains: [\"*.w.gslb.example\"] }] }\n");
    let wanted = "write w.gslb.example: a domain includes all names below it";
    assert!(errors.iter().any(|error| error.contains(wanted)), "{errors:#?}");
}

#[test]
fn every_format_of_the_schema_is_checked() {
    fn formats(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        let inner: Vec<_> = match value {
            serde_json::Value::Array(items) => items.iter().collect(),
            serde_json::Value::Object(object) => object.values().collect(),
            _ => vec![],
        };
        found.extend(value.get("format").and_then(serde_json::Value::as_str).map(str::to_owned));
        inner.into_iter().for_each(|value| formats(value, found));
    }
    let mut found = std::collections::BTreeSet::new();
    formats(&crate::schema::schema(), &mut found);
    let unknown: Vec<_> = found.iter().filter(|format| crate::schema::example(format).is_none()).collect();
    assert!(unknown.is_empty() && found.len() > 20, "{unknown:?} of {found:?}");
}
