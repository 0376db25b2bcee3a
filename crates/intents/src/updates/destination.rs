//! The destination of a record's publisher, read from its parameters.
//!
//! A record cannot name a file of the server: certificates are part of the record, and files are written below a folder of its own.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use fairway_etcd::Settings;
use fairway_http::{Tls, Url};
use fairway_model::{Name, Secret};
use fairway_providers::{
    publish::Weights,
    rfc2136::{TsigAlgorithm, TsigKey},
};

use super::{
    mapping::{PLAIN_HTTP, ProviderKind},
    reader::ParameterReader,
};
use crate::{
    common::PORT,
    values::{FLAG, Span, Words},
};
use fairway_config::{Destination, ObjectPlace, show_duration};

/// Returns the destination. `folder` is the folder of the record's files; `None` if the server has no data folder.
pub(super) fn destination(reader: &mut ParameterReader<'_>, folder: Option<&Path>) -> Option<Destination> {
    match reader.kind() {
        ProviderKind::DnsEndpoint => dnsendpoints(reader, folder),
        ProviderKind::Etcd => etcd(reader),
        ProviderKind::File => Some(Destination::File(inside(reader, "path", "records.zone", folder)?)),
        ProviderKind::PowerDns => powerdns(reader),
        ProviderKind::Rfc2136 => rfc2136(reader),
        ProviderKind::Webhook => webhook(reader),
    }
}

fn rfc2136(reader: &mut ParameterReader<'_>) -> Option<Destination> {
    let host = match reader.list("rfc2136-host")[..] {
        [] => {
            reader.error("rfc2136-host", "is missing; give the address of the server, such as 192.0.2.53");
            None
        }
        [host] => {
            let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
            if address.is_none() {
                reader.error(
                    "rfc2136-host",
                    format!("{host:?} is not an address, and host names are not looked up; give the address"),
                );
            }
            address
        }
        _ => {
            reader.error("rfc2136-host", "has several servers; create one record per server");
            None
        }
    };
    let port = reader.read("rfc2136-port", &PORT).unwrap_or(53);
    let key = tsig_key(reader)?;
    Some(Destination::Rfc2136 { server: SocketAddr::new(host?, port), key, timeout: TIMEOUT })
}

/// Returns the key that signs messages: `Some(None)` if the record has `rfc2136-insecure`, `None` on an error.
fn tsig_key(reader: &mut ParameterReader<'_>) -> Option<Option<TsigKey>> {
    let keyname = "rfc2136-tsig-keyname";
    let secret = "rfc2136-tsig-secret";
    if reader.read("rfc2136-insecure", &FLAG) == Some(true) {
        for name in [keyname, secret, "rfc2136-tsig-secret-alg"] {
            if reader.is_given(name) {
                reader.error(name, "has no effect with rfc2136-insecure; remove one of them");
            }
        }
        return Some(None);
    }
    let name = reader.required(
        keyname,
        "the name of the key, or rfc2136-insecure for a server that accepts updates by client address",
    );
    let algorithm = reader.read("rfc2136-tsig-secret-alg", &ALGORITHMS).unwrap_or_default();
    let text = reader.required(secret, "the key in base64, as in the server's configuration");
    let Ok(name) = name?.parse::<Name>() else {
        reader.error(keyname, "is not a domain name; write it as in the server's configuration");
        return None;
    };
    let key = TsigKey { name, algorithm, secret: Secret::new(text?) };
    if !key.is_valid() {
        reader.error(secret, "is not base64; write the key as in the server's configuration");
    }
    Some(Some(key))
}

fn powerdns(reader: &mut ParameterReader<'_>) -> Option<Destination> {
    let url = reader.required("pdns-server", "the URL of its API, such as http://192.0.2.53:8081");
    let url = url.and_then(|url| reader.url("pdns-server", url));
    let key = reader.required("pdns-api-key", "its api-key");
    check_line(reader, "pdns-api-key");
    check_plain_http(reader, "pdns-api-key", url.as_slice());
    Some(Destination::PowerDns { url: url?, key: Secret::new(key?), timeout: TIMEOUT })
}

