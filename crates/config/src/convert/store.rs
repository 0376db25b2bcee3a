//! Where declared objects are kept.

use std::time::Duration;

use hyper::Uri;

use super::Meaning;
use crate::{
    EtcdSettings, StoreSettings,
    bounds_wire::{List, Text},
    store_wire::{Etcd, Store},
};

pub(super) fn store(meaning: &mut Meaning<'_, '_>, store: &Store) -> StoreSettings {
    let Some(etcd) = &store.etcd else { return StoreSettings::Embedded };
    if cfg!(not(feature = "etcd")) {
        let hint = "build it with the cargo feature etcd (docs/operations/etcd.md), or take the section out";
        meaning.error("/store/etcd", "this program was built without etcd", hint);
    }
    let List(endpoints) = &etcd.endpoints;
    for (index, Text(endpoint)) in endpoints.iter().enumerate() {
        if let Some(what) = fault_of(endpoint) {
            let hint = "write http://HOST:PORT or https://HOST:PORT, without a path";
            // A password must not be shown.
            let shown = endpoint.rsplit('@').next().unwrap_or_default();
            meaning.error(format_args!("/store/etcd/endpoints/{index}"), format!("{shown:.100}: {what}"), hint);
        }
    }
    refuse_halves(meaning, etcd);
    let path = |name: &str, given: &Option<Text<1>>| {
        given.as_ref().map(|Text(path)| meaning.path(&format!("/store/etcd/{name}"), path))
    };
    let (password, ca) = (path("passwordFile", &etcd.password_file), path("ca", &etcd.ca));
    let identity = path("certificate", &etcd.certificate).zip(path("key", &etcd.key));
    let user = etcd.user.as_ref().map(|Text(user)| user.clone()).zip(password);
    StoreSettings::Etcd(EtcdSettings {
        endpoints: endpoints.iter().map(|Text(endpoint)| endpoint.trim_end_matches('/').to_owned()).collect(),
        prefix: prefix(meaning, etcd),
        user,
        ca,
        identity,
        timeout: meaning.bounded(
            "/store/etcd/timeout",
            etcd.timeout.as_ref(),
            &(Duration::from_millis(100)..=Duration::from_secs(30)),
            EtcdSettings::TIMEOUT,
        ),
    })
}

/// What is wrong with an endpoint.
fn fault_of(endpoint: &str) -> Option<&'static str> {
    let Ok(uri) = endpoint.parse::<Uri>() else { return Some("it is no URL") };
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Some("user and password stand in user and passwordFile")
        }
        (Some("http" | "https"), Some(_)) if matches!(uri.path(), "" | "/") && uri.query().is_none() => None,
        (Some("http" | "https"), Some(_)) => Some("it has a path or a query"),
        _ => Some("it has no scheme that is spoken with etcd, or no host"),
    }
}

/// Refuses keys that mean nothing without another one.
fn refuse_halves(meaning: &mut Meaning<'_, '_>, etcd: &Etcd) {
    let (user, password) = (etcd.user.is_some(), etcd.password_file.is_some());
    let (certificate, key) = (etcd.certificate.is_some(), etcd.key.is_some());
    for (is_half, name, other) in [
        (user && !password, "user", "passwordFile"),
        (password && !user, "passwordFile", "user"),
        (certificate && !key, "certificate", "key"),
        (key && !certificate, "key", "certificate"),
    ] {
        if is_half {
            let what = format!("it means nothing without {other}");
            meaning.error(format_args!("/store/etcd/{name}"), what, format!("add {other}, or take it out"));
        }
    }
    let List(endpoints) = &etcd.endpoints;
    let is_plain = endpoints.iter().any(|Text(endpoint)| endpoint.starts_with("http://"));
    if is_plain && (certificate || etcd.ca.is_some()) {
        let what = "certificates are given, and an endpoint that is spoken to without TLS";
        meaning.error("/store/etcd/endpoints", what, "write https:// for all of them, or take the certificates out");
    }
}

/// The prefix, which ends with a slash.
fn prefix(meaning: &mut Meaning<'_, '_>, etcd: &Etcd) -> String {
    let given = etcd.prefix.as_ref().map_or(EtcdSettings::PREFIX, |Text(prefix)| prefix);
    if !given.bytes().all(|octet| octet.is_ascii_graphic()) {
        meaning.error("/store/etcd/prefix", format!("{given:?} is not printable ASCII"), "write it as /fairway/");
    }
    if given.ends_with('/') { given.to_owned() } else { format!("{given}/") }
}
