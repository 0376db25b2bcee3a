//! The store of declared objects, and what it has in common with the etcd of a CoreDNS.

use std::time::Duration;

use fairway_etcd::{Settings, Source};
use fairway_http::{Url, UrlError};
use fairway_model::Secret;

use super::{Converter, monitors::secret, plain_http::reject_secret_in_clear};
use crate::{
    StoreBackend, StoreSettings,
    bounds_wire::{As, List, Plain, Text},
    reason::Reason,
    store_wire::{Etcd, Store},
};

/// Largest number of keys: two are needed while one replaces the other.
const KEYS_MAX: usize = 16;
const KEY_DIGITS: usize = 64;

pub(super) fn store(converter: &mut Converter<'_, '_>, store: Store) -> StoreSettings {
    let given = store.keys.as_ref().and_then(|wire| secret(converter, "/store/keys", wire));
    let keys = given.map(|text| parse_keys(&text)).transpose().unwrap_or_else(|why| {
        converter.reject("/store/keys", why);
        None
    });
    let backend = store.etcd.map_or(StoreBackend::Embedded, |etcd| self::etcd(converter, etcd));
    StoreSettings { backend, keys: keys.unwrap_or_default() }
}

/// Parses the keys of the store as `store.keys` has them: 64 hexadecimal digits each, one per line. Blank lines and lines that begin with `#`
/// are skipped. Errors have a hint, and never a key.
pub fn store_keys(text: &Secret) -> Result<Vec<Secret>, String> {
    parse_keys(text).map_err(|why| why.to_string())
}

fn parse_keys(text: &Secret) -> Result<Vec<Secret>, Reason> {
    const HINT: &str = "write one key per line, made with: openssl rand -hex 32";
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.expose().lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() != KEY_DIGITS || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Reason::new(format!("line {number} is not a key of {KEY_DIGITS} hexadecimal digits"), HINT));
        }
        keys.push(Secret::new(line));
    }
    match keys.len() {
        0 => Err(Reason::new("there is no key", HINT)),
        count if count > KEYS_MAX => Err(Reason::new(
            format!("there are {count} keys, and at most {KEYS_MAX} are allowed"),
            "remove the oldest ones",
        )),
        _ => Ok(keys),
    }
}

fn etcd(converter: &mut Converter<'_, '_>, etcd: Etcd) -> StoreBackend {
    let pointer = "/store/etcd";
    let endpoints = endpoints(converter, pointer, &etcd.endpoints);
    reject_incomplete_pairs(converter, &etcd);
    let file = |name: &str, given: Option<Text<1>>| {
        given.map(|As(path)| Source::File(converter.path(format_args!("{pointer}/{name}"), &path)))
    };
    let (password, ca) = (file("passwordFile", etcd.password_file), file("ca", etcd.ca));
    let identity = file("certificate", etcd.certificate).zip(file("key", etcd.key));
    if password.is_some() {
        let endpoints = endpoints.iter().flatten();
        reject_secret_in_clear(converter, "/store/etcd/passwordFile", etcd.allow_plain_http, endpoints);
    }
    let bounds = Duration::from_millis(100)..=Duration::from_secs(30);
    let timeout = converter.bounded("/store/etcd/timeout", etcd.timeout, bounds, Duration::from_secs(2));
    let prefix = key_prefix(converter, pointer, etcd.prefix, "/fairway/");
    StoreBackend::Etcd {
        prefix: if prefix.ends_with('/') { prefix } else { prefix + "/" },
        etcd: Settings {
            endpoints: endpoints.unwrap_or_default(),
            user: etcd.user.plain().zip(password),
            ca,
            identity,
            endpoint_timeout: timeout,
            // Enough for one endpoint that does not answer and another one.
            call_timeout: timeout * 2,
        },
    }
}

/// Parses the endpoints of an etcd; `None` after reporting the invalid ones. Errors do not show a password in the URL.
pub(super) fn endpoints(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    As(texts): &List<Text<1, 512>, 1, 16>,
) -> Option<Vec<Url>> {
    let mut valid = Vec::with_capacity(texts.len());
    for (at, As(text)) in texts.iter().enumerate() {
        match Url::parse_origin(text) {
            Ok(url) => valid.push(url),
            Err(error) => {
                let shown = text.rsplit('@').next().unwrap_or_default();
                let hint = match error {
                    UrlError::UserInfo => "use the keys user and password",
                    _ => "write http://HOST:PORT or https://HOST:PORT, without a path",
                };
                converter.error(format_args!("{pointer}/endpoints/{at}"), format!("{shown:.100}: {error}"), hint);
            }
        }
    }
    (valid.len() == texts.len()).then_some(valid)
}

/// Returns the prefix of the keys in an etcd.
pub(super) fn key_prefix(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    given: Option<Text<1, 200>>,
    default: &str,
) -> String {
    let prefix = given.plain().unwrap_or_else(|| default.to_owned());
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("{prefix:?} is not printable ASCII");
        converter.error(format_args!("{pointer}/prefix"), what, format!("write it as {default}"));
    }
    prefix
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
    let is_plain = etcd.endpoints.0.iter().any(|As(endpoint)| endpoint.starts_with("http://"));
    if is_plain && (certificate || etcd.ca.is_some()) {
        let what = "certificates have no effect on an http endpoint";
        converter.error("/store/etcd/endpoints", what, "write https:// for all of them, or remove the certificates");
    }
}
