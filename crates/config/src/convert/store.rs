//! The store of declared objects.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use fairway_etcd::{Settings, Source};
use fairway_http::{Url, UrlError};

use super::Converter;
use crate::{
    StoreSettings,
    bounds_wire::{List, Text},
    store_wire::{Etcd, Store},
};

pub(super) fn store(converter: &mut Converter<'_, '_>, store: &Store) -> StoreSettings {
    let Some(etcd) = &store.etcd else { return StoreSettings::Embedded };
    let List(endpoints) = &etcd.endpoints;
    let endpoints: Vec<_> = endpoints
        .iter()
        .enumerate()
        .filter_map(|(at, text)| endpoint(converter, format_args!("/store/etcd/endpoints/{at}"), text))
        .collect();
    reject_incomplete_pairs(converter, etcd);
    let file = |name: &str, given: &Option<Text<1>>| {
        given.as_ref().map(|Text(path)| Source::File(converter.path(&format!("/store/etcd/{name}"), path)))
    };
    let (password, ca) = (file("passwordFile", &etcd.password_file), file("ca", &etcd.ca));
    let identity = file("certificate", &etcd.certificate).zip(file("key", &etcd.key));
    let user = etcd.user.as_ref().map(|Text(user)| user.clone()).zip(password);
    let timeout = converter.bounded("/store/etcd/timeout", etcd.timeout.as_ref(), &TIMEOUTS, TIMEOUT);
    StoreSettings::Etcd {
        prefix: prefix(converter, etcd),
        etcd: Settings {
            endpoints,
            user,
            ca,
            identity,
            endpoint_timeout: timeout,
            // Enough for one endpoint that does not answer and another one.
            call_timeout: timeout * 2,
        },
    }
}

/// Parses an endpoint. Errors do not show a password in the URL.
pub(super) fn endpoint<const MOST: usize>(
    converter: &mut Converter<'_, '_>,
    pointer: impl Display,
    Text(text): &Text<1, MOST>,
) -> Option<Url> {
    let report = |error: UrlError| {
        let shown = text.rsplit('@').next().unwrap_or_default();
        let hint = match error {
            UrlError::UserInfo => "use the keys user and password",
            _ => "write http://HOST:PORT or https://HOST:PORT, without a path",
        };
        converter.error(pointer, format!("{shown:.100}: {error}"), hint);
    };
    Url::parse_origin(text).map_err(report).ok()
}

/// Rejects keys that have no effect without another one.
fn reject_incomplete_pairs(converter: &mut Converter<'_, '_>, etcd: &Etcd) {
    let (user, password) = (etcd.user.is_some(), etcd.password_file.is_some());
    let (certificate, key) = (etcd.certificate.is_some(), etcd.key.is_some());
    for (is_half, name, other) in [
        (user && !password, "user", "passwordFile"),
        (password && !user, "passwordFile", "user"),
        (certificate && !key, "certificate", "key"),
        (key && !certificate, "key", "certificate"),
    ] {
        if is_half {
            let what = format!("it has no effect without {other}");
            converter.error(format_args!("/store/etcd/{name}"), what, format!("add {other}, or remove it"));
        }
    }
    let List(endpoints) = &etcd.endpoints;
    let is_plain = endpoints.iter().any(|Text(endpoint)| endpoint.starts_with("http://"));
    if is_plain && (certificate || etcd.ca.is_some()) {
        let what = "certificates have no effect on an http endpoint";
        converter.error("/store/etcd/endpoints", what, "write https:// for all of them, or remove the certificates");
    }
}

/// Returns the prefix, which ends with a slash.
fn prefix(converter: &mut Converter<'_, '_>, etcd: &Etcd) -> String {
    let given = etcd.prefix.as_ref().map_or(PREFIX, |Text(prefix)| prefix);
    if !given.bytes().all(|byte| byte.is_ascii_graphic()) {
        converter.error("/store/etcd/prefix", format!("{given:?} is not printable ASCII"), "write it as /fairway/");
    }
    if given.ends_with('/') { given.to_owned() } else { format!("{given}/") }
}

/// Default prefix of keys.
const PREFIX: &str = "/fairway/";
/// Default time limit of an endpoint.
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);