fn etcd(reader: &mut ParameterReader<'_>) -> Option<Destination> {
    reader.required("etcd-urls", "the URLs of its servers, such as http://192.0.2.10:2379, separated by commas")?;
    let texts = reader.list("etcd-urls");
    if !(1..=ENDPOINTS_MAX).contains(&texts.len()) {
        reader.error("etcd-urls", format!("has {} URLs; 1 to {ENDPOINTS_MAX} are allowed", texts.len()));
    }
    let endpoints: Vec<_> = texts.into_iter().map(|text| reader.endpoint("etcd-urls", text)).collect();
    let endpoints = endpoints.into_iter().collect::<Option<Vec<_>>>()?;
    let prefix = reader.text("coredns-prefix").unwrap_or("/skydns/").trim_matches('/');
    if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = format!("is not a prefix of 1 to {PREFIX_MAX} printable ASCII characters; write it like /skydns/");
        reader.error("coredns-prefix", detail);
    }
    check_plain_http(reader, "etcd-password", &endpoints);
    let user = match (reader.text("etcd-username"), reader.text("etcd-password")) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user.to_owned(), Secret::new(password))),
        (user, _) => {
            let name = if user.is_some() { "etcd-username" } else { "etcd-password" };
            reader.error(name, "user name and password are needed together; give both or none");
            None
        }
    };
    let is_tls = endpoints.iter().all(Url::is_https);
    let tls = tls(reader, ["etcd-ca-file", "etcd-cert-file", "etcd-key-file"], is_tls)?;
    Some(Destination::Etcd { prefix: format!("/{prefix}/"), etcd: Settings::new(endpoints, tls, user, TIMEOUT) })
}

fn webhook(reader: &mut ParameterReader<'_>) -> Option<Destination> {
    let url = reader.required("webhook-provider-url", "its URL, such as http://127.0.0.1:8888");
    let url = url.and_then(|url| reader.url("webhook-provider-url", url));
    let authorization = reader.text("token").map(|token| Secret::new(["Bearer ", token].concat()));
    check_line(reader, "token");
    check_plain_http(reader, "token", url.as_slice());
    let weights = reader.read("weights", &WEIGHTS);
    let timeout = webhook_timeout(reader);
    let url = url?;
    let tls = tls(reader, ["tls-ca", "tls-client-cert", "tls-client-cert-key"], url.is_https())?;
    Some(Destination::Webhook { url, authorization, tls, weights, timeout })
}

/// Rejects a secret that would be sent over plain HTTP to another machine, where everybody on the way reads it.
fn check_plain_http(reader: &mut ParameterReader<'_>, secret: &str, urls: &[Url]) {
    let is_allowed = reader.read(PLAIN_HTTP, &FLAG) == Some(true);
    let in_clear = urls.iter().find(|url| !url.is_https() && !url.is_loopback());
    if let Some(url) = in_clear.filter(|_| !is_allowed && reader.is_given(secret)) {
        let what = format!("would be sent to {} without encryption; use https, or add {PLAIN_HTTP}: true", url.host());
        reader.error(secret, what);
    }
}

/// Rejects a value that cannot be part of an HTTP header.
fn check_line(reader: &mut ParameterReader<'_>, name: &str) {
    if reader.text(name).is_some_and(|text| text.chars().any(char::is_control)) {
        reader.error(name, "has line breaks or control characters; give the bare value");
    }
}

/// Returns the timeout of a call. external-dns limits reading and writing separately; a call here gets the sum.
fn webhook_timeout(reader: &mut ParameterReader<'_>) -> Duration {
    let reading = "webhook-provider-read-timeout";
    let writing = "webhook-provider-write-timeout";
    let timeout = match (reader.read(reading, &Span(PARTS)), reader.read(writing, &Span(PARTS))) {
        (None, None) => return TIMEOUT,
        (read, write) => read.unwrap_or(READING) + write.unwrap_or(WRITING),
    };
    if !TIMEOUTS.contains(&timeout) {
        let name = if reader.is_given(reading) { reading } else { writing };
        let (least, most) = (show_duration(*TIMEOUTS.start()), show_duration(*TIMEOUTS.end()));
        let detail = format!("the timeout of a call would be {}; {least} to {most} is allowed", show_duration(timeout));
        reader.error(name, format!("{detail} (reading and writing together)"));
    }
    timeout
}

