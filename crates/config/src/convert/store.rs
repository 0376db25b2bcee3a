//! Where declared objects are kept.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use fairway_etcd::{Settings, Source};
use fairway_http::{Url, UrlError};

use super::Meaning;
use crate::{
    StoreSettings,
    bounds_wire::{List, Text},
    store_wire::{Etcd, Store},
};

pub(super) fn store(meaning: &mut Meaning<'_, '_>, store: &Store) -> StoreSettings {
    let Some(etcd) = &store.etcd else { return StoreSettings::Embedded };
    let List(endpoints) = &etcd.endpoints;
    let endpoints: Vec<_> = endpoints
        .iter()
        .enumerate()
        .filter_map(|(at, text)| endpoint(meaning, format_args!("/store/etcd/endpoints/{at}"), text))
        .collect();
    refuse_halves(meaning, etcd);
    let file = |name: &str, given: &Option<Text<1>>| {
        given.as_ref().map(|Text(path)| Source::File(meaning.path(&format!("/store/etcd/{name}"), path)))
    };
    let (password, ca) = (file("passwordFile", &etcd.password_file), file("ca", &etcd.ca));
    let identity = file("certificate", &etcd.certificate).zip(file("key", &etcd.key));
    let user = etcd.user.as_ref().map(|Text(user)| user.clone()).zip(password);
    let timeout = meaning.bounded("/store/etcd/timeout", etcd.timeout.as_ref(), &TIMEOUTS, TIMEOUT);
    StoreSettings::Etcd {
        prefix: prefix(meaning, etcd),
        etcd: Settings {
            endpoints,
            user,
            ca,
            identity,
            endpoint_timeout: timeout,
            // An endpoint that does not answer, and another one.
            call_timeout: timeout * 2,
        },
    }
}

/// An endpoint. The error does not show a password that stands in the URL.
pub(super) fn endpoint<const MOST: usize>(
    meaning: &mut Meaning<'_, '_>,
    pointer: impl Display,
    Text(text): &Text<1, MOST>,
) -> Option<Url> {
    let report = |error: UrlError| {
        let shown = text.rsplit('@').next().unwrap_or_default();
        let hint = match error {
            UrlError::UserInfo => "give user and password in keys of their own",
            _ => "write http://HOST:PORT or https://HOST:PORT, without a path",
        };
        meaning.error(pointer, format!("{shown:.100}: {error}"), hint);
    };
    Url::parse_origin(text).map_err(report).ok()
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
    let given = etcd.prefix.as_ref().map_or(PREFIX, |Text(prefix)| prefix);
    if !given.bytes().all(|octet| octet.is_ascii_graphic()) {
        meaning.error("/store/etcd/prefix", format!("{given:?} is not printable ASCII"), "write it as /fairway/");
    }
    if given.ends_with('/') { given.to_owned() } else { format!("{given}/") }
}

/// Prefix of keys where none is given.
const PREFIX: &str = "/fairway/";
/// Time that an endpoint has to answer where none is given.
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);