fn dnsendpoints(reader: &mut ParameterReader<'_>, folder: Option<&Path>) -> Option<Destination> {
    let namespace = reader.text("namespace").unwrap_or("default").to_owned();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if namespace.len() > 63 || !namespace.bytes().all(plain) || namespace.starts_with('-') || namespace.ends_with('-') {
        let detail = format!("{namespace:?} is not the name of a namespace; use lower-case letters, digits and dashes");
        reader.error("namespace", detail);
    }
    let weights = reader.read("weights", &WEIGHTS);
    let place = ObjectPlace::Folder(inside(reader, "folder", "objects", folder)?);
    Some(Destination::DnsEndpoints { place, namespace, weights })
}

/// Returns a path below the folder of the record. Segments are restricted so that no path leads out of the folder.
fn inside(reader: &mut ParameterReader<'_>, name: &str, default: &str, folder: Option<&Path>) -> Option<PathBuf> {
    let Some(folder) = folder else {
        reader
            .error(name, "this server has no data folder, which holds the files of records; start it with --data-dir");
        return None;
    };
    let path = reader.text(name).unwrap_or(default);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_plain = |segment: &str| {
        (1..=SEGMENT_BYTES_MAX).contains(&segment.len()) && !segment.starts_with('.') && segment.bytes().all(plain)
    };
    if path.split('/').count() > SEGMENTS_MAX || !path.split('/').all(is_plain) {
        let detail = format!(
            "{path:?} is not a path within the record's own folder; use at most {SEGMENTS_MAX} segments of letters, digits, '-', \
             '_' and '.', separated by '/'; none may begin with '.'"
        );
        reader.error(name, detail);
        return None;
    }
    Some(folder.join(path))
}

/// Returns the TLS settings of calls, from the parameters of authority, certificate and key, each in PEM.
fn tls(reader: &mut ParameterReader<'_>, names: [&str; 3], is_tls: bool) -> Option<Tls> {
    let present: Vec<&str> = names.into_iter().filter(|name| reader.is_given(name)).collect();
    let Some(first) = present.first() else { return Some(Tls::default()) };
    if !is_tls {
        reader.error(first, "a certificate has no effect on a URL without TLS; write https://, or remove it");
        return None;
    }
    let [ca, cert, key] = names.map(|name| reader.text(name));
    if let Some(name) = present.iter().find(|name| reader.text(name).is_none_or(|text| !text.contains("-----BEGIN "))) {
        reader.error(name, "is not PEM: a record cannot name a file of the server; give the contents of the file");
        return None;
    }
    if cert.is_some() != key.is_some() {
        reader.error(
            names[if cert.is_some() { 1 } else { 2 }],
            "certificate and key are needed together; give both or none",
        );
        return None;
    }
    let tls = Tls { ca: ca.map(Secret::new), identity: cert.map(Secret::new).zip(key.map(Secret::new)) };
    if let Err(error) = tls.config() {
        reader.error(first, format!("{error}; give certificates and the key that matches, all in PEM"));
        return None;
    }
    Some(tls)
}

const ALGORITHMS: Words<TsigAlgorithm> = Words(&[
    ("hmac-sha256", TsigAlgorithm::Sha256),
    ("hmac-sha384", TsigAlgorithm::Sha384),
    ("hmac-sha512", TsigAlgorithm::Sha512),
]);
const WEIGHTS: Words<Weights> = Words(&[("aws", Weights::Aws), ("fairway", Weights::Fairway)]);
/// Default timeout of a call, as in the section `publish`.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(120);
/// The timeout of reading, and of writing.
const PARTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(120);
/// Defaults of external-dns, used if only one of the two timeouts is given.
const READING: Duration = Duration::from_secs(5);
const WRITING: Duration = Duration::from_secs(10);
const ENDPOINTS_MAX: usize = 16;
const PREFIX_MAX: usize = 200;
/// Maximum number of segments of a path, and of bytes of one.
const SEGMENTS_MAX: usize = 8;
const SEGMENT_BYTES_MAX: usize = 100;
